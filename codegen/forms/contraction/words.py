"""Words: panels whose elements hold several steps along k, for instructions that take them at once.

    acc[r][v] += sum_i a[r][count * k + i] * b[count * k + i][v]        i < count, once per word

A word has 32 bits, as an accumulator has: two int16 or bfloat16, or four bytes, the first step
lowest. To the schedule a word is a step, and the sum is so much shorter. Sums of integers wrap, so
that words give the bits that single products give.

The instruction for bytes takes unsigned ones by signed ones. Where both are signed, a has 128
added, and a panel of b begins with a row of what that is too much: -128 times its columns' sums.

The instruction for bfloat16 takes float32 numbers below 2^-126 for zero: factors, products, sums.
None occurs where factors are zero or have exponents, as they are stored, of 1 and more that give
`LEAST_EXPONENTS` together: products then are multiples of 2^-126, the last bits of factors being
2^-7 of them or more, and so are sums, rounded or not. So packed blocks are looked through, and a
pass over blocks with smaller ones widens its words as it goes (flag `WIDENS` of micro-kernels).
"""

from __future__ import annotations

from tcdsl.codegen.machine.cpu import Machine
from tcdsl.grammar.text.dataclass import dataclass
from tcdsl.grammar.types.dtypes import BFLOAT16, FLOAT32, INT8, INT16, INT32, UINT8, DType

BYTES, BFLOATS = "bytes", "bfloat16"  # in `Machine.dots`: quads of bytes, pairs of bfloat16
LEAST_EXPONENTS = 2 * 127 + 2 * 7 - 126  # twice the bias, the bits after the point, the least


@dataclass(frozen=True, slots=True)
class Word:
    """The words of one operand: count steps along k, each of so many bits.

    flips: 128 is added to signed bytes. starts: a panel begins with the row that takes it away.
    """

    count: int
    flips: bool = False
    starts: bool = False

    @property
    def name(self) -> str:
        """What is told of it in names of packers."""
        return f"x{self.count}{'_flipped' * self.flips}{'_started' * self.starts}"


@dataclass(frozen=True, slots=True)
class Words:
    """Words of a product: its function in `words.h`, how many steps, whether a is flipped.

    widening: the function for words with numbers that the other one takes for zero, if there are.
    """

    function: str
    count: int
    flips: bool = False
    widening: str | None = None

    @property
    def name(self) -> str:
        """What is told of it in names of register tiles."""
        return self.function + "_started" * self.flips

    @property
    def starts(self) -> int:
        """Rows that a panel of b begins with, to start sums from."""
        return int(self.flips)

    def of(self, name: str) -> Word:
        """Return the words of an operand, "a" or "b"."""
        return Word(self.count, *(self.flips and name == x for x in "ab"))


ALL = (
    Words("dot2", 2),
    Words("dot2bf", 2, widening="wide2bf"),
    Words("dot4su", 4),
    Words("dot4us", 4),
    Words("dot4su", 4, flips=True),
)


def words_of(machine: Machine, a: DType, b: DType, dtype: DType) -> tuple[Words, ...]:
    """Return the words that a product of stored types, summed in dtype, may be made of.

    The longest first.
    """
    if dtype == FLOAT32 and a == b == BFLOAT16 and BFLOATS in machine.dots:
        return (Words("dot2bf", 2, widening="wide2bf"),)
    if dtype != INT32 or not {a, b} <= {INT8, UINT8, INT16}:
        return ()
    quads = {
        (INT8, INT8): Words("dot4su", 4, flips=True),
        (UINT8, INT8): Words("dot4su", 4),
        (INT8, UINT8): Words("dot4us", 4),
    }
    has_quads = BYTES in machine.dots and (a, b) in quads
    return (*([quads[a, b]] if has_quads else []), Words("dot2", 2))
