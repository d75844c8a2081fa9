"""Walkers over loop nests: rebuild bottom-up, visit, substitute. Most passes are one of these.

What a pass does not change is the same object afterwards: most of a nest is, in most passes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from operator import is_
from typing import Any, assert_never

from tcdsl.codegen.loops.loopir import (
    Address,
    Array,
    Assign,
    Bin,
    Block,
    Call,
    Cast,
    Comment,
    Const,
    Elem,
    Eval,
    Expr,
    Field,
    For,
    If,
    Let,
    Load,
    Offset,
    Return,
    Select,
    Stmt,
    Un,
    Var,
    spine,
)

# By type, as passes ask for them at every node: a `match` goes through all types in turn.
BELOW: Mapping[type, Callable[[Any], tuple[Expr, ...]]] = {
    Const: lambda e: (),
    Var: lambda e: (),
    Bin: lambda e: (e.lhs, e.rhs),
    Un: lambda e: (e.operand,),
    Cast: lambda e: (e.operand,),
    Field: lambda e: (e.base,),
    Select: lambda e: (e.cond, e.then, e.other),
    Load: lambda e: (e.pointer, e.index),
    Offset: lambda e: (e.pointer, e.index),
    Elem: lambda e: e.indices,
    Call: lambda e: e.args,
    Address: lambda e: (e.place,),
}

_LEAVES = (Const, Var)


def children(e: Expr) -> tuple[Expr, ...]:
    """Return the operands of an expression."""
    return BELOW[type(e)](e)


def map_children(e: Expr, go: Callable[[Expr], Expr]) -> Expr:
    """Return e with go applied to its direct operands."""
    match e:
        case Const() | Var():
            return e
        case Bin(op, a, b, t):
            x, y = go(a), go(b)
            return e if x is a and y is b else Bin(op, x, y, t)
        case Un(op, a, t):
            return Un(op, go(a), t)
        case Select(c, a, b, t):
            return Select(go(c), go(a), go(b), t)
        case Cast(a, t):
            return Cast(go(a), t)
        case Load(p, i, t):
            x, y = go(p), go(i)
            return e if x is p and y is i else Load(x, y, t)
        case Elem(name, indices, t):
            xs = tuple(map(go, indices))
            return e if _are_same(xs, indices) else Elem(name, xs, t)
        case Address(place, t):
            new = go(place)
            assert isinstance(new, Elem), f"{new} is no element"
            return Address(new, t)
        case Offset(p, i, t, in_bytes):
            x, y = go(p), go(i)
            return e if x is p and y is i else Offset(x, y, t, in_bytes)
        case Field(base, text, t):
            return Field(go(base), text, t)
        case Call(name, args, t):
            xs = tuple(map(go, args))
            return e if _are_same(xs, args) else Call(name, xs, t)
        case _:
            assert_never(e)


def _are_same(one: Sequence[object], other: Sequence[object]) -> bool:
    """Whether the objects are the same, which is to be asked sooner than whether they are equal."""
    return all(map(is_, one, other))


def map_expr(e: Expr, f: Callable[[Expr], Expr]) -> Expr:
    """Rebuild e bottom-up, passing each node through f."""
    if type(e) in _LEAVES:
        return f(e)
    first, chain = spine(e)
    done = f(map_children(first, lambda x: map_expr(x, f)))
    for link in chain:
        rhs = map_expr(link.rhs, f)
        is_same = done is link.lhs and rhs is link.rhs
        done = f(link if is_same else Bin(link.op, done, rhs, link.type))
    return done


def map_stmt(s: Stmt, f: Callable[[Stmt], Stmt], g: Callable[[Expr], Expr] | None = None) -> Stmt:
    """Rebuild s bottom-up: statements through f, every node of expressions through g.

    Declared names (of `Let`, `For`) are not expressions and stay; the place of an `Assign` is one.
    g: None where all expressions stay.
    """

    def e(x: Expr) -> Expr:
        return x if g is None else map_expr(x, g)

    def go(t: Stmt) -> Stmt:
        return map_stmt(t, f, g)

    match s:
        case Let(var, value, mutable):
            new = e(value)
            return f(s if new is value else Let(var, new, mutable))
        case Array() | Comment():
            return f(s)
        case Assign(place, value, op):
            new_place, new = e(place), e(value)
            assert isinstance(new_place, Var | Elem | Load | Field), f"{new_place} is not a place"
            is_same = new_place is place and new is value
            return f(s if is_same else Assign(new_place, new, op))
        case For(low=low, high=high, body=body, step=step):
            parts = e(low), e(high), e(step), go(body)
            if _are_same(parts, (low, high, step, body)):
                return f(s)
            return f(replace(s, low=parts[0], high=parts[1], step=parts[2], body=parts[3]))
        case If(cond, then, other):
            branches = e(cond), go(then), None if other is None else go(other)
            return f(s if _are_same(branches, (cond, then, other)) else If(*branches))
        case Block(stmts):
            inner = tuple(map(go, stmts))
            return f(s if _are_same(inner, stmts) else Block(inner))
        case Eval(call):
            new_call = e(call)
            assert isinstance(new_call, Call), f"{new_call} is not a call"
            return f(s if new_call is call else Eval(new_call))
        case Return(value):
            result = None if value is None else e(value)
            return f(s if result is value else Return(result))
        case _:
            assert_never(s)


INSIDE: Mapping[type, Callable[[Any], tuple[Stmt, ...]]] = {
    For: lambda s: (s.body,),
    If: lambda s: (s.then,) if s.other is None else (s.then, s.other),
    Block: lambda s: s.stmts,
    **dict.fromkeys((Let, Array, Assign, Eval, Return, Comment), lambda s: ()),
}
OWN: Mapping[type, Callable[[Any], tuple[Expr, ...]]] = {
    Let: lambda s: (s.value,),
    Assign: lambda s: (s.place, s.value),
    For: lambda s: (s.low, s.high, s.step),
    If: lambda s: (s.cond,),
    Eval: lambda s: (s.call,),
    Return: lambda s: () if s.value is None else (s.value,),
    **dict.fromkeys((Array, Block, Comment), lambda s: ()),
}


def sub_stmts(s: Stmt) -> tuple[Stmt, ...]:
    """Return the statements directly inside s."""
    return INSIDE[type(s)](s)


def own_exprs(s: Stmt) -> tuple[Expr, ...]:
    """Return the expressions of s itself, without those of statements inside it."""
    return OWN[type(s)](s)


def walk_expr(e: Expr) -> Iterator[Expr]:
    """Yield e and everything in it, parents first."""
    todo = [e]
    while todo:
        x = todo.pop()
        yield x
        if below := BELOW[type(x)](x):
            todo.extend(reversed(below))


def walk_stmt(s: Stmt) -> Iterator[Stmt]:
    """Yield s and every statement in it, parents first."""
    todo = [s]
    while todo:
        x = todo.pop()
        yield x
        todo += reversed(sub_stmts(x))


def all_exprs(s: Stmt) -> Iterator[Expr]:
    """Yield every expression node in s.

    By one loop: passes ask for all of them, and `walk_expr` would be a generator in another.
    """
    for t in walk_stmt(s):
        todo = [*reversed(own_exprs(t))]
        while todo:
            x = todo.pop()
            yield x
            if below := BELOW[type(x)](x):
                todo.extend(reversed(below))


def variables(e: Expr) -> frozenset[str]:
    """Return the names that e reads (arrays too)."""
    return frozenset(
        x.name if isinstance(x, Var) else x.array for x in walk_expr(e) if isinstance(x, Var | Elem)
    )


def substitute(s: Stmt, by: Mapping[str, Expr]) -> Stmt:
    """Return s with expressions in place of variables that s does not declare itself."""
    return map_stmt(s, lambda t: t, lambda e: by.get(e.name, e) if isinstance(e, Var) else e)
