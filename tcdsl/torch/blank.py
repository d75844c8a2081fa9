"""Tensors without their elements: what is kept of one of which nobody reads more than the form."""

from __future__ import annotations

import torch

Blank = tuple[torch.Size, torch.dtype, torch.device]


def blank(tensor: torch.Tensor) -> Blank:
    """Return the form of a tensor, and where it lies; the tensor may go or change."""
    return tensor.shape, tensor.dtype, tensor.device


def zeros(of: Blank) -> torch.Tensor:
    """Return zeros of a form: an adjoint that nobody gave."""
    shape, dtype, device = of
    return torch.zeros(shape, dtype=dtype, device=device)


def empty(of: Blank) -> torch.Tensor:
    """Return a tensor of a form, with any elements."""
    shape, dtype, device = of
    return torch.empty(shape, dtype=dtype, device=device)
