"""The default config of constant extents, and what a config costs: the formulas as numbers."""

from __future__ import annotations

from math import ceil

from tcdsl.codegen.forms.contraction.blocking import DOT, PANEL, STREAM, Blocking, Extents
from tcdsl.codegen.forms.contraction.schedule import (
    CALL,
    GRID,
    STORE,
    block_shape,
    cache_rows,
    dot_cost,
    grid_cost,
    grid_counts,
    least_columns,
    least_rows,
    packing_weights,
    packs_a,
    packs_b,
    panel_step,
    parallel_from,
    pass_depth,
    rows_for_all,
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
from tcdsl.codegen.loops.build import c64, ceil_div, div, max64, mul, value_of
from tcdsl.codegen.loops.loopir import TRUTH, Const, Expr
from tcdsl.codegen.machine.cpu import Machine
from tcdsl.codegen.machine.wall import wall_ns
from tcdsl.grammar.text.dataclass import dataclass

TOGETHER = 1 << 16  # elements of b from which on packing them once is worth a phase of its own
AFAR = 32  # panels that another thread has packed lie in the third level: this part of a task more
MOST_BYTES = 1 << 26  # beyond, a copy of a factor is too much


@dataclass(frozen=True, slots=True)
class ContractionChoice:
    """What the default config holds.

    method: of `METHODS`. kc: the depth of a pass, or of a strip of the stream method.
    """

    method: int
    mr: int
    nv: int
    pack_a: bool
    pack_b: bool
    kc: int
    mt: int
    nt: int


def choose(
    x: Extents, machine: Machine, threads: int, tiles: tuple[tuple[int, int], ...]
) -> ContractionChoice:
    """Return the analytic schedule of constant extents."""

    def step(mr: Expr, nv: Expr) -> Expr:
        return c64(panel_step(machine, number(mr), number(nv)))

    if number(takes_streams(x, machine)):
        return _stream(x, machine, threads)
    best, shape = 0, tiles_for(x, ((1, 1),))[0]
    # the widest of about equal ones
    for mr, nv in sorted(tiles_for(x, tiles), key=lambda t: (-t[1], t[0])):
        is_high = mr > max(1, number(x.m)) and not x.is_tiled
        if is_high or not number(x.m) or not number(x.n):
            continue
        if best and least_cost(x, machine, mr, nv) * 200 >= best * 199:
            continue
        cost = number(tile_cost(x, machine, c64(mr), c64(nv), step))
        if not best or cost * 200 < best * 199:
            best, shape = cost, (mr, nv)
    if threads > 1 and best * number(x.outer) > parallel_from(machine) and not x.is_tiled:
        shape = number(rows_for_all(x, c64(threads), *map(c64, shape))), shape[1]
    mr_, nv_ = c64(shape[0]), c64(shape[1])
    pack_a, pack_b = packs_a(x, nv_), packs_b(x, machine, mr_)
    dot = number(takes_dots(x, machine, c64(best), pack_b)) == 1
    packed = (c64(0), c64(int(x.turns))) if dot else (pack_a, pack_b)
    if dot:
        best = number(dot_cost(x, machine))
    kc = max64(x.k, 1) if dot else pass_depth(x)
    mt = number(least_rows(x, machine, mr_, kc))
    nt = number(least_columns(x, machine, nv_, kc, packed[0]))
    if threads > 1 and best * number(x.outer) > parallel_from(machine):
        # every block of rows reads a line that has some of them
        counts = grid_counts(x, c64(threads), mr_, nv_, Const(dot, TRUTH))
        rows_end = max(mt, threads) + 1 if x.far_rows else mt + number(counts[0])
        columns_end = nt + number(counts[1])
        options = [(i, j) for i in range(mt, rows_end) for j in range(nt, columns_end)]
        once = number(div(mul(packed[1], x.n, packing_weights(x, machine)[1]), threads))

        known: dict[tuple[int, ...], int] = {}  # by the block, which many grids of few tiles share

        def cost_of(option: tuple[int, int]) -> int:
            i, j = map(c64, option)
            is_once = number(packed[1]) and not dot and is_shared(x, option[0])
            block = (*map(number, block_shape(x, mr_, nv_, i, j)), is_once)
            if block not in known:
                own = c64(0) if is_once else packed[1]
                cost = number(grid_cost(x, machine, c64(threads), mr_, nv_, i, j, packed[0], own))
                known[block] = cost + (once + cost // AFAR) * is_once
            return known[block]

        mt, nt = min(options, key=cost_of)
    method = DOT if dot else PANEL
    return ContractionChoice(
        method, *shape, bool(number(pack_a)), bool(number(pack_b)), number(kc), mt, nt
    )


def least_cost(x: Extents, machine: Machine, mr: int, nv: int) -> int:
    """Return what `tile_cost` has at least, the steps of micro-kernels, in a tenth of the time.

    Most tiles that are tried take more than the best by these alone.
    """
    if x.is_tiled:
        return 0
    m, n = number(x.m), number(x.n)
    high, wide = (m - 1) // mr, (n - 1) // (nv * x.lanes)  # what is left is a tile too
    rows, vectors = m - high * mr, ceil(n / x.lanes) - wide * nv
    whole = high * (wide * panel_step(machine, mr, nv) + panel_step(machine, mr, vectors))
    last = wide * panel_step(machine, rows, nv) + panel_step(machine, rows, vectors)
    return number(x.k) * (whole + last)


def is_shared(x: Extents, blocks_m: int) -> bool:
    """Whether panels of b are packed once for all tasks: several blocks of rows ask for them."""
    elements = number(x.n) * number(x.k)
    if not x.shares_b or not TOGETHER <= elements <= MOST_BYTES // x.bytes:
        return False
    return number(x.groups) * blocks_m > 1


def _stream(x: Extents, machine: Machine, threads: int) -> ContractionChoice:
    """Return the schedule of the stream method."""
    rows = stream_rows(x, machine)
    vectors = stream_vectors(machine, rows)
    pack_a = stream_packs_a(x)
    nt = number(stream_stretches(x, machine))
    if threads > 1 and number(stream_cost(x, machine)) * number(x.outer) > parallel_from(machine):

        def cost_of(j: int) -> int:
            ends = c64(APART), c64(0)
            return number(grid_cost(x, machine, c64(threads), rows, vectors, c64(1), c64(j), *ends))

        nt = min(range(nt, nt + GRID), key=cost_of)
    strip = number(strip_depth(x, machine, rows))
    tile = number(rows), number(vectors)
    return ContractionChoice(STREAM, *tile, bool(number(pack_a)), False, strip, 1, nt)


def predicted(
    x: Extents, machine: Machine, threads: int, c: ContractionChoice, *, staged: bool = False
) -> float:
    """Return the nanoseconds that the busiest thread takes; there is one where two do not pay."""

    def step(mr: Expr, nv: Expr) -> Expr:
        return c64(panel_step(machine, number(mr), number(nv)))

    m, n, k = map(number, (x.m, x.n, x.k))
    if not m or not n or not number(x.outer):
        return 0.0
    mr, nv = c64(c.mr), c64(c.nv)
    mc, nc = map(number, block_shape(x, mr, nv, c64(c.mt), c64(c.nt)))
    blocks_m, blocks_n = ceil(m / mc), ceil(n / nc)
    tasks = number(x.groups) * blocks_m * blocks_n

    def busiest(half_cycles: int) -> float:
        total_ns = half_cycles * number(x.outer) / (2 * machine.frequency_ghz)
        return wall_ns(total_ns, tasks, threads)

    if c.method == DOT:
        return busiest(number(dot_cost(x, machine)))
    if c.method == STREAM:
        return busiest(number(stream_cost(x, machine)))
    half_cycles = number(tile_cost(x, machine, mr, nv, step))
    passes = ceil(k / c.kc) - number(ceil_div(max64(x.k, 1), pass_depth(x)))
    tiles = ceil(m / c.mr) * ceil(n / (c.nv * x.lanes))
    half_cycles += passes * tiles * (CALL + STORE * c.mr * c.nv)
    if staged:
        half_cycles += 4 * m * n
    # packing moves about two elements per cycle
    if c.pack_a:
        half_cycles += blocks_n * m * k
    if c.pack_b:
        half_cycles += (1 if is_shared(x, blocks_m) else blocks_m) * n * k
    return busiest(half_cycles)


def number(e: Expr) -> int:
    """Return the value of an expression that is a constant."""
    value = value_of(e)
    assert value is not None, f"{e} is not constant"
    return value


def blocking_of(x: Extents, machine: Machine, c: ContractionChoice) -> Blocking:
    """Return a choice as blocking of constant extents."""
    mr, nv, mt, nt = map(c64, (c.mr, c.nv, c.mt, c.nt))
    mc, nc = block_shape(x, mr, nv, mt, nt)
    dot, stream = c.method == DOT, c.method == STREAM
    pack_a = c64(int((c.pack_a or (stream and x.packs_a)) and not dot))
    pack_b = c64(int((c.pack_b and c.method == PANEL) or (dot and x.turns)))
    strip = c64(max(1, c.kc))
    kc = max64(x.k, 1) if dot else stream_pass(strip) if stream else strip
    return Blocking(
        mr,
        nv,
        pack_a,
        pack_b,
        kc,
        mc if stream else cache_rows(x, machine, mr, kc, pack_a, mc),
        mc,
        nc,
        ceil_div(x.m, mc),
        ceil_div(x.n, nc),
        c64(c.method),
        strip,
    )
