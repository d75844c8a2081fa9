"""A kernel on tensors with what autograd runs for it: all that the routes of a call ask for."""

from __future__ import annotations

from tcdsl.grammar.text.cached import cached_property
from tcdsl.torch import by_hand
from tcdsl.torch.derivatives import Derivatives
from tcdsl.torch.gpu import TensorKernel


class DifferentiableKernel(TensorKernel):
    """A kernel on tensors that knows its way back."""

    @cached_property
    def derivatives(self) -> Derivatives:
        """What recorded calls run."""
        return by_hand.derivatives_of(self, self._backward)
