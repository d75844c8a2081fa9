"""What all texts share: indented lines, and numbers as the shortest literals of their types."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from tcdsl.grammar.types.dtypes import DType

# Above this float32 rounds to infinity.
_LARGEST_F32 = float.fromhex("0x1.ffffffp127")


class Lines:
    """Indented lines of text."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._depth = 0

    def add(self, text: str) -> None:
        """Add a line at the present depth."""
        self._lines.append("  " * self._depth + text if text else "")

    def divide(self, text: str) -> None:
        """Add a line at the depth around the present block: `} else {`."""
        self._lines.append("  " * (self._depth - 1) + text)

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        """Indent what is added inside `head { ... }`."""
        self.add(f"{head} {{")
        self._depth += 1
        yield
        self._depth -= 1
        self.add("}")

    def text(self) -> str:
        """Return all lines."""
        return "\n".join(self._lines) + "\n"


def literal(value: int | float | bool, dtype: DType) -> str:
    """Return the shortest literal that has this type and value."""
    match dtype.kind:
        case "bool":
            return "1" if value else "0"
        case "int":
            v = int(value)
            if dtype.bits < 32:
                return f"(tc_i{dtype.bits}){v}"
            if v == -(1 << (dtype.bits - 1)):  # C has no literal for it: minus applies to 2^31
                return f"(tc_i{dtype.bits})({v + 1} - 1)"
            return str(v)
        case "uint":
            if dtype.bits < 32:
                return f"(tc_u{dtype.bits}){int(value)}"
            return f"{int(value)}{'u' if dtype.bits == 32 else 'ull'}"
        case "float":
            single = dtype.bits != 64
            if math.isnan(value):
                return "TC_NAN_F32" if single else "TC_NAN_F64"
            if math.isinf(value):
                sign = "-" if value < 0 else ""
                return sign + ("TC_INF_F32" if single else "TC_INF_F64")
            if not single:
                return repr(float(value))
            if abs(value) > _LARGEST_F32:
                return literal(math.copysign(math.inf, value), dtype)
            return f"{np.float32(value)!s}f"


def in_comment(text: str) -> str:
    """Return text that cannot end or open a comment."""
    return text.replace("*/", "* /").replace("/*", "/ *")
