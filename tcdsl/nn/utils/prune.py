"""Parameters of which some elements are 0 from now on: masks, under PyTorch's names."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from tcdsl import library as tc
from tcdsl.calls.process.places import found_in
from tcdsl.core import Tensor
from tcdsl.nn.modules.module import Module
from tcdsl.nn.utils.pruning import (
    BasePruningMethod,
    CustomFromMask,
    Identity,
    L1Unstructured,
    LnStructured,
    PruningContainer,
    RandomStructured,
    RandomUnstructured,
    hooks_of,
)

__all__ = [
    "BasePruningMethod",
    "CustomFromMask",
    "Identity",
    "L1Unstructured",
    "LnStructured",
    "PruningContainer",
    "RandomStructured",
    "RandomUnstructured",
    "custom_from_mask",
    "global_unstructured",
    "identity",
    "is_pruned",
    "l1_unstructured",
    "ln_structured",
    "random_structured",
    "random_unstructured",
    "remove",
]


def _pruned(method: type[BasePruningMethod], module: Any, name: str, **said: Any) -> Any:
    method.apply(module, name, **said)
    return module


def identity(module: Any, name: str) -> Any:
    """Give a parameter a mask of ones; return the module."""
    return _pruned(Identity, module, name)


def random_unstructured(module: Any, name: str, amount: float) -> Any:
    """Prune elements by chance, so many or such a part; return the module."""
    return _pruned(RandomUnstructured, module, name, amount=amount)


def l1_unstructured(module: Any, name: str, amount: float, importance_scores: Any = None) -> Any:
    """Prune the elements nearest to 0, or of the least scores; return the module."""
    return _pruned(L1Unstructured, module, name, amount=amount, importance_scores=importance_scores)


def random_structured(module: Any, name: str, amount: float, dim: int) -> Any:
    """Prune channels of a dimension by chance; return the module."""
    return _pruned(RandomStructured, module, name, amount=amount, dim=dim)


def ln_structured(
    module: Any, name: str, amount: float, n: Any, dim: int, importance_scores: Any = None
) -> Any:
    """Prune the channels of a dimension whose n-norms are least; return the module."""
    said = {"amount": amount, "n": n, "dim": dim, "importance_scores": importance_scores}
    return _pruned(LnStructured, module, name, **said)


def custom_from_mask(module: Any, name: str, mask: Any) -> Any:
    """Prune what a mask says; return the module."""
    return _pruned(CustomFromMask, module, name, mask=mask)


def global_unstructured(
    parameters: Iterable[tuple[Any, str]],
    pruning_method: Callable[..., BasePruningMethod],
    importance_scores: Mapping[tuple[Any, str], Tensor] | None = None,
    **kwargs: Any,
) -> None:
    """Prune elements of several parameters as if they were one.

    Parameters
    ----------
    parameters : iterable of (Module, str)
    pruning_method : class
        Of which PRUNING_TYPE is "unstructured".
    importance_scores : mapping, optional
        By parameter, in place of its elements.
    **kwargs
        Of the method.
    """
    pairs, scores = [*parameters], importance_scores or {}
    method = pruning_method(**kwargs)
    if method.PRUNING_TYPE != "unstructured":
        raise TypeError(
            f'Only "unstructured" PRUNING_TYPE supported for the `pruning_method`. Found method '
            f"{pruning_method} of type {method.PRUNING_TYPE}"
        )
    method._tensor_name = "temp"
    values = [getattr(m, n).detach() for m, n in pairs]
    masks = [getattr(m, f"{n}_mask", None) for m, n in pairs]
    ones = [tc.ones_like(v) if k is None else k for v, k in zip(values, masks, strict=True)]
    chosen = [scores.get(pair, v).detach() for pair, v in zip(pairs, values, strict=True)]
    together = (tc.cat([t.reshape(-1) for t in some]) for some in (chosen, ones))
    mask, at = PruningContainer(method).compute_mask(*together), 0
    for (module, name), value in zip(pairs, values, strict=True):
        custom_from_mask(module, name, mask[at : at + value.numel()].view(value.shape))
        at += value.numel()


def remove(module: Any, name: str) -> Any:
    """Make a pruned parameter one again, with what is pruned as 0; return the module."""
    for number, hook in hooks_of(module, name):
        hook.remove(module)
        del module._forward_pre_hooks[number]
        return module
    raise ValueError(
        f"Parameter '{name}' of module {module} has to be pruned before pruning can be removed"
    )


def is_pruned(module: Module) -> bool:
    """Return whether a parameter of a module, or of one in it, is pruned."""
    return any(
        isinstance(hook, BasePruningMethod)
        for one in module.modules()
        for hook in one._forward_pre_hooks.values()
    )


found_in(__name__)
