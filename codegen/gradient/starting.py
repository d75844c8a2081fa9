"""Sums that begin with their first terms instead of zeros, where those reach every element.

d_W(i, k) = 0.0                                  d_W(i, k) +=! d_O(t, i) * X(t, k)
d_W(i, k) += d_O(t, i) * X(t, k)           ->

a_G(g, n) = 0.0 where g in 0:2                   a_G(0, n) = a(n) * y(n)
a_G(0, n) += a(n) * y(n)                   ->    a_G(1, n) = a(n) * x(n)
a_G(1, n) += a(n) * x(n)

`op=!` on a part of a tensor begins that part only: the other elements stay. So parts that together
are the box (`O(2 * y)` and `O(2 * y + 1)`) need no fill before them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from tcdsl.codegen.gradient import build as g
from tcdsl.codegen.gradient.lines import Line, Loop, Part, walk
from tcdsl.codegen.gradient.versions import Version
from tcdsl.codegen.program.expressions import indices_of
from tcdsl.grammar.check.symbolic import SymbolicValues
from tcdsl.grammar.proofs.sizes import Size
from tcdsl.grammar.types import typed

Slice = tuple[Size | None, ...]  # a position for each dimension, None for all of it


def started(
    parts: Sequence[Part], values: Mapping[str, Version], *, in_loop: bool = False
) -> list[Part]:
    """Return parts without the zeros that others overwrite before anything reads them."""
    out = [
        replace(p, body=tuple(started(p.body, values, in_loop=True))) if isinstance(p, Loop) else p
        for p in parts
    ]
    at = 0
    while at < len(out):
        first = out[at]
        after = _started(first, out[at + 1 :], values) if isinstance(first, Line) else None
        if after is None:
            at += 1
        else:
            out[at:] = after
    if not in_loop:
        return out
    return [_assigned(p, values) if isinstance(p, Line) else p for p in out]


def _started(zero: Line, parts: Sequence[Part], values: Mapping[str, Version]) -> list[Part] | None:
    """Return the parts behind a line of zeros so that they do without it, None if they cannot."""
    name = zero.target
    whole = _slice(zero, values)
    if zero.op != "=" or not g.is_number(zero.value, 0) or whole is None:
        return None
    out = [*parts]
    begun: list[Slice] = []
    for at, part in enumerate(parts):
        touches = any(
            x.target == name or any(r.tensor == name for r in x.reads()) for x in walk((part,))
        )
        if not touches:
            continue
        here = _slice(part, values) if isinstance(part, Line) else None
        if not isinstance(part, Line) or here is None or part.op != "+=":
            return None
        if any(r.tensor == name for r in part.reads()):
            return None
        if here in begun:
            continue
        if not _is_in(here, whole) or not all(_apart(here, x) for x in begun):
            return None
        begun.append(here)
        out[at] = replace(part, op="+=!")
        if _is_all(begun, whole, values[name].shape):
            return out
    return None


def _assigned(line: Line, values: Mapping[str, Version]) -> Line:
    """Return a sum of one term each as an assignment: in a loop that saves a pass."""
    told = {n for e in line.subs for n in indices_of(e)}
    is_one = all(r.name in told for r in line.ranges)
    if line.op == "+=!" and is_one and _slice(line, values) is not None:
        return replace(line, op="=")
    return line


def _slice(line: Line, values: Mapping[str, Version]) -> Slice | None:
    """Return what a line writes, each element once; None if that is no slice."""
    if line.is_ragged_scatter:
        return None
    told = {n for e in line.subs for n in indices_of(e)}
    spans = {r.name: r for r in line.ranges if r.name in told}
    found: list[Size | None] = []
    for e, extent in zip(line.subs, values[line.target].shape, strict=True):
        if isinstance(e, typed.IndexValue):
            r = spans.pop(e.name, None)
            if r is None or r.low != Size() or r.high != extent:
                return None
            found.append(None)
            continue
        value = SymbolicValues().of(e)
        names = set(value.symbols())
        if any(n.startswith("?") or n in told for n in names):
            return None
        found.append(value)
    return None if spans else tuple(found)


def _apart(a: Slice, b: Slice) -> bool:
    return any(
        x is not None and y is not None and (x - y).constant not in (None, 0)
        for x, y in zip(a, b, strict=True)
    )


def _is_in(here: Slice, whole: Slice) -> bool:
    return all(y is None or x == y for x, y in zip(here, whole, strict=True))


def _is_all(slices: Sequence[Slice], whole: Slice, shape: Sequence[Size]) -> bool:
    """Whether slices that are apart are all of one: that one, or all positions of a dimension."""
    if whole in slices:
        return True
    fixed = [[d for d, (x, y) in enumerate(zip(s, whole, strict=True)) if x != y] for s in slices]
    if any(f != fixed[0] for f in fixed) or len(fixed[0]) != 1:
        return False
    (d,) = fixed[0]
    return shape[d].constant == len(slices)
