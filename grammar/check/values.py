"""Typed values: the type in which they meet, and how they become that type.

A value of a half type is computed in float32: what is read is cast to float32, and only an
explicit cast or the store into an output rounds. A literal keeps the type it meets; until then it
is typed float64 and `literal`.
"""

from __future__ import annotations

from dataclasses import replace

from tcdsl.grammar.text import nodes as n
from tcdsl.grammar.text.dataclass import dataclass
from tcdsl.grammar.text.errors import Note
from tcdsl.grammar.text.fault import FaultError
from tcdsl.grammar.text.foreign import FOREIGN_CONSTANTS
from tcdsl.grammar.text.source import Span
from tcdsl.grammar.types import typed as t
from tcdsl.grammar.types.dtypes import BOOL, FLOAT32, FLOAT64, INT64, DType, promote


@dataclass(frozen=True, slots=True)
class Value:
    """A typed expression and its type in the language; literal: it takes the type it meets.

    quotient: of an integer, a quotient in it that may have been rounded.
    """

    expr: t.Expr
    type: DType
    literal: bool = False
    quotient: n.Binary | None = None

    @property
    def is_int_literal(self) -> bool:
        """Whether this is an integer literal."""
        return isinstance(self.expr, t.Lit) and self.type.is_integer


def integral(value: Value, node: n.Expr, what: str) -> t.Expr:
    """Return an integer value as int64; a fault if its type is not integral."""
    if value.literal or not value.type.is_integer:
        kind = "a float" if value.literal else str(value.type)
        raise FaultError(
            "TC301",
            f"{what} is not an integer",
            node.span,
            f"this is {kind}",
            Note("write int32(...) to convert it"),
        )
    return convert(value.expr, INT64)


def want_bool(value: Value, node: n.Expr, what: str) -> None:
    """Refuse a value that is not a bool."""
    if value.type != BOOL or value.literal:
        kind = "a float" if value.literal else str(value.type)
        cure = "compare it, as in x != 0"
        if isinstance(node, n.Name) and (word := FOREIGN_CONSTANTS.get(node.name.lower())):
            cure = f"there is no word for it: write {word}"
        raise FaultError(
            "TC302",
            f"{what} is not a bool",
            node.span,
            f"this is {kind}",
            Note(cure),
        )


def meeting(a: Value, b: Value, hint: DType) -> DType:
    """Return the type in which two values meet; bool with bool stays bool."""
    if both_literal(a, b):
        return FLOAT64
    if a.literal or b.literal:
        other = b.type if a.literal else a.type
        return other if other.is_float else hint
    return a.type if a.type == b.type else promote(a.type, b.type)


def meeting_all(values: tuple[Value, ...], hint: DType) -> DType:
    """Return the type in which several values meet."""
    fixed = [v for v in values if not v.literal]
    if not fixed:
        return FLOAT64
    if any(v.literal for v in values) and all(v.is_int_literal for v in fixed):
        return FLOAT64
    type_ = fixed[0].type
    for v in fixed[1:]:
        type_ = type_ if v.type == type_ else promote(type_, v.type)
    return type_ if type_.is_float or len(fixed) == len(values) else hint


def both_literal(a: Value, b: Value) -> bool:
    """Whether a and b stay a literal together: one is a float, neither more than a literal."""
    return (a.literal and (b.literal or b.is_int_literal)) or (b.literal and a.is_int_literal)


def coerce(value: Value, type_: DType) -> t.Expr:
    """Return the expression of a value as computed in a type of the language."""
    dtype = type_.computed
    if value.literal and dtype.is_float:
        return retype(value.expr, dtype)
    return convert(value.expr, dtype)


def convert(expr: t.Expr, dtype: DType, span: Span | None = None) -> t.Expr:
    """Return expr as dtype: itself, a literal of that type, or a cast."""
    if expr.dtype == dtype:
        return expr
    if isinstance(expr, t.Lit) and expr.dtype.is_integer:
        value = int(expr.value)
        if dtype == INT64 or (dtype in (FLOAT32, FLOAT64) and abs(value) <= 2**53):
            return t.Lit(float(value) if dtype.is_float else value, dtype, span=expr.span)
    if isinstance(expr, t.IndexValue | t.SizeValue) and dtype == INT64:
        return replace(expr, dtype=INT64)
    return t.Cast(expr, dtype, span=span or expr.span)


def retype(expr: t.Expr, dtype: DType) -> t.Expr:
    """Return a literal-only expression, typed float64 so far, as another float type."""
    if expr.dtype == dtype:
        return expr
    match expr:
        case t.Lit(value):
            return t.Lit(float(value), dtype, span=expr.span)
        case t.Unary(op, operand):
            return t.Unary(op, retype(operand, dtype), dtype, span=expr.span)
        case t.Binary():
            first, chain = t.spine(expr)
            left = retype(first, dtype)
            for binary in chain:
                right = retype(binary.rhs, dtype)
                left = t.Binary(binary.op, left, right, dtype, span=binary.span)
            return left
        case t.Select(cond, then, other):
            arms = retype(then, dtype), retype(other, dtype)
            return t.Select(cond, *arms, dtype, span=expr.span)
        case t.Builtin("rand"):  # the type of its result alone: another number of bits
            return replace(expr, dtype=dtype)
        case t.Builtin(name, args):
            return t.Builtin(name, tuple(retype(a, dtype) for a in args), dtype, span=expr.span)
        case _:
            raise AssertionError(expr)
