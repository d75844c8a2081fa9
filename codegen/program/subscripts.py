"""Subscripts on the left: in which indices they are injective, and solved for them.

    O(2 * y + i) +=! A(y) * K(i)   ->   O(2 * y)     +=! A(y - i) * K(2 * i)
                                        O(2 * y + 1) +=! A(y - i) * K(2 * i + 1)

A scatter becomes gathers over the elements that are written: each finds the points that fall into
it. A step of 2 gives a statement for each residue, whose elements no other one writes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import product
from math import gcd, lcm, prod

from tcdsl.codegen.program.affine import Affine, affine_of
from tcdsl.codegen.program.expressions import indices_of, substitute_indices
from tcdsl.grammar.proofs.sizes import Size
from tcdsl.grammar.text.dataclass import dataclass
from tcdsl.grammar.types import typed
from tcdsl.grammar.types.dtypes import BOOL, INT64
from tcdsl.grammar.types.typed import Expr, Range

MOST_PIECES = 16  # statements that one scatter may become


@dataclass(frozen=True, slots=True)
class Piece:
    """Some of the elements of a tensor, and the points that fall into each of them.

    subs: of the elements; pieces with other subs have none of them. by: what the indices of the
    statement are there. ranges: of all indices that are left. conditions: for there to be a point.
    """

    subs: tuple[Expr, ...]
    by: Mapping[str, Expr]
    ranges: Mapping[str, Range]
    conditions: tuple[Expr, ...]


def injective_in(subs: Sequence[Expr], ranges: Sequence[Range]) -> frozenset[str]:
    """Return the indices in which the written element is injective.

    Points that differ in one of them write different elements: `O(i + j, j)` is so in
    `j` by its second subscript and then in `i`; `O(2 * h + r)` with r in 0:2 in both;
    `H(I(b), d)` in `d` only.
    """
    extents = {r.name: r.extent.constant for r in ranges}
    free = set(extents)
    maps = [affine_of(e) for e in subs]
    while True:
        found = {n for a in maps if a is not None for n in _digits(a, free, extents)}
        if not found:
            return frozenset(extents) - free
        free -= found


def _digits(a: Affine, free: set[str], extents: Mapping[str, int | None]) -> list[str]:
    """Return the free indices of an affine map if they are the digits of a number, else nothing."""
    terms = sorted(((abs(c), name) for name, c in a.terms if name in free))
    reach = 0  # the largest that the digits so far make
    for k, (factor, name) in enumerate(terms):
        extent = extents[name]
        if factor <= reach or (extent is None and k + 1 < len(terms)):
            return []
        reach += factor * ((extent or 1) - 1)
    return [name for _, name in terms]


Tile = tuple[tuple[int, int], ...]  # for each dimension a step and a residue


def tile_of(subs: Sequence[Expr], outputs: Sequence[Range], shape: Sequence[Size]) -> Tile | None:
    """Return the elements that subscripts run through, each once: `O(2 * y + 1)` all odd ones."""
    left = {r.name: r for r in outputs}
    out: list[tuple[int, int]] = []
    for e, extent in zip(subs, shape, strict=True):
        a = affine_of(e)
        if a is None or len(a.terms) != 1 or a.const.constant is None:
            return None
        ((name, step),) = a.terms
        residue = a.const.offset
        r = left.pop(name, None)
        if r is None or r.low != Size.const(0) or not 0 <= residue < step:
            return None
        if r.high != (extent - residue + (step - 1)) // step:
            return None
        out.append((step, residue))
    return None if left else tuple(out)


def is_tiling(tiles: Sequence[Tile | None]) -> bool:
    """Whether tiles hold every element, each of them once."""
    first = tiles[0]
    if first is None:
        return False
    residues = (product([step], range(step)) for step, _ in first)
    return len(tiles) == prod(step for step, _ in first) and {*tiles} == {*product(*residues)}


def counts_all(subs: Sequence[Expr], outputs: Sequence[Range], shape: Sequence[Size]) -> bool:
    """Whether subscripts are numbers whose digits reach all: `O(2 * y + i)` with i in 0:2."""
    left = {r.name: r for r in outputs}
    for e, extent in zip(subs, shape, strict=True):
        a = affine_of(e)
        if a is None or not a.terms or a.const != Size.const(0):
            return False
        reach = Size.const(1)  # how many numbers the digits so far make
        for name, step in sorted(a.terms, key=lambda term: term[1]):
            r = left.pop(name, None)
            if r is None or r.bounds is not None or r.low != Size.const(0):
                return False
            if reach != Size.const(step):
                return False
            reach = r.extent * step
        if reach != extent:
            return False
    return not left


Span = tuple[Size, Size]  # the first element of a dimension, and the one behind the last


def box_of(subs: Sequence[Expr], outputs: Sequence[Range]) -> tuple[Span, ...] | None:
    """Return the elements that subscripts run through, if they have no gaps: `O(n + A, 0)`."""
    left = {r.name: r for r in outputs}
    out: list[Span] = []
    for e in subs:
        a = affine_of(e)
        if a is None or len(a.terms) > 1:
            return None
        low, high = a.const, a.const + 1
        for name, step in a.terms:
            r = left.pop(name, None)
            if r is None or r.bounds is not None or step != 1:
                return None
            low, high = r.low + a.const, r.high + a.const
        out.append((low, high))
    return None if left else tuple(out)


def are_joined(boxes: Sequence[tuple[Span, ...] | None], shape: Sequence[Size]) -> bool:
    """Whether boxes that are parts of one dimension, each as far as the next begins, hold it all.

    From 0 to the extent some part passes each element, whatever the sizes are: it holds it.
    """
    whole = [(Size.const(0), extent) for extent in shape]
    cut = {d for box in boxes if box is not None for d, span in enumerate(box) if span != whole[d]}
    if None in boxes or len(cut) != 1:
        return False
    (d,) = cut
    spans = [box[d] for box in boxes if box is not None]
    ends = {low: high for low, high in spans if low != high}
    at = Size.const(0)
    for _ in ends:
        if at not in ends:
            return False
        at = ends[at]
    return at == shape[d]


def pivots(
    subs: Sequence[Expr],
    shape: Sequence[Size],
    ranges: Mapping[str, Range],
    allowed: Collection[str],
) -> dict[int, str]:
    """Return the index to solve each subscript for, by dimension.

    It stands in this subscript alone, and residues by its step are known. What is left is summed
    over, so of several it is the one with the largest extent: where extents are not known, the one
    that has most to do with the dimension's (a pixel rather than a tap), then an output index, then
    the first.
    """
    used = [n for e in subs for n in indices_of(e)]

    def rank(name: str, d: int) -> tuple[int, int, bool]:
        r = ranges[name]
        known = r.extent.constant
        shared = {*r.extent.symbols()} & {*shape[d].symbols()}
        return (
            0 if known is None else -1,
            len(shared) if known is None else known,
            r.kind == "output",
        )

    found: dict[int, str] = {}
    for d, e in enumerate(subs):
        a = affine_of(e)
        if a is None:
            continue
        names = [
            n
            for n, c in a.terms
            if n in allowed and n in ranges and used.count(n) == 1 and _has_residue(a.const, abs(c))
        ]
        if names:
            found[d] = max(names, key=lambda n: rank(n, d))
    return found


def _has_residue(const: Size, step: int) -> bool:
    return all(c % step == 0 for monomial, c in const.terms if monomial)


def solved(
    subs: Sequence[Expr],
    shape: Sequence[Size],
    ranges: Mapping[str, Range],
    pivots: Mapping[int, str],
    fresh: Callable[[int], str],
) -> list[Piece] | None:
    """Return subscripts solved for indices; None where no few pieces hold all the points.

    Parameters
    ----------
    subs, shape
        Of what is written, from 0.
    ranges
        Of all indices.
    pivots
        The index to solve for, by dimension.
    fresh
        Gives the index of a dimension's elements a name.
    """
    maps = {d: affine_of(subs[d]) for d in pivots}
    steps: dict[int, int] = {}
    digits: dict[str, int] = {}  # indices that are taken apart, i = digit * i + residue
    for d, name in pivots.items():
        a = maps[d]
        assert a is not None, "pivots stand in affine subscripts"
        step = steps[d] = abs(a.coefficient(name))
        for other, c in a.terms:
            if c % step:
                if other not in ranges:
                    return None
                digits[other] = lcm(digits.get(other, 1), step // gcd(step, c))
    if prod(digits.values()) > MOST_PIECES:
        return None
    names = {d: fresh(d) for d in pivots}
    found: list[Piece] = []
    for residues in product(*map(range, digits.values())):
        apart = dict(zip(digits, zip(digits.values(), residues, strict=True), strict=True))
        piece = _piece(subs, shape, ranges, pivots, apart, names)
        extents = (r.extent.constant for r in piece.ranges.values())
        if not any(x is not None and x <= 0 for x in extents):
            found.append(piece)
    return sorted(found, key=lambda p: _residues(p.subs, names))


def _residues(subs: Sequence[Expr], dims: Collection[int]) -> list[int]:
    maps = [affine_of(subs[d]) for d in sorted(dims)]
    return [a.const.offset for a in maps if a is not None]


def _piece(
    subs: Sequence[Expr],
    shape: Sequence[Size],
    ranges: Mapping[str, Range],
    pivots: Mapping[int, str],
    apart: Mapping[str, tuple[int, int]],
    names: Mapping[int, str],
) -> Piece:
    """Return the elements that points reach at which some indices have given residues."""
    left = dict(ranges)
    by: dict[str, Expr] = {}
    for name, (digit, r) in apart.items():
        old = ranges[name]
        low, high = ((x - r + (digit - 1)) // digit for x in (old.low, old.high))
        if high - low == Size.const(1):  # one value: no index
            del left[name]
            by[name] = expr_of(Affine((), low * digit + r))
        else:
            left[name] = Range(name, low, high, old.kind)
            by[name] = expr_of(Affine(((name, digit),), Size.const(r)))
    out = [substitute_indices(e, by, address=True) for e in subs]
    conditions: list[Expr] = []
    olds = {name: left.pop(name) for name in pivots.values()}  # new ones may be called like them
    for d, name in pivots.items():
        a = affine_of(out[d])
        assert a is not None
        c = a.coefficient(name)
        step, sign = abs(c), 1 if c > 0 else -1
        residue = a.const.offset % step
        new = names[d]
        # step * new + residue = c * name + rest
        terms = [(new, sign), *((n, -sign * k // step) for n, k in a.terms if n != name)]
        at = Affine(tuple(terms), ((a.const - residue) // step) * -sign)
        by[name] = expr_of(at)
        old = olds[name]
        high = (shape[d] - residue + (step - 1)) // step
        left[new] = Range(new, Size.const(0), high, "output")
        out[d] = expr_of(Affine(((new, step),), Size.const(residue)))
        for op, bound in ((">=", old.low), ("<", old.high)):
            limit = expr_of(Affine((), bound))
            conditions.append(typed.Binary(op, by[name], limit, BOOL))  # type: ignore[arg-type]
    return Piece(tuple(out), by, left, tuple(conditions))


def expr_of(a: Affine) -> Expr:
    """Return a subscript: indices, then sizes, those to be subtracted behind; the number last."""
    pieces: list[tuple[int, Expr | None]] = [(c, typed.IndexValue(n, INT64)) for n, c in a.terms]
    for monomial, c in a.const.terms:
        if monomial:
            pieces.append((c, typed.SizeValue(Size(((monomial, 1),)), INT64)))
    pieces.sort(key=lambda p: p[0] < 0)
    if a.const.offset or not pieces:
        pieces.append((a.const.offset, None))
    out: Expr | None = None
    for c, what in pieces:
        size = abs(c)
        piece: Expr = typed.Lit(size, INT64)
        if what is not None:
            piece = what if size == 1 else typed.Binary("*", piece, what, INT64)
        if out is not None:
            out = typed.Binary("-" if c < 0 else "+", out, piece, INT64)
        elif c < 0:
            out = typed.Lit(c, INT64) if what is None else _negative(c, what)
        else:
            out = piece
    assert out is not None
    return out


def _negative(c: int, what: Expr) -> Expr:
    if c == -1:
        return typed.Unary("-", what, INT64)
    return typed.Binary("*", typed.Lit(c, INT64), what, INT64)
