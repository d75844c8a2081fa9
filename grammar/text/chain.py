"""Trees that lean to the left: a sum of ten thousand terms is ten thousand deep.

Chains of binary operations are walked, compared and hashed by loops, which take no stack.
"""

from __future__ import annotations

from typing import Any, TypeVar

_E = TypeVar("_E")


class Chained:
    """A binary operation, whose `lhs` may be another of its class; a dataclass with eq=False."""

    __slots__ = ()
    lhs: Any

    def own(self) -> tuple[object, ...]:
        """Return what it adds to its left operand, all that equality is about."""
        raise NotImplementedError

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return self is other or self._flat() == other._flat()

    def __hash__(self) -> int:
        return hash(self._flat())

    def _flat(self) -> tuple[object, ...]:
        first, chain = spine(type(self), self)
        return (first, *(link.own() for link in chain))


_C = TypeVar("_C", bound=Chained)


def spine(kind: type[_C], expr: _E) -> tuple[_E, list[_C]]:
    """Return the leftmost operand of a chain of binary operations, and the chain from the inside.

    ``a - b * c + d`` gives ``a`` and the nodes of ``a - b * c`` and ``a - b * c + d``.
    """
    chain: list[_C] = []
    while isinstance(expr, kind):
        chain.append(expr)
        expr = expr.lhs
    chain.reverse()
    return expr, chain
