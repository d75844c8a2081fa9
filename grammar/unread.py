"""What calls leave over: results that nobody reads are not computed."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from typing import assert_never

from tcdsl.grammar import typed as t


def without_unread(body: Sequence[t.Stmt], wanted: Collection[str]) -> tuple[t.Stmt, ...]:
    """Return statements without those that no wanted tensor comes from."""
    sources: dict[str, set[str]] = {}
    for s in t.statements(body):
        sources.setdefault(s.target, set()).update(_reads(s))
    alive, todo = set(wanted), [*wanted]
    while todo:
        new = sources.get(todo.pop(), set()) - alive
        alive |= new
        todo += new
    return _only(body, alive)


def targets(body: Sequence[t.Stmt]) -> Iterator[str]:
    """Yield the tensors that statements write."""
    for s in t.statements(body):
        yield s.target


def _only(body: Sequence[t.Stmt], alive: Collection[str]) -> tuple[t.Stmt, ...]:
    out: list[t.Stmt] = []
    for s in body:
        if isinstance(s, t.Statement):
            if s.target in alive:
                out.append(s)
        elif inner := _only(s.body, alive):
            out.append(replace(s, body=inner))
    return tuple(out)


def _reads(s: t.Statement) -> Iterator[str]:
    """Yield the tensors a statement reads; a long sum is a tree as deep as it is long."""
    todo: list[t.Expr] = [s.value, *s.subs]
    while todo:
        match todo.pop():
            case t.Lit() | t.IndexValue() | t.SizeValue():
                pass
            case t.Read(name, subs):
                yield name
                todo += subs
            case t.Unary(operand=a) | t.Cast(operand=a):
                todo.append(a)
            case t.Binary(lhs=a, rhs=b):
                todo += (a, b)
            case t.Select(a, b, c):
                todo += (a, b, c)
            case t.Builtin(args=args):
                todo += args
            case other:
                assert_never(other)
