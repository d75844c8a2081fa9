"""The texts of derivatives, made once on a machine: later processes read them.

A derivative follows from the definition with its types, what it is by, and the generator: so its
record is found by these (`codegen/toolchain/records.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from tcdsl.calls.bindings.variant import Variant
from tcdsl.codegen.gradient import plain
from tcdsl.codegen.gradient.derivatives import Gradient, Tangents
from tcdsl.codegen.toolchain import records
from tcdsl.derived.beforehand import is_likely
from tcdsl.grammar.text.stack import stack_for

T = TypeVar("T")
Names = tuple[str, ...]


def gradient_of(bound: Variant, turns: int | None, wrt: Names | None) -> Gradient:
    """Return the gradient of a definition bound to types; see `vjp.gradient`."""

    def made() -> Gradient:
        from tcdsl.codegen.gradient.vjp import gradient  # on use: most are found by a record

        is_likely(bound)
        return gradient(bound.checked, turns, wrt)

    by = str(turns), repr(wrt)
    return _known(bound, "gradient", by, made, plain.of_gradient, plain.gradient)


def tangents_of(bound: Variant, wrt: Names | None) -> Tangents:
    """Return the tangents of a definition bound to types; see `jvp.tangents`."""

    def made() -> Tangents:
        from tcdsl.codegen.gradient.jvp import tangents  # on use: most are found by a record

        return tangents(bound.checked, wrt)

    return _known(bound, "tangents", (repr(wrt),), made, plain.of_tangents, plain.tangents)


def _known(
    bound: Variant,
    kind: str,
    by: tuple[str, ...],
    make: Callable[[], T],
    encode: Callable[[T], object],
    decode: Callable[[object], T],
) -> T:
    parts = None if bound.identity is None else (bound.identity, *by)
    found = None if parts is None else records.read(kind, parts, decode)
    if found is None:
        with stack_for(bound.name):
            found = make()
        if parts is not None:
            records.write(kind, parts, encode(found), bound.name)
    return found
