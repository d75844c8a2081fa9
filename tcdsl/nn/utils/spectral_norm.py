"""A weight over its largest singular value, computed before each forward."""

from __future__ import annotations

from typing import Any

from tcdsl import library
from tcdsl.autograd.modes import no_grad
from tcdsl.core import Tensor
from tcdsl.nn import functional
from tcdsl.nn.parameter import Parameter

__all__ = ["remove_spectral_norm", "spectral_norm"]


class _SpectralNorm:
    """Computes a weight from `name_orig`, and follows its singular vectors `name_u`, `name_v`."""

    def __init__(self, name: str, steps: int, dim: int, eps: float) -> None:
        self.name, self.steps, self.dim, self.eps = name, steps, dim, eps

    def rows(self, weight: Tensor) -> Tensor:
        if self.dim:
            order = (self.dim, *(d for d in range(weight.ndim) if d != self.dim))
            weight = weight.permute(*order)
        return weight.reshape(weight.shape[0], -1)

    def compute(self, module: Any, steps: int) -> Tensor:
        weight = getattr(module, self.name + "_orig")
        u, v = getattr(module, self.name + "_u"), getattr(module, self.name + "_v")
        rows = self.rows(weight)
        with no_grad():
            for _ in range(steps):
                v.copy_(functional.normalize(library.mv(rows.t(), u), dim=0, eps=self.eps))
                u.copy_(functional.normalize(library.mv(rows, v), dim=0, eps=self.eps))
        u, v = u.clone(), v.clone()  # the next call writes over them
        made: Tensor = weight / library.dot(u, library.mv(rows, v))
        return made

    def __call__(self, module: Any, inputs: object) -> None:
        setattr(module, self.name, self.compute(module, self.steps if module.training else 0))


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
        Of the parameter, which is `name_orig` from now on.
    n_power_iterations : int
        Steps of the power method before each forward in training.
    eps : float
        The least norm of vectors there.
    dim : int, optional
        By default 0, of transposed convolutions 1.

    References
    ----------
    Miyato et al., "Spectral normalization for generative adversarial networks", 2018.
    """
    if n_power_iterations <= 0:
        raise ValueError(
            "Expected n_power_iterations to be positive, but got "
            f"n_power_iterations={n_power_iterations}"
        )
    for hook in module._forward_pre_hooks.values():
        if isinstance(hook, _SpectralNorm) and hook.name == name:
            raise RuntimeError(
                f"Cannot register two spectral_norm hooks on the same parameter {name}"
            )
    if dim is None:
        dim = 1 if type(module).__name__.startswith("ConvTranspose") else 0
    hook = _SpectralNorm(name, n_power_iterations, dim, eps)
    weight = module._parameters[name]
    if weight is None:
        raise ValueError(f"`SpectralNorm` cannot be applied as parameter `{name}` is None")
    rows = hook.rows(weight.detach())
    drawn = [rows.new_empty((n,)).normal_(0, 1) for n in rows.shape]
    del module._parameters[name]
    module.register_parameter(name + "_orig", weight)
    setattr(module, name, weight.data)
    for kind, vector in zip("uv", drawn, strict=True):
        unit = functional.normalize(vector, dim=0, eps=eps)
        module.register_buffer(f"{name}_{kind}", unit)
    module.register_forward_pre_hook(hook)
    return module


def remove_spectral_norm(module: Any, name: str = "weight") -> Any:
    """Make a weight one parameter again, of the value that it had last.

    Raises
    ------
    ValueError
        If it has no `spectral_norm`.
    """
    for number, hook in module._forward_pre_hooks.items():
        if isinstance(hook, _SpectralNorm) and hook.name == name:
            with no_grad():
                weight = hook.compute(module, 0)
            delattr(module, name)
            for kind in "uv":
                del module._buffers[f"{name}_{kind}"]
            del module._parameters[name + "_orig"]
            module.register_parameter(name, Parameter(weight.detach()))
            del module._forward_pre_hooks[number]
            return module
    raise ValueError(f"spectral_norm of '{name}' not found in {module}")
