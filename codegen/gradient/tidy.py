"""Lines made readable: what nothing reads is dropped, subscripts and conditions are folded.

y - kh + 1 + kh - 1 >= 0   ->   nothing, for y in 0:H
T - t - 1 + 1              ->   T - t
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence, Set
from dataclasses import replace
from typing import Literal

from tcdsl.codegen.gradient import build as g
from tcdsl.codegen.gradient.gather import clamped
from tcdsl.codegen.gradient.lines import Line, Loop, Part, copied, map_line, to_read, walk
from tcdsl.codegen.gradient.versions import Version
from tcdsl.codegen.program.affine import Affine, affine_of
from tcdsl.codegen.program.expressions import (
    map_operands,
    map_typed,
    reads_of,
    walk_typed,
    with_bounds,
)
from tcdsl.codegen.program.subscripts import expr_of
from tcdsl.grammar.check.symbolic import SymbolicValues
from tcdsl.grammar.proofs.ranges import Interval, interval
from tcdsl.grammar.proofs.signs import is_nonnegative
from tcdsl.grammar.proofs.sizes import Size
from tcdsl.grammar.types import typed
from tcdsl.grammar.types.dtypes import BOOL, INT64
from tcdsl.grammar.types.typed import Expr

_Comparison = Literal["<", "<=", ">", ">=", "==", "!="]
_MIRRORED: dict[str, _Comparison] = {
    "<": ">", "<=": ">=", ">": "<", ">=": "<=", "==": "==", "!=": "!=",
}  # fmt: skip
_TRUE, _FALSE = typed.Lit(True, BOOL), typed.Lit(False, BOOL)


def without_dead(parts: Sequence[Part], wanted: Collection[str]) -> list[Part]:
    """Return parts without the lines whose results nothing wanted comes from."""
    alive = set(wanted)
    lines, before = [*walk(parts)], -1
    while len(alive) != before:
        before = len(alive)
        for line in reversed(lines):  # a reader first: one pass tells all but loops
            if line.target in alive:
                alive |= {r.tensor for r in line.reads()}
    return only(parts, alive)


def only(parts: Sequence[Part], alive: Collection[str]) -> list[Part]:
    """Return the parts that write one of some tensors."""
    out: list[Part] = []
    for part in parts:
        if isinstance(part, Line):
            if part.target in alive:
                out.append(part)
        elif body := only(part.body, alive):
            out.append(replace(part, body=tuple(body)))
    return out


def without_copies(parts: Sequence[Part], values: Mapping[str, Version]) -> list[Part]:
    """Return parts in which what only copies an adjoint that is finished is read as that."""
    out: list[Part | None] = [
        replace(p, body=tuple(without_copies(p.body, values))) if isinstance(p, Loop) else p
        for p in parts
    ]
    writers: dict[str, list[int]] = {}  # by position, of a tensor
    readers: dict[str, set[int]] = {}
    for at, part in enumerate(out):
        for x in walk([part] if part is not None else []):
            writers.setdefault(x.target, []).append(at)
            for r in x.reads():
                readers.setdefault(r.tensor, set()).add(at)
    for at, line in enumerate(out):
        source = copied(line, values) if isinstance(line, Line) else None
        if source is None or not isinstance(line, Line):
            continue
        its = readers.get(line.target, set())
        is_finished = max(writers.get(source, [at])) <= at
        if writers[line.target] == [at] and is_finished and min(its, default=at) >= at:
            out[at] = None
            readers[source].discard(at)
            for later in its - {at}:
                part = out[later]
                assert part is not None
                (out[later],) = reading([part], line.target, source)
                readers[source].add(later)
    return [p for p in out if p is not None]


def reading(parts: Sequence[Part], name: str, new: str) -> list[Part]:
    """Return parts that read another tensor in place of one."""
    return [
        replace(x, body=tuple(reading(x.body, name, new)))
        if isinstance(x, Loop)
        else map_line(x, to_read(new, instead_of=name), lambda s: s)
        for x in parts
    ]


def tidied(parts: Sequence[Part], taken: Collection[str]) -> list[Part]:
    """Return parts with shorter expressions.

    taken: names that hide the builtin functions which are called so.
    """
    out: list[Part] = []
    for part in parts:
        if isinstance(part, Loop):
            out.append(replace(part, body=tuple(tidied(part.body, taken))))
            continue
        value = _decided(part)
        subs = tuple(folded(map_typed(e, _subscripts)) for e in part.subs)
        value = map_typed(value, lambda e: _spelled(e, taken))
        ranges = with_bounds(part.ranges, lambda e: folded(map_typed(e, _subscripts)))
        out.append(replace(part, subs=subs, value=value, ranges=ranges))
    return out


def without_nothing(lines: Sequence[Line]) -> list[Line]:
    """Return the lines that add something: not those under a condition that never holds."""
    return [
        x for x in lines if not (isinstance(x.value, typed.Select) and g.is_number(_decided(x), 0))
    ]


def bounded(
    parts: Sequence[Part], values: Mapping[str, Version], returns: Collection[str]
) -> list[Part]:
    """Return parts in which data subscripts of temporaries have bounds, which give them a box.

    They lie inside: the forward pass has read or written there.
    """
    out: list[Part] = []
    for part in parts:
        if isinstance(part, Loop):
            out.append(replace(part, body=tuple(bounded(part.body, values, returns))))
        elif part.target in returns or not any(reads_of(e) for e in part.subs):
            out.append(part)
        else:
            pairs = zip(part.subs, values[part.target].shape, strict=True)
            subs = tuple(clamped(e, n) if reads_of(e) else e for e, n in pairs)
            out.append(replace(part, subs=subs))
    return out


# ---- subscripts


def _subscripts(e: Expr) -> Expr:
    if isinstance(e, typed.Read):
        return replace(e, subs=tuple(map(folded, e.subs)))
    if isinstance(e, typed.Binary) and e.dtype == BOOL and e.lhs.dtype == INT64:
        return _compared(e)
    return e


def _compared(e: typed.Binary) -> Expr:
    """Return a comparison of subscripts with the indices on the left, the rest on the right."""
    a = affine_of(typed.Binary("-", e.lhs, e.rhs, INT64))
    if a is None or any(isinstance(x, typed.Cast) for x in walk_typed(e)) or not a.terms:
        return replace(e, lhs=folded(e.lhs), rhs=folded(e.rhs))
    op, terms, const = e.op, a.terms, a.const
    if all(c < 0 for _, c in terms):
        op, terms, const = _MIRRORED[op], tuple((n, -c) for n, c in terms), -const
    left, right = Affine(terms, Size()), Affine((), -const)
    return replace(e, op=op, lhs=expr_of(left), rhs=expr_of(right))


def folded(e: Expr) -> Expr:
    """Return an affine subscript as short as it goes; another one as it is."""
    a = affine_of(e)
    if a is None or any(isinstance(x, typed.Cast) for x in walk_typed(e)):
        return e
    return expr_of(a)


# ---- conditions


def _conditions(e: Expr, domain: Mapping[str, Interval], known: Set[Expr]) -> Expr:
    """Fold comparisons that the ranges, or a condition around them, decide."""
    match e:
        case typed.Select(cond, then, other):
            cond = _conditions(cond, domain, known)
            if cond == _TRUE:
                return _conditions(then, domain, known)
            if cond == _FALSE:
                return _conditions(other, domain, known)
            return replace(
                e,
                cond=cond,
                then=_conditions(then, domain, known | _known(cond)),
                other=_conditions(other, domain, known),
            )
        case typed.Binary("&&"):
            both: Expr = _TRUE
            holding = {*known}
            for x in _conjuncts(e):
                part = _conditions(x, domain, holding)
                if part == _FALSE:
                    return _FALSE
                if part != _TRUE:
                    both = part if both is _TRUE else replace(e, lhs=both, rhs=part)
                    holding |= _known(part)
            return both
        case typed.Binary("||", a, b):
            a = _conditions(a, domain, known)
            b = _conditions(b, domain, known)
            if _TRUE in (a, b):
                return _TRUE
            return b if a == _FALSE else a if b == _FALSE else replace(e, lhs=a, rhs=b)
        case typed.Binary("<" | "<=" | ">" | ">=") if e.lhs.dtype.is_integer:
            return _TRUE if e in known or _holds(e, domain) else e
        case typed.Binary("==") if e.lhs.dtype.is_integer and e.lhs == e.rhs:
            return _TRUE
        case typed.Unary("!", operand):
            inner = _conditions(operand, domain, known)
            if inner in (_TRUE, _FALSE):
                return _FALSE if inner == _TRUE else _TRUE
            return replace(e, operand=inner)
        case _:
            return map_operands(e, lambda x: _conditions(x, domain, known))


def _decided(line: Line) -> Expr:
    """Return the value of a line without comparisons that its ranges decide."""
    domain = {r.name: r.values for r in line.ranges}
    return _conditions(map_typed(line.value, _subscripts), domain, frozenset())


def _conjuncts(cond: Expr) -> list[Expr]:
    """Return what a chain of && joins, from left to right."""
    parts: list[Expr] = []
    todo = [cond]
    while todo:
        e = todo.pop()
        if isinstance(e, typed.Binary) and e.op == "&&":
            todo += [e.rhs, e.lhs]
        else:
            parts.append(e)
    return parts


def _known(cond: Expr) -> frozenset[Expr]:
    """Return the comparisons of integers that hold where a condition does."""
    return frozenset(
        x
        for x in _conjuncts(cond)
        if isinstance(x, typed.Binary) and x.dtype == BOOL and x.lhs.dtype.is_integer
    )


def _holds(e: typed.Binary, domain: Mapping[str, Interval]) -> bool:
    symbolic = SymbolicValues()
    a, b = symbolic.of(e.lhs), symbolic.of(e.rhs)
    if any(s.startswith("?") for s in (*a.symbols(), *b.symbols())):
        return False
    difference = b - a if e.op in ("<", "<=") else a - b
    low = interval(difference, domain).low
    if low is None:
        return False
    return is_nonnegative(low if e.op in ("<=", ">=") else low - 1)


# ---- functions


def _spelled(e: Expr, taken: Collection[str]) -> Expr:
    """Return a function by other means where something else has its name, or that is shorter."""
    match e:
        case typed.Binary(">", typed.Builtin("relu", (x,)), typed.Lit(0.0) as zero):
            return replace(e, lhs=x, rhs=zero)
        case typed.Builtin(name, (x,), dtype) if name in taken and dtype.is_float:
            one, zero = g.number(1, dtype), g.number(0, dtype)
            if name == "sigmoid":
                return g.div(one, g.add(one, g.call("exp", g.neg(x))))
            if name == "sign":
                below = g.choose(g.compare("<", x, zero), g.neg(one), x)
                return g.choose(g.compare(">", x, zero), one, below)
            return e
        case typed.Builtin("isnan", (x,)) if "isnan" in taken:
            return g.compare("!=", x, x)
        case typed.Builtin("isinf", (x,)) if "isinf" in taken:
            zero = g.number(0, x.dtype)
            is_number, is_odd = g.compare("==", x, x), g.compare("!=", g.sub(x, x), zero)
            return typed.Binary("&&", is_number, is_odd, BOOL)
        case _:
            return e
