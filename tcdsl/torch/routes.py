"""Which way a call on tensors goes, by what of PyTorch is active."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import Enum, auto
from typing import Any

import torch

_PLAIN_DISPATCH = torch.Tensor.__torch_dispatch__


class Route(Enum):
    """How a call is made."""

    PLAIN = auto()  # memory in, memory out: nobody has to see the call
    RECORDED = auto()  # autograd records it: eager.py
    OPERATOR = auto()  # torch.compile, export, tracing, modes, tensors without memory: operator.py
    TRANSFORM = auto()  # torch.func and forward-mode AD: transforms.py


def tensors_of(args: Sequence[Any], keywords: Mapping[str, Any]) -> Iterator[torch.Tensor]:
    """Yield the tensors of a call, those given for outputs too."""
    for value in (*args, *keywords.values()):
        if isinstance(value, torch.Tensor):
            yield value
        elif isinstance(value, tuple | list):
            yield from (v for v in value if isinstance(v, torch.Tensor))


def route_of(tensors: Sequence[torch.Tensor]) -> Route:
    """Return the route of a call with these tensors, of which there is one at least."""
    if torch.compiler.is_compiling():
        return Route.OPERATOR
    if is_transformed():
        return Route.TRANSFORM  # beneath which the other routes are chosen again
    if torch._C._len_torch_dispatch_stack() or torch._C._get_tracing_state() is not None:
        return Route.OPERATOR
    if any(t.is_meta or type(t).__torch_dispatch__ is not _PLAIN_DISPATCH for t in tensors):
        return Route.OPERATOR
    if torch.is_grad_enabled() and any(t.requires_grad for t in tensors):
        return Route.RECORDED
    return Route.PLAIN


def is_transformed() -> bool:
    """Whether torch.func or forward-mode AD are to see a call."""
    return torch._C._are_functorch_transforms_active() or is_pushed()


def is_pushed() -> bool:
    """Whether tangents may be on their way: in forward of a `Function` nobody pushes any."""
    return torch.autograd.forward_ad._current_level >= 0 and torch._C._is_fwd_grad_enabled()
