"""Reads behind conditions: which of them may be done whatever the condition says.

Vectors evaluate both branches of `?:`, and what is the same along a loop is computed before it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from tcdsl.codegen.forms.base.context import GroupContext
from tcdsl.codegen.program.affine import IndexRange, affine_of
from tcdsl.codegen.program.expressions import operands_of
from tcdsl.grammar.proofs.signs import is_nonnegative
from tcdsl.grammar.types import typed


def behind_conditions(
    e: typed.Expr, among: Callable[[typed.Expr], bool] = lambda _: True
) -> Iterator[typed.Read]:
    """Yield the reads of memory that a condition may exclude, each once.

    among: which parts of e matter; conditions of others do not.
    """
    todo = [(e, False)]
    while todo:
        x, is_behind = todo.pop()
        if x is not e and not is_behind and not among(x):
            continue
        match x:
            case typed.Select(cond, then, other):
                todo += [(other, True), (then, True), (cond, is_behind)]
            case typed.Binary("&&" | "||", lhs, rhs):
                todo += [(rhs, True), (lhs, is_behind)]
            case _:
                if is_behind and isinstance(x, typed.Read) and x.subs:
                    yield x
                todo += [(p, is_behind) for p in reversed(operands_of(x))]


def inside(ctx: GroupContext[Any], r: typed.Read, dims: Mapping[str, IndexRange]) -> bool:
    """Whether the ranges alone prove that a read is inside, whatever guards it."""
    for sub, extent in zip(r.subs, ctx.operands.buffer(r.tensor).shape, strict=True):
        a = affine_of(sub)
        if a is None:
            return False
        low, high = a.ends(dims)
        if not is_nonnegative(ctx.bind(low)):
            return False
        if not is_nonnegative(ctx.bind(extent - 1 - high)):
            return False
    return True
