"""Draws by rates, counts and shapes on a CPU, one element after another, as PyTorch draws them.

Each element takes as many of a generator's numbers as its refusals need, so that which numbers it
has depends on all elements before it.
"""

from __future__ import annotations

from typing import Any

from tcdsl.chance.generator import Generator
from tcdsl.core import dtypes
from tcdsl.ops import drawing
from tcdsl.ops.internal import to
from tcdsl.ops.pointwise import where
from tcdsl.ops.table import Family

ops = Family(__file__)
_poisson = ops.op("poisson_turns", vjp=None)
_poisson_few = ops.op("poisson_few_turns", vjp=None)
_poisson_needs = ops.op("poisson_needs", vjp=None)
_binomial = ops.op("binomial_turns", vjp=None)
_gamma = ops.op("gamma_turns", vjp=None)

_PART = 1 << 16  # numbers are drawn at once
_MOST = 1 << 14  # the same of those that may be given back
_FEW = 10.0  # rate: below it products are counted
LARGEST = 1e12  # rate: above it the logarithms of probabilities have too few digits
_THIRD = 0.3333333432674408  # PyTorch's, of float32
_BEGIN = 4.0  # a step of `gamma_turns`


def _drawn(op: Any, rows: tuple[Any, ...], source: Generator, *state: Any) -> tuple[Any, ...]:
    """Return the draws of all elements of rows of float64, and the state they end in."""
    made, at, count = rows[0] * 0, 0, rows[0].numel()
    while at < count:
        n = min(count - at, _PART)  # of which each element takes one at least
        numbers = made.new_empty(n)
        drawing.uniform(numbers, source, 0.0, 1.0)
        here = made.narrow(0, at, n)
        drawn, after, *rest = op(*(r.narrow(0, at, n) for r in rows), numbers, here, 0, *state)
        here.copy_(drawn)
        at, state = at + after.item(), tuple(r.item() for r in rest)
    return made, *state


def _of_some(is_some: Any, rows: tuple[Any, ...], others: Any, draw: Any) -> Any:
    """Draw for the elements at which a mask is true; the rest is known without."""
    if is_some.all().item():
        return draw(*rows)
    return others.masked_scatter(is_some, draw(*(r[is_some] for r in rows)))


def poisson(rate: Any, source: Generator) -> Any:
    """Draw numbers of events by rates, of one type, shape (N,); None if a rate is none."""
    if not rate.numel():
        return rate
    total, least, greatest = _poisson_needs(rate).tolist()
    if not (least >= 0 and greatest <= LARGEST):
        return None
    op = _poisson_few if greatest < _FEW else _poisson
    if least > 0:
        return _poisson_of_all(op, rate, total / rate.numel(), source)

    def draw(some: Any) -> Any:
        return _poisson_of_all(op, some, total / max(1, some.numel()), source)

    return _of_some(rate > 0, (rate,), rate * 0, draw)


def _poisson_of_all(op: Any, rate: Any, each: float, source: Generator) -> Any:
    """Draw by rates above 0, which take so many numbers each on average.

    As many are drawn at once, and what is not taken is given back.
    """
    made, at, count = rate, 0, rate.numel()
    state: Any = (-1.0, 1.0, 0.0)
    while at < count:
        few = (count - at) * each
        n = min(int(few + 2 * few**0.5) + 8, _MOST)
        size = min(count - at, int(n / each) + 1)
        words = source.row(2 * n)
        rates = rate if size == count else rate.narrow(0, at, size)
        drawn, after = op(rates, words.view(n, 2), *state)
        done, used, *state = after.tolist()
        if used < n:
            source.give_back(words, 2 * (n - int(used)))
        if done == count:
            return drawn
        made = rate.new_empty(count) if made is rate else made
        made.narrow(0, at, size).copy_(drawn)
        at += int(done)
    return made


def binomial(trials: Any, p: Any, source: Generator) -> Any:
    """Draw numbers of successes, in the type of the trials and probabilities, shape (N,)."""
    rarer = where(p > 0.5, 1 - p, p)
    spread = (trials * rarer * (1 - rarer)).sqrt()
    rows = tuple(to(x, dtypes.float64) for x in (trials, rarer, (-rarer).log1p(), spread))

    def draw(*rows: Any) -> Any:
        return _drawn(_binomial, rows, source, -1.0, 0.0)[0]

    found = to(_of_some((trials > 0) & (rarer > 0), rows, rows[0] * 0, draw), trials.dtype)
    return where(p > 0.5, trials - found, found)


def gamma(alpha: Any, source: Generator) -> Any:
    """Draw numbers of the gamma distribution of rate 1 by shapes, as float64, shape (N,)."""
    is_small = alpha < 1
    above = where(is_small, alpha + 1, alpha) - _THIRD
    power = where(is_small, 1 / alpha, 0.0)
    rows = tuple(to(x, dtypes.float64) for x in (above, power))

    def draw(*rows: Any) -> Any:
        kept = source.normal
        spare = 0.0 if kept is None else kept
        state = _BEGIN, 1.0, 0.0, 0.0, spare, kept is not None
        made, *_, spare, is_kept = _drawn(_gamma, rows, source, *state)
        source.normal = spare if is_kept else None
        return made

    return _of_some(alpha > 0, rows, rows[0] * 0, draw)
