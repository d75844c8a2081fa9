"""The loop along k of a micro-kernel: a row of b into registers, then an FMA per accumulator."""

from __future__ import annotations

from dataclasses import replace
from typing import assert_never

from tcdsl.codegen.forms.contraction.problem import Term
from tcdsl.codegen.forms.contraction.register_tile import (
    BEHIND,
    ROW_GROUP,
    WIDENS,
    RegisterTile,
    Strides,
    accumulator,
    each_vector,
    intrinsic,
)
from tcdsl.codegen.loops.build import (
    IntLike,
    add,
    any_of,
    assign,
    block,
    c64,
    compare,
    do,
    expr,
    i64,
    load,
    loop,
    min64,
    mul,
    offset,
    pointer,
    select,
    sub,
)
from tcdsl.codegen.loops.loopir import (
    I64,
    Array,
    Assign,
    Bin,
    Elem,
    Expr,
    If,
    Let,
    Load,
    Pointer,
    Scalar,
    Stmt,
    Unroll,
    Var,
    Vector,
)
from tcdsl.codegen.machine.cpu import LINE
from tcdsl.grammar.types.dtypes import INT64

NARROW = 2  # vectors of tiles of which a step is short beside the address of a prefetch


def k_loop(tile: RegisterTile, strides: Strides, term: Term, told: int = 1) -> Stmt:
    """Return the loop along k: a row of b into registers, then an FMA per accumulator.

    Where masks are dear and some tiles go without, there are two. told: the depth, if all calls
    have the same; steps by twos leave nothing of an even one, and a loop for what they leave is a
    third of a compiler's work.
    """
    if tile.reads not in ("by flag", "by columns"):
        return _k_loop(tile, strides, term, told)
    whole = compare("==", i64("columns"), tile.columns)
    if tile.reads == "by flag":
        whole = any_of(compare("!=", Bin("&", i64("flags"), c64(BEHIND), I64), 0), whole)
    masked = replace(tile, pairs=False, reads="by mask")
    return If(
        whole,
        _k_loop(replace(tile, reads="whole"), strides, term, told),
        _k_loop(masked, replace(strides, rows_ahead=False), term, told),
    )


def _k_loop(tile: RegisterTile, strides: Strides, term: Term, told: int) -> Stmt:
    k, r = i64("k"), i64("r")
    a, b = pointer("a", tile.factor, const=True), pointer("b", tile.factor, const=True)
    words = tile.words
    held = Vector(tile.factor, tile.lanes)
    per_line = LINE // tile.factor.size_bytes
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
        masked = masked and tile.reads == "by mask"
        name = "tc_loadm" if masked else "tc_load"
        return intrinsic(name, held, *args[: 1 + masked], type=held)

    def fetch(v: Expr, masked: bool) -> list[Stmt]:
        # Pinned: folded into several FMAs as a memory operand, the load would run once per row.
        return [assign(column(v), fetched(v, masked)), do("tc_pin", column(v))]

    def fetch_next(v: Expr, _: bool) -> list[Stmt]:
        ahead = i64("b_ahead") if "b" in strides.asks else c64(tile.columns)
        return [do("tc_prefetch", offset(b_now, add(b_at, ahead, mul(v, tile.lanes))))]

    asks_a = "a" in strides.asks
    a_ahead = i64("a_ahead") if asks_a else mul(tile.rows, a_row)
    ahead_row = i64("a_ahead_row") if asks_a else a_row

    def fetch_rows() -> list[Stmt]:
        """Return the prefetch of some rows' next line: of all of them before k is a line on."""
        down, along = Bin("&", k, c64(per_line - 1), I64), Bin("&", k, c64(-per_line), I64)
        places = (
            add(a_ahead, mul(add(down, i), ahead_row), along) for i in range(0, tile.rows, per_line)
        )
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

    # Else gcc adds both strides up again for each row of the second step, an element a row of which
    # a narrow tile's FMAs read from memory.
    keeps_rows = tile.pairs and tile.vectors <= NARROW and strides.a_k is strides.a_row is None
    depth, pair, line, stop = map(i64, ("depth", "pair", "line", "stop"))
    done, reached = i64("done"), i64("reached")
    there = pointer("there", tile.factor, const=True)
    fetches_a = strides.rows_ahead or "a" in strides.asks
    fetches_b = strides.ahead or "b" in strides.asks

    def step(function: str | None, *, fetches: bool = True) -> Stmt:
        return block(
            Array("column", held, (tile.vectors,)),
            each_vector(tile, fetch),
            each_vector(tile, fetch_next) if fetches and fetches_b else None,
            fetch_rows() if fetches and fetches_a else None,
            [row(g, function) for g in range(len(rows))],
            [assign(p, offset(p, a_step)) for p in rows] if a_step is not None else None,
            [do("tc_pin_address", p) for p in rows] if keeps_rows else None,
            assign(b_now, offset(b_now, b_step)) if b_step is not None else None,
        )

    def steps(function: str | None, start: IntLike = 0, *, fetches: bool = True) -> Stmt:
        return loop(k, start, depth, step(function, fetches=fetches), mark=Unroll(1))

    def by_twos(end: Expr, start: IntLike = 0) -> Stmt:
        return loop(pair, start, end, both, step=2, mark=Unroll(1))

    def by_twos_fetching(end: Expr) -> Stmt:
        """Return steps by twos, which fetch the next tile's rows, all before k is a line on.

        Where they are comes from one step to the next by an addition: a product in each is as many
        scalar operations as delay FMAs.
        """
        some = [
            do("tc_prefetch", offset(there, mul(i, ahead_row)))
            for i in range(0, tile.rows, per_line // 2)
        ]
        return loop(
            line,
            0,
            end,
            Let(there, offset(a, add(a_ahead, line)), mutable=True),
            Let(stop, min64(add(line, per_line), end)),
            loop(
                pair,
                line,
                stop,
                some,
                assign(there, offset(there, ahead_row)),
                both,
                step=2,
                mark=Unroll(1),
            ),
            step=per_line,
            mark=Unroll(1),
        )

    both = loop(k, pair, add(pair, 2), step(None, fetches=False), mark=Unroll(2))
    even = Bin("&", depth, c64(-2), I64)
    asked = any_of(*(compare("!=", i64(f"{letter}_ahead"), 0) for letter in strides.asks))
    # squares are twice the work, narrow tiles have little: a step has no idle slots for prefetches
    is_tight = term == "square" or tile.vectors <= NARROW
    if is_tight and strides.asks and not tile.pairs:
        run: Stmt = If(asked, steps(None), steps(None, fetches=False))
    elif not tile.pairs or (fetches_b and not strides.asks):  # it waits for memory, longer by twos
        run = steps(None if words is None else words.function)
    elif strides.asks:  # but for b one step at most is left to the loop that fetches what is asked
        split = Let(done, select(compare("!=", i64("b_ahead"), 0), c64(0), even))
        twos = by_twos(done)
        if asks_a:
            far = Let(reached, select(compare("!=", a_ahead, 0), done, c64(0)))
            twos = block(far, by_twos_fetching(reached), by_twos(done, reached))
        run = block(split, twos, steps(None, done))
    else:
        pairs = (by_twos_fetching if fetches_a else by_twos)(sub(depth, 1))
        run = block(pairs, steps(None, even, fetches=False) if told % 2 else None)
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
