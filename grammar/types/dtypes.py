"""The scalar types of the language and how they combine."""

from __future__ import annotations

from typing import Literal

from tcdsl.grammar.text.dataclass import dataclass

Kind = Literal["bool", "uint", "int", "float"]


@dataclass(frozen=True, slots=True)
class DType:
    """A scalar type: its name in the language, its kind and its width in bits."""

    name: str
    kind: Kind
    bits: int

    @property
    def size_bytes(self) -> int:
        """Bytes of one stored element."""
        return max(1, self.bits // 8)

    @property
    def is_float(self) -> bool:
        """Whether values are floating point (half types too)."""
        return self.kind == "float"

    @property
    def is_half(self) -> bool:
        """Whether this is a 16-bit storage type whose computing is float32."""
        return self.kind == "float" and self.bits == 16

    @property
    def computed(self) -> DType:
        """The type in which values are computed, and temporaries kept: float32 for halves."""
        return FLOAT32 if self.is_half else self

    @property
    def is_integer(self) -> bool:
        """Whether values are integers; bool is not one."""
        return self.kind in ("int", "uint")

    @property
    def limits(self) -> tuple[int, int]:
        """The least and the greatest value of an integer type."""
        if self.kind == "uint":
            return 0, 2**self.bits - 1
        return -(2 ** (self.bits - 1)), 2 ** (self.bits - 1) - 1

    def __str__(self) -> str:
        return self.name


BOOL = DType("bool", "bool", 1)
UINT8, UINT16, UINT32, UINT64 = (DType(f"uint{b}", "uint", b) for b in (8, 16, 32, 64))
INT8, INT16, INT32, INT64 = (DType(f"int{b}", "int", b) for b in (8, 16, 32, 64))
FLOAT16 = DType("float16", "float", 16)
BFLOAT16 = DType("bfloat16", "float", 16)
FLOAT32 = DType("float32", "float", 32)
FLOAT64 = DType("float64", "float", 64)

ALL = (
    BOOL, UINT8, UINT16, UINT32, UINT64, INT8, INT16, INT32, INT64,
    FLOAT16, BFLOAT16, FLOAT32, FLOAT64,
)  # fmt: skip
BY_NAME = {d.name: d for d in ALL} | {"float": FLOAT32, "double": FLOAT64}


def promote(a: DType, b: DType) -> DType:
    """Return the type of an arithmetic operation on a and b.

    The same type stays; wider wins; float beats int; unsigned with unsigned is the wider
    unsigned, unsigned with signed is signed of the wider; bool in arithmetic is int32;
    float16 with bfloat16 is float32.
    """
    if a == b:
        return INT32 if a == BOOL else a
    a, b = (INT32 if d == BOOL else d for d in (a, b))
    if a == b:
        return a
    if a.is_float or b.is_float:
        floats = [d for d in (a, b) if d.is_float]
        if len(floats) == 1:
            return floats[0]
        if a.bits == b.bits:
            return FLOAT32
        return a if a.bits > b.bits else b
    bits = max(a.bits, b.bits)
    kind = "u" if a.kind == b.kind == "uint" else ""
    return BY_NAME[f"{kind}int{bits}"]
