"""Clean-up of loop nests before they are printed.

    i * 1 + 0                        ->  i
    for (i = 0; i < 1; i++) s        ->  s with 0 for i
    for (i = 4; i < 4; i++) s        ->  nothing
    if (true) s else t               ->  s
    acc = acc + x                    ->  acc += x
    const tc_i64 N = ...; (not used) ->  nothing

Only int64 arithmetic is folded: floats stay as the program has them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tcdsl.codegen.loops import build as b
from tcdsl.codegen.loops.loopir import (
    I64,
    Array,
    Assign,
    Bin,
    Block,
    Call,
    Const,
    Expr,
    For,
    If,
    Let,
    Offset,
    Select,
    Simd,
    Stmt,
    Unit,
)
from tcdsl.codegen.loops.walk import (
    map_stmt,
    own_exprs,
    sub_stmts,
    substitute,
    variables,
    walk_expr,
)

_NOTHING = Block(())
_CHANGED = (Bin, Select, Offset)  # expressions, as the case may be
_NamesOf = Callable[[Stmt], frozenset[str]]


def simplify(unit: Unit) -> Unit:
    """Return the unit with simpler functions."""
    functions = tuple(replace(f, body=simplify_stmt(f.body)) for f in unit.functions)
    return replace(unit, functions=functions)


def simplify_stmt(s: Stmt) -> Stmt:
    """Return a statement that does the same, simpler."""
    return _without_dead(map_stmt(s, _stmt, _expr), frozenset(), _asked_once())[0]


def _expr(e: Expr) -> Expr:
    if type(e) not in _CHANGED:  # mostly a name or a number
        return e
    match e:
        case Bin("+", x, y, t) if t == I64:
            return b.add(x, y)
        case Bin("-", x, y, t) if t == I64:
            return b.sub(x, y)
        case Bin("*", x, y, t) if t == I64:
            return b.mul(x, y)
        case Bin("/", x, y, t) if t == I64:
            return b.div(x, y)
        case Bin("%", x, y, t) if t == I64:
            return b.mod(x, y)
        case Bin("<" | "<=" | ">" | ">=" | "==" | "!=" as op, x, y) if x.type == y.type == I64:
            return b.compare(op, x, y)
        case Bin("&&", x, y):
            return b.all_of(x, y)
        case Bin("||", x, y):
            return b.any_of(x, y)
        case Select(Const(value), x, y):
            return x if value else y
        case Offset(p, index) if b.value_of(index) == 0:
            return p
        case _:
            return e


def _stmt(s: Stmt) -> Stmt:
    match s:
        case Assign(place, Bin("+" | "*" as op, lhs, rhs), "=") if lhs == place:
            return Assign(place, rhs, "+=" if op == "+" else "*=")
        case Block(stmts):
            return b.block(stmts)
        case If(Const(value), then, other):
            chosen = then if value else other or _NOTHING
            return s if _declares(chosen) else chosen
        case If(then=Block(()), other=None):
            return _NOTHING
        case For(body=Block(())):
            return _NOTHING
        case For(low=low, high=high, step=step):
            first, last, by = b.value_of(low), b.value_of(high), b.value_of(step)
            if first is None or last is None or by is None:
                return s
            if last <= first:
                return _NOTHING
            if last - first <= by and not _declares(s.body):
                return map_stmt(substitute(s.body, {s.var.name: low}), _stmt, _expr)
            return s
        case _:
            return s


def _declares(s: Stmt) -> bool:
    """Whether s has declarations of its own, which need the scope they stand in."""
    return any(isinstance(t, Let | Array) for t in (s.stmts if isinstance(s, Block) else (s,)))


def _without_dead(
    s: Stmt, used_after: frozenset[str], own: _NamesOf
) -> tuple[Stmt, frozenset[str]]:
    """Return s without declarations that nobody uses, and the names used from s on.

    own: `_own`, which is asked again for each loop around.
    """
    match s:
        case Block(stmts):
            kept: list[Stmt] = []
            used = used_after
            for t in reversed(stmts):
                t, used = _without_dead(t, used, own)
                kept.append(t)
            return b.block(kept[::-1]), used
        case Let(var, value) if var.name not in used_after and _is_pure(value):
            return _NOTHING, used_after
        case Array(name) if name not in used_after:
            return _NOTHING, used_after
        case For(body=body):
            while True:  # what only dead declarations used is dead in turn
                before = body
                body, used = _without_dead(before, used_after | _used_in(before, own), own)
                if body == before:
                    break
            if body == _NOTHING:
                return _NOTHING, used_after
            return replace(s, body=body), used | own(s)
        case If(cond, then, other):
            then, used = _without_dead(then, used_after, own)
            if other is not None:
                other, more = _without_dead(other, used_after, own)
                used |= more
            if then == _NOTHING and other in (None, _NOTHING) and _is_pure(cond):
                return _NOTHING, used_after
            return replace(s, then=then, other=other), used | own(s)
        case _:
            return s, used_after | own(s)


def _own(s: Stmt) -> frozenset[str]:
    names = frozenset(n for e in own_exprs(s) for n in variables(e))
    if isinstance(s, For) and isinstance(s.mark, Simd):
        names |= {name for _, name in s.mark.reductions}
    return names


def _asked_once() -> _NamesOf:
    """Return `_own`, for as long as one tree is gone through."""
    known: dict[int, tuple[Stmt, frozenset[str]]] = {}

    def own(s: Stmt) -> frozenset[str]:
        found = known.get(id(s))
        if found is None:
            found = known[id(s)] = s, _own(s)  # kept too, so that no other one gets its id
        return found[1]

    return own


def _used_in(s: Stmt, own: _NamesOf) -> frozenset[str]:
    inner = frozenset[str]().union(*(_used_in(x, own) for x in sub_stmts(s)))
    return inner | own(s)


def _is_pure(e: Expr) -> bool:
    """Whether an expression may be dropped: prelude functions that give a value have no effect."""
    return all(not isinstance(x, Call) or _gives_value(x) for x in walk_expr(e))


def _gives_value(e: Call) -> bool:
    return e.function.startswith("tc_") and e.function != "tc_fault" and e.type is not None
