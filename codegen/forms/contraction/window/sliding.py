"""A convolution whose sizes only a call knows, by the roles of its indices.

    O(n, f, y, x) +=! P(n, c, 2*y + i, 2*x + j) * K(f, c, i, j)      strides are constants

Where sizes are known a form looks at the border and leaves out the taps that do not exist
(`problem.py`). Here a call does (`border.py`), and a register tile is the same wherever it lies.
"""

from __future__ import annotations

from collections.abc import Sequence

from tcdsl.codegen.forms.base.context import Context
from tcdsl.codegen.forms.contraction.problem import ONE, Index, Operand, Problem, known, reach_of
from tcdsl.codegen.forms.contraction.roles import operand_of
from tcdsl.codegen.forms.contraction.window.border import Border, borders_of
from tcdsl.codegen.forms.contraction.window.problem import image_and_weights
from tcdsl.codegen.program.group import Group
from tcdsl.codegen.program.padding import unpadded
from tcdsl.grammar.text.dataclass import dataclass

ALONE = Index("", ONE)  # the tap of a window without a width


@dataclass(frozen=True, slots=True)
class Sliding:
    """A convolution by roles.

    problem: the same as a contraction of pixels and columns, whose n runs along vectors of the
    output. group: without padding. column: the index along which vectors of the weights run. pixel:
    that of the register tile. sums: channels and taps, last of them the tap that slides along the
    tile; `ALONE` stands for that where a window has a height only. panels: outer indices of which
    the weights depend; lines: those of which they do not. across: where lines of the image end;
    borders: its other dimensions that do.
    """

    problem: Problem
    group: Group
    column: Index
    pixel: Index
    sums: tuple[Index, ...]
    tap: Index
    panels: tuple[Index, ...]
    lines: tuple[Index, ...]
    across: Border | None
    borders: tuple[Border, ...]

    @property
    def around(self) -> tuple[Index, ...]:
        """The sums but for the tap that slides along the register tile."""
        return tuple([i for i in self.sums if i != self.tap])

    @property
    def is_turned(self) -> bool:
        """Whether tiles are turned around before they are stored: vectors of pixels."""
        return self.problem.n != (self.column,)

    def step(self, index: Index) -> int:
        """Return the distance in the image along the pixels or the taps of the register tile."""
        return known(self.problem.a.stride(index.name))


def sliding_of(ctx: Context) -> Sliding | None:
    """Return a group as a convolution of unknown sizes, or None if it is none."""
    if ctx.spec.sizes is not None:
        return None
    bare = unpadded(ctx.group)
    group, guards = (ctx.group, ()) if bare is None else (bare.group, bare.guards)
    found = image_and_weights(ctx, group)
    if found is None:
        return None
    s, last = group.statements[0], group.statements[-1]
    reads, scale = found
    reach = reach_of(ctx)
    first, second = (operand_of(reach, s, r.tensor, r.subs) for r in reads)
    c = operand_of(reach, s, last.target, s.subs)
    if first is None or second is None or c is None:
        return None
    indices = {r.name: Index(r.name, reach.bind(r.extent)) for r in s.ranges}
    outputs = [indices[r.name] for r in s.outputs]
    taps = [indices[r.name] for r in s.reductions]
    all_borders = borders_of(reach, s, guards, taps)
    if all_borders is None:
        return None
    for a, b in ((first, second), (second, first)):
        if bare is not None and a.buffer != bare.buffer:
            continue
        columns = [i for i in outputs if b.uses(i.name) and not a.uses(i.name)]
        pixels = [i for i in outputs if a.uses(i.name) and not b.uses(i.name)]
        found_across = _across(a, c, pixels, taps)
        if not columns or found_across is None:
            continue
        pixel, tap = found_across
        mine, borders = _parted(all_borders, pixel, tap)
        if len(mine) > 1 or not all(_is_along(x, pixel, tap) for x in mine):
            continue
        column = max(columns, key=lambda i: c.stride(i.name) == ONE)
        m, n = ((pixel,), (column,))
        if c.stride(column.name) != ONE:
            m, n = n, m
        outer = tuple(i for i in outputs if i not in (pixel, column))
        around = tuple(i for i in taps if i != tap)
        if not around and any(x.tap is None for x in borders):
            continue  # no loop to leave out
        slid = () if tap is ALONE else (tap,)
        unit = c.linear(n) == ONE
        return Sliding(
            Problem(s, a, b, c, outer, m, n, tuple(taps), scale, s.value.dtype, unit),
            group,
            column,
            pixel,
            (*around, *slid),
            tap,
            tuple(i for i in outer if b.uses(i.name)),
            tuple(i for i in outer if not b.uses(i.name)),
            mine[0] if mine else None,
            borders,
        )
    return None


def _parted(
    borders: Sequence[Border], pixel: Index, tap: Index
) -> tuple[tuple[Border, ...], tuple[Border, ...]]:
    """Return the borders that a pixel of the tile or its tap has to do with, and the others."""
    mine = tuple(
        x for x in borders if pixel.name in dict(x.pixels) or (x.tap is not None and x.tap == tap)
    )
    return mine, tuple(x for x in borders if x not in mine)


def _is_along(border: Border, pixel: Index, tap: Index) -> bool:
    """Whether a border is that of lines, walked forwards, and of nothing else."""
    steps = dict(border.pixels)
    return set(steps) == {pixel.name} and steps[pixel.name] > 0 and border.tap in (None, tap)


def _across(
    a: Operand, c: Operand, pixels: Sequence[Index], taps: Sequence[Index]
) -> tuple[Index, Index] | None:
    """Return the pixel along which a tile lies, nearest in the output, then in a, and its tap.

    One that a tap slides along, if there is such; else one whose neighbours are apart in one of
    the two: a contraction is good at lines.
    """
    found: list[tuple[bool, bool, int, Index, Index]] = []
    for pixel in pixels:
        step = a.stride(pixel.name).constant
        for tap in taps if step is not None else ():
            near = c.stride(pixel.name) == ONE
            if a.shares_dim(tap.name, (pixel,)) and a.stride(tap.name).constant is not None:
                found.append((True, near, -abs(step or 0), pixel, tap))
            elif a.shares_dim(tap.name, pixels) and not (near and step == 1):
                found.append((False, near, -abs(step or 0), pixel, ALONE))
    return max(found, key=lambda x: x[:3])[3:] if found else None
