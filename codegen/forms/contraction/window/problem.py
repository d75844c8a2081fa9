"""What a convolution is, whatever its indices are called.

    O(n, f, y, x) +=! pad(I(n, c, s*y + i - p, s*x + j - p), 0) * K(f, c, i, j)

The image `a` is read at subscripts in which a pixel and a tap of the window meet; the weights `b`
have the columns (`f`), along which vectors run. `x` is the pixel index of the register tile, `j`
its tap: with exact sizes it is known which taps of a tile exist, and only these become code. Other
sums (`c`, `i`) are loops, over the taps that exist at a row of the output where the image is
padded. The coefficients may have any sign, and the output may be written with strides: the gradient
of the image is a convolution as well.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod

from tcdsl.codegen.forms.base.context import Context
from tcdsl.codegen.forms.base.outputs import is_injective
from tcdsl.codegen.forms.contraction.problem import (
    ONE,
    Index,
    Operand,
    Problem,
    Reach,
    extent_of,
    known,
    reach_of,
)
from tcdsl.codegen.forms.contraction.roles import factors_of, operand_of
from tcdsl.codegen.program.expressions import indices_of
from tcdsl.codegen.program.group import Group
from tcdsl.codegen.program.padding import Guard, pieces, unpadded
from tcdsl.codegen.program.program import Statement
from tcdsl.grammar.proofs.sizes import Size
from tcdsl.grammar.text.dataclass import dataclass
from tcdsl.grammar.types import typed

MOST_TAPS = 32  # of a row of the window: each is code in every micro-kernel


@dataclass(frozen=True, slots=True)
class Window:
    """A subscript `sum(coefficient * index) + const` of elements that exist in [low, high).

    Indices count from 0: const is the subscript at the first point of their ranges.
    """

    terms: tuple[tuple[str, int], ...]
    const: int
    low: int | None
    high: int | None

    def exists(self, at: Mapping[str, int]) -> bool:
        """Whether there is an element at a point."""
        here = self.const + sum(c * at[name] for name, c in self.terms)
        return (self.low is None or self.low <= here) and (self.high is None or here < self.high)

    def is_whole(self, extents: Mapping[str, int]) -> bool:
        """Whether there is an element at every point."""
        low = {name: 0 if c > 0 else extents[name] - 1 for name, c in self.terms}
        high = {name: extents[name] - 1 - v for name, v in low.items()}
        return self.exists(low) and self.exists(high)


@dataclass(frozen=True, slots=True)
class WindowSide:
    """A side of the image: an index of the output, and the tap that slides along it, if any.

    windows: what says which of their points have an element; none where all have. present: the
    taps that exist, by pixel.
    """

    pixel: Index
    tap: Index | None
    windows: tuple[Window, ...]
    present: tuple[range, ...]

    @property
    def pixels(self) -> int:
        """The number of pixels."""
        return len(self.present)


def side_of(pixel: Index, tap: Index | None, windows: tuple[Window, ...]) -> WindowSide:
    """Return a side; the taps of a pixel are neighbours, since a subscript is monotone."""
    slid = Index("", ONE) if tap is None else tap
    present: list[range] = []
    for x in range(known(pixel.extent)):
        found = [
            t
            for t in range(known(slid.extent))
            if all(w.exists({slid.name: t, pixel.name: x}) for w in windows)
        ]
        present.append(range(found[0], found[-1] + 1) if found else range(0))
    return WindowSide(pixel, tap, windows, tuple(present))


@dataclass(frozen=True, slots=True)
class Convolution:
    """A convolution by roles. Sizes are known; strides may be run-time values.

    problem: the same as a contraction of pixels and columns, whose n runs along vectors of the
    output. group: without padding. column: the index along which vectors of the weights run.
    across: the side of the register tile. sides: further ones, on which some taps do not exist.
    channels: reduction indices that are summed over as they are. panels: outer indices of which the
    weights depend, images: those of which they do not, whose extents may be left open. lines: the
    points of all `rows`, at representative sizes.
    """

    problem: Problem
    group: Group
    column: Index
    across: WindowSide
    sides: tuple[WindowSide, ...]
    channels: tuple[Index, ...]
    panels: tuple[Index, ...]
    images: tuple[Index, ...]
    lines: int

    @property
    def pays(self) -> bool:
        """Whether there is a window, or an output with gaps: else it is a plain contraction."""
        a, pixels = self.problem.a, (self.across.pixel, *self.rows)
        taps = (i for i in self.sums if a.shares_dim(i.name, pixels))
        windows = [w for s in (self.across, *self.sides) for w in s.windows]
        return bool(windows) or not self.problem.unit or any(known(i.extent) > 1 for i in taps)

    @property
    def is_turned(self) -> bool:
        """Whether tiles are turned around before they are stored: vectors of pixels."""
        return self.problem.n != (self.column,)

    @property
    def tap(self) -> Index:
        """The tap that slides along the register tile."""
        assert self.across.tap is not None, "sides without a tap are not across"
        return self.across.tap

    @property
    def rows(self) -> tuple[Index, ...]:
        """The indices that tell the lines of a block, in the order in which the output has them."""
        mine = {i.name: i for i in (*self.images, *(s.pixel for s in self.sides))}
        return tuple(mine[name] for name, _ in self.problem.c.strides if name in mine)

    @property
    def sums(self) -> tuple[Index, ...]:
        """The reduction indices in the order in which the weights are packed."""
        taps = (s.tap for s in self.sides)
        return (*self.channels, *(t for t in taps if t is not None), self.tap)

    @property
    def left_open(self) -> Size:
        """The product of the extents that are left open."""
        return extent_of(tuple(i for i in self.images if i.extent.constant is None))

    def step(self, index: Index) -> int:
        """Return the distance in the image along the pixels or the taps of the register tile."""
        return known(self.problem.a.stride(index.name))


def convolutions_of(ctx: Context) -> tuple[Convolution, ...]:
    """Return a group as convolutions that go along the same lines, mostly one; nothing if not."""
    if ctx.spec.sizes is None:
        return ()
    shape = ctx.program.buffer(ctx.group.statements[-1].target).shape
    spans = pieces(ctx.group.statements, shape)
    parts = [ctx.group.part(span.start, span.stop) for span in spans] or [ctx.group]
    found = [_convolution_of(replace(ctx, group=part, known={})) for part in parts]
    out = tuple(c for c in found if c is not None)
    if len(out) < len(found) or len({*map(_places, out)}) > 1:
        return ()
    return out if len(out) > 1 or out[0].pays or _serves_more(ctx, out[0]) else ()


def _serves_more(ctx: Context, c: Convolution) -> bool:
    """Whether it takes what a contraction would, so that one executable serves all images.

    That reads strided pixels where they lie, and loses nothing by it; with few registers it does.
    """
    is_open = c.left_open.constant is None
    return is_open and c.step(c.across.pixel) != 1 and not ctx.machine.has_few_registers


def _places(c: Convolution) -> tuple[object, ...]:
    """Return what convolutions have alike that share tasks: roles of the output's dimensions."""
    names = [name for name, _ in c.problem.c.strides]
    roles = [c.column], [c.across.pixel], c.panels, c.rows
    sizes = tuple(known(i.extent) for i in (c.column, *c.panels))
    return sizes, c.left_open, *(tuple(names.index(i.name) for i in role) for role in roles)


def _convolution_of(ctx: Context) -> Convolution | None:
    """Return a group as one convolution, or None if it is none."""
    bare = unpadded(ctx.group)
    group, guards = (ctx.group, ()) if bare is None else (bare.group, bare.guards)
    found = image_and_weights(ctx, group)
    if found is None:
        return None
    reads, scale = found
    reach = reach_of(ctx)
    for image, weights in (reads, reads[::-1]):
        if bare is None or image.tensor == bare.buffer:
            convolution = _by_roles(ctx, reach, group, guards, image, weights, scale)
            if convolution is not None:
                return convolution
    return None


def image_and_weights(
    ctx: Context, group: Group
) -> tuple[tuple[typed.Read, typed.Read], tuple[typed.Expr, ...]] | None:
    """Return the two factors that a group sums products of, in either order, and what scales them.

    None where it is no such sum, or not all of it has one type of float.
    """
    s = group.statements[0]
    factors = factors_of(s.value)
    reduced = {r.name for r in s.reductions}
    scale = tuple(f for f in factors if not indices_of(f) & reduced)
    reads = [f for f in factors if isinstance(f, typed.Read) and f not in scale]
    if s.op not in ("+=", "+=!") or not s.value.dtype.is_float or any(s.subs_checked):
        return None
    if not is_injective(s) or len(reads) != 2 or len(reads) + len(scale) != len(factors):
        return None
    last = group.statements[-1].target
    names = (last, s.target, *(r.tensor for r in reads))
    if any(ctx.operands.memory_dtype(n) != s.value.dtype for n in names):
        return None
    if any(any(r.checked) for r in reads) or s.value.dtype != s.value.dtype.computed:
        return None
    return (reads[0], reads[1]), scale


def _by_roles(
    ctx: Context,
    reach: Reach,
    group: Group,
    guards: Sequence[Guard],
    image: typed.Read,
    weights: typed.Read,
    scale: tuple[typed.Expr, ...],
) -> Convolution | None:
    s = group.statements[0]
    a, b = (operand_of(reach, s, r.tensor, r.subs) for r in (image, weights))
    last = group.statements[-1]
    c = operand_of(reach, s, last.target, s.subs)
    windows = _windows(reach, s, guards)
    if a is None or b is None or c is None or windows is None:
        return None
    indices = {r.name: Index(r.name, reach.bind(r.extent)) for r in s.ranges}
    left_open = {name for name, i in indices.items() if i.extent.constant is None}
    if not all(_is_image(name, s, a, b, windows) for name in left_open):
        return None
    extents = {name: known(i.extent) for name, i in indices.items() if name not in left_open}
    if not all(extents.get(r.name, 1) for r in s.outputs):
        return None
    is_empty = not all(extents.values())  # a residue without taps: nothing is read
    windows = () if is_empty else tuple(w for w in windows if not w.is_whole(extents))
    outputs = [indices[r.name] for r in s.outputs]
    columns = [i for i in outputs if b.uses(i.name) and not a.uses(i.name)]
    pixels = [i for i in outputs if a.uses(i.name) and not b.uses(i.name)]
    sums = [indices[r.name] for r in s.reductions]
    across = _across(a, c, pixels, sums, windows)
    if not columns or across is None:
        return None
    sides = _sides([i for i in pixels if i != across.pixel], sums, windows, across)
    if sides is None:
        return None
    column = max(columns, key=lambda i: (c.stride(i.name) == ONE, known(i.extent)))
    taken = {column.name, *(x.pixel.name for x in (across, *sides))}
    outer = [i for i in outputs if i.name not in taken]
    slid = {x.tap.name for x in (across, *sides) if x.tap is not None}
    m, n = ((across.pixel,), (column,))
    if c.stride(column.name) != ONE:
        m, n = n, m
    unit = c.linear(n) == ONE
    whole = tuple(outer), m, n, tuple(sums), scale, s.value.dtype, unit
    images = tuple(i for i in outer if not b.uses(i.name))
    return Convolution(
        Problem(s, a, b, c, *whole),
        group,
        column,
        across,
        sides,
        tuple(i for i in sums if i.name not in slid),
        tuple(i for i in outer if b.uses(i.name)),
        images,
        prod(ctx.extent(i.extent) for i in (*images, *(side.pixel for side in sides))),
    )


def _is_image(name: str, s: Statement, a: Operand, b: Operand, windows: Sequence[Window]) -> bool:
    """Whether an index tells images: nothing but the lines depends on how many there are."""
    is_free = a.uses(name) and not b.uses(name) and name in {r.name for r in s.outputs}
    return is_free and not any(name in dict(w.terms) for w in windows)


def _across(
    a: Operand,
    c: Operand,
    pixels: Sequence[Index],
    sums: Sequence[Index],
    windows: Sequence[Window],
) -> WindowSide | None:
    """Return the side of the register tile: one that slides, nearest in the output, then in a."""
    found: list[tuple[bool, int, Index, Index, tuple[Window, ...]]] = []
    for pixel in pixels:
        step = a.stride(pixel.name).constant
        mine = tuple(w for w in windows if pixel.name in dict(w.terms))
        if step is None:
            continue
        for tap in sums:
            others = {n for w in mine for n, _ in w.terms} - {pixel.name, tap.name}
            fits = a.shares_dim(tap.name, (pixel,)) and a.stride(tap.name).constant is not None
            alone = all(w in mine for w in windows if tap.name in dict(w.terms))
            if fits and alone and not others and known(tap.extent) <= MOST_TAPS:
                near = c.stride(pixel.name) == ONE
                found.append((near, -abs(step), pixel, tap, mine))
    return side_of(*max(found, key=lambda x: x[:2])[2:]) if found else None


def _sides(
    pixels: Sequence[Index],
    sums: Sequence[Index],
    windows: Sequence[Window],
    across: WindowSide,
) -> tuple[WindowSide, ...] | None:
    """Return the other sides on which taps are missing; None where windows are of other indices."""
    left = [w for w in windows if w not in across.windows]
    sides: list[WindowSide] = []
    for pixel in pixels:
        mine = tuple(w for w in left if pixel.name in dict(w.terms))
        others = {n for w in mine for n, _ in w.terms} - {pixel.name}
        taps = [i for i in sums if i.name in others]
        if not mine:
            continue
        if len(taps) != len(others) or len(taps) > 1:
            return None
        sides.append(side_of(pixel, taps[0] if taps else None, mine))
        left = [w for w in left if w not in mine]
    names = [s.tap.name for s in (across, *sides) if s.tap is not None]
    return tuple(sides) if not left and len(set(names)) == len(names) else None


def _windows(reach: Reach, s: Statement, guards: Sequence[Guard]) -> tuple[Window, ...] | None:
    """Return guards in numbers, or None if one depends on more than the sizes."""
    lows = {r.name: r.low for r in s.ranges}
    out: list[Window] = []
    for g in guards:
        ends = [None if e is None else reach.bind(e) for e in (g.at.at(lows), g.low, g.high)]
        if any(e is not None and e.constant is None for e in ends):
            return None
        at, low, high = (None if e is None else known(e) for e in ends)
        assert at is not None
        out.append(Window(g.at.terms, at, low, high))
    return tuple(out)
