"""Reads of a comprehension: proved inside, checked by each call, or checked at run time.

A subscript that is affine in the indices takes its worst case, so an unproved one is a constraint
of the call, unless the statement has no point. Any other, and any behind a guard, is checked where
it is read: to refuse a call for a bound that is not attained would be wrong.
"""

from __future__ import annotations

from tcdsl.grammar.check.access import Access
from tcdsl.grammar.check.comprehension import Comprehension
from tcdsl.grammar.check.wording import declared_here
from tcdsl.grammar.proofs.ranges import Prover, interval, is_exact
from tcdsl.grammar.proofs.signs import is_nonnegative
from tcdsl.grammar.proofs.sizes import Size
from tcdsl.grammar.text.errors import Note
from tcdsl.grammar.text.fault import FaultError


def judge(work: Comprehension, access: Access) -> tuple[bool, ...]:
    """Return which subscripts need a check at run time; demand what calls can check."""
    if work.state.is_trial:
        return (False,) * len(access.subs)
    # a ragged range may have no point, then nothing is read
    guarded = access.context.guarded or bool(work.ragged)
    checked = _unproved(work, access, work.prover(), guarded)
    if access.tensor is work.target:
        _own_read(work, access, work.prover())
    return checked


def judge_bound(work: Comprehension, access: Access) -> tuple[bool, ...]:
    """Return which subscripts in a bound need a check: it is read before there is any point."""
    if work.state.is_trial:
        return (False,) * len(access.subs)
    if access.tensor is work.target:
        _own_read(work, access, work.prover())
    prover = Prover(work.prover().domain, (), work.state.turns)
    return _unproved(work, access, prover, True, is_bound=True)


def _unproved(
    work: Comprehension, access: Access, prover: Prover, guarded: bool, *, is_bound: bool = False
) -> tuple[bool, ...]:
    """Return which subscripts need a check at run time; demand what calls can check."""
    checked = []
    for d, (value, (low, high)) in enumerate(
        zip(access.symbolic_subs, access.tensor.whole_bounds(), strict=True)
    ):
        sides = [value - low, high - 1 - value]
        facts = access.context.facts if is_bound else work.facts(value) + access.context.facts
        open_sides = [s for s in sides if not prover.holds(s, facts)]
        if open_sides and not guarded and _is_exact(work, value):
            open_sides = _demand_inside(work, access, d, open_sides, prover)
        if open_sides and not guarded and _needs_an_element(work, access, d, open_sides, prover):
            open_sides = []
        checked.append(bool(open_sides))
    return tuple(checked)


def margins(work: Comprehension, access: Access) -> tuple[tuple[bool, bool], ...]:
    """Return which subscripts of a padded access may lie below, and beyond, their dimension."""
    if work.state.is_trial:
        return ((True, True),) * len(access.subs)
    prover = work.prover()
    sides = []
    for value, (low, high) in zip(access.symbolic_subs, access.tensor.whole_bounds(), strict=True):
        facts = work.facts(value) + access.context.facts
        ends = (value - low, high - 1 - value)
        below, beyond = (not prover.holds(side, facts) for side in ends)
        sides.append((below, beyond))
    if access.tensor is work.target:
        _own_read(work, access, prover)
    return tuple(sides)


def _needs_an_element(
    work: Comprehension, access: Access, d: int, sides: list[Size], prover: Prover
) -> bool:
    """Whether the sides hold where the dimension is not empty; calls then check that.

    So `A(max(min(I(i), N - 1), 0))` is checked once, not for each i.
    """
    low, high = access.tensor.whole_bounds()[d]
    last = high - low - 1
    if not all(Prover(prover.domain, (*prover.given, last), prover.turns).holds(s) for s in sides):
        return False
    message = f"'{access.node.name}' is read, but dimension {d} may be empty: it has {last + 1}"
    return work.demand(last, message, access.node.span)


def _is_exact(work: Comprehension, value: Size) -> bool:
    """Whether some point of the statement takes the bounds of a subscript."""
    from_data = any(s.startswith("?") for s in value.symbols())
    return not from_data and is_exact(value, work.domain | work.state.turns)


def _demand_inside(
    work: Comprehension, access: Access, d: int, sides: list[Size], prover: Prover
) -> list[Size]:
    """Make calls check the sides; return those that have no bound to check."""
    left = []
    node = access.node.args[d] if access.node.args else access.node
    text = node.span.text if node.span is not None else str(access.symbolic_subs[d])
    low, high = access.tensor.whole_bounds()[d]
    for side in sides:
        worst = prover.interval(side).low
        if worst is None:  # a factor of unknown sign
            left.append(side)
            continue
        at = prover.interval(access.symbolic_subs[d])
        where = f"is {at.low}" if at.low == at.high else f"runs from {at.low} to {at.high}"
        message = (
            f"subscript '{text}' {where}, but dimension {d} of '{access.node.name}' "
            f"holds {low} to {high - 1}"
        )
        if not work.demand(worst, message, node.span):
            raise FaultError("TC207", message, node.span, "", declared_here(access.tensor))
    return left


def _own_read(work: Comprehension, access: Access, prover: Prover) -> None:
    """Refuse a read of the target at elements that the statement writes."""
    domain = work.domain | work.typer.symbolic.unknowns  # in one turn: variables of loops are fixed
    has_reduction = any(x.kind == "reduction" for x in work.scope.indices.values())
    if access.symbolic_subs == work.symbolic_subs and not has_reduction and not work.meets:
        return
    for mine, its in zip(work.symbolic_subs, access.symbolic_subs, strict=True):
        a, b = interval(mine, domain), interval(its, domain)
        for x, y in ((a, b), (b, a)):
            if x.low is None or y.high is None:
                continue
            if is_nonnegative(x.low - y.high - 1, prover.given):
                return
    name = work.name
    cure = "write the result under a second name"
    if access.symbolic_subs == work.symbolic_subs and work.meets:
        what = "where points may meet"
    elif access.symbolic_subs == work.symbolic_subs:
        what = "in a reduction, which may not read its own target"
    else:
        what = "at elements it may write"
        cure += (
            "; or, if each element follows from those before it, in a loop: for t in 1:N { ... }"
        )
    raise FaultError(
        "TC126",
        f"the statement reads '{name}' {what}",
        access.node.span,
        "",
        Note("it writes here", work.node.target.span),
        Note(cure),
    )
