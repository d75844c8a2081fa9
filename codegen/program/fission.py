"""Loops distributed: sums of products that no turn waits for are one product before the loop.

    for t in 0:T {                               G.turns(t, b, n) +=! X(t, b, i) * W(n, i)
      G(b, n) +=! X(t, b, i) * W(n, i)      ->   for t in 0:T {
      G(b, n) += H(t, b, m) * U(n, m)              G.sum(b, n) +=! H(t, b, m) * U(n, m)
      ...                                          G(b, n) = G.turns(t, b, n) + G.sum(b, n)
                                                   ...

A product of a few rows a turn, whose other factor is packed in every turn, is slower by far than
one product of the rows of all turns. Loop distribution with array expansion (Kennedy & Allen, 2001,
sections 5.4, 5.5). Tensors that keep all turns already are written where they lie.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from math import prod

from tcdsl.codegen.program.affine import affine_of
from tcdsl.codegen.program.expressions import (
    from_lowest,
    indices_of,
    map_typed,
    reads_of,
    walk_typed,
)
from tcdsl.codegen.program.inline import is_contraction
from tcdsl.codegen.program.program import Buffer, Program, Statement, TurnLoop
from tcdsl.codegen.program.scans import with_index
from tcdsl.codegen.program.temporaries import name_of, new_buffer
from tcdsl.grammar.proofs.signs import is_nonnegative
from tcdsl.grammar.proofs.sizes import Size
from tcdsl.grammar.text.fresh import fresh
from tcdsl.grammar.text.nodes import starts_anew
from tcdsl.grammar.types import typed
from tcdsl.grammar.types.dtypes import BOOL, INT64
from tcdsl.grammar.types.typed import Expr, Range

Sizes = tuple[tuple[str, int], ...]
# What is compared, in ns of one thread: an element of the temporary, written and read past the
# caches; an element of a factor that every turn packs; a phase of every turn.
_ELEMENT_NS, _PACKED_NS, _PHASE_NS = 0.6, 0.5, 4000.0
_MOST_MEMORY = 4  # times that of the operands: what the temporary of a statement may take


@lru_cache(maxsize=64)
def distributed(program: Program, sizes: Sizes) -> Program:
    """Return a program whose loops have left sums of products before them, where that pays.

    Parameters
    ----------
    program : Program
    sizes : tuple of (str, int)
        At which costs are compared.
    """
    at = 0
    while at < len(program.statements):
        loop = _loop_of(program, at)
        found = None if loop is None else _without(program, at, loop, dict(sizes))
        program, at = (program, at + 1) if found is None else (found, 0)
    return program


def _loop_of(program: Program, at: int) -> TurnLoop | None:
    """Return the innermost loop around a statement."""
    return next((x for x in reversed(program.loops) if x.first <= at < x.last), None)


def _without(program: Program, at: int, loop: TurnLoop, sizes: Mapping[str, int]) -> Program | None:
    """Return a program whose loop has left a statement before it; None where it may or need not."""
    s = program.statements[at]
    if not is_contraction(s) or s.is_ragged or not starts_anew(s.op):
        return None
    if s.base is None and not s.covers:  # every turn fills the rest of the box too
        return None
    if any(s.subs_checked) or any(any(r.checked) for r in s.reads()):
        return None
    if any(program.depends(x) for r in s.ranges for x in (r.low, r.high)):
        return None
    if program.buffer(s.target).dtype == BOOL:
        return None
    inside = program.statements[loop.first : loop.last]
    written = {program.buffer(x.target).home for x in inside}
    if any(program.buffer(r.tensor).home in written for r in s.reads()):
        return None
    if not _has_known_turns(program, loop):
        return None
    taken = {*program.sizes, *program.turns, *(r.name for r in s.ranges)}
    name = fresh(loop.var, taken)
    turned = [with_index(e, loop.var, name) for e in (s.value, *s.subs)]
    known = [e for e in turned if e is not None]
    if len(known) < len(turned):
        return None
    value, *subs = known
    if any(affine_of(e) is None for r in reads_of(value) for e in r.subs):
        return None  # no contraction of all turns
    turns = Range(name, loop.low, loop.high, "output")
    moved = replace(s, value=value, subs=tuple(subs), ranges=(turns, *s.ranges))
    planes = [d for d, e in enumerate(subs) if name in indices_of(e)]
    if planes:
        is_apart = _are_apart(program, at, loop, planes)
        if not is_apart or not _pays(program, s, loop, sizes, takes_memory=False):
            return None
        return _Distributing(program, at, loop).result([moved], [])
    if not s.covers or not _pays(program, s, loop, sizes, takes_memory=True):
        return None
    return _expanded(program, at, loop, moved, typed.IndexValue(name, INT64))


def _has_known_turns(program: Program, loop: TurnLoop) -> bool:
    """Whether a loop has the same turns whenever it runs, and not fewer than none."""
    symbols = {*loop.low.symbols(), *loop.high.symbols()}
    shapes = {x for b in program.buffers for e in b.shape for x in e.symbols()}
    is_known = symbols.isdisjoint({*program.turns, *program.scalars}) and loop.var not in shapes
    return is_known and is_nonnegative(loop.high - loop.low)


def _are_apart(program: Program, at: int, loop: TurnLoop, planes: Sequence[int]) -> bool:
    """Whether each turn touches one plane of what a statement writes, and none before it does."""
    s = program.statements[at]
    home = program.buffer(s.target).home
    for i in range(loop.first, loop.last):
        other = program.statements[i]
        touched = [r.subs for r in other.reads() if program.buffer(r.tensor).home == home]
        if program.buffer(other.target).home == home:
            if other.base is None:  # it fills the box
                return False
            touched.append(other.subs)
        if i == at or not touched:
            continue
        in_plane = (all(affine_of(x[d]) == affine_of(s.subs[d]) for x in touched) for d in planes)
        if i < at or not any(in_plane):
            return False
    return True


def _pays(
    program: Program, s: Statement, loop: TurnLoop, sizes: Mapping[str, int], *, takes_memory: bool
) -> bool:
    """Whether the rows of all turns at once take less time, in memory that is not too much."""

    def elements(name: str) -> int:
        return prod(max(0, e.evaluate(sizes)) for e in program.buffer(name).shape)

    points = prod(max(0, r.extent.evaluate(sizes)) for r in s.outputs)
    count = (loop.high - loop.low).evaluate(sizes)
    if takes_memory and count * points > _MOST_MEMORY * sum(map(elements, program.operands)):
        return False
    packed = sum(elements(r.tensor) for r in reads_of(s.value) if not _turns(r, loop.var))
    return points * _ELEMENT_NS < packed * _PACKED_NS + _PHASE_NS


def _turns(read: typed.Read, var: str) -> bool:
    """Whether what is read is another part in each turn."""
    sizes = [x.size for e in read.subs for x in walk_typed(e) if isinstance(x, typed.SizeValue)]
    return any(var in size.symbols() for size in sizes)


def _expanded(
    program: Program, at: int, loop: TurnLoop, moved: Statement, turn: Expr
) -> Program | None:
    """Return a program whose statement writes a plane of a temporary for every turn."""
    s, target = program.statements[at], program.buffer(program.statements[at].target)
    if target.dtype.is_half and target.role == "return":  # storing would round it
        return None
    out = _Distributing(program, at, loop)
    plane = from_lowest(turn, loop.low)
    kept = out.temporary("turns", target, (loop.high - loop.low, *target.shape))
    moved = replace(moved, target=kept, base=None, subs=(plane, *moved.subs), covers=True)
    moved = replace(moved, subs_checked=(False,) * len(moved.subs))
    now = typed.SizeValue(Size.symbol(loop.var, signed=True) - loop.low, INT64)

    def of_turn(subs: tuple[Expr, ...]) -> Expr:
        at = (now, *subs)
        return typed.Read(kept, at, target.dtype, (False,) * len(at))

    then = _resuming(program, at, loop)
    if _is_left_alone(program, at, loop):

        def one(e: Expr) -> Expr:
            is_its = isinstance(e, typed.Read) and e.tensor == s.target
            return of_turn(e.subs) if is_its and isinstance(e, typed.Read) else e

        return out.result([moved], [], reading=lambda e: map_typed(e, one))
    copied = replace(s, base=None, op="=", value=of_turn(s.subs), ranges=s.outputs)
    if then is None:
        return out.result([moved], [copied])
    more = program.statements[then]
    total = out.temporary("sum", target, target.shape)
    read = typed.Read(total, more.subs, target.dtype, (False,) * len(more.subs))
    both = typed.Binary("+", of_turn(more.subs), read, target.dtype)
    return out.result(
        [moved],
        [],
        then,
        [
            replace(more, target=total, base=None, op="+=!"),
            replace(more, base=None, op="=", value=both, ranges=more.outputs),
        ],
    )


def _is_left_alone(program: Program, at: int, loop: TurnLoop) -> bool:
    """Whether what a statement leaves is only read, by values of later statements of its turn."""
    s = program.statements[at]
    home = program.buffer(s.target).home
    if program.buffer(s.target).role != "temp":
        return False
    for i, other in enumerate(program.statements):
        writes = program.buffer(other.target).home == home
        names = [r.tensor for r in other.reads() if program.buffer(r.tensor).home == home]
        names += [other.base] if other.base is not None and writes else []
        in_values = [r.tensor for r in reads_of(other.value)].count(s.target)
        if i != at and writes and loop.first <= i < loop.last:
            return False
        if names and not (at < i < loop.last and set(names) == {s.target}):
            return False
        if len(names) != in_values:
            return False
    return True


def _resuming(program: Program, at: int, loop: TurnLoop) -> int | None:
    """Return the sum of the same stretch that alone goes on from what a statement leaves."""
    s = program.statements[at]
    home = program.buffer(s.target).home
    if s.target in program.outputs:
        return None
    for i in range(at + 1, loop.last):
        other = program.statements[i]
        if program.stretch(i) != program.stretch(at):
            return None
        reads = any(program.buffer(r.tensor).home == home for r in other.reads())
        if program.buffer(other.target).home != home and not reads:
            continue
        goes_on = other.base == s.target and other.op == "+=" and other.covers and not reads
        dtype = program.buffer(s.target).dtype
        typed_alike = other.value.dtype == dtype and not dtype.is_half
        plain = bool(other.reductions) and not other.is_ragged and not any(other.subs_checked)
        if not (goes_on and typed_alike and plain):
            return None
        users = [x for x in program.statements if s.target in (x.base, *_names(x))]
        return i if users == [other] else None
    return None


def _names(s: Statement) -> list[str]:
    return [r.tensor for r in s.reads()]


class _Distributing:
    """A program in the making: a statement of a loop leaves it."""

    def __init__(self, program: Program, at: int, loop: TurnLoop) -> None:
        self._program, self._at, self._loop = program, at, loop
        self._buffers: list[Buffer] = []

    def temporary(self, kind: str, like: Buffer, shape: tuple[Size, ...]) -> str:
        """Add the buffer of a temporary, and return its name."""
        name = name_of(like.tensor, kind, (*self._program.buffers, *self._buffers))
        self._buffers.append(new_buffer(name, like.tensor, like.dtype, shape))
        return name

    def result(
        self,
        before: Sequence[Statement],
        instead: Sequence[Statement],
        then: int | None = None,
        there: Sequence[Statement] = (),
        reading: Callable[[Expr], Expr] | None = None,
    ) -> Program:
        """Return the program.

        Parameters
        ----------
        before : sequence of Statement
            What stands before the loop.
        instead : sequence of Statement
            What stands where the statement was.
        then : int, optional
            Another statement, which `there` takes the place of.
        reading : callable, optional
            Values of the statements of the loop with other reads.
        """
        program, loop = self._program, self._loop
        outer = program.loops[: program.loops.index(loop)]
        others = {k for k, x in enumerate(outer) if x.first <= loop.first < x.last}
        placed: list[tuple[Statement, set[int]]] = []
        for i, s in enumerate(program.statements):
            if i == loop.first:
                placed += [(x, others) for x in before]
            around = {k for k, x in enumerate(program.loops) if x.first <= i < x.last}
            here = instead if i == self._at else there if i == then else [s]
            if reading is not None and loop.first <= i < loop.last:
                here = [replace(x, value=reading(x.value)) for x in here]
            placed += [(x, around) for x in here]
        loops = []
        for k, x in enumerate(program.loops):
            inside = [i for i, (_, around) in enumerate(placed) if k in around]
            if inside:
                loops.append(replace(x, first=inside[0], last=inside[-1] + 1))
        return replace(
            program,
            buffers=(*program.buffers, *self._buffers),
            statements=tuple(s for s, _ in placed),
            loops=tuple(loops),
        )
