"""Loops of points whose single numbers stay in registers from turn to turn.

    for t: phase_4: x[0] = x[0] * u[t]          x_kept = x[0]
           phase_5: y[t] = x[0]           ->    for t { x_kept = x_kept * u[t]; y[t] = x_kept; }
                                                x[0] = x_kept

A number that goes through memory takes five cycles from one statement to the next, so that the
steps of a sampler or a filter, a chain from turn to turn, take as long as all their stores. What
is kept is a place of which the loop reads and writes nothing but its first element: who reads it
by another name sees what was there before the loop, as one that may lie over an operand has to.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import chain

from tcdsl.codegen.forms.base.operands import Operands
from tcdsl.codegen.forms.base.scalars import once
from tcdsl.codegen.loops import build as b
from tcdsl.codegen.loops.loopir import (
    Assign,
    Cast,
    Const,
    Expr,
    Field,
    Function,
    If,
    Let,
    Load,
    Pointer,
    Return,
    Stmt,
    Var,
)
from tcdsl.codegen.loops.walk import all_exprs, map_expr, map_stmt, sub_stmts, walk_expr, walk_stmt
from tcdsl.grammar.text.dataclass import dataclass


@dataclass(frozen=True)
class Kept:
    """A loop's parts as text, and what is before it and behind it."""

    turn: tuple[Stmt, ...]
    named: tuple[Stmt, ...] = ()  # what all of it stands on
    before: tuple[Stmt, ...] = ()
    behind: tuple[Stmt, ...] = ()


@dataclass(frozen=True)
class _Part:
    """A phase: what it names first, of which some is of a turn, and what it does."""

    named: tuple[Let, ...]
    body: If


def kept(operands: Operands, functions: Sequence[Function], turn: str) -> Kept | None:
    """Return a loop over phases of points as text; None if no number would be kept.

    turn: of the arguments, what changes from turn to turn. Those of loops around stay.
    """
    parts = [_part(f) for f in functions]
    if any(p is None for p in parts):
        return None
    known = [p for p in parts if p is not None]
    named: dict[str, Let] = {}
    for let in chain.from_iterable(p.named for p in known):
        if named.setdefault(let.var.name, let).value != let.value:
            return None
    numbers = _numbers(known, named)
    if not numbers:
        return None
    locals_ = {n: b.var(operands.local(f"{n}_kept"), p.dtype) for n, p in numbers.items()}
    where = {name: b.load(named[name].var, 0) for name in numbers}
    of_turns = [x for x in named.values() if _asks(x, turn)]
    of_all = [x for x in named.values() if x not in of_turns]
    return Kept(
        (*of_turns, *(_with(p.body, locals_) for p in known)),
        tuple(of_all),
        tuple(Let(v, once(where[name]), mutable=True) for name, v in locals_.items()),
        tuple(Assign(where[name], v) for name, v in locals_.items()),
    )


def _part(f: Function) -> _Part | None:
    """Return a phase taken apart; None if it is more than names and what it does for its task."""
    match sub_stmts(f.body):
        case [*lets, If(cond, _, None) as body, Return(Const(0))]:
            named = [x for x in lets if isinstance(x, Let) and not x.mutable]
            is_whole = cond == b.compare(">", b.END, b.BEGIN) and len(named) == len(lets)
            return _Part(tuple(named), body) if is_whole else None
        case _:
            return None


def _asks(let: Let, field: str) -> bool:
    return any(isinstance(x, Field) and x.text == field for x in walk_expr(let.value))


def _numbers(parts: Sequence[_Part], named: Mapping[str, Let]) -> dict[str, Pointer]:
    """Return the pointers through which only a first element is read, and is written."""
    pointers = {n: x.var.type for n, x in named.items() if isinstance(x.var.type, Pointer)}
    places = [x.value for n, x in named.items() if n in pointers]
    used, of_first = Counter[str](), Counter[str]()
    written: set[str] = set()
    for part in parts:
        for s in walk_stmt(part.body):
            if isinstance(s, Assign):
                written.add(_of_first(s.place))
        for x in all_exprs(part.body):
            if isinstance(x, Var):
                used[x.name] += 1
            of_first[_of_first(x)] += 1
    return {
        n: p
        for n, p in pointers.items()
        if n in written and used[n] == of_first[n] and _is_apart(named[n], places)
    }


def _is_apart(let: Let, places: Sequence[Expr]) -> bool:
    """Whether a pointer is the only one to its place."""
    bare = [x.operand if isinstance(x, Cast) else x for x in (let.value, *places)]
    return bare.count(bare[0]) == 2  # it is one of all places


def _of_first(e: Expr) -> str:
    """Return the pointer's name of an access to a first element, "" of all else."""
    match e:
        case Load(Var(name), Const(0)):
            return name
        case _:
            return ""


def _with(s: Stmt, by: Mapping[str, Var]) -> Stmt:
    """Return a statement that has numbers in variables.

    All else is read once: what a number becomes may choose an element in another turn.
    """

    def read(e: Expr) -> Expr:
        return once(e) if isinstance(e, Load) else e

    def statement(t: Stmt) -> Stmt:
        match t:
            case Let(var, value, mutable):
                return Let(var, map_expr(value, read), mutable)
            case Assign(Load(pointer, index, kind), value, op):
                return Assign(Load(pointer, map_expr(index, read), kind), map_expr(value, read), op)
            case Assign(place, value, op):
                return Assign(place, map_expr(value, read), op)
            case If(cond, then, other):
                return If(map_expr(cond, read), then, other)
            case _:
                return t

    def expression(e: Expr) -> Expr:
        return by.get(_of_first(e), e)

    return map_stmt(s, statement, expression)
