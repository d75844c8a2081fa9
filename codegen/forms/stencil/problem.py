"""What a stencil is: a statement that looks at neighbours, its vectors, its taps, its borders.

    O(n, c, h, w) +=! pad(I(n, c, h + i - 1, w + j - 1), 0) * K(c, i, j)

`w` walks memory in unit steps: neighbours along it are the lanes of vectors. `h` is slid over by
taps too: several of its values are computed together, and share what they read. The taps are all
points of (i, j), as many as the text can be unrolled over.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from itertools import product
from math import prod

from tcdsl.codegen.forms.base import vexpr
from tcdsl.codegen.forms.base.access import ONE, ZERO
from tcdsl.codegen.forms.base.context import Context
from tcdsl.codegen.forms.base.guarded import inside
from tcdsl.codegen.forms.base.outputs import is_injective
from tcdsl.codegen.forms.base.space import strides_of
from tcdsl.codegen.program.affine import affine_of
from tcdsl.codegen.program.bounds import Bound, Bounds, bounds_of
from tcdsl.codegen.program.expressions import (
    indices_of,
    map_typed,
    operands_of,
    substitute_indices,
    walk_typed,
)
from tcdsl.codegen.program.inline import is_contraction
from tcdsl.codegen.program.program import Statement
from tcdsl.grammar.proofs.signs import substitute_symbols
from tcdsl.grammar.proofs.sizes import Size
from tcdsl.grammar.text.dataclass import dataclass
from tcdsl.grammar.types import typed
from tcdsl.grammar.types.dtypes import BOOL
from tcdsl.grammar.types.typed import Range

MOST_TAPS = 81  # 9x9
_MOST_SUMS = 25  # 5x5, of the gradient by the weights: each has a register
_FURTHEST = 4  # elements between neighbours of a target


@dataclass(frozen=True, slots=True)
class Place:
    """An address: const + sum of index * step, in elements."""

    tensor: str
    terms: tuple[tuple[str, Size], ...]
    const: Size

    def step(self, name: str) -> Size:
        """Return the distance of neighbours along an index."""
        return dict(self.terms).get(name, ZERO)


@dataclass(frozen=True, slots=True)
class Stencil:
    """A statement and the roles of its indices.

    Parameters
    ----------
    statements
        The one that looks at neighbours, then pointwise ones on what it gives, over its indices.
    lane
        The output index along the lanes of vectors.
    row
        An output index that is run through under one value of the outer ones.
    outer
        The other output indices.
    taps
        The values of each reduction index, in the order of the text; its product is unrolled.
    bits
        Of a lane.
    shares
        Whether neighbouring rows share what they read, so that several are computed together.
    is_still
        Whether what vectors hold does not slide along the lanes: channels last.
    """

    statements: tuple[Statement, ...]
    lane: Range
    row: Range | None
    outer: tuple[Range, ...]
    taps: tuple[tuple[str, range], ...]
    bits: int
    shares: bool
    is_still: bool

    @property
    def statement(self) -> Statement:
        """The one that looks at neighbours."""
        return self.statements[0]

    def points(self) -> Iterator[Mapping[str, int]]:
        """Yield the taps, in the order of the text."""
        names = [name for name, _ in self.taps]
        for values in product(*(values for _, values in self.taps)):
            yield dict(zip(names, values, strict=True))

    @property
    def tap_count(self) -> int:
        """How many taps there are; 1 where nothing is reduced."""
        return prod(len(values) for _, values in self.taps)


def stencil_of(ctx: Context) -> Stencil | None:
    """Return what a group is as a stencil, or None where it is none or has no vectors."""
    return ctx.once("stencil", lambda: _find(ctx))


def weights_of(ctx: Context) -> Stencil | None:
    """Return what a group is as the gradient of a window by its weights, or None.

        D(c, i, j) +=! G(n, c, h, w) * pad(I(n, c, h + i - 1, w + j - 1), 0)

    Here the taps are outputs, each with a sum of its own; rows and lanes are reduced.
    """
    return ctx.once("stencil weights", lambda: _find_weights(ctx))


def place_of(ctx: Context, tensor: str, subs: tuple[typed.Expr, ...]) -> Place | None:
    """Return the address of an access, or None if a subscript is not affine."""
    by = {n: Size.const(v) for n, v in ctx.spec.sizes or ()}
    steps: dict[str, Size] = {}
    const = ZERO
    for sub, stride in zip(subs, strides_of(ctx.operands, tensor), strict=True):
        a = affine_of(sub)
        if a is None:
            return None
        const += a.const * stride
        for name, k in a.terms:
            steps[name] = steps.get(name, ZERO) + stride * k
    known = ((n, substitute_symbols(step, by)) for n, step in sorted(steps.items()))
    return Place(tensor, tuple(t for t in known if t[1] != ZERO), substitute_symbols(const, by))


def is_unsafe(ctx: Context, s: Statement, e: typed.Expr) -> bool:
    """Whether the ranges alone do not prove all reads in e inside."""
    _, known = ctx.once(("unsafe", id(s.value)), lambda: (s.value, _unsafe(ctx, s, s.value)))
    found = known.get(id(e))
    return _unsafe(ctx, s, e)[id(e)] if found is None else found


def _unsafe(ctx: Context, s: Statement, whole: typed.Expr) -> dict[int, bool]:
    """Return the answers for all parts of an expression, so that long ones are walked once."""
    dims = {r.name: r for r in s.ranges}
    found: dict[int, bool] = {}
    for e in reversed([*walk_typed(whole)]):  # parts before what they are parts of
        outside = isinstance(e, typed.Read) and bool(e.subs) and not inside(ctx, e, dims)
        found[id(e)] = outside or any(found[id(x)] for x in operands_of(e))
    return found


def guard_of(ctx: Context, s: Statement, e: typed.Select) -> Bounds | None:
    """Return the bounds that a choice asks for its reads, or None if it needs none.

    Where the reads of the other branch need them, these are those of that branch.
    """
    then, other = (is_unsafe(ctx, s, x) for x in (e.then, e.other))
    if not (then or other):
        return None
    bounds = bounds_of(e.cond, {r.name: r for r in s.ranges}, ctx.spec.sizes)
    if bounds is None:
        return None
    if other and (then or len(bounds) > 1):
        return None  # what is not inside of several bounds is no range
    if not other:
        return Bounds(bounds, keeps_then=True)
    (only,) = bounds
    return Bounds((only.negated(),), keeps_then=False)


# ---- whether a group is one


def _find(ctx: Context) -> Stencil | None:
    first, *rest = ctx.group.statements
    if ctx.machine.isa not in ("avx512", "avx2") or not _is_plain(first):
        return None
    slid = _slid(first)
    if not (slid if first.reductions else _asked(ctx, first)):
        return None
    later = _finishes(ctx, first, rest)
    if later is None:
        return None
    statements = (first, *later)
    lane = _lane(ctx, first)
    if lane is None or not _types_fit(ctx, statements, lane):
        return None
    if _is_for_tiles(ctx, first, lanes_of_all(ctx, statements)):
        return None
    taps = _values(ctx, first.reductions, MOST_TAPS)
    if taps is None:
        return None
    others = [r for r in first.outputs if r != lane]
    rows = [r for r in others if r.name in slid]
    row = (rows or others)[-1] if others else None  # in the order of the text the nearest
    outer = tuple(r for r in others if r != row)
    outputs = {r.name for r in first.outputs}
    asked = [x for s in statements for x in _asked(ctx, s)]
    if any(outputs.isdisjoint(n for n, _ in x.terms) for x in asked):
        return None  # what taps alone decide has no inside
    bits = vexpr.width_of(tuple(_bare(ctx, s, s.value) for s in statements))
    assert bits is not None, "types fit"
    still = lane.name not in slid and not any(x.coefficient(lane.name) for x in asked)
    shares = bool(rows)
    return Stencil(statements, lane, row, outer, taps, bits, shares, shares and still)


def _find_weights(ctx: Context) -> Stencil | None:
    first, *rest = ctx.group.statements
    if rest or ctx.machine.isa not in ("avx512", "avx2") or not _is_plain(first):
        return None
    if first.op not in ("+=", "+=!") or first.resumes or not _vanishes(ctx, first, first.value):
        return None
    reduced, outputs = ({r.name for r in x} for x in (first.reductions, first.outputs))
    slid: set[str] = set()
    for read in first.reads():
        for names in (indices_of(e) for e in read.subs):
            if names & reduced and names & outputs:
                slid |= names
    sums = [r for r in first.reductions if r.name in slid]
    along = [_steps(ctx, first, r) for r in sums]
    lane = next((r for r, steps in zip(sums, along, strict=True) if ONE in steps), None)
    if lane is None or not _types_fit(ctx, (first,), lane, is_stored=False):
        return None
    taps = _values(ctx, [r for r in first.outputs if r.name in slid], _MOST_SUMS)
    asked = _asked(ctx, first)
    if not taps or any(reduced.isdisjoint(n for n, _ in x.terms) for x in asked):
        return None  # what taps alone decide has no inside
    rows = [r for r in sums if r != lane]
    row = rows[-1] if rows else None
    outer = tuple(r for r in first.ranges if r not in (lane, row) and r.name not in dict(taps))
    used = [frozenset(n for e in r.subs for n in indices_of(e)) for r in first.reads()]
    if any(r.name not in names for r in outer if r.kind == "output" for names in used):
        return None  # a product for register tiles
    bits = vexpr.width_of((_bare(ctx, first, first.value),))
    assert bits is not None, "types fit"
    return Stencil((first,), lane, row, outer, taps, bits, row is not None, False)


def _vanishes(ctx: Context, s: Statement, e: typed.Expr) -> bool:
    """Whether a value is 0 where what it reads is: lanes outside need no mask then."""
    match e:
        case typed.Read(subs=subs):
            return bool(subs)
        case typed.Binary("*", lhs, rhs):
            return _vanishes(ctx, s, lhs) and _vanishes(ctx, s, rhs)
        case typed.Select(_, typed.Read(subs=subs), typed.Lit(value)) if value == 0:
            return bool(subs) and guard_of(ctx, s, e) is not None
        case _:
            return False


def _steps(ctx: Context, s: Statement, r: Range) -> list[Size]:
    """Return the distances of neighbours along an index in all that is read."""
    places = (place_of(ctx, x.tensor, x.subs) for x in s.reads() if x.subs)
    return [place.step(r.name) for place in places if place is not None]


def _is_plain(s: Statement) -> bool:
    return not (
        s.op.startswith("arg")
        or s.is_ragged
        or not is_injective(s)
        or any(s.subs_checked)
        or any(any(r.checked) for r in s.reads())
        or any(affine_of(e) is None for r in s.reads() for e in r.subs)
    )


def _asked(ctx: Context, s: Statement) -> list[Bound]:
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


def _is_for_tiles(ctx: Context, s: Statement, lanes: int) -> bool:
    """Whether it is a product for register tiles.

    Either sums over more than the window, or what slides is used for many other indices.
    """
    if not is_contraction(s):
        return False
    reduced = {r.name for r in s.reductions}
    outputs = {r.name for r in s.outputs}
    sliding: set[str] = set()
    for read in s.reads():
        names = [indices_of(e) for e in read.subs]
        if any(n & reduced and n & outputs for n in names):
            sliding |= frozenset().union(*names)
            taps = frozenset().union(*(n & reduced for n in names if n & outputs))
            if taps != reduced:
                return True
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
    if ctx.operands.memory_dtype(s.target).is_half:
        return step == ONE
    return step.constant is not None and 1 <= step.constant <= _FURTHEST


def _values(
    ctx: Context, ranges: Collection[Range], most: int
) -> tuple[tuple[str, range], ...] | None:
    """Return the values of indices, if they are known and few."""
    found = []
    by = {n: Size.const(v) for n, v in ctx.spec.sizes or ()}
    for r in ranges:
        low = substitute_symbols(r.low, by).constant
        extent = None if low is None else ctx.value_up_to(r.extent, most)
        if low is None or extent is None or extent < 1:
            return None
        found.append((r.name, range(low, low + extent)))
    return tuple(found) if prod(len(v) for _, v in found) <= most else None


def asked_taps(ctx: Context, s: Stencil) -> list[Range]:
    """Return the ranges of taps that only the regime of sizes tells."""
    by = {n: Size.const(v) for n, v in ctx.spec.sizes or ()}
    taps = dict(s.taps)
    ranges = [r for r in s.statement.ranges if r.name in taps]
    return [r for r in ranges if substitute_symbols(r.extent, by).constant is None]


def _finishes(
    ctx: Context, first: Statement, rest: Collection[Statement]
) -> tuple[Statement, ...] | None:
    """Return pointwise statements on what the first one gives, over its indices; None if not so."""
    out: list[Statement] = []
    for s in rest:
        plain = [a.plain if (a := affine_of(e)) is not None else None for e in s.subs]
        aims = [a.plain if (a := affine_of(e)) is not None else None for e in first.subs]
        if s.op != "=" or s.reductions or s.base is not None or not s.covers or None in plain:
            return None
        if len(s.outputs) != len(first.outputs) or len(set(plain)) != len(s.outputs):
            return None
        if None in aims or not _is_plain(s):
            return None
        names = _meeting(s, {first.target, *(x.target for x in out)}, aims)
        if names is None:
            return None
        by = {
            old: typed.IndexValue(new, next(e.dtype for e in s.subs)) for old, new in names.items()
        }
        ranges = {r.name: r for r in first.outputs}
        if any(
            (r.low, r.high) != (ranges[names[r.name]].low, ranges[names[r.name]].high)
            for r in s.outputs
        ):
            return None
        out.append(_renamed(s, by, first.outputs))
    return tuple(out)


def _meeting(s: Statement, made: Collection[str], aims: list[str | None]) -> dict[str, str] | None:
    """Return the indices of a statement by those of the one whose elements it reads."""
    found: dict[str, str] = {}
    for read in s.reads():
        if read.tensor not in made:
            continue
        for sub, aim in zip(read.subs, aims, strict=True):
            a = affine_of(sub)
            if a is None or a.plain is None or aim is None:
                return None
            if found.setdefault(a.plain, aim) != aim:
                return None
    names = {r.name for r in s.outputs}
    complete = set(found) == names and len(set(found.values())) == len(names)
    return found if complete else None


def _renamed(s: Statement, by: Mapping[str, typed.Expr], ranges: tuple[Range, ...]) -> Statement:
    value = substitute_indices(s.value, by)
    subs = tuple(substitute_indices(e, by, address=True) for e in s.subs)
    return replace(s, value=value, subs=subs, ranges=ranges)


def _is_covered(ctx: Context, s: Statement, e: typed.Expr) -> bool:
    """Whether every condition before a read that needs one is made of bounds."""
    match e:
        case typed.Select(cond, then, other):
            needy = any(is_unsafe(ctx, s, x) for x in (then, other))
            if needy and guard_of(ctx, s, e) is None:
                return False
            return all(_is_covered(ctx, s, x) for x in (cond, then, other))
        case typed.Binary("&&" | "||", lhs, rhs):
            return not is_unsafe(ctx, s, rhs) and _is_covered(ctx, s, lhs)
        case _:
            return all(_is_covered(ctx, s, x) for x in vexpr.operands(e))


def _bare(ctx: Context, s: Statement, e: typed.Expr) -> typed.Expr:
    """Return e without the conditions that become masks."""

    def one(x: typed.Expr) -> typed.Expr:
        if isinstance(x, typed.Select) and guard_of(ctx, s, x) is not None:
            return replace(x, cond=typed.Lit(True, BOOL))
        return x

    return map_typed(e, one)


def lanes_of_all(ctx: Context, statements: Collection[Statement]) -> int:
    """Return the lanes of a vector that suits all statements."""
    bits = vexpr.width_of(tuple(_bare(ctx, s, s.value) for s in statements))
    assert bits is not None, "types fit"
    return vexpr.lanes_of(bits, ctx.machine)


def _types_fit(
    ctx: Context, statements: Collection[Statement], lane: Range, *, is_stored: bool = True
) -> bool:
    """Whether all of it has vectors of one width."""
    bare = {s: _bare(ctx, s, s.value) for s in statements}
    if vexpr.width_of(tuple(bare.values())) is None:
        return False
    for s in statements:

        def varies(e: typed.Expr) -> bool:
            if isinstance(e, typed.IndexValue):
                return e.name == lane.name
            return isinstance(e, typed.Read) and lane.name in indices_of(e)

        def safe(_: typed.Read) -> bool:
            return True  # or bounds keep it inside

        if not _is_covered(ctx, s, s.value):
            return False
        if vexpr.unsupported(bare[s], vexpr.any_of(varies), safe) is not None:
            return False
        accesses = [(s.target, s.subs), *((r.tensor, r.subs) for r in s.reads() if r.subs)]
        for tensor, subs in accesses:
            place = place_of(ctx, tensor, subs)
            dtype = ctx.operands.buffer(tensor).dtype
            if place is None or dtype == BOOL:
                return False
            if is_stored and tensor == s.target and not _is_near(ctx, s, place.step(lane.name)):
                return False
    return True
