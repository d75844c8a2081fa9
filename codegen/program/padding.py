"""Temporaries that are zero paddings, and their readers as if every element existed.

    P(n, c, y) = 0 <= y - 1 && y - 1 < H ? I(n, c, y - 1) : 0
    O(n, f, h) +=! P(n, c, h + i) * K(f, c, i)

A sum of products need not have the copy: it is that of `I(n, c, h + i - 1) * K(f, c, i)` over the
points at which `0 <= h + i - 1 < H`. Points left out add zero, if the other factor is finite there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tcdsl.codegen.program.affine import Affine, affine_of
from tcdsl.codegen.program.expressions import conjuncts, map_typed, walk_typed
from tcdsl.codegen.program.group import Group
from tcdsl.codegen.program.inline import is_contraction, with_value
from tcdsl.codegen.program.program import Statement
from tcdsl.codegen.program.subscripts import tile_of
from tcdsl.grammar.proofs.sizes import Size
from tcdsl.grammar.text.dataclass import dataclass
from tcdsl.grammar.types import typed


@dataclass(frozen=True, slots=True)
class Guard:
    """`low <= at < high`, where at is an affine map of indices; None: no bound on that side."""

    at: Affine
    low: Size | None
    high: Size | None


@dataclass(frozen=True, slots=True)
class Unpadded:
    """A group without the temporary it began with, and when the elements it reads exist.

    buffer: the tensor that was padded; the first statement of the group reads it. At points where
    a guard does not hold there is no element, and the product is left out.
    """

    group: Group
    buffer: str
    guards: tuple[Guard, ...]


def is_padding(s: Statement) -> bool:
    """Whether a statement is one read inside bounds that are affine, and zero elsewhere."""
    return padding_of(s) is not None


def padding_of(s: Statement) -> tuple[typed.Read, tuple[Guard, ...]] | None:
    """Return what a padding reads, and when; None of a statement that is none."""
    if s.op != "=" or not s.covers or s.base is not None:
        return None
    return _padding(s.value)


def has_padding(statements: Sequence[Statement]) -> bool:
    """Whether a padding is followed by a contraction that reads it."""
    if len(statements) < 2 or not is_padding(statements[0]):
        return False
    first, second = statements[:2]
    return is_contraction(second) and any(r.tensor == first.target for r in second.reads())


def pieces(statements: Sequence[Statement], shape: Sequence[Size]) -> tuple[range, ...]:
    """Return contractions that write the elements of one tensor in turns, or nothing.

        D(2*x)   +=! P(x) * K(..)           P(x) = x < W ? G(x) : 0
        D(2*x+1) +=! P(x + i) * L(..)

    Each is given by its positions, with the padding that it reads before it. No two write one
    element, and each leaves those of the others as they are, so that they may run in any order.
    """
    out: list[range] = []
    while (start := out[-1].stop if out else 0) < len(statements):
        padded = has_padding(statements[start : start + 2])
        out.append(range(start, start + (2 if padded else 1)))
        last = statements[out[-1][-1]]
        if not last.op.endswith("!") or not is_contraction(last):
            return ()
    return tuple(out) if _take_turns([statements[span[-1]] for span in out], shape) else ()


def are_pieces_apart(statements: Sequence[Statement], shape: Sequence[Size]) -> bool:
    """Whether statements that are no contractions write the elements of one tensor in turns.

    D(2*x)   +=! P(x) == 1 ? G(x) : 0
    D(2*x+1) +=! P(x + i) == 2 * i ? G(x + i) : 0
    """
    anew = (s.op.endswith("!") and not (s.is_arg or is_contraction(s)) for s in statements)
    return all(anew) and _take_turns(statements, shape)


def _take_turns(made: Sequence[Statement], shape: Sequence[Size]) -> bool:
    if len(made) < 2 or any(len(s.subs) != len(shape) for s in made):
        return False
    tiles = [tile_of(s.subs, s.outputs, shape) for s in made]
    steps = {None if tile is None else tuple(step for step, _ in tile) for tile in tiles}
    if None in steps or len(steps) > 1 or len({*tiles}) < len(tiles):
        return False
    return [s.base for s in made[1:]] == [s.target for s in made[:-1]]


def unpadded(group: Group) -> Unpadded | None:
    """Return a group that begins with a padding without it, or None if it begins otherwise.

    The padded temporary must be local to the group, and be read once.
    """
    if not _is_read_once(group):
        return None
    padding, reader, *later = group.statements
    whole = with_value(reader, padding)
    chosen = [x for x in walk_typed(whole.value) if isinstance(x, typed.Select)]
    found = _padding(chosen[0]) if len(chosen) == 1 else None
    if found is None:
        return None
    read, guards = found

    def one(e: typed.Expr) -> typed.Expr:
        return read if e == chosen[0] else e

    bare = replace(whole, value=map_typed(whole.value, one))
    local = tuple(n for n in group.local if n != padding.target)
    origins = (tuple(m for o in group.origins[:2] for m in o), *group.origins[2:])
    return Unpadded(Group(group.members, (bare, *later), local, origins), read.tensor, guards)


def _is_read_once(group: Group) -> bool:
    """Whether a group begins with a padding that nobody needs but its contraction, once."""
    padding, *rest = group.statements
    if not has_padding(group.statements) or padding.target not in group.local:
        return False
    reads = [r for s in rest for r in s.reads() if r.tensor == padding.target]
    return len(reads) == 1 and rest[0].base != padding.target


def _padding(e: typed.Expr) -> tuple[typed.Read, tuple[Guard, ...]] | None:
    """Return what is read and when, if e is `inside ? read : 0`."""
    match e:
        case typed.Select(cond, typed.Read() as read, typed.Lit(value)) if value == 0:
            guards = _guards(cond)
            if guards is not None and not any(read.checked):
                return read, guards
    return None


def _guards(cond: typed.Expr) -> tuple[Guard, ...] | None:
    """Return a conjunction of comparisons as guards, one for each subscript."""
    found: dict[Affine, Guard] = {}
    for part in conjuncts(cond):
        match part:
            case typed.Binary((">=" | "<") as op, lhs, rhs):
                at, bound = affine_of(lhs), affine_of(rhs)
            case _:
                return None
        if at is None or bound is None or bound.terms:
            return None
        old = found.get(at, Guard(at, None, None))
        if (old.low if op == ">=" else old.high) is not None:
            return None
        found[at] = replace(old, low=bound.const) if op == ">=" else replace(old, high=bound.const)
    return tuple(found.values())
