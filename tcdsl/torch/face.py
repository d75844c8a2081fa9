"""What our layers ask of PyTorch: see `tcdsl.layers.library`."""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from tcdsl.layers.configs import MOST_BYTES
from tcdsl.layers.library import Library
from tcdsl.torch.dtypes import torch_type


def _tensor_of(data: bytes) -> torch.Tensor:
    return torch.tensor([*data], dtype=torch.uint8)


def _bytes_in(state: Any) -> bytes:
    """Return the bytes of an extra state; a copy of a state dict in another type has them too.

    Raises
    ------
    ValueError
        If it has none, or its storage holds fewer: PyTorch would read past the end of it.
    """
    if not isinstance(state, torch.Tensor) or state.is_meta or state.ndim != 1:
        raise ValueError("expected a tensor of bytes")
    if state.layout != torch.strided or state.is_quantized or state.is_complex():
        raise ValueError("expected a tensor of bytes")
    if state.numel() > MOST_BYTES:
        raise ValueError(f"expected at most {MOST_BYTES} bytes")
    last = state.storage_offset() + (state.numel() - 1) * state.stride(0)
    if state.numel() and state.untyped_storage().nbytes() < (last + 1) * state.element_size():
        raise ValueError(f"its storage does not hold {state.numel()} elements")
    return bytes(state.to("cpu", torch.uint8).tolist())


def _eager() -> AbstractContextManager[Any]:
    """Let compiled code run as it was written: its kernels are the same, and seen."""
    if "torch._dynamo" not in sys.modules:  # nothing is compiled, and it takes a second to import
        return nullcontext()
    stance: AbstractContextManager[Any] = torch.compiler.set_stance("force_eager")
    return stance


LIBRARY = Library(
    tensor=torch.Tensor,
    parameter=torch.nn.Parameter,
    module=torch.nn.Module,
    init=torch.nn.init,
    empty=torch.empty,
    default_dtype=torch.get_default_dtype,
    dtype=torch_type,
    no_grad=torch.no_grad,
    enable_grad=torch.enable_grad,
    fork_rng=torch.random.fork_rng,
    eager=_eager,
    grad=torch.autograd.grad,
    randn_like=torch.randn_like,
    passes=1,
    leaves=tree_leaves,
    from_bytes=_tensor_of,
    to_bytes=_bytes_in,
    init_name="torch.nn.init",
    kernels_name="tcdsl.torch",
)
