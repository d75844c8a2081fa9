"""The box of a comprehension: ranges that `where` gives, and those that subscripts give.

A guard that ensures a subscript takes it out of the solving of indices that something unguarded
bounds: in `(h + kh - 1 >= 0 && h + kh - 1 < H) ? I(h + kh - 1) * W(kh) : 0` only W bounds kh. An
index that is still free takes the declared dimension in which it stands bare on the left; then all
guarded reads bound what is left; last, a known box of the target does.
"""

from __future__ import annotations

import re

from tcdsl.grammar.check.comprehension import Comprehension
from tcdsl.grammar.check.expressions import Access, Context, Typer
from tcdsl.grammar.check.scope import Index, SilentError, near
from tcdsl.grammar.check.values import integral
from tcdsl.grammar.proofs.ranges import ONE, Bound, Interval, solve
from tcdsl.grammar.proofs.signs import is_nonnegative, substitute_symbols
from tcdsl.grammar.proofs.sizes import Size
from tcdsl.grammar.text import nodes as n
from tcdsl.grammar.text.errors import Diagnostic, Note
from tcdsl.grammar.text.fault import FaultError
from tcdsl.grammar.types import typed as t

Given = list[tuple[n.RangeClause, Size, Size]]


def given_ranges(work: Comprehension) -> tuple[Given, list[Access]]:
    """Return the given ranges, and the accesses that are not evaluated."""
    given: Given = []
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
        low, high = (_bound(work, e, clause.name) for e in (clause.low, clause.high))
        given.append((clause, low, high))
    return given, exists


def _where_index(work: Comprehension, clause: n.RangeClause) -> None:
    name = clause.name
    role = "a name of 'where'" if name in work.scope.lets else work.frame.role(name)
    if role is not None:
        raise FaultError("TC118", f"'{name}' is {role}, so it has no range", clause.span)
    if name not in work.scope.indices:
        work.typer.value(n.Name(name, span=clause.span), Context(is_subscript=True))


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
    value = typer.value(node, Context(is_subscript=True, new_indices=False))
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


def solve_ranges(work: Comprehension, given: Given, exists: list[Access]) -> tuple[t.Range, ...]:
    """Find the range of every index."""
    by_name = {c.name: (low, high) for c, low, high in given}
    work.domain = {
        x.name: Interval(by_name[k][0], by_name[k][1] - 1)
        for k, x in work.scope.indices.items()
        if k in by_name
    }
    unknowns = work.typer.symbolic.unknowns
    accesses = (*work.typer.accesses, *exists)
    plain = [b for a in accesses if not a.context.guarded for b in _bounds_of(a)]
    bounds = [b for a in accesses for b in _bounds_of(a)]
    open_ = [b for a in accesses for b in _left_open(a)]
    declared = _declared_bounds(work)
    for conditions in (plain, declared, open_, bounds, [*bounds, *_target_bounds(work)]):
        free = [x.name for x in work.scope.indices.values() if x.name not in work.domain]
        if free:
            work.domain |= solve(free, conditions, work.domain | unknowns)
    unsolved = [(k, x) for k, x in work.scope.indices.items() if x.name not in work.domain]
    for key, index in unsolved:
        work.state.report(_unsolved(work, key, index, accesses))
    if unsolved:
        raise SilentError
    ranges = []
    for kind in ("output", "reduction"):
        for key, index in work.scope.indices.items():
            if index.kind != kind:
                continue
            at = work.domain[index.name]
            assert at.low is not None
            assert at.high is not None
            ranges.append(t.Range(index.name, at.low, at.high + 1, index.kind))
            extent = at.high + 1 - at.low
            message = f"the range of '{key}' would have {extent} values"
            if not work.state.demand(extent, message, index.span):
                clause = next((c for c, _, _ in given if c.name == key), None)
                raise FaultError(
                    "TC206",
                    f"the range of '{key}' is empty for all sizes",
                    clause.span if clause else index.span,
                    f"{at.low} to {at.high + 1}, so {extent} values",
                )
    return tuple(ranges)


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
    about = [b for a in accesses for b in _bounds_of(a) if index.name in b.value.symbols()]
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


def _bounds_of(access: Access) -> list[Bound]:
    return [Bound(value, low, high) for value, low, high in access.bounds()]


def _left_open(access: Access) -> list[Bound]:
    """Return what an access asks of its subscripts beyond what its guard makes sure of."""

    def ensured(size: Size) -> bool:
        return any(is_nonnegative(size - fact) for fact in access.context.facts)

    return [
        Bound(
            b.value,
            None if b.low is None or ensured(b.value - b.low) else b.low,
            None if b.high is None or ensured(b.high - 1 - b.value) else b.high,
        )
        for b in _bounds_of(access)
    ]


def _readable(bound: Bound) -> str:
    """Return a condition with what is read from data as `(data)`."""
    return re.sub(r"\?\d+", "(data)", str(bound))
