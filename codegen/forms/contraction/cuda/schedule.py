"""How a contraction is cut on a GPU: tiles of blocks and threads, what is legal, what it costs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil

from tcdsl.codegen.forms.base.context import GpuContext
from tcdsl.codegen.forms.contraction.cuda.problem import Contraction
from tcdsl.codegen.forms.contraction.problem import extent_of
from tcdsl.codegen.machine.config import Value
from tcdsl.codegen.machine.gpu import Gpu
from tcdsl.grammar.text.errors import ScheduleError

ASYNC_COPIES = 80  # the first architecture that has them
STATIC_SHARED = 48 << 10  # bytes a kernel may declare
PAD = (
    4  # elements after each row of the tile of `a`: threads that store a column of it hit all banks
)
_SPARE_REGISTERS = 40  # for addresses, predicates and loop counters


@dataclass(frozen=True, slots=True)
class Cut:
    """What a block computes: bm x bn sums, bk steps at a time.

    stages: tiles in shared memory. splits: parts of the sum that different blocks compute.
    raster: height in tiles of the stripes along which blocks are numbered.
    """

    bm: int
    bn: int
    bk: int
    stages: int
    splits: int
    raster: int


@dataclass(frozen=True, slots=True)
class Tiling(Cut):
    """A cut of which a thread computes tm x tn sums by plain arithmetic.

    Two stages are filled through registers, more by asynchronous copies.
    """

    tm: int
    tn: int

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return (self.bm // self.tm) * (self.bn // self.tn)

    @property
    def name(self) -> str:
        """For people: `128x128x8 of 8x8`."""
        return f"{self.bm}x{self.bn}x{self.bk} of {self.tm}x{self.tn}"

    def values(self) -> dict[str, Value]:
        """Return it as knobs."""
        return {
            "tile": f"{self.bm}x{self.bn}",
            "depth": self.bk,
            "thread": f"{self.tm}x{self.tn}",
            "stages": self.stages,
            "splits": self.splits,
            "raster": self.raster,
        }


TILES = (
    *("16x32", "32x32", "16x128", "32x64", "64x32", "128x16"),
    *("64x64", "64x128", "128x64", "128x128", "128x256", "256x128"),
)
THREADS = ("1x4", "4x1", "2x2", "2x4", "4x2", "4x4", "4x8", "8x4", "8x8", "8x16", "16x8")
DEPTHS = (8, 16, 32)
RASTERS = (1, 4, 8, 16)
SPLITS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)


def tiling_of(values: Mapping[str, Value]) -> Tiling:
    """Return the choice that knobs stand for."""
    bm, bn = map(int, str(values["tile"]).split("x"))
    tm, tn = map(int, str(values["thread"]).split("x"))
    bk, stages, splits, raster = (
        int(values[name]) for name in ("depth", "stages", "splits", "raster")
    )
    return Tiling(bm, bn, bk, stages, splits, raster, tm, tn)


@dataclass(frozen=True, slots=True)
class Shape:
    """What the schedule depends on: points of each role, bytes of an element of a tile, of a sum.

    loads: bytes of an element of the factors in memory. copies: whether tiles may be filled by
    asynchronous copies.
    """

    outer: int
    m: int
    n: int
    k: int
    size: int
    sum_size: int
    loads: int
    copies: bool


def shape_of(ctx: GpuContext, x: Contraction) -> Shape:
    """Return what the schedule of a contraction depends on, at representative sizes."""
    outer, m, n, k = (max(0, ctx.extent(extent_of(g))) for g in x.roles())
    size = max(x.a.dtype.size_bytes, x.b.dtype.size_bytes)
    loads = max(x.a.stored.size_bytes, x.b.stored.size_bytes)
    copies = (
        ctx.machine.capability >= ASYNC_COPIES
        and x.a.is_copied
        and x.b.is_copied
        and {x.a.stored.size_bytes, x.b.stored.size_bytes} <= {4, 8}
    )
    return Shape(outer, m, n, k, size, x.dtype.size_bytes, loads, copies)


def splits_of(x: Shape) -> tuple[int, ...]:
    """Return the numbers of parts that a sum may have; 16 steps are the least worth a part."""
    return tuple(s for s in SPLITS if s == 1 or x.k >= 16 * s)


def check(x: Shape, t: Tiling, gpu: Gpu) -> None:
    """Raise where a choice cannot run.

    Raises
    ------
    ScheduleError
        With the limit that it breaks.
    """
    if t.bm % t.tm or t.bn % t.tn or not 64 <= t.threads <= 1024:
        raise ScheduleError(f"tile {t.name} has {t.threads} threads; legal are 64 to 1024")
    if t.threads % 32:
        raise ScheduleError(f"tile {t.name} has {t.threads} threads, no whole warps")
    if shared_bytes(x, t) > min(STATIC_SHARED, gpu.shared_block):
        raise ScheduleError(f"tile {t.name} needs {shared_bytes(x, t)} bytes of shared memory")
    if registers(x, t) > 255 or registers(x, t) * t.threads > gpu.registers:
        raise ScheduleError(f"tile {t.name} needs {registers(x, t)} registers")
    if t.stages > 2 and not x.copies:
        raise ScheduleError("elements that are converted cannot be copied asynchronously")


def shared_bytes(x: Shape, t: Tiling) -> int:
    """Return the shared memory of a block."""
    return t.stages * t.bk * (t.bm + PAD + t.bn) * x.size


def registers(x: Shape, t: Tiling) -> int:
    """Return about how many registers a thread needs."""
    words = max(1, x.sum_size // 4)
    fragments = (t.tm + t.tn) * max(1, x.size // 4)
    staged = 0 if t.stages > 2 else t.bk * (t.bm + t.bn) // t.threads * max(1, x.loads // 4)
    return t.tm * t.tn * words + fragments + staged + _SPARE_REGISTERS


def blocks_per_sm(x: Shape, t: Tiling, gpu: Gpu) -> int:
    """Return how many blocks a multiprocessor holds at once, at the registers they are given."""
    given = max(32, -(-registers(x, t) // 8) * 8)
    by_shared = gpu.shared_sm // (shared_bytes(x, t) + 1024)
    by_threads = min(gpu.threads_sm // t.threads, gpu.blocks_sm)
    return max(1, min(gpu.registers // (given * t.threads), by_shared, by_threads))


def min_blocks(x: Shape, t: Tiling, gpu: Gpu) -> int:
    """Return how many blocks of a multiprocessor the compiler has to leave registers for; 0: any.

    Large tiles are held to the registers they were chosen for; small ones get what they ask for.
    """
    return blocks_per_sm(x, t, gpu) if registers(x, t) > 96 else 0


def predicted_ns(x: Shape, t: Tiling, gpu: Gpu) -> float:
    """Return the time of a choice: the slowest of arithmetic, cache and memory, and the start."""
    tiles = ceil(x.m / t.bm) * ceil(x.n / t.bn) * x.outer
    blocks = tiles * t.splits
    if not blocks:
        return 0.0
    resident = blocks_per_sm(x, t, gpu)
    depth = ceil(ceil(x.k / t.bk) / t.splits) * t.bk
    flops_ns = gpu.peak_gflops() / (x.sum_size / 4 if x.sum_size > 4 else 1) / gpu.sms
    # a thread's tile feeds its FMAs from shared memory: small ones wait for it
    feeding = t.tm * t.tn / (t.tm * t.tn + 2.0 * (t.tm + t.tn))
    # a multiprocessor hides latency by 8 warps or more
    per_sm = min(resident, ceil(blocks / gpu.sms))
    busy = min(1.0, per_sm * t.threads / 256)
    block_ns = 2.0 * t.bm * t.bn * depth / (flops_ns * feeding * busy)
    rounds = ceil(blocks / gpu.sms)
    pipeline_ns = 600 + 1.0 * depth / t.bk * (300 if t.stages == 2 else 200) / per_sm
    arithmetic = rounds * block_ns + pipeline_ns * ceil(rounds / per_sm)
    l2_bytes = float(blocks) * depth * (t.bm + t.bn) * x.loads
    hbm = float(x.outer) * (x.m * x.k + x.k * x.n) * x.loads + x.outer * x.m * x.n * x.sum_size
    cache_gbs = 2.5 * gpu.bandwidth_gbs if gpu.l2_bytes else gpu.bandwidth_gbs
    total = max(arithmetic, l2_bytes / cache_gbs, hbm / gpu.bandwidth_gbs) + 2000
    if t.splits > 1:
        partial = float(x.outer) * x.m * x.n * x.sum_size * (t.splits + 1)
        total += 2000 + partial / gpu.bandwidth_gbs
    return total * (1.0 if t.raster > 1 or tiles < 4 * gpu.sms else 1.02)


TUNED = (
    (128, 128, 8, 8, 8),
    (64, 128, 8, 8, 8),
    (128, 64, 8, 8, 8),
    (64, 64, 16, 4, 4),
    (64, 32, 16, 4, 4),
    (32, 64, 16, 4, 4),
    (32, 32, 16, 4, 4),
    (32, 32, 32, 2, 2),
    (16, 128, 16, 4, 4),
    (128, 16, 16, 4, 4),
    (16, 32, 32, 2, 2),
)


def choose(x: Shape, gpu: Gpu) -> Tiling:
    """Return the best of some choices known to be good, by the model."""
    best: tuple[float, Tiling] | None = None
    for bm, bn, bk, tm, tn in TUNED:
        for splits in SPLITS:
            if splits > 1 and x.k < 4 * bk * splits:
                break
            t = Tiling(bm, bn, bk, stages=2, splits=splits, raster=8, tm=tm, tn=tn)
            try:
                check(x, t, gpu)
            except ScheduleError:
                continue
            ns = predicted_ns(x, t, gpu)
            # the model is not so sure that a second kernel for a few percent would pay
            if best is None or ns < (0.98 if splits == 1 else 0.93) * best[0]:
                best = ns, t
    assert best is not None, "the smallest tile fits every GPU"
    return best[1]
