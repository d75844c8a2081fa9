"""Statements along rows and folds across the same rows, which read the same: one group.

    a(b) +=! d_Y(b, n) * X(b, n)        along row b
    d_X(b, n) = d_Y(b, n) - a(b)        along row b
    d_g(n) +=! d_Y(b, n) * X(b, n)      across the rows

A few rows at a time, the folds find in cache what was read along these rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tcdsl.codegen.program.decided import Sizes
from tcdsl.codegen.program.inline import is_contraction
from tcdsl.codegen.program.program import Statement
from tcdsl.codegen.program.sharing import kept_indices
from tcdsl.grammar.proofs.signs import constants, substitute_symbols
from tcdsl.grammar.proofs.sizes import Size

PART_POINTS = 1 << 16  # of a fold in parts

Axes = Mapping[str, tuple[int, ...]]  # of a tensor, the dimensions of the axes of rows


def crossing_of(statements: Sequence[Statement]) -> int | None:
    """Return how many statements go along rows where all others fold across them."""
    first = next((k for k, s in enumerate(statements) if k and _folds(s)), len(statements))
    counts = range(first, len(statements))
    return next((k for k in counts if is_crossing(statements[:k], statements[k:])), None)


def is_crossing(along: Sequence[Statement], across: Sequence[Statement]) -> bool:
    """Whether statements share rows, and others fold what these rows have at the same points."""
    if any(r.low != Size() for s in (*along, *across) for r in s.ranges):
        return False
    names = kept_indices(along) if len(along) > 1 else None
    if names is None or not all(map(_folds, across)):
        return False
    axes = sorted(names[0])
    spans = {r.name: r.high for r in along[0].ranges}
    extents = [spans[names[0][a]] for a in axes]
    places: dict[str, tuple[int, ...]] = {}  # of what is read along rows, and made there
    for s, mine in zip(along, names, strict=True):
        for tensor, plain in s.plain_accesses():
            if all(mine[a] in plain for a in axes):
                at = tuple(plain.index(mine[a]) for a in axes)
                if places.setdefault(tensor, at) != at:
                    return False
    made = {s.target for s in along}
    return all(_crosses(s, extents, places, made) for s in across)


def is_long(across: Sequence[Statement], sizes: Sizes) -> bool:
    """Whether folds may be so long that they go in parts: as far as sizes are known."""
    work = Size.const(1)
    for r in across[0].ranges:
        work = work * r.extent
    value = substitute_symbols(work, constants(sizes)).constant
    return value is None or value > 2 * PART_POINTS


def _folds(s: Statement) -> bool:
    """Whether a statement folds values, of which each result has its own."""
    plain = s.covers and s.base is None and s.along is None
    return bool(s.reductions) and plain and not (s.is_arg or s.is_ragged or is_contraction(s))


def _crosses(s: Statement, extents: Sequence[Size], places: Axes, made: set[str]) -> bool:
    """Whether a statement folds exactly the axes of rows, wherever it reads what these have."""
    reduced = {r.name: r.high for r in s.reductions}
    *accesses, _ = s.plain_accesses()
    shared = [(plain, places[t]) for t, plain in accesses if t in places]
    if any(t in made and t not in places for t, _ in accesses):
        return False
    found = {tuple(_at(plain, where)) for plain, where in shared}
    if len(found) != 1:
        return False
    (rows,) = found
    return set(rows) == set(reduced) and [reduced[n] for n in rows if n in reduced] == [*extents]


def _at(plain: tuple[str | None, ...], where: tuple[int, ...]) -> list[str | None]:
    return [plain[d] for d in where]
