"""Optimizers and schedules of PyTorch 0.4."""

from __future__ import annotations

import functools
import math
from typing import Any

from tcdsl.nn import utils
from tcdsl.nn.modules.module import Module
from tcdsl.nn.utils import clip
from tcdsl.optim import lr_scheduler
from tcdsl.optim.adam import Adam, Pair
from tcdsl.optim.optimizer import Optimizer

__all__ = ["clipped_norm", "eps_of_adam", "first_epoch", "zero_grad"]


def zero_grad() -> None:
    """Swap what becomes of gradients."""
    for kind in (Optimizer, Module):
        setattr(kind, "zero_grad", functools.partialmethod(kind.zero_grad, False))  # noqa: B010


def first_epoch() -> None:
    """Swap which epoch the first step of a schedule begins."""
    kind = lr_scheduler._LRScheduler
    now = kind.__init__

    @functools.wraps(now)
    def begun(self: Any, optimizer: Optimizer, last_epoch: int = -1) -> None:
        now(self, optimizer, last_epoch)
        self.last_epoch = last_epoch

    kind.__init__ = begun  # type: ignore[method-assign]


def eps_of_adam() -> None:
    """Swap where eps is added: ``sqrt(v) + eps``, both over the root of the correction."""
    now = Adam._step_one

    @functools.wraps(now)
    def step_one(
        self: Adam,
        x: Any,
        g: Any,
        state: dict[str, Any],
        t: int,
        group: dict[str, Any],
        decays: Pair,
    ) -> None:
        eps = group["eps"] / math.sqrt(1 - group["betas"][1] ** t)
        now(self, x, g, state, t, {**group, "eps": eps}, decays)

    Adam._step_one = step_one  # type: ignore[method-assign]


def clipped_norm() -> None:
    """Swap the type of what `clip_grad_norm_` returns."""
    now = clip.clip_grad_norm_

    @functools.wraps(now)
    def clip_grad_norm_(*args: Any, **kwargs: Any) -> float:
        return float(now(*args, **kwargs))

    for module in (utils, clip):
        setattr(module, "clip_grad_norm_", clip_grad_norm_)  # noqa: B010  # of another type
