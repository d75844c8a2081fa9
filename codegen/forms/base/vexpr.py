"""Typed expressions at several points at once: the values of one index in the lanes of a vector.

What does not depend on that index stays scalar and meets the vectors in their operators. One lane
count serves a whole expression, so its types must fill a vector evenly: float32, int32 and the
half types (computed in float32), or float64 and int64; truth values are integers of that width,
all ones or zero, as comparisons of vectors give them. `unsupported` says what else does not fit;
such expressions are lowered as scalars in a loop that the C compiler vectorises.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import field, replace
from typing import assert_never

from tcdsl.codegen.forms.base.guarded import behind_conditions
from tcdsl.codegen.forms.base.scalars import power_of_two
from tcdsl.codegen.loops import loopir as ir
from tcdsl.codegen.loops.target import short_name
from tcdsl.codegen.machine.cpu import Machine
from tcdsl.codegen.program.numbers import Numbers
from tcdsl.grammar.text.dataclass import dataclass
from tcdsl.grammar.text.errors import InternalError
from tcdsl.grammar.types import typed
from tcdsl.grammar.types.dtypes import BOOL, FLOAT32, FLOAT64, INT32, INT64, DType

# Builtins with a vector form `tc_NAME_v16f32` in prelude.h or vmath.h.
FUNCTIONS = frozenset(
    """abs acos asin atan atan2 ceil clamp copysign cos elu erf erfc erfinv exp exp10 exp2 expm1
    fabs floor fmax fmin fmod gelu hardtanh leaky_relu log log10 log1p log2 logaddexp max min pow
    relu remainder rint round rsqrt sigmoid sign silu sin softplus sqrt tan tanh trunc""".split()  # noqa: SIM905  (it reads better)
)
# Of these those that take about as long as a branch that is guessed wrong, or longer.
HEAVY = FUNCTIONS - frozenset(
    """abs ceil clamp copysign fabs floor fmax fmin hardtanh leaky_relu max min relu rint round
    rsqrt sign sqrt trunc""".split()  # noqa: SIM905
)
INTEGER_FUNCTIONS = frozenset({"abs", "clamp", "hardtanh", "max", "min", "relu", "sign"})

HALVES = ir.Opaque("tc_halves")  # lanes rounded to a half type, as they are stored

_NATIVE = {32: (FLOAT32, INT32), 64: (FLOAT64, INT64)}


def operands(e: typed.Expr) -> tuple[typed.Expr, ...]:
    """Return what an expression computes with; subscripts are addresses, not operands."""
    match e:
        case typed.Lit() | typed.IndexValue() | typed.SizeValue() | typed.Read():
            return ()
        case typed.Unary(operand=a) | typed.Cast(operand=a):
            return (a,)
        case typed.Binary(lhs=a, rhs=b):
            return (a, b)
        case typed.Select(a, b, c):
            return (a, b, c)
        case typed.Builtin(args=args):
            return args
        case _:
            assert_never(e)


def walk(e: typed.Expr) -> Iterator[typed.Expr]:
    """Yield e and all it computes with, subscripts left out."""
    todo = [e]
    while todo:
        x = todo.pop()
        yield x
        todo += reversed(operands(x))


def any_of(
    is_one: Callable[[typed.Expr], bool], *, inner: bool = False
) -> Callable[[typed.Expr], bool]:
    """Return whether an expression computes with a leaf of some kind; every node is asked once.

    inner: whether what computes may be of that kind, not leaves alone.
    """
    known: dict[int, tuple[typed.Expr, bool]] = {}  # by identity; what is kept stays itself

    def holds(e: typed.Expr) -> bool:
        todo = [e]
        while todo:
            x = todo[-1]
            parts = operands(x)
            unknown = [p for p in parts if id(p) not in known]
            if unknown:
                todo += unknown
                continue
            todo.pop()
            if id(x) not in known:
                is_here = (inner or not parts) and is_one(x)
                known[id(x)] = x, is_here or any(known[id(p)][1] for p in parts)
        return known[id(e)][1]

    return holds


def width_of(exprs: Iterator[typed.Expr] | tuple[typed.Expr, ...]) -> int | None:
    """Return the bits of a lane that suits all expressions: 32 or 64, None if they mix."""
    widths = {x.dtype.computed.bits for e in exprs for x in walk(e) if x.dtype != BOOL}
    return max(widths) if len(widths) == 1 and widths <= {32, 64} else None


def unsupported(
    e: typed.Expr,
    varies: Callable[[typed.Expr], bool],
    safe: Callable[[typed.Read], bool] = lambda _: False,
    plain: Callable[[typed.Expr], bool] = lambda _: False,
) -> str | None:
    """Return why e has no vector form, or None if it has one.

    varies: whether an expression differs between lanes. safe: whether a read may be done where
    its guard excludes it: vectors evaluate both branches. plain: whether a quotient of integers is
    the one that C rounds to zero.
    """
    for x in walk(e):
        if x is not e and not varies(x):
            continue
        kind = x.dtype.computed
        if kind != BOOL and kind not in _NATIVE.get(kind.bits, ()):
            return f"{kind} has no vectors of its own"
        match x:
            case typed.Read(checked=checked) if any(checked):
                return f"subscripts of '{x.tensor}' are checked"
            case typed.Binary("<<" | ">>" as op, rhs=y) if not is_within(y, kind):
                return f"{op} by what may be the width of {kind} or more"
            case typed.Binary(op="%" | "/", rhs=y) if not kind.is_float:
                if not plain(x) and _power_of(y) is None:
                    return f"{x.op} of {kind}"
            case typed.Builtin("isnan", (y,)) if y.dtype.computed.is_float:
                pass  # a comparison with itself
            case typed.Builtin(name=name) if name not in (
                FUNCTIONS if kind.is_float else INTEGER_FUNCTIONS
            ):
                return f"{name} of {kind} has no vector form"
            case typed.Cast(operand=y) if y.dtype.computed.is_float and kind.is_integer:
                return f"a cast of {y.dtype} to {kind}"
            case typed.Read() if x.dtype == BOOL:
                return "bool elements"
            case _:
                pass
    return None if all(map(safe, behind_conditions(e, varies))) else "a guarded read"


def is_heavy(e: typed.Expr) -> bool:
    """Whether this alone is worth a look at who asks for it."""
    return isinstance(e, typed.Builtin) and e.name in HEAVY


def is_within(amount: typed.Expr, kind: DType) -> bool:
    """Whether a shift is by less than the width."""
    return isinstance(amount, typed.Lit) and 0 <= amount.value < kind.bits


def _power_of(e: typed.Expr) -> int | None:
    """Return which power of two a literal is, or None."""
    while isinstance(e, typed.Cast) and e.dtype.is_integer and e.dtype.bits >= 32:
        e = e.operand
    if not isinstance(e, typed.Lit) or not isinstance(e.value, int) or not 0 < e.value < 1 << 31:
        return None
    return power_of_two(e.value)


def kind_of(t: ir.Vector, stored: DType) -> str:
    """Return how the prelude names vectors of a type stored as one: v16f32, halves v16f32_bf16."""
    half = f"_{short_name(stored)}" if stored.is_half else ""
    return f"v{t.lanes}{short_name(t.dtype)}{half}"


def vector_call(function: str, t: ir.Vector, *args: ir.Expr) -> ir.Call:
    """Return `tc_FUNCTION_v16f32(args)` that gives a vector of type t."""
    return ir.Call(f"tc_{function}_v{t.lanes}{short_name(t.dtype)}", args, t)


def splat(e: ir.Expr, t: ir.Vector) -> ir.Expr:
    """Return e in all lanes; a vector stays as it is."""
    if isinstance(e.type, ir.Vector):
        return e
    if isinstance(e, ir.Const):
        return ir.Const(e.value, t)
    return vector_call("splat", t, e)


@dataclass
class LaneScope:
    """Where expressions are evaluated: how leaves are reached, and what is known already.

    lanes, bits: of all vectors. varies: whether a leaf differs between lanes. scalar: lowers what
    does not. read, index: a vector of what does. statements: receives declarations. fresh: gives
    unused names. known: values of reads. all_vary: whether any expression does (`any_of(varies)`),
    where several scopes have the same leaves.
    """

    lanes: int
    bits: int
    varies: Callable[[typed.Expr], bool]
    scalar: Callable[[typed.Expr], ir.Expr]
    read: Callable[[typed.Read], ir.Expr]
    index: Callable[[typed.IndexValue], ir.Expr]
    fresh: Callable[[str], str]
    statements: list[ir.Stmt]
    known: dict[typed.Expr, ir.Expr] = field(default_factory=dict)
    all_vary: Callable[[typed.Expr], bool] | None = None
    _varies: Callable[[typed.Expr], bool] = field(init=False)
    _costs: Callable[[typed.Expr], bool] = field(init=False)
    _named: dict[int, ir.Expr] = field(default_factory=dict)
    _numbers: Numbers = field(default_factory=Numbers)
    _uses: Counter[int] = field(default_factory=Counter)

    @property
    def truth(self) -> ir.Vector:
        """The type of comparisons."""
        return ir.Vector(INT32 if self.bits == 32 else INT64, self.lanes)

    def type(self, dtype: DType) -> ir.Vector:
        """Return the vector type of values of dtype."""
        return self.truth if dtype == BOOL else ir.Vector(dtype.computed, self.lanes)

    def name(self, e: ir.Expr, stem: str = "v") -> ir.Expr:
        """Return e by name: what is named is computed once."""
        if isinstance(e, ir.Var | ir.Const):
            return e
        assert e.type is not None, f"{e} has no value"
        var = ir.Var(self.fresh(stem), e.type)
        self.statements.append(ir.Let(var, e))
        return var

    def value(self, e: typed.Expr) -> ir.Expr:
        """Return the value of e: a vector if it varies, else a scalar."""
        numbers = self._numbers
        self._uses.update(numbers.fact("uses", e, lambda: Counter(map(numbers.of, walk(e)))))
        # Anew, where nobody knows better: what is in the tile changes.
        self._varies = any_of(self.varies) if self.all_vary is None else self.all_vary
        self._costs = any_of(is_heavy, inner=True)
        return self._value(e)

    def vector(self, e: typed.Expr) -> ir.Expr:
        """Return the value of e in all lanes."""
        return splat(self.value(e), self.type(e.dtype))

    def _value(self, e: typed.Expr) -> ir.Expr:
        is_read = isinstance(e, typed.Read)
        if is_read and e in self.known:
            return self.known[e]
        number = self._numbers.of(e)
        if number in self._named:
            return self._named[number]
        if not self._varies(e):
            return self.scalar(e)
        value = self._compute(e)
        if is_read:
            value = self.known[e] = self.name(value)
        elif self._uses[number] > 1:
            value = self._named[number] = self.name(value)
        return value

    def _vector(self, e: typed.Expr) -> ir.Expr:
        return splat(self._value(e), self.type(e.dtype))

    def _truth(self, e: typed.Expr) -> ir.Expr:
        """Return a truth value in all lanes."""
        value = self._value(e)
        if isinstance(value.type, ir.Vector):
            return value
        width = ir.Scalar(self.truth.dtype)
        return splat(ir.Un("-", ir.Cast(value, width), width), self.truth)

    def _compute(self, e: typed.Expr) -> ir.Expr:
        t = self.type(e.dtype)
        match e:
            case typed.Read():
                return self.read(e)
            case typed.IndexValue():
                return self.index(e)
            case typed.Unary("-", a):
                return ir.Un("-", self._value(a), t)
            case typed.Unary("!", a):
                return ir.Un("~", self._truth(a), t)
            case typed.Unary("~", a):
                return ir.Un("~", self._value(a), t)
            case typed.Binary("&" | "|" | "^" as op, a, b) if e.dtype == BOOL:
                return ir.Bin(op, self._truth(a), self._truth(b), t)
            case typed.Binary("<<" | ">>" as op, a, b):
                return ir.Bin(op, self._vector(a), self._vector(b), t)
            case typed.Binary("&&" | "||" as op, a, b):
                return ir.Bin("&" if op == "&&" else "|", self._truth(a), self._truth(b), t)
            case typed.Binary("==" | "!=" as op, a, b) if a.dtype == BOOL:
                differ = ir.Bin("^", self._truth(a), self._truth(b), t)
                return differ if op == "!=" else ir.Un("~", differ, t)
            case typed.Binary("%", a, b) if e.dtype.is_float:
                return vector_call("mod", t, self._vector(a), self._vector(b))
            case typed.Binary("/" | "%" as op, a, by) if (
                not e.dtype.is_float and (power := _power_of(by)) is not None
            ):
                if op == "/":
                    return ir.Bin(">>", self._vector(a), ir.Const(power, t), t)
                return ir.Bin("&", self._vector(a), ir.Const((1 << power) - 1, t), t)
            case typed.Binary(op, a, b) if op not in ("&&", "||"):
                return ir.Bin(op, self._value(a), self._value(b), t)
            case typed.Builtin("min" | "max" as name, (a, b)) if e.dtype == BOOL:
                return ir.Bin("&" if name == "min" else "|", self._truth(a), self._truth(b), t)
            case typed.Select(c, a, b) if e.dtype == BOOL:
                return vector_call("select", t, self._truth(c), self._truth(a), self._truth(b))
            case typed.Select(c, a, b):
                return self._select(self._truth(c), a, b, t)
            case typed.Cast(a):
                return self._cast(a, t, e.dtype)
            case typed.Builtin("isnan", (a,)):
                v = self.name(self._vector(a))
                return ir.Bin("!=", v, v, t)
            case typed.Builtin("fabs", args):
                return vector_call("abs", t, *map(self._vector, args))
            case typed.Builtin("clamp" | "hardtanh", (_, typed.Lit(), typed.Lit()) as args) if (
                e.dtype.is_float
            ):
                return vector_call("within", t, *map(self._vector, args))  # no NaN among the bounds
            case typed.Builtin(name, args):
                return vector_call(name, t, *map(self._vector, args))
            case _:
                raise InternalError(f"{e} has no vector form")

    def _select(self, c: ir.Expr, a: typed.Expr, b: typed.Expr, t: ir.Vector) -> ir.Expr:
        """Return a or b by lanes. What costs much is left out where no lane asks for it."""
        a_costs, b_costs = map(self._costs, (a, b))
        if a_costs == b_costs:
            return vector_call("select", t, c, self._vector(a), self._vector(b))
        c = self.name(c)
        then, other = self._vector(a), self._vector(b)
        cheap = self.name(other if a_costs else then)
        then, other = (then, cheap) if a_costs else (cheap, other)
        asked = c if a_costs else ir.Un("~", c, self.truth)
        some = vector_call("any", self.truth, asked)
        either = vector_call("select", t, c, then, other)
        return ir.Select(replace(some, type=ir.Scalar(BOOL)), either, cheap, t)

    def _cast(self, a: typed.Expr, t: ir.Vector, dtype: DType) -> ir.Expr:
        if a.dtype == BOOL and dtype == BOOL:
            return self._truth(a)
        if a.dtype == BOOL:
            one, zero = ir.Const(1, t), ir.Const(0, t)
            return vector_call("select", t, self._truth(a), one, zero)
        if dtype == BOOL:
            kind = a.dtype.computed
            return ir.Bin("!=", self._value(a), ir.Const(0, ir.Scalar(kind)), t)
        value = self._vector(a)
        if dtype.is_half and dtype != a.dtype:
            half = short_name(dtype)
            if a.dtype == INT32 and half == "bf16":  # which is rounded once
                value = vector_call("odd", self.type(INT32), value)
            return rounded(_converted(value, t), t, dtype)
        return _converted(value, t)


def rounded(value: ir.Expr, t: ir.Vector, half: DType) -> ir.Expr:
    """Return lanes of float32 as they are once they were stored as a half."""
    name = short_name(half)
    if isinstance(value, ir.Call) and value.function == f"tc_widen_{name}":
        return value  # of a half
    return ir.Call(f"tc_widen_{name}", (ir.Call(f"tc_narrow_{name}", (value,), HALVES),), t)


def _converted(value: ir.Expr, t: ir.Vector) -> ir.Expr:
    """Return lanes as another type of their width."""
    source = value.type
    if source == t:
        return value
    assert isinstance(source, ir.Vector)
    name = f"tc_v{source.lanes}{short_name(source.dtype)}_v{t.lanes}{short_name(t.dtype)}"
    return ir.Call(name, (value,), t)


def integer_of(bits: int) -> DType:
    """Return the integers that fill lanes of that width."""
    return INT32 if bits == 32 else INT64


def mask_dtype(bits: int) -> DType:
    """Return the type after which masks over lanes of that width are named."""
    return FLOAT32 if bits == 32 else FLOAT64


def lanes_of(bits: int, machine: Machine) -> int:
    """Return the lanes of a vector whose elements have that many bits."""
    return machine.lanes(bits // 8)
