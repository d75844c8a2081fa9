"""What of a tensor does not depend on a batch yet is computed once, under another name.

    O(i, j) +=! X(i, k) * W(k, j)            O_2(i, j) +=! X(i, k) * W(k, j)
                                      ->     O(i, j) = O_2(i, j)
    O(i, j) = relu(O(i, j) + c(j))           O(i, j) = relu(O(i, j) + c(j))

With a batch of c the product stays one product; only what follows has the index of the batch.

Not where that would change a type, a box or what a tensor begins with: declared returns and texts
with halves stay whole.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from tcdsl.grammar.batch.tensors import Places, Shared, Tensors
from tcdsl.grammar.text import nodes as n
from tcdsl.grammar.text.walk import declared_names, targets_of, walk

_T = TypeVar("_T")


def split(
    shared: Shared,
    definition: n.Def,
    params: Places,
    wanted: Collection[str] = (),
    summed: Collection[str] = (),
) -> n.Def:
    """Return a definition in which what comes before the batch has names of its own.

    params: the parameters that have the batch. wanted: the returns that have it in any case;
    summed: those that have it in no case.
    """
    body = definition.body
    tensors = Tensors(shared, definition, params, summed=summed)
    start = dict.fromkeys(wanted, len(body))  # by tensor, the statement that gives it the batch
    known: set[str] = set()
    written: set[str] = set()
    for at, node in enumerate(body):
        tensors.follow((node,))
        targets = dict.fromkeys(targets_of((node,)))  # in order: the text is one in any process
        for name in targets:
            if name in known or name not in tensors.places:
                continue
            known.add(name)
            if name in written:
                start[name] = at
            else:  # it has the batch from the first on
                start.pop(name, None)
        written.update(targets)
    copies: dict[str, tuple[str, tuple[n.Expr, ...]]] = {}
    for name, at in start.items():
        is_used = any(r.name == name for r in definition.returns) or _reads(body[at:], name)
        subs = _subscripts(shared, definition, name, body[:at]) if is_used else None
        if subs is not None:
            copies[name] = shared.fresh(name), subs
    if not copies:
        return definition
    out: list[n.Stmt] = []
    for at in range(len(body) + 1):
        for name, (new, subs) in copies.items():
            if start[name] == at:
                value = n.Apply(new, subs) if subs else n.Name(new)
                out.append(n.Comprehension(n.Target(name, subs or None), "=", value))
        if at < len(body):
            later = {name: new for name, (new, _) in copies.items() if at < start[name]}
            out.append(renamed(body[at], later))
    return replace(definition, body=tuple(out))


def _subscripts(
    shared: Shared, definition: n.Def, name: str, before: Sequence[n.Stmt]
) -> tuple[n.Expr, ...] | None:
    """Return indices for all of a tensor as these statements leave it; None if it stays one.

    It is split only where that changes neither its type, nor its box, nor what it begins with.
    """
    declared = {p.name: p.type for p in (*definition.params, *definition.returns)}
    writes = [
        x for x in walk(tuple(before)) if isinstance(x, n.Comprehension) and x.target.name == name
    ]
    if not any(map(_is_work, writes)) or declared.get(name) is not None or shared.has_halves:
        return None
    first = next(x for x in before if name in targets_of((x,)))
    if not isinstance(first, n.Comprehension) or first.op not in ("=", "+=!"):
        return None
    if isinstance(first.value, n.Apply) and first.value.name in shared.defs:
        return None  # a call: its rank is that of the callee
    if any(isinstance(x, n.Extent) and x.name == name for x in walk(definition.body)):
        return None
    subs = first.target.subs or ()
    taken = {*declared_names(definition), *shared.defs}
    taken |= {c.name for c in first.clauses if isinstance(c, n.Let)}
    names = [s.name for s in subs if isinstance(s, n.Name) and s.name not in taken]
    if len({*names}) != len(subs):
        return None
    if any(isinstance(x, n.Apply) for w in writes for x in walk(w.target.subs or ())):
        return None
    return tuple(map(n.Name, names))


def _reads(body: Sequence[n.Stmt], name: str) -> bool:
    return any(isinstance(x, n.Apply | n.Name) and x.name == name for x in walk(tuple(body)))


def _is_work(node: n.Comprehension) -> bool:
    """Whether a statement is more than a fill or a copy, which cost as much as a copy of it."""
    match node.value:
        case n.Apply(_, args) if node.op == "=":
            return any(not isinstance(a, n.Name | n.Dots | n.IntLit) for a in args)
        case n.IntLit() | n.FloatLit() | n.Name() | n.Extent():
            return node.op != "="
        case _:
            return True


def renamed(item: _T, names: Mapping[str, str]) -> _T:
    """Return a tree with other names for tensors."""
    return _with_names(item, names) if names else item


def _with_names(item: Any, names: Mapping[str, str]) -> Any:
    if isinstance(item, tuple):
        return tuple(_with_names(x, names) for x in item)
    if isinstance(item, n.Binary):
        first, chain = n.spine(item)
        value = _with_names(first, names)
        for link in chain:
            value = replace(link, lhs=value, rhs=_with_names(link.rhs, names))
        return value
    if not isinstance(item, n.Node):
        return item
    fields = {f: getattr(item, f) for f in item.__slots__ if not f.endswith("span")}
    parts = {f: _with_names(x, names) for f, x in fields.items() if isinstance(x, tuple | n.Node)}
    if isinstance(item, n.Name | n.Apply | n.Target) and item.name in names:
        parts["name"] = names[item.name]
    return replace(item, **parts) if parts else item
