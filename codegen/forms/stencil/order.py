"""In which order a block takes the taps of its points."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tcdsl.codegen.forms.stencil.problem import Stencil
from tcdsl.codegen.program.affine import affine_of

Turn = tuple[Mapping[str, int], tuple[int, int], int]  # a tap, a point, the row from the point's


def in_order(
    stencil: Stencil,
    spots: Sequence[tuple[int, int]],
    *,
    by_taps: bool = False,
    by_reads: bool = False,
) -> list[Turn]:
    """Return taps and points (their rows and vectors), those together that read the same rows.

    For each point taps are in the order of the text. by_taps: each tap is taken for all points
    before the next one, so that sums of several do not wait for each other. by_reads: the row that
    is told is the one that is read, also where taps slide back.
    """
    pace, reach = _slide(stencil)
    found = [
        (sum(reach.get(n, 0) * v for n, v in tap.items()), n, tap, at)
        for n, tap in enumerate(stencil.points())
        for at in spots
    ]
    backs = by_reads and any(reach) and all(k < 0 for k in reach.values())
    if not by_taps and (backs or all(k >= 0 for k in reach.values())):
        way = -1 if backs else 1  # from the last row on, which the first tap reads
        found.sort(key=lambda x: (way * (x[0] + pace * x[3][0]), x[1], x[3]))
    return [(tap, at, far + by_reads * pace * at[0]) for far, _, tap, at in found]


def _slide(stencil: Stencil) -> tuple[int, dict[str, int]]:
    """Return how far rows and taps slide along the dimension that both of them do."""
    if stencil.row is not None:
        for read in stencil.statement.reads():
            for sub in read.subs:
                a = affine_of(sub)
                k = a.coefficient(stencil.row.name) if a is not None else 0
                if a is not None and k > 0:
                    taps = {n for n, _ in stencil.taps}
                    reach = {n: c for n, c in a.terms if n in taps}
                    if reach:
                        return k, reach
    return 0, {}
