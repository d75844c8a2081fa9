"""The plan of a size-generic contraction: the analytic schedule as text, run once per sizes."""

from __future__ import annotations

from collections.abc import Callable

from tcdsl.codegen.forms.contraction.blocking import Blocking, Extents
from tcdsl.codegen.forms.contraction.schedule import (
    GRID,
    MAX_ROWS,
    Name,
    block_shape,
    cache_rows,
    dot_cost,
    grid_cost,
    kernel_set,
    least_columns,
    least_rows,
    packs_a,
    packs_b,
    pass_depth,
    step_costs,
    takes_dots,
    tile_cost,
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
from tcdsl.codegen.loops.loopir import I64, Elem, Expr, Function, Let, Stmt, Table, Var
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
    var, tiles = i64, kernel_set(machine.registers)

    def step(mr: Expr, nv: Expr) -> Expr:
        return Elem(table.name, (add(mul(nv, MAX_ROWS + 1), mr),), I64)

    mr, nv, best = var("mr"), var("nv"), var("best")
    r, v, narrower, cost = var("r"), var("v"), var("narrower"), var("cost")
    most = {nv: max(m for m, n in tiles if n == nv) for _, nv in tiles}
    stmts: list[Stmt] = [
        Let(mr, c64(1), mutable=True),
        Let(nv, c64(1), mutable=True),
        Let(best, c64(0), mutable=True),
    ]
    better = any_of(compare("==", best, 0), compare("<", mul(cost, 200), mul(best, 199)))
    rows: Expr = c64(most[max(most)])
    for vectors in sorted(most, reverse=True)[1:]:
        rows = select(compare("<=", v, vectors), c64(most[vectors]), rows)
    search = loop(
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
    stmts.append(when(compare(">", mul(x.m, x.n), 0), search))
    kc, mt, nt, mb, mc, nc = map(var, ("kc", "mt", "nt", "mb", "mc", "nc"))
    packs = packs_a(x, nv), packs_b(x, machine, mr)
    dot = var("dot") if x.dots else c64(0)
    if x.dots:
        stmts.append(Let(var("dot"), takes_dots(x, machine, best, packs[1])))
        stmts.append(when(compare("!=", dot, 0), assign(best, dot_cost(x, machine))))
        packs = _without(dot, packs[0]), _without(dot, packs[1])
    flags: list[Expr] = []
    for flag, name in zip(packs, ("pack_a", "pack_b"), strict=True):
        if value_of(flag) is None:
            stmts.append(Let(var(name), flag))
        flags.append(flag if value_of(flag) is not None else var(name))
    pack_a, pack_b = flags
    whole = max64(x.k, 1)
    stmts.append(Let(kc, select(compare("!=", dot, 0), whole, pass_depth(x))))
    stmts.append(Let(mt, least_rows(x, machine, mr, kc), mutable=True))
    stmts.append(Let(nt, least_columns(x, machine, nv, kc, pack_a), mutable=True))
    i, j, work, least_work = var("i"), var("j"), var("work"), var("least_work")
    grid = block(
        Let(var("mt0"), mt),
        Let(var("nt0"), nt),
        Let(least_work, c64(0), mutable=True),
        loop(
            i,
            var("mt0"),
            add(var("mt0"), GRID),
            loop(
                j,
                var("nt0"),
                add(var("nt0"), GRID),
                *_named(
                    var,
                    work,
                    lambda name: grid_cost(x, threads, mr, nv, i, j, pack_a, pack_b, name),
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
    stmts.append(Let(mb, cache_rows(x, machine, mr, kc, pack_a, mc)))
    stmts += [assign(mt, ceil_div(x.m, mc)), assign(nt, ceil_div(x.n, nc))]
    return stmts, Blocking(mr, nv, pack_a, pack_b, kc, mb, mc, nc, mt, nt, dot), mul(best, x.outer)


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
    if not x.dots:
        of["dot"] = c64(0)
    flags = {"pack_a": packs_a(x, of["nv"]), "pack_b": packs_b(x, machine, of["mr"])}
    for name, flag in flags.items():
        known = value_of(flag)
        if known == 0 or (known is not None and not x.dots):
            of[name] = c64(int(known))
    if x.near[0]:
        of["mb"] = of["mc"]
    return Blocking(**of), values(len(of))


def _without(dot: Expr, flag: Expr) -> Expr:
    """Return a flag of the panel method, 0 in the dot method."""
    if value_of(flag) == 0:
        return flag
    return select(compare("!=", dot, 0), c64(0), flag)


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
