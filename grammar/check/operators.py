"""Typing of operators, casts and builtins: values in, the value of the result out.

Only literals are folded, in float64, and not `%`: `0 * x` may be NaN; and bits of integer ones. A
builtin of literals alone is a literal, so `sqrt(2.0) * x` is a double for a double x.
"""

from __future__ import annotations

import math

from tcdsl.grammar.check.values import (
    Value,
    both_literal,
    coerce,
    convert,
    meeting,
    meeting_all,
    want_bool,
)
from tcdsl.grammar.text import nodes as n
from tcdsl.grammar.text.errors import Note
from tcdsl.grammar.text.fault import FaultError
from tcdsl.grammar.text.source import Span
from tcdsl.grammar.types import typed as t
from tcdsl.grammar.types.builtins import Function
from tcdsl.grammar.types.dtypes import BOOL, FLOAT64, INT32, DType

_BITS, _SHIFTS = ("&", "|", "^"), ("<<", ">>")
COMPARISONS = ("<", "<=", ">", ">=", "==", "!=")


def cast(value: Value, dtype: DType, span: Span | None) -> Value:
    """Type `dtype(value)`, which rounds to the type also where it is computed in another."""
    if value.literal:
        value = Value(coerce(value, dtype if dtype.is_float else FLOAT64), dtype)
    expr = convert(value.expr, dtype, span)
    return Value(convert(expr, dtype.computed, span), dtype)


def unary(node: n.Unary, value: Value) -> Value:
    """Type `!value` and `-value`."""
    if node.op == "!":
        want_bool(value, node.operand, "the operand of '!'")
        return Value(t.Unary("!", value.expr, BOOL, span=node.span), BOOL)
    if node.op == "~":
        _want_bits(value, node.operand, "~")
        if value.is_int_literal and isinstance(value.expr, t.Lit):
            return Value(t.Lit(~int(value.expr.value), value.type, span=node.span), value.type)
        return Value(t.Unary("~", value.expr, value.type, span=node.span), value.type)
    type_ = _number(value.type)
    expr = coerce(value, type_)
    if value.literal and isinstance(expr, t.Lit):
        return Value(t.Lit(-expr.value, FLOAT64, span=node.span), FLOAT64, literal=True)
    return Value(t.Unary("-", expr, type_.computed, span=node.span), type_, value.literal)


def binary(node: n.Binary, lhs: Value, rhs: Value, hint: DType) -> Value:
    """Type `lhs op rhs`; of `&&` and `||` the left is known to be a bool."""
    op = node.op
    if op in ("&&", "||"):
        want_bool(rhs, node.rhs, f"the right of '{op}'")
        return Value(t.Binary(op, lhs.expr, rhs.expr, BOOL, span=node.span), BOOL)
    if op in _BITS or op in _SHIFTS:
        return _bits(node, lhs, rhs, hint)
    type_ = _number(meeting(lhs, rhs, hint))
    literal = both_literal(lhs, rhs)
    a, b = coerce(lhs, type_), coerce(rhs, type_)
    if op in COMPARISONS:
        return Value(t.Binary(op, a, b, BOOL, span=node.span), BOOL)
    if literal and isinstance(a, t.Lit) and isinstance(b, t.Lit):
        folded = _fold(op, float(a.value), float(b.value))
        if folded is not None:
            return Value(t.Lit(folded, FLOAT64, span=node.span), FLOAT64, literal=True)
    return Value(t.Binary(op, a, b, type_.computed, span=node.span), type_, literal)


def _bits(node: n.Binary, lhs: Value, rhs: Value, hint: DType) -> Value:
    """Type `&`, `|`, `^` and shifts.

    A shift has the type of what is shifted, whatever its amount is; a literal has the type in which
    both meet.
    """
    op = node.op
    _want_bits(lhs, node.lhs, op)
    _want_bits(rhs, node.rhs, op)
    met = meeting(lhs, rhs, hint)
    type_ = lhs.type if op in _SHIFTS and not lhs.is_int_literal else met
    a = convert(lhs.expr, type_)
    b = _amount(rhs.expr, type_) if op in _SHIFTS else convert(rhs.expr, type_)
    if lhs.is_int_literal and rhs.is_int_literal and isinstance(a, t.Lit) and isinstance(b, t.Lit):
        return Value(t.Lit(_folded(op, int(a.value), int(b.value), type_), type_), type_)
    return Value(t.Binary(op, a, b, type_, span=node.span), type_)


def _want_bits(value: Value, node: n.Expr, op: str) -> None:
    """Refuse an operand without bits: a float, and for `~` and shifts a bool."""
    if value.type.is_integer and not value.literal:
        return
    if value.type == BOOL and op in _BITS and not value.literal:
        return
    cure = "int32(...) converts it"
    if value.type == BOOL:
        cure = "write '!' for not" if op == "~" else cure
    elif op == "^":
        cure = "a power is pow(x, y)"
    raise FaultError(
        "TC301",
        f"an operand of '{op}' is not an integer",
        node.span,
        f"this is {'a float' if value.literal else value.type}",
        Note(cure),
    )


def _amount(e: t.Expr, type_: DType) -> t.Expr:
    """Return the amount of a shift in the type of what is shifted, cut where no bit is left."""
    if isinstance(e, t.Lit):
        value = int(e.value)
        return t.Lit(value if 0 <= value < type_.bits else type_.bits, type_, span=e.span)
    if e.dtype == type_:
        return e
    width = t.Lit(type_.bits, e.dtype)
    if e.dtype.kind == "uint":
        cut = t.Builtin("min", (e, width), e.dtype)
    else:  # -1 is the largest number of an unsigned type
        cut = t.Builtin("clamp", (e, t.Lit(-1, e.dtype), width), e.dtype)
    return convert(cut, type_)


def _folded(op: str, a: int, b: int, type_: DType) -> int:
    """Return a op b of integers of a signed type; b is no negative amount."""
    match op:
        case "&":
            return a & b
        case "|":
            return a | b
        case "^":
            return a ^ b
        case ">>":
            return a >> b
        case _:
            low = type_.limits[0]
            return ((a << b) - low) % (1 << type_.bits) + low


def select(span: Span | None, cond: Value, then: Value, other: Value, hint: DType) -> Value:
    """Type `cond ? then : other`; cond is known to be a bool."""
    type_ = meeting(then, other, hint)
    a, b = coerce(then, type_), coerce(other, type_)
    expr = t.Select(cond.expr, a, b, type_.computed, span=span)
    return Value(expr, type_, both_literal(then, other))


def extreme(name: str, values: tuple[Value, ...], span: Span | None, hint: DType) -> Value:
    """Type `min`, `max` and the builtins that keep the common type of their arguments."""
    type_ = meeting_all(values, hint)
    if name not in ("min", "max"):  # of which those of bools are bools
        type_ = _number(type_)
    literal = any(v.literal for v in values) and _all_literal(values)
    return _call(name, values, type_, type_.computed, type_, span, literal=literal)


def builtin(function: Function, values: tuple[Value, ...], span: Span | None, hint: DType) -> Value:
    """Type a call of a builtin whose result is a float or a bool."""
    is_float = function.result == "float"
    if is_float and any(v.literal for v in values) and _all_literal(values):
        return _call(function.name, values, FLOAT64, FLOAT64, FLOAT64, span, literal=True)
    type_ = meeting_all(values, hint)
    if not type_.is_float:
        type_ = hint
    if is_float:
        return _call(function.name, values, type_, type_.computed, type_, span)
    return _call(function.name, values, type_, BOOL, BOOL, span)


def _call(
    name: str,
    values: tuple[Value, ...],
    args_type: DType,
    dtype: DType,
    type_: DType,
    span: Span | None,
    *,
    literal: bool = False,
) -> Value:
    """Return the call of values as args_type, computed as dtype, of a type in the language."""
    exprs = tuple(coerce(v, args_type) for v in values)
    return Value(t.Builtin(name, exprs, dtype, span=span), type_, literal)


def _all_literal(values: tuple[Value, ...]) -> bool:
    return all(v.literal or v.is_int_literal for v in values)


def _number(type_: DType) -> DType:
    """Return the type in which arithmetic is done: that of a bool is int32."""
    return INT32 if type_ == BOOL else type_


def _fold(op: str, a: float, b: float) -> float | None:
    """Return a op b in float64 as IEEE has it, None for `%`."""
    match op:
        case "+":
            return a + b
        case "-":
            return a - b
        case "*":
            return a * b
        case "/":
            if b == 0:
                if a == 0 or math.isnan(a):
                    return math.nan
                return math.copysign(math.inf, a) * math.copysign(1.0, b)
            return a / b
        case _:
            return None
