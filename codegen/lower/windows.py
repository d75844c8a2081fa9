"""Subscripts that slide over a window: which elements exist, in numbers.

In `pad(I(n, c, 2*y + i - 1, x + j), 0)` the third subscript is `2*y + i - 1`, whose element exists
while it lies in [0, H). With exact sizes all of it is known when the kernel is written, so a form
can leave out what does not exist instead of testing for it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from tcdsl.codegen.padding import Guard
from tcdsl.codegen.program import Affine, Statement, affine_of
from tcdsl.grammar import typed
from tcdsl.grammar.sizes import Size


@dataclass(frozen=True, slots=True)
class Window:
    """One subscript, `sum(coefficient * index) + const`, of elements in [low, high).

    Indices count from 0: const is the subscript at the first point of their ranges.
    """

    terms: tuple[tuple[str, int], ...]
    const: int
    low: int
    high: int

    def coefficient(self, index: str) -> int:
        """Return the coefficient of an index; 0 where it does not occur."""
        return dict(self.terms).get(index, 0)

    def exists(self, at: Mapping[str, int]) -> bool:
        """Whether there is an element at a point; indices that at does not name are 0."""
        here = self.const + sum(c * at.get(name, 0) for name, c in self.terms)
        return self.low <= here < self.high

    def span(self, index: str, extent: int, at: Mapping[str, int]) -> range:
        """Return the values of an index for which there is an element, the others being at.

        They are neighbours: the subscript is monotone in each index.
        """
        found = [v for v in range(extent) if self.exists({**at, index: v})]
        return range(found[0], found[-1] + 1) if found else range(0)

    def is_whole(self, extents: Mapping[str, int]) -> bool:
        """Whether every point of the box of its indices has an element."""
        ends = [(0, c * (extents[name] - 1)) for name, c in self.terms]
        least = self.const + sum(min(e) for e in ends)
        most = self.const + sum(max(e) for e in ends)
        return self.low <= least and most < self.high


def windows_of(
    s: Statement,
    subs: Sequence[typed.Expr],
    shape: Sequence[Size],
    guards: Sequence[Guard],
    value: Callable[[Size], int],
) -> tuple[Window, ...] | None:
    """Return each subscript of an access of a statement as a window.

    Parameters
    ----------
    s, subs, shape
        The statement, the access's subscripts, the extents of what it reads.
    guards
        When its elements exist (`padding.unpadded`): bounds of its subscripts.
    value
        Gives the value of a size.

    Returns
    -------
    tuple[Window, ...] | None
        None if a subscript is not affine, or a guard is of something else.
    """
    lows = {r.name: r.low for r in s.ranges}
    left = list(guards)
    out: list[Window] = []
    for sub, extent in zip(subs, shape, strict=True):
        a = affine_of(sub)
        if a is None:
            return None
        low, high = 0, value(extent)
        for guard in [g for g in left if a.terms and _same_terms(g.at, a)]:
            shift = value(a.const) - value(guard.at.const)
            if guard.low is not None:
                low = max(low, value(guard.low) + shift)
            if guard.high is not None:
                high = min(high, value(guard.high) + shift)
            left.remove(guard)
        first = value(a.const) + sum(c * value(lows[name]) for name, c in a.terms)
        out.append(Window(a.terms, first, low, high))
    return None if left else tuple(out)


def _same_terms(a: Affine, b: Affine) -> bool:
    return dict(a.terms) == dict(b.terms)
