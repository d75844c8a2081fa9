"""Ways back that are built aside while their forward pass is compiled.

Whoever asks for a forward pass that keeps for a gradient will ask for the gradient: where the one
has to be compiled, the other most likely has to be too, and is, by another process, for operands in
C order. What calls then look up is there, or is waited for; nothing else about them changes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tcdsl.calls.bindings.aside import WAY_BACK, Aside, expect, packed
from tcdsl.calls.bindings.executables import COMPILING
from tcdsl.calls.bindings.variant import spec_for
from tcdsl.codegen.toolchain.cachedir import is_lasting
from tcdsl.codegen.toolchain.host import usable_cores
from tcdsl.derived.differentiated import Differentiated, sizes_of_backward

if TYPE_CHECKING:
    from tcdsl.calls.bindings.variant import Variant

IS_USUAL = True  # tests count what they compile
_LOOKED_UP = {"off", "cached"}  # what else tunes chooses its executables itself


class Beforehand:
    """Calls of a forward pass, and the way back that is begun when one has to be compiled."""

    __slots__ = ("_made", "_sizes", "_variant")

    def __init__(
        self, made: Differentiated[Any], variant: Variant, sizes: Mapping[str, int]
    ) -> None:
        self._made, self._variant, self._sizes = made, variant, sizes

    def run(self, *values: Any) -> Any:
        """Call the forward pass."""
        token = COMPILING.set(self._begin)
        try:
            return self._made.forward(*values)
        finally:
            COMPILING.reset(token)

    def _begin(self) -> None:
        made, variant = self._made, self._variant
        settings, sizes = made.model.session.settings, tuple(self._sizes.items())
        is_looked_up = settings.tune in _LOOKED_UP and settings.configs is None
        if sizes not in made.begun and is_looked_up and is_possible(variant):
            params, first = variant.signature.params, made.order[0]
            what = made.gradient, made.backward_settings, params, sizes, first
            made.begun[sizes] = Aside(packed(what), made.gradient.name, WAY_BACK)


def is_likely(variant: Variant) -> None:
    """Say that a gradient is new on this machine: its way back will be built."""
    if is_possible(variant):
        expect()


def is_possible(variant: Variant) -> bool:
    """Whether another process can build what serves calls, and there is a core for it."""
    if not IS_USUAL or variant.is_for_gpu or variant.identity is None:
        return False
    return usable_cores() > 1 and is_lasting()


def keep_order(made: Differentiated[Any], sizes: Mapping[str, int]) -> None:
    """Let the backward pass have the order of sizes that the forward pass has had.

    Its first call is mostly of the last forward pass: without this it would have an executable of
    its own for these sizes, beside those that were built aside, for the first ones and for all.
    """
    first = made.first[0] if made.first else None
    if first is None or first[1] == sizes:
        return
    made.first[0] = None
    backward = made.backward
    variant = backward.session.variant(backward.definition, {})
    found = sizes_of_backward(made.gradient, variant.signature, first[0], first[1])
    variant.expect(found, spec_for(variant, found).layouts)


def wait(made: Differentiated[Any], sizes: Mapping[str, int]) -> None:
    """Wait for the way back at these sizes, if it was begun."""
    one = made.begun.pop(tuple(sizes.items()), None)
    if one is not None:
        one.wait()
