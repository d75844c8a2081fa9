"""What a contraction is on a GPU: `O(m, n) op= f(A(m, k), B(k, n))`, and what follows it.

Every index has one of four roles, as on the CPU: K in factors only, M in the output and the factor
`a`, N in the output and the factor `b`, outer in both or neither. Threads compute their addresses,
so a role has all its indices, however strange its strides are: an address is
`f(outer) + g(m) + h(k)`, where each part takes its fused index apart. A strided convolution and a
product of two tensors of six indices are the same kernel as a product of matrices.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from tcdsl.codegen.forms.base.context import GpuContext
from tcdsl.codegen.forms.contraction.epilogue import Unfused, renaming
from tcdsl.codegen.forms.contraction.problem import ONE, Index, Operand, Reach, reach_of
from tcdsl.codegen.forms.contraction.roles import factors_of, is_one_to_one, nearest, operand_of
from tcdsl.codegen.program.expressions import (
    indices_of,
    map_operands,
    reads_of,
    substitute_indices,
    walk_typed,
)
from tcdsl.codegen.program.program import Statement
from tcdsl.grammar.text.dataclass import dataclass
from tcdsl.grammar.types import typed
from tcdsl.grammar.types.dtypes import BOOL, DType

Fused = tuple[Index, ...]


@dataclass(frozen=True, slots=True)
class Side:
    """One factor: its access, and what a tile of it holds.

    name is what stands for it in `Contraction.value`. element: the value in the tile, over the
    one read; is_plain where that is the element itself, maybe converted, so that zero in memory
    is zero in the tile.
    """

    name: str
    read: typed.Read
    operand: Operand
    element: typed.Expr
    stored: DType  # of memory

    @property
    def dtype(self) -> DType:
        """Type of the tile."""
        return self.element.dtype.computed

    @property
    def is_plain(self) -> bool:
        """Whether zero in memory is zero in the tile."""
        e = self.element
        while isinstance(e, typed.Cast):
            e = e.operand
        return e == self.read

    @property
    def is_copied(self) -> bool:
        """Whether the tile holds what memory does, bit for bit."""
        return self.element == self.read and not self.stored.is_half


@dataclass(frozen=True, slots=True)
class Contraction:
    """A group as a contraction by roles.

    value: of two elements, as reads of `a` and `b` by name. scale: factors without a reduction
    index, applied to the finished sum. later: the pointwise statements on its result, each with
    the contraction's index for every index of it.
    """

    statement: Statement
    a: Side
    b: Side
    c: Operand
    outer: Fused
    m: Fused
    n: Fused
    k: Fused
    value: typed.Expr
    scale: tuple[typed.Expr, ...]
    later: tuple[tuple[Statement, tuple[tuple[str, str], ...]], ...]

    @property
    def dtype(self) -> DType:
        """Type of the sum."""
        return self.statement.value.dtype.computed

    @property
    def is_product(self) -> bool:
        """Whether it is a sum of products, so that zeros beyond the last k change nothing."""
        operands = {e.tensor for e in reads_of(self.value)}
        product = isinstance(self.value, typed.Binary) and self.value.op == "*"
        plain = product and operands == {A, B} and len(list(walk_typed(self.value))) == 3
        return plain and self.statement.op in ("+=", "+=!") and self.a.is_plain and self.b.is_plain

    @property
    def is_bare(self) -> bool:
        """Whether sums are stored as they are."""
        return not (self.scale or self.later or self.statement.resumes)

    def roles(self) -> tuple[Fused, Fused, Fused, Fused]:
        """Return outer, M, N and K."""
        return self.outer, self.m, self.n, self.k


A, B = "a side", "b side"  # names no tensor has


def contraction(ctx: GpuContext) -> Contraction | None:
    """Return the group as a contraction, or None if it is none."""

    def make() -> Contraction | None:
        try:
            return contraction_of(ctx)
        except Unfused:
            return None

    return ctx.once("contraction", make)


def required(ctx: GpuContext) -> Contraction:
    """Return the group as the contraction that it was found to be."""
    x = contraction(ctx)
    assert x is not None, "the group is a contraction"
    return x


def contraction_of(ctx: GpuContext) -> Contraction:
    """Return the group as a contraction.

    Raises
    ------
    Unfused
        With the reason why it is none.
    """
    first, *later = ctx.group.statements
    reach = reach_of(ctx)
    if first.op.rstrip("!") not in ("+=", "*=", "min=", "max=") or not first.reductions:
        raise Unfused("it is no reduction by a plain operator")
    if not first.is_whole or any(first.subs_checked) or not is_one_to_one(first):
        raise Unfused("it does not write each element once")
    x = _by_roles(ctx, reach, first)
    followers = tuple((s, _follow(first, s, later[:i])) for i, s in enumerate(later))
    written = {ctx.program.buffer(s.target).home for s in ctx.group.statements}
    if written & {ctx.program.buffer(side.operand.buffer).home for side in (x.a, x.b)}:
        raise Unfused("it writes to a factor")
    return replace(x, later=followers)


def _follow(
    main: Statement, s: Statement, before: Sequence[Statement]
) -> tuple[tuple[str, str], ...]:
    """Return the contraction's index for each index of a pointwise statement after it."""
    if s.reductions or not s.covers or s.is_arg or any(s.subs_checked):
        raise Unfused(f"'{s.text}' is not pointwise")
    names = renaming(main, s)
    made = {main.target, *(t.target for t in before)}
    for r in s.reads():
        if r.tensor in made:
            subs = tuple(substitute_indices(e, names, address=True) for e in r.subs)
            if subs != main.subs:
                raise Unfused(f"'{r.tensor}' is read at other points")
    found = []
    for mine, there in names.items():
        assert isinstance(there, typed.IndexValue), "a plain subscript is an index"
        found.append((mine, there.name))
    return tuple(found)


# ---- the value of a point


def _by_roles(ctx: GpuContext, reach: Reach, s: Statement) -> Contraction:
    reduced = {r.name for r in s.reductions}
    factors = _product(s)
    scale = tuple(f for f in factors if not indices_of(f) & reduced)
    rest = [f for f in factors if indices_of(f) & reduced]
    reads = list(dict.fromkeys(r for f in rest for r in reads_of(f) if r.subs))
    if len(reads) != 2 or any(any(r.checked) for r in reads):
        raise Unfused("it is not of two accesses")
    if any(_has_bare_index(f) for f in rest):
        raise Unfused("the value of an index is used")
    c, *found = (
        _operand(reach, s, tensor, subs)
        for tensor, subs in ((s.target, s.subs), *((r.tensor, r.subs) for r in reads))
    )
    indices = [Index(r.name, reach.bind(r.extent)) for r in s.ranges]
    order = {name: d for d, (name, _) in enumerate(c.strides)}
    unit = nearest(c) or ""
    outputs = sorted(
        (i for i in indices if i.name not in reduced), key=lambda i: (i.name == unit, order[i.name])
    )
    # b has the output's nearest index: threads that lie side by side store side by side
    a, o = (0, 1) if not found[0].uses(unit) or found[1].uses(unit) else (1, 0)
    operands = {A: found[a], B: found[o]}
    m = tuple(i for i in outputs if operands[A].uses(i.name) and not operands[B].uses(i.name))
    n = tuple(i for i in outputs if operands[B].uses(i.name) and not operands[A].uses(i.name))
    if not m or not n:
        raise Unfused("an operand is not used again")
    outer = tuple(i for i in outputs if i not in m and i not in n)
    k = _inner_last([i for i in indices if i.name in reduced], operands[B], operands[A])
    value, elements = _sides(rest, {reads[a]: A, reads[o]: B})
    sides = [
        Side(name, reads[i], operands[name], elements[name], ctx.operands.memory_dtype(t))
        for name, i in ((A, a), (B, o))
        for t in (reads[i].tensor,)
    ]
    if any(side.dtype == BOOL or side.stored == BOOL for side in sides):
        raise Unfused("it is of truth values")
    return Contraction(s, sides[0], sides[1], c, outer, m, n, k, value, scale, ())


def _operand(reach: Reach, s: Statement, tensor: str, subs: tuple[typed.Expr, ...]) -> Operand:
    operand = operand_of(reach, s, tensor, subs)
    if operand is None:
        raise Unfused(f"a subscript of '{tensor}' is not affine")
    return operand


def _product(s: Statement) -> tuple[typed.Expr, ...]:
    """Return the factors of what is summed; of other operators, the value as a whole."""
    factors = factors_of(s.value)
    is_sum = s.op in ("+=", "+=!") and all(f.dtype == s.value.dtype for f in factors)
    return factors if is_sum else (s.value,)


def _has_bare_index(e: typed.Expr) -> bool:
    """Whether the value of an index is used as a number."""
    match e:
        case typed.IndexValue():
            return True
        case typed.Read():
            return False
        case _:
            return any(_has_bare_index(x) for x in _parts(e))


def _parts(e: typed.Expr) -> Iterator[typed.Expr]:
    found: list[typed.Expr] = []

    def note(x: typed.Expr) -> typed.Expr:
        found.append(x)
        return x

    map_operands(e, note)
    yield from found


def _inner_last(k: list[Index], *operands: Operand) -> Fused:
    """Return reduction indices as the first operand with one of stride one has them in memory."""
    unit = [o for o in operands if any(o.stride(i.name) == ONE for i in k)]
    source = (unit or operands)[0]
    order = {name: d for d, (name, _) in enumerate(source.strides)}
    return tuple(sorted(k, key=lambda i: (source.stride(i.name) == ONE, order.get(i.name, -1))))


def _sides(
    factors: Sequence[typed.Expr], names: dict[typed.Read, str]
) -> tuple[typed.Expr, dict[str, typed.Expr]]:
    """Return the value of a point over the names of the sides, and what each side is.

    A side is as much of the value as can be computed from its element alone.
    """
    own = [{names[r] for r in reads_of(f) if r in names} for f in factors]
    if all(len(x) == 1 for x in own):
        by_side = {
            name: _times([f for f, x in zip(factors, own, strict=True) if x == {name}])
            for name in (A, B)
        }
        a, o = (typed.Read(name, (), by_side[name].dtype) for name in (A, B))
        return typed.Binary("*", a, o, a.dtype), by_side
    value = _times(factors)
    found: dict[str, set[typed.Expr]] = {A: set(), B: set()}

    def alone(e: typed.Expr) -> str | None:
        sides = {names[r] for r in reads_of(e) if r in names}
        return next(iter(sides)) if len(sides) == 1 else None

    def collect(e: typed.Expr) -> None:
        if (name := alone(e)) is not None:
            found[name].add(e)
        else:
            for x in _parts(e):
                collect(x)

    collect(value)
    reads = {name: r for r, name in names.items()}
    elements = {n: next(iter(es)) if len(es) == 1 else reads[n] for n, es in found.items()}

    def one(e: typed.Expr) -> typed.Expr:
        for name, element in elements.items():
            if e == element:
                return typed.Read(name, (), element.dtype)
        return e if isinstance(e, typed.Read) else map_operands(e, one)

    return one(value), elements


def _times(factors: Sequence[typed.Expr]) -> typed.Expr:
    out = factors[0]
    for f in factors[1:]:
        out = typed.Binary("*", out, f, f.dtype)
    return out
