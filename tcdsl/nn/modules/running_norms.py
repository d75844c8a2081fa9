"""Normalisations of channels over a batch or an instance, by running statistics too."""

from __future__ import annotations

from collections.abc import Mapping
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
    "InstanceNorm1d",
    "InstanceNorm2d",
    "InstanceNorm3d",
    "SyncBatchNorm",
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


class SyncBatchNorm(_BatchNorm):
    """Batch norm over all processes, of which there is one; see `BatchNorm2d`."""

    dims = (2, 3, 4, 5)

    @classmethod
    def convert_sync_batchnorm(cls, module: Any, process_group: Any = None) -> Any:
        """Return a module whose batch norms are of this class."""
        made = module
        if isinstance(module, _BatchNorm):
            made = cls.__new__(cls)
            made.__dict__.update(module.__dict__)
        for name, child in list(module.named_children()):
            made.add_module(name, cls.convert_sync_batchnorm(child, process_group))
        return made


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
