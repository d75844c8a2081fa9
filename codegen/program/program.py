"""`Program`: a definition as statements in SSA form over buffers.

It is what fusion and forms work on; `ssa.py` makes it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import field
from typing import Literal

from tcdsl.codegen.program.affine import affine_of
from tcdsl.codegen.program.expressions import reads_of
from tcdsl.grammar.proofs.sizes import Size
from tcdsl.grammar.text.dataclass import dataclass
from tcdsl.grammar.text.nodes import AssignOp, starts_anew
from tcdsl.grammar.types import typed
from tcdsl.grammar.types.dtypes import DType
from tcdsl.grammar.types.typed import Constraint, Expr, Range


@dataclass(frozen=True, slots=True)
class Buffer:
    """One version of a tensor: every statement makes a new one.

    tensor is the declared name, name the version (`O`, then `O.1`, ...). The last version of a
    return is the output. home names the memory: versions of one tensor share it, since text after
    a statement can only read what the statement left. A version that fusion keeps in a tile has no
    memory at all.
    """

    name: str
    tensor: str
    dtype: DType
    shape: tuple[Size, ...]
    low: tuple[Size, ...]
    role: Literal["param", "return", "temp"]
    home: str
    is_packed: bool = False  # a temporary of halves that lie as such: others are kept in float32


# a version, and of each of its dimensions the index that is its subscript, if that is one
PlainAccess = tuple[str, tuple[str | None, ...]]


@dataclass(frozen=True, slots=True)
class Statement:
    """`typed.Statement` whose names are buffers.

    target is the version written. base is the version whose elements it combines with (`op=!`: it
    does not, what it writes starts anew) or leaves where it writes nothing (it has the same
    memory); None where nothing of an older version stays: then the box starts as the identity of
    op (0 for `=`), also in elements that no point reaches. subs count from the box's lowest element
    (the `low` of the buffer is already subtracted, in reads too).
    """

    target: str
    base: str | None
    subs: tuple[Expr, ...]
    op: AssignOp
    value: Expr
    ranges: tuple[Range, ...]
    covers: bool  # every element of the box is written
    subs_checked: tuple[bool, ...]
    text: str  # the statement as TC text, for headers and `show`
    along: str | None = None  # the output index in whose order points run: a scan (`scans.py`)
    regroups: bool = False  # of a scan: a fold of all that lies before, in any grouping
    _reads: tuple[typed.Read, ...] | None = field(
        default=None, init=False, compare=False, repr=False
    )
    _accesses: tuple[PlainAccess, ...] | None = field(
        default=None, init=False, compare=False, repr=False
    )

    @property
    def outputs(self) -> tuple[Range, ...]:
        """The ranges of the output indices."""
        return tuple(r for r in self.ranges if r.kind == "output")

    @property
    def reductions(self) -> tuple[Range, ...]:
        """The ranges of the reduction indices."""
        return tuple(r for r in self.ranges if r.kind == "reduction")

    @property
    def is_arg(self) -> bool:
        """Whether it looks for the place of an extreme."""
        return self.op.startswith("arg")

    @property
    def is_ragged(self) -> bool:
        """Whether ranges depend on indices or on data."""
        return any(r.bounds is not None for r in self.ranges)

    @property
    def is_whole(self) -> bool:
        """Whether all is done once every point is written.

        So it is where the points are the box; or where each writes an element of its own, `h(t, n)`
        of turn t or `O(2 * i)`, and the others stay what they were.
        """
        if self.covers or self.base is None:
            return self.covers
        maps = [affine_of(e) for e in self.subs]
        used = [f.terms[0] for f in maps if f is not None and len(f.terms) == 1]
        fixed = [f for f in maps if f is not None and not f.terms]
        outputs = {r.name for r in self.outputs}
        return (
            len(used) + len(fixed) == len(maps)
            and len(used) == len(outputs)
            and {n for n, _ in used} == outputs
        )

    @property
    def resumes(self) -> bool:
        """Whether the elements that it writes go on from what they held."""
        return self.base is not None and not starts_anew(self.op)

    def reads(self) -> tuple[typed.Read, ...]:
        """Return the reads of the right side, of the subscripts and of bounds, in order."""
        if self._reads is None:  # passes ask again and again
            others = (*self.subs, *(e for r in self.ranges for e in r.bounds or ()))
            found = [r for e in others for r in reads_of(e)]
            object.__setattr__(self, "_reads", (*reads_of(self.value), *found))
        assert self._reads is not None
        return self._reads

    def subscripts(self) -> Iterator[typed.Expr]:
        """Yield the subscripts of what it writes and of all that it reads."""
        yield from self.subs
        for read in self.reads():
            yield from read.subs

    def plain_accesses(self) -> tuple[PlainAccess, ...]:
        """Return what it goes on from, reads and writes, in that order."""
        if self._accesses is None:
            target = _plain(self.subs)
            reads = [(r.tensor, _plain(r.subs)) for r in self.reads()]
            base = [] if self.base is None else [(self.base, target)]
            object.__setattr__(self, "_accesses", (*base, *reads, (self.target, target)))
        assert self._accesses is not None
        return self._accesses


@dataclass(frozen=True, slots=True)
class TurnLoop:
    """`for var in low:high` around statements [first, last)."""

    var: str
    low: Size
    high: Size
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Program:
    """A definition as statements over buffers, in order, and the loops around them.

    Loops nest and stand in the order in which they begin, an outer one first. Versions are numbered
    in the order of the text: in a loop, what an earlier statement reads by its old name is, from
    the second turn on, what a later one has left in the same memory (`carried`).
    """

    name: str
    text: str  # the TC text: the header comment
    sizes: tuple[str, ...]  # those of `CheckedDef.sizes`: extents, then scalars in bounds
    scalars: tuple[str, ...]  # all rank-0 parameters, in order: they come by value
    inputs: tuple[str, ...]  # versions that hold the parameters, in order
    outputs: tuple[str, ...]  # last versions of the returns, in order
    buffers: tuple[Buffer, ...]
    statements: tuple[Statement, ...]
    constraints: tuple[Constraint, ...]
    loops: tuple[TurnLoop, ...] = ()
    _by_name: dict[str, Buffer] = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_by_name", {b.name: b for b in self.buffers})

    def buffer(self, name: str) -> Buffer:
        """Return the buffer of that name."""
        return self._by_name[name]

    @property
    def operands(self) -> tuple[str, ...]:
        """The buffers of the arguments of the executable: parameters, then returns."""
        return (*self.inputs, *self.outputs)

    @property
    def turns(self) -> frozenset[str]:
        """The variables of the loops."""
        return frozenset(x.var for x in self.loops)

    def stretch(self, position: int) -> int:
        """Return a number that statements share if no loop begins or ends between them."""
        if not self.loops:
            return 0
        ends = {end for x in self.loops for end in (x.first, x.last)}
        return sum(end <= position for end in ends)

    def is_one_stretch(self, places: Iterable[Sequence[int]]) -> bool:
        """Whether no loop begins or ends between statements; places: of some each, in order."""
        return len({self.stretch(some[end]) for some in places for end in (0, -1)}) <= 1

    def depends(self, size: Size) -> bool:
        """Whether a size changes from turn to turn."""
        return not self.turns.isdisjoint(size.symbols())


def carried(program: Program) -> frozenset[str]:
    """Return versions that live longer than names tell: through turns of a loop, or around it.

    All versions of a memory that some loop writes; but not those of a temporary that is written
    anew and read within one stretch.
    """
    if not program.loops:
        return frozenset()
    homes = {x.name: x.home for x in program.buffers}
    inside = {i for x in program.loops for i in range(x.first, x.last)}
    written = {homes[program.statements[i].target] for i in inside}
    longer = {homes[name] for name in program.outputs}
    made: dict[str, int] = {}  # the stretch that makes a version
    for i, s in enumerate(program.statements):
        here = program.stretch(i)
        used = [r.tensor for r in s.reads()] + ([s.base] if s.base is not None else [])
        longer |= {homes[name] for name in used if made.get(name) != here}
        made[s.target] = here
    return frozenset(name for name, home in homes.items() if home in written & longer)


def _plain(subs: tuple[Expr, ...]) -> tuple[str | None, ...]:
    return tuple(a.plain if (a := affine_of(e)) else None for e in subs)
