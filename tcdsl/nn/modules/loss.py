"""Losses: how far a prediction is from what was wanted, as one number or one a sample."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tcdsl.core import Tensor
from tcdsl.nn import functional
from tcdsl.nn.modules.module import Module

__all__ = [
    "BCELoss",
    "BCEWithLogitsLoss",
    "CosineEmbeddingLoss",
    "CrossEntropyLoss",
    "HingeEmbeddingLoss",
    "KLDivLoss",
    "L1Loss",
    "MSELoss",
    "MarginRankingLoss",
    "MultiLabelMarginLoss",
    "MultiLabelSoftMarginLoss",
    "MultiMarginLoss",
    "NLLLoss",
    "PoissonNLLLoss",
    "SmoothL1Loss",
    "SoftMarginLoss",
    "TripletMarginLoss",
]


class _Loss(Module):
    """A loss by element or sample, and what becomes of these.

    Parameters
    ----------
    size_average, reduce : bool, optional
        The older way to say reduction: reduce=False is 'none', size_average=False 'sum'.
    reduction : str
        'mean', 'sum', or 'none': the losses themselves.
    """

    _loss: Callable[..., Tensor]

    def __init__(
        self,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__()
        if size_average is not None or reduce is not None:
            reduction = _reduction(size_average, reduce)
        self.reduction = reduction

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Compare a prediction with its target."""
        return self._loss(input, target, reduction=self.reduction)


class L1Loss(_Loss):
    """``|x - y|``; parameters as of all losses: size_average, reduce, reduction."""

    _loss = staticmethod(functional.l1_loss)


class MSELoss(_Loss):
    """``(x - y) ** 2``; parameters as of all losses: size_average, reduce, reduction."""

    _loss = staticmethod(functional.mse_loss)


class SmoothL1Loss(_Loss):
    """``(x - y) ** 2 / (2 beta)`` where ``|x - y|`` is below beta, else ``|x - y| - beta / 2``.

    Parameters
    ----------
    size_average, reduce, reduction
        As of all losses.
    beta : float
        0: `L1Loss`.
    """

    def __init__(
        self,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
        beta: float = 1.0,
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.beta = beta

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Compare a prediction with its target."""
        return functional.smooth_l1_loss(input, target, reduction=self.reduction, beta=self.beta)


class SoftMarginLoss(_Loss):
    """``log(1 + exp(-y x))``, y being 1 or -1."""

    _loss = staticmethod(functional.soft_margin_loss)


class MultiLabelMarginLoss(_Loss):
    """What labels lack of being above all other classes by 1; targets are labels and then -1."""

    _loss = staticmethod(functional.multilabel_margin_loss)


class KLDivLoss(_Loss):
    """``y (log(y) - x)``, x being a logarithm.

    Parameters
    ----------
    size_average, reduce, reduction
        As of all losses; 'batchmean' is the sum by the number of samples.
    log_target : bool
        Whether y is given as its logarithm.
    """

    def __init__(
        self,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
        log_target: bool = False,
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.log_target = log_target

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Compare logarithms of probabilities with probabilities."""
        return functional.kl_div(
            input, target, reduction=self.reduction, log_target=self.log_target
        )


class _WeightedLoss(_Loss):
    """A loss whose classes, or elements, have weights.

    Parameters
    ----------
    weight : Tensor, optional
        One a class.
    size_average, reduce, reduction
        As of all losses.
    """

    weight: Tensor | None

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.register_buffer("weight", weight)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Compare a prediction with its target."""
        return self._loss(input, target, weight=self.weight, reduction=self.reduction)


class BCELoss(_WeightedLoss):
    """``-(y log(x) + (1 - y) log(1 - x))``, logarithms no lower than -100."""

    _loss = staticmethod(functional.binary_cross_entropy)


class MultiLabelSoftMarginLoss(_WeightedLoss):
    """The mean over classes of ``-(y log(s) + (1 - y) log(1 - s))``, s the sigmoid of x."""

    _loss = staticmethod(functional.multilabel_soft_margin_loss)


class BCEWithLogitsLoss(_WeightedLoss):
    """``-(p y log(s) + (1 - y) log(1 - s))``, s the sigmoid of x.

    Parameters
    ----------
    weight, size_average, reduce, reduction
        As of all losses with weights.
    pos_weight : Tensor, optional
        p, one a class.
    """

    pos_weight: Tensor | None

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
        pos_weight: Tensor | None = None,
    ) -> None:
        super().__init__(weight, size_average, reduce, reduction)
        self.register_buffer("pos_weight", pos_weight)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Compare a prediction with its target."""
        return functional.binary_cross_entropy_with_logits(
            input, target, self.weight, reduction=self.reduction, pos_weight=self.pos_weight
        )


class NLLLoss(_WeightedLoss):
    """``-x[target]``, x being logarithms of probabilities, shape (N, C, ...).

    Parameters
    ----------
    weight : Tensor, shape (C,), optional
        A mean is then by the sum of the weights of the targets.
    size_average, reduce, reduction
        As of all losses.
    ignore_index : int
        A target that does not count.
    """

    _loss = staticmethod(functional.nll_loss)

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        ignore_index: int = -100,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(weight, size_average, reduce, reduction)
        self.ignore_index = ignore_index

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Compare a prediction with its classes, (N, C, ...) with (N, ...)."""
        return self._loss(input, target, **self._settings())

    def _settings(self) -> dict[str, Any]:
        return {
            "weight": self.weight,
            "ignore_index": self.ignore_index,
            "reduction": self.reduction,
        }


class CrossEntropyLoss(NLLLoss):
    """``log(sum exp(x)) - x[target]``, shape (N, C, ...).

    Parameters
    ----------
    weight, size_average, ignore_index, reduce, reduction
        As of `NLLLoss`.
    label_smoothing : float
        From 0 to 1: how much of a target is spread over all classes.

    A target holds classes, (N, ...), or their probabilities, (N, C, ...).
    """

    _loss = staticmethod(functional.cross_entropy)

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        ignore_index: int = -100,
        reduce: bool | None = None,
        reduction: str = "mean",
        label_smoothing: float = 0.0,
    ) -> None:
        super().__init__(weight, size_average, ignore_index, reduce, reduction)
        self.label_smoothing = label_smoothing

    def _settings(self) -> dict[str, Any]:
        return {**super()._settings(), "label_smoothing": self.label_smoothing}


class PoissonNLLLoss(_Loss):
    """``exp(x) - y x``, or ``x - y log(x + eps)`` where x is no logarithm.

    Parameters
    ----------
    log_input : bool
        Whether x is a logarithm.
    full : bool
        Whether Stirling's term for ``log(y!)`` is added.
    eps : float
    size_average, reduce, reduction
        As of all losses.
    """

    def __init__(
        self,
        log_input: bool = True,
        full: bool = False,
        size_average: bool | None = None,
        eps: float = 1e-8,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.log_input = log_input
        self.full = full
        self.eps = eps

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Compare expected counts with those seen."""
        return functional.poisson_nll_loss(
            input, target, self.log_input, self.full, eps=self.eps, reduction=self.reduction
        )


class _MarginLoss(_Loss):
    """A loss with a margin.

    Parameters
    ----------
    margin : float
    size_average, reduce, reduction
        As of all losses.
    """

    margin = 0.0

    def __init__(
        self,
        margin: float | None = None,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.margin = type(self).margin if margin is None else margin


class HingeEmbeddingLoss(_MarginLoss):
    """``y == 1 ? x : max(0, margin - x)``; margin 1 by default."""

    margin = 1.0

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Compare distances with their target, 1 or -1."""
        return functional.hinge_embedding_loss(
            input, target, margin=self.margin, reduction=self.reduction
        )


class _PairLoss(_MarginLoss):
    def forward(  # type: ignore[override]  # two predictions
        self, input1: Tensor, input2: Tensor, target: Tensor
    ) -> Tensor:
        """Compare two predictions, of which the target says 1 or -1."""
        return self._loss(input1, input2, target, margin=self.margin, reduction=self.reduction)


class MarginRankingLoss(_PairLoss):
    """``max(0, -y (x1 - x2) + margin)``; margin 0 by default."""

    _loss = staticmethod(functional.margin_ranking_loss)


class CosineEmbeddingLoss(_PairLoss):
    """``y == 1 ? 1 - cos(x1, x2) : max(0, cos(x1, x2) - margin)``; margin 0 by default."""

    _loss = staticmethod(functional.cosine_embedding_loss)


class MultiMarginLoss(_WeightedLoss):
    """``sum max(0, w (margin - x[target] + x[other])) ** p / C``.

    Parameters
    ----------
    p : int
        1 or 2.
    margin : float
    weight : Tensor, shape (C,), optional
    size_average, reduce, reduction
        As of all losses.

    Raises
    ------
    ValueError
        If p is another number.
    """

    def __init__(
        self,
        p: int = 1,
        margin: float = 1,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(weight, size_average, reduce, reduction)
        if p not in (1, 2):
            raise ValueError("only p == 1 and p == 2 supported")
        self.p = p
        self.margin = margin

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Compare a prediction with its classes, (N, C) with (N,)."""
        return functional.multi_margin_loss(
            input, target, self.p, self.margin, self.weight, reduction=self.reduction
        )


class TripletMarginLoss(_Loss):
    """``max(0, d(anchor, positive) - d(anchor, negative) + margin)``.

    Parameters
    ----------
    margin : float
    p : float
        Of the norm that distances are.
    eps : float
        Added to the differences.
    swap : bool
        Take the distance of negative and positive where that is less.
    size_average, reduce, reduction
        As of all losses.
    """

    def __init__(
        self,
        margin: float = 1.0,
        p: float = 2,
        eps: float = 1e-6,
        swap: bool = False,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.margin = margin
        self.p = p
        self.eps = eps
        self.swap = swap

    def forward(  # type: ignore[override]  # three, not two
        self, anchor: Tensor, positive: Tensor, negative: Tensor
    ) -> Tensor:
        """Compare distances, shape (N, D) each."""
        return functional.triplet_margin_loss(
            anchor,
            positive,
            negative,
            self.margin,
            self.p,
            self.eps,
            self.swap,
            reduction=self.reduction,
        )


def _reduction(size_average: bool | None, reduce: bool | None) -> str:
    """Return the word for what the two older flags say."""
    if reduce is False:
        return "none"
    return "sum" if size_average is False else "mean"
