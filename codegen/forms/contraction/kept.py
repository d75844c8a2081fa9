"""Panels of a factor that no turn of a loop writes: packed once, before the loop."""

from __future__ import annotations

from math import prod

from tcdsl.codegen.forms.contraction.panel import Panel
from tcdsl.codegen.loops import build as b
from tcdsl.codegen.program.group import Group
from tcdsl.codegen.program.program import Program

_MOST_BYTES = 1 << 26  # beyond, a copy of a factor is too much


def loop_ahead(program: Program, group: Group, panel: Panel) -> int | None:
    """Return the outermost loop around a contraction before which its b can be packed.

    Nothing in it writes b, and all turns read the same elements. None where there is no such loop,
    or sizes are not known; where b is a batch of matrices or packed as words; where rows have sums
    of their own.
    """
    p, at = panel.problem, max(group.members)
    around = [(k, x) for k, x in enumerate(program.loops) if x.first <= at < x.last]
    if not around or p.statement.is_ragged or panel.neighbours is not None:
        return None
    if panel.words is not None:
        return None
    if any(p.b.uses(i.name) for i in p.outer):
        return None
    x = panel.extents()
    extents = [b.value_of(x.n), b.value_of(x.k)]
    known = [e for e in extents if e is not None]
    if len(known) < len(extents) or prod(known) * x.bytes > _MOST_BYTES:
        return None
    symbols = {*p.b.offset.symbols()}.union(*(s.symbols() for _, s in p.b.strides))
    home, found = program.buffer(p.b.buffer).home, None
    for k, loop in reversed(around):
        inside = program.statements[loop.first : loop.last]
        if loop.var in symbols or any(program.buffer(s.target).home == home for s in inside):
            break
        found = k
    return found
