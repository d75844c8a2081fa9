"""Tensors without their elements: what is kept of one of which nobody reads more than the form."""

from __future__ import annotations

from typing import NamedTuple

import torch


class Blank(NamedTuple):
    """The form of a tensor, and where it lies."""

    shape: torch.Size
    dtype: torch.dtype
    device: torch.device

    @staticmethod
    def of(tensor: torch.Tensor) -> Blank:
        """Return the form of a tensor, which may go or change."""
        return Blank(tensor.shape, tensor.dtype, tensor.device)

    def zeros(self) -> torch.Tensor:
        """Return zeros of that form: an adjoint or tangent that nobody gave."""
        return torch.zeros(self.shape, dtype=self.dtype, device=self.device)

    def empty(self) -> torch.Tensor:
        """Return a tensor of that form with any elements."""
        return torch.empty(self.shape, dtype=self.dtype, device=self.device)
