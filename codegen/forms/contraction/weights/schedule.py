"""The analytic schedule of weight gradients: register tile, strips of pixels, groups of strips.

A task is a panel of columns and a group of strips. Per strip it packs its panel of b and runs all
register tiles over it. Groups are what is split beside panels; how many there are follows from
sizes alone, since the order of sums is part of the result.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil, prod

from tcdsl.codegen.forms.contraction.schedule import CALL, MAX_VECTORS, STORE, step_cost
from tcdsl.codegen.forms.contraction.weights.problem import WeightGradient, count
from tcdsl.codegen.machine.cpu import Machine
from tcdsl.codegen.machine.wall import wall_ns
from tcdsl.grammar.text.dataclass import dataclass

TASKS = 16  # wanted: few enough for long strips, enough for a late thread to leave its share
SHORT = 512  # pixels: groups are not made of shorter strips
FOUR_LINES = 3  # cycles that it takes to have four lines from the second level
MOST_ROWS = 28  # of a register tile


@dataclass(frozen=True, slots=True)
class WeightChoice:
    """What the default config holds.

    channels, taps, vectors: the register tile. pixels: those of a strip, at most. groups: of
    strips. pack: whether b is packed.
    """

    channels: int
    taps: int
    vectors: int
    pixels: int
    groups: int
    pack: bool


@dataclass(frozen=True, slots=True)
class Strips:
    """How pixels are cut: a strip takes `size` pixels of axis `cut`, all of those inside it.

    counts: for each axis, how many blocks there are. each: strips of a group. Both are
    representative where the first axis is left open.
    """

    cut: int
    size: int
    counts: tuple[int, ...]
    each: int

    @property
    def total(self) -> int:
        """The strips."""
        return prod(self.counts)

    @property
    def groups(self) -> int:
        """The groups; the last one may have fewer strips."""
        return ceil(self.total / self.each)

    def block(self, axis: int, extent: int) -> int:
        """Return how many pixels of an axis are in one strip, at most."""
        return 1 if axis < self.cut else self.size if axis == self.cut else extent


def strips_of(p: WeightGradient, c: WeightChoice) -> Strips:
    """Return the strips of a choice and how many of them each group has."""
    extents = [x.extent for x in p.axes]
    inside, cut = 1, len(extents) - 1
    while cut > 0 and inside * extents[cut] <= c.pixels:
        inside *= extents[cut]
        cut -= 1
    most = max(1, c.pixels // inside)
    if cut or not p.is_open:
        most = min(most, extents[cut])
    blocks = ceil(extents[cut] / most)
    counts = (*extents[:cut], blocks, *(1 for _ in extents[cut + 1 :]))
    size = most if p.is_open and not cut else ceil(extents[cut] / blocks)
    return Strips(cut, size, counts, ceil(prod(counts) / c.groups))


def parts(total: int, most: int) -> tuple[range, ...]:
    """Return [0, total) in as few parts as there are of at most most, about equal."""
    pieces = ceil(total / most)
    return tuple(range(total * n // pieces, total * (n + 1) // pieces) for n in range(pieces))


# ---- the choice


def weight_tiles(p: WeightGradient, machine: Machine, lanes: int) -> Iterator[tuple[int, int, int]]:
    """Yield the register tiles that fit: channels, taps of the innermost axis, vectors."""
    taps, wide = p.axes[-1].taps, ceil(p.column_count / lanes)
    usable = machine.registers * 15 // 16  # compilers spill when they fill all of them
    pieces = {ceil(taps / n) for n in range(1, taps + 1)}
    for nv in range(1, min(MAX_VECTORS, wide) + 1):
        most = min(MOST_ROWS, (usable - nv - 1) // nv)
        for t in sorted(pieces):
            for c in range(1, min(p.channel_count, most // t) + 1):
                yield c, t, nv


def best(p: WeightGradient, machine: Machine, lanes: int, *, pack: bool) -> WeightChoice:
    """Return the analytic schedule."""

    def at(tile: tuple[int, int, int]) -> WeightChoice:
        panels = ceil(p.column_count / (tile[2] * lanes)) * count(p.outer)
        sums = p.column_count * p.row_count * count(p.outer) * p.dtype.size_bytes
        groups = min(ceil(TASKS / panels), machine.l2_bytes // sums)
        if p.is_open:  # the plan has a group for SHORT pixels at least
            share = max(SHORT, p.image_pixels)
        else:
            groups = min(groups, p.pixel_count // SHORT)
            share = ceil(p.pixel_count / max(1, groups))
        longest = min(longest_strip(p, machine, tile[2] * lanes), _apart(p, machine))
        pixels = longest if p.is_open and groups <= 1 else min(longest, share)
        return WeightChoice(*tile, pixels, max(1, groups), pack)

    # of about equal ones that of most taps, then of most rows
    tiles = sorted(weight_tiles(p, machine, lanes), key=lambda t: (-t[1], -t[0] * t[1]))
    costs = {tile: half_cycles(p, machine, lanes, at(tile)) for tile in tiles}
    least = min(costs.values())
    return at(next(tile for tile in tiles if costs[tile] * 200 <= least * 201))


def longest_strip(p: WeightGradient, machine: Machine, width: int) -> int:
    """Return the pixels of a panel that leave the second level room for the image."""
    return max(1, machine.l2_bytes * 3 // 10 // (width * p.dtype.size_bytes))


def _apart(p: WeightGradient, machine: Machine) -> int:
    """Return the pixels that fill half the ways of the first level where images share its sets.

    A row of the window is read again for each of its taps along outer axes, from the first level
    if images whole pages apart have not driven it out.
    """
    page, few = machine.l1_bytes // machine.l1_ways, machine.l1_ways // 2
    inside = 1
    for axis in reversed(p.axes):
        stride = p.a.stride(axis.pixel.name).constant
        if stride is not None and stride * p.dtype.size_bytes % page == 0 and axis.extent > few:
            return inside * few
        inside *= axis.extent
    return inside


def half_cycles(p: WeightGradient, machine: Machine, lanes: int, c: WeightChoice) -> int:
    """Return the half cycles of all register tiles and of the packing, without the finish."""
    strips = strips_of(p, c)
    windows = prod(x.taps for x in p.axes[:-1])
    total = 0
    for taps in map(len, parts(p.axes[-1].taps, c.taps)):
        for ct, tiles in _cut(p.channel_count, c.channels):
            for nv, panels in _cut(ceil(p.column_count / lanes), c.vectors):
                step = step_cost(machine, ct * taps, nv) * p.pixel_count
                read = nv * lanes + ct * abs(p.axes[-1].step)  # elements of a pixel
                step += read * p.dtype.size_bytes * p.pixel_count * FOUR_LINES // 128
                calls = strips.total * (CALL + 2 * STORE * ct * taps * nv)
                total += windows * tiles * panels * (step + calls)
    packed = p.pixel_count * p.column_count if c.pack else 0
    return count(p.outer) * (total + packed)


def _cut(total: int, size: int) -> Iterator[tuple[int, int]]:
    """Yield whole pieces and the rest: their size and number."""
    if total >= size:
        yield size, total // size
    if total % size:
        yield total % size, 1


def finish_half_cycles(p: WeightGradient, c: WeightChoice) -> int:
    """Return the half cycles of adding up the groups and of storing the sums, turned around."""
    return count(p.outer) * p.row_count * p.column_count * (2 + strips_of(p, c).groups) // 4


def tasks_of(p: WeightGradient, lanes: int, c: WeightChoice) -> int:
    """Return the number of tasks."""
    panels = ceil(p.column_count / (c.vectors * lanes))
    return strips_of(p, c).groups * count(p.outer) * panels


def predicted_ns(
    p: WeightGradient, machine: Machine, threads: int, lanes: int, c: WeightChoice
) -> float:
    """Return the nanoseconds that the busiest thread takes; there is one where two do not pay."""
    ns = 0.5 / machine.frequency_ghz
    sums_ns = wall_ns(half_cycles(p, machine, lanes, c) * ns, tasks_of(p, lanes, c), threads)
    return sums_ns + finish_half_cycles(p, c) * ns
