"""What the head of a definition says: variables of types, sizes, parameters of any rank.

Calls ask it of every kernel, so it needs nothing of the check.
"""

from __future__ import annotations

from tcdsl.grammar.text import nodes as n

_MOST_KNOWN = 1024
_known: dict[int, tuple[n.Def, frozenset[str]]] = {}  # by id, which is its own while it is kept


def type_variables(definition: n.Def) -> frozenset[str]:
    """Return the generics that are used as types."""
    if not definition.generics:
        return frozenset()
    known = _known.get(id(definition))  # calls ask, and would go through the body each time
    if known is None:
        names = {g.name for g in definition.generics}
        heads = (*definition.params, *definition.returns)
        used = {p.type.name for p in heads if p.type is not None}
        found = names if names <= used else names & (used | applied(definition.body))
        if len(_known) >= _MOST_KNOWN:
            _known.clear()
        known = _known[id(definition)] = definition, frozenset(found)
    return known[1]


def applied(root: object) -> frozenset[str]:
    """Return the names that are applied to arguments."""
    found = set()
    todo = [root]
    while todo:
        item = todo.pop()
        if isinstance(item, tuple):
            todo += item
        elif isinstance(item, n.Node):
            if isinstance(item, n.Apply):
                found.add(item.name)
            todo += [getattr(item, f) for f in item.__slots__ if not f.endswith("span")]
    return frozenset(found)


def size_names(definition: n.Def) -> frozenset[str]:
    """Return the names that parameters have as a dimension."""
    return frozenset(
        d.name
        for p in definition.params
        if p.type is not None
        for d in p.type.dims or ()
        if isinstance(d, n.Name)
    )


def has_any_rank(param: n.Param) -> bool:
    """Whether the rank of a parameter differs between calls."""
    return len(fixed_dims(param)) < len(dims_of(param))


def fixed_dims(param: n.Param) -> tuple[n.Expr, ...]:
    """Return the dimensions of a parameter beside `...`."""
    return tuple(d for d in dims_of(param) if not isinstance(d, n.Dots))


def dims_of(param: n.Param) -> tuple[n.Expr | n.Dots, ...]:
    """Return the dimensions of a parameter as they are written; none of a number."""
    return (param.type.dims if param.type is not None else None) or ()


def shapes_of_rank(definition: n.Def, rank: int) -> tuple[tuple[int, ...], ...]:
    """Return shapes for `bind_ranks` in which each `...` stands for as many long dimensions."""
    return tuple(
        (2,) * (len(fixed_dims(param)) + (rank if has_any_rank(param) else 0))
        for param in definition.params
    )
