"""The forward pass of a gradient: what is kept of it, what is computed again."""

from __future__ import annotations

from collections.abc import Sequence

from tcdsl.codegen.gradient.combine import computed
from tcdsl.codegen.gradient.lines import Line, Loop, Part, walk
from tcdsl.codegen.gradient.versions import Node, Step, Versions, loops, reads_in, steps
from tcdsl.codegen.program import reads_of
from tcdsl.grammar import typed


def lines_of(node: Node, versions: Versions) -> list[Part]:
    """Return a node as lines: a step that goes on from another version copies that first."""
    if not isinstance(node, Step):
        body = tuple(p for n in node.body for p in lines_of(n, versions))
        return [Loop(node.var, node.low, node.high, body)]
    line = Line(node.target, node.subs, node.op, node.value, node.ranges)
    if node.base is None:
        return [line]
    at = versions.at(node.base)
    before = computed(typed.Read(node.base, at, versions.values[node.base].dtype))
    return [Line(node.target, at, "=", before, versions.box(node.base)), line]


def with_forward(
    versions: Versions, back: Sequence[Part], params: Sequence[str]
) -> tuple[list[Part], tuple[str, ...]]:
    """Return all lines of a gradient, and the versions that it takes as parameters.

    What is pointwise is computed again; results of reductions and of loops are kept, and what the
    definition returns anyway.
    """
    finals = set(versions.finals.values())
    inside = {s.target for x in loops(versions.nodes) for s in steps(x.body)}
    private = {n for x in loops(versions.nodes) for n in x.private}
    needed = {r.tensor for line in walk(back) for r in line.reads()} & versions.values.keys()
    needed -= private
    again: list[Part] = []
    kept: set[str] = set()
    for s in reversed([n for n in versions.nodes if isinstance(n, Step)]):
        if s.target not in needed or s.target in finals:
            continue
        if s.op == "=" and s.base is None and s.covers and s.target in versions.exact - inside:
            again = [*lines_of(s, versions), *again]
            needed |= {r.tensor for r in reads_in(s)}
        else:
            kept.add(s.target)
    kept |= needed & (finals | inside)
    order = [n for n in versions.values if n in kept and n not in params]
    return [*again, *back], tuple(order)


def scattered(versions: Versions) -> tuple[str, ...]:
    """Return versions that the training forward has to return: only a head can give their box."""
    finals = set(versions.finals.values())
    return tuple(
        dict.fromkeys(
            s.target
            for s in steps(versions.nodes)
            if s.target not in finals and any(reads_of(e) for e in s.subs)
        )
    )
