"""Arrays without elements: all that types and extents of results depend on."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any

import numpy as np

from tcdsl.grammar.text import nodes
from tcdsl.grammar.text.dataclass import dataclass
from tcdsl.grammar.text.errors import TCTypeError
from tcdsl.grammar.text.heads import has_any_rank
from tcdsl.grammar.types.dtypes import BOOL, BY_NAME, FLOAT64, INT64, DType


@dataclass(frozen=True, slots=True)
class AbstractArray:
    """An array without elements, or a number: all that types and extents of results depend on.

    Attributes
    ----------
    shape : tuple
        Of ints, or of what stands for ints (`torch.SymInt`): extents are computed of them with
        ``+ - * // %`` and compared.
    dtype : DType
    value : int, optional
        Of a number: an integral parameter of rank 0 may be the bound of a range.
    """

    shape: tuple[Any, ...]
    dtype: DType
    value: Any = None

    @property
    def ndim(self) -> int:
        """The rank."""
        return len(self.shape)

    @property
    def strides(self) -> tuple[Any, ...]:
        """Distances in elements; results have C order."""
        return tuple(prod(self.shape[d + 1 :]) for d in range(len(self.shape)))


def abstract_of(value: Any, param: nodes.Param, generics: Mapping[str, Any]) -> AbstractArray:
    """Return the form of an argument.

    Parameters
    ----------
    value : AbstractArray, array, shape or number
        Of an array only shape and type are read (and the value of an integer of NumPy's of rank
        0); a shape, a tuple or list, has the type that the text declares.
    param : nodes.Param
        The parameter.
    generics : mapping of str to int or DType
        What the call gives by keyword: it may say the type of a shape.

    Raises
    ------
    TCTypeError
        If it is none of these, or its type is none of the language's.
    """
    if isinstance(value, AbstractArray):
        return value
    if isinstance(value, bool | int | float):
        number = BOOL if isinstance(value, bool) else INT64 if isinstance(value, int) else FLOAT64
        return AbstractArray((), number, None if number.is_float else int(value))
    if isinstance(value, tuple | list):
        return AbstractArray(tuple(value), _declared(param, generics))
    shape, dtype = getattr(value, "shape", None), getattr(value, "dtype", None)
    if shape is None or dtype is None:
        raise TCTypeError(
            f"expected an array, a shape or a number for '{param.name}', got {type(value).__name__}"
        )
    name = getattr(dtype, "name", None) or str(dtype).rpartition(".")[2]  # torch.float32 has none
    if name not in BY_NAME:
        raise TCTypeError(
            f"argument '{param.name}' has type {dtype}, which the language does not have"
        )
    is_number = isinstance(value, np.ndarray | np.generic) and not value.shape
    return AbstractArray(
        tuple(shape),
        BY_NAME[name],
        int(value) if is_number and not BY_NAME[name].is_float else None,
    )


def _declared(param: nodes.Param, generics: Mapping[str, Any]) -> DType:
    """Return the type that the text declares, or that a type variable is given."""
    name = param.type.name if param.type is not None else ""
    found = BY_NAME.get(name) or generics.get(name)
    if isinstance(found, DType):
        return found
    what = "has dimensions of any rank and " if has_any_rank(param) else ""
    raise TCTypeError(
        f"'{param.name}' {what}is of type {name}, which a shape does not say\n"
        f'  give it by keyword, {name}="float32"'
    )
