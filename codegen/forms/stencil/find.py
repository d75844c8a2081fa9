"""Whether a group is a stencil, and which of its indices has which role."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from math import prod

from tcdsl.codegen.forms.base import vexpr
from tcdsl.codegen.forms.base.access import ONE, ZERO
from tcdsl.codegen.forms.base.context import Context
from tcdsl.codegen.forms.base.outputs import is_injective
from tcdsl.codegen.forms.stencil.behind import finishes, windows_of
from tcdsl.codegen.forms.stencil.places import Intervals, Values, fitted, place_values, places_of
from tcdsl.codegen.forms.stencil.problem import (
    Stencil,
    bare,
    bounds_first,
    guard_of,
    is_covered,
    place_of,
)
from tcdsl.codegen.program.affine import affine_of
from tcdsl.codegen.program.bounds import Bound
from tcdsl.codegen.program.expressions import indices_of, walk_typed
from tcdsl.codegen.program.inline import is_contraction
from tcdsl.codegen.program.program import Statement
from tcdsl.grammar.proofs.sizes import Size
from tcdsl.grammar.types import typed
from tcdsl.grammar.types.dtypes import BOOL
from tcdsl.grammar.types.typed import Range

MOST_TAPS = 81  # 9x9
_FURTHEST = 4  # elements between neighbours of a target


def stencil_of(ctx: Context) -> Stencil | None:
    """Return what a group is as a stencil, or None where it is none or has no vectors."""
    return ctx.once("stencil", lambda: _find(ctx))


def piece_of(ctx: Context) -> Stencil | None:
    """Return what a group is as a piece of a tensor: it may be a point that looks at no other."""
    return _find(ctx, is_piece=True)


def _find(ctx: Context, *, is_piece: bool = False) -> Stencil | None:
    first, *rest = ctx.group.statements
    if ctx.machine.isa not in ("avx512", "avx2"):
        return None
    windows = windows_of(first, rest)
    if windows is None or not all(is_plain(s) and _is_stored(s) for s in windows):
        return None
    places = ctx.once("places", lambda: places_of(ctx))
    windows = tuple(_in_lanes(ctx, bounds_first(ctx, s), places) for s in windows)
    first = windows[0]
    slid = frozenset[str]().union(*map(_slid, windows))
    looks = slid if first.reductions else asked_bounds(ctx, first) or _is_spread(ctx, first)
    if not looks and (first.reductions or not is_piece):
        return None
    if any(map(_sums_beyond_window, windows)):  # before the sizes of a call are asked for
        return None
    taps = values_of(ctx, first.reductions, MOST_TAPS)
    found = None if taps is None else _behind(ctx, windows, rest[len(windows) - 1 :])
    if taps is None or found is None:
        return None
    later, known = found
    statements = (*windows, *later)
    lane = _lane(ctx, first)
    if lane is None or not types_fit(ctx, statements, lane, known):
        return None
    if _is_row(ctx, first, lane):
        return None
    bits = vexpr.width_of(tuple(bare(ctx, s, s.value) for s in statements))
    assert bits is not None, "types fit"
    lanes = vexpr.lanes_of(bits, ctx.machine)
    if any(_is_for_tiles(ctx, s, lanes) for s in windows):
        return None
    others = [r for r in first.outputs if r != lane]
    rows = [r for r in others if r.name in slid]
    row = (rows or others)[-1] if others else None  # in the order of the text the nearest
    outer = tuple(r for r in others if r != row)
    outputs = {r.name for r in first.outputs}
    asked = [x for s in statements for x in asked_bounds(ctx, s)]
    if any(outputs.isdisjoint(n for n, _ in x.terms) for x in asked):
        return None  # what taps alone decide has no inside
    still = lane.name not in slid and not any(x.coefficient(lane.name) for x in asked)
    shares = bool(rows)
    return Stencil(windows, later, lane, row, outer, taps, bits, shares, shares and still)


def _is_row(ctx: Context, s: Statement, lane: Range) -> bool:
    """Whether the points of a window lie side by side and the lanes apart, without borders.

    So they do where an image has one window: its channels are the output's neighbours. As a row
    that is folded each window is vectors.
    """
    if not s.reductions or s.is_arg or asked_bounds(ctx, s):
        return False
    last = s.reductions[-1].name
    found = (place_of(ctx, r.tensor, r.subs) for r in s.reads() if r.subs)
    places = [x for x in found if x is not None and x.step(last) != ZERO]
    steps = [x.step(lane.name).constant for x in places]
    apart = all(step is not None and step > _FURTHEST for step in steps)
    return bool(places) and apart and all(x.step(last) == ONE for x in places)


def _in_lanes(ctx: Context, s: Statement, places: Mapping[str, Values]) -> Statement:
    """Return a statement with integers as wide as what else it computes, where that is exact."""
    if vexpr.width_of((bare(ctx, s, s.value),)) is not None:
        return s
    known = Intervals(ctx, s.ranges, places)
    return fitted(s, known, vexpr.integer_of(s.value.dtype.computed.bits)) or s


def _is_spread(ctx: Context, s: Statement) -> bool:
    """Whether what it writes lies apart, so that no pointwise form has vectors for it."""
    lane = _lane(ctx, s)
    place = place_of(ctx, s.target, s.subs)
    return lane is not None and place is not None and place.step(lane.name) != ONE


def _is_stored(s: Statement) -> bool:
    """Whether no place has to be filled in before the search."""
    return not s.is_arg or s.covers or s.base is not None


def _behind(
    ctx: Context, windows: tuple[Statement, ...], rest: Sequence[Statement]
) -> tuple[tuple[Statement, ...], Intervals] | None:
    """Return pointwise statements on what windows give, and what is known of their integers."""
    first = windows[0]
    later = finishes(first, {s.target for s in windows}, rest)
    if later is None:
        return None
    places = {s.target: v for s in windows if s.is_arg and (v := place_values(ctx, s)) is not None}
    known = Intervals(ctx, first.outputs, places)
    bits = vexpr.width_of(tuple(bare(ctx, s, s.value) for s in windows))
    if bits is None:
        return None
    out: list[Statement] = []
    for s in later:
        if vexpr.width_of((bare(ctx, s, s.value),)) == bits:
            out.append(s)
        elif (one := fitted(s, known, vexpr.integer_of(bits))) is not None:
            out.append(one)
        else:
            return None
    return tuple(out), known


def is_plain(s: Statement) -> bool:
    """Whether its points write elements of their own, and subscripts are affine and unchecked."""
    return not (
        s.is_ragged
        or not is_injective(s)
        or any(s.subs_checked)
        or any(any(r.checked) for r in s.reads())
        or any(affine_of(e) is None for r in s.reads() for e in r.subs)
    )


def asked_bounds(ctx: Context, s: Statement) -> list[Bound]:
    """Return the bounds of all choices that keep reads inside."""
    chosen = [x for x in walk_typed(s.value) if isinstance(x, typed.Select)]
    found = (guard_of(ctx, s, x) for x in chosen)
    return [y for x in found if x is not None for y in x.all]


def _slid(s: Statement) -> frozenset[str]:
    """Return the output indices along which taps slide, or shifted reads of one tensor lie."""
    outputs = {r.name for r in s.outputs}
    reduced = {r.name for r in s.reductions}
    found: set[str] = set()
    seen: dict[tuple[str, int, tuple[tuple[str, int], ...]], set[Size]] = {}
    for read in s.reads():
        for d, sub in enumerate(read.subs):
            a = affine_of(sub)
            names = {n for n, _ in a.terms} if a is not None else set()
            if a is None or not names & outputs:
                continue
            if names & reduced:
                found |= names & outputs
            shifts = seen.setdefault((read.tensor, d, a.terms), set())
            shifts.add(a.const)
            if len(shifts) > 1 and not reduced:
                found |= names & outputs
    return frozenset(found)


def _sums_beyond_window(s: Statement) -> bool:
    """Whether it is a product for register tiles, since it sums over more than the window."""
    reduced = {r.name for r in s.reductions}
    outputs = {r.name for r in s.outputs}
    for read in s.reads() if is_contraction(s) else ():
        names = [indices_of(e) for e in read.subs]
        taps = frozenset[str]().union(*(n & reduced for n in names if n & outputs))
        if taps and taps != reduced:
            return True
    return False


def _is_for_tiles(ctx: Context, s: Statement, lanes: int) -> bool:
    """Whether it is a product for register tiles: what slides is used for many other indices."""
    if not is_contraction(s):
        return False
    reduced = {r.name for r in s.reductions}
    outputs = {r.name for r in s.outputs}
    sliding: set[str] = set()
    for read in s.reads():
        names = [indices_of(e) for e in read.subs]
        if any(n & reduced and n & outputs for n in names):
            sliding |= frozenset().union(*names)
    columns = Size.const(1)
    for r in s.outputs:
        if r.name not in sliding:
            columns = columns * r.extent
    return ctx.at_least(columns, max(2, lanes // 2))


def _lane(ctx: Context, s: Statement) -> Range | None:
    """Return the output index along which the target's elements are neighbours, or nearly so.

    A gradient of a window of stride 2 writes every second element.
    """
    place = place_of(ctx, s.target, s.subs)
    if place is None:
        return None
    near = [r for r in s.outputs if _is_near(ctx, s, place.step(r.name))]
    return min(near, key=lambda r: place.step(r.name).constant or 0, default=None)


def _is_near(ctx: Context, s: Statement, step: Size) -> bool:
    stored = ctx.operands.memory_dtype(s.target)
    if stored.is_half or stored.computed.bits != s.value.dtype.computed.bits:
        return step == ONE
    return step.constant is not None and 1 <= step.constant <= _FURTHEST


def values_of(
    ctx: Context, ranges: Collection[Range], most: int
) -> tuple[tuple[str, range], ...] | None:
    """Return the values of indices, if they are known and few."""
    found = []
    for r in ranges:
        low = ctx.bind(r.low).constant
        extent = None if low is None else ctx.value_up_to(r.extent, most)
        if low is None or extent is None or extent < 1:
            return None
        found.append((r.name, range(low, low + extent)))
    return tuple(found) if prod(len(v) for _, v in found) <= most else None


def types_fit(
    ctx: Context,
    statements: Collection[Statement],
    lane: Range,
    known: Intervals | None = None,
    *,
    is_stored: bool = True,
) -> bool:
    """Whether all of it has vectors of one width; known: of its integers."""
    values = {s: bare(ctx, s, s.value) for s in statements}
    if vexpr.width_of(tuple(values.values())) is None:
        return False
    plain = known.is_quotient_of_c if known is not None else lambda _: False
    for s in statements:

        def varies(e: typed.Expr) -> bool:
            if isinstance(e, typed.IndexValue):
                return e.name == lane.name
            return isinstance(e, typed.Read) and lane.name in indices_of(e)

        def safe(_: typed.Read) -> bool:
            return True  # or bounds keep it inside

        if not is_covered(ctx, s, s.value):
            return False
        if vexpr.unsupported(values[s], vexpr.any_of(varies), safe, plain) is not None:
            return False
        narrow = {
            r.tensor
            for r in s.reads()
            if r.subs and r.dtype.bits < ctx.operands.buffer(r.tensor).dtype.bits
        }
        accesses = [(s.target, s.subs), *((r.tensor, r.subs) for r in s.reads() if r.subs)]
        for tensor, subs in accesses:
            place = place_of(ctx, tensor, subs)
            dtype = ctx.operands.buffer(tensor).dtype
            if place is None or dtype == BOOL:
                return False
            if tensor in narrow and place.step(lane.name) != ONE:
                return False
            if is_stored and tensor == s.target and not _is_near(ctx, s, place.step(lane.name)):
                return False
    return True
