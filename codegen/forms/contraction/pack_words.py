"""Packing words: an operand's block as panels of which an element holds several steps along k.

    packed[panel][w][x] = source[panel * width + x][count * w + i], i < count, side by side

As `pack.py`, whose parameters it has; depth counts the elements along k, of which the last word may
miss some: those are 0. Where the source has unit stride along x, the steps of vectors are woven,
also by a table of rows, which those under the taps of a window have; along k, squares of words are
turned around in registers; else elements are put in place one by one. For tiles, columns of the
source are rows of words: packed[x][w].
"""

from __future__ import annotations

from tcdsl.codegen.forms.base.scalars import convert
from tcdsl.codegen.forms.contraction.pack import packer
from tcdsl.codegen.forms.contraction.pack_far import far_packer
from tcdsl.codegen.forms.contraction.packer import (
    Packer,
    along_k,
    along_x,
    packed_at,
    packer_params,
    strips,
    tail_of,
)
from tcdsl.codegen.forms.contraction.register_tile import intrinsic
from tcdsl.codegen.forms.contraction.squares import columns, turned
from tcdsl.codegen.forms.contraction.words import Word
from tcdsl.codegen.loops.build import (
    add,
    assign,
    block,
    c64,
    ceil_div,
    compare,
    const,
    div,
    i64,
    load,
    loop,
    max64,
    min64,
    mul,
    offset,
    pointer,
    sub,
    when,
)
from tcdsl.codegen.loops.loopir import (
    Array,
    Bin,
    Call,
    Elem,
    Eval,
    Expr,
    Function,
    Let,
    Mask,
    Scalar,
    Stmt,
    Unroll,
    Var,
)
from tcdsl.grammar.types.dtypes import INT32

_I32 = Scalar(INT32)
_TOGETHER = 8  # rows of words of all panels before the next
_FLIP = -0x7F7F7F80  # 0x80 in each byte


def word_packer(name: str, p: Packer) -> Function:
    """Return the function that packs a block as words."""
    word = _word(p)
    if word.by_rows:
        length = Let(i64("words"), ceil_div(i64("depth"), word.count))
        return Function(name, packer_params(p), block(length, _rows(p, word)), "helper")
    j, left, packed, width = i64("j"), i64("left"), packed_at(p), i64("width")
    words = i64("words")
    if p.unit == "x" and not (p.x_table or p.k_table or word.starts):
        length = Let(words, ceil_div(i64("depth"), word.count))
        return Function(name, packer_params(p), block(length, _woven_panels(p, word)), "helper")
    panel = block(
        Let(left, min64(width, sub(i64("count"), j))),
        assign(packed, offset(packed, left)) if word.starts else None,
        _panel(p, word),
        _start(p) if word.starts else None,
        assign(packed, offset(packed, mul(words, left))),
    )
    body = block(
        Let(words, ceil_div(i64("depth"), word.count)),
        loop(j, 0, i64("count"), panel, step=width),
    )
    return Function(name, packer_params(p), body, "helper")


def packing(name: str, p: Packer) -> Function:
    """Return the function that packs a block, of words or of elements."""
    if p.unit in ("far_x", "far_k"):
        return far_packer(name, p)
    return packer(name, p) if p.word is None else word_packer(name, p)


def _word(p: Packer) -> Word:
    assert p.word is not None, "this packer is for words"
    return p.word


def _panel(p: Packer, word: Word) -> Stmt:
    """Return the packing of columns j .. j + left."""
    if p.unit == "x" and not p.x_table:
        return _weave_by_table(p, word) if p.k_table else _weave(p, word)
    if p.unit == "k" and not p.k_table:
        return _turn(p, word)
    return _gather(p, word, c64(0))


def _rows(p: Packer, word: Word) -> Stmt:
    """Return the rows of words of all columns of a source."""
    w, x, words, count = i64("w"), i64("x"), i64("words"), i64("count")
    at = mul(w, word.count)
    tail = Let(_tail(p), tail_of(p, sub(words, w)))
    to = offset(packed_at(p), add(mul(x, words), w))
    if p.unit == "k" and not p.k_table:
        line = offset(pointer("source", p.source, const=True), add(along_x(p, x), at))
        held = _narrow(f"tc_line{word.count}", p, line, sub(i64("depth"), at))
        row = loop(w, 0, words, tail, _store(p, to, held, _tail(p)), step=p.lanes)
        return loop(x, 0, count, row)
    if p.unit == "x" and not (p.x_table or p.k_table):
        return _rows_turned(p, word)
    i, value, steps = i64("i"), Var("word", _I32), i64("steps")
    source = pointer("source", p.source, const=True)
    element = convert(load(source, add(along_x(p, x), along_k(p, add(at, i)))), p.source, INT32)
    put = Call(f"tc_put{word.count}", (value, element, i), _I32)
    return loop(
        x,
        0,
        count,
        loop(
            w,
            0,
            words,
            Let(steps, min64(word.count, sub(i64("depth"), at))),
            Let(value, const(0, INT32), mutable=True),
            loop(i, 0, steps, assign(value, put)),
            assign(load(packed_at(p), add(mul(x, words), w)), value),
        ),
    )


def _rows_turned(p: Packer, word: Word) -> Stmt:
    """Return the rows of words of a source whose neighbours along x are vectors: squares turned."""
    w, x, i, words, left = i64("w"), i64("x"), i64("i"), i64("words"), i64("left")
    square, to = Elem("square", (i,), p.vector), pointer("to", p.dtype)
    some = Var("some", Mask(p.dtype, p.lanes))
    first = mul(min64(add(w, i), sub(words, 1)), word.count)
    line = offset(pointer("source", p.source, const=True), add(x, mul(first, i64("k_stride"))))
    steps = min64(word.count, sub(i64("depth"), first))
    woven = _narrow(f"tc_weavem{word.count}", p, line, i64("k_stride"), steps, some)
    turn = block(
        Let(_tail(p), tail_of(p, sub(words, w))),
        Array("square", p.vector, (p.lanes,)),
        loop(i, 0, p.lanes, assign(square, woven), mark=Unroll()),
        Eval(intrinsic("tc_transpose", p.vector, Var("square", p.vector))),
        Let(to, offset(packed_at(p), add(mul(x, words), w)), mutable=True),
        loop(
            i,
            0,
            p.lanes,
            when(compare("<", i, left), _store(p, to, square, _tail(p))),
            assign(to, offset(to, words)),
            mark=Unroll(),
        ),
    )
    return loop(
        x,
        0,
        i64("count"),
        Let(left, sub(i64("count"), x)),
        Let(some, tail_of(p, left)),
        loop(w, 0, words, turn, step=p.lanes),
        step=p.lanes,
    )


def _woven_panels(p: Packer, word: Word) -> Stmt:
    """Return all panels of a source whose neighbours along x are vectors, a few rows at a time.

    A panel has a part of a line or one of each row, and rows are pages apart.
    """
    j, left, first, words = i64("j"), i64("left"), i64("first"), i64("words")
    panel = pointer("panel", p.dtype)
    each = block(
        Let(left, min64(i64("width"), sub(i64("count"), j))),
        Let(panel, offset(packed_at(p), mul(words, j))),
        _weave(p, word, panel, first, min64(add(first, _TOGETHER), words)),
    )
    panels = loop(j, 0, i64("count"), each, step=i64("width"))
    return loop(first, 0, words, panels, step=_TOGETHER)


def _weave(
    p: Packer,
    word: Word,
    panel: Var | None = None,
    first: Expr | None = None,
    end: Expr | None = None,
) -> Stmt:
    """Return the panel of a source whose neighbours along x are vectors, of rows first .. end."""
    w, x, left, whole = i64("w"), i64("x"), i64("left"), i64("whole")
    panel, first, end = panel or packed_at(p), first or c64(0), end or i64("words")
    source = pointer("source", p.source, const=True)
    line, to = pointer("line", p.source, const=True), pointer("to", p.dtype)
    steps, vector = i64("steps"), p.vector
    last = Var("last", Mask(p.dtype, p.lanes))

    def woven(at: Expr, *mask: Expr) -> Expr:
        name = f"tc_weave{'m' * len(mask)}{word.count}"
        args = (offset(line, at), i64("k_stride"), steps, *mask)
        return _flipped(p, word, _narrow(name, p, *args))

    def lines(steps_here: Expr) -> list[Stmt]:
        return [
            Let(steps, steps_here),
            Let(line, offset(source, add(i64("j"), mul(w, word.count, i64("k_stride"))))),
            Let(to, offset(panel, mul(w, left))),
            loop(
                x,
                0,
                whole,
                _store_whole(p, offset(to, x), woven(x)),
                step=p.lanes,
            ),
            when(compare("<", whole, left), _store(p, offset(to, whole), woven(whole, last), last)),
        ]

    full = i64("full")
    rest = sub(i64("depth"), mul(full, word.count))
    return block(
        Let(whole, sub(left, Bin("%", left, c64(p.lanes), left.type))),
        Let(last, intrinsic("tc_tail", vector, sub(left, whole), type=last.type)),
        Let(full, div(i64("depth"), word.count)),
        loop(w, first, min64(full, end), lines(c64(word.count))),
        loop(w, max64(full, first), end, lines(rest)),
    )


def _weave_by_table(p: Packer, word: Word) -> Stmt:
    """Return the panel of a source whose neighbours along x are vectors, by offsets of its rows."""
    w, x, left, whole, full = i64("w"), i64("x"), i64("left"), i64("whole"), i64("full")
    source, to = pointer("source", p.source, const=True), pointer("to", p.dtype)
    last = Var("last", Mask(p.dtype, p.lanes))
    rows = [i64(f"row{i}") for i in range(word.count)]

    def woven(at: Expr, *mask: Expr) -> Expr:
        value: Expr | None = None
        for i, row in enumerate(rows):
            args = (offset(source, add(row, at)), c64(0), c64(1), *mask)
            step = _narrow(f"tc_weave{'m' * len(mask)}{word.count}", p, *args)
            if i:
                step = Bin("<<", step, const(32 // word.count * i, INT32), p.vector)
            value = step if value is None else Bin("|", value, step, p.vector)
        assert value is not None
        return _flipped(p, word, value)

    each = block(
        [
            Let(row, add(i64("j"), along_k(p, add(mul(w, word.count), i))))
            for i, row in enumerate(rows)
        ],
        Let(to, offset(packed_at(p), mul(w, left))),
        loop(x, 0, whole, _store_whole(p, offset(to, x), woven(x)), step=p.lanes),
        when(compare("<", whole, left), _store(p, offset(to, whole), woven(whole, last), last)),
    )
    return block(
        Let(whole, sub(left, Bin("%", left, c64(p.lanes), left.type))),
        Let(last, intrinsic("tc_tail", p.vector, sub(left, whole), type=last.type)),
        Let(full, div(i64("depth"), word.count)),
        loop(w, 0, full, each),
        _gather(p, word, full),
    )


def _store_whole(p: Packer, at: Expr, value: Expr) -> Stmt:
    """Return the store of a whole vector of words."""
    return Eval(intrinsic("tc_store", p.vector, at, value))


def _turn(p: Packer, word: Word) -> Stmt:
    """Return the panel of a source whose neighbours along k are vectors: columns turned around."""
    w, x, left, words = i64("w"), i64("x"), i64("left"), i64("words")
    first = offset(packed_at(p), add(mul(w, left), x))
    at = mul(w, word.count)
    rows = min64(p.lanes, sub(words, w))

    def fetched(column: Expr) -> Expr:
        args = (offset(column, at), sub(i64("depth"), at))
        return _flipped(p, word, _narrow(f"tc_line{word.count}", p, *args))

    turn = turned(p, fetched, rows, first, left)
    return strips(p, block(columns(p), loop(w, 0, words, turn, step=p.lanes)))


def _gather(p: Packer, word: Word, start: Expr) -> Stmt:
    """Return the panel of a source of any strides from a row of words on, element by element."""
    w, z, i, left = i64("w"), i64("z"), i64("i"), i64("left")
    source, value = pointer("source", p.source, const=True), Var("word", _I32)
    first = mul(w, word.count)
    steps = i64("steps")
    at = add(along_x(p, add(i64("j"), z)), along_k(p, add(first, i)))
    element = convert(load(source, at), p.source, INT32)
    put = Call(f"tc_put{word.count}", (value, element, i), _I32)
    whole: Expr = value
    if word.flips:
        whole = Bin("^", value, const(_FLIP, INT32), _I32)
    return loop(
        w,
        start,
        i64("words"),
        Let(steps, min64(word.count, sub(i64("depth"), first))),
        loop(
            z,
            0,
            left,
            Let(value, const(0, INT32), mutable=True),
            loop(i, 0, steps, assign(value, put)),
            assign(load(packed_at(p), add(mul(w, left), z)), whole),
        ),
    )


def _start(p: Packer) -> Stmt:
    """Return the row before a panel: -128 times the sums of its columns."""
    w, x, left = i64("w"), i64("x"), i64("left")
    total = Var("total", p.vector)
    tail = _tail(p)
    held = intrinsic(
        "tc_loadm", p.vector, offset(packed_at(p), add(mul(w, left), x)), tail, type=p.vector
    )
    more = intrinsic("tc_dot4su", p.vector, total, held, const(_FLIP, INT32), type=p.vector)
    to = offset(packed_at(p), sub(x, left))
    zero = intrinsic("tc_splat", p.vector, const(0, INT32), type=p.vector)
    return strips(
        p,
        block(
            Let(total, zero, mutable=True),
            loop(w, 0, i64("words"), assign(total, more)),
            _store(p, to, Bin("-", const(0, INT32), total, p.vector), tail),
        ),
    )


def _tail(p: Packer) -> Var:
    return Var("tail", Mask(p.dtype, p.lanes))


def _store(p: Packer, at: Expr, value: Expr, mask: Expr) -> Stmt:
    return Eval(intrinsic("tc_storem", p.vector, at, mask, value))


def _narrow(name: str, p: Packer, *args: Expr) -> Expr:
    return intrinsic(name, p.vector, *args, type=p.vector, stored=p.source)


def _flipped(p: Packer, word: Word, value: Expr) -> Expr:
    return Bin("^", value, const(_FLIP, INT32), p.vector) if word.flips else value
