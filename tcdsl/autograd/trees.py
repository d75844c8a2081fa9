"""Tensors in containers: tuples, lists and dicts of them, as rows and back."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

__all__ = ["filled", "leaves", "mapped"]


def mapped(change: Callable[[Any], Any], tree: Any) -> Any:
    """Return a container like another, of what each of its leaves becomes, from left to right."""
    if isinstance(tree, tuple) and hasattr(tree, "_fields"):
        return type(tree)(*(mapped(change, v) for v in tree))
    if isinstance(tree, list | tuple):
        return type(tree)(mapped(change, v) for v in tree)
    if isinstance(tree, dict):
        return type(tree)((k, mapped(change, v)) for k, v in tree.items())
    return change(tree)


def leaves(tree: Any) -> list[Any]:
    """Return all leaves, from left to right."""
    found: list[Any] = []
    mapped(found.append, tree)
    return found


def filled(tree: Any, values: Sequence[Any]) -> Any:
    """Return a container like another with these leaves."""
    rest: Iterator[Any] = iter(values)
    return mapped(lambda _: next(rest), tree)
