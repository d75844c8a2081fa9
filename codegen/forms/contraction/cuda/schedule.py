"""Block tiles by plain arithmetic: tiles of threads, what is legal, what it costs."""

from __future__ import annotations

from math import ceil
from typing import ClassVar

from tcdsl.codegen.forms.contraction.cuda.tiling import BlockTiling, ContractionShape
from tcdsl.codegen.machine.gpu import WARP, Gpu
from tcdsl.grammar.text.dataclass import dataclass
from tcdsl.grammar.text.errors import ScheduleError

STATIC_SHARED = 48 << 10  # bytes a kernel may declare
PAD = (
    4  # elements after each row of the tile of `a`: threads that store a column of it hit all banks
)
_SPARE_REGISTERS = 40  # for addresses, predicates and loop counters


@dataclass(frozen=True, slots=True)
class ThreadTiling(BlockTiling):
    """A block tile of which a thread computes um x un sums by plain arithmetic.

    Two stages are filled through registers, more by asynchronous copies.
    """

    unit: ClassVar[str] = "thread"
    lanes: ClassVar[int] = 1


TILES = (
    *("16x32", "32x32", "16x128", "32x64", "64x32", "128x16"),
    *("64x64", "64x128", "128x64", "128x128", "128x256", "256x128"),
)
THREADS = ("1x4", "4x1", "2x2", "2x4", "4x2", "4x4", "4x8", "8x4", "8x8", "8x16", "16x8")
DEPTHS = (8, 16, 32)


def check(x: ContractionShape, t: ThreadTiling, gpu: Gpu) -> None:
    """Raise where a choice cannot run.

    Raises
    ------
    ScheduleError
        With the limit that it breaks.
    """
    t.check_threads(1024)
    if t.threads % WARP:
        raise ScheduleError(f"tile {t.name} has {t.threads} threads, no whole warps")
    if shared_bytes(x, t) > min(STATIC_SHARED, gpu.shared_block):
        raise ScheduleError(f"tile {t.name} needs {shared_bytes(x, t)} bytes of shared memory")
    if registers(x, t) > 255 or registers(x, t) * t.threads > gpu.registers:
        raise ScheduleError(f"tile {t.name} needs {registers(x, t)} registers")
    if t.stages > 2 and not x.copies:
        raise ScheduleError("elements that are converted cannot be copied asynchronously")


def shared_bytes(x: ContractionShape, t: ThreadTiling) -> int:
    """Return the shared memory of a block."""
    return t.stages * t.bk * (t.bm + PAD + t.bn) * x.size


def registers(x: ContractionShape, t: ThreadTiling) -> int:
    """Return about how many registers a thread needs."""
    words = max(1, x.sum_size // 4)
    fragments = (t.um + t.un) * max(1, x.size // 4)
    staged = 0 if t.stages > 2 else t.bk * (t.bm + t.bn) // t.threads * max(1, x.loads // 4)
    return t.um * t.un * words + fragments + staged + _SPARE_REGISTERS


def planned_blocks_per_sm(x: ContractionShape, t: ThreadTiling, gpu: Gpu) -> int:
    """Return how many blocks a multiprocessor holds at once, at the registers they are given."""
    given = max(32, -(-registers(x, t) // 8) * 8)
    by_shared = gpu.shared_sm // (shared_bytes(x, t) + 1024)
    by_threads = min(gpu.threads_sm // t.threads, gpu.blocks_sm)
    return max(1, min(gpu.registers // (given * t.threads), by_shared, by_threads))


def min_blocks(x: ContractionShape, t: ThreadTiling, gpu: Gpu) -> int:
    """Return how many blocks of a multiprocessor the compiler has to leave registers for; 0: any.

    Large tiles are held to the registers they were chosen for; small ones get what they ask for.
    """
    return planned_blocks_per_sm(x, t, gpu) if registers(x, t) > 96 else 0


def predicted_ns(x: ContractionShape, t: ThreadTiling, gpu: Gpu) -> float:
    """Return the time of a choice: the slowest of arithmetic, cache and memory, and the start."""
    tiles = ceil(x.m / t.bm) * ceil(x.n / t.bn) * x.outer
    blocks = tiles * t.splits
    if not blocks:
        return 0.0
    resident = planned_blocks_per_sm(x, t, gpu)
    depth = ceil(ceil(x.k / t.bk) / t.splits) * t.bk
    flops_ns = gpu.peak_gflops() / (x.sum_size / 4 if x.sum_size > 4 else 1) / gpu.sms
    # a thread's tile feeds its FMAs from shared memory: small ones wait for it
    feeding = t.um * t.un / (t.um * t.un + 2.0 * (t.um + t.un))
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


# What is good without tuning: bm, bn, bk, um, un.
_GOOD = (
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
GOOD = tuple(ThreadTiling(*sizes, stages=2) for sizes in _GOOD)
