"""Draws by rates, counts and shapes: poisson, binomial, gamma; the gamma distribution itself."""

from __future__ import annotations

import math
from typing import Any

from tcdsl.chance.generator import Generator, default_generator
from tcdsl.core import Tensor, dtypes
from tcdsl.ops import filling
from tcdsl.ops.internal import to
from tcdsl.ops.pointwise import where
from tcdsl.ops.rules import broadcast_shape
from tcdsl.ops.table import Family, publish

__all__ = ["binomial", "gamma_below", "gamma_slope", "poisson", "standard_gamma"]

ops = Family(__file__)
_poisson = ops.op("poisson", vjp=None)
_binomial = ops.op("binomial", vjp=None)
_gamma_below = ops.op("gamma_below", vjp=None)
_gamma_slope = ops.op("gamma_slope", vjp=None)

_LARGE = 400.0  # a rate above it is drawn in parts: exp(-rate) would be 0


def _rows(*tensors: Tensor) -> tuple[tuple[int, ...], list[Tensor]]:
    """Return tensors in their common shape as rows of float64, and that shape."""
    shape = broadcast_shape([tuple(t.shape) for t in tensors])
    return shape, [to(t.detach(), dtypes.float64).expand(shape).reshape(-1) for t in tensors]


def _largest(row: Tensor) -> float:
    return float(row.max().item()) if row.numel() else 0.0


def _terms(largest: float) -> int:
    """Return how many terms of a series about a number are above 2^-53 of the whole."""
    return math.ceil(largest + 12 * math.sqrt(largest) + 40)


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
        If a rate is negative, not finite, or above 1e9.
    """
    if not input.is_floating_point():
        raise RuntimeError(f"\"poisson_cpu\" not implemented for '{input.dtype.name}'")
    shape, rows = _rows(input)
    rate: Any = rows[0]
    if not ((rate >= 0) & (rate <= 1e9)).all().item():
        raise RuntimeError("invalid Poisson rate, expected rate to be non-negative and below 1e9")
    parts = max(1, math.ceil(_largest(rate) / _LARGE))
    each = rate / parts
    count = _terms(_largest(each))
    made = _poisson(each, _uniform(rate, generator), count)
    for _ in range(parts - 1):  # sums of Poisson's numbers are Poisson's, and their rates add up
        made = made + _poisson(each, _uniform(rate, generator), count)
    return to(made.reshape(shape), input.dtype)


def binomial(count: Tensor, prob: Tensor, generator: Generator | None = None) -> Tensor:
    """Draw numbers of successes in `count` trials of probability `prob`, element by element."""
    shape, rows = _rows(count, prob)
    trials: Any = rows[0]
    p: Any = rows[1]
    if not (trials >= 0).all().item():
        raise RuntimeError("binomial: expected counts of 0 or more")
    if not ((p >= 0) & (p <= 1)).all().item():
        raise RuntimeError("binomial: expected probabilities from 0 to 1")
    seed = (default_generator if generator is None else generator).draw_seed()
    return to(_binomial(trials, p, seed, math.ceil(_largest(trials))).reshape(shape), count.dtype)


def standard_gamma(alpha: Tensor, generator: Generator | None = None) -> Tensor:
    """Draw numbers of the gamma distribution of rate 1 by shapes, element by element.

    A normal number is accepted as a cube, or drawn again: Marsaglia and Tsang, "A simple method for
    generating gamma variables", 2000. Shapes below 1 are drawn as one more, times a power of a
    uniform number.
    """
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
    return _series(_gamma_below, a, x)


def gamma_slope(a: Tensor, z: Tensor) -> Tensor:
    """Return how a draw z of the gamma distribution moves with its shape a, its quantile fixed."""
    return _series(_gamma_slope, a, z)


def _series(op: Any, a: Tensor, x: Tensor) -> Tensor:
    shape, rows = _rows(a, x)
    return to(op(*rows, _terms(_largest(rows[1]))).reshape(shape), x.dtype)


publish(poisson, ("poisson",), on=("torch",))
publish(binomial, ("binomial",), on=("torch",))
