"""Which accesses of a pointwise group can be copies of several elements, and when they may be.

A thread handles `width` neighbours along the innermost loop. An operand that walks it in unit
steps is copied in one piece of 4, 8 or 16 bytes, if its rows keep the alignment of the first.
What of this is not known when the kernel is made, the addresses above all (an array may begin at
any element of another one), is one condition at run time, the same for the whole grid.
"""

from __future__ import annotations

from collections.abc import Iterator

from tcdsl.codegen.forms.base.access import ONE, DimLoop
from tcdsl.codegen.forms.base.context import GpuContext
from tcdsl.codegen.forms.base.guarded import inside
from tcdsl.codegen.forms.base.space import Access, IterationSpace, accesses
from tcdsl.codegen.forms.rows.cuda.pieces import COPIES, address_of, are_multiples, is_multiple
from tcdsl.codegen.loops import build as b
from tcdsl.codegen.loops.loopir import Expr
from tcdsl.codegen.program.expressions import reads_of
from tcdsl.grammar.proofs.sizes import Size
from tcdsl.grammar.types import typed

WIDTHS = (1, 2, 4, 8, 16)


def inner_loop(space: IterationSpace) -> DimLoop:
    """Return the loop along which vectors lie."""
    return space.sweeps[0][-1]


def widths(ctx: GpuContext, space: IterationSpace) -> tuple[int, ...]:
    """Return the numbers of elements that a thread may store at once, 1 among them."""
    return tuple(w for w in WIDTHS if w == 1 or _is_legal(ctx, space, w))


def best_width(ctx: GpuContext, space: IterationSpace) -> int:
    """Return the width at which most accesses are copies, the largest of them."""
    inner = inner_loop(space).name
    if any(linear.step(inner) not in (Size(), ONE) for linear in space.linear.values()):
        return 1  # neighbours that are apart in memory are best read by neighbouring threads
    return max(widths(ctx, space), key=lambda w: (len(copied(ctx, space, w)), w))


def copied(ctx: GpuContext, space: IterationSpace, width: int) -> tuple[Access, ...]:
    """Return the accesses that are copies of width elements, in the order of the text."""
    if width == 1:
        return ()
    found: dict[Access, None] = {}
    always = always_touched(ctx, space)
    for step in space.aligned.steps:
        for access in accesses(step):
            if access in space.linear and access in always and _fits(ctx, space, access, width):
                found[access] = None
    return tuple(found)


def aligned(ctx: GpuContext, space: IterationSpace, width: int) -> tuple[Expr, ...]:
    """Return the conditions under which all copies are aligned; temporaries always are."""
    if width == 1:
        return ()
    addresses: dict[int, dict[Expr, None]] = {}
    multiples: dict[Expr, None] = {}
    inner = inner_loop(space)
    if space.kept:
        multiples[ctx.operands.size(inner.extent)] = None
    for access in copied(ctx, space, width):
        name, linear = access[0], space.linear[access]
        if ctx.operands.position(name) is not None:
            size = ctx.operands.memory_dtype(name).size_bytes * width
            addresses.setdefault(size, {})[address_of(ctx.operands, name)] = None
        for step in (*(s for n, s in linear.terms if n != inner.name), linear.const):
            if not is_multiple(step, width):
                multiples[ctx.operands.size(step)] = None
    conditions = are_multiples(addresses)
    conditions += [b.compare("==", b.mod(x, width), 0) for x in multiples]
    return tuple(conditions)


def steady(e: typed.Expr) -> Iterator[typed.Read]:
    """Yield the reads that are evaluated whatever the values are."""
    match e:
        case typed.Read():
            yield e
        case typed.Select(cond=c):
            yield from steady(c)
        case typed.Binary("&&" | "||", lhs, _):
            yield from steady(lhs)
        case typed.Unary(operand=a) | typed.Cast(operand=a):
            yield from steady(a)
        case typed.Binary(_, x, y):
            yield from steady(x)
            yield from steady(y)
        case typed.Builtin(args=args):
            for x in args:
                yield from steady(x)
        case _:
            pass


def always_touched(ctx: GpuContext, space: IterationSpace) -> frozenset[Access]:
    """Return what may be touched at every point: not the reads that only a guard keeps inside."""
    return frozenset(_always(ctx, space))


def _always(ctx: GpuContext, space: IterationSpace) -> Iterator[Access]:
    dims = {d.name: d for d in space.aligned.dims}
    for step in space.aligned.steps:
        s = step.statement
        yield s.target, s.subs
        if s.base is not None:
            yield s.base, s.subs
        for r in steady(s.value):
            yield r.tensor, r.subs
        for r in reads_of(s.value):
            if r.subs and inside(ctx, r, dims):
                yield r.tensor, r.subs


def _is_legal(ctx: GpuContext, space: IterationSpace, width: int) -> bool:
    """Whether all that is stored is copied, so that threads do not share a piece of memory."""
    extent = inner_loop(space).extent.constant
    if extent is not None and (extent < width or (space.kept and extent % width)):
        return False
    stored = {a for a in space.linear if a[0] in space.written}
    return stored <= set(copied(ctx, space, width))


def _fits(ctx: GpuContext, space: IterationSpace, access: Access, width: int) -> bool:
    """Whether an access is in unit steps and no distance is known to break its alignment."""
    linear, inner = space.linear[access], inner_loop(space).name
    if ctx.operands.memory_dtype(access[0]).size_bytes * width not in COPIES:
        return False
    if linear.step(inner) != ONE:
        return False
    others = (*(s for n, s in linear.terms if n != inner), linear.const)
    return all(s.constant is None or s.constant % width == 0 for s in others)
