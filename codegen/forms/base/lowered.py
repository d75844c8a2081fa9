"""What every form gives for one group."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tcdsl.codegen.loops.loopir import Expr, Function, Stmt, Table
from tcdsl.grammar.text.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Phase:
    """One phase: its function (of linkage "phase") and, computed in plan, its task count and cost.

    tasks and cost_ns are expressions over what `Lowered.plan` has declared; cost_ns is a float64
    prediction of the serial time of the whole phase.
    """

    function: str
    tasks: Expr
    cost_ns: Expr


@dataclass(frozen=True, slots=True)
class Lowered:
    """Functions, phases and plan of one group.

    plan runs inside the unit's plan function (`args`, `plan` in scope): it declares what tasks,
    costs and bytes need, and stores in `plan->param[param_base + i]` what the phases read.
    thread_bytes / shared_bytes: this group's needs; the unit takes the maximum / places groups'
    temporaries after each other.
    ahead: what is done once before a loop of the program, the one of that number, for phases inside
    of it; they find what it left in kept_bytes of shared memory that no other group has: at byte
    `plan->param[kept_param]`, which the unit's plan writes and params_used counts.
    title: for people, `contraction panel 6x4 packed B + epilogue`.
    """

    title: str
    functions: tuple[Function, ...]
    phases: tuple[Phase, ...]
    plan: tuple[Stmt, ...]
    thread_bytes: Expr
    shared_bytes: Expr
    tables: tuple[Table, ...] = ()
    params_used: int = 0
    ahead: tuple[Phase, ...] = ()
    ahead_of: int = 0
    kept_bytes: Expr | None = None
    kept_param: int = 0


def spelled_out(functions: Sequence[Function]) -> list[Function]:
    """Return functions as what is all vectors in loops that say how they are unrolled.

    But for packers, whose single elements a compiler may find vectors of.
    """
    others = ("import", "apart")
    return [f if f.linkage in others else replace(f, is_spelled_out=True) for f in functions]
