"""The analytic schedule of the panel form: register tile, packing, blocks, task grid.

Formulas are written once, over loop-nest expressions. With constant sizes they fold to the
numbers of the default config (`choose`); in a size-generic executable the same formulas are the
text of its plan (`contraction_plan`). Times are half cycles, integers, so that both agree exactly.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from math import ceil

from tcdsl.codegen.build import (
    add,
    all_of,
    any_of,
    c64,
    ceil_div,
    compare,
    div,
    max64,
    mod,
    mul,
    not_,
    select,
    sub,
    value_of,
)
from tcdsl.codegen.loopir import TRUTH, Const, Expr
from tcdsl.codegen.machine import Machine

MAX_ROWS, MAX_VECTORS = 24, 4
CALL = 100  # half cycles of a call of a micro-kernel
STORE = 4  # half cycles of an accumulator on its way out
LONG = 512  # deepest pass; longer sums are cut into passes of about PASS
PASS = 320
ACROSS = 20  # half cycles of the sum across the lanes of a vector
LATE = 32  # a whole task waited for costs its 32nd part, on average
GRID = 9  # how many task counts along m and along n are compared
SERIAL_NS = 2500  # below this a second thread does not pay


@dataclass(frozen=True, slots=True)
class Extents:
    """What the schedule depends on.

    outer: number of independent contractions. a_row: stride of a's rows, None where they are not
    linear and a is packed. a_k_unit: k is contiguous in a. packs_a, packs_b: packing is a must.
    keeps_b: b must not be packed. whole: the sum is not cut into passes, since the output cannot
    hold partial sums. dots: the dot form is possible.
    """

    outer: Expr
    m: Expr
    n: Expr
    k: Expr
    a_row: Expr | None
    a_k_unit: bool
    packs_a: bool
    packs_b: bool
    keeps_b: bool
    whole: bool
    dots: bool
    lanes: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Blocking:
    """The choices of the panel form: constants, or variables of a size-generic phase.

    mr, nv: register tile. kc: depth of a pass. mc, nc: rows and columns of a task. mb: rows of a
    cache block, which stays in the second level while panels of b are walked. mt, nt: tasks along
    m and n. pack_a, pack_b, dot: 0 or 1; dot: the dot form, without packing, over whole sums.
    """

    mr: Expr
    nv: Expr
    pack_a: Expr
    pack_b: Expr
    kc: Expr
    mb: Expr
    mc: Expr
    nc: Expr
    mt: Expr
    nt: Expr
    dot: Expr

    def fields(self) -> Iterator[tuple[str, Expr]]:
        """Yield names and values, in order."""
        for name in self.__slots__:
            yield name, getattr(self, name)


# ---- register tiles


def register_tiles(machine: Machine) -> tuple[tuple[int, int], ...]:
    """Return the tiles whose accumulators, columns and one broadcast fit into registers."""
    return tuple(
        (mr, nv)
        for nv in range(1, MAX_VECTORS + 1)
        for mr in range(1, MAX_ROWS + 1)
        if mr * nv + nv + 1 <= machine.registers
    )


def kernel_set(machine: Machine) -> tuple[tuple[int, int], ...]:
    """Return the tiles of a size-generic executable, few enough to be compiled quickly.

    Other numbers of rows run in parts; never more rows for more vectors, since columns have
    remainders too.
    """
    rows = {1: (1, 2, 4, 8, 13), 2: (1, 2, 4, 6, 8, 13), 3: (1, 2, 4, 6), 4: (1, 2, 4, 6)}
    return tuple((mr, nv) for mr, nv in register_tiles(machine) if mr in rows[nv])


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
        available = [m for m, n in kernel_set(machine) if n == nv]
        for mr in range(MAX_ROWS + 1):
            parts = row_parts(mr, available) if mr <= max(available, default=0) else ()
            out.append(sum(step_cost(machine, part, nv) for part in parts))
    return tuple(out)


# ---- the formulas


def tile_cost(
    x: Extents, machine: Machine, mr: Expr, nv: Expr, step: StepCost, name: Name = unnamed
) -> Expr:
    """Return the half cycles of all micro-kernels of one contraction."""
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
    passes = name("passes", ceil_div(max64(x.k, 1), pass_depth(x)))
    calls = mul(add(whole_m, 1), add(whole_n, 1), passes, add(mul(mr, nv, STORE), CALL))
    total = name("total", add(mul(steps, x.k), calls))
    # rows of a whole pages apart fall into one set of the L1: too many of them evict each other
    crowded = all_of(_rows_alias(x), compare(">", mr, machine.l1_ways - 3))
    return select(crowded, add(total, div(mul(total, 3), 20)), total)


def _rows_alias(x: Extents) -> Expr:
    """Whether rows of a read where it lies are a multiple of a page apart."""
    if x.a_row is None or x.packs_a:
        return _truth(False)
    return compare("==", mod(mul(x.a_row, x.bytes), 4096), 0)


def packing(x: Extents, machine: Machine, mr: Expr, nv: Expr) -> tuple[Expr, Expr]:
    """Return whether to pack a and b: 0 or 1."""
    few_panels = compare("<=", ceil_div(x.n, mul(nv, x.lanes)), 4)
    keep_a = all_of(_truth(not x.packs_a), any_of(_truth(x.a_k_unit), few_panels))
    small = compare("<=", mul(x.n, x.k, x.bytes), machine.l2_bytes // 2)
    keep_b = all_of(
        _truth(not x.packs_b),
        any_of(_truth(x.keeps_b), compare("<=", x.m, mul(mr, 3)), small),
    )
    return _flag(not_(keep_a)), _flag(not_(keep_b))


def dot_cost(x: Extents, machine: Machine) -> Expr:
    """Return the half cycles of the dot form: products, then a sum across the lanes of each."""
    step = mul(ceil_div(x.k, x.lanes), 2)
    return mul(x.m, x.n, add(div(step, machine.fma_per_cycle), ACROSS))


def takes_dots(x: Extents, machine: Machine, tiles: Expr, pack_b: Expr) -> Expr:
    """Return whether the dot form beats tiles half cycles and the packing of b: 0 or 1."""
    if not x.dots:
        return c64(0)
    packed = mul(pack_b, x.n, x.k)
    return _flag(compare("<", dot_cost(x, machine), add(tiles, packed)))


def pass_depth(x: Extents) -> Expr:
    """Return the depth of a pass along k."""
    if x.whole:
        return max64(x.k, 1)
    even = mul(ceil_div(ceil_div(x.k, ceil_div(max64(x.k, 1), PASS)), 8), 8)
    return select(compare("<=", x.k, LONG), max64(x.k, 1), even)


def least_columns(x: Extents, machine: Machine, nv: Expr, kc: Expr) -> Expr:
    """Return the fewest tasks along n whose block of b stays near."""
    width = mul(nv, x.lanes)
    columns = div(div(2 * machine.l2_bytes, mul(kc, x.bytes)), width)
    return max64(ceil_div(x.n, max64(mul(columns, width), width)), 1)


def cache_rows(x: Extents, machine: Machine, mr: Expr, kc: Expr, pack_a: Expr, mc: Expr) -> Expr:
    """Return the rows of a cache block: the rows of a task in even parts that fit."""
    # rows whole pages apart use few sets of the cache
    aliased = all_of(compare("==", pack_a, 0), _rows_alias(x))
    room = select(aliased, c64(machine.l2_bytes // 4), c64(machine.l2_bytes * 3 // 4))
    tiles = max64(div(div(room, mul(kc, x.bytes)), mr), 1)
    all_tiles = ceil_div(mc, mr)
    return mul(ceil_div(all_tiles, ceil_div(all_tiles, tiles)), mr)


def block_shape(
    x: Extents, mr: Expr, nv: Expr, mt: Expr, nt: Expr, name: Name = unnamed
) -> tuple[Expr, Expr]:
    """Return rows and columns of a task, whole register tiles."""
    width = mul(nv, x.lanes)
    mc = mul(max64(ceil_div(ceil_div(x.m, mt), mr), 1), mr)
    nc = mul(max64(ceil_div(ceil_div(x.n, nt), width), 1), width)
    return name("block_m", mc), name("block_n", nc)


def grid_cost(
    x: Extents,
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
    tasks = name("tasks", max64(mul(x.outer, ceil_div(x.m, mc), ceil_div(x.n, nc)), 1))
    packed = add(mul(pack_a, mc, 8), mul(pack_b, nc, 8))
    busiest = name("busiest", mul(ceil_div(tasks, threads), add(mul(mc, nc), packed)))
    return add(busiest, div(mul(busiest, threads), mul(tasks, LATE)))


def _truth(value: bool) -> Expr:
    return Const(value, TRUTH)


def _flag(cond: Expr) -> Expr:
    return select(cond, c64(1), c64(0))


# ---- constants: the default config


@dataclass(frozen=True, slots=True)
class Choice:
    """What the default config holds."""

    dot: bool
    mr: int
    nv: int
    pack_a: bool
    pack_b: bool
    kc: int
    mt: int
    nt: int


def choose(
    x: Extents, machine: Machine, threads: int, tiles: tuple[tuple[int, int], ...]
) -> Choice:
    """Return the analytic schedule of constant extents."""

    def step(mr: Expr, nv: Expr) -> Expr:
        return c64(step_cost(machine, _number(mr), _number(nv)))

    best, shape = 0, (1, 1)
    for mr, nv in sorted(tiles, key=lambda t: (-t[1], t[0])):  # the widest of about equal ones
        if mr > max(1, _number(x.m)) or not _number(x.m) or not _number(x.n):
            continue
        cost = _number(tile_cost(x, machine, c64(mr), c64(nv), step))
        if not best or cost * 200 < best * 199:
            best, shape = cost, (mr, nv)
    mr_, nv_ = c64(shape[0]), c64(shape[1])
    pack_a, pack_b = packing(x, machine, mr_, nv_)
    dot = _number(takes_dots(x, machine, c64(best), pack_b)) == 1
    packed = (c64(0), c64(0)) if dot else (pack_a, pack_b)
    if dot:
        best = _number(dot_cost(x, machine))
    kc = max64(x.k, 1) if dot else pass_depth(x)
    mt, nt = 1, _number(least_columns(x, machine, nv_, kc))
    if threads > 1 and best * _number(x.outer) > parallel_from(machine):
        options = [(i, j) for i in range(mt, mt + GRID) for j in range(nt, nt + GRID)]

        def cost_of(option: tuple[int, int]) -> int:
            i, j = map(c64, option)
            return _number(grid_cost(x, c64(threads), mr_, nv_, i, j, *packed))

        mt, nt = min(options, key=cost_of)
    return Choice(dot, *shape, bool(_number(pack_a)), bool(_number(pack_b)), _number(kc), mt, nt)


def predicted(
    x: Extents, machine: Machine, threads: int, c: Choice, *, staged: bool = False
) -> float:
    """Return the nanoseconds that the busiest thread takes; there is one where two do not pay."""

    def step(mr: Expr, nv: Expr) -> Expr:
        return c64(step_cost(machine, _number(mr), _number(nv)))

    m, n, k = map(_number, (x.m, x.n, x.k))
    if not m or not n or not _number(x.outer):
        return 0.0
    mr, nv = c64(c.mr), c64(c.nv)
    mc, nc = map(_number, block_shape(x, mr, nv, c64(c.mt), c64(c.nt)))
    blocks_m, blocks_n = ceil(m / mc), ceil(n / nc)
    tasks = _number(x.outer) * blocks_m * blocks_n

    def busiest(half_cycles: int) -> float:
        total = half_cycles * _number(x.outer)
        pays = total > parallel_from(machine)
        turns = ceil(tasks / threads) if pays else tasks
        return total * turns / tasks / (2 * machine.frequency_ghz)

    if c.dot:
        return busiest(_number(dot_cost(x, machine)))
    half_cycles = _number(tile_cost(x, machine, mr, nv, step))
    passes = ceil(k / c.kc) - _number(ceil_div(max64(x.k, 1), pass_depth(x)))
    tiles = ceil(m / c.mr) * ceil(n / (c.nv * x.lanes))
    half_cycles += passes * tiles * (CALL + STORE * c.mr * c.nv)
    if staged:
        half_cycles += 4 * m * n
    # packing moves about two elements per cycle
    if c.pack_a:
        half_cycles += blocks_n * m * k
    if c.pack_b:
        half_cycles += blocks_m * n * k
    return busiest(half_cycles)


def _number(e: Expr) -> int:
    value = value_of(e)
    assert value is not None, f"{e} is not constant"
    return value


def parallel_from(machine: Machine) -> int:
    """Return from how many half cycles on a second thread pays."""
    return int(2 * SERIAL_NS * machine.frequency_ghz)


def blocking_of(x: Extents, machine: Machine, c: Choice) -> Blocking:
    """Return a choice as blocking of constant extents."""
    mr, nv, mt, nt = map(c64, (c.mr, c.nv, c.mt, c.nt))
    mc, nc = block_shape(x, mr, nv, mt, nt)
    pack_a, pack_b = (c64(int(flag and not c.dot)) for flag in (c.pack_a, c.pack_b))
    kc = max64(x.k, 1) if c.dot else c64(max(1, c.kc))
    return Blocking(
        mr,
        nv,
        pack_a,
        pack_b,
        kc,
        cache_rows(x, machine, mr, kc, pack_a, mc),
        mc,
        nc,
        ceil_div(x.m, mc),
        ceil_div(x.n, nc),
        c64(int(c.dot)),
    )
