"""What windows fetch before they read it: rows of operands that no cache holds.

Rows that are read side by side are as many streams, each a few lines long until the next rows
begin: no hardware foresees them, and how many loads a processor sees at once hangs on the text.

for y:                          the rows of a block
  for x:                        tc_prefetch(I + (y + ahead) * W + x): each row that a block adds
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from tcdsl.codegen.forms.base.access import ONE, ZERO
from tcdsl.codegen.forms.base.context import Context
from tcdsl.codegen.forms.stencil.problem import Place, Stencil, place_of
from tcdsl.codegen.forms.stencil.walk import Walk
from tcdsl.codegen.loops import build as b
from tcdsl.codegen.loops.loopir import Expr, Let, Pointer, Stmt, Var
from tcdsl.codegen.machine.cpu import LINE
from tcdsl.codegen.program.expressions import indices_of
from tcdsl.grammar.proofs.sizes import Size
from tcdsl.grammar.text.dataclass import dataclass
from tcdsl.grammar.types import typed

_AHEAD = 6144  # bytes: what is fetched so far ahead comes in time
_MOST = 16384  # bytes of a block's rows: lines of longer ones are gone again, hardware sees them
_WIDEST = 4  # elements from a lane to the next one


@dataclass(frozen=True, slots=True)
class Stream:
    """Rows of an operand that a block reads and the one before it does not.

    starts: where they begin, in elements from the place of the point's own indices.
    """

    place: Place
    starts: tuple[Size, ...]


def is_far(ctx: Context, s: Stencil) -> bool:
    """Return whether no cache holds what is touched, which is a regime of its own."""
    bytes_of = (
        prod(ctx.operands.buffer(n).shape, start=ONE) * k for n, k in _items(ctx, s).items()
    )
    return ctx.at_least(sum(bytes_of, ZERO), ctx.machine.own_l3_bytes)


def _items(ctx: Context, s: Stencil) -> dict[str, int]:
    """Return the bytes of an element of each tensor that lies in memory."""
    read = {r.tensor: None for x in s.windows for r in x.reads() if r.subs}
    made = {x.target: None for x in s.statements if x.target not in ctx.group.local}
    return {n: ctx.operands.memory_dtype(n).size_bytes for n in read | made}


def rows_ahead(ctx: Context, s: Stencil, rows: int, far: bool | None) -> Expr:
    """Return how many rows ahead blocks fetch, as plans have it; 0: caches hold what is touched.

    far: whether none does, where that is known before calls.
    """
    stream = None if s.row is None or s.is_still else next(_streams(ctx, s, rows), None)
    if stream is None or far is False:
        return b.c64(0)
    assert s.row is not None
    size, item = ctx.operands.size, _items(ctx, s)
    pitch = b.mul(size(stream.place.step(s.row.name)), item[stream.place.tensor])
    asked = [b.compare("<=", b.mul(pitch, rows), _MOST), b.compare(">", pitch, 0)]
    if far is None:
        touched = (b.mul(*map(size, ctx.operands.buffer(n).shape), k) for n, k in item.items())
        asked.insert(0, b.compare(">=", b.add(*touched), ctx.machine.own_l3_bytes))
    count = b.max64(b.div(b.c64(_AHEAD), b.max64(pitch, 1)), rows)
    return b.select(b.all_of(*asked), count, b.c64(0))


def fetches(walk: Walk, rows: int, ahead: Expr, at: Expr, lanes: int) -> list[Stmt]:
    """Return the fetches of a block of rows whose lanes begin at a place."""
    s, out = walk.stencil, list[Stmt]()
    assert s.row is not None
    for stream in _streams(walk.ctx, s, rows):
        base, place = walk.pointer(stream.place), stream.place
        assert isinstance(base.type, Pointer)
        element = walk.operands.memory_dtype(place.tensor).size_bytes
        step = place.step(s.lane.name).constant
        assert step is not None
        row = b.add(walk.index[s.row.name], ahead)
        moved = b.add(b.mul(at, step), b.mul(row, walk.operands.size(place.step(s.row.name))))
        before, p = ZERO, b.offset(base, moved)
        for start in stream.starts:
            var = Var(walk.names.fresh("next"), base.type)
            out.append(Let(var, b.offset(p, walk.operands.size(start - before))))
            lines = range(max(1, lanes * step * element // LINE))
            out += [b.do("tc_prefetch", b.offset(var, n * LINE // element)) for n in lines]
            before, p = start, var
    return out


def _streams(ctx: Context, s: Stencil, rows: int) -> Iterator[Stream]:
    """Yield what blocks of so many rows read along their lanes, once each."""
    assert s.row is not None
    seen = set()
    for read in (r for x in s.windows for r in x.reads() if r.subs):
        place = place_of(ctx, read.tensor, read.subs)
        step = None if place is None else place.step(s.lane.name).constant
        if place is None or step not in range(1, _WIDEST + 1):
            continue
        pitch = place.step(s.row.name)
        slides = [n for n, _ in s.taps if n in _along(read, s.lane.name)]
        first = {n: v[0] for n, v in s.taps if n in slides}
        taps = [tap for tap in s.points() if first.items() <= tap.items()]
        own = [sum((place.step(n) * v for n, v in x.items()), place.const) for x in taps]
        block = dict.fromkeys(x + pitch * r for r in range(rows) for x in own)
        before = {x - pitch * rows for x in block}
        starts = tuple(x for x in block if x not in before)
        key = place.tensor, place.terms, starts
        if starts and pitch != ZERO and key not in seen:
            seen.add(key)
            yield Stream(place, starts)


def _along(read: typed.Read, lane: str) -> set[str]:
    """Return the indices of the subscripts in which lanes are."""
    return {n for e in read.subs if lane in indices_of(e) for n in indices_of(e)}
