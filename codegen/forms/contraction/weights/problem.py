"""What the weight gradient of a convolution is, whatever its indices are called.

    O(f, c, i, j) +=! B(n, f, y, x) * A(n, c, s*y + i - p, s*x + j - p)

The sum runs over pixels, and the output has the taps of the window. Subscripts of the image `A` are
`step * pixel + spread * tap + constant`, one axis each; an axis without a tap is a reduction index
that stands alone in its subscript (images, or a side on which the window is one wide). `B` has the
vectors: its own output indices are the columns. Where the image was padded, products exist only
where the subscript lies inside it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import NamedTuple

from tcdsl.codegen.forms.base.context import Context
from tcdsl.codegen.forms.contraction.problem import (
    ONE,
    Index,
    Operand,
    Reach,
    extent_of,
    known,
    reach_of,
)
from tcdsl.codegen.forms.contraction.roles import factors_of, is_one_to_one, operand_of
from tcdsl.codegen.program.affine import Affine, affine_of
from tcdsl.codegen.program.padding import Guard, unpadded
from tcdsl.codegen.program.program import Statement
from tcdsl.grammar.text.dataclass import dataclass
from tcdsl.grammar.types import typed
from tcdsl.grammar.types.dtypes import DType

FAR = 1 << 62  # beyond any subscript


@dataclass(frozen=True, slots=True)
class Axis:
    """A reduction index with the tap that slides along it, both counted from 0.

    The image is read at `step * pixel + spread * tap + first`; the product exists where that is at
    least low and below high. extent, taps: how many pixels and taps there are; of pixels a
    representative number where the extent of the index is left open.
    """

    pixel: Index
    tap: Index | None
    extent: int
    taps: int
    step: int
    spread: int
    first: int
    low: int = -FAR
    high: int = FAR

    def pixels(self, tap: int) -> range:
        """Return the pixels at which a tap exists."""
        at = self.spread * tap + self.first
        least, most = self.low - at, self.high - 1 - at  # of step * pixel
        if self.step < 0:
            least, most = -most, -least
        start = max(0, -(-least // abs(self.step)))
        return range(start, max(start, min(self.extent, most // abs(self.step) + 1)))

    @property
    def is_plain(self) -> bool:
        """Whether no tap slides along it, and nothing bounds it."""
        return self.tap is None and (self.low, self.high) == (-FAR, FAR)

    @property
    def is_whole(self) -> bool:
        """Whether all taps exist at all pixels."""
        return all(self.pixels(t) == range(self.extent) for t in range(self.taps))


@dataclass(frozen=True, slots=True)
class WeightGradient:
    """A weight gradient by roles, of known sizes. Strides may be run-time values.

    axes: outer to inner; the last one's taps lie in a register tile, the extent of the first may be
    left open. rows: the indices of the output that only the image has (channels and taps), in the
    order in which the output has them.
    channels, columns: fused indices, linear in the image and in b. outer: the other output indices.
    """

    statement: Statement
    a: Operand
    b: Operand
    c: Operand
    outer: tuple[Index, ...]
    rows: tuple[Index, ...]
    channels: tuple[Index, ...]
    columns: tuple[Index, ...]
    axes: tuple[Axis, ...]
    dtype: DType

    def row_stride(self, name: str) -> int:
        """Return the distance, in rows, between neighbours along an index of the rows."""
        at = next(n for n, i in enumerate(self.rows) if i.name == name)
        return count(self.rows[at + 1 :])

    @property
    def row_count(self) -> int:
        """The rows: channels times taps."""
        return count(self.rows)

    @property
    def column_count(self) -> int:
        """The columns."""
        return count(self.columns)

    @property
    def channel_count(self) -> int:
        """The channels."""
        return count(self.channels)

    @property
    def pixel_count(self) -> int:
        """The points of the sum."""
        return prod(x.extent for x in self.axes)

    @property
    def is_open(self) -> bool:
        """Whether it is the plan that sees how many images there are."""
        return self.axes[0].pixel.extent.constant is None

    @property
    def image_pixels(self) -> int:
        """The points of the sum at one pixel of the first axis."""
        return prod(x.extent for x in self.axes[1:])


def count(indices: tuple[Index, ...]) -> int:
    """Return the number of points of indices of known extents."""
    return known(extent_of(indices))


def gradient_of(ctx: Context) -> WeightGradient | None:
    """Return a group as a weight gradient, or None if it is none, or sizes are not known.

    Where either factor may be the image, it is the one that windows slide over, then the one that
    leaves more columns: the taps of the other would be the columns, a lane or three of a vector.
    """
    if ctx.spec.sizes is None:
        return None
    reach = reach_of(ctx)
    either = (_by_roles(ctx, reach, *said) for said in factors(ctx))
    found = [x for x in either if x is not None]
    return max(found, key=lambda x: (_is_window(x.axes), x.column_count), default=None)


def factors(
    ctx: Context,
) -> Iterator[tuple[Statement, typed.Read, typed.Read, tuple[Guard, ...]]]:
    """Yield a group as a sum, the factor that may be an image, the other, and the image's guards.

    In either order; nothing where the group is no such sum.
    """
    bare = unpadded(ctx.group)
    group, guards = (ctx.group, ()) if bare is None else (bare.group, bare.guards)
    if len(group.statements) != 1:
        return
    s = group.statements[0]
    found = factors_of(s.value)
    reads = [f for f in found if isinstance(f, typed.Read) and not any(f.checked)]
    if s.op not in ("+=", "+=!") or not s.covers or any(s.subs_checked) or not is_one_to_one(s):
        return
    if len(reads) != 2 or len(found) != 2 or not s.value.dtype.is_float:
        return
    if s.base is not None and _home(ctx, s.base) != _home(ctx, s.target):
        return
    names = (s.target, *(r.tensor for r in reads))
    if any(ctx.operands.memory_dtype(n) != s.value.dtype.computed for n in names):
        return
    for image, other in (reads, reads[::-1]):
        # b is read at all pixels: only the image may be the one that was padded
        if bare is None or bare.buffer != other.tensor:
            yield s, image, other, guards


def _home(ctx: Context, version: str) -> str:
    return ctx.program.buffer(version).home


def _by_roles(
    ctx: Context,
    reach: Reach,
    s: Statement,
    image: typed.Read,
    other: typed.Read,
    guards: Sequence[Guard],
) -> WeightGradient | None:
    a, b = (operand_of(reach, s, r.tensor, r.subs) for r in (image, other))
    c = operand_of(reach, s, s.target, s.subs)
    if a is None or b is None or c is None:
        return None
    indices = {r.name: Index(r.name, reach.bind(r.extent)) for r in s.ranges}
    reduced = {r.name for r in s.reductions}
    extents = [i.extent.constant for i in indices.values()]
    left_open = {i.name for i in indices.values() if i.extent.constant is None}
    if 0 in extents or not left_open <= reduced:
        return None
    if not all(a.uses(n) and b.uses(n) for n in reduced):
        return None
    axes = _axes(ctx, reach, s, image, indices, guards)
    if axes is None or not (left_open or _is_window(axes)):
        return None
    axes = _sorted(axes, a)
    if not left_open <= {axes[0].pixel.name} or (left_open and not axes[0].is_plain):
        return None
    taps = {x.tap.name for x in axes if x.tap is not None}
    roles = roles_of(a, b, c, indices, taps)
    if roles is None:
        return None
    return WeightGradient(s, a, b, c, *roles, tuple(axes), s.value.dtype.computed)


class Roles(NamedTuple):
    """What the indices of the output are: see `WeightGradient`."""

    outer: tuple[Index, ...]
    rows: tuple[Index, ...]
    channels: tuple[Index, ...]
    columns: tuple[Index, ...]


def roles_of(
    a: Operand, b: Operand, c: Operand, indices: Mapping[str, Index], taps: set[str]
) -> Roles | None:
    """Return the roles of the output's indices; None where it has no columns, or b has taps."""
    if any(b.uses(t) for t in taps):
        return None
    outputs = [indices[name] for name, _ in c.strides]
    mine = [i for i in outputs if _only(a, b, i)]
    channels = _fused(_last_run(mine, taps), a)
    columns = _fused((i for i in outputs if _only(b, a, i)), b)
    if not columns:
        return None
    rows = tuple(i for i in outputs if i in channels or i.name in taps)
    outer = tuple(i for i in outputs if i not in rows and i not in columns)
    return Roles(outer, rows, channels, columns)


def _is_window(axes: Sequence[Axis]) -> bool:
    """Whether taps slide over more pixels than they are: else it is the convolution itself.

    Which of unknown numbers of images it cannot be.
    """
    sliding = [x for x in axes if x.tap is not None]
    return prod(x.taps for x in sliding) < prod(x.extent for x in sliding)


def _only(mine: Operand, other: Operand, i: Index) -> bool:
    return mine.uses(i.name) and not other.uses(i.name)


def _last_run(indices: Sequence[Index], without: set[str]) -> tuple[Index, ...]:
    """Return the last neighbours that are none of some indices."""
    run: tuple[Index, ...] = ()
    for i in reversed(indices):
        if i.name not in without:
            run = (i, *run)
        elif run:
            break
    return run


def _fused(role: Iterable[Index], source: Operand) -> tuple[Index, ...]:
    """Return the innermost indices along which a source has one stride."""
    fused: tuple[Index, ...] = ()
    for i in reversed(tuple(role)):
        if source.linear((i, *fused)) is None:
            break
        fused = (i, *fused)
    return fused


def _sorted(axes: Sequence[Axis], a: Operand) -> list[Axis]:
    """Return the axes as the image has them, but one along which it has unit stride last."""
    inner = next((x for x in axes if a.stride(x.pixel.name) == ONE * x.step), axes[-1])
    return [*(x for x in axes if x != inner), inner]


def _axes(
    ctx: Context,
    reach: Reach,
    s: Statement,
    image: typed.Read,
    indices: dict[str, Index],
    guards: Sequence[Guard],
) -> list[Axis] | None:
    """Return the axes in the order of the image's dimensions; None where a subscript is another."""
    reduced = {r.name for r in s.reductions}
    low = {r.name: reach.bind(r.low) for r in s.ranges}
    axes: list[Axis] = []
    left = list(guards)
    seen: list[str] = []
    for sub in image.subs:
        affine = affine_of(sub)
        if affine is None:
            return None
        pixels = [n for n, _ in affine.terms if n in reduced]
        taps = [n for n, _ in affine.terms if n not in reduced]
        seen += (n for n, _ in affine.terms)
        if not pixels:
            if len(taps) > 1:
                return None
            continue
        if len(pixels) > 1 or len(taps) > 1:
            return None
        first = reach.bind(affine.at(low)).constant
        if first is None:
            return None
        pixel, tap = indices[pixels[0]], indices[taps[0]] if taps else None
        axis = Axis(
            pixel,
            tap,
            ctx.extent(pixel.extent),
            1 if tap is None else known(tap.extent),
            affine.coefficient(pixels[0]),
            affine.coefficient(taps[0]) if taps else 0,
            first,
        )
        mine = [g for g in left if g.at.terms == affine.terms]
        for g in mine:
            axis = _guarded(reach, axis, affine, g)
            left.remove(g)
        axes.append(axis)
    if left or len(set(seen)) != len(seen):
        return None
    return axes


def _guarded(reach: Reach, axis: Axis, affine: Affine, g: Guard) -> Axis:
    """Return an axis with the bounds of a guard on its subscript, maybe shifted."""
    shift = affine.const - g.at.const
    low = -FAR if g.low is None else known(reach.bind(g.low + shift))
    high = FAR if g.high is None else known(reach.bind(g.high + shift))
    return replace(axis, low=max(low, axis.low), high=min(high, axis.high))
