"""Ranges of indices: what subscripts say of them, solved in rounds, and bounds over a box.

A subscript is a `Size` in which indices, and integers read from data, are signed symbols.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from tcdsl.grammar.proofs.signs import is_nonnegative, maximum, minimum
from tcdsl.grammar.proofs.sizes import FloorDiv, Max, Min, Modulo, Monomial, Size, Symbol
from tcdsl.grammar.text.dataclass import dataclass

ONE = Size.const(1)


@dataclass(frozen=True, slots=True)
class Interval:
    """Least and greatest value; None where there is no bound."""

    low: Size | None
    high: Size | None


Domain = Mapping[str, Interval]  # of indices and of integers read from data

ANY = Interval(None, None)


def interval(size: Size, domain: Domain) -> Interval:
    """Return bounds of a size over a domain.

    They are attained where every symbol of the domain occurs once; otherwise they may be wider.
    """
    low: Size | None = Size()
    high: Size | None = Size()
    for monomial, coefficient in size.terms:
        if not _depends(monomial, domain):
            term = Size(((monomial, coefficient),))
            low = None if low is None else low + term
            high = None if high is None else high + term
            continue
        part = Interval(ONE, ONE)
        for atom in monomial:
            part = _product(part, _of_atom(atom, domain))
        part = _scaled(part, coefficient)
        low = None if low is None or part.low is None else low + part.low
        high = None if high is None or part.high is None else high + part.high
    return Interval(low, high)


def _depends(monomial: Monomial, domain: Domain) -> bool:
    return any(
        a.name in domain
        if isinstance(a, Symbol)
        else any(s in domain for s in Size.atom(a).symbols())
        for a in monomial
    )


def _scaled(part: Interval, factor: int) -> Interval:
    low = None if part.low is None else part.low * factor
    high = None if part.high is None else part.high * factor
    return Interval(low, high) if factor >= 0 else Interval(high, low)


def _product(a: Interval, b: Interval) -> Interval:
    for x, y in ((a, b), (b, a)):
        if x.low is not None and x.low == x.high:
            if x.low == ONE:
                return y
            if is_nonnegative(x.low):
                return Interval(*(None if e is None else e * x.low for e in (y.low, y.high)))
            if is_nonnegative(-x.low):
                return Interval(*(None if e is None else e * x.low for e in (y.high, y.low)))
    if all(x.low is not None and is_nonnegative(x.low) for x in (a, b)):
        assert a.low is not None
        assert b.low is not None
        high = None if a.high is None or b.high is None else a.high * b.high
        return Interval(a.low * b.low, high)
    return ANY


def _of_atom(atom: object, domain: Domain) -> Interval:
    match atom:
        case Symbol(name):
            here = Size.atom(atom)
            return domain.get(name, Interval(here, here))
        case Min(args):
            parts = [interval(a, domain) for a in args]
            highs = [p.high for p in parts if p.high is not None]
            lows = [p.low for p in parts if p.low is not None]
            low = minimum(*lows) if len(lows) == len(parts) else None
            return Interval(low, minimum(*highs) if highs else None)
        case Max(args):
            parts = [interval(a, domain) for a in args]
            highs = [p.high for p in parts if p.high is not None]
            lows = [p.low for p in parts if p.low is not None]
            high = maximum(*highs) if len(highs) == len(parts) else None
            return Interval(maximum(*lows) if lows else None, high)
        case FloorDiv(n, d):
            if not _is_divisor(d, domain):
                return ANY
            top = interval(n, domain)
            return Interval(*(None if e is None else e // d for e in (top.low, top.high)))
        case Modulo(n, d):
            if not _is_divisor(d, domain):
                return ANY
            top = interval(n, domain)
            # x % 0 is 0, so the greatest remainder of an unknown divisor is max(d - 1, 0).
            most = maximum(d - 1, Size())
            if top.low is None or top.high is None or not is_nonnegative(top.low):
                return Interval(Size(), most)
            if is_nonnegative(d - 1 - top.high):
                return top
            return Interval(Size(), minimum(most, maximum(top.high, Size())))
        case _:
            raise AssertionError(atom)


def _is_divisor(d: Size, domain: Domain) -> bool:
    return not any(s in domain for s in d.symbols()) and is_nonnegative(d)


def is_exact(size: Size, domain: Domain) -> bool:
    """Whether `interval` is attained: each symbol of the domain occurs once, no remainders."""
    seen: set[str] = set()
    for monomial, _ in size.terms:
        names = {s for a in monomial for s in Size.atom(a).symbols() if s in domain}
        if not names:
            continue
        if names & seen or (len(names) > 1 and len(monomial) > 1):
            return False
        seen |= names
        for atom in monomial:
            match atom:
                case Symbol():
                    continue
                case FloorDiv(n, d) if not any(s in domain for s in d.symbols()):
                    if not is_exact(n, domain):
                        return False
                case _ if not any(s in domain for s in Size.atom(atom).symbols()):
                    continue
                case _:
                    return False
    return True


@dataclass(frozen=True, slots=True)
class Bound:
    """low <= value < high, what one subscript of one access asks for; None: no such limit."""

    value: Size
    low: Size | None
    high: Size | None

    def __str__(self) -> str:
        low = "" if self.low is None else f"{self.low} <= "
        high = "" if self.high is None else f" < {self.high}"
        return f"{low}{self.value}{high}"


def linear(bound: Bound) -> Bound:
    """Return an equal condition without an outer division: i / 2 < N is i < 2 * N."""
    while True:
        offset = bound.value.offset
        match (bound.value - offset).terms:
            case (((FloorDiv(n, d),), 1),) if (d.constant or 0) > 0:
                low, high = (
                    None if e is None else (e - offset) * d for e in (bound.low, bound.high)
                )
                bound = Bound(n, low, high)
            case _:
                return bound


def solve(
    unsolved: Iterable[str], bounds: Sequence[Bound], domain: Mapping[str, Interval]
) -> dict[str, Interval]:
    """Return the ranges that rounds of solving find, by index.

    Each round takes, for every free index, the largest interval that satisfies the conditions in
    which it alone is free; ranges found are used from the next round on, in their worst case. So
    the result does not depend on the order of indices or conditions.

    Parameters
    ----------
    unsolved : iterable of str
        The free indices.
    bounds : sequence of Bound
        The conditions; one that is not linear in an index says nothing of it.
    domain : mapping
        Ranges already known.

    Returns
    -------
    dict of str to Interval
        Of the indices that were found; inclusive on both ends.
    """
    known = dict(domain)
    found: dict[str, Interval] = {}
    free = list(unsolved)
    conditions = [linear(b) for b in bounds]
    while free:
        now: dict[str, Interval] = {}
        for name in free:
            lows: list[Size] = []
            highs: list[Size] = []
            for condition in conditions:
                limits = _limits(condition, name, free, known)
                lows += () if limits.low is None else (limits.low,)
                highs += () if limits.high is None else (limits.high,)
            if lows and highs:
                now[name] = Interval(maximum(*lows), minimum(*highs))
        if not now:
            break
        found |= now
        known |= now
        free = [name for name in free if name not in now]
    return found


def _limits(bound: Bound, name: str, free: Sequence[str], known: Domain) -> Interval:
    """Return the values that a condition leaves to an index alone free in it."""
    names = bound.value.symbols()
    if name not in names or any(f in names for f in free if f != name):
        return ANY
    symbol = Size.symbol(name, signed=True)
    coefficient = next((c for m, c in bound.value.terms if m == symbol.terms[0][0]), 0)
    other = bound.value - symbol * coefficient
    if coefficient == 0 or name in other.symbols():
        return ANY
    # coefficient * name + other lies in [low, high - 1] for every value of other.
    at = interval(other, known)
    if any(s.startswith("?") for s in other.symbols()) and not _is_small(at):
        return ANY  # what is read from data bounds an index only if its type does
    least = None if bound.low is None or at.low is None else bound.low - at.low
    most = None if bound.high is None or at.high is None else bound.high - 1 - at.high
    if coefficient < 0:
        coefficient = -coefficient
        least, most = (None if e is None else -e for e in (most, least))
    return Interval(
        None if least is None else (least + (coefficient - 1)) // coefficient,
        None if most is None else most // coefficient,
    )


def _is_small(at: Interval) -> bool:
    return all(e is not None and abs(e.offset) < 2**16 + 1 for e in (at.low, at.high))


class Prover:
    """What is known at the points of a statement: the domain, and that it is not empty.

    The bounds of the domain may depend on variables of loops, whose values stand in turns.
    """

    def __init__(self, domain: Domain, nonempty: Iterable[Size], turns: Domain) -> None:
        self.domain = domain
        self.turns = turns
        self.given = tuple(dict.fromkeys(nonempty))

    def holds(self, size: Size, facts: Sequence[Size] = ()) -> bool:
        """Whether size >= 0 at every point where the facts hold."""
        if self._at_least_zero(size):
            return True
        if any(self._at_least_zero(size - f) for f in facts):
            return True
        return len(facts) <= 8 and any(
            self._at_least_zero(size - f - g) for i, f in enumerate(facts) for g in facts[i:]
        )

    def _at_least_zero(self, size: Size) -> bool:
        low = self.interval(size).low
        return low is not None and is_nonnegative(low, self.given)

    def interval(self, size: Size) -> Interval:
        """Return bounds of a size over the domain, in all turns."""
        return over_turns(interval(size, self.domain), self.turns)


def over_turns(at: Interval, turns: Domain) -> Interval:
    """Return bounds that hold in all turns; a loop's range may depend on those before it."""
    low, high = at.low, at.high
    for name in reversed(list(turns)):
        one = {name: turns[name]}
        low = None if low is None else interval(low, one).low
        high = None if high is None else interval(high, one).high
    return Interval(low, high)
