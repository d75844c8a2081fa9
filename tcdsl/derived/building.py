"""What the builder, or a thread, does for `beforehand.py`: a way back at some sizes."""

from __future__ import annotations

from functools import lru_cache

from tcdsl.calls.bindings.aside import unpacked
from tcdsl.calls.bindings.executables import Sizes
from tcdsl.calls.bindings.parsed import parsed
from tcdsl.calls.bindings.rankfree import view_of
from tcdsl.calls.bindings.session import Session
from tcdsl.calls.bindings.settings import Settings
from tcdsl.calls.bindings.variant import spec_for
from tcdsl.codegen.gradient.derivatives import GRADIENT, Gradient
from tcdsl.derived.differentiated import sizes_of_backward
from tcdsl.grammar.types.typed import Tensor

_Task = tuple[Gradient, Settings, tuple[Tensor, ...], Sizes, Sizes]  # those, and the first ones


@lru_cache(maxsize=256)
def _session(gradient: Gradient, settings: Settings) -> Session:
    """Return the same session for all sizes: which executable serves one hangs on the others."""
    return Session(parsed(gradient.text, GRADIENT), settings, gradient)


def build(task: bytes) -> None:
    """Compile what a task says, as its first calls would."""
    said: _Task = unpacked(task)
    gradient, settings, params, sizes, first = said
    session = _session(gradient, settings)
    variant = session.variant(session.program.defs[-1], {})
    found, at_first = (
        sizes_of_backward(gradient, variant.signature, params, dict(x)) for x in (sizes, first)
    )
    variant.expect(at_first, spec_for(variant, at_first).layouts)
    variant.compile_ahead(
        found,
        spec_for(variant, found).layouts,
        session.tuned(variant),
        session.advised(variant),
        view_of(variant.signature, found),
    )
