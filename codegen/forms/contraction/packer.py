"""What a packer is made for: its parameters, the walk over its panels, addresses and vectors."""

from __future__ import annotations

from typing import Literal

from tcdsl.codegen.forms.contraction.register_tile import intrinsic
from tcdsl.codegen.forms.contraction.words import Word
from tcdsl.codegen.loops.build import (
    IntLike,
    assign,
    block,
    i64,
    loop,
    min64,
    mul,
    offset,
    pointer,
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
ROWS = 16  # copied for all panels before the next: their lines stay in the first level's sets


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


def in_panels(p: Packer, body: Stmt) -> Stmt:
    """Return body for every panel, columns j .. j + left."""
    j, left, packed, width = i64("j"), i64("left"), pointer("packed", p.dtype), i64("width")
    panel = block(
        Let(left, min64(width, sub(i64("count"), j))),
        body,
        assign(packed, offset(packed, mul(i64("depth"), left))),
    )
    return loop(j, 0, i64("count"), panel, step=width)


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
