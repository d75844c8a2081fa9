"""Folds: accumulators, their totals over blocks, and what they come to at the end of a sweep."""

from __future__ import annotations

from dataclasses import replace

from tcdsl.codegen.forms.base import vexpr
from tcdsl.codegen.forms.base.align import AlignedStatement
from tcdsl.codegen.forms.base.combine import combined, operator
from tcdsl.codegen.forms.base.scalars import identity
from tcdsl.codegen.loops import build as b
from tcdsl.codegen.loops.loopir import (
    TRUTH,
    Assign,
    Bin,
    Cast,
    Const,
    Expr,
    Let,
    Scalar,
    Stmt,
    Var,
    Vector,
)
from tcdsl.grammar.text.dataclass import dataclass
from tcdsl.grammar.types.dtypes import BOOL, INT32, DType


@dataclass
class Fold:
    """A fold in the making.

    accumulators: of one block, several where they are vectors. total: of all blocks, None where
    there is one block. unordered: of scalar min and max of floats, whether a NaN was met, since
    the compiler vectorises only a comparison that loses it.
    """

    step: AlignedStatement
    dtype: DType  # in which it is computed
    accumulators: tuple[Var, ...]
    total: Var | None
    unordered: Var | None = None

    @property
    def op(self) -> str:
        """`+`, `*`, `min` or `max`."""
        return operator(self.step.statement.op)

    def start(self) -> list[Stmt]:
        """Return the declarations of the accumulators, at the identity of the operator."""
        out = [_start(a, self.op) for a in self.accumulators]
        if self.unordered:
            out.append(Let(self.unordered, b.const(0, INT32), mutable=True))
        return out

    def begin(self) -> list[Stmt]:
        """Return the declarations of what lives as long as the fold."""
        return [_start(self.total, self.op)] if self.total else self.start()

    def flush(self) -> list[Stmt]:
        """Return the addition of a block's sum to the total."""
        if self.total is None:
            return []
        return [Assign(self.total, merged(self.op, self.accumulators), "+=")]

    def add(self, value: Expr, x: Var) -> list[Stmt]:
        """Return the statements that fold a scalar; x is an unused variable."""
        acc = self.accumulators[0]
        if self.op in ("+", "*"):
            return [Assign(acc, combined(self.op, value, acc))]
        better = Bin(">" if self.op == "max" else "<", x, acc, TRUTH)
        out: list[Stmt] = [Let(x, value), Assign(acc, b.select(better, x, acc))]
        if self.unordered:
            nan = Cast(Bin("!=", x, x, TRUTH), self.unordered.type)
            out.append(Assign(self.unordered, nan, "|="))
        return out

    def result(self) -> Expr:
        """Return the scalar that the fold comes to."""
        whole: Expr = self.total if self.total else merged(self.op, self.accumulators)
        if isinstance(whole.type, Vector):
            name = {"+": "sum", "*": "product", "max": "hmax", "min": "hmin"}[self.op]
            return replace(vexpr.vector_call(name, whole.type, whole), type=Scalar(self.dtype))
        if self.unordered:
            nan = b.const(float("nan"), self.dtype)
            return b.select(b.compare("!=", self.unordered, b.const(0, INT32)), nan, whole)
        return whole


def merged(op: str, parts: tuple[Expr, ...]) -> Expr:
    """Return values combined pairwise."""
    left = list(parts)
    while len(left) > 1:
        pairs = [left[i : i + 2] for i in range(0, len(left), 2)]
        left = [combined(op, *p) if len(p) == 2 else p[0] for p in pairs]
    return left[0]


def _start(acc: Var, op: str) -> Stmt:
    dtype = acc.type.dtype if isinstance(acc.type, Vector | Scalar) else BOOL
    neutral = identity(f"{op}=", dtype)  # type: ignore[arg-type]
    assert isinstance(neutral, Const)
    return Let(acc, Const(neutral.value, acc.type), mutable=True)
