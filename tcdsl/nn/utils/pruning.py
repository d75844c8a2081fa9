"""Ways to choose which elements of a parameter are 0 from now on.

A pruned parameter is kept as `NAME_orig`, its mask as the buffer `NAME_mask`; before each forward
the module's `NAME` is their product.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

from tcdsl import library as tc
from tcdsl.core import Tensor


class BasePruningMethod:
    """A way to choose what is pruned; a class of one's own says `compute_mask`.

    Attributes
    ----------
    PRUNING_TYPE : "unstructured", "structured" or "global"
        Of what a parameter that was pruned before is pruned again: what is left of its elements, of
        its channels along `dim`, or all.
    """

    PRUNING_TYPE: ClassVar[str]
    _tensor_name: str

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Any:
        """Return the mask of a tensor, 0 where it is pruned; default_mask is that of before."""
        raise NotImplementedError

    def __call__(self, module: Any, inputs: object) -> None:
        """Make the parameter anew, before a forward."""
        setattr(module, self._tensor_name, self.apply_mask(module))

    def apply_mask(self, module: Any) -> Tensor:
        """Return the product of the parameter and its mask."""
        orig = getattr(module, f"{self._tensor_name}_orig")
        mask = getattr(module, f"{self._tensor_name}_mask")
        product: Tensor = mask.to(dtype=orig.dtype) * orig
        return product

    @classmethod
    def apply(
        cls, module: Any, name: str, *args: Any, importance_scores: Any = None, **kwargs: Any
    ) -> BasePruningMethod:
        """Prune a parameter; what was pruned of it before stays so.

        Parameters
        ----------
        module : Module
        name : str
            Of the parameter.
        *args, **kwargs
            Of the method.
        importance_scores : Tensor, optional
            Of the parameter's shape, in place of its elements where the mask is computed.

        Returns
        -------
        BasePruningMethod
            The hook of the module, which holds all methods if there are several.
        """
        method: BasePruningMethod = cls(*args, **kwargs)
        method._tensor_name = name
        hooks = hooks_of(module, name)
        for _, before in hooks:
            container = before if isinstance(before, PruningContainer) else PruningContainer(before)
            container.add_pruning_method(method)
            method = container
        orig = getattr(module, name)  # what is left of it
        scores = orig if importance_scores is None else importance_scores
        if scores.shape != orig.shape:
            raise ValueError(
                f"importance_scores should have the same shape as parameter {name} of {module}"
            )
        if hooks:
            default = getattr(module, f"{name}_mask").detach().clone()
        else:
            default = tc.ones_like(orig.detach())
        mask = method.compute_mask(scores.detach(), default)
        for number, _ in hooks:
            del module._forward_pre_hooks[number]
        if not hooks:
            module.register_parameter(f"{name}_orig", orig)
            del module._parameters[name]
        module.register_buffer(f"{name}_mask", mask)
        setattr(module, name, method.apply_mask(module))
        module.register_forward_pre_hook(method)
        return method

    def prune(
        self, t: Tensor, default_mask: Tensor | None = None, importance_scores: Any = None
    ) -> Tensor:
        """Return a tensor with what the method chooses of it as 0."""
        scores = t if importance_scores is None else importance_scores
        if scores.shape != t.shape:
            raise ValueError("importance_scores should have the same shape as tensor t")
        default = tc.ones_like(t) if default_mask is None else default_mask
        pruned: Tensor = t * self.compute_mask(scores, default)
        return pruned

    def remove(self, module: Any) -> None:
        """Make a parameter one again, with what is pruned of it as 0."""
        name = self._tensor_name
        weight = self.apply_mask(module)
        if hasattr(module, name):
            delattr(module, name)
        orig = module._parameters.pop(f"{name}_orig")
        orig.data = weight.detach()
        del module._buffers[f"{name}_mask"]
        setattr(module, name, orig)


def hooks_of(module: Any, name: str) -> list[tuple[int, BasePruningMethod]]:
    """Return the hooks of a module that prune a parameter, and their numbers."""
    return [
        (number, hook)
        for number, hook in module._forward_pre_hooks.items()
        if isinstance(hook, BasePruningMethod) and hook._tensor_name == name
    ]


class PruningContainer(BasePruningMethod):
    """Methods one after the other, each for what those before it left."""

    def __init__(self, *args: BasePruningMethod) -> None:
        self._pruning_methods: tuple[BasePruningMethod, ...] = ()
        if args and not isinstance(args[0], BasePruningMethod):
            args = tuple(args[0])
        for method in args:
            if not self._pruning_methods:
                self._tensor_name = method._tensor_name
            self.add_pruning_method(method)

    def add_pruning_method(self, method: BasePruningMethod) -> None:
        """Add a method of the same parameter."""
        if not isinstance(method, BasePruningMethod):
            raise TypeError(f"{type(method)} is not a BasePruningMethod subclass")
        if self._pruning_methods and method._tensor_name != self._tensor_name:
            raise ValueError(
                "Can only add pruning methods acting on the parameter named "
                f"'{self._tensor_name}' to PruningContainer {self}. Found '{method._tensor_name}'"
            )
        self._pruning_methods += (method,)

    def __len__(self) -> int:
        return len(self._pruning_methods)

    def __iter__(self) -> Iterator[BasePruningMethod]:
        return iter(self._pruning_methods)

    def __getitem__(self, number: int) -> BasePruningMethod:
        return self._pruning_methods[number]

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """Return the mask of before with what the last method chooses of the rest."""
        method, mask = self._pruning_methods[-1], default_mask.to(dtype=t.dtype)
        rest: Any = slice(None)
        if method.PRUNING_TYPE == "unstructured":
            rest = mask == 1
        elif method.PRUNING_TYPE == "structured":
            dim = vars(method)["dim"]
            rest = _along(mask, dim, mask.sum(_others(mask, dim)) != 0)
        elif method.PRUNING_TYPE != "global":
            raise ValueError(f"Unrecognized PRUNING_TYPE {method.PRUNING_TYPE}")
        made = mask.clone()
        made[rest] = method.compute_mask(t[rest], mask[rest]).to(dtype=mask.dtype)
        return made


def _others(t: Tensor, dim: int) -> list[int]:
    return [d for d in range(t.dim()) if d != dim % t.dim()]


def _along(t: Tensor, dim: int, chosen: Any) -> tuple[Any, ...]:
    """Return the subscript of what is chosen of one dimension."""
    return tuple(chosen if d == dim % t.dim() else slice(None) for d in range(t.dim()))


class Identity(BasePruningMethod):
    """Nothing is pruned, but there is a mask."""

    PRUNING_TYPE = "unstructured"

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """Return the mask of before."""
        return default_mask


class CustomFromMask(BasePruningMethod):
    """What a mask says."""

    PRUNING_TYPE = "global"

    def __init__(self, mask: Any) -> None:
        self.mask = mask

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Any:
        """Return what both masks leave."""
        return default_mask * self.mask.to(dtype=default_mask.dtype)


class _ByAmount(BasePruningMethod):
    """So many elements or channels, or such a part of them."""

    def __init__(self, amount: float) -> None:
        if not isinstance(amount, int | float):
            raise TypeError(f"Invalid type for amount: {amount}. Must be int or float.")
        if amount < 0 or (isinstance(amount, float) and amount > 1):
            raise ValueError(
                f"amount={amount} should either be a float in the range [0, 1] or a non-negative "
                "integer"
            )
        self.amount = amount

    def _count(self, size: int) -> int:
        if not isinstance(self.amount, int):
            return round(self.amount * size)
        if self.amount > size:
            raise ValueError(
                f"amount={self.amount} should be smaller than the number of parameters to "
                f"prune={size}"
            )
        return self.amount


class _Chosen(_ByAmount):
    """Elements of the greatest scores."""

    PRUNING_TYPE = "unstructured"

    def _scores(self, t: Tensor) -> Any:
        raise NotImplementedError

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """Return the mask of before, without the elements that are chosen."""
        count = self._count(t.numel())
        mask = default_mask.clone(memory_format=tc.contiguous_format)
        if count:
            mask.view(-1)[self._scores(t).reshape(-1).topk(count).indices] = 0
        return mask


class RandomUnstructured(_Chosen):
    """Elements by chance."""

    def _scores(self, t: Tensor) -> Any:
        return tc.rand_like(t)


class L1Unstructured(_Chosen):
    """The elements that are nearest to 0."""

    def _scores(self, t: Tensor) -> Any:
        return -t.abs()


class _Channels(_ByAmount):
    """Whole channels along a dimension."""

    PRUNING_TYPE = "structured"
    dim: int

    def _kept(self, t: Tensor, count: int) -> Tensor:
        """Return where channels stay, as bools or as numbers."""
        raise NotImplementedError

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Any:
        """Return the mask of before, without the channels that are chosen."""
        if t.dim() <= 1:
            raise ValueError(
                "Structured pruning can only be applied to multidimensional tensors. Found tensor "
                f"of shape {t.shape} with {t.dim()} dims"
            )
        count = self._count(t.shape[self.dim])
        if not count:
            return default_mask
        mask = tc.zeros_like(t)
        mask[_along(t, self.dim, self._kept(t, count))] = 1
        return mask * default_mask.to(dtype=mask.dtype)


class RandomStructured(_Channels):
    """Channels by chance."""

    def __init__(self, amount: float, dim: int = -1) -> None:
        super().__init__(amount)
        self.dim = dim

    def _kept(self, t: Tensor, count: int) -> Tensor:
        chances: Any = tc.rand(t.shape[self.dim])
        kept: Tensor = chances > chances.kthvalue(count).values
        return kept


class LnStructured(_Channels):
    """The channels of the least norm."""

    def __init__(self, amount: float, n: Any, dim: int = -1) -> None:
        super().__init__(amount)
        self.n = n
        self.dim = dim

    def _kept(self, t: Tensor, count: int) -> Tensor:
        norms: Any = tc.norm(t, self.n, _others(t, self.dim))
        kept: Tensor = norms.topk(t.shape[self.dim] - count).indices
        return kept
