"""Who of a comparison goes on: more rounds of the others would not change who wins."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from tcdsl.autotune.worker.timing import quantile_ns

Samples = Mapping[int, Sequence[float]]  # in ns per call, by row

SAME = 1.01  # times the default's in other ways: more is slower
_HOPE = 0.005  # times the first's: nobody who is not faster by so much wins
_NEAR = 1.02  # times the fastest's that goes on: who is slower does not win
_SURE = 2.2  # deviations of a fair coin: eight heads of nine, 22 of 31


def with_rivals(samples_ns: Samples, going: Sequence[int]) -> list[int]:
    """Return the first row and those that may still win against it, or nobody.

    Of a comparison call upon call.
    """
    first = next(iter(samples_ns))
    times_ns = {row: quantile_ns(samples_ns[row]) for row in {first, *going} if samples_ns[row]}
    fastest_ns = min((times_ns[row] for row in going if row != first), default=math.inf)
    if first not in times_ns or fastest_ns * (1 + _HOPE) >= times_ns[first]:
        return []
    return [row for row in going if row == first or times_ns[row] <= _NEAR * fastest_ns]


def unless_sure(samples_ns: Samples, going: Sequence[int]) -> list[int]:
    """Return both rows of a comparison by pairs, or nobody where it is clear.

    Far more than half of their ratios are at most `SAME`, or far fewer.
    """
    one, other = samples_ns.values()
    ratios = [its / that for its, that in zip(one, other, strict=False)]
    held = sum(ratio <= SAME for ratio in ratios)
    is_sure = abs(2 * held - len(ratios)) >= _SURE * math.sqrt(max(1, len(ratios)))
    return [] if is_sure else list(going)
