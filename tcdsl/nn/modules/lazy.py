"""Layers whose input sizes the first input tells; after it they are the layers they stand for."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

from tcdsl.core import Tensor
from tcdsl.nn.modules import conv, linear, running_norms
from tcdsl.nn.modules.module import Module
from tcdsl.nn.placed import placed
from tcdsl.nn.uninitialized import UninitializedBuffer, UninitializedParameter, is_lazy

__all__ = [
    "LazyBatchNorm1d", "LazyBatchNorm2d", "LazyBatchNorm3d", "LazyConv1d", "LazyConv2d",
    "LazyConv3d", "LazyConvTranspose1d", "LazyConvTranspose2d", "LazyConvTranspose3d",
    "LazyInstanceNorm1d", "LazyInstanceNorm2d", "LazyInstanceNorm3d", "LazyLinear",
]  # fmt: skip

Size = int | tuple[int, ...]


class LazyModuleMixin(Module):
    """What a layer has whose parameters wait for its first input.

    Before the first call `initialize_parameters(input)` gives them their shapes; the layer is a
    `cls_to_become` from then on.
    """

    cls_to_become: type[Module] | None = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._initialize_hook = self.register_forward_pre_hook(
            self._infer_parameters, with_kwargs=True
        )
        warnings.warn(
            "Lazy modules are a new feature under heavy development so changes to the API or "
            "functionality can happen at any moment.",
            stacklevel=2,
        )

    def initialize_parameters(self, *args: Any, **kwargs: Any) -> None:
        """Give parameters their shapes by an input; every such layer defines its own."""
        raise NotImplementedError(
            f"initialize_parameters is not implemented for {type(self).__name__}"
        )

    def has_uninitialized_params(self) -> bool:
        """Whether a parameter or a buffer has no shape yet."""
        return any(map(is_lazy, (*self._parameters.values(), *self._buffers.values())))

    def _infer_parameters(self, module: Any, args: Any, kwargs: Any) -> None:
        self.initialize_parameters(*args, **kwargs)
        if self.has_uninitialized_params():
            raise RuntimeError(f"module {self._get_name()} has not been fully initialized")
        self._initialize_hook.remove()
        del self._initialize_hook
        if self.cls_to_become is not None:
            self.__class__ = self.cls_to_become  # type: ignore[assignment]  # over it

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        for name, value in self._own_state().items():
            if is_lazy(value):
                destination[prefix + name] = value

    def _load_from_state_dict(self, state_dict: Mapping[str, Any], prefix: str, *more: Any) -> None:
        """Take shapes from what is loaded, where it has some."""
        for name, value in self._own_state().items():
            given = state_dict.get(prefix + name)
            if given is not None and is_lazy(value) and not is_lazy(given):
                value.materialize(given.shape)
        super()._load_from_state_dict(state_dict, prefix, *more)


def _materialized(module: Module, shapes: Mapping[str, tuple[int, ...]]) -> None:
    for name, shape in shapes.items():
        value = getattr(module, name)
        if is_lazy(value):
            value.materialize(shape)


class LazyLinear(LazyModuleMixin, linear.Linear):
    """A `Linear` whose in_features the first input tells."""

    cls_to_become = linear.Linear

    @placed
    def __init__(
        self, out_features: int, bias: bool = True, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__(0, 0, False)
        self.weight = UninitializedParameter()
        self.out_features = out_features
        if bias:
            self.bias = UninitializedParameter()

    def reset_parameters(self) -> None:
        """Draw the parameters anew, if they have shapes."""
        if not self.has_uninitialized_params() and self.in_features:
            super().reset_parameters()

    def initialize_parameters(self, input: Tensor) -> None:
        """Take in_features from an input, shape (..., I)."""
        is_new = self.has_uninitialized_params()
        self.in_features = input.shape[-1] if is_new else self.weight.shape[-1]
        _materialized(
            self,
            {
                "weight": (self.out_features, self.in_features),
                "bias": (self.out_features,),
            },
        )
        if is_new:
            self.reset_parameters()


class _LazyConv(LazyModuleMixin, conv._Conv):
    """What lazy convolutions, transposed ones too, have in common."""

    def _wait(self, out_channels: int, bias: bool) -> None:
        self.weight = UninitializedParameter()
        self.out_channels = out_channels
        if bias:
            self.bias = UninitializedParameter()

    def reset_parameters(self) -> None:
        """Draw the parameters anew, if they have shapes."""
        if not self.has_uninitialized_params() and self.in_channels:
            super().reset_parameters()

    def initialize_parameters(self, input: Tensor, *args: Any, **kwargs: Any) -> None:
        """Take in_channels from an input, shape (N, C, ...) or (C, ...)."""
        if not self.has_uninitialized_params():
            at = 0 if self.transposed else 1
            self.in_channels = self.weight.shape[at] * (1 if self.transposed else self.groups)
            return
        self.in_channels = self._channels_of(input)
        if self.in_channels % self.groups:
            raise ValueError("in_channels must be divisible by groups")
        outer, inner = self.out_channels, self.in_channels
        if self.transposed:
            outer, inner = inner, outer
        shape = (outer, inner // self.groups, *self.kernel_size)
        _materialized(self, {"weight": shape, "bias": (self.out_channels,)})
        self.reset_parameters()

    def _channels_of(self, input: Tensor) -> int:
        alone, batch = self.dims + 1, self.dims + 2
        if input.dim() not in (alone, batch):
            raise RuntimeError(
                f"Expected {alone}D (unbatched) or {batch}D (batched) input to "
                f"{type(self).__name__}, but got input of size: {input.shape}"
            )
        return int(input.shape[input.dim() - alone])


class _LazyForward(_LazyConv, conv._Forward):
    __doc__ = "A convolution whose in_channels the first input tells."

    @placed
    def __init__(
        self,
        out_channels: int,
        kernel_size: Size,
        stride: Size = 1,
        padding: Size | str = 0,
        dilation: Size = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(0, 0, kernel_size, stride, padding, dilation, groups, False, padding_mode)
        self._wait(out_channels, bias)


class _LazyTransposed(_LazyConv, conv._Transposed):
    __doc__ = "A transposed convolution whose in_channels the first input tells."

    @placed
    def __init__(
        self,
        out_channels: int,
        kernel_size: Size,
        stride: Size = 1,
        padding: Size = 0,
        output_padding: Size = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: Size = 1,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(
            0, 0, kernel_size, stride, padding, output_padding, groups, False, dilation,
            padding_mode,
        )  # fmt: skip
        self._wait(out_channels, bias)


class _LazyNorm(LazyModuleMixin, running_norms._Running):
    __doc__ = "A normalisation of channels whose num_features the first input tells."

    @placed
    def __init__(
        self,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(0, eps, momentum, False, track_running_stats)
        self.affine = affine
        for name, is_there in (("weight", affine), ("bias", affine and bias)):
            if is_there:
                setattr(self, name, UninitializedParameter())
        for name in ("running_mean", "running_var") if track_running_stats else ():
            setattr(self, name, UninitializedBuffer())

    def reset_parameters(self) -> None:
        """Begin anew, if there are shapes."""
        if not self.has_uninitialized_params() and self.num_features:
            super().reset_parameters()

    def initialize_parameters(self, input: Tensor) -> None:
        """Take num_features from an input, shape (N, C, ...)."""
        if not self.has_uninitialized_params():
            return
        self.num_features = int(input.shape[1])
        tensors = (*self._parameters.items(), *self._buffers.items())
        _materialized(self, {name: (self.num_features,) for name, v in tensors if is_lazy(v)})
        self.reset_parameters()


class LazyConv1d(_LazyForward, conv.Conv1d):
    __doc__ = _LazyForward.__doc__ or ""
    cls_to_become = conv.Conv1d


class LazyConv2d(_LazyForward, conv.Conv2d):
    __doc__ = _LazyForward.__doc__ or ""
    cls_to_become = conv.Conv2d


class LazyConv3d(_LazyForward, conv.Conv3d):
    __doc__ = _LazyForward.__doc__ or ""
    cls_to_become = conv.Conv3d


class LazyConvTranspose1d(_LazyTransposed, conv.ConvTranspose1d):
    __doc__ = _LazyTransposed.__doc__ or ""
    cls_to_become = conv.ConvTranspose1d


class LazyConvTranspose2d(_LazyTransposed, conv.ConvTranspose2d):
    __doc__ = _LazyTransposed.__doc__ or ""
    cls_to_become = conv.ConvTranspose2d


class LazyConvTranspose3d(_LazyTransposed, conv.ConvTranspose3d):
    __doc__ = _LazyTransposed.__doc__ or ""
    cls_to_become = conv.ConvTranspose3d


class LazyBatchNorm1d(_LazyNorm, running_norms.BatchNorm1d):
    __doc__ = _LazyNorm.__doc__ or ""
    cls_to_become = running_norms.BatchNorm1d


class LazyBatchNorm2d(_LazyNorm, running_norms.BatchNorm2d):
    __doc__ = _LazyNorm.__doc__ or ""
    cls_to_become = running_norms.BatchNorm2d


class LazyBatchNorm3d(_LazyNorm, running_norms.BatchNorm3d):
    __doc__ = _LazyNorm.__doc__ or ""
    cls_to_become = running_norms.BatchNorm3d


class LazyInstanceNorm1d(_LazyNorm, running_norms.InstanceNorm1d):
    __doc__ = _LazyNorm.__doc__ or ""
    cls_to_become = running_norms.InstanceNorm1d


class LazyInstanceNorm2d(_LazyNorm, running_norms.InstanceNorm2d):
    __doc__ = _LazyNorm.__doc__ or ""
    cls_to_become = running_norms.InstanceNorm2d


class LazyInstanceNorm3d(_LazyNorm, running_norms.InstanceNorm3d):
    __doc__ = _LazyNorm.__doc__ or ""
    cls_to_become = running_norms.InstanceNorm3d
