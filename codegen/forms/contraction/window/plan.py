"""The plan of a convolution: tasks and cost, of a call that alone knows how many images there are.

Where sizes are exact both are numbers. Else the plan cuts lines by the rule that `schedule.choose`
has for exact sizes, once for each number of images.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import ceil, prod

from tcdsl.codegen.forms.contraction.problem import ONE, known
from tcdsl.codegen.forms.contraction.schedule import LATE, parallel_from
from tcdsl.codegen.forms.contraction.window.nest import WindowNest
from tcdsl.codegen.forms.contraction.window.schedule import (
    MOST_CHUNKS,
    WindowChoice,
    block_costs,
    blocks,
    line_extents,
    panels,
    predicted,
)
from tcdsl.codegen.loops import build as b
from tcdsl.codegen.loops.build import IntLike
from tcdsl.codegen.loops.loopir import I64, Expr, Field, Let, Scalar, Stmt, Var
from tcdsl.codegen.machine.cpu import Machine
from tcdsl.grammar.text.dataclass import dataclass
from tcdsl.grammar.types.dtypes import FLOAT64


@dataclass(frozen=True, slots=True)
class WindowPlan:
    """What the plan declares, the number of tasks, and the serial time."""

    stmts: tuple[Stmt, ...]
    tasks: Expr
    cost_ns: Expr


def plan(nests: Sequence[WindowNest], machine: Machine) -> WindowPlan:
    """Return the plan of convolutions that go along the same lines."""
    lead = nests[0]
    choice, lanes = lead.choice, lead.lanes
    parts = [nest.conv for nest in nests]
    count = panels(lead.conv) * sum(block.count for block in blocks(lead.conv, choice.nv, lanes))
    if not choice.is_planned:
        ns = predicted(parts, machine, 1, lanes, choice)
        return WindowPlan((), b.c64(count * choice.chunks), b.const(ns, FLOAT64))
    alone = [replace(c, lines=_lines_of_image(nest)) for c, nest in zip(parts, nests, strict=True)]

    def half_cycles(chunks: int) -> float:
        return sum(block_costs(alone, machine, lanes, WindowChoice(choice.mr, choice.nv, chunks)))

    packing = half_cycles(2) - half_cycles(1)
    walk = b.mul(lead.size(lead.conv.left_open), ceil(half_cycles(1) - packing))
    lines = lead.size(prod(line_extents(parts), start=ONE))
    stmts, chunks = cut(lead.var, lead.param, lines, count, walk, b.c64(ceil(packing)), machine)
    serial = b.add(walk, b.mul(chunks, ceil(packing)))
    each = b.const(0.5 / machine.frequency_ghz, FLOAT64)
    cost_ns = b.arith("*", b.cast(serial, Scalar(FLOAT64)), each)
    return WindowPlan(stmts, b.mul(chunks, count), cost_ns)


def cut(
    var: Callable[[str], Var],
    param: int,
    lines: Expr,
    blocks: IntLike,
    walk: Expr,
    packing: Expr,
    machine: Machine,
) -> tuple[tuple[Stmt, ...], Expr]:
    """Return what finds into how many chunks lines are cut, a parameter of the plan, and these.

    blocks: of columns, each with so many chunks. walk, packing: half cycles of all lines, and of
    all that is packed for a chunk.
    """
    threads = Field(b.ARGS, "threads", I64)
    chunks, best, n = var("chunks"), var("best"), var("n")
    total, tasks, turn, late = (var(x) for x in ("total", "tasks", "turn", "late"))
    better = b.any_of(b.compare("==", best, 0), b.compare("<", b.add(turn, late), best))
    search = b.loop(
        n,
        1,
        b.add(b.min64(lines, MOST_CHUNKS), 1),
        Let(total, b.add(walk, b.mul(n, packing))),
        Let(tasks, b.mul(n, blocks)),
        Let(turn, b.div(b.mul(b.ceil_div(tasks, threads), total), tasks)),
        Let(late, b.div(b.mul(turn, threads), b.mul(tasks, LATE))),
        b.when(better, b.assign(best, b.add(turn, late)), b.assign(chunks, n)),
    )
    pays = b.all_of(
        b.compare(">", threads, 1),
        b.compare(">=", b.add(walk, packing), parallel_from(machine)),
    )
    stmts = (
        Let(chunks, b.c64(1), mutable=True),
        Let(best, b.c64(0), mutable=True),
        b.when(pays, search),
        b.set_param(param, chunks),
    )
    return stmts, chunks


def _lines_of_image(nest: WindowNest) -> int:
    """Return the lines of a convolution at one image."""
    return prod(known(i.extent) for i in nest.conv.rows if i.extent.constant is not None)
