"""Sums of products in float64: factors over indices of their own, joined by a library's sums.

    Y(n, o, h, w) +=! pad(X(n, c, h + i - 1, w + j - 1), 0) * F(o, c, i, j)

has as many points as n o h w c i j take, its factors those of n c h w i j and of o c i j alone:
each is evaluated there, as anywhere else, and `einsum` multiplies and sums. A factor that reads a
tensor at indices as they are is a view of it. (A convolution of 8x64x58x58, 64 windows of 3x3: 9.8
seconds as points, 0.6 so.)
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tcdsl.codegen.program.expressions import walk_typed
from tcdsl.codegen.reference.arithmetic import Array
from tcdsl.codegen.reference.expressions import Evaluator, Points
from tcdsl.grammar.text.dataclass import dataclass
from tcdsl.grammar.types import typed
from tcdsl.grammar.types.typed import Expr, Statement

_FEWER = 4  # times the points of all factors: so many has the statement where this is worth it

Span = tuple[int, int]  # the first value of an index, and the one behind its last


@dataclass(frozen=True, slots=True)
class _Factor:
    """An expression, and the indices of the statement that it uses."""

    value: Expr
    names: tuple[str, ...]

    @property
    def is_plain(self) -> bool:
        """Whether it reads a tensor at indices as they are, each once."""
        return (
            isinstance(self.value, typed.Read)
            and len(self.value.subs) == len(self.names)
            and all(
                isinstance(s, typed.IndexValue) and s.name in self.names for s in self.value.subs
            )
        )


def factors_of(stmt: Statement) -> tuple[_Factor, ...] | None:
    """Return the factors of a sum of products; None where points meet, or no factor has an index.

    Casts between floats are left out: in float64 they change nothing.
    """
    if stmt.is_ragged or stmt.op.rstrip("!") != "+=" or not stmt.value.dtype.is_float:
        return None
    if not all(isinstance(s, typed.IndexValue) for s in stmt.subs):
        return None
    if len(set(stmt.subs)) != len(stmt.subs):
        return None
    outputs = {r.name for r in stmt.ranges if r.kind == "output"}
    if {s.name for s in stmt.subs if isinstance(s, typed.IndexValue)} != outputs:
        return None  # a loop's variable, say
    factors: list[_Factor] = []
    todo: list[Expr] = [stmt.value]
    while todo:
        match todo.pop():
            case typed.Binary("*", lhs, rhs, dtype) if dtype.is_float:
                todo += [lhs, rhs]
            case typed.Cast(operand, dtype) if dtype.is_float and operand.dtype.is_float:
                todo.append(operand)
            case value:
                used = {e.name for e in walk_typed(value) if isinstance(e, typed.IndexValue)}
                names = tuple(r.name for r in stmt.ranges if r.name in used)
                factors.append(_Factor(value, names))
    if {n for f in factors for n in f.names} != {r.name for r in stmt.ranges}:
        return None
    return tuple(factors)


def is_worth_it(stmt: Statement, factors: Sequence[_Factor], spans: Mapping[str, Span]) -> bool:
    """Whether factors have few points beside all points of the statement, or are views."""
    extents = {name: max(0, high - low) for name, (low, high) in spans.items()}
    evaluated = [math.prod(extents[n] for n in f.names) for f in factors if not f.is_plain]
    return _FEWER * sum(evaluated) <= math.prod(extents[r.name] for r in stmt.ranges)


def add_products(
    values: Evaluator,
    stmt: Statement,
    factors: Sequence[_Factor],
    target: Array,
    spans: Mapping[str, Span],
    loop: Mapping[str, int],
    limit: int,
    ask: Callable[[], None],
) -> None:
    """Add the sums of a statement to what its target has.

    Parameters
    ----------
    spans
        Of all indices of the statement.
    loop
        Values of the variables of loops around it.
    limit
        Points of a factor that are evaluated at once.
    ask
        Called before each block; it may raise.
    """
    chunk = {name: max(1, high - low) for name, (low, high) in spans.items()}
    for f in factors:
        while not f.is_plain and math.prod(chunk[n] for n in f.names) > limit:
            longest = max(f.names, key=chunk.__getitem__)
            if chunk[longest] == 1:
                break
            chunk[longest] = -(-chunk[longest] // 2)
    letters = {name: i for i, name in enumerate(spans)}
    written = [s.name for s in stmt.subs if isinstance(s, typed.IndexValue)]
    lows = [values.extent(x, {}) for x in values.checked.tensor(stmt.target).low]
    starts = (range(low, high, chunk[name]) for name, (low, high) in spans.items())
    for start in itertools.product(*starts):
        ask()
        part = {
            name: (first, min(first + chunk[name], spans[name][1]))
            for name, first in zip(spans, start, strict=True)
        }
        call: list[Any] = []
        for f in factors:
            call += [_value(values, f, part, loop), [letters[n] for n in _axes(f)]]
        box = _box(values, stmt.target, target, written, lows, part)
        target[box] += np.einsum(*call, [letters[n] for n in written], optimize=True)


def _box(
    values: Evaluator,
    name: str,
    array: Array,
    names: Sequence[str],
    lows: Sequence[int],
    part: Mapping[str, Span],
) -> tuple[slice, ...]:
    """Return where a tensor has a block of indices; a slice alone would stop at its end."""
    box = []
    for d, (n, low, extent) in enumerate(zip(names, lows, array.shape, strict=True)):
        first, last = part[n][0] - low, part[n][1] - 1 - low
        values.inside(name, d, np.asarray([first, last], np.int64), extent, None)
        box.append(slice(first, last + 1))
    return tuple(box)


def _axes(factor: _Factor) -> tuple[str, ...]:
    """Return the indices of a factor in the order of its axes."""
    if factor.is_plain and isinstance(factor.value, typed.Read):
        return tuple(s.name for s in factor.value.subs if isinstance(s, typed.IndexValue))
    return factor.names


def _value(
    values: Evaluator, factor: _Factor, part: Mapping[str, Span], loop: Mapping[str, int]
) -> Array:
    """Return the values of a factor at a block of its indices."""
    names = _axes(factor)
    if factor.is_plain and isinstance(factor.value, typed.Read):
        name = factor.value.tensor
        lows = [values.extent(x, {}) for x in values.checked.tensor(name).low]
        return values.store[name][_box(values, name, values.store[name], names, lows, part)]
    index: dict[str, Array] = {k: np.asarray(v, np.int64) for k, v in loop.items()}
    for axis, name in enumerate(names):
        line = np.arange(*part[name], dtype=np.int64)
        index[name] = line.reshape([-1 if a == axis else 1 for a in range(len(names))])
    full = tuple(part[n][1] - part[n][0] for n in names)
    return np.broadcast_to(values.of(factor.value, Points(index)), full)
