"""From a statement to a contraction: its factors, its operands, the roles of its indices."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from tcdsl.codegen.forms.contraction.problem import (
    ONE,
    ZERO,
    Index,
    Operand,
    Problem,
    Reach,
    Side,
    Term,
)
from tcdsl.codegen.program.affine import affine_of
from tcdsl.codegen.program.expressions import indices_of
from tcdsl.codegen.program.program import Statement
from tcdsl.grammar.proofs.signs import is_nonnegative
from tcdsl.grammar.proofs.sizes import Size
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
)

# What has vectors to add products in, and to widen factors from.
SUMS = (FLOAT16, BFLOAT16, FLOAT32, FLOAT64, INT32, INT64)
FACTORS = (*SUMS, INT8, INT16, UINT8, UINT16, UINT32)

MOST_TAPS = 7  # of a side of a small window: no vector
_NEAREST = Side()


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
    if not all(map(_is_finite_number, scale)) and not _has_terms(reach, statement):
        return None
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


def _is_finite_number(e: typed.Expr) -> bool:
    return isinstance(e, typed.Lit) and math.isfinite(e.value)


def _has_terms(reach: Reach, statement: Statement) -> bool:
    """Whether no sum is empty: one that is stays 0 whatever scales it, which may not even exist."""
    ranges = {r.name: r for r in statement.ranges}
    for r in statement.reductions:
        least = r.extent
        if r.bounds is not None:
            begin, end = r.bounds
            length = affine_of(typed.Binary("-", end, begin, INT64))
            if length is None:
                return False
            least, _ = length.ends(ranges)
        if not is_nonnegative(reach.bind(least) - 1):
            return False
    return True


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
    k = [i for i in k if i.extent != ONE] or k[:1]  # the taps of a window of one are no steps
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


def is_tap(index: Index, source: Operand, k: Sequence[Index]) -> bool:
    """Whether an index slides over what is summed up, and is known to be short."""
    extent = index.extent.constant
    return extent is not None and extent <= MOST_TAPS and _slides(index, source, k)


def _slides(index: Index, source: Operand, k: Sequence[Index]) -> bool:
    """Whether an index slides over what is summed up, which is more than one element."""
    return source.shares_dim(index.name, [i for i in k if i.extent != ONE])


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
    slides = any(_slides(i, p.b, p.k) for i in n)
    if slides or p.c.linear(n) == ONE:
        return None
    return replace(p, outer=outer_points, n=n, unit=False, natural=True)


def _fusable(role: list[Index], source: Operand, c: Operand, k: list[Index]) -> tuple[Index, ...]:
    """Return the innermost indices of a role that fuse into one.

    The output must be linear in it. A source that is not is packed, except where its indices
    slide over a window: its elements would be copied once per tap, so the index stays outer. So
    does the tap of a small window, where its weights' gradient is summed: it makes few rows.
    """
    if not role:
        return ()
    inner = next((i for i in reversed(role) if c.stride(i.name) == ONE), role[-1])
    if is_tap(inner, source, k):
        inner = next((i for i in reversed(role) if not _slides(i, source, k)), inner)
    fused: tuple[Index, ...] = (inner,)
    for index in reversed(role[: role.index(inner)]):
        longer = (index, *fused)
        if c.linear(longer) is None:
            break
        slides = any(_slides(i, source, k) for i in longer)
        if slides and source.linear(longer) is None:
            break
        fused = longer
    return fused
