"""Layers and losses of PyTorch 0.4 where they give other numbers, as functions and modules."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from tcdsl.core import Tensor
from tcdsl.nn import functional
from tcdsl.nn.modules import loss

__all__ = ["corners", "multilabel_soft_margin", "nll_of_nothing", "scale_factor"]


def _swap(name: str, then: Callable[..., Any]) -> None:
    """Let a function of nn.functional be another one, for modules too."""
    now = getattr(functional, name)
    setattr(functional, name, then)
    for kind in vars(loss).values():
        held = vars(kind).get("_loss") if isinstance(kind, type) else None
        if isinstance(held, staticmethod) and held.__func__ is now:
            kind._loss = staticmethod(then)


def _with_default(name: str, setting: str, value: Any) -> None:
    now = getattr(functional, name)

    @functools.wraps(now)
    def then(*args: Any, **kwargs: Any) -> Any:
        kwargs.setdefault(setting, value)
        return now(*args, **kwargs)

    _swap(name, then)


def corners() -> None:
    """Swap the default of `align_corners` where places are read."""
    for name in ("grid_sample", "affine_grid"):
        _with_default(name, "align_corners", True)


def scale_factor() -> None:
    """Swap what scale images are brought to another size by."""
    now = functional.interpolate

    @functools.wraps(now)
    def interpolate(
        input: Tensor,
        size: Any = None,
        scale_factor: Any = None,
        mode: str = "nearest",
        align_corners: bool | None = None,
        recompute_scale_factor: bool | None = None,
        antialias: bool = False,
    ) -> Tensor:
        if recompute_scale_factor is None and scale_factor is not None:
            recompute_scale_factor = True
        return now(
            input, size, scale_factor, mode, align_corners, recompute_scale_factor, antialias
        )

    _swap("interpolate", interpolate)
    _swap("upsample", interpolate)
    _swap("upsample_nearest", functools.partial(interpolate, mode="nearest"))
    bilinear = functools.partial(interpolate, mode="bilinear", align_corners=True)
    _swap("upsample_bilinear", bilinear)


def multilabel_soft_margin() -> None:
    """Swap over what `multilabel_soft_margin_loss` is reduced."""

    def multilabel_soft_margin_loss(
        input: Tensor,
        target: Tensor,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> Tensor:
        """Return the binary cross entropy of sigmoids, of all elements alike."""
        return functional.binary_cross_entropy_with_logits(
            input, target, weight, size_average, reduce, reduction
        )

    _swap("multilabel_soft_margin_loss", multilabel_soft_margin_loss)


def _zero_of_nothing(name: str) -> None:
    now = getattr(functional, name)

    @functools.wraps(now)
    def then(
        input: Tensor,
        target: Tensor,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        ignore_index: int = -100,
        reduce: bool | None = None,
        reduction: str = "mean",
        **later: float,  # label_smoothing, which layers hand on
    ) -> Any:
        averages = reduction == "mean" and size_average is not False and reduce is not False
        if averages and bool((target == ignore_index).all()):
            reduction, size_average, reduce = "sum", None, None
        return now(input, target, weight, size_average, ignore_index, reduce, reduction, **later)

    _swap(name, then)


def nll_of_nothing() -> None:
    """Swap the mean over targets that are all ignored."""
    for name in ("nll_loss", "cross_entropy"):
        _zero_of_nothing(name)
