"""What autograd knows of the operators: calls that it records, whose way back is a call again."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import torch
from torch._functorch import autograd_function
from torch.autograd import forward_ad

from tcdsl.calls.process.bounded import thinned
from tcdsl.grammar.text.cached import cached_property
from tcdsl.grammar.text.dataclass import dataclass
from tcdsl.grammar.text.errors import TCTypeError
from tcdsl.grammar.text.heads import has_any_rank
from tcdsl.kernel import Kernel
from tcdsl.torch.arguments import known_number
from tcdsl.torch.blank import blank, empty, zeros
from tcdsl.torch.derivatives import Derivative
from tcdsl.torch.library import LIBRARY, Callee, given, given_out, spelling_of
from tcdsl.torch.transformed import bound, has_tangents, pushed


@dataclass(frozen=True, eq=False)
class _Way:
    """The derivative of a call, and what the operator takes to go there and back.

    reads: per tensor, whether somebody reads its values on the way back. others: the results that
    have no derivative.
    """

    callee: Callee
    derivative: Derivative

    @cached_property
    def forward(self) -> tuple[str, ...]:
        """The training forward: strings, by which a call finds what was tuned meanwhile."""
        return self._head(self.derivative.forward)

    @cached_property
    def backward(self) -> tuple[str, ...]:
        """The way back, given what was kept."""
        return self._head(self.derivative.backward)

    @cached_property
    def again(self) -> tuple[str, ...] | None:
        """The way back as a function of values and adjoints."""
        found = self.derivative.again
        return None if found is None else self._head(found)

    @cached_property
    def reads(self) -> tuple[bool, ...]:
        pairs = zip(self.derivative.reads, self.callee.letters, strict=True)
        return tuple(is_read for is_read, k in pairs if k == "t")

    @cached_property
    def others(self) -> tuple[int, ...]:
        count = len(self.derivative.forward.returns)
        return tuple(r for r in range(count) if r not in self.derivative.floats)

    def _head(self, kernel: Kernel) -> tuple[str, ...]:
        """Return a kernel that takes further tensors, generics and kinds."""
        kinds = self.callee.letters + "t" * (len(kernel.params) - len(self.callee.letters))
        known = {g.name for g in kernel.definition.generics}
        of_call = self.callee.generics.split()
        generics = " ".join(g for g in of_call if g.partition("=")[0] in known)
        return (*spelling_of(kernel), generics, kinds if kinds.strip("t") else "")


@dataclass(frozen=True, slots=True)
class _Call:
    """What of a call is no tensor.

    below: the keys that the dispatcher goes on with; None where nothing but memory is behind.
    is_pushing: whether forward-mode AD is on.
    """

    way: _Way
    integers: Sequence[Any] | None
    floats: Sequence[Any] | None
    below: Any
    is_pushing: bool

    def arguments(self, head: tuple[str, ...], tensors: Sequence[Any]) -> tuple[Any, ...]:
        """Return what the operator takes to call a kernel whose further arguments are tensors."""
        *strings, kinds = head
        return (*strings, tensors, kinds, self.integers, self.floats)


class _Recorded(torch.autograd.Function):
    """A call: its results are the outputs and what is kept for the way back."""

    @staticmethod
    def forward(call: _Call, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        arguments = call.arguments(call.way.forward, tensors)
        if call.below is None:
            callee, *_ = given(*arguments)
            return tuple(callee.run(tensors, call.integers, call.floats))
        # as operators of PyTorch's own do: what is below may record too, for another transform
        with (
            torch._C._AutoDispatchBelowAutograd(),
            torch.enable_grad(),
            forward_ad._set_fwd_grad_enabled(call.is_pushing),
        ):
            return tuple(torch.ops.tcdsl.call.default.redispatch(call.below, *arguments))

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: tuple[torch.Tensor, ...]) -> None:
        call, *tensors = inputs
        way: _Way = call.way
        derivative = way.derivative
        if way.others:
            ctx.mark_non_differentiable(*[output[r] for r in way.others])
        ctx.set_materialize_grads(False)
        kept = [output[r] for r in derivative.kept]
        if all(way.reads):
            ctx.save_for_backward(*tensors, *kept)
            ctx.unread = None
        else:
            pairs = [*zip(tensors, way.reads, strict=True)]
            ctx.save_for_backward(*[t for t, is_read in pairs if is_read], *kept)
            # of what nobody reads the values of the way back takes the shape
            ctx.unread = [None if is_read else blank(t) for t, is_read in pairs]
        if len(derivative.floats) > 1:  # of which some may get no adjoint
            ctx.blanks = [blank(output[r]) for r in derivative.floats]
        ctx.call = call

    @staticmethod
    def backward(ctx: Any, *above: torch.Tensor | None) -> Any:
        call: _Call = ctx.call
        derivative = call.way.derivative
        adjoints = [above[r] for r in derivative.floats]
        if all(a is None for a in adjoints):
            return (None,) * len(ctx.needs_input_grad)
        if len(adjoints) > 1:
            pairs = zip(adjoints, ctx.blanks, strict=True)
            adjoints = [zeros(form) if a is None else a for a, form in pairs]
        saved = ctx.saved_tensors
        if ctx.unread is None:
            count = len(call.way.reads)
            tensors, kept = saved[:count], saved[count:]
        else:
            rest = iter(saved)
            tensors = [next(rest) if form is None else empty(form) for form in ctx.unread]
            kept = [*rest]
        again = call.way.again if torch.is_grad_enabled() else None
        if again is not None:
            # somebody may differentiate what comes next, and what is kept is a function of the rest
            arguments = call.arguments(again, [*tensors, *adjoints])
        else:
            arguments = call.arguments(call.way.backward, [*tensors, *kept, *adjoints])
        found = torch.ops.tcdsl.call.default(*arguments)
        letters = call.way.callee.letters
        if derivative.made is None:  # by hand
            values = call.way.callee.values(tensors, call.integers, call.floats)
            derivative.check(found, values)
        placed = derivative.placed(found)
        found = [g for g, k in zip(placed, letters, strict=True) if k == "t"]
        # a tensor of rank 0 is converted to its parameter's type, and its gradient back
        both = zip(found, tensors, strict=True)
        return (None, *[g if g is None or g.dtype == t.dtype else g.to(t.dtype) for g, t in both])


# Below the dispatcher a transform of torch.func has already chosen its level: not asked again.
_apply: Any = super(torch.autograd.Function, _Recorded).apply


# ---- implementations for what records


def _call(keyset: Any, *args: Any) -> list[torch.Tensor]:
    callee, tensors, integers, floats = given(*args)
    if has_tangents(tensors):
        return pushed(callee, tensors, integers, floats)
    is_memory = _is_memory(keyset.raw_repr())  # nobody else has to see the call
    if torch.is_grad_enabled():
        for t in tensors:
            if t.requires_grad:
                below = None if is_memory else keyset & torch._C._after_autograd_keyset
                results = _recorded(callee, tensors, integers, floats, below)
                if results is not None:
                    return results
                if is_memory:  # integers and bool, which a kernel gives without a record
                    with torch.no_grad():
                        return callee.run(tensors, integers, floats)
                break
    if is_memory:
        return callee.run(tensors, integers, floats)
    below = keyset & torch._C._after_autograd_keyset
    found: list[torch.Tensor] = torch.ops.tcdsl.call.default.redispatch(below, *args)
    return found


def _recorded(
    callee: Callee,
    tensors: Sequence[torch.Tensor],
    integers: Sequence[Any] | None,
    floats: Sequence[Any] | None,
    below: Any,
) -> list[torch.Tensor] | None:
    """Call with tensors of which one requires grad; None if the call has no derivative by it."""
    way = _way(callee, callee.values(tensors, integers, floats))
    if way is None:
        return None
    call = _Call(way, integers, floats, below, torch._C._is_fwd_grad_enabled())
    results: Any
    if torch._C._are_functorch_transforms_active():
        # a record at the level of torch.func that the dispatcher has come to
        allow: Any = autograd_function.enable_single_level_autograd_function  # type: ignore[attr-defined]
        with allow():
            results = _apply(call, *tensors)
    else:
        results = _apply(call, *tensors)
    return [*results[: way.derivative.outputs]]


@lru_cache(maxsize=256)
def _is_memory(keys: int) -> bool:
    """Whether behind what records there is nothing but memory: no mode, no transform, no bit."""
    behind = torch._C.DispatchKeySet.from_raw_repr(keys) & torch._C._after_ADInplaceOrView_keyset
    return behind.highestPriorityTypeId() in (torch._C.DispatchKey.CPU, torch._C.DispatchKey.CUDA)


def _call_out(keyset: Any, *args: Any) -> None:
    (callee, tensors, _, _), outputs = given_out(*args)
    both = [*tensors, *outputs]
    if has_tangents(both) or (torch.is_grad_enabled() and any(t.requires_grad for t in both)):
        raise TCTypeError(
            f"{callee.kernel.name}: out= does not support automatic differentiation, but one of "
            "the arguments requires grad or has a tangent\n"
            "  leave out= away, or call under torch.no_grad()"
        )
    below = keyset & torch._C._after_autograd_keyset
    torch.ops.tcdsl.call_out.default.redispatch(below, *args)


def _way(callee: Callee, values: Sequence[Any]) -> _Way | None:
    """Return the way back of a call, by the tensors that need it; None if it has none."""
    runner = callee.kernel
    needs = tuple([isinstance(v, torch.Tensor) and v.requires_grad for v in values])
    key: Any = needs, callee.generics, callee.kinds
    if not runner.is_alike:
        key = *key, tuple([_look(known_number(v)) for v in values])
    try:
        known: Any = runner.by_look.get(key, _UNKNOWN)
    except TypeError:  # symbols have no hash: a tracer sees a call once
        known = _UNKNOWN
    if known is not _UNKNOWN:
        of_before: _Way | None = known
        return of_before
    variant, sizes = bound(callee, values)
    is_concrete = all(type(n) is int for n in sizes.values())
    definition = runner.definition
    runner.is_alike = not (
        definition.generics
        or any(map(has_any_rank, definition.params))
        or variant.signature.has_loops  # whose turns decide what is kept
    )
    derivative = runner.derivatives.of_bound(
        variant, sizes if is_concrete else None, callee.named, needs
    )
    found = None if derivative is None else _Way(callee, derivative)
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


LIBRARY.impl("call", _call, "Autograd", with_keyset=True)
LIBRARY.impl("call_out", _call_out, "Autograd", with_keyset=True)
