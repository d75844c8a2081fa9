"""Batches of small products of unknown sizes: a matrix that is one register tile has a walk for it.

Nearly all that a tile is told is the same for all of them, and is worked out once: the walk over a
block asks for each task how many passes, cache blocks, rows and columns there are, which took as
long as the sums of 8x8 by 8x8.
"""

from __future__ import annotations

from dataclasses import replace

from tcdsl.codegen.forms.contraction.ahead import next_b
from tcdsl.codegen.forms.contraction.block import only_pass
from tcdsl.codegen.forms.contraction.blocking import PANEL, Blocking, Extents
from tcdsl.codegen.forms.contraction.called import Kernels
from tcdsl.codegen.forms.contraction.lets import Lets
from tcdsl.codegen.forms.contraction.panel import Panel
from tcdsl.codegen.forms.contraction.tiles import TaskBlock, one_tile, origins
from tcdsl.codegen.loops import build as b
from tcdsl.codegen.loops.loopir import Stmt


def where_alone(panel: Panel, g: Blocking, kernels: Kernels, x: Extents, others: Stmt) -> Stmt:
    """Return the tasks of a phase: others, or a tile each where matrices are no larger.

    x: the extents by their names in the phase.
    """
    p = panel.problem
    is_plain = panel.neighbours is None and panel.words is None and not p.statement.is_ragged
    must_pack = x.packs_a or x.packs_b
    if b.value_of(g.mr) is not None or not p.outer or must_pack or not is_plain:
        return others
    fits = b.all_of(
        b.compare("==", g.method, PANEL),
        b.compare("==", g.pack_a, 0),
        b.compare("==", g.pack_b, 0),
        b.compare(">=", g.kc, x.k),
        b.compare(">=", g.mr, x.m),
        b.compare(">=", b.mul(g.nv, panel.lanes), x.n),
    )
    return b.either(fits, _tasks(panel, g, kernels, x), others)


def _tasks(panel: Panel, g: Blocking, kernels: Kernels, x: Extents) -> Stmt:
    """Return tasks that are a register tile each."""
    task, none = panel.var("task"), b.c64(0)
    where, once = Lets(panel.var), Lets(panel.var)
    outer = list(reversed(panel.problem.outer))
    counts = [(f"at_{i.name}", panel.size(i.extent)) for i in outer]
    digits, first, behind_it = where.counted(task, counts)
    at = {i.name: digit for i, digit in zip(outer, digits, strict=True)}
    b_ahead = next_b(panel, kernels.machine)
    block = TaskBlock(at, b.c64(1), none, none, x.m, x.n, none, b_ahead=b_ahead)
    vectors = once.let("vectors", b.ceil_div(x.n, panel.lanes))
    place = (none, none, x.m, x.n)
    direct = replace(g, pack_a=none, pack_b=none)
    tile = one_tile(panel, direct, kernels, block, only_pass(panel, x), place, vectors)
    nest = b.loop(task, b.BEGIN, b.END, where.stmts, origins(panel, at), *tile, behind_it)
    return b.block(once.stmts, first, nest)
