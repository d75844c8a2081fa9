"""How a contraction is cut on a GPU: block tiles, their knobs, and a form of each way to sum one.

A block computes a tile of sums, a step of its depth at a time; each of its threads, or its warps,
computes a part of the tile. A `Method` says how: by what tilings, what is legal, what it costs,
and the kernel. All else that a form has is the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import ClassVar, Generic, Self, TypeVar

from tcdsl.codegen.forms.base.context import GpuContext
from tcdsl.codegen.forms.base.cuda.kernel import LoweredKernels
from tcdsl.codegen.forms.base.form import Form
from tcdsl.codegen.forms.contraction.cuda.finish import in_parts
from tcdsl.codegen.forms.contraction.cuda.problem import Contraction, required
from tcdsl.codegen.forms.contraction.problem import extent_of
from tcdsl.codegen.loops.loopir import Function, Launch, Unroll, Var
from tcdsl.codegen.machine.config import Knob, Value
from tcdsl.codegen.machine.gpu import Gpu
from tcdsl.grammar.text.dataclass import dataclass
from tcdsl.grammar.text.errors import ScheduleError

WHOLE = Unroll(0)
ASYNC_COPIES = 80  # the first architecture that has them
RASTERS = (1, 4, 8, 16)
SPLITS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)


@dataclass(frozen=True, slots=True)
class BlockTiling:
    """What a block computes: bm x bn sums, bk steps at a time; a thread or warp um x un of them.

    stages: tiles in shared memory. splits: parts of the sum that different blocks compute.
    raster: height in tiles of the stripes along which blocks are numbered.
    """

    unit: ClassVar[str]  # what computes um x un sums: the name of its knob
    lanes: ClassVar[int]  # its threads

    bm: int
    bn: int
    bk: int
    um: int
    un: int
    stages: int
    splits: int = 1
    raster: int = 8

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return self.lanes * (self.bm // self.um) * (self.bn // self.un)

    @property
    def name(self) -> str:
        """For people: `128x128x8 of 8x8`."""
        return f"{self.bm}x{self.bn}x{self.bk} of {self.um}x{self.un}"

    def values(self) -> dict[str, Value]:
        """Return it as knobs."""
        return {
            "tile": f"{self.bm}x{self.bn}",
            "depth": self.bk,
            self.unit: f"{self.um}x{self.un}",
            "stages": self.stages,
            "splits": self.splits,
            "raster": self.raster,
        }

    @classmethod
    def of(cls, values: Mapping[str, Value]) -> Self:
        """Return the choice that knobs stand for."""
        bm, bn = map(int, str(values["tile"]).split("x"))
        um, un = map(int, str(values[cls.unit]).split("x"))
        bk, stages, splits, raster = (
            int(values[name]) for name in ("depth", "stages", "splits", "raster")
        )
        return cls(bm, bn, bk, um, un, stages, splits, raster)

    def check_threads(self, most: int) -> None:
        """Raise where the parts do not make up the tile, or a block has too few or many threads.

        Raises
        ------
        ScheduleError
            With the limit that it breaks.
        """
        if self.bm % self.um or self.bn % self.un or not 64 <= self.threads <= most:
            raise ScheduleError(
                f"tile {self.name} has {self.threads} threads; legal are 64 to {most}"
            )


@dataclass(frozen=True, slots=True)
class ContractionShape:
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


def shape_of(ctx: GpuContext, x: Contraction) -> ContractionShape:
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
    return ContractionShape(outer, m, n, k, size, x.dtype.size_bytes, loads, copies)


T = TypeVar("T", bound=BlockTiling)


@dataclass(frozen=True, slots=True)
class Method(Generic[T]):
    """A way to compute block tiles.

    tiles, depths, units, stages: values of its knobs. good: tilings for all that is not tuned.
    check raises `ScheduleError` where no kernel can have a tiling; predicted_ns is the time of a
    call; kernel leaves parts of sums in the variable that it is given, if any.
    """

    name: str
    tiling: type[T]
    tiles: tuple[str, ...]
    depths: tuple[int, ...]
    units: tuple[str, ...]
    stages: Callable[[ContractionShape], tuple[int, ...]]
    good: tuple[T, ...]
    check: Callable[[ContractionShape, T, Gpu], None]
    predicted_ns: Callable[[ContractionShape, T, Gpu], float]
    kernel: Callable[[GpuContext, Contraction, T, Var | None], tuple[Function, Launch]]

    def knobs(self, ctx: GpuContext) -> tuple[Knob, ...]:
        """Return the choices; `lower` refuses combinations that no kernel can have."""
        x = shape_of(ctx, required(ctx))
        # 16 steps are the least worth a part of a sum
        splits = tuple(s for s in SPLITS if s == 1 or x.k >= 16 * s)
        return (
            Knob("tile", self.tiles),
            Knob("depth", self.depths),
            Knob(self.tiling.unit, self.units),
            Knob("stages", self.stages(x)),
            Knob("splits", splits),
            Knob("raster", RASTERS),
        )

    def default(self, ctx: GpuContext) -> dict[str, Value]:
        """Return the analytic schedule."""
        x = shape_of(ctx, required(ctx))
        return ctx.once(f"default {self.name}", lambda: self.choose(x, ctx.machine)).values()

    def cost_ns(self, ctx: GpuContext, values: Mapping[str, Value]) -> float:
        """Return the predicted time.

        Raises
        ------
        ScheduleError
            If no kernel can have these values together: a search passes over them.
        """
        x, t = shape_of(ctx, required(ctx)), self.tiling.of(values)
        self.check(x, t, ctx.machine)
        return self.predicted_ns(x, t, ctx.machine)

    def lower(self, ctx: GpuContext, values: Mapping[str, Value]) -> LoweredKernels:
        """Return one kernel, or two where the sum is split.

        Raises
        ------
        ScheduleError
            If no kernel can have these values together.
        """
        x, t = required(ctx), self.tiling.of(values)
        self.check(shape_of(ctx, x), t, ctx.machine)
        title = f"{self.name} {t.name}"
        return in_parts(ctx, x, t.splits, title, lambda partial: self.kernel(ctx, x, t, partial))

    def choose(self, x: ContractionShape, gpu: Gpu) -> T:
        """Return the best of the choices known to be good, by the model."""
        best: tuple[float, T] | None = None
        for whole in self.good:
            for splits in SPLITS:
                if splits > 1 and x.k < 4 * whole.bk * splits:
                    break
                t = replace(whole, splits=splits)
                try:
                    self.check(x, t, gpu)
                except ScheduleError:
                    continue
                ns = self.predicted_ns(x, t, gpu)
                # the model is not so sure that a second kernel for a few percent would pay
                if best is None or ns < (0.98 if splits == 1 else 0.93) * best[0]:
                    best = ns, t
        assert best is not None, "the smallest tile fits every GPU"
        return best[1]

    def form(self, name: str, matches: Callable[[GpuContext], bool]) -> Form[Gpu, LoweredKernels]:
        """Return the form of groups that this method computes."""
        return Form(
            name, matches, self.knobs, self.default, self.cost_ns, self.lower, has_tiles=True
        )
