"""Adam and its kin: steps by the mean of gradients over that of their squares."""

from __future__ import annotations

import math
from typing import Any, ClassVar

from tcdsl import library
from tcdsl.optim.hooks import says
from tcdsl.optim.optimizer import (
    Closure,
    Optimizer,
    below_one,
    counted,
    gradients,
    loss_of,
    not_negative,
    number,
)
from tcdsl.optim.steps import step_of

__all__ = ["Adam", "AdamW", "Adamax"]

Pair = tuple[float, float]


class Corrected(Optimizer):
    """Steps by the mean of gradients and that of their sizes, corrected for what they began as."""

    sizes = "exp_avg_sq"  # what a state calls the second
    kept: ClassVar[dict[str, float]] = {}  # further numbers of a state, as they begin

    def _set_up(self, params: Any, **defaults: Any) -> None:
        not_negative("learning rate", defaults["lr"])
        not_negative("epsilon value", defaults["eps"])
        for i, beta in enumerate(defaults["betas"]):
            below_one(f"beta parameter at index {i}", beta)
        not_negative("weight_decay value", defaults["weight_decay"])
        super().__init__(params, defaults)

    def step(self, closure: Closure | None = None) -> Any:
        """Change the parameters once; see `Optimizer.step`."""
        loss = loss_of(closure)
        with library.no_grad():
            for group in self.param_groups:
                lr, weight = float(group["lr"]), float(group["weight_decay"])
                apart = group.get("decoupled_weight_decay")
                decays = (0.0, 1 - lr * weight) if apart else (weight, 1.0)
                for p, x, g in gradients(group):
                    state = self.state[p]
                    if not state:
                        state["step"] = number()
                        state.update((name, number(value)) for name, value in self.kept.items())
                        state["exp_avg"] = library.zeros_like(p)
                        state[self.sizes] = library.zeros_like(p)
                    self._step_one(x, g, state, counted(state), group, decays)
        return loss

    def _step_one(
        self, x: Any, g: Any, state: dict[str, Any], t: int, group: dict[str, Any], decays: Pair
    ) -> None:
        """Step a parameter the t-th time.

        decays: what its value adds to the gradient, and what it keeps.
        """
        raise NotImplementedError


class Adam(Corrected):
    """``m = b1 m + (1 - b1) g``, ``v = b2 v + (1 - b2) g g``, ``p = p - lr m / (sqrt(v) + eps)``.

    m and v begin as 0, and are divided by ``1 - b1 ** t`` and ``1 - b2 ** t`` for it.

    Parameters
    ----------
    params : iterable of Tensor, or of mappings
        See `Optimizer`.
    lr : float
        The learning rate.
    betas : (float, float)
        b1 and b2.
    eps : float
    weight_decay : float
        Times the parameter it is added to the gradient.
    amsgrad : bool
        Take the largest v so far.
    decoupled_weight_decay : bool
        Let weights decay apart from the gradient: `AdamW`.

    Raises
    ------
    ValueError
        If one is out of range.

    References
    ----------
    Kingma and Ba, "Adam: a method for stochastic optimization", 2015; Reddi et al., "On the
    convergence of Adam and beyond", 2018.
    """

    decoupled = False
    last = (
        "maximize", "foreach", "capturable", "differentiable", "fused", "decoupled_weight_decay",
    )  # fmt: skip

    @says("foreach", "maximize", "capturable", "differentiable", "fused")
    def __init__(
        self,
        params: Any,
        lr: float = 1e-3,
        betas: Pair = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        amsgrad: bool = False,
        *,
        decoupled_weight_decay: bool = False,
    ) -> None:
        self._set_up(params, lr=lr, betas=betas, eps=eps, weight_decay=weight_decay,
                     amsgrad=amsgrad,
                     decoupled_weight_decay=decoupled_weight_decay or self.decoupled)  # fmt: skip

    def _step_one(
        self, x: Any, g: Any, state: dict[str, Any], t: int, group: dict[str, Any], decays: Pair
    ) -> None:
        beta1, beta2 = group["betas"]
        size = float(group["lr"]) / (1 - beta1**t)
        scale = 1 / math.sqrt(1 - beta2**t)
        m, v = state["exp_avg"], state["exp_avg_sq"]
        parts = (beta1, 1 - beta1, beta2, 1 - beta2)
        settings = (size, *decays, *parts, float(group["eps"]), scale)
        if group["amsgrad"]:
            if "max_exp_avg_sq" not in state:
                state["max_exp_avg_sq"] = library.zeros_like(v)
            w = state["max_exp_avg_sq"]
            step_of("amsgrad")(x, g, m, v, w, *settings, out=(x, m, v, w))
        else:
            step_of("adam")(x, g, m, v, *settings, out=(x, m, v))


class AdamW(Adam):
    """Adam whose weights decay apart from the gradient: ``p = (1 - lr weight_decay) p - ...``.

    Parameters
    ----------
    params, lr, betas, eps, amsgrad
        As of `Adam`.
    weight_decay : float

    References
    ----------
    Loshchilov and Hutter, "Decoupled weight decay regularization", 2019.
    """

    decoupled = True

    @says("maximize", "foreach", "capturable", "differentiable", "fused")
    def __init__(
        self,
        params: Any,
        lr: float = 1e-3,
        betas: Pair = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        amsgrad: bool = False,
    ) -> None:
        super().__init__(params, lr, betas, eps, weight_decay, amsgrad)


class Adamax(Corrected):
    """``m = b1 m + (1 - b1) g``, ``u = max(b2 u, |g| + eps)``, ``p = p - lr m / u``.

    Parameters
    ----------
    params, lr, betas, eps, weight_decay
        As of `Adam`.

    References
    ----------
    Kingma and Ba, "Adam: a method for stochastic optimization", 2015.
    """

    sizes = "exp_inf"

    @says("foreach", "maximize", "differentiable", "capturable")
    def __init__(
        self,
        params: Any,
        lr: float = 2e-3,
        betas: Pair = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
    ) -> None:
        self._set_up(params, lr=lr, betas=betas, eps=eps, weight_decay=weight_decay)

    def _step_one(
        self, x: Any, g: Any, state: dict[str, Any], t: int, group: dict[str, Any], decays: Pair
    ) -> None:
        beta1, beta2 = group["betas"]
        m, u = state["exp_avg"], state["exp_inf"]
        size = float(group["lr"]) / (1 - beta1**t)
        settings = (size, decays[0], beta1, beta2, float(group["eps"]))
        step_of("adamax")(x, g, m, u, *settings, out=(x, m, u))
