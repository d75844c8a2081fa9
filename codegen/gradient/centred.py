"""Sums of what is centred, which are 0: the differences of values from their own mean.

    mu(n) +=! X(n, m) / float(M)
    a(n) +=! -(d_Y(n, m) * r(n))
    a(n) += -(2.0 * b(n) / float(M) * (X(n, m) - mu(n)))     ->   nothing

What stands beside the difference has to be the same all along the sum, and the sum to run over all
that the mean is of. So a variance hands nothing back through its mean: a pass less over each row in
the gradients of layer norm, batch norm and all that is centred. What is dropped is rounding alone:
no number becomes infinite or NaN by it. Of a row with an infinity, given or by overflow, each
element keeps the slope that it has by itself, where the sum made NaN of all of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from math import prod

from tcdsl.codegen.gradient import build as g
from tcdsl.codegen.gradient.known import matches
from tcdsl.codegen.gradient.lines import Line, Part, walk
from tcdsl.codegen.gradient.versions import Versions, VersionStep
from tcdsl.codegen.program.expressions import (
    indices_of,
    map_operands,
    reads_of,
    substitute_indices,
)
from tcdsl.grammar.check.symbolic import SymbolicValues
from tcdsl.grammar.proofs.sizes import Size
from tcdsl.grammar.text.dataclass import dataclass
from tcdsl.grammar.types import typed
from tcdsl.grammar.types.typed import Expr, Range


def without_centred(parts: Sequence[Part], versions: Versions, kept: Collection[str]) -> list[Part]:
    """Return parts without sums that are 0 since they are of what is centred.

    kept: tensors that have to be written.
    """
    means = _means(versions)
    out = [*parts]
    for line in [p for p in parts if isinstance(p, Line) and means]:
        if line.op not in ("+=", "+=!") or not _is_zero(line, means):
            continue
        if line.op == "+=":
            out = [p for p in out if p is not line]
        elif line.target not in kept and sum(x.target == line.target for x in walk(out)) == 1:
            read = [p for p in out if _reads(p, line.target)]
            if all(isinstance(p, Line) for p in read):
                out = [_by_zero(p, line.target) for p in out if p is not line]
    return out


@dataclass(frozen=True, slots=True)
class _Mean:
    """A tensor of means: its subscripts, the values that each is of, the ranges of both."""

    subs: tuple[Expr, ...]
    of: Expr
    ranges: tuple[Range, ...]


def _means(versions: Versions) -> dict[str, _Mean]:
    """Return the versions that are means: as many terms as they are divided by."""
    steps = [n for n in versions.nodes if isinstance(n, VersionStep)]
    often = Counter(s.target for s in steps)
    by_name = {
        s.target: s
        for s in steps
        if often[s.target] == 1
        and not s.is_ragged
        and s.base is None
        and s.covers
        and not {s.target, *(r.tensor for r in reads_of(s.value))} & versions.in_place
    }
    found: dict[str, _Mean] = {}
    for name, step in by_name.items():
        match step.value:
            case typed.Binary("/", above, below) if step.op == "+=!":
                mean = _Mean(step.subs, above, step.ranges)
            case typed.Binary("/", typed.Read(total) as read, below) if (
                step.op == "=" and name in versions.exact and total in by_name
            ):
                its = _total(by_name[total], step, read)
                if its is None:
                    continue
                mean = its
            case _:
                continue
        summed = [r.high - r.low for r in mean.ranges if r.kind == "reduction"]
        if _count(below) == prod(summed, start=Size.const(1)):
            found[name] = mean
    return found


def _total(total: VersionStep, step: VersionStep, read: typed.Read) -> _Mean | None:
    """Return what a step reads of a sum of an earlier one, by the indices of the step."""
    names = [e.name for e in total.subs if isinstance(e, typed.IndexValue)]
    summed = {r.name for r in total.ranges if r.kind == "reduction"}
    if total.op != "+=!" or len(names) != len(total.subs) or {r.name for r in step.ranges} & summed:
        return None
    by = dict(zip(names, read.subs, strict=True))
    ranges = tuple(r for r in total.ranges if r.name in summed)
    return _Mean(step.subs, substitute_indices(total.value, by), (*step.ranges, *ranges))


def _count(e: Expr) -> Size | None:
    """Return the size that a float is, None if it is none."""
    match e:
        case typed.Cast(operand) if operand.dtype.is_integer:
            value = SymbolicValues().of(operand)
            return None if any(n.startswith("?") for n in value.symbols()) else value
        case typed.Lit(float() as number) if number.is_integer():
            return Size.const(int(number))
    return None


def _is_zero(line: Line, means: Mapping[str, _Mean]) -> bool:
    """Whether a line adds up differences from a mean, over what that is the mean of."""
    if line.is_ragged:
        return False
    told = {n for e in line.subs for n in indices_of(e)}
    summed = {r.name for r in line.ranges} - told
    moving = [e for e in _factors(line.value) if not summed.isdisjoint(indices_of(e))]
    if not summed or len(moving) != 1:
        return False
    match moving[0]:
        case typed.Binary("-", x, typed.Read(name) as read) if name in means:
            return _is_mean_of(means[name], read, x, line, summed)
        case typed.Binary("-", typed.Read(name) as read, x) if name in means:
            return _is_mean_of(means[name], read, x, line, summed)
    return False


def _is_mean_of(
    mean: _Mean, read: typed.Read, x: Expr, line: Line, summed: Collection[str]
) -> bool:
    """Whether a line sums x, of which an element of a mean is read, over all that this is of."""
    by: dict[str, Expr] = {}
    pairs = zip(mean.subs, read.subs, strict=True)
    if not matches(mean.of, x, by) or not all(matches(a, b, by) for a, b in pairs):
        return False
    spans = {r.name: (r.low, r.high) for r in line.ranges}
    left = {*summed}
    for r in mean.ranges:
        its = by.get(r.name)
        if r.kind != "reduction":
            if its is None or not indices_of(its).isdisjoint(summed):
                return False
            continue
        if not isinstance(its, typed.IndexValue) or spans.get(its.name) != (r.low, r.high):
            return False
        if its.name not in left:  # the diagonal of a mean over several indices
            return False
        left.remove(its.name)
    return not left


def _factors(e: Expr) -> list[Expr]:
    """Return what an expression is the product of, and what divides it as a quotient."""
    match e:
        case typed.Binary("*", lhs, rhs):
            return [*_factors(lhs), *_factors(rhs)]
        case typed.Binary("/", lhs, rhs):
            return [*_factors(lhs), g.div(g.number(1, e.dtype), rhs)]
        case typed.Unary("-", operand):
            return _factors(operand)
        case _:
            return [e]


def _reads(part: Part, name: str) -> bool:
    return any(r.tensor == name for x in walk((part,)) for r in x.reads())


def _by_zero(part: Part, name: str) -> Part:
    """Return a line with 0 in place of a tensor."""
    if not isinstance(part, Line) or not _reads(part, name):
        return part
    return replace(part, value=_folded(part.value, name))


def _folded(e: Expr, name: str) -> Expr:
    if isinstance(e, typed.Read):
        return g.number(0, e.dtype) if e.tensor == name else e
    new = map_operands(e, lambda x: _folded(x, name))
    match new:
        case typed.Binary("+", a, b):
            return g.add(a, b) if g.is_number(a, 0) or g.is_number(b, 0) else new
        case typed.Binary("-", a, b):
            return g.sub(a, b) if g.is_number(a, 0) or g.is_number(b, 0) else new
        case typed.Unary("-", a) if g.is_number(a, 0):
            return a
        case typed.Binary("*" | "/", a, b) if g.is_number(a, 0) and _is_finite(b):
            return a
        case typed.Binary("*", a, b) if g.is_number(b, 0) and _is_finite(a):
            return b
        case _:
            return new


def _is_finite(e: Expr) -> bool:
    """Whether a factor is made of numbers and sizes."""
    return e.dtype.is_float and not reads_of(e)
