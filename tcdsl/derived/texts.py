"""The texts of derivatives, made once on a machine: later processes read them.

A derivative follows from the definition with its types, what it is by, and the generator: so its
record is found by these (`codegen/toolchain/records.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from tcdsl.calls.bindings.variant import Variant
from tcdsl.codegen.gradient import plain
from tcdsl.codegen.gradient.jvp import Tangents, tangents
from tcdsl.codegen.gradient.vjp import Gradient, gradient
from tcdsl.codegen.toolchain import records
from tcdsl.grammar.text.stack import stack_for

T = TypeVar("T")
Names = tuple[str, ...]


def gradient_of(bound: Variant, turns: int | None, wrt: Names | None) -> Gradient:
    """Return the gradient of a definition bound to types; see `vjp.gradient`."""
    return _known(
        bound, "gradient", (str(turns), repr(wrt)),
        lambda: gradient(bound.checked, turns, wrt), plain.of_gradient, plain.gradient,
    )  # fmt: skip


def tangents_of(bound: Variant, wrt: Names | None) -> Tangents:
    """Return the tangents of a definition bound to types; see `jvp.tangents`."""
    return _known(
        bound, "tangents", (repr(wrt),),
        lambda: tangents(bound.checked, wrt), plain.of_tangents, plain.tangents,
    )  # fmt: skip


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
