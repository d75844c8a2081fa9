"""A reduction whose rows are shared by several blocks: two kernels, partial results between them.

    block (row, part): fold of points [part * share, part * share + share) of the row -> parts
    team of a row:     fold of its parts, in their order; what follows from it

The parts of a row are neighbours where its threads are, else those of neighbouring rows.
"""

from __future__ import annotations

from collections.abc import Sequence

from tcdsl.codegen.forms.base.align import AlignedStatement
from tcdsl.codegen.forms.base.context import GpuContext
from tcdsl.codegen.forms.base.cuda.kernel import LoweredKernels, kernel
from tcdsl.codegen.forms.base.space import points
from tcdsl.codegen.forms.rows.cuda.fold import Accumulator, Team
from tcdsl.codegen.forms.rows.cuda.kernel import RowKernel, TeamWalk
from tcdsl.codegen.forms.rows.cuda.program import RowProgram
from tcdsl.codegen.loops import build as b
from tcdsl.codegen.loops.loopir import I64, Expr, Let, Load, Stmt, Unroll, Var
from tcdsl.codegen.machine.gpu import WARP

_THREADS = 128  # of a block that folds parts, where rows are many
_MOST_LANES = 256  # to the parts of a row, where they are few
_FEW_ROWS = 1024
_LOADS = 8  # that a thread has under way


def split_rows(
    ctx: GpuContext, program: RowProgram, walk: TeamWalk, parts: int, title: str
) -> LoweredKernels:
    """Return the two kernels; walk: of the first; parts: blocks to a row."""
    first = RowKernel(ctx, program, walk)
    team = _combining(ctx, program, walk.team, parts)
    second = RowKernel(ctx, program, TeamWalk(team, 1, _LOADS))
    folds = _fold_parts(first, parts)
    memory = [p for p, _ in folds]
    _combine(second, memory, parts)
    started = (
        kernel(
            ctx,
            "parts",
            first.body(),
            blocks=b.mul(first.blocks(), parts),
            threads=walk.team.threads,
            scratch=memory,
        ),
        kernel(
            ctx,
            "combine",
            second.body(),
            blocks=second.blocks(),
            threads=team.threads,
            scratch=memory,
        ),
    )
    shared = {f.name: f for f in (*first.functions, *second.functions)}
    scratch = tuple(b.mul(first.rows, parts, a.dtype.size_bytes) for _, a in folds)
    functions = (*shared.values(), *(f for f, _ in started))
    return LoweredKernels(title, functions, tuple(x for _, x in started), scratch)


def _combining(ctx: GpuContext, program: RowProgram, team: Team, parts: int) -> Team:
    """Return the threads of a block that folds parts."""
    if team.along == "columns":
        return Team("columns", min(parts, 16), WARP)
    if not program.space.kept:
        lanes = max(WARP, min(parts, _MOST_LANES))
        return Team("rows", lanes, 1)
    few = ctx.extent(points(program.space.kept)) <= _FEW_ROWS
    lanes = min(parts, _MOST_LANES if few else WARP)
    return Team("rows", lanes, max(1, _THREADS // lanes))


def _fold_parts(nest: RowKernel, parts: int) -> list[tuple[Var, Accumulator]]:
    """Build the kernel whose blocks fold parts of rows; return folds with memory for parts."""
    local = nest.operands.local
    block = b.cast(b.call("tc_block", type=b.INT), I64)
    part = nest.let(local("part"), b.mod(block, parts))
    nest.open(b.div(block, parts))
    length = b.div(nest.size(points(nest.space.sweeps[0])), nest.walk.width)
    share = b.ceil_div(length, parts)
    low, high = b.i64(local("low")), b.i64(local("high"))
    nest.row += [
        Let(low, b.mul(part, share)),
        Let(high, b.min64(b.add(low, share), length)),
    ]
    folds = nest.sweep(0, (low, high))
    nest.gather(folds)
    memory = [b.pointer(local(f"parts{i}"), a.dtype, restrict=True) for i, a in enumerate(folds)]
    stores: list[Stmt] = [
        b.assign(_place(nest, p, part, parts), a.var) for p, a in zip(memory, folds, strict=True)
    ]
    nest.row.append(b.when(nest.is_first(), stores))
    return list(zip(memory, folds, strict=True))


def _combine(nest: RowKernel, memory: Sequence[Var], parts: int) -> None:
    """Build the kernel that folds the parts of each row, and finishes it."""
    nest.open(b.cast(b.call("tc_block", type=b.INT), I64))
    steps = nest.space.aligned.sweeps[0].steps
    folds = [nest.accumulator(s) for s in steps]
    part = b.i64(nest.operands.local("part"))
    adds = [a.add(_place(nest, p, part, parts)) for a, p in zip(folds, memory, strict=True)]
    nest.row += [a.start() for a in folds]
    mark = Unroll(nest.walk.unroll)
    nest.row.append(b.loop(part, nest.lane, parts, adds, step=nest.team.lanes, mark=mark))
    nest.gather(folds)
    results: list[tuple[AlignedStatement, Expr | None]] = [
        (s, a.var) for s, a in zip(steps, folds, strict=True)
    ]
    results += [(s, None) for s in nest.space.aligned.after]
    nest.finish(results, last=True)


def _place(nest: RowKernel, memory: Var, part: Expr, parts: int) -> Load:
    row = nest.row_position
    if nest.team.along == "rows":
        return b.load(memory, b.add(b.mul(row, parts), part))
    return b.load(memory, b.add(b.mul(part, nest.rows), row))
