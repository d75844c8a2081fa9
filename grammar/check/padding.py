"""`pad(A(e0, ..), v)`: the condition under which an element is inside its tensor.

`pad` is a choice between the element and v, with conditions only for the sides that are not proved
inside: everything below the check knows `?:` alone.
"""

from __future__ import annotations

from collections.abc import Sequence

from tcdsl.grammar.proofs.sizes import Size
from tcdsl.grammar.text.source import Span
from tcdsl.grammar.types import typed as t
from tcdsl.grammar.types.dtypes import BOOL, INT64


def is_inside(
    subs: Sequence[t.Expr],
    bounds: Sequence[tuple[Size, Size]],
    margins: Sequence[tuple[bool, bool]],
    span: Span | None,
) -> t.Expr | None:
    """Return `low <= e0 && e0 < high && ..`; None if every subscript is inside anyway.

    Parameters
    ----------
    subs, bounds
        Subscripts, and the interval [low, high) that holds the elements of each dimension.
    margins
        Whether a subscript may lie below low, and at or above high.
    """
    conditions: list[t.Expr] = []
    for sub, (low, high), (below, above) in zip(subs, bounds, margins, strict=True):
        if below:
            at = t.SizeValue(low, INT64, span=span)
            conditions.append(t.Binary(">=", sub, at, BOOL, span=span))
        if above:
            at = t.SizeValue(high, INT64, span=span)
            conditions.append(t.Binary("<", sub, at, BOOL, span=span))
    if not conditions:
        return None
    out = conditions[0]
    for condition in conditions[1:]:
        out = t.Binary("&&", out, condition, BOOL, span=span)
    return out
