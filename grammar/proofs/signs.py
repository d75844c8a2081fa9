"""Proofs that a `Size` is never negative; minima, maxima and substitution, which rest on them.

Integer reasoning by implications: s >= 0 follows from a simpler t >= 0. A question ends, whatever
it is: `level`, then `depth` + `uses` shrink from a question to those it asks, so that none is
deeper than a hundred frames, and `fuel` bounds how many there are. What its terms do not tell is
tried on numbers before anything is spent: most of it is just not true. A proof substitutes symbols,
which makes minima anew, which asks for proofs: hence one file.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache

from tcdsl.grammar.proofs.sizes import Atom, FloorDiv, Max, Min, Modulo, Monomial, Size, Symbol

_FEW_STEPS, _MANY_STEPS = 30, 400
_LEVELS = 4  # of questions about a part, a divisor or a factor, inside a question
_ALIKE = (0, 1, 2, 3, 8, 1000, 1 << 40)  # values of sizes to try: one for all; one, and others
_BESIDE = ((1, 1000), (1000, 1), (5, 8), (0, 8))


@lru_cache(maxsize=1 << 14)
def is_nonnegative(size: Size, given: tuple[Size, ...] = ()) -> bool:
    """Whether size >= 0 for all sizes >= 0 is proved (false means: not proved).

    given: sizes known to be >= 0, `N - 1` where a domain is known not to be empty.
    """
    if _is_sum(size):
        return True
    if _is_refuted(size, given):
        return False
    facts = tuple(dict.fromkeys(f for g in given for f in _implied(g, 3)))
    claims = [(size, facts)]
    if moved := _moved(facts):
        claims.insert(
            0, (substitute_symbols(size, moved), tuple(substitute_symbols(f, moved) for f in facts))
        )
    return any(
        _Proof(known, steps).asks(claim)
        for steps in (_FEW_STEPS, _MANY_STEPS)
        for claim, known in claims
    )


def _is_sum(size: Size) -> bool:
    """Whether it adds and multiplies nothing but numbers and symbols that are none negative."""
    return all(
        c >= 0 and all(isinstance(a, Symbol) and not a.signed for a in monomial)
        for monomial, c in size.terms
    )


def _moved(facts: Sequence[Size]) -> Mapping[str, Size]:
    """Return symbols by others that are only known not to be negative: N is N' + 1 if N >= 1.

    `H * W - 1 >= 0` makes both at least 1. A new symbol has the name of the old one, so it has to
    be replaced everywhere at once.
    """
    lows: dict[str, int] = {}
    for fact in facts:
        least = -fact.offset
        match (fact - fact.offset).terms:
            case (((Symbol(name, signed),), c),) if c > 0:
                low = -(-least // c)
                if signed or low > 0:
                    lows[name] = max(low, lows.get(name, low))
            case ((monomial, c),) if c > 0 and least > 0:
                for atom in monomial:
                    if isinstance(atom, Symbol) and not atom.signed:
                        lows[atom.name] = max(1, lows.get(atom.name, 1))
    return {name: Size.symbol(name) + low for name, low in lows.items()}


def _is_refuted(size: Size, given: tuple[Size, ...]) -> bool:
    """Whether size < 0 for some of the sizes tried, which agree with what is given."""
    names = sorted({n for s in (size, *given) for n in s.symbols()})
    for values in _tried(names):
        try:
            if size.evaluate(values) < 0 and all(g.evaluate(values) >= 0 for g in given):
                return True
        except ZeroDivisionError:
            continue
    return False


def _tried(names: Sequence[str]) -> Iterator[dict[str, int]]:
    """Yield values of sizes: all alike, then one unlike the others."""
    for value in _ALIKE:
        yield dict.fromkeys(names, value)
    for name in names:
        for one, others in _BESIDE:
            yield {**dict.fromkeys(names, others), name: one}


def _implied(fact: Size, depth: int) -> Iterator[Size]:
    """Yield the fact and what follows from it without min, max and division."""
    yield fact
    for monomial, c in fact.terms:
        rest = fact - Size(((monomial, c),))
        match monomial:
            case (Min(args),) if c > 0 and depth:
                for a in args:
                    yield from _implied(rest + a * c, depth - 1)
            case (Max(args),) if c < 0 and depth:
                for a in args:
                    yield from _implied(rest + a * c, depth - 1)
            case (FloorDiv(n, d),) if c > 0 and depth and (d.constant or 0) > 0:
                yield from _implied(rest * d + n * c, depth - 1)
            case _:
                continue
        return


class _Proof:
    """The facts of one question, and how much may still be tried."""

    def __init__(self, facts: tuple[Size, ...], fuel: int) -> None:
        self.facts = [(fact, -fact) for fact in facts]
        self.fuel = fuel

    def asks(self, s: Size) -> bool:
        """Whether s >= 0 is proved."""
        return self.holds(s, depth=6, uses=2, level=_LEVELS)

    def holds(self, s: Size, depth: int, uses: int, level: int) -> bool:
        value = s.constant
        if value is not None:
            return value >= 0
        self.fuel -= 1
        if self.fuel < 0 or len(s.terms) > 64:
            return False
        nested = next((t for t in s.terms if _is_nested(t[0])), None) if depth else None
        if nested is None:
            if self._by_signs(s, level):
                return True
        else:
            (atom,), c = nested
            rest = Size(tuple([t for t in s.terms if t is not nested]))
            if self._by_atom(rest, atom, c, depth - 1, uses, level):
                return True
        if uses > 0:
            for fact, negated in self.facts:
                if self.fuel <= 0:  # only what is a number is still told
                    if s.offset >= fact.offset and _without_offset(s) == _without_offset(fact):
                        return True
                elif self.holds(s + negated, depth, uses - 1, level):
                    return True
        return False

    def of_part(self, s: Size, uses: int, level: int, depth: int = 1) -> bool:
        """Whether a divisor, or a factor, is >= 0: a question of its own, one level in."""
        return self.holds(s, depth, uses, level - 1) if level or s.constant is not None else False

    def _by_signs(self, s: Size, level: int) -> bool:
        """Prove a sum whose terms are none negative."""
        for monomial, c in s.terms:
            if c < 0:
                return False
            for atom in monomial:
                match atom:
                    case Symbol(signed=signed):
                        is_known = not signed
                    case _:
                        is_known = self.of_part(Size.atom(atom), 0, level, depth=2)
                if not is_known:
                    return False
        return True

    def _by_atom(self, rest: Size, atom: Atom, c: int, depth: int, uses: int, level: int) -> bool:
        """Prove rest + c * atom >= 0 from bounds of the atom."""
        match atom:
            case Min(args) | Max(args):
                cases = [rest + a * c for a in args]
                if (c > 0) == isinstance(atom, Min):
                    return all(self.holds(case, depth, uses, level) for case in cases)
                cases.sort(key=lambda case: len(case.terms))  # what cancels is likely to hold
                return any(self.holds(case, depth, uses, level) for case in cases)
            case FloorDiv(n, d):
                least = n - d + 1 if c > 0 else n  # d * floor(n / d) lies in [n - d + 1, n]
                # An integer is >= 0 where d times it is > -d.
                if self.of_part(d - 1, 1, level) and self.holds(
                    rest * d + least * c + d - 1, depth, uses, level
                ):
                    return True
                if not (self.holds(n, depth, uses, level) and self.of_part(d, 0, level)):
                    return False
                return self.holds(rest if c > 0 else rest + n * c, depth, uses, level)
            case Modulo(n, d):
                if not self.of_part(d, 0, level):
                    return False
                if c > 0:
                    return self.holds(rest, depth, uses, level)
                top = d - 1 if self.of_part(d - 1, 1, level) else d
                if self.holds(rest + top * c, depth, uses, level):
                    return True
                if self.of_part(n, 0, level, depth=2) and self.holds(
                    rest + n * c, depth, uses, level
                ):
                    return True
                return d.constant is not None and self.holds(
                    rest + n * c - d * c * Size.atom(FloorDiv(n, d)), depth, uses, level
                )
            case Symbol():
                return False


def _without_offset(s: Size) -> tuple[tuple[Monomial, int], ...]:
    return s.terms[:-1] if s.offset else s.terms


def _is_nested(monomial: Monomial) -> bool:
    """Whether a monomial is one minimum, maximum, quotient or remainder."""
    return len(monomial) == 1 and not isinstance(monomial[0], Symbol)


# ---- what rests on proofs


def minimum(*sizes: Size) -> Size:
    """Return the least of several, simplified where it is provable."""
    return _extreme(Min, sizes)


def maximum(*sizes: Size) -> Size:
    """Return the greatest of several, simplified where it is provable."""
    return _extreme(Max, sizes)


@lru_cache(maxsize=256)
def constants(sizes: tuple[tuple[str, int], ...] | None) -> Mapping[str, Size]:
    """Return sizes that are known as what stands for their symbols; None: none is known."""
    return {name: Size.const(value) for name, value in sizes or ()}


def substitute_symbols(size: Size, by: Mapping[str, Size]) -> Size:
    """Return size with other sizes for its symbols."""
    if not by or not size.has_symbol_of(by):
        return size
    total = Size()
    for monomial, coefficient in size.terms:
        term = Size.const(coefficient)
        for atom in monomial:
            term = term * _substituted(atom, by)
        total = total + term
    return total


def _extreme(kind: type[Min] | type[Max], sizes: Iterable[Size]) -> Size:
    sign = 1 if kind is Min else -1
    offsets: dict[Size, int] = {}  # of arguments that differ by a constant, the best
    for s in sizes:
        for a in _flat(kind, s):
            rest, offset = a - a.offset, a.offset
            known = offsets.get(rest)
            if known is None or offset * sign < known * sign:
                offsets[rest] = offset
    args = [rest + offset for rest, offset in offsets.items()]
    kept: list[Size] = []
    for i, a in enumerate(args):
        rivals = (*kept, *args[i + 1 :])
        if not any(is_nonnegative((a - b) * sign) for b in rivals):
            kept.append(a)
    if len(kept) == 1:
        return kept[0]
    shift = min(a.offset for a in kept)  # min(N - 1, M - 1) is min(N, M) - 1
    shifted = sorted((a - shift for a in kept), key=str)
    return Size.atom(kind(tuple(shifted))) + shift


def _flat(kind: type[Min] | type[Max], size: Size) -> tuple[Size, ...]:
    offset = size.offset
    match (size - offset).terms:
        case (((Min(args) | Max(args) as atom,), 1),) if isinstance(atom, kind):
            return tuple(a + offset for a in args)
    return (size,)


def _substituted(atom: Atom, by: Mapping[str, Size]) -> Size:
    match atom:
        case Symbol(name):
            return by[name] if name in by else Size.atom(atom)
        case FloorDiv(n, d):
            return substitute_symbols(n, by) // substitute_symbols(d, by)
        case Modulo(n, d):
            return substitute_symbols(n, by) % substitute_symbols(d, by)
        case Min(args):
            return minimum(*(substitute_symbols(a, by) for a in args))
        case Max(args):
            return maximum(*(substitute_symbols(a, by) for a in args))
