"""From a choice to a nest: with constants of known sizes, or a plan that chooses in each call."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import replace

from tcdsl.codegen.forms.base.context import Context
from tcdsl.codegen.forms.base.lowered import Lowered, Phase
from tcdsl.codegen.forms.base.operands import Operands
from tcdsl.codegen.forms.contraction.ahead import fetches_rows
from tcdsl.codegen.forms.contraction.blocking import (
    AHEAD,
    DOT,
    METHODS,
    PANEL,
    STREAM,
    Blocking,
    Extents,
)
from tcdsl.codegen.forms.contraction.called import Kernels, strides_of
from tcdsl.codegen.forms.contraction.choice import (
    ContractionChoice,
    blocking_of,
    is_shared,
    number,
)
from tcdsl.codegen.forms.contraction.kept import (
    kept_where_planned,
    loop_ahead,
    packed_together,
    planned_packing,
    threads_of_call,
    turn_ns,
    with_packing,
)
from tcdsl.codegen.forms.contraction.library import Planning, declared, traits_of
from tcdsl.codegen.forms.contraction.panel import Panel
from tcdsl.codegen.forms.contraction.phase import phase
from tcdsl.codegen.forms.contraction.plan import planned
from tcdsl.codegen.forms.contraction.problem import extent_of
from tcdsl.codegen.forms.contraction.ragged import even_rows
from tcdsl.codegen.forms.contraction.schedule import kernel_set
from tcdsl.codegen.forms.contraction.sides import numbers
from tcdsl.codegen.loops import build as b
from tcdsl.codegen.loops.loopir import (
    I64,
    Address,
    Array,
    Bin,
    Call,
    Cast,
    Elem,
    Eval,
    Expr,
    Function,
    Let,
    Pointer,
    Scalar,
    Stmt,
)
from tcdsl.codegen.machine.cpu import Machine
from tcdsl.grammar.types.dtypes import FLOAT64, INT64


def exact(ctx: Context, panel: Panel, choice: ContractionChoice) -> Lowered:
    """Return the nest with all extents and choices as constants."""
    x = panel.extents()
    sizes = numbers(ctx, panel)
    g = blocking_of(sizes, ctx.machine, choice)
    tiles = _tiles(x, panel, choice)
    if panel.problem.statement.is_ragged:  # rows that have more terms than others of their tile
        tiles = tuple(sorted({*tiles, *((1, v) for _, v in tiles)}, key=lambda t: (t[1], t[0])))
    is_packed = choice.method == PANEL and b.value_of(g.pack_b) == 1
    loop = loop_ahead(ctx, panel) if is_packed else None
    together = loop is None and is_packed and is_shared(sizes, number(g.mt))
    if loop is not None:
        panel = replace(panel, kept=b.plan_param(ctx.param_base))
    elif together:
        panel = replace(panel, kept=ctx.shared_base)
    if panel.kept is not None:
        g = replace(g, pack_b=b.c64(AHEAD))
    fetches = bool(b.value_of(fetches_rows(sizes, ctx.machine, g.kc)))
    strides = strides_of(panel, g, ctx.machine, fetches_rows=fetches)
    kernels = Kernels(panel, ctx.machine, tiles, strides, may_pass=True)
    callers = phase(panel, g, kernels, [])
    functions = [*kernels.functions(kernels.told(callers)), *callers]
    ns = turn_ns(ctx, panel, choice)
    lowered = _lowered(
        ctx, panel, x, g, functions, (), b.const(ns, FLOAT64), f"{choice.mr}x{choice.nv}"
    )
    if together:
        return packed_together(ctx, panel, g, lowered)
    return lowered if loop is None else with_packing(ctx, panel, g, lowered, loop)


def decided(ctx: Context, panel: Panel, choice: ContractionChoice) -> tuple[Hashable, ...]:
    """Return what of a choice decides the nest."""
    g = blocking_of(numbers(ctx, panel), ctx.machine, choice)
    tiles = _tiles(panel.extents(), panel, choice)
    if choice.method != STREAM:
        g = replace(g, strip=g.kc)
    return g, *tiles


def _tiles(x: Extents, panel: Panel, choice: ContractionChoice) -> tuple[tuple[int, int], ...]:
    """Return the register tiles that occur.

    The dot method needs them for its epilogue only, the stream method none.
    """
    is_plain_dot = choice.method == DOT and panel.finish.is_plain
    return () if choice.method == STREAM or is_plain_dot else _remainders(x, choice)


def _remainders(x: Extents, c: ContractionChoice) -> tuple[tuple[int, int], ...]:
    """Return the tiles that occur: the full one and what is left at the ends."""
    m, n = number(x.m), number(x.n)
    width = c.nv * x.lanes
    rows = {c.mr if m >= c.mr else 0, m % c.mr} - {0}
    vectors = {c.nv if n >= width else 0, -(-(n % width) // x.lanes)} - {0}
    return tuple((r, v) for v in sorted(vectors) for r in sorted(rows)) or ((c.mr, c.nv),)


def generic(ctx: Context, panel: Panel) -> Lowered:
    """Return the nest whose plan chooses the blocking."""
    machine, operands = ctx.machine, ctx.operands
    x = panel.extents()
    counts = {"outer": x.outer, "m": x.m, "n": x.n, "k": x.k}
    if panel.neighbours is not None:
        counts["groups"] = x.groups
    names = {name: b.i64(operands.local(f"extent_{name}")) for name in counts}
    named = [Let(names[name], e) for name, e in counts.items()]
    groups = names.get("groups", names["outer"])
    x = replace(x, outer=names["outer"], groups=groups, m=names["m"], n=names["n"], k=names["k"])
    loop = None if x.keeps_b else loop_ahead(ctx, panel)
    first = ctx.param_base
    if loop is not None:
        panel, first = replace(panel, kept=b.plan_param(first)), first + 1
    imports, planning, place = _planning(operands, machine, panel, x, in_loop=loop is not None)
    plan: list[Stmt] = [*named, *planning]
    chosen, half_cycles = planned(x, machine, place)
    if panel.problem.natural and not x.packs_b:
        chosen = replace(chosen, pack_b=b.c64(0))  # its lines are fetched a panel ahead
    if panel.is_tiled and not x.packs_a:
        chosen = replace(chosen, pack_a=b.select(_has_rest(panel), b.c64(1), b.c64(0)))
    if panel.problem.statement.is_ragged:
        more, chosen = _in_even_rows(ctx, x, chosen)
        plan += more
    if loop is not None:
        more, chosen = kept_where_planned(ctx, panel, x, chosen)
        plan += more
    prologue: list[Stmt] = []
    fields: dict[str, Expr] = {}
    for name, value in chosen.fields():
        fields[name] = value
        if b.value_of(value) is None:
            param = first + len(prologue)
            plan.append(b.set_param(param, value))
            v = b.i64(operands.local(name))
            fields[name] = v
            prologue.append(Let(v, b.plan_param(param)))
    g = Blocking(**fields)
    tiles = kernel_set(machine.registers)
    strides = strides_of(panel, g, machine)
    kernels = Kernels(panel, machine, tiles, strides, in_parts=True, may_pass=True)
    functions = [*imports, *kernels.functions(), *phase(panel, g, kernels, prologue)]
    real = Scalar(FLOAT64)
    ns_per_half_cycle = b.const(0.5 / machine.frequency_ghz, FLOAT64)
    cost = b.arith("*", Cast(half_cycles, real), ns_per_half_cycle)
    lowered = _lowered(ctx, panel, x, chosen, functions, tuple(plan), cost, "any tile")
    lowered = replace(lowered, params_used=first - ctx.param_base + len(prologue))
    if loop is None:
        return lowered
    return planned_packing(ctx, panel, x, chosen, g, prologue, lowered, loop)


def _has_rest(panel: Panel) -> Expr:
    """Return whether k is no number of whole words, whose rows tiles cannot read where they lie."""
    rest = Bin("%", panel.extent(panel.problem.k), b.c64(panel.per_step), I64)
    return b.compare("!=", rest, 0)


def _planning(
    operands: Operands, machine: Machine, panel: Panel, x: Extents, *, in_loop: bool
) -> tuple[list[Function], list[Stmt], Callable[[int], Expr]]:
    """Return the library's schedules that a plan asks, how, and the places of their answer.

    in_loop: b may be packed before the loop around the phase, in nobody's time: no reason to take
    dots or to stream, unless a turn is quicker so.
    """
    imports: list[Function] = []

    def asked(x: Extents, into: str) -> list[Stmt]:
        planning = Planning.of(machine, panel.vector, traits_of(x))
        imports.append(declared(planning))
        to = Address(Elem(into, (b.c64(0),), I64), Pointer(INT64))
        args = planning.arguments(x, machine, threads_of_call())
        return [Array(into, I64, (count,)), Eval(Call(planning.name, (*args, to), None))]

    blocking, direct = operands.local("blocking"), operands.local("direct")
    fields = Blocking.__slots__
    count = len(fields) + 1

    def place(i: int) -> Expr:
        return Elem(blocking, (b.c64(i),), I64)

    if not in_loop or not (x.dots or x.streams):
        return imports, asked(x, blocking), place
    stmts = asked(replace(x, dots=False, streams=False), blocking) + asked(x, direct)
    i = b.i64(operands.local("i"))
    method, cost = (Elem(direct, (b.c64(k),), I64) for k in (fields.index("method"), count - 1))
    is_quicker = b.all_of(b.compare("!=", method, PANEL), b.compare("<", cost, place(count - 1)))
    copy = b.assign(Elem(blocking, (i,), I64), Elem(direct, (i,), I64))
    return imports, [*stmts, b.when(is_quicker, b.loop(i, 0, count, copy))], place


def _in_even_rows(ctx: Context, x: Extents, g: Blocking) -> tuple[list[Stmt], Blocking]:
    """Return a plan's blocking with as many tasks along rows as even out ragged ones."""
    mt, mc, mb = (b.i64(ctx.operands.local(f"even_{name}")) for name in ("mt", "mc", "mb"))
    count = even_rows(x, threads_of_call(), g.mr, g.mt, g.nt)
    each = b.ceil_div(x.m, b.max64(count, 1))  # without rows there are no tasks
    rows = b.mul(b.max64(b.ceil_div(each, g.mr), 1), g.mr)
    stmts: list[Stmt] = [
        Let(mc, b.min64(g.mc, rows)),
        Let(mb, b.min64(g.mb, mc)),
        Let(mt, b.ceil_div(x.m, mc)),
    ]
    return stmts, replace(g, mt=mt, mc=mc, mb=mb)


def _lowered(
    ctx: Context,
    panel: Panel,
    x: Extents,
    g: Blocking,
    functions: list[Function],
    plan: tuple[Stmt, ...],
    cost: Expr,
    tile: str,
) -> Lowered:
    packed = [n for n, f in (("a", g.pack_a), ("b", g.pack_b)) if b.value_of(f) in (1, AHEAD)]
    known = b.value_of(g.method)
    others = " or dot" * x.dots + " or stream" * x.streams
    method = f"panel{others}" if known is None else METHODS[known]
    words = ["contraction", method, *([tile] if method != "dot" else [])]
    words += [f"packed {' '.join(packed)}"] if packed else []
    words += [] if panel.finish.is_plain else ["+ epilogue"]
    p = panel.problem
    points = 1.0
    for fused in (p.outer, p.m, p.n, p.k):
        points *= ctx.extent(extent_of(fused))
    return Lowered(
        title=" ".join(words),
        functions=tuple(functions),
        phases=(Phase(functions[-1].name, b.mul(x.groups, g.mt, g.nt), cost),),
        plan=plan,
        thread_bytes=panel.areas(g)["end"][0],
        shared_bytes=b.c64(0),
    )
