"""From the sums of groups to the output: added in the order of the groups, turned around.

Sums have columns along vectors. Where the rows of the output are contiguous, squares are turned
around in registers; where its columns are, vectors are stored as they are; else element by element.
A single group stores its block at once, else there is a second phase.
"""

from __future__ import annotations

from collections.abc import Mapping

from tcdsl.codegen.forms.contraction.problem import ONE
from tcdsl.codegen.forms.contraction.register_tile import (
    RegisterTile,
    intrinsic,
    load_vector,
    store_vector,
    tail_mask,
)
from tcdsl.codegen.forms.contraction.weights.nest import Nest
from tcdsl.codegen.loops import build as b
from tcdsl.codegen.loops.loopir import (
    Array,
    Assign,
    Elem,
    Eval,
    Expr,
    Function,
    Let,
    Return,
    Scalar,
    Stmt,
    Unroll,
    Var,
)
from tcdsl.grammar.types.dtypes import INT32

_ROWS = 64  # of a task: whole vectors


def finish_tasks(nest: Nest) -> Expr:
    """Return the number of tasks: blocks of sums in pieces of some rows."""
    return b.mul(nest.blocks, b.ceil_div(nest.row_count, _ROWS))


def finish_phase(nest: Nest) -> Function:
    """Return the phase that stores the output."""
    p = nest.problem
    pieces = b.ceil_div(nest.row_count, _ROWS)
    task, low, high, panel = (nest.var(n) for n in ("task", "low", "high", "panel"))
    block = b.div(task, pieces)
    point, at = nest.decode(b.div(block, nest.panels), p.outer)
    start = nest.pointer("block", const=True)
    body = b.loop(
        task,
        b.BEGIN,
        b.END,
        Let(panel, b.mod(block, nest.panels)),
        Let(low, b.mul(b.mod(task, pieces), _ROWS)),
        Let(high, b.min64(b.add(low, _ROWS), nest.row_count)),
        point,
        Let(start, b.offset(nest.pointer("sums"), b.mul(block, nest.block_elements))),
        stored_rows(nest, at, low, high),
    )
    whole = nest.operands.declare(b.block(nest.finishing(), nest.sums(), body))
    name = f"{nest.prefix}_finish"
    return b.phase_function(name, b.block(whole, Return(b.const(0, INT32))))


def stored_rows(nest: Nest, at: Mapping[str, Expr], low: Expr, high: Expr) -> Stmt:
    """Return the stores of some rows of the block at hand, which belongs to an outer point."""
    p = nest.problem
    columns = nest.var("columns")
    left = b.sub(nest.column_count, b.mul(nest.var("panel"), nest.width))
    return b.block(
        Let(columns, b.min64(nest.width, left)),
        nest.origin("c", p.c, at),
        _rows(nest, low, high),
    )


def is_in_vectors(nest: Nest) -> bool:
    """Whether the output is not stored element by element."""
    p = nest.problem
    return _is_turned(nest) or p.c.linear(p.columns) == ONE


def _is_turned(nest: Nest) -> bool:
    p = nest.problem
    return p.c.linear(p.rows) == ONE and p.c.linear(p.columns) is not None


def _rows(nest: Nest, low: Expr, high: Expr) -> Stmt:
    c, p = nest.problem.c, nest.problem
    if _is_turned(nest):
        return _turned(nest, low, high)
    if c.linear(p.columns) == ONE:
        return _straight(nest, low, high)
    return _elements(nest, low, high)


# ---- the three ways


def _turned(nest: Nest, low: Expr, high: Expr) -> Stmt:
    """Return the stores of squares whose rows are contiguous in the output."""
    tile = _tile(nest)
    r, x, i, left = (nest.var(n) for n in ("row", "column", "i", "left"))
    square = Elem("square", (i,), tile.vector)
    place = b.offset(nest.pointer("c_at"), b.add(_column(nest, b.add(x, i)), r))
    turn = b.block(
        Array("square", tile.vector, (nest.lanes,)),
        _totals(nest, square, i, high, tile),
        Eval(intrinsic("tc_transpose", tile.vector, Var("square", tile.vector))),
        b.loop(
            i,
            0,
            nest.lanes,
            b.when(
                b.compare("<", b.add(x, i), nest.var("columns")),
                _store(nest, tile, place, square),
            ),
            mark=Unroll(),
        ),
    )
    columns = b.loop(x, 0, nest.var("columns"), turn, step=nest.lanes)
    tail = Let(left, b.sub(high, r)), tail_mask(tile, left)
    return b.loop(r, low, high, *tail, columns, step=nest.lanes)


def _straight(nest: Nest, low: Expr, high: Expr) -> Stmt:
    """Return the stores of vectors: columns are contiguous in the output."""
    tile = _tile(nest)
    r, x = nest.var("row"), nest.var("column")
    stmts, offset = _row(nest, r)
    place = b.offset(nest.pointer("c_at"), b.add(offset, _column(nest, x)))
    return b.loop(
        r,
        low,
        high,
        stmts,
        b.loop(
            x,
            0,
            nest.var("columns"),
            tail_mask(tile, b.sub(nest.var("columns"), x)),
            _total(nest, r, x, tile),
            _store(nest, tile, place, Var("total", tile.vector)),
            step=nest.lanes,
        ),
    )


def _elements(nest: Nest, low: Expr, high: Expr) -> Stmt:
    """Return the stores of single elements."""
    p = nest.problem
    r, x, g = nest.var("row"), nest.var("column"), nest.var("group")
    stmts, offset = _row(nest, r)
    total = Var("total", Scalar(p.dtype))

    def element(group: Expr) -> Expr:
        return b.load(nest.pointer("block", const=True), _at(nest, group, r, x))

    flat = b.add(b.mul(nest.var("panel"), nest.width), x)
    columns, at = nest.decode(flat, p.columns)
    steps = (b.mul(at[i.name], nest.stride(p.c, i)) for i in p.columns)
    place = b.load(nest.pointer("c_at"), b.add(offset, *steps))
    return b.loop(
        r,
        low,
        high,
        stmts,
        b.loop(
            x,
            0,
            nest.var("columns"),
            columns,
            Let(total, element(b.c64(0)), mutable=True),
            None if nest.is_direct else b.loop(g, 1, nest.groups, Assign(total, element(g), "+=")),
            Assign(place, total, "+=" if _updates(nest) else "="),
        ),
    )


# ---- parts


def _tile(nest: Nest) -> RegisterTile:
    """Return one vector as a tile: what loads, stores and masks are made for."""
    return RegisterTile(1, 1, nest.lanes, nest.problem.dtype)


def _updates(nest: Nest) -> bool:
    """Whether the sums are added to what the output holds."""
    return nest.problem.statement.op == "+=" and nest.problem.statement.base is not None


def _at(nest: Nest, group: Expr, row: Expr, column: Expr) -> Expr:
    """Return where a sum of a group lies, from the block of the first group."""
    apart = b.mul(nest.blocks, nest.block_elements)
    return b.add(b.mul(group, apart), b.mul(row, nest.width), column)


def _total(nest: Nest, row: Expr, column: Expr, tile: RegisterTile) -> Stmt:
    """Return the declaration of `total`: a vector of sums, over all groups in their order."""
    total, g = Var("total", tile.vector), nest.var("group")

    def vector(group: Expr) -> Expr:
        at = b.offset(nest.pointer("block", const=True), _at(nest, group, row, column))
        return load_vector(tile, at, masked=False)

    first = Let(total, vector(b.c64(0)), mutable=True)
    if nest.is_direct:
        return first
    return b.block(first, b.loop(g, 1, nest.groups, Assign(total, vector(g), "+=")))


def _totals(nest: Nest, square: Elem, i: Var, high: Expr, tile: RegisterTile) -> Stmt:
    """Return the same of each row i of a square: groups are gone through once, for all of them.

    One loop over the groups for each row took a compiler as long as all else of a gradient.
    """
    r, x = nest.var("row"), nest.var("column")
    at = nest.pointer("square_at", const=True)
    below = b.mul(i, nest.width)
    if b.mod(nest.row_count, nest.lanes) != b.c64(0):
        # rows beyond the last repeat it; their lanes are not stored
        below = b.min64(below, b.mul(b.sub(b.sub(high, 1), r), nest.width))
    vector = load_vector(tile, b.offset(at, below), masked=False)

    def each(stmt: Stmt) -> Stmt:
        return b.loop(i, 0, nest.lanes, stmt, mark=Unroll())

    first = b.offset(nest.pointer("block", const=True), _at(nest, b.c64(0), r, x))
    if nest.is_direct:
        return b.block(Let(at, first), each(b.assign(square, vector)))
    apart = b.mul(nest.blocks, nest.block_elements)
    return b.block(
        Let(at, first, mutable=True),
        each(b.assign(square, vector)),
        b.loop(
            nest.var("group"),
            1,
            nest.groups,
            b.assign(at, b.offset(at, apart)),
            each(Assign(square, vector, "+=")),
            mark=Unroll(1),
        ),
    )


def _store(nest: Nest, tile: RegisterTile, place: Expr, value: Expr) -> Stmt:
    """Return the masked store of a vector, or its addition to what is there."""
    if not _updates(nest):
        return store_vector(tile, place, value, masked=True)
    held = load_vector(tile, place, masked=True)
    return store_vector(tile, place, b.arith("+", held, value), masked=True)


def _row(nest: Nest, row: Var) -> tuple[list[Stmt], Expr]:
    """Return declarations, and the offset of a row in the output."""
    p = nest.problem
    stride = p.c.linear(p.rows)
    if stride is not None:
        return [], b.mul(row, nest.size(stride))
    stmts, at = nest.decode(row, p.rows)
    return stmts, b.add(*(b.mul(at[i.name], nest.stride(p.c, i)) for i in p.rows))


def _column(nest: Nest, x: Expr) -> Expr:
    """Return the offset of a column of the panel at hand in an output linear in columns."""
    flat = b.add(b.mul(nest.var("panel"), nest.width), x)
    return b.mul(flat, nest.along(nest.problem.c, nest.problem.columns))
