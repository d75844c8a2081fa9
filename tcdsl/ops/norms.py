"""Norms of batches, layers, groups and instances, as PyTorch's nn.functional has them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache

from tcdsl.core import Op, Tensor, made_by
from tcdsl.core.dtypes import DType, float32
from tcdsl.ops.arguments import several
from tcdsl.ops.formats import channels_behind, channels_second, has_channels_last
from tcdsl.ops.internal import filled
from tcdsl.ops.matrices import shown
from tcdsl.ops.on_device import empty_beside
from tcdsl.ops.pointwise import where
from tcdsl.ops.reductions import norm
from tcdsl.ops.rules import Operands, check_floats, computing, first
from tcdsl.ops.spatial import without_rest
from tcdsl.ops.table import Family, in_place, op_of_text, publish
from tcdsl.ops.views import dim_of

ops = Family(__file__)

_FLOATS = "mixed dtype (CPU): expect parameter to have scalar type of Float"
_SHARED = "mixed dtype (CPU): all inputs must share same datatype."


def _beside_parameters(operands: Operands) -> DType:
    """Return the type of the input, beside which parameters of halves may be float32."""
    x = operands[0]
    for o in operands[1:]:
        if isinstance(o, Tensor) and o.dtype not in (x.dtype, computing(x.dtype)):
            raise RuntimeError(_SHARED if o.dtype is float32 else _FLOATS)
    return x.dtype  # type: ignore[no-any-return]


_running = ops.op("running", types=first, vjp=None)
_layer_norm = ops.op("layer_norm", types=_beside_parameters, vjp="layer_norm_vjp")
_group_norm = ops.op("group_norm", types=_beside_parameters, vjp="group_norm_vjp")
_local_response_norm = ops.op("local_response_norm")


def _check_scales(
    weight: Tensor | None, bias: Tensor | None, shape: tuple[int, ...], wanted: str, beside: str
) -> None:
    """Refuse scales and shifts that are not of a shape, in PyTorch's words."""
    for name, given in (("weight", weight), ("bias", bias)):
        if given is not None and tuple(given.shape) != shape:
            raise RuntimeError(
                f"Expected {name} to be {wanted}, but got {name} of shape {list(given.shape)} and "
                f"{beside}"
            )


def _scales(
    weight: Tensor | None, bias: Tensor | None, n: Sequence[int], like: Tensor
) -> tuple[Tensor, Tensor]:
    """Return scale and shift in a shape and of one type: 1 and 0 where there is none."""
    given = [t for t in (weight, bias) if t is not None]
    dtype = given[0].dtype if given else like.dtype
    if not dtype.is_floating_point:
        raise RuntimeError(_FLOATS)
    if len(given) == 2 and given[1].dtype is not dtype:
        raise RuntimeError("mixed dtype (CPU): all the parameters should have the same dtype")

    def shaped(tensor: Tensor | None, value: float) -> Tensor:
        if tensor is None:
            return filled(empty_beside(like, tuple(n), dtype), value)  # type: ignore[no-any-return]
        return tensor.view(*n) if tuple(tensor.shape) != tuple(n) else tensor

    return shaped(weight, 1.0), shaped(bias, 0.0)


@cache
def _of_batches(name: str, rank: int) -> Op:
    """Return the op of a definition for (N, C, L), or without what is behind the channels."""
    vjp = "batch_norm_vjp" if name == "batch_norm" else "derived"
    text = "\n".join(map(ops.text, (name, vjp) if vjp != "derived" else (name,)))
    text = without_rest(text) if rank == 2 else text
    return op_of_text(text, name, types=_beside_parameters, vjp=vjp)


def batch_norm(
    input: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """Bring each channel to mean 0 and variance 1.

    Parameters
    ----------
    input : Tensor, shape (N, C, ...)
    running_mean, running_var : Tensor, shape (C,), optional
        Read unless `training`, and then written.
    weight, bias : Tensor, shape (C,), optional
    training : bool
        Whether mean and variance are those of `input`.
    momentum : float
        The share of a batch in the running values.
    eps : float
        Added to the variance.
    """
    shape = tuple(input.shape)
    check_floats("batch_norm", input.dtype)
    c, rest = shape[1], math.prod(shape[2:])
    if training and shape[0] * rest == 1:
        raise ValueError(
            f"Expected more than 1 value per channel when training, got input size {input.shape}"
        )
    named = {
        "running_mean": running_mean,
        "running_var": running_var,
        "weight": weight,
        "bias": bias,
    }
    for name, given in named.items():
        if given is not None and given.numel() != c:
            raise RuntimeError(f"{name} should contain {c} elements not {given.numel()}")
    last = not input.is_contiguous() and has_channels_last(input)  # then each place is a row
    if last:
        x = channels_behind(input).reshape(-1, c)
    else:
        x = input if input.ndim == 2 else input.reshape(shape[0], c, rest)
    g, b = _scales(weight, bias, (c,), input)
    if not training:
        if running_mean is None or running_var is None:
            missing = "running_mean" if running_mean is None else "running_var"
            raise RuntimeError(f"{missing} must be defined in evaluation mode")
        known: Tensor = _of_batches("batch_norm_known", x.ndim)(
            x, running_mean, running_var, g, b, eps
        )
        return made_by(_as_images(known, shape, last), "NativeBatchNormBackward0")
    out, m, r = _of_batches("batch_norm", x.ndim)(x, g, b, eps)
    if running_mean is not None and running_var is not None:
        n = shape[0] * rest
        new = _running(running_mean, running_var, m.detach(), r.detach(), momentum, eps, n)
        running_mean.copy_(new[0])
        running_var.copy_(new[1])
    return made_by(_as_images(out, shape, last), "NativeBatchNormBackward0")


def _as_images(made: Tensor, shape: tuple[int, ...], last: bool) -> Tensor:
    """Return images made of rows: of samples, or of places where the channels lie last."""
    if last:
        return channels_second(made.view(shape[0], *shape[2:], shape[1]))
    return made.view(*shape)  # type: ignore[no-any-return]


def instance_norm(
    input: Tensor,
    running_mean: Tensor | None = None,
    running_var: Tensor | None = None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """Bring each channel of each sample to mean 0 and variance 1."""
    shape = tuple(input.shape)
    n, c = shape[:2]
    check_floats("batch_norm", input.dtype)
    if not use_input_stats:
        return batch_norm(input, running_mean, running_var, weight, bias, False, momentum, eps)
    rest = math.prod(shape[2:])
    if rest == 1:
        raise ValueError(
            "Expected more than 1 spatial element when training, got input size "
            f"torch.Size({list(shape)})"
        )
    g, b = _scales(weight, bias, (c, 1), input)
    out, m, r = _group_norm(input.reshape(n, c, 1, rest), g, b, eps)
    if running_mean is not None and running_var is not None:
        old = running_mean.unsqueeze(0).expand(n, c), running_var.unsqueeze(0).expand(n, c)
        new = _running(
            *(t.reshape(-1) for t in (*old, m.detach(), r.detach())), momentum, eps, rest
        )
        running_mean.copy_(new[0].view(n, c).mean(0))
        running_var.copy_(new[1].view(n, c).mean(0))
    return out.view(*shape)  # type: ignore[no-any-return]


def layer_norm(
    input: Tensor,
    normalized_shape: Sequence[int] | int,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """Bring what is in the last dimensions to mean 0 and variance 1.

    Parameters
    ----------
    input : Tensor, shape (..., *normalized_shape)
    normalized_shape : int or sequence
    weight, bias : Tensor, shape normalized_shape, optional
    eps : float
        Added to the variance.
    """
    size = normalized_shape
    last = tuple(size) if isinstance(size, tuple) else several(size)
    shape = tuple(input.shape)
    if shape[len(shape) - len(last) :] != last:
        raise RuntimeError(
            f"Given normalized_shape={list(last)}, expected input with shape "
            f"[*, {', '.join(map(str, last))}], but got input of size{list(shape)}"
        )
    if not last:
        raise RuntimeError(
            "Expected normalized_shape to be at least 1-dimensional, i.e., containing at least one "
            "element, but got normalized_shape = []"
        )
    check_floats("LayerNormKernelImpl", input.dtype)
    d = math.prod(last)
    rows = math.prod(shape[: len(shape) - len(last)])
    try:
        g, b = _scales(weight, bias, (d,), input)
    except RuntimeError:
        said = "of same shape as normalized_shape", f"normalized_shape = {list(last)}"
        _check_scales(weight, bias, last, *said)
        raise
    out, _, _ = _layer_norm(input.reshape(rows, d), g, b, eps)
    return made_by(out.view(*shape), "NativeLayerNormBackward0")


def group_norm(
    input: Tensor,
    num_groups: int,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """Bring each group of channels of each sample to mean 0 and variance 1."""
    shape = tuple(input.shape)
    n, c = shape[:2]
    if c % num_groups:
        raise RuntimeError(
            "Expected number of channels in input to be divisible by num_groups, but got input of "
            f"shape {list(shape)} and num_groups={num_groups}"
        )
    check_floats("GroupNormKernelImpl", input.dtype)
    each = c // num_groups
    x = input.reshape(n, num_groups, each, math.prod(shape[2:]))
    try:
        g, b = _scales(weight, bias, (num_groups, each), input)
    except RuntimeError:
        wanted = "a vector of size equal to the number of channels in input"
        _check_scales(weight, bias, (c,), wanted, f"input of shape {list(shape)}")
        raise
    out, _, _ = _group_norm(x, g, b, eps)
    made: Tensor = out.view(*shape)
    if has_channels_last(input):  # a group's elements lie together for the kernel
        made = channels_second(channels_behind(made).contiguous())
    return made_by(made, "NativeGroupNormBackward0")


def local_response_norm(
    input: Tensor, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0
) -> Tensor:
    """Divide by a power of the mean square of `size` neighbouring channels."""
    shape = tuple(input.shape)
    x = input.reshape(shape[0], shape[1], math.prod(shape[2:]))
    out: Tensor = _local_response_norm(x, alpha, beta, k, K=size)
    return made_by(out.view(*shape), "DivBackward0")


def renorm(input: Tensor, p: float, dim: int, maxnorm: float) -> Tensor:
    """Make parts shorter whose norm is greater than a bound, so that it is that.

    Parameters
    ----------
    input : Tensor
        Of 2 dimensions or more.
    p : float
        Of the norm.
    dim : int
        Parts are what has one place in this dimension.
    maxnorm : float
    """
    if input.ndim < 2:
        raise RuntimeError(
            f"renorm: input needs at least 2 dimensions, got {input.ndim} dimensions"
        )
    if p <= 0:
        raise RuntimeError("renorm: non-positive-norm not supported")
    if maxnorm < 0:
        raise RuntimeError(f"renorm: expected maxnorm to be >= 0 but got {maxnorm:g}")
    if not input.dtype.is_floating_point:
        raise RuntimeError(
            "linalg.vector_norm: Expected a floating point or complex tensor as input. "
            f"Got {shown(input.dtype)}"
        )
    at = dim_of(dim, input.ndim)
    norms = norm(input, p, tuple(d for d in range(input.ndim) if d != at), True)
    return input * where(norms > maxnorm, maxnorm / (norms + 1e-7), 1.0)  # type: ignore[no-any-return]


renorm_ = in_place(renorm)


for made in (batch_norm, instance_norm, layer_norm, group_norm):
    publish(made, (made.__name__,), on=("torch",))
publish(renorm, ("renorm",))
publish(renorm_, ("renorm_",), on=("Tensor",))
