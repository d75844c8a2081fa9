"""Weights as length and direction, of spectral norm 1, orthogonal: modules for `parametrize`."""

from __future__ import annotations

from typing import Any

from tcdsl import library
from tcdsl.autograd.modes import no_grad
from tcdsl.calls.process.places import found_in
from tcdsl.core import Tensor
from tcdsl.nn import functional
from tcdsl.nn.modules.module import Module
from tcdsl.nn.utils.orthogonal import orthogonal
from tcdsl.nn.utils.parametrize import register_parametrization
from tcdsl.nn.utils.weight_norm import norm_but

__all__ = ["orthogonal", "spectral_norm", "weight_norm"]


class _WeightNorm(Module):
    """``g v / |v|``, of a length for each place of a dimension and a direction."""

    def __init__(self, dim: int | None = 0) -> None:
        super().__init__()
        self.dim = None if dim is None or dim == -1 else dim

    def forward(self, weight_g: Tensor, weight_v: Tensor) -> Tensor:
        """Return the weight."""
        made: Tensor = weight_v * (weight_g / norm_but(weight_v, self.dim))
        return made

    def right_inverse(self, weight: Tensor) -> tuple[Tensor, Tensor]:
        """Return length and direction."""
        return norm_but(weight, self.dim), weight


def weight_norm(module: Any, name: str = "weight", dim: int = 0) -> Any:
    """Train a weight as a length and a direction, `original0` and `original1`.

    Parameters
    ----------
    module : Module
    name : str
    dim : int
        Along which there are lengths; -1: one length.
    """
    return register_parametrization(module, name, _WeightNorm(dim), unsafe=True)


class _SpectralNorm(Module):
    """A weight over its largest singular value, which steps of the power method follow."""

    _u: Tensor
    _v: Tensor

    def __init__(self, weight: Tensor, steps: int, dim: int, eps: float) -> None:
        super().__init__()
        if not -weight.ndim <= dim < weight.ndim:
            raise IndexError(
                f"Dimension out of range (expected to be in range of [-{weight.ndim}, "
                f"{weight.ndim - 1}] but got {dim})"
            )
        if steps <= 0:
            raise ValueError(
                f"Expected n_power_iterations to be positive, but got n_power_iterations={steps}"
            )
        self.dim, self.eps, self.n_power_iterations = dim % weight.ndim, eps, steps
        if weight.ndim > 1:
            with no_grad():
                rows = self._rows(weight.detach())
                for name, n in zip(("_u", "_v"), rows.shape, strict=True):
                    drawn = rows.new_empty((n,)).normal_(0, 1)
                    self.register_buffer(name, functional.normalize(drawn, dim=0, eps=eps))
                self._follow(rows, 15)

    def _rows(self, weight: Tensor) -> Tensor:
        if self.dim:
            order = (self.dim, *(d for d in range(weight.ndim) if d != self.dim))
            weight = weight.permute(*order)
        return weight.flatten(1)

    def _follow(self, rows: Tensor, steps: int) -> None:
        with no_grad():
            for _ in range(steps):
                u = functional.normalize(library.mv(rows, self._v), dim=0, eps=self.eps)
                self._u.copy_(u)
                v = functional.normalize(library.mv(rows.t(), self._u), dim=0, eps=self.eps)
                self._v.copy_(v)

    def forward(self, weight: Tensor) -> Tensor:
        """Return the weight over its norm; training, a step nearer to it."""
        if weight.ndim == 1:
            return functional.normalize(weight, dim=0, eps=self.eps)
        rows = self._rows(weight)
        if self.training:
            self._follow(rows.detach(), self.n_power_iterations)
        u, v = self._u.clone(), self._v.clone()  # the next call writes over them
        made: Tensor = weight / library.dot(u, library.mv(rows, v))
        return made

    def right_inverse(self, value: Tensor) -> Tensor:
        """Return the value."""
        return value


def spectral_norm(
    module: Any,
    name: str = "weight",
    n_power_iterations: int = 1,
    eps: float = 1e-12,
    dim: int | None = None,
) -> Any:
    """Divide a weight by its largest singular value, as a matrix of `dim` by all else.

    Parameters
    ----------
    module : Module
    name : str
    n_power_iterations : int
        Steps of the power method for each use in training.
    eps : float
        The least norm of vectors there.
    dim : int, optional
        By default 0, of transposed convolutions 1.
    """
    weight = getattr(module, name, None)
    if not isinstance(weight, Tensor):
        raise ValueError(f"Module '{module}' has no parameter or buffer with name '{name}'")
    if dim is None:
        dim = 1 if type(module).__name__.startswith("ConvTranspose") else 0
    made = _SpectralNorm(weight, n_power_iterations, dim, eps)
    return register_parametrization(module, name, made)


found_in(__name__)
