"""What happens to a finished sum: scale factors, the old value, the statements after it, stores.

Everything is computed at the point's own indices, by its own thread, so any pointwise statement
fits. Sums of parts (split-K) get the same in a kernel of their own, which adds the parts in order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tcdsl.codegen.forms.base.context import GpuContext
from tcdsl.codegen.forms.base.cuda.kernel import KernelValues, LoweredKernels, kernel
from tcdsl.codegen.forms.base.scalars import combine, identity, narrow, widen
from tcdsl.codegen.forms.contraction.cuda.address import role_extent
from tcdsl.codegen.forms.contraction.cuda.problem import Contraction, Fused
from tcdsl.codegen.loops import build as b
from tcdsl.codegen.loops.loopir import Expr, Function, If, Launch, Let, Load, Stmt, Var
from tcdsl.codegen.loops.names import safe_name
from tcdsl.grammar.types import typed

_FINISH_THREADS = 256
_TOTAL = "sum"  # a name no tensor has: the finished sum


def role_var(ctx: GpuContext, group: Fused, otherwise: str) -> Var:
    """Return the variable of a fused index, named after what it fuses; it counts from 0."""
    if len(group) == 1:
        name = group[0].name
        is_itself = _low(ctx, name) == b.c64(0)
        return b.i64(safe_name(name) if is_itself else ctx.operands.local(f"{name}_place"))
    return b.i64(ctx.operands.local("_".join(i.name for i in group) or otherwise))


def indices_at(ctx: GpuContext, group: Fused, fused: Expr) -> tuple[list[Stmt], dict[str, Expr]]:
    """Return the value of each index of a fused one, after the declarations this needs."""
    if len(group) == 1:
        return [], {group[0].name: b.add(fused, _low(ctx, group[0].name))}
    lets: list[Stmt] = []
    found: dict[str, Expr] = {}
    places = b.unravel(fused, [ctx.operands.size(i.extent) for i in group])
    for index, at in zip(group, places, strict=True):
        v = b.i64(safe_name(index.name))
        lets.append(Let(v, b.add(at, _low(ctx, index.name))))
        found[index.name] = v
    return lets, found


def _low(ctx: GpuContext, name: str) -> Expr:
    ranges = ctx.group.statements[0].ranges
    return ctx.operands.size(next(r.low for r in ranges if r.name == name))


def finish(ctx: GpuContext, x: Contraction, total: Expr, at: Mapping[str, Expr]) -> Stmt:
    """Return the way of a finished sum to memory; at are the indices of its point."""
    ops, s = ctx.operands, x.statement
    known: dict[str, Expr] = {_TOTAL: total}
    stmts: list[Stmt] = []

    def values_of(names: Mapping[str, Expr]) -> KernelValues:
        return KernelValues(ops, names, lambda r: known.get(r.tensor), prefix=f"p{len(stmts)}")

    values = values_of(at)
    value: typed.Expr = typed.Read(_TOTAL, (), s.value.dtype)
    for factor in x.scale:
        value = typed.Binary("*", value, factor, s.value.dtype)
    out = values.value(value)
    place = values.place(s.target, s.subs, s.subs_checked)
    assert isinstance(place, Load), "an element of a tensor"
    if s.resumes:
        out = combine(s.op, widen(place, ops.memory_dtype(s.target)), out)
    stmts += values.take()
    homes = [ctx.program.buffer(t.target).home for t in ctx.group.statements]
    for position, (t, names) in enumerate([(s, ()), *x.later]):
        if position:
            values = values_of({mine: at[there] for mine, there in names})
            out = values.value(t.value)
            place = values.place(t.target, t.subs, t.subs_checked)
            assert isinstance(place, Load), "an element of a tensor"
            if t.base is not None and t.op != "=":
                old = values.read(typed.Read(t.base, t.subs, t.value.dtype))
                out = combine(t.op, old, out)
            stmts += values.take()
        stored = ops.memory_dtype(t.target)
        is_last = position == len(x.later)
        if not is_last or stored.is_half:
            v = b.var(ops.local(f"value{position}" if position else "total"), stored.computed)
            stmts.append(Let(v, out))
            out = v
        # of versions in one memory the last one is all that anybody can read
        if t.target not in ctx.group.local and homes[position] not in homes[position + 1 :]:
            stmts.append(b.assign(place, narrow(out, stored)))
        rounds = stored.is_half and not is_last
        known[t.target] = widen(narrow(out, stored), stored) if rounds else out
    return b.block(stmts)


def in_parts(
    ctx: GpuContext,
    x: Contraction,
    splits: int,
    title: str,
    main: Callable[[Var | None], tuple[Function, Launch]],
) -> LoweredKernels:
    """Return the kernels of a contraction; main makes the one that computes parts of sums."""
    ops = ctx.operands
    points = b.mul(*(role_extent(ctx, g) for g in (x.outer, x.m, x.n)))
    scratch: tuple[Expr, ...] = ()
    if splits == 1:
        parts = [main(None)]
    else:
        title = f"{title} in {splits} parts"
        partial = b.pointer(ops.local("partial"), x.dtype, restrict=True)
        parts = [main(partial), finish_kernel(ctx, x, partial, splits)]
        scratch = (b.mul(points, splits * x.dtype.size_bytes),)
    if not x.is_bare:
        title = f"{title} + epilogue"
    functions, launches = zip(*parts, strict=True)
    return LoweredKernels(title, functions, launches, scratch)


def partial_place(ctx: GpuContext, x: Contraction, partial: Var, part: Expr, *at: Expr) -> Load:
    """Return where a part of the sum of a point waits; at is its batch, m and n."""
    batch, m, n = at
    outer, ms, ns, _ = (role_extent(ctx, g) for g in x.roles())
    row = b.add(b.mul(b.add(b.mul(part, outer), batch), ms), m)
    return b.load(partial, b.add(b.mul(row, ns), n))


def finish_kernel(
    ctx: GpuContext, x: Contraction, partial: Var, splits: int
) -> tuple[Function, Launch]:
    """Return the kernel that adds the parts of every sum in order, and finishes it."""
    ops = ctx.operands
    outer, ms, ns, _ = (role_extent(ctx, g) for g in x.roles())
    point, count = b.i64(ops.local("point")), b.mul(outer, ms, ns)
    batch, m, n = (
        role_var(ctx, g, name) for g, name in ((x.outer, "batch"), (x.m, "m"), (x.n, "n"))
    )
    lets: list[Stmt] = [
        Let(n, b.mod(point, ns)),
        Let(m, b.mod(b.div(point, ns), ms)),
        Let(batch, b.div(point, b.mul(ms, ns))),
    ]
    at: dict[str, Expr] = {}
    for group, v in ((x.outer, batch), (x.m, m), (x.n, n)):
        decode, found = indices_at(ctx, group, v)
        lets += decode
        at |= found
    acc, part = b.var(ops.local("acc"), x.dtype), b.i64(ops.local("part"))
    one = partial_place(ctx, x, partial, part, batch, m, n)
    body = b.block(
        lets,
        Let(acc, identity(x.statement.op, x.dtype), mutable=True),
        b.loop(part, 0, splits, b.assign(acc, combine(x.statement.op, acc, one))),
        finish(ctx, x, acc, at),
    )
    nest = b.block(
        Let(point, b.call("tc_point", type=point.type)),
        If(b.compare("<", point, count), body),
    )
    blocks = b.ceil_div(count, _FINISH_THREADS)
    return kernel(ctx, "finish", nest, blocks=blocks, threads=_FINISH_THREADS, scratch=[partial])
