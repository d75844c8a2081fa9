"""Losses that came after PyTorch 0.4."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tcdsl.core import Tensor
from tcdsl.nn import functional
from tcdsl.nn.modules.module import Module

__all__ = ["CTCLoss", "GaussianNLLLoss", "HuberLoss", "TripletMarginWithDistanceLoss"]


class HuberLoss(Module):
    """Half the square of a difference up to delta, from there on straight.

    Parameters
    ----------
    reduction : "none", "mean" or "sum"
    delta : float
        Above 0.
    """

    def __init__(self, reduction: str = "mean", delta: float = 1.0) -> None:
        super().__init__()
        self.reduction = reduction
        self.delta = delta

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Compare."""
        return functional.huber_loss(input, target, reduction=self.reduction, delta=self.delta)


class CTCLoss(Module):
    """How unlikely targets are of sequences whose places in time are not known.

    Parameters
    ----------
    blank : int
        The class that stands for none.
    reduction : "none", "mean" or "sum"
        "mean" divides each loss by the length of its target before.
    zero_infinity : bool
        Whether losses of targets that do not fit are 0, and their gradients.
    """

    def __init__(
        self, blank: int = 0, reduction: str = "mean", zero_infinity: bool = False
    ) -> None:
        super().__init__()
        self.blank = blank
        self.reduction = reduction
        self.zero_infinity = zero_infinity

    def forward(
        self, log_probs: Tensor, targets: Tensor, input_lengths: Any, target_lengths: Any
    ) -> Tensor:
        """Compare logarithms of probabilities (T, N, C) with labels; see `functional.ctc_loss`."""
        return functional.ctc_loss(
            log_probs,
            targets,
            input_lengths,
            target_lengths,
            self.blank,
            self.reduction,
            self.zero_infinity,
        )


class GaussianNLLLoss(Module):
    """How unlikely targets are of normal distributions; see `functional.gaussian_nll_loss`."""

    def __init__(self, *, full: bool = False, eps: float = 1e-6, reduction: str = "mean") -> None:
        super().__init__()
        self.full = full
        self.eps = eps
        self.reduction = reduction

    def forward(self, input: Tensor, target: Tensor, var: Tensor | float) -> Tensor:
        """Compare."""
        return functional.gaussian_nll_loss(input, target, var, self.full, self.eps, self.reduction)


class TripletMarginWithDistanceLoss(Module):
    """What a negative example lacks of being farther than a positive one by a margin."""

    def __init__(
        self,
        *,
        distance_function: Callable[[Tensor, Tensor], Tensor] | None = None,
        margin: float = 1.0,
        swap: bool = False,
        reduction: str = "mean",
    ) -> None:
        super().__init__()
        self.distance_function = distance_function
        self.margin = margin
        self.swap = swap
        self.reduction = reduction

    def forward(self, anchor: Tensor, positive: Tensor, negative: Tensor) -> Tensor:
        """Compare."""
        return functional.triplet_margin_with_distance_loss(
            anchor,
            positive,
            negative,
            distance_function=self.distance_function,
            margin=self.margin,
            swap=self.swap,
            reduction=self.reduction,
        )
