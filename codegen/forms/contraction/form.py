"""Contractions: a sum of products of two affine accesses, with a pointwise epilogue.

Methods: `panel` (register tiles of rows x vectors, operands packed where that pays), `dot`
(few rows, vectors along the sum) and `stream` (few rows, b read once in its own order).

    problem, roles      what is contracted: the roles of indices, strides,
    sides               which vectors there are
    epilogue, finish    what happens to the sums
    blocking            how it is cut: facts and choices,
    schedule, thin      formulas, those of few rows
    choice, plan        of known sizes, of sizes known at run time
    kernel, dot, stream micro-kernels,
    packer, pack        packers
    library, names      those that a machine compiles once
    called              which of them a nest calls
    lowered             from a choice to a nest, with its plan where sizes are not known
    panel, phase        the nest around the micro-kernels: tasks,
    block, tiles        their blocks, register tiles
    strips, kept        their strips of b; panels of b that are packed before a loop
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import replace
from math import ceil

from tcdsl.codegen.forms.base.context import Context
from tcdsl.codegen.forms.base.form import Form
from tcdsl.codegen.forms.base.lowered import Lowered
from tcdsl.codegen.forms.contraction.blocking import DOT, METHODS, PANEL, STREAM, Extents
from tcdsl.codegen.forms.contraction.choice import ContractionChoice, choose, number, predicted
from tcdsl.codegen.forms.contraction.kept import packed_ahead, turn_ns
from tcdsl.codegen.forms.contraction.lowered import decided, exact, generic
from tcdsl.codegen.forms.contraction.panel import Panel
from tcdsl.codegen.forms.contraction.problem import Side, extent_of
from tcdsl.codegen.forms.contraction.ragged import even_rows
from tcdsl.codegen.forms.contraction.schedule import (
    kernel_set,
    pass_depth,
    register_tiles,
    tiles_for,
)
from tcdsl.codegen.forms.contraction.sides import (
    chosen_panel,
    has_work,
    numbers,
    panel_of,
    required,
    sides_of,
    words_for,
)
from tcdsl.codegen.loops import build as b
from tcdsl.codegen.machine.config import Knob, Value
from tcdsl.grammar.text.errors import ScheduleError

# Whose register tiles a size-generic executable has: with its epilogue they are its own.
LIBRARY, OWN = "library", "own"
_THICK = 24  # rows from which on words are worth their packing beside b read as it lies
_LOOK_NS = 300  # of looks at words in tiles and of the pass over sums, at least
_DEEP = 96  # terms of a sum from which on a pass over finished tiles costs little beside it
_COUNTS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)  # of tasks along a direction


def matches(ctx: Context) -> bool:
    """Whether the group is one contraction and pointwise statements on its result."""
    return panel_of(ctx, Side()) is not None


def knobs(ctx: Context) -> tuple[Knob, ...]:
    """Return the choices; with sizes not known the plan makes most of them at run time."""
    out = [Knob("columns", tuple(sides_of(ctx)))]
    words = [1, *(w.choice for w in words_for(ctx, required(ctx, Side())))]
    if len(words) > 1:
        out.append(Knob("word", tuple(sorted(words))))
    if not ctx.is_exact():
        if has_work(ctx):  # of words in tiles all are the library's
            out.append(Knob("tiles", (LIBRARY, OWN)))
        return tuple(out)
    chosen = default(ctx)
    x = numbers(ctx, chosen_panel(ctx, chosen))
    sides = [required(ctx, side).extents() for side in sides_of(ctx).values()]
    possible = {"dot": x.dots, "stream": any(side.streams for side in sides)}
    out.append(Knob("method", tuple(name for name in METHODS if possible.get(name, True))))
    tiles = tuple(
        f"{mr}x{nv}" for mr, nv in register_tiles(ctx.machine) if mr <= max(1, number(x.m))
    )
    out.append(Knob("tile", tiles))
    for name in ("pack_a", "pack_b"):  # the dot method packs nothing, whatever panels need
        packing = {bool(chosen[name])}.union(*(_packing(panel, name) for panel in sides))
        out.append(Knob(name, tuple(sorted(packing))))
    strips = (depth for depth in (8, 16, 32, 64) if depth <= number(x.k) and possible["stream"])
    out.append(Knob("depth", tuple(sorted({*_depths(x), *strips, int(chosen["depth"])}))))
    for name, extent in (("rows", x.m), ("cols", x.n)):
        counts = {c for c in _COUNTS if c <= max(1, number(extent) // 4)} | {int(chosen[name])}
        out.append(Knob(name, tuple(sorted(counts))))
    return tuple(out)


def default(ctx: Context) -> dict[str, Value]:
    """Return the analytic schedule."""
    side = next(iter(sides_of(ctx)))
    word = _default_word(ctx, side)
    if not ctx.is_exact():
        if not has_work(ctx):
            return {"columns": side} | word
        panel = replace(chosen_panel(ctx, {"columns": side} | word), shares=True, fuses=False)
        is_added = panel.base is not None or panel.is_tiled
        is_deep = is_added or ctx.at_least(extent_of(panel.problem.k), _DEEP)
        return {"columns": side, "tiles": LIBRARY if is_deep else OWN} | word
    c = ctx.once("contraction default", lambda: _chosen(ctx, {"columns": side} | word))
    own = c
    if chosen_panel(ctx, {"columns": side} | word).is_tiled:  # to which no other tile is asked for
        own = ctx.once("contraction tile", lambda: _chosen(ctx, {"columns": side, "word": 1}))
    return {
        "columns": side,
        **word,
        "method": METHODS[c.method],
        "tile": f"{own.mr}x{own.nv}",
        "pack_a": own.pack_a,
        "pack_b": c.pack_b,
        "depth": c.kc,
        "rows": c.mt,
        "cols": c.nt,
    }


def _default_word(ctx: Context, side: str) -> dict[str, Value]:
    """Return how many steps along k a word has, if there is a choice: the model's."""
    panel = required(ctx, sides_of(ctx)[side])
    options = words_for(ctx, panel)
    if not options:
        return {}
    streams = panel.extents().streams and not ctx.at_least(extent_of(panel.problem.m), _THICK)
    one: dict[str, Value] = {"word": 1}
    if streams and (not ctx.is_exact() or _chosen(ctx, {"columns": side} | one).method == STREAM):
        return one

    def time_ns(word: int) -> float:
        values: dict[str, Value] = {"columns": side, "word": word}
        panel, choice = chosen_panel(ctx, values), _chosen(ctx, values)
        x = numbers(ctx, panel)
        looks = panel.is_tiled and panel.words is not None and panel.words.widening is not None
        time = predicted(x, ctx.machine, ctx.spec.threads, choice, staged=panel.has_stage)
        return time + _LOOK_NS * looks

    counts = (*(w.choice for w in options), 1)
    return {"word": ctx.once("contraction word", lambda: min(counts, key=time_ns))}


def _chosen(ctx: Context, values: Mapping[str, Value]) -> ContractionChoice:
    panel = chosen_panel(ctx, values)
    x = numbers(ctx, panel)
    c = choose(x, ctx.machine, ctx.spec.threads, register_tiles(ctx.machine))
    if panel.problem.natural and not x.packs_b:
        c = replace(c, pack_b=False)  # its lines are fetched a panel ahead
    c = packed_ahead(ctx, panel, c)
    if panel.problem.statement.is_ragged:
        mr, mt, nt = map(b.c64, (c.mr, c.mt, c.nt))
        c = replace(c, mt=number(even_rows(x, b.c64(ctx.spec.threads), mr, mt, nt)))
    return c


def cost_ns(ctx: Context, values: Mapping[str, Value]) -> float:
    """Return the predicted time of a call with the spec's threads (`wall.py`)."""
    panel = chosen_panel(ctx, values)
    if ctx.is_exact():
        choice = _choice(panel, values)
        _check(ctx, panel.extents(), choice)  # a search does not propose what is not lowered
        return turn_ns(ctx, panel, choice, ctx.spec.threads)
    x = replace(numbers(ctx, panel), shares_b=False)  # no phase of its own there
    choice = choose(x, ctx.machine, ctx.spec.threads, kernel_set(ctx.machine.registers))
    return predicted(x, ctx.machine, ctx.spec.threads, choice, staged=panel.has_stage)


def lower(ctx: Context, values: Mapping[str, Value]) -> Lowered:
    """Return one phase whose tasks are blocks of the output."""
    panel = chosen_panel(ctx, values)
    if ctx.is_exact():
        choice = _choice(panel, values)
        _check(ctx, panel.extents(), choice)
        return exact(ctx, replace(panel, fuses=not panel.is_tiled), choice)
    own = panel.has_work and values["tiles"] == OWN and not panel.is_tiled
    return generic(ctx, replace(panel, shares=True, fuses=own))


def meaning(ctx: Context, values: Mapping[str, Value]) -> Hashable:
    """Return what of the values decides the nest: its blocking, and which tiles occur."""
    panel = chosen_panel(ctx, values)
    choice = _choice(panel, values)
    _check(ctx, panel.extents(), choice)
    return FORM.name, values["columns"], values.get("word"), *decided(ctx, panel, choice)


def _choice(panel: Panel, values: Mapping[str, Value]) -> ContractionChoice:
    """Return what values say; of words in tiles the layout says which tile, and what is packed."""
    x, pack_a = panel.extents(), bool(values["pack_a"])
    mr, nv = map(int, str(values["tile"]).split("x"))
    ((mr, nv),) = tiles_for(x, ((mr, nv),))
    return ContractionChoice(
        METHODS.index(str(values["method"])),
        mr,
        nv,
        x.packs_a if x.is_tiled else pack_a,
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
    k = max(1, number(x.k))
    chosen = {number(pass_depth(x))}
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
    if x.whole and c.kc < number(x.k):
        raise ScheduleError(f"{ctx.prefix}.depth must be {number(x.k)}: the output holds no sums")


FORM = Form(
    "contraction",
    matches,
    knobs,
    default,
    cost_ns,
    lower,
    meaning,
    has_tiles=True,
    takes_ragged=True,
)
