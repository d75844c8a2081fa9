"""Which integers a type is filled with by chance, as PyTorch has it."""

from __future__ import annotations

from functools import lru_cache

from tcdsl.core.dtypes import DType
from tcdsl.ops.functions import LIMITS
from tcdsl.ops.rules import C_NAMES

_GREATEST = {name: int(greatest) for name, (greatest, _) in LIMITS.items()}
_DIGITS = {name: greatest.bit_count() for name, greatest in _GREATEST.items()}
_ALL = 1 << 64
_OF_64_BITS = ("int64", "bfloat16", "float32", "float64")


def span(dtype: DType) -> int:
    """Return how many integers a type is filled with, from 0 on: all that it holds exactly."""
    if dtype.is_floating_point:
        return int(2 ** _DIGITS[dtype.name] + 1)
    bits = 8 * dtype.itemsize - (1 if dtype.is_signed else 0)
    return 2 if dtype.name == "bool" else int(2 ** min(bits, 63))


@lru_cache(maxsize=4096)
def low_and_count(dtype: DType, low: int, end: int | None) -> tuple[int, int]:
    """Return the least integer and how many there are, from `low` up to `end` or all of the type.

    Of floats those are left out at the ends that would be rounded to what is outside.

    Raises
    ------
    RuntimeError
        If there is none, or the type does not hold them.
    """
    least, greatest = _bounds(dtype)
    if end is None and low == -_ALL // 2 and dtype.name in _OF_64_BITS:
        return 0, _ALL
    if end is not None and low >= end:
        raise RuntimeError(
            f"random_ expects 'from' to be less than 'to', but got from={low} >= to={end}"
        )
    if dtype.is_floating_point:
        low = -_inside(dtype, -low - 1, 1 - low, -low)
        end = None if end is None else _inside(dtype, end - 1, end, end)
    stop = span(dtype) if end is None else end
    if dtype.is_floating_point and low >= stop:
        raise RuntimeError(
            "random_ expects 'from' casted to dtype to be less than 'to' casted to dtype, but got "
            f"from={low} >= to={stop}"
        )
    for number, name in ((low, "from"), (stop - 1, "to - 1")):
        if not least <= number <= greatest:
            raise RuntimeError(f"{name} is out of bounds for {C_NAMES[dtype.name]}")
    return low, stop - low


def _bounds(dtype: DType) -> tuple[int, int]:
    if dtype.is_floating_point:
        greatest = _GREATEST[dtype.name]
        return -greatest, greatest
    greatest = span(dtype) - 1
    return -greatest - 1 if dtype.is_signed else 0, greatest


def _inside(dtype: DType, number: int, edge: int, otherwise: int) -> int:
    """Return the float below the one that an integer is rounded to, if that is at the edge."""
    step = 1 << max(abs(number).bit_length() - _DIGITS[dtype.name], 0)
    down, rest = divmod(number, step)
    is_up = 2 * rest > step or (2 * rest == step and down % 2 == 1)
    rounded = (down + is_up) * step
    return rounded - step if edge <= rounded < _ALL // 2 else otherwise
