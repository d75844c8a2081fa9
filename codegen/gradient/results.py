"""Temporaries that a result copies are that result.

    a(n) +=! d_L * D(n)                 d_X(n) +=! d_L * D(n)
    d_T(n) = -a(n)               ->     d_T(n) = -d_X(n)
    d_X(n) = a(n)

A pass over memory less, and memory for one tensor less.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from tcdsl.codegen.gradient.lines import Line, Part, copied, map_line, to_read, walk
from tcdsl.codegen.gradient.versions import Version


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
        if not isinstance(line, Line) or line.target not in results:
            continue
        name = copied(line, values)
        if name is None or name in kept or name in results:
            continue
        if values[name].dtype.is_half:  # only a result is rounded, when all is added up
            continue
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


def _renamed(line: Line, old: str, new: str) -> Line:
    moved = map_line(line, to_read(new, instead_of=old), lambda s: s)
    return replace(moved, target=new) if line.target == old else moved
