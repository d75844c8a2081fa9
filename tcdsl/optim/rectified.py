"""Adam with a look ahead, and Adam that waits until it knows how gradients vary: NAdam, RAdam."""

from __future__ import annotations

import math
from typing import Any, ClassVar

from tcdsl.optim.adam import Corrected, Pair
from tcdsl.optim.hooks import says
from tcdsl.optim.optimizer import held, not_negative
from tcdsl.optim.steps import step_of

__all__ = ["NAdam", "RAdam"]


class NAdam(Corrected):
    """Adam whose step has the momentum of the next one in it already.

    Parameters
    ----------
    params : iterable of Tensor, or of mappings
        See `Optimizer`.
    lr, betas, eps, weight_decay
        As of `Adam`.
    momentum_decay : float
        How soon the momentum grows to betas[0].
    decoupled_weight_decay : bool
        Whether weights decay apart from the gradient.

    References
    ----------
    Dozat, "Incorporating Nesterov momentum into Adam", 2016.
    """

    kept: ClassVar[dict[str, float]] = {"mu_product": 1.0}
    last = ("maximize", "foreach", "capturable", "differentiable")

    @says("foreach", "maximize", "capturable", "differentiable")
    def __init__(
        self,
        params: Any,
        lr: float = 2e-3,
        betas: Pair = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum_decay: float = 4e-3,
        decoupled_weight_decay: bool = False,
    ) -> None:
        not_negative("momentum_decay value", momentum_decay)
        self._set_up(params, lr=lr, betas=betas, eps=eps, weight_decay=weight_decay,
                     momentum_decay=momentum_decay,
                     decoupled_weight_decay=decoupled_weight_decay)  # fmt: skip

    def _step_one(
        self, x: Any, g: Any, state: dict[str, Any], t: int, group: dict[str, Any], decays: Pair
    ) -> None:
        (beta1, beta2), lr = group["betas"], float(group["lr"])
        now, then = (beta1 * (1 - 0.5 * 0.96 ** (n * group["momentum_decay"])) for n in (t, t + 1))
        product = float(held(state, "mu_product").mul_(now))
        sizes = (lr * (1 - now) / (1 - product), lr * then / (1 - product * then))
        parts = (beta1, 1 - beta1, beta2, 1 - beta2)
        m, v = state["exp_avg"], state["exp_avg_sq"]
        settings = (*sizes, *decays, *parts, float(group["eps"]), 1 / (1 - beta2**t))
        step_of("nadam")(x, g, m, v, *settings, out=(x, m, v))


class RAdam(Corrected):
    """Adam that steps by the mean of gradients alone until their squares are known well enough.

    Parameters
    ----------
    params : iterable of Tensor, or of mappings
        See `Optimizer`.
    lr, betas, eps, weight_decay
        As of `Adam`.
    decoupled_weight_decay : bool
        Whether weights decay apart from the gradient.

    References
    ----------
    Liu et al., "On the variance of the adaptive learning rate and beyond", 2020.
    """

    last = ("maximize", "foreach", "capturable", "decoupled_weight_decay", "differentiable")

    @says("foreach", "maximize", "capturable", "differentiable")
    def __init__(
        self,
        params: Any,
        lr: float = 1e-3,
        betas: Pair = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        decoupled_weight_decay: bool = False,
    ) -> None:
        self._set_up(params, lr=lr, betas=betas, eps=eps, weight_decay=weight_decay,
                     decoupled_weight_decay=decoupled_weight_decay)  # fmt: skip

    def _step_one(
        self, x: Any, g: Any, state: dict[str, Any], t: int, group: dict[str, Any], decays: Pair
    ) -> None:
        beta1, beta2 = group["betas"]
        size, left = float(group["lr"]) / (1 - beta1**t), 1 - beta2**t
        most = 2 / (1 - beta2) - 1
        length = most - 2 * t * beta2**t / left  # of the mean that the squares amount to
        parts = (beta1, 1 - beta1, beta2, 1 - beta2)
        m, v = state["exp_avg"], state["exp_avg_sq"]
        if length > 5:
            ratio = (length - 4) * (length - 2) * most / ((most - 4) * (most - 2) * length)
            size *= math.sqrt(ratio) * math.sqrt(left)
            settings = (size, *decays, *parts, float(group["eps"]))
            step_of("rectified")(x, g, m, v, *settings, out=(x, m, v))
        else:
            step_of("unrectified")(x, g, m, v, size, *decays, *parts, out=(x, m, v))
