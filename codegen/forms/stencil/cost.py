"""What a point of a stencil costs."""

from __future__ import annotations

from tcdsl.codegen.forms.base import vexpr
from tcdsl.codegen.forms.base.context import Context
from tcdsl.codegen.forms.stencil.problem import Stencil
from tcdsl.codegen.program.expressions import walk_typed

_NODE_NS = 0.25  # of a vector, in the first level: loads, masks at borders and arithmetic


def point_ns(ctx: Context, s: Stencil) -> float:
    """Return the time of a point: of all its taps, and of what is made of their sum."""
    nodes = s.tap_count * sum(1 for x in s.windows for _ in vexpr.walk(x.value))
    nodes += 3 * s.tap_count * sum(x.is_arg for x in s.windows)
    nodes += sum(1 for x in s.later for _ in walk_typed(x.value))
    return round(_NODE_NS * (nodes + 1) / vexpr.lanes_of(s.bits, ctx.machine), 4)
