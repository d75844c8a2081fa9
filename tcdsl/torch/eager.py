"""Calls that autograd records, where no transform is active."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import compress
from operator import and_, not_
from typing import Any

import numpy as np
import torch

from tcdsl.calls.arguments import Arguments
from tcdsl.grammar.text.errors import TCTypeError
from tcdsl.torch import native
from tcdsl.torch.blank import blank, zeros
from tcdsl.torch.derivatives import Derivative
from tcdsl.torch.differentiable import DifferentiableKernel
from tcdsl.torch.routes import is_transformed


def call(of: DifferentiableKernel, given: Arguments) -> Any:
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
    results = native.apply(Call, of, given.generics, *values)
    return of.result(results) if type(results) is tuple else results


def _as_tensor(value: Any) -> Any:
    """Return an array of NumPy's as a tensor: results are tensors, whatever comes first."""
    return torch.from_numpy(value) if isinstance(value, np.ndarray) and value.ndim else value


class Call(torch.autograd.Function):
    """A call, entered by `native.apply`: the training forward, then the vector-Jacobian product."""

    @staticmethod
    def forward(ctx: Any, of: DifferentiableKernel, generics: Any, *values: Any) -> Any:
        """Return the outputs, several as a tuple."""
        derivative = of.derivatives.of(values, generics, ctx.needs_input_grad[2:])
        if derivative is None:  # integers and bool
            results = of(*values, **generics)  # autograd's forward runs without grad mode
            is_one = len(of.returns) == 1
            ctx.mark_non_differentiable(*((results,) if is_one else results))
            return results if is_one else tuple(results)
        ctx.derivative = derivative
        results = derivative.launch(*values)
        every = (results,) if derivative.is_one_result else results
        kept = [every[r] for r in derivative.kept] if derivative.kept else ()
        if derivative.is_simple:
            ctx.save_for_backward(*values, *kept)
            return every[0]
        ctx.materialize_grads = False
        _save(ctx, values, kept, derivative.reads, derivative.unread, derivative.has_scalars)
        if derivative.outputs == 1:
            return every[0]
        outputs = tuple(every[: derivative.outputs])
        if derivative.integers:
            ctx.mark_non_differentiable(*(outputs[r] for r in derivative.integers))
        if len(derivative.floats) > 1:  # the adjoint of one of them may be missing
            ctx.forms = tuple(blank(outputs[r]) for r in derivative.floats)
        return outputs

    @staticmethod
    def backward(ctx: Any, *adjoints: Any) -> Any:
        """Return a gradient or None for each argument of forward."""
        derivative: Derivative = ctx.derivative
        if derivative.is_simple:
            saved = ctx.saved_tensors
            if not torch.is_grad_enabled():
                found = derivative.backward(*saved, *adjoints)
                gradients = (found,) if len(derivative.backward.returns) == 1 else found
            else:
                count = len(derivative.reads)
                gradients = _pulled(derivative, saved[:count], saved[count:], adjoints)
            return (None, None, *derivative.placed(gradients))
        given = _given(ctx, [adjoints[r] for r in derivative.floats])
        if given is None:
            return (None,) * len(ctx.needs_input_grad)
        values, kept = _saved(ctx, given[0].device)
        if not torch.is_grad_enabled() or derivative.again is None:
            gradients = derivative.pull(values, kept, given)
        else:
            gradients = _pulled(derivative, values, kept, given)
        return (None, None, *derivative.placed(gradients))


def _pulled(
    derivative: Derivative, values: Sequence[Any], kept: Sequence[Any], adjoints: Sequence[Any]
) -> Sequence[Any]:
    """Return the gradients, which somebody may differentiate."""
    again = derivative.again
    if again is None or not is_transformed():
        return native.apply(_Pull, derivative, tuple(kept), *values, *adjoints)  # type: ignore[no-any-return]
    # the forward pass was outside of the transform, which sees a call, and not this file's nodes
    gradients = again(*values, *adjoints)
    return (gradients,) if len(again.returns) == 1 else tuple(gradients)


class _Pull(torch.autograd.Function):
    """A way back, which is a function of values and adjoints; kept values are no further ones."""

    @staticmethod
    def forward(ctx: Any, derivative: Derivative, kept: Any, *given: Any) -> Any:
        count = len(derivative.reads)
        gradients = derivative.pull(given[:count], kept, given[count:])
        ctx.materialize_grads = False
        ctx.derivative = derivative
        if len(gradients) > 1:
            ctx.forms = tuple(map(blank, gradients))
        count = len(derivative.floats)  # adjoints, all of which further derivatives read
        reads, unread = (*derivative.reads, *[True] * count), (*derivative.unread, *[False] * count)
        _save(ctx, given, (), reads, unread, derivative.has_scalars)
        return gradients

    @staticmethod
    def backward(ctx: Any, *adjoints: Any) -> Any:
        given = _given(ctx, adjoints)
        if given is None:
            return (None,) * len(ctx.needs_input_grad)
        values, _ = _saved(ctx, given[0].device)
        second = ctx.derivative.again.derivatives.of(values, {}, ctx.needs_input_grad[2:])
        results = second.again(*values, *given)
        gradients = (results,) if len(second.again.returns) == 1 else tuple(results)
        return (None, None, *second.placed(gradients))


_Flags = tuple[bool, ...]


def _save(
    ctx: Any, values: Any, kept: Any, reads: _Flags, unread: _Flags, may_be_numbers: bool
) -> None:
    """Save for the way back what it reads of the values, and what was kept.

    Of a tensor of which nobody reads more than the shape that is kept: the caller's may go, or
    change. Numbers are kept as they are.
    """
    if may_be_numbers:
        is_tensor = [isinstance(v, torch.Tensor) for v in values]
        reads = tuple(map(and_, reads, is_tensor))
        others = compress(zip(values, is_tensor, strict=True), map(not_, reads))
        ctx.left = reads, [(v.shape, v.dtype) if is_one else v for v, is_one in others]
    else:
        ctx.left = reads, [(v.shape, v.dtype) for v in compress(values, unread)]
    if kept or True in reads:
        ctx.save_for_backward(*compress(values, reads), *kept)


def _saved(ctx: Any, device: Any) -> tuple[list[Any], list[Any]]:
    """Return the values of a call and what was kept of it; torch checks their versions."""
    reads, left = ctx.left
    tensors = iter(ctx.saved_tensors)
    others = (_again(v, device) if type(v) is tuple else v for v in left)  # numbers are none
    values = [next(tensors) if is_read else next(others) for is_read in reads]
    return values, [*tensors]


def _again(form: tuple[Any, Any], device: Any) -> torch.Tensor:
    """Return a tensor that is asked for its shape only; of rank 0 it is a number of the host."""
    shape, dtype = form
    return torch.empty(shape, dtype=dtype, device=device if shape else "cpu")


def _given(ctx: Any, adjoints: Sequence[Any]) -> list[Any] | None:
    """Return adjoints with zeros for those that nobody gave; None where nobody gave any."""
    if all(a is None for a in adjoints):
        return None
    if len(adjoints) == 1:
        return [*adjoints]
    pairs = zip(adjoints, ctx.forms, strict=True)
    return [zeros(form) if a is None else a for a, form in pairs]
