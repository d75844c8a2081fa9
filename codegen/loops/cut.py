"""Loops cut where a condition of their counter turns: it holds in one part, and in none beside it.

    simd for (i = 0; i < n; i++) O[i] = i - s >= 0 && i - s < m ? A[i - s] : 0.0f;

    from = clamp(s, 0, n); to = clamp(s + m, from, n);
    simd for (i = 0; i < from; i++) O[i] = 0.0f;
    simd for (i = from; i < to; i++) O[i] = A[i - s];
    simd for (i = to; i < n; i++) O[i] = 0.0f;

Loop splitting by index sets (Griebl, Feautrier, Lengauer 2000). What is left are copies and
fillings without masks, as in the gradient of a slice. Only loops whose conditions are all the same
are cut, long ones with short bodies: a compiler has three texts for one.

What conditions say of other variables alone is asked before the loop, however long it is: gcc 12
makes no vectors of one that asks it at each point (loop unswitching).

    simd for (i = 0; i < n; i++) O[i] = r < m ? A[i] : 0.0f;

    if (r < m) simd for (i = 0; i < n; i++) O[i] = A[i];
    else simd for (i = 0; i < n; i++) O[i] = 0.0f;
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from dataclasses import replace

from tcdsl.codegen.loops import build as b
from tcdsl.codegen.loops.loopir import (
    I64,
    Assign,
    Bin,
    BinaryOp,
    Call,
    Elem,
    Expr,
    For,
    Function,
    Let,
    Load,
    Select,
    Simd,
    Stmt,
    Unit,
    Var,
)
from tcdsl.codegen.loops.names import numbered
from tcdsl.codegen.loops.walk import all_exprs, map_stmt, variables, walk_expr, walk_stmt

_SHORT = 64  # points, of which three loops take as long as one with masks
_LARGE = 64  # nodes of a body that is not worth several texts
_SWAPPED: Mapping[BinaryOp, BinaryOp] = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}


def cut(unit: Unit) -> Unit:
    """Return the unit of a CPU with loops that ask nothing of their counters."""
    return replace(unit, functions=tuple(map(_function, unit.functions)))


def _function(f: Function) -> Function:
    if not any(isinstance(s, For) and s.mark == Simd() for s in walk_stmt(f.body)):
        return f
    taken = {p.name for p in f.params}
    for e in all_exprs(f.body):
        if isinstance(e, Var | Elem):
            taken.add(e.name if isinstance(e, Var) else e.array)
    taken |= {s.var.name for s in walk_stmt(f.body) if isinstance(s, Let | For)}

    def visit(s: Stmt) -> Stmt:
        if not isinstance(s, For) or s.mark != Simd():
            return s
        if sum(1 for _ in all_exprs(s.body)) > _LARGE:
            return s
        return _asked_before(s, taken)

    return replace(f, body=map_stmt(f.body, visit))


def _asked_before(s: For, taken: set[str]) -> Stmt:
    """Return a loop behind what its conditions all ask of other variables, cut where they turn."""
    conditions = list(dict.fromkeys(_conditions(s.body)))
    changed = _changed(s)
    asked = [a for c in conditions[:1] for a in _atoms(c) if _is_same(a, changed)]
    asked = [a for a in asked if all(a in _atoms(c) for c in conditions[1:])]
    if not asked:
        return _cut(s, taken)

    def where(holds: bool) -> For:
        def chosen(e: Expr) -> Expr:
            if not (isinstance(e, Select) and e.cond in conditions):
                return e
            rest = [a for a in _atoms(e.cond) if a not in asked]
            return b.select(b.all_of(*rest), e.then, e.other) if holds else e.other

        return replace(s, body=map_stmt(s.body, lambda t: t, chosen))

    return b.either(b.all_of(*asked), _cut(where(holds=True), taken), where(holds=False))


def _changed(s: For) -> set[str]:
    """Return the variables that are others at each point of a loop."""
    inside = [*walk_stmt(s)]
    assigned = {t.place.name for t in inside if isinstance(t, Assign) and isinstance(t.place, Var)}
    return assigned | {t.var.name for t in inside if isinstance(t, Let | For)}


def _is_same(e: Expr, changed: Set[str]) -> bool:
    """Whether an expression is the same along a loop: made of variables that do not change."""
    is_plain = not any(isinstance(x, Load | Call | Select | Elem) for x in walk_expr(e))
    return is_plain and variables(e).isdisjoint(changed)


def _cut(s: For, taken: set[str]) -> Stmt:
    """Return a loop in parts, or as it is."""
    name, length = s.var.name, b.value_of(b.sub(s.high, s.low))
    if b.value_of(s.step) != 1 or (length is not None and length < _SHORT):
        return s
    conditions = {*_conditions(s.body)}
    turning = {tuple(a for a in _atoms(c) if name in variables(a)) for c in conditions}
    if len(turning) != 1:
        return s
    changed = _changed(s)
    ends = [_end(a, name, changed, s.high) for a in turning.pop()]
    if not ends or None in ends:
        return s
    first, last = b.i64(numbered(f"{name}_from", taken)), b.i64(numbered(f"{name}_to", taken))
    low, high = s.low, s.high
    for end in ends:
        assert end is not None
        is_low, at = end
        low, high = (b.max64(low, at), high) if is_low else (low, b.min64(high, at))

    def part(start: Expr, stop: Expr, holds: bool) -> Stmt:
        def chosen(e: Expr) -> Expr:
            if not (isinstance(e, Select) and e.cond in conditions):
                return e
            rest = [a for a in _atoms(e.cond) if name not in variables(a)]
            return b.select(b.all_of(*rest), e.then, e.other) if holds else e.other

        return replace(s, low=start, high=stop, body=map_stmt(s.body, lambda t: t, chosen))

    return b.block(
        Let(first, b.min64(low, s.high)),
        Let(last, b.max64(high, first)),
        part(s.low, first, holds=False),
        part(first, last, holds=True),
        part(last, s.high, holds=False),
    )


def _conditions(body: Stmt) -> Iterator[Expr]:
    """Yield the conditions under which memory is read."""
    for e in all_exprs(body):
        if isinstance(e, Select) and any(isinstance(x, Load) for x in walk_expr(e)):
            yield e.cond


def _atoms(e: Expr) -> tuple[Expr, ...]:
    """Return the parts of a conjunction."""
    found: list[Expr] = []
    while isinstance(e, Bin) and e.op == "&&":
        found = [*_atoms(e.rhs), *found]
        e = e.lhs
    return (e, *found)


def _end(a: Expr, name: str, changed: Set[str], high: Expr) -> tuple[bool, Expr] | None:
    """Return whether a comparison holds from some value of a variable on, or before it; and which.

    high: the end of the variable's values. None if it is no such comparison.
    """
    if not isinstance(a, Bin) or a.op not in _SWAPPED:
        return None
    op, lhs, rhs = a.op, a.lhs, a.rhs
    if name in variables(rhs):
        op, lhs, rhs = _SWAPPED[op], rhs, lhs
    rest = _without(lhs, name)
    if rest is None or not all(x.type == I64 and _is_same(x, changed) for x in (rest, rhs)):
        return None
    at = b.sub(rhs, rest)
    if op in (">", "<="):  # of numbers that a caller gave, one more may be none
        at = b.add(at if b.value_of(at) is not None else b.min64(at, high), 1)
    return op in (">", ">="), at


def _without(e: Expr, name: str) -> Expr | None:
    """Return e - v where that is free of v."""
    match e:
        case Bin("+", lhs, rhs, t) if t == I64:
            if name in variables(rhs):
                lhs, rhs = rhs, lhs
            rest = _without(lhs, name)
            return None if rest is None else b.add(rest, rhs)
        case Bin("-", lhs, rhs, t) if t == I64:
            rest = _without(lhs, name)
            return None if rest is None else b.sub(rest, rhs)
        case _:
            return b.c64(0) if e == b.i64(name) else None
