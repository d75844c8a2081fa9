"""Packing of operands whose neighbours lie along the outermost of fused indices.

    packed[panel][k][x] as in `pack.py`; source vectors are steps x, x + every, x + 2 * every ...,
    or such steps along k

Elements of a panel then lie in as many lines as it has, often all in one set of a cache: gathered,
they cost 20 cycles each where extents are powers of two. Here every line is read once, by squares
that are turned around in registers.
"""

from __future__ import annotations

from tcdsl.codegen.forms.contraction.packer import (
    Packer,
    along_k,
    in_panels,
    packed_at,
    packer_params,
    store_lanes,
    store_pair,
    strips,
    tail_of,
)
from tcdsl.codegen.forms.contraction.register_tile import intrinsic
from tcdsl.codegen.forms.contraction.squares import Put, column_of, columns, square_to
from tcdsl.codegen.loops.build import (
    add,
    all_of,
    any_of,
    assign,
    block,
    c64,
    ceil_div,
    compare,
    div,
    do,
    i64,
    loop,
    max64,
    min64,
    mod,
    mul,
    offset,
    sub,
)
from tcdsl.codegen.loops.loopir import (
    Array,
    Elem,
    Eval,
    Expr,
    Function,
    If,
    Let,
    Mask,
    Stmt,
    Unroll,
    Var,
    Vector,
)
from tcdsl.codegen.machine.cpu import LINE


def far_packer(name: str, p: Packer) -> Function:
    """Return the function that packs a block."""
    if p.unit == "far_x":
        body = _lay(p)
    else:
        body = in_panels(p, strips(p, _turn(p)), _turn(p, store_pair) if p.pairs else None)
    return Function(name, packer_params(p), body, "helper")


def _turn(p: Packer, put: Put = store_lanes) -> Stmt:
    """Return the transposition of a strip whose vectors are every so many rows of a panel."""
    k, far, every, depth = i64("k"), i64("far"), i64("every"), i64("depth")
    steps, left = i64("steps"), i64("left")
    first = offset(packed_at(p), add(mul(add(k, mul(far, every)), left), i64("x")))
    rows, apart = min64(p.lanes, sub(steps, far)), mul(every, left)
    behind = offset(column_of(p), add(along_k(p, min64(add(k, 1), sub(depth, 1))), far))
    whole = None
    if p.overlaps and put is store_lanes:
        # what is stored beyond a row falls into the next one, which comes later but for the last
        all_rows = compare("<=", add(far, p.lanes), steps)
        strip = compare("<=", add(i64("x"), p.lanes), left)
        panel = all_of(
            compare("<=", left, p.lanes),
            compare("<=", p.lanes, mul(left, 2)),
            compare("<", add(k, 1), every),
            compare("<", add(k, mul(add(far, p.lanes - 1), every), 1), depth),
        )
        whole = all_of(all_rows, any_of(strip, panel))
    turn = block(
        Let(Var("deep", Mask(p.dtype, p.lanes)), tail_of(p, sub(steps, far))),
        loop(i64("i"), 0, p.lanes, do("tc_prefetch", behind), mark=Unroll())
        if p.overlaps
        else None,
        square_to(p, add(along_k(p, k), far), "deep", rows, first, apart, put, whole),
    )
    count = Let(steps, ceil_div(sub(depth, k), every))
    each = loop(k, 0, min64(every, depth), count, loop(far, 0, steps, turn, step=p.lanes))
    return block(columns(p), each)


def _lay(p: Packer) -> Stmt:
    """Return the packing of a block whose vectors are columns every so many apart.

    Squares of columns that follow each other by such vectors are turned around and wait for some
    rows, until they go to their panels: what a panel has of a square is some of its columns. All
    vectors of a cache line are read together.
    """
    x, far, i, k, row, end = map(i64, ("x", "far", "i", "k", "row", "end"))
    every, count, inner, steps = map(i64, ("every", "count", "inner", "steps"))
    near, line = i64("near"), max(p.lanes, LINE // (p.source.bits // 8))
    mask, wide = Mask(p.dtype, p.lanes), Vector(p.dtype, p.lanes)
    deep, square = Elem("deep", (add(sub(far, near), i),), mask), Elem("square", (i,), wide)
    rows = p.rows
    held = Elem("held", (add(mul(sub(far, near), rows), mul(sub(k, row), p.lanes), i),), wide)
    own_steps = ceil_div(max64(sub(count, add(x, i)), 0), every)
    at = offset(column_of(p), add(along_k(p, k), far))
    fetched = intrinsic("tc_loadm", p.vector, at, deep, type=p.vector, stored=p.source)
    behind = min64(add(near, line), steps)
    turn = loop(
        far,
        near,
        behind,
        Array("square", p.vector, (p.lanes,)),
        loop(i, 0, p.lanes, assign(square, fetched), mark=Unroll()),
        Eval(intrinsic("tc_transpose", p.vector, Var("square", p.vector))),
        loop(i, 0, p.lanes, assign(held, square), mark=Unroll()),
        step=p.lanes,
    )
    tails = loop(i, 0, p.lanes, assign(deep, tail_of(p, sub(own_steps, far))))
    lay = loop(far, near, behind, loop(i, 0, p.lanes, _pieces(p, held)), step=p.lanes)
    until = Let(end, min64(add(row, rows), i64("depth")))
    squares = block(
        Array("deep", mask, (line,)),
        loop(far, near, behind, tails, step=p.lanes),
        loop(row, 0, i64("depth"), until, loop(k, row, end, turn), lay, step=rows),
    )
    return block(
        Let(inner, min64(every, count)),
        Let(i64("j"), c64(0)),
        Array("held", p.vector, (rows * line,)),
        loop(
            x,
            0,
            inner,
            columns(p),
            Let(steps, ceil_div(sub(count, x), every)),
            loop(near, 0, steps, squares, step=line),
            step=p.lanes,
        ),
    )


def _pieces(p: Packer, held: Expr) -> Stmt:
    """Return the way of row i of the turned squares, columns that follow each other, to panels."""
    x, k, width, count, depth = map(i64, ("x", "k", "width", "count", "depth"))
    y, columns, panel, left = map(i64, ("y", "columns", "panel", "left"))
    start = mul(panel, width)
    low, high = max64(sub(start, y), 0), min64(columns, sub(add(start, width), y))
    tail = Var("tail", Mask(p.dtype, p.lanes))
    to = offset(packed_at(p), add(mul(start, depth), mul(k, left), sub(y, start)))
    row, end = i64("row"), i64("end")
    out: Stmt = loop(
        panel,
        div(y, width),
        div(add(y, columns, width, -1), width),
        Let(left, min64(width, sub(count, start))),
        Let(tail, intrinsic("tc_range", p.vector, low, high, type=tail.type)),
        loop(k, row, end, Eval(intrinsic("tc_storer", p.vector, to, tail, held))),
    )
    if p.pairs:
        is_pair = all_of(
            compare("==", mul(width, 2), p.lanes),
            compare("==", mod(y, width), 0),
            compare("==", columns, p.lanes),
        )
        first = offset(packed_at(p), add(mul(y, depth), mul(k, left)))
        pair = loop(k, row, end, store_pair(p, first, held))
        out = If(is_pair, block(Let(left, width), pair), out)
    return block(
        Let(y, add(x, mul(add(i64("far"), i64("i")), i64("every")))),
        Let(columns, min64(min64(p.lanes, sub(i64("inner"), x)), sub(count, y))),
        out,
    )
