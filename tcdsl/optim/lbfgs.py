"""L-BFGS: steps by the curvature that the last gradients tell."""

from __future__ import annotations

from typing import Any

from tcdsl import library
from tcdsl.core import Tensor
from tcdsl.optim.line_search import Point, strong_wolfe
from tcdsl.optim.optimizer import Closure, Optimizer

__all__ = ["LBFGS"]


class LBFGS(Optimizer):
    """The quasi-Newton method of Broyden, Fletcher, Goldfarb and Shanno with limited memory.

    Parameters
    ----------
    params : iterable of Tensor
        One group: all parameters are one vector.
    lr : float
    max_iter : int
        Iterations of a step.
    max_eval : int, optional
        Calls of the closure in a step; by default 5 / 4 of max_iter.
    tolerance_grad, tolerance_change : float
        A step ends where the largest gradient, or the change, is below.
    history_size : int
        Changes that are remembered.
    line_search_fn : "strong_wolfe", optional
        How the length of a step is found; without it is lr.

    Notes
    -----
    `step` needs a closure. It remembers 2 * history_size vectors as long as all parameters.
    Products of vectors and what is made of them are numbers of the parameters' type, as in PyTorch.

    References
    ----------
    Nocedal and Wright, "Numerical optimization", algorithm 7.4.
    """

    def __init__(
        self,
        params: Any,
        lr: float = 1,
        max_iter: int = 20,
        max_eval: int | None = None,
        tolerance_grad: float = 1e-7,
        tolerance_change: float = 1e-9,
        history_size: int = 100,
        line_search_fn: str | None = None,
    ) -> None:
        defaults = {
            "lr": lr,
            "max_iter": max_iter,
            "max_eval": max_iter * 5 // 4 if max_eval is None else max_eval,
            "tolerance_grad": tolerance_grad,
            "tolerance_change": tolerance_change,
            "history_size": history_size,
            "line_search_fn": line_search_fn,
        }
        if line_search_fn not in (None, "strong_wolfe"):
            raise RuntimeError("only 'strong_wolfe' is supported")
        super().__init__(params, defaults)
        if len(self.param_groups) != 1:
            raise ValueError("LBFGS doesn't support per-parameter options (parameter groups)")
        self._params: list[Tensor] = self.param_groups[0]["params"]

    def _gradient(self) -> Tensor:
        """Return all gradients as one vector; none counts as 0."""
        parts = [
            library.zeros_like(p).reshape(-1) if p.grad is None else p.grad.detach().reshape(-1)
            for p in self._params
        ]
        return library.cat(parts, 0)

    def _move(self, size: Any, direction: Tensor) -> None:
        """Add a step along one vector to all parameters."""
        at = 0
        for p in self._params:
            part = direction[at : at + p.numel()].reshape(p.shape)
            p.detach().add_(part, alpha=float(size))
            at += p.numel()

    def step(self, closure: Closure | None = None) -> Any:
        """Iterate until nothing changes, or as often as the settings allow.

        Parameters
        ----------
        closure : callable
            Computes the loss anew with its gradients, and returns it.

        Returns
        -------
        The loss at the beginning.
        """
        if closure is None:
            raise TypeError("LBFGS.step needs a closure that computes the loss and its gradients")
        group = self.param_groups[0]
        state = self.state[self._params[0]]
        state.setdefault("func_evals", 0)
        state.setdefault("n_iter", 0)
        with library.enable_grad():
            first = closure()
        loss, calls = float(first), 1
        state["func_evals"] += 1
        g = self._gradient()
        if float(g.abs().max()) <= group["tolerance_grad"]:
            return first
        d: Any = state.get("d")
        for iteration in range(1, group["max_iter"] + 1):
            state["n_iter"] += 1
            d = self._direction(state, g, d, group["history_size"])
            before, loss_before = g, loss
            lr = float(group["lr"])
            t: Any = min(1.0, 1.0 / g.abs().sum()) * lr if state["n_iter"] == 1 else lr
            slope = g.dot(d)
            self._remember(state, d, t, before, loss_before)
            if slope > -group["tolerance_change"]:
                break
            if group.get("line_search_fn") is not None:
                found, count = self._searched(
                    closure, d, t, Point(0.0, loss, g, slope), group["max_eval"] - calls
                )
                t, loss, g = found.at, found.value, found.gradient
                state["t"] = t
                with library.no_grad():
                    self._move(t, d)
                calls += count
                state["func_evals"] += count
                if iteration == group["max_iter"]:
                    break
            else:
                with library.no_grad():
                    self._move(t, d)
                if iteration == group["max_iter"]:
                    break
                with library.enable_grad():
                    loss = float(closure())
                calls += 1
                state["func_evals"] += 1
                g = self._gradient()
            if calls >= group["max_eval"] or float(g.abs().max()) <= group["tolerance_grad"]:
                break
            change = group["tolerance_change"]
            if float((d * t).abs().max()) <= change or abs(loss - loss_before) < change:
                break
        return first

    def _remember(self, state: dict[str, Any], d: Tensor, t: Any, g: Tensor, loss: float) -> None:
        """Keep what the next iteration goes on from, in the order that PyTorch's states have."""
        curvature = {name: state.pop(name) for name in ("old_dirs", "old_stps", "ro", "H_diag")}
        for name in ("d", "t", "prev_flat_grad", "prev_loss"):
            state.pop(name, None)
        state.update(d=d, t=t, **curvature, prev_flat_grad=g, prev_loss=loss)

    def _searched(
        self, closure: Closure, d: Tensor, at: Any, first: Point, most: int
    ) -> tuple[Point, int]:
        """Return the point that a search along d from here finds; the parameters stay."""
        here = [p.detach().clone() for p in self._params]

        def evaluate(at: Any) -> Point:
            with library.no_grad():
                self._move(at, d)
            with library.enable_grad():
                value = float(closure())
            g = self._gradient()
            with library.no_grad():
                for p, before in zip(self._params, here, strict=True):
                    p.copy_(before)
            return Point(at, value, g, g.dot(d))

        tolerance = self.param_groups[0]["tolerance_change"]
        return strong_wolfe(evaluate, first, at, d.abs().max(), tolerance, most)

    def _direction(self, state: dict[str, Any], g: Tensor, d: Any, history: int) -> Tensor:
        """Return minus the gradient times the inverse curvature that is remembered."""
        steps: list[Tensor] = state.setdefault("old_stps", [])
        changes: list[Tensor] = state.setdefault("old_dirs", [])
        inverses: list[Any] = state.setdefault("ro", [])  # 1 over the curvatures
        if state["n_iter"] == 1 or d is None:
            steps.clear()
            changes.clear()
            inverses.clear()
            state["H_diag"] = 1
            return -g
        y, s = g - state["prev_flat_grad"], d * state["t"]
        curvature = y.dot(s)
        if curvature > 1e-10:
            if len(changes) == history:
                for kept in (changes, steps, inverses):
                    kept.pop(0)
            changes.append(y)
            steps.append(s)
            inverses.append(1.0 / curvature)
            state["H_diag"] = curvature / y.dot(y)
        q = -g
        pairs = list(zip(changes, steps, strict=True))
        inverses += [1.0 / y.dot(s) for y, s in pairs[len(inverses) :]]  # of an older state
        weights = state.setdefault("al", [None] * history)
        for i in reversed(range(len(pairs))):
            y, s = pairs[i]
            weights[i] = s.dot(q) * inverses[i]
            q.add_(y, alpha=-float(weights[i]))
        q = q * state["H_diag"]
        for (y, s), inverse, weight in zip(pairs, inverses, weights, strict=False):
            q.add_(s, alpha=float(weight - y.dot(q) * inverse))
        return q
