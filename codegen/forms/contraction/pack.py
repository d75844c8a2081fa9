"""Packing: an operand's block as panels that a micro-kernel walks with unit strides.

    packed[panel][k][x] = source[panel * width + x][k]        x < min(width, what is left)

One function serves both operands: x runs along the vectors of `b` or the rows of `a`. Where the
source has unit stride along x, vectors are copied, a few rows for all panels before the next; along
k, squares are turned around in registers; along a batch, neighbours are packed together, the
squares being columns by neighbours. Where only the outermost of fused indices has stride one, its
vectors are turned around and laid down as far apart as its steps are; else elements are gathered.
Offsets along a fused index that is
not linear come from tables; every block of lanes then asks its table whether it lies in one piece.
Half types are widened on the way.

All panels get their 16 rows before the next 16: a panel of `a` is 6 elements wide, and packed by
itself it would read every line once for each of its parts (column-major `a` of 1024^3: 8 % of the
time of the whole product). So it is with elements, whose neighbours belong to panels further on.

Operands whose batch is the innermost dimension, time over C order (1 thread, Cascade Lake,
`benchmarks/sizes.py`): 64x(128x128x128) with one or both factors so 1.2 to 1.3 (matrix by matrix
1.8 to 5.3), 500x(26x72x26) 1.4 to 1.8 (1.5 to 7.2), all three arrays so 2.1. On a machine whose
memory is idle 500x(26x72x26) takes 2.6 with both factors so and 3.5 with all three: there vectors
along the batch, with nothing to turn around, would be better.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from tcdsl.codegen.forms.contraction.kernel import intrinsic
from tcdsl.codegen.forms.contraction.words import Word
from tcdsl.codegen.loops.build import (
    IntLike,
    add,
    assign,
    block,
    c64,
    cast,
    compare,
    i64,
    load,
    loop,
    min64,
    mod,
    mul,
    offset,
    pointer,
    sub,
    when,
)
from tcdsl.codegen.loops.loopir import (
    I64,
    Array,
    Bin,
    Call,
    Elem,
    Eval,
    Expr,
    Function,
    If,
    Let,
    Load,
    Mask,
    Pointer,
    Simd,
    Stmt,
    Unroll,
    Var,
    Vector,
)
from tcdsl.codegen.loops.target import short_name
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


def packer(name: str, p: Packer) -> Function:
    """Return the function that packs a block."""
    packed, end, depth = pointer("packed", p.dtype), i64("end"), i64("depth")
    panels = in_panels(p, _panel(p))
    if not (p.unit == "none" or (p.unit == "x" and not p.x_table)):
        return Function(name, packer_params(p), panels, "helper")
    first = pointer("first", p.dtype)
    strip = block(Let(end, min64(add(i64("row"), ROWS), depth)), assign(packed, first), panels)
    body = block(Let(first, packed), loop(i64("row"), 0, depth, strip, step=ROWS))
    return Function(name, packer_params(p), body, "helper")


def in_panels(p: Packer, body: Stmt) -> Stmt:
    """Return body for every panel, columns j .. j + left."""
    j, left, packed, width = i64("j"), i64("left"), pointer("packed", p.dtype), i64("width")
    panel = block(
        Let(left, min64(width, sub(i64("count"), j))),
        body,
        assign(packed, offset(packed, mul(i64("depth"), left))),
    )
    return loop(j, 0, i64("count"), panel, step=width)


def _panel(p: Packer) -> Stmt:
    """Return the packing of columns j .. j + left."""
    match p.unit:
        case "none":
            return _gather(p, i64("row"), i64("end"), c64(0), i64("left"))
        case "x" if not p.x_table:
            return _copy(p)
        case "x":
            return strips(p, _copy_pieces(p))
        case "k":
            return strips(p, _turn(p))
        case "batch":
            return strips(p, _spread(p))
        case _:
            raise AssertionError(f"{p.unit} is packed by pack_far.py")


def strips(p: Packer, body: Stmt) -> Stmt:
    """Return body for every strip of lanes, x its first column; the last one has a tail."""
    x, left = i64("x"), i64("left")
    tail = Let(Var("tail", Mask(p.dtype, p.lanes)), tail_of(p, sub(left, x)))
    return loop(x, 0, left, tail, body, step=p.lanes)


def _copy(p: Packer) -> Stmt:
    """Return the copy of rows row .. end of a panel, each of them contiguous."""
    k, x, left, whole = i64("k"), i64("x"), i64("left"), i64("whole")
    line, to = pointer("line", p.source, const=True), pointer("to", p.dtype)
    return block(
        Let(whole, sub(left, mod(left, p.lanes))),
        Let(Var("tail", Mask(p.dtype, p.lanes)), tail_of(p, sub(left, whole))),
        loop(
            k,
            i64("row"),
            i64("end"),
            Let(
                line, offset(pointer("source", p.source, const=True), add(i64("j"), along_k(p, k)))
            ),
            Let(to, offset(packed_at(p), mul(k, left))),
            loop(x, 0, whole, _move(p, offset(to, x), offset(line, x)), step=p.lanes),
            when(
                compare("<", whole, left),
                _store_first(p, offset(to, whole), _load(p, offset(line, whole))),
            ),
        ),
    )


def _copy_pieces(p: Packer) -> Stmt:
    """Return the copy of a strip whose columns are contiguous if its table says so."""
    k, x, left = i64("k"), i64("x"), i64("left")
    first = add(i64("j"), x)
    source = pointer("source", p.source, const=True)
    moved = _load(p, offset(source, add(along_x(p, first), along_k(p, k))))
    copy = loop(
        k, 0, i64("depth"), _store_first(p, offset(packed_at(p), add(mul(k, left), x)), moved)
    )
    gather = _gather(p, c64(0), i64("depth"), x, min64(add(x, p.lanes), left))
    end = min64(add(first, p.lanes), i64("count"))
    return _if_in_one_piece(Var("x_offset", TABLE), first, end, copy, gather)


def _if_in_one_piece(table: Var, first: Expr, end: Expr, then: Stmt, other: Stmt) -> Stmt:
    """Return then where the offsets first .. end follow each other, else other.

    Each is asked: they need not rise, so that the last may be as far from the first as in one piece
    and others elsewhere.
    """
    i, jumps, low = i64("i"), i64("jumps"), i64("low")
    jump = sub(Load(table, add(first, i), I64), add(low, i))
    asked = loop(
        i,
        1,
        sub(end, first),
        assign(jumps, Bin("|", jumps, jump, I64)),
        mark=Simd((("|", "jumps"),)),
    )
    return block(
        Let(low, Load(table, first, I64)),
        Let(jumps, c64(0), mutable=True),
        asked,
        If(compare("==", jumps, 0), then, other),
    )


def columns(p: Packer) -> Stmt:
    """Return the addresses of a strip's columns; those beyond the last repeat it."""
    i, last = i64("i"), sub(i64("count"), 1)
    at = along_x(p, min64(add(i64("j"), i64("x"), i), last))
    source = offset(pointer("source", p.source, const=True), at)
    return block(
        Array("column", Pointer(p.source, const=True), (p.lanes,)),
        loop(i, 0, p.lanes, assign(column_of(p), source), mark=Unroll()),
    )


def column_of(p: Packer) -> Elem:
    """Return the address of column i of a strip."""
    return Elem("column", (i64("i"),), Pointer(p.source, const=True))


def square_to(p: Packer, at: Expr, mask: str, rows: Expr, first: Expr, apart: Expr) -> Stmt:
    """Return the way of the vector at at of every column, turned around: rows to first, apart."""
    return turned(p, lambda column: _load(p, offset(column, at), mask), rows, first, apart)


def turned(p: Packer, fetch: Callable[[Expr], Expr], rows: Expr, first: Expr, apart: Expr) -> Stmt:
    """Return the way of a vector of every column, fetched, turned around: rows to first, apart."""
    i = i64("i")
    square, to = Elem("square", (i,), p.vector), pointer("to", p.dtype)
    return block(
        Array("square", p.vector, (p.lanes,)),
        loop(i, 0, p.lanes, assign(square, fetch(column_of(p))), mark=Unroll()),
        Eval(intrinsic("tc_transpose", p.vector, Var("square", p.vector))),
        Let(to, first, mutable=True),
        loop(
            i,
            0,
            p.lanes,
            when(compare("<", i, rows), _store_first(p, to, square)),
            assign(to, offset(to, apart)),
            mark=Unroll(),
        ),
    )


def _turn(p: Packer) -> Stmt:
    """Return the transposition of a strip whose columns are vectors in memory."""
    k, x, left, depth = i64("k"), i64("x"), i64("left"), i64("depth")
    first = offset(packed_at(p), add(mul(k, left), x))
    turn = block(
        Let(Var("deep", Mask(p.dtype, p.lanes)), tail_of(p, sub(depth, k))),
        square_to(p, along_k(p, k), "deep", min64(p.lanes, sub(depth, k)), first, left),
    )
    if p.k_table:
        end = min64(add(k, p.lanes), depth)
        gather = _gather(p, k, end, x, min64(add(x, p.lanes), left))
        turn = _if_in_one_piece(Var("k_offset", TABLE), k, end, turn, gather)
    return block(columns(p), loop(k, 0, depth, turn, step=p.lanes))


def _spread(p: Packer) -> Stmt:
    """Return the packing of a strip of neighbours, whose elements are vectors in memory."""
    k, batches = i64("k"), i64("batches")
    first = offset(packed_at(p), add(mul(k, i64("left")), i64("x")))
    return block(
        Let(Var("some", Mask(p.dtype, p.lanes)), tail_of(p, batches)),
        columns(p),
        loop(k, 0, i64("depth"), square_to(p, along_k(p, k), "some", batches, first, i64("apart"))),
    )


def _gather(p: Packer, k_low: Expr, k_high: Expr, x_low: Expr, x_high: Expr) -> Stmt:
    """Return the packing of single elements, panel columns x_low .. x_high."""
    y, z = i64("y"), i64("z")
    source = pointer("source", p.source, const=True)
    at = add(along_x(p, add(i64("j"), z)), along_k(p, y))
    to = load(packed_at(p), add(mul(y, i64("left")), z))
    value: Expr = load(source, at)
    if p.source.is_integer:
        value = cast(value, to.type)
    elif p.source != p.dtype:
        name = f"tc_{short_name(p.source)}_{short_name(p.dtype)}"
        value = Call(name, (value,), to.type)
    return loop(y, k_low, k_high, loop(z, x_low, x_high, assign(to, value)))


def joiner(name: str, stored: DType, dtype: DType, lanes: int, *, table: bool = False) -> Function:
    """Return the function that stores finished blocks of neighbours inside each other.

    to[m][n][batch] = stage[batch][m][n], in squares of columns by neighbours. table: offsets of
    columns come from a table, else from a stride.
    """
    p = Packer(dtype, dtype, lanes, "batch")
    m, n, i = i64("m"), i64("n"), i64("i")
    stage, to = pointer("stage", dtype, const=True, restrict=True), pointer("to", stored)
    left, batches = sub(i64("columns"), n), i64("batches")
    mask = Mask(dtype, lanes)
    square = Elem("square", (i,), p.vector)
    held = add(mul(i, i64("apart")), mul(m, i64("line")), n)
    column: Expr = mul(add(n, i), i64("n_stride"))
    if table:
        column = Load(Var("n_offset", TABLE), add(n, i), I64)
    place = offset(to, add(mul(m, i64("m_stride")), column))
    out = intrinsic("tc_storem", p.vector, place, Var("some", mask), square, stored=stored)
    turn = block(
        Let(Var("tail", mask), tail_of(p, left)),
        Array("square", p.vector, (lanes,)),
        loop(i, 0, lanes, assign(square, _load(p, offset(stage, held))), mark=Unroll()),
        Eval(intrinsic("tc_transpose", p.vector, Var("square", p.vector))),
        loop(i, 0, lanes, when(compare("<", i, left), Eval(out)), mark=Unroll()),
    )
    body = block(
        Let(Var("some", mask), tail_of(p, batches)),
        loop(m, 0, i64("rows"), loop(n, 0, i64("columns"), turn, step=lanes)),
    )
    columns = Var("n_offset", TABLE) if table else i64("n_stride")
    counts = map(i64, ("rows", "columns", "batches"))
    params = (stage, i64("apart"), i64("line"), to, i64("m_stride"), columns, *counts)
    return Function(name, params, body, "helper")


# ---- addresses and vectors


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


def _load(p: Packer, at: Expr, mask: str = "tail") -> Expr:
    m = Var(mask, Mask(p.dtype, p.lanes))
    return intrinsic("tc_loadm", p.vector, at, m, type=p.vector, stored=p.source)


def _move(p: Packer, to: Expr, at: Expr) -> Stmt:
    """Return the copy of a whole vector."""
    value = intrinsic("tc_load", p.vector, at, type=p.vector, stored=p.source)
    return Eval(intrinsic("tc_store", p.vector, to, value))


def _store_first(p: Packer, at: Expr, value: Expr) -> Stmt:
    """Return the store of the first lanes, those that the mask `tail` has."""
    tail = Var("tail", Mask(p.dtype, p.lanes))
    return Eval(intrinsic("tc_storet", p.vector, at, tail, value))


# ---- offset tables


def fill_table(table: Var, extents: tuple[Expr, ...], strides: tuple[Expr, ...]) -> Stmt:
    """Return table[flat position] = offset, for indices fused outer to inner."""
    at = Var(f"{table.name}_at", I64)
    names = [i64(f"i{d}") for d in range(len(extents))]
    body: Stmt = block(
        assign(load(table, at), add(*(mul(i, s) for i, s in zip(names, strides, strict=True)))),
        assign(at, add(at, 1)),
    )
    for i, extent in reversed(list(zip(names, extents, strict=True))):
        body = loop(i, 0, extent, body)
    return block(Let(at, c64(0), mutable=True), body)
