"""Borders that the sizes of a call do not have: paddings as plain reads where sizes are not known.

    y in 0:H:   P(n, c, y) = y - k >= 0 && y - k < H - K + 1 ? G(n, c, y - k) : 0
             -> P(n, c, y) = G(n, c, y)                     of calls with K == 1

At known sizes `decided` sees that. Here the sizes of a call are asked, each question once, and the
answers are part of what the executable is for: a border that all calls have is never asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

from tcdsl.codegen.program.expressions import indices_of, substitute_indices
from tcdsl.codegen.program.inline import is_contraction
from tcdsl.codegen.program.padding import Guard, has_padding, padding_of
from tcdsl.codegen.program.program import Program, Statement
from tcdsl.grammar.proofs.signs import is_nonnegative, substitute_symbols
from tcdsl.grammar.proofs.sizes import Size
from tcdsl.grammar.text.dataclass import dataclass
from tcdsl.grammar.types import typed
from tcdsl.grammar.types.dtypes import INT64
from tcdsl.grammar.types.typed import Range

AtLeast = Callable[[Size, int], bool]


@dataclass(frozen=True, slots=True)
class Settled:
    """A program, and what of it holds for sizes with the same answers only, in words."""

    program: Program
    what: str = ""


def settled(program: Program, at_least: AtLeast) -> Settled:
    """Return a program without the borders that the sizes of a call do not have.

    at_least: whether a size is at least a number at this call. Of windows it is asked whether they
    have a single point; of a padding that a contraction reads, whether no bound is ever passed.
    Numbers that are no extents, those of turns and scalars, are not asked of; nor, of
    larger windows, how two go together: by twos, every other image would have one of its own.
    """
    extents = tuple(n for n in program.sizes if n not in program.scalars)
    ones = [n for n in _windows(program, extents) if not at_least(Size.symbol(n), 2)]
    by = {n: Size.const(1) for n in ones if at_least(Size.symbol(n), 1)}
    statements = [_at(s, by) for s in program.statements]
    what = [f"{n}=1" for n in by]
    for i, s in enumerate(statements):
        if not has_padding(statements[i : i + 2]):
            continue
        room = _room(s, by)
        if room is None or any(x.constant is not None for x in room):
            continue
        is_of_one = statements[i + 1] is not program.statements[i + 1]  # a window of a single point
        names = [x.symbols() for x in room]
        if not all({*n} <= {*extents} and (is_of_one or len(n) == 1) for n in names):
            continue
        if all(at_least(x, 0) for x in room):
            statements[i] = _plain(s)
            what.append(s.target)
    if not what:
        return Settled(program)
    statements = [_without_ones(s) for s in statements]
    return Settled(replace(program, statements=tuple(statements)), " ".join(what))


def _windows(program: Program, extents: Sequence[str]) -> list[str]:
    """Return the sizes of windows over paddings: sums run along them, and what they end is less."""
    ends: list[Size] = []
    sums: dict[Size, None] = {}
    for padding, reader in pairwise(program.statements):
        if has_padding((padding, reader)):
            ends += (x for g in _required(padding)[1] for x in (g.low, g.high) if x is not None)
            ends += (x for s in (padding, reader) for r in s.ranges for x in (r.low, r.high))
            sums |= dict.fromkeys(r.extent for r in reader.reductions)
    less = {n for x in ends for of, k in x.terms if k < 0 for n in Size(((of, 1),)).symbols()}
    return [n for n in extents if n in less and Size.symbol(n) in sums]


def _at(s: Statement, by: Mapping[str, Size]) -> Statement:
    """Return a statement whose ranges have these values put in."""

    def known(r: Range) -> Range:
        low, high = (substitute_symbols(x, by) for x in (r.low, r.high))
        return r if r.bounds is not None else replace(r, low=low, high=high)

    ranges = tuple(map(known, s.ranges))
    return s if ranges == s.ranges else replace(s, ranges=ranges)


def _without_ones(s: Statement) -> Statement:
    """Return a sum of products without the indices that have the value 0 alone."""
    if not is_contraction(s) or s.is_ragged:
        return s
    ones = [r.name for r in s.reductions if r.low == Size() and r.extent == Size.const(1)]
    sums = [r for r in s.reductions if r.name not in ones]
    if not ones or not sums or any({*ones} & indices_of(sub) for sub in s.subs):
        return s
    value = substitute_indices(s.value, {name: typed.Lit(0, INT64) for name in ones})
    ranges = tuple(r for r in s.ranges if r.name not in ones)
    return replace(s, value=value, ranges=ranges)


def _room(s: Statement, by: Mapping[str, Size]) -> list[Size] | None:
    """Return what has to be at least 0 that a padding never leaves its bounds, None: it may.

    Whatever a bound hangs on is an index that moves the read too: where there are no points, none
    is read ahead.
    """
    read, guards = _required(s)
    ranges = {r.name: r for r in s.ranges}
    moving = {n for sub in read.subs for n in indices_of(sub)} & ranges.keys()
    if s.is_ragged or not {n for g in guards for n, _ in g.at.terms} <= moving:
        return None
    room = [substitute_symbols(x, by) for g in guards for x in _from_bounds(g, ranges)]
    return [x for x in room if not is_nonnegative(x)]


def _from_bounds(g: Guard, ranges: Mapping[str, Range]) -> Iterator[Size]:
    """Yield how far a guarded subscript stays inside of each bound at least."""
    low, high = g.at.ends(ranges)
    if g.low is not None:
        yield low - g.low
    if g.high is not None:
        yield g.high - 1 - high


def _plain(s: Statement) -> Statement:
    """Return a padding as the read that it is where nothing is outside."""
    read, _ = _required(s)
    value = read if read.dtype == s.value.dtype else typed.Cast(read, s.value.dtype)
    return replace(s, value=value)


def _required(s: Statement) -> tuple[typed.Read, tuple[Guard, ...]]:
    found = padding_of(s)
    assert found is not None, "a padding"
    return found
