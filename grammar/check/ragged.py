"""Ragged ranges: bounds of an index that depend on other indices, or on data read at these.

    Y(b, i) +=! X(b, j) where j in 0:i + 1              triangular
    S(b, d) +=! E(I(l), d) where l in off(b):off(b + 1)  segments

Only what is summed over has them, so that results are boxes; and the points of a scatter onto what
is there already, `H(I(l), d) += S(b, d) where b in 0:B, l in off(b):off(b + 1)`, each of which is
combined by itself. What is read for a bound is checked where it is not proved inside, and no point
is proved inside by data: it may be any number, and change.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from tcdsl.grammar.check.access import Context, End
from tcdsl.grammar.check.comprehension import Clause, Comprehension
from tcdsl.grammar.check.inside import judge_bound
from tcdsl.grammar.check.scope import Index, is_arg, is_update
from tcdsl.grammar.check.symbolic import of_type
from tcdsl.grammar.check.values import integral
from tcdsl.grammar.proofs.ranges import Bound, Interval, interval, solve
from tcdsl.grammar.proofs.signs import maximum, minimum
from tcdsl.grammar.proofs.sizes import Size
from tcdsl.grammar.text import nodes as n
from tcdsl.grammar.text.errors import Note
from tcdsl.grammar.text.fault import FaultError
from tcdsl.grammar.types import typed as t
from tcdsl.grammar.types.dtypes import INT32, INT64

_CURE = "it may depend on indices of the left side and on those of the clauses before it"
_MANY = 2**30
_GUESS = Size.const(16)  # values of a range of which nothing is known


def may_be_ragged(work: Comprehension, key: str) -> bool:
    """Whether the range of an index need not be the same at all points."""
    return work.scope.indices[key].kind == "reduction" or _is_scatter_onto(work)


def _is_scatter_onto(work: Comprehension) -> bool:
    """Whether points are combined one by one with elements that a box holds already."""
    has_box = work.target.dims is not None or work.target.first_op is not None
    return is_update(work.node.op) and has_box


def ragged_clause(work: Comprehension, clause: n.RangeClause, earlier: Sequence[str]) -> Clause:
    """Return a range whose bounds may depend on left indices, and on those of earlier clauses.

    Raises
    ------
    FaultError
        If a bound depends on another index, or is no integer.
    """
    ends = _typed_ends(work, clause, earlier)
    low, high = map(work.typer.symbolic.of, ends)
    needs = t.indices_in(*ends)
    from_data = any(s.startswith("?") for x in (low, high) for s in x.symbols())
    if from_data and not needs and not any(t.tensors_read(*ends)):
        raise FaultError(
            "TC209",
            f"a bound of '{clause.name}' is not understood",
            clause.span,
            "",
            Note("a bound is made of sizes, integers and scalars by + - * / % min max"),
        )
    return Clause(clause, low, high, from_data or bool(needs), needs)


def _typed_ends(
    work: Comprehension, clause: n.RangeClause, earlier: Sequence[str]
) -> tuple[t.Expr, t.Expr]:
    left = {k for k, x in work.scope.indices.items() if x.kind == "output"}
    end = End(frozenset({*left, *earlier} - {clause.name}), _CURE)
    at = Context(is_subscript=True, end=end)
    what = f"a bound of '{clause.name}'"
    low, high = (integral(work.typer.value(e, at), e, what) for e in (clause.low, clause.high))
    if work.typer.exact is not None:
        low, high = work.typer.exact.operands(low), work.typer.exact.operands(high)
    return low, high


def want_known_box(work: Comprehension) -> None:
    """Refuse the place of an extreme in a box that only data knows."""
    reduced = [x for x in work.scope.indices.values() if x.kind == "reduction"]
    unknown = [x.name for x in reduced if x.name in work.unbounded]
    if is_arg(work.node.op) and len(reduced) > 1 and unknown:
        clause = work.ragged[unknown[0]].node
        raise FaultError(
            "TC212",
            f"'{work.node.op}' counts places in a box, but data decides the range of "
            f"'{clause.name}'",
            clause.span,
            "",
            Note("reduce one index at a time"),
        )


def least_and_greatest(work: Comprehension) -> None:
    """Note all values that ragged ranges may have, where those that they depend on are known."""
    for name, clause in work.ragged.items():
        if name in work.domain or not clause.needs <= work.domain.keys() | work.state.turns.keys():
            continue
        known = work.domain | work.typer.symbolic.unknowns
        low, high = interval(clause.low, known).low, interval(clause.high, known).high
        if (
            low is None
            or high is None
            or not clause.needs.isdisjoint(work.unbounded)
            or max(abs(low.offset), abs(high.offset)) >= _MANY
        ):
            work.unbounded.add(name)
            low, high = _widened(low, high)
        work.domain[name] = Interval(low, high - 1)


def _widened(low: Size | None, high: Size | None) -> tuple[Size, Size]:
    """Return ends between which every read is checked, also of what sizes say of one of them.

    A loop that begins or ends by data is in no address unasked (`codegen/loops/verify_data.py`).
    """
    every, word = of_type(INT64), of_type(INT32)
    assert every.low is not None
    assert every.high is not None
    assert word.low is not None
    assert word.high is not None
    return (
        every.low if low is None else minimum(low, word.low),
        every.high if high is None else maximum(high, word.high + 1),
    )


def guide(work: Comprehension, index: Index, plain: Sequence[Bound]) -> t.Range:
    """Return a ragged range by sizes alone: all its values, or what the accesses leave."""
    found: Interval | None = work.domain[index.name]
    is_guess = index.name in work.unbounded
    if is_guess:
        others = {k: v for k, v in work.domain.items() if k != index.name}
        found = solve([index.name], plain, others | work.typer.symbolic.unknowns).get(index.name)
    if found is None or found.low is None or found.high is None:
        return t.Range(index.name, Size(), _GUESS, index.kind, is_guess=True)
    high = maximum(found.high + 1, found.low)
    return t.Range(index.name, found.low, high, index.kind, is_guess=is_guess)


def in_order(work: Comprehension, ranges: Sequence[t.Range]) -> tuple[t.Range, ...]:
    """Return ranges with ragged ones behind those that they depend on.

    What a ragged range of a scatter depends on is part of its point, like an index on the left.
    """
    needs = {name: clause.needs for name, clause in work.ragged.items()}
    names = {r.name for r in ranges}
    outputs = [r.name for r in ranges if r.kind == "output"]
    for name in outputs:  # grows
        outputs += [x for x in needs.get(name, ()) if x in names and x not in outputs]
    left = [replace(r, kind="output" if r.name in outputs else r.kind) for r in ranges]
    left.sort(key=lambda r: r.kind == "reduction")
    done: list[t.Range] = []
    while left:
        known = {r.name for r in done} | {*work.state.turns}
        free = next((r for r in left if needs.get(r.name, frozenset()) <= known), None)
        if free is None:
            clause = work.ragged[next(r.name for r in left if r.name in work.ragged)]
            raise FaultError(
                "TC204",
                f"the range of '{clause.node.name}' depends on itself",
                clause.node.span,
                "",
                Note("of two indices one has to have its range first"),
            )
        left.remove(free)
        done.append(free)
    return tuple(done)


def with_bounds(work: Comprehension, ranges: Sequence[t.Range]) -> tuple[t.Range, ...]:
    """Return ranges with the bounds of ragged ones, their reads judged."""
    if not work.ragged:
        return tuple(ranges)
    typer = work.typer
    kept = typer.judge, typer.margins
    typer.judge = partial(judge_bound, work)
    typer.margins = lambda access: ((True, True),) * len(access.subs)
    bounds: dict[str, tuple[t.Expr, t.Expr]] = {}
    earlier: list[str] = []
    for clause in work.node.clauses:
        if not isinstance(clause, n.RangeClause):
            continue
        name = work.scope.indices[clause.name].name
        if name in work.ragged:
            bounds[name] = _typed_ends(work, clause, earlier)
        earlier.append(clause.name)
    typer.judge, typer.margins = kept
    return tuple(replace(r, bounds=bounds.get(r.name)) for r in ranges)
