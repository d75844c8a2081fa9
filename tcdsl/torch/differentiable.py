"""A kernel on tensors with what autograd runs for it: all that the routes of a call ask for."""

from __future__ import annotations

from functools import cached_property
from typing import Any, Self

from tcdsl.calls.bindings.session import Session
from tcdsl.grammar.text.nodes import Def
from tcdsl.torch import by_hand
from tcdsl.torch.derivatives import Derivatives
from tcdsl.torch.gpu import TensorKernel


class DifferentiableKernel(TensorKernel):
    """A kernel on tensors that knows its way back.

    Parameters
    ----------
    backward : str
        The definition of the text that is the way back; "" where it is derived.
    """

    def __init__(self, session: Session, definition: Def, backward: str = "") -> None:
        super().__init__(session, definition)
        self._backward = backward

    @cached_property
    def derivatives(self) -> Derivatives:
        """What recorded calls run."""
        return by_hand.derivatives_of(self, self._backward)

    def _over_batch(self, *asked: Any) -> Self:
        if not self._backward:
            return super()._over_batch(*asked)
        session, backward = by_hand.over_batch(self, self._backward, *asked)
        return self._with_way_back(session, session.program.defs[-1], backward)

    def _with_way_back(self, session: Session, definition: Def, backward: str) -> Self:
        """Return a kernel of another session like this one, with a way back of that session."""
        return type(self)(session, definition, backward)
