"""Statements of a definition in the making."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import count

from tcdsl.codegen.gradient.order import Placed
from tcdsl.codegen.gradient.versions import Turns, Version
from tcdsl.codegen.program.expressions import indices_of, map_typed, reads_of, with_bounds
from tcdsl.grammar.proofs.signs import substitute_symbols
from tcdsl.grammar.proofs.sizes import Size
from tcdsl.grammar.text.dataclass import dataclass
from tcdsl.grammar.text.nodes import AssignOp
from tcdsl.grammar.types import typed
from tcdsl.grammar.types.typed import Expr, Range


@dataclass(frozen=True, slots=True)
class Line:
    """`target(subs) op value where ranges`, all tensors counted from 0."""

    target: str
    subs: tuple[Expr, ...]
    op: AssignOp
    value: Expr
    ranges: tuple[Range, ...]

    def reads(self) -> Iterator[typed.Read]:
        """Yield the reads of both sides and of bounds."""
        for e in self.exprs:
            yield from reads_of(e)

    @property
    def exprs(self) -> tuple[Expr, ...]:
        """All that it evaluates: its value, its subscripts, the bounds of ragged ranges."""
        return (self.value, *self.subs, *(e for r in self.ranges for e in r.bounds or ()))

    @property
    def is_ragged(self) -> bool:
        """Whether ranges depend on indices or on data."""
        return any(r.bounds is not None for r in self.ranges)

    @property
    def is_ragged_scatter(self) -> bool:
        """Whether ranges of indices on the left do: which elements it adds to is not a box."""
        left = {n for e in self.subs for n in indices_of(e)}
        return any(r.bounds is not None and r.name in left for r in self.ranges)


@dataclass(frozen=True, slots=True)
class Loop:
    """`for var in low:high { body }`; one that goes back through `of` begins with the last turn."""

    var: str
    low: Size
    high: Size
    body: tuple[Part, ...]
    of: Turns | None = None


Part = Line | Loop


def walk(parts: Sequence[Part]) -> Iterator[Line]:
    """Yield the lines in parts, those of loops too."""
    for part in parts:
        if isinstance(part, Line):
            yield part
        else:
            yield from walk(part.body)


def placed(
    parts: Sequence[Part],
    around: tuple[typed.Loop, ...] = (),
    number: Iterator[int] | None = None,
) -> Iterator[tuple[Line, Placed]]:
    """Yield lines with what they are as statements, numbered in order."""
    number = count() if number is None else number
    for part in parts:
        if isinstance(part, Line):
            s = typed.Statement(part.target, part.subs, part.op, part.value, part.ranges)
            yield part, Placed(next(number), s, around)
        else:
            inner = typed.Loop(part.var, part.low, part.high, ())
            yield from placed(part.body, (*around, inner), number)


def spread(parts: Sequence[Part], name: str, at: Expr) -> list[Part]:
    """Return parts in which a tensor has a leading axis, of which they use one position."""

    def one(e: Expr) -> Expr:
        if not isinstance(e, typed.Read) or e.tensor != name:
            return e
        return replace(e, subs=(at, *e.subs), checked=())

    out: list[Part] = []
    for part in parts:
        if isinstance(part, Loop):
            out.append(replace(part, body=tuple(spread(part.body, name, at))))
            continue
        line = map_line(part, one, lambda s: s)
        out.append(replace(line, subs=(at, *line.subs)) if line.target == name else line)
    return out


def forwards(parts: Sequence[Part]) -> list[Part]:
    """Return parts whose loops all count up: what goes back reads turn `high - 1 - t`.

    Until then the variable of a loop that goes back is the forward turn, so that it and the loop of
    the forward pass name what they share alike.
    """
    out: list[Part] = []
    for part in parts:
        if isinstance(part, Line):
            out.append(part)
            continue
        body = forwards(part.body)
        if part.of is None:
            out.append(replace(part, body=tuple(body)))
            continue
        turn = part.high - 1 - Size.symbol(part.var, signed=True)
        turned = tuple(_turned(body, part.var, turn))
        out.append(Loop(part.var, Size.const(0), part.high - part.low, turned))
    return out


def _turned(parts: Sequence[Part], var: str, turn: Size) -> list[Part]:
    """Return parts with another turn in place of a loop's variable."""

    def size(x: Size) -> Size:
        return substitute_symbols(x, {var: turn})

    out: list[Part] = []
    for part in parts:
        if isinstance(part, Line):
            out.append(map_line(part, lambda e: e, size))
        else:
            body = tuple(_turned(part.body, var, turn))
            out.append(Loop(part.var, size(part.low), size(part.high), body))
    return out


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
        tuple(
            replace(r, low=size(r.low), high=size(r.high))
            for r in with_bounds(line.ranges, lambda e: map_typed(e, one))
        ),
    )


def to_read(new: str, instead_of: str) -> Callable[[Expr], Expr]:
    """Return what makes a read of one tensor that of another: for `map_typed` and `map_line`."""

    def one(e: Expr) -> Expr:
        if isinstance(e, typed.Read) and e.tensor == instead_of:
            return replace(e, tensor=new)
        return e

    return one


def copied(line: Line, values: Mapping[str, Version]) -> str | None:
    """Return the tensor of which a line makes a whole copy, if it does nothing else.

    values: the tensors that count.
    """
    match line:
        case Line(target, subs, "=" | "+=!", typed.Read(source, its)) if subs == its:
            mine, other = values.get(target), values.get(source)
            if mine is None or other is None or line.is_ragged:
                return None
            if (mine.shape, mine.dtype) != (other.shape, other.dtype):
                return None
            spans = {r.name: (r.low, r.high) for r in line.ranges}
            names = [e.name for e in subs if isinstance(e, typed.IndexValue)]
            if len({*names}) != len(subs) or {*names} != {*spans}:  # each element, and once
                return None
            whole = [(Size(), extent) for extent in mine.shape]
            return source if [spans[n] for n in names] == whole else None
    return None
