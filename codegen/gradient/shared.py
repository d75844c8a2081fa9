"""Sums of the same terms, but for factors that stay the same along them: added up once.

    d_w(c) +=! d_Y(n, c, p) * (X(n, c, p) - mu(c)) * r(c)
    a_v(c) +=! d_Y(n, c, p) * w(c) * (X(n, c, p) - mu(c)) * r(c)    ->    a_v(c) = d_w(c) * w(c)

The sum that is read has no factor that the other has not, so nothing is divided by one. Factors may
stand outside of a sum, as the language says. A sum of nothing is 0 whatever stands outside: what
may be infinite there, or divide by 0, is under a condition.

    d_b(c) +=! d_Y(n, c) / z(c)    ->    d_b(c) = N > 0 ? d_w(c) / z(c) : 0.0

So what was finite stays finite, wherever the sum that is read is: of some terms, a factor that is
infinite makes all of them infinite or NaN, and so it makes their sum; which of both, rounding says.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from tcdsl.codegen.gradient import build as g
from tcdsl.codegen.gradient.known import matches
from tcdsl.codegen.gradient.lines import Line, Part, walk
from tcdsl.codegen.gradient.versions import Version
from tcdsl.codegen.program.expressions import indices_of, substitute_indices
from tcdsl.codegen.program.ssa import covers_box
from tcdsl.grammar.proofs.signs import is_nonnegative
from tcdsl.grammar.text.dataclass import dataclass
from tcdsl.grammar.types import typed
from tcdsl.grammar.types.dtypes import INT64
from tcdsl.grammar.types.typed import Expr


def shared(
    parts: Sequence[Part],
    values: Mapping[str, Version],
    given: Collection[str],
    kept: Collection[str] = (),
) -> list[Part]:
    """Return parts in which no sum adds up what another one has, but for factors.

    given: tensors that are finite, if what the caller hands in is. kept: tensors that have to be
    written.
    """
    out = [*parts]
    sums = {at: t for at, p in enumerate(out) if (t := _terms(p, values)) is not None}
    for at, mine in sums.items():
        for before, its in sums.items():
            line, stored = out[at], out[before]
            assert isinstance(line, Line)
            assert isinstance(stored, Line)
            if before >= at or not _stands(out, before, at):
                continue
            value = _by(stored, its, line, mine)
            if value is not None:
                if not _is_finite(its, mine, given):
                    cond = _has_terms(line, () if line.target in kept else _readers(out, line))
                    value = g.choose(cond, value, g.number(0, value.dtype))
                told = _told(line)
                ranges = tuple(r for r in line.ranges if r.name in told)
                out[at] = replace(line, op="=", value=value, ranges=ranges)
                break
    return out


@dataclass(frozen=True, slots=True)
class _Terms:
    """What a sum adds up: a number, and factors and divisors, those that stay the same apart."""

    number: float
    still: tuple[tuple[Expr, ...], tuple[Expr, ...]]
    moving: tuple[tuple[Expr, ...], tuple[Expr, ...]]


def _terms(part: Part, values: Mapping[str, Version]) -> _Terms | None:
    """Return what a line adds up of each of its elements; None of a line that is no such sum."""
    if not isinstance(part, Line) or part.op != "+=!" or part.is_ragged:
        return None
    told, v = _told(part), values[part.target]
    plain = [e for e in part.subs if isinstance(e, typed.IndexValue)]
    if len(plain) != len(v.shape) or not covers_box(part.subs, part.ranges, v.shape):
        return None
    if len(part.ranges) == len(told) or v.dtype != part.value.dtype or v.dtype.is_half:
        return None
    if not v.dtype.is_float:  # a quotient of integers is no factor of a sum
        return None
    number, factors, divisors = 1.0, list[Expr](), list[Expr]()
    todo: list[tuple[Expr, bool]] = [(part.value, False)]
    while todo:
        match todo.pop():
            case typed.Binary("*", a, b), False:
                todo += [(b, False), (a, False)]
            case typed.Binary("/", a, b), False:
                todo += [(b, True), (a, False)]
            case typed.Unary("-", a), below:
                number = -number
                todo.append((a, below))
            case typed.Lit(float() as x), False:
                number *= x
            case e, below:
                (divisors if below else factors).append(e)
    summed = {r.name for r in part.ranges} - told

    def split(found: Sequence[Expr], moves: bool) -> tuple[Expr, ...]:
        return tuple(e for e in found if summed.isdisjoint(indices_of(e)) != moves)

    still = split(factors, False), split(divisors, False)
    return _Terms(number, still, (split(factors, True), split(divisors, True)))


def _told(line: Line) -> set[str]:
    return {n for e in line.subs for n in indices_of(e)}


def _stands(parts: Sequence[Part], before: int, at: int) -> bool:
    """Whether a later line may read what an earlier one has stored, in place of what that read."""
    stored = parts[before]
    assert isinstance(stored, Line)
    if sum(x.target == stored.target for x in walk(parts)) != 1:
        return False
    read = {r.tensor for r in stored.reads()}
    return not any(x.target in read for x in walk(parts[before : at + 1]))


def _by(stored: Line, its: _Terms, line: Line, mine: _Terms) -> Expr | None:
    """Return a line's elements by those that another one has stored; None if they are others."""
    by: dict[str, Expr] = {}
    if abs(its.number) != 1 or not any(its.moving) or not _same(its.moving, mine.moving, by):
        return None
    spans = {r.name: r for r in line.ranges}
    summed = spans.keys() - _told(line)
    for r in stored.ranges:
        found = by.get(r.name)
        if not isinstance(found, typed.IndexValue) or found.name not in spans:
            return None
        span = spans.pop(found.name)
        is_summed = r.name not in _told(stored)
        if (span.low, span.high) != (r.low, r.high) or is_summed != (found.name in summed):
            return None
    if spans.keys() & summed:  # some terms more often
        return None
    left: list[list[Expr]] = []
    for own, other in zip(its.still, mine.still, strict=True):
        rest = [*other]
        for e in own:
            moved = substitute_indices(e, by)
            if moved not in rest:
                return None
            rest.remove(moved)
        left.append(rest)
    subs = tuple(
        replace(by[e.name], dtype=INT64) for e in stored.subs if isinstance(e, typed.IndexValue)
    )
    value: Expr = typed.Read(stored.target, subs, line.value.dtype)
    for e in left[0]:
        value = g.mul(value, e)
    for e in left[1]:
        value = g.div(value, e)
    number = its.number * mine.number
    value = g.mul(value, g.number(abs(number), value.dtype))
    return g.neg(value) if number < 0 else value


def _is_finite(its: _Terms, mine: _Terms, given: Collection[str]) -> bool:
    """Whether what stands outside of a sum is finite where all that is given is."""
    if len(mine.still[1]) > len(its.still[1]):
        return False
    return all(isinstance(e, typed.Read) and e.tensor in given for e in mine.still[0])


def _readers(parts: Sequence[Part], line: Line) -> list[Line]:
    return [x for x in walk(parts) if any(r.tensor == line.target for r in x.reads())]


def _has_terms(line: Line, readers: Sequence[Line]) -> Expr | None:
    """Return whether a sum has terms; None where it always has, or nobody reads it where not."""
    cond: Expr | None = None
    told = _told(line)
    for r in line.ranges:
        if r.name in told or is_nonnegative(r.high - r.low - 1):
            continue
        if readers and all(
            any((r.low, r.high) == (x.low, x.high) for x in y.ranges) for y in readers
        ):
            continue
        cond = g.both(cond, g.compare(">", g.size(r.high), g.size(r.low)))
    return cond


def _same(
    its: Sequence[Sequence[Expr]], mine: Sequence[Sequence[Expr]], by: dict[str, Expr]
) -> bool:
    return all(
        len(a) == len(b) and all(matches(x, y, by) for x, y in zip(a, b, strict=True))
        for a, b in zip(its, mine, strict=True)
    )
