"""Loops whose turns have single points as one phase each, which does not leave its function.

    phases 4, 5, 6 for each t   ->   one phase: for t { if (phase_4(..) | ..) return 1; .. }

A turn of points takes a nanosecond or two, and the launcher as long again to see which phase is
next and who may run it. The turn stays what no compiler knows (`loops/opaque.py`), so that it makes
no vectors of turns; pointers of phases that it puts into one function are no longer told apart, as
those of two may be the same.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from dataclasses import replace

from tcdsl.codegen.choose.kept import Kept, kept
from tcdsl.codegen.forms.base.lowered import Phase
from tcdsl.codegen.forms.base.operands import Operands
from tcdsl.codegen.loops import build as b
from tcdsl.codegen.loops.knowable import FUNCTION as OPAQUE
from tcdsl.codegen.loops.loopir import (
    I64,
    Cast,
    Const,
    Expr,
    Field,
    For,
    Function,
    If,
    Let,
    Offset,
    Opaque,
    Pointer,
    Return,
    Scalar,
    Select,
    Stmt,
    Type,
    Var,
)
from tcdsl.codegen.loops.verify_data import keeps_the_law
from tcdsl.codegen.loops.walk import map_stmt, sub_stmts, walk_stmt
from tcdsl.codegen.machine.spec import Spec
from tcdsl.codegen.program.program import Program
from tcdsl.grammar.types.dtypes import FLOAT64, INT32, INT64

Placed = tuple[int, Phase]  # of a group
Span = tuple[int, int]  # phases [first, last)


def joined(
    program: Program,
    spec: Spec,
    functions: Iterable[Function],
    placed: Sequence[Placed],
    spans: Sequence[Span],
    prefix: str,
) -> tuple[dict[str, Function], list[Placed], list[Span]]:
    """Return functions by name, phases and spans of loops, where those of points are one phase.

    Parameters
    ----------
    functions
        Those of the groups.
    placed
        The phases in their order.
    spans
        Of each of the program's loops. That of one that is joined becomes empty and stays, so that
        the others keep their places in `args->turn`.
    prefix
        What names of phases that are made begin with.

    Returns
    -------
    Of functions those that are new or have changed, of phases and spans all.
    """
    known = {f.name: f for f in functions}
    made, found, left = dict[str, Function](), [*placed], [*spans]
    for k in reversed(range(len(left))):  # loops inside another one stand behind it
        first, last = left[k]
        parts = [p for _, p in found[first:last]]
        is_innermost = not any(first <= a < z <= last for a, z in left[k + 1 :])
        if not parts or not is_innermost:
            continue
        if not all(p.function in made or _is_point(p, known[p.function]) for p in parts):
            continue
        made |= {p.function: _apart(known[p.function]) for p in parts if p.function in known}
        texts = [made[p.function] for p in parts]
        function, phase = _one(program, spec, f"{prefix}_loop{k}", k, parts, texts)
        made[function.name] = function
        found[first:last] = [(found[last - 1][0], phase)]
        fewer = last - first - 1
        left = [(_moved(a, last, fewer), _moved(z, last, fewer)) for a, z in left]
        left[k] = first, first
    return made, found, left


def _moved(at: int, last: int, fewer: int) -> int:
    return at - fewer if at >= last else at


def _is_point(phase: Phase, function: Function) -> bool:
    """Whether a phase is always one task, which has no loops."""
    is_known = b.value_of(phase.tasks) == 1 and isinstance(phase.cost_ns, Const)
    return is_known and not any(isinstance(s, For) for s in walk_stmt(function.body))


def _one(
    program: Program,
    spec: Spec,
    name: str,
    k: int,
    parts: Sequence[Phase],
    texts: Sequence[Function],
) -> tuple[Function, Phase]:
    """Return the phase that runs others for each turn of a loop; as text where numbers are kept."""
    operands, loop = Operands(program, spec, {}), program.loops[k]
    low, high = operands.size(loop.low), operands.size(loop.high)
    at = b.i64(operands.local("at"))
    turn = b.pointer(operands.local("turn"), INT64)
    its = Let(turn, Cast(Field(b.ARGS, "turn", Opaque("tc_i64 *")), turn.type))
    now = b.call(OPAQUE, at, type=I64)
    step = b.assign(b.load(turn, k), now)
    *ends, _ = sub_stmts(b.block(operands.declare(b.loop(at, low, high)), step))

    def function(one: Kept) -> Function:
        if one.before:  # as text, which is told its turn; without turns there may be no such number
            turns: Stmt = b.loop(at, low, high, _told(one.turn, f"turn[{k}]", now))
            turns = b.when(b.compare("<", low, high), one.before, turns, one.behind)
        else:
            turns = b.block(its, b.loop(at, low, high, step, one.turn))
        begun = b.when(b.compare(">", b.END, b.BEGIN), turns)
        lets = [x for x in ends if x not in one.named]
        return b.phase_function(name, b.block(lets, one.named, begun, Return(b.const(0, INT32))))

    text = kept(operands, texts, f"turn[{k}]")
    made = None if text is None else function(text)
    if made is None or not keeps_the_law(made):
        made = function(Kept(tuple(_step(p.function) for p in parts)))
    each = functools.reduce(lambda x, y: b.arith("+", x, y), (p.cost_ns for p in parts))
    extent = b.cast(b.max64(0, b.sub(high, low)), Scalar(FLOAT64))
    phase = Phase(name, b.c64(1), b.arith("*", extent, each))
    return made, phase


def _told(turn: Sequence[Stmt], field: str, now: Expr) -> list[Stmt]:
    """Return statements with what stands for a field of the arguments."""

    def expression(e: Expr) -> Expr:
        return now if isinstance(e, Field) and e.text == field else e

    return [map_stmt(s, lambda t: t, expression) for s in turn]


def _step(function: str) -> Stmt:
    """Return the call of a phase; if that faults, so does the one that calls it."""
    code = b.call(function, b.ARGS, b.WORKSPACE, 0, 1, type=b.INT)
    return If(b.compare("!=", code, b.const(0, INT32)), Return(b.const(1, INT32)))


def _apart(f: Function) -> Function:
    """Return a function whose pointers may be those of another one, too."""

    def statement(s: Stmt) -> Stmt:
        return (
            Let(Var(s.var.name, _shared(s.var.type)), s.value, s.mutable)
            if isinstance(s, Let)
            else s
        )

    def expression(e: Expr) -> Expr:
        match e:
            case Var(name, t):
                return Var(name, _shared(t))
            case Cast(operand, t):
                return Cast(operand, _shared(t))
            case Offset(pointer, index, t, in_bytes):
                return Offset(pointer, index, _shared(t), in_bytes)
            case Select(cond, then, other, t):
                return Select(cond, then, other, _shared(t))
            case _:
                return e

    return replace(f, body=map_stmt(f.body, statement, expression))


def _shared(t: Type) -> Type:
    return replace(t, restrict=False) if isinstance(t, Pointer) else t
