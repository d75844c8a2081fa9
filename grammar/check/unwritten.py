"""What the only statement on an annotated return leaves unwritten, where nobody asked for that."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from tcdsl.grammar.check.comprehension import Comprehension
from tcdsl.grammar.check.scope import Tensor
from tcdsl.grammar.check.state import CheckState
from tcdsl.grammar.check.wording import declared_here
from tcdsl.grammar.proofs.signs import is_nonnegative
from tcdsl.grammar.proofs.sizes import Size
from tcdsl.grammar.text.errors import Diagnostic, Note
from tcdsl.grammar.types import typed as t

_MAX_KNOWN = 12  # conditions of calls that are used


def note_unwritten(work: Comprehension, given: Collection[str]) -> None:
    """Remember what a statement leaves of its target's declared dimensions.

    given: the indices that have a range in the text; theirs is what was asked for.
    """
    work.target.writers += 1
    if work.target.dims is None or work.target.writers > 1 or work.state.is_trial:
        return
    names = {x.name: key for key, x in work.scope.indices.items() if key not in given}
    work.target.unwritten = tuple(
        found
        for d, sub in enumerate(work.subs)
        if isinstance(sub, t.IndexValue) and sub.name in names
        for found in _left_of(work, d, sub.name, names[sub.name])
    )


def report_unwritten(state: CheckState, tensor: Tensor) -> None:
    """Warn of it where no other statement writes the tensor."""
    if tensor.writers == 1:
        for diagnostic in tensor.unwritten:
            state.report(diagnostic)
    tensor.unwritten = ()


def _left_of(work: Comprehension, d: int, name: str, key: str) -> Iterator[Diagnostic]:
    """Yield a warning of each side of a dimension that an index does not reach."""
    at = work.domain[name]
    assert work.target.dims is not None
    assert at.low is not None
    assert at.high is not None
    low, end, extent = at.low, at.high + 1, work.target.dims[d]
    if any(s in work.state.turns or s.startswith("?") for s in (*low.symbols(), *end.symbols())):
        return
    index = work.scope.indices[key]
    for first, behind in ((Size(), low), (end, extent)):
        count = behind - first
        if is_nonnegative(-count, _known(work.state)):
            continue
        some = "" if is_nonnegative(count - 1) else ", if there are any"
        cure = f"write all of them, as in where {key} in 0:{extent}, with 'pad' for what is outside"
        if low == Size():
            cure = f"declare {end} elements there, or {cure}"
        yield Diagnostic(
            "TC152",
            f"nothing writes elements {first} to {behind - 1} of dimension {d} of "
            f"'{work.name}'{some}",
            index.span,
            f"runs from {low} to {at.high}",
            tuple(n for n in (Note(cure), declared_here(work.target)) if n is not None),
            severity="warning",
        )


def _known(state: CheckState) -> tuple[Size, ...]:
    """Return sizes that each call sees to be >= 0."""
    known: list[Size] = []
    for c in state.constraints.values():
        known += (c.size,) if c.relation == ">=0" else (c.size, -c.size)
    return tuple(known[:_MAX_KNOWN])
