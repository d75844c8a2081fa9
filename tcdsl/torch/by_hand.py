"""A way back that somebody wrote, as every route of a call takes it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from functools import partial
from typing import TYPE_CHECKING, Any

from tcdsl.derived.by_hand import WayBack, check_gradients
from tcdsl.grammar.text.cached import cached_property
from tcdsl.grammar.text.dataclass import dataclass
from tcdsl.torch.derivatives import Derivative, Derivatives, Needs

if TYPE_CHECKING:
    from tcdsl.calls.bindings.signature import Signature
    from tcdsl.kernel import Kernel


def derivatives_of(kernel: Kernel, backward: str) -> Derivatives:
    """Return what recorded calls of a kernel run.

    backward: the definition that is the way back, "" where it is derived.
    """
    if not backward:
        return Derivatives(kernel)
    definition = kernel.session.definition(backward)
    way = WayBack(kernel.session, kernel.definition, definition)
    back = kernel.derive(kernel.session, definition)
    known = {g.name for g in definition.generics}

    def made(checked: Signature, generics: Mapping[str, Any], needs: Needs) -> Derivative:
        """Return the derivative of a call; it computes all gradients that the definition gives."""
        return ByHand(
            kernel,
            back,
            len(checked.returns),
            way.kept,
            way.floats,
            way.wrt,
            way.reads,
            generics={n: v for n, v in generics.items() if n in known},
            of_forward=generics,
        )

    return Derivatives(kernel, made)


@dataclass(frozen=True)
class ByHand(Derivative):
    """A derivative whose way back was written by somebody.

    generics, of_forward : mapping
        Those of the call: which the way back has, and all of them.
    """

    generics: Mapping[str, Any] = field(default_factory=dict)
    of_forward: Mapping[str, Any] = field(default_factory=dict)

    @property
    def given(self) -> Mapping[str, Any]:
        """The generics that the way back takes."""
        return self.generics

    @cached_property
    def launch(self) -> Callable[..., Any]:
        """What a call runs, given its values."""
        return partial(self.forward, **self.of_forward)

    def pull(
        self, values: Sequence[Any], kept: Sequence[Any], adjoints: Sequence[Any]
    ) -> tuple[Any, ...]:
        """Return the gradients by the parameters at `wrt`, checked."""
        results = self.backward(*values, *kept, *adjoints, **self.generics)
        gradients = (results,) if len(self.backward.returns) == 1 else tuple(results)
        self.check(gradients, values)
        return gradients

    def check(self, gradients: Sequence[Any], values: Sequence[Any]) -> None:
        """Refuse gradients that have not the shapes of their parameters: torch would sum some up.

        Raises
        ------
        ShapeError
        """
        params = self.forward.params
        wanted = [(params[i], tuple(getattr(values[i], "shape", ()))) for i in self.wrt]
        check_gradients(self.backward.name, self.backward.returns, gradients, wanted)
