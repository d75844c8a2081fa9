"""The slow truth: NumPy, straight from the statement semantics, in blocks of bounded memory.

Every kernel is held against this evaluator. It shares nothing with the compiler but the checked
definition, so that a defect has to be made twice to stay unseen.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import replace
from typing import Any, assert_never

import numpy as np

from tcdsl.codegen.program.dtypes import identity
from tcdsl.codegen.program.expressions import walk_typed
from tcdsl.codegen.reference.arithmetic import Array
from tcdsl.codegen.reference.expressions import Evaluator, Points, is_all_inside
from tcdsl.codegen.reference.products import add_products, factors_of, is_worth_it
from tcdsl.codegen.reference.ragged import first_extreme, ragged_blocks
from tcdsl.grammar.proofs.sizes import Symbol
from tcdsl.grammar.text.dataclass import dataclass
from tcdsl.grammar.text.errors import ShapeError
from tcdsl.grammar.text.stack import on_own_stack
from tcdsl.grammar.types import typed
from tcdsl.grammar.types.dtypes import FLOAT32
from tcdsl.grammar.types.typed import CheckedDef, Statement

BLOCK_BYTES = 64 << 20
_POINT_BYTES = 4 * 8  # a point costs about four float64 temporaries


class AbandonedError(Exception):
    """Nobody wants the results any more."""


# asked before each block of points, by whoever set it in the context that evaluates
is_abandoned: ContextVar[Callable[[], bool] | None] = ContextVar("is_abandoned", default=None)


@on_own_stack
def evaluate(
    checked: CheckedDef,
    args: Sequence[Any],
    *,
    out: Sequence[Array | None] | None = None,
    float64: bool = False,
    block_bytes: int = BLOCK_BYTES,
) -> tuple[Array, ...]:
    """Run a definition and return its results.

    Parameters
    ----------
    checked : CheckedDef
    args : sequence of arrays and numbers
        One per parameter, of the declared shape and type.
    out : sequence of arrays or None, optional
        One per return; read only where the definition updates it (`op=` first), never written.
    float64 : bool, default False
        Compute every float in float64 and return float64: the yardstick for float kernels.
    block_bytes : int, default 64 MB
        Bound on the temporaries of one block of points.

    Returns
    -------
    tuple of ndarray, one per return

    Raises
    ------
    ShapeError
        If two arguments give one size different values.
    BoundsError
        If a subscript read from data is outside its tensor.
    AbandonedError
        If `is_abandoned` says so.
    """
    values = Evaluator(checked, sizes_of(checked, args), float64)
    run = _Run(values, max(1, block_bytes // _POINT_BYTES))
    for tensor, arg in zip(checked.params, args, strict=True):
        values.store[tensor.name] = np.array(arg, dtype=values.dtype(tensor.dtype))
    given = out or [None] * len(checked.returns)
    for tensor, array in zip(checked.returns, given, strict=True):
        if array is not None and tensor.is_updated:
            values.store[tensor.name] = np.array(array, dtype=values.dtype(tensor.dtype))
    with np.errstate(all="ignore"):
        run.block(checked.body, {})
    return tuple(values.store[t.name] for t in checked.returns)


def sizes_of(checked: CheckedDef, args: Sequence[Any]) -> dict[str, int]:
    """Return the values of the size symbols that the arguments bring.

    Raises
    ------
    ShapeError
        If two arguments disagree.
    """
    values: dict[str, int] = {}
    for tensor, arg in zip(checked.params, args, strict=True):
        if not tensor.shape and tensor.name in checked.sizes:
            values[tensor.name] = int(arg)
        for size, extent in zip(tensor.shape, np.shape(arg), strict=True):
            match size.terms:
                case (((Symbol(name),), 1),):
                    if values.setdefault(name, extent) != extent:
                        raise ShapeError(f"{name} is {values[name]} and {extent}")
    return values


@dataclass(frozen=True, slots=True)
class _Run:
    """One evaluation, statement by statement, of at most so many points at once."""

    values: Evaluator
    points_limit: int

    def block(self, stmts: Sequence[typed.Stmt], loop: Mapping[str, int]) -> None:
        for stmt in stmts:
            match stmt:
                case typed.Loop(var, low, high, body):
                    self.begin(body)
                    for turn in range(
                        self.values.extent(low, loop), self.values.extent(high, loop)
                    ):
                        self.block(body, {**loop, var: turn})
                case Statement():
                    self.statement(stmt, loop)
                case _:
                    assert_never(stmt)

    def begin(self, body: Sequence[typed.Stmt]) -> None:
        """Give what a loop is the first to write its initial contents: there may be no turn."""
        for stmt in body:
            match stmt:
                case typed.Loop(body=inner):
                    self.begin(inner)
                case Statement(target=name) if name not in self.values.store:
                    tensor = self.values.checked.tensor(name)
                    dtype = self.values.dtype(tensor.dtype)
                    shape = tuple(self.values.extent(s, {}) for s in tensor.shape)
                    first = identity(stmt.op.rstrip("!"), dtype)
                    self.values.store[name] = np.full(shape, first, dtype)
                case Statement():
                    pass
                case _:
                    assert_never(stmt)

    def statement(self, stmt: Statement, loop: Mapping[str, int]) -> None:
        tensor = self.values.checked.tensor(stmt.target)
        stored = dtype = self.values.dtype(tensor.dtype)
        shape = tuple(self.values.extent(s, loop) for s in tensor.shape)
        op = stmt.op.rstrip("!")
        if tensor.dtype.is_half and stmt.is_reduction:
            dtype = self.values.dtype(FLOAT32)  # rounded once, when all points are in
        before = self.values.store.get(stmt.target)  # the right side sees the target as it was
        if before is None or (stmt.op.endswith("!") and _reads_on_the_left(stmt)):
            after = np.full(shape, identity(op, dtype), dtype)
        else:
            # A turn of a loop that is one block reads all before it writes: it needs no copy, which
            # would make a loop along long rows take as long as all of them squared.
            in_place = bool(loop) and stmt.op == op and self._is_one_block(stmt, loop)
            after = before.astype(dtype, copy=not in_place)
            if stmt.op.endswith("!"):
                self.start(stmt, after, identity(op, dtype), loop)
        if before is None:
            self.values.store[stmt.target] = after.copy()
        if op in ("argmin=", "argmax="):
            self.arg_reduction(stmt, after, loop)
        elif not self.products(stmt, after, loop):
            for points, kept, reduced in self.blocks(stmt, loop, split_reductions=True):
                full = np.broadcast_shapes(*(a.shape for a in points.index.values()), ())
                value = np.broadcast_to(self.values.of(stmt.value, points), full)
                if points.active is not None:  # points of ragged ranges are some of a box
                    value = np.where(points.active, value, identity(op, dtype))
                self.combine(
                    stmt, op, after, value.astype(dtype, copy=False), points, kept, reduced
                )
        self.values.store[stmt.target] = after.astype(stored, copy=False)

    def _is_one_block(self, stmt: Statement, loop: Mapping[str, int]) -> bool:
        if stmt.is_ragged:
            return False
        extent = self.values.extent
        counts = [max(0, extent(r.high, loop) - extent(r.low, loop)) for r in stmt.ranges]
        return math.prod(counts) <= self.points_limit

    def start(self, stmt: Statement, target: Array, first: Any, loop: Mapping[str, int]) -> None:
        """Let the elements that a statement writes begin anew, also where it reduces nothing."""
        stmt = replace(stmt, ranges=tuple(r for r in stmt.ranges if r.kind == "output"))
        for points, kept, _ in self.blocks(stmt, loop, split_reductions=True):
            full = np.broadcast_shapes(*(a.shape for a in points.index.values()), ())
            target[self.position(stmt, points, target.shape, full[:kept], kept)] = first

    def blocks(
        self, stmt: Statement, loop: Mapping[str, int], *, split_reductions: bool
    ) -> Iterator[tuple[Points, int, tuple[int, ...]]]:
        """Yield blocks of points with the number of output axes and the reduction axes."""
        for block in self._all_blocks(stmt, loop, split_reductions=split_reductions):
            _ask()
            yield block

    def _all_blocks(
        self, stmt: Statement, loop: Mapping[str, int], *, split_reductions: bool
    ) -> Iterator[tuple[Points, int, tuple[int, ...]]]:
        if stmt.is_ragged:
            yield from ragged_blocks(stmt, self.values, loop, self.points_limit, split_reductions)
            return
        extent = self.values.extent
        lows = [extent(r.low, loop) for r in stmt.ranges]
        extents = [extent(r.high, loop) - b for r, b in zip(stmt.ranges, lows, strict=True)]
        kept = sum(r.kind == "output" for r in stmt.ranges)
        rank = len(extents)
        room, chunks = self.points_limit, [1] * rank
        for axis in reversed(range(rank)):
            whole = axis >= kept and not split_reductions
            chunks[axis] = max(1, extents[axis] if whole else min(extents[axis], room))
            room = max(1, room // chunks[axis])
        starts = (range(0, e, c) for e, c in zip(extents, chunks, strict=True))
        for start in itertools.product(*starts):
            index: dict[str, Array] = {k: np.asarray(v, np.int64) for k, v in loop.items()}
            for axis, r in enumerate(stmt.ranges):
                stop = min(start[axis] + chunks[axis], extents[axis])
                line = np.arange(start[axis], stop, dtype=np.int64) + lows[axis]
                index[r.name] = line.reshape([-1 if a == axis else 1 for a in range(rank)])
            yield Points(index), kept, tuple(range(kept, rank))

    def combine(
        self,
        stmt: Statement,
        op: str,
        target: Array,
        value: Array,
        points: Points,
        kept: int,
        reduced: tuple[int, ...],
    ) -> None:
        """target[subs] op value, value reduced over its reduction axes first."""
        if reduced:
            value = _UFUNCS[op].reduce(value, axis=reduced, dtype=value.dtype)
        where = self.position(stmt, points, target.shape, value.shape, kept)
        if points.written is not None:
            active = np.broadcast_to(points.written, value.shape)
            where, value = tuple(at[active] for at in where), value[active]
        if op == "=":
            target[where] = value
        elif where == ():
            target[...] = _UFUNCS[op](target, value, dtype=target.dtype)
        else:
            _UFUNCS[op].at(target, where, value)

    def position(
        self,
        stmt: Statement,
        points: Points,
        shape: tuple[int, ...],
        block: tuple[int, ...],
        kept: int,
    ) -> tuple[Array, ...]:
        """Return, per dimension, where in the box the points of a block write."""
        tensor = self.values.checked.tensor(stmt.target)
        # Subscripts of the target depend on output indices and loop variables alone.
        outputs = {r.name for r in stmt.ranges[:kept]}
        outer = Points(
            {
                n: a.reshape(a.shape[:kept]) if n in outputs else a
                for n, a in points.index.items()
                if n in outputs or a.ndim == 0
            },
            points.written,
        )
        where = []
        for d, sub in enumerate(stmt.subs):
            at = self.values.subscript(sub, outer) - self.values.extent(tensor.low[d], {})
            if not is_all_inside(at, shape[d]):
                self.values.inside(stmt.target, d, at, shape[d], outer.active)
            where.append(np.broadcast_to(at, block))
        return tuple(where)

    def arg_reduction(self, stmt: Statement, target: Array, loop: Mapping[str, int]) -> None:
        """First of equals, the first NaN wins: NumPy's own rule."""
        pick = np.argmin if stmt.op.startswith("argmin") else np.argmax
        reductions = [r for r in stmt.ranges if r.kind == "reduction"]
        low = self.values.extent(reductions[0].low, loop) if len(reductions) == 1 else 0
        for points, kept, _ in self.blocks(stmt, loop, split_reductions=False):
            full = np.broadcast_shapes(*(a.shape for a in points.index.values()))
            value = np.broadcast_to(self.values.of(stmt.value, points), full)
            if 0 in full[kept:]:  # nothing to choose from: the target keeps its 0
                continue
            if points.active is not None:
                best = first_extreme(stmt, self.values, loop, points, value, kept)
            else:
                flat = value.reshape(*full[:kept], math.prod(full[kept:]))
                best = pick(flat, axis=-1) + low
            target[self.position(stmt, points, target.shape, best.shape, kept)] = best

    def products(self, stmt: Statement, target: Array, loop: Mapping[str, int]) -> bool:
        """Sum products in float64 by a library's calls; False where that is nothing for them."""
        factors = factors_of(stmt) if self.values.float64 else None
        if factors is None:
            return False
        extent = self.values.extent
        spans = {r.name: (extent(r.low, loop), extent(r.high, loop)) for r in stmt.ranges}
        if not is_worth_it(stmt, factors, spans):
            return False
        add_products(self.values, stmt, factors, target, spans, loop, self.points_limit, _ask)
        return True


def _ask() -> None:
    """Raise if nobody wants the results any more."""
    asked = is_abandoned.get()
    if asked is not None and asked():
        raise AbandonedError


def _reads_on_the_left(stmt: Statement) -> bool:
    """Whether data decides which elements a statement writes."""
    return any(isinstance(e, typed.Read) for sub in stmt.subs for e in walk_typed(sub))


_UFUNCS: dict[str, np.ufunc] = {
    "+=": np.add,
    "*=": np.multiply,
    "min=": np.minimum,
    "max=": np.maximum,
}
