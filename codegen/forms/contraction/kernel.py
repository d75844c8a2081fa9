"""The micro-kernel of a contraction: a register tile of rows x vectors, accumulated along k.

    acc[r][v] += a[r] * b[v]        r < rows, v < vectors, once per k

or the square, or the absolute value, of their difference.
`a` is read element by element (broadcast), `b` and the output as vectors. One function serves
packed and direct operands: strides may be parameters, the last vector is always masked, and a
flag word says whether this is the first and whether it is the last pass along k. It is never
inlined nor cloned: a compiler that knows the trip count unrolls, runs out of registers and spills.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, Protocol, assert_never

from tcdsl.codegen.forms.contraction.problem import Term
from tcdsl.codegen.forms.contraction.words import Words
from tcdsl.codegen.loops.build import (
    IntLike,
    add,
    any_of,
    assign,
    block,
    c64,
    call,
    compare,
    do,
    expr,
    i64,
    load,
    loop,
    mul,
    offset,
    pointer,
    sub,
    when,
)
from tcdsl.codegen.loops.loopir import (
    I64,
    Array,
    Assign,
    Bin,
    Call,
    Cast,
    Elem,
    Eval,
    Expr,
    Function,
    If,
    Let,
    Load,
    Mask,
    Pointer,
    Scalar,
    Simd,
    Stmt,
    Type,
    Unroll,
    Var,
    Vector,
)
from tcdsl.codegen.loops.target import short_name
from tcdsl.grammar.text.dataclass import dataclass
from tcdsl.grammar.types.dtypes import INT32, INT64, DType

# Bits of the flag word: start from zero; apply the epilogue; words hold what has to be widened; the
# output is far away, so that its lines are fetched however few steps they have.
FIRST, LAST, WIDENS, FAR = 1, 2, 4, 8
LINE = 64  # bytes
DEEP = 64  # steps along k that hide the way of the output's lines into the first level

# Rows are addressed from one pointer per group of four, at 0, s, 2s (scaled indices of the
# machine) and 3s: few enough integer registers for any tile.
ROW_GROUP = 4


@dataclass(frozen=True, slots=True)
class RegisterTile:
    """Shape of a register tile: rows x vectors of lanes elements.

    words: a and b hold words, of which the tile adds several products at once.
    """

    rows: int
    vectors: int
    lanes: int
    dtype: DType
    words: Words | None = None

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
    ahead those of its letters are fetched are parameters, 0 for not at all.
    """

    a_row: int | None = None
    a_k: int | str | None = None
    b_k: int | str | None = None
    c_row: int | None = None
    ahead: bool = False
    rows_ahead: bool = False
    asks: Literal["", "b", "ab"] = ""


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


# ---- vectors at columns of a tile; the last one ends at the last column


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


# ---- the kernel


def kernel_params(
    tile: RegisterTile, strides: Strides, epilogue: Epilogue, stored: DType
) -> tuple[Var, ...]:
    """Return the parameters of a micro-kernel, in order."""
    table = Pointer(INT64, const=True)

    def stride(name: str, value: int | str | None) -> tuple[Var, ...]:
        if isinstance(value, int):
            return ()
        return (Var(name, table if value == "table" else I64),)

    return (
        pointer("a", tile.factor, const=True, restrict=True),
        *stride("a_row", strides.a_row),
        *stride("a_k", strides.a_k),
        pointer("b", tile.factor, const=True, restrict=True),
        *stride("b_k", strides.b_k),
        pointer("c", stored, restrict=True),
        *stride("c_row", strides.c_row),
        i64("depth"),
        i64("flags"),
        i64("columns"),
        *((i64("a_ahead"), i64("a_ahead_row")) if "a" in strides.asks else ()),
        *((i64("b_ahead"),) if "b" in strides.asks else ()),
        *epilogue.params,
    )


def micro_kernel(
    name: str,
    tile: RegisterTile,
    strides: Strides,
    epilogue: Epilogue,
    stored: DType,
    term: Term = "product",
    finisher: str | None = None,
) -> Function:
    """Return the micro-kernel of a tile; stored is the type of c in memory.

    Halves cannot hold partial sums: with them every pass is the first. finisher: the function that
    takes finished sums to their places, for an epilogue that is long (`finish_pass`).
    """
    c = pointer("c", stored, restrict=True)
    c_row = expr(strides.c_row) if strides.c_row is not None else i64("c_row")
    flags, r = i64("flags"), i64("r")

    def at(v: Expr) -> Expr:
        return offset(c, add(mul(r, c_row), mul(v, tile.lanes)))

    def resume(v: Expr, masked: bool) -> list[Stmt]:
        held = load_vector(tile, at(v), masked=masked, stored=stored)
        return [Assign(accumulator(tile, r, v), held, "+=")]

    def store(v: Expr, masked: bool) -> list[Stmt]:
        value = accumulator(tile, r, v)
        return [store_vector(tile, at(v), value, masked=masked, stored=stored)]

    def rows(body: Callable[[Expr, bool], Sequence[Stmt]]) -> Stmt:
        return loop(r, 0, tile.rows, each_vector(tile, body), mark=Unroll())

    def finish(v: Expr, masked: bool) -> Sequence[Stmt]:
        return [block(epilogue.vector(tile, r, v, masked))]

    def finish_elements() -> Stmt:
        scalar, x = Scalar(tile.dtype), i64("x")
        line, element = pointer("line", tile.dtype), Elem("sums", (x,), scalar)

        def lay_down(v: Expr, _: bool) -> list[Stmt]:
            to = offset(line, mul(v, tile.lanes))
            return [store_vector(tile, to, accumulator(tile, r, v), masked=False)]

        place = load(c, add(mul(r, c_row), x))
        column = loop(
            x, 0, i64("columns"), epilogue.element(r, x, element, place, stored), mark=Simd()
        )
        sums = Array("sums", scalar, (tile.columns,))
        start = Let(line, Cast(Var("sums", scalar), line.type))
        down = each_vector(tile, lay_down)
        return loop(r, 0, tile.rows, sums, start, down, column, mark=Unroll())

    def finish_apart(function: str) -> Stmt:
        line = pointer("line", tile.dtype)

        def lay_down(v: Expr, _: bool) -> list[Stmt]:
            place = offset(line, add(mul(r, tile.columns), mul(v, tile.lanes)))
            return [store_vector(tile, place, accumulator(tile, r, v), masked=False)]

        sums = Array("sums", Scalar(tile.dtype), (tile.rows * tile.columns,))
        start = Let(line, Cast(Var("sums", Scalar(tile.dtype)), line.type))
        there = line, c64(tile.columns), c, c_row, c64(tile.rows), i64("columns")
        return block(sums, start, rows(lay_down), do(function, *there, *epilogue.params))

    def fetch_ahead(v: Expr, _: bool) -> list[Stmt]:
        return [do("tc_prefetch", p) for p in (at(v), *epilogue.far(r, mul(v, tile.lanes)))]

    is_later = compare("==", Bin("&", flags, c64(FIRST), I64), 0)
    is_last = compare("!=", Bin("&", flags, c64(LAST), I64), 0)
    is_far = compare("!=", Bin("&", flags, c64(FAR), I64), 0)
    out: Stmt = rows(store)
    if finisher is not None:
        out = If(is_last, finish_apart(finisher), out)
    elif not epilogue.is_plain and epilogue.is_vector:
        out = block(when(is_last, rows(finish)), out)
    elif not epilogue.is_plain:
        out = If(is_last, finish_elements(), out)
    body = block(
        [do("tc_lay_down", p) for p in epilogue.params if _is_float(p)],
        tail_mask(tile, i64("columns")),
        when(any_of(is_far, compare(">=", i64("depth"), DEEP)), rows(fetch_ahead)),
        Array("acc", tile.vector, (tile.rows, tile.vectors), zero=True),
        _k_loop(tile, strides, term),
        when(is_later, rows(resume)),
        out,
    )
    return Function(name, kernel_params(tile, strides, epilogue, stored), body, "micro")


def _is_float(param: Var) -> bool:
    """Whether a parameter comes in a vector register."""
    return isinstance(param.type, Scalar) and param.type.dtype.is_float


def _k_loop(tile: RegisterTile, strides: Strides, term: Term) -> Stmt:
    """Return the loop along k: a row of b into registers, then an FMA per accumulator."""
    k, r = i64("k"), i64("r")
    a, b = pointer("a", tile.factor, const=True), pointer("b", tile.factor, const=True)
    words = tile.words
    held = Vector(tile.factor, tile.lanes)
    a_row = expr(strides.a_row) if strides.a_row is not None else i64("a_row")
    rows = [pointer(f"a{g}", tile.factor, const=True) for g in range(0, tile.rows, ROW_GROUP)]
    a_at, a_step = _along_k("a_k", strides.a_k, k)
    b_at, b_step = _along_k("b_k", strides.b_k, k)
    b_now = pointer("b0", tile.factor, const=True)
    x = Var("x", Scalar(tile.factor))

    def column(v: Expr) -> Elem:
        return Elem("column", (v,), held)

    def fetched(v: Expr, masked: bool) -> Expr:
        args = (offset(b_now, add(b_at, mul(v, tile.lanes))), Var("tail", tile.mask))
        name = "tc_loadm" if masked else "tc_load"
        return intrinsic(name, held, *args[: 1 + masked], type=held)

    def fetch(v: Expr, masked: bool) -> list[Stmt]:
        # Pinned: folded into several FMAs as a memory operand, the load would run once per row.
        return [assign(column(v), fetched(v, masked)), do("tc_pin", column(v))]

    def fetch_next(v: Expr, _: bool) -> list[Stmt]:
        ahead = i64("b_ahead") if "b" in strides.asks else c64(tile.columns)
        return [do("tc_prefetch", offset(b_now, add(b_at, ahead, mul(v, tile.lanes))))]

    def fetch_rows() -> list[Stmt]:
        """Return the prefetch of some rows' next line: of all of them before k is a line on."""
        line = LINE // tile.factor.size_bytes
        down, along = Bin("&", k, c64(line - 1), I64), Bin("&", k, c64(-line), I64)
        asks = "a" in strides.asks
        ahead = i64("a_ahead") if asks else mul(tile.rows, a_row)
        row = i64("a_ahead_row") if asks else a_row
        places = (add(ahead, mul(add(down, i), row), along) for i in range(0, tile.rows, line))
        return [do("tc_prefetch", offset(a, place)) for place in places]

    def start(v: Expr, masked: bool) -> list[Stmt]:
        return [assign(accumulator(tile, r, v), fetched(v, masked))]

    def summed(v: Expr, function: str | None) -> Stmt:
        acc, apart = accumulator(tile, r, v), Var("apart", tile.vector)
        if function is not None:
            name = f"tc_{function}"
            return assign(acc, intrinsic(name, tile.vector, acc, column(v), x, type=tile.vector))
        difference = Let(apart, Bin("-", column(v), x, tile.vector))
        match term:
            case "product":
                return Assign(acc, Bin("*", column(v), x, tile.vector), "+=")
            case "square":
                return block(difference, Assign(acc, Bin("*", apart, apart, tile.vector), "+="))
            case "distance":
                absolute = intrinsic("tc_abs", tile.vector, apart, type=tile.vector)
                return block(difference, Assign(acc, absolute, "+="))
            case _:
                assert_never(term)

    def row(g: int, function: str | None) -> Stmt:
        v = i64("v")
        return loop(
            r,
            g * ROW_GROUP,
            min((g + 1) * ROW_GROUP, tile.rows),
            Let(x, load(rows[g], add(a_at, mul(sub(r, g * ROW_GROUP), a_row)))),
            loop(v, 0, tile.vectors, summed(v, function), mark=Unroll()),
            mark=Unroll(),
        )

    def steps(function: str | None) -> Stmt:
        return loop(
            k,
            0,
            i64("depth"),
            Array("column", held, (tile.vectors,)),
            each_vector(tile, fetch),
            each_vector(tile, fetch_next) if strides.ahead or "b" in strides.asks else None,
            fetch_rows() if strides.rows_ahead or "a" in strides.asks else None,
            [row(g, function) for g in range(len(rows))],
            [assign(p, offset(p, a_step)) for p in rows] if a_step is not None else None,
            assign(b_now, offset(b_now, b_step)) if b_step is not None else None,
            mark=Unroll(1),
        )

    run = steps(None if words is None else words.function)
    if words is not None and words.widening is not None:
        widens = compare("!=", Bin("&", i64("flags"), c64(WIDENS), I64), 0)
        run = If(widens, steps(words.widening), run)

    starts = block(
        loop(r, 0, tile.rows, each_vector(tile, start), mark=Unroll()),
        assign(b_now, offset(b_now, b_step)) if b_step is not None else None,
    )
    return block(
        [Let(p, offset(a, mul(g * ROW_GROUP, a_row)), mutable=True) for g, p in enumerate(rows)],
        Let(b_now, b, mutable=True),
        starts if words is not None and words.starts else None,
        run,
    )


def _along_k(name: str, stride: int | str | None, k: Var) -> tuple[Expr, Expr | None]:
    """Return the index of step k from the moving pointer, and the pointer's step."""
    if stride == "table":
        table = Var(name, Pointer(INT64, const=True))
        return Load(table, k, I64), None
    return c64(0), expr(stride) if isinstance(stride, int) else i64(name)
