"""What a stencil is: statements that look at neighbours, their vectors, their taps, their borders.

    O(n, c, h, w) +=! pad(I(n, c, h + i - 1, w + j - 1), 0) * K(c, i, j)

`w` walks memory in unit steps: neighbours along it are the lanes of vectors. `h` is slid over by
taps too: several of its values are computed together, and share what they read. The taps are all
points of (i, j), as many as the text can be unrolled over.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import product
from math import prod

from tcdsl.codegen.forms.base import vexpr
from tcdsl.codegen.forms.base.access import ONE, ZERO
from tcdsl.codegen.forms.base.context import Context
from tcdsl.codegen.forms.base.guarded import inside
from tcdsl.codegen.forms.base.space import strides_of
from tcdsl.codegen.program.affine import Affine, affine_of
from tcdsl.codegen.program.bounds import Bound, Bounds, bounds_of
from tcdsl.codegen.program.expressions import (
    conjunction,
    conjuncts,
    indices_of,
    map_typed,
    operands_of,
    reads_of,
    walk_typed,
)
from tcdsl.codegen.program.numbers import Numbers
from tcdsl.codegen.program.program import Statement
from tcdsl.grammar.proofs.signs import is_nonnegative
from tcdsl.grammar.proofs.sizes import Size
from tcdsl.grammar.text.dataclass import dataclass
from tcdsl.grammar.types import typed
from tcdsl.grammar.types.dtypes import BOOL
from tcdsl.grammar.types.typed import Range

MOST_ROWS = 6  # accumulators of a block beside the weights of a 3x3 window
SHUFFLED = (3, 4)  # steps of lanes that come from as many whole loads, as every second one does


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
    """Statements and the roles of their indices.

    Parameters
    ----------
    windows
        Those that look at neighbours, all at the same: one, or a maximum and its place.
    later
        Pointwise ones on what these give, over their indices.
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

    windows: tuple[Statement, ...]
    later: tuple[Statement, ...]
    lane: Range
    row: Range | None
    outer: tuple[Range, ...]
    taps: tuple[tuple[str, range], ...]
    bits: int
    shares: bool
    is_still: bool

    @property
    def statement(self) -> Statement:
        """The first one that looks at neighbours."""
        return self.windows[0]

    @property
    def statements(self) -> tuple[Statement, ...]:
        """All of them, in order."""
        return self.windows + self.later

    def points(self) -> Iterator[Mapping[str, int]]:
        """Yield the taps, in the order of the text."""
        names = [name for name, _ in self.taps]
        for values in product(*(values for _, values in self.taps)):
            yield dict(zip(names, values, strict=True))

    @property
    def tap_count(self) -> int:
        """How many taps there are; 1 where nothing is reduced."""
        return prod(len(values) for _, values in self.taps)


def place_of(ctx: Context, tensor: str, subs: tuple[typed.Expr, ...]) -> Place | None:
    """Return the address of an access, or None if a subscript is not affine.

    Each is asked for once a tap and line: a fifth of what a depthwise window takes to be lowered.
    """
    key = "place", tensor, *map(numbers_of(ctx).of, subs)  # their hash would walk them, each time
    found: Place | None = ctx.once(key, lambda: _place(ctx, tensor, subs))
    return found


def numbers_of(ctx: Context) -> Numbers:
    """Return the numbers of a group's expressions, which are the same ones at each tap."""
    return ctx.once("numbers", Numbers)


def _place(ctx: Context, tensor: str, subs: tuple[typed.Expr, ...]) -> Place | None:
    steps: dict[str, Size] = {}
    const = ZERO
    for sub, stride in zip(subs, strides_of(ctx.operands, tensor), strict=True):
        a = affine_of(sub)
        if a is None:
            return None
        const += a.const * stride
        for name, k in a.terms:
            steps[name] = steps.get(name, ZERO) + stride * k
    known = ((n, ctx.bind(step)) for n, step in sorted(steps.items()))
    return Place(tensor, tuple(t for t in known if t[1] != ZERO), ctx.bind(const))


def asked_taps(ctx: Context, s: Stencil) -> list[Range]:
    """Return the ranges of taps that only the regime of sizes tells."""
    taps = dict(s.taps)
    ranges = [r for r in s.statement.ranges if r.name in taps]
    return [r for r in ranges if ctx.bind(r.extent).constant is None]


def reloads(ctx: Context, s: Stencil) -> bool:
    """Whether registers do not hold a factor for each tap, as those of a convolution, and sums."""
    few = ctx.machine.registers // 2
    if ctx.machine.has_masks or s.tap_count <= few + 1 or s.is_still:
        return False
    return _has_factors(s)


def asks_memory(ctx: Context, s: Stencil) -> bool:
    """Whether the factor of a tap stays in memory, from where a product spreads it over lanes.

    So where registers do not hold them all beside sums and what a row of taps reads. Only products
    of the instruction set that has masks have such operands.
    """
    if not ctx.machine.has_masks or s.is_still:
        return False
    side = max((len(v) for _, v in s.taps), default=1)
    return s.tap_count + side + MOST_ROWS > ctx.machine.registers and _has_factors(s)


def _has_factors(s: Stencil) -> bool:
    """Whether something is read at taps that is the same in all lanes: weights."""
    taps = {n for n, _ in s.taps}
    used = [{n for e in r.subs for n in indices_of(e)} for x in s.windows for r in x.reads()]
    return any(taps & names and s.lane.name not in names for names in used)


def takes_apart(ctx: Context, s: Stencil) -> bool:
    """Whether some read takes every second element, or fewer: masks are several a vector then."""
    places = (place_of(ctx, r.tensor, r.subs) for x in s.statements for r in x.reads() if r.subs)
    return any(place is not None and place.step(s.lane.name) not in (ZERO, ONE) for place in places)


def is_apart(ctx: Context, s: Stencil) -> bool:
    """Whether neighbouring lanes are stored apart, as pieces of a tensor are that strides leave."""
    place = place_of(ctx, s.statement.target, s.statement.subs)
    return place is not None and place.step(s.lane.name) != ONE


def gathers(ctx: Context, s: Stencil) -> bool:
    """Whether the lanes of some read come one by one: they lie far apart, or nobody knows how far.

    The window of an image whose other dimension has neighbours in memory: a transposed one.
    """
    places = (place_of(ctx, r.tensor, r.subs) for x in s.statements for r in x.reads() if r.subs)
    steps = (place.step(s.lane.name).constant for place in places if place is not None)
    return any(step not in (0, 1, 2, *SHUFFLED) for step in steps)


def is_woven(ctx: Context, s: Stencil) -> bool:
    """Whether windows keep their points as halves of registers give every second element.

    So where all that they look at lies two apart, and nothing else tells lanes apart: the points
    are put in order once, where the window is complete.
    """
    if ctx.machine.isa != "avx2" or s.lane.kind != "output":
        return False
    windows = s.windows
    if any(x.resumes or x.op in ("=", "=!") for x in windows):
        return False
    return all(_is_of_seconds(ctx, s, x, x.value) for x in windows)


def _is_of_seconds(ctx: Context, s: Stencil, window: Statement, e: typed.Expr) -> bool:
    lane = s.lane.name
    match e:
        case typed.IndexValue(name):
            return name != lane
        case typed.Read(tensor, subs) if any(lane in indices_of(x) for x in subs):
            place, stored = place_of(ctx, tensor, subs), ctx.operands.memory_dtype(tensor)
            is_plain = not stored.is_half and stored.computed.bits == e.dtype.bits
            return place is not None and place.step(lane).constant == 2 and is_plain
        case typed.Select(_, then, other) if guard_of(ctx, window, e) is not None:
            parts = then, other
            is_plain = all(isinstance(x, typed.Read | typed.Lit) for x in parts)
            return is_plain and all(_is_of_seconds(ctx, s, window, x) for x in parts)
        case _:
            return all(_is_of_seconds(ctx, s, window, x) for x in vexpr.operands(e))


# ---- where elements exist


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

    Where the reads of the other branch need them, these are those of that branch. It is asked for
    each tap and line, and worked out once.
    """
    return ctx.once(("guard", id(s), id(e)), lambda: (s, e, _guard_of(ctx, s, e)))[2]


def _guard_of(ctx: Context, s: Statement, e: typed.Select) -> Bounds | None:
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


def bounds_first(ctx: Context, s: Statement) -> Statement:
    """Return a statement in which bounds that reads need are choices of their own.

    x < W && P(x) == 3 ? G(x) : 0   ->   x < W ? P(x) == 3 ? G(x) : 0 : 0
    """
    ranges = {r.name: r for r in s.ranges}

    def one(e: typed.Expr) -> typed.Expr:
        match e:
            case typed.Select(cond, _, typed.Lit()):
                parts = [*conjuncts(cond)]
                known = [bounds_of(x, ranges, ctx.spec.sizes) is not None for x in parts]
                asked = [x for x, is_bound in zip(parts, known, strict=True) if is_bound]
                rest = [x for x, is_bound in zip(parts, known, strict=True) if not is_bound]
                if asked and rest and is_unsafe(ctx, s, e):  # asked last: e is another in each call
                    return replace(
                        e, cond=conjunction(asked), then=replace(e, cond=conjunction(rest))
                    )
        return e

    value = map_typed(s.value, one)
    return s if value == s.value else replace(s, value=value)


def is_covered(ctx: Context, s: Statement, e: typed.Expr, given: tuple[Bound, ...] = ()) -> bool:
    """Whether every condition before a read that needs one is made of bounds.

    given: those that hold around e; what they keep inside needs no other condition.
    """
    match e:
        case typed.Select(cond, then, other):
            bounds = guard_of(ctx, s, e)
            if bounds is None and not all(_is_kept(ctx, s, x, given) for x in (then, other)):
                return False
            held = [(cond, given), (then, given), (other, given)]
            if bounds is not None:
                inside = (*given, *bounds.all)
                held[1 if bounds.keeps_then else 2] = (
                    then if bounds.keeps_then else other,
                    inside,
                )
            return all(is_covered(ctx, s, x, y) for x, y in held)
        case typed.Binary("&&" | "||", lhs, rhs):
            return _is_kept(ctx, s, rhs, given) and is_covered(ctx, s, lhs, given)
        case _:
            return all(is_covered(ctx, s, x, given) for x in vexpr.operands(e))


def _is_kept(ctx: Context, s: Statement, e: typed.Expr, given: tuple[Bound, ...]) -> bool:
    """Whether ranges and bounds that hold around e prove all its reads inside."""
    if not is_unsafe(ctx, s, e):
        return True
    unsafe = [x for x in reads_of(e) if is_unsafe(ctx, s, x)]
    sides = (y for r in unsafe for y, is_proven in borders_of(ctx, s, r) if not is_proven)
    return all(any(_follows(y, x) for x in given) for y in sides)


def _follows(wanted: Bound, given: Bound) -> bool:
    return wanted.terms == given.terms and is_nonnegative(wanted.const - given.const)


def borders_of(ctx: Context, s: Statement, read: typed.Read) -> Iterator[tuple[Bound, bool]]:
    """Yield the bounds of a read, and whether the ranges alone prove them."""
    dims = {r.name: r for r in s.ranges}
    for sub, extent in zip(read.subs, ctx.operands.buffer(read.tensor).shape, strict=True):
        a = affine_of(sub)
        assert a is not None, "it is plain"
        for sign, const in ((1, a.const), (-1, extent - 1 - a.const)):
            terms = tuple(sorted((n, sign * k) for n, k in a.terms))
            least, _ = Affine(terms, const).ends(dims)
            yield Bound(terms, ctx.bind(const)), is_nonnegative(ctx.bind(least))


def bare(ctx: Context, s: Statement, e: typed.Expr) -> typed.Expr:
    """Return e without the conditions that become masks."""

    def one(x: typed.Expr) -> typed.Expr:
        if isinstance(x, typed.Select) and guard_of(ctx, s, x) is not None:
            return replace(x, cond=typed.Lit(True, BOOL))
        return x

    return map_typed(e, one)
