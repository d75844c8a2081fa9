"""Random arguments of a definition: floats normal, subscripts inside what they index."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tcdsl.autotune.case import Array
from tcdsl.codegen.program import reads_of
from tcdsl.codegen.reference_math import numpy_dtype
from tcdsl.grammar import typed
from tcdsl.grammar.dtypes import DType
from tcdsl.grammar.typed import CheckedDef, Expr

_SMALL = 8  # integers that index nothing lie in [-8, 8]

Interval = tuple[float, float]  # both ends belong to it
_ANYTHING: Interval = (-np.inf, np.inf)


def random_inputs(
    checked: CheckedDef,
    sizes: Mapping[str, int],
    seed: int,
    given: Mapping[str, Any] | None = None,
) -> tuple[Array, ...]:
    """Return arguments for a call.

    Parameters
    ----------
    checked : CheckedDef
    sizes : mapping of str to int
    seed : int
        The same seed gives the same arrays.
    given : mapping of str to array or number, optional
        Arguments that are not random, by name.

    Returns
    -------
    tuple of ndarray, one per parameter
        Floats are normal, or in [0.5, 1.5] for one number alone (it may be a divisor, a variance);
        integers that are used as subscripts lie in what they index, others in [-8, 8].
    """
    rng = np.random.default_rng(seed)
    limits = subscript_limits(checked, sizes)
    arrays = []
    for tensor in checked.params:
        dtype = numpy_dtype(tensor.dtype)
        shape = tuple(s.evaluate(sizes) for s in tensor.shape)
        if given is not None and tensor.name in given:
            value = np.asarray(given[tensor.name]).astype(dtype)
        elif not shape and tensor.name in sizes:
            value = np.asarray(sizes[tensor.name], dtype)
        else:
            value = random_array(tensor.dtype, shape, rng, limits.get(tensor.name))
        arrays.append(value)
    return tuple(arrays)


def random_array(
    dtype: DType, shape: tuple[int, ...], rng: np.random.Generator, limit: int | None = None
) -> Array:
    """Return a random array; limit is the extent that it indexes."""
    kind = numpy_dtype(dtype)
    if dtype.is_float:
        values = rng.standard_normal(shape) if shape else rng.uniform(0.5, 1.5, shape)
        return np.asarray(values).astype(kind)
    if dtype.kind == "bool":
        return np.asarray(rng.integers(0, 2, shape), kind)
    if limit is not None:
        return np.asarray(rng.integers(0, max(limit, 1), shape)).astype(kind)
    return np.asarray(rng.integers(-_SMALL if dtype.kind == "int" else 0, _SMALL + 1, shape), kind)


def subscript_limits(checked: CheckedDef, sizes: Mapping[str, int]) -> dict[str, int]:
    """Return, for parameters whose elements are used in subscripts, what they have to be below.

    A limit is the largest one for which interval arithmetic proves every subscript inside.
    """
    limits: dict[str, int] = {}
    for stmt in typed.statements(checked.body):
        ranges = {r.name: (r.low.evaluate(sizes), r.high.evaluate(sizes) - 1) for r in stmt.ranges}
        accesses = [(stmt.target, stmt.subs)]
        for root in (stmt.value, *stmt.subs):
            accesses += [(read.tensor, read.subs) for read in reads_of(root)]
        for name, subs in accesses:
            tensor = checked.tensor(name)
            for size, low, sub in zip(tensor.shape, tensor.low, subs, strict=True):
                first = low.evaluate(sizes)
                box = (first, first + size.evaluate(sizes) - 1)
                for used in {read.tensor for read in reads_of(sub)}:
                    limit = _largest(sub, used, box, ranges, limits, sizes)
                    limits[used] = min(limit, limits.get(used, limit))
    return {p.name: limits[p.name] for p in checked.params if p.name in limits}


def _largest(
    sub: Expr,
    used: str,
    box: Interval,
    ranges: Mapping[str, Interval],
    limits: Mapping[str, int],
    sizes: Mapping[str, int],
) -> int:
    """Return the largest n for which values of `used` in [0, n) keep a subscript in its box."""

    def fits(n: int) -> bool:
        low, high = _interval(sub, ranges, {**limits, used: n}, sizes)
        return box[0] <= low and high <= box[1]

    good, bad = 1, int(max(box[1], 1)) + 2
    while bad - good > 1:
        middle = (good + bad) // 2
        good, bad = (middle, bad) if fits(middle) else (good, middle)
    return good


def _interval(
    e: Expr, ranges: Mapping[str, Interval], limits: Mapping[str, int], sizes: Mapping[str, int]
) -> Interval:
    """Return bounds of an integer expression."""

    def bounds(x: Expr) -> Interval:
        return _interval(x, ranges, limits, sizes)

    match e:
        case typed.Lit(value):
            return float(value), float(value)
        case typed.IndexValue(name):
            return ranges.get(name, _ANYTHING)
        case typed.SizeValue(size):
            return (float(size.evaluate(sizes)),) * 2
        case typed.Read(tensor) if tensor in limits:
            return 0.0, limits[tensor] - 1.0
        case typed.Cast(operand):
            return bounds(operand)
        case typed.Unary("-", operand):
            low, high = bounds(operand)
            return -high, -low
        case typed.Binary(op, lhs, rhs) if op in ("+", "-", "*"):
            (a, b), (c, d) = bounds(lhs), bounds(rhs)
            if op == "+":
                return a + c, b + d
            if op == "-":
                return a - d, b - c
            ends = [x * y if x and y else 0.0 for x in (a, b) for y in (c, d)]
            return min(ends), max(ends)
        case typed.Binary("%", lhs, rhs):
            (a, _), (c, d) = bounds(lhs), bounds(rhs)
            return (0.0, d - 1) if a >= 0 and c > 0 else _ANYTHING
        case typed.Binary("/", lhs, rhs):
            (a, b), (c, d) = bounds(lhs), bounds(rhs)
            return (a // d, b // c) if c > 0 and a >= 0 and d < np.inf else _ANYTHING
        case typed.Select(_, then, other):
            (a, b), (c, d) = bounds(then), bounds(other)
            return min(a, c), max(b, d)
        case typed.Builtin("min" | "max" as name, (x, y)):
            (a, b), (c, d) = bounds(x), bounds(y)
            pick = min if name == "min" else max
            return pick(a, c), pick(b, d)
        case _:
            return _ANYTHING
