"""Draws by rates, counts and shapes: poisson, binomial, gamma; the gamma distribution itself.

On a CPU the numbers are PyTorch's (`turns.py`). On a GPU all elements are tried at once, and those
that were refused again.
"""

from __future__ import annotations

import math
from typing import Any

from tcdsl.chance.generator import Generator, source_of
from tcdsl.core import Tensor, dtypes
from tcdsl.ops import filling, turns
from tcdsl.ops.internal import to
from tcdsl.ops.pointwise import where
from tcdsl.ops.rules import broadcast_shape, not_for
from tcdsl.ops.table import Family, publish
from tcdsl.ops.underived import underived

__all__ = ["binomial", "gamma_below", "gamma_slope", "poisson", "standard_gamma"]

ops = Family(__file__)
_poisson = ops.op("poisson", vjp=None)
_binomial = ops.op("binomial", vjp=None)
_poisson_try = ops.op("poisson_try", vjp=None)
_binomial_try = ops.op("binomial_try", vjp=None)
_gamma_below = ops.op("gamma_below", vjp=None)
_gamma_slope = ops.op("gamma_slope", vjp=None)

_SMALL = 10.0  # events expected below it are counted step by step, others drawn and refused


def _rows(*tensors: Tensor) -> tuple[tuple[int, ...], list[Tensor]]:
    """Return tensors in their common shape as rows of float64, and that shape."""
    shape = broadcast_shape([tuple(t.shape) for t in tensors])
    return shape, [to(t.detach(), dtypes.float64).expand(shape).reshape(-1) for t in tensors]


def _largest(row: Tensor) -> float:
    return float(row.max().item()) if row.numel() else 0.0


def _terms(above: float, largest: float) -> int:
    """Return how many terms of a series are above 2^-53 of the whole.

    Its largest lies `above` terms behind the first, and the width of what counts is that of numbers
    of events about `largest`.
    """
    return math.ceil(above + 12 * math.sqrt(largest) + 40)


def _uniform(row: Tensor, generator: Generator | None) -> Tensor:
    return filling.uniform_(row.new_empty(row.shape), generator=generator)


def poisson(input: Tensor, generator: Generator | None = None) -> Tensor:
    """Draw numbers of events by rates, each element by its own.

    Parameters
    ----------
    input : Tensor
        Rates, 0 or more.
    generator : Generator, optional
        The process's own by default.

    Raises
    ------
    RuntimeError
        If a rate is negative, not finite, or above 1e12.
    """
    if not input.is_floating_point():
        raise not_for("poisson_cpu", input.dtype)
    refused = "invalid Poisson rate, expected rate to be non-negative and below 1e12"
    if not input._device:
        row = input.detach()
        if row.ndim != 1:
            row = row.reshape(-1)
        found = turns.poisson(row, source_of(generator))
        if found is None:
            raise RuntimeError(refused)
        return found if input.ndim == 1 else found.reshape(input.shape)  # type: ignore[no-any-return]
    shape, rows = _rows(input)
    rate: Any = rows[0]
    if not ((rate >= 0) & (rate <= turns.LARGEST)).all().item():
        raise RuntimeError(refused)
    few = _poisson(rate.clamp(max=_SMALL), _uniform(rate, generator), _terms(_SMALL, _SMALL))
    many = _until_taken(few, rate >= _SMALL, _poisson_try, (rate,), generator)
    return to(many.reshape(shape), input.dtype)


def binomial(count: Tensor, prob: Tensor, generator: Generator | None = None) -> Tensor:
    """Draw numbers of successes in `count` trials of probability `prob`, element by element.

    Raises
    ------
    RuntimeError
        If a count is not from 0 to 1e12, or a probability not from 0 to 1.
    """
    shape, rows = _rows(count, prob)
    trials: Any = rows[0].floor()
    p: Any = rows[1]
    if not ((trials >= 0) & (trials <= turns.LARGEST)).all().item():
        raise RuntimeError("binomial: expected counts of 0 or more, and below 1e12")
    if not ((p >= 0) & (p <= 1)).all().item():
        raise RuntimeError("binomial: expected probabilities from 0 to 1")
    if not count._device:
        n, p = (to(x.detach(), count.dtype).expand(shape).reshape(-1) for x in (count, prob))
        drawn: Tensor = turns.binomial(n, p, source_of(generator)).reshape(shape)
        underived("binomial", (count, prob), (drawn,))
        return drawn
    rarer = where(p > 0.5, 1 - p, p)
    is_large = trials * rarer >= _SMALL
    u = _uniform(p, generator)
    few = _binomial(trials, where(is_large, 0.0, rarer), u, _terms(_SMALL, _SMALL))
    many = _until_taken(few, is_large, _binomial_try, (trials, rarer), generator)
    drawn = to(where(p > 0.5, trials - many, many).reshape(shape), count.dtype)
    underived("binomial", (count, prob), (drawn,))
    return drawn


def _until_taken(
    made: Any, is_open: Any, attempt: Any, operands: tuple[Any, ...], generator: Generator | None
) -> Any:
    """Return draws, those that are open being tried again until one is not refused (-1)."""
    while is_open.any().item():
        found = attempt(*operands, _uniform(made, generator), _uniform(made, generator))
        taken = is_open & (found >= 0)
        made = where(taken, found, made)
        is_open = is_open & ~taken
    return made


def standard_gamma(alpha: Tensor, generator: Generator | None = None) -> Tensor:
    """Draw numbers of the gamma distribution of rate 1 by shapes, element by element.

    A normal number is accepted as a cube, or drawn again: Marsaglia and Tsang, "A simple method for
    generating gamma variables", 2000. Shapes below 1 are drawn as one more, times a power of a
    uniform number.
    """
    if not alpha._device:
        made = turns.gamma(alpha.detach().reshape(-1), source_of(generator))
        return to(made.reshape(alpha.shape), alpha.dtype)
    shape, (a,) = _rows(alpha)
    d: Any = where(a < 1, a + 1, a) - 1 / 3
    made, is_open = d * 0, (d > 0) & (d < math.inf)
    while is_open.any().item():
        x: Any = filling.normal_(d.new_empty(d.shape), generator=generator)
        v = (1 + x / (9 * d).sqrt()) ** 3
        room = (1 - _uniform(d, generator)).log() < 0.5 * x * x + d - d * v + d * v.log()
        taken = is_open & (v > 0) & room
        made = where(taken, d * v, made)
        is_open = is_open & ~taken
    power = (1 - _uniform(d, generator)).log() / a
    made = where(a < 1, made * power.exp(), made)
    return to(made.reshape(shape), alpha.dtype)


def gamma_below(a: Tensor, x: Tensor) -> Tensor:
    """Return the part of the gamma distribution of shape a and rate 1 that lies below x."""
    shape, (shapes, values) = _rows(a, x)
    most: Any = shapes + 12 * shapes.sqrt() + 80  # above it all of the distribution lies below
    below = _series(_gamma_below, shapes, where(values < most, values, most))
    return to(where(values == values, below, values).reshape(shape), x.dtype)


def gamma_slope(a: Tensor, z: Tensor) -> Tensor:
    """Return how a draw z of the gamma distribution moves with its shape a, its quantile fixed."""
    shape, rows = _rows(a, z)
    return to(_series(_gamma_slope, *rows).reshape(shape), z.dtype)


def _series(op: Any, a: Any, x: Any) -> Any:
    return op(a, x, _terms(max(_largest(x - a), 0.0), _largest(x)))


publish(poisson, ("poisson",), on=("torch",))
publish(binomial, ("binomial",), on=("torch",))
