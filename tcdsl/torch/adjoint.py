"""What autograd knows of the operators: calls that it records, whose way back is a call again."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch._functorch import autograd_function
from torch.autograd import forward_ad

from tcdsl.calls.process.bounded import thinned
from tcdsl.grammar.text.errors import TCTypeError
from tcdsl.kernel import Kernel
from tcdsl.torch import library
from tcdsl.torch.derivatives import Derivative
from tcdsl.torch.fake import form_of
from tcdsl.torch.library import (
    LIBRARY,
    Runner,
    Spelling,
    generics_of,
    merged,
    runner_of,
    spelling_of,
)
from tcdsl.torch.transformed import has_tangents, pushed


@dataclass(frozen=True)
class _Call:
    """What of a call is no tensor, and its derivative.

    kinds: as of the operator, with a letter for each parameter in any case. below: the keys that
    the dispatcher goes on with. is_pushing: whether forward-mode AD is on.
    """

    derivative: Derivative
    generics: str
    kinds: str
    integers: Sequence[Any] | None
    floats: Sequence[Any] | None
    below: Any
    is_pushing: bool

    def arguments(self, kernel: Kernel, tensors: Sequence[torch.Tensor]) -> tuple[Any, ...]:
        """Return what the operator takes to call a kernel whose further arguments are tensors."""
        kinds = self.kinds + "t" * (len(kernel.params) - len(self.kinds))
        numbers = (kinds, self.integers, self.floats) if kinds.strip("t") else ()
        known = {g.name for g in kernel.definition.generics}
        generics = " ".join(g for g in self.generics.split() if g.partition("=")[0] in known)
        return (*spelling_of(kernel), generics, tensors, *numbers)


class _Recorded(torch.autograd.Function):
    """A call: its results are the outputs and what is kept for the way back."""

    @staticmethod
    def forward(call: _Call, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        # as operators of PyTorch's own do: what is below may record too, for another transform
        with (
            torch._C._AutoDispatchBelowAutograd(),
            torch.enable_grad(),
            forward_ad._set_fwd_grad_enabled(call.is_pushing),
        ):
            given = call.arguments(call.derivative.forward, tensors)
            return tuple(torch.ops.tcdsl.call.default.redispatch(call.below, *given))

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: tuple[torch.Tensor, ...]) -> None:
        call, *tensors = inputs
        derivative = call.derivative
        differentiable = {*derivative.floats}
        others = [t for r, t in enumerate(output) if r not in differentiable]
        ctx.mark_non_differentiable(*others)
        ctx.set_materialize_grads(False)
        reads = [r for r, k in zip(derivative.reads, call.kinds, strict=True) if k == "t"]
        saved = [t for t, is_read in zip(tensors, reads, strict=True) if is_read]
        ctx.save_for_backward(*saved, *(output[r] for r in derivative.kept))
        # of what nobody reads the values of the way back takes the shape
        ctx.unread = [
            None if is_read else _form(t) for t, is_read in zip(tensors, reads, strict=True)
        ]
        ctx.forms = [_form(output[r]) for r in derivative.floats]
        ctx.call = call

    @staticmethod
    def backward(ctx: Any, *above: torch.Tensor | None) -> Any:
        call: _Call = ctx.call
        derivative = call.derivative
        adjoints = [above[r] for r in derivative.floats]
        if all(a is None for a in adjoints):
            return (None,) * (len(ctx.unread) + 1)
        filled = [
            _zeros(form) if a is None else a for a, form in zip(adjoints, ctx.forms, strict=True)
        ]
        rest = iter(ctx.saved_tensors)
        tensors = [next(rest) if form is None else _empty(form) for form in ctx.unread]
        kept = [*rest]
        if torch.is_grad_enabled() and derivative.again is not None:
            # somebody may differentiate what comes next, and what is kept is a function of the rest
            given = call.arguments(derivative.again, [*tensors, *filled])
        else:
            given = call.arguments(derivative.backward, [*tensors, *kept, *filled])
        found = torch.ops.tcdsl.call.default(*given)
        if derivative.made is None:  # by hand
            of = derivative.forward
            values = merged(of, tensors, call.kinds, call.integers, call.floats)
            derivative.check(found, values)
        placed = derivative.placed(found)
        found = [g for g, k in zip(placed, call.kinds, strict=True) if k == "t"]
        # a tensor of rank 0 is converted to its parameter's type, and its gradient back
        pairs = zip(found, tensors, strict=True)
        return (None, *(g if g is None else g.to(t.dtype) for g, t in pairs))


def _single_level() -> Any:
    """Allow a record at the level of torch.func that the dispatcher has come to."""
    active = torch._C._are_functorch_transforms_active()
    allow: Any = autograd_function.enable_single_level_autograd_function  # type: ignore[attr-defined]
    return allow() if active else nullcontext()


Form = tuple[torch.Size, torch.dtype, torch.device]


def _form(t: torch.Tensor) -> Form:
    return t.shape, t.dtype, t.device


def _zeros(form: Form) -> torch.Tensor:
    shape, dtype, device = form
    return torch.zeros(shape, dtype=dtype, device=device)


def _empty(form: Form) -> torch.Tensor:
    shape, dtype, device = form
    return torch.empty(shape, dtype=dtype, device=device)


# Below the dispatcher a transform of torch.func has already chosen its level: not asked again.
_apply: Any = super(torch.autograd.Function, _Recorded).apply


# ---- implementations for what records


def _call(
    keyset: Any,
    text: str,
    name: str,
    backward: str,
    settings: str,
    generics: str,
    tensors: Sequence[torch.Tensor],
    kinds: str = "",
    integers: Sequence[Any] | None = None,
    floats: Sequence[Any] | None = None,
) -> list[torch.Tensor]:
    spelling = Spelling(text, name, backward, settings)
    if has_tangents(tensors):
        return pushed(spelling, generics, tensors, (kinds, integers, floats))
    below = keyset & torch._C._after_autograd_keyset
    if torch.is_grad_enabled() and any(t.requires_grad for t in tensors):
        runner = runner_of(spelling)
        values = merged(runner, tensors, kinds, integers, floats)
        derivative = _derivative(runner, values, generics)
        if derivative is not None:
            kinds = kinds or "t" * len(tensors)
            is_pushing = torch._C._is_fwd_grad_enabled()
            call = _Call(derivative, generics, kinds, integers, floats, below, is_pushing)
            with _single_level():
                results: Any = _apply(call, *tensors)
            return [*results[: derivative.outputs]]
    given = (text, name, backward, settings, generics, tensors, kinds, integers, floats)
    if (keyset & _BEHIND).highestPriorityTypeId() in _MEMORY:  # nobody else has to see the call
        return library.call(*given)
    found: list[torch.Tensor] = torch.ops.tcdsl.call.default.redispatch(below, *given)
    return found


_BEHIND = torch._C._after_ADInplaceOrView_keyset
_MEMORY = (torch._C.DispatchKey.CPU, torch._C.DispatchKey.CUDA)


def _call_out(
    keyset: Any,
    text: str,
    name: str,
    backward: str,
    settings: str,
    generics: str,
    tensors: Sequence[torch.Tensor],
    outputs: Sequence[torch.Tensor],
    *numbers: Any,
) -> None:
    both = [*tensors, *outputs]
    if has_tangents(both) or (torch.is_grad_enabled() and any(t.requires_grad for t in both)):
        raise TCTypeError(
            f"{name}: out= does not support automatic differentiation, but one of the arguments "
            "requires grad or has a tangent\n  leave out= away, or call under torch.no_grad()"
        )
    below = keyset & torch._C._after_autograd_keyset
    given = (text, name, backward, settings, generics, tensors, outputs, *numbers)
    torch.ops.tcdsl.call_out.default.redispatch(below, *given)


def _derivative(runner: Runner, values: Sequence[Any], generics: str) -> Derivative | None:
    """Return the derivative of a call, by the tensors that need it; None if it has none."""
    values = [_number_in(v) for v in values]
    needs = tuple(isinstance(v, torch.Tensor) and v.requires_grad for v in values)
    key = (needs, generics, tuple(map(_look, values)))
    try:
        known: Any = runner.by_look.get(key, _UNKNOWN)
    except TypeError:  # symbols have no hash: a tracer sees a call once
        known = _UNKNOWN
    if known is not _UNKNOWN:
        of_before: Derivative | None = known
        return of_before
    forms = [form_of(v, n) for v, n in zip(values, runner.params, strict=True)]
    named = generics_of(generics)
    variant, sizes = runner.session.bind(runner.definition, forms, named)
    is_concrete = all(type(n) is int for n in sizes.values())
    found = runner.derivatives.of_bound(
        variant.checked, sizes if is_concrete else None, named, needs
    )
    if is_concrete:
        runner.by_look = thinned(runner.by_look, _MOST_FORMS)
        runner.by_look[key] = found
    return found


_UNKNOWN: Any = object()
_MOST_FORMS = 512


def _look(value: Any) -> Any:
    """Return what of an argument decides which derivative serves it."""
    if isinstance(value, torch.Tensor):
        return value.dtype, tuple(value.shape)
    return value if isinstance(value, int) else type(value)


def _number_in(value: Any) -> Any:
    """Return the integer in a tensor of rank 0, on which the turns of a loop may depend."""
    is_one = type(value) is torch.Tensor and not value.ndim and not value.dtype.is_floating_point
    if not is_one or value.is_meta or torch._C._functorch.is_functorch_wrapped_tensor(value):
        return value
    return int(value)


LIBRARY.impl("call", _call, "Autograd", with_keyset=True)
LIBRARY.impl("call_out", _call_out, "Autograd", with_keyset=True)
