"""What a group is as a contraction: along which factor vectors run, what words it is made of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tcdsl.codegen.forms.base.context import Context
from tcdsl.codegen.forms.contraction.blocking import Extents
from tcdsl.codegen.forms.contraction.epilogue import Unfused, split_group
from tcdsl.codegen.forms.contraction.finish import Finish
from tcdsl.codegen.forms.contraction.panel import Panel
from tcdsl.codegen.forms.contraction.problem import ONE, Problem, Side, extent_of
from tcdsl.codegen.forms.contraction.ragged import takes_ragged
from tcdsl.codegen.forms.contraction.register_tile import ROW_GROUP
from tcdsl.codegen.forms.contraction.roles import is_tap
from tcdsl.codegen.forms.contraction.words import Words, words_of
from tcdsl.codegen.loops import build as b
from tcdsl.codegen.loops.loopir import Expr
from tcdsl.codegen.machine.config import Value
from tcdsl.grammar.text.errors import ScheduleError

NATURAL = ".natural"  # behind the factor along whose own neighbours vectors run
_SIDES = Side(), Side(other=True), Side(natural=True)
_MANY_ROWS = 65  # from which on a factor is used so often that it is turned around


def panel_of(ctx: Context, side: Side) -> Panel | None:
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


def required(ctx: Context, side: Side) -> Panel:
    """Return what the panel method is given, where it fits."""
    panel = panel_of(ctx, side)
    if panel is None:
        raise ScheduleError(f"{ctx.prefix}: not a contraction with such vectors")
    return panel


def chosen_panel(ctx: Context, values: Mapping[str, Value]) -> Panel:
    """Return what the panel method is given under a choice of columns and words."""
    name, sides = str(values["columns"]), sides_of(ctx)
    if name not in sides:
        raise ScheduleError(f"{ctx.prefix}: no vectors along '{name}'")
    panel = required(ctx, sides[name])
    count, options = values.get("word", 1), words_for(ctx, panel)
    if count == 1 or not options or values.get("method") in ("dot", "stream"):  # without words
        return panel
    words = next((w for w in options if w.choice == count), None)
    if words is None:
        raise ScheduleError(f"{ctx.prefix}.word cannot be {count} for these types")
    return replace(panel, words=words)


def words_for(ctx: Context, panel: Panel) -> tuple[Words, ...]:
    """Return the words that a contraction may be made of, the longest first."""
    p = panel.problem
    if p.term != "product" or panel.neighbours is not None or p.statement.is_ragged or not p.k:
        return ()
    return words_of(ctx.machine, panel.stored(p.a), panel.stored(p.b), panel.dtype)


def sides_of(ctx: Context) -> dict[str, Side]:
    """Return the factors whose indices may run along vectors, the better one first.

    Where the output has unit stride in neither, the longer side fills vectors better, or at unknown
    sizes the one that lies along vectors; where few columns have it, the other side may. A factor
    stays as it lies where few rows use it: its vectors are turned around on their way in, once for
    each term of the sum, or on their way out, once for each row.
    """
    sides: dict[str, tuple[Side, Problem]] = {}
    for side in _SIDES:
        panel = panel_of(ctx, side)
        if panel is not None:
            name = panel.problem.b.buffer + NATURAL * side.natural
            sides.setdefault(name, (side, panel.problem))

    problems = {name: p for name, (_, p) in sides.items()}
    natural = [name for name, (side, _) in sides.items() if side.natural]
    names = sorted((n for n in sides if n not in natural), key=lambda n: not problems[n].unit)
    if len(names) > 1:
        first, second = (problems[name] for name in names)
        longer = extent_of(second.n) - extent_of(first.n)
        is_alike = first.unit == second.unit and not _has_taps(first)
        is_asked = is_alike and not _lies_better(ctx, first, second)
        is_longer = is_asked and ctx.at_least(longer, 1)
        if is_longer or (first.unit > second.unit and _fills_more(ctx, first, second)):
            names.reverse()
    for name in natural:
        is_thin = not ctx.at_least(extent_of(problems[name].m), _MANY_ROWS)
        names.insert(0 if is_thin else len(names), name)
    return {name: sides[name][0] for name in names}


def _lies_better(ctx: Context, first: Problem, second: Problem) -> bool:
    """Whether at unknown sizes vectors lie in memory along the first's columns only, and are full.

    Half full is enough: the other side's are packed. Which side is longer would part sizes in two,
    each with an executable: images by their lines, in the gradient of a convolution by twos.
    """
    if ctx.asked is None or first.b.linear(first.n) != ONE or second.b.linear(second.n) == ONE:
        return False
    lanes = ctx.machine.lanes(first.dtype.computed.size_bytes)
    return ctx.at_least(extent_of(first.n), lanes // 2)


def _has_taps(p: Problem) -> bool:
    """Whether it is the gradient of a window's weights: either side has channels for vectors."""
    return any(is_tap(i, x, p.k) for i in p.outer for x in (p.a, p.b))


def _fills_more(ctx: Context, first: Problem, second: Problem) -> bool:
    """Whether the first problem's columns leave much of a vector empty, and the second's none.

    Its vectors have to lie in memory: its tiles are turned around on their way out, and no more.
    """
    if second.b.linear(second.n) != ONE or second.statement.is_ragged:
        return False
    lanes = ctx.machine.lanes(first.dtype.computed.size_bytes)
    is_narrow = not ctx.at_least(extent_of(first.n), lanes * 7 // 8)
    return is_narrow and ctx.at_least(extent_of(second.n), lanes)


def has_work(ctx: Context) -> bool:
    """Whether anything is done to finished sums, along whatever factor vectors run."""
    return any((panel := panel_of(ctx, side)) and panel.has_work for side in _SIDES)


def numbers(ctx: Context, panel: Panel) -> Extents:
    """Return what the schedule depends on at the representative sizes."""
    p = panel.problem
    outer, a_outer, m, n, k = (
        b.c64(ctx.extent(extent_of(fused))) for fused in (p.outer, p.outer_of_a, p.m, p.n, p.k)
    )
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
        a_outer=a_outer,
        groups=groups,
        m=m,
        n=n,
        k=b.ceil_div(k, panel.per_step),
        a_row=None if row is None else panel.in_steps(stride),
    )
