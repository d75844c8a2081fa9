"""Conditions that keep reads inside, as bounds: affine maps of indices that are not negative.

0 <= w + j - 1 && w + j - 1 < W      w + j - 1 >= 0,  W - w - j >= 0
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tcdsl.codegen.program.affine import Affine, affine_of
from tcdsl.codegen.program.expressions import conjuncts, walk_typed
from tcdsl.grammar.proofs.signs import constants, substitute_symbols
from tcdsl.grammar.proofs.sizes import Size
from tcdsl.grammar.text.dataclass import dataclass
from tcdsl.grammar.types import typed
from tcdsl.grammar.types.dtypes import INT32, INT64, DType
from tcdsl.grammar.types.typed import Range

_LARGEST = {INT32: (1 << 31) - 1, INT64: (1 << 63) - 1}


@dataclass(frozen=True, slots=True)
class Bound:
    """`sum of coefficient * index + const >= 0`; terms are sorted by name."""

    terms: tuple[tuple[str, int], ...]
    const: Size

    def negated(self) -> Bound:
        """Return the bound that holds where this one does not."""
        return Bound(tuple((n, -k) for n, k in self.terms), -self.const - 1)

    def coefficient(self, name: str) -> int:
        """Return the coefficient of an index."""
        return next((k for n, k in self.terms if n == name), 0)

    def moved(self, by: Mapping[str, int], fixed: Mapping[str, int]) -> Bound:
        """Return the bound where indices are further by so much, or have these values."""
        far = sum(k * (fixed[n] if n in fixed else by.get(n, 0)) for n, k in self.terms)
        terms = tuple(t for t in self.terms if t[0] not in fixed)
        return Bound(terms, self.const + far if far else self.const)


@dataclass(frozen=True, slots=True)
class Bounds:
    """Where a choice takes the branch whose reads need it; keeps_then: which of the two it is."""

    all: tuple[Bound, ...]
    keeps_then: bool


def bounds_of(
    cond: typed.Expr,
    ranges: Mapping[str, Range],
    sizes: tuple[tuple[str, int], ...] | None,
) -> tuple[Bound, ...] | None:
    """Return a condition as bounds that have to hold together, or None if it is something else."""
    found: list[Bound] = []
    by = constants(sizes)
    for part in conjuncts(cond):
        if not isinstance(part, typed.Binary) or part.op not in ("<", "<=", ">", ">=", "=="):
            return None
        a, b = affine_of(part.lhs), affine_of(part.rhs)
        if a is None or b is None or not {n for n, _ in (*a.terms, *b.terms)} <= {*ranges}:
            return None
        if not all(_is_exact(x, ranges, by) for x in (part.lhs, part.rhs)):
            return None
        for low, high, gap in _orders(part.op, a, b):
            found.append(_difference(high, low, gap, by))
    return tuple(dict.fromkeys(found))


def _orders(op: str, a: Affine, b: Affine) -> Iterator[tuple[Affine, Affine, int]]:
    """Yield what is at most what, with the least distance."""
    if op in ("<", "<=", "=="):
        yield a, b, int(op == "<")
    if op in (">", ">=", "=="):
        yield b, a, int(op == ">")


def _difference(high: Affine, low: Affine, gap: int, by: Mapping[str, Size]) -> Bound:
    terms = dict(high.terms)
    for name, k in low.terms:
        terms[name] = terms.get(name, 0) - k
    const = substitute_symbols(high.const - low.const - gap, by)
    return Bound(tuple(sorted((n, k) for n, k in terms.items() if k)), const)


def _is_exact(e: typed.Expr, ranges: Mapping[str, Range], by: Mapping[str, Size]) -> bool:
    """Whether arithmetic gives what its affine map says: wrapped sums are right if the last is."""
    divided = [x for x in walk_typed(e) if isinstance(x, typed.Binary) and x.op == "/"]
    return all(
        (a := affine_of(x)) is not None and _fits(a, x.dtype, ranges, by)
        for x in (e, *(y for d in divided for y in (d.lhs, d.rhs)))
    )


def _fits(a: Affine, dtype: DType, ranges: Mapping[str, Range], by: Mapping[str, Size]) -> bool:
    """Whether a type holds all values of a map: seen where sizes are known."""
    low, high = (substitute_symbols(x, by) for x in a.ends(ranges))
    if dtype not in _LARGEST:
        return False
    largest = _LARGEST[dtype]
    if low.constant is not None and high.constant is not None:
        return low.constant >= -largest and high.constant <= largest
    if dtype == INT64 or not a.terms:  # a size as a number is held by int32
        return True
    # an index and the next one are at most an extent, which int32 holds
    ends = {n: [substitute_symbols(x, by).constant for x in _ends(ranges[n])] for n, _ in a.terms}
    free = [(n, k) for n, k in a.terms if None in ends[n]]
    few = Affine(tuple(t for t in a.terms if t not in free), a.const)
    shifts = [substitute_symbols(x, by).constant for x in few.ends(ranges)]
    if len(free) != 1 or free[0][1] != 1:
        return False
    return all(s is not None and -largest // 2 <= s <= 1 for s in shifts)


def _ends(r: Range) -> tuple[Size, Size]:
    return r.low, r.high
