"""Function: an operation whose way back somebody writes in Python."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, partial, wraps
from typing import Any, NoReturn

from tcdsl.autograd.anomaly import written_since
from tcdsl.autograd.graph import PackedArgument
from tcdsl.autograd.modes import no_grad
from tcdsl.autograd.passes import keeps
from tcdsl.core import (
    GRAD,
    Recipe,
    Size,
    Tensor,
    check_write,
    is_grad_enabled,
    is_inference_mode,
    record,
    saving,
    set_fn,
)
from tcdsl.ops.view_writes import wrote_view
from tcdsl.ops.views import alias, no_vjp, sum_to


class Context:
    """What `forward` leaves for `backward`: tensors by `save_for_backward`, all else by attribute.

    Attributes
    ----------
    needs_input_grad : tuple of bool
        Per argument, whether its gradient is needed.
    """

    def __init__(self, needs: tuple[bool, ...]) -> None:
        self.needs_input_grad = needs
        self._saved: tuple[tuple[Tensor | PackedArgument | None, int], ...] = ()
        self._freed = False
        self._to_save: tuple[Tensor | None, ...] = ()
        self._dirty: tuple[Tensor, ...] = ()
        self._constant: tuple[Tensor, ...] = ()
        self._materializes = True

    def save_for_backward(self, *tensors: Tensor | None) -> None:
        """Keep tensors, arguments or outputs, for `saved_tensors`."""
        self._to_save = tensors

    def save_for_forward(self, *tensors: Tensor | None) -> None:
        """Keep tensors for `jvp` as for the way back, where none are kept for that."""
        self._to_save = self._to_save or tensors

    def mark_dirty(self, *tensors: Tensor) -> None:
        """Say which arguments were written in place."""
        self._dirty = tensors

    def mark_non_differentiable(self, *tensors: Tensor) -> None:
        """Say which outputs have no gradient."""
        self._constant = tensors

    def set_materialize_grads(self, value: bool) -> None:
        """Say whether gradients that are not there come to `backward` as zeros, or as None."""
        self._materializes = bool(value)

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
            if isinstance(tensor, Tensor) and version >= 0 and tensor._version != version:
                fn = tensor.grad_fn
                name = None if fn is None else fn.name()
                raise RuntimeError(written_since(tensor, name, tensor.output_nr, version))
        return tuple(
            kept.tensor() if isinstance(kept, PackedArgument) else kept for kept, _ in self._saved
        )

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
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        """Keep what `backward` needs; where a class has this, its `forward` takes no ctx."""

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        """Compute the gradients of the arguments."""
        raise NotImplementedError(
            "You must implement the backward function for custom autograd.Function."
        )

    @classmethod
    def apply(cls, *args: Any) -> Any:
        """Make a call."""
        needs = tuple(isinstance(a, Tensor) and a.requires_grad for a in args)
        recorded = is_grad_enabled() and any(needs) and not is_inference_mode()
        ctx = Context(needs)
        with no_grad():
            if cls.setup_context is Function.setup_context:
                result = cls.forward(ctx, *args)
            else:
                result = cls.forward(*args)
                cls.setup_context(ctx, args, result)
        outputs = list(result) if isinstance(result, tuple | list) else [result]
        if recorded:
            _record(cls, ctx, args, outputs)
        ctx._saved = tuple(_kept(t, recorded) for t in ctx._to_save)
        ctx._to_save = ctx._dirty = ctx._constant = ()  # what is freed after a pass is held once
        return tuple(outputs) if isinstance(result, tuple | list) else outputs[0]

    def __call__(self, *args: Any) -> NoReturn:
        """Refuse the way of PyTorch before 0.2."""
        raise RuntimeError(
            "Legacy autograd function with non-static forward method is deprecated. "
            "Please use new-style autograd function with static forward method. "
            "(Example: https://pytorch.org/docs/stable/autograd.html#torch.autograd.Function)"
        )


def _record(cls: type[Function], ctx: Context, args: tuple[Any, ...], outputs: list[Any]) -> None:
    """Record a call; outputs that are arguments, not written, become views of them."""
    for t in ctx._dirty:
        if t.is_leaf and t.requires_grad:
            raise RuntimeError(
                "a leaf Variable that requires grad has been used in an in-place operation."
            )
        check_write(t, 1)
    tensors = [o for o in outputs if isinstance(o, Tensor)]
    dirty = {id(t) for t in ctx._dirty}
    given = {id(a) for a in args}
    for i, output in enumerate(outputs):
        if isinstance(output, Tensor) and id(output) in given and id(output) not in dirty:
            with no_grad():
                outputs[i] = alias(output)
    written = {id(t): t.detach() for t in ctx._dirty if t._base is not None}
    tensors = [written.get(id(o), o) for o in outputs if isinstance(o, Tensor)]
    bits = sum(1 << i for i, yes in enumerate(ctx.needs_input_grad) if yes)
    shapes = tuple(a.shape if isinstance(a, Tensor) else None for a in args)
    vjp = partial(_pulled, cls, ctx, shapes)
    name = f"{cls.__name__}Backward"
    recipe = _recipe(len(args), len(tensors), ctx._materializes)
    record(name, recipe, vjp, args, tuple(tensors), bits)
    for t in ctx._dirty:
        if id(t) in written:  # a view: what it is a view of is a function of the call too
            wrote_view(t, written[id(t)])
    for t in ctx._constant:
        set_fn(t, None, 0)


def _kept(tensor: Tensor | None, recorded: bool) -> tuple[Tensor | PackedArgument | None, int]:
    """Return what a call keeps of a tensor, and at which version, -1 where that does not count."""
    if tensor is None or not recorded:
        return tensor, -1
    if tensor.is_inference():
        raise RuntimeError(
            "Inference tensors cannot be saved for backward. Please do not use Tensors created in "
            "inference mode in computation tracked by autograd. To work around this, you can make "
            "a clone to get a normal tensor and use it in autograd, or use `torch.no_grad()` "
            "instead of `torch.inference_mode()`."
        )
    hooks = saving()
    return (tensor, tensor._version) if hooks is None else (PackedArgument(hooks, tensor), -1)


@cache
def _recipe(n_in: int, n_out: int, materializes: bool) -> Recipe:
    grads = tuple(GRAD + r for r in range(n_out))
    return Recipe(no_vjp, grads, tuple(range(n_in)), takes_none=not materializes)


def _pulled(
    cls: type[Function], ctx: Context, shapes: tuple[Any, ...], *gradients: Tensor | None
) -> tuple[Tensor | None, ...]:
    count = len(shapes)
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
    return tuple(
        g if not isinstance(g, Tensor) or shape in (None, g.shape) else _fitting(cls, i, g, shape)
        for i, (g, shape) in enumerate(zip(listed, shapes, strict=True))
    )


def _fitting(cls: type[Function], at: int, gradient: Tensor, shape: Size) -> Tensor:
    """Return a gradient of an argument that was broadcast, summed to its shape."""
    if broadcasts_to(shape, gradient.shape):
        return sum_to(gradient, shape)
    raise RuntimeError(
        f"Function {cls.__name__}Backward returned an invalid gradient at index {at} - got "
        f"{list(gradient.shape)} but expected shape compatible with {list(shape)}"
    )


def broadcasts_to(shape: Sequence[int], to: Sequence[int]) -> bool:
    """Whether a tensor of one shape may be expanded to another."""
    behind = to[len(to) - len(shape) :]
    return len(shape) <= len(to) and all(n in (1, m) for n, m in zip(shape, behind, strict=True))


def once_differentiable(backward: Callable[..., Any]) -> Callable[..., Any]:
    """Let a `backward` have no gradient of its own: where one is asked for, it raises.

    Its results are then no function of what it was given, whatever it calls.
    """

    @wraps(backward)
    def once(ctx: Any, *gradients: Any) -> Any:
        with no_grad():
            found = backward(ctx, *gradients)
        asked = [g for g in gradients if isinstance(g, Tensor) and g.requires_grad]
        if not asked or not is_grad_enabled():
            return found
        listed = found if isinstance(found, tuple | list) else (found,)
        made = tuple(_NoSecond.apply(g, *gradients) if isinstance(g, Tensor) else g for g in listed)
        return made if isinstance(found, tuple | list) else made[0]

    return once


class _NoSecond(Function):
    """A gradient that has none."""

    @staticmethod
    def forward(ctx: Any, found: Tensor, *gradients: Any) -> Any:
        return found.detach()

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        raise RuntimeError(
            "trying to differentiate twice a function that was marked with @once_differentiable"
        )
