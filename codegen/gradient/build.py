"""Short constructors of typed expressions that fold zeros and ones of floats."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from tcdsl.grammar.proofs.sizes import Size
from tcdsl.grammar.types import typed
from tcdsl.grammar.types.dtypes import BOOL, INT64, DType
from tcdsl.grammar.types.typed import Expr


def number(value: float, dtype: DType) -> typed.Lit:
    """Return a float literal."""
    return typed.Lit(float(value), dtype)


def is_number(e: Expr, value: float) -> bool:
    """Whether e is that very literal."""
    return isinstance(e, typed.Lit) and e.dtype.is_float and e.value == value


def add(a: Expr, b: Expr) -> Expr:
    """Return a + b."""
    if is_number(a, 0):
        return b
    if is_number(b, 0):
        return a
    times, term = _times(a)
    if term == b and not isinstance(b, typed.Unary):
        return _scaled(times + 1, b)
    match a:
        case typed.Binary("+", first, last) if (both := _merged(last, b)) is not None:
            return add(first, both)
        case typed.Binary("-", first, last) if (both := _merged(neg(last), b)) is not None:
            return add(first, both)
        case _ if (both := _merged(a, b)) is not None:
            return both
    if isinstance(b, typed.Unary) and b.op == "-":
        return typed.Binary("-", a, b.operand, a.dtype)
    return typed.Binary("+", a, b, a.dtype)


def _merged(a: Expr, b: Expr) -> Expr | None:
    """Return the sum of two products of the same factors in any order, None of others.

    x * 0.5 * y + 3 * y * x   ->   3.5 * x * y
    """
    (one, *factors), (other, *others) = _parts(a), _parts(b)
    total = one + other
    if factors != others or not factors[0] or total == 0:
        return None  # other products; numbers; and no sum of two products is the number 0
    out = _bare(a)
    assert out is not None
    scaled = out if abs(total) == 1 else _scaled(abs(total), out)
    return scaled if total > 0 else neg(scaled)


def _bare(e: Expr) -> Expr | None:
    """Return a product without its signs and literals; None if nothing is left to multiply."""
    match e:
        case typed.Unary("-", operand):
            return _bare(operand)
        case typed.Binary("*", lhs, rhs):
            a, b = _bare(lhs), _bare(rhs)
            return replace(e, lhs=a, rhs=b) if a is not None and b is not None else a or b
        case typed.Binary("/", lhs, rhs):
            above = _bare(lhs)
            return replace(e, lhs=number(1, e.dtype) if above is None else above)
        case typed.Lit(float()):
            return None
        case _:
            return e


def _parts(e: Expr) -> tuple[float, Counter[Expr], Counter[Expr]]:
    """Return the number of a product, its factors that are none, what divides it."""
    value, times, over = 1.0, Counter[Expr](), Counter[Expr]()
    todo = [e]
    while todo:
        match todo.pop():
            case typed.Binary("*", lhs, rhs):
                todo += [rhs, lhs]
            case typed.Binary("/", lhs, rhs):
                todo.append(lhs)
                over[rhs] += 1
            case typed.Unary("-", operand):
                todo.append(operand)
                value = -value
            case typed.Lit(float() as literal):
                value *= literal
            case x:
                times[x] += 1
    return value, times, over


def _times(e: Expr) -> tuple[float, Expr]:
    """Return how often a term stands in a product that `_scaled` made."""
    match e:
        case typed.Binary("*", typed.Lit(float() as times), term):
            return times, term
        case typed.Binary("*" | "/" as op, lhs, rhs, dtype):
            times, first = _times(lhs)
            return times, typed.Binary(op, first, rhs, dtype)
        case _:
            return 1.0, e


def _scaled(times: float, e: Expr) -> Expr:
    """Return times * e, the number in front of the first factor."""
    match e:
        case typed.Binary("*" | "/" as op, lhs, rhs, dtype):
            return typed.Binary(op, _scaled(times, lhs), rhs, dtype)
        case _:
            return typed.Binary("*", number(times, e.dtype), e, e.dtype)


def sub(a: Expr, b: Expr) -> Expr:
    """Return a - b."""
    if is_number(b, 0):
        return a
    if is_number(a, 0):
        return neg(b)
    return typed.Binary("-", a, b, a.dtype)


def mul(a: Expr, b: Expr) -> Expr:
    """Return a * b; a factor 0 wins, so what it stands before has to be finite."""
    if is_number(a, 1):
        return b
    if is_number(b, 1):
        return a
    if is_number(a, 0) or is_number(b, 0):
        return number(0, a.dtype)
    for chosen, other in ((a, b), (b, a)):
        if isinstance(chosen, typed.Select) and is_number(chosen.other, 0):
            return choose(chosen.cond, mul(other, chosen.then), chosen.other)
    if isinstance(a, typed.Unary) and a.op == "-":
        return neg(mul(a.operand, b))
    if isinstance(b, typed.Unary) and b.op == "-":
        return neg(mul(a, b.operand))
    if isinstance(b, typed.Binary) and b.op == "/" and is_number(b.lhs, 1):
        return div(a, b.rhs)
    if isinstance(b, typed.Binary) and b.op == "*":  # a chain, without parentheses
        return mul(mul(a, b.lhs), b.rhs)
    return typed.Binary("*", a, b, a.dtype)


def div(a: Expr, b: Expr) -> Expr:
    """Return a / b."""
    if is_number(b, 1) or is_number(a, 0):
        return a
    if isinstance(a, typed.Unary) and a.op == "-":
        return neg(div(a.operand, b))
    return typed.Binary("/", a, b, a.dtype)


def neg(a: Expr) -> Expr:
    """Return -a."""
    if isinstance(a, typed.Unary) and a.op == "-":
        return a.operand
    if isinstance(a, typed.Lit):
        return typed.Lit(-a.value, a.dtype)
    return typed.Unary("-", a, a.dtype)


def call(name: str, *args: Expr) -> Expr:
    """Return a builtin function of floats."""
    return typed.Builtin(name, args, args[0].dtype)


def square(a: Expr) -> Expr:
    """Return a * a."""
    return mul(a, a)


def compare(op: str, a: Expr, b: Expr) -> Expr:
    """Return a comparison."""
    assert op in ("<", "<=", ">", ">=", "==", "!=")
    return typed.Binary(op, a, b, BOOL)  # type: ignore[arg-type]


def both(a: Expr | None, b: Expr | None) -> Expr | None:
    """Return a && b, a chain without parentheses; None is true."""
    if a is None or b is None:
        return a or b
    parts: list[Expr] = []
    while isinstance(b, typed.Binary) and b.op == "&&":
        parts.append(b.rhs)
        b = b.lhs
    out: Expr = a
    for part in (b, *reversed(parts)):
        out = typed.Binary("&&", out, part, BOOL)
    return out


def choose(cond: Expr | None, then: Expr, other: Expr) -> Expr:
    """Return cond ? then : other; None is true."""
    if cond is None:
        return then
    if is_number(then, 0) and is_number(other, 0):
        return then
    if isinstance(then, typed.Select) and then.other == other and isinstance(other, typed.Lit):
        return choose(both(cond, then.cond), then.then, other)
    return typed.Select(cond, then, other, then.dtype)


def index(name: str) -> typed.IndexValue:
    """Return an index as a subscript."""
    return typed.IndexValue(name, INT64)


def size(value: Size) -> typed.Expr:
    """Return a size as a subscript; a number is a literal."""
    constant = value.constant
    return typed.SizeValue(value, INT64) if constant is None else typed.Lit(constant, INT64)


def convert(e: Expr, dtype: DType) -> Expr:
    """Return a float as another float type."""
    if e.dtype == dtype:
        return e
    if isinstance(e, typed.Lit):
        return typed.Lit(e.value, dtype)
    return typed.Cast(e, dtype)
