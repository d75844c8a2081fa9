"""Values that a statement has stored, read again in place of what computes them.

O(i) = tanh(Z(i))   ->   1 - tanh(Z(i)) * tanh(Z(i)) is 1 - O(i) * O(i)
"""

from __future__ import annotations

from dataclasses import replace

from tcdsl.codegen.gradient import build as g
from tcdsl.codegen.program.expressions import map_operands, operands_of
from tcdsl.grammar.types import typed
from tcdsl.grammar.types.dtypes import FLOAT32, INT64
from tcdsl.grammar.types.typed import Expr

_NOTHING = typed.Lit(0.0, FLOAT32)


def is_trivial(e: Expr) -> bool:
    """Whether an expression costs no more than reading its value."""
    while isinstance(e, typed.Cast | typed.Unary):
        e = e.operand
    return isinstance(e, typed.Read | typed.Lit | typed.IndexValue | typed.SizeValue)


def with_known(e: Expr, value: Expr, known: Expr) -> Expr:
    """Return e with the name of a value in place of the value."""
    if e == value:
        return known
    match e, value:  # a / r * l is a times l / r
        case typed.Binary("*", typed.Binary("/", a, r), lhs), typed.Binary("/") if (
            lhs == value.lhs and r == value.rhs
        ):
            return g.mul(with_known(a, value, known), known)
    return map_operands(e, lambda x: with_known(x, value, known))


def matches(pattern: Expr, e: Expr, by: dict[str, Expr]) -> bool:
    """Whether an expression is a pattern with subscripts in place of its indices, left in by."""
    if isinstance(pattern, typed.IndexValue):
        if pattern.dtype != e.dtype:
            return False
        if isinstance(e, typed.IndexValue):  # a number in one place, a subscript in another
            e = replace(e, dtype=INT64)
        return by.setdefault(pattern.name, e) == e
    if isinstance(pattern, typed.Read) and isinstance(e, typed.Read):
        e = replace(e, checked=pattern.checked)  # a text is checked anew
    parts, its = operands_of(pattern), operands_of(e)
    if type(pattern) is not type(e) or len(parts) != len(its):
        return False
    bare = map_operands(pattern, lambda _: _NOTHING) == map_operands(e, lambda _: _NOTHING)
    return bare and all(matches(a, b, by) for a, b in zip(parts, its, strict=True))
