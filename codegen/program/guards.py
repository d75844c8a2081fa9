"""Guards at the reads that they guard: a condition that is the bounds of a read becomes `pad`.

0 <= h - k && h - k < H ? d_O(h - k) * W(k) : 0   ->   pad(d_O(h - k), 0) * W(k)

So the sum is one of two plain factors. `pad` is a builtin of a read and a value here, which the
text of a definition has, and `selected` spells out.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import field, replace
from math import gcd

from tcdsl.codegen.program.expressions import (
    map_operands,
    map_typed,
    operands_of,
    reads_of,
    walk_typed,
)
from tcdsl.codegen.program.program import Statement
from tcdsl.grammar.check.padding import is_inside as inside_condition
from tcdsl.grammar.check.symbolic import SymbolicValues
from tcdsl.grammar.proofs.ranges import Interval, Prover
from tcdsl.grammar.proofs.signs import is_nonnegative
from tcdsl.grammar.proofs.sizes import Max, Size
from tcdsl.grammar.text.dataclass import dataclass
from tcdsl.grammar.types import typed
from tcdsl.grammar.types.builtins import PAD
from tcdsl.grammar.types.dtypes import INT32
from tcdsl.grammar.types.typed import Constraint, Expr, Range

Bounds = Callable[[str], Sequence[tuple[Size, Size]]]  # of a tensor: low and high by dimension

_FINITE = {
    "abs", "clamp", "cos", "elu", "erf", "exp", "fabs", "fmax", "fmin", "gelu", "hardtanh",
    "leaky_relu", "logaddexp", "max", "min", "relu", "rint", "sigmoid", "sign", "silu", "sin",
    "softplus", "tanh",
}  # fmt: skip


@dataclass(slots=True)
class Guards:
    """The conditions of one statement, and what its ranges say anyway.

    turns: the variables of the loops around it. exactly: values stay what they are; else a
    condition around a product may become one of a factor, which for others that are not finite is
    another value.
    """

    ranges: Sequence[Range]
    bounds: Bounds
    turns: Mapping[str, Interval]
    exactly: bool = False
    symbolic: SymbolicValues = field(default_factory=SymbolicValues)

    def moved(self, e: Expr) -> Expr:
        """Return an expression with its conditions at reads, the innermost first."""
        e = map_operands(e, self.moved)
        if not isinstance(e, typed.Select):
            return e
        needed = self._sides_of(e.cond)
        if needed is None:
            return e
        read = e.then.operand if isinstance(e.then, typed.Cast) else e.then
        if isinstance(read, typed.Read):
            if self._guards(needed, [read]):
                value = _short(e.other)
                pad = typed.Builtin(PAD, (read, value), read.dtype)
                return replace(e.then, operand=pad) if isinstance(e.then, typed.Cast) else pad
            return e
        if self.exactly or e.other != typed.Lit(0.0, e.dtype):
            return e
        factors = [*_factors(e.then)]
        bounded = [
            f for f in factors if isinstance(f, typed.Read) and not needed.isdisjoint(self._of(f))
        ]
        rest = [f for f in factors if f not in bounded]
        reads = [r for f in rest for r in _unpadded_reads(f)]
        if not all(map(_is_finite, rest)) or not all(self.is_inside(r) for r in reads):
            return e
        return _with_pads(e.then, bounded) if self._guards(needed, bounded) else e

    def selected(self, e: Expr) -> Expr:
        """Return an expression with `inside ? read : value` in place of `pad`."""

        def one(x: Expr) -> Expr:
            match x:
                case typed.Builtin(name, (typed.Read() as read, typed.Lit() as value)) if (
                    name == PAD
                ):
                    sides = [not self._holds(s) for s in self._of(read)]
                    margins = [*zip(sides[::2], sides[1::2], strict=True)]
                    inside = inside_condition(read.subs, self.bounds(read.tensor), margins, None)
                    if inside is None:
                        return read
                    other = replace(value, value=float(value.value), dtype=read.dtype)
                    return typed.Select(inside, read, other, read.dtype)
            return x

        return map_typed(e, one)

    def _sides_of(self, cond: Expr) -> frozenset[Size] | None:
        """Return sizes that are all >= 0 where a condition holds, None where it says more."""
        match cond:
            case typed.Binary("&&"):
                a, b = self._sides_of(cond.lhs), self._sides_of(cond.rhs)
                return None if a is None or b is None else a | b
            case typed.Binary("<" | "<=" | ">" | ">=") if cond.lhs.dtype.is_integer:
                return frozenset(map(self._shortest, self.symbolic.facts(cond, truth=True)))
            case _:
                return None

    def _of(self, read: typed.Read) -> list[Size]:
        """Return the sizes that are >= 0 where a read is inside its tensor."""
        sides = []
        for sub, (low, high) in zip(read.subs, self.bounds(read.tensor), strict=True):
            at = self.symbolic.of(sub)
            sides += [self._shortest(at - low), self._shortest(high - 1 - at)]
        return sides

    def _shortest(self, side: Size) -> Size:
        """Return H / 2 - y for H - 2 * y: they are >= 0 alike."""
        names = {r.name for r in self.ranges}
        step = gcd(*(c for m, c in side.terms if names & {*Size(((m, c),)).symbols()}))
        return side // step if step > 1 else side

    def _guards(self, needed: frozenset[Size], reads: Sequence[typed.Read]) -> bool:
        """Whether a condition holds just where reads are inside their tensors."""
        sides = {s for r in reads for s in self._of(r)}
        if not needed <= sides or not all(self._holds(s) for s in sides - needed):
            return False
        inner = (x for r in reads for sub in r.subs for x in _unpadded_reads(sub))
        return all(map(self.is_inside, inner))  # of where they are read `pad` says nothing

    def is_inside(self, read: typed.Read) -> bool:
        """Whether a read is inside its tensor by ranges alone."""
        return all(map(self._holds, self._of(read)))

    def are_inside(self, e: Expr, facts: tuple[Size, ...] = ()) -> bool:
        """Whether all that an expression reads is inside by ranges and its own conditions.

        facts: sizes that are >= 0 where it is evaluated.
        """
        match e:
            case typed.Select(cond, then, other):
                yes, no = (self.symbolic.facts(cond, truth=x) for x in (True, False))
                arms = (cond, facts), (then, (*facts, *yes)), (other, (*facts, *no))
                return all(self.are_inside(x, known) for x, known in arms)
            case typed.Binary("&&" | "||" as op, lhs, rhs):
                known = self.symbolic.facts(lhs, truth=op == "&&")
                return self.are_inside(lhs, facts) and self.are_inside(rhs, (*facts, *known))
            case typed.Builtin(name, (typed.Read() as read, _)) if name == PAD:
                return all(self.are_inside(x, facts) for x in read.subs)
            case typed.Read(tensor, subs):
                for sub, (low, high) in zip(subs, self.bounds(tensor), strict=True):
                    at = self.symbolic.of(sub)
                    if not (self._holds(at - low, facts) and self._holds(high - 1 - at, facts)):
                        return False
        return all(self.are_inside(x, facts) for x in operands_of(e))

    def _holds(self, side: Size, facts: Sequence[Size] = ()) -> bool:
        domain = {r.name: r.values for r in self.ranges}
        known = domain | self.symbolic.unknowns
        return Prover(known, self.nonempty(), self.turns).holds(side, facts)

    def nonempty(self) -> tuple[Size, ...]:
        """Return sizes that are >= 0 as there are points and turns."""
        lasts = [r.extent - 1 for r in self.ranges if r.bounds is None]
        lasts += [
            x.high - x.low for x in self.turns.values() if x.low is not None and x.high is not None
        ]
        return tuple(lasts)


def stands_alone(
    e: Expr,
    ranges: Sequence[Range],
    s: typed.Statement | Statement,
    bounds: Bounds,
    turns: Mapping[str, Interval],
    constraints: Sequence[Constraint] = (),
) -> bool:
    """Whether what a statement reads by an expression exists wherever these ranges have points.

    Only then it may be computed over them by itself. What proves its reads inside may be that
    another range of the statement is not empty: `A(k + 1 - M)`, `j in 0:M`.

    constraints: what each call has checked.
    """
    if all(is_nonnegative(r.extent - 1) for r in s.ranges):
        return True
    guards = Guards(ranges, bounds, turns)
    return guards.are_inside(e, tuple(_demanded(constraints, guards.nonempty())))


def _demanded(constraints: Sequence[Constraint], nonempty: tuple[Size, ...]) -> Iterator[Size]:
    """Yield what calls have checked to be >= 0 where some ranges have points.

    A constraint holds also where there are none: `max(N - 32, -N) >= 0` says N >= 32 of N >= 1.
    """
    for c in constraints:
        if c.relation == ">=0":
            left = [x for x in _ways(c.size) if not is_nonnegative(-x - 1, nonempty)]
            if len(left) == 1:
                yield left[0]


def _ways(size: Size) -> list[Size]:
    """Return sizes one of which is >= 0 where this one is."""
    for monomial, coefficient in size.terms:
        match monomial:
            case (Max(args),) if coefficient > 0:
                rest = size - Size(((monomial, coefficient),))
                return [rest + x * coefficient for x in args]
    return [size]


def _factors(e: Expr) -> Iterator[Expr]:
    """Yield the factors of a product, through casts and signs."""
    match e:
        case typed.Binary("*", lhs, rhs):
            yield from _factors(lhs)
            yield from _factors(rhs)
        case typed.Binary("/", lhs, rhs) if _is_nonzero(rhs):
            yield from _factors(lhs)
        case typed.Unary("-", operand):
            yield from _factors(operand)
        case typed.Cast(operand, dtype) if dtype.is_float and operand.dtype.is_float:
            yield from _factors(operand)
        case _:
            yield e


def _with_pads(e: Expr, bounded: Collection[Expr]) -> Expr:
    """Return a product with `pad` around some of its factors."""
    if e in bounded:
        assert isinstance(e, typed.Read)
        return typed.Builtin(PAD, (e, typed.Lit(0, INT32)), e.dtype)
    match e:
        case typed.Binary("*", lhs, rhs):
            return replace(e, lhs=_with_pads(lhs, bounded), rhs=_with_pads(rhs, bounded))
        case typed.Binary("/", lhs):
            return replace(e, lhs=_with_pads(lhs, bounded))
        case typed.Unary("-", operand) | typed.Cast(operand):
            return replace(e, operand=_with_pads(operand, bounded))
        case _:
            return e


def _short(value: Expr) -> Expr:
    """Return a value with 0 as an integer literal: `pad` has the type of what it reads."""
    match value:
        case typed.Lit(0.0 as zero) if value.dtype.is_float and math.copysign(1, zero) > 0:
            return typed.Lit(0, INT32)
    return value


def _is_nonzero(e: Expr) -> bool:
    return isinstance(e, typed.Lit) and e.value != 0


def _is_finite(e: Expr) -> bool:
    """Whether a factor is finite where what it reads is: outside of the guard it meets a 0."""
    match e:
        case typed.Lit(value):
            return math.isfinite(value)
        case typed.Read() | typed.IndexValue() | typed.SizeValue():
            return True
        case typed.Unary(_, operand) | typed.Cast(operand):
            return _is_finite(operand)
        case typed.Binary("/" | "%", lhs, rhs):
            return _is_finite(lhs) and _is_nonzero(rhs)
        case typed.Binary(_, lhs, rhs):
            return _is_finite(lhs) and _is_finite(rhs)
        case typed.Select(_, then, other):
            return _is_finite(then) and _is_finite(other)
        case typed.Builtin(name, args):
            return name in {*_FINITE, PAD} and all(map(_is_finite, args))


def _unpadded_reads(e: Expr) -> Iterator[typed.Read]:
    """Yield the reads that have to be inside their tensors, those of subscripts too."""
    pads = [x.args[0] for x in walk_typed(e) if isinstance(x, typed.Builtin) and x.name == PAD]
    yield from (Counter(reads_of(e)) - Counter(r for r in pads if isinstance(r, typed.Read)))
