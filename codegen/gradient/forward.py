"""The forward pass of a gradient: what is kept of it, what is computed again."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from tcdsl.codegen.gradient.combine import computed
from tcdsl.codegen.gradient.lines import Line, Loop, Part, spread, walk
from tcdsl.codegen.gradient.tidy import only, without_dead
from tcdsl.codegen.gradient.versions import Node, Step, Turns, Versions, loops, reads_in, steps
from tcdsl.codegen.program import reads_of
from tcdsl.codegen.ssa import identity_of
from tcdsl.grammar import typed
from tcdsl.grammar.dtypes import FLOAT32, INT64
from tcdsl.grammar.sizes import Size
from tcdsl.grammar.typed import Expr


def lines_of(node: Node, versions: Versions) -> list[Part]:
    """Return a node as lines: a step that goes on from another version copies that first.

    A version of which a step reaches a part only is filled first: nothing else tells its box.
    """
    if not isinstance(node, Step):
        body = tuple(p for n in node.body for p in lines_of(n, versions))
        return [Loop(node.var, node.low, node.high, body)]
    line = Line(node.target, node.subs, node.op, node.value, node.ranges)
    if node.base is None:
        return [*_filled(node, versions), line]
    at = versions.at(node.base)
    dtype = versions.values[node.target].dtype
    before = computed(typed.Read(node.base, at, versions.values[node.base].dtype))
    if dtype.is_half:  # what a statement left in an output was rounded
        before = typed.Cast(before, dtype)
    return [Line(node.target, at, "=", before, versions.box(node.base)), line]


def _filled(s: Step, versions: Versions) -> list[Part]:
    """Return the line that gives a version all its elements, where its own does not."""
    value = versions.values[s.target]
    is_told = s.target == value.tensor or any(reads_of(e) for e in s.subs)
    if s.covers or is_told:  # by all statements on the tensor; by the head (`scattered`)
        return []
    held = FLOAT32 if value.dtype.is_half else value.dtype
    first: Expr = typed.Lit(identity_of(s.op, held), held)
    first = typed.Cast(first, value.dtype) if value.dtype.is_half else first
    return [Line(s.target, versions.at(s.target), "=", first, versions.box(s.target))]


Axes = dict[str, tuple[Turns, ...]]


def with_forward(
    versions: Versions, back: Sequence[Part], params: Sequence[str]
) -> tuple[list[Part], tuple[str, ...], Axes]:
    """Return all lines of a gradient, and the versions that it takes as parameters.

    What is pointwise is computed again; results of reductions and of loops are kept, and what the
    definition returns anyway. The loops of each version that has turns as leading axes come third.
    """
    finals = set(versions.finals.values())
    inside = {s.target for x in loops(versions.nodes) for s in steps(x.body)}
    turns = _Again(versions)
    back = [turns.turn(p) if isinstance(p, Loop) else p for p in back]
    needed = {r.tensor for line in walk(back) for r in line.reads()} & versions.values.keys()
    needed -= turns.private - turns.axes.keys()
    needed -= {line.target for line in walk(back)} - versions.in_place  # computed turn by turn
    again: list[Part] = []
    kept: set[str] = set()
    for s in reversed([n for n in versions.nodes if isinstance(n, Step)]):
        if s.target not in needed or s.target in finals:
            continue
        is_again = _is_pointwise(s) and s.base is None and not s.is_passing
        if is_again and s.target in versions.exact - inside:
            again = [*lines_of(s, versions), *again]
            needed |= {r.tensor for r in reads_in(s)}
        else:
            kept.add(s.target)
    kept |= needed & (finals | inside)
    order = [n for n in versions.values if n in kept and n not in params]
    return [*again, *back], tuple(order), turns.axes


def turn_of(node: Turns) -> Expr:
    """Return the position of a turn on the axis of all turns."""
    return typed.SizeValue(Size.symbol(node.var, signed=True) - node.low, INT64)


def _is_pointwise(s: Step) -> bool:
    return s.op == "=" and s.covers


class _Again:
    """Loops that go back, with what each turn has to know of the forward one.

    axes: what is kept of every turn, with the loops over whose turns, outer ones first.
    """

    def __init__(self, versions: Versions) -> None:
        self.versions = versions
        self.private = {n for x in loops(versions.nodes) for n in x.private}
        self.axes: Axes = {}

    def turn(self, loop: Loop) -> Loop:
        """Return a loop whose turns read what is kept of them, and compute the rest again."""
        node = loop.of
        if node is None:
            return loop
        body: list[Part] = [self.turn(p) if isinstance(p, Loop) else p for p in loop.body]
        private = node.private | self.axes.keys()
        needed = {r.tensor for line in walk(body) for r in line.reads()}
        kept: set[str] = set()
        again: list[Part] = []
        for inner in reversed(node.body):
            made = {s.target for s in steps((inner,))} & private & needed
            new = {n for n in made if self._is_kept(n, node)}
            kept |= new
            needed -= kept
            if made <= kept:
                continue
            again = [*self._again(inner, made - kept, kept), *again]
            needed |= {r.tensor for line in walk(again) for r in line.reads()} - kept
        at = turn_of(node)
        for name in sorted(kept):
            self.axes[name] = (node, *self.axes.get(name, ()))
            body, again = spread(body, name, at), spread(again, name, at)
        return replace(loop, body=(*again, *body))

    def _again(self, inner: Node, wanted: Collection[str], kept: Collection[str]) -> list[Part]:
        """Return the lines of a node of a turn that make what is wanted, of what is private."""
        parts = only(lines_of(inner, self.versions), self.private.difference(kept))
        for name, nodes in self.axes.items():
            for node in reversed(nodes):
                parts = spread(parts, name, turn_of(node))
        return without_dead(parts, wanted)

    def _is_kept(self, name: str, node: Turns) -> bool:
        """Whether a version of a turn is kept of every turn: the result of a sum or a loop.

        And what cannot be made again from what the turn leaves.
        """
        makers = [s for s in steps(node.body) if s.target == name]
        if any(s.is_passing for s in makers):
            return True
        direct = [s for s in node.body if isinstance(s, Step) and s.target == name]
        is_cheap = len(direct) == len(makers) and all(
            all(r.kind == "output" for r in s.ranges) for s in makers
        )
        return not is_cheap and not node.again and not self._varies(node)

    def _varies(self, node: Turns) -> bool:
        """Whether the number of turns depends on loops around."""
        names = {x.var for x in loops(self.versions.nodes)}
        return not names.isdisjoint((node.high - node.low).symbols())


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
