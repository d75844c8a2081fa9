"""Contractions: a sum of products of two affine accesses, with a pointwise epilogue.

Methods: `panel` (register tiles of rows x vectors, operands packed where that pays), `dot`
(few rows, vectors along the sum) and `stream` (few rows, b read once in its own order).

    problem             what is contracted: the roles of indices, strides
    epilogue, finish    what happens to the sums
    blocking            how it is cut: facts and choices,
    schedule, thin      formulas, those of few rows
    choice, plan        of known sizes, of sizes known at run time
    kernel, dot, stream micro-kernels,
    pack                packers
    library, names      those that a machine compiles once
    called              which of them a nest calls
    panel, phase        the nest around them: tasks,
    block, tiles        their blocks, register tiles
    strips              their strips of b
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import ceil

from tcdsl.codegen.forms.base.context import Context
from tcdsl.codegen.forms.base.form import Form
from tcdsl.codegen.forms.base.lowered import Lowered, Phase
from tcdsl.codegen.forms.contraction.blocking import DOT, METHODS, PANEL, STREAM, Blocking, Extents
from tcdsl.codegen.forms.contraction.called import Kernels, strides_of
from tcdsl.codegen.forms.contraction.choice import ContractionChoice, blocking_of, choose, predicted
from tcdsl.codegen.forms.contraction.epilogue import Unfused, split_group
from tcdsl.codegen.forms.contraction.finish import Finish
from tcdsl.codegen.forms.contraction.kept import loop_ahead
from tcdsl.codegen.forms.contraction.kernel import ROW_GROUP
from tcdsl.codegen.forms.contraction.library import Planning, declared, traits_of
from tcdsl.codegen.forms.contraction.panel import Panel
from tcdsl.codegen.forms.contraction.phase import packing_ahead, phase
from tcdsl.codegen.forms.contraction.plan import planned
from tcdsl.codegen.forms.contraction.problem import Problem, Side, extent_of
from tcdsl.codegen.forms.contraction.ragged import even_rows, takes_ragged
from tcdsl.codegen.forms.contraction.schedule import kernel_set, pass_depth, register_tiles
from tcdsl.codegen.forms.contraction.words import Words, words_of
from tcdsl.codegen.loops import build as b
from tcdsl.codegen.loops.loopir import (
    I64,
    Address,
    Array,
    Call,
    Cast,
    Elem,
    Eval,
    Expr,
    Field,
    Function,
    Let,
    Pointer,
    Scalar,
    Stmt,
)
from tcdsl.codegen.machine.config import Knob, Value
from tcdsl.grammar.text.errors import ScheduleError
from tcdsl.grammar.types.dtypes import FLOAT64, INT64

# Whose register tiles a size-generic executable has: with its epilogue they are its own.
LIBRARY, OWN = "library", "own"
NATURAL = ".natural"  # behind the factor along whose own neighbours vectors run
_MANY_ROWS = 65  # from which on a factor is used so often that it is turned around
_DEEP = 96  # terms of a sum from which on a pass over finished tiles costs little beside it
_PACK_NS = 0.5  # an element
_COUNTS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)  # of tasks along a direction


def matches(ctx: Context) -> bool:
    """Whether the group is one contraction and pointwise statements on its result."""
    return _panel(ctx, Side()) is not None


def knobs(ctx: Context) -> tuple[Knob, ...]:
    """Return the choices; with sizes not known the plan makes most of them at run time."""
    out = [Knob("columns", tuple(_sides(ctx)))]
    words = [1, *(w.count for w in _words(ctx, _required(ctx, Side())))]
    if len(words) > 1:
        out.append(Knob("word", tuple(sorted(words))))
    if not ctx.is_exact():
        if _has_work(ctx):
            out.append(Knob("tiles", (LIBRARY, OWN)))
        return tuple(out)
    chosen = default(ctx)
    x = _numbers(ctx, _of(ctx, chosen))
    sides = [_required(ctx, side).extents() for side in _sides(ctx).values()]
    possible = {"dot": x.dots, "stream": any(side.streams for side in sides)}
    out.append(Knob("method", tuple(name for name in METHODS if possible.get(name, True))))
    tiles = tuple(f"{mr}x{nv}" for mr, nv in register_tiles(ctx.machine) if mr <= max(1, _int(x.m)))
    out.append(Knob("tile", tiles))
    for name in ("pack_a", "pack_b"):  # the dot method packs nothing, whatever panels need
        packing = {bool(chosen[name])}.union(*(_packing(panel, name) for panel in sides))
        out.append(Knob(name, tuple(sorted(packing))))
    strips = (depth for depth in (8, 16, 32, 64) if depth <= _int(x.k) and possible["stream"])
    out.append(Knob("depth", tuple(sorted({*_depths(x), *strips, int(chosen["depth"])}))))
    for name, extent in (("rows", x.m), ("cols", x.n)):
        counts = {c for c in _COUNTS if c <= max(1, _int(extent) // 4)} | {int(chosen[name])}
        out.append(Knob(name, tuple(sorted(counts))))
    return tuple(out)


def default(ctx: Context) -> dict[str, Value]:
    """Return the analytic schedule."""
    side = next(iter(_sides(ctx)))
    word = _default_word(ctx, side)
    if not ctx.is_exact():
        if not _has_work(ctx):
            return {"columns": side} | word
        problem = _required(ctx, Side()).problem
        is_deep = ctx.at_least(extent_of(problem.k), _DEEP)
        return {"columns": side, "tiles": LIBRARY if is_deep else OWN} | word
    c = ctx.once("contraction default", lambda: _chosen(ctx, {"columns": side} | word))
    return {
        "columns": side,
        **word,
        "method": METHODS[c.method],
        "tile": f"{c.mr}x{c.nv}",
        "pack_a": c.pack_a,
        "pack_b": c.pack_b,
        "depth": c.kc,
        "rows": c.mt,
        "cols": c.nt,
    }


def _default_word(ctx: Context, side: str) -> dict[str, Value]:
    """Return how many steps along k a word has, if there is a choice: the model's."""
    options = _words(ctx, _required(ctx, _side(ctx, {"columns": side})))
    if not options:
        return {}

    def time_ns(word: int) -> float:
        values: dict[str, Value] = {"columns": side, "word": word}
        panel, choice = _of(ctx, values), _chosen(ctx, values)
        x = _numbers(ctx, panel)
        return predicted(x, ctx.machine, ctx.spec.threads, choice, staged=panel.has_stage)

    counts = (*(w.count for w in options), 1)
    return {"word": ctx.once("contraction word", lambda: min(counts, key=time_ns))}


def _chosen(ctx: Context, values: Mapping[str, Value]) -> ContractionChoice:
    panel = _of(ctx, values)
    x = _numbers(ctx, panel)
    c = choose(x, ctx.machine, ctx.spec.threads, register_tiles(ctx.machine))
    if panel.problem.natural and not x.packs_b:
        c = replace(c, pack_b=False)  # its lines are fetched a panel ahead
    if loop_ahead(ctx.program, ctx.group, panel) is not None and not x.keeps_b:
        # packing is nobody's time: no reason to go without, or to take dots
        thick = replace(x, dots=False, streams=False)
        packed = choose(thick, ctx.machine, ctx.spec.threads, register_tiles(ctx.machine))
        if c.method == PANEL or _turn_ns(ctx, panel, packed) <= _turn_ns(ctx, panel, c):
            c = replace(packed, pack_b=True)
    if panel.problem.statement.is_ragged:
        mr, mt, nt = map(b.c64, (c.mr, c.mt, c.nt))
        c = replace(c, mt=_int(even_rows(x, b.c64(ctx.spec.threads), mr, mt, nt)))
    return c


def _turn_ns(ctx: Context, panel: Panel, c: ContractionChoice, threads: int = 1) -> float:
    """Return the predicted time of a turn, without the packing that stands before the loop."""
    x = _numbers(ctx, panel)
    is_ahead = c.method == PANEL and loop_ahead(ctx.program, ctx.group, panel) is not None
    timed = replace(c, pack_b=c.pack_b and not is_ahead)
    return predicted(x, ctx.machine, threads, timed, staged=panel.has_stage)


def cost_ns(ctx: Context, values: Mapping[str, Value]) -> float:
    """Return the predicted time of a call with the spec's threads (`wall.py`)."""
    panel = _of(ctx, values)
    if ctx.is_exact():
        return _turn_ns(ctx, panel, _choice(values), ctx.spec.threads)
    x = _numbers(ctx, panel)
    choice = choose(x, ctx.machine, ctx.spec.threads, kernel_set(ctx.machine.registers))
    return predicted(x, ctx.machine, ctx.spec.threads, choice, staged=panel.has_stage)


def lower(ctx: Context, values: Mapping[str, Value]) -> Lowered:
    """Return one phase whose tasks are blocks of the output."""
    panel = _of(ctx, values)
    if ctx.is_exact():
        return _exact(ctx, panel, _choice(values))
    own = panel.has_work and values["tiles"] == OWN
    return _generic(ctx, replace(panel, shares=True, fuses=own))


# ---- exact and size-generic


def _exact(ctx: Context, panel: Panel, choice: ContractionChoice) -> Lowered:
    """Return the nest with all extents and choices as constants."""
    x = panel.extents()
    _check(ctx, x, choice)
    g = blocking_of(_numbers(ctx, panel), ctx.machine, choice)
    # the dot method needs register tiles for its epilogue only, the stream method none
    needs = choice.method != STREAM and not (choice.method == DOT and panel.finish.is_plain)
    tiles = _remainders(x, choice) if needs else ()
    if panel.problem.statement.is_ragged:  # rows that have more terms than others of their tile
        tiles = tuple(sorted({*tiles, *((1, v) for _, v in tiles)}, key=lambda t: (t[1], t[0])))
    loop = loop_ahead(ctx.program, ctx.group, panel) if b.value_of(g.pack_b) == 1 else None
    if loop is not None:
        panel = replace(panel, kept=b.plan_param(ctx.param_base))
    kernels = Kernels(panel, ctx.machine, tiles, strides_of(panel, g))
    functions = [*kernels.functions(), *phase(panel, g, kernels, [])]
    ns = _turn_ns(ctx, panel, choice)
    lowered = _lowered(
        ctx, panel, x, g, functions, (), b.const(ns, FLOAT64), f"{choice.mr}x{choice.nv}"
    )
    if loop is None:
        return lowered
    ahead = packing_ahead(panel, g)
    elements = _int(x.n) * _int(x.k)
    return replace(
        lowered,
        title=lowered.title.replace("packed", "ahead of the loop packed"),
        functions=(*lowered.functions, ahead),
        ahead=(Phase(ahead.name, g.nt, b.const(elements * _PACK_NS, FLOAT64)),),
        ahead_of=loop,
        kept_bytes=b.c64(elements * x.bytes),
        kept_param=ctx.param_base,
        params_used=1,
    )


def _remainders(x: Extents, c: ContractionChoice) -> tuple[tuple[int, int], ...]:
    """Return the tiles that occur: the full one and what is left at the ends."""
    m, n = _int(x.m), _int(x.n)
    width = c.nv * x.lanes
    rows = {c.mr if m >= c.mr else 0, m % c.mr} - {0}
    vectors = {c.nv if n >= width else 0, -(-(n % width) // x.lanes)} - {0}
    return tuple((r, v) for v in sorted(vectors) for r in sorted(rows)) or ((c.mr, c.nv),)


def _generic(ctx: Context, panel: Panel) -> Lowered:
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
    planning = Planning.of(machine, panel.vector, traits_of(x))
    blocking = operands.local("blocking")

    def place(i: int) -> Elem:
        return Elem(blocking, (b.c64(i),), I64)

    args = planning.arguments(x, machine, _threads())
    to = Address(place(0), Pointer(INT64))
    plan: list[Stmt] = [
        *named,
        Array(blocking, I64, (len(Blocking.__slots__) + 1,)),
        Eval(Call(planning.name, (*args, to), None)),
    ]
    chosen, half_cycles = planned(x, machine, place)
    if panel.problem.statement.is_ragged:
        more, chosen = _in_even_rows(ctx, x, chosen)
        plan += more
    prologue: list[Stmt] = []
    fields: dict[str, Expr] = {}
    for name, value in chosen.fields():
        fields[name] = value
        if b.value_of(value) is None:
            param = ctx.param_base + len(prologue)
            plan.append(b.set_param(param, value))
            v = b.i64(operands.local(name))
            fields[name] = v
            prologue.append(Let(v, b.plan_param(param)))
    g = Blocking(**fields)
    tiles = kernel_set(machine.registers)
    kernels = Kernels(panel, machine, tiles, strides_of(panel, g), in_parts=True)
    functions = [declared(planning), *kernels.functions(), *phase(panel, g, kernels, prologue)]
    real = Scalar(FLOAT64)
    ns_per_half_cycle = b.const(0.5 / machine.frequency_ghz, FLOAT64)
    cost = b.arith("*", Cast(half_cycles, real), ns_per_half_cycle)
    lowered = _lowered(ctx, panel, x, chosen, functions, tuple(plan), cost, "any tile")
    return replace(lowered, params_used=len(prologue))


def _in_even_rows(ctx: Context, x: Extents, g: Blocking) -> tuple[list[Stmt], Blocking]:
    """Return a plan's blocking with as many tasks along rows as even out ragged ones."""
    mt, mc, mb = (b.i64(ctx.operands.local(f"even_{name}")) for name in ("mt", "mc", "mb"))
    count = even_rows(x, _threads(), g.mr, g.mt, g.nt)
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
    packed = [n for n, f in (("a", g.pack_a), ("b", g.pack_b)) if b.value_of(f) == 1]
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


# ---- what the group is


def _panel(ctx: Context, side: Side) -> Panel | None:
    """Return what the panel method is given, or None where it does not fit."""
    split = ctx.once(("split", side), lambda: _split(ctx, side))
    if split is None:
        return None
    problem, finish = split
    if not problem.m and not problem.n:
        return None  # a dot product is a reduction
    lanes = ctx.machine.lanes(problem.dtype.computed.size_bytes)
    if problem.term != "product" and not _fills_tiles(ctx, problem, lanes):
        return None
    panel = Panel(problem, finish, ctx.operands, ctx.prefix, lanes)
    return panel if takes_ragged(ctx, panel) else None


def _fills_tiles(ctx: Context, p: Problem, lanes: int) -> bool:
    """Whether there is a tile for differences; few of them are folded along the sum, unpacked."""
    rows, columns = extent_of(p.m), extent_of(p.n)
    return ctx.at_least(rows, ROW_GROUP) and ctx.at_least(columns, lanes)


def _split(ctx: Context, side: Side) -> tuple[Problem, Finish] | None:
    try:
        return split_group(ctx, side)
    except Unfused:
        return None


def _required(ctx: Context, side: Side) -> Panel:
    panel = _panel(ctx, side)
    if panel is None:
        raise ScheduleError(f"{ctx.prefix}: not a contraction with such vectors")
    return panel


def _of(ctx: Context, values: Mapping[str, Value]) -> Panel:
    """Return what the panel method is given under a choice of columns and words."""
    panel = _required(ctx, _side(ctx, values))
    count, options = values.get("word", 1), _words(ctx, panel)
    if count == 1 or not options or values.get("method") == "dot":  # which packs nothing
        return panel
    words = next((w for w in options if w.count == count), None)
    if words is None:
        raise ScheduleError(f"{ctx.prefix}.word cannot be {count} for these types")
    return replace(panel, words=words)


def _words(ctx: Context, panel: Panel) -> tuple[Words, ...]:
    """Return the words that a contraction may be made of, the longest first."""
    p = panel.problem
    if p.term != "product" or panel.neighbours is not None or p.statement.is_ragged or not p.k:
        return ()
    return words_of(ctx.machine, panel.stored(p.a), panel.stored(p.b), panel.dtype)


_SIDES = Side(), Side(other=True), Side(natural=True)


def _sides(ctx: Context) -> dict[str, Side]:
    """Return the factors whose indices may run along vectors, the better one first.

    Where the output has unit stride in neither, the longer side fills vectors better. A factor
    stays as it lies where few rows use it: its vectors are turned around on their way in, once for
    each term of the sum, or on their way out, once for each row.
    """
    sides: dict[str, tuple[Side, Problem]] = {}
    for side in _SIDES:
        panel = _panel(ctx, side)
        if panel is not None:
            name = panel.problem.b.buffer + NATURAL * side.natural
            sides.setdefault(name, (side, panel.problem))

    problems = {name: p for name, (_, p) in sides.items()}
    natural = [name for name in sides if name.endswith(NATURAL)]
    names = sorted(
        sides.keys() - natural, key=lambda n: (not problems[n].unit, list(sides).index(n))
    )
    if len(names) > 1:
        first, second = (problems[name] for name in names)
        longer = extent_of(second.n) - extent_of(first.n)
        if first.unit == second.unit and ctx.at_least(longer, 1):
            names.reverse()
    for name in natural:
        is_thin = not ctx.at_least(extent_of(problems[name].m), _MANY_ROWS)
        names.insert(0 if is_thin else len(names), name)
    return {name: sides[name][0] for name in names}


def _has_work(ctx: Context) -> bool:
    return any((panel := _panel(ctx, side)) and panel.has_work for side in _SIDES)


def _side(ctx: Context, values: Mapping[str, Value]) -> Side:
    name = str(values["columns"])
    sides = _sides(ctx)
    if name not in sides:
        raise ScheduleError(f"{ctx.prefix}: no vectors along '{name}'")
    return sides[name]


def _numbers(ctx: Context, panel: Panel) -> Extents:
    """Return what the schedule depends on at the representative sizes."""
    p = panel.problem
    outer, m, n, k = (b.c64(ctx.extent(extent_of(fused))) for fused in (p.outer, p.m, p.n, p.k))
    row = p.a.linear(p.m)
    known = row is not None and set(row.symbols()) <= set(ctx.sizes)
    stride = b.c64(ctx.extent(row)) if row is not None and known else b.c64(1)
    x = panel.extents()
    near = panel.neighbours
    groups: Expr = outer
    if near is not None:
        count = ctx.extent(near.extent)
        groups = b.mul(b.div(outer, max(1, count)), b.ceil_div(count, panel.lanes))
    return replace(
        x,
        outer=outer,
        groups=groups,
        m=m,
        n=n,
        k=b.ceil_div(k, panel.per_step),
        a_row=None if row is None else stride,
    )


def _int(e: Expr) -> int:
    value = b.value_of(e)
    assert value is not None, f"{e} is not constant"
    return value


def _choice(values: Mapping[str, Value]) -> ContractionChoice:
    mr, nv = map(int, str(values["tile"]).split("x"))
    return ContractionChoice(
        METHODS.index(str(values["method"])),
        mr,
        nv,
        bool(values["pack_a"]),
        bool(values["pack_b"]),
        int(values["depth"]),
        int(values["rows"]),
        int(values["cols"]),
    )


def _packing(x: Extents, name: str) -> tuple[bool, ...]:
    if x.packs_a if name == "pack_a" else x.packs_b:
        return (True,)
    return (False,) if name == "pack_b" and x.keeps_b else (False, True)


def _depths(x: Extents) -> tuple[int, ...]:
    """Return depths of a pass: the default's, the whole sum, even cuts near powers of two."""
    k = max(1, _int(x.k))
    chosen = {_int(pass_depth(x))}
    if not x.whole:
        chosen.add(k)
        for aim in (128, 256, 512):
            if aim < k:
                even = ceil(k / ceil(k / aim))
                chosen.add(8 * ceil(even / 8))
    return tuple(sorted(chosen))


def _check(ctx: Context, x: Extents, c: ContractionChoice) -> None:
    """Raise if the config of another layout asks for what this one cannot do."""
    possible = {DOT: x.dots, STREAM: x.streams}
    if not possible.get(c.method, True):
        name = METHODS[c.method]
        raise ScheduleError(f"{ctx.prefix}.method cannot be {name} for these layouts")
    if c.method != PANEL:
        return
    for name, value in (("pack_a", c.pack_a), ("pack_b", c.pack_b)):
        if value not in _packing(x, name):
            raise ScheduleError(f"{ctx.prefix}.{name} cannot be {value} for these layouts")
    if x.whole and c.kc < _int(x.k):
        raise ScheduleError(f"{ctx.prefix}.depth must be {_int(x.k)}: the output holds no sums")


def _threads() -> Expr:
    return Field(b.ARGS, "threads", I64)


FORM = Form(
    "contraction", matches, knobs, default, cost_ns, lower, has_tiles=True, takes_ragged=True
)
