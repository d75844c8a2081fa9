"""Sums into half outputs: what is kept in float32 is added up in float32 and rounded once.

s +=! C(m) * C(m)   ->   s_sum +=! C(m) * C(m)        where C, a temporary of the definition,
s = float16(s_sum)           is now an output of type float32
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from tcdsl.codegen.gradient.combine import computed
from tcdsl.codegen.gradient.gather import clamped
from tcdsl.codegen.gradient.lines import Line, Loop, Part, walk
from tcdsl.codegen.gradient.spelling import type_in_text
from tcdsl.codegen.gradient.versions import STARTING, Version, Versions
from tcdsl.codegen.program.affine import affine_of
from tcdsl.codegen.program.expressions import from_lowest, indices_of, reads_of
from tcdsl.codegen.program.ssa import identity_of
from tcdsl.grammar.types import typed
from tcdsl.grammar.types.dtypes import INT64

_GOING_ON = {starting: op for op, starting in STARTING.items()}


def rounded(
    parts: Sequence[Part],
    returns: Mapping[str, Version],
    versions: Versions,
    fresh: Callable[[str], str],
) -> list[Part]:
    """Return parts in which no line combines a float32 into a half.

    Parameters
    ----------
    returns
        The outputs by name.
    versions
        Of all tensors: a temporary is a half in text if its first line is one.
    fresh
        Gives a tensor a name that nothing else has.
    """
    halves = {n: v for n, v in returns.items() if v.dtype.is_half}
    begun: set[str] = set()
    for line in walk(parts):
        v = versions.values.get(line.target)
        if line.target not in begun and v is not None and v.dtype.is_half:
            dtype = type_in_text(line.value)
            if dtype is not None and dtype.is_half:
                halves[line.target] = v
        begun.add(line.target)
    return _all_rounded(parts, halves, versions, fresh)


def _all_rounded(
    parts: Sequence[Part],
    halves: Mapping[str, Version],
    versions: Versions,
    fresh: Callable[[str], str],
) -> list[Part]:
    out: list[Part] = []
    for part in parts:
        if isinstance(part, Loop):
            body = _all_rounded(part.body, halves, versions, fresh)
            out.append(replace(part, body=tuple(body)))
        elif part.target in halves and _is_mixed(part):
            out += _rounded(part, halves[part.target], versions, fresh)
        else:
            out.append(part)
    return out


def _is_mixed(line: Line) -> bool:
    dtype = type_in_text(line.value)
    return line.op != "=" and dtype is not None and not dtype.is_half


def _rounded(line: Line, v: Version, versions: Versions, fresh: Callable[[str], str]) -> list[Part]:
    """Return what combines elements apart: those of the line, or all if several points meet."""
    name = fresh(f"{line.target}_sum")
    told = [
        a.terms[0][0] for e in line.subs if (a := affine_of(e)) is not None and len(a.terms) == 1
    ]
    used = {n for e in line.subs for n in indices_of(e)}
    outputs = tuple(r for r in line.ranges if r.name in used)
    if {*told} >= used and all(affine_of(e) is not None for e in line.subs):
        here, box = line.subs, outputs
        subs = tuple(from_lowest(typed.IndexValue(r.name, INT64), r.low) for r in outputs)
        mine: tuple[typed.Expr, ...] = subs
    else:
        here, box = versions.at(v.name), versions.box(v.name)
        pairs = zip(line.subs, v.shape, strict=True)  # inside: the line itself writes there
        subs = tuple(clamped(e, n) if reads_of(e) else e for e, n in pairs)
        mine = here
    total = replace(line, target=name, subs=subs)
    apart = typed.Cast(typed.Read(name, mine, v.dtype.computed), v.dtype)
    end = Line(line.target, here, "=", apart, box)
    if line.op.endswith("!") and mine is subs:
        return [total, end]
    before = computed(typed.Read(line.target, here, v.dtype))
    if line.op in _GOING_ON:  # anew, and perhaps nobody has written what it was before
        total = replace(total, op=_GOING_ON[line.op])
        before = typed.Lit(identity_of(total.op, before.dtype), before.dtype)
    return [Line(name, mine, "=", before, box), total, end]
