"""Symbolic integers: extents and bounds as expressions of sizes.

A `Size` is kept in one canonical form, a sum of integer multiples of products of atoms, so that
equal expressions are equal objects to `==` and `hash`. Sizes are at least 0; a symbol that may be
negative (an integral scalar, an index) says so with `signed`.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from math import gcd, prod
from typing import Any, ClassVar, assert_never

from tcdsl.grammar.text.dataclass import dataclass

LARGEST_EXTENT = 2**48  # more elements than any memory has addresses for; calls refuse more


class _Atom:
    """What atoms know of themselves from their making on: they are hashed and sorted all the time.

    A hash is of one process, so that a pickle takes only what an atom is made of.
    """

    __slots__ = ("_hash", "key")

    __match_args__: ClassVar[tuple[str, ...]] = ()
    _hash: int
    key: tuple[int, str]  # by which factors, and terms, are sorted

    def __post_init__(self) -> None:
        made_of = self._made_of()
        object.__setattr__(self, "_hash", hash((type(self), *made_of)))
        object.__setattr__(self, "key", (0 if isinstance(self, Symbol) else 1, str(self)))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), self._made_of()

    def _made_of(self) -> tuple[object, ...]:
        return tuple(getattr(self, name) for name in type(self).__match_args__)


def _hash_of(atom: _Atom) -> int:
    return atom._hash


@dataclass(frozen=True, slots=True)
class Symbol(_Atom):
    """A size, an integral scalar or an index by name; signed: it may be negative."""

    name: str
    signed: bool = False

    __hash__ = _hash_of

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class FloorDiv(_Atom):
    """floor(numerator / denominator); 0 where the denominator is 0."""

    numerator: Size
    denominator: Size

    __hash__ = _hash_of

    def __str__(self) -> str:
        return f"{_group(self.numerator)} / {_group(self.denominator, tight=True)}"


@dataclass(frozen=True, slots=True)
class Modulo(_Atom):
    """numerator - denominator * floor(numerator / denominator); 0 where the denominator is 0."""

    numerator: Size
    denominator: Size

    __hash__ = _hash_of

    def __str__(self) -> str:
        return f"{_group(self.numerator)} % {_group(self.denominator, tight=True)}"


@dataclass(frozen=True, slots=True)
class Min(_Atom):
    """The least of several."""

    args: tuple[Size, ...]

    __hash__ = _hash_of

    def __str__(self) -> str:
        return _nested("min", self.args)


@dataclass(frozen=True, slots=True)
class Max(_Atom):
    """The greatest of several."""

    args: tuple[Size, ...]

    __hash__ = _hash_of

    def __str__(self) -> str:
        return _nested("max", self.args)


Atom = Symbol | FloorDiv | Modulo | Min | Max
Monomial = tuple[Atom, ...]


@dataclass(frozen=True, slots=True)
class Size:
    """sum of coefficient * product(atoms), sorted; the empty product is the constant term."""

    terms: tuple[tuple[Monomial, int], ...] = ()

    @staticmethod
    def const(value: int) -> Size:
        """Return the constant."""
        return Size((((), value),)) if value else Size()

    @staticmethod
    def symbol(name: str, *, signed: bool = False) -> Size:
        """Return the symbol; signed where it may be negative."""
        return Size((((Symbol(name, signed),), 1),))

    @staticmethod
    def atom(atom: Atom) -> Size:
        """Return the atom as it stands."""
        return Size((((atom,), 1),))

    @staticmethod
    def of(terms: Iterable[tuple[Monomial, int]]) -> Size:
        """Return the sum of multiples of products, whose atoms are sorted."""
        return _sum(terms)

    def __add__(self, other: Size | int) -> Size:
        if isinstance(other, int):
            return _moved(self, other)
        if (value := other.constant) is not None:
            return _moved(self, value)
        if (value := self.constant) is not None:
            return _moved(other, value)
        total = dict(self.terms)
        for monomial, coefficient in other.terms:
            total[monomial] = total.get(monomial, 0) + coefficient
        if len(total) == len(self.terms):  # none is new: their order stays
            return Size(tuple((m, c) for m, c in total.items() if c))
        return _sorted(total)

    def __sub__(self, other: Size | int) -> Size:
        return _moved(self, -other) if isinstance(other, int) else self + (-other)

    def __mul__(self, other: Size | int) -> Size:
        other = _size(other)
        if (value := other.constant) is not None:
            return _scaled(self, value)
        if (value := self.constant) is not None:
            return _scaled(other, value)
        return _sum(
            (tuple(sorted((*m, *n), key=_atom_key)), c * d)
            for m, c in self.terms
            for n, d in other.terms
        )

    def __neg__(self) -> Size:
        return Size(tuple((m, -c) for m, c in self.terms))

    def __floordiv__(self, other: Size | int) -> Size:
        return _floordiv(self, _size(other))

    def __mod__(self, other: Size | int) -> Size:
        return _modulo(self, _size(other))

    @property
    def constant(self) -> int | None:
        """The value if this is a constant, else None."""
        terms = self.terms
        if not terms:
            return 0
        return None if terms[0][0] else terms[0][1]  # it is the last term, here the only one

    @property
    def offset(self) -> int:
        """The constant term."""
        return self.terms[-1][1] if self.terms and not self.terms[-1][0] else 0

    def symbols(self) -> tuple[str, ...]:
        """Return the names it depends on, sorted."""
        return tuple(sorted({s.name for s in _symbols_of(self)}))

    def has_symbol_of(self, names: Container[str]) -> bool:
        """Whether it depends on one of these names."""
        return any(s.name in names for s in _symbols_of(self))

    def evaluate(self, values: Mapping[str, int]) -> int:
        """Return the value for given sizes."""
        total = 0
        for factors, term in self.terms:  # asked at each call of a new size: no generators
            for atom in factors:
                term *= values[atom.name] if type(atom) is Symbol else _value(atom, values)
            total += term
        return total

    def over(
        self,
        values: Mapping[str, Any],
        least: Callable[..., Any] = min,
        most: Callable[..., Any] = max,
    ) -> Any:
        """Return the value for sizes that need not be ints: for what stands for them.

        Of these only ``+ - * // %``, with ints too, and ``== 0`` of a divisor are asked; least and
        most take several and compare them.

        Examples
        --------
        >>> from fractions import Fraction
        >>> n = Size.symbol("N")
        >>> ((n + 1) // 2 * 3).over({"N": Fraction(6)})
        9
        """
        return sum(c * prod(_over(a, values, least, most) for a in m) for m, c in self.terms)

    def __str__(self) -> str:
        if not self.terms:
            return "0"
        # Positive terms first, the constant last: `W - KW + 1`.
        ordered = sorted(self.terms, key=lambda t: (not t[0], t[1] < 0))
        text = ""
        for monomial, coefficient in ordered:
            sign = "-" if coefficient < 0 else "+"
            if text:
                text += f" {sign} "
            elif sign == "-":
                text += sign
            text += _term_str(monomial, abs(coefficient), leading_minus=text == "-")
        return text


def divides(d: Size, n: Size) -> bool:
    """Whether n is a multiple of d by its form: `2 * N` of 2, `H * W` of W."""
    if n == d * (n // d):
        return True
    match d.terms:
        case ((factors, c),):
            return all(
                k % c == 0 and all(m.count(a) >= factors.count(a) for a in factors)
                for m, k in n.terms
            )
        case _:
            return False


# ---- canonical form


def _size(value: Size | int) -> Size:
    return value if isinstance(value, Size) else Size.const(value)


def _moved(size: Size, by: int) -> Size:
    """Return size + by: the constant is the last term."""
    if by == 0:
        return size
    last = size.offset
    others = size.terms[:-1] if last else size.terms
    return Size((*others, ((), last + by)) if last + by else others)


def _scaled(size: Size, factor: int) -> Size:
    """Return size * factor: the order of its terms stays."""
    if factor == 1:
        return size
    return Size(tuple((m, c * factor) for m, c in size.terms)) if factor else Size()


def _atom_key(atom: Atom) -> tuple[int, str]:
    return atom.key


def _term_key(term: tuple[Monomial, int]) -> tuple[int, list[tuple[int, str]]]:
    return -len(term[0]), [a.key for a in term[0]]


def _sum(terms: Iterable[tuple[Monomial, int]]) -> Size:
    total: dict[Monomial, int] = {}
    for monomial, coefficient in terms:
        total[monomial] = total.get(monomial, 0) + coefficient
    return _sorted(total)


def _sorted(total: Mapping[Monomial, int]) -> Size:
    terms = [(m, c) for m, c in total.items() if c]
    if len(terms) > 1:
        terms.sort(key=_term_key)
    return Size(tuple(terms))


def _split(size: Size, divisor: int) -> tuple[Size, Size]:
    """Return (q, r) with size == divisor * q + r: what divides evenly, and what does not.

    The constant of r is in [0, divisor); its other coefficients stay as they are, so that
    `(H - KH) / 2` and `(H - 3 * W) / 2` stay readable.
    """
    whole = _sum((m, c // divisor) for m, c in size.terms if not m or c % divisor == 0)
    return whole, size - whole * divisor


def _floordiv(n: Size, d: Size) -> Size:
    divisor = d.constant
    if divisor is None:
        if not n.terms:
            return n
        g = gcd(*(c for _, c in n.terms), *(c for _, c in d.terms))
        return Size.atom(FloorDiv(_exact(n, g), _exact(d, g)))
    if divisor == 0:
        return Size()
    if divisor < 0:
        return _floordiv(-n, Size.const(-divisor))
    if all(c % divisor == 0 for _, c in n.terms):
        return _exact(n, divisor)
    quotient, rest = _split(n, divisor)
    if rest.constant is not None:  # in [0, divisor)
        return quotient
    # The floor of (g*x + k) / (g*c) is that of (x + floor(k / g)) / c.
    g = gcd(divisor, *(c for m, c in rest.terms if m))
    k = rest.offset
    rest, divisor = _exact(rest - k, g) + k // g, divisor // g
    if divisor == 1:
        return quotient + rest
    # The floor of (floor(a / b) + k) / c is that of (a + k*b) / (b*c).
    inner = rest - rest.offset
    match inner.terms:
        case (((FloorDiv(a, b),), 1),) if b.constant is not None:
            return quotient + _floordiv(a + b * rest.offset, b * divisor)
    return quotient + Size.atom(FloorDiv(rest, Size.const(divisor)))


def _modulo(n: Size, d: Size) -> Size:
    divisor = d.constant
    if divisor is None:
        return Size.atom(Modulo(n, d)) if n.terms else n
    if divisor == 0:
        return Size()
    if divisor < 0:
        return -_modulo(-n, Size.const(-divisor))
    _, rest = _split(n, divisor)
    if rest.constant is not None:
        return rest
    g = gcd(divisor, *(c for _, c in rest.terms))
    return Size.atom(Modulo(_exact(rest, g), Size.const(divisor // g))) * g


def _exact(size: Size, divisor: int) -> Size:
    return Size(tuple((m, c // divisor) for m, c in size.terms))


def _parts(atom: Atom) -> tuple[Size, ...]:
    match atom:
        case Symbol():
            return ()
        case FloorDiv(n, d) | Modulo(n, d):
            return n, d
        case Min(args) | Max(args):
            return args


def _symbols_of(size: Size) -> Iterator[Symbol]:
    for monomial, _ in size.terms:
        for atom in monomial:
            if isinstance(atom, Symbol):
                yield atom
            for part in _parts(atom):
                yield from _symbols_of(part)


def _value(atom: Atom, values: Mapping[str, int]) -> int:
    """Return the value of an atom for given sizes: `_over` without a call for each part."""
    match atom:
        case FloorDiv():
            divisor = atom.denominator.evaluate(values)
            return atom.numerator.evaluate(values) // divisor if divisor else 0
        case Modulo():
            divisor = atom.denominator.evaluate(values)
            return atom.numerator.evaluate(values) % divisor if divisor else 0
        case Min():
            return min([x.evaluate(values) for x in atom.args])
        case Max():
            return max([x.evaluate(values) for x in atom.args])
        case Symbol():
            return values[atom.name]
    assert_never(atom)


def _over(
    atom: Atom,
    values: Mapping[str, Any],
    least: Callable[..., Any],
    most: Callable[..., Any],
) -> Any:
    def value(size: Size) -> Any:
        return size.over(values, least, most)

    match atom:
        case Symbol(name):
            return values[name]
        case FloorDiv(n, d):
            divisor = value(d)
            return 0 if divisor == 0 else value(n) // divisor
        case Modulo(n, d):
            divisor = value(d)
            return 0 if divisor == 0 else value(n) % divisor
        case Min(args):
            return least(*map(value, args))
        case Max(args):
            return most(*map(value, args))


# ---- text


def _term_str(monomial: Monomial, coefficient: int, *, leading_minus: bool) -> str:
    if not monomial:
        return str(coefficient)
    factors = [str(coefficient)] if coefficient != 1 else []
    several = len(monomial) + len(factors) > 1 or leading_minus
    for atom in monomial:
        text = str(atom)
        factors.append(f"({text})" if several and isinstance(atom, FloorDiv | Modulo) else text)
    return " * ".join(factors)


def _group(size: Size, *, tight: bool = False) -> str:
    """Return the text, in parentheses unless it is one factor (tight) or one product."""
    text = str(size)
    match size.terms:
        case ():
            return text
        case ((monomial, c),) if c > 0:
            plain = not monomial or (len(monomial) == 1 and c == 1)
            divides = any(isinstance(a, FloorDiv | Modulo) for a in monomial)
            if not divides and (plain or not tight):
                return text
    return f"({text})"


def _nested(name: str, args: tuple[Size, ...]) -> str:
    text = str(args[0])
    for a in args[1:]:
        text = f"{name}({text}, {a})"
    return text
