"""Hooks: functions that see, and may replace, a gradient on its way."""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable, MutableMapping
from typing import Any

from tcdsl.core import Node, Tensor, apart, is_grad_enabled, set_fn, setup
from tcdsl.ops.internal import clone, plus
from tcdsl.ops.table import publish

Hook = Callable[[Tensor], Tensor | None] | Callable[[Tensor], None]
ACCUMULATED = -1  # where the core calls hooks with a leaf, in place of the number of an output
PRE, POST = -2, -3  # where hooks are of a whole node: before it runs, and once it has
RETAINED = -10  # less the number of an output: where that is kept, behind all hooks
_numbers = itertools.count()


class RemovableHandle:
    """What `register_hook` gives: `remove` takes the hook away; a ``with`` block does so too."""

    def __init__(self, *tables: MutableMapping[int, Any]) -> None:
        self.id = next(_numbers)
        self._tables = tables

    def remove(self) -> None:
        """Take the hook away, out of all tables that have it."""
        for table in self._tables:
            table.pop(self.id, None)

    def __enter__(self) -> RemovableHandle:
        return self

    def __exit__(self, *exception: object) -> None:
        self.remove()


def add_hook(where: Tensor | Node, code: int, hook: Any) -> RemovableHandle:
    """Add a hook to those of a tensor, or of a node: of an output, or a code in its place."""
    hooks = _hooks_of(where)
    handle = RemovableHandle(hooks)
    hooks[handle.id] = code, hook
    return handle


def _hooks_of(where: Tensor | Node) -> dict[int, tuple[int, Hook]]:
    """Return the hooks of what a tensor's gradient arrives at: a leaf, or the node that made it."""
    fn: Node | None = where if isinstance(where, Node) else where.grad_fn
    if fn is None:
        assert isinstance(where, Tensor)
        if where._backward_hooks is None:
            where._backward_hooks = {}
        found: dict[int, tuple[int, Hook]] = where._backward_hooks
        return found
    if fn._hooks is None:
        fn._hooks = {}
    of_node: dict[int, tuple[int, Hook]] = fn._hooks
    return of_node


def register_hook(tensor: Tensor, hook: Hook) -> RemovableHandle:
    """Let a function see each gradient by this tensor; what it returns takes its place.

    Raises
    ------
    RuntimeError
        If the tensor requires no grad.
    """
    if not tensor.requires_grad:
        raise RuntimeError("cannot register a hook on a tensor that doesn't require gradient")
    return add_hook(tensor, tensor.output_nr if tensor.grad_fn is not None else 0, hook)


def register_post_accumulate_grad_hook(
    tensor: Tensor, hook: Callable[[Tensor], None]
) -> RemovableHandle:
    """Let a function see a leaf each time that a backward pass has added to its `grad`.

    Raises
    ------
    RuntimeError
        If the tensor requires no grad, or is no leaf.
    """
    if not tensor.requires_grad:
        raise RuntimeError("cannot register a hook on a tensor that doesn't require gradient")
    if tensor.grad_fn is not None:
        raise RuntimeError("post accumulate grad hooks cannot be registered on non-leaf tensors")
    return add_hook(tensor, ACCUMULATED, hook)


def told_accumulated(tensor: Tensor) -> None:
    """Call the hooks of a leaf that see what `grad` has become."""
    if tensor._backward_hooks:
        _hooked(tensor._backward_hooks, tensor, ACCUMULATED)


def _hooked(hooks: dict[int, tuple[int, Hook]], gradient: Tensor, output: int) -> Tensor:
    """Return a gradient as the hooks leave it."""
    last = RETAINED - output if output >= 0 else output
    listed = [h for nr, h in hooks.values() if nr == output]
    if last != output:
        listed += [h for nr, h in hooks.values() if nr == last]
    for hook in listed:
        changed = hook(gradient)
        if changed is None or output == ACCUMULATED:
            continue
        if not isinstance(changed, Tensor):
            raise TypeError(f"expected Variable, but hook returned '{type(changed).__name__}'")
        if tuple(changed.shape) != tuple(gradient.shape):
            name = getattr(hook, "__name__", type(hook).__name__)
            raise RuntimeError(f"hook '{name}' has changed the size of value")
        gradient = changed
    return gradient


def retain_grad(tensor: Tensor) -> None:
    """Let a tensor that is no leaf have `grad` too.

    Raises
    ------
    RuntimeError
        If it requires no grad.
    """
    if not tensor.requires_grad:
        raise RuntimeError("can't retain_grad on Tensor that has requires_grad=False")
    if tensor.grad_fn is None or tensor.retains_grad:
        return
    tensor.__dict__["retains_grad"] = True
    add_hook(tensor, RETAINED - tensor.output_nr, _Kept(tensor))


class _Kept:
    """The hook that gives a tensor its `grad`."""

    def __init__(self, tensor: Tensor) -> None:
        self.tensor = weakref.ref(tensor)

    def __call__(self, gradient: Tensor) -> None:
        target = self.tensor()
        if target is None:
            return
        if target.grad is None:
            target.grad = gradient if is_grad_enabled() else clone(gradient)
            return
        target.grad = plus(target.grad, gradient)


def _remade(tensor: Tensor, before: Node) -> None:
    """Let a tensor that an operation has written keep the gradient by what it is now."""
    hooks = before._hooks
    for number, (_, hook) in [*hooks.items()]:
        if isinstance(hook, _Kept) and hook.tensor() is tensor:
            del hooks[number]
            _hooks_of(tensor)[number] = RETAINED - tensor.output_nr, hook


def _retains_grad(tensor: Tensor) -> bool:
    return bool(tensor.__dict__.get("retains_grad", False))


def requires_grad_(tensor: Tensor, requires_grad: bool = True) -> Tensor:
    """Say whether gradients by this leaf are wanted; returns it."""
    if requires_grad and not tensor.is_floating_point():
        raise RuntimeError("only Tensors of floating point dtype can require gradients")
    tensor.requires_grad = requires_grad
    return tensor


def detach_(tensor: Tensor) -> Tensor:
    """Forget what made a tensor: it becomes a leaf that requires no grad.

    Raises
    ------
    RuntimeError
        If it is a view of what somebody else holds.
    """
    if tensor.requires_grad and not apart(tensor):
        raise RuntimeError("Can't detach views in-place. Use detach() instead.")
    set_fn(tensor, None, 0)
    tensor.requires_grad = False
    return tensor


setup("hooked", _hooked)
setup("remade", _remade)
for _method in (
    register_hook,
    register_post_accumulate_grad_hook,
    retain_grad,
    requires_grad_,
    detach_,
):
    publish(_method, (_method.__name__,), ("Tensor",))
Tensor.retains_grad = property(_retains_grad)
