"""Forms of operands that a definition has met: what they bind it to is not worked out again.

The launcher knows the forms of calls that it runs. A kernel with its gradient asks at every call
what sizes its arguments bring, and layers of a model bring the same ones again and again. Forms of
one kind, which have the same types and ranks, and 1 where others have it, bind a definition to the
same variant: of a new one only the extents are read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tcdsl.calls.process.bounded import thinned
from tcdsl.grammar.check.bind import Extents
from tcdsl.grammar.types.dtypes import DType

if TYPE_CHECKING:
    from tcdsl.calls.bindings.variant import Variant
    from tcdsl.grammar.text.nodes import Def

Form = tuple[int, tuple[tuple[int, tuple[int, ...]], ...], tuple[object, ...]]
_MOST = 2048
_PLAIN = {int, str, DType}  # types of generics whose equal values mean the same


def form_of(definition: Def, arrays: Sequence[object], generics: Mapping[str, Any]) -> Form | None:
    """Return all that binding asks of a call, but for the values of numbers.

    None for what only stands for an array or lies on a device, and for generics of other kinds.
    """
    for v in generics.values():
        if type(v) not in _PLAIN:
            return None
    found = []
    for a in arrays:
        if type(a) is not np.ndarray:
            return None
        found.append((a.dtype.num, a.shape))  # a type's own hash is made anew each time
    return id(definition), tuple(found), tuple([(n, type(v), v) for n, v in generics.items()])


class Met:
    """What forms of calls bind definitions to: a variant, and the value of each size."""

    def __init__(self) -> None:
        self._known: dict[Form, tuple[Def, Variant, Mapping[str, int]]] = {}
        self._kinds: dict[object, tuple[Def, Variant, Extents]] = {}

    def find(self, form: Form) -> tuple[Variant, dict[str, int]] | None:
        """Return what a form binds to, None if it is new and none of its kind was met."""
        found = self._known.get(form)
        if found is not None:
            return found[1], {**found[2]}
        of_kind = self._kinds.get(_kind(form))
        if of_kind is None:
            return None
        definition, variant, extents = of_kind
        sizes = extents.sizes([shape for _, shape in form[1]])
        if sizes is None:
            return None
        self._keep(form, definition, variant, sizes)
        return variant, sizes

    def keep(self, form: Form, definition: Def, variant: Variant, sizes: Mapping[str, int]) -> None:
        """Keep what a form fits, unless values of numbers are sizes: the form has not those."""
        if variant.signature.scalars:
            return
        kind = _kind(form)
        if kind not in self._kinds:
            self._kinds = thinned(self._kinds, _MOST)
            self._kinds[kind] = definition, variant, Extents(variant.signature)
        self._keep(form, definition, variant, sizes)

    def _keep(
        self, form: Form, definition: Def, variant: Variant, sizes: Mapping[str, int]
    ) -> None:
        self._known = thinned(self._known, _MOST)
        self._known[form] = definition, variant, {**sizes}  # the id stays the definition's

    def clear(self) -> None:
        """Forget all forms: what they are bound to may not be the session's any more."""
        self._known, self._kinds = {}, {}


def _kind(form: Form) -> object:
    of, operands, generics = form
    kinds = [(number, tuple([n == 1 for n in shape])) for number, shape in operands]
    return of, tuple(kinds), generics
