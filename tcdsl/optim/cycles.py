"""Learning rates that rise and fall from step to step, and momentum the other way."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from tcdsl.optim.optimizer import Optimizer
from tcdsl.optim.schedule import LRScheduler

__all__ = ["CyclicLR", "OneCycleLR"]


class OneCycleLR(LRScheduler):
    """One rise of the learning rate to a maximum, then its fall to next to nothing.

    `step` is called after every batch. Momentum falls where the rate rises, and rises again.

    Parameters
    ----------
    optimizer : Optimizer
    max_lr : float or list of float
        Of a list one a group.
    total_steps : int, optional
        Or epochs times steps_per_epoch.
    epochs, steps_per_epoch : int, optional
    pct_start : float
        The part of all steps in which the rate rises.
    anneal_strategy : "cos" or "linear"
    cycle_momentum : bool
    base_momentum, max_momentum : float or list of float
    div_factor, final_div_factor : float
        The first rate is ``max_lr / div_factor``, the last the first one over final_div_factor.
    three_phase : bool
        Fall as steeply as the rise was, then to the last rate.
    last_epoch : int

    References
    ----------
    Smith and Topin, "Super-convergence: very fast training of neural networks using large learning
    rates", 2018.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        max_lr: float | Sequence[float],
        total_steps: int | None = None,
        epochs: int | None = None,
        steps_per_epoch: int | None = None,
        pct_start: float = 0.3,
        anneal_strategy: str = "cos",
        cycle_momentum: bool = True,
        base_momentum: float | Sequence[float] = 0.85,
        max_momentum: float | Sequence[float] = 0.95,
        div_factor: float = 25.0,
        final_div_factor: float = 1e4,
        three_phase: bool = False,
        last_epoch: int = -1,
    ) -> None:
        if not isinstance(optimizer, Optimizer):
            raise TypeError(f"{type(optimizer).__name__} is not an Optimizer")
        if total_steps is None:
            if epochs is None or steps_per_epoch is None:
                raise ValueError(
                    "You must define either total_steps OR (epochs AND steps_per_epoch)"
                )
            total_steps = epochs * steps_per_epoch
        if total_steps <= 0:
            raise ValueError(f"Expected positive integer total_steps, but got {total_steps}")
        if not 0 <= pct_start <= 1:
            raise ValueError(f"Expected float between 0 and 1 pct_start, but got {pct_start}")
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(
                f"anneal_strategy must be one of 'cos' or 'linear', instead got {anneal_strategy}"
            )
        self.total_steps = total_steps
        self._anneal_func_type = anneal_strategy
        rise = float(pct_start * total_steps) - 1
        self._phases: list[tuple[float, str, str, str, str]] = [
            (rise, "initial_lr", "max_lr", "max_momentum", "base_momentum")
        ]
        if three_phase:
            self._phases += [
                (2 * rise, "max_lr", "initial_lr", "base_momentum", "max_momentum"),
                (total_steps - 1, "initial_lr", "min_lr", "max_momentum", "max_momentum"),
            ]
        else:
            self._phases.append(
                (total_steps - 1, "max_lr", "min_lr", "base_momentum", "max_momentum")
            )
        groups = optimizer.param_groups
        for group, top in zip(groups, _each("max_lr", groups, max_lr), strict=True):
            if last_epoch == -1:
                group["initial_lr"] = top / div_factor
                group["max_lr"] = top
                group["min_lr"] = group["initial_lr"] / final_div_factor
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            if "momentum" not in optimizer.defaults and "betas" not in optimizer.defaults:
                raise ValueError(
                    "optimizer must support momentum or beta1 with `cycle_momentum` option enabled"
                )
            self.use_beta1 = "betas" in optimizer.defaults
            tops = _each("max_momentum", groups, max_momentum)
            for group, least, top in zip(
                groups, _each("base_momentum", groups, base_momentum), tops, strict=True
            ):
                if last_epoch == -1:
                    _set_momentum(group, top)
                    group["max_momentum"], group["base_momentum"] = top, least
        super().__init__(optimizer, last_epoch)

    def _between(self, start: float, end: float, part: float) -> float:
        if self._anneal_func_type == "cos":
            return end + (start - end) / 2.0 * (math.cos(math.pi * part) + 1)
        return (end - start) * part + start

    def get_lr(self) -> list[float]:
        """Return the learning rate of each group at the present step; momentum is set."""
        self._warn_outside_step()
        at = self.last_epoch
        if at > self.total_steps:
            raise ValueError(
                f"Tried to step {at} times. The specified number of total steps is "
                f"{self.total_steps}"
            )
        begin = 0.0
        end, *names = self._phases[0]
        for after in self._phases[1:]:
            if at <= end:
                break
            begin = end
            end, *names = after
        part = (at - begin) / (end - begin)
        rates = []
        for group in self.optimizer.param_groups:
            rates.append(self._between(group[names[0]], group[names[1]], part))
            if self.cycle_momentum:
                _set_momentum(group, self._between(group[names[2]], group[names[3]], part))
        return rates


def _each(name: str, groups: Sequence[Any], value: float | Sequence[float]) -> list[float]:
    """Return a value for each group."""
    if not isinstance(value, Sequence):
        return [value] * len(groups)
    if len(value) != len(groups):
        raise ValueError(f"Expected {len(groups)} values for {name}, but got {len(value)}")
    return list(value)


def _set_momentum(group: dict[str, Any], momentum: float) -> None:
    if "betas" in group:
        group["betas"] = (momentum, *group["betas"][1:])
    else:
        group["momentum"] = momentum


class CyclicLR(LRScheduler):
    """The learning rate up and down between two, again and again.

    Parameters
    ----------
    optimizer : Optimizer
    base_lr, max_lr : float or list of float
    step_size_up, step_size_down : int
        Steps up, and down; as many by default.
    mode : "triangular", "triangular2" or "exp_range"
        Every cycle as high; half as high as the one before; times ``gamma ** step``.
    gamma : float
    scale_fn : callable, optional
        In place of mode: how high, of the cycle or of the step as scale_mode says.
    scale_mode : "cycle" or "iterations"
    cycle_momentum : bool
        Momentum goes the other way.
    base_momentum, max_momentum : float or list of float
    last_epoch : int

    References
    ----------
    Smith, "Cyclical learning rates for training neural networks", 2017.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        base_lr: float | Sequence[float],
        max_lr: float | Sequence[float],
        step_size_up: int = 2000,
        step_size_down: int | None = None,
        mode: str = "triangular",
        gamma: float = 1.0,
        scale_fn: Callable[[float], float] | None = None,
        scale_mode: str = "cycle",
        cycle_momentum: bool = True,
        base_momentum: float | Sequence[float] = 0.8,
        max_momentum: float | Sequence[float] = 0.9,
        last_epoch: int = -1,
    ) -> None:
        if mode not in ("triangular", "triangular2", "exp_range") and scale_fn is None:
            raise ValueError("mode is invalid and scale_fn is None")
        groups = optimizer.param_groups
        if last_epoch == -1:
            for group, lr in zip(groups, _each("base_lr", groups, base_lr), strict=True):
                group["lr"] = lr
        self.max_lrs = _each("max_lr", groups, max_lr)
        up = float(step_size_up)
        self.total_size = up + float(up if step_size_down is None else step_size_down)
        self.step_ratio = up / self.total_size
        self.mode = mode
        self.gamma = gamma
        self.scale_fn = scale_fn
        self.scale_mode = (
            scale_mode if scale_fn else ("iterations" if mode == "exp_range" else "cycle")
        )
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            if "momentum" not in optimizer.defaults and "betas" not in optimizer.defaults:
                raise ValueError(
                    "optimizer must support momentum or beta1 with `cycle_momentum` option enabled"
                )
            self.use_beta1 = "betas" in optimizer.defaults
            self.base_momentums = _each("base_momentum", groups, base_momentum)
            self.max_momentums = _each("max_momentum", groups, max_momentum)
        super().__init__(optimizer, last_epoch)

    def _scale(self, x: float) -> float:
        if self.scale_fn is not None:
            return self.scale_fn(x)
        if self.mode == "triangular2":
            return 1 / (2.0 ** (x - 1))
        return 1.0 if self.mode == "triangular" else self.gamma**x

    def get_lr(self) -> list[float]:
        """Return the learning rate of each group at the present step; momentum is set."""
        self._warn_outside_step()
        cycle = math.floor(1 + self.last_epoch / self.total_size)
        x = 1.0 + self.last_epoch / self.total_size - cycle
        up = self.step_ratio
        part = x / up if x <= up else (x - 1) / (up - 1)
        scale = self._scale(cycle if self.scale_mode == "cycle" else self.last_epoch)
        if self.cycle_momentum:
            ends = zip(
                self.optimizer.param_groups, self.base_momentums, self.max_momentums, strict=True
            )
            for group, low, high in ends:
                _set_momentum(group, high - (high - low) * part * scale)
        pairs = zip(self.base_lrs, self.max_lrs, strict=True)
        return [low + (high - low) * part * scale for low, high in pairs]

    def state_dict(self) -> dict[str, Any]:
        """Return what a scheduler goes on from, without a function, which is the program's."""
        return {key: value for key, value in super().state_dict().items() if key != "scale_fn"}
