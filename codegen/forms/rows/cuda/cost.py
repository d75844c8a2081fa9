"""The predicted time of kernels over rows: traffic of all sweeps, arithmetic, folds across threads.

What does not depend on the knobs is worked out once a group: search asks for thousands of costs.
"""

from __future__ import annotations

from tcdsl.codegen.forms.base.access import ZERO
from tcdsl.codegen.forms.base.context import GpuContext
from tcdsl.codegen.forms.base.cuda.traffic import SECTOR, Touch, Workload, kernel_ns, operations
from tcdsl.codegen.forms.base.space import Access, accesses, points
from tcdsl.codegen.forms.rows.cuda.kernel import TeamWalk, held_points
from tcdsl.codegen.forms.rows.cuda.program import RowProgram
from tcdsl.codegen.forms.rows.cuda.vectors import copied, widths
from tcdsl.codegen.machine.gpu import WARP
from tcdsl.grammar.text.dataclass import dataclass

_SHARED_NS = 20.0  # of a barrier, or of a value read from shared memory by all that need it
_FOLD_OPS = 10  # instructions of a thread that folds values of others


@dataclass(frozen=True, slots=True)
class _Operand:
    """What a sweep touches.

    apart, across: bytes between neighbours along the row, and between rows. again: whether an
    earlier sweep has read it. copied: the widths at which pieces of it are copied.
    """

    size: int
    apart: int
    across: int
    requests: float
    footprint: float
    again: bool
    copied: frozenset[int]

    def touch(self, walk: TeamWalk, *, by_rows: bool) -> Touch:
        """Return how a kernel touches it; by_rows: threads of a warp are on rows side by side."""
        distance, size, requests = self.across if by_rows else self.apart, self.size, self.requests
        if walk.width in self.copied:
            requests, size, distance = (
                requests / walk.width,
                size * walk.width,
                distance * walk.width,
            )
        touch = Touch(requests, size, distance, 0.0 if self.again else self.footprint)
        # a warp reads so many neighbours, then others elsewhere: parts of sectors, where few
        neighbours = min(WARP, walk.team.rows if by_rows else walk.team.lanes)
        span = abs(distance) * (neighbours - 1) + size
        sectors = WARP // neighbours * -(-span // SECTOR)
        more = max(1.0, sectors / touch.sectors())
        return Touch(requests * more, size, distance, touch.footprint)


@dataclass(frozen=True, slots=True)
class CostFacts:
    """What of a row program costs, whatever the knobs are: rows, points of one, work at a point."""

    rows: int
    length: int
    operations: float
    operands: tuple[_Operand, ...]


def facts(ctx: GpuContext, program: RowProgram) -> CostFacts:
    """Return the facts of a group at representative sizes."""
    return ctx.once("row facts", lambda: _facts(ctx, program))


def cost_ns(ctx: GpuContext, program: RowProgram, walk: TeamWalk, parts: int = 1) -> float:
    """Return the predicted time of the kernel; parts: blocks that share a row."""
    known, team, sweeps = facts(ctx, program), walk.team, len(program.space.sweeps)
    held = all(held_points(program, walk, n) for n in range(sweeps - 1))
    by_rows = bool(program.space.kept) and (team.along == "columns" or team.lanes == 1)
    touches = [x.touch(walk, by_rows=by_rows) for x in known.operands if not (x.again and held)]
    count, threads = (
        float(known.rows) * known.length,
        float(max(1, known.rows)) * team.lanes * parts,
    )
    under_way = walk.unroll * walk.width
    turns = sweeps * -(-known.length // (team.lanes * parts)) / under_way
    folding = _FOLD_OPS * sweeps * threads / max(1.0, count) if team.lanes > 1 else 0.0
    in_flight = 4.0 * max(under_way, held_points(program, walk, 0) or 0)
    work = Workload(count, known.operations + folding, threads, turns, in_flight)
    waves = max(1.0, threads / (ctx.machine.sms * ctx.machine.threads_sm))
    serial = team.lanes if team.along == "columns" else 2 if team.meets_at_barriers else 0
    return kernel_ns(ctx.machine, work, touches) + sweeps * serial * _SHARED_NS * waves


def _facts(ctx: GpuContext, program: RowProgram) -> CostFacts:
    space = program.space
    operands: list[_Operand] = []
    each = 0.0
    for n, sweep in enumerate(space.aligned.sweeps):
        each += sum(operations(e) + 1 for e in program.sweep_values(n))
        wide = {w: copied(ctx, program, n, w) for w in widths(ctx, program)}
        for access in dict.fromkeys(a for s in sweep.steps for a in accesses(s)):
            if access in space.linear:
                found = frozenset(w for w, some in wide.items() if access in some)
                operands.append(_operand(ctx, program, n, access, found))
    length = max((ctx.extent(points(w)) for w in space.sweeps), default=0)
    return CostFacts(ctx.extent(points(space.kept)), length, each, tuple(operands))


def _operand(
    ctx: GpuContext, program: RowProgram, n: int, access: Access, found: frozenset[int]
) -> _Operand:
    space, loops = program.space, program.space.sweeps[n]
    linear, name = space.linear[access], access[0]
    size = ctx.operands.memory_dtype(name).size_bytes
    elements = 1
    for extent in ctx.operands.buffer(name).shape:
        elements *= max(0, ctx.extent(extent))
    walked = tuple(x for x in (*space.kept, *loops) if linear.step(x.name) != ZERO)
    return _Operand(
        size=size,
        apart=linear.step(loops[-1].name).evaluate(space.sizes) * size,
        across=linear.step(space.kept[-1].name).evaluate(space.sizes) * size if space.kept else 0,
        requests=float(max(0, ctx.extent(points((*space.kept, *loops))))),
        footprint=float(size * min(elements, max(0, ctx.extent(points(walked))))),
        again=n > 0 and name not in space.written,
        copied=found,
    )
