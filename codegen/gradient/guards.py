"""Conditions of lines that are the bounds of reads, as `pad`."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from tcdsl.codegen.gradient.lines import Line, Part
from tcdsl.codegen.gradient.versions import Version
from tcdsl.codegen.program.guards import Guards
from tcdsl.grammar.proofs.ranges import Interval
from tcdsl.grammar.proofs.sizes import Size
from tcdsl.grammar.types.builtins import PAD


def padded(
    parts: Sequence[Part],
    values: Mapping[str, Version],
    taken: Collection[str],
    exactly: Collection[str],
    turns: Mapping[str, Interval] | None = None,
) -> list[Part]:
    """Return parts with `pad` in place of conditions that are the bounds of reads.

    Parameters
    ----------
    values
        The tensors that lines read, by name.
    taken
        Names that hide the builtin functions which are called so.
    exactly
        Tensors that hold what the definition says, whatever it multiplies: of a product under a
        condition no factor is one under it. Adjoints are finite where all values are.
    turns
        The variables of the loops around the parts.
    """
    if PAD in taken:
        return [*parts]
    turns = turns or {}
    out: list[Part] = []
    for part in parts:
        if isinstance(part, Line):
            is_exact = part.target in exactly
            guards = Guards(part.ranges, lambda n: _bounds(values[n]), turns, exactly=is_exact)
            out.append(replace(part, value=guards.moved(part.value)))
        else:
            inner = {**turns, part.var: Interval(part.low, part.high - 1)}
            out.append(replace(part, body=tuple(padded(part.body, values, taken, exactly, inner))))
    return out


def _bounds(v: Version) -> list[tuple[Size, Size]]:
    return [(Size.const(0), extent) for extent in v.shape]
