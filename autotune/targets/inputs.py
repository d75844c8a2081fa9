"""Random arguments of a definition: floats normal, subscripts inside what they index.

Weights are made smaller by the root of how many terms are summed with them, as layers are
initialised. A sum of products is then as large as its other factor: sigmoids do not saturate, and
what goes through many turns of a loop neither grows nor becomes chaotic.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import prod
from typing import Any

import numpy as np

from tcdsl.autotune.worker.case import Array
from tcdsl.codegen.program.dtypes import numpy_dtype
from tcdsl.codegen.program.expressions import indices_of, reads_of
from tcdsl.grammar.types import typed
from tcdsl.grammar.types.dtypes import DType
from tcdsl.grammar.types.typed import CheckedDef, Expr

_SMALL = 8  # integers that index nothing lie in [-8, 8]

Interval = tuple[float, float]  # both ends belong to it
_ANYTHING: Interval = (-np.inf, np.inf)


def random_inputs(
    checked: CheckedDef,
    sizes: Mapping[str, int],
    seed: int,
    given: Mapping[str, Any] | None = None,
    *,
    scale: float = 1.0,
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
    scale : float, default 1
        By which random floats are multiplied, numbers of rank 0 left out.

    Returns
    -------
    tuple of ndarray, one per parameter
        Floats are normal, those summed over by `term_scales` smaller, or in [0.5, 1.5] for one
        number alone (it may be a divisor, a variance); integers that are used as subscripts lie in
        what they index, others in [-8, 8].
    """
    rng = np.random.default_rng(seed)
    limits = subscript_limits(checked, sizes)
    scales = term_scales(checked, sizes)
    offsets = segment_offsets(checked)
    arrays = []
    for tensor in checked.params:
        dtype = numpy_dtype(tensor.dtype)
        shape = tuple(s.evaluate(sizes) for s in tensor.shape)
        if given is not None and tensor.name in given:
            value = np.asarray(given[tensor.name]).astype(dtype)
        elif not shape and tensor.name in sizes:
            value = np.asarray(sizes[tensor.name], dtype)
        else:
            by = scale * scales.get(tensor.name, 1.0) if shape else 1.0
            value = random_array(tensor.dtype, shape, rng, limits.get(tensor.name), by)
            if tensor.name in offsets:
                value = np.sort(value)
        arrays.append(value)
    return tuple(arrays)


def random_array(
    dtype: DType,
    shape: tuple[int, ...],
    rng: np.random.Generator,
    limit: int | None = None,
    scale: float = 1.0,
) -> Array:
    """Return a random array; limit is the extent that it indexes, scale is for floats."""
    kind = numpy_dtype(dtype)
    if dtype.is_float:
        values = rng.standard_normal(shape) if shape else rng.uniform(0.5, 1.5, shape)
        return np.asarray(values * scale).astype(kind)
    if dtype.kind == "bool":
        return np.asarray(rng.integers(0, 2, shape), kind)
    if limit is not None:
        return np.asarray(rng.integers(0, max(limit, 1), shape)).astype(kind)
    return np.asarray(rng.integers(-_SMALL if dtype.kind == "int" else 0, _SMALL + 1, shape), kind)


def term_scales(checked: CheckedDef, sizes: Mapping[str, int]) -> dict[str, float]:
    """Return `1 / sqrt(terms)` for one parameter of each sum of products, by its name.

    Of several it is the last one that the sum goes over, and whose share is the smallest counts.
    """
    params = {p.name for p in checked.params if p.dtype.is_float and p.shape}
    scales: dict[str, float] = {}
    for stmt in typed.statements(checked.body):
        summed = [r for r in stmt.ranges if r.kind == "reduction"]
        if not stmt.op.startswith("+") or not summed:
            continue
        names = {r.name for r in summed}
        over = [r.tensor for r in _factors(stmt.value) if names & _indices(r)]
        terms = prod(max(1, r.extent.evaluate(sizes)) for r in summed)
        weight = next((name for name in reversed(over) if name in params), None)
        if len(over) > 1 and weight is not None:
            scales[weight] = min(scales.get(weight, 1.0), terms**-0.5)
    return scales


def _factors(e: Expr) -> Iterator[typed.Read]:
    """Yield the tensors that are factors of a product, guarded ones too."""
    match e:
        case typed.Binary("*", lhs, rhs) | typed.Select(_, lhs, rhs):
            yield from _factors(lhs)
            yield from _factors(rhs)
        case typed.Cast(operand) | typed.Unary("-", operand):
            yield from _factors(operand)
        case typed.Read():
            yield e


def _indices(read: typed.Read) -> frozenset[str]:
    return frozenset().union(*map(indices_of, read.subs))


def segment_offsets(checked: CheckedDef) -> frozenset[str]:
    """Return the tensors that give both ends of a range, as offsets that rise do."""
    found: set[str] = set()
    for stmt in typed.statements(checked.body):
        for r in stmt.ranges:
            if r.bounds is not None:
                low, high = ({x.tensor for x in reads_of(e)} for e in r.bounds)
                found |= low & high
    return frozenset(found)


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
        for r in stmt.ranges:  # what the other accesses leave to a ragged range
            ends = (r.low.evaluate(sizes), r.high.evaluate(sizes))
            for bound in r.bounds or ():
                for used in {read.tensor for read in reads_of(bound)}:
                    limit = _largest(bound, used, ends, ranges, limits, sizes)
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
