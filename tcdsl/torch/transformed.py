"""What transforms of torch.func and forward-mode AD do with the operator: calls of other texts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.autograd import forward_ad

from tcdsl.grammar.text.errors import TCTypeError
from tcdsl.torch.fake import form_of
from tcdsl.torch.library import (
    LIBRARY,
    Spelling,
    generics_of,
    merged,
    runner_of,
    spelling_of,
)
from tcdsl.torch.over_batch import over_batch
from tcdsl.torch.routes import is_pushed

Numbers = tuple[str, Sequence[Any] | None, Sequence[Any] | None]


def _mapped(
    info: Any,
    in_dims: Sequence[Any],
    text: str,
    name: str,
    backward: str,
    settings: str,
    generics: str,
    tensors: Sequence[torch.Tensor],
    kinds: str = "",
    integers: Sequence[Any] | None = None,
    floats: Sequence[Any] | None = None,
) -> tuple[list[torch.Tensor], list[int | None]]:
    """Call over a batch: the text with one more index, for the tensors that have the batch."""
    runner = runner_of(Spelling(text, name, backward, settings))
    merged(runner, tensors, kinds, integers, floats)  # they fit
    dims = in_dims[5]
    with_batch = iter(dims)
    places = {
        p: 0
        for p, k in zip(runner.params, kinds or "t" * len(dims), strict=True)
        if k == "t" and next(with_batch) is not None
    }
    over = over_batch(runner, places, info.randomness)
    given = [t if d is None else t.movedim(d, 0) for t, d in zip(tensors, dims, strict=True)]
    found = torch.ops.tcdsl.call.default(
        *spelling_of(over, over.backward), generics, given, kinds, integers, floats
    )
    return found, list(over.out_dims)


torch.library.register_vmap("tcdsl::call", _mapped, lib=LIBRARY)


def has_tangents(tensors: Sequence[torch.Tensor]) -> bool:
    """Whether forward-mode AD pushes tangents through a call with these tensors."""
    # a compiled graph enters a level of forward mode without telling `forward_ad`
    is_transformed = torch._C._are_functorch_transforms_active() and torch._C._is_fwd_grad_enabled()
    if not (is_pushed() or is_transformed):
        return False
    unpack: Any = forward_ad.unpack_dual
    return any(unpack(t, level=_LEVEL).tangent is not None for t in tensors)


_LEVEL = 0  # of forward mode: torch has no other, `torch.func` nests by wrapping


def pushed(
    spelling: Spelling, generics: str, tensors: Sequence[torch.Tensor], numbers: Numbers
) -> list[torch.Tensor]:
    """Call with tangents; return outputs with theirs, by a text that computes both."""
    runner = runner_of(spelling)
    if spelling.backward:
        raise TCTypeError(
            f"{spelling.name}: forward-mode AD of a kernel whose way back is written by hand\n"
            "  leave backward= away, and it is derived in both directions"
        )
    unpack: Any = forward_ad.unpack_dual
    duals = [unpack(t, level=_LEVEL) for t in tensors]
    kinds, integers, floats = numbers
    kinds = kinds or "t" * len(tensors)
    values = merged(runner, [d.primal for d in duals], kinds, integers, floats)
    forms = [form_of(v, n) for v, n in zip(values, runner.params, strict=True)]
    variant, _ = runner.session.bind(runner.definition, forms, generics_of(generics))
    rest = iter(duals)
    along = {
        p: t
        for p, k in zip(runner.params, kinds, strict=True)
        if k == "t" and (t := next(rest).tangent) is not None
    }
    made = runner.with_tangents().of(variant.checked, tuple(along))
    given = [*(d.primal for d in duals), *along.values()]
    wider = (kinds + "t" * len(along), integers, floats)
    results = torch.ops.tcdsl.call.default(*spelling_of(made.kernel), "", given, *wider)
    returns = variant.checked.returns
    tangents = iter(results[len(returns) :])
    make: Any = forward_ad.make_dual
    return [
        make(r, next(tangents), level=_LEVEL) if t.dtype.is_float else r
        for r, t in zip(results, returns, strict=False)
    ]
