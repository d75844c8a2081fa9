"""Backward hooks of modules: gradients of a call's inputs and results, told when they are known."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

from tcdsl.autograd.function import Function
from tcdsl.core import Tensor

__all__ = ["BackwardHooks"]

Hooks = Mapping[int, Callable[..., Any]]


class BackwardHooks:
    """One call of a module with backward hooks: what its gradients are, when they are known."""

    def __init__(self, behind: Hooks, before: Hooks, module: object) -> None:
        self._behind, self._before, self._module = behind, before, module
        self._of_outputs: list[Any] = []
        self._unknown: set[int] = set()  # outputs, where no input will tell
        self._without: tuple[None, ...] = ()  # gradients of inputs that have none

    def enter(self, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return the inputs, tensors as ones that tell when their gradients are known."""
        if not self._behind:
            return inputs
        places = [i for i, value in enumerate(inputs) if isinstance(value, Tensor)]
        if not any(inputs[i].requires_grad for i in places):
            self._without = (None,) * len(places)
            return inputs
        told = _Told.apply(self.call, *(inputs[i] for i in places))
        changed = list(inputs)
        for place, tensor in zip(places, told, strict=True):
            changed[place] = tensor
        return tuple(changed)

    def leave(self, result: Any) -> Any:
        """Return the results, whose gradients are noted, after the hooks that come before."""
        self._watch(result)
        if not self._before:
            return result
        listed = list(result) if isinstance(result, tuple) else [result]
        places = [i for i, value in enumerate(listed) if isinstance(value, Tensor)]
        if not any(listed[i].requires_grad for i in places):
            return result
        told = _Told.apply(self._changed, *(listed[i] for i in places))
        for place, tensor in zip(places, told, strict=True):
            listed[place] = tensor
        return tuple(listed) if isinstance(result, tuple) else listed[0]

    def _changed(self, gradients: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return gradients of results as the hooks that come before leave them."""
        for hook in tuple(self._before.values()):
            changed = hook(self._module, gradients)
            gradients = _replaced("Backward pre hook", "grad_output", changed, gradients)
        return gradients

    def _watch(self, result: Any) -> None:
        """Note the gradients of the results."""
        if not self._behind:
            return
        outputs = _tensors(result)
        self._of_outputs = [None] * len(outputs)
        recorded = [number for number, output in enumerate(outputs) if output.requires_grad]
        self._unknown = {*recorded} if self._without else set()
        for number in recorded:
            outputs[number].register_hook(functools.partial(self._note, number))

    def _note(self, number: int, gradient: Tensor) -> None:
        self._of_outputs[number] = gradient
        if number in self._unknown:
            self._unknown.remove(number)
            if not self._unknown:
                self._unknown = {i for i, g in enumerate(self._of_outputs) if g is not None}
                self.call(self._without)

    def call(self, gradients: tuple[Any, ...]) -> tuple[Any, ...]:
        """Call the hooks; what one returns takes the place of the gradients of the inputs."""
        for hook in tuple(self._behind.values()):
            changed = hook(self._module, gradients, tuple(self._of_outputs))
            gradients = _replaced("Backward hook", "grad_input", changed, gradients)
        return gradients


def _replaced(what: str, name: str, changed: Any, gradients: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return what a hook has put in the place of gradients: as many."""
    if changed is None:
        return gradients
    given = changed if isinstance(changed, tuple) else (changed,)
    if len(given) != len(gradients):
        raise RuntimeError(
            f"{what} returned an invalid number of {name}, got {len(given)}, but expected "
            f"{len(gradients)}"
        )
    return given


class _Told(Function):
    """Tensors as they are; their gradients go by the hooks of a module."""

    @staticmethod
    def forward(ctx: Any, *args: Any) -> Any:
        """Return the tensors."""
        ctx.through = args[0]
        return args[1:]

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        """Return the gradients after the hooks."""
        return None, *ctx.through(grad_outputs)


def _tensors(result: Any) -> list[Tensor]:
    """Return the tensors of a result."""
    if isinstance(result, Tensor):
        return [result]
    values = result.values() if isinstance(result, Mapping) else result
    if isinstance(values, str) or not hasattr(values, "__iter__"):
        return []
    return [tensor for value in values for tensor in _tensors(value)]
