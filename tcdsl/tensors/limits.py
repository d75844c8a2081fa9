"""What types hold: finfo and iinfo."""

from __future__ import annotations

from typing import Any

from tcdsl.core.dtypes import DType
from tcdsl.ops.functions import LIMITS
from tcdsl.ops.rules import default_float
from tcdsl.ops.table import publish

__all__: list[str] = []

# bits of the fraction, and the least exponent of what is not subnormal
_FRACTION = {"float16": (10, -14), "bfloat16": (7, -126), "float32": (23, -126),
             "float64": (52, -1022)}  # fmt: skip
_DIGITS = {"float16": 3, "bfloat16": 2, "float32": 6, "float64": 15}


class finfo:  # noqa: N801  (the name of PyTorch)
    """What a type of floats holds.

    Parameters
    ----------
    type : DType, optional
        The default float if none.

    Attributes
    ----------
    bits : int
    max, min : float
        The largest finite number, and minus it.
    eps : float
        From 1 to the next number.
    tiny, smallest_normal : float
    resolution : float
    dtype : str
    """

    def __init__(self, type: DType | None = None) -> None:
        type = default_float() if type is None else type
        if not isinstance(type, DType):
            raise TypeError(f"torch.finfo() expected a torch.dtype, got {type!r}")
        if not type.is_floating_point:
            raise TypeError(
                f"torch.finfo() requires a floating point input type. Use torch.iinfo to handle "
                f"'{type}'"
            )
        fraction, exponent = _FRACTION[type.name]
        self.dtype = type.name
        self.bits = 8 * type.itemsize
        self.max, self.min = LIMITS[type.name]
        self.eps = 2.0**-fraction
        self.tiny = self.smallest_normal = 2.0**exponent
        self.resolution = 10.0 ** -_DIGITS[type.name]

    def __repr__(self) -> str:
        shown = ("resolution", "min", "max", "eps", "smallest_normal", "tiny")
        parts = ", ".join(f"{name}={getattr(self, name):.6g}" for name in shown)
        return f"finfo({parts}, dtype={self.dtype})"

    def __eq__(self, other: Any) -> bool:
        return isinstance(other, finfo) and self.dtype == other.dtype

    def __hash__(self) -> int:
        return hash(self.dtype)


class iinfo:  # noqa: N801  (the name of PyTorch)
    """What a type of integers holds.

    Attributes
    ----------
    bits, max, min : int
    dtype : str
    """

    def __init__(self, type: DType) -> None:
        if not isinstance(type, DType):
            raise TypeError(f"torch.iinfo() expected a torch.dtype, got {type!r}")
        if type.category != 1:
            raise TypeError(
                f"torch.iinfo() requires an integer input type. Use torch.finfo to handle '{type}'"
            )
        self.dtype = type.name
        self.bits = 8 * type.itemsize
        self.max = 2 ** (self.bits - type.is_signed) - 1
        self.min = -(2 ** (self.bits - 1)) if type.is_signed else 0

    def __repr__(self) -> str:
        return f"iinfo(min={self.min}, max={self.max}, dtype={self.dtype})"

    def __eq__(self, other: Any) -> bool:
        return isinstance(other, iinfo) and self.dtype == other.dtype

    def __hash__(self) -> int:
        return hash((self.dtype, "iinfo"))


for _kind in (finfo, iinfo):
    publish(_kind, (_kind.__name__,), on=("torch",))
