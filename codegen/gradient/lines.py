"""Statements of a definition in the making."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from tcdsl.codegen.program import map_typed, reads_of
from tcdsl.grammar import typed
from tcdsl.grammar.nodes import AssignOp
from tcdsl.grammar.sizes import Size
from tcdsl.grammar.typed import Expr, Range


@dataclass(frozen=True, slots=True)
class Line:
    """`target(subs) op value where ranges`, all tensors counted from 0."""

    target: str
    subs: tuple[Expr, ...]
    op: AssignOp
    value: Expr
    ranges: tuple[Range, ...]

    def reads(self) -> Iterator[typed.Read]:
        """Yield the reads of both sides."""
        for e in (self.value, *self.subs):
            yield from reads_of(e)


@dataclass(frozen=True, slots=True)
class Loop:
    """`for var in low:high { body }`."""

    var: str
    low: Size
    high: Size
    body: tuple[Part, ...]


Part = Line | Loop


def walk(parts: Sequence[Part]) -> Iterator[Line]:
    """Yield the lines in parts, those of loops too."""
    for part in parts:
        if isinstance(part, Line):
            yield part
        else:
            yield from walk(part.body)


def map_line(line: Line, f: Callable[[Expr], Expr], size: Callable[[Size], Size]) -> Line:
    """Return a line with every node of its expressions passed through f and sizes through size."""

    def one(e: Expr) -> Expr:
        if isinstance(e, typed.SizeValue):
            e = replace(e, size=size(e.size))
        return f(e)

    return Line(
        line.target,
        tuple(map_typed(e, one) for e in line.subs),
        line.op,
        map_typed(line.value, one),
        tuple(replace(r, low=size(r.low), high=size(r.high)) for r in line.ranges),
    )
