"""Numbers of a generator's words, as PyTorch makes them on a CPU; none has a gradient.

A tensor is filled in the order of its memory. Words are drawn in parts, so that those of a large
tensor stay in the cache.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tcdsl.chance.generator import Generator
from tcdsl.core import Tensor, dtypes, from_numpy
from tcdsl.ops.rules import first
from tcdsl.ops.table import Family

ops = Family(__file__)

_PART = 1 << 19  # elements whose words are drawn at once; a multiple of 16
_LONG = 1 << 28  # from so many integers on, each is made of two words


def _filling(name: str) -> Any:
    return ops.op(name, types=first, vjp=None, writes=True)


_uniform = _filling("uniform")
_uniform_of_two = _filling("uniform_of_two")
_normal = _filling("normal")
_normal_of_all = _filling("normal_of_all")
_normal_of_two = _filling("normal_of_two")
_pairs = ops.op("pairs", vjp=None)
least = ops.op("least", vjp=None)
_scaled = _filling("scaled")
_scaled_exp = _filling("scaled_exp")
_integers = _filling("integers")
_integers_of_two = _filling("integers_of_two")
_exponential = _filling("exponential")
_cauchy = _filling("cauchy")
_geometric = _filling("geometric")
_bernoulli_of_number = _filling("bernoulli_of_number")
_bernoulli = _filling("bernoulli")
_bernoulli_of_two = _filling("bernoulli_of_two")
_shuffle = _filling("shuffle")
_unit = ops.op("unit_of_word", vjp=None)
_new_normal = ops.op("new_normal", vjp=None)
_new_normal_of_all = ops.op("new_normal_of_all", vjp=None)
_new_few = ops.op("new_few", vjp=None)
_new_integers = ops.op("new_integers", vjp=None)


def _words(source: Generator, *shape: int) -> Tensor:
    words: Tensor = source.row(math.prod(shape)).view(shape)
    return words


def _in_parts(op: Any, row: Tensor, source: Generator, each: int, *settings: Any) -> None:
    """Fill a row by an op that makes each element of `each` words."""
    count = row.numel()
    if count <= _PART:
        words = source.row(count * each)
        op(row, words if each == 1 else words.view(count, each), *settings)
        return
    for begin in range(0, count, _PART):
        size = min(_PART, count - begin)
        _in_parts(op, row.narrow(0, begin, size), source, each, *settings)


def uniform(row: Tensor, source: Generator, low: float, high: float) -> None:
    """Fill with numbers that are uniform in [low, high)."""
    if row.dtype is dtypes.float64:
        _in_parts(_uniform_of_two, row, source, 2, low, high)
    else:
        _in_parts(_uniform, row, source, 1, low, high)


def lent(row: Tensor, source: Generator) -> Tensor:
    """Fill a row of float64 with numbers that are uniform in [0, 1); return the words of them.

    There are two of each number; the last may be given back.
    """
    words = _words(source, row.numel(), 2)
    _uniform_of_two(row, words, 0.0, 1.0)
    return words


def new_uniform(shape: tuple[int, ...], source: Generator) -> Tensor | None:
    """Return float32 numbers that are uniform in [0, 1); None of so many that parts are better."""
    count = math.prod(shape)
    if count > _PART:
        return None
    words = source.row(count)
    made: Tensor = _unit(words if len(shape) == 1 else words.view(shape))
    return made


def new_normal(
    shape: tuple[int, ...], source: Generator, mean: float = 0.0, std: float = 1.0
) -> Tensor | None:
    """Return float32 numbers that are normal; None where they are many, or none."""
    count = math.prod(shape)
    if not 0 < count <= _PART:
        return None
    if count < 16:
        made = _new_pairs(count, source, mean, std)
        if made is None:
            return None
    elif count % 16:
        made = _new_normal_of_all(source.row(count + 16), count, mean, std)
    else:
        made = _new_normal(source.row(count).view(-1, 16), mean, std)
    return made if made.shape == shape else made.view(shape)


def _new_pairs(count: int, source: Generator, mean: float, std: float) -> Tensor | None:
    """Return a few normal numbers, after one that was made before; None if that is the only one."""
    begin = 0 if source.normal is None else 1
    pairs = (count - begin + 1) // 2
    if not pairs:
        return None
    words = source.row(4 * pairs).view(pairs, 2, 2)
    made, last = _new_few(words, source.normal or 0.0, begin, count, mean, std)
    source.normal = last.item() if (count - begin) % 2 else None
    return made  # type: ignore[no-any-return]


def new_integers(shape: tuple[int, ...], source: Generator, low: int, count: int) -> Tensor | None:
    """Return integers of int64; None of so many that parts are better, or of two words each."""
    size = math.prod(shape)
    if size > _PART or not 0 < count < _LONG:
        return None
    made: Tensor = _new_integers(source.row(size).view(shape), low, count)
    return made


def normal(row: Tensor, source: Generator, mean: float, std: float) -> None:
    """Fill a row of 16 or more with normal numbers, in groups of 16.

    What no group takes is filled with the last 16 once more, of fresh words.
    """
    count, is_double = row.numel(), row.dtype is dtypes.float64
    if row.dtype is dtypes.float32 and count <= _PART:
        if count % 16:
            _normal_of_all(row, source.row(count + 16), mean, std)
        else:
            _normal(row.view(-1, 16), source.row(count).view(-1, 16), mean, std)
        return
    op, each = (_normal_of_two, (2,)) if is_double else (_normal, ())
    whole = count - count % 16
    for begin in range(0, whole, _PART):
        size = min(_PART, whole - begin)
        part = row if size == count else row.narrow(0, begin, size)
        op(part.view(-1, 16), _words(source, size // 16, 16, *each), mean, std)
    if count != whole:
        # Of halves PyTorch draws none for the rest at first.
        rest = count - whole if row.dtype.itemsize > 2 else 0
        words = _words(source, rest + 16, *each).narrow(0, rest, 16)
        last = row.narrow(0, count - 16, 16).view(1, 16)
        op(last, words.view(1, 16, *each), mean, std)


def normal_one_by_one(row: Tensor, source: Generator, mean: float, std: float) -> None:
    """Fill with normal numbers that are made in pairs, as float64.

    The second number of the last pair is the generator's where the row ends before it.
    """
    _of_pairs(_scaled, row, source, mean, std)


def log_normal(row: Tensor, source: Generator, mean: float, std: float) -> None:
    """Fill with numbers whose logarithm is normal."""
    _of_pairs(_scaled_exp, row, source, mean, std)


def _of_pairs(op: Any, row: Tensor, source: Generator, mean: float, std: float) -> None:
    begin, count = 0, row.numel()
    if count and source.normal is not None:
        op(row.narrow(0, 0, 1), from_numpy(np.array([source.normal])), mean, std)
        source.normal, begin = None, 1
    for at in range(begin, count, _PART):
        size = min(_PART, count - at)
        pairs = (size + 1) // 2
        x = _pairs(_words(source, pairs, 2, 2)).view(2 * pairs)
        if size % 2:
            source.normal, x = x[size].item(), x.narrow(0, 0, size)
        op(row if size == count else row.narrow(0, at, size), x, mean, std)


def integers(row: Tensor, source: Generator, low: int, count: int) -> None:
    """Fill with integers from low on, `count` of them, at most 2^64."""
    if count < _LONG:
        _in_parts(_integers, row, source, 1, low, count)
    else:
        _in_parts(_integers_of_two, row, source, 2, low, count & (2**64 - 1))


def integers_of_type(row: Tensor, source: Generator, count: int) -> None:
    """Fill with integers from 0 on, `count` of them, by words as wide as the type."""
    if row.dtype in (dtypes.int64, dtypes.float64):
        _in_parts(_integers_of_two, row, source, 2, 0, count)
    else:
        _in_parts(_integers, row, source, 1, 0, count)


def exponential(row: Tensor, source: Generator, lambd: float) -> None:
    """Fill with numbers of the density ``lambd exp(-lambd x)``."""
    _in_parts(_exponential, row, source, 2, lambd)


def cauchy(row: Tensor, source: Generator, median: float, sigma: float) -> None:
    """Fill with numbers of Cauchy's distribution."""
    _in_parts(_cauchy, row, source, 2, median, sigma)


def geometric(row: Tensor, source: Generator, p: float) -> None:
    """Fill with the number of trials until the first success of probability p."""
    _in_parts(_geometric, row, source, 2, p)


def bernoulli_of_number(row: Tensor, source: Generator, p: float) -> None:
    """Fill with 1 by probability p, else 0."""
    _in_parts(_bernoulli_of_number, row, source, 2, p)


def bernoulli(row: Tensor, source: Generator, p: Tensor) -> None:
    """Fill with 1 by the probabilities of another row, else 0."""
    op, each = (_bernoulli_of_two, (2,)) if p.dtype is dtypes.float64 else (_bernoulli, ())
    for begin in range(0, row.numel(), _PART):
        size = min(_PART, row.numel() - begin)
        op(row.narrow(0, begin, size), p.narrow(0, begin, size), _words(source, size, *each))


def shuffle(row: Tensor, source: Generator) -> None:
    """Fill with the integers from 0 on in an order of chance."""
    count = row.numel()
    if count:
        _shuffle(row, source.row(count - 1))  # the last place has no choice
