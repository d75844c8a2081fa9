"""What a point of a stencil costs."""

from __future__ import annotations

from tcdsl.codegen.forms.base import vexpr
from tcdsl.codegen.forms.base.context import Context
from tcdsl.codegen.forms.stencil.problem import Stencil
from tcdsl.codegen.machine.wall import FAR_BYTES_PER_NS
from tcdsl.codegen.program.expressions import reads_of, walk_typed

_NODE_NS = 0.25  # of a vector, in the first level: loads, masks at borders and arithmetic


def point_ns(ctx: Context, s: Stencil) -> float:
    """Return the time of a point: of all its taps, and of what is made of their sum."""
    nodes = s.tap_count * sum(1 for x in s.windows for _ in vexpr.walk(x.value))
    nodes += 3 * s.tap_count * sum(x.is_arg for x in s.windows)
    nodes += sum(1 for x in s.later for _ in walk_typed(x.value))
    return round(_NODE_NS * (nodes + 1) / vexpr.lanes_of(s.bits, ctx.machine), 4)


def beyond(ctx: Context, s: Stencil) -> tuple[int, float]:
    """Return how many points lie in a core's own cache, and the time of one of more."""
    read = {r.tensor for x in s.windows for r in reads_of(x.value) if r.subs}
    sizes = [ctx.operands.memory_dtype(name).size_bytes for name in (*read, s.statement.target)]
    most = max(sizes[:-1], default=0) + sizes[-1]
    return ctx.machine.l2_bytes // most, max(point_ns(ctx, s), most / FAR_BYTES_PER_NS)
