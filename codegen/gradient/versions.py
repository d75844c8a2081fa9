"""A definition in the form that can be differentiated: every value has a name of its own.

A tensor that is settled (`order.py`) keeps its name: what a statement reads of it is what the whole
definition leaves there. One in place (`place.py`) keeps its name too, and what a statement
overwrites of it gets one. Others get a name for every version. Everything is counted from 0.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import field, replace

from tcdsl.codegen.program.expressions import reads_of, substitute_indices, with_bounds
from tcdsl.grammar.proofs.sizes import Size
from tcdsl.grammar.text.dataclass import dataclass
from tcdsl.grammar.text.nodes import AssignOp
from tcdsl.grammar.text.source import Span
from tcdsl.grammar.types import typed
from tcdsl.grammar.types.dtypes import INT64, DType
from tcdsl.grammar.types.typed import Expr, Range


@dataclass(frozen=True, slots=True)
class Local:
    """The elements around what a step in place writes, as a tensor of their own.

    before, after: its versions. at: where its elements lie in the tensor, by the indices of
    `Versions.box(before)`. subs: what the step writes, from the first of them. covers: all of them.
    """

    before: str
    after: str
    at: tuple[Expr, ...]
    subs: tuple[Expr, ...]
    covers: bool


@dataclass(frozen=True, slots=True)
class VersionStep:
    """One statement: it makes version target, out of base where that is not None.

    covers: every element of the box is written. local: of a step in place. is_passing: what it
    makes cannot be made again later: it reads a tensor in place, which may not be the same then.
    """

    target: str
    base: str | None
    subs: tuple[Expr, ...]
    op: AssignOp
    value: Expr
    ranges: tuple[Range, ...]
    covers: bool
    local: Local | None = None
    is_passing: bool = False

    @property
    def is_ragged(self) -> bool:
        """Whether ranges depend on indices or on data."""
        return any(r.bounds is not None for r in self.ranges)

    @property
    def onto(self) -> str | None:
        """The version whose elements the operator goes on from: `op=!` begins what it writes."""
        return None if self.op.endswith("!") else self.base


@dataclass(frozen=True, slots=True)
class Turns:
    """A loop around steps; private are the versions that live in one turn.

    again: nothing is kept of its turns, the gradient runs each a second time.
    """

    var: str
    low: Size
    high: Size
    body: tuple[Node, ...]
    private: frozenset[str]
    again: bool = False
    span: Span | None = field(default=None, compare=False, repr=False)


Node = VersionStep | Turns


@dataclass(frozen=True, slots=True)
class Version:
    """A version: its type and extents; tensor is what the definition calls it."""

    name: str
    tensor: str
    dtype: DType
    shape: tuple[Size, ...]


@dataclass(frozen=True, slots=True)
class Versions:
    """The steps in order, all versions by name, and the last version of each return.

    taken: names that mean something in the whole definition, which nothing new may have.
    exact: versions that hold, wherever a step `=` writes, what is on its right. in_place: tensors
    of which the steps overwrite elements.
    """

    nodes: tuple[Node, ...]
    values: dict[str, Version]
    finals: dict[str, str]
    taken: frozenset[str]
    exact: frozenset[str]
    in_place: frozenset[str] = frozenset()

    def box(self, version: str) -> tuple[Range, ...]:
        """Return indices over the whole of a version."""
        return box_of(self.values[version].shape, self.taken)

    def at(self, version: str) -> tuple[Expr, ...]:
        """Return the subscripts of `box`."""
        return point_of(self.box(version))


def box_of(shape: Sequence[Size], taken: Collection[str]) -> tuple[Range, ...]:
    """Return ranges over all elements of a shape, called like nothing else."""
    names = index_names(len(shape), frozenset(taken))
    return tuple(Range(n, Size(), e, "output") for n, e in zip(names, shape, strict=True))


def point_of(box: Sequence[Range]) -> tuple[Expr, ...]:
    """Return the subscripts at the indices of a box."""
    return tuple(typed.IndexValue(r.name, INT64) for r in box)


def index_names(rank: int, taken: frozenset[str]) -> list[str]:
    """Return names of indices of statements that the text does not have."""
    behind = ""
    while not taken.isdisjoint(f"i{d}{behind}" for d in range(rank)):
        behind += "_"
    return [f"i{d}{behind}" for d in range(rank)]


STARTING: dict[AssignOp, AssignOp] = {
    "+=": "+=!", "*=": "*=!", "min=": "min=!", "max=": "max=!",
}  # fmt: skip


def steps(nodes: Sequence[Node]) -> Iterator[VersionStep]:
    """Yield the steps in nodes, those of loops too."""
    for node in nodes:
        if isinstance(node, Turns):
            yield from steps(node.body)
        else:
            yield node


def is_anew(op: AssignOp, subs: Sequence[Expr], *, covers: bool) -> bool:
    """Whether a statement leaves nothing of the version before."""
    if op.endswith("!"):  # where data says what is written, all elements begin anew
        return covers or any(reads_of(e) for e in subs)
    return covers and op == "="


def reads_in(s: VersionStep) -> list[typed.Read]:
    """Return the reads of a step, those of its subscripts and bounds too."""
    ends = (e for r in s.ranges for e in r.bounds or ())
    return [r for e in (s.value, *s.subs, *ends) for r in reads_of(e)]


def loops(nodes: Sequence[Node]) -> Iterator[Turns]:
    """Yield the loops in nodes, outer ones first."""
    for node in nodes:
        if isinstance(node, Turns):
            yield node
            yield from loops(node.body)


def apart(
    s: VersionStep, hidden: Callable[[str], bool], used: Callable[[str], bool]
) -> VersionStep:
    """Return a step without indices that are called as something is that a derivative may use.

    Parameters
    ----------
    hidden
        Whether its indices must not have a name.
    used
        Whether new indices must not have a name.
    """
    by: dict[str, Expr] = {}
    for r in s.ranges:
        if hidden(r.name):
            new = f"{r.name}_"
            while used(new):
                new += "_"
            by[r.name] = typed.IndexValue(new, INT64)
    if not by:
        return s

    def name(r: Range) -> Range:
        new = by.get(r.name)
        return replace(r, name=new.name) if isinstance(new, typed.IndexValue) else r

    return replace(
        s,
        subs=tuple(substitute_indices(e, by, address=True) for e in s.subs),
        value=substitute_indices(s.value, by),
        ranges=tuple(
            map(name, with_bounds(s.ranges, lambda e: substitute_indices(e, by, address=True)))
        ),
    )
