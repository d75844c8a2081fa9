"""How a convolution is cut: register tiles along the pixels, blocks of columns, tasks.

A task packs a block of columns of the weights and walks lines of the output under it. A line is a
row of pixels, at one point of all other indices. The weights stream through the first level for
each tile, so a block should stay in the second; the image is near, since a line reads nearly the
rows that the one before has read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from math import ceil, prod

from tcdsl.codegen.forms.contraction.problem import extent_of, known
from tcdsl.codegen.forms.contraction.register_tile import RegisterTile
from tcdsl.codegen.forms.contraction.schedule import (
    CALL,
    LATE,
    STORE,
    parallel_from,
    register_tiles,
    step_cost,
)
from tcdsl.codegen.forms.contraction.window.kernel import Taps
from tcdsl.codegen.forms.contraction.window.problem import Convolution
from tcdsl.codegen.machine.cpu import Machine
from tcdsl.codegen.machine.wall import wall_ns
from tcdsl.grammar.proofs.sizes import Size
from tcdsl.grammar.text.dataclass import dataclass

Parts = Sequence[Convolution]  # that go along the same lines, mostly one

PACK = 2  # half cycles of a packed element
TURN = 3  # half cycles of a vector on its way to the output
PIECE = 20  # of each line of the output to which a tile that is turned around writes a piece
LOOP = 6  # half cycles of a turn of a loop that is not unrolled
LATE_BYTES = 32  # that the third level gives in half a cycle less than the second
CODE = 4096  # vector operations of all micro-kernels: what compiles in a second
MOST_CHUNKS = 64
DEEP = 1024  # terms up to which few columns are a contraction's, in vectors of pixels
PLANNED = 0  # in place of a number of chunks


@dataclass(frozen=True, slots=True)
class WindowChoice:
    """Register tile (pixels x vectors), and in how many tasks the lines of a block are cut."""

    mr: int
    nv: int
    chunks: int

    @property
    def is_planned(self) -> bool:
        """Whether the plan cuts the lines, of which it alone knows how many there are."""
        return self.chunks == PLANNED


@dataclass(frozen=True, slots=True)
class Strip:
    """Neighbouring register tiles of a line that are alike: from pixel `first` on, `count`."""

    first: int
    count: int
    rows: int
    taps: Taps


@dataclass(frozen=True, slots=True)
class ColumnBlocks:
    """Blocks of columns that are alike: `count` of them, with so many columns and vectors."""

    count: int
    columns: int
    vectors: int


def strips(c: Convolution, mr: int) -> tuple[Strip, ...]:
    """Return a line as register tiles of at most mr pixels, of about equal sizes."""
    present = c.across.present
    if not depth(c):  # there may be no tap on another side
        present = (range(0),) * len(present)
    return _strips(present, mr)


@lru_cache(maxsize=256)  # every cost asks for them
def _strips(present: tuple[range, ...], mr: int) -> tuple[Strip, ...]:
    number = ceil(len(present) / mr)
    least, larger = divmod(len(present), number)
    out: list[Strip] = []
    at = 0
    for n in range(number):
        rows = least + (n < larger)
        taps = _taps(present[at : at + rows])
        last = out[-1] if out else None
        if last is not None and (last.rows, last.taps) == (rows, taps):
            out[-1] = Strip(last.first, last.count + 1, rows, taps)
        else:
            out.append(Strip(at, 1, rows, taps))
        at += rows
    return tuple(out)


def _taps(present: Sequence[range]) -> Taps:
    """Return, for each tap that some pixel of a tile has, the rows of these pixels."""
    of_tap: dict[int, list[int]] = {}
    for r, taps in enumerate(present):
        for tap in taps:
            of_tap.setdefault(tap, []).append(r)
    return tuple((tap, tuple(of_tap[tap])) for tap in sorted(of_tap))


def blocks(c: Convolution, nv: int, lanes: int) -> tuple[ColumnBlocks, ...]:
    """Return the columns as blocks of nv vectors and what is left."""
    columns = known(c.column.extent)
    whole, left = divmod(columns, nv * lanes)
    out = [ColumnBlocks(whole, nv * lanes, nv)] if whole else []
    return (*out, ColumnBlocks(1, left, ceil(left / lanes))) if left else tuple(out)


def line_extents(parts: Parts) -> tuple[Size, ...]:
    """Return the extents of the indices that tell lines; those of the longest part."""
    same = zip(*(c.rows for c in parts), strict=True)
    return tuple(max((i.extent for i in indices), key=_longest) for indices in same)


def _longest(extent: Size) -> int:
    return extent.constant or 0  # one that is left open is the same in all parts


def panels(c: Convolution) -> int:
    """Return the number of independent sets of weights."""
    return known(extent_of(c.panels))


def depth(c: Convolution) -> int:
    """Return the number of taps and channels: the elements of a packed column."""
    return known(extent_of(c.sums))


# ---- cost


def _turns(c: Convolution) -> float:
    """Return how often, on average, a row of taps runs for a tile."""
    turns = float(known(extent_of(c.channels)))
    for side in c.sides:
        turns *= sum(map(len, side.present)) / side.pixels
    return turns


def tile_step(machine: Machine, mr: int, nv: int) -> int:
    """Return the half cycles of a step: of one vector, loads count where few registers hide them.

    As `panel_step` counts them: 14x1 took 1.15 times as long as 5x2 (256x256 3x3 on 14x14, Zen 3).
    """
    late = mr // 3 if nv == 1 and machine.has_few_registers else 0
    return step_cost(machine, mr, nv) + late


def line_cost(c: Convolution, machine: Machine, mr: int, vectors: int) -> float:
    """Return the half cycles of a line of a block."""
    turns = _turns(c)
    packed = depth(c) * vectors * machine.vector_bytes
    # weights that do not stay in the second level come from the third for every tile
    late = packed / LATE_BYTES if packed * 4 > machine.l2_bytes * 3 else 0.0
    total = 0.0
    for strip in strips(c, mr):
        row = sum(tile_step(machine, len(rows), vectors) for _, rows in strip.taps)
        out = way_out(c, strip.rows, vectors, machine.lanes(c.problem.dtype.size_bytes))
        total += strip.count * (turns * (row + LOOP) + CALL + out + late)
    return total


def way_out(c: Convolution, rows: int, vectors: int, lanes: int) -> int:
    """Return the half cycles of a tile on its way to the output.

    Turned around it is pieces of lines, one for each column, which lie far apart: whether 6 pixels
    or 16 go to one makes no difference. 7x7 by twos of 3 channels to 64 took 20.1 ms by 6x4, 18.1
    by 14x2 (8x224x224, 1 thread of Zen 4).
    """
    if not c.is_turned:
        return rows * vectors * (STORE + TURN)
    return rows * vectors * STORE + ceil(rows / lanes) * vectors * lanes * PIECE


def block_costs(
    parts: Parts, machine: Machine, lanes: int, choice: WindowChoice
) -> Iterator[float]:
    """Yield the half cycles of the tasks of each block, all lines and the packing."""
    for block in blocks(parts[0], choice.nv, lanes):
        total = 0.0
        for c in parts:
            total += c.lines * line_cost(c, machine, choice.mr, block.vectors)
            total += PACK * depth(c) * block.columns * choice.chunks
        for _ in range(block.count * panels(parts[0])):
            yield total


def predicted(
    parts: Parts, machine: Machine, threads: int, lanes: int, choice: WindowChoice
) -> float:
    """Return the nanoseconds that the busiest thread takes."""
    if choice.is_planned:
        chunks = _chunks(parts, machine, threads, lanes, (choice.mr, choice.nv))
        choice = WindowChoice(choice.mr, choice.nv, chunks)
    costs = list(block_costs(parts, machine, lanes, choice))
    total_ns = sum(costs) / (2 * machine.frequency_ghz)
    return wall_ns(total_ns, len(costs) * choice.chunks, threads)


def choose(parts: Parts, machine: Machine, threads: int, lanes: int) -> WindowChoice:
    """Return the analytic schedule."""
    best, shape = 0.0, (1, 1)
    for mr, nv in sorted(tiles(parts, machine, lanes), key=lambda t: (-t[1], t[0])):
        cost = sum(block_costs(parts, machine, lanes, WindowChoice(mr, nv, 1)))
        if not best or cost < best * 0.995:
            best, shape = cost, (mr, nv)
    if is_open(parts):
        return WindowChoice(*shape, PLANNED)
    return WindowChoice(*shape, _chunks(parts, machine, threads, lanes, shape))


def tiles(parts: Parts, machine: Machine, lanes: int) -> tuple[tuple[int, int], ...]:
    """Return the register tiles that fit registers, line and columns, and are little code."""
    pixels = max(c.across.pixels for c in parts)
    vectors = ceil(known(parts[0].column.extent) / lanes)
    even = {ceil(pixels / n) for n in range(1, pixels + 1)}  # others leave more tiles
    fit = [(mr, nv) for mr, nv in _register_tiles(machine) if mr in even and nv <= vectors]
    return tuple(shape for shape in fit if _code(parts, *shape, lanes) <= CODE) or ((1, 1),)


def _register_tiles(machine: Machine) -> tuple[tuple[int, int], ...]:
    """Return the tiles of contractions, and longer ones: rows need no pointers of their own.

    Where steps meet another register is needed, unless there is a single vector: 4x3 in 16
    registers spilled, and took 1.3 times as long as 5x2 (3x3, 256 channels, 14x14, Zen 3).
    """
    most = machine.registers - 2
    free = [(mr, nv) for mr, nv in register_tiles(machine) if nv == 1 or (mr + 1) * nv <= most]
    return (*free, *((mr, 1) for mr in range(25, most - 1)))


def most_rows(machine: Machine, vectors: int) -> int:
    """Return the pixels of the longest register tile of so many vectors."""
    return max(mr for mr, nv in _register_tiles(machine) if nv == vectors)


def _code(parts: Parts, mr: int, nv: int, lanes: int) -> int:
    """Return the vector operations of the micro-kernels of a tile."""
    widths = sum(block.vectors for block in blocks(parts[0], nv, lanes))
    total = 0
    for c in parts:
        kernels = {(s.rows, s.taps) for s in strips(c, mr)}
        total += widths * sum(len(rows) for _, taps in kernels for _, rows in taps)
    return total


def _chunks(
    parts: Parts, machine: Machine, threads: int, lanes: int, shape: tuple[int, int]
) -> int:
    """Return how many tasks share a block: enough for the threads, few enough to pack little."""

    def busiest(chunks: int) -> float:
        costs = list(block_costs(parts, machine, lanes, WindowChoice(*shape, chunks)))
        tasks = len(costs) * chunks
        turn = ceil(tasks / threads) * sum(costs) / tasks
        return turn + turn * threads / (tasks * LATE)

    total = sum(block_costs(parts, machine, lanes, WindowChoice(*shape, 1)))
    if threads < 2 or total < parallel_from(machine):
        return 1
    return min(chunk_counts(parts), key=busiest)


def chunk_counts(parts: Parts) -> tuple[int, ...]:
    """Return the numbers of tasks that a block's lines may be cut into."""
    most = max(c.lines for c in parts) if is_open(parts) else _lines(parts)
    return tuple(range(1, min(most, MOST_CHUNKS) + 1))


def _lines(parts: Parts) -> int:
    return prod(map(known, line_extents(parts)))


def is_open(parts: Parts) -> bool:
    """Whether it is the plan that sees how many lines there are."""
    return parts[0].left_open.constant is None


def tile_of(c: Convolution, rows: int, vectors: int, lanes: int) -> RegisterTile:
    """Return a register tile."""
    return RegisterTile(rows, vectors, lanes, c.problem.dtype)
