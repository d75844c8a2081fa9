"""Which statements can share the loops over some of their output indices.

Softmax: all four statements keep `n`, and whatever one reads of another lies at its own `n`, so
they can run for one row after the other.

    mx(n) max=! A(n,m)              s(n) +=! E(n,m)
    E(n,m) = exp(A(n,m) - mx(n))    O(n,m) = E(n,m) / s(n)
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import takewhile

from tcdsl.codegen.program.affine import affine_of
from tcdsl.codegen.program.expressions import indices_of
from tcdsl.codegen.program.inline import is_contraction
from tcdsl.codegen.program.program import PlainAccess, Statement
from tcdsl.grammar.types import typed
from tcdsl.grammar.types.typed import Range

Names = dict[str, str]  # from a shared axis to an output index of a statement
Dims = dict[str, int]  # from a shared axis to a dimension of a version


def has_epilogue(statements: Sequence[Statement]) -> bool:
    """Whether a reduction is followed by pointwise statements on its points, over the same box.

    Or several over one window, a maximum and its place, or several totals of the same elements, and
    whatever follows these.
    """
    first, *later = statements
    if not first.reductions or not first.covers or first.base is not None:
        return False
    heads = _over_one_window(statements) or _totals(statements)
    if first.is_arg and not heads:
        return False
    later = later[max(0, len(heads) - 1) :]
    made = {first.target, *(s.target for s in heads)}
    for s in later:
        if s.op != "=" or s.reductions or not s.covers or s.along:
            return False
        names = [affine_of(e) for e in s.subs]
        at = [[affine_of(e) for e in r.subs] for r in s.reads() if r.tensor in made]
        if not at or not all(a == names and all(x and x.plain for x in a) for a in at):
            return False
        made.add(s.target)
    return len(statements) > 1


def _over_one_window(statements: Sequence[Statement]) -> list[Statement]:
    """Return the first statements, those that reduce what slides over the same window."""
    first = statements[0]
    spans = [(r.low, r.high, r.kind) for r in first.ranges]
    heads = [*takewhile(lambda s: s.reductions, statements)]
    made = {s.target for s in heads}
    alike = all(
        s.covers
        and s.base is None
        and slides(s.reads(), s.ranges)
        and [(r.low, r.high, r.kind) for r in s.ranges] == spans
        and all(r.tensor not in made for r in s.reads())
        and not (s.is_ragged or s.along or is_contraction(s))
        for s in heads
    )
    return heads if alike else []


def _totals(statements: Sequence[Statement]) -> list[Statement]:
    """Return the first statements, those that reduce all of the same elements to a number each."""
    heads = [*takewhile(lambda s: s.reductions, statements)]
    made = {s.target for s in heads}
    reads = [frozenset((r.tensor, r.subs) for r in s.reads() if r.subs) for s in heads]
    alike = all(
        not s.outputs
        and s.base is None
        and _has_rows(s)
        and s.ranges == heads[0].ranges
        and read == reads[0]
        and made.isdisjoint(r.tensor for r in s.reads())
        for s, read in zip(heads, reads, strict=True)
    )
    return heads if alike and len(heads) > 1 else []


def slides(reads: Iterable[typed.Read], ranges: Iterable[Range]) -> bool:
    """Whether a reduction moves what is read where an output index does: `I(h + i)`."""
    kinds = {r.name: r.kind for r in ranges}
    outputs = {n for n, kind in kinds.items() if kind == "output"}
    reduced = {n for n, kind in kinds.items() if kind == "reduction"}
    found = (indices_of(e) for r in reads for e in r.subs)
    return any(x & outputs and x & reduced for x in found)


def kept_indices(statements: Sequence[Statement]) -> tuple[Names, ...] | None:
    """Return the indices that statements share, or None if they cannot share loops over them.

    For each statement a mapping from the name of a shared axis (an output index of the statement
    with the fewest of them) to its own output index. Everything that one statement reads of
    another lies at the same values of the shared indices. None of them is a contraction, and each
    is connected to the others by what it reads.
    """
    if not all(map(_has_rows, statements)):
        return None
    found = _share(statements, seed_of(statements))
    return None if isinstance(found, int) else found


def shared_points(statements: Sequence[Statement]) -> tuple[Names, ...] | None:
    """Return the indices that pointwise statements share where these are all that they have."""
    if len({len(s.outputs) for s in statements}) > 1:
        return None
    found = _share(statements, 0)
    return None if isinstance(found, int) else found


def seed_of(statements: Sequence[Statement]) -> int:
    """Return the position of the statement whose output indices are the axes: the fewest."""
    return min(range(len(statements)), key=lambda k: len(statements[k].outputs))


def outsider(statements: Sequence[Statement], seed: int) -> int | None:
    """Return the position of a statement that cannot share the axes of the seed, None if all do."""
    alone = next((k for k, s in enumerate(statements) if not _has_rows(s)), None)
    if alone is not None:
        return alone
    found = _share(statements, seed)
    return found if isinstance(found, int) else None


def _has_rows(s: Statement) -> bool:
    return s.covers and s.along is None and not (s.is_arg or s.is_ragged or is_contraction(s))


def _share(statements: Sequence[Statement], seed: int) -> tuple[Names, ...] | int:
    """Return the shared indices of all statements, or the first that does not have them."""
    axes = [r.name for r in statements[seed].outputs]
    if not axes:
        return seed
    accesses = [s.plain_accesses() for s in statements]
    outputs = [frozenset(r.name for r in s.outputs) for s in statements]
    names: list[Names] = [{} for _ in statements]
    names[seed] = dict(zip(axes, axes, strict=True))
    # Of each version made here, the dimension of each axis; of inputs as well, but these only
    # suggest what belongs together: the two statements that read A(n,m) share n.
    made: dict[str, Dims] = {s.target: {} for s in statements}
    read: dict[str, Dims] = {}
    # without a fold, an input in common is no reason to give up points that could be tasks
    folds = any(s.reductions for s in statements)
    while True:
        before = [dict(m) for m in names]
        for k, mine in enumerate(names):
            if not _spread(accesses[k], outputs[k], mine, made):
                return k
        if names != before:
            continue
        for at, mine in zip(accesses, names, strict=True):
            if len(mine) == len(axes):
                _learn(at, mine, read, made)
        # one at a time: what it is told may tell others more than an input can
        if not any(
            _suggest(at, own, mine, read, made, len(axes))
            for at, own, mine in zip(accesses, outputs, names, strict=True)
            if len(mine) != len(axes) and (folds or len(own) == len(axes))
        ):
            break
    spans = [{r.name: (r.low, r.high) for r in s.outputs} for s in statements]
    for k, mine in enumerate(names):
        if len(mine) != len(axes) or not _is_aligned(accesses[k], mine, made):
            return k
        if any(spans[k][mine[axis]] != spans[seed][axis] for axis in axes):
            return k
    return tuple(names)


def _spread(
    accesses: Sequence[PlainAccess], outputs: frozenset[str], mine: Names, made: dict[str, Dims]
) -> bool:
    """Carry axes between a statement and the versions it touches; false on a contradiction."""
    for tensor, plain in accesses:
        if tensor not in made:
            continue
        for axis, d in made[tensor].items():
            name = plain[d]
            if name not in outputs or mine.setdefault(axis, name) != name:
                return False
        for axis, name in mine.items():
            if name not in plain:
                return False
            d = plain.index(name)
            if made[tensor].setdefault(axis, d) != d:
                return False
    return True


def _learn(
    accesses: Sequence[PlainAccess], mine: Names, read: dict[str, Dims], made: dict[str, Dims]
) -> None:
    """Learn from a finished statement where inputs have the axes."""
    for tensor, plain in _inputs(accesses, made):
        where = {axis: plain.index(n) for axis, n in mine.items() if n in plain}
        if len(where) == len(mine):
            read.setdefault(tensor, where)


def _suggest(
    accesses: Sequence[PlainAccess],
    outputs: frozenset[str],
    mine: Names,
    read: dict[str, Dims],
    made: dict[str, Dims],
    count: int,
) -> bool:
    """Finish a statement by where inputs have the axes, if that tells."""
    for tensor, plain in _inputs(accesses, made):
        found = {axis: plain[d] for axis, d in read.get(tensor, {}).items()}
        chosen = {axis: n for axis, n in found.items() if n is not None and n in outputs}
        fits = all(chosen.get(axis) == n for axis, n in mine.items())
        if len(set(chosen.values())) == count and fits:
            mine.update(chosen)
            return True
    return False


def _inputs(accesses: Sequence[PlainAccess], made: dict[str, Dims]) -> list[PlainAccess]:
    """Return what a statement touches of versions that are not made here."""
    return [t for t in accesses if t[0] not in made]


def _is_aligned(accesses: Sequence[PlainAccess], mine: Names, made: dict[str, Dims]) -> bool:
    """Whether every version made here is touched at the reader's own shared indices."""
    for tensor, plain in accesses:
        if any(plain[d] != mine[axis] for axis, d in made.get(tensor, {}).items()):
            return False
    return True
