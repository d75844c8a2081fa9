"""What `torch.fft` has beside transforms, whose numbers are complex: frequencies, their order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tcdsl import library
from tcdsl.core import Tensor

__all__ = ["fftfreq", "fftshift", "ifftshift", "rfftfreq"]


def fftfreq(n: int, d: float = 1.0, **named: Any) -> Tensor:
    """Return the frequencies of a transform of n values at distances d, those below 0 last.

    Parameters
    ----------
    n : int
    d : float
    dtype, device, requires_grad
        As of `torch.arange`.
    """
    numbers = library.arange(n, **_floats(named))
    folded: Tensor = library.where(numbers < (n + 1) // 2, numbers, numbers - n)
    return folded * (1.0 / (n * d))


def rfftfreq(n: int, d: float = 1.0, **named: Any) -> Tensor:
    """Return the frequencies of a transform of n real values: those from 0 on; see `fftfreq`."""
    made: Tensor = library.arange(n // 2 + 1, **_floats(named)) * (1.0 / (n * d))
    return made


def _floats(named: dict[str, Any]) -> dict[str, Any]:
    return {"dtype": library.get_default_dtype(), **named}


def _dims(input: Tensor, dim: int | Sequence[int] | None) -> tuple[int, ...]:
    if dim is None:
        return tuple(range(input.ndim))
    return (dim,) if isinstance(dim, int) else tuple(dim)


def fftshift(input: Tensor, dim: int | Sequence[int] | None = None) -> Tensor:
    """Return frequencies from the lowest on, 0 in the middle, along all dimensions or these."""
    dims = _dims(input, dim)
    made: Tensor = library.roll(input, tuple(input.shape[d] // 2 for d in dims), dims)
    return made


def ifftshift(input: Tensor, dim: int | Sequence[int] | None = None) -> Tensor:
    """Return what `fftshift` was given."""
    dims = _dims(input, dim)
    made: Tensor = library.roll(input, tuple(-(input.shape[d] // 2) for d in dims), dims)
    return made
