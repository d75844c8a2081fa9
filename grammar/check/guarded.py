"""What guarded reads say of indices, and a warning where nothing else gives one its range.

    O(i) = i > 0 ? A(i - 1) : 0.0

The condition keeps the read inside, so the read need not bound `i`; but nothing else does, and `i`
runs from 1, where the condition always holds. Who writes it wants the other points too.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from tcdsl.grammar.check.access import Access
from tcdsl.grammar.check.comprehension import Comprehension
from tcdsl.grammar.proofs.ranges import Bound, Interval
from tcdsl.grammar.proofs.signs import is_nonnegative
from tcdsl.grammar.proofs.sizes import Size
from tcdsl.grammar.text.errors import Diagnostic, Note


def bounds_of(access: Access) -> list[Bound]:
    """Return what an access asks of its subscripts."""
    return [Bound(value, low, high) for value, low, high in access.bounds()]


def left_open(access: Access) -> list[Bound]:
    """Return what an access asks of its subscripts beyond what its guard makes sure of."""

    def ensured(size: Size) -> bool:
        return any(is_nonnegative(size - fact) for fact in access.context.facts)

    return [
        Bound(
            b.value,
            None if b.low is None or ensured(b.value - b.low) else b.low,
            None if b.high is None or ensured(b.high - 1 - b.value) else b.high,
        )
        for b in bounds_of(access)
    ]


def report_guarded(
    work: Comprehension, accesses: Sequence[Access], unguarded: Collection[str]
) -> None:
    """Warn of indices whose ranges end where a condition does that keeps a read inside.

    unguarded: indices whose ranges follow from other things.
    """
    if work.state.is_trial:
        return
    for key, index in work.scope.indices.items():
        if index.name in unguarded or index.name in work.ragged:
            continue
        at = work.domain[index.name]
        found = next(_ensured(accesses, index.name), None)
        if found is None or at.low is None or at.high is None:
            continue
        access, bound, left = found
        low, end = _wider(at, bound, left)
        notes = [
            Note("from what is read here, though a condition keeps it inside", access.node.span),
            Note(f"for points at which that does not hold, write where {key} in {low}:{end}"),
        ]
        if low == at.low and end == at.high + 1:
            notes[1] = Note(f"to say that it is meant, write where {key} in {low}:{end}")
        work.state.report(
            Diagnostic(
                "TC154",
                f"only a guarded read gives '{key}' a range",
                index.span,
                f"runs from {at.low} to {at.high}",
                tuple(notes),
                severity="warning",
            )
        )


def _ensured(accesses: Sequence[Access], name: str) -> Iterator[tuple[Access, Bound, Bound]]:
    """Yield reads of which a guard makes sure that a subscript with an index is inside.

    With each comes what the subscript has to be, and what of it the guard leaves open.
    """
    for access in accesses:
        for bound, left in zip(bounds_of(access), left_open(access), strict=True):
            if bound != left and name in bound.value.symbols():
                yield access, bound, left


def _wider(at: Interval, bound: Bound, left: Bound) -> tuple[Size, Size]:
    """Return the range of an index, begun at 0 and ended with the dimension where guards allow."""
    assert at.low is not None
    assert at.high is not None
    low, end = at.low, at.high + 1
    if left.low is None or is_nonnegative(-low):
        low = Size()
    if left.high is None and bound.high is not None and is_nonnegative(bound.high - end):
        end = bound.high
    return low, end
