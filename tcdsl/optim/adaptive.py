"""Steps by the root of a sum or mean of squared gradients: Adagrad, Adadelta, RMSprop."""

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

__all__ = ["Adadelta", "Adagrad", "RMSprop"]


class Adagrad(Optimizer):
    """``s = s + g g``, ``p = p - lr / (1 + (t - 1) lr_decay) g / (sqrt(s) + eps)``.

    Parameters
    ----------
    params : iterable of Tensor, or of mappings
        See `Optimizer`.
    lr, lr_decay : float
    weight_decay : float
        Times the parameter it is added to the gradient.
    initial_accumulator_value : float
        s at first.
    eps : float

    References
    ----------
    Duchi et al., "Adaptive subgradient methods for online learning and stochastic optimization",
    2011.
    """

    @says("foreach", "maximize", "differentiable", "fused")
    def __init__(
        self,
        params: Any,
        lr: float = 1e-2,
        lr_decay: float = 0,
        weight_decay: float = 0,
        initial_accumulator_value: float = 0,
        eps: float = 1e-10,
    ) -> None:
        not_negative("learning rate", lr)
        not_negative("lr_decay value", lr_decay)
        not_negative("weight_decay value", weight_decay)
        not_negative("initial_accumulator_value value", initial_accumulator_value)
        not_negative("epsilon value", eps)
        defaults = {
            "lr": lr,
            "lr_decay": lr_decay,
            "eps": eps,
            "weight_decay": weight_decay,
            "initial_accumulator_value": initial_accumulator_value,
        }
        super().__init__(params, defaults)
        for group in self.param_groups:
            for p in group["params"]:
                begin = library.full_like(
                    p, group["initial_accumulator_value"], requires_grad=False
                )
                self.state[p] = {"step": number(), "sum": begin}

    def step(self, closure: Closure | None = None) -> Any:
        """Change the parameters once; see `Optimizer.step`."""
        loss = loss_of(closure)
        step = step_of("adagrad")
        with library.no_grad():
            for group in self.param_groups:
                decay, eps = float(group["weight_decay"]), float(group["eps"])
                for p, x, g in gradients(group):
                    state = self.state[p]
                    t = counted(state)
                    lr = group["lr"] / (1 + (t - 1) * group["lr_decay"])
                    step(x, g, state["sum"], lr, decay, eps, out=(x, state["sum"]))
        return loss


class Adadelta(Optimizer):
    """``e = sqrt(a + eps) / sqrt(s + eps) g``, ``p = p - lr e``; s, a are means of g g and e e.

    Parameters
    ----------
    params : iterable of Tensor, or of mappings
        See `Optimizer`.
    lr : float
    rho : float
        The share of the past in the means.
    eps : float
    weight_decay : float
        Times the parameter it is added to the gradient.

    References
    ----------
    Zeiler, "ADADELTA: an adaptive learning rate method", 2012.
    """

    last = ("maximize", "capturable", "foreach", "differentiable")

    @says("foreach", "capturable", "maximize", "differentiable")
    def __init__(
        self,
        params: Any,
        lr: float = 1.0,
        rho: float = 0.9,
        eps: float = 1e-6,
        weight_decay: float = 0,
    ) -> None:
        not_negative("learning rate", lr)
        if not 0 <= rho <= 1:
            raise ValueError(f"Invalid rho value: {rho}")
        not_negative("epsilon value", eps)
        not_negative("weight_decay value", weight_decay)
        defaults = {"lr": lr, "rho": rho, "eps": eps, "weight_decay": weight_decay}
        super().__init__(params, defaults)

    def step(self, closure: Closure | None = None) -> Any:
        """Change the parameters once; see `Optimizer.step`."""
        loss = loss_of(closure)
        step = step_of("adadelta")
        with library.no_grad():
            for group in self.param_groups:
                names = ("lr", "weight_decay", "rho", "eps")
                settings = [float(group[name]) for name in names]
                for p, x, g in gradients(group):
                    state = self.state[p]
                    if not state:
                        state["step"] = number()
                        state["square_avg"] = library.zeros_like(p)
                        state["acc_delta"] = library.zeros_like(p)
                    counted(state)
                    s, a = state["square_avg"], state["acc_delta"]
                    step(x, g, s, a, *settings, out=(x, s, a))
        return loss


class RMSprop(Optimizer):
    """``s = alpha s + (1 - alpha) g g``, ``p = p - lr g / (sqrt(s) + eps)``.

    Parameters
    ----------
    params : iterable of Tensor, or of mappings
        See `Optimizer`.
    lr, alpha, eps : float
    weight_decay : float
        Times the parameter it is added to the gradient.
    momentum : float
        ``v = momentum v + g / ...``, ``p = p - lr v``.
    centered : bool
        Take the square of the gradients' mean off s.

    References
    ----------
    Hinton, lecture 6e of "Neural networks for machine learning", 2012; Graves, "Generating
    sequences with recurrent neural networks", 2013.
    """

    @says("capturable", "foreach", "maximize", "differentiable")
    def __init__(
        self,
        params: Any,
        lr: float = 1e-2,
        alpha: float = 0.99,
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum: float = 0,
        centered: bool = False,
    ) -> None:
        not_negative("learning rate", lr)
        not_negative("epsilon value", eps)
        not_negative("momentum value", momentum)
        not_negative("weight_decay value", weight_decay)
        not_negative("alpha value", alpha)
        defaults = {
            "lr": lr,
            "momentum": momentum,
            "alpha": alpha,
            "eps": eps,
            "centered": centered,
            "weight_decay": weight_decay,
        }
        super().__init__(params, defaults)

    def step(self, closure: Closure | None = None) -> Any:
        """Change the parameters once; see `Optimizer.step`."""
        loss = loss_of(closure)
        with library.no_grad():
            for group in self.param_groups:
                names = ("lr", "weight_decay", "alpha", "eps")
                settings = [float(group[name]) for name in names]
                rho, centered = float(group["momentum"]), bool(group["centered"])
                kinds = {(0, 0): "plain", (0, 1): "centered", (1, 0): "momentum", (1, 1): "both"}
                update = step_of(f"{kinds[rho != 0, centered]}_rmsprop")
                settings += [rho] if rho else []
                for p, x, g in gradients(group):
                    state = self.state[p]
                    if not state:
                        state["step"] = number()
                        state["square_avg"] = library.zeros_like(p)
                    counted(state)
                    kept = [state["square_avg"]]
                    for name, is_used in (("momentum_buffer", rho != 0), ("grad_avg", centered)):
                        if is_used and name not in state:
                            state[name] = library.zeros_like(p)
                        kept += [state[name]] if is_used else []
                    update(x, g, *kept, *settings, out=(x, *kept))
        return loss
