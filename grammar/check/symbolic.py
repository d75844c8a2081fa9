"""Symbolic values: integer expressions as `Size`s over indices, and what conditions say."""

from __future__ import annotations

from tcdsl.grammar.proofs.ranges import ANY, Interval, interval
from tcdsl.grammar.proofs.signs import is_nonnegative, maximum, minimum
from tcdsl.grammar.proofs.sizes import Size, Symbol
from tcdsl.grammar.types import typed as t
from tcdsl.grammar.types.dtypes import BOOL, INT32, INT64, DType

ARITHMETIC = ("+", "-", "*", "/", "%")
MAX_TERMS = 48  # larger polynomials are treated as unknown
MAX_DEPTH = 48
MAX_CONDITIONS = 32
MAX_FACTOR = 2**31
MAX_OFFSET = 2**62


class SymbolicValues:
    """The symbolic values of one statement's integer expressions.

    An index is a signed symbol of its name. What is read from data is an unknown: a signed symbol
    `?0`, `?1`, ..., the same for equal expressions, whose bounds stand in `unknowns`. The
    symbolic value is the value up to wrapping, and the very value of what `exact.py` has been
    through.
    """

    def __init__(self) -> None:
        self.unknowns: dict[str, Interval] = {}
        self._names: dict[t.Expr, str] = {}
        self._known: dict[t.Expr, Size] = {}

    def know(self, read: t.Expr, value: Size) -> None:
        """Note the value of a read that is known before the kernel runs."""
        self._known[read] = value

    def of(self, expr: t.Expr, depth: int = 0) -> Size:
        """Return the symbolic value of an integer expression."""
        if depth > MAX_DEPTH:
            return self._unknown(None, expr.dtype)
        deeper = depth + 1
        match expr:
            case t.Lit(value):
                return Size.const(int(value))
            case t.IndexValue(name):
                return Size.symbol(name, signed=True)
            case t.SizeValue(size):
                return size
            case t.Read(_, ()) if expr in self._known:
                return self._known[expr]
            case t.Cast(operand, dtype) if operand.dtype == dtype:
                return self._unknown(expr, dtype)  # it may wrap: see exact.py
            case t.Cast(operand, dtype) if _keeps_order(operand.dtype, dtype):
                return self._fitting(self.of(operand, deeper), expr)
            case t.Unary("-", operand):
                return self._fitting(-self.of(operand, deeper), expr)
            case t.Binary(op) if op in ARITHMETIC:
                first, chain = t.spine(expr)
                chained = self.of(first, deeper)
                for binary in chain:
                    chained = self._operate(binary, chained, self.of(binary.rhs, deeper))
                return chained
            case t.Builtin("min", (lhs, rhs)):
                return minimum(self.of(lhs, deeper), self.of(rhs, deeper))
            case t.Builtin("max", (lhs, rhs)):
                return maximum(self.of(lhs, deeper), self.of(rhs, deeper))
            case t.Builtin("clamp", (value, low, high)):
                least = maximum(self.of(value, deeper), self.of(low, deeper))
                return minimum(least, self.of(high, deeper))
            case t.Select(_, then, other):
                arms = [self._bounds(self.of(e, deeper)) for e in (then, other)]
                return self._unknown(expr, expr.dtype, _hull(*arms))
            case _:
                return self._unknown(expr, expr.dtype)

    def _operate(self, expr: t.Binary, a: Size, b: Size) -> Size:
        if len(a.terms) * len(b.terms) > MAX_TERMS:
            return self._unknown(expr, expr.dtype)
        match expr.op:
            case "+":
                value = a + b
            case "-":
                value = a - b
            case "*":
                value = a * b
            case "/":
                value = a // b
            case _:
                value = a % b
        return self._fitting(value, expr)

    def facts(self, cond: t.Expr, truth: bool) -> tuple[Size, ...]:
        """Return sizes that are >= 0 where a condition has a truth value."""
        found: list[Size] = []
        todo = [(cond, truth)]
        for _ in range(MAX_CONDITIONS):  # the last ones of a long chain
            if not todo:
                break
            expr, is_true = todo.pop()
            match expr:
                case t.Unary("!", operand):
                    todo.append((operand, not is_true))
                case t.Binary("&&" | "||" as op, lhs, rhs) if (op == "&&") == is_true:
                    todo += [(lhs, is_true), (rhs, is_true)]
                case t.Binary(op, lhs, rhs) if lhs.dtype.is_integer and expr.dtype == BOOL:
                    if op in ("<", "<=", ">", ">=", "==", "!="):
                        found += _comparison(op, self.of(lhs), self.of(rhs), is_true)
                case _:
                    continue
        return tuple(found)

    def _bounds(self, value: Size) -> Interval:
        if any(name.startswith("?") for name in value.symbols()):
            return interval(value, self.unknowns)
        return Interval(value, value)

    def _fitting(self, value: Size, expr: t.Expr) -> Size:
        """Return the value, or an unknown if data may make the arithmetic wrap."""
        dtype = expr.dtype
        if any(abs(c) > (MAX_FACTOR if m else MAX_OFFSET) for m, c in value.terms):
            return self._unknown(expr, dtype)  # int64 might wrap
        unknown = {s for s in value.symbols() if s.startswith("?")}
        if not unknown:  # indices and sizes: where it matters, exact.py sees to it that they fit
            return value if dtype in (INT32, INT64) else self._unknown(expr, dtype)
        if dtype == INT64:
            narrow = all(_is_narrow(self.unknowns[s]) for s in unknown)
            return value if narrow or len(value.terms) == 1 else self._unknown(expr, dtype)
        at, limits = interval(value, self.unknowns), of_type(dtype)
        return value if _is_inside(at, limits) else self._unknown(expr, dtype)

    def _unknown(self, expr: t.Expr | None, dtype: DType, bounds: Interval | None = None) -> Size:
        name = self._names.get(expr) if expr is not None and _is_small(expr) else None
        if name is None:
            name = f"?{len(self.unknowns)}"
            self.unknowns[name] = bounds or of_type(dtype)
            if expr is not None and _is_small(expr):
                self._names[expr] = name
        return Size.symbol(name, signed=True)


def _keeps_order(source: DType, dtype: DType) -> bool:
    return source.is_integer and dtype.is_integer and (source.kind, source.bits) != ("uint", 64)


def of_type(dtype: DType) -> Interval:
    """Return the values of an integer type."""
    if not dtype.is_integer:
        return ANY
    bits = dtype.bits
    low, high = (
        (0, 2**bits - 1) if dtype.kind == "uint" else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    )
    return Interval(Size.const(low), Size.const(high))


def is_within(source: DType, dtype: DType) -> bool:
    """Whether an integer type has every value of another."""
    if source.kind == dtype.kind:
        return source.bits <= dtype.bits
    return source.kind in ("uint", "bool") and source.bits < dtype.bits


def is_unknown(value: Size) -> bool:
    """Whether a value says no more than that there is a number."""
    match value.terms:
        case (((Symbol(name),), 1),):
            return name.startswith("?")
        case _:
            return False


def _is_narrow(bounds: Interval) -> bool:
    """Whether 64-bit sums of values within bounds cannot wrap."""
    return all(e is not None and abs(e.constant or 0) < 2**40 for e in (bounds.low, bounds.high))


def _is_inside(inner: Interval, outer: Interval) -> bool:
    if inner.low is None or inner.high is None or outer.low is None or outer.high is None:
        return False
    return is_nonnegative(inner.low - outer.low) and is_nonnegative(outer.high - inner.high)


def _hull(a: Interval, b: Interval) -> Interval:
    low = None if a.low is None or b.low is None else minimum(a.low, b.low)
    return Interval(low, None if a.high is None or b.high is None else maximum(a.high, b.high))


def _comparison(op: str, a: Size, b: Size, truth: bool) -> tuple[Size, ...]:
    if not truth:
        op = {"<": ">=", "<=": ">", ">": "<=", ">=": "<", "==": "!=", "!=": "=="}[op]
    match op:
        case "<":
            return (b - a - 1,)
        case "<=":
            return (b - a,)
        case ">":
            return (a - b - 1,)
        case ">=":
            return (a - b,)
        case "==":
            return (a - b, b - a)
        case _:
            return ()


def _is_small(expr: t.Expr) -> bool:
    """Whether an expression is small enough to be compared and hashed as a whole."""
    todo: list[t.Expr] = [expr]
    for _ in range(100):
        if not todo:
            return True
        match todo.pop():
            case t.Read(_, subs):
                todo += subs
            case t.Unary(_, operand) | t.Cast(operand):
                todo.append(operand)
            case t.Binary(_, lhs, rhs):
                todo += (lhs, rhs)
            case t.Select(cond, then, other):
                todo += (cond, then, other)
            case t.Builtin(_, args):
                todo += args
            case _:
                continue
    return False
