"""How parameters begin: fills of tensors in place, none of them recorded."""

from __future__ import annotations

import functools
import math
import warnings
from collections.abc import Callable
from typing import Any

from tcdsl import library
from tcdsl.core import Tensor
from tcdsl.nn.placed import is_undrawn
from tcdsl.nn.truncated import draw_truncated

__all__ = [
    "calculate_gain",
    "constant",
    "constant_",
    "dirac",
    "dirac_",
    "eye",
    "eye_",
    "kaiming_normal",
    "kaiming_normal_",
    "kaiming_uniform",
    "kaiming_uniform_",
    "normal",
    "normal_",
    "ones_",
    "orthogonal",
    "orthogonal_",
    "sparse",
    "sparse_",
    "trunc_normal_",
    "uniform",
    "uniform_",
    "xavier_normal",
    "xavier_normal_",
    "xavier_uniform",
    "xavier_uniform_",
    "zeros_",
]

Fill = Callable[..., Tensor]


def _unrecorded(fill: Fill) -> Fill:
    """Fill a tensor without recording it, whatever it requires, but where nothing is drawn."""

    @functools.wraps(fill)
    def wrapped(tensor: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        if is_undrawn():
            return tensor
        with library.no_grad():
            return fill(tensor, *args, **kwargs)

    return wrapped


def calculate_gain(nonlinearity: str, param: float | None = None) -> float:
    """Return what the deviation of weights is multiplied by before a nonlinearity.

    1 for linear maps, convolutions and sigmoid, 5/3 for tanh, sqrt(2) for relu,
    sqrt(2 / (1 + slope**2)) for leaky_relu.

    Parameters
    ----------
    nonlinearity : str
        The name of the function in `nn.functional`.
    param : float, optional
        The slope of leaky_relu, 0.01 by default.

    Raises
    ------
    ValueError
        If the name is unknown, or param no number.
    """
    linear = ("linear", "sigmoid", "conv1d", "conv2d", "conv3d")
    if nonlinearity in (*linear, "conv_transpose1d", "conv_transpose2d", "conv_transpose3d"):
        return 1.0
    if nonlinearity == "tanh":
        return 5.0 / 3
    if nonlinearity == "relu":
        return math.sqrt(2.0)
    if nonlinearity == "leaky_relu":
        slope = 0.01 if param is None else param
        if isinstance(slope, bool) or not isinstance(slope, int | float):
            raise ValueError(f"negative_slope {param} not a valid number")
        return math.sqrt(2.0 / (1 + slope**2))
    raise ValueError(f"Unsupported nonlinearity {nonlinearity}")


@_unrecorded
def uniform_(tensor: Tensor, a: float = 0, b: float = 1, generator: Any = None) -> Tensor:
    """Fill with numbers that are uniform in [a, b)."""
    return tensor.uniform_(a, b, generator=generator)


@_unrecorded
def normal_(tensor: Tensor, mean: float = 0, std: float = 1, generator: Any = None) -> Tensor:
    """Fill with numbers that are normal of a mean and a standard deviation."""
    return tensor.normal_(mean, std, generator=generator)


@_unrecorded
def trunc_normal_(
    tensor: Tensor,
    mean: float = 0.0,
    std: float = 1.0,
    a: float = -2.0,
    b: float = 2.0,
    generator: Any = None,
) -> Tensor:
    """Fill with numbers that are normal, given that they lie in [a, b].

    Parameters
    ----------
    tensor : Tensor
    mean, std : float
        Of the normal distribution that is cut off.
    a, b : float
        The least and the largest number, not in units of `std`.
    generator : Generator, optional
    """
    return draw_truncated(tensor, mean, std, a, b, generator)


@_unrecorded
def constant_(tensor: Tensor, val: float) -> Tensor:
    """Fill with one number."""
    return tensor.fill_(val)


def ones_(tensor: Tensor) -> Tensor:
    """Fill with 1."""
    return constant_(tensor, 1.0)


def zeros_(tensor: Tensor) -> Tensor:
    """Fill with 0."""
    return constant_(tensor, 0.0)


@_unrecorded
def eye_(tensor: Tensor) -> Tensor:
    """Fill a matrix with 1 on its diagonal and 0 elsewhere.

    Raises
    ------
    ValueError
        If the tensor is no matrix.
    """
    if tensor.dim() != 2:
        raise ValueError("Only tensors with 2 dimensions are supported")
    return tensor.copy_(library.eye(*tensor.shape, dtype=tensor.dtype))


@_unrecorded
def dirac_(tensor: Tensor, groups: int = 1) -> Tensor:
    """Fill the weights of a convolution so that it hands on as many channels as it can.

    Parameters
    ----------
    tensor : Tensor, shape (F, C, ...) of 3 to 5 dimensions
    groups : int
        Of the convolution; each hands on its own channels.

    Raises
    ------
    ValueError
        If it has other dimensions, or F is no multiple of `groups`.
    """
    if tensor.dim() not in (3, 4, 5):
        raise ValueError("Only tensors with 3, 4, or 5 dimensions are supported")
    if tensor.size(0) % groups:
        raise ValueError("dim 0 must be divisible by groups")
    tensor.zero_()
    middle = tuple(n // 2 for n in tensor.shape[2:])
    filters = tensor.size(0) // groups
    for group in range(groups):
        for channel in range(min(filters, tensor.size(1))):
            tensor[(group * filters + channel, channel, *middle)] = 1
    return tensor


def _calculate_fan_in_and_fan_out(tensor: Tensor) -> tuple[int, int]:
    """Return how many inputs an output of these weights has, and how many outputs an input."""
    if tensor.dim() < 2:
        raise ValueError(
            "Fan in and fan out can not be computed for tensor with fewer than 2 dimensions"
        )
    field = math.prod(tensor.shape[2:])
    return tensor.size(1) * field, tensor.size(0) * field


def _calculate_correct_fan(tensor: Tensor, mode: str) -> int:
    modes = ("fan_in", "fan_out")
    if mode.lower() not in modes:
        raise ValueError(f"Mode {mode} not supported, please use one of {list(modes)}")
    return _calculate_fan_in_and_fan_out(tensor)[modes.index(mode.lower())]


def xavier_uniform_(tensor: Tensor, gain: float = 1, generator: Any = None) -> Tensor:
    """Fill uniformly in +- gain * sqrt(6 / (fan_in + fan_out)).

    References
    ----------
    Glorot and Bengio, "Understanding the difficulty of training deep feedforward neural networks",
    2010.
    """
    bound = gain * math.sqrt(6.0 / sum(_calculate_fan_in_and_fan_out(tensor)))
    return uniform_(tensor, -bound, bound, generator)


def xavier_normal_(tensor: Tensor, gain: float = 1, generator: Any = None) -> Tensor:
    """Fill normally with the deviation gain * sqrt(2 / (fan_in + fan_out)).

    References
    ----------
    As `xavier_uniform_`.
    """
    std = gain * math.sqrt(2.0 / sum(_calculate_fan_in_and_fan_out(tensor)))
    return normal_(tensor, 0, std, generator)


def kaiming_uniform_(
    tensor: Tensor,
    a: float = 0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Any = None,
) -> Tensor:
    """Fill uniformly in +- gain * sqrt(3 / fan).

    Parameters
    ----------
    tensor : Tensor, shape (F, C, ...)
    a : float
        The slope of leaky_relu behind the layer.
    mode : str
        'fan_in' keeps the variance going forward, 'fan_out' going back.
    nonlinearity : str
        See `calculate_gain`.

    References
    ----------
    He et al., "Delving deep into rectifiers", 2015.
    """
    std = calculate_gain(nonlinearity, a) / math.sqrt(_calculate_correct_fan(tensor, mode))
    bound = math.sqrt(3.0) * std
    return uniform_(tensor, -bound, bound, generator)


def kaiming_normal_(
    tensor: Tensor,
    a: float = 0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Any = None,
) -> Tensor:
    """Fill normally with the deviation gain / sqrt(fan); parameters as of `kaiming_uniform_`."""
    std = calculate_gain(nonlinearity, a) / math.sqrt(_calculate_correct_fan(tensor, mode))
    return normal_(tensor, 0, std, generator)


@_unrecorded
def orthogonal_(tensor: Tensor, gain: float = 1, generator: Any = None) -> Tensor:
    """Fill so that the rows, or the columns where they are fewer, are orthogonal to each other.

    Parameters
    ----------
    tensor : Tensor, shape (F, ...)
        Of 2 dimensions or more; all but the first count as one.
    gain : float
        The length of rows or columns.

    Raises
    ------
    ValueError
        If it has fewer dimensions.

    References
    ----------
    Saxe et al., "Exact solutions to the nonlinear dynamics of learning in deep linear neural
    networks", 2014.
    """
    if tensor.dim() < 2:
        raise ValueError("Only tensors with 2 or more dimensions are supported")
    rows, columns = tensor.size(0), tensor.numel() // max(tensor.size(0), 1)
    normal = library.empty(rows, columns, dtype=tensor.dtype).normal_(generator=generator)
    if rows < columns:
        normal = normal.t()
    q, r = library.qr(normal)
    q = q * library.diag(r).sign()  # else q is not uniform over the orthogonal matrices
    return tensor.copy_((q if rows >= columns else q.t()).reshape(tensor.shape)).mul_(gain)


@_unrecorded
def sparse_(tensor: Tensor, sparsity: float, std: float = 0.01, generator: Any = None) -> Tensor:
    """Fill a matrix normally, with a part of each column 0.

    Parameters
    ----------
    tensor : Tensor, shape (M, N)
    sparsity : float
        The part of a column that is 0.
    std : float
        The deviation of the rest.

    References
    ----------
    Martens, "Deep learning via Hessian-free optimization", 2010.
    """
    if tensor.dim() != 2:
        raise ValueError("Only tensors with 2 dimensions are supported")
    rows, columns = tensor.shape
    tensor.normal_(0, std, generator=generator)
    zeros = math.ceil(sparsity * rows)
    for column in range(columns):
        tensor[library.randperm(rows)[:zeros], column] = 0
    return tensor


def _old(fill: Fill) -> Fill:
    """Return a function under the name that it had before those that write ended in a `_`."""
    name = fill.__name__

    @functools.wraps(fill)
    def wrapped(*args: Any, **kwargs: Any) -> Tensor:
        warnings.warn(
            f"`nn.init.{name[:-1]}` is now deprecated in favor of `nn.init.{name}`.",
            FutureWarning,
            stacklevel=2,
        )
        return fill(*args, **kwargs)

    wrapped.__name__ = wrapped.__qualname__ = name[:-1]
    return wrapped


constant = _old(constant_)
dirac = _old(dirac_)
eye = _old(eye_)
kaiming_normal = _old(kaiming_normal_)
kaiming_uniform = _old(kaiming_uniform_)
normal = _old(normal_)
orthogonal = _old(orthogonal_)
sparse = _old(sparse_)
uniform = _old(uniform_)
xavier_normal = _old(xavier_normal_)
xavier_uniform = _old(xavier_uniform_)
