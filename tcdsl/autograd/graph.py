"""The graph that calls leave: hooks of what nodes keep, of nodes, and what stands at leaves."""

from __future__ import annotations

import functools
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar, NamedTuple

from tcdsl import core
from tcdsl.autograd.drawn import Edge, edges_of
from tcdsl.autograd.hooks import (
    POST,
    PRE,
    RemovableHandle,
    add_hook,
    register_post_accumulate_grad_hook,
)
from tcdsl.autograd.joint_hooks import register_multi_grad_hook
from tcdsl.calls.process.places import found_in
from tcdsl.core import Node, Recipe, Tensor, set_fn, setup
from tcdsl.ops.writing import unrecorded

__all__ = [
    "AccumulateGrad",
    "GradientEdge",
    "Node",
    "disable_saved_tensors_hooks",
    "get_gradient_edge",
    "increment_version",
    "recorded_below",
    "register_multi_grad_hook",
    "save_on_cpu",
    "saved_tensors_hooks",
]

Pack = Callable[[Tensor], Any]
Unpack = Callable[[Any], Tensor]
_SAME = Recipe(None, (), (), (0,))
_below: Any = Node.next_functions  # of the core, as it records them
_recorded = _below.__get__


class _Off(threading.local):
    why: str | None = None


_off = _Off()


class saved_tensors_hooks:  # noqa: N801 - PyTorch's name
    """Let functions have what calls of a block keep for their gradients, and give it back.

    Parameters
    ----------
    pack_hook : callable
        Of each tensor that is kept; what it returns, of any type, is kept in its place.
    unpack_hook : callable
        Of that, when a gradient asks: a Tensor of the elements that pack_hook was given.

    Notes
    -----
    Of nested blocks the innermost one's hooks are called. A tensor that is given to both sides of
    an operation is kept once, so pack_hook may see fewer tensors than in PyTorch.
    """

    def __init__(self, pack_hook: Pack, unpack_hook: Unpack) -> None:
        self.pack_hook, self.unpack_hook = pack_hook, unpack_hook
        self._before: list[Any] = []

    def __enter__(self) -> None:
        if _off.why is not None:
            raise RuntimeError(_off.why)
        self._before.append(core.set_saving((self.pack_hook, self.unpack_hook)))

    def __exit__(self, *exception: object) -> None:
        core.set_saving(self._before.pop())


class save_on_cpu(saved_tensors_hooks):  # noqa: N801 - PyTorch's name
    """Keep what a block's calls keep in the host's memory until a gradient asks for it.

    Parameters
    ----------
    pin_memory : bool, default False
        Taken: the host's memory is not pinned.
    device_type : str
        Taken, for that.
    """

    def __init__(self, pin_memory: bool = False, device_type: str = "cuda") -> None:
        super().__init__(lambda x: (x.device, x.cpu()), lambda kept: kept[1].to(kept[0]))


@contextmanager
def disable_saved_tensors_hooks(error_message: str) -> Iterator[None]:
    """Refuse blocks of `saved_tensors_hooks` within this one: RuntimeError with these words."""
    before, _off.why = _off.why, error_message
    try:
        yield
    finally:
        _off.why = before


class Packed:
    """What hooks made of a tensor that is kept."""

    __slots__ = ("unpack", "value")

    def __init__(self, hooks: tuple[Pack, Unpack], tensor: Tensor) -> None:
        before = 0 if tensor.is_inference() else tensor._version
        with unrecorded():
            self.value = hooks[0](tensor)
        self.unpack = hooks[1]
        if not tensor.is_inference() and tensor._version != before:
            raise RuntimeError(
                "A saved tensor pack hook is modifying its input in place. Tensors provided as "
                "input to pack hook cannot be modified by in-place operations as this can lead to "
                "unexpected side-effects. Please open an issue if you need to perform in-place "
                "operations on the input to a pack hook."
            )

    def tensor(self, leaf: Tensor | None = None) -> Tensor:
        """Return the tensor, as a function of the leaf that it was, if that is given."""
        found = self.unpack(self.value)
        if not isinstance(found, Tensor):
            raise TypeError(
                "Output of saved tensor unpack_hook expected to be a Tensor but got result of type "
                f"{type(found).__name__}"
            )
        if leaf is None:
            return found
        made = found.detach()
        core.record("AliasBackward0", _SAME, None, (leaf,), (made,), 1)
        return made


class PackedArgument:
    """What hooks made of a tensor that a Function keeps, and what that was a function of."""

    __slots__ = ("fn", "leaf", "output", "packed")

    def __init__(self, hooks: tuple[Pack, Unpack], tensor: Tensor) -> None:
        self.packed = Packed(hooks, tensor.detach())
        self.fn, self.output = tensor.grad_fn, tensor.output_nr
        self.leaf = tensor if self.fn is None and tensor.requires_grad else None

    def tensor(self) -> Tensor:
        """Return the tensor, as a function of what it was made of."""
        made = self.packed.tensor(self.leaf)
        if self.fn is not None:
            made = made.detach()
            set_fn(made, self.fn, self.output)
        return made


class AccumulateGrad:
    """What graphs show in the place of a leaf: gradients end here, in its `grad`.

    Attributes
    ----------
    variable : Tensor
    """

    _known: ClassVar[weakref.WeakValueDictionary[int, AccumulateGrad]] = (
        weakref.WeakValueDictionary()
    )
    next_functions: ClassVar[tuple[Any, ...]] = ()

    def __init__(self, variable: Tensor) -> None:
        self.variable = variable
        self.metadata: dict[Any, Any] = {}

    @classmethod
    def of(cls, leaf: Tensor) -> AccumulateGrad:
        """Return a leaf's; the same while somebody holds it."""
        found = cls._known.get(id(leaf))
        if found is None:
            found = cls._known[id(leaf)] = cls(leaf)
        return found

    def name(self) -> str:
        """Return PyTorch's name of it."""
        return "torch::autograd::AccumulateGrad"

    def register_prehook(self, fn: Callable[[tuple[Tensor]], Any]) -> RemovableHandle:
        """Let a function see the gradient, alone in a tuple, before it is added."""
        return self.variable.register_hook(lambda g: _one(fn((g,))))

    def register_hook(self, fn: Callable[[tuple[()], tuple[Any]], Any]) -> RemovableHandle:
        """Let a function be called with ``(), (grad,)`` once a gradient was added."""
        return register_post_accumulate_grad_hook(self.variable, lambda x: fn((), (x.grad,)))

    def __repr__(self) -> str:
        return f"<AccumulateGrad object at {id(self):#x}>"


def _one(changed: Any) -> Any:
    return changed[0] if isinstance(changed, tuple | list) else changed


def register_hook(node: Node, fn: Callable[[Any, Any], Any]) -> RemovableHandle:
    """Let a function see the gradients of a node's inputs and outputs once it has run.

    Parameters
    ----------
    fn : callable (grad_inputs, grad_outputs)
        Of tuples, with None for what is not there; what it returns takes the place of grad_inputs.
    """
    return add_hook(node, POST, fn)


def register_prehook(node: Node, fn: Callable[[Any], Any]) -> RemovableHandle:
    """Let a function see, and replace, the gradients of a node's outputs before it runs."""
    return add_hook(node, PRE, fn)


def _around(hooks: dict[int, tuple[int, Any]], outputs: Any, inputs: Any) -> Any:
    """Return gradients as the hooks of a whole node leave them; None: as they are."""
    code, current = (PRE, outputs) if inputs is None else (POST, inputs)
    result = None
    for nr, hook in [*hooks.values()]:
        if nr != code:
            continue
        changed = hook(current) if inputs is None else hook(current, outputs)
        if changed is None:
            continue
        changed = (changed,) if isinstance(changed, Tensor) else tuple(changed)
        if len(changed) != len(current):
            raise RuntimeError(
                f"hook '{getattr(hook, '__name__', 'unknown')}' has returned an incorrect number "
                f"of values (got {len(changed)}, but expected {len(current)})"
            )
        for value in changed:
            if value is not None and not isinstance(value, Tensor):
                raise TypeError(f"expected Variable, but hook returned '{type(value).__name__}'")
        result = current = changed
    return result


def recorded_below(node: Any) -> tuple[Edge, ...]:
    """Return what is below a node as it was recorded.

    What `next_functions` shows may be drawn for whoever looks at it, and is gone afterwards:
    another node then has its id.
    """
    below: tuple[Edge, ...] = _recorded(node) if isinstance(node, Node) else node.next_functions
    return below


@functools.cache
def _node_type(name: str) -> type[Node]:
    """Return the type of nodes of a name, which scripts that draw a graph read."""
    shown = property(lambda node: edges_of(node.name(), _recorded(node)))
    return type(
        str(name), (Node,), {"__slots__": (), "__module__": "builtins", "next_functions": shown}
    )


class GradientEdge(NamedTuple):
    """An output of a node: where the gradient of a tensor arrives."""

    node: Any
    output_nr: int


def get_gradient_edge(tensor: Tensor) -> GradientEdge:
    """Return where the gradient of a tensor arrives.

    Raises
    ------
    RuntimeError
        If the tensor requires no grad.
    """
    if not tensor.requires_grad:
        raise RuntimeError(
            "It is not possible to get the gradient edge for a Tensor that does not require "
            "gradients"
        )
    if tensor.grad_fn is None:
        return GradientEdge(AccumulateGrad.of(tensor), 0)
    return GradientEdge(tensor.grad_fn, tensor.output_nr)


def increment_version(tensor: Tensor | Sequence[Tensor]) -> None:
    """Let gradients take a tensor, or each of several, as written."""
    for one in (tensor,) if isinstance(tensor, Tensor) else tensor:
        core.written(one)


Node.register_hook, Node.register_prehook = register_hook, register_prehook
setup("around", _around)
setup("pack", Packed)
setup("unpack", Packed.tensor)
setup("packed", Packed)
setup("leaf_node", AccumulateGrad.of)
setup("node_type", _node_type)

found_in(__name__)
