"""Scatters whose subscripts can be solved for an index, as gathers.

    O(2 * y + i) +=! I(c, y) * W(c, i)   ->   O(2 * y)     +=! pad(I(c, y - i), 0) * W(c, 2 * i)
                                              O(2 * y + 1) +=! pad(I(c, y - i), 0) * W(c, 2 * i + 1)

    O(2 * y + i) +=! I(c, y) * W(c, i) where i in 0:2   ->   O(2 * y)     +=! I(c, y) * W(c, 0)
                                                             O(2 * y + 1) +=! I(c, y) * W(c, 1)

Points of a scatter may meet in elements and are run through in order, with an output of its own for
each a sum of products is a contraction. Others, `O(i + j) +=! A(i, j)`, are left alone: asking each
element for its points takes longer than adding them in order (a product of polynomials 17 to 200
times as long).

Transposed convolutions of 4x64x28x28 (1 thread), before and so: by 32x4x4 with stride 2 101 and 2.3
ms, 3x3 with stride 1 35 and 0.5; windows side by side (`4 * y + i`), a contraction for each of the
16 digits, 8 and 0.9. Where they leave no gaps one product comes first, and is moved then, since
elements of each digit lie apart: 8x128x14x14 to 64 channels by twos 1700 -> 960 us, 2x30x40x40 to
50 by threes 2350 -> 1190 (1 thread of Sapphire Rapids, loaded). Not where channels lie next to each
other, whose rows are stored as they are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product
from math import prod

from tcdsl.codegen.program import program
from tcdsl.codegen.program.affine import Affine, affine_of
from tcdsl.codegen.program.expressions import (
    all_from_lowest,
    conjunction,
    from_lowest,
    indices_of,
    substitute_indices,
)
from tcdsl.codegen.program.factors import split
from tcdsl.codegen.program.guards import Bounds, Guards
from tcdsl.codegen.program.inline import is_contraction
from tcdsl.codegen.program.subscripts import (
    MOST_PIECES,
    Piece,
    counts_all,
    expr_of,
    injective_in,
    pivots,
    solved,
)
from tcdsl.grammar.proofs.ranges import Interval
from tcdsl.grammar.proofs.sizes import Size
from tcdsl.grammar.text.nodes import AssignOp
from tcdsl.grammar.types import typed
from tcdsl.grammar.types.dtypes import INT64
from tcdsl.grammar.types.typed import Expr, Range, Statement, Tensor

COMBINING: dict[AssignOp, AssignOp] = {
    "+=!": "+=",
    "*=!": "*=",
    "min=!": "min=",
    "max=!": "max=",
}


def gathers(
    s: Statement,
    target: Tensor,
    bounds: Bounds,
    turns: Mapping[str, Interval],
    nothing: Expr,
) -> list[Statement] | None:
    """Return contractions that do the same as another statement, or None if there are none.

    Parameters
    ----------
    s
        A reducing statement; one with `!` is the first on its target.
    target
        What it writes.
    bounds, turns
        Of tensors, and of the variables of the loops around the statement.
    nothing
        What an element without points combines with.
    """
    outputs = [r for r in s.ranges if r.kind == "output"]
    subs = all_from_lowest(s.subs, target.low)
    maps = [affine_of(e) for e in subs]
    if any(s.subs_checked) or None in maps:
        return None
    ranges = {r.name: r for r in s.ranges}
    if len(injective_in(subs, outputs)) == len(outputs):
        return _apart(s, [a for a in maps if a is not None and len(a.terms) > 1], ranges)
    chosen = {
        d: name
        for d, name in pivots(subs, target.shape, ranges, [r.name for r in outputs]).items()
        if (a := maps[d]) is not None and a.plain is None
    }
    pieces = solved(subs, target.shape, ranges, chosen, chosen.__getitem__)
    found: list[Statement] = []
    for p in pieces or ():
        left = _left(p)
        if len(injective_in(p.subs, left)) < len(left):
            return None
        one = _gather(s, p, target, left, Guards([*p.ranges.values()], bounds, turns), nothing)
        if any(one.subs == x.subs for x in found):
            one = replace(one, op=COMBINING.get(s.op, s.op))
        if not becomes_contraction(one):
            return None
        found.append(one)
    return found or None


def shuffled(
    s: Statement, target: Tensor, turns: Mapping[str, Interval], name: str
) -> tuple[Statement, Statement, Tensor] | None:
    """Return a product whose output lays indices of one factor between those of the other, moved.

        O(f, 2 * y + i, 2 * x + j) +=! I(c, y, x) * K(c, f, i, j)   where i in 0:2, j in 0:2
        ->  T(f, i, j, y, x) +=! I(c, y, x) * K(c, f, i, j)   O(f, 2 * y + i, 2 * x + j) = T(..)

    It is the statement of the product, that which moves it, and the temporary called name; None
    where no sum of products of two factors writes all of its target so.
    """
    outputs = {r.name: r for r in s.ranges if r.kind == "output"}
    maps = [affine_of(e) for e in s.subs]
    wide = [a for a in maps if a is not None and len(a.terms) > 1]
    if s.op != "+=!" or not wide or not counts_all(s.subs, [*outputs.values()], target.shape):
        return None
    shape_of = {n for r in outputs.values() for n in r.extent.symbols()}
    if not turns.keys().isdisjoint(shape_of):
        return None
    digits = [[n for n, _ in sorted(a.terms, key=lambda x: x[1])] for a in wide]
    small, large = [n for d in digits for n in d[:-1]], [d[-1] for d in digits]
    plain = [a.terms[0][0] for a in maps if a is not None and len(a.terms) == 1]
    reads = _factors(s)
    if wide[-1] is not maps[-1] or reads is None:
        return None  # neighbours of the output are no digits: rows of channels, stored as they are
    if not any(set(large) <= x and not set(small) & x for x in reads):
        return None
    if not any(set(small) <= x and not set(large) & x for x in reads):
        return None
    order = [*plain, *small, *large]
    at = tuple(typed.IndexValue(n, INT64) for n in order)
    unchecked = (False,) * len(at)
    shape = tuple(outputs[n].extent for n in order)
    temp = Tensor(name, s.value.dtype, shape, (Size(),) * len(shape), "temp")
    total = replace(s, target=name, subs=at, subs_checked=unchecked)
    read = typed.Read(name, at, s.value.dtype, unchecked)
    moved = replace(s, op="=", value=read, ranges=tuple(outputs.values()), span=None)
    return (total, moved, temp) if becomes_contraction(total) else None


def _factors(s: Statement) -> tuple[set[str], set[str]] | None:
    """Return the indices of both factors of a product of reads, or None if it is none."""
    match s.value:
        case typed.Binary("*", typed.Read() as a, typed.Read() as b):
            first, second = ({n for e in x.subs for n in indices_of(e)} for x in (a, b))
            return first, second
    return None


def _folded(e: Expr) -> Expr:
    a = affine_of(e)
    return e if a is None else expr_of(a)


def becomes_contraction(s: Statement) -> bool:
    """Whether a statement will be one, with factors as temporaries."""
    made = program.Statement(
        s.target, None, s.subs, s.op, s.value, s.ranges, False, s.subs_checked, ""
    )
    return is_contraction(made) or split(made, "{}?".format, lambda f: f.value) is not None


def _apart(
    s: Statement, sums: Sequence[Affine], ranges: Mapping[str, Range]
) -> list[Statement] | None:
    """Return a statement for all values of the lower digits of subscripts, `i` in `4 * h + i`."""
    small = [n for a in sums for n, _ in sorted(a.terms, key=lambda t: abs(t[1]))[:-1]]
    extents = [ranges[n].extent.constant for n in small if n in ranges]
    if not sums or len(extents) < len(small) or None in extents:
        return None
    if prod(x or 0 for x in extents) > MOST_PIECES:
        return None
    found: list[Statement] = []
    for digits in product(*(range(x or 0) for x in extents)):
        by = {n: expr_of(Affine((), ranges[n].low + k)) for n, k in zip(small, digits, strict=True)}
        one = replace(
            s,
            subs=tuple(_folded(substitute_indices(e, by, address=True)) for e in s.subs),
            value=substitute_indices(s.value, by),
            ranges=tuple(r for r in s.ranges if r.name not in by),
            span=None,
        )
        if not becomes_contraction(one):
            return None
        found.append(one)
    return found or None


def _left(p: Piece) -> list[Range]:
    """Return the ranges of the indices on the left side, in its order."""
    names = {n: None for e in p.subs for n in sorted(indices_of(e)) if n in p.ranges}
    return [p.ranges[n] for n in names]


def _gather(
    s: Statement, p: Piece, target: Tensor, left: list[Range], guards: Guards, nothing: Expr
) -> Statement:
    value = substitute_indices(s.value, p.by)
    if p.conditions:
        cond = conjunction(p.conditions)
        value = guards.moved(typed.Select(cond, value, nothing, value.dtype))
    kinds = [replace(r, kind="output") for r in left]
    kinds += [replace(r, kind="reduction") for r in p.ranges.values() if r not in left]
    subs = tuple(from_lowest(e, -low) for e, low in zip(p.subs, target.low, strict=True))
    return Statement(target.name, subs, s.op, guards.selected(value), tuple(kinds), s.subs_checked)
