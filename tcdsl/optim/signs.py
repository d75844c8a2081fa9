"""Rprop, which looks at the signs of gradients only, and averaged gradient descent."""

from __future__ import annotations

from typing import Any

from tcdsl import library
from tcdsl.optim.hooks import says
from tcdsl.optim.optimizer import (
    Closure,
    Optimizer,
    counted,
    gradients,
    loss_of,
    not_negative,
    number,
)
from tcdsl.optim.steps import step_of

__all__ = ["ASGD", "Rprop"]


class Rprop(Optimizer):
    """Each element has a step of its own, by which it goes against the sign of its gradient.

    Parameters
    ----------
    params : iterable of Tensor, or of mappings
        See `Optimizer`.
    lr : float
        All steps at first.
    etas : (float, float)
        What a step is multiplied by when the sign has changed, and when it has not.
    step_sizes : (float, float)
        The least and the largest step.

    References
    ----------
    Riedmiller and Braun, "A direct adaptive method for faster backpropagation learning", 1993.
    """

    last = ("foreach", "maximize", "differentiable", "capturable")

    @says("capturable", "foreach", "maximize", "differentiable")
    def __init__(
        self,
        params: Any,
        lr: float = 1e-2,
        etas: tuple[float, float] = (0.5, 1.2),
        step_sizes: tuple[float, float] = (1e-6, 50),
    ) -> None:
        not_negative("learning rate", lr)
        if not 0.0 < etas[0] < 1.0 < etas[1]:
            raise ValueError(f"Invalid eta values: {etas[0]}, {etas[1]}")
        super().__init__(params, {"lr": lr, "etas": etas, "step_sizes": step_sizes})

    def step(self, closure: Closure | None = None) -> Any:
        """Change the parameters once; see `Optimizer.step`."""
        loss = loss_of(closure)
        step = step_of("rprop")
        with library.no_grad():
            for group in self.param_groups:
                settings = [float(x) for x in (*group["etas"], *group["step_sizes"])]
                for p, x, g in gradients(group):
                    state = self.state[p]
                    if not state:
                        state["step"] = number()
                        state["prev"] = library.zeros_like(p)
                        state["step_size"] = library.full_like(p, group["lr"], requires_grad=False)
                    counted(state)
                    before, size = state["prev"], state["step_size"]
                    step(x, g, before, size, *settings, out=(x, before, size))
        return loss


class ASGD(Optimizer):
    """Gradient descent that keeps the mean of what the parameters have been.

    Parameters
    ----------
    params : iterable of Tensor, or of mappings
        See `Optimizer`.
    lr : float
    lambd, alpha : float
        The learning rate of step t is ``lr / (1 + lambd lr t) ** alpha``.
    t0 : float
        The step at which the mean begins.
    weight_decay : float
        Times the parameter it is added to the gradient.

    Notes
    -----
    The mean of a parameter p is ``optimizer.state[p]["ax"]``.

    References
    ----------
    Polyak and Juditsky, "Acceleration of stochastic approximation by averaging", 1992.
    """

    @says("foreach", "maximize", "differentiable", "capturable")
    def __init__(
        self,
        params: Any,
        lr: float = 1e-2,
        lambd: float = 1e-4,
        alpha: float = 0.75,
        t0: float = 1e6,
        weight_decay: float = 0,
    ) -> None:
        not_negative("learning rate", lr)
        not_negative("weight_decay value", weight_decay)
        defaults = {
            "lr": lr,
            "lambd": lambd,
            "alpha": alpha,
            "t0": t0,
            "weight_decay": weight_decay,
        }
        super().__init__(params, defaults)

    def step(self, closure: Closure | None = None) -> Any:
        """Change the parameters once; see `Optimizer.step`."""
        loss = loss_of(closure)
        step = step_of("asgd")
        with library.no_grad():
            for group in self.param_groups:
                lr, lambd = float(group["lr"]), float(group["lambd"])
                for p, x, g in gradients(group):
                    state = self.state[p]
                    if not state:
                        state.update(step=number(), eta=number(lr), mu=number(1.0))
                        state["ax"] = library.zeros_like(p)
                    t = counted(state)
                    eta, part, mean = float(state["eta"]), float(state["mu"]), state["ax"]
                    decay = float(group["weight_decay"])
                    step(x, g, mean, eta, decay, 1 - lambd * eta, part, out=(x, mean))
                    state["eta"] = number(lr / (1 + lambd * lr * t) ** group["alpha"])
                    state["mu"] = number(1 / max(1.0, t - group["t0"]))
        return loss
