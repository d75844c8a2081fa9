"""Tiles of a factor in shared memory: how the threads of a block bring them there."""

from __future__ import annotations

from collections.abc import Sequence

from tcdsl.codegen.forms.base.cuda.kernel import KernelValues
from tcdsl.codegen.forms.base.scalars import widen
from tcdsl.codegen.forms.contraction.cuda.address import inner_stride, place_of, role_extent
from tcdsl.codegen.forms.contraction.cuda.problem import Side
from tcdsl.codegen.forms.contraction.cuda.schedule import PAD
from tcdsl.codegen.forms.contraction.cuda.side_tile import SideTile
from tcdsl.codegen.forms.contraction.cuda.tiling import WHOLE
from tcdsl.codegen.forms.contraction.problem import ONE
from tcdsl.codegen.loops import build as b
from tcdsl.codegen.loops.loopir import (
    Address,
    Array,
    Elem,
    Expr,
    Let,
    Load,
    Pointer,
    Scalar,
    Stmt,
    Var,
)
from tcdsl.grammar.text.dataclass import dataclass
from tcdsl.grammar.types.dtypes import INT32, UINT16


@dataclass(frozen=True, slots=True)
class ElementTile(SideTile):
    """The tile of one side: `name_tile[stages][bk][width]`.

    Thread t copies elements t, t + threads, ... of the tile, counted along the direction in which
    they lie in memory one after the other. padded: rows have a few elements more. ragged_k: the
    last tile may have fewer steps.
    """

    padded: bool
    ragged_k: bool

    # ---- in shared memory

    def _local(self, suffix: str) -> str:
        return self.ctx.operands.local(f"{self.name}_{suffix}")

    def declaration(self) -> Array:
        """Return the array that holds the tiles."""
        width = self.width + (PAD if self.padded else 0)
        return Array(
            self._local("tile"),
            Scalar(self.side.dtype),
            (self.stages, self.bk, width),
            space="shared",
            align=16,
        )

    def element(self, stage: Expr, k: b.IntLike, x: b.IntLike) -> Elem:
        """Return an element of a tile."""
        at = (stage, b.expr(k), b.expr(x))
        return Elem(self._local("tile"), at, Scalar(self.side.dtype))

    def address(self, stage: Expr, k: b.IntLike, x: b.IntLike) -> Address:
        """Return where an element of a tile lies."""
        return Address(self.element(stage, k, x), Pointer(self.side.dtype, space="shared"))

    # ---- which elements a thread copies

    @property
    def along_k(self) -> bool:
        """Whether neighbours along the sum are neighbours in memory."""
        operand = self.side.operand
        if inner_stride(operand, self.group) == ONE:
            return False
        return inner_stride(operand, self.k_group) == ONE

    @property
    def count(self) -> int:
        """Elements that one thread copies, at most."""
        return -(-self.width * self.bk // self.threads)

    def _coordinates(self, i: Expr) -> tuple[Expr, Expr]:
        """Return k and x, inside the tile, of the i-th element of this thread."""
        inner = self.bk if self.along_k else self.width
        if self.threads % inner == 0:
            fast: Expr = b.mod(self.thread, inner)
            slow = b.add(b.div(self.thread, inner), b.mul(i, self.threads // inner))
        else:
            element = b.add(b.mul(i, self.threads), self.thread)
            fast, slow = b.mod(element, inner), b.div(element, inner)
        return (fast, slow) if self.along_k else (slow, fast)

    def _each(self, body: Sequence[Stmt] | Stmt, i: Var) -> Stmt:
        """Return a loop over the elements of this thread."""
        if self.width * self.bk % self.threads:
            element = b.add(b.mul(i, self.threads), self.thread)
            inside = b.compare("<", element, self.width * self.bk)
            return b.loop(i, 0, self.count, b.when(inside, body), mark=WHOLE)
        return b.loop(i, 0, self.count, body, mark=WHOLE)

    def _inside(self) -> Expr:
        """Return whether the element at k and x exists."""
        extent = role_extent(self.ctx, self.group)
        known = b.value_of(extent)
        conditions = []
        if known is None or known % self.width:
            conditions.append(b.compare("<", self.x, extent))
        if self.ragged_k:
            conditions.append(b.compare("<", self.k, self.k_high))
        return b.all_of(*conditions)

    def _memory(self) -> Load:
        """Return the element at k and x in memory."""
        operand = self.side.operand
        at = b.add(
            place_of(self.ctx, operand, self.group, self.x),
            place_of(self.ctx, operand, self.k_group, self.k),
        )
        return b.load(self.source, at)

    # ---- copies

    def registers(self) -> Array:
        """Return the array that holds elements between memory and the tile."""
        return Array(self._local("next"), Scalar(self.side.stored), (self.count,))

    def load(self, k0: Expr) -> Stmt:
        """Return the loads of the tile at k0 into registers; zeros stand for what is outside."""
        i = b.i64(self.ctx.operands.local("i"))
        k, x = self._coordinates(i)
        stored = self.side.stored
        held = Elem(self._local("next"), (i,), Scalar(stored))
        inside, element = self._inside(), self._memory()
        # a half in memory is an integer to the target
        zero = b.cast(b.const(0, UINT16), Scalar(stored)) if stored.is_half else b.const(0, stored)
        value = b.select(inside, element, zero)
        body: list[Stmt] = [
            Let(self.k, b.add(k0, k)),
            Let(self.x, b.add(self.first, x)),
            b.assign(held, value),
        ]
        return self._each(body, i)

    def store(self, stage: Expr) -> Stmt:
        """Return the stores of what `load` brought into a tile."""
        ops = self.ctx.operands
        i = b.i64(ops.local("i"))
        k, x = self._coordinates(i)
        held = widen(Elem(self._local("next"), (i,), Scalar(self.side.stored)), self.side.stored)
        values = KernelValues(ops, {}, lambda r: held if r == self.side.read else None)
        value = values.value(self.side.element)
        return self._each(b.block(values.take(), b.assign(self.element(stage, k, x), value)), i)

    def copy(self, stage: Expr, k0: Expr) -> Stmt:
        """Return the asynchronous copies of the tile at k0; zeros stand for what is outside."""
        i = b.i64(self.ctx.operands.local("i"))
        k, x = self._coordinates(i)
        size = self.side.stored.size_bytes
        inside, element = self._inside(), self._memory()
        source = b.offset(element.pointer, b.select(inside, element.index, b.c64(0)))
        read = b.select(inside, b.const(size, INT32), b.const(0, INT32))
        body = b.block(
            Let(self.k, b.add(k0, k)),
            Let(self.x, b.add(self.first, x)),
            b.do(f"tc_copy_async{size}", self.address(stage, k, x), source, read),
        )
        return self._each(body, i)

    def fragment(self, size: int) -> Array:
        """Return the array that holds a thread's own part of one k."""
        return Array(self._local("own"), Scalar(self.side.dtype), (size,), align=16)

    def own(self, i: Expr) -> Elem:
        """Return an element of the fragment."""
        return Elem(self._local("own"), (i,), Scalar(self.side.dtype))

    def fetch(self, stage: Expr, k: Expr, lane: Expr, size: int) -> Stmt:
        """Return the loads of the fragment: vectors of 16 bytes, side by side among threads."""
        vector = vector_of(self.side, size)
        c = b.i64(self.ctx.operands.local("i"))
        at = b.add(b.mul(c, self.width * vector // size), b.mul(lane, vector))
        to = self.own(b.mul(c, vector))
        size_bytes = vector * self.side.dtype.size_bytes
        if vector == 1:
            copy: Stmt = b.assign(to, self.element(stage, k, at))
        else:
            pointer = Address(to, Pointer(self.side.dtype, space="local"))
            copy = b.do(f"tc_copy{size_bytes}", pointer, self.address(stage, k, at))
        return b.loop(c, 0, size // vector, copy, mark=WHOLE)


def vector_of(side: Side, size: int) -> int:
    """Return how many elements of a fragment are loaded at once."""
    vector = max(1, min(size, 16 // side.dtype.size_bytes))
    return vector if vector * side.dtype.size_bytes >= 4 else 1


def position(side: Side, width: int, size: int, lane: Expr, i: Expr) -> Expr:
    """Return where in the tile the i-th element of a thread's fragment lies."""
    vector = vector_of(side, size)
    if vector == size:
        return b.add(b.mul(lane, vector), i)
    at = b.add(b.mul(b.div(i, vector), width * vector // size), b.mul(lane, vector))
    return b.add(at, b.mod(i, vector)) if vector > 1 else at
