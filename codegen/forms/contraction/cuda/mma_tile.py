"""Tiles of halves in shared memory as tensor cores read them, and how they get there.

A row of a tile runs along the direction in which the factor is contiguous, so that 8 neighbours,
a chunk of 16 bytes, are copied at once. Chunks of a row are exchanged by the row's number (an XOR
swizzle): the 8 rows that `ldmatrix` reads together then lie in different banks.
"""

from __future__ import annotations

from tcdsl.codegen.forms.contraction.cuda.address import (
    inner_stride,
    place_of,
    role_extent,
    runs_of,
)
from tcdsl.codegen.forms.contraction.cuda.problem import Fused
from tcdsl.codegen.forms.contraction.cuda.side_tile import SideTile
from tcdsl.codegen.forms.contraction.cuda.tiling import WHOLE
from tcdsl.codegen.forms.contraction.problem import ONE
from tcdsl.codegen.loops import build as b
from tcdsl.codegen.loops.loopir import (
    I64,
    Address,
    Array,
    Bin,
    Elem,
    Expr,
    If,
    Let,
    Pointer,
    Scalar,
    Stmt,
    Var,
)
from tcdsl.grammar.proofs.sizes import Size
from tcdsl.grammar.text.dataclass import dataclass
from tcdsl.grammar.types.dtypes import BOOL, INT32, UINT16, UINT32, UINT64

CHUNK = 8  # halves in 16 bytes


@dataclass(frozen=True, slots=True)
class ChunkTile(SideTile):
    """The tile of one side: stages x rows x chunks of 8 halves, at `tile` in shared memory."""

    tile: Var
    outer: Fused

    # ---- where an element lies

    @property
    def along_k(self) -> bool:
        """Whether a row of the tile runs along the sum."""
        operand = self.side.operand
        unit_x = inner_stride(operand, self.group) == ONE
        return not unit_x

    @property
    def rows(self) -> int:
        """Rows of a tile."""
        return self.width if self.along_k else self.bk

    @property
    def chunks(self) -> int:
        """Chunks of a row."""
        return (self.bk if self.along_k else self.width) // CHUNK

    def at(self, stage: Expr, row: Expr, chunk: Expr) -> Expr:
        """Return where a chunk lies, as a pointer."""
        turn = b.mod(row, CHUNK)
        if self.chunks < CHUNK:  # several rows share the banks
            turn = b.mod(b.div(row, CHUNK // self.chunks), self.chunks)
        place = b.mul(b.add(b.mul(stage, self.rows), row), self.chunks)
        swapped = Bin("^", chunk, turn, I64) if self.chunks > 1 else chunk
        return b.offset(self.tile, b.mul(b.add(place, swapped), CHUNK))

    # ---- copies

    def _local(self, suffix: str) -> str:
        return self.ctx.operands.local(f"{self.name}_{suffix}")

    @property
    def _wide(self) -> Var:
        return b.var(self._local("wide"), BOOL)

    def _strides(self) -> tuple[list[Size], bool]:
        """Return what has to be whole chunks for chunks to be aligned; false if none can be."""
        operand = self.side.operand
        fast, slow = (self.k_group, self.group) if self.along_k else (self.group, self.k_group)
        runs = runs_of(operand, fast)
        if not runs or runs[-1].stride != ONE:
            return [], False
        wanted = [run.stride for run in (*runs[:-1], *runs_of(operand, slow))]
        wanted += [operand.offset, *(operand.stride(i.name) for i in self.outer)]
        if len(runs) > 1:  # a chunk must not reach over the end of the fastest index
            wanted.append(runs[-1].extent)
        if any(not _is_whole(s) and s.constant is not None for s in wanted):
            return [], False
        return [s for s in wanted if not _is_whole(s)], True

    def declarations(self) -> list[Stmt]:
        """Declare whether chunks are aligned in memory, where they may be."""
        strides, may_be = self._strides()
        if not may_be:
            return []
        pointer = self.ctx.operands.pointer(self.side.operand.buffer)
        unsigned = Scalar(UINT64)
        rest = Bin("%", b.cast(pointer, unsigned), b.const(16, UINT64), unsigned)
        conditions = [b.compare("==", rest, b.const(0, UINT64))]
        for stride in strides:
            value = b.mod(self.ctx.operands.size(stride), CHUNK)
            conditions.append(b.compare("==", value, 0))
        return [Let(self._wide, b.all_of(*conditions))]

    def copies(self, stage: Expr, k0: Expr) -> Stmt:
        """Return the copies of the tile at k0: asynchronous where chunks are aligned."""
        ops = self.ctx.operands
        i, row, chunk = (b.i64(ops.local(name)) for name in ("i", "row", "chunk"))
        along = b.mul(chunk, CHUNK)
        k, x = (along, row) if self.along_k else (row, along)
        lets = [
            *(Let(v, at) for v, at in zip((row, chunk), self._coordinates(i), strict=True)),
            Let(self.k, b.add(k0, k)),
            Let(self.x, b.add(self.first, x)),
        ]
        to = self.at(stage, row, chunk)
        body: Stmt = b.block(lets, self._one_by_one(to))
        if self._strides()[1]:
            body = b.block(lets, If(self._wide, self._at_once(to), self._one_by_one(to)))
        total = self.rows * self.chunks
        if total % self.threads:
            element = b.add(b.mul(i, self.threads), self.thread)
            body = b.when(b.compare("<", element, total), body)
        return b.loop(i, 0, -(-total // self.threads), body, mark=WHOLE)

    def _coordinates(self, i: Expr) -> tuple[Expr, Expr]:
        """Return row and chunk of the i-th chunk of this thread."""
        if self.threads % self.chunks == 0:
            row = b.add(b.div(self.thread, self.chunks), b.mul(i, self.threads // self.chunks))
            return row, b.mod(self.thread, self.chunks)
        element = b.add(b.mul(i, self.threads), self.thread)
        return b.div(element, self.chunks), b.mod(element, self.chunks)

    def _memory(self, k: Expr, x: Expr) -> Expr:
        operand = self.side.operand
        return b.add(
            place_of(self.ctx, operand, self.group, x),
            place_of(self.ctx, operand, self.k_group, k),
        )

    def _limits(self) -> tuple[tuple[Expr, Expr, int], tuple[Expr, Expr, int]]:
        """Return index, end, and tile size: of the direction of rows, then of the other one."""
        along_x = self.x, role_extent(self.ctx, self.group), self.width
        along_k = self.k, self.k_high, self.bk
        return (along_k, along_x) if self.along_k else (along_x, along_k)

    def _at_once(self, to: Expr) -> Stmt:
        """Return the copy of a chunk; zeros stand for what is outside."""
        (fast, fast_end, fast_size), (slow, slow_end, slow_size) = self._limits()
        rows = _below(slow, slow_end, slow_size)
        left: Expr = b.const(16, INT32)
        if not _fills(fast_end, CHUNK):
            elements = b.max64(0, b.min64(b.sub(fast_end, fast), CHUNK))
            left = b.cast(b.mul(elements, 2), Scalar(INT32))
        else:
            rows = b.all_of(rows, _below(fast, fast_end, fast_size))
        inside = b.all_of(rows, _below(fast, fast_end, fast_size))
        place = b.select(inside, self._memory(self.k, self.x), b.c64(0))
        size = b.select(rows, left, b.const(0, INT32))
        return b.do("tc_copy_async16", to, b.offset(self.source, place), size)

    def _one_by_one(self, to: Expr) -> Stmt:
        """Return the copy of a chunk by elements, through registers."""
        stored = self.side.stored
        e = b.i64(self.ctx.operands.local("e"))
        piece = self._local("piece")
        k, x = (b.add(self.k, e), self.x) if self.along_k else (self.k, b.add(self.x, e))
        limits = ((k, self.k_high, self.bk), (x, role_extent(self.ctx, self.group), self.width))
        inside = b.all_of(*(_below(*limit) for limit in limits))
        zero = b.cast(b.const(0, UINT16), Scalar(stored))  # in memory a half is an integer
        element = b.load(self.source, self._memory(k, x))
        place = Elem(piece, (e,), Scalar(stored))
        start = Address(Elem(piece, (b.c64(0),), Scalar(stored)), Pointer(stored, space="local"))
        return b.block(
            Array(piece, Scalar(stored), (CHUNK,), align=16),
            b.loop(e, 0, CHUNK, b.assign(place, b.select(inside, element, zero)), mark=WHOLE),
            b.do("tc_copy16", to, start),
        )

    # ---- fragments

    def fragments(self, size: int) -> Array:
        """Return the array of fragments of a warp's size rows or columns, 16 at a time."""
        return Array(self._local("own"), Scalar(UINT32), (size // 16, 4))

    def own(self, i: b.IntLike, part: b.IntLike) -> Address:
        """Return where a fragment lies: four registers of `a`, two of `b`."""
        place = Elem(self._local("own"), (b.expr(i), b.expr(part)), Scalar(UINT32))
        return Address(place, Pointer(UINT32, space="local"))

    def fetch(self, stage: Expr, step: Expr, first: Expr, lane: Expr, size: int) -> Stmt:
        """Return the loads of the fragments from `first` on, for 16 steps of the sum.

        Lanes 0-7 give the rows of the first of four 8 x 8 blocks, 8-15 of the second, and so on.
        Registers of `a` are rows first, those of `b` steps first.
        """
        ops = self.ctx.operands
        i, row, chunk = (b.i64(ops.local(name)) for name in ("i", "row", "chunk"))
        second, fourth = b.mod(b.div(lane, 8), 2), b.div(lane, 16)
        x_half, k_half = (second, fourth) if self.is_a else (fourth, second)
        in_block = b.mod(lane, 8)
        x = b.add(first, b.mul(i, 16))
        if self.along_k:
            row_at = b.add(x, b.mul(x_half, 8), in_block)
            chunk_at = b.add(b.mul(step, 2), k_half)
            load = "tc_ldmatrix_x4"
        else:
            row_at = b.add(b.mul(step, 16), b.mul(k_half, 8), in_block)
            chunk_at = b.add(b.div(x, CHUNK), x_half)
            load = "tc_ldmatrix_x4_t"
        one = b.do(load, self.own(i, 0), self.at(stage, row, chunk))
        lets = [Let(row, row_at), Let(chunk, chunk_at)]
        return b.loop(i, 0, size // 16, lets, one, mark=WHOLE)


def _is_whole(size: Size) -> bool:
    return all(c % CHUNK == 0 for _, c in size.terms)


def _fills(end: Expr, size: int) -> bool:
    known = b.value_of(end)
    return known is not None and known % size == 0


def _below(v: Expr, end: Expr, size: int) -> Expr:
    """Return whether an index is below its end; true where tiles end there."""
    return b.all_of() if _fills(end, size) else b.compare("<", v, end)
