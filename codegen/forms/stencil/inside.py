"""What holds inside of all borders of a stencil, and whether blocks of it may overlap."""

from __future__ import annotations

from collections.abc import Iterable

from tcdsl.codegen.forms.base.context import Context
from tcdsl.codegen.forms.stencil.problem import Stencil, guard_of
from tcdsl.codegen.loops import build as b
from tcdsl.codegen.loops.loopir import Expr
from tcdsl.codegen.program.bounds import Bound
from tcdsl.codegen.program.expressions import walk_typed
from tcdsl.grammar.proofs.sizes import Size
from tcdsl.grammar.types import typed


def is_repeatable(stencil: Stencil) -> bool:
    """Whether points may be computed twice: what they read is no memory that they write.

    Then the last block of a line goes back to where it is whole, which costs less than masks that
    are not known before.

    An output lies where an operand does only if that is read at the very points that are written.
    """
    made = {s.target for s in stencil.statements}
    if any(r is not None and r.kind != "output" for r in (stencil.lane, stencil.row)):
        return False  # sums, each point of which counts once
    return not any(
        s.resumes or any(r.subs == s.subs and r.tensor not in made for r in s.reads())
        for s in stencil.statements
    )


def has_no_rest(low: Expr, high: Expr, part: int) -> bool:
    """Whether a range is known to be of whole parts, or shorter than one."""
    first, last = b.value_of(low), b.value_of(high)
    if first is None or last is None:
        return False
    return (last - first) % part == 0 or last - first < part


def has_parts_of(extent: int | None, part: int | None, least: int) -> bool:
    """Whether all parts of an extent, the last one too, are known to have so many points."""
    if extent is None or part is None:
        return False
    rest = extent % part
    return min(extent, part) >= least and (not rest or rest >= least)


def bounds_inside(ctx: Context, stencil: Stencil) -> tuple[Bound, ...]:
    """Return the bounds that hold inside of all borders."""
    found: list[Bound] = []
    for s in stencil.statements:
        for x in walk_typed(s.value):
            bounds = guard_of(ctx, s, x) if isinstance(x, typed.Select) else None
            if bounds is None:
                continue
            for tap in stencil.points():
                found += [y.moved({}, tap) for y in bounds.all]
    return strictest(found)


def strictest(bounds: Iterable[Bound]) -> tuple[Bound, ...]:
    """Return bounds without those that others imply: which differ from one by a number."""
    least: dict[tuple[object, Size], Bound] = {}
    for x in bounds:
        key = (x.terms, x.const - x.const.offset)
        if key not in least or x.const.offset < least[key].const.offset:
            least[key] = x
    return tuple(least.values())
