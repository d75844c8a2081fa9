"""Walks over the syntax tree: its nodes, the names that stand in it, what its statements write."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import assert_never

from tcdsl.grammar.text import nodes as n


def walk(*roots: object) -> Iterator[n.Node]:
    """Yield the nodes of trees in the order of the text, from outside to inside."""
    todo = [*reversed(roots)]
    while todo:
        item = todo.pop()
        if isinstance(item, tuple):
            todo += reversed(item)
        elif isinstance(item, n.Node):
            yield item
            todo += [getattr(item, name) for name in reversed(_parts(item))]


_PARTS: dict[type[n.Node], tuple[str, ...]] = {}  # of each class of nodes, found once


def _parts(node: n.Node) -> tuple[str, ...]:
    """Return the fields of a node, in the order of the text, but its places."""
    found = _PARTS.get(type(node))
    if found is None:
        names = tuple(name for name in type(node).__slots__ if not name.endswith("span"))
        found = _PARTS[type(node)] = names
    return found


def identifiers(root: n.Node) -> Iterator[str]:
    """Yield the identifiers of a syntax tree."""
    todo: list[object] = [root]
    while todo:
        item = todo.pop()
        if isinstance(item, tuple):
            todo += item
        elif isinstance(item, n.Node):
            for name in _parts(item):
                value: object = getattr(item, name)
                if name in ("name", "callee", "var") and isinstance(value, str):
                    yield value
                else:
                    todo.append(value)


_MOST_NAMES = 512  # definitions whose names are known
_names: dict[int, tuple[n.Def, frozenset[str]]] = {}  # by the id of a definition, which is kept too


def names_of(definition: n.Def) -> frozenset[str]:
    """Return the identifiers of a definition: a check of one asks for those of its whole text.

    What two threads find at once is the same.
    """
    found = _names.get(id(definition))
    if found is None or found[0] is not definition:
        if len(_names) >= _MOST_NAMES:
            _names.clear()
        found = _names[id(definition)] = definition, frozenset(identifiers(definition))
    return found[1]


def declared_names(definition: n.Def) -> frozenset[str]:
    """Return the names of a definition that are no indices: generics, sizes, tensors."""
    heads = (*definition.params, *definition.returns)
    names = {g.name for g in definition.generics} | {h.name for h in heads}
    for head in heads:
        if head.type is not None:
            names |= {d.name for d in head.type.dims or () if isinstance(d, n.Name)}
    todo = list(definition.body)
    while todo:
        match node := todo.pop():
            case n.Comprehension(target):
                names.add(target.name)
            case n.MultiCall(targets):
                names |= {target.name for target in targets}
            case n.ForLoop(var, _, _, body):
                names.add(var)
                todo += body
            case _:
                assert_never(node)
    return frozenset(names)


def targets_of(body: Iterable[n.Stmt]) -> Iterator[str]:
    """Yield the names that statements write."""
    for node in body:
        match node:
            case n.Comprehension(target):
                yield target.name
            case n.MultiCall(targets):
                yield from (target.name for target in targets)
            case n.ForLoop(_, _, _, inner):
                yield from targets_of(inner)
            case _:
                assert_never(node)
