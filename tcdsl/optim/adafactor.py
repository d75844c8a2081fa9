"""Adafactor: steps by means of squared gradients of which rows and columns alone are kept."""

from __future__ import annotations

import math
from typing import Any

from tcdsl import library
from tcdsl.optim.hooks import says
from tcdsl.optim.optimizer import Closure, Optimizer, counted, gradients, loss_of, number
from tcdsl.optim.steps import step_of

__all__ = ["Adafactor"]


class Adafactor(Optimizer):
    """``p = p - size u / max(1, RMS(u) / d)`` of ``u = g / sqrt(v)``.

    v is the mean of squared gradients; of matrices the product of its rows' and its columns' means
    over the mean of all. `size` is ``min(lr, 1 / sqrt(t)) max(eps[1], RMS(p))`` in step t.

    Parameters
    ----------
    params : iterable of Tensor, or of mappings
        See `Optimizer`.
    lr : float
        The largest step; also the share by which weights decay, times `weight_decay`.
    beta2_decay : float
        The mean of step t has the gradient by ``t ** beta2_decay``.
    eps : (float or None, float)
        The least root of v, by default the eps of the type; the least RMS of a parameter.
    d : float
        The largest RMS of a step.
    weight_decay : float

    References
    ----------
    Shazeer and Stern, "Adafactor: adaptive learning rates with sublinear memory cost", 2018.
    """

    @says("foreach", "maximize")
    def __init__(
        self,
        params: Any,
        lr: float = 1e-2,
        beta2_decay: float = -0.8,
        eps: tuple[float | None, float] = (None, 1e-3),
        d: float = 1.0,
        weight_decay: float = 0.0,
    ) -> None:
        for is_right, said in (
            (lr >= 0, f"Learning rate should be >= 0 but is: {lr}"),
            (beta2_decay <= 0, f"beta2_decay should be <= 0 but is: {beta2_decay}"),
            (eps[0] is None or eps[0] >= 0, f"epsilon1 should be >= 0 but is: {eps[0]}"),
            (eps[1] >= 0, f"epsilon2 should be >= 0 but is: {eps[1]}"),
            (d >= 1, f"Clipping threshold d should be >= 1 but is: {d}"),
            (weight_decay >= 0, f"weight_decay should be >= 0 but is: {weight_decay}"),
        ):
            if not is_right:
                raise ValueError(said)
        defaults = {
            "lr": lr,
            "beta2_decay": beta2_decay,
            "eps": eps,
            "d": d,
            "weight_decay": weight_decay,
        }
        super().__init__(params, defaults)

    def step(self, closure: Closure | None = None) -> Any:
        """Change the parameters once; see `Optimizer.step`."""
        loss = loss_of(closure)
        with library.no_grad():
            for group in self.param_groups:
                for p, x, g in gradients(group):
                    if p.numel():
                        _step_one(x, g, self.state[p], group)
        return loss


def _step_one(x: Any, g: Any, state: dict[str, Any], group: dict[str, Any]) -> None:
    is_matrix = x.ndim > 1
    if not state:
        state["step"] = number()
        if is_matrix:
            *batch, n, m = x.shape
            state["row_var"] = library.zeros(*batch, n, 1, dtype=x.dtype, device=x.device)
            state["col_var"] = library.zeros(*batch, 1, m, dtype=x.dtype, device=x.device)
        else:
            state["variance"] = library.zeros_like(x)
    t = counted(state)
    lr, (eps, least) = float(group["lr"]), group["eps"]
    eps = library.finfo(x.dtype).eps if eps is None else float(eps)
    settings = (
        min(lr, 1 / math.sqrt(t)),
        1 - lr * float(group["weight_decay"]),
        float(t ** group["beta2_decay"]),
        eps,
        float(least),
        1 / float(group["d"]),
        1 / x.numel(),
    )
    if is_matrix:
        rows, columns = state["row_var"], state["col_var"]
        step_of("adafactor_of_matrices")(x, g, rows, columns, *settings, out=(x, rows, columns))
    else:
        v = state["variance"]
        step_of("adafactor")(x, g, v, *settings, out=(x, v))
