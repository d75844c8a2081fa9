"""The analytic schedule of the panel method: register tile, packing, blocks, task grid.

Formulas are written once, over loop-nest expressions. With constant sizes they fold to the
numbers of the default config (`choice.py`); in a size-generic executable the same formulas are
the text of its plan (`plan.py`). Times are half cycles, integers, so that
both agree exactly.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from math import isqrt

from tcdsl.codegen.forms.contraction.blocking import Blocking, Extents
from tcdsl.codegen.forms.contraction.dot import CHUNK
from tcdsl.codegen.forms.contraction.words import TILE, TILED_COLUMNS, TILED_PASS, TILED_ROWS
from tcdsl.codegen.loops.build import (
    add,
    all_of,
    any_of,
    c64,
    ceil_div,
    compare,
    div,
    max64,
    min64,
    mul,
    not_,
    round_up,
    select,
    sub,
    value_of,
)
from tcdsl.codegen.loops.loopir import I64, TRUTH, Bin, Const, Expr
from tcdsl.codegen.machine.cpu import Machine
from tcdsl.codegen.machine.wall import SERIAL_NS

MAX_ROWS, MAX_VECTORS = 24, 4
FEW = 3  # tiles along m, which read b where it lies
HIDING = 8  # accumulators in turns: two FMAs a cycle, each ready after four
CALL = 100  # half cycles of a call of a micro-kernel
STORE = 4  # half cycles of an accumulator on its way out
MOVE = 16  # half cycles of a row of a panel on its way from where it lies
APART = 4  # half cycles more of a step that reads its rows of a from a line of its own
PASS = 512  # deepest pass: longer sums are cut into even ones
SHAPE = 400  # half cycles of giving tiles a shape and giving them back
TILED_PACKING = 64  # points of a sum by tiles in whose time a word is packed
ACROSS = 26  # half cycles of the sum across the lanes of a vector, and its share of a call
TURN = 8  # half cycles of an element on its way into a column
TURNED = 4  # second levels that columns may fill, which are read once for a few rows
ON_THEIR_WAY = 12  # lines of memory, a row of a each: more at once wait for each other
LATE = 32  # a whole task waited for costs its 32nd part, on average
NEAR = 4  # second levels that a block of all matrices of a group may fill
L2_WAYS = 16  # nearly everywhere
TASK = 8192  # points of a sum in whose time a task is claimed and its block found
GRID = 9  # how many task counts along m and along n are compared


# ---- register tiles


def register_tiles(machine: Machine) -> tuple[tuple[int, int], ...]:
    """Return the tiles whose accumulators, columns and one broadcast fit into registers."""
    return _fitting(machine.registers)


def _fitting(registers: int) -> tuple[tuple[int, int], ...]:
    return tuple(
        (mr, nv)
        for nv in range(1, MAX_VECTORS + 1)
        for mr in range(1, MAX_ROWS + 1)
        if mr * nv + nv + 1 <= registers
    )


def tiles_for(x: Extents, tiles: tuple[tuple[int, int], ...]) -> tuple[tuple[int, int], ...]:
    """Return those of register tiles that a product may have: of words in tiles it is one shape."""
    return ((TILED_ROWS, TILED_COLUMNS // x.lanes),) if x.is_tiled else tiles


def kernel_set(registers: int) -> tuple[tuple[int, int], ...]:
    """Return the tiles of size-generic executables, few enough to be compiled quickly.

    Other numbers of rows run in parts; never more rows for more vectors, since columns have
    remainders too. 13 and 16 rows serve batches of small matrices, 8 of three vectors large ones.
    """
    rows = {1: (1, 2, 4, 8, 13, 16), 2: (1, 2, 4, 6, 8, 13), 3: (1, 2, 4, 6, 8), 4: (1, 2, 4, 6)}
    return tuple((mr, nv) for mr, nv in _fitting(registers) if mr in rows[nv])


def row_parts(rows: int, available: Collection[int]) -> tuple[int, ...]:
    """Return rows as a sum of those available, large ones first."""
    parts: list[int] = []
    while rows:
        parts.append(max(n for n in available if n <= rows))
        rows -= parts[-1]
    return tuple(parts)


def step_cost(machine: Machine, mr: int, nv: int) -> int:
    """Return the half cycles of one k step of a register tile.

    Bound by FMA units, by loads (two per cycle; a vector of b may cross a line) or by the latency
    of an FMA (four cycles), which tiles of few accumulators do not hide quite.
    """
    accumulators = mr * nv
    fma = accumulators * 2 // machine.fma_per_cycle
    return max(fma, 2 * nv + mr, 8) + (accumulators < 12)


def panel_step(machine: Machine, mr: int, nv: int) -> int:
    """Return the half cycles of a k step whose row of b comes from the second level.

    What is the same for any tile, the loop and the way to the next row, counts less the larger
    the tile is: with 4x4 instead of 6x4 a product of 512^3 took 7 % longer. With one vector an
    element of a is read for each FMA, which loads do not keep up with.
    """
    return step_cost(machine, mr, nv) + 1 + (mr // 3 if nv == 1 else 0)


StepCost = Callable[[Expr, Expr], Expr]
Name = Callable[[str, Expr], Expr]  # gives a value a name, where there is a text to read


def unnamed(_: str, value: Expr) -> Expr:
    """Return a value as it is."""
    return value


def step_costs(machine: Machine) -> tuple[int, ...]:
    """Return the half cycles of a step of any tile of a size-generic executable.

    A table with MAX_ROWS + 1 entries for each number of vectors; 0 beyond its largest tile.
    """
    out: list[int] = []
    for nv in range(MAX_VECTORS + 1):
        available = [m for m, n in kernel_set(machine.registers) if n == nv]
        for mr in range(MAX_ROWS + 1):
            parts = row_parts(mr, available) if mr <= max(available, default=0) else ()
            out.append(sum(panel_step(machine, part, nv) for part in parts))
    return tuple(out)


# ---- the formulas


def tile_cost(
    x: Extents, machine: Machine, mr: Expr, nv: Expr, step: StepCost, name: Name = unnamed
) -> Expr:
    """Return the half cycles of all micro-kernels of one contraction."""
    if x.is_tiled:
        step = _tiled_step(x)
    width = mul(nv, x.lanes)
    whole_m = name("whole_m", sub(ceil_div(x.m, mr), 1))
    whole_n = name("whole_n", sub(ceil_div(x.n, width), 1))
    rows = name("rows", sub(x.m, mul(whole_m, mr)))  # of the last tiles
    vectors = name("vectors", ceil_div(sub(x.n, mul(whole_n, width)), x.lanes))
    steps = add(
        mul(whole_m, add(mul(whole_n, step(mr, nv)), step(mr, vectors))),
        mul(whole_n, step(rows, nv)),
        step(rows, vectors),
    )
    deep = c64(TILED_PASS) if x.is_tiled else pass_depth(x)
    passes = name("passes", ceil_div(max64(x.k, 1), deep))
    calls = mul(add(whole_m, 1), add(whole_n, 1), passes, add(mul(mr, nv, STORE), CALL))
    if x.is_tiled:  # whose lines are read meanwhile
        return name("total", add(mul(steps, x.k), calls, mul(passes, SHAPE)))
    moves: Expr = c64(0)  # squares are turned around in registers; else every row of a panel
    if not x.a_k_unit:
        row = select(compare("!=", packs_a(x, nv), 0), c64(MOVE), mul(add(whole_n, 1), APART))
        moves = mul(add(whole_m, 1), x.k, row)
    # every panel of b reads all lines of a, a cycle each
    lines = div(mul(x.m, x.k, add(whole_n, 1), 2), x.lanes)
    total = name("total", add(mul(steps, x.k), calls, moves, lines))
    # two lines are left for b and the output
    alike = compare(">", mul(mr, _alike(x, machine)), (machine.l1_ways - 2) * _way(machine))
    # a packer moves vectors: what is left of one is read again for the next panel
    most = select(compare("!=", packs_a(x, nv), 0), c64(x.lanes), c64(ON_THEIR_WAY))
    waits = all_of(compare(">", mr, most), is_far(x, machine, x.a_outer, x.m, x.k))
    crowded = any_of(alike, waits)
    return select(crowded, add(total, div(mul(total, 3), 20)), total)


def _tiled_step(x: Extents) -> StepCost:
    """Return the half cycles of a word of a micro-kernel of tiles: two for each of its tiles."""

    def step(mr: Expr, nv: Expr) -> Expr:
        return add(mul(ceil_div(mr, TILE), ceil_div(mul(nv, x.lanes), TILE), 2), 1)

    return step


def is_far(x: Extents, machine: Machine, matrices: Expr, rows: Expr, columns: Expr) -> Expr:
    """Return whether an operand fills more than the second level: it lies in memory."""
    return compare(">", mul(matrices, rows, columns, x.bytes), machine.l2_bytes)


def _way(machine: Machine) -> int:
    """Return the bytes after which addresses fall into the same set of the first level again."""
    return machine.l1_bytes // machine.l1_ways


def _alike(x: Extents, machine: Machine) -> Expr:
    """Return the share of the first level's sets that each row of a takes, in bytes of a way.

    All rows of a read where it lies fall into one set if they are a way apart, into two if half a
    way: the largest power of two in their distance, up to a way.
    """
    if x.a_row is None or x.packs_a:
        return c64(0)
    return min64(_power(mul(x.a_row, x.bytes)), _way(machine))


def _power(e: Expr) -> Expr:
    """Return the largest power of two that divides e; 0 for 0."""
    value = value_of(e)
    return Bin("&", e, sub(0, e), I64) if value is None else c64(value & -value)


def packs_a(x: Extents, nv: Expr) -> Expr:
    """Return whether to pack a: 0 or 1."""
    if x.is_tiled:  # else the plan knows whether rows are whole words
        return c64(int(x.packs_a))
    few_panels = compare("<=", ceil_div(x.n, mul(nv, x.lanes)), 3)
    keep = all_of(_truth(not x.packs_a), any_of(_truth(x.a_k_unit), few_panels))
    return _flag(not_(keep))


def packs_b(x: Extents, machine: Machine, mr: Expr) -> Expr:
    """Return whether to pack b: 0 or 1.

    Panels are aligned: where vectors of b begin at any element, as in an array of NumPy, the
    second half of them crosses a line. From the first level that costs nothing.
    """
    few_rows = compare("<=", x.m, mul(mr, FEW))
    near = machine.l2_bytes // 2 if machine.crosses_lines else machine.l1_bytes // 4
    small = compare("<=", mul(x.n, x.k, x.bytes), near)
    keep = all_of(_truth(not x.packs_b), any_of(_truth(x.keeps_b), few_rows, small))
    return _flag(not_(keep))


def dot_cost(x: Extents, machine: Machine) -> Expr:
    """Return the half cycles of the dot method: products, then a sum across the lanes of each."""
    step = div(mul(ceil_div(x.k, x.lanes), 2), machine.fma_per_cycle)
    # few accumulators, and as many loads as there is time for
    step = add(step, div(mul(step, 3), 10))
    dots = mul(x.m, x.n, add(step, ACROSS))
    return add(dots, mul(x.n, x.k, TURN)) if x.turns else dots


def takes_dots(x: Extents, machine: Machine, tiles: Expr, pack_b: Expr) -> Expr:
    """Return whether the dot method beats tiles half cycles and the packing of b: 0 or 1."""
    if not x.dots:
        return c64(0)
    packed = mul(pack_b, x.n, x.k)
    beats = compare("<", dot_cost(x, machine), add(tiles, packed))
    if x.turns:  # every task has columns of its own
        few = compare("<=", x.n, CHUNK)
        near = compare("<=", mul(x.n, x.k, x.bytes), TURNED * machine.l2_bytes)
        beats = all_of(few, near, beats)
    return _flag(beats)


def pass_depth(x: Extents) -> Expr:
    """Return the depth of a pass along k."""
    if x.whole:
        return max64(x.k, 1)
    unit = TILE if x.is_tiled else 8
    even = round_up(ceil_div(x.k, ceil_div(max64(x.k, 1), PASS)), unit)
    return select(compare("<=", x.k, PASS), max64(x.k, 1), even)


def least_rows(x: Extents, machine: Machine, mr: Expr, kc: Expr) -> Expr:
    """Return the fewest tasks along m whose block of a stays near, for all matrices of a group."""
    rows = _together(x, machine, kc, of_operand=x.near[0])
    if rows is None:
        return c64(1)
    return max64(ceil_div(x.m, max64(mul(div(rows, mr), mr), mr)), 1)


def least_columns(x: Extents, machine: Machine, nv: Expr, kc: Expr, pack_a: Expr) -> Expr:
    """Return the fewest tasks along n whose block of b stays near.

    In half of the second level, or a quarter where rows are outside; where every task packs the
    rows of a for itself, it may be four times that, and with few registers, where panels of a are
    narrow, sixteen times: column-major a of 1024^3 took 29.6 ms with 4 blocks of columns, 27.0 with
    one (1 thread, Zen 3).
    """
    width = mul(nv, x.lanes)
    beyond = (8 if machine.has_few_registers else 2) * machine.l2_bytes
    packs_rows = compare("!=", pack_a, 0)
    if x.is_tiled:  # else every task looks through the rows of a for itself, or packs them
        packs_rows = compare(">", mul(x.m, kc, x.bytes), machine.l2_bytes // 4)
    near = machine.l2_bytes // (4 if keeps_panels(x, machine) else 2)
    room = select(packs_rows, c64(beyond), c64(near))
    most = div(room, mul(kc, x.bytes))
    together = _together(x, machine, kc, of_operand=x.near[1])
    columns = div(most if together is None else min64(most, together), width)
    return max64(ceil_div(x.n, max64(mul(columns, width), width)), 1)


def goes_by_rows(x: Extents, machine: Machine, g: Blocking) -> Expr:
    """Return whether a block is walked by rows: its packed panels wait in the second level.

    A b that stays where it lies may come from memory, and is read once by panels.
    """
    if not keeps_panels(x, machine):
        return _truth(False)
    fits = compare("<=", mul(g.nc, g.kc, x.bytes), machine.l2_bytes // 4)
    return all_of(compare("!=", g.pack_b, 0), fits)


def keeps_panels(x: Extents, machine: Machine) -> bool:
    """Return whether panels of b may come from the second level all the time."""
    return machine.l2_keeps_up and not x.is_tiled


def _together(x: Extents, machine: Machine, kc: Expr, *, of_operand: bool) -> Expr | None:
    """Return the rows or columns of a block that all matrices of a group have room for."""
    room = NEAR * machine.l2_bytes // (x.lanes * x.bytes)  # elements of each
    limits: list[Expr] = []
    if of_operand:
        limits.append(div(room, kc))
    if x.near[2]:
        limits.append(c64(isqrt(room)))
    return min64(*limits) if len(limits) > 1 else limits[0] if limits else None


def cache_rows(x: Extents, machine: Machine, mr: Expr, kc: Expr, pack_a: Expr, mc: Expr) -> Expr:
    """Return the rows of a cache block: the rows of a task in even parts that fit.

    All of them where the matrices of a group are packed together.
    """
    if x.near[0]:
        return mc
    room = machine.l2_bytes * 3 // (8 if x.is_tiled else 4)  # in tiles, sums lie beside it
    row = mul(kc, x.bytes)
    if x.a_row is not None and not x.packs_a:
        # what lies between rows that are a power of two apart is taken from others
        apart = min64(_power(mul(x.a_row, x.bytes)), machine.l2_bytes // L2_WAYS)
        row = select(compare("!=", pack_a, 0), row, max64(row, apart))
    tiles = max64(div(div(room, row), mr), 1)
    all_tiles = ceil_div(mc, mr)
    return mul(ceil_div(all_tiles, ceil_div(all_tiles, tiles)), mr)


def rows_for_all(x: Extents, threads: Expr, mr: Expr, nv: Expr) -> Expr:
    """Return the rows of a tile: fewer than it would have where some threads would have none.

    Not fewer than hide how long an FMA takes, nor than leave `packs_b` as it is: by what is packed
    dots are chosen, and bits would depend on the threads.
    """
    tiles = mul(x.outer, ceil_div(x.m, mr), ceil_div(x.n, mul(nv, x.lanes)))
    fewer = min64(mr, max64(ceil_div(x.m, min64(threads, FEW)), HIDING))
    return select(compare("<", tiles, threads), fewer, mr)


def grid_counts(x: Extents, threads: Expr, mr: Expr, nv: Expr, is_dot: Expr) -> tuple[Expr, Expr]:
    """Return how many task counts along m and along n are compared.

    One, the least, for the fewer lines of dots: the others are read once for each block of these.
    Unless they are too few for all threads.
    """
    m, n = ceil_div(x.m, mr), ceil_div(x.n, mul(nv, x.lanes))
    stays_m = all_of(is_dot, compare("<=", x.m, x.n), compare(">=", n, threads))
    stays_n = all_of(is_dot, compare("<", x.n, x.m), compare(">=", m, threads))
    return select(stays_m, c64(1), c64(GRID)), select(stays_n, c64(1), c64(GRID))


def block_shape(
    x: Extents, mr: Expr, nv: Expr, mt: Expr, nt: Expr, name: Name = unnamed
) -> tuple[Expr, Expr]:
    """Return rows and columns of a task, whole register tiles."""
    width = mul(nv, x.lanes)
    mc = mul(max64(ceil_div(ceil_div(x.m, mt), mr), 1), mr)
    nc = mul(max64(ceil_div(ceil_div(x.n, nt), width), 1), width)
    return name("block_m", mc), name("block_n", nc)


def packing_weights(x: Extents, machine: Machine) -> tuple[int, int]:
    """Return what packing a step of a row of a, of a column of b costs, in points of a sum."""
    if x.is_tiled:
        return TILED_PACKING, TILED_PACKING
    return (16, 10) if machine.has_few_registers else (8, 8)


def grid_cost(
    x: Extents,
    machine: Machine,
    threads: Expr,
    mr: Expr,
    nv: Expr,
    mt: Expr,
    nt: Expr,
    pack_a: Expr,
    pack_b: Expr,
    name: Name = unnamed,
) -> Expr:
    """Return the work of the busiest thread: points of its blocks and what it packs.

    A thread that comes late, because another process has its core, leaves its tasks to the others:
    of grids about equal the one of more tasks loses less.
    """
    mc, nc = block_shape(x, mr, nv, mt, nt, name)
    blocks_n = name("blocks_n", ceil_div(x.n, nc))
    columns = name("columns", mul(x.groups, ceil_div(x.m, mc)))  # tasks of the same columns
    tasks = name("tasks", max64(mul(columns, blocks_n), 1))
    by_row, by_column = packing_weights(x, machine)

    def work(width: Expr) -> Expr:
        points = add(mul(mc, width), mul(pack_a, mc, by_row), mul(pack_b, width, by_column))
        return add(points, div(TASK, max64(x.k, 1))) if machine.has_few_registers else points

    each = name("each", work(nc))
    rounds: Expr = mul(ceil_div(tasks, threads), each)
    if machine.has_few_registers:
        # the last columns may be few: threads that have had one task less take those meanwhile
        last = name("last", work(sub(x.n, mul(sub(blocks_n, 1), nc))))
        whole = name("whole", mul(columns, max64(sub(blocks_n, 1), 0)))
        free = mul(sub(round_up(whole, threads), whole), div(each, last))
        after = ceil_div(max64(sub(columns, free), 0), threads)
        rounds = add(mul(ceil_div(whole, threads), each), mul(after, last))
    busiest = name("busiest", rounds)
    return add(busiest, div(mul(busiest, threads), mul(tasks, LATE)))


def _truth(value: bool) -> Expr:
    return Const(value, TRUTH)


def _flag(cond: Expr) -> Expr:
    return select(cond, c64(1), c64(0))


def parallel_from(machine: Machine) -> int:
    """Return from how many half cycles on a second thread pays."""
    return int(2 * SERIAL_NS * machine.frequency_ghz)
