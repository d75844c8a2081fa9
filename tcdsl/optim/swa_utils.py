"""Means of a model's parameters over training, and the learning rate that goes with them."""

from __future__ import annotations

import copy
import itertools
import math
from collections.abc import Callable, Iterable
from typing import Any

from tcdsl import library
from tcdsl.core import Tensor
from tcdsl.nn import BatchNorm1d, BatchNorm2d, BatchNorm3d, Module
from tcdsl.optim.optimizer import Optimizer
from tcdsl.optim.schedule import LRScheduler

__all__ = [
    "SWALR",
    "AveragedModel",
    "get_ema_avg_fn",
    "get_ema_multi_avg_fn",
    "get_swa_avg_fn",
    "get_swa_multi_avg_fn",
    "update_bn",
]

BATCH_NORMS = (BatchNorm1d, BatchNorm2d, BatchNorm3d)
One = Callable[[Tensor, Tensor, Any], Tensor]
Several = Callable[[list[Tensor], list[Tensor], Any], None]


def _checked(decay: float) -> float:
    if not 0.0 <= decay <= 1.0:
        raise ValueError(
            f"Invalid decay value {decay} provided. Please provide a value in [0,1] range."
        )
    return decay


def get_ema_multi_avg_fn(decay: float = 0.999) -> Several:
    """Return what moves means in place to ``decay mean + (1 - decay) parameter``."""
    part = 1 - _checked(decay)

    def update(means: list[Tensor], parameters: list[Tensor], count: Any) -> None:
        with library.no_grad():
            for mean, p in zip(means, parameters, strict=True):
                if mean.is_floating_point():
                    mean.lerp_(p, part)
                else:
                    mean.copy_(mean * decay + p * part)

    return update


def get_swa_multi_avg_fn() -> Several:
    """Return what moves means of so many models in place to those of one more."""

    def update(means: list[Tensor], parameters: list[Tensor], count: Any) -> None:
        with library.no_grad():
            for mean, p in zip(means, parameters, strict=True):
                if mean.is_floating_point():
                    mean.lerp_(p, 1 / (int(count) + 1))
                else:
                    mean.copy_(mean + (p - mean) / (int(count) + 1))

    return update


def get_ema_avg_fn(decay: float = 0.999) -> One:
    """Return what computes ``decay mean + (1 - decay) parameter``."""
    _checked(decay)

    def update(mean: Tensor, parameter: Tensor, count: Any) -> Tensor:
        with library.no_grad():
            made: Tensor = mean * decay + parameter * (1 - decay)
        return made

    return update


def get_swa_avg_fn() -> One:
    """Return what computes the mean of one model more than so many."""

    def update(mean: Tensor, parameter: Tensor, count: Any) -> Tensor:
        with library.no_grad():
            made: Tensor = mean + (parameter - mean) / (count + 1)
        return made

    return update


class AveragedModel(Module):
    """A copy of a model whose parameters are means of those that the model has had.

    Parameters
    ----------
    model : Module
    device : device, optional
        Where the copy lies.
    avg_fn : callable, optional
        ``avg_fn(mean, parameter, count)`` gives the next mean; see `get_ema_avg_fn`.
    multi_avg_fn : callable, optional
        ``multi_avg_fn(means, parameters, count)`` writes all of them; see `get_ema_multi_avg_fn`.
        Without either, means are plain ones.
    use_buffers : bool
        Whether there are means of buffers too; else they are copied.

    Attributes
    ----------
    module : Module
        The copy.
    n_averaged : Tensor, shape (), int64
        How many models the means are over.

    References
    ----------
    Izmailov et al., "Averaging weights leads to wider optima and better generalization", 2018.
    """

    n_averaged: Tensor

    def __init__(
        self,
        model: Module,
        device: Any = None,
        avg_fn: One | None = None,
        multi_avg_fn: Several | None = None,
        use_buffers: bool = False,
    ) -> None:
        super().__init__()
        if avg_fn is not None and multi_avg_fn is not None:
            raise AssertionError("Only one of avg_fn and multi_avg_fn should be provided")
        self.module = copy.deepcopy(model)
        if device is not None:
            self.module = self.module.to(device)
        count = library.tensor(0, dtype=library.long, device=device)
        self.register_buffer("n_averaged", count)
        self.avg_fn = avg_fn
        self.multi_avg_fn = multi_avg_fn
        self.use_buffers = use_buffers

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Call the copy."""
        return self.module(*args, **kwargs)

    def update_parameters(self, model: Module) -> None:
        """Take the parameters that a model has now into the means; the first are copied."""
        pairs = [
            (mean.detach(), p.detach().to(mean.device))
            for mean, p in zip(self._averaged(self.module), self._averaged(model), strict=True)
        ]
        count = int(self.n_averaged)
        with library.no_grad():
            if count == 0:
                for mean, p in pairs:
                    mean.copy_(p)
            elif self.avg_fn is not None:
                for mean, p in pairs:
                    mean.copy_(self.avg_fn(mean, p, self.n_averaged.to(mean.device)))
            else:
                update = self.multi_avg_fn or get_swa_multi_avg_fn()
                kinds = dict.fromkeys((mean.device, mean.dtype) for mean, _ in pairs)
                for kind in kinds:  # as PyTorch hands them over
                    same = [pair for pair in pairs if (pair[0].device, pair[0].dtype) == kind]
                    update([mean for mean, _ in same], [p for _, p in same], count)
            if not self.use_buffers:
                for buffer, new in zip(self.module.buffers(), model.buffers(), strict=True):
                    buffer.detach().copy_(new.detach())
        self.n_averaged += 1

    def _averaged(self, model: Module) -> Iterable[Tensor]:
        if self.use_buffers:
            return itertools.chain(model.parameters(), model.buffers())
        return model.parameters()


def update_bn(loader: Iterable[Any], model: Module, device: Any = None) -> None:
    """Compute the statistics of a model's batch norms anew, in one pass over data.

    Parameters
    ----------
    loader : iterable of Tensor, or of sequences whose first is one
    model : Module
    device : device, optional
        Where batches are moved.
    """
    norms: list[Any] = [m for m in model.modules() if isinstance(m, BATCH_NORMS)]
    if not norms:
        return
    momenta = {norm: norm.momentum for norm in norms}
    was_training = model.training
    for norm in norms:
        norm.reset_running_stats()
        norm.momentum = None  # the plain mean over batches
    model.train()
    with library.no_grad():
        for batch in loader:
            x = batch[0] if isinstance(batch, list | tuple) else batch
            model(x if device is None else x.to(device))
    for norm, momentum in momenta.items():
        norm.momentum = momentum
    model.train(was_training)


class SWALR(LRScheduler):
    """The learning rate goes to one for averaging over some epochs, and stays there.

    Parameters
    ----------
    optimizer : Optimizer
    swa_lr : float, or a sequence of them
        Of a sequence one a group.
    anneal_epochs : int
    anneal_strategy : {"cos", "linear"}
    last_epoch : int
    """

    def __init__(
        self,
        optimizer: Optimizer,
        swa_lr: Any,
        anneal_epochs: int = 10,
        anneal_strategy: str = "cos",
        last_epoch: int = -1,
    ) -> None:
        groups = optimizer.param_groups
        rates = list(swa_lr) if isinstance(swa_lr, list | tuple) else [swa_lr] * len(groups)
        if len(rates) != len(groups):
            raise ValueError(
                "swa_lr must have the same length as optimizer.param_groups: swa_lr has "
                f"{len(rates)}, optimizer.param_groups has {len(groups)}"
            )
        for rate, group in zip(rates, groups, strict=True):
            group["swa_lr"] = rate
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(
                f"anneal_strategy must by one of 'cos' or 'linear', instead got {anneal_strategy}"
            )
        if not isinstance(anneal_epochs, int) or anneal_epochs < 0:
            raise ValueError(f"anneal_epochs must be equal or greater than 0, got {anneal_epochs}")
        self._is_wave = anneal_strategy == "cos"
        self.anneal_epochs = anneal_epochs
        super().__init__(optimizer, last_epoch)

    def _part(self, at: float) -> float:
        """Return how far the way is gone when that part of the epochs is."""
        return (1 - math.cos(math.pi * at)) / 2 if self._is_wave else at

    def get_lr(self) -> list[float]:
        """Return each group's rate, by what the last one says about the first."""
        self._warn_outside_step()
        epochs, now = max(1, self.anneal_epochs), self.last_epoch
        step = now if self.anneal_epochs else max(1, now)
        before = self._part(max(0, min(1, (step - 1) / epochs)))
        part = self._part(max(0, min(1, step / epochs)))
        rates = []
        for group in self.optimizer.param_groups:
            to = group["swa_lr"]
            first = to if before == 1 else (group["lr"] - before * to) / (1 - before)
            rates.append(to * part + first * (1 - part))
        return rates
