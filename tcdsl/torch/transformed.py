"""What transforms of torch.func and forward-mode AD do with the operator: calls of other texts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.autograd import forward_ad

from tcdsl.calls.bindings.variant import Variant
from tcdsl.grammar.text.errors import TCTypeError
from tcdsl.torch.arguments import known_number, numbers_of_elements
from tcdsl.torch.fake import forms_of
from tcdsl.torch.library import LIBRARY, Callee, given, spelling_of
from tcdsl.torch.over_batch import over_batch


def _mapped(
    info: Any, in_dims: Sequence[Any], *args: Any
) -> tuple[list[torch.Tensor], list[int | None]]:
    """Call over a batch: the text with one more index, for the tensors that have the batch."""
    callee, tensors, integers, floats = given(*args)
    callee.values(tensors, integers, floats)  # they fit
    runner, dims = callee.kernel, in_dims[5]
    with_batch = iter(dims)
    places = {
        p: 0
        for p, k in zip(runner.params, callee.letters, strict=True)
        if k == "t" and next(with_batch) is not None
    }
    over = over_batch(runner, places, info.randomness)
    moved = [t if d is None else t.movedim(d, 0) for t, d in zip(tensors, dims, strict=True)]
    found = torch.ops.tcdsl.call.default(
        *spelling_of(over, over.backward), callee.generics, moved, callee.kinds, integers, floats
    )
    return found, list(over.out_dims)


torch.library.register_vmap("tcdsl::call", _mapped, lib=LIBRARY)


def bound(callee: Callee, values: Sequence[Any]) -> tuple[Variant, dict[str, int]]:
    """Return the variant that a call's derivatives are of, and its sizes.

    Inside vmap each element may have its own of an integer, if no range depends on that.
    """
    runner = callee.kernel
    forms = forms_of(runner, [*map(known_number, values)])
    is_mapped = torch._C._are_functorch_transforms_active()
    each = numbers_of_elements(runner, forms) if is_mapped else ()
    return runner.session.bind(runner.definition, forms, callee.named, each=each)


def has_tangents(tensors: Sequence[torch.Tensor]) -> bool:
    """Whether forward-mode AD pushes tangents through a call with these tensors."""
    # a compiled graph enters a level of forward mode without telling `forward_ad`
    if forward_ad._current_level < 0 and not torch._C._are_functorch_transforms_active():
        return False
    if not torch._C._is_fwd_grad_enabled():
        return False
    unpack: Any = forward_ad.unpack_dual
    return any(unpack(t, level=_LEVEL).tangent is not None for t in tensors)


_LEVEL = 0  # of forward mode: torch has no other, `torch.func` nests by wrapping


def pushed(
    callee: Callee,
    tensors: Sequence[torch.Tensor],
    integers: Sequence[Any] | None,
    floats: Sequence[Any] | None,
) -> list[torch.Tensor]:
    """Call with tangents; return outputs with theirs, by a text that computes both."""
    runner = callee.kernel
    if runner.backward:
        raise TCTypeError(
            f"{runner.name}: forward-mode AD of a kernel whose way back is written by hand\n"
            "  leave backward= away, and it is derived in both directions"
        )
    unpack: Any = forward_ad.unpack_dual
    duals = [unpack(t, level=_LEVEL) for t in tensors]
    kinds = callee.letters
    values = callee.values([d.primal for d in duals], integers, floats)
    variant, _ = bound(callee, values)
    rest = iter(duals)
    along = {
        p: t
        for p, k in zip(runner.params, kinds, strict=True)
        if k == "t" and (t := next(rest).tangent) is not None
    }
    made = runner.with_tangents().of(variant, tuple(along))
    both = [*(d.primal for d in duals), *along.values()]
    wider = (kinds + "t" * len(along), integers, floats)
    results = torch.ops.tcdsl.call.default(*spelling_of(made.kernel), "", both, *wider)
    returns = variant.signature.returns
    tangents = iter(results[len(returns) :])
    make: Any = forward_ad.make_dual
    return [
        make(r, next(tangents), level=_LEVEL) if t.dtype.is_float else r
        for r, t in zip(results, returns, strict=False)
    ]
