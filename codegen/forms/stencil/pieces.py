"""Stencils that write one tensor in turns, each its own piece: what strides leave of a gradient.

    D(2*y)   +=! P(y) == 1 ? G(y) : 0
    D(2*y+1) +=! y - i < H - 1 && P(y - i + 1) == 2*i ? G(y - i + 1) : 0

A unit has the same outer indices and parts in all of them: the lines of the tensor, and what all of
them read, are in the cache from the first piece on.
"""

from __future__ import annotations

from dataclasses import replace

from tcdsl.codegen.forms.base.context import Context
from tcdsl.codegen.forms.stencil.find import piece_of, stencil_of
from tcdsl.codegen.forms.stencil.problem import Stencil, asked_taps
from tcdsl.codegen.program.padding import are_pieces_apart
from tcdsl.grammar.text.dataclass import dataclass
from tcdsl.grammar.types.typed import Range


@dataclass(frozen=True, slots=True)
class Piece:
    """A stencil of a group, and its part of the group."""

    ctx: Context
    stencil: Stencil


def pieces_of(ctx: Context) -> tuple[Piece, ...]:
    """Return the stencils of a group: one, or all pieces of a tensor; none where it has others."""
    return ctx.once("stencil pieces", lambda: _find(ctx))


def _find(ctx: Context) -> tuple[Piece, ...]:
    whole = stencil_of(ctx)
    if whole is not None:
        return (Piece(ctx, whole),)
    statements = ctx.group.statements
    target = ctx.operands.buffer(statements[-1].target)
    if not are_pieces_apart(statements, target.shape):
        return ()
    homes = {ctx.operands.buffer(r.tensor).home for s in statements for r in s.reads()}
    if target.home in homes:
        return ()
    out: list[Piece] = []
    for n in range(len(statements)):
        part = replace(ctx, group=ctx.group.part(n, n + 1), known={})
        found = piece_of(part)
        if found is None or asked_taps(part, found):
            return ()
        out.append(Piece(part, found))
    row = max((p.stencil for p in out), key=lambda s: s.tap_count).row
    out = [replace(p, stencil=_along(p.stencil, row)) for p in out]
    if len({_outer(p.stencil) for p in out}) > 1:
        return ()
    still = all(p.stencil.is_still for p in out)  # one vector is a unit's line, or none is
    return tuple(replace(p, stencil=replace(p.stencil, is_still=still)) for p in out)


def _along(s: Stencil, row: Range | None) -> Stencil:
    """Return a stencil whose rows are those of another, where it has such an index."""
    others = [r for r in s.statement.outputs if r != s.lane]
    mine = next((r for r in others if row is not None and r.name == row.name), None)
    if mine is None or mine == s.row:
        return s
    outer = tuple(r for r in others if r != mine)
    return replace(s, row=mine, outer=outer, shares=False, is_still=False)


def _outer(s: Stencil) -> tuple[object, ...]:
    """Return what stencils that share units have in common."""
    return s.row is None, *((r.name, r.low) for r in s.outer)
