"""Typing of operators, casts and builtins: values in, the value of the result out.

Only literals are folded, in float64, and not `%`: `0 * x` may be NaN. A builtin of literals alone
is a literal, so `sqrt(2.0) * x` is a double for a double x.
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
from tcdsl.grammar.text.source import Span
from tcdsl.grammar.types import typed as t
from tcdsl.grammar.types.builtins import Function
from tcdsl.grammar.types.dtypes import BOOL, FLOAT64, INT32, DType

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


def select(span: Span | None, cond: Value, then: Value, other: Value, hint: DType) -> Value:
    """Type `cond ? then : other`; cond is known to be a bool."""
    type_ = meeting(then, other, hint)
    a, b = coerce(then, type_), coerce(other, type_)
    expr = t.Select(cond.expr, a, b, type_.computed, span=span)
    return Value(expr, type_, both_literal(then, other))


def extreme(name: str, values: tuple[Value, ...], span: Span | None, hint: DType) -> Value:
    """Type `min`, `max` and the builtins that keep the common type of their arguments."""
    type_ = _number(meeting_all(values, hint))
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
