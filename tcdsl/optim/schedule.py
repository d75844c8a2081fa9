"""What schedules of the learning rate have in common."""

from __future__ import annotations

import types
import warnings
from collections.abc import Callable, Sequence
from typing import Any

from tcdsl.optim.optimizer import Optimizer

__all__ = ["LRScheduler", "OfFunctions"]

_TOO_EARLY = (
    "Detected call of `lr_scheduler.step()` before `optimizer.step()`. In PyTorch 1.1.0 and later, "
    "you should call them in the opposite order: `optimizer.step()` before `lr_scheduler.step()`.  "
    "Failure to do this will result in PyTorch skipping the first value of the learning rate "
    "schedule. See more details at "
    "https://pytorch.org/docs/stable/optim.html#how-to-adjust-learning-rate"
)


_NO_STEP = "To get the last learning rate computed by the scheduler, please use `get_last_lr()`."


class LRScheduler:
    """The learning rates of an optimizer's groups from epoch to epoch.

    Most make the next rate of the present one, which other schedules, or the program, may have
    changed; in an epoch that is named (``step(epoch)``) it is made of the first one.

    Parameters
    ----------
    optimizer : Optimizer
    last_epoch : int
        The epoch before the first; -1 begins anew, any other needs `initial_lr` in the groups.
    """

    _get_lr_called_within_step = False  # PyTorch's name: files of its schedules have it

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1) -> None:
        if not isinstance(optimizer, Optimizer):
            raise TypeError(f"{type(optimizer).__name__} is not an Optimizer")
        for i, group in enumerate(optimizer.param_groups):
            if last_epoch == -1:
                group.setdefault("initial_lr", group["lr"])
            elif "initial_lr" not in group:
                raise KeyError(
                    "param 'initial_lr' is not specified in "
                    f"param_groups[{i}] when resuming an optimizer"
                )
        self.optimizer = optimizer
        self.base_lrs = [group["initial_lr"] for group in optimizer.param_groups]
        self.last_epoch = last_epoch
        self._begin()

    def _begin(self) -> None:
        """Set the first rates; while this goes on `_is_initial` holds."""
        self._step_count = 0
        self._is_initial = True
        try:
            self.step()
        finally:
            self._is_initial = False

    def get_lr(self) -> list[float]:
        """Return the learning rate of each group in the present epoch."""
        raise NotImplementedError(f"{type(self).__name__} does not define get_lr()")

    def _get_closed_form_lr(self) -> list[float]:
        """Return the same of the first rates, whatever the present ones are."""
        return self.get_lr()

    def step(self, epoch: int | None = None) -> None:
        """Go on to the next epoch, or to a given one."""
        if self._step_count == 1 and not self.optimizer._opt_called:
            warnings.warn(_TOO_EARLY, UserWarning, stacklevel=2)
        self._step_count += 1
        self._go_to(epoch)

    def _go_to(self, epoch: int | None) -> None:
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        self._get_lr_called_within_step = True
        try:
            rates = self.get_lr() if epoch is None else self._get_closed_form_lr()
        finally:
            self._get_lr_called_within_step = False
        for group, lr in zip(self.optimizer.param_groups, rates, strict=True):
            group["lr"] = lr
        self._last_lr = self._present()

    def _warn_outside_step(self) -> None:
        """Tell who asks `get_lr` for the present rates that it may give those of one step more."""
        if not self._get_lr_called_within_step:
            warnings.warn(_NO_STEP, UserWarning, stacklevel=3)

    def _present(self, factor: float = 1.0) -> list[float]:
        """Return the present rates times a factor."""
        return [group["lr"] * factor for group in self.optimizer.param_groups]

    def get_last_lr(self) -> list[float]:
        """Return the learning rate of each group that the latest step has set."""
        return self._last_lr

    def state_dict(self) -> dict[str, Any]:
        """Return what a scheduler of the same kind goes on from."""
        return {key: value for key, value in self.__dict__.items() if key != "optimizer"}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on from what `state_dict` has returned."""
        self.__dict__.update(state_dict)


class OfFunctions(LRScheduler):
    """Learning rates by functions of the epoch, one a group."""

    def __init__(
        self,
        optimizer: Optimizer,
        lr_lambda: Callable[[int], float] | Sequence[Callable[[int], float]],
        last_epoch: int = -1,
    ) -> None:
        count = len(optimizer.param_groups)
        self.lr_lambdas = (
            list(lr_lambda) if isinstance(lr_lambda, Sequence) else [lr_lambda] * count
        )
        if len(self.lr_lambdas) != count:
            raise ValueError(f"Expected {count} lr_lambdas, but got {len(self.lr_lambdas)}")
        super().__init__(optimizer, last_epoch)

    def state_dict(self) -> dict[str, Any]:
        """Return what a scheduler goes on from.

        Of its functions, which are the program's, those that are objects with a state of their own
        give that; the place of another is held by None.
        """
        kept = [None if _is_plain(f) else f.__dict__.copy() for f in self.lr_lambdas]
        return {**super().state_dict(), "lr_lambdas": kept}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on from what `state_dict` has returned; functions get the state that is in it."""
        rest = dict(state_dict)
        kept = rest.pop("lr_lambdas", None) or [None] * len(self.lr_lambdas)
        super().load_state_dict(rest)
        for function, state in zip(self.lr_lambdas, kept, strict=True):
            if state is not None:
                function.__dict__.update(state)


def _is_plain(function: object) -> bool:
    """Whether a function is one, or has no state that could be kept."""
    return isinstance(function, types.FunctionType) or not hasattr(function, "__dict__")
