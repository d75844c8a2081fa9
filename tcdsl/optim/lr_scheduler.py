"""How the learning rate changes from epoch to epoch."""

from __future__ import annotations

import bisect
import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

from tcdsl.calls.process.places import found_in
from tcdsl.optim.cycles import CyclicLR, OneCycleLR
from tcdsl.optim.optimizer import Optimizer
from tcdsl.optim.schedule import LRScheduler, OfFunctions
from tcdsl.optim.schedules import (
    ChainedScheduler,
    ConstantLR,
    CosineAnnealingWarmRestarts,
    LinearLR,
    MultiplicativeLR,
    PolynomialLR,
    SequentialLR,
)

__all__ = [
    "ChainedScheduler",
    "ConstantLR",
    "CosineAnnealingLR",
    "CosineAnnealingWarmRestarts",
    "CyclicLR",
    "ExponentialLR",
    "LRScheduler",
    "LambdaLR",
    "LinearLR",
    "MultiStepLR",
    "MultiplicativeLR",
    "OneCycleLR",
    "PolynomialLR",
    "ReduceLROnPlateau",
    "SequentialLR",
    "StepLR",
]

_LRScheduler = LRScheduler  # its name before 2.0


class LambdaLR(OfFunctions):
    """The first learning rate times a function of the epoch.

    Parameters
    ----------
    optimizer : Optimizer
    lr_lambda : callable, or a list of them
        `lr_lambda(epoch)`; of a list one a group.
    last_epoch : int
    """

    def get_lr(self) -> list[float]:
        """Return each group's first learning rate times its function of the epoch."""
        self._warn_outside_step()
        pairs = zip(self.base_lrs, self.lr_lambdas, strict=True)
        return [base * factor(self.last_epoch) for base, factor in pairs]


class StepLR(LRScheduler):
    """The learning rate times gamma every step_size epochs."""

    def __init__(
        self, optimizer: Optimizer, step_size: int, gamma: float = 0.1, last_epoch: int = -1
    ) -> None:
        self.step_size = step_size
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        """Return the present rates, times gamma every step_size epochs."""
        self._warn_outside_step()
        is_due = self.last_epoch > 0 and self.last_epoch % self.step_size == 0
        return self._present(self.gamma if is_due else 1.0)

    def _get_closed_form_lr(self) -> list[float]:
        """Return ``lr * gamma ** (epoch // step_size)``."""
        factor = self.gamma ** (self.last_epoch // self.step_size)
        return [base * factor for base in self.base_lrs]


class MultiStepLR(LRScheduler):
    """The learning rate times gamma at each of some epochs, which ascend."""

    def __init__(
        self,
        optimizer: Optimizer,
        milestones: Sequence[int],
        gamma: float = 0.1,
        last_epoch: int = -1,
    ) -> None:
        if list(milestones) != sorted(milestones):
            raise ValueError(
                f"Milestones should be a list of increasing integers. Got {list(milestones)}"
            )
        self.milestones = Counter(milestones)
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        """Return the present rates, times gamma at each milestone."""
        self._warn_outside_step()
        return self._present(self.gamma ** self.milestones[self.last_epoch])

    def _get_closed_form_lr(self) -> list[float]:
        """Return ``lr * gamma ** (milestones reached)``."""
        factor = self.gamma ** bisect.bisect_right(
            sorted(self.milestones.elements()), self.last_epoch
        )
        return [base * factor for base in self.base_lrs]

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on from what `state_dict` has returned."""
        super().load_state_dict(state_dict)
        self.milestones = Counter(self.milestones)  # a list, where an earlier version saved it


class ExponentialLR(LRScheduler):
    """The learning rate times gamma every epoch."""

    def __init__(self, optimizer: Optimizer, gamma: float, last_epoch: int = -1) -> None:
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        """Return the present rates times gamma."""
        self._warn_outside_step()
        return self._present(1.0 if self._is_initial else self.gamma)

    def _get_closed_form_lr(self) -> list[float]:
        """Return ``lr * gamma ** epoch``."""
        return [base * self.gamma**self.last_epoch for base in self.base_lrs]


class CosineAnnealingLR(LRScheduler):
    """The learning rate along half a wave of the cosine, from the first to eta_min in T_max epochs.

    References
    ----------
    Loshchilov and Hutter, "SGDR: stochastic gradient descent with warm restarts", 2017.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        T_max: int,  # noqa: N803  # the name that programs say
        eta_min: float = 0,
        last_epoch: int = -1,
    ) -> None:
        self.T_max = T_max
        self.eta_min = eta_min
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        """Return the present rates, moved as far as the wave goes from the epoch before."""
        self._warn_outside_step()
        at, t = self.last_epoch, self.T_max
        now = self._present()
        if self._is_initial:
            return now
        if (at - 1 - t) % (2 * t) == 0:  # the wave was at eta_min, of which no factor leads away
            up = (1 - math.cos(math.pi / t)) / 2
            pairs = zip(now, self.base_lrs, strict=True)
            return [lr + (base - self.eta_min) * up for lr, base in pairs]
        by = (1 + math.cos(math.pi * at / t)) / (1 + math.cos(math.pi * (at - 1) / t))
        return [by * (lr - self.eta_min) + self.eta_min for lr in now]

    def _get_closed_form_lr(self) -> list[float]:
        """Return ``eta_min + (lr - eta_min) * (1 + cos(pi * epoch / T_max)) / 2``."""
        part = (1 + math.cos(math.pi * self.last_epoch / self.T_max)) / 2
        return [self.eta_min + (base - self.eta_min) * part for base in self.base_lrs]


class ReduceLROnPlateau:
    """The learning rate times a factor when a figure has stopped getting better.

    Parameters
    ----------
    optimizer : Optimizer
    mode : str
        'min': lower figures are better; 'max': higher ones.
    factor : float
        Below 1.
    patience : int
        Epochs without a better figure that are borne.
    verbose : bool
        Print each change.
    threshold, threshold_mode : float, str
        A figure is better where it differs from the best by more than the threshold: times the best
        ('rel'), or as it is ('abs').
    cooldown : int
        Epochs after a change in which none counts.
    min_lr : float or list of float
        No learning rate goes below; of a list one a group.
    eps : float
        A smaller change is none.

    Raises
    ------
    ValueError
        If factor is 1 or more, or a mode is unknown.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        mode: str = "min",
        factor: float = 0.1,
        patience: int = 10,
        verbose: bool = False,
        threshold: float = 1e-4,
        threshold_mode: str = "rel",
        cooldown: int = 0,
        min_lr: float | Sequence[float] = 0,
        eps: float = 1e-8,
    ) -> None:
        if factor >= 1.0:
            raise ValueError("Factor should be < 1.0.")
        if mode not in ("min", "max"):
            raise ValueError(f"mode {mode} is unknown!")
        if threshold_mode not in ("rel", "abs"):
            raise ValueError(f"threshold mode {threshold_mode} is unknown!")
        if not isinstance(optimizer, Optimizer):
            raise TypeError(f"{type(optimizer).__name__} is not an Optimizer")
        count = len(optimizer.param_groups)
        self.factor = factor
        self.default_min_lr = None if isinstance(min_lr, Sequence) else min_lr
        self.min_lrs = list(min_lr) if isinstance(min_lr, Sequence) else [min_lr] * count
        if len(self.min_lrs) != count:
            raise ValueError(f"expected {count} min_lrs, got {len(self.min_lrs)}")
        self.optimizer = optimizer
        self.patience = patience
        self.cooldown = cooldown
        self.eps = eps
        self.last_epoch = 0
        self._last_lr = [group["lr"] for group in optimizer.param_groups]
        self.mode_worse = math.inf if mode == "min" else -math.inf
        self.mode = mode
        self.threshold = threshold
        self.threshold_mode = threshold_mode
        if verbose:
            self.verbose = True
        self._reset()

    verbose = False

    def _reset(self) -> None:
        self.best = self.mode_worse
        self.cooldown_counter = 0
        self.num_bad_epochs = 0

    @property
    def in_cooldown(self) -> bool:
        """Whether no epoch counts yet, since a change was made."""
        return self.cooldown_counter > 0

    def step(self, metrics: Any, epoch: int | None = None) -> None:
        """Tell the figure of an epoch."""
        current = float(metrics)
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        if self.is_better(current, self.best):
            self.best = current
            self.num_bad_epochs = 0
        else:
            self.num_bad_epochs += 1
        if self.in_cooldown:
            self.cooldown_counter -= 1
            self.num_bad_epochs = 0
        if self.num_bad_epochs > self.patience:
            self._reduce_lr(self.last_epoch)
            self.cooldown_counter = self.cooldown
            self.num_bad_epochs = 0
        self._last_lr = [group["lr"] for group in self.optimizer.param_groups]

    def get_last_lr(self) -> list[float]:
        """Return the learning rate of each group that the latest step has left."""
        return self._last_lr

    def _reduce_lr(self, epoch: int) -> None:
        count = len(self.optimizer.param_groups)
        if len(self.min_lrs) != count:
            if self.default_min_lr is None:
                raise RuntimeError(
                    f"The number of param groups in the `optimizer` ({count}) differs from when "
                    f"`ReduceLROnPlateau` was initialized ({len(self.min_lrs)}), usually due to a "
                    "new param group being added to the optimizer. Please modify the `min_lrs` "
                    "field to match the length of the `optimizer` param groups."
                )
            self.min_lrs = [self.default_min_lr] * count
        for i, group in enumerate(self.optimizer.param_groups):
            old = float(group["lr"])
            new = max(old * self.factor, self.min_lrs[i])
            if old - new > self.eps:
                group["lr"] = new
                if self.verbose:
                    print(f"Epoch {epoch:5d}: reducing learning rate of group {i} to {new:.4e}.")

    def is_better(self, a: float, best: float) -> bool:
        """Whether a figure is better than the best by more than the threshold."""
        sign = 1 if self.mode == "min" else -1
        if self.threshold_mode == "rel":
            return sign * a < sign * best * (1 - sign * self.threshold)
        return sign * a < sign * best - self.threshold

    def state_dict(self) -> dict[str, Any]:
        """Return what a scheduler of the same settings goes on from."""
        return {key: value for key, value in self.__dict__.items() if key != "optimizer"}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on from what `state_dict` has returned."""
        self.__dict__.update(state_dict)


found_in(__name__)
