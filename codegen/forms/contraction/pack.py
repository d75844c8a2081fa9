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

All panels get some rows before the next (`Packer.rows`): a panel of `a` is 6 elements wide, and
packed by itself it would read every line once for each of its parts (column-major `a` of 1024^3:
8 % of the time of the whole product). So it is with elements, whose neighbours belong to panels
further on. Ends of rows that are no vector are stored as one where the next row overwrites what is
too much of it; panels half a vector wide are packed by twos.

Operands whose batch is the innermost dimension, time over C order (1 thread, Cascade Lake,
`benchmarks/sizes.py`): 64x(128x128x128) with one or both factors so 1.2 to 1.3 (matrix by matrix
1.8 to 5.3), 500x(26x72x26) 1.4 to 1.8 (1.5 to 7.2), all three arrays so 2.1. On a machine whose
memory is idle 500x(26x72x26) takes 2.6 with both factors so and 3.5 with all three: there vectors
along the batch, with nothing to turn around, would be better.
"""

from __future__ import annotations

from tcdsl.codegen.forms.contraction.packer import (
    TABLE,
    Packer,
    along_k,
    along_x,
    in_panels,
    load_lanes,
    move_vector,
    packed_at,
    packer_params,
    store_lanes,
    store_pair,
    store_vector,
    strips,
    tail_of,
)
from tcdsl.codegen.forms.contraction.register_tile import intrinsic
from tcdsl.codegen.forms.contraction.squares import Put, columns, square_to
from tcdsl.codegen.loops.build import (
    add,
    all_of,
    any_of,
    assign,
    block,
    c64,
    cast,
    compare,
    do,
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
    Bin,
    Call,
    Expr,
    Function,
    If,
    Let,
    Load,
    Mask,
    Simd,
    Stmt,
    Var,
)
from tcdsl.codegen.loops.target import short_name
from tcdsl.codegen.machine.cpu import LINE


def packer(name: str, p: Packer) -> Function:
    """Return the function that packs a block."""
    packed, end, depth = pointer("packed", p.dtype), i64("end"), i64("depth")
    panels = in_panels(p, _panel(p), _pair(p) if p.pairs else None)
    if not (p.unit == "none" or (p.unit == "x" and not p.x_table)):
        return Function(name, packer_params(p), panels, "apart")
    first = pointer("first", p.dtype)
    strip = block(Let(end, min64(add(i64("row"), p.rows), depth)), assign(packed, first), panels)
    body = block(Let(first, packed), loop(i64("row"), 0, depth, strip, step=p.rows))
    return Function(name, packer_params(p), body, "apart")


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


def _pair(p: Packer) -> Stmt | None:
    """Return the packing of two panels that are a vector wide together, if it is done so."""
    if p.unit == "x" and not p.x_table:
        k, line = i64("k"), _line(p)
        value = intrinsic("tc_load", p.vector, line, type=p.vector, stored=p.source)
        put = store_pair(p, offset(packed_at(p), mul(k, i64("left"))), value)
        return loop(k, i64("row"), i64("end"), _ahead(p, line, c64(p.lanes)), put)
    return _turn(p, store_pair) if p.unit == "k" and not p.k_table else None


def _line(p: Packer) -> Expr:
    """Return where row k of the panel at hand begins in a source that lies along x."""
    source = pointer("source", p.source, const=True)
    return offset(source, add(i64("j"), along_k(p, i64("k"))))


def _ahead(p: Packer, line: Expr, columns: Expr) -> Stmt | None:
    """Return the fetch of what is copied next, some rows further: no hardware foresees rows."""
    if p.k_table or not p.overlaps:
        return None
    x = i64("x")
    place = offset(line, add(mul(p.rows, i64("k_stride")), x))
    return loop(x, 0, columns, do("tc_prefetch", place), step=LINE * 8 // p.source.bits)


def _copy(p: Packer) -> Stmt:
    """Return the copy of rows row .. end of a panel, each of them contiguous."""
    k, x, left, whole, last = i64("k"), i64("x"), i64("left"), i64("whole"), i64("last")
    line, to = pointer("line", p.source, const=True), pointer("to", p.dtype)
    end, value = offset(to, whole), load_lanes(p, offset(line, whole))
    rest = store_lanes(p, end, value)
    if p.overlaps:
        rest = If(compare("<=", mul(k, left), last), store_vector(p, end, value), rest)
    return block(
        Let(whole, sub(left, mod(left, p.lanes))),
        Let(last, sub(mul(i64("depth"), left), add(whole, p.lanes))) if p.overlaps else None,
        Let(Var("tail", Mask(p.dtype, p.lanes)), tail_of(p, sub(left, whole))),
        loop(
            k,
            i64("row"),
            i64("end"),
            Let(line, _line(p)),
            Let(to, offset(packed_at(p), mul(k, left))),
            _ahead(p, line, left),
            loop(x, 0, whole, move_vector(p, offset(to, x), offset(line, x)), step=p.lanes),
            when(compare("<", whole, left), rest),
        ),
    )


def _copy_pieces(p: Packer) -> Stmt:
    """Return the copy of a strip whose columns are contiguous if its table says so."""
    k, x, left = i64("k"), i64("x"), i64("left")
    first = add(i64("j"), x)
    source = pointer("source", p.source, const=True)
    moved = load_lanes(p, offset(source, add(along_x(p, first), along_k(p, k))))
    copy = loop(
        k, 0, i64("depth"), store_lanes(p, offset(packed_at(p), add(mul(k, left), x)), moved)
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


def _turn(p: Packer, put: Put = store_lanes) -> Stmt:
    """Return the transposition of a strip whose columns are vectors in memory."""
    k, x, left, depth = i64("k"), i64("x"), i64("left"), i64("depth")
    first = offset(packed_at(p), add(mul(k, left), x))
    rows = min64(p.lanes, sub(depth, k))
    whole = None
    if p.overlaps and put is store_lanes:
        strip = all_of(compare("<=", add(x, p.lanes), left), compare("<=", add(k, p.lanes), depth))
        end = add(mul(add(k, p.lanes - 1), left), p.lanes)
        panel = all_of(compare("<=", left, p.lanes), compare("<=", end, mul(depth, left)))
        whole = any_of(strip, panel)
    turn = block(
        Let(Var("deep", Mask(p.dtype, p.lanes)), tail_of(p, sub(depth, k))),
        square_to(p, along_k(p, k), "deep", rows, first, left, put, whole),
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
