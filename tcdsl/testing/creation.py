"""`make_tensor`: tensors of chance to test with."""

from __future__ import annotations

from typing import Any

from tcdsl import library
from tcdsl.core import Tensor
from tcdsl.core.dtypes import DType

__all__ = ["make_tensor"]


def make_tensor(
    *shape: Any,
    dtype: DType,
    device: Any = "cpu",
    low: float | None = None,
    high: float | None = None,
    requires_grad: bool = False,
    noncontiguous: bool = False,
    exclude_zero: bool = False,
    memory_format: Any = None,
) -> Tensor:
    """Return a tensor of equally likely numbers in [low, high).

    Parameters
    ----------
    shape : int, or a sequence
    dtype : DType
    device : device
    low, high : float, optional
        By default -9 and 9 of floats, -9 and 10 of integers, 0 and 10 of uint8, 0 and 2 of bool.
    requires_grad : bool
    noncontiguous : bool
        Whether elements lie with gaps; of tensors of two elements or more.
    exclude_zero : bool
        Whether 0 becomes the least number above it, of integers 1.
    memory_format : memory_format, optional

    Raises
    ------
    ValueError
        If low is not below high.
    """
    sizes = tuple(shape[0]) if len(shape) == 1 and not isinstance(shape[0], int) else tuple(shape)
    usual = (-9, 9) if dtype.is_floating_point else (-9, 10)
    usual = {"uint8": (0, 10), "bool": (0, 2)}.get(dtype.name, usual)
    least, most = usual[0] if low is None else low, usual[1] if high is None else high
    if not least < most:
        raise ValueError(f"make_tensor: low must be below high, but got {least} and {most}")
    if noncontiguous and memory_format is not None:
        raise ValueError(
            "The parameters `noncontiguous` and `memory_format` are mutually exclusive"
        )
    drawn = (*sizes[:-1], 2 * sizes[-1]) if noncontiguous and sizes else sizes
    if dtype.is_floating_point:
        made = library.rand(drawn, dtype=dtype, device=device) * (most - least) + least
        made = made.clamp(max=most)  # of halves, rounded up
    else:
        made = library.randint(int(least), int(most), drawn, device=device).to(dtype)
    if exclude_zero:
        other = library.finfo(dtype).tiny if dtype.is_floating_point else 1
        made = library.where(made == 0, made.new_full((), other), made)
    if noncontiguous and sizes:
        made = made[..., ::2]
    if memory_format is not None:
        made = made.contiguous(memory_format=memory_format)
    return made.requires_grad_() if requires_grad else made  # type: ignore[no-any-return]
