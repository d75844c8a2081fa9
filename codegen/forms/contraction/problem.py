"""What a contraction is: `O(m, n) += sum_k A(m, k) * B(k, n)`, whatever its indices are called.

Every index of the statement falls into one of four roles by where it occurs: K in factors only,
M in the output and the factor `a`, N in the output and the factor `b`, outer in both or neither.
`b` is the factor whose elements are read as vectors: it shares the output's index of stride one.
Indices of one role form one fused index as far as the output is linear in it; what is left over
becomes outer. Strides are symbolic sizes: constants, products of sizes, or run-time strides.

Where `b` has neighbours along another index than the output, its vectors may also run along its
own ("natural"). Then N is what fuses in `b`, and the output's nearest index is outer.

What is summed may also be how far A and B are apart, squared or absolute: tiles and panels are the
same. Nobody expands it: `a*a - 2*a*b + b*b` cancels.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, Literal

from tcdsl.codegen.forms.base.context import GroupContext
from tcdsl.codegen.forms.base.space import strides_of
from tcdsl.codegen.program.affine import affine_of
from tcdsl.codegen.program.expressions import indices_of
from tcdsl.codegen.program.program import Program, Statement
from tcdsl.grammar.proofs.signs import constants, substitute_symbols
from tcdsl.grammar.proofs.sizes import Size
from tcdsl.grammar.text.dataclass import dataclass
from tcdsl.grammar.types import typed
from tcdsl.grammar.types.dtypes import (
    BFLOAT16,
    FLOAT16,
    FLOAT32,
    FLOAT64,
    INT8,
    INT16,
    INT32,
    INT64,
    UINT8,
    UINT16,
    UINT32,
    DType,
)

ZERO, ONE = Size(), Size.const(1)
# What has vectors to add products in, and to widen factors from.
SUMS = (FLOAT16, BFLOAT16, FLOAT32, FLOAT64, INT32, INT64)
FACTORS = (*SUMS, INT8, INT16, UINT8, UINT16, UINT32)

Term = Literal["product", "square", "distance"]  # x * y, (x - y) * (x - y), abs(x - y)


@dataclass(frozen=True, slots=True)
class Reach:
    """How buffers lie in memory.

    strides: of a buffer, in elements. exact: values of sizes that are constants.
    """

    program: Program
    strides: Callable[[str], tuple[Size, ...]]
    exact: Mapping[str, Size]

    def bind(self, size: Size) -> Size:
        """Return a size with what is known put in."""
        return substitute_symbols(size, self.exact)


def reach_of(ctx: GroupContext[Any]) -> Reach:
    """Return how the buffers of a group's program lie, under its specialisation."""
    exact = constants(ctx.spec.sizes)
    return Reach(ctx.program, lambda name: strides_of(ctx.operands, name), exact)


@dataclass(frozen=True, slots=True)
class Index:
    """An index of the statement, counted from 0: its name and its extent."""

    name: str
    extent: Size


@dataclass(frozen=True, slots=True)
class Operand:
    """A buffer as the statement reaches it: an offset and a stride for every index.

    dims: for every index, the dimensions whose subscript it occurs in.
    """

    buffer: str
    dtype: DType
    offset: Size
    strides: tuple[tuple[str, Size], ...]
    dims: tuple[tuple[str, tuple[int, ...]], ...]

    def stride(self, name: str) -> Size:
        """Return the stride of an index; 0 where it does not occur."""
        return dict(self.strides).get(name, ZERO)

    def uses(self, name: str) -> bool:
        """Whether an index occurs."""
        return name in dict(self.dims)

    def shares_dim(self, name: str, others: Iterable[Index]) -> bool:
        """Whether an index stands in one subscript with one of the others, as in `h + kh`."""
        dims = dict(self.dims)
        mine = set(dims.get(name, ()))
        return any(mine & set(dims.get(i.name, ())) for i in others)

    def linear(self, fused: tuple[Index, ...]) -> Size | None:
        """Return the stride of indices fused outer to inner, or None if there is none."""
        if not fused:
            return ZERO
        step = stride = self.stride(fused[-1].name)
        extent = fused[-1].extent
        for index in reversed(fused[:-1]):
            step = step * extent
            if self.stride(index.name) != step:
                return None
            extent = index.extent
        return stride


@dataclass(frozen=True, slots=True)
class Side:
    """Which vectors there are.

    other: along the factor that would be read by elements; the output is then stored element by
    element. natural: along the factor's own neighbours, which are none in the output.
    """

    other: bool = False
    natural: bool = False


_NEAREST = Side()


@dataclass(frozen=True, slots=True)
class Problem:
    """A contraction by roles. k may be non-linear in a and b, m in a, n in b, but m never in c.

    scale: factors without a reduction index, applied to the finished sum. unit: c has stride one
    along n. natural: n lies in b as it is, and may be non-linear in c. term: what is summed of an
    element of a and one of b.
    """

    statement: Statement
    a: Operand
    b: Operand
    c: Operand
    outer: tuple[Index, ...]
    m: tuple[Index, ...]
    n: tuple[Index, ...]
    k: tuple[Index, ...]
    scale: tuple[typed.Expr, ...]
    dtype: DType  # of the sum
    unit: bool
    natural: bool = False
    term: Term = "product"


def extent_of(fused: tuple[Index, ...]) -> Size:
    """Return the number of points of a fused index; 1 for none."""
    total = ONE
    for index in fused:
        total = total * index.extent
    return total


# ---- factors


def factors_of(e: typed.Expr) -> tuple[typed.Expr, ...]:
    """Return the factors of a product; a minus sign is the factor -1."""
    match e:
        case typed.Binary("*", lhs, rhs):
            return factors_of(lhs) + factors_of(rhs)
        case typed.Unary("-", operand) if e.dtype.kind in ("float", "int"):
            one = -1.0 if e.dtype.is_float else -1
            return (typed.Lit(one, e.dtype), *factors_of(operand))
        case _:
            return (e,)


def _storage_read(e: typed.Expr) -> typed.Read | None:
    """Return the read that a factor is, seen through a cast that keeps all values, or None.

    Of a half to a float, of an integer to a wider signed one.
    """
    if isinstance(e, typed.Cast):
        source, to = e.operand.dtype, e.dtype
        widens = source.is_integer and to.kind == "int" and source.bits < to.bits
        if widens or (to.is_float and source.is_half):
            e = e.operand
    return e if isinstance(e, typed.Read) and e.dtype in FACTORS else None


# ---- operands


def operand_of(
    reach: Reach, statement: Statement, buffer: str, subs: tuple[typed.Expr, ...]
) -> Operand | None:
    """Return an access as an operand, or None if a subscript is not affine or one is missing."""
    if len(subs) != len(reach.program.buffer(buffer).shape):
        return None  # the last statement of the group has another rank than the sum
    low = {r.name: r.low for r in statement.ranges}
    offset = ZERO
    strides: dict[str, Size] = {}
    dims: dict[str, tuple[int, ...]] = {}
    for d, (sub, step) in enumerate(zip(subs, reach.strides(buffer), strict=True)):
        affine = affine_of(sub)
        if affine is None:
            return None
        stride = reach.bind(step)
        offset = offset + stride * reach.bind(affine.at(low))
        for name, coefficient in affine.terms:
            strides[name] = strides.get(name, ZERO) + stride * coefficient
            dims[name] = (*dims.get(name, ()), d)
    dtype = reach.program.buffer(buffer).dtype
    return Operand(buffer, dtype, offset, tuple(strides.items()), tuple(dims.items()))


# ---- roles


def problem_of(
    reach: Reach, statement: Statement, target: str, side: Side = _NEAREST
) -> Problem | None:
    """Return a statement as a contraction that writes target, or None if it has no such vectors."""
    value = statement.value
    dtype = value.dtype
    if statement.op not in ("+=", "+=!") or dtype not in SUMS or not statement.is_whole:
        return None
    reduced = {r.name for r in statement.ranges if r.kind == "reduction"}
    factors = factors_of(value)
    if any(f.dtype != dtype for f in factors) or any(statement.subs_checked):
        return None
    scale = tuple(f for f in factors if not indices_of(f) & reduced)
    term, sides = _term(tuple(f for f in factors if indices_of(f) & reduced))
    reads = [_storage_read(x) for x in sides]
    if len(reads) != 2 or not all(r is not None and not any(r.checked) for r in reads):
        return None
    if not is_one_to_one(statement) or not all(indices_of(x) & reduced for x in sides):
        return None
    first, second = (operand_of(reach, statement, r.tensor, r.subs) for r in reads if r is not None)
    c = operand_of(reach, statement, target, statement.subs)
    if first is None or second is None or c is None:
        return None
    indices = [Index(r.name, reach.bind(r.extent)) for r in statement.ranges]
    unit = nearest(c)
    # b carries the vectors: it has the output's nearest index, if any factor alone has it
    b_first = unit is not None and first.uses(unit) and not second.uses(unit)
    a, b = (second, first) if b_first != side.other else (first, second)
    found = replace(_by_roles(statement, a, b, c, indices, reduced, scale), term=term)
    return _natural(found) if side.natural else found


def _term(factors: tuple[typed.Expr, ...]) -> tuple[Term, tuple[typed.Expr, ...]]:
    """Return what factors are of two sides, and these; factors as they are where it is no distance.

    Not of halves, whose difference is rounded before it is squared, nor of integers.
    """
    if not all(f.dtype.is_float and not f.dtype.is_half for f in factors):
        return "product", factors
    match factors:
        case (typed.Binary("-", x, y) as one, other) if one == other:
            return "square", (x, y)
        case (typed.Builtin("abs" | "fabs", (typed.Binary("-", x, y),)),):
            return "distance", (x, y)
    return "product", factors


def nearest(c: Operand) -> str | None:
    """Return the index whose points are neighbours in the output, or all but a few elements are.

    Elements between them belong to other statements: `O(2 * i)` and `O(2 * i + 1)`.
    """
    return next((n for step in (1, 2, 3, 4) for n, x in c.strides if x == Size.const(step)), None)


def is_one_to_one(statement: Statement) -> bool:
    """Whether every subscript on the left has one index, each another, or is fixed."""
    seen: list[str] = []
    for sub in statement.subs:
        affine = affine_of(sub)
        if affine is not None and not affine.terms:
            continue
        if affine is None or len(affine.terms) != 1:
            return False
        seen.append(affine.terms[0][0])
    outputs = {r.name for r in statement.ranges if r.kind == "output"}
    return len(set(seen)) == len(seen) and set(seen) == outputs


def _by_roles(
    statement: Statement,
    a: Operand,
    b: Operand,
    c: Operand,
    indices: list[Index],
    reduced: set[str],
    scale: tuple[typed.Expr, ...],
) -> Problem:
    order = {name: d for d, (name, _) in enumerate(c.strides)}
    outputs = sorted((i for i in indices if i.name not in reduced), key=lambda i: order[i.name])
    k = [i for i in indices if i.name in reduced]
    # The packers turn b around along its own innermost reduction index, else a: it comes last.
    inner = next((i for o in (b, a) for i in k if o.stride(i.name) == ONE), None)
    if inner is not None:
        k = [i for i in k if i != inner] + [inner]
    only_a = [i for i in outputs if a.uses(i.name) and not b.uses(i.name)]
    only_b = [i for i in outputs if b.uses(i.name) and not a.uses(i.name)]
    m = _fusable(only_a, a, c, k)
    n = _fusable(only_b, b, c, k)
    outer = tuple(i for i in outputs if i not in m and i not in n)
    unit = c.linear(n) == ONE
    return Problem(statement, a, b, c, outer, m, n, tuple(k), scale, statement.value.dtype, unit)


def _natural(p: Problem) -> Problem | None:
    """Return a contraction with vectors along b's own neighbours, or None if there is no gain.

    They must not be the output's, whose own neighbours are many matrices: those are turned around
    when they are stored.
    """
    only_b = [i for i in (*p.n, *p.outer) if p.b.uses(i.name) and not p.a.uses(i.name)]
    at = next((i for i in only_b if p.c.stride(i.name) == ONE and i.extent != ONE), None)
    own = next((i for i in only_b if p.b.stride(i.name) == ONE and i.extent != ONE), None)
    if at is None or own is None or at == own:
        return None
    n: tuple[Index, ...] = (own,)
    while True:
        rest = (i for i in only_b if i != at and i not in n)
        outer = next((i for i in rest if p.b.linear((i, *n)) is not None), None)
        if outer is None:
            break
        n = (outer, *n)
    order = {name: d for d, (name, _) in enumerate(p.c.strides)}
    left = (i for i in (*p.n, *p.outer) if i not in n)
    outer_points = tuple(sorted(left, key=lambda i: order[i.name]))
    slides = any(p.b.shares_dim(i.name, p.k) for i in n)
    if slides or p.c.linear(n) == ONE:
        return None
    return replace(p, outer=outer_points, n=n, unit=False, natural=True)


def _fusable(role: list[Index], source: Operand, c: Operand, k: list[Index]) -> tuple[Index, ...]:
    """Return the innermost indices of a role that fuse into one.

    The output must be linear in it. A source that is not is packed, except where its indices
    slide over a window: its elements would be copied once per tap, so the index stays outer.
    """
    if not role:
        return ()
    inner = next((i for i in reversed(role) if c.stride(i.name) == ONE), role[-1])
    fused: tuple[Index, ...] = (inner,)
    for index in reversed(role[: role.index(inner)]):
        longer = (index, *fused)
        if c.linear(longer) is None:
            break
        slides = any(source.shares_dim(i.name, k) for i in longer)
        if slides and source.linear(longer) is None:
            break
        fused = longer
    return fused


def known(size: Size) -> int:
    """Return the value of a size that is a constant."""
    value = size.constant
    assert value is not None, f"{size} is not constant"
    return value
