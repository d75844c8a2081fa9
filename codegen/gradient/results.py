"""Temporaries that a result copies are that result.

    a(n) +=! d_L * D(n)                 d_X(n) +=! d_L * D(n)
    d_T(n) = -a(n)               ->     d_T(n) = -d_X(n)
    d_X(n) = a(n)

A pass over memory less, and memory for one tensor less.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from tcdsl.codegen.gradient.lines import Line, Part, map_line, to_read, walk
from tcdsl.codegen.gradient.versions import Version
from tcdsl.grammar.proofs.sizes import Size
from tcdsl.grammar.types import typed


def without_copied(
    parts: Sequence[Part],
    values: Mapping[str, Version],
    results: Collection[str],
    kept: Collection[str],
) -> list[Part]:
    """Return parts without temporaries of which a result is a copy.

    results: what the text returns. kept: what else has to be written under its name.
    """
    out = [*parts]
    for at in reversed(range(len(out))):
        line = out[at]
        name = _copied(line, values) if isinstance(line, Line) and line.target in results else None
        if name is None or name in kept or name in results:
            continue
        assert isinstance(line, Line)
        rest = [p for k, p in enumerate(out) if k != at]
        lines = [*walk(rest)]
        written = [x for x in lines if x.target == name]
        if any(x.target == line.target for x in lines) or not written:
            continue
        if any(r.tensor == line.target for x in lines for r in x.reads()):
            continue
        # the copy takes what all lines before it have left; none behind it may write there
        if any(x.target == name for x in walk(out[at + 1 :])) or not all(map(_is_line, rest)):
            continue
        out = [_renamed(p, name, line.target) for p in rest if isinstance(p, Line)]
    return out


def _is_line(part: Part) -> bool:
    return isinstance(part, Line)


def _copied(line: Line, values: Mapping[str, Version]) -> str | None:
    """Return what a line copies element by element, as a whole; None if it is no such line."""
    value = line.value
    if line.op not in ("=", "+=!") or line.is_ragged or not isinstance(value, typed.Read):
        return None
    if value.tensor not in values:
        return None
    mine, its = values[line.target], values[value.tensor]
    if value.subs != line.subs or mine.shape != its.shape:
        return None
    if mine.dtype != its.dtype or mine.dtype.is_half or value.dtype != mine.dtype:
        return None
    names = [e.name for e in line.subs if isinstance(e, typed.IndexValue)]
    spans = {r.name: r for r in line.ranges}
    if len({*names}) != len(mine.shape) or {*names} != {*spans}:
        return None
    ends = zip(names, mine.shape, strict=True)
    is_whole = all(spans[n].low == Size() and spans[n].high == e for n, e in ends)
    return value.tensor if is_whole else None


def _renamed(line: Line, old: str, new: str) -> Line:
    moved = map_line(line, to_read(new, instead_of=old), lambda s: s)
    return replace(moved, target=new) if line.target == old else moved
