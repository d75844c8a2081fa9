"""Intervals of integers, and what operators make of them: exact, in unbounded integers."""

from __future__ import annotations

from collections.abc import Iterable

from tcdsl.grammar.types.dtypes import INT32, INT64, DType

Span = tuple[int, int]  # least and greatest value


def of_dtype(dtype: DType) -> Span:
    """Return all values of an integer type or bool."""
    if dtype.kind == "bool":
        return 0, 1
    if dtype.kind == "uint":
        return 0, (1 << dtype.bits) - 1
    return -(1 << (dtype.bits - 1)), (1 << (dtype.bits - 1)) - 1


WORD, LONG = of_dtype(INT32), of_dtype(INT64)


def lies_in(x: Span, outer: Span) -> bool:
    """Whether every value of x is one of outer."""
    return outer[0] <= x[0] and x[1] <= outer[1]


def join(x: Span, y: Span) -> Span:
    """Return the least interval with both."""
    return min(x[0], y[0]), max(x[1], y[1])


def clip(x: Span, outer: Span) -> Span:
    """Return the values of x as near as outer has them."""
    low, high = outer
    return min(max(x[0], low), high), min(max(x[1], low), high)


def binary(op: str, x: Span, y: Span) -> Span | None:
    """Return what an operator of the loop IR gives, None where nothing is known.

    `/` and `%` stand only where both sides are not negative and the right one is not zero.
    """
    match op:
        case "+":
            return x[0] + y[0], x[1] + y[1]
        case "-":
            return x[0] - y[1], x[1] - y[0]
        case "*":
            return _around(i * j for i in x for j in y)
        case "/":
            return floor_div((max(x[0], 0), max(x[1], 0)), (max(y[0], 1), max(y[1], 1)))
        case "%":
            return 0, max(0, min(x[1], y[1] - 1))
        case "<<" if y[0] == y[1] and 0 <= y[0] < 64:
            return x[0] << y[0], x[1] << y[0]
        case ">>" if y[0] == y[1] and 0 <= y[0] < 64:
            return x[0] >> y[0], x[1] >> y[0]
        case "&" if x[0] >= 0 or y[0] >= 0:
            return 0, min(s[1] for s in (x, y) if s[0] >= 0)
        case "|" | "^" if x[0] >= 0 and y[0] >= 0:
            return 0, (1 << max(x[1], y[1]).bit_length()) - 1
        case _:
            return None


def call(name: str, args: list[Span]) -> Span | None:
    """Return what an integer function of the prelude gives, by its name without `tc_` and type."""
    match name, args:
        case "div", [x, y]:
            return floor_div(x, y)
        case "mod", [x, y]:
            return floor_mod(x, y)
        case "min", [x, y]:
            return min(x[0], y[0]), min(x[1], y[1])
        case "max", [x, y]:
            return max(x[0], y[0]), max(x[1], y[1])
        case "abs", [x]:
            return (0 if x[0] <= 0 <= x[1] else min(map(abs, x))), max(map(abs, x))
        case "sign", [_]:
            return -1, 1
        case _:
            return None


def floor_div(x: Span, y: Span) -> Span:
    """Return x / y of the language: towards minus infinity, and 0 where y is 0."""
    # for one sign of y the quotient is monotone in x and in y: the ends are enough
    ends = [v for v in {y[0], y[1], -1, 1} if v and y[0] <= v <= y[1]]
    quotients = [i // j for i in x for j in ends]
    return _around([*quotients, *([0] if y[0] <= 0 <= y[1] else [])])


def floor_mod(x: Span, y: Span) -> Span:
    """Return x % y of the language: with the sign of y, and 0 where y is 0."""
    low, high = min(0, y[0] + 1), max(0, y[1] - 1)
    if x[0] >= 0 and y[0] >= 0:
        high = min(high, x[1])
    return low, high


def _around(values: Iterable[int]) -> Span:
    listed = list(values)
    return min(listed), max(listed)
