"""Proofs that a `Size` is never negative.

Integer reasoning by implications: s >= 0 follows from a simpler t >= 0. `fuel` bounds the search.
What a few steps do not prove is tried on numbers before more is spent: most of it is just not true.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache

from tcdsl.grammar.sizes import Atom, FloorDiv, Max, Min, Modulo, Size, Symbol

_FEW_STEPS, _MANY_STEPS = 30, 400
_ALIKE, _BESIDE = (0, 1, 2, 3, 8, 1000), ((1, 1000), (1000, 1), (5, 8))  # values of sizes to try


@lru_cache(maxsize=1 << 14)
def is_nonnegative(size: Size, given: tuple[Size, ...] = ()) -> bool:
    """Whether size >= 0 for all sizes >= 0 is proved (false means: not proved).

    given: sizes known to be >= 0, `N - 1` where a domain is known not to be empty.
    """
    facts = tuple(dict.fromkeys(f for g in given for f in _implied(g, 3)))
    if _Proof(facts, _FEW_STEPS).holds(size, depth=6, uses=2):
        return True
    return not _is_refuted(size, given) and _Proof(facts, _MANY_STEPS).holds(size, depth=6, uses=2)


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
        self.facts = facts
        self.fuel = fuel
        # What facts say of one symbol: `H * W - 1 >= 0` makes both at least 1.
        self.shift: dict[str, Size] = {}
        for fact in facts:
            least = -fact.offset
            match (fact - fact.offset).terms:
                case ((monomial, c),) if c > 0 and least > 0:
                    for atom in monomial:
                        if isinstance(atom, Symbol) and (not atom.signed or len(monomial) == 1):
                            low = -(-least // c) if len(monomial) == 1 else 1
                            known = self.shift.get(atom.name, Size()).offset
                            if low > known:
                                self.shift[atom.name] = Size.atom(atom) + low

    def holds(self, s: Size, depth: int, uses: int) -> bool:
        value = s.constant
        if value is not None:
            return value >= 0
        self.fuel -= 1
        if self.fuel < 0 or len(s.terms) > 64:
            return False
        if depth:
            for monomial, c in s.terms:
                if len(monomial) == 1 and not isinstance(monomial[0], Symbol):
                    rest = s - Size(((monomial, c),))
                    if self._by_atom(rest, monomial[0], c, depth - 1, uses):
                        return True
                    break
            else:
                if self._by_signs(s):
                    return True
        elif self._by_signs(s):
            return True
        return uses > 0 and any(self.holds(s - f, depth, uses - 1) for f in self.facts)

    def _by_signs(self, s: Size) -> bool:
        """Prove a sum whose terms are none negative."""
        if self.shift:
            s = s.substitute(self.shift)
        return all(
            c >= 0 and all(self._atom_nonnegative(a, shifted=True) for a in m) if m else c >= 0
            for m, c in s.terms
        )

    def _atom_nonnegative(self, atom: Atom, *, shifted: bool) -> bool:
        match atom:
            case Symbol(name, signed):
                return not signed or (shifted and name in self.shift)
            case _:
                return self.fuel > 0 and self.holds(Size.atom(atom), depth=2, uses=0)

    def _by_atom(self, rest: Size, atom: Atom, c: int, depth: int, uses: int) -> bool:
        """Prove rest + c * atom >= 0 from bounds of the atom."""
        match atom:
            case Min(args) | Max(args):
                cases = [rest + a * c for a in args]
                if (c > 0) == isinstance(atom, Min):
                    return all(self.holds(case, depth, uses) for case in cases)
                cases.sort(key=lambda case: len(case.terms))  # what cancels is likely to hold
                return any(self.holds(case, depth, uses) for case in cases)
            case FloorDiv(n, d):
                least = n - d + 1 if c > 0 else n  # d * floor(n / d) lies in [n - d + 1, n]
                # An integer is >= 0 where d times it is > -d.
                if self.holds(d - 1, 1, 1) and self.holds(
                    rest * d + least * c + d - 1, depth, uses
                ):
                    return True
                if not (self.holds(n, depth, uses) and self.holds(d, 1, 0)):
                    return False
                return self.holds(rest if c > 0 else rest + n * c, depth, uses)
            case Modulo(n, d):
                if not self.holds(d, 1, 0):
                    return False
                if c > 0:
                    return self.holds(rest, depth, uses)
                top = d - 1 if self.holds(d - 1, 1, 1) else d
                if self.holds(rest + top * c, depth, uses):
                    return True
                if self.holds(n, 2, 0) and self.holds(rest + n * c, depth, uses):
                    return True
                return d.constant is not None and self.holds(
                    rest + n * c - d * c * Size.atom(FloorDiv(n, d)), depth, uses
                )
            case Symbol():
                return False
