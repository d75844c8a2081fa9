"""What calls leave over: results that nobody reads are not computed.

Nor is what only they come from, with the checks of its subscripts: a definition may hand on one
result of several without paying for the rest.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

from tcdsl.grammar.types import typed as t


def without_unread(body: Sequence[t.Stmt], wanted: Collection[str]) -> tuple[t.Stmt, ...]:
    """Return statements without those that no wanted tensor comes from."""
    sources: dict[str, set[str]] = {}
    for s in t.statements(body):
        sources.setdefault(s.target, set()).update(t.tensors_read(*s.exprs))
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
