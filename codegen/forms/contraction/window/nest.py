"""A convolution with its choices: its workspace, its packing, its micro-kernels."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field

from tcdsl.codegen.forms.contraction.problem import ONE, Index, extent_of, known
from tcdsl.codegen.forms.contraction.window.base import Nest
from tcdsl.codegen.forms.contraction.window.kernel import Level, TapKernel
from tcdsl.codegen.forms.contraction.window.problem import Convolution, WindowSide
from tcdsl.codegen.forms.contraction.window.schedule import (
    ColumnBlocks,
    Strip,
    WindowChoice,
    depth,
    tile_of,
)
from tcdsl.codegen.loops import build as b
from tcdsl.codegen.loops.loopir import I64, Expr, Table
from tcdsl.codegen.machine.cpu import LINE
from tcdsl.grammar.proofs.sizes import Size
from tcdsl.grammar.text.dataclass import dataclass
from tcdsl.grammar.types.dtypes import INT64


@dataclass(frozen=True, slots=True)
class WindowNest(Nest):
    """A convolution of known sizes with its choices.

    base: where its part of the workspace begins. param: of the plan, which has the number of chunks
    where it is planned.
    """

    conv: Convolution
    choice: WindowChoice
    base: int
    param: int
    kernels: dict[TapKernel, str] = field(default_factory=dict)

    @property
    def tallest(self) -> int:
        """The most pixels of a register tile."""
        return self.choice.mr

    @property
    def columns(self) -> int:
        """Columns of a whole block."""
        return self.choice.nv * self.lanes

    @property
    def chunks(self) -> Expr:
        """In how many tasks the lines of a block are cut."""
        return self.var("chunks") if self.choice.is_planned else b.c64(self.choice.chunks)

    # ---- workspace

    def areas(self) -> dict[str, int]:
        """Return the byte offsets of what lies in the workspace, and where it ends."""
        size = self.dtype.size_bytes
        c, deep = self.choice, depth(self.conv)
        # vectors of the last block are read whole, and squares of the last pixels
        bytes_of = {
            "depth_at": deep * INT64.size_bytes if self.has_table else 0,
            "packed": (deep * self.columns + self.lanes) * size,
            "sums": (c.mr * c.nv + self.lanes) * self.lanes * size,
        }
        out: dict[str, int] = {}
        at = self.base
        for name, count in bytes_of.items():
            out[name] = at
            at += -(-count // LINE) * LINE
        return {**out, "end": at}

    def offsets(self) -> dict[str, Expr]:
        """Return the byte offsets as expressions."""
        return {name: b.c64(at) for name, at in self.areas().items()}

    # ---- packing

    @property
    def run(self) -> tuple[Index, ...]:
        """The inner sums that are packed at once: all, or those that lie side by side."""
        x, sums = self.conv.problem.b, self.conv.sums
        if x.linear(sums) is not None or x.stride(self.conv.column.name) == ONE:
            return sums
        parts = (sums[n:] for n in range(len(sums)))
        found = next((p for p in parts if x.linear(p) == ONE), ())
        return found if known(extent_of(found)) > 1 else sums

    # ---- kernels

    def tap_tables(self, side: WindowSide) -> tuple[Table, Table]:
        """Return the tables of the first tap at each pixel of a side, and of their number."""
        stem = self.name(f"side{self.conv.sides.index(side)}")
        return (
            Table(f"{stem}_first", I64, tuple(t.start for t in side.present)),
            Table(f"{stem}_taps", I64, tuple(len(t) for t in side.present)),
        )

    def levels(self, columns: int) -> Iterator[tuple[Level, Size, WindowSide | None]]:
        """Yield the loops around a row of taps: each with the step of the image, and its side."""
        c, a = self.conv, self.conv.problem.a
        if not depth(c):  # a sum over nothing
            return
        for n, index in enumerate(c.channels):
            if known(index.extent) > 1:
                weights = known(extent_of(c.sums[n + 1 :])) * columns
                yield Level(known(index.extent), weights), a.stride(index.name), None
        for side in c.sides:
            if side.tap is None:
                yield Level(None, 0, slides=True), Size(), side
                continue
            inner = c.sums[c.sums.index(side.tap) + 1 :]
            weights = known(extent_of(inner)) * columns
            yield Level(None, weights, slides=True), a.stride(side.tap.name), side

    def kernel(self, strip: Strip, block: ColumnBlocks) -> str:
        """Return the name of the micro-kernel of a strip, making it if there is none yet."""
        c = self.conv
        step = abs(c.problem.c.stride(c.across.pixel.name).constant or 1)
        spec = TapKernel(
            tile_of(c, strip.rows, block.vectors, self.lanes),
            strip.taps,
            c.step(c.across.pixel),
            c.step(c.tap),
            block.columns,
            *((block.columns, strip.rows * step) if c.is_turned else (strip.rows, block.columns)),
            tuple(level for level, _, _ in self.levels(block.columns)),
        )
        return self.kernels.setdefault(spec, self.name(f"tile{len(self.kernels)}"))
