"""Long chains of operators in parts, so that no C compiler meets an expression without end.

    x = a0 + ... + a200;  ->  part_0 = a0 + ... + a64;  part_1 = part_0 + ...;  x = part_1 + ...

Only what is evaluated in any case moves in front of its statement: nothing under a condition does.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tcdsl.codegen.loops import build as b
from tcdsl.codegen.loops.loopir import (
    Assign,
    Bin,
    Eval,
    Expr,
    Function,
    If,
    Let,
    Return,
    Scalar,
    Select,
    Stmt,
    Unit,
    Var,
    Vector,
    spine,
)
from tcdsl.codegen.loops.walk import children, map_children, map_stmt, own_exprs, walk_stmt

LONGEST = 64  # operators of one chain in one statement


def shorten(unit: Unit) -> Unit:
    """Return the unit with long chains of operators in parts."""
    return replace(unit, functions=tuple(map(_function, unit.functions)))


def _function(f: Function) -> Function:
    if not any(_is_long(e) for s in walk_stmt(f.body) for e in own_exprs(s)):
        return f
    taken = {p.name for p in f.params}
    taken |= {s.var.name for s in walk_stmt(f.body) if isinstance(s, Let)}
    fresh = (name for i in range(1 << 40) if (name := f"part_{i}") not in taken)

    def one(s: Stmt) -> Stmt:
        front: list[Stmt] = []

        def cut(e: Expr) -> Expr:
            return _cut(e, front, fresh)

        match s:
            case Let(value=value):
                s = replace(s, value=cut(value))
            case Assign(value=value):
                s = replace(s, value=cut(value))
            case If(cond=cond):
                s = replace(s, cond=cut(cond))
            case Return(value=value) if value is not None:
                s = replace(s, value=cut(value))
            case Eval(call):
                s = replace(s, call=replace(call, args=tuple(map(cut, call.args))))
            case _:
                pass
        return b.block(front, s) if front else s

    return replace(f, body=map_stmt(f.body, one))


def _is_long(e: Expr) -> bool:
    """Whether an expression has a chain that is cut."""
    todo = [e]
    while todo:
        x = todo.pop()
        if type(x) is not Bin:
            todo += children(x)
            continue
        first, chain = spine(x)
        if len(chain) > LONGEST:
            return True
        todo.append(first)
        todo += [link.rhs for link in chain]
    return False


def _cut(e: Expr, front: list[Stmt], fresh: Iterator[str]) -> Expr:
    """Return e in which the parts of long chains are variables, declared in front."""
    match e:
        case Bin():
            first, chain = spine(e)
            done, links = _cut(first, front, fresh), 0
            for link in chain:
                is_sure = link.op not in ("&&", "||")
                rhs = _cut(link.rhs, front, fresh) if is_sure else link.rhs
                if links >= LONGEST and isinstance(link.type, Scalar | Vector):
                    part = Var(next(fresh), b.type_of(done))
                    front.append(Let(part, done))
                    done, links = part, 0
                done, links = Bin(link.op, done, rhs, link.type), links + 1
            return done
        case Select(cond=cond):
            return replace(e, cond=_cut(cond, front, fresh))
        case _:
            return map_children(e, lambda x: _cut(x, front, fresh))
