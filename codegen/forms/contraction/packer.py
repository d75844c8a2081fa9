"""What a packer is made for: its parameters, the walk over its panels, addresses and vectors."""

from __future__ import annotations

from typing import Literal

from tcdsl.codegen.forms.contraction.register_tile import intrinsic
from tcdsl.codegen.forms.contraction.words import Word
from tcdsl.codegen.loops.build import (
    IntLike,
    assign,
    block,
    c64,
    compare,
    i64,
    loop,
    min64,
    mod,
    mul,
    offset,
    pointer,
    select,
    sub,
)
from tcdsl.codegen.loops.loopir import (
    I64,
    Eval,
    Expr,
    Let,
    Load,
    Mask,
    Pointer,
    Stmt,
    Var,
    Vector,
)
from tcdsl.grammar.text.dataclass import dataclass
from tcdsl.grammar.types.dtypes import INT64, DType

Unit = Literal["x", "k", "batch", "far_x", "far_k", "none"]
TABLE = Pointer(INT64, const=True)


@dataclass(frozen=True, slots=True)
class Packer:
    """What a packer is made for.

    unit: the direction in which the source has stride one, within a piece where that direction
    has a table; batch: across up to lanes matrices, which are packed together; far: along the
    outermost of the indices fused in that direction, which has a table. x_table, k_table:
    whether offsets come from a table, else from a stride. word: several steps along k are one
    element (`pack_words.py`).
    """

    source: DType
    dtype: DType
    lanes: int
    unit: Unit
    x_table: bool = False
    k_table: bool = False
    word: Word | None = None

    @property
    def vector(self) -> Vector:
        """The type of what is moved."""
        return Vector(self.dtype, self.lanes)

    @property
    def overlaps(self) -> bool:
        """Whether the end of a row is stored as a whole vector, which the next row overwrites.

        Where masks have no registers of their own: pieces of a vector are as many stores.
        """
        return self.lanes * self.dtype.size_bytes < 64

    @property
    def rows(self) -> int:
        """How many rows all panels get before the next.

        Rows that are a power of two apart share a set of the first level, and a panel takes parts
        of their lines: with 16 of them column-major `a` of 1024^3 took twice as long to pack.
        """
        return 8 if self.overlaps else 16

    @property
    def pairs(self) -> bool:
        """Whether two panels half a vector wide are packed together: those of 4x3 tiles."""
        return self.lanes * self.dtype.size_bytes == 32 and self.word is None


def packer_params(p: Packer) -> tuple[Var, ...]:
    """Return the parameters: source, where it goes, depth and count of the block, panel width.

    Of a batch: how far apart the packed blocks of neighbours are, and how many there are. Far:
    every how many steps of the fused index the outermost one makes one.
    """
    more: tuple[Var, ...] = ()
    if p.unit == "batch":
        more = i64("apart"), i64("batches")
    elif p.unit in ("far_x", "far_k"):
        more = (i64("every"),)
    return (
        pointer("source", p.source, const=True, restrict=True),
        Var("x_offset", TABLE) if p.x_table else i64("x_stride"),
        Var("k_offset", TABLE) if p.k_table else i64("k_stride"),
        pointer("packed", p.dtype, restrict=True),
        i64("depth"),
        i64("count"),
        i64("width"),
        *more,
    )


def in_panels(p: Packer, body: Stmt, pair: Stmt | None = None) -> Stmt:
    """Return body for every panel, columns j .. j + left.

    pair: the same for two panels of left columns that are a vector wide together, column x 0.
    """
    j, left, packed, width = i64("j"), i64("left"), pointer("packed", p.dtype), i64("width")
    count, paired = i64("count"), i64("paired")

    def by(columns: Expr) -> Stmt:
        return assign(packed, offset(packed, mul(i64("depth"), columns)))

    panel = block(Let(left, min64(width, sub(count, j))), body, by(left))
    if pair is None:
        return loop(j, 0, count, panel, step=width)
    both = c64(p.lanes)
    pairs = block(Let(left, c64(p.lanes // 2)), Let(i64("x"), c64(0)), pair, by(both))
    fits = compare("==", mul(width, 2), p.lanes)
    return block(
        Let(paired, select(fits, sub(count, mod(count, p.lanes)), c64(0))),
        loop(j, 0, paired, pairs, step=p.lanes),
        loop(j, paired, count, panel, step=width),
    )


def strips(p: Packer, body: Stmt) -> Stmt:
    """Return body for every strip of lanes, x its first column; the last one has a tail."""
    x, left = i64("x"), i64("left")
    tail = Let(Var("tail", Mask(p.dtype, p.lanes)), tail_of(p, sub(left, x)))
    return loop(x, 0, left, tail, body, step=p.lanes)


def packed_at(p: Packer) -> Var:
    """Return where the panel at hand goes."""
    return pointer("packed", p.dtype)


def along_x(p: Packer, x: Expr) -> Expr:
    """Return the offset of a column."""
    if p.x_table:
        return Load(Var("x_offset", TABLE), x, I64)
    return x if p.unit == "x" else mul(x, i64("x_stride"))


def along_k(p: Packer, k: Expr) -> Expr:
    """Return the offset of a row."""
    if p.k_table:
        return Load(Var("k_offset", TABLE), k, I64)
    return k if p.unit == "k" else mul(k, i64("k_stride"))


def tail_of(p: Packer, left: IntLike) -> Expr:
    """Return the mask of the first lanes, so many."""
    return intrinsic("tc_tail", p.vector, left, type=Mask(p.dtype, p.lanes))


def load_lanes(p: Packer, at: Expr, mask: str = "tail") -> Expr:
    """Return the lanes at a place that a mask has."""
    m = Var(mask, Mask(p.dtype, p.lanes))
    return intrinsic("tc_loadm", p.vector, at, m, type=p.vector, stored=p.source)


def move_vector(p: Packer, to: Expr, at: Expr) -> Stmt:
    """Return the copy of a whole vector."""
    value = intrinsic("tc_load", p.vector, at, type=p.vector, stored=p.source)
    return Eval(intrinsic("tc_store", p.vector, to, value))


def store_lanes(p: Packer, at: Expr, value: Expr) -> Stmt:
    """Return the store of the first lanes, those that the mask `tail` has."""
    tail = Var("tail", Mask(p.dtype, p.lanes))
    return Eval(intrinsic("tc_storet", p.vector, at, tail, value))


def store_vector(p: Packer, at: Expr, value: Expr) -> Stmt:
    """Return the store of all lanes."""
    return Eval(intrinsic("tc_store", p.vector, at, value))


def store_pair(p: Packer, at: Expr, value: Expr) -> Stmt:
    """Return the store of half a vector in a panel, of the other half in the next one."""
    behind = offset(at, mul(i64("depth"), i64("left")))
    return Eval(intrinsic("tc_split", p.vector, at, behind, value))
