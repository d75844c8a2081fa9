"""What goes back through a division by a sum, in terms of the quotient that is kept.

    Y(n, m) = E(n, m) / s(n)

    a(n) +=! -(d(n, m) / s(n) * Y(n, m))             a(n) +=! -(d(n, m) * Y(n, m))
    X(n, m) = d(n, m) * Y(n, m) + a(n) * E(n, m) ->  X(n, m) = (d(n, m) + a(n)) * Y(n, m)

So neither the values that are divided are computed again, nor what they are divided by is read. It
is right for values that softmax divides: where a quotient has overflowed, both give no number.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tcdsl.codegen.gradient.known import matches
from tcdsl.codegen.gradient.lines import Line, Part, walk
from tcdsl.codegen.gradient.versions import Versions, VersionStep
from tcdsl.codegen.program.expressions import (
    map_operands,
    substitute_indices,
    walk_typed,
)
from tcdsl.grammar.types import typed
from tcdsl.grammar.types.dtypes import BOOL
from tcdsl.grammar.types.typed import Expr


def normalised(parts: Sequence[Part], versions: Versions) -> list[Part]:
    """Return parts that go back through quotients by the quotients."""
    out = [*parts]
    steps = {s.target: s for s in versions.nodes if isinstance(s, VersionStep)}
    for s in steps.values():
        if s.op != "=" or s.target not in versions.exact or not isinstance(s.value, typed.Binary):
            continue
        above, below = s.value.lhs, s.value.rhs
        if s.value.op != "/" or not isinstance(below, typed.Read):
            continue
        if below.tensor not in steps:
            continue  # an input: what it gets is returned, and nothing behind it could divide
        for line in [x for x in out if isinstance(x, Line)]:
            at = _place_of_sum(line, s, below)
            if at is not None and sum(x.target == line.target for x in walk(out)) == 1:
                out = _rewritten(out, line, at, _Quotient(s, _spellings(above, steps), below))
    return out


def _spellings(above: Expr, steps: dict[str, VersionStep]) -> list[Expr]:
    """Return what is divided as lines may have it: its name, or what is stored under it."""
    found = [above]
    if isinstance(above, typed.Read) and above.tensor in steps:
        step = steps[above.tensor]
        names = [e.name for e in step.subs if isinstance(e, typed.IndexValue)]
        if step.op == "=" and step.base is None and len(names) == len(step.subs):
            by = dict(zip(names, above.subs, strict=True))
            found.append(substitute_indices(step.value, by))
    return found


class _Quotient:
    """A step `Y = above / below`, to be found in lines with other indices.

    known: the condition under which an expression stands, if there is one.
    """

    def __init__(
        self,
        step: VersionStep,
        above: Sequence[Expr],
        below: typed.Read,
        known: Expr | None = None,
    ) -> None:
        self.step, self.above, self.below, self.known = step, above, below, known

    def where(self, cond: Expr) -> _Quotient:
        """Return the same for expressions under a condition."""
        return _Quotient(self.step, self.above, self.below, cond)

    def at(self, e: Expr) -> tuple[Expr, tuple[Expr, ...]] | None:
        """Return Y where e is what was divided, and the subscripts of what it was divided by."""
        for pattern in self.above:
            by: dict[str, Expr] = {}
            if isinstance(pattern, typed.Select) and self.known is not None:
                # of what was divided under this condition too, one branch
                is_found = matches(pattern.cond, self.known, by) and matches(pattern.then, e, by)
            else:
                is_found = matches(pattern, e, by)
            if is_found:
                names = {x.name for sub in self.step.subs for x in _indices(sub)}
                if names <= by.keys():
                    subs = tuple(substitute_indices(x, by, address=True) for x in self.step.subs)
                    its = tuple(substitute_indices(x, by, address=True) for x in self.below.subs)
                    return typed.Read(self.step.target, subs, self.step.value.dtype), its
        return None


def _place_of_sum(line: Line, s: VersionStep, below: typed.Read) -> tuple[Expr, Expr] | None:
    """Return the two factors d and Y of a line `a(p) +=! -(d / below(p) * Y)`, None of others."""
    match line.value:
        case typed.Unary(
            "-", typed.Binary("*", typed.Binary("/", d, typed.Read(r, p)), typed.Read(y, q) as read)
        ) if line.op == "+=!" and (r, y) == (below.tensor, s.target):
            by: dict[str, Expr] = {}
            same = all(matches(a, b, by) for a, b in zip(s.subs, q, strict=True))
            if same and tuple(substitute_indices(e, by, address=True) for e in below.subs) == p:
                return (d, read) if line.subs == p else None
    return None


def _rewritten(
    parts: list[Part], line: Line, factors: tuple[Expr, Expr], quotient: _Quotient
) -> list[Part]:
    """Return parts with the sum undivided and its readers by the quotient; the same if one cannot.

    Only where all of what reads the sum multiplies by what was divided.
    """
    d, y = factors
    out: list[Part] = []
    is_read = False
    for part in parts:
        if part is line:
            product = typed.Binary("*", d, y, y.dtype)
            out.append(replace(line, value=typed.Unary("-", product, y.dtype)))
        elif not any(r.tensor == line.target for x in walk((part,)) for r in x.reads()):
            out.append(part)
        elif isinstance(part, Line):
            value = _by_quotient(part.value, line.target, quotient)
            new = replace(part, value=value)
            left = sum(r.tensor == line.target for r in new.reads())
            if left != _products(value, line.target, quotient):
                return parts
            if _products(part.value, line.target, quotient):
                return parts  # which the quotient itself multiplies, not what was divided
            is_read = True
            out.append(new)
        else:
            return parts
    return out if is_read else parts


def _by_quotient(e: Expr, name: str, quotient: _Quotient) -> Expr:
    """Return an expression with `a * E` as `a * Y`, and `(d / s + a) * E` as `(d + a) * Y`."""
    match e:
        case typed.Binary("*", lhs, rhs, dtype):
            found = quotient.at(rhs)
            if found is not None:
                y, place = found
                new = _undivided(lhs, name, place, quotient)
                if new is not None:
                    return typed.Binary("*", new, y, dtype)
        case typed.Select(cond, then, other):
            inside, outside = quotient.where(cond), quotient.where(typed.Unary("!", cond, BOOL))
            return replace(
                e,
                cond=_by_quotient(cond, name, quotient),
                then=_by_quotient(then, name, inside),
                other=_by_quotient(other, name, outside),
            )
        case typed.Binary("+", typed.Binary("*", d, y), rhs, dtype):
            new = _by_quotient(rhs, name, quotient)
            if new != rhs and isinstance(new, typed.Binary) and new.op == "*" and new.rhs == y:
                return typed.Binary("*", typed.Binary("+", d, new.lhs, dtype), y, dtype)
        case _:
            pass
    return map_operands(e, lambda x: _by_quotient(x, name, quotient))


def _undivided(e: Expr, name: str, place: tuple[Expr, ...], quotient: _Quotient) -> Expr | None:
    """Return the sum, alone or behind something over the divisor, without that."""
    match e:
        case typed.Read(tensor, subs) if tensor == name and subs == place:
            return e
        case typed.Binary("+", typed.Binary("/", d, typed.Read(r, subs)), last, dtype) if (
            r == quotient.below.tensor and subs == place
        ):
            new = _undivided(last, name, place, quotient)
            return None if new is None else typed.Binary("+", d, new, dtype)
    return None


def _products(e: Expr, name: str, quotient: _Quotient) -> int:
    """Return how often an expression multiplies a sum by the quotient."""
    return sum(_is_rewritten(x, name, quotient) for x in walk_typed(e))


def _is_rewritten(e: Expr, name: str, quotient: _Quotient) -> bool:
    """Whether an expression multiplies a sum by the quotient."""
    match e:
        case typed.Binary("*", lhs, typed.Read(tensor)) if tensor == quotient.step.target:
            last = lhs.rhs if isinstance(lhs, typed.Binary) and lhs.op == "+" else lhs
            return isinstance(last, typed.Read) and last.tensor == name
    return False


def _indices(e: Expr) -> list[typed.IndexValue]:
    return [x for x in walk_typed(e) if isinstance(x, typed.IndexValue)]
