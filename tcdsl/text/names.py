"""Where names of a text meet Python's: values of generics by keyword, results by attribute."""

from __future__ import annotations

import operator
import sys
from collections import namedtuple
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tcdsl.grammar.text.errors import TCTypeError
from tcdsl.grammar.text.heads import type_variables
from tcdsl.grammar.text.nodes import Def
from tcdsl.grammar.types.dtypes import BY_NAME, DType


def generic_values(definition: Def, given: Mapping[str, Any]) -> dict[str, int | DType]:
    """Return values of generics as the check takes them.

    Parameters
    ----------
    definition : nodes.Def
    given : mapping
        Any integers, NumPy's too; for type variables a type of the language, its name, a type of
        PyTorch's, or what NumPy takes for one.

    Raises
    ------
    TCTypeError
        If a value is neither.
    """
    if not given:
        return {}
    types = type_variables(definition)
    known = {g.name for g in definition.generics}
    # a name that is no generic's is for the check to refuse
    return {
        name: value
        if name not in known
        else (
            _type(definition, name, value) if name in types else _integer(definition, name, value)
        )
        for name, value in given.items()
    }


def _integer(definition: Def, name: str, value: Any) -> int:
    try:
        if not isinstance(value, bool | np.bool_):
            return operator.index(value)
    except TypeError:
        pass
    raise TCTypeError(f"{definition.name}: expected an integer for generic '{name}', got {value!r}")


def _type(definition: Def, name: str, value: Any) -> DType:
    if isinstance(value, DType):
        return value
    if isinstance(value, str) and value in BY_NAME:
        return BY_NAME[value]
    if _is_torchs(value):
        return BY_NAME[str(value).removeprefix("torch.")]
    try:
        found = BY_NAME.get(np.dtype(value).name) if value is not None else None
    except TypeError:
        found = None
    if found is None:
        raise TCTypeError(
            f"{definition.name}: expected a scalar type for type variable '{name}', got {value!r}"
        )
    return found


def _is_torchs(value: Any) -> bool:
    """Whether a value is a type of PyTorch's that the language has; torch need not be there."""
    is_dtype = (type(value).__module__, type(value).__name__) == ("torch", "dtype")
    return is_dtype and str(value).removeprefix("torch.") in BY_NAME


def with_defaults(definition: Def, values: Mapping[str, Any]) -> Def:
    """Return a definition whose generics of these names have these defaults."""
    generics = (replace(g, default=values.get(g.name, g.default)) for g in definition.generics)
    return replace(definition, generics=tuple(generics))


def is_lasting(value: Any) -> bool:
    """Whether a value of a generic means the same at every call that gives this very object.

    So that there is one object of each value, strings count where they are interned, as those that
    stand in a program are.
    """
    if isinstance(value, type):
        return issubclass(value, np.generic)
    if type(value) is str:
        return sys.intern(value) is value
    if isinstance(value, DType):
        return BY_NAME.get(value.name) is value
    if _is_torchs(value):
        return True
    return type(value) is int or isinstance(value, np.integer)


def of_the_text(
    definition: Def, options: Mapping[str, Any], named: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return options of ours, and what keywords say of the text, as a text of these names has it.

    A name of the text wins: what came for the option of the same name is that of the parameter or
    generic. `Kernel.with_grad` takes the options of derivatives beside no name of a text.

    Parameters
    ----------
    definition : nodes.Def
    options : mapping
        What came for each option, None for nothing.
    named : mapping
        The other keywords.
    """
    names = {p.name for p in definition.params} | {g.name for g in definition.generics}
    mine = {k: v for k, v in options.items() if k not in names}
    its = {k: v for k, v in options.items() if k in names and v is not None}
    return mine, {**named, **its}


def result_type(name: str, fields: Sequence[str]) -> Any:
    """Return the named tuple of several results.

    Every field is an attribute: `y.index`, and by `getattr(y, "if")` or `y._low` what Python does
    not take for a field of a named tuple. Only the tuple's own `_make`, `_fields`, `_replace`,
    `_asdict` and names with two underscores stay what they are; there a result goes by position.
    """
    plain: Any = namedtuple("results", fields, rename=True)  # type: ignore[misc]
    at = {field: i for i, field in enumerate(fields)}

    def attribute(self: tuple[Any, ...], wanted: str) -> Any:
        if wanted in at:
            return self[at[wanted]]
        raise AttributeError(f"no result '{wanted}'; {name} gives {', '.join(fields)}")

    return type(name, (plain,), {"__slots__": (), "__getattr__": attribute, "__doc__": None})
