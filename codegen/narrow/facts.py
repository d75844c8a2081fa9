"""What `integers.py` knows of names and expressions: types, intervals, and how they grow."""

from __future__ import annotations

from dataclasses import field

from tcdsl.codegen.loops.loopir import I64, Cast, Const, Expr, Function, Scalar, Type, Var
from tcdsl.codegen.narrow import spans
from tcdsl.codegen.narrow.spans import LONG, WORD, Span
from tcdsl.grammar.text.dataclass import dataclass
from tcdsl.grammar.types.dtypes import INT32

I32 = Scalar(INT32)


@dataclass(frozen=True, slots=True)
class Narrowed:
    """A rewritten expression; span is None for what is no integer.

    wide is the same in 64 bits, where that costs nothing.
    """

    expr: Expr
    span: Span | None = None
    wide: Expr | None = None

    @property
    def bounds(self) -> Span:
        """Return the interval; all values of the type where none is known."""
        if self.span is not None:
            return self.span
        t = self.expr.type
        return (
            spans.of_dtype(t.dtype) if isinstance(t, Scalar) and t.dtype.kind != "float" else LONG
        )


@dataclass(frozen=True, slots=True)
class Fact:
    """What is known of a name: its new type and interval; fixed, if it is never assigned."""

    type: Type
    span: Span | None
    fixed: bool = True


@dataclass(frozen=True, slots=True)
class GridFacts:
    """What is known of a function's grid: threads of a block, and blocks at most."""

    threads: int
    blocks: int


@dataclass(slots=True)
class SpanStore:
    """Intervals of what is assigned or passed, by function and name; they grow until all hold."""

    patience: int = 3  # rounds in which they may grow step by step
    spans: dict[tuple[str, str], Span] = field(default_factory=dict)
    _seen: dict[tuple[str, str], Span] = field(default_factory=dict)
    _limits: dict[tuple[str, str], Span] = field(default_factory=dict)
    _round: int = 0

    def give(self, key: tuple[str, str], span: Span, limit: Span) -> None:
        """Note that a name gets a value of span; it never leaves limit."""
        span = spans.clip(span, limit)
        self._seen[key] = spans.join(self._seen[key], span) if key in self._seen else span
        self._limits[key] = limit

    def of(self, key: tuple[str, str], otherwise: Span) -> Span:
        """Return the interval of a name."""
        return self.spans.get(key) or self._seen.get(key) or otherwise

    def advance(self) -> bool:
        """End a round; tell whether anything has grown, so that another is needed."""
        self._round += 1
        before = dict(self.spans)
        for key, span in self._seen.items():
            grown = spans.join(span, before.get(key, span))
            if grown != before.get(key):
                self.spans[key] = grown if self._round <= self.patience else self._limits[key]
        return before != self.spans


def to_type(v: Narrowed, t: Type) -> Expr:
    """Return a value as a type that holds it."""
    if v.expr.type == t or v.span is None:
        return v.expr
    if t == I64 and v.wide is not None:
        return v.wide
    if t == I64 and isinstance(v.expr, Const):
        return Const(v.expr.value, I64)
    return Cast(v.expr, t) if t in (I32, I64) and v.expr.type in (I32, I64) else v.expr


def limit_of(t: Type | None) -> Span | None:
    """Return the interval of an integer type."""
    return spans.of_dtype(t.dtype) if isinstance(t, Scalar) and t.dtype.kind != "float" else None


def parameter_type(store: SpanStore, f: Function, p: Var) -> Type:
    """Return the type that a parameter of a function (no kernel) needs."""
    if p.type != I64:
        return p.type
    return I32 if spans.lies_in(store.of((f.name, p.name), LONG), WORD) else I64
