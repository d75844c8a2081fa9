"""Calls that autograd records, where no transform is active."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from tcdsl.calls.arguments import Arguments
from tcdsl.grammar.text.errors import TCTypeError
from tcdsl.torch import native
from tcdsl.torch.derivatives import Derivative

if TYPE_CHECKING:
    from tcdsl.torch.kernel import Kernel


def call(of: Kernel, given: Arguments) -> Any:
    """Call a kernel such that autograd sees it.

    Raises
    ------
    TCTypeError
        If ``out=`` is given: autograd records no outputs that were there before.
    """
    if given.outputs is not None:
        raise TCTypeError(
            f"{of.name}: out= does not support automatic differentiation, but one of the arguments "
            "requires grad\n  leave out= away, or call under torch.no_grad()"
        )
    values = tuple(map(_as_tensor, given.values))
    return recorded(of, given.generics, values)


def recorded(of: Kernel, generics: Mapping[str, Any], values: Sequence[Any]) -> Any:
    """Call with tensors and numbers, where no mode and no transform is active."""
    results = native.apply(_Call, of, generics, *values)
    return of.result(results) if type(results) is tuple else results


def _as_tensor(value: Any) -> Any:
    """Return an array of NumPy's as a tensor: results are tensors, whatever comes first."""
    return torch.from_numpy(value) if isinstance(value, np.ndarray) and value.ndim else value


class _Call(torch.autograd.Function):
    """A call: forward runs the training forward, backward the vector-Jacobian product."""

    @staticmethod
    def forward(ctx: Any, of: Kernel, generics: Any, *values: Any) -> Any:
        derivative = of.derivatives.of(values, generics, ctx.needs_input_grad[2:])
        if derivative is None:  # integers and bool
            results = of(*values, **generics)  # autograd's forward runs without grad mode
            is_one = len(of.returns) == 1
            ctx.mark_non_differentiable(*((results,) if is_one else results))
            return results if is_one else tuple(results)
        ctx.derivative = derivative
        if derivative.is_simple:
            results = derivative.forward(*values)
            if len(derivative.forward.returns) == 1:
                ctx.save_for_backward(*values, *[results] * len(derivative.kept))
                return results
            ctx.save_for_backward(*values, *[results[r] for r in derivative.kept])
            return results[0]
        outputs, kept = derivative.run(values)
        ctx.set_materialize_grads(False)
        if derivative.integers:
            ctx.mark_non_differentiable(*(outputs[r] for r in derivative.integers))
        ctx.forms = tuple((outputs[r].shape, outputs[r].dtype) for r in derivative.floats)
        ctx.device = outputs[0].device
        ctx.values = _save(ctx, values, kept, derivative.reads)
        return outputs[0] if len(outputs) == 1 else outputs

    @staticmethod
    def backward(ctx: Any, *adjoints: Any) -> Any:
        derivative: Derivative = ctx.derivative
        if derivative.is_simple:
            saved = ctx.saved_tensors
            if not torch.is_grad_enabled():
                found = derivative.backward(*saved, *adjoints)
                gradients = (found,) if len(derivative.backward.returns) == 1 else found
            else:  # somebody may differentiate what comes next
                count = len(derivative.reads)
                gradients = native.apply(
                    _Pull, derivative, saved[count:], *saved[:count], *adjoints
                )
            return (None, None, *derivative.placed(gradients))
        given = _given(ctx, [adjoints[r] for r in derivative.floats])
        if given is None:
            return (None,) * len(ctx.needs_input_grad)
        values, kept = _saved(ctx)
        if not torch.is_grad_enabled() or derivative.again is None:
            gradients = derivative.pull(values, kept, given)
        else:  # somebody may differentiate what comes next
            gradients = native.apply(_Pull, derivative, tuple(kept), *values, *given)
        return (None, None, *derivative.placed(gradients))


class _Pull(torch.autograd.Function):
    """A way back, which is a function of values and adjoints; kept values are no further ones."""

    @staticmethod
    def forward(ctx: Any, derivative: Derivative, kept: Any, *given: Any) -> Any:
        count = len(derivative.reads)
        gradients = derivative.pull(given[:count], kept, given[count:])
        ctx.set_materialize_grads(False)
        ctx.derivative = derivative
        ctx.forms = tuple((g.shape, g.dtype) for g in gradients)
        ctx.device = gradients[0].device
        ctx.values = _save(ctx, given, (), (*derivative.reads, *[True] * len(derivative.floats)))
        return gradients

    @staticmethod
    def backward(ctx: Any, *adjoints: Any) -> Any:
        given = _given(ctx, adjoints)
        if given is None:
            return (None,) * len(ctx.needs_input_grad)
        values, _ = _saved(ctx)
        second = ctx.derivative.again.derivatives.of(values, {}, ctx.needs_input_grad[2:])
        results = second.again(*values, *given)
        gradients = (results,) if len(second.again.returns) == 1 else tuple(results)
        return (None, None, *second.placed(gradients))


def _save(ctx: Any, values: Sequence[Any], kept: Sequence[Any], reads: Sequence[bool]) -> Any:
    """Save for the way back what it reads; return what of the values are no saved tensors."""
    tensors: list[Any] = []
    rest: list[Any] = []
    for value, is_read in zip(values, reads, strict=True):
        if not isinstance(value, torch.Tensor):
            rest.append(value)
        elif is_read:
            tensors.append(value)
            rest.append(_SAVED)
        else:
            rest.append(_Unread(value))
    ctx.save_for_backward(*tensors, *kept)
    return rest


def _saved(ctx: Any) -> tuple[list[Any], list[Any]]:
    """Return the values of a call and what was kept of it; torch checks their versions."""
    tensors = iter(ctx.saved_tensors)
    values = []
    for value in ctx.values:
        if value is _SAVED:
            values.append(next(tensors))
        elif type(value) is _Unread:
            values.append(value.again())
        else:
            values.append(value)
    return values, [*tensors]


_SAVED = object()


class _Unread:
    """A tensor of which nobody reads more than the shape: the caller's may go, or change."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self._form = tensor.shape, tensor.dtype, tensor.device

    def again(self) -> torch.Tensor:
        """Return a tensor of that shape."""
        shape, dtype, device = self._form
        return torch.empty(shape, dtype=dtype, device=device)


def _given(ctx: Any, adjoints: Sequence[Any]) -> list[Any] | None:
    """Return adjoints with zeros for those that nobody gave; None where nobody gave any."""
    if all(a is None for a in adjoints):
        return None
    return [
        torch.zeros(shape, dtype=dtype, device=ctx.device) if a is None else a
        for a, (shape, dtype) in zip(adjoints, ctx.forms, strict=True)
    ]
