"""`Program`: a definition as statements in SSA form over buffers, and walks over its expressions.

It is what fusion and forms work on; `ssa.py` makes it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, assert_never

from tcdsl.grammar.proofs.sizes import Size
from tcdsl.grammar.text.nodes import AssignOp, starts_anew
from tcdsl.grammar.types import typed
from tcdsl.grammar.types.dtypes import INT32, INT64, DType
from tcdsl.grammar.types.typed import Constraint, Expr, Range


@dataclass(frozen=True, slots=True)
class Buffer:
    """One version of a tensor: every statement makes a new one.

    tensor is the declared name, name the version (`O`, then `O.1`, ...). The last version of a
    return is the output. home names the memory: versions of one tensor share it, since text after
    a statement can only read what the statement left. A version that fusion keeps in a tile has no
    memory at all.
    """

    name: str
    tensor: str
    dtype: DType
    shape: tuple[Size, ...]
    low: tuple[Size, ...]
    role: Literal["param", "return", "temp"]
    home: str


@dataclass(frozen=True, slots=True)
class Affine:
    """sum of coefficient * index variable + constant: what most subscripts are."""

    terms: tuple[tuple[str, int], ...]
    const: Size

    def coefficient(self, var: str) -> int:
        """Return the coefficient of an index variable."""
        return dict(self.terms).get(var, 0)

    def at(self, point: Mapping[str, Size]) -> Size:
        """Return its value where the index variables have these values."""
        total = self.const
        for name, coefficient in self.terms:
            total = total + point[name] * coefficient
        return total

    @property
    def plain(self) -> str | None:
        """The variable if this is that variable alone, else None."""
        match self.terms:
            case ((name, 1),) if self.const == Size.const(0):
                return name
        return None


# a version, and of each of its dimensions the index that is its subscript, if that is one
Touch = tuple[str, tuple[str | None, ...]]


@dataclass(frozen=True, slots=True)
class Statement:
    """`typed.Statement` whose names are buffers.

    target is the version written. base is the version whose elements it combines with (`op=!`: it
    does not, what it writes starts anew) or leaves where it writes nothing (it has the same
    memory); None where nothing of an older version stays: then the box starts as the identity of
    op (0 for `=`), also in elements that no point reaches. subs count from the box's lowest element
    (the `low` of the buffer is already subtracted, in reads too).
    """

    target: str
    base: str | None
    subs: tuple[Expr, ...]
    op: AssignOp
    value: Expr
    ranges: tuple[Range, ...]
    covers: bool  # every element of the box is written
    subs_checked: tuple[bool, ...]
    text: str  # the statement as TC text, for headers and `show`
    _reads: tuple[typed.Read, ...] | None = field(
        default=None, init=False, compare=False, repr=False
    )
    _touched: tuple[Touch, ...] | None = field(default=None, init=False, compare=False, repr=False)

    @property
    def outputs(self) -> tuple[Range, ...]:
        """The ranges of the output indices."""
        return tuple(r for r in self.ranges if r.kind == "output")

    @property
    def reductions(self) -> tuple[Range, ...]:
        """The ranges of the reduction indices."""
        return tuple(r for r in self.ranges if r.kind == "reduction")

    @property
    def is_whole(self) -> bool:
        """Whether all is done once every point is written.

        So it is where the points are the box; or where each writes an element of its own, `h(t, n)`
        of turn t or `O(2 * i)`, and the others stay what they were.
        """
        if self.covers or self.base is None:
            return self.covers
        forms = [affine_of(e) for e in self.subs]
        used = [f.terms[0] for f in forms if f is not None and len(f.terms) == 1]
        fixed = [f for f in forms if f is not None and not f.terms]
        outputs = {r.name for r in self.outputs}
        return (
            len(used) + len(fixed) == len(forms)
            and len(used) == len(outputs)
            and {n for n, _ in used} == outputs
        )

    @property
    def resumes(self) -> bool:
        """Whether the elements that it writes go on from what they held."""
        return self.base is not None and not starts_anew(self.op)

    def reads(self) -> tuple[typed.Read, ...]:
        """Return the reads of the right side and of the subscripts, in order."""
        if self._reads is None:  # passes ask again and again
            found = [r for s in self.subs for r in reads_of(s)]
            object.__setattr__(self, "_reads", (*reads_of(self.value), *found))
        assert self._reads is not None
        return self._reads

    def touched(self) -> tuple[Touch, ...]:
        """Return what it goes on from, reads and writes, in that order."""
        if self._touched is None:
            target = _plain(self.subs)
            reads = [(r.tensor, _plain(r.subs)) for r in self.reads()]
            base = [] if self.base is None else [(self.base, target)]
            object.__setattr__(self, "_touched", (*base, *reads, (self.target, target)))
        assert self._touched is not None
        return self._touched


@dataclass(frozen=True, slots=True)
class TurnLoop:
    """`for var in low:high` around statements [first, last)."""

    var: str
    low: Size
    high: Size
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Program:
    """A definition as statements over buffers, in order, and the loops around them.

    Loops nest and stand in the order in which they begin, an outer one first. Versions are numbered
    in the order of the text: in a loop, what an earlier statement reads by its old name is, from
    the second turn on, what a later one has left in the same memory (`carried`).
    """

    name: str
    text: str  # the TC text: the header comment
    sizes: tuple[str, ...]  # those of `CheckedDef.sizes`: extents, then scalars in bounds
    scalars: tuple[str, ...]  # all rank-0 parameters, in order: they come by value
    inputs: tuple[str, ...]  # versions that hold the parameters, in order
    outputs: tuple[str, ...]  # last versions of the returns, in order
    buffers: tuple[Buffer, ...]
    statements: tuple[Statement, ...]
    constraints: tuple[Constraint, ...]
    loops: tuple[TurnLoop, ...] = ()
    _by_name: dict[str, Buffer] = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_by_name", {b.name: b for b in self.buffers})

    def buffer(self, name: str) -> Buffer:
        """Return the buffer of that name."""
        return self._by_name[name]

    @property
    def operands(self) -> tuple[str, ...]:
        """The buffers of the arguments of the executable: parameters, then returns."""
        return (*self.inputs, *self.outputs)

    @property
    def turns(self) -> frozenset[str]:
        """The variables of the loops."""
        return frozenset(x.var for x in self.loops)

    def segment(self, position: int) -> int:
        """Return a number that statements share if no loop begins or ends between them."""
        if not self.loops:
            return 0
        ends = {end for x in self.loops for end in (x.first, x.last)}
        return sum(end <= position for end in ends)

    def depends(self, size: Size) -> bool:
        """Whether a size changes from turn to turn."""
        return not self.turns.isdisjoint(size.symbols())


def carried(program: Program) -> frozenset[str]:
    """Return versions that live longer than names tell: through turns of a loop, or around it.

    All versions of a memory that some loop writes; but not those of a temporary that is written
    anew and read within one segment.
    """
    if not program.loops:
        return frozenset()
    homes = {x.name: x.home for x in program.buffers}
    inside = {i for x in program.loops for i in range(x.first, x.last)}
    written = {homes[program.statements[i].target] for i in inside}
    longer = {homes[name] for name in program.outputs}
    made: dict[str, int] = {}  # the segment that makes a version
    for i, s in enumerate(program.statements):
        here = program.segment(i)
        used = [r.tensor for r in s.reads()] + ([s.base] if s.base is not None else [])
        longer |= {homes[name] for name in used if made.get(name) != here}
        made[s.target] = here
    return frozenset(name for name, home in homes.items() if home in written & longer)


# ---- expressions of the language


def map_operands(e: Expr, f: Callable[[Expr], Expr]) -> Expr:
    """Return e with f applied to its direct operands."""
    match e:
        case typed.Lit() | typed.IndexValue() | typed.SizeValue():
            return e
        case typed.Read(subs=subs):
            return replace(e, subs=tuple(map(f, subs)))
        case typed.Unary(operand=a) | typed.Cast(operand=a):
            return replace(e, operand=f(a))
        case typed.Binary(lhs=a, rhs=b):
            return replace(e, lhs=f(a), rhs=f(b))
        case typed.Select(cond=c, then=a, other=b):
            return replace(e, cond=f(c), then=f(a), other=f(b))
        case typed.Builtin(args=args):
            return replace(e, args=tuple(map(f, args)))
        case _:
            assert_never(e)


def from_lowest(sub: Expr, low: Size) -> Expr:
    """Return a subscript that counts from the lowest element of a box."""
    if low == Size.const(0):
        return sub
    return typed.Binary("-", sub, typed.SizeValue(low, INT64), INT64)


def all_from_lowest(subs: Sequence[Expr], low: Sequence[Size]) -> tuple[Expr, ...]:
    """Return the subscripts of an element, counted from the lowest element of a box."""
    return tuple(from_lowest(e, x) for e, x in zip(subs, low, strict=True))


def reads_from_lowest(
    e: Expr, tensors: Mapping[str, typed.Tensor], version: Callable[[str], str]
) -> Expr:
    """Return e with versions for names of tensors and subscripts from their lowest elements."""

    def one(x: Expr) -> Expr:
        if not isinstance(x, typed.Read):
            return x
        subs = all_from_lowest(x.subs, tensors[x.tensor].low)
        return replace(x, tensor=version(x.tensor), subs=subs)

    return map_typed(e, one)


def map_typed(e: Expr, f: Callable[[Expr], Expr]) -> Expr:
    """Rebuild e bottom-up, passing each node through f."""
    first, chain = typed.spine(e)
    done = f(map_operands(first, lambda x: map_typed(x, f)))
    for link in chain:
        done = f(replace(link, lhs=done, rhs=map_typed(link.rhs, f)))
    return done


def operands_of(e: Expr) -> tuple[Expr, ...]:
    """Return the direct operands of an expression, subscripts among them."""
    match e:
        case typed.Lit() | typed.IndexValue() | typed.SizeValue():
            return ()
        case typed.Read(subs=parts) | typed.Builtin(args=parts):
            return parts
        case typed.Unary(operand=a) | typed.Cast(operand=a):
            return (a,)
        case typed.Binary(lhs=a, rhs=b):
            return (a, b)
        case typed.Select(cond=c, then=a, other=b):
            return (c, a, b)
        case _:
            assert_never(e)


def walk_typed(e: Expr) -> Iterator[Expr]:
    """Yield e and everything in it, parents first."""
    todo = [e]
    while todo:
        x = todo.pop()
        yield x
        todo += reversed(operands_of(x))


def reads_of(e: Expr) -> tuple[typed.Read, ...]:
    """Return the reads in e, in order."""
    return tuple(x for x in walk_typed(e) if isinstance(x, typed.Read))


def indices_of(e: Expr) -> frozenset[str]:
    """Return the index variables in e."""
    return frozenset(x.name for x in walk_typed(e) if isinstance(x, typed.IndexValue))


def substitute_indices(e: Expr, by: Mapping[str, Expr], *, address: bool = False) -> Expr:
    """Return e with expressions in place of index variables.

    As a number an index keeps the type it had; in an address (address=True, and in subscripts)
    arithmetic is exact whatever the types are.
    """
    match e:
        case typed.IndexValue(name, dtype) if name in by:
            new = by[name]
            return new if address or new.dtype == dtype else typed.Cast(new, dtype)
        case typed.Read():
            return map_operands(e, lambda x: substitute_indices(x, by, address=True))
        case typed.Binary("+" | "-" | "*" | "/" | "%") | typed.Unary("-"):
            return map_operands(e, lambda x: substitute_indices(x, by, address=address))
        case _:
            return map_operands(e, lambda x: substitute_indices(x, by))


def _plain(subs: tuple[Expr, ...]) -> tuple[str | None, ...]:
    return tuple(a.plain if (a := affine_of(e)) else None for e in subs)


def affine_of(expr: Expr) -> Affine | None:
    """Return a subscript as an affine map of index variables, or None if it is not one."""
    match expr:
        case typed.IndexValue(name):
            return Affine(((name, 1),), Size.const(0))
        case typed.SizeValue(size):
            return Affine((), size)
        case typed.Lit(value) if isinstance(value, int):
            return Affine((), Size.const(int(value)))
        case typed.Cast(typed.IndexValue() | typed.SizeValue() as operand, dtype):
            return affine_of(operand) if dtype in (INT32, INT64) else None
        case typed.Unary("-", operand):
            return _combine(Affine((), Size.const(0)), affine_of(operand), -1)
        case typed.Binary("+", lhs, rhs):
            return _combine(affine_of(lhs), affine_of(rhs), 1)
        case typed.Binary("-", lhs, rhs):
            return _combine(affine_of(lhs), affine_of(rhs), -1)
        case typed.Binary("*", lhs, rhs):
            return _product(affine_of(lhs), affine_of(rhs))
        case typed.Binary("/", lhs, rhs):  # of sizes; not of indices
            return _quotient(affine_of(lhs), affine_of(rhs))
        case _:
            return None


def _combine(a: Affine | None, b: Affine | None, sign: int) -> Affine | None:
    """Return a + sign * b."""
    if a is None or b is None:
        return None
    total = dict(a.terms)
    for name, c in b.terms:
        total[name] = total.get(name, 0) + sign * c
    return Affine(tuple((n, c) for n, c in total.items() if c), a.const + b.const * sign)


def _quotient(a: Affine | None, b: Affine | None) -> Affine | None:
    if a is None or b is None or a.terms or b.terms:
        return None
    return Affine((), a.const // b.const)


def _product(a: Affine | None, b: Affine | None) -> Affine | None:
    """Return a * b where one is a constant and the product has integer coefficients."""
    if a is None or b is None:
        return None
    if a.terms:
        a, b = b, a
    if a.terms:
        return None
    if not b.terms:
        return Affine((), a.const * b.const)
    c = a.const.constant
    if c is None:
        return None
    return Affine(tuple((n, k * c) for n, k in b.terms if k * c), b.const * c)
