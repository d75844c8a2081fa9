"""What goes back through a division by a sum, in terms of the quotient that is kept.

    Y(n, m) = E(n, m) / s(n)

    a(n) +=! -(d(n, m) / s(n) * Y(n, m))             a(n) +=! -(d(n, m) * Y(n, m))
    X(n, m) = d(n, m) * Y(n, m) + a(n) * E(n, m) ->  X(n, m) = (d(n, m) + a(n)) * Y(n, m)

    Y(n, m) = X(n, m) - mx(n) - log(s(n))            of a sum s of exponentials

    a(n) +=! -(d(n, m) / s(n))                       a(n) +=! -d(n, m)
    .. a(n) * exp(X(n, m) - mx(n))                ->  .. a(n) * exp(Y(n, m))

So neither the values that are divided are computed again, nor what they are divided by is read. It
is right for values that softmax divides: where a quotient has overflowed, both give no number.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from tcdsl.codegen.gradient import build as g
from tcdsl.codegen.gradient.known import matches
from tcdsl.codegen.gradient.lines import Line, Part, walk
from tcdsl.codegen.gradient.versions import Versions, VersionStep
from tcdsl.codegen.program.expressions import (
    map_operands,
    substitute_indices,
    walk_typed,
)
from tcdsl.grammar.proofs.signs import is_nonnegative
from tcdsl.grammar.types import typed
from tcdsl.grammar.types.dtypes import BOOL
from tcdsl.grammar.types.typed import Expr, Range


def normalised(parts: Sequence[Part], versions: Versions, kept: Collection[str]) -> list[Part]:
    """Return parts that go back through quotients by the quotients.

    kept: tensors that have to hold what they do.
    """
    out = [*parts]
    steps = {s.target: s for s in versions.nodes if isinstance(s, VersionStep)}
    for s in steps.values():
        quotient = _quotient(s, steps, versions) if s.op == "=" else None
        if quotient is None or s.target not in versions.exact:
            continue
        if quotient.is_log and not _is_there(s.target, versions, out):
            continue
        for line in [x for x in out if isinstance(x, Line)]:
            product = quotient.product(line) if line.target not in kept else None
            if product is not None and sum(x.target == line.target for x in walk(out)) == 1:
                out = _rewritten(out, line, product, quotient)
    return out


def _quotient(
    s: VersionStep, steps: Mapping[str, VersionStep], versions: Versions
) -> _Quotient | None:
    """Return what a step divides by another one's result, itself or as a logarithm."""
    match s.value:
        # an input below: what it gets is returned, and nothing behind it could divide
        case typed.Binary("/", above, typed.Read(name) as below) if name in steps:
            return _Quotient(s, _spellings(above, steps), below)
        case typed.Binary(
            "-", above, typed.Builtin("log", (typed.Read(name) as below,)), dtype
        ) if (
            name in steps
            and _is_of_exponentials(steps[name], steps)
            and versions.values[s.target].dtype == dtype  # half: its digits would be too few
        ):
            return _Quotient(s, [g.call("exp", above)], below, is_log=True)
    return None


def _is_of_exponentials(s: VersionStep, steps: Mapping[str, VersionStep]) -> bool:
    """Whether a step sums what is not negative since it is exponentials."""
    value = s.value
    if isinstance(value, typed.Read) and value.tensor in steps:
        value = steps[value.tensor].value
    return (
        s.op == "+=!"
        and s.base is None
        and isinstance(value, typed.Builtin)
        and (value.name == "exp")
    )


def _is_there(name: str, versions: Versions, parts: Sequence[Part]) -> bool:
    """Whether a version is returned, hence may be kept, or lines have it anyway."""
    lines = [*walk(parts)]
    return name in versions.finals.values() or any(
        name == line.target or any(r.tensor == name for r in line.reads()) for line in lines
    )


def _spellings(above: Expr, steps: Mapping[str, VersionStep]) -> list[Expr]:
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

    is_log: the step is the logarithm of that, so the quotient is exp(Y). ranges: those of the line
    that is looked through. known: the condition under which an expression stands, if there is one.
    """

    def __init__(
        self,
        step: VersionStep,
        above: Sequence[Expr],
        below: typed.Read,
        is_log: bool = False,
        ranges: Sequence[Range] = (),
        known: Expr | None = None,
    ) -> None:
        self.step, self.above, self.below = step, above, below
        self.is_log, self.ranges, self.known = is_log, ranges, known

    def over(self, ranges: Sequence[Range]) -> _Quotient:
        """Return the same for expressions of a line."""
        return _Quotient(self.step, self.above, self.below, self.is_log, ranges)

    def where(self, cond: Expr) -> _Quotient:
        """Return the same for expressions under a condition."""
        return _Quotient(self.step, self.above, self.below, self.is_log, self.ranges, cond)

    def product(self, line: Line) -> Expr | None:
        """Return the terms of a sum `a(p) +=! -(d / below(p) * Y)` undivided, None of others.

        Of a logarithm those of `a(p) +=! -(d / below(p))`.
        """
        match line.value:
            case typed.Unary("-", typed.Binary("/", d, typed.Read(r, p))) if self.is_log:
                is_it = line.op == "+=!" and r == self.below.tensor and line.subs == p
                return d if is_it else None
            case typed.Unary("-") if not self.is_log:
                factors = _place_of_sum(line, self.step, self.below)
                return None if factors is None else g.mul(*factors)
        return None

    def is_one(self, e: Expr) -> bool:
        """Whether an expression reads the quotient."""
        if self.is_log:
            return isinstance(e, typed.Builtin) and e.name == "exp" and self._is_step(e.args[0])
        return self._is_step(e)

    def _is_step(self, e: Expr) -> bool:
        return isinstance(e, typed.Read) and e.tensor == self.step.target

    def at(self, e: Expr) -> tuple[Expr, tuple[Expr, ...]] | None:
        """Return Y where e is what was divided, and the subscripts of what it was divided by."""
        for pattern in self.above:
            by: dict[str, Expr] = {}
            if isinstance(pattern, typed.Select) and self.known is not None:
                # of what was divided under this condition too, one branch
                is_found = matches(pattern.cond, self.known, by) and matches(pattern.then, e, by)
            else:
                is_found = matches(pattern, e, by)
            if is_found and self._is_stored(by):
                subs = tuple(substitute_indices(x, by, address=True) for x in self.step.subs)
                its = tuple(substitute_indices(x, by, address=True) for x in self.below.subs)
                read = typed.Read(self.step.target, subs, self.step.value.dtype)
                return (g.call("exp", read) if self.is_log else read), its
        return None

    def _is_stored(self, by: Mapping[str, Expr]) -> bool:
        """Whether the step writes the quotient at these values of its indices."""
        spans = {r.name: r for r in self.ranges}
        for r in self.step.ranges:
            its = by.get(r.name)
            span = spans.get(its.name) if isinstance(its, typed.IndexValue) else None
            if span is None or span.is_guess or r.bounds is not None:
                return False
            if not (is_nonnegative(span.low - r.low) and is_nonnegative(r.high - span.high)):
                return False
        return True


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


def _rewritten(parts: list[Part], line: Line, product: Expr, quotient: _Quotient) -> list[Part]:
    """Return parts with the sum undivided and its readers by the quotient; the same if one cannot.

    Only where all of what reads the sum multiplies by what was divided.
    """
    out: list[Part] = []
    is_read = False
    for part in parts:
        if part is line:
            out.append(replace(line, value=g.neg(product)))
        elif not any(r.tensor == line.target for x in walk((part,)) for r in x.reads()):
            out.append(part)
        elif isinstance(part, Line):
            value = _by_quotient(part.value, line.target, quotient.over(part.ranges))
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
        case typed.Binary("*", lhs, rhs) if quotient.is_one(rhs):
            last = lhs.rhs if isinstance(lhs, typed.Binary) and lhs.op == "+" else lhs
            return isinstance(last, typed.Read) and last.tensor == name
    return False
