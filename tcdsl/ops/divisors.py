"""Greatest common divisors and least common multiples."""

from __future__ import annotations

from tcdsl.core import Op, Tensor
from tcdsl.core.dtypes import DType
from tcdsl.ops.rules import Operands, TypeRule, broadcast, not_for, promote
from tcdsl.ops.table import Family, in_place, publish

ops = Family(__file__)
_FEW = 100  # elements of which the greatest is not looked for
_STEPS = {1: 13, 2: 24, 4: 47, 8: 93}  # by the size of the type


def _whole(name: str) -> TypeRule:
    """Return the rule of the type that holds all operands, which are integers."""

    def rule(operands: Operands) -> DType:
        dtype = promote(operands)
        if dtype.category != 1:
            raise not_for(f"{name}_cpu", dtype)
        return dtype

    return rule


def _op(name: str) -> Op:
    return ops.op(name, types=_whole(name), shape=broadcast)


_greatest = ops.op("greatest", vjp=None)
_gcd, _lcm = _op("gcd"), _op("lcm")


def _called(op: Op, input: Tensor, other: Tensor) -> Tensor:
    made: Tensor = op(input, other, STEPS=max(_steps(input), _steps(other)))
    return made


def _steps(numbers: Tensor) -> int:
    """Return how many steps numbers take at most: by their type, or by the greatest of many."""
    size = numbers.dtype.itemsize
    if size < 4 or numbers.numel() < _FEW or numbers.dtype.category != 1:
        return _STEPS[size]
    greatest = _greatest(numbers).item()  # below 0: the least of all wraps
    return next(n for s, n in _STEPS.items() if s == 8 or 0 <= greatest < 1 << 8 * s - 1)


def gcd(input: Tensor, other: Tensor) -> Tensor:
    """Return the greatest common divisors of integers, none below 0; of 0 and 0 it is 0."""
    return _called(_gcd, input, other)


def lcm(input: Tensor, other: Tensor) -> Tensor:
    """Return the least common multiples of integers, none below 0."""
    return _called(_lcm, input, other)


for _function in (gcd, lcm):
    publish(_function, (_function.__name__,))
    publish(in_place(_function), (f"{_function.__name__}_",))
