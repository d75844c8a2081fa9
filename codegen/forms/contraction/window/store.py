"""From the sums of a register tile to the output: turned around, through the epilogue.

A tile lies in memory as vectors of columns, one for each pixel. Where the output has its unit
stride along the pixels, squares are turned around in registers, so that the epilogue and the store
see vectors of pixels; where it has it along the columns, they are taken as they are.
"""

from __future__ import annotations

from tcdsl.codegen.forms.contraction.finish import Finish
from tcdsl.codegen.forms.contraction.register_tile import (
    RegisterTile,
    accumulator,
    intrinsic,
    load_vector,
    store_vector,
    tail_mask,
)
from tcdsl.codegen.loops.build import assign, block, c64, i64, loop, mul, offset, pointer
from tcdsl.codegen.loops.loopir import Array, Assign, Elem, Eval, Expr, Function, Stmt, Unroll, Var
from tcdsl.grammar.text.dataclass import dataclass
from tcdsl.grammar.types.dtypes import DType


@dataclass(frozen=True, slots=True)
class TileStore:
    """What a store is made for.

    rows: the most vectors there are at once; turned, a square of them. step: the distance of a
    vector's elements in the output, None where it is a parameter.
    """

    dtype: DType
    lanes: int
    rows: int
    is_turned: bool
    step: int | None
    finish: Finish

    @property
    def params(self) -> tuple[Var, ...]:
        """Sums, place, its strides, the number of vectors and of elements in each."""
        return (
            pointer("sums", self.dtype, const=True, restrict=True),
            pointer("c", self.dtype, restrict=True),
            i64("c_row"),
            *((i64("c_step"),) if self.step is None else ()),
            i64("lines"),
            i64("width"),
            *self.finish.params,
        )

    def function(self, name: str) -> Function:
        """Return the function that stores a block of vectors: `lines` of them."""
        tile = RegisterTile(self.rows, 1, self.lanes, self.dtype)
        r = i64("r")
        value = accumulator(tile, r, c64(0))
        to = offset(pointer("c", self.dtype, restrict=True), mul(r, i64("c_row")))
        line: list[Stmt] = []
        if self.finish.resumes:
            line.append(Assign(value, load_vector(tile, to, masked=True), "+="))
        if not self.finish.is_plain:
            line += self.finish.vector(tile, r, c64(0), masked=True)
        if self.step == 1:
            line.append(store_vector(tile, to, value, masked=True))
        elif self.step == 2:
            line.append(Eval(intrinsic("tc_store2", tile.vector, to, i64("width"), value)))
        else:
            step = i64("c_step") if self.step is None else c64(self.step)
            line.append(Eval(intrinsic("tc_storex", tile.vector, to, step, i64("width"), value)))
        body = block(
            tail_mask(tile, i64("width")),
            Array("acc", tile.vector, (self.rows, 1)),
            self._turn(tile) if self.is_turned else self._copy(tile),
            loop(r, 0, i64("lines"), line, mark=Unroll(1)),
        )
        return Function(name, self.params, body, "helper")

    def _fetch(self, tile: RegisterTile, i: Expr) -> Expr:
        sums = pointer("sums", self.dtype, const=True)
        return load_vector(tile, offset(sums, mul(i, self.lanes)), masked=False)

    def _copy(self, tile: RegisterTile) -> Stmt:
        """Return the way of the sums into the array that the epilogue works on."""
        i = i64("i")
        return loop(i, 0, i64("lines"), assign(accumulator(tile, i, c64(0)), self._fetch(tile, i)))

    def _turn(self, tile: RegisterTile) -> Stmt:
        """Return the same, turned around."""
        i = i64("i")
        square = Elem("square", (i,), tile.vector)
        whole = Eval(intrinsic("tc_transpose", tile.vector, Var("square", tile.vector)))
        down = assign(accumulator(tile, i, c64(0)), square)
        return block(
            Array("square", tile.vector, (self.lanes,)),
            loop(i, 0, self.lanes, assign(square, self._fetch(tile, i)), mark=Unroll()),
            whole,
            loop(i, 0, self.lanes, down, mark=Unroll()),
        )
