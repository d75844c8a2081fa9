"""A register tile: its shape, its vectors, how it walks its operands and what it is told."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, Protocol

from tcdsl.codegen.forms.contraction.words import Words
from tcdsl.codegen.loops.build import (
    IntLike,
    assign,
    c64,
    call,
    i64,
    loop,
    sub,
)
from tcdsl.codegen.loops.loopir import (
    Call,
    Elem,
    Eval,
    Expr,
    Let,
    Load,
    Mask,
    Stmt,
    Type,
    Unroll,
    Var,
    Vector,
)
from tcdsl.codegen.loops.target import short_name
from tcdsl.codegen.machine.cpu import LINE
from tcdsl.grammar.text.dataclass import dataclass
from tcdsl.grammar.types.dtypes import INT32, DType

# Bits of the flag word: start from zero; apply the epilogue; words hold what has to be widened; the
# output is far away, so that its lines are fetched however few steps they have; no cache holds it,
# so that whole lines are stored past them; what lies behind a line of b may be read.
FIRST, LAST, WIDENS, FAR, PAST, BEHIND = 1, 2, 4, 8, 16, 32

# How the last vector of a line of b is loaded: by a mask; as the others, as the tile has whole
# vectors or b is packed; that way if a flag or the number of columns, or that alone, allows it.
Reads = Literal["by mask", "whole", "by flag", "by columns"]

# Rows are addressed from one pointer per group of four, at 0, s, 2s (scaled indices of the
# machine) and 3s: few enough integer registers for any tile.
ROW_GROUP = 4

BUSY = 12  # accumulators from which on a step keeps all FMA units busy
SPARE = 2  # registers that two steps together may take more than one


@dataclass(frozen=True, slots=True)
class RegisterTile:
    """Shape of a register tile: rows x vectors of lanes elements.

    words: a and b hold words, of which the tile adds several products at once. pairs: two steps
    along k follow each other without a jump. reads: how lines of b are.
    """

    rows: int
    vectors: int
    lanes: int
    dtype: DType
    words: Words | None = None
    pairs: bool = False
    reads: Reads = "by mask"

    @property
    def factor(self) -> DType:
        """The type of elements of a and b."""
        return self.dtype if self.words is None else INT32

    @property
    def columns(self) -> int:
        """Columns of a full tile."""
        return self.vectors * self.lanes

    @property
    def vector(self) -> Vector:
        """The type of an accumulator."""
        return Vector(self.dtype, self.lanes)

    @property
    def mask(self) -> Mask:
        """The type of the last vector's mask."""
        return Mask(self.dtype, self.lanes)


@dataclass(frozen=True, slots=True)
class Strides:
    """Element strides of a micro-kernel: constants, or None for a parameter.

    A k stride "table" is a parameter that points to the offset of every k, for operands in which
    the reduction indices do not fuse into one. ahead: b comes from afar, row by row: the lines
    behind a tile's columns are fetched for the next panel. rows_ahead: a comes from afar, its rows
    run along k: the lines of the next tile's rows are fetched, of each step a few. asks: how far
    ahead those of its letters are fetched are parameters, 0 for not at all. has_base: sums go on
    from what lies at a base, which is the output or an operand, by the base's own stride of rows.
    reads: how lines of b are.
    """

    a_row: int | None = None
    a_k: int | str | None = None
    b_k: int | str | None = None
    c_row: int | None = None
    ahead: bool = False
    rows_ahead: bool = False
    asks: Literal["", "b", "ab"] = ""
    has_base: bool = False
    reads: Reads = "by mask"


def has_cheap_masks(lanes: int, dtype: DType) -> bool:
    """Whether a vector under a mask is loaded as fast as a whole one: those of 64 bytes are.

    Zen 1 and 2 take twice as long for a register tile with one such load a step, others less; where
    there are no masks at all it is a load for each lane.
    """
    return lanes * dtype.size_bytes >= LINE


def pairs_steps(shares: bool, registers: int, rows: int, vectors: int) -> bool:
    """Return whether a tile takes steps along k by twos. shares: `Machine.shares_ports`.

    Counters and addresses take turns with FMAs where ports are shared: 1024^3 took 8 % longer step
    by step. A compiler that orders two steps keeps a register or two more; tiles of few
    accumulators wait for FMAs anyway.
    """
    accumulators = rows * vectors
    is_busy = accumulators >= BUSY
    return shares and is_busy and accumulators + vectors + 1 + SPARE <= registers


class Epilogue(Protocol):
    """What happens to a finished tile on its way out."""

    @property
    def params(self) -> tuple[Var, ...]:
        """What the micro-kernel takes for it."""

    @property
    def is_plain(self) -> bool:
        """Whether it changes nothing."""

    @property
    def is_vector(self) -> bool:
        """Whether `vector` can be used, else `element`."""

    def far(self, r: Expr, column: Expr) -> Sequence[Expr]:
        """Return where it reaches memory for a row of the tile, from a column on."""

    def vector(self, tile: RegisterTile, r: Expr, v: Expr, masked: bool) -> Sequence[Stmt]:
        """Return the change of acc[r][v] in place, and stores to further outputs."""

    def element(self, r: Expr, x: Var, total: Expr, to: Load, stored: DType) -> Stmt:
        """Return the way of column x of row r, whose sum is total, to its place."""


class Plain:
    """The epilogue that changes nothing."""

    params: tuple[Var, ...] = ()
    is_plain = is_vector = True

    def far(self, r: Expr, column: Expr) -> Sequence[Expr]:
        """Return no place."""
        return ()

    def vector(self, tile: RegisterTile, r: Expr, v: Expr, masked: bool) -> Sequence[Stmt]:
        """Return nothing to do."""
        return ()

    def element(self, r: Expr, x: Var, total: Expr, to: Load, stored: DType) -> Stmt:
        """Return the store."""
        return assign(to, total)


def intrinsic(
    name: str,
    vector: Vector,
    *args: IntLike,
    type: Type | None = None,
    stored: DType | None = None,
) -> Call:
    """Return the prelude function of a vector type: tc_load becomes tc_load_v16f32.

    stored: the type in memory: of a half or a narrower integer it is tc_load_v16f32_bf16.
    """
    kinds = [f"v{vector.lanes}{short_name(vector.dtype)}"]
    if stored is not None and stored != vector.dtype and (stored.is_half or stored.is_integer):
        kinds.append(short_name(stored))
    return call("_".join((name, *kinds)), *args, type=type)


def tail_mask(tile: RegisterTile, columns: Expr) -> Stmt:
    """Return the declaration of the last vector's mask."""
    left = sub(columns, (tile.vectors - 1) * tile.lanes)
    return Let(Var("tail", tile.mask), intrinsic("tc_tail", tile.vector, left, type=tile.mask))


def load_vector(tile: RegisterTile, p: Expr, *, masked: bool, stored: DType | None = None) -> Expr:
    """Return the vector at p, halves widened; beyond the last column nothing is read."""
    args = (p, Var("tail", tile.mask)) if masked else (p,)
    return intrinsic(
        "tc_loadm" if masked else "tc_load", tile.vector, *args, type=tile.vector, stored=stored
    )


def store_vector(
    tile: RegisterTile, p: Expr, value: Expr, *, masked: bool, stored: DType | None = None
) -> Stmt:
    """Return the store of a vector at p, rounded to halves; nothing beyond the last column."""
    args = (p, Var("tail", tile.mask), value) if masked else (p, value)
    is_own = stored is None or stored == tile.dtype  # others are narrowed before
    name = ("tc_storet" if is_own else "tc_storem") if masked else "tc_store"
    return Eval(intrinsic(name, tile.vector, *args, stored=stored))


def has_lines(tile: RegisterTile, stored: DType) -> bool:
    """Return whether a row of a full tile is whole lines, which may be stored past the caches."""
    return stored == tile.dtype and tile.columns * stored.size_bytes % LINE == 0


def stream_vector(tile: RegisterTile, p: Expr, value: Expr) -> Stmt:
    """Return the store of a vector at p, aligned, past the caches."""
    return Eval(intrinsic("tc_stream", tile.vector, p, value))


def each_vector(tile: RegisterTile, body: Callable[[Expr, bool], Sequence[Stmt]]) -> list[Stmt]:
    """Return body(v, masked) for all vectors of a row, the last one (masked) apart."""
    last = tile.vectors - 1
    out: list[Stmt] = []
    if last == 1:
        out.extend(body(c64(0), False))
    elif last > 1:
        v = i64("v")
        out.append(loop(v, 0, last, body(v, False), mark=Unroll()))
    out.extend(body(c64(last), True))
    return out


def accumulator(tile: RegisterTile, r: Expr, v: Expr) -> Elem:
    """Return acc[r][v]."""
    return Elem("acc", (r, v), tile.vector)
