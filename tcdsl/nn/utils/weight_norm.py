"""A weight as a length and a direction."""

from __future__ import annotations

from typing import Any

from tcdsl.core import Tensor
from tcdsl.nn.modules.module import Module
from tcdsl.nn.parameter import Parameter

__all__ = ["remove_weight_norm", "weight_norm"]


def norm_but(v: Tensor, dim: int | None) -> Tensor:
    """Return the norm over all dimensions but one, which keep extent 1."""
    if dim is None:
        return v.norm()
    rows = v.transpose(0, dim).reshape(v.size(dim), -1).norm(2.0, 1)
    return rows.view([-1 if d == dim else 1 for d in range(v.dim())])


class _WeightNorm:
    """Computes a weight from its length and direction before each forward."""

    def __init__(self, name: str, dim: int | None) -> None:
        self.name = name
        self.dim = dim

    def compute(self, module: Any) -> Tensor:
        g, v = getattr(module, self.name + "_g"), getattr(module, self.name + "_v")
        scaled: Tensor = v * (g / norm_but(v, self.dim))
        return scaled

    def __call__(self, module: Any, inputs: object) -> None:
        setattr(module, self.name, self.compute(module))


def weight_norm(module: Any, name: str = "weight", dim: int | None = 0) -> Any:
    """Train a weight as ``g v / |v|``: parameters `name_g` and `name_v` take its place.

    Parameters
    ----------
    module : Module
    name : str
        Of the parameter.
    dim : int, optional
        The dimension along which there are norms; None: one norm.

    Returns
    -------
    module

    References
    ----------
    Salimans and Kingma, "Weight normalization", 2016.
    """
    for hook in module._forward_pre_hooks.values():
        if isinstance(hook, _WeightNorm) and hook.name == name:
            raise RuntimeError(
                f"Cannot register two weight_norm hooks on the same parameter {name}"
            )
    hook = _WeightNorm(name, dim)
    weight = getattr(module, name)
    del module._parameters[name]
    module.register_parameter(name + "_g", Parameter(norm_but(weight, dim).data))
    module.register_parameter(name + "_v", Parameter(weight.data))
    setattr(module, name, hook.compute(module))
    module.register_forward_pre_hook(hook)
    return module


def remove_weight_norm(module: Module, name: str = "weight") -> Module:
    """Make a weight one parameter again.

    Raises
    ------
    ValueError
        If it has no `weight_norm`.
    """
    for number, hook in module._forward_pre_hooks.items():
        if isinstance(hook, _WeightNorm) and hook.name == name:
            weight = hook.compute(module)
            delattr(module, name)
            del module._parameters[name + "_g"]
            del module._parameters[name + "_v"]
            module.register_parameter(name, Parameter(weight.data))
            del module._forward_pre_hooks[number]
            return module
    raise ValueError(f"weight_norm of '{name}' not found in {module}")
