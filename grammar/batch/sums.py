"""Returns of a definition over a batch that are sums over it: the gradient by what it shares.

    d_W(i, j) +=! d_O(i) * X(j)    over a batch of d_O and X    d_W(i, j) +=! d_O(b, i) * X(b, j)

A statement that only adds up has the index of the batch as one more that is summed over. What is
made in another way is made for each element, and added up then.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import assert_never

from tcdsl.grammar.batch.split import renamed
from tcdsl.grammar.batch.tensors import Shared
from tcdsl.grammar.text import nodes as n
from tcdsl.grammar.text.walk import targets_of, walk


def to_be_summed(shared: Shared, definition: n.Def, returns: Collection[str]) -> n.Def:
    """Return a definition whose statements on these returns only add to them, or set them once.

    What else they do is done to a tensor of another name, which is added to them at the end.
    """
    each = {r: shared.fresh(f"{r}_each") for r in returns if not _adds_up(shared, definition, r)}
    if not each:
        return definition
    types = {each[r.name]: r.type for r in definition.returns if r.name in each}
    body = [_converted(shared, node, types) for node in renamed(definition.body, each)]
    for name, one in each.items():
        value = n.Apply(one, (n.Dots(),))
        body.append(n.Comprehension(n.Target(name, (n.Dots(),)), "+=!", value))
    return replace(definition, body=tuple(body))


def _adds_up(shared: Shared, definition: n.Def, name: str) -> bool:
    """Whether a return is the sum of what its statements say, so that sums of these are its own."""
    writes = [s for s in definition.body if name in targets_of((s,))]
    if any(isinstance(x, n.Apply | n.Name) and x.name == name for x in walk(definition.body)):
        return False
    for s in writes:
        if not isinstance(s, n.Comprehension) or _is_call(shared, s):
            return False  # in a loop, or by a call
    if len(writes) == 1 and isinstance(s := writes[0], n.Comprehension) and s.op == "=":
        subs = s.target.subs or ()
        return all(isinstance(x, n.Name | n.Dots) for x in subs) and len({*subs}) == len(subs)
    return all(isinstance(s, n.Comprehension) and s.op in ("+=", "+=!") for s in writes)


def _converted(shared: Shared, node: n.Stmt, types: Mapping[str, n.TypeRef | None]) -> n.Stmt:
    """Return a statement that stores what it computes in the type that its return says."""
    match node:
        case n.ForLoop(body=body):
            return replace(node, body=tuple(_converted(shared, x, types) for x in body))
        case n.Comprehension(target, value=value) if not _is_call(shared, node):
            found = types.get(target.name)
            return node if found is None else replace(node, value=n.Cast(found.name, value))
        case n.Comprehension() | n.MultiCall():
            return node
        case _:
            assert_never(node)


def _is_call(shared: Shared, node: n.Comprehension) -> bool:
    return isinstance(node.value, n.Apply) and node.value.name in shared.defs
