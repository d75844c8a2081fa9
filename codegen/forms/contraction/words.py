"""Words: panels whose elements hold several steps along k, for instructions that take them at once.

    acc[r][v] += sum_i a[r][count * k + i] * b[count * k + i][v]        i < count, once per word

A word has 32 bits, as an accumulator has: two int16 or halves, or four bytes, the first step
lowest. To the schedule a word is a step, and the sum is so much shorter. Sums of integers wrap, so
that words give the bits that single products give.

The instruction for bytes takes unsigned ones by signed ones. Where both are signed, a has 128
added, and a panel of b begins with a row of what that is too much: -128 times its columns' sums.

Where the processor has tiles, registers of 16 rows of 16 words (AMX), their products are another
kind of words (`is_tiled`): b is packed as it is for the others, rows of a run along k, where they
lie or packed so, and a micro-kernel of 32 rows by 32 columns is the prelude's (`tiles.h`). Bytes of
any signs are taken as they are.

The instructions for bfloat16 take float32 numbers below 2^-126 for zero: factors, products, sums.
None occurs where factors are zero or have exponents, as they are stored, of 1 and more that give
`LEAST_EXPONENTS` together: products then are multiples of 2^-126, the last bits of factors being
2^-7 of them or more, and so are sums, rounded or not. So packed blocks are looked through, and a
pass over blocks with smaller ones widens its words as it goes (flag `WIDENS` of micro-kernels).
Sums that a pass begins with may be no such multiples, where one before it widened or where they
are the caller's: micro-kernels of pairs add them behind the pass, those of tiles look at them.

Those for float16 take its denormal factors as they are. Products are multiples of 2^-48 and lose
nothing, nor do sums; only what a pass begins with may be below 2^-126, and is looked at.
"""

from __future__ import annotations

from tcdsl.codegen.machine.cpu import Machine
from tcdsl.grammar.text.dataclass import dataclass
from tcdsl.grammar.types.dtypes import BFLOAT16, FLOAT16, FLOAT32, INT8, INT16, INT32, UINT8, DType

BYTES, BFLOATS = "bytes", "bfloat16"  # in `Machine.dots`: quads of bytes, pairs of bfloat16
TILES, FLOAT16_TILES = "tiles", "float16 tiles"  # in `Machine.dots`: tiles of either; of float16
TILE = 16  # rows, columns and words of a tile
TILED_PASS = 256  # words along k of which a panel of 32 columns stays in the first level
TILED_ROWS = TILED_COLUMNS = 2 * TILE  # of a micro-kernel
LEAST_OF_ZEROS = 511  # what a look at words finds where all are zero
LEAST_EXPONENTS = 2 * 127 + 2 * 7 - 126  # twice the bias, the bits after the point, the least


@dataclass(frozen=True, slots=True)
class Word:
    """The words of one operand: count steps along k, each of so many bits.

    flips: 128 is added to signed bytes. starts: a panel begins with the row that takes it away.
    by_rows: they lie by rows along k, not by panels.
    """

    count: int
    flips: bool = False
    starts: bool = False
    by_rows: bool = False

    @property
    def name(self) -> str:
        """What is told of it in names of packers."""
        rows = "_rows" * self.by_rows
        return f"x{self.count}{'_flipped' * self.flips}{'_started' * self.starts}{rows}"


@dataclass(frozen=True, slots=True)
class Words:
    """Words of a product: its function in `words.h`, how many steps, whether a is flipped.

    widening: the function for words with numbers that the other one takes for zero, if there are.
    is_tiled: the function is one of `tiles.h`, which has all of a micro-kernel.
    """

    function: str
    count: int
    flips: bool = False
    widening: str | None = None
    is_tiled: bool = False

    @property
    def choice(self) -> int:
        """What it is called among the choices: the steps that an instruction takes of a row."""
        return self.count * TILE if self.is_tiled else self.count

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
        flips, starts = (self.flips and name == x for x in "ab")
        return Word(self.count, flips, starts, self.is_tiled and name == "a")


_TILED_BFLOATS = Words("tiled2bf", 2, widening="tiled2bf", is_tiled=True)
_TILED_FLOAT16 = Words("tiled2f16", 2, is_tiled=True)
_TILED_BYTES = {
    (a, b): Words(f"tiled4{x}{y}", 4, is_tiled=True)
    for a, x in ((INT8, "s"), (UINT8, "u"))
    for b, y in ((INT8, "s"), (UINT8, "u"))
}
ALL = (
    Words("dot2", 2),
    Words("dot2bf", 2, widening="wide2bf"),
    Words("dot4su", 4),
    Words("dot4us", 4),
    Words("dot4su", 4, flips=True),
    _TILED_BFLOATS,
    _TILED_FLOAT16,
    *_TILED_BYTES.values(),
)


def words_of(machine: Machine, a: DType, b: DType, dtype: DType) -> tuple[Words, ...]:
    """Return the words that a product of stored types, summed in dtype, may be made of.

    The longest first.
    """
    has_tiles = TILES in machine.dots
    if dtype == FLOAT32 and a == b == BFLOAT16:
        pairs = (Words("dot2bf", 2, widening="wide2bf"),) * (BFLOATS in machine.dots)
        return (*(_TILED_BFLOATS,) * has_tiles, *pairs)
    if dtype == FLOAT32 and a == b == FLOAT16:
        return (_TILED_FLOAT16,) * (FLOAT16_TILES in machine.dots)
    if dtype != INT32 or not {a, b} <= {INT8, UINT8, INT16}:
        return ()
    quads = {
        (INT8, INT8): Words("dot4su", 4, flips=True),
        (UINT8, INT8): Words("dot4su", 4),
        (INT8, UINT8): Words("dot4us", 4),
    }
    has_quads = BYTES in machine.dots and (a, b) in quads
    tiled = [_TILED_BYTES[a, b]] if has_tiles and (a, b) in _TILED_BYTES else []
    return (*tiled, *([quads[a, b]] if has_quads else []), Words("dot2", 2))
