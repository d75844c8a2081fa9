"""Ragged ranges seen from the other side: the values of an index that have a given one in range.

    Y(b, i) +=! X(b, j) where j in 0:i + 1     ->   d_X(b, j) +=! d_Y(b, i) where i in j:N
    h in y*H/M:((y + 1)*H + M - 1)/M           ->   y in h*M/H:((h + 1)*M + H - 1)/H

An index whose range is ragged cannot stand on the left, but in a scatter. So the bounds are solved
for an index that is summed over then; where all that they depend on stands on the left as well they
become a condition; where data decides, or nothing of this is possible, points stay what they are, a
scatter, which costs what the statement did.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from tcdsl.codegen.gradient import build as g
from tcdsl.codegen.program.expressions import indices_of
from tcdsl.grammar.check.symbolic import SymbolicValues
from tcdsl.grammar.check.target import factor_of
from tcdsl.grammar.proofs.ranges import interval
from tcdsl.grammar.proofs.signs import is_nonnegative
from tcdsl.grammar.proofs.sizes import FloorDiv, Max, Min, Modulo, Size, Symbol
from tcdsl.grammar.text.dataclass import dataclass
from tcdsl.grammar.types import typed
from tcdsl.grammar.types.dtypes import BOOL, INT64
from tcdsl.grammar.types.typed import Expr, Range


@dataclass(frozen=True, slots=True)
class Seen:
    """Ranges of all indices, and a condition under which there is a point; None: there is one."""

    ranges: dict[str, Range]
    cond: Expr | None = None


def seen_from(subs: Sequence[Expr], shape: Sequence[Size], ranges: Mapping[str, Range]) -> Seen:
    """Return the points of a statement for the elements that one of its reads has.

    Parameters
    ----------
    subs, shape
        Of the read: it is inside at every point.
    ranges
        Of the statement.
    """
    left = {n for e in subs for n in indices_of(e)}
    out = Seen(dict(ranges))
    for name, r in ranges.items():
        if r.bounds is None or name not in left:
            continue
        one = _turned(name, subs, shape, out, left)
        if one is None:
            return Seen(dict(ranges))
        out = one
    return out


def _turned(
    name: str, subs: Sequence[Expr], shape: Sequence[Size], seen: Seen, left: set[str]
) -> Seen | None:
    """Return ranges in which that of one index on the left is a box; None if there are none."""
    r, others = seen.ranges[name], [x for n, x in seen.ranges.items() if n != name]
    at = [d for d, e in enumerate(subs) if name in indices_of(e)]
    if len(at) != 1 or not isinstance(subs[at[0]], typed.IndexValue):
        return None
    if any(name in indices_of(e) for x in others for e in x.bounds or ()):
        return None
    assert r.bounds is not None
    needs = indices_of(r.bounds[0]) | indices_of(r.bounds[1])
    free = [n for n in needs if n in seen.ranges and n not in left]
    plain = Range(name, Size(), shape[at[0]], r.kind)
    ranges = {**seen.ranges, name: plain}
    index = g.index(name)
    if not free:
        cond = g.both(seen.cond, typed.Binary("<=", r.bounds[0], index, BOOL))
        cond = g.both(cond, typed.Binary("<", index, r.bounds[1], BOOL))
        return Seen(ranges, cond)
    if len(free) > 1 or seen.ranges[free[0]].bounds is not None:
        return None
    solver = _Solver(free[0], name, ranges)
    low, high = (SymbolicValues().of(e) for e in r.bounds)
    if any(s.startswith("?") for x in (low, high) for s in x.symbols()):
        return None
    here = Size.symbol(name, signed=True)
    if not (solver.at_most(low, here) and solver.at_least(high, here + 1)):
        return None
    cond = seen.cond
    for side in solver.conditions:
        cond = g.both(cond, typed.Binary("<=", g.size(Size()), solver.expr(side), BOOL))
    bounds = solver.expr(solver.low), solver.expr(solver.high)
    ranges[free[0]] = replace(ranges[free[0]], bounds=bounds)
    return Seen(ranges, cond)


class _Solver:
    """Conditions on numbers that grow or fall with an index, as its range.

    Of several bounds on one side those are left out that another one implies over the box.
    """

    def __init__(self, name: str, other: str, ranges: Mapping[str, Range]) -> None:
        self.name = name
        self.ranges = ranges
        self.domain = {n: r.values for n, r in ranges.items()}
        own = ranges[name]
        self.lows, self.highs = [own.low], [own.high]
        self.conditions: list[Size] = []
        # in a range without values nothing is asked
        self.known = tuple(x.extent - 1 for n, x in ranges.items() if n in (name, other))

    def at_most(self, value: Size, most: Size) -> bool:
        """Note that a value is <= most; False if that is no range of the index."""
        if self.name not in value.symbols():
            return self._fixed(most - value)
        match _single(value, self.name):
            case (Max(args), rest):
                return all(self.at_most(a + rest, most) for a in args)
            case (FloorDiv(n, d), rest) if self._is_positive(d):
                return self.at_most(n, (most - rest + 1) * d - 1)
        found = self._linear(value)
        if found is None:
            return False
        factor, rest = found
        if self._is_positive(factor):
            self.highs.append((most - rest) // factor + 1)
        else:
            self.lows.append((rest - most - factor - 1) // -factor)
        return True

    def at_least(self, value: Size, least: Size) -> bool:
        """Note that a value is >= least; False if that is no range of the index."""
        if self.name not in value.symbols():
            return self._fixed(value - least)
        match _single(value, self.name):
            case (Min(args), rest):
                return all(self.at_least(a + rest, least) for a in args)
            case (FloorDiv(n, d), rest) if self._is_positive(d):
                return self.at_least(n, (least - rest) * d)
        found = self._linear(value)
        if found is None:
            return False
        factor, rest = found
        if self._is_positive(factor):
            self.lows.append((least - rest + factor - 1) // factor)
        else:
            self.highs.append((rest - least) // -factor + 1)
        return True

    @property
    def low(self) -> tuple[Size, ...]:
        """The greatest of these is the first value."""
        return self._needed(self.lows, 1)

    @property
    def high(self) -> tuple[Size, ...]:
        """The least of these is behind the last value."""
        return self._needed(self.highs, -1)

    def _needed(self, sides: Sequence[Size], sign: int) -> tuple[Size, ...]:
        """Return the sides that no other one implies."""
        left = list(dict.fromkeys(sides))
        for side in tuple(left):
            others = [x for x in left if x is not side]
            if any(self._holds((x - side) * sign) for x in others):
                left = others
        return tuple(left)

    def _fixed(self, side: Size) -> bool:
        if not self._holds(side):
            self.conditions.append(side)
        return True

    def _holds(self, side: Size) -> bool:
        low = interval(side, self.domain).low
        return low is not None and is_nonnegative(low, self.known)

    def _is_positive(self, size: Size) -> bool:
        return self._holds(size - 1)

    def _linear(self, value: Size) -> tuple[Size, Size] | None:
        """Return (factor, rest) of factor * index + rest, the factor of a known sign."""
        factor = factor_of(value, self.name)
        if factor is None:
            return None
        rest = value - factor * Size.symbol(self.name, signed=True)
        known = self._is_positive(factor) or self._is_positive(-factor)
        return (factor, rest) if known else None

    # ---- as expressions

    def expr(self, value: Size | tuple[Size, ...]) -> Expr:
        """Return a number over indices; of several on the low side the greatest, else the least."""
        if isinstance(value, Size):
            return _expr_of(value, self.ranges)
        name = "max" if value[0] in self.lows else "min"
        out = _expr_of(value[0], self.ranges)
        for side in value[1:]:
            out = typed.Builtin(name, (out, _expr_of(side, self.ranges)), INT64)
        return out


def _single(value: Size, name: str) -> tuple[object, Size] | None:
    """Return an atom in which alone an index stands, and what is added to it."""
    found = [(m, c) for m, c in value.terms if name in Size(((m, c),)).symbols()]
    match found:
        case [((atom,), 1)] if not isinstance(atom, Symbol):
            return atom, value - Size.atom(atom)
    return None


def _expr_of(value: Size, indices: Mapping[str, Range]) -> Expr:
    """Return a size in which indices may stand as an expression."""
    fixed = Size(tuple((m, c) for m, c in value.terms if not _has(m, indices)))
    out: Expr | None = None
    later: list[Expr] = []
    for monomial, c in value.terms:
        if not _has(monomial, indices):
            continue
        part: Expr | None = None if abs(c) == 1 else typed.Lit(abs(c), INT64)
        for atom in monomial:
            e = _atom(atom, indices)
            part = e if part is None else typed.Binary("*", part, e, INT64)
        assert part is not None
        if c < 0:
            later.append(part)
        else:
            out = part if out is None else typed.Binary("+", out, part, INT64)
    if out is None:
        out = g.size(fixed)
    elif fixed.constant is not None and fixed.constant < 0:
        out = typed.Binary("-", out, typed.Lit(-fixed.constant, INT64), INT64)
    elif fixed != Size():
        out = typed.Binary("+", out, g.size(fixed), INT64)
    for part in later:
        out = typed.Binary("-", out, part, INT64)
    return out


def _has(monomial: tuple[object, ...], indices: Mapping[str, Range]) -> bool:
    return any(s in indices for a in monomial for s in Size.atom(a).symbols())  # type: ignore[arg-type]


def _atom(atom: object, indices: Mapping[str, Range]) -> Expr:
    match atom:
        case Symbol(name) if name in indices:
            return g.index(name)
        case FloorDiv(n, d) | Modulo(n, d):
            top, below = _expr_of(n, indices), _expr_of(d, indices)
            if isinstance(atom, FloorDiv):
                return typed.Binary("/", top, below, INT64)
            return typed.Binary("%", top, below, INT64)
        case Min(args) | Max(args):
            name = "min" if isinstance(atom, Min) else "max"
            out = _expr_of(args[0], indices)
            for a in args[1:]:
                out = typed.Builtin(name, (out, _expr_of(a, indices)), INT64)
            return out
        case _:
            return g.size(Size.atom(atom))  # type: ignore[arg-type]


def in_order(ranges: Mapping[str, Range]) -> tuple[Range, ...]:
    """Return ranges with ragged ones behind those that they depend on."""
    left, done = [*ranges.values()], list[Range]()
    while left:
        names = {r.name for r in left}
        free = next(
            r for r in left if not any(names & indices_of(e) - {r.name} for e in r.bounds or ())
        )
        left.remove(free)
        done.append(free)
    return tuple(done)
