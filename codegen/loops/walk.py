"""Walkers over loop nests: rebuild bottom-up, visit, substitute. Most passes are one of these."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import assert_never

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


def children(e: Expr) -> tuple[Expr, ...]:
    """Return the operands of an expression."""
    match e:
        case Const() | Var():
            return ()
        case Bin(lhs=a, rhs=b):
            return (a, b)
        case Un(operand=a) | Cast(operand=a) | Field(base=a):
            return (a,)
        case Select(c, a, b):
            return (c, a, b)
        case Load(pointer=a, index=b) | Offset(pointer=a, index=b):
            return (a, b)
        case Elem(indices=xs) | Call(args=xs):
            return xs
        case Address(place):
            return (place,)
        case _:
            assert_never(e)


def map_children(e: Expr, go: Callable[[Expr], Expr]) -> Expr:
    """Return e with go applied to its direct operands."""
    match e:
        case Const() | Var():
            return e
        case Bin(op, a, b, t):
            return Bin(op, go(a), go(b), t)
        case Un(op, a, t):
            return Un(op, go(a), t)
        case Select(c, a, b, t):
            return Select(go(c), go(a), go(b), t)
        case Cast(a, t):
            return Cast(go(a), t)
        case Load(p, i, t):
            return Load(go(p), go(i), t)
        case Elem(name, indices, t):
            return Elem(name, tuple(map(go, indices)), t)
        case Address(place, t):
            new = go(place)
            assert isinstance(new, Elem), f"{new} is no element"
            return Address(new, t)
        case Offset(p, i, t, in_bytes):
            return Offset(go(p), go(i), t, in_bytes)
        case Field(base, text, t):
            return Field(go(base), text, t)
        case Call(name, args, t):
            return Call(name, tuple(map(go, args)), t)
        case _:
            assert_never(e)


def map_expr(e: Expr, f: Callable[[Expr], Expr]) -> Expr:
    """Rebuild e bottom-up, passing each node through f."""
    first, chain = spine(e)
    done = f(map_children(first, lambda x: map_expr(x, f)))
    for link in chain:
        done = f(Bin(link.op, done, map_expr(link.rhs, f), link.type))
    return done


def map_stmt(s: Stmt, f: Callable[[Stmt], Stmt], g: Callable[[Expr], Expr]) -> Stmt:
    """Rebuild s bottom-up: statements through f, every node of expressions through g.

    Declared names (of `Let`, `For`) are not expressions and stay; the place of an `Assign` is one.
    """

    def e(x: Expr) -> Expr:
        return map_expr(x, g)

    def go(t: Stmt) -> Stmt:
        return map_stmt(t, f, g)

    match s:
        case Let(var, value, mutable):
            return f(Let(var, e(value), mutable))
        case Array() | Comment():
            return f(s)
        case Assign(place, value, op):
            new = e(place)
            assert isinstance(new, Var | Elem | Load | Field), f"{new} is not a place"
            return f(Assign(new, e(value), op))
        case For(low=low, high=high, body=body, step=step):
            return f(replace(s, low=e(low), high=e(high), step=e(step), body=go(body)))
        case If(cond, then, other):
            return f(If(e(cond), go(then), None if other is None else go(other)))
        case Block(stmts):
            return f(Block(tuple(map(go, stmts))))
        case Eval(call):
            new_call = e(call)
            assert isinstance(new_call, Call), f"{new_call} is not a call"
            return f(Eval(new_call))
        case Return(value):
            return f(Return(None if value is None else e(value)))
        case _:
            assert_never(s)


def sub_stmts(s: Stmt) -> tuple[Stmt, ...]:
    """Return the statements directly inside s."""
    match s:
        case For(body=body):
            return (body,)
        case If(then=then, other=other):
            return (then,) if other is None else (then, other)
        case Block(stmts):
            return stmts
        case Let() | Array() | Assign() | Eval() | Return() | Comment():
            return ()
        case _:
            assert_never(s)


def own_exprs(s: Stmt) -> tuple[Expr, ...]:
    """Return the expressions of s itself, without those of statements inside it."""
    match s:
        case Let(value=value):
            return (value,)
        case Assign(place, value):
            return (place, value)
        case For(low=low, high=high, step=step):
            return (low, high, step)
        case If(cond=cond):
            return (cond,)
        case Eval(call):
            return (call,)
        case Return(value):
            return () if value is None else (value,)
        case Array() | Block() | Comment():
            return ()
        case _:
            assert_never(s)


def walk_expr(e: Expr) -> Iterator[Expr]:
    """Yield e and everything in it, parents first."""
    todo = [e]
    while todo:
        x = todo.pop()
        yield x
        if below := children(x):
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
            if below := children(x):
                todo.extend(reversed(below))


def variables(e: Expr) -> frozenset[str]:
    """Return the names that e reads (arrays too)."""
    return frozenset(
        x.name if isinstance(x, Var) else x.array for x in walk_expr(e) if isinstance(x, Var | Elem)
    )


def substitute(s: Stmt, by: Mapping[str, Expr]) -> Stmt:
    """Return s with expressions in place of variables that s does not declare itself."""
    return map_stmt(s, lambda t: t, lambda e: by.get(e.name, e) if isinstance(e, Var) else e)
