"""Squares turned around in registers: vectors of an operand or of finished sums, side by side."""

from __future__ import annotations

from collections.abc import Callable

from tcdsl.codegen.forms.contraction.packer import (
    TABLE,
    Packer,
    along_x,
    load_lanes,
    store_lanes,
    store_vector,
    tail_of,
)
from tcdsl.codegen.forms.contraction.register_tile import intrinsic
from tcdsl.codegen.loops.build import (
    add,
    assign,
    block,
    compare,
    i64,
    loop,
    min64,
    mul,
    offset,
    pointer,
    sub,
    when,
)
from tcdsl.codegen.loops.loopir import (
    I64,
    Array,
    Elem,
    Eval,
    Expr,
    Function,
    If,
    Let,
    Load,
    Mask,
    Pointer,
    Stmt,
    Unroll,
    Var,
)
from tcdsl.grammar.types.dtypes import DType


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


Put = Callable[[Packer, Expr, Expr], Stmt]


def square_to(
    p: Packer,
    at: Expr,
    mask: str,
    rows: Expr,
    first: Expr,
    apart: Expr,
    put: Put = store_lanes,
    whole: Expr | None = None,
) -> Stmt:
    """Return the way of the vector at at of every column, turned around: rows to first, apart."""

    def fetch(column: Expr) -> Expr:
        return load_lanes(p, offset(column, at), mask)

    return turned(p, fetch, rows, first, apart, put, whole)


def turned(
    p: Packer,
    fetch: Callable[[Expr], Expr],
    rows: Expr,
    first: Expr,
    apart: Expr,
    put: Put = store_lanes,
    whole: Expr | None = None,
) -> Stmt:
    """Return the way of a vector of every column, fetched, turned around: rows to first, apart.

    whole: when all rows are stored as whole vectors, put does it else.
    """
    i = i64("i")
    square, to = Elem("square", (i,), p.vector), pointer("to", p.dtype)

    def rows_by(put: Put, *, all_rows: bool) -> Stmt:
        row = put(p, to, square)
        if not all_rows:
            row = when(compare("<", i, rows), row)
        return loop(i, 0, p.lanes, row, assign(to, offset(to, apart)), mark=Unroll())

    out = rows_by(put, all_rows=False)
    if whole is not None:
        out = If(whole, rows_by(store_vector, all_rows=True), out)
    return block(
        Array("square", p.vector, (p.lanes,)),
        loop(i, 0, p.lanes, assign(square, fetch(column_of(p))), mark=Unroll()),
        Eval(intrinsic("tc_transpose", p.vector, Var("square", p.vector))),
        Let(to, first, mutable=True),
        out,
    )


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
        loop(i, 0, lanes, assign(square, load_lanes(p, offset(stage, held))), mark=Unroll()),
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
