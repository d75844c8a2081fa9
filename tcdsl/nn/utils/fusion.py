"""A layer and the batch norm behind it as one layer, for evaluation."""

from __future__ import annotations

import copy
from typing import Any

from tcdsl import library
from tcdsl.core import Tensor
from tcdsl.nn.parameter import Parameter

__all__ = [
    "fuse_conv_bn_eval",
    "fuse_conv_bn_weights",
    "fuse_linear_bn_eval",
    "fuse_linear_bn_weights",
]

Pair = tuple[Parameter, Parameter]


def _fused(
    weight: Tensor, bias: Tensor | None, norm: tuple[Any, ...], eps: float, dim: int
) -> Pair:
    """Return ``w g / sqrt(v + eps)`` and ``(b - m) g / sqrt(v + eps) + h``, outputs along `dim`."""
    mean, variance, gain, shift = norm
    bias = library.zeros_like(mean) if bias is None else bias
    gain = library.ones_like(mean) if gain is None else gain
    shift = library.zeros_like(mean) if shift is None else shift
    scale = gain * library.rsqrt(variance + eps)
    along = scale.reshape([-1 if d == dim else 1 for d in range(weight.ndim)])
    made = (weight * along).to(weight.dtype), ((bias - mean) * scale + shift).to(bias.dtype)
    first, second = (
        Parameter(value, old.requires_grad) for value, old in zip(made, (weight, bias), strict=True)
    )
    return first, second


def fuse_conv_bn_weights(
    conv_w: Tensor,
    conv_b: Tensor | None,
    bn_rm: Tensor,
    bn_rv: Tensor,
    bn_eps: float,
    bn_w: Tensor | None,
    bn_b: Tensor | None,
    transpose: bool = False,
) -> Pair:
    """Return weight and bias of a convolution that does what one and its batch norm do.

    Parameters
    ----------
    conv_w, conv_b : Tensor
        Of the convolution.
    bn_rm, bn_rv, bn_eps, bn_w, bn_b
        Mean, variance, eps, weight and bias of the batch norm.
    transpose : bool
        Whether the convolution is transposed.
    """
    return _fused(conv_w, conv_b, (bn_rm, bn_rv, bn_w, bn_b), bn_eps, int(transpose))


def fuse_linear_bn_weights(
    linear_w: Tensor,
    linear_b: Tensor | None,
    bn_rm: Tensor,
    bn_rv: Tensor,
    bn_eps: float,
    bn_w: Tensor | None,
    bn_b: Tensor | None,
) -> Pair:
    """Return weight and bias of a linear layer that does what one and its batch norm do."""
    return _fused(linear_w, linear_b, (bn_rm, bn_rv, bn_w, bn_b), bn_eps, 0)


def _with(layer: Any, bn: Any, dim: int) -> Any:
    """Return a copy of a layer that does what it and a batch norm do."""
    if layer.training or bn.training:
        raise AssertionError("Fusion only for eval!")
    made = copy.deepcopy(layer)
    norm = bn.running_mean, bn.running_var, bn.weight, bn.bias
    if norm[0] is None or norm[1] is None:
        raise AssertionError("bn.running_mean and bn.running_var must not be None")
    made.weight, made.bias = _fused(made.weight, made.bias, norm, bn.eps, dim)
    return made


def fuse_conv_bn_eval(conv: Any, bn: Any, transpose: bool = False) -> Any:
    """Return a convolution that does what one and the batch norm behind it do, in evaluation.

    Parameters
    ----------
    conv, bn : Module
    transpose : bool
        Whether the convolution is transposed.
    """
    return _with(conv, bn, int(transpose))


def fuse_linear_bn_eval(linear: Any, bn: Any) -> Any:
    """Return a linear layer that does what one and the batch norm behind it do, in evaluation.

    Raises
    ------
    AssertionError
        If a layer is in training, or the norm's features are neither the layer's outputs nor 1.
    """
    if linear.out_features != bn.num_features and bn.num_features != 1:
        raise AssertionError(
            "To fuse, linear.out_features == bn.num_features or bn.num_features == 1"
        )
    return _with(linear, bn, 0)
