"""The plan of a size-generic contraction: the analytic schedule as text, run once per sizes."""

from __future__ import annotations

from collections.abc import Callable

from tcdsl.codegen.forms.contraction.blocking import DOT, PANEL, STREAM, Blocking, Extents
from tcdsl.codegen.forms.contraction.schedule import (
    MAX_ROWS,
    Name,
    block_shape,
    cache_rows,
    dot_cost,
    grid_cost,
    grid_counts,
    kernel_set,
    least_columns,
    least_rows,
    packs_a,
    packs_b,
    pass_depth,
    rows_for_all,
    step_costs,
    takes_dots,
    tile_cost,
    tiles_for,
)
from tcdsl.codegen.forms.contraction.thin import (
    APART,
    stream_cost,
    stream_packs_a,
    stream_pass,
    stream_rows,
    stream_stretches,
    stream_vectors,
    strip_depth,
    takes_streams,
)
from tcdsl.codegen.loops.build import (
    add,
    all_of,
    any_of,
    assign,
    block,
    c64,
    ceil_div,
    compare,
    i64,
    load,
    loop,
    max64,
    min64,
    mul,
    select,
    sub,
    value_of,
    when,
)
from tcdsl.codegen.loops.loopir import (
    I64,
    TRUTH,
    Const,
    Elem,
    Expr,
    Function,
    If,
    Let,
    Stmt,
    Table,
    Var,
)
from tcdsl.codegen.machine.cpu import Machine


def cost_table(name: str, machine: Machine) -> Table:
    """Return the table that `plan_blocking` reads."""
    return Table(name, I64, step_costs(machine))


def plan_blocking(
    x: Extents,
    machine: Machine,
    threads: Expr,
    pays_from: Expr,
    table: Table,
) -> tuple[list[Stmt], Blocking, Expr]:
    """Return the plan's statements, the blocking they declare, and the half cycles it takes.

    pays_from: half cycles from which on a second thread pays.
    """
    var, tiles = i64, tiles_for(x, kernel_set(machine.registers))

    def step(mr: Expr, nv: Expr) -> Expr:
        return Elem(table.name, (add(mul(nv, MAX_ROWS + 1), mr),), I64)

    mr, nv, best = var("mr"), var("nv"), var("best")
    r, v, narrower, cost = var("r"), var("v"), var("narrower"), var("cost")
    first = tiles[0] if x.is_tiled else (1, 1)
    most = {nv: max(m for m, n in tiles if n == nv) for _, nv in tiles}
    stmts: list[Stmt] = [
        Let(mr, c64(first[0]), mutable=True),
        Let(nv, c64(first[1]), mutable=True),
        Let(best, c64(0), mutable=True),
    ]
    better = any_of(compare("==", best, 0), compare("<", mul(cost, 200), mul(best, 199)))
    rows: Expr = c64(most[max(most)])
    for vectors in sorted(most, reverse=True)[1:]:
        rows = select(compare("<=", v, vectors), c64(most[vectors]), rows)
    search: Stmt = loop(
        narrower,  # by so many vectors than the widest
        0,
        max(most),
        Let(v, sub(max(most), narrower)),
        loop(
            r,
            1,
            add(min64(rows, x.m), 1),
            *_named(var, cost, lambda name: tile_cost(x, machine, r, v, step, name)),
            when(better, assign(best, cost), assign(mr, r), assign(nv, v)),
        ),
    )
    if x.is_tiled:
        search = block(
            *_named(var, cost, lambda name: tile_cost(x, machine, mr, nv, step, name)),
            assign(best, cost),
        )
    pays = compare(">", mul(best, x.outer), pays_from)
    if not x.is_tiled:
        fewer = assign(mr, rows_for_all(x, threads, mr, nv))
        search = block(search, when(all_of(compare(">", threads, 1), pays), fewer))
    searched = when(compare(">", mul(x.m, x.n), 0), search)
    kc, mt, nt, mb, mc, nc = map(var, ("kc", "mt", "nt", "mb", "mc", "nc"))
    method = var("method") if x.dots or x.streams else c64(PANEL)
    is_stream = _is_stream(x, method)
    packs = _packs(x, machine, mr, nv, is_stream)

    def either(stream: Expr, panel: Expr) -> Expr:
        return select(is_stream, stream, panel)

    strip: Expr = c64(1)
    if x.streams:
        streams = mul(takes_streams(x, machine), STREAM)
        stmts.append(Let(var("method"), streams, mutable=x.dots))
        thin = block(
            assign(best, stream_cost(x, machine)),
            assign(mr, stream_rows(x, machine)),
            assign(nv, stream_vectors(machine, mr)),
        )
        stmts.append(If(is_stream, thin, searched))
        stmts.append(Let(var("strip"), strip_depth(x, machine, mr)))
        strip = var("strip")
    else:
        stmts.append(searched)
    if x.dots:
        dots = takes_dots(x, machine, best, packs[1])
        if x.streams:
            is_panel = compare("==", method, PANEL)
            stmts.append(when(is_panel, assign(var("method"), dots)))
        else:
            stmts.append(Let(var("method"), dots))
        stmts.append(when(compare("==", method, DOT), assign(best, dot_cost(x, machine))))
        packs = _in_dots(method, packs[0], c64(0)), _in_dots(method, packs[1], c64(int(x.turns)))
    flags: list[Expr] = []
    for flag, name in zip(packs, ("pack_a", "pack_b"), strict=True):
        if value_of(flag) is None:
            stmts.append(Let(var(name), flag))
        flags.append(flag if value_of(flag) is not None else var(name))
    pack_a, pack_b = flags
    deep = max64(x.k, 1) if x.dots else stream_pass(strip)
    if x.dots and x.streams:
        deep = select(is_stream, stream_pass(strip), deep)
    stmts.append(Let(kc, select(compare("!=", method, PANEL), deep, pass_depth(x))))
    tasks = c64(1), stream_stretches(x, machine)
    stmts.append(Let(mt, either(tasks[0], least_rows(x, machine, mr, kc)), mutable=True))
    least = least_columns(x, machine, nv, kc, pack_a)
    stmts.append(Let(nt, either(tasks[1], least), mutable=True))
    repeated = either(c64(APART), pack_a)
    i, j, work, least_work = var("i"), var("j"), var("work"), var("least_work")
    is_dot = compare("==", method, DOT) if x.dots else Const(False, TRUTH)
    counts = grid_counts(x, threads, mr, nv, is_dot)
    grid = block(
        Let(var("mt0"), mt),
        Let(var("nt0"), nt),
        Let(least_work, c64(0), mutable=True),
        loop(
            i,
            var("mt0"),
            add(var("mt0"), either(c64(1), counts[0])),
            loop(
                j,
                var("nt0"),
                add(var("nt0"), counts[1]),
                *_named(
                    var,
                    work,
                    lambda name: grid_cost(
                        x, machine, threads, mr, nv, i, j, repeated, pack_b, name
                    ),
                ),
                when(
                    any_of(compare("==", least_work, 0), compare("<", work, least_work)),
                    assign(least_work, work),
                    assign(mt, i),
                    assign(nt, j),
                ),
            ),
        ),
    )
    pays = compare(">", mul(best, x.outer), pays_from)
    stmts.append(when(all_of(compare(">", threads, 1), pays), grid))
    shape = block_shape(x, mr, nv, mt, nt)
    stmts += [Let(mc, shape[0]), Let(nc, shape[1])]
    stmts.append(Let(mb, either(mc, cache_rows(x, machine, mr, kc, pack_a, mc))))
    stmts += [assign(mt, ceil_div(x.m, mc)), assign(nt, ceil_div(x.n, nc))]
    chosen = Blocking(mr, nv, pack_a, pack_b, kc, mb, mc, nc, mt, nt, method, strip)
    return stmts, chosen, mul(best, x.outer)


# ---- as a function


def plan_function(
    name: str, x: Extents, machine: Machine, params: tuple[Var, ...], table: Table
) -> Function:
    """Return the function that writes a blocking and its half cycles to the last of params.

    x stands on the others, which are threads and pays_from beside its own.
    """
    to = params[-1]
    stmts, chosen, half_cycles = plan_blocking(x, machine, i64("threads"), i64("pays_from"), table)
    values = [*(value for _, value in chosen.fields()), half_cycles]
    writes = [assign(load(to, i), value) for i, value in enumerate(values)]
    return Function(name, params, block(stmts, writes), "export")


def planned(x: Extents, machine: Machine, values: Callable[[int], Expr]) -> tuple[Blocking, Expr]:
    """Return the blocking and the half cycles that such a function has written, by their place.

    What no size decides is constant, so that nothing is emitted for what does not occur.
    """
    of = {name: values(i) for i, name in enumerate(Blocking.__slots__)}
    if not x.streams:
        of["strip"] = c64(1)
        if not x.dots:
            of["method"] = c64(PANEL)
    packs = _packs(x, machine, of["mr"], of["nv"], _is_stream(x, of["method"]))
    for name, flag in zip(("pack_a", "pack_b"), packs, strict=True):
        known = value_of(flag)
        if name == "pack_b" and x.dots and x.turns:
            continue
        if known == 0 or (known is not None and not x.dots):
            of[name] = c64(int(known))
    if x.near[0]:
        of["mb"] = of["mc"]
    if x.is_tiled:
        ((mr, nv),) = tiles_for(x, ())
        of |= {"mr": c64(mr), "nv": c64(nv)}
    return Blocking(**of), values(len(of))


def _is_stream(x: Extents, method: Expr) -> Expr:
    """Return whether a method is the stream method."""
    return compare("==", method, STREAM) if x.streams else Const(False, TRUTH)


def _packs(x: Extents, machine: Machine, mr: Expr, nv: Expr, is_stream: Expr) -> tuple[Expr, Expr]:
    """Return whether to pack a, and whether to pack b, in the panel or in the stream method."""
    panel = packs_a(x, nv), packs_b(x, machine, mr)
    if value_of(is_stream) == 0:
        return panel
    stream = stream_packs_a(x), c64(0)
    both = tuple(
        p if value_of(s) == value_of(p) is not None else select(is_stream, s, p)
        for s, p in zip(stream, panel, strict=True)
    )
    return both[0], both[1]


def _in_dots(method: Expr, flag: Expr, dots: Expr) -> Expr:
    """Return a flag of the other methods, that of the dot method in it."""
    if value_of(flag) == value_of(dots) is not None:
        return flag
    return select(compare("==", method, DOT), dots, flag)


def _named(var: Callable[[str], Var], result: Var, formula: Callable[[Name], Expr]) -> list[Stmt]:
    """Return the declarations of a formula's parts and of its result."""
    stmts: list[Stmt] = []

    def name(stem: str, value: Expr) -> Expr:
        if value_of(value) is not None:
            return value
        stmts.append(Let(var(stem), value))
        return var(stem)

    value = formula(name)
    return [*stmts, Let(result, value)]
