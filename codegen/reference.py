"""The slow truth: NumPy, straight from the statement semantics, in blocks of bounded memory.

Every kernel is held against this evaluator. It shares nothing with the compiler but the checked
definition, so that a defect has to be made twice to stay unseen.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, assert_never

import numpy as np

from tcdsl.codegen.reference_math import BUILTINS, cast, identity, numpy_dtype
from tcdsl.grammar import typed
from tcdsl.grammar.dtypes import FLOAT32, FLOAT64, INT64, DType
from tcdsl.grammar.errors import BoundsError, InternalError, ShapeError
from tcdsl.grammar.sizes import Size, Symbol
from tcdsl.grammar.typed import CheckedDef, Expr, Statement

Array = np.ndarray[Any, np.dtype[Any]]

BLOCK_BYTES = 64 << 20
_POINT_BYTES = 4 * 8  # a point costs about four float64 temporaries


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
    """
    values = sizes_of(checked, args)
    run = _Run(checked, values, float64, block_bytes)
    for tensor, arg in zip(checked.params, args, strict=True):
        run.store[tensor.name] = np.array(arg, dtype=run.dtype(tensor.dtype))
    given = out or [None] * len(checked.returns)
    for tensor, array in zip(checked.returns, given, strict=True):
        if array is not None and tensor.is_updated:
            run.store[tensor.name] = np.array(array, dtype=run.dtype(tensor.dtype))
    with np.errstate(all="ignore"):
        run.block(checked.body, {})
    return tuple(run.store[t.name] for t in checked.returns)


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
class _Points:
    """A block of points: an int64 array per index, broadcastable, and which points count."""

    index: Mapping[str, Array]
    active: Array | None = None

    def where(self, condition: Array) -> _Points:
        active = condition if self.active is None else self.active & condition
        return replace(self, active=active)


class _Run:
    """One evaluation: the values of sizes and the contents of tensors."""

    def __init__(
        self, checked: CheckedDef, sizes: Mapping[str, int], float64: bool, block_bytes: int
    ) -> None:
        self.checked = checked
        self.sizes = sizes
        self.float64 = float64
        self.points_limit = max(1, block_bytes // _POINT_BYTES)
        self.store: dict[str, Array] = {}

    def dtype(self, dtype: DType) -> np.dtype[Any]:
        return numpy_dtype(FLOAT64 if self.float64 and dtype.is_float else dtype)

    def extent(self, size: Size, loop: Mapping[str, int]) -> int:
        return size.evaluate({**self.sizes, **loop})

    # ---- statements

    def block(self, stmts: Sequence[typed.Stmt], loop: Mapping[str, int]) -> None:
        for stmt in stmts:
            match stmt:
                case typed.Loop(var, low, high, body):
                    for turn in range(self.extent(low, loop), self.extent(high, loop)):
                        self.block(body, {**loop, var: turn})
                case Statement():
                    self.statement(stmt, loop)
                case _:
                    assert_never(stmt)

    def statement(self, stmt: Statement, loop: Mapping[str, int]) -> None:
        tensor = self.checked.tensor(stmt.target)
        stored = dtype = self.dtype(tensor.dtype)
        shape = tuple(self.extent(s, loop) for s in tensor.shape)
        op = stmt.op.rstrip("!")
        if tensor.dtype.is_half and stmt.is_reduction:
            dtype = self.dtype(FLOAT32)  # rounded once, when all points are in
        before = self.store.get(stmt.target)  # the right side sees the target as it was
        if stmt.op.endswith("!") or before is None:
            after = np.full(shape, identity(op, dtype), dtype)
        else:
            after = before.astype(dtype)
        if before is None:
            self.store[stmt.target] = after.copy()
        if op in ("argmin=", "argmax="):
            self.arg_reduction(stmt, after, loop)
        elif self.float64 and op == "+=" and (operands := _plain_product(stmt)) is not None:
            self.einsum(stmt, operands, after, loop)
        else:
            for points, kept, reduced in self.blocks(stmt, loop, split_reductions=True):
                full = np.broadcast_shapes(*(a.shape for a in points.index.values()), ())
                value = np.broadcast_to(self.eval(stmt.value, points), full)
                self.combine(
                    stmt, op, after, value.astype(dtype, copy=False), points, kept, reduced
                )
        self.store[stmt.target] = after.astype(stored, copy=False)

    def blocks(
        self, stmt: Statement, loop: Mapping[str, int], *, split_reductions: bool
    ) -> Iterator[tuple[_Points, int, tuple[int, ...]]]:
        """Yield blocks of points with the number of output axes and the reduction axes."""
        lows = [self.extent(r.low, loop) for r in stmt.ranges]
        extents = [self.extent(r.high, loop) - b for r, b in zip(stmt.ranges, lows, strict=True)]
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
            yield _Points(index), kept, tuple(range(kept, rank))

    def combine(
        self,
        stmt: Statement,
        op: str,
        target: Array,
        value: Array,
        points: _Points,
        kept: int,
        reduced: tuple[int, ...],
    ) -> None:
        """target[subs] op value, value reduced over its reduction axes first."""
        if reduced:
            value = _UFUNCS[op].reduce(value, axis=reduced, dtype=value.dtype)
        where = self.position(stmt, points, target.shape, value.shape, kept)
        if op == "=":
            target[where] = value
        elif where == ():
            target[...] = _UFUNCS[op](target, value, dtype=target.dtype)
        else:
            _UFUNCS[op].at(target, where, value)

    def position(
        self,
        stmt: Statement,
        points: _Points,
        shape: tuple[int, ...],
        block: tuple[int, ...],
        kept: int,
    ) -> tuple[Array, ...]:
        """Return, per dimension, where in the box the points of a block write."""
        tensor = self.checked.tensor(stmt.target)
        # Subscripts of the target depend on output indices and loop variables alone.
        outputs = {r.name for r in stmt.ranges[:kept]}
        outer = _Points(
            {
                n: a.reshape(a.shape[:kept]) if n in outputs else a
                for n, a in points.index.items()
                if n in outputs or a.ndim == 0
            }
        )
        where = []
        for d, sub in enumerate(stmt.subs):
            at = self.subscript(sub, outer) - self.extent(tensor.low[d], {})
            self.inside(stmt.target, d, at, shape[d], outer.active)
            where.append(np.broadcast_to(at, block))
        return tuple(where)

    def arg_reduction(self, stmt: Statement, target: Array, loop: Mapping[str, int]) -> None:
        """First of equals, the first NaN wins: NumPy's own rule."""
        pick = np.argmin if stmt.op.startswith("argmin") else np.argmax
        reductions = [r for r in stmt.ranges if r.kind == "reduction"]
        low = self.extent(reductions[0].low, loop) if len(reductions) == 1 else 0
        for points, kept, _ in self.blocks(stmt, loop, split_reductions=False):
            full = np.broadcast_shapes(*(a.shape for a in points.index.values()))
            value = np.broadcast_to(self.eval(stmt.value, points), full)
            flat = value.reshape(*full[:kept], -1)
            best = pick(flat, axis=-1) + low
            target[self.position(stmt, points, target.shape, best.shape, kept)] = best

    def einsum(
        self, stmt: Statement, operands: list[typed.Read], target: Array, loop: Mapping[str, int]
    ) -> None:
        """Sum a plain product in float64: the same value by a library call."""
        letters = {r.name: i for i, r in enumerate(stmt.ranges)}
        span = {r.name: (self.extent(r.low, loop), self.extent(r.high, loop)) for r in stmt.ranges}
        call: list[Any] = []
        for read in operands:
            names = [s.name for s in read.subs if isinstance(s, typed.IndexValue)]
            lows = self.checked.tensor(read.tensor).low
            view = self.store[read.tensor][
                tuple(
                    slice(span[n][0] - b, max(span[n][1], span[n][0]) - b)
                    for n, b in zip(names, (self.extent(x, {}) for x in lows), strict=True)
                )
            ]
            call += [view, [letters[n] for n in names]]
        names = [s.name for s in stmt.subs if isinstance(s, typed.IndexValue)]
        lows = self.checked.tensor(stmt.target).low
        box = tuple(
            slice(span[n][0] - self.extent(b, {}), span[n][1] - self.extent(b, {}))
            for n, b in zip(names, lows, strict=True)
        )
        target[box] += np.einsum(*call, [letters[n] for n in names], optimize=True)

    # ---- expressions

    def subscript(self, expr: Expr, points: _Points) -> Array:
        """Evaluate a subscript: arithmetic of addresses is exact, in int64."""
        match expr:
            case typed.Binary(("+" | "-" | "*" | "/" | "%") as op, lhs, rhs):
                return _arithmetic(op, self.subscript(lhs, points), self.subscript(rhs, points))
            case typed.Unary("-", operand):
                return np.asarray(-self.subscript(operand, points))
            case typed.IndexValue(name):
                return points.index[name]
            case typed.SizeValue(size):
                return np.asarray(self.extent(size, _scalars(points)), np.int64)
            case _:
                return cast(self.eval(expr, points), INT64)

    def eval(self, expr: Expr, points: _Points) -> Array:
        match expr:
            case typed.Lit(value, dtype):
                return np.asarray(value).astype(self.dtype(dtype))
            case typed.IndexValue(name, dtype):
                return points.index[name].astype(self.dtype(dtype))
            case typed.SizeValue(size, dtype):
                value = self.extent(size, _scalars(points))
                return np.asarray(value, np.int64).astype(self.dtype(dtype))
            case typed.Read():
                return self.read(expr, points)
            case typed.Unary(op, operand):
                x = self.eval(operand, points)
                return np.asarray(np.logical_not(x) if op == "!" else np.negative(x))
            case typed.Binary():
                return self.binary(expr, points)
            case typed.Select(cond, then, other):
                c = self.eval(cond, points)
                yes = self.eval(then, points.where(c))
                no = self.eval(other, points.where(np.logical_not(c)))
                return np.where(c, yes, no)
            case typed.Cast(operand, dtype):
                x = self.eval(operand, points)
                keep = self.float64 and dtype.is_float
                return cast(x, FLOAT64 if keep else dtype)
            case typed.Builtin(name, args, dtype):
                got = BUILTINS[name](*(self.eval(a, points) for a in args))
                return np.asarray(got).astype(self.dtype(dtype), copy=False)
            case _:
                assert_never(expr)

    def binary(self, expr: typed.Binary, points: _Points) -> Array:
        # A long sum is a deep left spine: walk it in a loop, not by recursion.
        spine: list[typed.Binary] = []
        left: Expr = expr
        while isinstance(left, typed.Binary):
            spine.append(left)
            left = left.lhs
        value = self.eval(left, points)
        for node in reversed(spine):
            if node.op == "&&":
                value = value & self.eval(node.rhs, points.where(value))
            elif node.op == "||":
                value = value | self.eval(node.rhs, points.where(~value))
            else:
                value = _arithmetic(node.op, value, self.eval(node.rhs, points))
        return value

    def read(self, expr: typed.Read, points: _Points) -> Array:
        source = self.store[expr.tensor]
        if not expr.subs:
            return source
        low = self.checked.tensor(expr.tensor).low
        where, empty = [], 0 in source.shape
        for d, sub in enumerate(expr.subs):
            at = self.subscript(sub, points) - self.extent(low[d], {})
            self.inside(expr.tensor, d, at, source.shape[d], points.active)
            where.append(np.clip(at, 0, max(source.shape[d] - 1, 0)))
        if empty:  # every point that counts was inside, so none counts
            return np.zeros(np.broadcast_shapes(*(a.shape for a in where)), source.dtype)
        return np.asarray(source[tuple(where)])

    def inside(self, name: str, dim: int, at: Array, extent: int, active: Array | None) -> None:
        outside = (at < 0) | (at >= extent)
        if active is not None:
            outside = outside & active
        if np.any(outside):
            value = int(np.broadcast_to(at, outside.shape)[outside].flat[0])
            raise BoundsError(f"subscript {dim} of '{name}' is {value}, outside [0, {extent})")


_UFUNCS: dict[str, np.ufunc] = {
    "+=": np.add,
    "*=": np.multiply,
    "min=": np.minimum,
    "max=": np.maximum,
}


def _scalars(points: _Points) -> dict[str, int]:
    return {n: int(a) for n, a in points.index.items() if a.ndim == 0}


def _arithmetic(op: str, x: Array, y: Array) -> Array:
    match op:
        case "+":
            r = np.add(x, y)
        case "-":
            r = np.subtract(x, y)
        case "*":
            r = np.multiply(x, y)
        case "/" if x.dtype.kind == "f":
            r = np.divide(x, y)
        case "/":
            r = np.floor_divide(x, y)
        case "%":
            r = np.remainder(x, y)
        case "<":
            r = np.less(x, y)
        case "<=":
            r = np.less_equal(x, y)
        case ">":
            r = np.greater(x, y)
        case ">=":
            r = np.greater_equal(x, y)
        case "==":
            r = np.equal(x, y)
        case "!=":
            r = np.not_equal(x, y)
        case _:
            raise InternalError(f"operator {op}")
    return np.asarray(r)


def _plain_product(stmt: Statement) -> list[typed.Read] | None:
    """Return the reads of a product of plain accesses, or None if the value is anything else."""
    reads: list[typed.Read] = []
    todo: list[Expr] = [stmt.value]
    while todo:
        match todo.pop():
            case typed.Binary("*", lhs, rhs, dtype) if dtype.is_float:
                todo += [lhs, rhs]
            case typed.Cast(operand, dtype) if dtype.is_float:
                todo.append(operand)
            case typed.Read(_, subs, dtype) as read if subs and dtype.is_float:
                reads.append(read)
            case _:
                return None
    names = {r.name for r in stmt.ranges}
    used = {s.name for r in reads for s in r.subs if isinstance(s, typed.IndexValue)}
    plain = all(
        isinstance(s, typed.IndexValue) and s.name in names for r in reads for s in r.subs
    ) and all(isinstance(s, typed.IndexValue) for s in stmt.subs)
    return reads if plain and used == names and len(set(stmt.subs)) == len(stmt.subs) else None
