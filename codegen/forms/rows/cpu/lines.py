"""Parts of rows whose operands may have any strides: loops that know steps of 1 and 0 only.

Of an operand with other steps the points of a part of the row are copied into the workspace before,
and those of a result from there afterwards.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import combinations

from tcdsl.codegen.forms.base import vexpr
from tcdsl.codegen.forms.base.access import ONE, ZERO, DimLoop, Linear
from tcdsl.codegen.forms.base.align import AlignedStatement
from tcdsl.codegen.forms.base.context import Context
from tcdsl.codegen.forms.base.space import Access, IterationSpace, accesses, combines
from tcdsl.codegen.forms.rows.cpu.copied import copied
from tcdsl.codegen.forms.rows.cpu.nest import RowNest
from tcdsl.codegen.forms.rows.point import RowPoint, RowWalk
from tcdsl.codegen.loops import build as b
from tcdsl.codegen.loops.loopir import (
    I64,
    Assign,
    Bin,
    Call,
    Cast,
    Const,
    Expr,
    Field,
    If,
    Let,
    Load,
    Mask,
    Offset,
    Pointer,
    Scalar,
    Stmt,
    Var,
    Vector,
)
from tcdsl.grammar.text.dataclass import dataclass
from tcdsl.grammar.types import typed

_BAND = 16  # rows of a transposed operand that are turned around at once
_PART = 256  # points of a row that are copied at once
_TURNED = 128  # where rows are turned around: a band of these is half of a first-level cache
_STRETCH = 256  # bytes of a transposed operand that are read at once where results pass the caches
_LINE = 64  # points of any type that are whole lines
_MOST_VERSIONS = 3  # operands for each of which there is a loop in which it is repeated


def next_to_each_other(
    space: IterationSpace, still: frozenset[Access] = frozenset()
) -> IterationSpace:
    """Return the space of one row whose points are neighbours but for those that stay one."""
    inner = space.sweeps[0][-1].name
    here = {}
    for access, linear in space.linear.items():
        is_still = access in still or linear.step(inner) == ZERO
        here[access] = Linear(() if is_still else ((inner, ONE),), ZERO)
    return replace(space, linear=here)


@dataclass(frozen=True, slots=True)
class _Line:
    """An access whose step along rows is seen at run time.

    across: its step from row to row. here: where the loop for any steps finds its points. walk: 0
    where they are all the same one, else -1, which leaves a counter as it is. copy: its place in
    the workspace, so many bytes behind the begin. value, mask: of what is read in vectors, the
    point that is repeated and which lanes are others, all of them or none; else None.
    """

    step: Expr
    across: Expr
    here: Var
    walk: Var
    copy: Var
    offset: int
    is_read: bool
    value: Var | None
    mask: Var | None

    @property
    def size(self) -> int:
        """Bytes of an element, by which functions that copy are named."""
        assert isinstance(self.copy.type, Pointer)
        return self.copy.type.dtype.size_bytes

    @property
    def is_still(self) -> Expr:
        """Whether it is repeated along rows."""
        return b.compare("==", self.step, 0)

    @property
    def is_apart(self) -> Expr:
        """Whether its points are neither neighbours nor all the same one."""
        return b.all_of(b.compare("!=", self.step, 0), b.compare("!=", self.step, 1))

    @property
    def is_turned(self) -> Expr:
        """Whether points of one place in neighbouring rows are neighbours."""
        return b.all_of(b.compare("==", self.across, 1), self.is_apart)


class LineNest(RowNest):
    """Parts of rows, whose points are found next to each other."""

    def __init__(self, ctx: Context, space: IterationSpace, walk: RowWalk) -> None:
        super().__init__(ctx, replace(space, kept=space.kept[:-1]), walk)
        self.inner, self.across = space.sweeps[0][-1].name, space.kept[-1]
        self.linear = space.linear
        self.count = b.i64(self.fresh("count"))
        self.begin: dict[Access, Var] = {}  # the first point of the first row at hand
        self.first: dict[Access, Var] = {}  # of a row
        self.lines: dict[Access, _Line] = {}
        self.bytes = 0
        self.copied = copied(ctx, space)
        self.passes = self.copied if walk.stream else None
        halves = self.copied is not None and self.stored(self.copied[1][0]).is_half
        if halves and not walk.stream:  # their vectors are faster than points one by one
            self.copied = None
        self.is_general = False
        read = _read_first(tuple(s for w in space.aligned.sweeps for s in w.steps))
        for access, linear in space.linear.items():
            base = self.base(access[0])
            assert isinstance(base.type, Pointer)
            kind = replace(base.type, restrict=False)
            self.begin[access] = Var(self.fresh(f"{base.name}_begin"), kind)
            self.first[access] = Var(self.fresh(f"{base.name}_row"), kind)
            if linear.step(self.inner) in (ZERO, ONE):
                continue
            dtype = self.stored(access[0])
            value = mask = None
            if access in read and walk.lanes > 1 and not dtype.is_half:
                value = Var(self.fresh(f"{base.name}_value"), Scalar(dtype))
                mask = Var(self.fresh(f"{base.name}_mask"), Mask(self.mask_dtype, walk.lanes))
            self.lines[access] = _Line(
                self.size(linear.step(self.inner)),
                self.size(linear.step(self.across.name)),
                Var(self.fresh(f"{base.name}_here"), kind),
                b.i64(self.fresh(f"{base.name}_walk")),
                b.pointer(self.fresh(f"{base.name}_copy"), dtype),
                self.bytes,
                access in read,
                value,
                mask,
            )
            room = max(_PART, _BAND * _TURNED if access in read else 0)
            self.bytes += room * dtype.size_bytes
        if self.passes:
            self.bytes = max(self.bytes, _STRETCH * _TURNED)
        self.read = [a for a, line in self.lines.items() if line.is_read]
        self.known = [frozenset[Access]()]
        if len(self.read) <= _MOST_VERSIONS:
            self.known += [frozenset({a}) for a in self.read]

    # ---- once a call of the phase

    def declarations(self) -> list[Stmt]:
        """Return places in the workspace, and how counters are walked."""
        out: list[Stmt] = []
        for access, line in self.lines.items():
            place = b.offset(b.WORKSPACE, line.offset)
            out.append(Let(line.copy, Cast(place, b.type_of(line.copy))))
            if access in self.read and self.walk.lanes > 1:
                out.append(Let(line.walk, b.select(line.is_still, b.c64(0), b.c64(-1))))
            if line.mask is not None:
                lanes = b.select(line.is_still, b.c64(0), b.c64(self.walk.lanes))
                out.append(Let(line.mask, self.tail(lanes)))
        return out

    def plan(self, base: int) -> list[Stmt]:
        """Return how tasks change where points are copied: less of a row, whole bands of rows."""
        rows, width = (Field(b.PLAN, f"param[{base + i}]", I64) for i in range(2))
        turned = b.any_of(*(self.lines[a].is_turned for a in self.read))
        apart = b.any_of(*(x.is_apart for x in self.lines.values()))
        whole = b.round_up(rows, self.band)
        some = b.min64(width, _TURNED)
        cut: Stmt = b.assign(width, b.min64(width, _PART))
        if self.passes:
            target = self.lines[self.passes[1]]
            is_across = b.compare("==", target.step, 1)
            some = b.select(is_across, b.min64(width, self.widest(target.size)), some)
            cut = b.when(b.not_(turned), cut)
        return [
            b.when(apart, cut),
            b.when(turned, b.assign(width, some), b.assign(rows, whole)),
        ]

    def widest(self, size: int) -> Expr:
        """Return how many points of a row, whole lines, pass the caches at once: of few rows more.

        The fewer they are, the more of them are read while they wait behind what goes to memory.
        """
        height = b.max64(self.size(self.across.extent), 1)
        lines = b.div(b.div(b.c64(_STRETCH * _TURNED // size), height), _LINE)
        return b.max64(b.mul(lines, _LINE), _TURNED)

    def workspace(self) -> Expr:
        """Return the bytes of the copies, 0 where there are none."""
        apart = (x.is_apart for x in self.lines.values())
        still = [self.lines[a].is_still for a in self.read if self.lines[a].value is None]
        least = len(self.known[-1]) + 1  # repeated ones that have no loop of their own
        filled = (b.all_of(*some) for some in combinations(still, least))
        return b.select(b.any_of(*apart, *filled), b.c64(self.bytes), b.c64(0))

    # ---- parts of rows

    def part(
        self, counters: Mapping[str, Expr], rows: tuple[Expr, Expr], span: tuple[Expr, Expr]
    ) -> list[Stmt]:
        """Return the points [low, high) of rows one after the other.

        counters: of the loops around them. rows: the first of them, and the one behind the last.
        """
        low, high = span
        self.enter(counters)
        out: list[Stmt] = [Let(self.count, b.sub(high, low))]
        for access, linear in self.linear.items():
            begin = self.begin[access]
            base = self.base(access[0])
            along = b.mul(low, self.size(linear.step(self.inner)))
            place = b.add(self.row_offset(linear), along)
            out.append(Let(begin, Offset(base, place, b.type_of(begin))))
        done = self.of_any_steps(rows)
        if self.copied is not None:
            source, target = (self.lines[a] for a in self.copied)
            is_across = b.all_of(source.is_turned, b.compare("==", target.step, 1))
            done = If(is_across, self.across_bands(rows, *self.copied), done)
        for still in reversed(self.known):
            as_known = b.all_of(
                *(
                    b.compare("==", line.step, 0 if access in still else 1)
                    for access, line in self.lines.items()
                )
            )
            done = If(as_known, self.of_these_steps(rows, still), done)
        return [*out, done]

    def of_these_steps(self, rows: tuple[Expr, Expr], still: frozenset[Access]) -> Stmt:
        """Return the loop over rows along which these operands are repeated, and no others."""
        row = self.counter(self.across)
        body: list[Stmt] = [Let(self.first[a], self.place(a, row)) for a in self.linear]
        return b.loop(row, *rows, body, self.points(still))

    def of_any_steps(self, rows: tuple[Expr, Expr]) -> Stmt:
        """Return the loop over bands of rows whose operands may have any steps."""
        start, left, band = (b.i64(self.fresh(n)) for n in ("start", "left", "row"))
        row = self.counter(self.across)
        turns: list[Stmt] = []
        body: list[Stmt] = [Let(row, b.add(start, band))]
        behind: list[Stmt] = []
        for access in self.linear:
            first, line = self.first[access], self.lines.get(access)
            body.append(Let(first, self.place(access, row)))
            if line is None:
                continue
            body.append(Let(line.here, first, mutable=True))
            if not line.is_read:
                body.append(b.when(line.is_apart, Assign(line.here, line.copy)))
                spread = b.do(f"tc_spread_{line.size}", first, line.step, line.copy, self.count)
                behind.append(b.when(line.is_apart, spread))
                continue
            corner = self.place(access, start)
            turn = b.do(
                f"tc_turn_{line.size}", line.copy, _TURNED, corner, line.step, left, self.count
            )
            turns.append(b.when(line.is_turned, turn))
            if line.value is not None:
                body.append(Let(line.value, Const(0, b.type_of(line.value)), mutable=True))
            body.append(b.when(b.compare("!=", line.step, 1), self.copy_in(line, first, band)))
        self.is_general = True
        points = self.points(frozenset())
        self.is_general = False
        return b.loop(
            start,
            *rows,
            Let(left, b.min64(b.sub(rows[1], start), _BAND)),
            turns,
            b.loop(band, 0, left, body, points, behind),
            step=_BAND,
        )

    def across_bands(self, rows: tuple[Expr, Expr], source: Access, target: Access) -> Stmt:
        """Return the loop over bands of rows that are turned around on their way."""
        start, left = b.i64(self.fresh("start")), b.i64(self.fresh("left"))
        size, room = self.lines[target].size, (b.WORKSPACE,) if self.passes else ()
        turn = b.do(
            f"tc_{'past' if room else 'across'}_{size}",
            *room,
            self.place(target, start),
            self.lines[target].across,
            self.place(source, start),
            self.lines[source].step,
            left,
            self.count,
        )
        step = self.band
        return b.loop(
            start, *rows, Let(left, b.min64(b.sub(rows[1], start), step)), turn, step=step
        )

    @property
    def band(self) -> int:
        """How many rows are turned around at once."""
        return _STRETCH // self.lines[self.passes[1]].size if self.passes else _BAND

    def place(self, access: Access, row: Expr) -> Expr:
        """Return the address of the first point of a row."""
        step = self.size(self.linear[access].step(self.across.name))
        return b.offset(self.begin[access], b.mul(row, step))

    def copy_in(self, line: _Line, first: Var, band: Expr) -> Stmt:
        """Return what brings the points of an operand next to each other, or to one vector."""
        here = Assign(line.here, line.copy)
        if line.value is not None:
            still: Stmt = Assign(line.value, Load(first, b.c64(0), line.value.type))
        else:
            count = self.count if self.walk.lanes == 1 else b.c64(self.walk.lanes)
            still = b.block(b.do(f"tc_fill_{line.size}", line.copy, first, count), here)
        apart = b.do(f"tc_line_{line.size}", line.copy, first, line.step, self.count)
        turned = Assign(line.here, b.offset(line.copy, b.mul(band, _TURNED)))
        return If(line.is_turned, turned, If(line.is_still, still, b.block(apart, here)))

    def points(self, still: frozenset[Access]) -> Stmt:
        """Return the loop over points along which these operands are repeated."""
        whole = replace(self.space, linear=self.linear)
        self.space = next_to_each_other(whole, still)
        self.row = []
        self.whole = False
        self.sweep(0, (b.c64(0), self.count))
        return b.block(self.row)

    def address(self, access: Access, counters: Mapping[str, Expr]) -> tuple[Var, Expr]:
        """Return where the points of an access are found in this part of the row."""
        line = self.lines.get(access) if self.is_general else None
        at = self.first[access] if line is None else line.here
        if self.space.linear[access].step(self.inner) == ZERO:
            return at, b.c64(0)
        index = counters[self.inner]
        if line is not None and line.is_read and self.walk.lanes > 1:
            index = Bin("&", index, line.walk, I64)
        return at, index

    def load(self, access: Access, point: RowPoint, inner: DimLoop) -> Expr:
        """Return lanes elements of memory, or one in all of them, which takes no copies."""
        line = self.lines.get(access) if self.is_general else None
        if line is None or line.value is None or line.mask is None:
            return super().load(access, point, inner)
        pointer, index = self.address(access, point.counters)
        t = Vector(self.stored(access[0]), self.walk.lanes)
        mask: Expr = line.mask
        if point.mask is not None:
            mask = Bin("&", mask, point.mask, line.mask.type)
        name = f"tc_loadf_{vexpr.kind_of(t, t.dtype)}"
        return Call(name, (b.offset(pointer, index), mask, vexpr.splat(line.value, t)), t)

    def may_stream(self, stored: list[Access]) -> tuple[Expr, ...]:
        """Return what has to hold: results are written where they lie."""
        if not self.is_general:
            return ()
        lines = (self.lines[a] for a in stored if a in self.lines)
        return tuple(b.compare("==", x.step, 1) for x in lines)


def _read_first(steps: tuple[AlignedStatement, ...]) -> frozenset[Access]:
    """Return the accesses that are read from memory: not what the same point has written."""
    read: set[Access] = set()
    written: set[Access] = set()
    for step in steps:
        s = step.statement
        target = (s.target, s.subs)
        touched = set(accesses(step)) - {target}
        reads = {(x.tensor, x.subs) for x in vexpr.walk(s.value) if isinstance(x, typed.Read)}
        if combines(s) and s.base is not None:
            reads.add((s.base, s.subs))
        read |= (touched & reads) - written
        written.add(target)
    return frozenset(read)
