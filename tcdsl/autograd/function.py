"""Function: an operation whose way back somebody writes in Python."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, partial
from typing import Any, NoReturn

from tcdsl.autograd.modes import no_grad
from tcdsl.autograd.passes import keeps
from tcdsl.core import GRAD, Recipe, Tensor, is_grad_enabled, record, set_fn
from tcdsl.ops.views import alias


class Context:
    """What `forward` leaves for `backward`: tensors by `save_for_backward`, all else by attribute.

    Attributes
    ----------
    needs_input_grad : tuple of bool
        Per argument, whether its gradient is needed.
    """

    def __init__(self, needs: tuple[bool, ...]) -> None:
        self.needs_input_grad = needs
        self._saved: tuple[tuple[Tensor | None, int], ...] = ()
        self._freed = False
        self._to_save: tuple[Tensor | None, ...] = ()
        self._dirty: tuple[Tensor, ...] = ()
        self._constant: tuple[Tensor, ...] = ()

    def save_for_backward(self, *tensors: Tensor | None) -> None:
        """Keep tensors, arguments or outputs, for `saved_tensors`."""
        self._to_save = tensors

    def mark_dirty(self, *tensors: Tensor) -> None:
        """Say which arguments were written in place."""
        self._dirty = tensors

    def mark_non_differentiable(self, *tensors: Tensor) -> None:
        """Say which outputs have no gradient."""
        self._constant = tensors

    def set_materialize_grads(self, value: bool) -> None:
        """Do nothing: gradients that are not there come as zeros."""

    @property
    def saved_tensors(self) -> tuple[Tensor | None, ...]:
        """The tensors of `save_for_backward`.

        Raises
        ------
        RuntimeError
            If one was written since, or a backward pass has freed them.
        """
        if self._freed:
            raise RuntimeError(
                "Trying to backward through the graph a second time (or directly access saved "
                "tensors after they have already been freed). Saved intermediate values of the "
                "graph are freed when you call .backward() or autograd.grad(). Specify "
                "retain_graph=True if you need to backward through the graph a second time or if "
                "you need to access saved tensors after calling backward."
            )
        for tensor, version in self._saved:
            if tensor is not None and tensor._version != version:
                raise RuntimeError(
                    "one of the variables needed for gradient computation has been modified by an "
                    f"inplace operation: a tensor of shape {tuple(tensor.shape)} is at version "
                    f"{tensor._version}; expected version {version} instead."
                )
        return tuple(tensor for tensor, _ in self._saved)

    saved_variables = saved_tensors


class Function:
    """Base of operations with a gradient of their own: static `forward` and `backward`.

    ``forward(ctx, *args)`` gives a Tensor or a tuple; ``backward(ctx, *grads)`` takes a gradient
    for each output, gives one or None for each argument. ``apply(*args)`` is the call.

    Examples
    --------
    >>> class Twice(Function):
    ...     @staticmethod
    ...     def forward(ctx, x):
    ...         return x.clone()
    ...
    ...     @staticmethod
    ...     def backward(ctx, d_y):
    ...         return d_y
    """

    @staticmethod
    def forward(ctx: Any, *args: Any, **kwargs: Any) -> Any:
        """Compute the outputs."""
        raise NotImplementedError("You must implement the forward function for custom Function.")

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        """Compute the gradients of the arguments."""
        raise NotImplementedError("You must implement the backward function for custom Function.")

    @classmethod
    def apply(cls, *args: Any) -> Any:
        """Make a call."""
        needs = tuple(isinstance(a, Tensor) and a.requires_grad for a in args)
        recorded = is_grad_enabled() and any(needs)
        ctx = Context(needs)
        with no_grad():
            result = cls.forward(ctx, *args)
        outputs = list(result) if isinstance(result, tuple | list) else [result]
        if recorded:
            _record(cls, ctx, args, outputs)
        ctx._saved = tuple((t, 0 if t is None else t._version) for t in ctx._to_save)
        ctx._to_save = ctx._dirty = ctx._constant = ()  # what is freed after a pass is held once
        return tuple(outputs) if isinstance(result, tuple | list) else outputs[0]

    def __call__(self, *args: Any) -> NoReturn:
        """Refuse the way of PyTorch before 0.2."""
        raise RuntimeError(
            "Legacy autograd function with non-static forward method is deprecated. "
            "Please use new-style autograd function with static forward method."
        )


def _record(cls: type[Function], ctx: Context, args: tuple[Any, ...], outputs: list[Any]) -> None:
    """Record a call; outputs that are arguments, not written, become views of them."""
    tensors = [o for o in outputs if isinstance(o, Tensor)]
    dirty = {id(t) for t in ctx._dirty}
    given = {id(a) for a in args}
    for i, output in enumerate(outputs):
        if isinstance(output, Tensor) and id(output) in given and id(output) not in dirty:
            with no_grad():
                outputs[i] = alias(output)
    tensors = [o for o in outputs if isinstance(o, Tensor)]
    bits = sum(1 << i for i, yes in enumerate(ctx.needs_input_grad) if yes)
    vjp = partial(_pulled, cls, ctx, len(args))
    name = f"{cls.__name__}Backward"
    record(name, _recipe(len(args), len(tensors)), vjp, args, tuple(tensors), bits)
    for t in ctx._constant:
        set_fn(t, None, 0)


@cache
def _recipe(n_in: int, n_out: int) -> Recipe:
    return Recipe(_no_vjp, tuple(GRAD + r for r in range(n_out)), tuple(range(n_in)))


def _no_vjp(*gradients: Tensor) -> Tensor:
    raise AssertionError("a function brings its own")


def _pulled(
    cls: type[Function], ctx: Context, count: int, *gradients: Tensor
) -> tuple[Tensor | None, ...]:
    found = cls.backward(ctx, *gradients)
    if ctx._saved and not keeps():
        ctx._freed, ctx._saved = True, ()
    listed: Sequence[Any] = tuple(found) if isinstance(found, tuple | list) else (found,)
    if len(listed) > count and all(g is None for g in listed[count:]):
        listed = listed[:count]
    if len(listed) != count:
        raise RuntimeError(
            f"function {cls.__name__}Backward returned an incorrect number of gradients (expected "
            f"{count}, got {len(listed)})"
        )
    return tuple(listed)
