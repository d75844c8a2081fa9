"""What PyTorch asks of numbers that may be complex: here all are real."""

from __future__ import annotations

import math
from typing import Any, NoReturn

from tcdsl.core import Tensor, dtypes
from tcdsl.ops.internal import to
from tcdsl.ops.pointwise import where
from tcdsl.ops.rules import default_float
from tcdsl.ops.table import publish

__all__ = ["angle", "isreal"]


def _itself(input: Tensor) -> Tensor:
    """Return the tensor: its numbers are real."""
    return input


def _imaginary(input: Tensor) -> NoReturn:
    """Refuse: there is no imaginary part."""
    raise RuntimeError("imag is not implemented for tensors with non-complex dtypes.")


def _never(input: Tensor) -> bool:
    """Return False: no number is complex."""
    return False


def angle(input: Tensor) -> Tensor:
    """Return pi below 0, else 0; NaN is NaN."""
    x = input.detach()
    if not x.dtype.is_floating_point:
        x = to(x, default_float())
    made: Tensor = where(x != x, x, where(x < 0, math.pi, 0.0))
    return to(made, x.dtype)


def isreal(input: Tensor) -> Tensor:
    """Tell of each number that it is real."""
    made: Tensor = input.new_ones(input.shape, dtype=dtypes.bool_)
    return made


def _named(function: Any, name: str) -> Any:
    """Return a function of its own under a name, which pickles find it by."""

    def called(input: Tensor) -> Any:
        return function(input)

    called.__name__ = called.__qualname__ = name
    called.__doc__ = function.__doc__
    return called


for _name in ("real", "conj", "conj_physical", "resolve_conj", "resolve_neg"):
    on = ("torch",) if _name == "real" else ("torch", "Tensor")  # a method would hide the property
    publish(_named(_itself, _name), (_name,), on)
publish(_named(_imaginary, "imag"), ("imag",), on=("torch",))
for _name in ("is_complex", "is_conj", "is_neg"):
    publish(_named(_never, _name), (_name,))
publish(angle, ("angle",))
publish(isreal, ("isreal",))
Tensor.real = property(_itself)  # type: ignore[attr-defined]
Tensor.imag = property(_imaginary)  # type: ignore[attr-defined]
