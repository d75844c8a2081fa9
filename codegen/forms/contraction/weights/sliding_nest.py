"""A weight gradient of unknown sizes with its choices: its plan, its workspace, its phase.

    task: some strips, an outer point, a panel of columns
      for its strips:  pack b
        for taps of outer axes, for tiles of about equal channels: sums of a register tile

A strip is a box of pixels: all of the inner axes as far as they fit, a part of the next one. How
large it is and how many groups of strips there are, each with sums of its own, the plan finds by
the rules of `schedule.py`: from sizes alone.
"""

from __future__ import annotations

from collections.abc import Iterator

from tcdsl.codegen.forms.contraction.lets import Lets, pick
from tcdsl.codegen.forms.contraction.packer import packer_params
from tcdsl.codegen.forms.contraction.problem import Index, extent_of
from tcdsl.codegen.forms.contraction.register_tile import FIRST, intrinsic
from tcdsl.codegen.forms.contraction.weights.finish import stored_rows
from tcdsl.codegen.forms.contraction.weights.nest import Nest, pack_function, packer_of
from tcdsl.codegen.forms.contraction.weights.schedule import SHORT, TASKS, parts
from tcdsl.codegen.forms.contraction.weights.sliding import SlidingWeights
from tcdsl.codegen.forms.contraction.weights.sliding_kernel import SlidingTile
from tcdsl.codegen.loops import build as b
from tcdsl.codegen.loops.loopir import (
    Call,
    Cast,
    Const,
    Eval,
    Expr,
    Function,
    Let,
    Return,
    Stmt,
    Var,
    Vector,
)
from tcdsl.codegen.machine.cpu import LINE, Machine
from tcdsl.grammar.text.dataclass import dataclass
from tcdsl.grammar.types.dtypes import INT32


@dataclass(frozen=True, slots=True)
class SlidingNest(Nest):
    """A weight gradient of unknown sizes with its choices.

    taps: of a row of the window, cut into register tiles of `part` at most. channels: the most of
    a register tile of one vector, of two.
    """

    problem: SlidingWeights
    taps: int
    part: int
    channels: tuple[int, ...]

    @property
    def width(self) -> int:
        """Columns of a whole panel."""
        return len(self.channels) * self.lanes

    @property
    def is_direct(self) -> bool:
        """Whether sums are of one group wherever they are stored: a call alone knows."""
        return False

    @property
    def groups(self) -> Expr:
        """The groups."""
        return self.var("groups")

    # ---- the plan: parameters are the strips of a group, groups, and blocks of axes

    @property
    def params_used(self) -> int:
        """How many parameters of the plan there are."""
        return 2 + len(self.problem.axes)

    def extent(self, axis: int) -> Expr:
        """Return the pixels of an axis."""
        return self.size(self.problem.axes[axis].pixel.extent)

    def block(self, axis: int) -> Var:
        """Return how many pixels of an axis are in a strip."""
        return self.var(f"block{axis}")

    def planned(self) -> list[Stmt]:
        """Return the declarations of what the plan has left."""
        names = self.var("each"), self.var("groups"), *map(self.block, range(self._axes))
        return [Let(v, b.plan_param(self.param + n)) for n, v in enumerate(names)]

    def finishing(self) -> list[Stmt]:
        """Return the declaration of what the phase that adds up groups has of it."""
        return [Let(self.var("groups"), b.plan_param(self.param + 1))]

    @property
    def _axes(self) -> int:
        return len(self.problem.axes)

    def plan(self, machine: Machine) -> list[Stmt]:
        """Return what the plan does."""
        size = self.problem.dtype.size_bytes
        pixels, sums, most, room = (self.var(n) for n in ("pixels", "sums_bytes", "most", "room"))
        each, groups, total = (self.var(n) for n in ("each", "groups", "strips"))
        longest = max(1, machine.l2_bytes * 3 // 10 // (self.width * size))
        few = b.min64(
            b.ceil_div(TASKS, b.max64(self.blocks, 1)),
            b.min64(b.div(machine.l2_bytes, b.max64(sums, 1)), b.div(pixels, SHORT)),
        )
        out: list[Stmt] = [
            Let(pixels, b.mul(*map(self.extent, range(self._axes)))),
            Let(sums, b.mul(self.row_count, self.column_count, self.outer_count, size)),
            Let(groups, b.max64(few, 1), mutable=True),
            Let(most, b.min64(longest, b.ceil_div(pixels, groups)), mutable=True),
            *self._apart(machine, most),
            Let(room, b.max64(most, 1), mutable=True),
        ]
        strips: Expr = b.c64(1)
        for n in reversed(range(self._axes)):
            extent, count = self.extent(n), self.var(f"blocks{n}")
            whole = b.compare("<=", count, 1)
            out += [
                Let(count, b.ceil_div(extent, b.max64(b.min64(extent, room), 1))),
                Let(self.block(n), b.ceil_div(extent, b.max64(count, 1))),
                b.assign(room, b.select(whole, b.div(room, b.max64(extent, 1)), b.c64(1))),
                b.assign(room, b.max64(room, 1)),
            ]
            strips = b.mul(strips, count)
        values = each, groups, *map(self.block, range(self._axes))
        return [
            *out,
            Let(total, strips),
            Let(each, b.max64(b.ceil_div(total, groups), 1)),
            b.assign(groups, b.max64(b.ceil_div(total, each), 1)),
            *(b.set_param(self.param + n, v) for n, v in enumerate(values)),
        ]

    def _apart(self, machine: Machine, most: Var) -> list[Stmt]:
        """Return what has fewer pixels in a strip where images share sets of the first level.

        See `schedule.longest_strip`.
        """
        page, few = machine.l1_bytes // machine.l1_ways, machine.l1_ways // 2
        size = self.problem.dtype.size_bytes
        out: list[Stmt] = []
        for n in range(self._axes):
            stride = b.mul(self.stride(self.problem.a, self.problem.axes[n].pixel), size)
            if b.value_of(stride) is not None:
                continue
            inside = b.mul(*map(self.extent, range(n + 1, self._axes)))
            meet = b.compare("==", b.mod(stride, page), 0)
            shared = b.all_of(meet, b.compare(">", self.extent(n), few))
            out.append(b.when(shared, b.assign(most, b.min64(most, b.mul(inside, few)))))
        return out

    # ---- workspace

    @property
    def packed_bytes(self) -> Expr:
        """The bytes of a packed strip, in whole lines, and of a vector behind it."""
        pixels = b.mul(*map(self.block, range(self._axes)))
        size = b.mul(b.add(b.mul(pixels, self.width), self.lanes), self.problem.dtype.size_bytes)
        return b.round_up(size, LINE)

    @property
    def is_alone(self) -> Expr:
        """Whether there is one group, whose tasks store their sums at once."""
        return b.compare("==", self.groups, 1)

    # ---- kernels

    def tile_of(self, channels: int, taps: range, vectors: int) -> SlidingTile:
        """Return the micro-kernel of so many channels and vectors, for some taps."""
        p = self.problem
        around = self._axes - 1
        line = p.axes[-1]
        known = (b.value_of(self.stride(p.a, x)) for x in (p.tap, line.pixel))
        return SlidingTile(
            channels, taps, vectors, self.lanes, p.dtype, line, around, self.width, *known
        )

    def pieces(self) -> tuple[range, ...]:
        """Return the taps of a row as register tiles have them."""
        return parts(self.taps, self.part)

    def tiles(self) -> Iterator[Function]:
        """Yield the micro-kernels, and what picks one for some taps by channels and vectors."""
        for taps in self.pieces():
            stem = f"{self.prefix}_tile_{taps.start}"
            by_vectors = []
            params = self.tile_of(1, taps, 1).params
            choice = b.i64("channels"), b.i64("vectors")
            for v, most in enumerate(self.channels, 1):
                options: list[tuple[int, Stmt]] = []
                for c in range(1, most + 1):
                    first, *rest = cut_channels(c)
                    if not rest:
                        yield self.tile_of(c, taps, v).function(f"{stem}_{c}x{v}")
                    calls = [self._call(f"{stem}_{first}x{v}", params, 0)]
                    calls += [self._call(f"{stem}_{n}x{v}", params, first) for n in rest]
                    options.append((c, b.block(calls)))
                by_vectors.append((v, pick(choice[0], options)))
            yield Function(stem, (*choice, *params), pick(choice[1], by_vectors), "helper")

    def _call(self, name: str, params: tuple[Var, ...], channel: int) -> Stmt:
        """Return the call of a micro-kernel, with the parameters handed on, from a channel on."""
        moved = {
            "a": b.mul(channel, b.i64("a_channel")),
            "sums": b.mul(channel, b.i64("channel_rows"), self.width),
        }
        args = tuple(b.offset(p, moved[p.name]) if p.name in moved else p for p in params)
        return Eval(Call(name, args, None))


def most_channels(machine: Machine, part: int, vectors: int) -> int:
    """Return the most channels of a register tile, 0 where so many taps do not fit.

    Four of one vector are too few sums: they wait for each other.
    """
    usable = machine.registers * 15 // 16  # compilers spill when they fill all of them
    return min((usable - vectors - 1) // vectors // part, MOST_CHANNELS // vectors)


def cut_channels(count: int) -> tuple[int, ...]:
    """Return what channels run as: a micro-kernel of their own, or two where they are 5, 7, .."""
    return (count,) if count <= _ALL or count % 2 == 0 else (count // 2 + 1, count // 2)


MOST_CHANNELS = 8  # of a register tile of one vector
_ALL = 4  # so many channels, and each number below, have a micro-kernel


# ---- the phase


def phase(nest: SlidingNest) -> list[Function]:
    """Return the functions, the phase last."""
    p, task = nest.problem, nest.var("task")
    group, first, last = nest.var("own_group"), nest.var("first_strip"), nest.var("last_strip")
    panel, columns = nest.var("panel"), nest.var("panel_columns")
    counts = [nest.var(f"blocks{n}") for n in range(len(p.axes))]
    total, block = nest.var("strips"), nest.pointer("block")
    packed = nest.pointer("packed_b")
    head: list[Stmt] = [
        *nest.planned(),
        *nest.sums(),
        Let(packed, Cast(b.WORKSPACE, packed.type)),
        *(
            Let(v, b.ceil_div(nest.extent(n), b.max64(nest.block(n), 1)))
            for n, v in enumerate(counts)
        ),
        Let(total, b.mul(*counts)),
    ]
    place, at = nest.placed(panel, group)
    own = Cast(b.offset(b.WORKSPACE, nest.packed_bytes), block.type)
    shared = b.offset(nest.pointer("sums"), b.mul(task, nest.block_elements))
    body = b.loop(
        task,
        b.BEGIN,
        b.END,
        place,
        Let(block, b.select(nest.is_alone, own, shared)),
        Let(columns, b.min64(nest.width, b.sub(nest.column_count, b.mul(panel, nest.width)))),
        Let(first, b.mul(group, nest.var("each"))),
        Let(last, b.min64(b.add(first, nest.var("each")), total)),
        b.when(b.compare("==", total, 0), _zeros(nest)),
        b.loop(nest.var("strip"), first, last, _strip(nest, first, counts, columns)),
        b.when(nest.is_alone, stored_rows(nest, at, b.c64(0), nest.row_count)),
    )
    whole = nest.operands.declare(b.block(head, body, Return(b.const(0, INT32))))
    return [
        pack_function(nest.prefix, p, nest.lanes),
        *nest.tiles(),
        b.phase_function(f"{nest.prefix}_sums", whole),
    ]


def _zeros(nest: SlidingNest) -> Stmt:
    """Return the sums of a block over no pixels."""
    vector, i = Vector(nest.problem.dtype, nest.lanes), nest.var("i")
    store = intrinsic("tc_store", vector, b.offset(nest.pointer("block"), i), Const(0.0, vector))
    return b.loop(i, 0, nest.block_elements, Eval(store), step=nest.lanes)


def _strip(nest: SlidingNest, first: Var, counts: list[Var], columns: Var) -> Stmt:
    """Return the work on one strip: where it lies, its packing, its register tiles."""
    p, strip = nest.problem, nest.var("strip")
    where = Lets(nest.var)
    named = [(f"block_{n}_at", counts[n]) for n in reversed(range(len(counts)))]
    digits = where.digits(strip, named, lambda n: f"strip_rest{n}")[::-1]
    starts: list[Expr] = []
    lengths: list[Expr] = []
    for n, axis in enumerate(p.axes):
        start = where.let(f"{axis.pixel.name}_start", b.mul(digits[n], nest.block(n)))
        left = b.sub(nest.extent(n), start)
        starts.append(start)
        lengths.append(where.let(f"{axis.pixel.name}_length", b.min64(nest.block(n), left)))
    # what pixels of b are apart along each axis, packed
    steps: list[Expr] = [columns]
    for n in reversed(range(1, len(p.axes))):
        inner = where.let(f"packed_{p.axes[n - 1].pixel.name}", b.mul(steps[0], nest.block(n)))
        steps.insert(0, inner)
    flags = nest.var("flags")
    is_first = b.compare("==", strip, first)
    return b.block(
        where.stmts,
        Let(flags, b.select(is_first, b.c64(FIRST), b.c64(0))),
        _pack(nest, columns, starts, lengths, steps),
        _windows(nest, columns, starts, lengths, steps),
    )


def _pack(
    nest: SlidingNest, columns: Var, starts: list[Expr], lengths: list[Expr], steps: list[Expr]
) -> Stmt:
    """Return the packing of a strip, in pieces in which b has one stride from pixel to pixel.

    Inner axes are whole where a strip has more than one point of an axis around them.
    """
    p = nest.problem
    first = len(p.axes) - 1
    piece: tuple[Index, ...] = (p.axes[first].pixel,)
    while first > 0 and p.b.linear((p.axes[first - 1].pixel, *piece)) is not None:
        first -= 1
        piece = (p.axes[first].pixel, *piece)
    source = [b.mul(nest.var("panel"), nest.width, nest.along(p.b, p.columns))]
    target: list[Expr] = []
    loops: list[tuple[Var, Expr]] = []
    for n, axis in enumerate(p.axes):
        at = starts[n]
        if n < first:
            i = nest.var(f"pack_{axis.pixel.name}")
            loops.append((i, lengths[n]))
            at = b.add(at, i)
            target.append(b.mul(i, steps[n]))
        source.append(b.mul(at, nest.stride(p.b, axis.pixel)))
    depth, to = nest.var("depth"), nest.pointer("piece")
    vector = Vector(p.dtype, nest.lanes)
    behind = b.offset(to, b.mul(depth, columns))
    args = (
        b.offset(nest.pointer("b_at", const=True), b.add(*source)),
        nest.along(p.b, p.columns),
        nest.along(p.b, piece),
        to,
        depth,
        columns,
        b.c64(nest.width),
    )
    assert len(args) == len(packer_params(packer_of(p, nest.lanes)))
    body: Stmt = b.block(
        Let(depth, b.mul(*lengths[first:])),
        Let(to, b.offset(nest.pointer("packed_b"), b.add(*target))),
        Eval(Call(pack_function(nest.prefix, p, nest.lanes).name, args, None)),
        # the last vector reads it; denormal numbers would slow it down
        Eval(intrinsic("tc_store", vector, behind, Const(0.0, vector))),
    )
    for v, extent in reversed(loops):
        body = b.loop(v, 0, extent, body)
    return body


def _windows(
    nest: SlidingNest, columns: Var, starts: list[Expr], lengths: list[Expr], steps: list[Expr]
) -> Stmt:
    """Return the loops over the taps of outer axes, and the tiles inside."""
    p = nest.problem
    head: list[Stmt] = []
    a_at: list[Expr] = [b.mul(starts[-1], nest.stride(p.a, p.axes[-1].pixel))]
    b_at: list[Expr] = []
    rows: list[Expr] = []
    counts: list[Expr] = []
    loops: list[tuple[Var, Expr]] = []
    for n, axis in enumerate(p.axes[:-1]):
        tap: Expr = b.c64(0)
        if axis.tap is not None:
            v = nest.var(f"tap_{axis.tap.name}")
            loops.append((v, nest.size(axis.tap.extent)))
            rows.append(b.mul(v, nest.row_stride(axis.tap.name)))
            a_at.append(b.mul(v, nest.stride(p.a, axis.tap)))
            tap = v
        low, count = starts[n], lengths[n]
        if axis.low is not None or axis.high is not None:
            slid, end = b.mul(tap, axis.spread), b.add(starts[n], lengths[n])
            # of a bound below what is slid the quotients are no more than 0
            if axis.low is not None:
                before = b.sub(axis.low - axis.first + axis.step - 1, slid)
                low = b.max64(low, b.div(before, axis.step))
            if axis.high is not None:
                edge = b.add(nest.size(axis.high), axis.step - 1 - axis.first)
                end = b.min64(end, b.div(b.sub(edge, slid), axis.step))
            names = nest.var(f"{axis.pixel.name}_from"), nest.var(f"{axis.pixel.name}_count")
            head += [Let(names[0], low), Let(names[1], b.max64(b.sub(end, names[0]), 0))]
            low, count = names
        counts.append(count)
        a_at.append(b.mul(low, nest.stride(p.a, axis.pixel)))
        b_at.append(b.mul(b.sub(low, starts[n]), steps[n]))
    a_line, b_line = nest.pointer("a_line", const=True), nest.pointer("b_line", const=True)
    sums = nest.pointer("tile_sums")
    head += [
        Let(a_line, b.offset(nest.pointer("a_at", const=True), b.add(*a_at))),
        Let(b_line, b.offset(nest.pointer("packed_b"), b.add(*b_at))),
        Let(sums, b.offset(nest.pointer("block"), b.mul(b.add(*rows), nest.width))),
    ]
    low = starts[-1]
    line = low, b.add(low, lengths[-1])
    body = b.block(head, _tiles(nest, columns, (a_line, b_line, sums), counts, line, steps))
    for v, taps in reversed(loops):
        body = b.loop(v, 0, taps, body)
    return body


def _tiles(
    nest: SlidingNest,
    columns: Var,
    places: tuple[Var, Var, Var],
    counts: list[Expr],
    line: tuple[Expr, Expr],
    steps: list[Expr],
) -> Stmt:
    """Return the register tiles of a strip at one tap of each outer axis."""
    p, where = nest.problem, Lets(nest.var)
    a_line, b_line, sums = places
    vectors = where.let("vectors", b.ceil_div(columns, nest.lanes))
    most: Expr = b.c64(nest.channels[0])
    for v, channels in enumerate(nest.channels[1:], 2):
        most = b.select(b.compare("<", vectors, v), most, b.c64(channels))
    total = where.let("channel_count", nest.size(extent_of(p.channels)))
    tiles = where.let("tiles", b.ceil_div(total, most))
    least = where.let("least", b.div(total, b.max64(tiles, 1)))
    larger = where.let("larger", b.mod(total, b.max64(tiles, 1)))
    n, some, c = nest.var("tile"), nest.var("channels"), nest.var("channel")
    a_channel, last = nest.along(p.a, p.channels), p.axes[-1]
    rows = nest.row_stride(p.channels[-1].name) if p.channels else b.c64(0)
    edge = () if last.high is None else (b.sub(nest.size(last.high), last.first),)
    args = (
        some,
        vectors,
        b.offset(a_line, b.mul(c, a_channel)),
        b_line,
        b.offset(sums, b.mul(c, rows, nest.width)),
        a_channel,
        *_unknown(nest.stride(p.a, p.tap)),
        *(nest.stride(p.a, x.pixel) for x in p.axes[:-1]),
        *_unknown(nest.stride(p.a, last.pixel)),
        *steps,
        rows,
        nest.row_stride(p.tap.name),
        *counts,
        *line,
        *edge,
        nest.var("flags"),
    )
    calls = [Eval(Call(f"{nest.prefix}_tile_{t.start}", args, None)) for t in nest.pieces()]
    return b.block(
        where.stmts,
        b.loop(
            n,
            0,
            tiles,
            Let(some, b.add(least, b.select(b.compare("<", n, larger), b.c64(1), b.c64(0)))),
            Let(c, b.add(b.mul(n, least), b.min64(n, larger))),
            calls,
        ),
    )


def _unknown(distance: Expr) -> list[Expr]:
    """Return a distance that micro-kernels are told: one that is not part of their text."""
    return [distance] if b.value_of(distance) is None else []
