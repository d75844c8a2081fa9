"""Types of elements: one object each, found by name, by NumPy's and by number."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from tcdsl.grammar.text.dataclass import dataclass


@dataclass(frozen=True, slots=True, eq=False)
class DType:
    """The type of a tensor's elements.

    Attributes
    ----------
    name : str
    numpy : numpy.dtype
    itemsize : int
        Bytes of an element.
    category : int
        0 bool, 1 integer, 2 float: results have the highest of their operands'.
    is_floating_point, is_signed, is_complex : bool
        None is complex.
    number : int
        NumPy's number of the type in this process.
    """

    name: str
    numpy: np.dtype[Any]
    category: int
    is_signed: bool
    is_floating_point: bool
    itemsize: int
    number: int
    is_complex: bool = False

    def __repr__(self) -> str:
        return f"torch.{self.name}"  # as scripts print it

    def __reduce__(self) -> tuple[Any, ...]:
        return dtype_named, (self.name,)


# To scripts a type is one thing: `dataclasses.asdict` of a configuration keeps it.
del DType.__dataclass_fields__


def _made(name: str) -> DType:
    numpy = np.dtype(getattr(ml_dtypes, name) if name == "bfloat16" else name)
    category = 0 if name == "bool" else 2 if "float" in name else 1
    is_float = category == 2
    is_signed = is_float or name.startswith("int")
    return DType(name, numpy, category, is_signed, is_float, numpy.itemsize, numpy.num)


bool_ = _made("bool")
uint8, int8, int16, int32, int64 = map(_made, ("uint8", "int8", "int16", "int32", "int64"))
float16, bfloat16, float32, float64 = map(_made, ("float16", "bfloat16", "float32", "float64"))
ALL = (bool_, uint8, int8, int16, int32, int64, float16, bfloat16, float32, float64)
FLOATS = tuple(t for t in ALL if t.is_floating_point)
_BY_NAME = {t.name: t for t in ALL}
_BY_NUMPY = {t.numpy: t for t in ALL}
_OF_PYTHON = {float: float64, int: int64, bool: bool_}


def dtype_named(name: str) -> DType:
    """Return the type of a name."""
    return _BY_NAME[name]


def dtype_meant(given: Any) -> DType:
    """Return the type that is meant, which may be said by a type of Python: float, int or bool.

    Raises
    ------
    TypeError
        If it is neither.
    """
    if isinstance(given, DType):
        return given
    found = _OF_PYTHON.get(given) if isinstance(given, type) else None
    if found is None:
        name = given if isinstance(given, str) else getattr(given, "__name__", given)
        told = f"torch.{name}" if name in _BY_NAME else "torch.float32 or another"
        raise TypeError(
            f"argument 'dtype' must be torch.dtype, not {type(given).__name__}: say {told}"
        )
    return found


def dtype_of(numpy: np.dtype[Any]) -> DType | None:
    """Return the type of NumPy's in native byte order; None if no tensor has it."""
    return _BY_NUMPY.get(numpy)
