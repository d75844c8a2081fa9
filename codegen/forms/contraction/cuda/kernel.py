"""The kernel of a contraction: tiles of both factors in shared memory, sums in registers.

    block: a bm x bn tile of the output;  thread: um x un sums of it
    for k0: load the next tiles into registers
            for k in the tile: fragments from shared memory, um x un products
            store the next tiles to the other stage; barrier
    finish each sum

Zeros stand for elements outside the factors, so that only stores are masked; where zeros would
change the result, steps beyond the last are left out.
"""

from __future__ import annotations

from tcdsl.codegen.forms.base.context import GpuContext
from tcdsl.codegen.forms.base.cuda.kernel import KernelValues, kernel
from tcdsl.codegen.forms.base.scalars import combine, identity
from tcdsl.codegen.forms.contraction.cuda.address import role_extent
from tcdsl.codegen.forms.contraction.cuda.block import (
    BlockPlace,
    Sums,
    block_count,
    pipeline,
    place,
    source,
    stores,
)
from tcdsl.codegen.forms.contraction.cuda.problem import A, B, Contraction
from tcdsl.codegen.forms.contraction.cuda.schedule import ThreadTiling
from tcdsl.codegen.forms.contraction.cuda.tile import ElementTile, position
from tcdsl.codegen.forms.contraction.cuda.tiling import WHOLE
from tcdsl.codegen.loops import build as b
from tcdsl.codegen.loops.loopir import (
    Array,
    Comment,
    Elem,
    Expr,
    Function,
    Launch,
    Let,
    Scalar,
    Stmt,
    Var,
)
from tcdsl.codegen.machine.gpu import WARP
from tcdsl.grammar.text.dataclass import dataclass


def main_kernel(
    ctx: GpuContext, x: Contraction, t: ThreadTiling, min_blocks: int, partial: Var | None
) -> tuple[Function, Launch]:
    """Return the kernel; it leaves parts of sums in partial, if that is given."""
    at = place(ctx, x, t)
    row, column, standing = _standing(ctx, t, at)
    depth = b.value_of(role_extent(ctx, x.k))
    ragged_k = depth is None or bool(depth % t.bk)
    left, right = (
        ElementTile.of(ctx, x, t, at, is_a=is_a, padded=is_a, ragged_k=ragged_k)
        for is_a in (True, False)
    )
    acc = ctx.operands.local("acc")
    run = _Kernel(ctx, x, t, at, left, right, row, column, acc)
    sum_up = _through_registers if t.stages == 2 else _by_copies
    body = b.block(
        at.declarations,
        standing,
        source(ctx, x, at, x.a, "a"),
        source(ctx, x, at, x.b, "b"),
        left.declaration(),
        right.declaration(),
        _zeroed(ctx, x, t, acc),
        left.fragment(t.um),
        right.fragment(t.un),
        sum_up(run),
        stores(ctx, x, t, at, run.sums(), partial),
    )
    return kernel(
        ctx,
        "contract",
        body,
        blocks=block_count(ctx, x, t),
        threads=t.threads,
        min_blocks=min_blocks,
        scratch=[] if partial is None else [partial],
    )


@dataclass(frozen=True, slots=True)
class _Kernel:
    """What the parts of one kernel share; row and column are the thread's among the others."""

    ctx: GpuContext
    x: Contraction
    t: ThreadTiling
    at: BlockPlace
    left: ElementTile
    right: ElementTile
    row: Var
    column: Var
    acc: str

    def sums(self) -> Sums:
        """Return where the sums of a thread lie."""
        x, t = self.x, self.t
        return Sums(
            t.um,
            t.un,
            lambda i: position(x.a, t.bm, t.um, self.row, i),
            lambda j: position(x.b, t.bn, t.un, self.column, j),
            lambda i, j: Elem(self.acc, (i, j), Scalar(x.dtype)),
        )

    def local(self, name: str) -> Var:
        """Return a variable that is none of the program's."""
        return b.i64(self.ctx.operands.local(name))


def _standing(ctx: GpuContext, t: ThreadTiling, at: BlockPlace) -> tuple[Var, Var, list[Stmt]]:
    """Declare the row and column of a thread in its block; a warp is a block of 4 x 8 threads.

    That takes the fewest different fragments: those of one row or column are read once.
    """
    row, column = (b.i64(ctx.operands.local(name)) for name in ("row", "column"))
    along_m, along_n = t.bm // t.um, t.bn // t.un
    fits = (n for n in (8, 4, 2, 1, 16, 32) if along_n % n == 0 and along_m % (WARP // n) == 0)
    lanes = next(fits, 0)
    if not lanes:
        stands = b.div(at.thread, along_n), b.mod(at.thread, along_n)
    else:
        lane, warp = b.mod(at.thread, WARP), b.div(at.thread, WARP)
        across = along_n // lanes
        stands = (
            b.add(b.mul(b.div(warp, across), WARP // lanes), b.div(lane, lanes)),
            b.add(b.mul(b.mod(warp, across), lanes), b.mod(lane, lanes)),
        )
    return row, column, [Let(row, stands[0]), Let(column, stands[1])]


# ---- the sum


def _zeroed(ctx: GpuContext, x: Contraction, t: ThreadTiling, acc: str) -> list[Stmt]:
    """Declare the sums of a thread, each at the identity of the operator."""
    first = identity(x.statement.op, x.dtype)
    array = Array(acc, Scalar(x.dtype), (t.um, t.un))
    i, j = b.i64(ctx.operands.local("i")), b.i64(ctx.operands.local("j"))
    place = Elem(acc, (i, j), Scalar(x.dtype))
    one = b.loop(j, 0, t.un, b.assign(place, first), mark=WHOLE)
    return [array, b.loop(i, 0, t.um, one, mark=WHOLE)]


def _through_registers(run: _Kernel) -> list[Stmt]:
    """Return the loop over tiles, of which the next is in registers while one is used."""
    t, at = run.t, run.at
    k0, stage = run.local("k0"), run.local("stage")
    following = b.add(k0, t.bk)
    is_more = b.compare("<", following, at.k_high)
    is_any = b.compare("<", at.k_low, at.k_high)
    first, other = b.c64(0), b.sub(1, stage)

    def load(start: Expr) -> list[Stmt]:
        return [run.left.load(start), run.right.load(start)]

    def store(to: Expr) -> list[Stmt]:
        return [run.left.store(to), run.right.store(to)]

    return [
        run.left.registers(),
        run.right.registers(),
        b.when(is_any, load(at.k_low), store(first)),
        b.do("tc_barrier"),
        b.loop(
            k0,
            at.k_low,
            at.k_high,
            Let(stage, b.mod(b.div(b.sub(k0, at.k_low), t.bk), 2)),
            b.when(is_more, Comment("the next tiles come while these are used"), load(following)),
            _products(run, stage, k0),
            b.when(is_more, store(other)),
            b.do("tc_barrier"),
            step=t.bk,
        ),
    ]


def _by_copies(run: _Kernel) -> list[Stmt]:
    """Return the loop over tiles that asynchronous copies fill."""

    def copies(to: Expr, start: Expr) -> list[Stmt]:
        return [run.left.copy(to, start), run.right.copy(to, start)]

    return pipeline(run.ctx, run.t, run.at, copies, lambda stage, k0: _products(run, stage, k0))


def _products(run: _Kernel, stage: Expr, k0: Expr) -> Stmt:
    """Return the steps of one tile."""
    x, t = run.x, run.t
    k, i, j = (run.local(name) for name in ("step", "i", "j"))
    sides = {A: run.left.own(i), B: run.right.own(j)}
    values = KernelValues(run.ctx.operands, {}, lambda r: sides.get(r.tensor))
    total = Elem(run.acc, (i, j), Scalar(x.dtype))
    value = values.value(x.value)
    update = b.block(values.take(), b.assign(total, combine(x.statement.op, total, value)))
    body = b.block(
        run.left.fetch(stage, k, run.row, t.um),
        run.right.fetch(stage, k, run.column, t.un),
        b.loop(i, 0, t.um, b.loop(j, 0, t.un, update, mark=WHOLE), mark=WHOLE),
    )
    if not x.is_product and run.left.ragged_k:
        body = b.when(b.compare("<", b.add(k0, k), run.at.k_high), body)
    return b.loop(k, 0, t.bk, body, mark=WHOLE)
