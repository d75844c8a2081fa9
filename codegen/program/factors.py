"""Factors of a sum of products as temporaries, so that the product is one of two plain accesses.

    O(i,j) +=! exp(A(i,k)) * B(k,j) * d(k)   ->   E(i,k) = exp(A(i,k))   D(k,j) = B(k,j) * d(k)
                                                  O(i,j) +=! E(i,k) * D(k,j)

    O(h) +=! (inside ? I(h+k-1) : 0) * W(k)  ->   P(y) = inside ? I(y-1) : 0   (a border of zeros)
                                                  O(h) +=! P(h+k) * W(k)

A pass over each factor is little beside a sum in which each of its elements is used many times, and
only two plain accesses have register tiles.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from tcdsl.codegen.program.affine import affine_of
from tcdsl.codegen.program.expressions import (
    from_lowest,
    indices_of,
    map_operands,
    reads_of,
    walk_typed,
)
from tcdsl.codegen.program.inline import is_contraction
from tcdsl.codegen.program.program import Statement
from tcdsl.grammar.proofs.ranges import Interval, interval
from tcdsl.grammar.proofs.signs import maximum
from tcdsl.grammar.proofs.sizes import Size
from tcdsl.grammar.text.dataclass import dataclass
from tcdsl.grammar.types import typed
from tcdsl.grammar.types.dtypes import INT64
from tcdsl.grammar.types.typed import Expr, Range


@dataclass(frozen=True, slots=True)
class Factor:
    """A temporary: value at the points of ranges, and where the statement reads it."""

    value: Expr
    subs: tuple[Expr, ...]
    ranges: tuple[Range, ...]
    at: tuple[Expr, ...]


def split(
    s: Statement,
    fresh: Callable[[str], str],
    make: Callable[[Factor], Expr],
    is_alone: Callable[[Factor], bool] = lambda _: True,
) -> Statement | None:
    """Return the statement with factors as temporaries, or None where that makes no contraction.

    Parameters
    ----------
    s
        A statement as the text has it.
    fresh
        Gives names of new indices.
    make
        Adds the statement of a temporary, and returns the read of it.
    is_alone
        Whether a temporary may be computed where the statement has no points.
    """
    if s.op not in ("+=", "+=!") or not s.reductions or s.is_ragged:
        return None
    found = _groups(s)
    if found is None or all(len(group) == 1 and _is_plain(group[0]) for group in found):
        return None
    ranges = {r.name: r for r in s.ranges}
    factors: list[Factor | Expr] = []
    for group in found:
        if len(group) == 1 and _is_plain(group[0]):
            factors.append(group[0])
            continue
        factor = _factor(_product(group), ranges, fresh)
        if factor is None or not is_alone(factor):
            return None
        factors.append(factor)
    trial = [
        typed.Read("?", f.at, f.value.dtype, (False,) * len(f.at)) if isinstance(f, Factor) else f
        for f in factors
    ]
    if not is_contraction(replace(s, value=_product(trial))):
        return None
    return replace(s, value=_product([make(f) if isinstance(f, Factor) else f for f in factors]))


def _groups(s: Statement) -> tuple[list[Expr], list[Expr]] | None:
    """Return the factors in two groups, each with the indices of its largest; None if they are not.

    A factor joins the group that has all its indices already.
    """
    factors = _factors(s.value)
    names = {r.name for r in s.ranges}
    if not s.value.dtype.is_float or len(factors) < 2:
        return None
    used = [frozenset(names & set(_all_indices(f))) for f in factors]
    if not all(used) or any(any(r.checked) for f in factors for r in reads_of(f)):
        return None
    order = sorted(range(len(factors)), key=lambda i: (-len(used[i]), i))
    first = order[0]
    second = next((i for i in order[1:] if not used[i] <= used[first]), None)
    if second is None:
        return None
    groups: dict[int, list[int]] = {first: [first], second: [second]}
    for i in order:
        if i in groups:
            continue
        home = next((g for g in (second, first) if used[i] <= used[g]), None)
        if home is None:
            return None
        groups[home].append(i)
    a, b = ([factors[i] for i in sorted(groups[g])] for g in sorted(groups))
    return a, b


def _factor(value: Expr, ranges: Mapping[str, Range], fresh: Callable[[str], str]) -> Factor | None:
    """Return a factor as a temporary over its indices, sums of indices each as one dimension."""
    dims: list[Expr] = []
    for read in reads_of(value):
        for e in read.subs:
            if e not in dims and indices_of(e):
                dims.append(e)
    by: dict[Expr, Expr] = {}
    subs: list[Expr] = []
    at: list[Expr] = []
    own: list[Range] = []
    domain = {r.name: Interval(r.low, r.high - 1) for r in ranges.values()}
    for e in dims:
        a = affine_of(e)
        if a is None:
            return None
        if isinstance(e, typed.IndexValue):
            r = ranges[e.name]
            new: Expr = e
        else:
            symbolic = Size.const(0) + a.const
            for name, c in a.terms:
                symbolic += Size.symbol(name, signed=True) * c
            box = interval(symbolic, domain)
            if box.low is None or box.high is None:
                return None
            r = Range(fresh("y"), box.low, maximum(box.high + 1, box.low), "output")
            new = typed.IndexValue(r.name, INT64)
            by[e] = new
        own.append(replace(r, kind="output"))
        subs.append(from_lowest(new, r.low))
        at.append(from_lowest(e, r.low))

    value = _replaced(value, by)
    left = {r.name for r in own}
    if not set(_all_indices(value)) & set(ranges) <= left:
        return None  # an index also stands outside of the sums it is part of
    return Factor(value, tuple(subs), tuple(own), tuple(at))


def _replaced(e: Expr, by: Mapping[Expr, Expr]) -> Expr:
    """Return e with expressions replaced, the outermost first."""
    if e in by:
        return by[e]
    return map_operands(e, lambda x: _replaced(x, by))


def _factors(e: Expr) -> list[Expr]:
    match e:
        case typed.Binary("*", lhs, rhs, dtype) if dtype.is_float:
            return [*_factors(lhs), *_factors(rhs)]
        case _:
            return [e]


def _product(factors: Sequence[Expr]) -> Expr:
    out = factors[0]
    for f in factors[1:]:
        out = typed.Binary("*", out, f, out.dtype)
    return out


def _is_plain(e: Expr) -> bool:
    while isinstance(e, typed.Cast):
        e = e.operand
    return isinstance(e, typed.Read)


def _all_indices(e: Expr) -> list[str]:
    return [x.name for x in walk_typed(e) if isinstance(x, typed.IndexValue)]
