"""The weight gradient of a convolution whose sizes only a call knows, by the roles of its indices.

    O(f, c, i, j) +=! B(n, f, y, x) * pad(A(n, c, 2*y + i - 1, 2*x + j - 1), 0)

Steps, spreads and where a line begins are constants, and so are the taps of a row of the window;
lengths of lines, images, channels and columns are not. So the taps that a border leaves out are
found by loop ends, where known sizes have lists of them (`problem.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tcdsl.codegen.forms.base.context import Context
from tcdsl.codegen.forms.contraction.problem import ONE, Index, Operand, Reach, reach_of
from tcdsl.codegen.forms.contraction.roles import operand_of
from tcdsl.codegen.forms.contraction.weights.problem import Roles, factors, roles_of
from tcdsl.codegen.program.affine import Affine, affine_of
from tcdsl.codegen.program.padding import Guard
from tcdsl.codegen.program.program import Statement
from tcdsl.grammar.proofs.sizes import Size
from tcdsl.grammar.text.dataclass import dataclass
from tcdsl.grammar.types import typed
from tcdsl.grammar.types.dtypes import DType

MOST_TAPS = 8  # of a row of the window: each is code in all micro-kernels


@dataclass(frozen=True, slots=True)
class SlidingAxis:
    """A reduction index with the tap that slides along it, both counted from 0.

    The image is read at `step * pixel + spread * tap + first`; the product exists where that is at
    least low and below high. None: it is not bounded so.
    """

    pixel: Index
    tap: Index | None
    step: int
    spread: int
    first: int
    low: int | None = None
    high: Size | None = None

    def start(self, tap: int) -> int:
        """Return the first pixel at which a tap may exist."""
        if self.low is None:
            return 0
        return max(0, -((self.spread * tap + self.first - self.low) // self.step))


@dataclass(frozen=True, slots=True)
class SlidingWeights:
    """A weight gradient by roles, of unknown sizes.

    axes: outer to inner; the last one's taps lie in a register tile. rows, channels, columns,
    outer: as of `problem.WeightGradient`.
    """

    statement: Statement
    a: Operand
    b: Operand
    c: Operand
    outer: tuple[Index, ...]
    rows: tuple[Index, ...]
    channels: tuple[Index, ...]
    columns: tuple[Index, ...]
    axes: tuple[SlidingAxis, ...]
    dtype: DType

    @property
    def tap(self) -> Index:
        """The tap that slides along a line."""
        tap = self.axes[-1].tap
        assert tap is not None, "a line without taps is a contraction"
        return tap


def sliding_weights_of(ctx: Context) -> SlidingWeights | None:
    """Return a group as a weight gradient of unknown sizes, or None if it is none."""
    if ctx.spec.sizes is not None:
        return None
    reach = reach_of(ctx)
    for s, image, other, guards in factors(ctx):
        found = _by_roles(reach, s, image, other, guards)
        if found is not None and _is_window(ctx, found):
            return found
    return None


def _by_roles(
    reach: Reach, s: Statement, image: typed.Read, other: typed.Read, guards: Sequence[Guard]
) -> SlidingWeights | None:
    a, b = (operand_of(reach, s, r.tensor, r.subs) for r in (image, other))
    c = operand_of(reach, s, s.target, s.subs)
    if a is None or b is None or c is None:
        return None
    indices = {r.name: Index(r.name, reach.bind(r.extent)) for r in s.ranges}
    if not all(a.uses(r.name) and b.uses(r.name) for r in s.reductions):
        return None
    axes = _axes(reach, s, image, indices, guards)
    if not axes:
        return None
    inner = next((x for x in axes if a.stride(x.pixel.name) == ONE * x.step), axes[-1])
    axes = [*(x for x in axes if x != inner), inner]
    roles: Roles | None = roles_of(a, b, c, indices, {x.tap.name for x in axes if x.tap})
    if roles is None or inner.tap is None:
        return None
    dtype = s.value.dtype.computed
    return SlidingWeights(s, a, b, c, *roles, tuple(axes), dtype)


def _axes(
    reach: Reach,
    s: Statement,
    image: typed.Read,
    indices: dict[str, Index],
    guards: Sequence[Guard],
) -> list[SlidingAxis]:
    """Return the axes in the order of the image's dimensions; none where a subscript is another."""
    reduced = {r.name for r in s.reductions}
    low = {r.name: reach.bind(r.low) for r in s.ranges}
    axes: list[SlidingAxis] = []
    left = list(guards)
    seen: list[str] = []
    for sub in image.subs:
        affine = affine_of(sub)
        if affine is None:
            return []
        pixels = [n for n, _ in affine.terms if n in reduced]
        taps = [n for n, _ in affine.terms if n not in reduced]
        seen += (n for n, _ in affine.terms)
        if len(pixels) > 1 or len(taps) > 1:
            return []
        if not pixels:
            continue
        first, step = reach.bind(affine.at(low)).constant, affine.coefficient(pixels[0])
        if first is None or step < 1:
            return []
        spread = affine.coefficient(taps[0]) if taps else 0
        tap = indices[taps[0]] if taps else None
        axis = SlidingAxis(indices[pixels[0]], tap, step, spread, first)
        for g in [g for g in left if g.at.terms == affine.terms]:
            bounded = _guarded(reach, axis, affine, g)
            if bounded is None:
                return []
            axis = bounded
            left.remove(g)
        axes.append(axis)
    return [] if left or len(set(seen)) != len(seen) else axes


def _guarded(reach: Reach, axis: SlidingAxis, affine: Affine, g: Guard) -> SlidingAxis | None:
    """Return an axis with the bounds of a guard on its subscript; None where it has others."""
    if axis.low is not None or axis.high is not None:
        return None
    shift = affine.const - g.at.const
    low = None if g.low is None else reach.bind(g.low + shift).constant
    if g.low is not None and low is None:
        return None
    return replace(axis, low=low, high=None if g.high is None else reach.bind(g.high + shift))


def _is_window(ctx: Context, p: SlidingWeights) -> bool:
    """Whether taps slide over more pixels than they are: else it is the convolution itself.

    Where neither says how many it is, calls are asked, once.
    """
    slid = [(x.pixel.extent, x.tap.extent) for x in p.axes if x.tap is not None]
    if any(pixels.constant is not None and taps.constant is None for pixels, taps in slid):
        return False
    pixels, taps = slid[-1]
    if taps.constant is not None and pixels.constant is not None:
        return taps.constant < pixels.constant
    return taps.constant is not None or ctx.at_least(pixels - taps, 1)
