"""A convolution whose sizes only a call knows, by the roles of its indices.

    O(n, f, y, x) +=! P(n, c, 2*y + i, 2*x + j) * K(f, c, i, j)      strides are constants

Where sizes are known a form looks at the border and leaves out the taps that do not exist
(`problem.py`). Here the image has been padded before, or a task pads its lines (`padded.py`), so
all of them do, and a register tile is the same wherever it lies.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tcdsl.codegen.forms.base.context import Context
from tcdsl.codegen.forms.contraction.problem import ONE, Index, Operand, Problem, known, reach_of
from tcdsl.codegen.forms.contraction.roles import operand_of
from tcdsl.codegen.forms.contraction.window.padded import Part, part_of
from tcdsl.codegen.forms.contraction.window.problem import image_and_weights
from tcdsl.codegen.program.group import Group
from tcdsl.codegen.program.padding import copied
from tcdsl.grammar.text.dataclass import dataclass

ALONE = Index("", ONE)  # the tap of a window without a width


@dataclass(frozen=True, slots=True)
class Sliding:
    """A convolution by roles.

    problem: the same as a contraction of pixels and columns, whose n runs along vectors of the
    output. column: the index along which vectors of the weights run. pixel: that of the register
    tile. sums: channels and taps, last of them the tap that slides along the tile; `ALONE` stands
    for that where a window has a height only. panels: outer indices of which the weights depend;
    lines: those of which they do not. part: what a task makes of the image, of which the problem's
    `a` is then read; None: it has been padded before.
    """

    problem: Problem
    column: Index
    pixel: Index
    sums: tuple[Index, ...]
    tap: Index
    panels: tuple[Index, ...]
    lines: tuple[Index, ...]
    part: Part | None = None

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
    """Return a group as a convolution of unknown sizes, or None if it is none.

    A padding that it begins with is made by tasks, or by tasks of a phase before: each block of
    columns would make it anew, but in groups, which have few columns.
    """
    if ctx.spec.sizes is not None:
        return None
    padded = copied(ctx.group)
    if padded is None:
        return _sliding_of(ctx, ctx.group)
    bare = _sliding_of(ctx, padded.group)
    if bare is None or bare.problem.a.buffer != padded.padding.target:
        return None
    p = bare.problem
    roles = bare.pixel, bare.lines, bare.panels
    part = part_of(ctx, reach_of(ctx), padded, p.statement, p.a, *roles)
    if part is None or not (bare.panels or part.is_once):
        return None
    made = replace(bare, problem=replace(p, a=part.operand), part=part)
    steps = (part.operand.stride(i.name).constant for i in (made.pixel, made.tap))
    return None if None in steps else made


def _sliding_of(ctx: Context, group: Group) -> Sliding | None:
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
    for a, b in ((first, second), (second, first)):
        columns = [i for i in outputs if b.uses(i.name) and not a.uses(i.name)]
        pixels = [i for i in outputs if a.uses(i.name) and not b.uses(i.name)]
        across = _across(a, c, pixels, taps)
        if not columns or across is None:
            continue
        pixel, tap = across
        column = max(columns, key=lambda i: c.stride(i.name) == ONE)
        m, n = ((pixel,), (column,))
        if c.stride(column.name) != ONE:
            m, n = n, m
        outer = tuple(i for i in outputs if i not in (pixel, column))
        slid = () if tap is ALONE else (tap,)
        unit = c.linear(n) == ONE
        return Sliding(
            Problem(s, a, b, c, outer, m, n, tuple(taps), scale, s.value.dtype, unit),
            column,
            pixel,
            (*(i for i in taps if i != tap), *slid),
            tap,
            tuple(i for i in outer if b.uses(i.name)),
            tuple(i for i in outer if not b.uses(i.name)),
        )
    return None


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
