"""Normalisations: over a batch, an instance, a layer, groups of channels, neighbours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tcdsl import library
from tcdsl.core import Tensor
from tcdsl.nn import functional, init
from tcdsl.nn.modules.module import Module
from tcdsl.nn.parameter import Parameter
from tcdsl.nn.placed import blank, place, placed

__all__ = [
    "BatchNorm1d",
    "BatchNorm2d",
    "BatchNorm3d",
    "GroupNorm",
    "InstanceNorm1d",
    "InstanceNorm2d",
    "InstanceNorm3d",
    "LayerNorm",
    "LocalResponseNorm",
]


class _Running(Module):
    """Normalise channels, by the statistics at hand or by those of training.

    Parameters
    ----------
    num_features : int
        C, the extent of dimension 1.
    eps : float
        Added to the variance.
    momentum : float or None
        The part of a new batch in the running statistics; None: their plain mean over batches.
    affine : bool
        Whether channels are scaled and shifted by parameters.
    track_running_stats : bool
        Whether statistics of training are kept, and used in evaluation.
    bias : bool
        Whether channels that are scaled are shifted too.

    Attributes
    ----------
    weight, bias : Parameter, shape (C,), or None
        At first 1 and 0.
    running_mean, running_var : Tensor, shape (C,), or None
    num_batches_tracked : Tensor, shape (), int64, or None
    """

    dims: tuple[int, ...] = ()
    _version = 2
    weight: Parameter | None
    bias: Parameter | None
    running_mean: Tensor | None
    running_var: Tensor | None
    num_batches_tracked: Tensor | None

    @placed
    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__()
        self.num_features = num_features
        self.eps = eps
        self.momentum = momentum
        self.affine = affine
        self.track_running_stats = track_running_stats
        for name, is_there in (("weight", affine), ("bias", affine and bias)):
            self.register_parameter(name, Parameter(blank(num_features)) if is_there else None)
        tracks = track_running_stats
        self.register_buffer("running_mean", blank(num_features) if tracks else None)
        self.register_buffer("running_var", blank(num_features) if tracks else None)
        count = library.tensor(0, dtype=library.int64, device=place()) if tracks else None
        self.register_buffer("num_batches_tracked", count)
        self.reset_parameters()

    def reset_running_stats(self) -> None:
        """Forget the statistics of training."""
        if self.running_mean is not None:
            self.running_mean.zero_()
        if self.running_var is not None:
            self.running_var.fill_(1)
        if self.num_batches_tracked is not None:
            self.num_batches_tracked.zero_()

    def reset_parameters(self) -> None:
        """Begin anew: no scale, no shift, no statistics."""
        self.reset_running_stats()
        if self.weight is not None:
            init.ones_(self.weight)
        if self.bias is not None:
            init.zeros_(self.bias)

    def _check_input_dim(self, input: Tensor) -> None:
        if input.dim() not in self.dims:
            expected = " or ".join(f"{n}D" for n in self.dims)
            raise ValueError(f"expected {expected} input (got {input.dim()}D input)")

    def extra_repr(self) -> str:
        """Return the settings."""
        return (
            f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, "
            f"affine={self.affine}, bias={self.bias is not None}, "
            f"track_running_stats={self.track_running_stats}"
        )

    def _load_from_state_dict(
        self,
        state_dict: Mapping[str, Any],
        prefix: str,
        metadata: Mapping[str, Any],
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        """Copy the state; one from before the batches were counted has no count."""
        key = prefix + "num_batches_tracked"
        older = metadata.get("version") is None or metadata["version"] < 2
        super()._load_from_state_dict(
            state_dict, prefix, metadata, strict, missing_keys, unexpected_keys, error_msgs
        )
        if older and key in missing_keys:
            missing_keys.remove(key)


class _BatchNorm(_Running):
    __doc__ = (_Running.__doc__ or "").replace(
        "Normalise channels", "Normalise each channel over a batch"
    )

    def forward(self, input: Tensor) -> Tensor:
        """Normalise, shape (N, C, ...)."""
        self._check_input_dim(input)
        factor = 0.0 if self.momentum is None else self.momentum
        if self.training and self.num_batches_tracked is not None:
            self.num_batches_tracked += 1
            if self.momentum is None:
                factor = 1.0 / float(self.num_batches_tracked)
        return functional.batch_norm(
            input,
            self.running_mean,
            self.running_var,
            self.weight,
            self.bias,
            self.training or self.running_mean is None,
            factor,
            self.eps,
        )


class BatchNorm1d(_BatchNorm):
    __doc__ = _BatchNorm.__doc__ or ""
    dims = (2, 3)


class BatchNorm2d(_BatchNorm):
    __doc__ = _BatchNorm.__doc__ or ""
    dims = (4,)


class BatchNorm3d(_BatchNorm):
    __doc__ = _BatchNorm.__doc__ or ""
    dims = (5,)


class _InstanceNorm(_Running):
    __doc__ = (_Running.__doc__ or "").replace(
        "Normalise channels", "Normalise each channel of each sample"
    )

    @placed
    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float = 0.1,
        affine: bool = False,
        track_running_stats: bool = False,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats, bias=bias)

    def forward(self, input: Tensor) -> Tensor:
        """Normalise, shape (N, C, ...)."""
        self._check_input_dim(input)
        return functional.instance_norm(
            input,
            self.running_mean,
            self.running_var,
            self.weight,
            self.bias,
            self.training or self.running_mean is None,
            0.0 if self.momentum is None else self.momentum,
            self.eps,
        )


class InstanceNorm1d(_InstanceNorm):
    __doc__ = _InstanceNorm.__doc__ or ""
    dims = (3,)


class InstanceNorm2d(_InstanceNorm):
    __doc__ = _InstanceNorm.__doc__ or ""
    dims = (4,)


class InstanceNorm3d(_InstanceNorm):
    __doc__ = _InstanceNorm.__doc__ or ""
    dims = (5,)


class LayerNorm(Module):
    """Normalise the last dimensions.

    Parameters
    ----------
    normalized_shape : int or sequence of int
        Extents of these dimensions.
    eps : float
        Added to the variance.
    elementwise_affine : bool
        Whether elements are scaled and shifted by parameters.
    bias : bool
        Whether they are shifted.

    Attributes
    ----------
    weight, bias : Parameter, shape normalized_shape, or None
        At first 1 and 0.
    """

    weight: Parameter | None
    bias: Parameter | None

    @placed
    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        shape = (normalized_shape,) if isinstance(normalized_shape, int) else normalized_shape
        self.normalized_shape = tuple(shape)
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        for name, is_there in (("weight", True), ("bias", bias)):
            has = elementwise_affine and is_there
            self.register_parameter(name, Parameter(blank(self.normalized_shape)) if has else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Begin anew: no scale, no shift."""
        if self.weight is not None:
            init.ones_(self.weight)
        if self.bias is not None:
            init.zeros_(self.bias)

    def forward(self, input: Tensor) -> Tensor:
        """Normalise, shape (..., *normalized_shape)."""
        return functional.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        """Return the settings."""
        return (
            f"{self.normalized_shape}, eps={self.eps}, "
            f"elementwise_affine={self.elementwise_affine}, bias={self.bias is not None}"
        )


class GroupNorm(Module):
    """Normalise groups of channels of each sample.

    Parameters
    ----------
    num_groups, num_channels : int
        The first divides the second.
    eps : float
        Added to the variance.
    affine : bool
        Whether channels are scaled and shifted by parameters.
    bias : bool
        Whether they are shifted too.

    Attributes
    ----------
    weight, bias : Parameter, shape (num_channels,), or None
        At first 1 and 0.

    References
    ----------
    Wu and He, "Group normalization", 2018.
    """

    weight: Parameter | None
    bias: Parameter | None

    @placed
    def __init__(
        self,
        num_groups: int,
        num_channels: int,
        eps: float = 1e-5,
        affine: bool = True,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__()
        if num_channels % num_groups:
            raise ValueError("num_channels must be divisible by num_groups")
        self.num_groups = num_groups
        self.num_channels = num_channels
        self.eps = eps
        self.affine = affine
        for name, is_there in (("weight", affine), ("bias", affine and bias)):
            self.register_parameter(name, Parameter(blank(num_channels)) if is_there else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Begin anew: no scale, no shift."""
        if self.weight is not None:
            init.ones_(self.weight)
        if self.bias is not None:
            init.zeros_(self.bias)

    def forward(self, input: Tensor) -> Tensor:
        """Normalise, shape (N, num_channels, ...)."""
        return functional.group_norm(input, self.num_groups, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        """Return the settings."""
        return (
            f"{self.num_groups}, {self.num_channels}, eps={self.eps}, affine={self.affine}, "
            f"bias={self.bias is not None}"
        )


class LocalResponseNorm(Module):
    """Divide each channel by a power of the mean square of the channels beside it.

    Parameters
    ----------
    size : int
        Channels of a mean.
    alpha, beta, k : float
        ``x / (k + alpha * mean) ** beta``.

    References
    ----------
    Krizhevsky et al., "ImageNet classification with deep convolutional neural networks", 2012.
    """

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> None:
        super().__init__()
        self.size = size
        self.alpha = alpha
        self.beta = beta
        self.k = k

    def forward(self, input: Tensor) -> Tensor:
        """Normalise, shape (N, C, ...)."""
        return functional.local_response_norm(input, self.size, self.alpha, self.beta, self.k)

    def extra_repr(self) -> str:
        """Return the settings."""
        return f"{self.size}, alpha={self.alpha}, beta={self.beta}, k={self.k}"
