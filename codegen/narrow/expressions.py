"""Expressions with integers of proved width: the larger half of `integers.py`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Literal, assert_never

from tcdsl.codegen.loops.loopir import (
    I64,
    TRUTH,
    Address,
    Bin,
    Call,
    Cast,
    Const,
    Elem,
    Expr,
    Field,
    Function,
    Load,
    Offset,
    Scalar,
    Select,
    Type,
    Un,
    Var,
)
from tcdsl.codegen.loops.target import short_name
from tcdsl.codegen.machine.gpu import WARP
from tcdsl.codegen.narrow import spans
from tcdsl.codegen.narrow.addresses import Pointers, Role
from tcdsl.codegen.narrow.counts import FAR, Counts
from tcdsl.codegen.narrow.facts import (
    I32,
    Fact,
    GridFacts,
    Narrowed,
    SpanStore,
    limit_of,
    parameter_type,
    to_type,
)
from tcdsl.codegen.narrow.spans import LONG, WORD, Span
from tcdsl.grammar.types.dtypes import DType

LIMITS = {Role.VALUE: LONG, Role.ADDRESS: FAR, Role.NEAR: WORD}
_WRAPPING: Mapping[str, Literal["add", "sub", "mul"]] = {"+": "add", "-": "sub", "*": "mul"}
_NEGATED = {"<": ">=", "<=": ">", ">": "<=", ">=": "<", "==": "!=", "!=": "=="}
_FLIPPED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "==": "==", "!=": "!="}


class Exprs:
    """Rewrites expressions of one function.

    Parameters
    ----------
    f
        The function as it was.
    start
        Its grid.
    pointers
        Which memory is small.
    counts
        What expressions over sizes count.
    store, functions
        Of the unit.
    """

    def __init__(
        self,
        f: Function,
        start: GridFacts,
        pointers: Pointers,
        counts: Counts,
        store: SpanStore,
        functions: Mapping[str, Function],
    ) -> None:
        self.f, self.start, self.pointers, self.store = f, start, pointers, store
        self.functions = functions
        self.facts: dict[str, Fact] = {}
        self._counts = counts

    @contextmanager
    def scope(self, cond: Expr | None = None, *, holds: bool = True) -> Iterator[None]:
        """Forget what becomes known inside; there a condition holds, or does not."""
        kept, self.facts = self.facts, dict(self.facts)
        if cond is not None:
            self.assume(cond, holds=holds)
        yield
        self.facts = kept

    def key(self, name: str) -> tuple[str, str]:
        """Return what the store calls a name of this function."""
        return self.f.name, name

    # ---- conditions

    def assume(self, cond: Expr, *, holds: bool) -> None:
        """Learn from a condition that holds, or does not."""
        match cond:
            case Bin("&&", x, y) if holds:
                self.assume(x, holds=True)
                self.assume(y, holds=True)
            case Bin("||", x, y) if not holds:
                self.assume(x, holds=False)
                self.assume(y, holds=False)
            case Un("!", x):
                self.assume(x, holds=not holds)
            case Bin(op, x, y) if op in _NEGATED:
                relation = op if holds else _NEGATED[op]
                self._compare(relation, x, self.value(y).span)
                self._compare(_FLIPPED[relation], y, self.value(x).span)
            case _:
                pass

    def _compare(self, op: str, x: Expr, other: Span | None) -> None:
        fact = self.facts.get(x.name) if isinstance(x, Var) else None
        if fact is None or fact.span is None or not fact.fixed or other is None:
            return
        assert isinstance(x, Var)
        low, high = fact.span
        match op:
            case "<" | "<=":
                high = min(high, other[1] - (op == "<"))
            case ">" | ">=":
                low = max(low, other[0] + (op == ">"))
            case "==":
                low, high = max(low, other[0]), min(high, other[1])
        if low <= high:  # else nothing runs there
            self.facts[x.name] = replace(fact, span=(low, high))

    # ---- expressions

    def value(self, e: Expr, role: Role = Role.VALUE) -> Narrowed:
        """Return an expression that gives the same; int64 becomes int32 where it fits."""
        match e:
            case Const(value, Scalar(dtype)) if dtype.kind != "float":
                return _constant(int(value), dtype, e)
            case Const():
                return Narrowed(e)
            case Var(name, type):
                fact = self.facts.get(name)
                return _short(Var(name, fact.type), fact.span) if fact else Narrowed(e)
            case Elem(array, indices):
                fact = self.facts.get(array)
                inside = tuple(self.value(i, Role.NEAR).expr for i in indices)
                return _short(Elem(array, inside, fact.type), fact.span) if fact else Narrowed(e)
            case Address(place, type):
                assert isinstance(place, Elem)
                limit = limit_of(place.type)
                if limit is not None:  # whoever has the address may write anything
                    self.store.give(self.key(place.array), limit, limit)
                inside = tuple(self.value(i, Role.NEAR).expr for i in place.indices)
                return Narrowed(Address(replace(place, indices=inside), type))
            case Load(pointer, index, type):
                at = self.value(index, self.pointers.role(pointer)).expr
                return Narrowed(Load(self.value(pointer).expr, at, type), limit_of(type))
            case Offset(pointer, index, type, in_bytes):
                use = Role.ADDRESS if in_bytes else self.pointers.role(pointer)
                at = self.value(index, use).expr
                return Narrowed(Offset(self.value(pointer).expr, at, type, in_bytes))
            case Field(base, text, type):
                return Narrowed(Field(self.value(base).expr, text, type), limit_of(type))
            case Bin():
                return self._binary(e, role)
            case Un(op, operand, type):
                return self._unary(op, self.value(operand, role), type)
            case Select():
                return self._select(e, role)
            case Cast(operand, type):
                inner = role if type == operand.type == I64 else Role.VALUE
                return _cast(self.value(operand, inner), type)
            case Call():
                return self._call(e)
            case _:
                assert_never(e)

    def _select(self, e: Select, role: Role) -> Narrowed:
        cond = self.value(e.cond).expr
        with self.scope(e.cond):
            then = self.value(e.then, role)
        with self.scope(e.cond, holds=False):
            other = self.value(e.other, role)
        span = spans.join(then.span, other.span) if then.span and other.span else None
        are_words = e.type == I64 and then.expr.type == other.expr.type == I32
        t: Type = I32 if are_words else e.type
        return Narrowed(Select(cond, to_type(then, t), to_type(other, t), t), span)

    def _binary(self, e: Bin, role: Role) -> Narrowed:
        op = e.op
        if op in ("&&", "||"):
            lhs = self.value(e.lhs).expr
            with self.scope(e.lhs, holds=op == "&&"):
                return Narrowed(Bin(op, lhs, self.value(e.rhs).expr, e.type), (0, 1))
        inner = role if e.type == I64 and op in _WRAPPING else Role.VALUE
        x, y = self.value(e.lhs, inner), self.value(e.rhs, inner)
        if op in _NEGATED:
            # what is there in 64 bits is compared so with a constant, without a cast
            loose = [v for v in (x, y) if not isinstance(v.expr, Const)]
            wide = I64 in (x.expr.type, y.expr.type) or (
                len(loose) == 1 and loose[0].wide is not None
            )
            a, b = (to_type(v, I64) if wide else v.expr for v in (x, y))
            return Narrowed(Bin(op, a, b, e.type), (0, 1) if e.type == TRUTH else None)
        if x.span is None or y.span is None:
            return Narrowed(replace(e, lhs=x.expr, rhs=y.expr))
        if op == "/":
            least = _factor(e.rhs)
            y = replace(y, span=(max(y.span[0], least), max(y.span[1], least)))
        span = self._limited(op, x, y, inner)
        if span and op in _WRAPPING and e.type == I64 and (most := self._counts.bounds(e)):
            span = spans.clip(span, most)
        return self._join(e, x, y, span)

    def _limited(self, op: str, x: Narrowed, y: Narrowed, role: Role) -> Span | None:
        """Return what an operator gives; on the way to an address no more than memory has."""
        span = spans.binary(op, x.bounds, y.bounds)
        if span is None or role == Role.VALUE:
            return span
        # only what is data itself, read from an int64 tensor, may be anything
        is_near = all(spans.lies_in(v.bounds, FAR) for v in (x, y))
        return spans.clip(span, LIMITS[role]) if is_near else span

    def _join(self, e: Bin, x: Narrowed, y: Narrowed, span: Span | None) -> Narrowed:
        """Return x op y in as few bits as do."""
        op, t = e.op, e.type
        assert isinstance(t, Scalar)
        if t != I64:
            every = spans.of_dtype(t.dtype)
            if span is not None and spans.lies_in(span, every):
                return Narrowed(Bin(op, x.expr, y.expr, t), span)
            return Narrowed(_or_wrapping(op, x.expr, y.expr, t), every)
        words = x.expr.type == y.expr.type == I32
        if span is None:
            span = WORD if words and op in ("&", "|", "^") else LONG
        if words and spans.lies_in(span, WORD):
            return Narrowed(Bin(op, x.expr, y.expr, I32), span)
        a, b = to_type(x, I64), y.expr if op in ("<<", ">>") else to_type(y, I64)
        if spans.lies_in(span, LONG):
            return _short(Bin(op, a, b, I64), span)
        return Narrowed(_or_wrapping(op, a, b, I64), LONG)

    def combined(
        self, op: Literal["+", "*"], place: Narrowed, v: Narrowed, role: Role
    ) -> Span | None:
        """Return the interval of place op v; None if it may leave its type."""
        t = place.expr.type
        every = limit_of(I64 if v.expr.type == I64 else t)
        span = self._limited(op, place, v, role)
        return span if span and every and spans.lies_in(span, every) else None

    def _unary(self, op: Literal["-", "!", "~"], x: Narrowed, t: Type) -> Narrowed:
        if x.span is None or op != "-":
            t = I32 if t == I64 and x.expr.type == I32 else t
            return Narrowed(Un(op, x.expr, t), (0, 1) if t == TRUTH else limit_of(t))
        assert isinstance(t, Scalar)
        span = (-x.span[1], -x.span[0])
        if t == I64 and x.expr.type == I32 and spans.lies_in(span, WORD):
            return Narrowed(Un(op, x.expr, I32), span)
        operand, every = to_type(x, t), spans.of_dtype(t.dtype)
        if spans.lies_in(span, every):
            return (
                _short(Un(op, operand, t), span) if t == I64 else Narrowed(Un(op, operand, t), span)
            )
        if not _wraps(t):
            return Narrowed(Un(op, operand, t), every)
        return Narrowed(Call(f"tc_wrap_neg_{short_name(t.dtype)}", (operand,), t), every)

    # ---- calls

    def _call(self, e: Call) -> Narrowed:
        args = [self.value(a) for a in e.args]
        plain = replace(e, args=tuple(a.expr for a in args))
        if (grid := self._grid(e.function)) is not None:
            return grid
        callee = self.functions.get(e.function)
        if callee is not None:
            for p, a in zip(callee.params, args, strict=True):
                if (limit := limit_of(p.type)) is not None:
                    self.store.give((callee.name, p.name), a.bounds, limit)
            types = [parameter_type(self.store, callee, p) for p in callee.params]
            given = tuple(to_type(a, t) for a, t in zip(args, types, strict=True))
            return Narrowed(replace(e, args=given), limit_of(e.type))
        name, _, kind = e.function.removeprefix("tc_").rpartition("_")
        if isinstance(e.type, Scalar) and kind == short_name(e.type.dtype) and limit_of(e.type):
            span = spans.call(name, [a.bounds for a in args])
            every = spans.of_dtype(e.type.dtype)
            if span is None:
                return Narrowed(plain, every)
            if kind == "i64" and spans.lies_in(span, WORD) and _are_words(args):
                return _on_words(name, args, span)
            if kind == "i64":
                plain = replace(e, args=tuple(to_type(a, I64) for a in args))
            return _short(plain, span if spans.lies_in(span, every) else every)
        return Narrowed(plain, limit_of(e.type))

    def _grid(self, function: str) -> Narrowed | None:
        threads, blocks = self.start.threads, self.start.blocks
        call = Call(function, (), I32)
        match function:
            case "tc_thread":
                return Narrowed(call, (0, threads - 1))
            case "tc_lane":
                return Narrowed(call, (0, min(threads, WARP) - 1))
            case "tc_warp":
                return Narrowed(call, (0, (threads - 1) // WARP))
            case "tc_block":
                return Narrowed(call, (0, max(0, blocks - 1)))
            case "tc_blocks":
                return Narrowed(call, (1, max(1, blocks)))
            case "tc_threads":
                return Narrowed(call, (threads, threads))
            case "tc_point":
                span = (0, max(1, blocks) * threads - 1)
                if not spans.lies_in(span, WORD):
                    return Narrowed(Call(function, (), I64), span)
                first = Bin("*", Call("tc_block", (), I32), Const(threads, I32), I32)
                return Narrowed(Bin("+", first, Call("tc_thread", (), I32), I32), span)
            case _:
                return None


# ---- pieces


def _factor(e: Expr) -> int:
    """Return the least positive value of an expression."""
    match e:
        case Bin("*", x, Const(int(value))) if value > 0:
            return _factor(x) * value
        case _:
            return 1


def _wraps(t: Scalar) -> bool:
    """Whether overflow is undefined in C++: int is 32 bits, what is smaller is computed in it."""
    return t.dtype.kind == "int" and t.dtype.bits >= 32


def _or_wrapping(op: str, x: Expr, y: Expr, t: Scalar) -> Expr:
    if op in _WRAPPING and _wraps(t):
        return Call(f"tc_wrap_{_WRAPPING[op]}_{short_name(t.dtype)}", (x, y), t)
    return Bin(op, x, y, t)  # type: ignore[arg-type]  # op is that of a Bin


def wrapping(op: Literal["+", "*"], place: Expr, v: Expr) -> Expr:
    """Return place op v, as it wraps."""
    assert isinstance(place.type, Scalar)
    return _or_wrapping(op, place, v, place.type)


def _constant(value: int, dtype: DType, e: Const) -> Narrowed:
    if dtype != I64.dtype:
        return Narrowed(e, (value, value))
    value = (value + (1 << 63)) % (1 << 64) - (1 << 63)  # folded constants wrap too
    is_word = spans.lies_in((value, value), WORD)
    return Narrowed(Const(value, I32 if is_word else I64), (value, value))


def _short(e: Expr, span: Span | None) -> Narrowed:
    """Return e, in int32 if it is int64 and fits."""
    if e.type == I64 and span is not None and spans.lies_in(span, WORD):
        return Narrowed(Cast(e, I32), span, e)
    return Narrowed(e, span)


def _cast(x: Narrowed, t: Type) -> Narrowed:
    every = limit_of(t)
    if every is None or x.span is None:
        return Narrowed(Cast(x.expr, t), every)
    span = x.span if spans.lies_in(x.span, every) else every
    if t == I64:
        if x.expr.type in (I32, I64):
            return x
        return Narrowed(Cast(x.expr, I32 if spans.lies_in(span, WORD) else I64), span)
    if t == x.expr.type:
        return Narrowed(x.expr, span) if x.wide is None else Narrowed(x.expr, span, x.wide)
    return Narrowed(Cast(x.expr, t), span)


def _are_words(args: list[Narrowed]) -> bool:
    return all(a.expr.type == I32 for a in args)


def _on_words(name: str, args: list[Narrowed], span: Span) -> Narrowed:
    """Return an int64 function in int32; its floor division is C's where nothing is negative."""
    exprs = tuple(a.expr for a in args)
    if name in ("div", "mod") and args[0].bounds[0] >= 0 and args[1].bounds[0] > 0:
        return Narrowed(Bin("/" if name == "div" else "%", exprs[0], exprs[1], I32), span)
    return Narrowed(Call(f"tc_{name}_i32", exprs, I32), span)
