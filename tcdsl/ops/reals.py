"""What PyTorch asks of numbers that may be complex: here all are real."""

from __future__ import annotations

from typing import NoReturn

from tcdsl.core import Tensor, dtypes
from tcdsl.ops.table import publish

__all__ = [
    "conj", "conj_physical", "imag", "is_complex", "is_conj", "is_neg", "isreal", "real",
    "resolve_conj", "resolve_neg",
]  # fmt: skip


def real(input: Tensor) -> Tensor:
    """Return the tensor: its numbers are real."""
    return input


def conj(input: Tensor) -> Tensor:
    """Return the tensor: its numbers are real."""
    return input


def conj_physical(input: Tensor) -> Tensor:
    """Return the tensor: its numbers are real."""
    return input


def resolve_conj(input: Tensor) -> Tensor:
    """Return the tensor: its numbers are real."""
    return input


def resolve_neg(input: Tensor) -> Tensor:
    """Return the tensor: no sign is left to be applied."""
    return input


def imag(input: Tensor) -> NoReturn:
    """Refuse: there is no imaginary part."""
    raise RuntimeError("imag is not implemented for tensors with non-complex dtypes.")


def is_complex(input: Tensor) -> bool:
    """Return False: no number is complex."""
    return False


def is_conj(input: Tensor) -> bool:
    """Return False: no number is complex."""
    return False


def is_neg(input: Tensor) -> bool:
    """Return False: no sign is left to be applied."""
    return False


def isreal(input: Tensor) -> Tensor:
    """Tell of each number that it is real."""
    made: Tensor = input.new_ones(input.shape, dtype=dtypes.bool_)
    return made


for _function in (
    conj, conj_physical, resolve_conj, resolve_neg, is_complex, is_conj, is_neg, isreal,
):  # fmt: skip
    publish(_function, (_function.__name__,))
for _function in (real, imag):
    publish(_function, (_function.__name__,), on=("torch",))  # of Tensors they are properties
Tensor.real = property(real)  # type: ignore[attr-defined]
Tensor.imag = property(imag)  # type: ignore[attr-defined]
