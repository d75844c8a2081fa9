"""Numbers of expressions, equal for equal ones (value numbering): keys that cost no walk.

The hash of a tree asks all of it, so a pass that looks up each part of a deep one by itself takes
the square of its depth.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from tcdsl.codegen.program.expressions import operands_of
from tcdsl.grammar.types import typed

T = TypeVar("T")


class Numbers:
    """Numbers of expressions; every node is asked once."""

    def __init__(self) -> None:
        self._by_node: dict[int, tuple[typed.Expr, int]] = {}
        self._by_key: dict[object, int] = {}
        self._facts: dict[tuple[str, int], Any] = {}

    def of(self, e: typed.Expr) -> int:
        """Return the number of an expression."""
        known = self._by_node.get(id(e))
        if known is not None:
            return known[1]
        todo = [e]
        while todo:
            x = todo[-1]
            parts = operands_of(x)
            unknown = [p for p in parts if id(p) not in self._by_node]
            if unknown:
                todo += unknown
                continue
            todo.pop()
            if id(x) not in self._by_node:
                below = tuple(self._by_node[id(p)][1] for p in parts)
                key = (type(x), *_own(x), x.dtype, below) if parts else x
                self._by_node[id(x)] = x, self._by_key.setdefault(key, len(self._by_key))
        return self._by_node[id(e)][1]

    def fact(self, name: str, e: typed.Expr, make: Callable[[], T]) -> T:
        """Return what make returned when first asked by this name for an equal expression."""
        key = name, self.of(e)
        if key not in self._facts:
            self._facts[key] = make()
        found: T = self._facts[key]
        return found


def _own(e: typed.Expr) -> tuple[object, ...]:
    """Return what an expression is, beside its type and operands."""
    match e:
        case typed.Unary(op=name) | typed.Binary(op=name) | typed.Builtin(name=name):
            return (name,)
        case typed.Read(tensor=name, checked=checked):
            return (name, checked)
        case _:
            return ()
