"""The micro-kernel of a contraction: a register tile of rows x vectors, accumulated along k.

    acc[r][v] += a[r] * b[v]        r < rows, v < vectors, once per k

or the square, or the absolute value, of their difference.
`a` is read element by element (broadcast), `b` and the output as vectors. One function serves
packed and direct operands: strides may be parameters, the last vector of the output is always
masked, that of b where its line may end there, and a flag word says whether this is the first and
whether it is the last pass along k. It is never inlined nor cloned: a compiler that knows the trip
count unrolls, runs out of registers and spills.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from tcdsl.codegen.forms.contraction.problem import Term
from tcdsl.codegen.forms.contraction.register_tile import (
    FAR,
    FIRST,
    LAST,
    PAST,
    Epilogue,
    RegisterTile,
    Strides,
    accumulator,
    each_vector,
    has_lines,
    load_vector,
    store_vector,
    stream_vector,
    tail_mask,
)
from tcdsl.codegen.forms.contraction.steps import k_loop
from tcdsl.codegen.loops.build import (
    add,
    all_of,
    any_of,
    block,
    c64,
    compare,
    do,
    either,
    expr,
    i64,
    load,
    loop,
    mul,
    not_,
    offset,
    pointer,
    value_of,
    when,
)
from tcdsl.codegen.loops.loopir import (
    I64,
    TRUTH,
    Array,
    Assign,
    Bin,
    Cast,
    Const,
    Elem,
    Expr,
    Function,
    Let,
    Pointer,
    Scalar,
    Simd,
    Stmt,
    Unroll,
    Var,
)
from tcdsl.codegen.machine.cpu import LINE
from tcdsl.grammar.types.dtypes import INT64, DType

DEEP = 64  # steps along k that hide the way of the output's lines into the first level


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
        pointer("c", stored, restrict=not strides.has_base),  # which the base may be
        *stride("c_row", strides.c_row),
        *((pointer("base", stored, const=True), i64("base_row")) if strides.has_base else ()),
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
    told: Mapping[str, int] = MappingProxyType({}),
) -> Function:
    """Return the micro-kernel of a tile; stored is the type of c in memory.

    Halves cannot hold partial sums: with them every pass is the first. finisher: the function that
    takes finished sums to their places, for an epilogue that is long (`finish_pass`). told: what
    all calls say alike of parameters, so that nothing stands here which none of them wants.
    """
    c = pointer("c", stored, restrict=not strides.has_base)
    c_row = expr(strides.c_row) if strides.c_row is not None else i64("c_row")
    r = i64("r")

    def at(v: Expr) -> Expr:
        return offset(c, add(mul(r, c_row), mul(v, tile.lanes)))

    def resume(v: Expr, masked: bool) -> list[Stmt]:
        there = at(v)
        if strides.has_base:
            base = pointer("base", stored, const=True)
            there = offset(base, add(mul(r, i64("base_row")), mul(v, tile.lanes)))
        held = load_vector(tile, there, masked=masked, stored=stored)
        return [Assign(accumulator(tile, r, v), held, "+=")]

    def store(v: Expr, masked: bool) -> list[Stmt]:
        value = accumulator(tile, r, v)
        return [store_vector(tile, at(v), value, masked=masked, stored=stored)]

    def stream(v: Expr, _: bool) -> list[Stmt]:
        return [stream_vector(tile, at(v), accumulator(tile, r, v))]

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
        return [do("tc_prefetch", at(v)), *fetch_far(v, False)]

    def fetch_far(v: Expr, _: bool) -> list[Stmt]:
        return [do("tc_prefetch", p) for p in epilogue.far(r, mul(v, tile.lanes))]

    def flag(*bits: int) -> Expr:
        bit = sum(bits)
        if "flags" in told:
            return c64(told["flags"] & bit)
        return Bin("&", i64("flags"), c64(bit), I64)

    is_later = compare("==", flag(FIRST), 0)
    is_last = compare("!=", flag(LAST), 0)
    is_far = compare("!=", flag(FAR), 0)
    depth = c64(told["depth"]) if "depth" in told else i64("depth")
    out: Stmt = rows(store)
    fetched = rows(fetch_ahead)
    goes_past: Stmt | None = None
    may_pass = compare("==", flag(FIRST, LAST, PAST), FIRST | LAST | PAST)
    apart = mul(c_row, stored.size_bytes)
    known = value_of(apart)
    can_pass = has_lines(tile, stored) and not (known or 0) % LINE
    if can_pass and may_pass != Const(False, TRUTH):
        past = Var("past", TRUTH)
        places = Cast(c, I64) if known is not None else Bin("|", Cast(c, I64), apart, I64)
        lie = compare("==", Bin("&", places, c64(LINE - 1), I64), 0)
        whole = compare("==", i64("columns"), tile.columns)
        goes_past = Let(past, all_of(may_pass, whole, lie))
        out = either(past, rows(stream), out)
        reads = epilogue.far(r, c64(0))
        fetched = either(past, rows(fetch_far), fetched) if reads else when(not_(past), fetched)
    if finisher is not None:
        out = either(is_last, finish_apart(finisher), out)
    elif not epilogue.is_plain and epilogue.is_vector:
        out = block(when(is_last, rows(finish)), out)
    elif not epilogue.is_plain:
        out = either(is_last, finish_elements(), out)
    body = block(
        [do("tc_lay_down", p) for p in epilogue.params if _is_float(p)],
        tail_mask(tile, i64("columns")),
        goes_past,
        when(any_of(is_far, compare(">=", depth, DEEP)), fetched),
        Array("acc", tile.vector, (tile.rows, tile.vectors), zero=True),
        k_loop(tile, strides, term, told.get("depth", 1)),
        when(is_later, rows(resume)),
        out,
    )
    params = kernel_params(tile, strides, epilogue, stored)
    # a function of each element gains from what a compiler looks for: some 3 % of a short sum
    return Function(name, params, body, "micro", is_spelled_out=epilogue.is_plain)


def _is_float(param: Var) -> bool:
    """Whether a parameter comes in a vector register."""
    return isinstance(param.type, Scalar) and param.type.dtype.is_float
