"""Groups that do nothing but copy points as they are, which may have any strides on both sides."""

from __future__ import annotations

from tcdsl.codegen.forms.base.access import ONE, ZERO
from tcdsl.codegen.forms.base.context import Context
from tcdsl.codegen.forms.base.space import Access, IterationSpace
from tcdsl.grammar.types import typed
from tcdsl.grammar.types.dtypes import FLOAT32


def copied(ctx: Context, space: IterationSpace) -> tuple[Access, Access] | None:
    """From where to where points are copied as they are, where that is all that is done."""
    match [s.statement for w in space.aligned.sweeps for s in w.steps]:
        case [s] if isinstance(value := _stored(s.value), typed.Read) and not s.resumes:
            dtypes = {ctx.operands.memory_dtype(a[0]) for a in space.linear}
            inner = space.sweeps[0][-1].name
            steps = [x.step(inner) for x in space.linear.values()]
            if len(steps) == 2 and len(dtypes) == 1 and not {ZERO, ONE} & {*steps}:
                return (value.tensor, value.subs), (s.target, s.subs)
    return None


def _stored(value: typed.Expr) -> typed.Expr:
    """Return what is stored as it is: halves are those that they were made wider from."""
    match value:
        case typed.Cast(operand=typed.Cast(operand=read, dtype=wide), dtype=kind):
            return read if kind.is_half and wide == FLOAT32 else value
    return value
