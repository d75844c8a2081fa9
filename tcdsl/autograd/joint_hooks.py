"""One hook of several tensors, which sees their gradients together, or the first of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tcdsl.autograd.hooks import PRE, RemovableHandle, add_hook, register_hook
from tcdsl.core import Node, Tensor, arrives

__all__ = ["register_multi_grad_hook"]

_MODES = ("all", "any")


class _Joint(RemovableHandle):
    """What takes several hooks away at once."""

    def __init__(self, handles: Sequence[RemovableHandle]) -> None:
        super().__init__()
        self._handles = tuple(handles)

    def remove(self) -> None:
        """Take all of them away."""
        for handle in self._handles:
            handle.remove()


def register_multi_grad_hook(
    tensors: Sequence[Tensor], fn: Callable[[Any], None], *, mode: str = "all"
) -> RemovableHandle:
    """Let a function see the gradients of several tensors in each backward pass.

    Parameters
    ----------
    tensors : sequence of Tensor
    fn : callable
        Of mode "all" it is called with a list, once all have arrived that will: of a tensor that
        the pass does not come to there is None. Of "any" with the first that arrives.
    mode : {"all", "any"}

    Raises
    ------
    ValueError
        If the mode is none of these.
    RuntimeError
        If a tensor requires no grad; "any" leaves such out.
    """
    if mode not in _MODES:
        raise ValueError(f"Expects mode to be one of {_MODES} but got {mode}")
    if mode == "any":
        tensors = [t for t in tensors if t.requires_grad]
    places: list[Any] = [t if t.grad_fn is None else t.grad_fn for t in tensors]
    called_in: set[int] = set()
    waiting: dict[int, tuple[list[Tensor | None], set[int]]] = {}

    def first(at: int, gradient: Tensor | None) -> None:
        number = arrives(places[at])
        if gradient is not None and number not in called_in:
            called_in.add(number)
            fn(gradient)

    def each(at: int, gradient: Tensor | None) -> None:
        number = arrives(places[at])
        if number not in waiting:
            expected = {i for i, place in enumerate(places) if arrives(place)}
            waiting[number] = [None] * len(places), expected
        found, expected = waiting[number]
        found[at] = gradient
        expected.discard(at)
        if not expected:
            del waiting[number]
            fn(found)

    seen = first if mode == "any" else each
    return _Joint([_hooked(t, seen, at) for at, t in enumerate(tensors)])


def _hooked(tensor: Tensor, seen: Callable[[int, Any], None], at: int) -> RemovableHandle:
    """Add a hook to what a tensor's gradient arrives at, be there one or none for this output."""
    fn: Node | None = tensor.grad_fn
    if fn is None:
        return register_hook(tensor, lambda gradient: seen(at, gradient))
    number = tensor.output_nr
    return add_hook(fn, PRE, lambda gradients: seen(at, gradients[number]))
