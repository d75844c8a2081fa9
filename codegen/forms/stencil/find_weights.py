"""Whether a group is the gradient of a window by its weights, and which index has which role."""

from __future__ import annotations

from collections.abc import Collection

from tcdsl.codegen.forms.base import vexpr
from tcdsl.codegen.forms.base.access import ONE
from tcdsl.codegen.forms.base.context import Context
from tcdsl.codegen.forms.stencil.find import asked_bounds, is_plain, types_fit, values_of
from tcdsl.codegen.forms.stencil.problem import Stencil, bare, guard_of, place_of
from tcdsl.codegen.program.expressions import indices_of
from tcdsl.codegen.program.program import Statement
from tcdsl.grammar.proofs.sizes import Size
from tcdsl.grammar.types import typed
from tcdsl.grammar.types.typed import Range

_MOST_SUMS = 25  # 5x5: each has a register


def weights_of(ctx: Context) -> Stencil | None:
    """Return what a group is as the gradient of a window by its weights, or None.

        D(c, i, j) +=! G(n, c, h, w) * pad(I(n, c, h + i - 1, w + j - 1), 0)

    Here the taps are outputs, each with a sum of its own; rows and lanes are reduced.
    """
    return ctx.once("stencil weights", lambda: _find_weights(ctx))


def _find_weights(ctx: Context) -> Stencil | None:
    first, *rest = ctx.group.statements
    if rest or ctx.machine.isa not in ("avx512", "avx2") or not is_plain(first):
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
    is_last = lane is None
    if lane is None:
        lane = _channel(ctx, first, slid)
    if lane is None or not sums or not types_fit(ctx, (first,), lane, is_stored=False):
        return None
    kept = [r for r in first.outputs if r.name in slid]
    if not kept or any(reduced.isdisjoint(n for n, _ in x.terms) for x in asked_bounds(ctx, first)):
        return None  # what taps alone decide has no inside
    rows = [r for r in sums if r != lane]
    row = rows[-1] if rows else None
    others = tuple(r for r in first.ranges if r not in (lane, row, *kept))
    if is_last and any(x.coefficient(lane.name) for x in asked_bounds(ctx, first)):
        return None
    used = [frozenset(n for e in r.subs for n in indices_of(e)) for r in first.reads()]
    if any(r.name not in names for r in others if r.kind == "output" for names in used):
        return None  # a product for register tiles
    # last: the sizes of a call are asked for. Of a large window a unit has a row
    most = _MOST_SUMS if ctx.machine.has_masks or not is_last else ctx.machine.registers // 2 + 1
    found = (values_of(ctx, kept[n:], most) for n in range(len(kept)))
    taps = next((x for x in found if x is not None), None)
    if taps is None:
        return None
    outer = (*others, *kept[: len(kept) - len(taps)])
    bits = vexpr.width_of((bare(ctx, first, first.value),))
    assert bits is not None, "types fit"
    return Stencil((first,), (), lane, row, outer, taps, bits, row is not None, is_last)


def _channel(ctx: Context, s: Statement, slid: Collection[str]) -> Range | None:
    """Return the output index whose neighbours are neighbours in all that is read, if no tap."""
    for r in s.outputs:
        if r.name not in slid and all(step == ONE for step in _steps(ctx, s, r)):
            return r
    return None


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
