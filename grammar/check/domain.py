"""The points of a comprehension: ranges that `where` gives, and those that subscripts give.

A guard that ensures a subscript takes it out of the solving of indices that something unguarded
bounds: in `(h + kh - 1 >= 0 && h + kh - 1 < H) ? I(h + kh - 1) * W(kh) : 0` only W bounds kh. An
index that is still free takes the declared dimension in which it stands bare on the left; then all
guarded reads bound what is left; last, a known box of the target does.

Ranges of ragged sums are given in `where` alone (`ragged.py`): they are known once those of the
indices are on which they depend, by their least and greatest value, and bound others so.
"""

from __future__ import annotations

import re

from tcdsl.grammar.check.access import Access, Context, End
from tcdsl.grammar.check.comprehension import Clause, Comprehension
from tcdsl.grammar.check.expressions import Typer
from tcdsl.grammar.check.guarded import bounds_of, left_open, report_guarded
from tcdsl.grammar.check.ragged import (
    guide,
    in_order,
    least_and_greatest,
    may_be_ragged,
    ragged_clause,
    want_known_box,
)
from tcdsl.grammar.check.scope import Index, SilentError, near
from tcdsl.grammar.check.values import integral
from tcdsl.grammar.proofs.ranges import ONE, Bound, Interval, solve
from tcdsl.grammar.proofs.signs import is_nonnegative, substitute_symbols
from tcdsl.grammar.proofs.sizes import Size
from tcdsl.grammar.text import nodes as n
from tcdsl.grammar.text.errors import Diagnostic, Note
from tcdsl.grammar.text.fault import FaultError
from tcdsl.grammar.types import typed as t

_LEFT = "ranges of left indices are boxes; write the condition as a guard: cond ? value : 0"


def given_ranges(work: Comprehension) -> tuple[list[Clause], list[Access]]:
    """Return the given ranges, and the accesses that are not evaluated."""
    given: list[Clause] = []
    seen: dict[str, n.RangeClause] = {}
    exists_from = len(work.typer.accesses)
    for clause in work.node.clauses:
        if isinstance(clause, n.Exists):
            work.typer.value(clause.value, Context())
    exists = work.typer.accesses[exists_from:]
    del work.typer.accesses[exists_from:]
    for clause in work.node.clauses:
        if not isinstance(clause, n.RangeClause):
            continue
        if clause.name in seen:
            raise FaultError(
                "TC203",
                f"'{clause.name}' has two ranges",
                clause.span,
                "",
                Note("the first is here", seen[clause.name].span),
                Note("write one range: max of the lower bounds, min of the upper"),
            )
        seen[clause.name] = clause
        _where_index(work, clause)
        if may_be_ragged(work, clause.name):
            given.append(ragged_clause(work, clause, [c.node.name for c in given]))
        else:
            low, high = (_bound(work, e, clause.name) for e in (clause.low, clause.high))
            given.append(Clause(clause, low, high))
    names = {k: x.name for k, x in work.scope.indices.items()}
    work.ragged = {names[c.node.name]: c for c in given if c.is_ragged}
    return given, exists


def _where_index(work: Comprehension, clause: n.RangeClause) -> None:
    name = clause.name
    role = "a name of 'where'" if name in work.scope.lets else work.frame.role(name)
    if role is not None:
        raise FaultError("TC118", f"'{name}' is {role}, so it has no range", clause.span)
    if name not in work.scope.indices:
        work.typer.value(n.Name(name, span=clause.span), Context(is_subscript=True))
    if name not in work.scope.indices:
        raise FaultError("TC118", f"'{name}' is a number, so it has no range", clause.span)


def _bound(work: Comprehension, node: n.Expr, name: str) -> Size:
    return bound(work.typer, node, name, "sizes, integers and integral scalar parameters")


def bound(typer: Typer, node: n.Expr, name: str, may_use: str) -> Size:
    """Return an end of the range of an index or of a loop's variable.

    Raises
    ------
    FaultError
        If it reads a tensor, or is made of other things than it may be.
    """
    accesses = len(typer.accesses)
    what = f"a bound of '{name}'"
    value = typer.value(node, Context(is_subscript=True, end=End(cure=_LEFT)))
    for access in typer.accesses[accesses:]:
        if access.tensor.host is None:
            raise FaultError(
                "TC205",
                f"{what} reads the tensor '{access.node.name}'",
                access.node.span,
                "",
                Note(f"bounds may use {may_use}"),
            )
    del typer.accesses[accesses:]
    bound = typer.symbolic.of(integral(value, node, what))
    if any(s.startswith("?") for s in bound.symbols()):
        raise FaultError(
            "TC209",
            f"{what} is not understood",
            node.span,
            "",
            Note("a bound is made of sizes, integers and scalars by + - * / % min max"),
        )
    return bound


def solve_ranges(
    work: Comprehension, given: list[Clause], exists: list[Access]
) -> tuple[t.Range, ...]:
    """Find the range of every index; ragged ones have no bounds yet."""
    by_name = {c.node.name: c for c in given if not c.is_ragged}
    work.domain = {
        x.name: Interval(by_name[k].low, by_name[k].high - 1)
        for k, x in work.scope.indices.items()
        if k in by_name
    }
    unknowns = work.typer.symbolic.unknowns
    accesses = (*work.typer.accesses, *exists)
    plain = [b for a in accesses if not a.context.guarded for b in bounds_of(a)]
    bounds = [b for a in accesses for b in bounds_of(a)]
    open_ = [b for a in accesses for b in left_open(a)]
    declared = _declared_bounds(work)
    least_and_greatest(work)
    unguarded: set[str] = set()  # indices that have a range before what guards ensure is asked
    for conditions in (plain, declared, open_, bounds, [*bounds, *_target_bounds(work)]):
        if conditions is bounds:
            unguarded = {*work.domain}
        before = -1
        while len(work.domain) > before:  # a ragged range may bound what those around it do not
            before = len(work.domain)
            free = [x.name for x in work.scope.indices.values() if x.name not in work.domain]
            open_ends = [n for n in free if n in work.ragged]
            told = [b for b in conditions if not {*open_ends} & {*b.value.symbols()}]
            if free:
                free = [n for n in free if n not in open_ends]
                work.domain |= solve(free, told, work.domain | unknowns)
                least_and_greatest(work)
    unsolved = [(k, x) for k, x in work.scope.indices.items() if x.name not in work.domain]
    unsolved = [
        (k, x) for k, x in unsolved if x.name not in work.ragged
    ]  # those follow from others
    for key, index in unsolved:
        work.state.report(_unsolved(work, key, index, accesses))
    if unsolved:
        raise SilentError
    report_guarded(work, accesses, unguarded)
    want_known_box(work)
    ranges = []
    for kind in ("output", "reduction"):
        for key, index in work.scope.indices.items():
            if index.kind != kind:
                continue
            if index.name in work.ragged:
                ranges.append(guide(work, index, plain))
                continue
            at = work.domain[index.name]
            assert at.low is not None
            assert at.high is not None
            ranges.append(t.Range(index.name, at.low, at.high + 1, index.kind))
            extent = at.high + 1 - at.low
            message = f"the range of '{key}' would have {extent} values"
            if not work.state.demand(extent, message, index.span):
                clause = next((c.node for c in given if c.node.name == key), None)
                raise FaultError(
                    "TC206",
                    f"the range of '{key}' is empty for all sizes",
                    clause.span if clause else index.span,
                    f"{at.low} to {at.high + 1}, so {extent} values",
                )
    return in_order(work, ranges)


def _target_bounds(work: Comprehension) -> list[Bound]:
    """Return what a known box of the target says of the indices on the left."""
    if work.target.dims is None and work.target.box is None:
        return []
    pairs = zip(work.symbolic_subs, work.target.bounds(), strict=True)
    return [Bound(value, low, high) for value, (low, high) in pairs]


def _declared_bounds(work: Comprehension) -> list[Bound]:
    """Return what the dimensions of an annotated return say of indices that stand there bare."""
    if work.target.dims is None:
        return []
    return [
        Bound(value, Size(), extent)
        for value, sub, extent in zip(work.symbolic_subs, work.subs, work.target.dims, strict=True)
        if isinstance(sub, t.IndexValue)
    ]


def _unsolved(
    work: Comprehension, key: str, index: Index, accesses: tuple[Access, ...]
) -> Diagnostic:
    about = [b for a in accesses for b in bounds_of(a) if index.name in b.value.symbols()]
    notes = [_cure(work, key, index, accesses)]
    if hint := near(key, work.frame.names()):
        notes.append(hint)
    if not about:
        message = f"nothing gives the index '{key}' a range"
        return Diagnostic("TC201", message, index.span, "", tuple(notes))
    conditions = list(dict.fromkeys(map(_readable, about)))
    derived = "; ".join(conditions[:4]) + ("; ..." if len(conditions) > 4 else "")
    message = f"the range of '{key}' does not follow from its subscripts"
    notes.insert(0, Note(f"derived: {derived}"))
    return Diagnostic("TC202", message, index.span, "", tuple(notes))


def _cure(work: Comprehension, key: str, index: Index, accesses: tuple[Access, ...]) -> Note:
    """Return a range that can be written as it stands.

    In `pad(I(y + i - 1), 0)` that is all of the dimension in which the index stands; beside another
    index without a range one of the two has to be chosen, and the other follows.
    """
    partners = {x.name: k for k, x in work.scope.indices.items() if x.name not in work.domain}
    summed = [Size.symbol(n, signed=True) for n, c in work.ragged.items() if index.name in c.needs]
    for access in accesses:  # the dimension that sums up to it run through
        for value, (low, high) in zip(access.symbolic_subs, access.tensor.bounds(), strict=True):
            if value in summed:
                return Note(f"give it one: where {key} in {low}:{high}")
    for access in accesses:
        for value, (low, high) in zip(access.symbolic_subs, access.tensor.bounds(), strict=True):
            step = _step(value, index.name)
            if step is None:
                continue
            if not access.padded and any(n in partners for n in value.symbols() if n != index.name):
                return Note(f"give one of them a range: where {key} in 0:3, say")
            first, end = (
                e if e == Size() or step == ONE else (e + step - 1) // step for e in (low, high)
            )
            return Note(f"give it one: where {key} in {first}:{end}")
    size = key.upper()
    if size not in work.frame.sizes:
        size = next((k for k in work.frame.sizes if k not in work.frame.loops), "10")
    number = f"; if it is a number, declare it: float {key}" if index.kind == "reduction" else ""
    return Note(f"give it one: where {key} in 0:{size}, say{number}")


def _step(value: Size, name: str) -> Size | None:
    """Return by how much a subscript grows with an index; None where it does not, or not evenly."""
    at = [substitute_symbols(value, {name: Size.const(k)}) for k in range(3)]
    step = at[1] - at[0]
    return step if step != Size() and step == at[2] - at[1] and is_nonnegative(step) else None


def _readable(bound: Bound) -> str:
    """Return a condition with what is read from data as `(data)`."""
    return re.sub(r"\?\d+", "(data)", str(bound))
