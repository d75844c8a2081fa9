"""Statements that run with a window: others over the same window, and pointwise ones behind it.

    M(h, w) max=! I(2*h + i, 2*w + j)      P(y, x) argmax=! I(2*y + a, 2*x + b)
    O(v, u) = (2*v + P(v, u) / 3) * W + 2*u + P(v, u) % 3

All are told in the indices of the first.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from tcdsl.codegen.program.affine import affine_of
from tcdsl.codegen.program.expressions import map_typed
from tcdsl.codegen.program.program import Statement
from tcdsl.grammar.types import typed
from tcdsl.grammar.types.typed import Range


def windows_of(first: Statement, rest: Sequence[Statement]) -> tuple[Statement, ...] | None:
    """Return the first statements, those that reduce, over the window of the very first.

    None if one of them has another window, or reads what another one makes.
    """
    out = [first]
    for s in rest:
        if not s.reductions or not first.reductions:
            break
        names = _same_window(first, s)
        made = {x.target for x in out}
        if names is None or any(r.tensor in made for r in s.reads()) or s.base in made:
            return None
        out.append(_renamed(s, names, first.ranges))
    return tuple(out)


def _same_window(first: Statement, s: Statement) -> dict[str, str] | None:
    aims, own = _plain(first), _plain(s)
    if None in aims or None in own or len(aims) != len(own):
        return None
    names = {b: a for a, b in zip(aims, own, strict=True) if a is not None and b is not None}
    names |= {b.name: a.name for a, b in zip(first.reductions, s.reductions, strict=False)}
    if len(names) != len(s.ranges) or len({*names.values()}) != len(first.ranges):
        return None
    return names if _have_same_values(first, s, names) else None


def finishes(
    first: Statement, made: Collection[str], rest: Sequence[Statement]
) -> tuple[Statement, ...] | None:
    """Return pointwise statements on what windows make, in the first one's indices, or None."""
    made, out = {*made}, []
    aims = _plain(first)
    for s in rest:
        plain = _plain(s)
        if s.op != "=" or s.reductions or s.base is not None or not s.covers or None in plain:
            return None
        if len(s.outputs) != len(first.outputs) or len(set(plain)) != len(s.outputs):
            return None
        names = None if None in aims else _meeting(s, made, aims)
        if names is None or not _have_same_values(first, s, names):
            return None
        out.append(_renamed(s, names, first.outputs))
        made.add(s.target)
    return tuple(out)


def _plain(s: Statement) -> list[str | None]:
    return [a.plain if (a := affine_of(e)) is not None else None for e in s.subs]


def _meeting(s: Statement, made: Collection[str], aims: list[str | None]) -> dict[str, str] | None:
    """Return the indices of a statement by those of the one whose elements it reads."""
    found: dict[str, str] = {}
    for read in s.reads():
        if read.tensor not in made:
            continue
        for sub, aim in zip(read.subs, aims, strict=True):
            a = affine_of(sub)
            if a is None or a.plain is None or aim is None:
                return None
            if found.setdefault(a.plain, aim) != aim:
                return None
    names = {r.name for r in s.outputs}
    complete = set(found) == names and len(set(found.values())) == len(names)
    return found if complete else None


def _have_same_values(first: Statement, s: Statement, names: Mapping[str, str]) -> bool:
    ranges = {r.name: r for r in first.ranges}
    pairs = ((r, ranges[names[r.name]]) for r in s.ranges)
    return all((a.low, a.high, a.kind) == (b.low, b.high, b.kind) for a, b in pairs)


def _renamed(s: Statement, names: Mapping[str, str], ranges: tuple[Range, ...]) -> Statement:
    def one(e: typed.Expr) -> typed.Expr:
        if isinstance(e, typed.IndexValue) and e.name in names:
            return replace(e, name=names[e.name])
        return e

    subs = tuple(map_typed(e, one) for e in s.subs)
    return replace(s, value=map_typed(s.value, one), subs=subs, ranges=ranges)
