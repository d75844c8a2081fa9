"""Muon: steps of matrices by directions of which no two are alike."""

from __future__ import annotations

import math
from typing import Any

from tcdsl import library
from tcdsl.optim.optimizer import Closure, Optimizer, gradients, loss_of

__all__ = ["Muon"]

Coefficients = tuple[float, float, float]


class Muon(Optimizer):
    """``m = b m + (1 - b) g``, ``p = (1 - lr w) p - lr r O``, O the nearest orthogonal matrix to m.

    O is approached by a polynomial of the fifth degree that is applied some times, in bfloat16. r
    is ``sqrt(max(1, A / B))`` of p of shape (A, B).

    Parameters
    ----------
    params : iterable of Tensor, or of mappings
        Matrices; see `Optimizer`.
    lr : float
        The learning rate.
    weight_decay : float
        w.
    momentum : float
        b.
    nesterov : bool
        Look ahead: ``b m + (1 - b) g`` in place of m.
    ns_coefficients : (float, float, float)
        Of the polynomial ``a x + b x^3 + c x^5`` of the singular values.
    eps : float
        The least norm that m is divided by.
    ns_steps : int
        How many times the polynomial is applied.
    adjust_lr_fn : {"original", "match_rms_adamw"}, optional
        What r is; the other is ``0.2 sqrt(max(A, B))``, for learning rates that suit AdamW.

    Raises
    ------
    ValueError
        If one is out of range, or a parameter is no matrix.

    References
    ----------
    Jordan et al., "Muon: an optimizer for hidden layers in neural networks", 2024; Liu et al.,
    "Muon is scalable for LLM training", 2025.
    """

    def __init__(
        self,
        params: Any,
        lr: float = 1e-3,
        weight_decay: float = 0.1,
        momentum: float = 0.95,
        nesterov: bool = True,
        ns_coefficients: Coefficients = (3.4445, -4.7750, 2.0315),
        eps: float = 1e-7,
        ns_steps: int = 5,
        adjust_lr_fn: str | None = None,
    ) -> None:
        for value, said in (
            (lr, "Learning rate"),
            (momentum, "momentum"),
            (weight_decay, "weight decay"),
        ):
            if not value >= 0:
                raise ValueError(f"{said} should be >= 0 but is: {value}")
        if adjust_lr_fn not in (None, "original", "match_rms_adamw"):
            raise ValueError(f"Adjust learning rate function {adjust_lr_fn} is not supported")
        defaults = {
            "lr": lr,
            "weight_decay": weight_decay,
            "momentum": momentum,
            "nesterov": nesterov,
            "ns_coefficients": ns_coefficients,
            "eps": eps,
            "ns_steps": ns_steps,
            "adjust_lr_fn": adjust_lr_fn,
        }
        super().__init__(params, defaults)
        for group in self.param_groups:
            for p in group["params"]:
                if p.ndim != 2:
                    raise ValueError(
                        "Muon only supports 2D parameters whereas we found a parameter with size: "
                        f"{p.size()}"
                    )

    def step(self, closure: Closure | None = None) -> Any:
        """Change the parameters once; see `Optimizer.step`."""
        loss = loss_of(closure)
        with library.no_grad():
            for group in self.param_groups:
                for p, x, g in gradients(group):
                    state = self.state[p]
                    if "momentum_buffer" not in state:
                        state["momentum_buffer"] = library.zeros_like(g)
                    _step_one(x, g, state["momentum_buffer"], group)
        return loss


def _step_one(x: Any, g: Any, mean: Any, group: dict[str, Any]) -> None:
    lr, momentum = float(group["lr"]), group["momentum"]
    mean.lerp_(g, 1 - momentum)
    wanted = g.lerp(mean, momentum) if group["nesterov"] else mean
    direction = _orthogonal(wanted, group["ns_coefficients"], group["ns_steps"], group["eps"])
    x.mul_(1 - lr * group["weight_decay"])
    x.add_(direction, alpha=-lr * _ratio(group["adjust_lr_fn"], *x.shape))


def _ratio(how: str | None, rows: int, columns: int) -> float:
    """Return how much longer a step of a matrix of this shape is."""
    if how == "match_rms_adamw":
        return 0.2 * math.sqrt(max(rows, columns))
    return math.sqrt(max(1, rows / columns))


def _orthogonal(wanted: Any, coefficients: Coefficients, steps: int, eps: float) -> Any:
    """Bring all singular values of a matrix near to 1, by Newton's and Schulz's iteration."""
    if steps >= 100:
        raise ValueError("Number of steps must be less than 100 for computational efficiency")
    if len(coefficients) != 3:
        raise ValueError("Coefficients must be a tuple of exactly 3 values")
    a, b, c = coefficients
    is_high = wanted.shape[0] > wanted.shape[1]
    x = wanted.bfloat16()
    x = x.t() if is_high else x
    x = x / x.norm().clamp(min=eps)
    for _ in range(steps):
        gram = x @ x.t()
        change = library.addmm(gram, gram, gram, beta=b, alpha=c)
        x = library.addmm(x, change, x, beta=a)
    return x.t() if is_high else x
