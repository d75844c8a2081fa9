"""Chains in a program: a product, statements along its rows, a product of what these leave.

    S(p, i, j) +=! Q(p, i, d) * K(p, j, d)                      the scores: a row for each p, i
    M(p, i) max=! S(p, i, j)                                    along a row
    E(p, i, j) = exp(S(p, i, j) - M(p, i))                      along a row
    O(p, i, d) +=! E(p, i, j) * V(p, j, d) where j in 0:i + 1   the rows of O

Nothing but rows of the chain is between them, so a block of rows goes through all of them while it
lies in cache. Where all that reads a row stops at one column, `i + 1` here, nobody needs the rest:
the longest row may be shorter than the scores are, `j in 0:i`, or where K has a size of its own.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from tcdsl.codegen.program.affine import affine_of
from tcdsl.codegen.program.decided import Sizes
from tcdsl.codegen.program.expressions import walk_typed
from tcdsl.codegen.program.group import Group
from tcdsl.codegen.program.inline import is_contraction
from tcdsl.codegen.program.program import Program, Statement
from tcdsl.codegen.program.ssa import identity_of
from tcdsl.codegen.program.triangles import NEAR
from tcdsl.grammar.proofs.signs import constants, is_nonnegative, substitute_symbols
from tcdsl.grammar.proofs.sizes import Size
from tcdsl.grammar.text.dataclass import dataclass
from tcdsl.grammar.types import typed


@dataclass(frozen=True, slots=True)
class Chain:
    """A group as a chain.

    stop: the statements along rows are [1, stop) of the group's. scores_at: the indices of the
    first product: those that tell matrices apart, that of the row, that of the column. rows_at:
    what all but the last are called in the second product. tiles: what is made and read by rows
    alone, and whether it has an element for each column. limit: columns from `row + limit` on are
    of no use to the second product; None where all of them are, or somebody else reads them.
    """

    group: Group
    stop: int
    scores_at: tuple[str, ...]
    rows_at: tuple[str, ...]
    tiles: Mapping[str, bool]
    limit: Size | None

    @property
    def kept(self) -> frozenset[str]:
        """What of that somebody else reads too: it lies in memory, the rest in the tile."""
        return frozenset(self.tiles).difference(self.group.local)

    @property
    def scores(self) -> Statement:
        """The first product."""
        return self.group.statements[0]

    @property
    def product(self) -> Statement:
        """The second product."""
        return self.group.statements[self.stop]

    def parts(self) -> tuple[Group, Group, Group]:
        """Return the three parts as groups; what asks for columns of use no longer does."""
        count = len(self.group.statements)
        head, rows, tail = (
            self.group.part(*span) for span in ((0, 1), (1, self.stop), (self.stop, count))
        )
        if self.limit is None:
            return head, rows, tail
        column = next(r.high for r in self.scores.ranges if r.name == self.scores_at[-1])
        along = tuple(_unlimited(s, column) for s in rows.statements)
        return head, replace(rows, statements=along), tail


def chain_of(program: Program, group: Group, sizes: Sizes) -> Chain | None:
    """Return a group as a chain at these sizes, or None where it is none."""
    products = [n for n, s in enumerate(group.statements) if is_contraction(s)]
    if len(products) != 2 or products[0] != 0 or products[1] < 2:
        return None
    stop, scores = products[1], group.statements[0]
    at = _plain(scores.subs)
    if at is None or len(at) < 2 or scores.op != "+=!" or scores.is_ragged or not scores.covers:
        return None
    if {r.name for r in scores.outputs} != set(at) or len(set(at)) != len(at):
        return None
    if any(r.low != Size() for s in group.statements for r in s.ranges):
        return None
    ranges = {r.name: r.high for r in scores.ranges}
    rows, row = tuple(ranges[n] for n in at[:-1]), (ranges[at[-1]],)
    tiles = {scores.target: True}
    for s in group.statements[1:stop]:
        by_column = _along(s, tiles, rows, row)
        if by_column is None or s.base is not None:
            return None
        tiles[s.target] = by_column
    places = {_places(s, tiles, rows, row) for s in group.statements[stop:]} - {()}
    homes = [program.buffer(n).home for n in tiles]
    homes += {program.buffer(s.target).home for s in group.statements[stop:]}
    written = _plain(group.statements[stop].subs)
    if None in places or len(places) != 1 or len(set(homes)) != len(homes) or written is None:
        return None
    taken = tuple(written[n] for n in places.pop() or ())
    by = constants(tuple((n, v) for n, v in sizes if n not in program.scalars))
    limit = _limit(group.statements, stop, tiles, by)
    if limit is not None and not _is_held(program, limit, rows[-1], row[0], by):
        limit = None  # what a call says, or what may wrap
    if any(tiles[s.target] and s.target not in group.local for s in group.statements[1:stop]):
        limit = None
    ends = _ends(group.statements, stop, tiles) - {*row}
    if ends and (limit is None or not _are_ends(ends, rows[-1], row[0], limit, by)):
        return None
    return Chain(group, stop, at, taken, tiles, limit)


def _plain(subs: Sequence[typed.Expr]) -> tuple[str, ...] | None:
    """Return the indices that subscripts are."""
    names = [e.name for e in subs if isinstance(e, typed.IndexValue)]
    return tuple(names) if len(names) == len(subs) else None


def _extents(s: Statement, names: Sequence[str]) -> tuple[Size, ...]:
    by_name = {r.name: r.high for r in s.ranges}
    return tuple(by_name[n] for n in names)


def _along(
    s: Statement, tiles: Mapping[str, bool], rows: tuple[Size, ...], row: tuple[Size, ...]
) -> bool | None:
    """Whether a statement along rows has a value for each column; None if it leaves its row."""
    at = _plain(s.subs)
    if at is None or s.is_arg or s.along or s.is_ragged or not s.covers:
        return None
    if len(set(at)) != len(at) or {r.name for r in s.outputs} != set(at):
        return None
    extents, places = _extents(s, at), _places(s, tiles, rows, row)
    if extents not in (rows, rows + row) or places not in ((), tuple(range(len(rows)))):
        return None
    return extents == rows + row


def _places(
    s: Statement, tiles: Mapping[str, bool], rows: tuple[Size, ...], row: tuple[Size, ...]
) -> tuple[int, ...] | None:
    """Return the places of the row that a statement reads among its subscripts on the left.

    () where it reads no row, None where it reads anything else of a chain, or several rows.
    """
    written = _plain(s.subs)
    found: set[tuple[str, ...]] = set()
    for r in s.reads():
        if r.tensor not in tiles:
            continue
        at = _plain(r.subs)
        if at is None or written is None or len(set(at)) != len(at):
            return None
        by_column = tiles[r.tensor]
        mine = at[:-1] if by_column else at
        if not set(mine) <= set(written) or _extents(s, mine) != rows:
            return None
        found.add(mine)
    if len(found) > 1:
        return None
    return tuple(written.index(n) for n in found.pop()) if found and written is not None else ()


def _ends(statements: Sequence[Statement], stop: int, tiles: Mapping[str, bool]) -> set[Size]:
    """Return where the rows end that are read, and all that are folded, those of others too."""
    folded = {r.high for s in statements[1:stop] for r in s.reductions}
    read = {
        end
        for s in statements[1:]
        for r in s.reads()
        if tiles.get(r.tensor)
        for end in _extents(s, (_plain(r.subs) or ())[-1:])
    }
    return folded | read


def _are_ends(
    ends: Collection[Size], rows: Size, columns: Size, limit: Size, by: Mapping[str, Size]
) -> bool:
    """Whether rows that end there do so behind the last column of use, and inside of the scores."""

    def reaches(x: Size, y: Size) -> bool:
        return is_nonnegative(substitute_symbols(x - y, by))

    of_use = rows + limit - 1  # of the last row
    return all(reaches(columns, x) and (reaches(x, of_use) or reaches(x, columns)) for x in ends)


def _is_held(
    program: Program, limit: Size, rows: Size, columns: Size, by: Mapping[str, Size]
) -> bool:
    """Whether a limit is that of all calls, and rows + limit a number of int32.

    Of sizes below `FAR` it is, near the diagonal or near the last row's last column.
    """
    apart = (substitute_symbols(x, by).constant for x in (limit, limit - columns + rows))
    near = any(x is not None and abs(x) <= NEAR for x in apart)
    return near and {*limit.symbols()} <= {*program.sizes}.difference(program.scalars)


def _limit(
    statements: Sequence[Statement], stop: int, tiles: Mapping[str, bool], by: Mapping[str, Size]
) -> Size | None:
    """Return how far behind its row's number the last column of use lies; None if all are.

    Each sum and extreme of rows has a say, also one that reads nothing of the chain.
    """
    folds = [s for s in statements[1 : stop + 1] if s.reductions]
    for s in statements[stop + 1 :]:
        if any(tiles.get(r.tensor) for r in s.reads()):
            return None
    found = {_own_limit(s, tiles) for s in folds}
    limits = {None if x is None else substitute_symbols(x, by) for x in found}
    return limits.pop() if len(limits) == 1 else None


def _own_limit(s: Statement, tiles: Mapping[str, bool]) -> Size | None:
    """Return the limit of a statement that folds rows, those of others too."""
    read = next((r for r in s.reads() if tiles.get(r.tensor)), None)
    at = _plain(s.subs if read is None else read.subs)
    if at is None or len(s.reductions) != 1:
        return None
    if read is None:
        at = (*at, s.reductions[0].name)
    if at[-1] != s.reductions[0].name:
        return None
    if s.is_ragged:
        ragged = [r for r in s.ranges if r.bounds is not None]
        if len(ragged) != 1 or ragged[0].name != at[-1] or ragged[0].is_guess:
            return None
        assert ragged[0].bounds is not None
        low, high = map(affine_of, ragged[0].bounds)
        if low is None or low.terms or low.const != Size() or high is None:
            return None
        return high.const if high.terms == ((at[-2], 1),) else None
    found = _condition(s)
    return found[1] if found is not None and found[0] == (at[-1], at[-2]) else None


def _condition(s: Statement) -> tuple[tuple[str, str], Size] | None:
    """Return (column, row) and c of a fold of `column < row + c ? value : nothing`."""
    value = s.value
    if not isinstance(value, typed.Select) or not s.reductions or s.is_ragged:
        return None
    if value.other != typed.Lit(identity_of(s.op, value.dtype), value.dtype):
        return None
    match value.cond:
        case typed.Binary("<" | "<=" as op, typed.IndexValue(column), bound):
            a = affine_of(bound)
            if a is None or len(a.terms) != 1 or a.terms[0][1] != 1:
                return None
            if any(isinstance(x, typed.Binary) and x.op == "/" for x in walk_typed(bound)):
                return None  # of a number that may have wrapped; sums and products wrap back
            return (column, a.terms[0][0]), a.const + (op == "<=")
    return None


def _unlimited(s: Statement, columns: Size) -> Statement:
    """Return a fold of whole rows without its condition, which holds wherever a row is walked."""
    found = _condition(s)
    if found is None:
        return s
    assert isinstance(s.value, typed.Select)
    (column, _), _ = found
    ranges = tuple(replace(r, high=columns) if r.name == column else r for r in s.ranges)
    return replace(s, ranges=ranges, value=s.value.then)
