"""Gradient descent, with momentum or without."""

from __future__ import annotations

from typing import Any

from tcdsl import library
from tcdsl.optim.hooks import says
from tcdsl.optim.optimizer import Closure, Optimizer, gradients, loss_of, not_negative
from tcdsl.optim.steps import step_of

__all__ = ["SGD"]


class SGD(Optimizer):
    """Gradient descent: ``v = momentum v + (1 - dampening) g``, ``p = p - lr v``.

    Parameters
    ----------
    params : iterable of Tensor, or of mappings
        See `Optimizer`.
    lr : float
        The learning rate.
    momentum, dampening : float
        v is the first gradient at first.
    weight_decay : float
        Times the parameter it is added to the gradient.
    nesterov : bool
        Step by ``g + momentum v``.

    Raises
    ------
    ValueError
        If one is negative, or nesterov goes without momentum or with dampening.

    References
    ----------
    Sutskever et al., "On the importance of initialization and momentum in deep learning", 2013.
    """

    @says("maximize", "foreach", "differentiable", "fused")
    def __init__(
        self,
        params: Any,
        lr: Any = 1e-3,
        momentum: float = 0,
        dampening: float = 0,
        weight_decay: float = 0,
        nesterov: bool = False,
    ) -> None:
        not_negative("learning rate", lr)
        not_negative("momentum value", momentum)
        not_negative("weight_decay value", weight_decay)
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ValueError("Nesterov momentum requires a momentum and zero dampening")
        defaults = {
            "lr": lr,
            "momentum": momentum,
            "dampening": dampening,
            "weight_decay": weight_decay,
            "nesterov": nesterov,
        }
        super().__init__(params, defaults)

    def step(self, closure: Closure | None = None) -> Any:
        """Change the parameters once; see `Optimizer.step`."""
        loss = loss_of(closure)
        with library.no_grad():
            for group in self.param_groups:
                lr, decay = float(group["lr"]), float(group["weight_decay"])
                rho = float(group["momentum"])
                if not rho:
                    step = step_of("sgd")
                    for _, x, g in gradients(group):
                        step(x, g, lr, decay, out=x)
                    continue
                step = step_of("nesterov" if group["nesterov"] else "momentum")
                for p, x, g in gradients(group):
                    state = self.state[p]
                    part = 1.0 - group["dampening"]
                    if state.get("momentum_buffer") is None:
                        state["momentum_buffer"] = library.zeros_like(p)
                        part = 1.0
                    v = state["momentum_buffer"]
                    step(x, g, v, lr, decay, rho, part, out=(x, v))
        return loss
