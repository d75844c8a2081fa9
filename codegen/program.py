"""A checked definition as statements in SSA form over buffers: what fusion and lowering work on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Literal, assert_never

from tcdsl.codegen.unparse import statement_text
from tcdsl.grammar import typed
from tcdsl.grammar.dtypes import FLOAT32, INT32, INT64, DType
from tcdsl.grammar.errors import ScheduleError
from tcdsl.grammar.nodes import AssignOp
from tcdsl.grammar.sizes import Size
from tcdsl.grammar.typed import CheckedDef, Constraint, Expr, Range


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

    @property
    def plain(self) -> str | None:
        """The variable if this is that variable alone, else None."""
        match self.terms:
            case ((name, 1),) if self.const == Size.const(0):
                return name
        return None


@dataclass(frozen=True, slots=True)
class Statement:
    """`typed.Statement` whose names are buffers.

    target is the version written. base is the version whose elements it combines with or leaves
    where it writes nothing (it has the same memory); None where nothing of an older version
    stays: then the box starts as the identity of op (0 for `=`), also in elements that no point
    reaches. subs count from the box's lowest element
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

    @property
    def outputs(self) -> tuple[Range, ...]:
        """The ranges of the output indices."""
        return tuple(r for r in self.ranges if r.kind == "output")

    @property
    def reductions(self) -> tuple[Range, ...]:
        """The ranges of the reduction indices."""
        return tuple(r for r in self.ranges if r.kind == "reduction")

    def reads(self) -> tuple[typed.Read, ...]:
        """Return the reads of the right side and of the subscripts, in order."""
        found = [r for s in self.subs for r in reads_of(s)]
        return (*reads_of(self.value), *found)


@dataclass(frozen=True, slots=True)
class Program:
    """A definition as statements over buffers; loops (`for`) come with the scan leaf."""

    name: str
    text: str  # the TC text: the header comment
    sizes: tuple[str, ...]  # those of `CheckedDef.sizes`: extents, then scalars in bounds
    scalars: tuple[str, ...]  # all rank-0 parameters, in order: they come by value
    inputs: tuple[str, ...]  # versions that hold the parameters, in order
    outputs: tuple[str, ...]  # last versions of the returns, in order
    buffers: tuple[Buffer, ...]
    statements: tuple[Statement, ...]
    constraints: tuple[Constraint, ...]

    def buffer(self, name: str) -> Buffer:
        """Return the buffer of that name."""
        for b in self.buffers:
            if b.name == name:
                return b
        raise KeyError(name)

    @property
    def operands(self) -> tuple[str, ...]:
        """The buffers of the arguments of the executable: parameters, then returns."""
        return (*self.inputs, *self.outputs)


def program_of(checked: CheckedDef) -> Program:
    """Return the SSA form of a checked definition.

    Raises
    ------
    ScheduleError
        If the definition has a `for` loop.
    """
    builder = _Builder(checked)
    for stmt in checked.body:
        match stmt:
            case typed.Statement():
                builder.statement(stmt)
            case typed.Loop():
                raise ScheduleError(f"loop over '{stmt.var}': there is no scan leaf yet")
            case _:
                assert_never(stmt)
    current = builder.current
    return Program(
        name=checked.name,
        text=checked.text,
        sizes=checked.sizes,
        scalars=tuple(t.name for t in checked.params if not t.shape),
        inputs=tuple(t.name for t in checked.params),
        outputs=tuple(current[t.name] for t in checked.returns),
        buffers=tuple(builder.buffers),
        statements=tuple(builder.statements),
        constraints=checked.constraints,
    )


class _Builder:
    """Versions and statements in the making; current is the version a name means now."""

    def __init__(self, checked: CheckedDef) -> None:
        self.tensors = {t.name: t for t in (*checked.params, *checked.returns, *checked.temps)}
        self.buffers: list[Buffer] = []
        self.statements: list[Statement] = []
        self.current: dict[str, str] = {}
        self.versions = dict.fromkeys(self.tensors, 0)
        self.sizes = checked.sizes
        for t in checked.params:
            self.version(t.name, None)
        for t in checked.returns:
            if t.is_updated:  # what the caller's buffer holds
                self.version(t.name, None)

    def version(self, tensor: str, home: str | None) -> str:
        """Add the next version of a tensor, in the memory of another or in its own."""
        t, number = self.tensors[tensor], self.versions[tensor]
        name = f"{tensor}.{number}" if number else tensor
        self.versions[tensor] += 1
        self.buffers.append(
            Buffer(name, tensor, t.dtype, t.shape, t.low, t.role, name if home is None else home)
        )
        self.current[tensor] = name
        return name

    def statement(self, s: typed.Statement) -> None:
        tensor = self.tensors[s.target]
        old = self.current.get(s.target)
        subs = tuple(
            _minus(self.renamed(e), low) for e, low in zip(s.subs, tensor.low, strict=True)
        )
        value = self.renamed(s.value)
        covers = _covers(subs, s.ranges, tensor.shape) and not any(s.subs_checked)
        base = None if s.op.endswith("!") or (s.op == "=" and covers) else old
        if base is None and not covers and any(r.tensor == old for r in reads_of(value)):
            value = self.from_copy(value, s.target)
        home = None if old is None else self.buffer(old).home
        target = self.version(s.target, home)
        self.statements.append(
            Statement(
                target=target,
                base=base,
                subs=subs,
                op=s.op,
                value=value,
                ranges=s.ranges,
                covers=covers,
                subs_checked=s.subs_checked or (False,) * len(subs),
                text=statement_text(s),
            )
        )

    def from_copy(self, value: Expr, tensor: str) -> Expr:
        """Return a value that reads the version before from a copy.

        The text forbids reading elements that the same statement writes before (but the very
        one), so a statement may work in place; except where it initialises elements that it does
        not write and reads what they were.
        """
        old, t = self.current[tensor], self.tensors[tensor]
        dtype = FLOAT32 if t.dtype.is_half else t.dtype
        number = sum(x.name.startswith(f"{tensor}.copy") for x in self.buffers)
        copy = f"{tensor}.copy{number or ''}"
        zero = (Size.const(0),) * len(t.shape)
        self.buffers.append(Buffer(copy, tensor, dtype, t.shape, zero, "temp", copy))
        taken = {*self.tensors, *self.sizes}
        names = [_fresh(f"c{d}", taken) for d in range(len(t.shape))]
        at = tuple(typed.IndexValue(n, INT64) for n in names)
        read: Expr = typed.Read(old, at, t.dtype, (False,) * len(at))
        self.statements.append(
            Statement(
                target=copy,
                base=None,
                subs=at,
                op="=",
                value=typed.Cast(read, dtype) if t.dtype.is_half else read,
                ranges=tuple(
                    Range(n, Size.const(0), extent, "output")
                    for n, extent in zip(names, t.shape, strict=True)
                ),
                covers=True,
                subs_checked=(False,) * len(at),
                text=f"{copy} = {tensor}",
            )
        )

        def one(x: Expr) -> Expr:
            if not isinstance(x, typed.Read) or x.tensor != old:
                return x
            return replace(x, tensor=copy, dtype=dtype)

        return map_typed(value, one)

    def buffer(self, name: str) -> Buffer:
        """Return the buffer of that name."""
        return next(x for x in self.buffers if x.name == name)

    def renamed(self, e: Expr) -> Expr:
        """Return e with versions for names and subscripts from the box's lowest element."""

        def one(x: Expr) -> Expr:
            if not isinstance(x, typed.Read):
                return x
            lows = self.tensors[x.tensor].low
            subs = tuple(_minus(s, low) for s, low in zip(x.subs, lows, strict=True))
            return replace(x, tensor=self.current[x.tensor], subs=subs)

        return map_typed(e, one)


def _fresh(name: str, taken: Iterable[str]) -> str:
    while name in taken:
        name += "_"
    return name


def _minus(e: Expr, low: Size) -> Expr:
    if low == Size.const(0):
        return e
    return typed.Binary("-", e, typed.SizeValue(low, INT64), INT64)


def _covers(subs: tuple[Expr, ...], ranges: tuple[Range, ...], shape: tuple[Size, ...]) -> bool:
    """Whether subs, one variable each, run over the whole box."""
    spans = {r.name: r for r in ranges}
    used: set[str] = set()
    for e, extent in zip(subs, shape, strict=True):
        a = affine_of(e)
        if a is None or len(a.terms) != 1 or a.terms[0][1] != 1 or a.terms[0][0] in used:
            return False
        name = a.terms[0][0]
        used.add(name)
        span = spans[name]
        if span.low + a.const != Size.const(0) or span.high + a.const != extent:
            return False
    return True


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


def map_typed(e: Expr, f: Callable[[Expr], Expr]) -> Expr:
    """Rebuild e bottom-up, passing each node through f."""
    return f(map_operands(e, lambda x: map_typed(x, f)))


def walk_typed(e: Expr) -> Iterator[Expr]:
    """Yield e and everything in it, parents first."""
    yield e
    match e:
        case typed.Lit() | typed.IndexValue() | typed.SizeValue():
            return
        case typed.Read(subs=parts) | typed.Builtin(args=parts):
            pass
        case typed.Unary(operand=a) | typed.Cast(operand=a):
            parts = (a,)
        case typed.Binary(lhs=a, rhs=b):
            parts = (a, b)
        case typed.Select(cond=c, then=a, other=b):
            parts = (c, a, b)
        case _:
            assert_never(e)
    for p in parts:
        yield from walk_typed(p)


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
