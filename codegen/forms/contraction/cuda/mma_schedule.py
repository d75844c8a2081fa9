"""How a contraction is cut for tensor cores: tiles of blocks and warps, legality, price."""

from __future__ import annotations

from math import ceil
from typing import ClassVar

from tcdsl.codegen.forms.contraction.cuda.tiling import BlockTiling, ContractionShape
from tcdsl.codegen.machine.gpu import WARP, Gpu
from tcdsl.grammar.text.dataclass import dataclass
from tcdsl.grammar.text.errors import ScheduleError

TENSOR_CORES = 80  # the first architecture with m16n8k16, ldmatrix and asynchronous copies
# Rate of m16n8k16 over that of plain float32 FMAs. On sm_90 the instruction reaches some 60 % of
# what wgmma does.
_RATIO = {80: 16.0, 90: 9.0, 100: 8.0}
_CONSUMER_RATIO = 3.0
_SPARE_REGISTERS = 48


@dataclass(frozen=True, slots=True)
class WarpTiling(BlockTiling):
    """A block tile of which a warp computes um x un sums, 16 x 8 at a time."""

    unit: ClassVar[str] = "warp"
    lanes: ClassVar[int] = WARP

    @property
    def shared_bytes(self) -> int:
        """Shared memory of a block: elements are halves."""
        return 2 * self.stages * self.bk * (self.bm + self.bn)

    @property
    def registers(self) -> int:
        """About how many registers a thread needs."""
        fragments = (self.um + self.un) // 4
        return self.um * self.un // WARP + fragments + _SPARE_REGISTERS


TILES = ("32x32", "32x64", "64x32", "64x64", "64x128", "128x64", "128x128", "128x256", "256x128")
WARPS = ("16x16", "16x32", "32x16", "32x32", "32x64", "64x32", "64x64")
DEPTHS = (16, 32, 64)
STAGES = (2, 3, 4, 5)

# What is good without tuning: bm, bn, bk, um, un, stages.
_GOOD = (
    (128, 256, 32, 64, 64, 3),
    (128, 128, 32, 64, 32, 4),
    (64, 128, 32, 32, 64, 4),
    (128, 64, 32, 64, 32, 4),
    (64, 64, 32, 32, 32, 4),
    (32, 64, 64, 16, 32, 4),
    (64, 32, 64, 32, 16, 4),
    (32, 32, 64, 16, 16, 4),
)
GOOD = tuple(WarpTiling(*sizes) for sizes in _GOOD)


def check(_: ContractionShape, t: WarpTiling, gpu: Gpu) -> None:
    """Raise where a choice cannot run.

    Raises
    ------
    ScheduleError
        With the limit that it breaks.
    """
    t.check_threads(512)
    if t.shared_bytes > gpu.shared_block:
        raise ScheduleError(f"tile {t.name} needs {t.shared_bytes} bytes of shared memory")
    if t.registers > 255 or t.registers * t.threads > gpu.registers:
        raise ScheduleError(f"tile {t.name} needs {t.registers} registers")


def planned_blocks_per_sm(t: WarpTiling, gpu: Gpu) -> int:
    """Return how many blocks a multiprocessor holds at once, by registers and shared memory."""
    by_registers = gpu.registers // (-(-t.registers // 8) * 8 * t.threads)
    by_shared = gpu.shared_sm // (t.shared_bytes + 1024)
    return max(1, min(by_registers, by_shared, gpu.threads_sm // t.threads))


def predicted_ns(x: ContractionShape, t: WarpTiling, gpu: Gpu) -> float:
    """Return the time of a choice: the slowest of arithmetic, cache and memory, and the start."""
    tiles = ceil(x.m / t.bm) * ceil(x.n / t.bn) * x.outer
    blocks = tiles * t.splits
    if not blocks:
        return 0.0
    depth = ceil(ceil(x.k / t.bk) / t.splits) * t.bk
    per_sm = min(planned_blocks_per_sm(t, gpu), ceil(blocks / gpu.sms))
    rate = gpu.peak_gflops() / gpu.sms * _RATIO.get(gpu.capability, _CONSUMER_RATIO)
    # fragments come through shared memory: 64 x 64 of a warp hide that
    feeding = t.um * t.un / (t.um * t.un + 16.0 * (t.um + t.un))
    busy = min(1.0, per_sm * t.threads / 256)
    block_ns = 2.0 * t.bm * t.bn * depth / (rate * feeding * busy)
    rounds = ceil(blocks / gpu.sms)
    latency = 800 + depth / t.bk * 400 / (t.stages - 1)
    arithmetic = max(rounds * block_ns, latency * ceil(rounds / per_sm))
    l2_bytes = float(blocks) * depth * (t.bm + t.bn) * 2
    hbm = 2.0 * x.outer * (x.m * x.k + x.k * x.n + x.m * x.n)
    total = max(arithmetic, l2_bytes / (2.5 * gpu.bandwidth_gbs), hbm / gpu.bandwidth_gbs) + 2000
    if t.splits > 1:
        partial = 4.0 * x.outer * x.m * x.n * (t.splits + 1)
        total += 2000 + partial / gpu.bandwidth_gbs
    return total * (1.0 if t.raster > 1 or tiles < 4 * gpu.sms else 1.02)
