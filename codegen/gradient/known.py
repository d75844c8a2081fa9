"""Values that a statement has stored, read again in place of what computes them.

O(i) = tanh(Z(i))   ->   1 - tanh(Z(i)) * tanh(Z(i)) is 1 - O(i) * O(i)
"""

from __future__ import annotations

from tcdsl.codegen.gradient import build as g
from tcdsl.codegen.program.expressions import map_operands
from tcdsl.grammar.types import typed
from tcdsl.grammar.types.typed import Expr


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
