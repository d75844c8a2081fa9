"""A contraction by the panel method: its facts, its workspace."""

from __future__ import annotations

from collections.abc import Iterator

from tcdsl.codegen.forms.base.operands import Operands
from tcdsl.codegen.forms.contraction.blocking import AHEAD, PANEL, STREAM, Blocking, Extents
from tcdsl.codegen.forms.contraction.finish import Finish, FinishAccess
from tcdsl.codegen.forms.contraction.packer import Unit
from tcdsl.codegen.forms.contraction.problem import ONE, Index, Operand, Problem, extent_of
from tcdsl.codegen.forms.contraction.register_tile import has_cheap_masks
from tcdsl.codegen.forms.contraction.words import Words
from tcdsl.codegen.loops import build as b
from tcdsl.codegen.loops.loopir import (
    Cast,
    Expr,
    Let,
    Pointer,
    Stmt,
    Var,
    Vector,
)
from tcdsl.codegen.machine.cpu import LINE
from tcdsl.grammar.proofs.sizes import Size
from tcdsl.grammar.text.dataclass import dataclass
from tcdsl.grammar.types.dtypes import INT32, INT64, DType

WORTH_A_VECTOR = 4  # neighbours that are packed as one


@dataclass(frozen=True, slots=True)
class Panel:
    """A contraction by the panel method: what a phase is written from.

    shares: it calls packers and dot products of the library (`library.py`), else it has its own.
    fuses: it has register tiles of its own, with the epilogue; else it calls those of the library
    too, which know none, and goes through finished tiles once more. words: what is packed as such;
    one is a step of the schedule then. kept: where in the memory of all tasks panels of b lie where
    they are packed ahead.
    """

    problem: Problem
    finish: Finish
    operands: Operands
    prefix: str
    lanes: int
    shares: bool = False
    fuses: bool = True
    words: Words | None = None
    kept: Expr | None = None

    # ---- facts

    @property
    def dtype(self) -> DType:
        """The type of accumulators and of packed elements that are no words."""
        return self.problem.dtype.computed

    def stored(self, x: Operand) -> DType:
        """Return the type of an operand in memory."""
        return self.operands.memory_dtype(x.buffer)

    @property
    def packed(self) -> DType:
        """The type of packed elements."""
        return self.dtype if self.words is None else INT32

    @property
    def is_tiled(self) -> bool:
        """Whether micro-kernels are products of tiles, whose rows of a run along k."""
        return self.words is not None and self.words.is_tiled

    @property
    def rows_lie(self) -> bool:
        """Whether tiles can read rows of a where they lie, if k is a number of whole words."""
        p = self.problem
        known = b.value_of(self.extent(p.k))
        whole = known is None or known % self.per_step == 0
        return self.is_tiled and whole and p.a.linear(p.k) == ONE and p.a.linear(p.m) is not None

    @property
    def per_step(self) -> int:
        """Elements along k in a step of the schedule."""
        return 1 if self.words is None else self.words.count

    @property
    def starts(self) -> int:
        """Rows that a packed panel of b begins with before its steps."""
        return 0 if self.words is None else self.words.starts

    @property
    def has_stage(self) -> bool:
        """Whether tiles go through the workspace, since the output has no vectors along n."""
        return not self.problem.unit

    @property
    def vector(self) -> Vector:
        """The type of accumulators, a register of them."""
        return Vector(self.dtype, self.lanes)

    @property
    def waits(self) -> bool:
        """Whether the sums of a tile wait in the workspace, since the output cannot hold them."""
        narrows = self.stored(self.problem.c) != self.dtype
        return self.has_stage or (not self.fuses and (self.finish.overwrites or narrows))

    @property
    def resumes(self) -> bool:
        """Whether sums go on from what the output holds; where they wait, the last pass adds it."""
        return self.finish.resumes and not self.waits

    @property
    def has_pass(self) -> bool:
        """Whether finished tiles are gone through once more."""
        return not self.fuses and self.has_work

    @property
    def base(self) -> FinishAccess | None:
        """What tiles of the library go on from if they sum all terms: it is all of the epilogue."""
        can = self.problem.unit and not self.waits and not self.problem.statement.is_ragged
        base = self.finish.base if can and not self.fuses else None
        return base if base is not None and base.stored == self.dtype else None

    @property
    def has_work(self) -> bool:
        """Whether a finished tile is not stored as it is: it has an epilogue, or is rounded."""
        narrows = self.problem.unit and self.stored(self.problem.c) != self.dtype
        return not self.finish.is_plain or narrows

    @property
    def neighbours(self) -> Index | None:
        """The outer index along which an operand has stride one, if there is one.

        Neighbours then share its lines: as many as a vector holds form a group, whose matrices are
        packed or stored together. `a` may be the same for all of them.
        """
        p = self.problem
        for i in p.outer:
            operands = (p.a, p.b, p.c) if p.a.uses(i.name) else (p.b, p.c)
            shared = all(x.uses(i.name) for x in operands)
            if p.statement.is_ragged and not p.a.uses(i.name):
                continue  # a matrix has rows of its own, neighbours have not
            lying = (p.c,) if p.natural else operands
            if shared and i.extent != ONE and any(self._lies_along(x, i) for x in lying):
                return i
        return None

    def _lies_along(self, x: Operand, i: Index) -> bool:
        """Whether an operand has stride one along a batch, and no vectors along n are stored."""
        return x.stride(i.name) == ONE and (x != self.problem.c or self.has_stage)

    def is_near(self, x: Operand) -> bool:
        """Whether neighbours of an operand lie side by side."""
        i = self.neighbours
        return i is not None and self._lies_along(x, i)

    def unit(self, x: Operand, along: tuple[Index, ...]) -> Unit:
        """Return the direction in which an operand has stride one, its panels along a fused index.

        Far: along the outermost of fused indices only, one of some length.
        """
        k = self.problem.k

        def is_far(fused: tuple[Index, ...]) -> bool:
            if len(fused) < 2 or x.linear(fused) is not None or x.stride(fused[0].name) != ONE:
                return False
            extent = b.value_of(self.size(fused[0].extent))
            return self.words is None and (extent is None or extent >= WORTH_A_VECTOR)

        if self.is_near(x):
            return "batch"
        if along and x.stride(along[-1].name) == ONE:
            return "x"
        if k and x.stride(k[-1].name) == ONE:
            return "k"
        return "far_x" if is_far(along) else "far_k" if is_far(k) else "none"

    @property
    def packs_all_rows(self) -> bool:
        """Whether a task packs a once for all its cache blocks, however large.

        Where lines lie along the outermost of a's rows, a cache block has a few elements of each:
        `fbea,ecfd->dcba` of 32 each packed a in a sixth of the time (1 thread, Zen 3).
        """
        p = self.problem
        few = self.lanes * self.dtype.size_bytes < 64
        return few and self.unit(p.a, p.m) == "far_x"

    @property
    def groups(self) -> Expr:
        """The number of outer points, of groups of neighbours where there are any."""
        near = self.neighbours
        if near is None:
            return self.extent(self.problem.outer)
        others = tuple(i for i in self.problem.outer if i != near)
        return b.mul(self.extent(others), b.ceil_div(self.size(near.extent), self.lanes))

    def size(self, size: Size) -> Expr:
        """Return a size as an expression."""
        return self.operands.size(size)

    def extent(self, fused: tuple[Index, ...]) -> Expr:
        """Return the extent of a fused index."""
        return self.size(extent_of(fused))

    def stride(self, x: Operand, fused: tuple[Index, ...]) -> Expr | None:
        """Return the stride of an operand along a fused index; None: offsets are in a table."""
        stride = x.linear(fused)
        return None if stride is None else self.size(stride)

    def in_steps(self, row: Expr) -> Expr:
        """Return a distance of rows of a in steps of the schedule, where they are read as words."""
        return b.ceil_div(row, self.per_step) if self.is_tiled else row

    def extents(self) -> Extents:
        """Return what the schedule depends on."""
        p = self.problem
        a_row, a_k = p.a.linear(p.m), p.a.linear(p.k)
        widens_a, widens_b = self.stored(p.a) != self.dtype, self.stored(p.b) != self.dtype
        b_direct = p.b.linear(p.n) == ONE and not widens_b
        near = self.is_near(p.a), self.is_near(p.b), self.is_near(p.c)
        return Extents(
            outer=self.extent(p.outer),
            a_outer=self.extent(p.outer_of_a),
            groups=self.groups,
            m=self.extent(p.m),
            n=self.extent(p.n),
            k=b.ceil_div(self.extent(p.k), self.per_step),
            a_row=None if a_row is None else self.in_steps(self.size(a_row)),
            a_k_unit=a_k is not None and a_k == ONE,
            packs_a=not self.rows_lie
            and (widens_a or a_row is None or a_k is None or near[0] or self.words is not None),
            packs_b=not b_direct or near[1] or self.words is not None,
            # a micro-kernel walks offsets of a direct b, or a stride, but not both
            keeps_b=b_direct and p.b.linear(p.k) is None and not near[1] and self.words is None,
            near=near,
            whole=self.has_stage or self.finish.overwrites or self.stored(p.c) != self.dtype,
            dots=self._has_dots(),
            streams=self._has_streams(),
            lanes=self.lanes,
            bytes=self.dtype.size_bytes,
            turns=self.turns,
            shares_b=self._has_one_b(),
            far_rows=self.packs_all_rows,
            is_tiled=self.is_tiled,
        )

    def _has_dots(self) -> bool:
        """Whether vectors can run along k, and the sums can wait in the output."""
        p = self.problem
        lines = p.a.linear(p.m) is not None and p.b.linear(p.n) is not None
        along = p.a.linear(p.k) == ONE
        if self.turns:  # into columns of its own, so that it lies in any way
            along = along and p.b.linear(p.k) is not None and not p.natural
        keeps = self.stored(p.c) == self.dtype and p.unit and not self.finish.overwrites
        plain = self.neighbours is None and (keeps or self.finish.is_plain)
        plain = plain and not p.statement.is_ragged and self.words is None
        plain = plain and p.term == "product"
        return lines and along and plain

    def _has_one_b(self) -> bool:
        """Whether b is one matrix, for whose panels all outer points ask, and no words."""
        p = self.problem
        alone = self.neighbours is None and not any(p.b.uses(i.name) for i in p.outer)
        return alone and self.words is None and not p.statement.is_ragged

    @property
    def turns(self) -> bool:
        """Whether the dot method has to turn b around first."""
        return self.problem.b.linear(self.problem.k) != ONE

    def _has_streams(self) -> bool:
        """Whether rows of b are vectors from end to end: sums wait in the workspace anyway."""
        p = self.problem
        along = p.b.linear(p.n) == ONE and p.b.linear(p.k) is not None
        plain = self.words is None and p.term == "product" and not p.statement.is_ragged
        stored = self.stored(p.b)
        is_read = stored == self.dtype or stored.is_half  # what vectors widen on the way
        return along and plain and is_read and self.neighbours is None

    @property
    def adds_late(self) -> bool:
        """Whether what the output holds is added to finished sums: it cannot hold partial ones."""
        narrows = self.stored(self.problem.c) != self.dtype
        return self.finish.resumes and (self.finish.overwrites or narrows)

    @property
    def streams_out(self) -> bool:
        """Whether the last strip stores its sums in the output as they are."""
        return self.problem.unit and not self.has_work

    def stretch(self, g: Blocking) -> Expr:
        """Return the distance of rows of sums in the workspace: an odd number of vectors."""
        return b.mul(b.add(b.mul(b.div(b.ceil_div(g.nc, self.lanes), 2), 2), 1), self.lanes)

    def var(self, name: str) -> Var:
        """Return a local int64 of a phase."""
        return b.i64(self.operands.local(name))

    # ---- workspace

    @property
    def slack_bytes(self) -> int:
        """Return what lies behind packed panels of b: register tiles read their lines by vectors.

        What lanes beyond a tile's columns compute is thrown away.
        """
        size = self.dtype.size_bytes
        return 0 if has_cheap_masks(self.lanes, self.dtype) else self.lanes * size

    def tables(self) -> Iterator[tuple[Var, Operand, tuple[Index, ...]]]:
        """Yield the offset tables: variable, operand, fused index."""
        p = self.problem
        for name, x, fused in (
            ("a_rows", p.a, p.m),
            ("a_depth", p.a, p.k),
            ("b_columns", p.b, p.n),
            ("b_depth", p.b, p.k),
            ("c_columns", p.c, p.n),
        ):
            if x.linear(fused) is None:
                yield Var(self.operands.local(name), Pointer(INT64)), x, fused

    def table(self, x: Operand, fused: tuple[Index, ...]) -> Var:
        """Return the table of an operand along a fused index, which has one."""
        return next(v for v, y, f in self.tables() if y == x and f == fused)

    def areas(self, g: Blocking) -> dict[str, tuple[Expr, Expr]]:
        """Return, for what lies in the workspace, its byte offset and its bytes."""
        size = self.dtype.size_bytes
        bytes_of: list[tuple[str, Expr]] = [
            (v.name, b.mul(self.extent(fused), INT64.size_bytes)) for v, _, fused in self.tables()
        ]
        p = self.problem
        count_a, count_b = (self.lanes if self.is_near(x) else 1 for x in (p.a, p.b))
        rows = g.mc if self.packs_all_rows else g.mb
        bytes_of.append(("packed_a", b.mul(g.pack_a, rows, g.kc, size * count_a)))
        columns = g.nc
        if b.value_of(g.method) != PANEL and self._has_dots() and self.turns:
            columns = b.min64(columns, self.extent(p.n))  # whole sums of few columns
        own_b = g.pack_b
        if self.kept is not None:
            own_b = b.select(b.compare("!=", g.pack_b, AHEAD), g.pack_b, b.c64(0))
        panels = b.mul(own_b, columns, b.add(g.kc, self.starts), size * count_b)
        bytes_of.append(("packed_b", b.add(panels, b.mul(own_b, self.slack_bytes))))
        if self.is_near(p.c):
            bytes_of.append(("stage", b.mul(g.mc, g.nc, self.lanes * size)))
        elif self.waits:
            rows = g.mb if self.is_tiled else g.mr
            bytes_of.append(("stage", b.mul(rows, g.nv, self.lanes * size)))
        sums = b.mul(g.mc, self.stretch(g), size)
        if b.value_of(g.method) is None:
            sums = b.select(b.compare("==", g.method, STREAM), sums, b.c64(0))
        if b.value_of(g.method) in (None, STREAM) and self.extents().streams:
            bytes_of.append(("sums", sums))
        at: Expr = b.c64(0)
        out: dict[str, tuple[Expr, Expr]] = {}
        for name, count in bytes_of:
            out[name] = (at, count)
            at = b.add(at, b.round_up(count, LINE))
        out["end"] = (at, b.c64(0))
        return out

    def area(self, g: Blocking, name: str, dtype: DType, *, mutable: bool = False) -> Stmt:
        """Return the declaration of a pointer into the workspace."""
        kind = Pointer(dtype)
        at = b.offset(b.WORKSPACE, self.areas(g)[name][0])
        return Let(Var(self.operands.local(name), kind), Cast(at, kind), mutable)
