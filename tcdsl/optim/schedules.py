"""Schedules that came after PyTorch 0.4: warm-up, warm restarts, several in turn."""

from __future__ import annotations

import bisect
import math
from collections.abc import Sequence
from typing import Any

from tcdsl.optim.optimizer import Optimizer
from tcdsl.optim.schedule import LRScheduler, OfFunctions

__all__ = [
    "ChainedScheduler",
    "ConstantLR",
    "CosineAnnealingWarmRestarts",
    "LinearLR",
    "MultiplicativeLR",
    "PolynomialLR",
    "SequentialLR",
]


class MultiplicativeLR(OfFunctions):
    """The learning rate times a function of the epoch, every epoch.

    Parameters
    ----------
    optimizer : Optimizer
    lr_lambda : callable, or a list of them
        Of a list one a group.
    last_epoch : int
    """

    def get_lr(self) -> list[float]:
        """Return each group's learning rate times its function of the epoch."""
        self._warn_outside_step()
        now = self._present()
        if self._is_initial:
            return now
        pairs = zip(now, self.lr_lambdas, strict=True)
        return [lr * factor(self.last_epoch) for lr, factor in pairs]


class ConstantLR(LRScheduler):
    """The learning rate times a factor, for the first epochs."""

    def __init__(
        self,
        optimizer: Optimizer,
        factor: float = 1.0 / 3,
        total_iters: int = 5,
        last_epoch: int = -1,
    ) -> None:
        if factor > 1.0 or factor < 0:
            raise ValueError("Constant multiplicative factor expected to be between 0 and 1.")
        self.factor = factor
        self.total_iters = total_iters
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        """Return the present rates, times the factor first and over it behind total_iters."""
        self._warn_outside_step()
        if self.last_epoch == 0:
            return self._present(self.factor)
        if self.last_epoch != self.total_iters:
            return self._present()
        return self._present(1 / self.factor) if self.factor else list(self.base_lrs)

    def _get_closed_form_lr(self) -> list[float]:
        """Return the learning rate of each group in the present epoch."""
        factor = self.factor if self.last_epoch < self.total_iters else 1.0
        return [base * factor for base in self.base_lrs]


class LinearLR(LRScheduler):
    """The learning rate times a factor that goes straight from one to another."""

    def __init__(
        self,
        optimizer: Optimizer,
        start_factor: float = 1.0 / 3,
        end_factor: float = 1.0,
        total_iters: int = 5,
        last_epoch: int = -1,
    ) -> None:
        if start_factor > 1.0 or start_factor <= 0:
            raise ValueError(
                "Starting multiplicative factor expected to be greater than 0 and less or equal "
                "to 1."
            )
        if end_factor > 1.0 or end_factor < 0:
            raise ValueError("Ending multiplicative factor expected to be between 0 and 1.")
        self.start_factor = start_factor
        self.end_factor = end_factor
        self.total_iters = total_iters
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        """Return the present rates times what the factor changes by."""
        self._warn_outside_step()
        at = self.last_epoch
        if at == 0:
            return self._present(self.start_factor)
        if self._is_initial or at > self.total_iters:
            return self._present()
        rise = self.end_factor - self.start_factor
        before = self.total_iters * self.start_factor + (at - 1) * rise
        return self._present(1.0 + rise / before)

    def _get_closed_form_lr(self) -> list[float]:
        """Return the learning rate of each group in the present epoch."""
        part = min(self.total_iters, self.last_epoch) / self.total_iters
        factor = self.start_factor + (self.end_factor - self.start_factor) * part
        return [base * factor for base in self.base_lrs]


class PolynomialLR(LRScheduler):
    """The learning rate times a power of what is left of the epochs."""

    def __init__(
        self, optimizer: Optimizer, total_iters: int = 5, power: float = 1.0, last_epoch: int = -1
    ) -> None:
        self.total_iters = total_iters
        self.power = power
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        """Return the present rates times what the power changes by."""
        self._warn_outside_step()
        at, total = self.last_epoch, self.total_iters
        if self._is_initial or at > total:
            return self._present()
        return self._present(((1 - at / total) / (1 - (at - 1) / total)) ** self.power)

    def _get_closed_form_lr(self) -> list[float]:
        """Return ``lr * (1 - epoch / total_iters) ** power``."""
        left = 1 - min(self.total_iters, self.last_epoch) / self.total_iters
        return [base * left**self.power for base in self.base_lrs]


class CosineAnnealingWarmRestarts(LRScheduler):
    """Half a wave of the cosine from the first rate to eta_min, again and again.

    Parameters
    ----------
    optimizer : Optimizer
    T_0 : int
        Epochs of the first wave.
    T_mult : int
        Each next wave is so many times as long.
    eta_min : float
    last_epoch : int

    References
    ----------
    Loshchilov and Hutter, "SGDR: stochastic gradient descent with warm restarts", 2017.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        T_0: int,  # noqa: N803  (the names of PyTorch)
        T_mult: int = 1,  # noqa: N803
        eta_min: float = 0.0,
        last_epoch: int = -1,
    ) -> None:
        if T_0 <= 0 or not isinstance(T_0, int):
            raise ValueError(f"Expected positive integer T_0, but got {T_0}")
        if T_mult < 1 or not isinstance(T_mult, int):
            raise ValueError(f"Expected integer T_mult >= 1, but got {T_mult}")
        self.T_0 = self.T_i = T_0
        self.T_mult = T_mult
        self.eta_min = eta_min
        self.T_cur: float = last_epoch
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        """Return the learning rate of each group at the present place of the wave."""
        self._warn_outside_step()
        part = (1 + math.cos(math.pi * self.T_cur / self.T_i)) / 2
        return [self.eta_min + (base - self.eta_min) * part for base in self.base_lrs]

    def step(self, epoch: float | None = None) -> None:
        """Go on to the next epoch, or to a given one, which may be a fraction."""
        if epoch is not None and epoch < 0:
            raise ValueError(f"Expected non-negative epoch, but got {epoch}")
        at = self.last_epoch + 1 if epoch is None else epoch
        length, begin = self.T_0, 0
        while at - begin >= length:
            begin += length
            length *= self.T_mult
            if self.T_mult == 1:
                begin = int(at // self.T_0) * self.T_0
        self.T_cur, self.T_i = at - begin, length
        self._go_to(math.floor(at))


class _Several:
    """Schedulers of one optimizer."""

    def __init__(self, optimizer: Optimizer, schedulers: Sequence[Any]) -> None:
        self.optimizer = optimizer
        self._schedulers = list(schedulers)
        for number, scheduler in enumerate(self._schedulers):
            if scheduler.optimizer is not optimizer:
                raise ValueError(
                    f"{type(self).__name__} expects all schedulers to belong to the same "
                    f"optimizer, but got scheduler at index {number} in "
                    f"{[type(s).__name__ for s in self._schedulers]} to be of another"
                )
        self._last_lr: list[float] = []

    def _keep(self) -> None:
        self._last_lr = [group["lr"] for group in self.optimizer.param_groups]

    def get_last_lr(self) -> list[float]:
        """Return the learning rate of each group that the latest step has set."""
        return self._last_lr

    def state_dict(self) -> dict[str, Any]:
        """Return what a scheduler of the same kind goes on from."""
        left_out = ("optimizer", "_schedulers")
        state = {key: value for key, value in self.__dict__.items() if key not in left_out}
        return {**state, "_schedulers": [s.state_dict() for s in self._schedulers]}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on from what `state_dict` has returned."""
        state = dict(state_dict)
        for scheduler, of in zip(self._schedulers, state.pop("_schedulers"), strict=True):
            scheduler.load_state_dict(of)
        self.__dict__.update(state)


class SequentialLR(_Several):
    """Schedulers in turn: each from one milestone to the next.

    Parameters
    ----------
    optimizer : Optimizer
    schedulers : list
    milestones : list of int
        The epochs in which the next one begins.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        schedulers: Sequence[Any],
        milestones: Sequence[int],
        last_epoch: int = -1,
    ) -> None:
        if not schedulers:
            raise ValueError(f"{type(self).__name__} expects at least one scheduler")
        if len(milestones) != len(schedulers) - 1:
            raise ValueError(
                "Sequential Schedulers expects number of schedulers provided to be one more than "
                "the number of milestone points, but got number of schedulers "
                f"{len(schedulers)} and the number of milestones to be equal to {len(milestones)}"
            )
        super().__init__(optimizer, schedulers)
        self._milestones = list(milestones)
        self.last_epoch = last_epoch + 1
        for group in optimizer.param_groups:  # making them has moved it
            group["lr"] = group["initial_lr"]
        for scheduler in self._schedulers:
            scheduler.last_epoch -= 1
        self._schedulers[bisect.bisect_right(self._milestones, 0)]._begin()
        self._keep()

    def step(self) -> None:
        """Go on to the next epoch."""
        self.last_epoch += 1
        number = bisect.bisect_right(self._milestones, self.last_epoch)
        if number and self._milestones[number - 1] == self.last_epoch:
            self._schedulers[number].step(0)
        else:
            self._schedulers[number].step()
        self._keep()


class ChainedScheduler(_Several):
    """Schedulers at once: each changes what the others have left.

    Parameters
    ----------
    schedulers : list
    optimizer : Optimizer, optional
        Theirs.
    """

    def __init__(self, schedulers: Sequence[Any], optimizer: Optimizer | None = None) -> None:
        if not schedulers:
            raise ValueError("ChainedScheduler expects at least one scheduler to be chained")
        super().__init__(optimizer or schedulers[0].optimizer, schedulers)
        self._keep()

    def step(self) -> None:
        """Go on to the next epoch."""
        for scheduler in self._schedulers:
            scheduler.step()
        self._keep()
