"""Expressions of the reference evaluator: a block of points in, an array of values out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace
from typing import Any, assert_never

import numpy as np

from tcdsl.codegen.program.dtypes import numpy_dtype
from tcdsl.codegen.reference.arithmetic import BUILTINS, Array, arithmetic, cast
from tcdsl.codegen.reference.philox import uniform
from tcdsl.grammar.proofs.sizes import Size
from tcdsl.grammar.text.dataclass import dataclass
from tcdsl.grammar.text.errors import BoundsError
from tcdsl.grammar.types import typed
from tcdsl.grammar.types.dtypes import FLOAT64, INT64, DType
from tcdsl.grammar.types.typed import CheckedDef, Expr


@dataclass(frozen=True, slots=True)
class Points:
    """A block of points: an int64 array per index, broadcastable, and which points count.

    written: which output points do, of a ragged scatter.
    """

    index: Mapping[str, Array]
    active: Array | None = None
    written: Array | None = None

    def where(self, condition: Array) -> Points:
        """Return the points of these at which a condition holds."""
        active = condition if self.active is None else self.active & condition
        return replace(self, active=active)


@dataclass(slots=True)
class Evaluator:
    """The values of sizes and the contents of tensors; float64: every float is one."""

    checked: CheckedDef
    sizes: Mapping[str, int]
    float64: bool
    store: dict[str, Array] = field(default_factory=dict)

    def dtype(self, dtype: DType) -> np.dtype[Any]:
        """Return the NumPy type in which values of a type are computed."""
        return numpy_dtype(FLOAT64 if self.float64 and dtype.is_float else dtype)

    def extent(self, size: Size, loop: Mapping[str, int]) -> int:
        """Return the value of a size, loop variables in it or not."""
        return size.evaluate({**self.sizes, **loop})

    def subscript(self, expr: Expr, points: Points) -> Array:
        """Evaluate a subscript: arithmetic of addresses is exact, in int64."""
        match expr:
            case typed.Binary(("+" | "-" | "*" | "/" | "%") as op, lhs, rhs):
                return arithmetic(op, self.subscript(lhs, points), self.subscript(rhs, points))
            case typed.Unary("-", operand):
                return np.asarray(-self.subscript(operand, points))
            case typed.IndexValue(name):
                return points.index[name]
            case typed.SizeValue(size):
                return np.asarray(self.extent(size, _scalars(points)), np.int64)
            case _:
                return cast(self.of(expr, points), INT64)

    def of(self, expr: Expr, points: Points) -> Array:
        """Evaluate a value, as the language computes it."""
        match expr:
            case typed.Lit(value, dtype):
                return np.asarray(value).astype(self.dtype(dtype))
            case typed.IndexValue(name, dtype):
                return points.index[name].astype(self.dtype(dtype))
            case typed.SizeValue(size, dtype):
                value = self.extent(size, _scalars(points))
                return np.asarray(value, np.int64).astype(self.dtype(dtype))
            case typed.Read():
                return self._read(expr, points)
            case typed.Unary(op, operand):
                x = self.of(operand, points)
                return np.asarray(_UNARY[op](x))
            case typed.Binary():
                return self._binary(expr, points)
            case typed.Select(cond, then, other):
                c = self.of(cond, points)
                yes = self.of(then, points.where(c))
                no = self.of(other, points.where(np.logical_not(c)))
                return np.where(c, yes, no)
            case typed.Cast(operand, dtype):
                x = self.of(operand, points)
                keep = self.float64 and dtype.is_float
                return cast(x, FLOAT64 if keep else dtype)
            case typed.Builtin("rand", (seed, counter), dtype):
                key = np.asarray(self.of(seed, points), np.uint64)
                got = uniform(key, self.of(counter, points), numpy_dtype(dtype))
                return got.astype(self.dtype(dtype), copy=False)
            case typed.Builtin(name, args, dtype):
                got = BUILTINS[name](*(self.of(a, points) for a in args))
                return np.asarray(got).astype(self.dtype(dtype), copy=False)
            case _:
                assert_never(expr)

    def _binary(self, expr: typed.Binary, points: Points) -> Array:
        first, chain = typed.spine(expr)
        value = self.of(first, points)
        for node in chain:
            if node.op == "&&":
                value = value & self.of(node.rhs, points.where(value))
            elif node.op == "||":
                value = value | self.of(node.rhs, points.where(~value))
            else:
                value = arithmetic(node.op, value, self.of(node.rhs, points))
        return value

    def _read(self, expr: typed.Read, points: Points) -> Array:
        source = self.store[expr.tensor]
        if not expr.subs:
            return source
        low = self.checked.tensor(expr.tensor).low
        where, empty = [], 0 in source.shape
        for d, sub in enumerate(expr.subs):
            at = self.subscript(sub, points) - self.extent(low[d], {})
            if not is_all_inside(at, source.shape[d]):
                self.inside(expr.tensor, d, at, source.shape[d], points.active)
                at = np.clip(at, 0, max(source.shape[d] - 1, 0))
            where.append(at)
        if empty:  # every point that counts was inside, so none counts
            return np.zeros(np.broadcast_shapes(*(a.shape for a in where)), source.dtype)
        return np.asarray(source[tuple(where)])

    def inside(self, name: str, dim: int, at: Array, extent: int, active: Array | None) -> None:
        """Raise if a subscript leaves the tensor at a point that counts."""
        outside = (at < 0) | (at >= extent)
        if active is not None:
            outside = outside & active
        if np.any(outside):
            value = int(np.broadcast_to(at, outside.shape)[outside].flat[0])
            raise BoundsError(f"subscript {dim} of '{name}' is {value}, outside [0, {extent})")


def is_all_inside(at: Array, extent: int) -> bool:
    """Whether subscripts are there and inside, all of them: far sooner asked than which are not."""
    if at.ndim == 0:
        return 0 <= int(at) < extent
    return at.size > 0 and bool(at.min() >= 0) and bool(at.max() < extent)


_UNARY: dict[str, np.ufunc] = {"!": np.logical_not, "-": np.negative, "~": np.invert}


def _scalars(points: Points) -> dict[str, int]:
    return {n: int(a) for n, a in points.index.items() if a.ndim == 0}
