"""The forward pass of a gradient: what is kept of it, what is computed again."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from tcdsl.codegen.gradient.combine import computed
from tcdsl.codegen.gradient.lines import Line, Loop, Part, spread, walk
from tcdsl.codegen.gradient.tidy import only, without_dead
from tcdsl.codegen.gradient.versions import (
    Node,
    Turns,
    Versions,
    VersionStep,
    loops,
    reads_in,
    steps,
)
from tcdsl.codegen.program.expressions import reads_of
from tcdsl.codegen.program.ssa import covers_box, identity_of
from tcdsl.grammar.proofs.sizes import Size
from tcdsl.grammar.text.nodes import AssignOp
from tcdsl.grammar.types import typed
from tcdsl.grammar.types.dtypes import INT64
from tcdsl.grammar.types.typed import Expr


def lines_of(node: Node, versions: Versions) -> list[Part]:
    """Return a node as lines: a step that goes on from another version copies that first."""
    if not isinstance(node, VersionStep):
        body = tuple(p for n in node.body for p in lines_of(n, versions))
        return [Loop(node.var, node.low, node.high, body)]
    line = Line(node.target, node.subs, node.op, node.value, node.ranges)
    if node.base is None:
        return [line]
    at = versions.at(node.base)
    dtype = versions.values[node.target].dtype
    before = computed(typed.Read(node.base, at, versions.values[node.base].dtype))
    if dtype.is_half:  # what a statement left in an output was rounded
        before = typed.Cast(before, dtype)
    return [Line(node.target, at, "=", before, versions.box(node.base)), line]


Axes = dict[str, tuple[Turns, ...]]


def with_forward(
    versions: Versions, back: Sequence[Part], params: Sequence[str], compared: Collection[str]
) -> tuple[list[Part], tuple[str, ...], Axes]:
    """Return all lines of a gradient, and the versions that it takes as parameters.

    What is pointwise is computed again; results of reductions and of loops are kept, and what the
    definition returns anyway. The loops of each version that has turns as leading axes come third.

    compared: versions that are kept since every bit of them counts.
    """
    finals = set(versions.finals.values())
    inside = {s.target for x in loops(versions.nodes) for s in steps(x.body)}
    turns = _Again(versions, compared)
    back = [turns.turn(p) if isinstance(p, Loop) else p for p in back]
    needed = {r.tensor for line in walk(back) for r in line.reads()} & versions.values.keys()
    needed -= turns.private - turns.axes.keys()
    needed -= {line.target for line in walk(back)} - versions.in_place  # computed turn by turn
    again: list[Part] = []
    kept: set[str] = set()
    made = [n for n in versions.nodes if isinstance(n, VersionStep)]
    hard = {s.target for s in made if not _is_pointwise(s) or s.base is not None or s.is_passing}
    hard |= inside.union(compared)
    for s in reversed(made):
        if s.target not in needed or s.target in finals:
            continue
        if s.target in versions.exact - hard:  # every step that makes it is pointwise
            again = [*lines_of(s, versions), *again]
            needed |= {r.tensor for r in reads_in(s)}
        else:
            kept.add(s.target)
    kept |= needed & (finals | inside)
    order = [n for n in versions.values if n in kept and n not in params]
    return [*again, *back], tuple(order), turns.axes


def boxed(parts: Sequence[Part], versions: Versions, declared: Collection[str]) -> list[Part]:
    """Return parts in which a version has its box, whichever statements make it.

    y(2 * i) = A(2 * i)                      y_1(i0) = 0.0 where i0 in 0:H
    y(i) = y(i) * y(i) where i in 0:H   ->   y_1(2 * i) = A(2 * i)
                                             y(i) = y_1(i) * y_1(i) where i in 0:H

    The check gives a temporary the box of what is written of it: a version is made by some of the
    statements on a tensor only, of which all, or a head, give the box. Other elements are what they
    are before the first statement.

    Parameters
    ----------
    declared
        Names that the head of the text gives a box.
    """
    made: dict[str, set[str]] = {}  # versions, of a tensor
    for step in steps(versions.nodes):
        made.setdefault(versions.values[step.target].tensor, set()).add(step.target)
    some = {n for names in made.values() if len(names) > 1 for n in names} - {*declared}
    for line in walk(parts):
        name = line.target
        if name in some and covers_box(line.subs, line.ranges, versions.values[name].shape):
            some.remove(name)
    out: list[Part] = []
    for part in parts:
        for line in walk((part,)):
            if line.target in some:
                some.remove(line.target)
                op: AssignOp = "=" if line.op.startswith("arg") else line.op
                out.append(_all(line.target, op, versions))
        out.append(part)
    return out


def _all(name: str, op: AssignOp, versions: Versions) -> Line:
    """Return the line that gives all elements of a version what an operator begins with."""
    dtype = versions.values[name].dtype
    value: Expr = typed.Lit(identity_of(op, dtype.computed), dtype.computed)
    value = typed.Cast(value, dtype) if dtype.is_half else value
    return Line(name, versions.at(name), "=", value, versions.box(name))


def turn_of(node: Turns) -> Expr:
    """Return the position of a turn on the axis of all turns."""
    return typed.SizeValue(Size.symbol(node.var, signed=True) - node.low, INT64)


def _is_pointwise(s: VersionStep) -> bool:
    return s.op == "=" and s.covers


class _Again:
    """Loops that go back, with what each turn has to know of the forward one.

    axes: what is kept of every turn, with the loops over whose turns, outer ones first.
    """

    def __init__(self, versions: Versions, compared: Collection[str]) -> None:
        self.versions = versions
        self.compared = compared
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
        direct = [s for s in node.body if isinstance(s, VersionStep) and s.target == name]
        is_cheap = len(direct) == len(makers) and all(
            all(r.kind == "output" for r in s.ranges) for s in makers
        )
        is_cheap &= name not in self.compared
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
