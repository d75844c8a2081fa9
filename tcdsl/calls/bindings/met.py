"""Forms of operands that a definition has met: what they bind it to is not worked out again.

The launcher knows the forms of calls that it runs. A kernel with its gradient asks at every call
what sizes its arguments bring, and layers of a model bring the same ones again and again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tcdsl.calls.process.bounded import thinned
from tcdsl.grammar.types.dtypes import DType

if TYPE_CHECKING:
    from tcdsl.calls.bindings.variant import Variant
    from tcdsl.grammar.text.nodes import Def

Form = tuple[object, ...]
_MOST = 2048
_PLAIN = {int, str, DType}  # types of generics whose equal values mean the same


def form_of(definition: Def, arrays: Sequence[object], generics: Mapping[str, Any]) -> Form | None:
    """Return all that binding asks of a call, but for the values of numbers.

    None for what only stands for an array or lies on a device, and for generics of other kinds.
    """
    if any(type(v) not in _PLAIN for v in generics.values()):
        return None
    found = []
    for a in arrays:
        if type(a) is not np.ndarray:
            return None
        found.append((a.dtype, a.shape))
    return id(definition), tuple(found), tuple((n, type(v), v) for n, v in generics.items())


class Met:
    """What forms of calls bind definitions to: a variant, and the value of each size."""

    def __init__(self) -> None:
        self._known: dict[Form, tuple[Def, Variant, Mapping[str, int]]] = {}

    def find(self, form: Form) -> tuple[Variant, dict[str, int]] | None:
        """Return what a form was bound to, None if it is new."""
        found = self._known.get(form)
        return None if found is None else (found[1], {**found[2]})

    def keep(self, form: Form, definition: Def, variant: Variant, sizes: Mapping[str, int]) -> None:
        """Keep what a form fits, unless values of numbers are sizes: the form has not those."""
        if not variant.signature.scalars:
            self._known = thinned(self._known, _MOST)
            self._known[form] = definition, variant, {**sizes}  # the id stays the definition's

    def clear(self) -> None:
        """Forget all forms: what they are bound to may not be the session's any more."""
        self._known = {}
