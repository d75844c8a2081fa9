"""Windows of signals: weights that rise from both ends."""

from __future__ import annotations

from typing import Any

from tcdsl.core import Op, Tensor, empty
from tcdsl.core.dtypes import DType, float64
from tcdsl.ops.filling import arange
from tcdsl.ops.rules import default_float, first
from tcdsl.ops.table import Family, publish

ops = Family(__file__)
_cosine = ops.op("cosine_window", types=first, vjp=None, writes=True)
_cosine_of_places = ops.op("cosine_of_places", vjp=None, writes=True)
_blackman = ops.op("blackman_window", types=first, vjp=None, writes=True)
_bartlett = ops.op("bartlett_window", types=first, vjp=None, writes=True)
_kaiser = ops.op("kaiser_window", types=first, vjp=None, writes=True)
_ones = ops.op("window_of_one", types=first, vjp=None, writes=True)


def _window(
    name: str,
    op: Op,
    settings: tuple[float, ...],
    length: int,
    periodic: bool,
    dtype: DType | None = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Return a window; a symmetric one has its period one element earlier."""
    if length < 0:
        raise RuntimeError(
            f"{name} requires non-negative window_length, got window_length={length}"
        )
    kind = default_float() if dtype is None else dtype
    if not kind.is_floating_point:
        raise RuntimeError(f"{name} expects floating point dtypes, got: {kind}")
    if device is not None and str(device) not in ("cpu", "cpu:0"):
        raise RuntimeError(f"{name}: expected device 'cpu', got '{device}'")
    made = empty((length,), kind)
    if kind is float64 and op is _cosine and length:
        arange(made, 0.0, 1.0)
        op = _cosine_of_places
    if length == 1:
        _ones(made)
    elif length:
        op(made, float(length if periodic else length - 1), *settings)
    made.requires_grad = requires_grad
    return made


def hann_window(window_length: int, periodic: bool = True, **like: Any) -> Tensor:
    """Return Hann's window: ``0.5 - 0.5 cos(2 pi n / period)``.

    Parameters
    ----------
    window_length : int
    periodic : bool
        The period is window_length, else window_length - 1: then both ends are alike.
    dtype, layout, device, requires_grad
        Of the tensor.
    """
    return _window("hann_window", _cosine, (0.5, 0.5), window_length, periodic, **like)


def hamming_window(
    window_length: int,
    periodic: bool = True,
    alpha: float = 0.54,
    beta: float = 0.46,
    **like: Any,
) -> Tensor:
    """Return Hamming's window: ``alpha - beta cos(2 pi n / period)``; see `hann_window`."""
    settings = (float(alpha), float(beta))
    return _window("hamming_window", _cosine, settings, window_length, periodic, **like)


def bartlett_window(window_length: int, periodic: bool = True, **like: Any) -> Tensor:
    """Return Bartlett's window, ``1 - abs(2 n / period - 1)``; see `hann_window`."""
    return _window("bartlett_window", _bartlett, (), window_length, periodic, **like)


def blackman_window(window_length: int, periodic: bool = True, **like: Any) -> Tensor:
    """Return Blackman's window; see `hann_window`.

    ``0.42 - 0.5 cos(2 pi n / period) + 0.08 cos(4 pi n / period)``
    """
    return _window("blackman_window", _blackman, (), window_length, periodic, **like)


def kaiser_window(
    window_length: int, periodic: bool = True, beta: float = 12.0, **like: Any
) -> Tensor:
    """Return Kaiser's window, ``i0(beta sqrt(1 - (2 n / period - 1) ** 2)) / i0(beta)``.

    Parameters
    ----------
    window_length, periodic
        See `hann_window`.
    beta : float
        How narrow the window is.
    dtype, layout, device, requires_grad
        Of the tensor.
    """
    settings = (float(beta),)
    return _window("kaiser_window", _kaiser, settings, window_length, periodic, **like)


for _function in (kaiser_window, hann_window, hamming_window, blackman_window, bartlett_window):
    publish(_function, (_function.__name__,), on=("torch",))
