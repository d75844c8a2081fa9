"""Expressions of a statement, typed: every cast explicit, the accesses collected.

`rand` is typed like a float literal: float32 unless it meets a float64. Its seed has to be the same
at every point, or an element of a tensor of seeds: what tells numbers of one sequence apart is the
counter.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field, replace

from tcdsl.grammar.check import operators
from tcdsl.grammar.check.access import Access, Context
from tcdsl.grammar.check.exact import Exact
from tcdsl.grammar.check.names import Names
from tcdsl.grammar.check.padding import is_inside
from tcdsl.grammar.check.scope import Index, Tensor
from tcdsl.grammar.check.symbolic import SymbolicValues
from tcdsl.grammar.check.values import Value, coerce, convert, integral, meeting, want_bool
from tcdsl.grammar.check.wording import declared_here, given, plain_args
from tcdsl.grammar.proofs.sizes import Size, divides
from tcdsl.grammar.text import nodes as n
from tcdsl.grammar.text.dataclass import dataclass
from tcdsl.grammar.text.errors import Note, count
from tcdsl.grammar.text.fault import FaultError
from tcdsl.grammar.text.source import Span
from tcdsl.grammar.types import typed as t
from tcdsl.grammar.types.builtins import RAND, Function
from tcdsl.grammar.types.dtypes import BOOL, BY_NAME, FLOAT32, FLOAT64, INT32, INT64, UINT64, DType

MAX_DEPTH = 300  # of nested expressions after names of `where` are replaced
MAX_NODES = 50_000  # that names of `where` stand for in one statement
INT32_MAX = 2**31 - 1


@dataclass(slots=True)
class Typer:
    """Types the expressions of one statement.

    judge decides which subscripts of an access need a check at run time, margins which sides of
    the subscripts of a padded one may lie outside, low and high; both are None while ranges are
    still unknown. exact, None until then too, marks what may wrap. wide: indices and sizes used as
    int32 values. quotients: of integers, rounded, where they meet a float.
    """

    names: Names
    judge: Callable[[Access], tuple[bool, ...]] | None = None
    margins: Callable[[Access], tuple[tuple[bool, bool], ...]] | None = None
    exact: Exact | None = None
    symbolic: SymbolicValues = field(default_factory=SymbolicValues)
    accesses: list[Access] = field(default_factory=list)
    wide: list[tuple[Size, Span | None]] = field(default_factory=list)
    quotients: list[n.Binary] = field(default_factory=list)
    nodes: int = 0

    def value(self, node: n.Expr, at: Context) -> Value:
        """Return the typed expression."""
        self.nodes += bool(at.lets)
        if at.depth > MAX_DEPTH or self.nodes > MAX_NODES:
            raise FaultError(
                "TC130",
                "the expression is too large",
                node.span,
                "",
                Note("split it by a temporary; names of 'where' are replaced by their text"),
            )
        at = replace(at, depth=at.depth + 1)
        match node:
            case n.IntLit(value):
                small = -INT32_MAX - 1 <= value <= INT32_MAX
                dtype = INT32 if small and not at.is_subscript else INT64
                return Value(t.Lit(value, dtype, span=node.span), dtype)
            case n.FloatLit(value):
                return _float_literal(value, node.span)
            case n.Name():
                return self._name(node, at)
            case n.Apply():
                return self._apply(node, at)
            case n.Extent():
                return self._size(self.names.extent(node), node.span, at)
            case n.Cast(dtype, operand):
                return self._cast(BY_NAME[dtype], operand, node.span, at)
            case n.MinMax(op, lhs, rhs):
                values = self.value(lhs, at), self.value(rhs, at)
                return self._met(operators.extreme(op, values, node.span, at.hint), *values)
            case n.Unary():
                inner = self.value(node.operand, at)
                return self._met(operators.unary(node, inner), inner)
            case n.Binary():
                return self._binary(node, at)
            case n.Ternary():
                return self._ternary(node, at)

    def integer(self, node: n.Expr, at: Context, what: str) -> t.Expr:
        """Return an int64 expression; a fault if the type is not integral."""
        value = self.value(node, replace(at, is_subscript=True, decides=False))
        e = integral(value, node, what)
        return e if self.exact is None else self.exact.operands(e)

    # ---- names

    def _name(self, node: n.Name, at: Context) -> Value:
        match self.names.meaning(node, new_indices=at.end is None):
            case n.Let() as let:
                return self._let(let, node, at)
            case Index() as index:
                return self._index(index, node, at)
            case Size() as size:
                return self._size(size, node.span, at)
            case int() as value:
                return self.value(n.IntLit(value, span=node.span), at)
            case float() as value:
                return _float_literal(value, node.span)
            case Tensor() as tensor:
                return self._read(tensor, n.Apply(node.name, (), span=node.span), at)

    def _let(self, let: n.Let, node: n.Name, at: Context) -> Value:
        name = node.name
        if name in at.lets:
            raise FaultError(
                "TC127",
                f"'{name}' is defined by itself",
                node.span,
                "",
                Note("defined here", let.span),
            )
        return self.value(let.value, replace(at, lets=(*at.lets, name)))

    def _index(self, index: Index, node: n.Name, at: Context) -> Value:
        if at.end is not None and node.name not in at.end.indices:
            raise FaultError(
                "TC204",
                f"a bound depends on the index '{node.name}'",
                node.span,
                "",
                Note(at.end.cure),
            )
        dtype = INT64 if at.is_subscript else INT32
        if not at.is_subscript:
            self.wide.append((Size.symbol(index.name, signed=True), node.span))
        return Value(t.IndexValue(index.name, dtype, span=node.span), dtype)

    def _size(self, size: Size, span: Span | None, at: Context) -> Value:
        dtype = INT64 if at.is_subscript else INT32
        if not at.is_subscript:
            self.wide.append((size, span))
        return Value(t.SizeValue(size, dtype, span=span), dtype)

    # ---- applications

    def _apply(self, node: n.Apply, at: Context) -> Value:
        match self.names.applied(node):
            case DType() as dtype:
                args = plain_args(node)
                if len(args) != 1:
                    message = f"the cast '{node.name}' takes one value"
                    raise FaultError("TC106", message, node.span)
                return self._cast(dtype, args[0], node.span, at)
            case Tensor() as tensor:
                return self._read(tensor, node, at)
            case Function() as function:
                return self._builtin(function, node, at)
            case "pad":
                return self._pad(node, at)
            case "rand":
                return self._rand(node, at)

    def _read(self, tensor: Tensor, node: n.Apply, at: Context) -> Value:
        access = self._access(tensor, node, at)
        checked = self.judge(access) if self.judge is not None else (False,) * len(access.subs)
        return self._element(access, checked)

    def _pad(self, node: n.Apply, at: Context) -> Value:
        """Type `pad(A(e0, ..), v)`: v where a subscript is outside."""
        args = plain_args(node)
        inner = args[0] if args else None
        tensor = self.names.applied(inner) if isinstance(inner, n.Apply) else None
        if len(args) != 2 or not isinstance(inner, n.Apply) or not isinstance(tensor, Tensor):
            raise FaultError(
                "TC191",
                "'pad' takes an element of a tensor and a value",
                node.span,
                "",
                Note("write pad(A(i - 1), 0): 0 where i - 1 is outside of A"),
            )
        access = self._access(tensor, inner, at, padded=True)
        if self.exact is not None:  # what lies inside is told by comparing
            access = replace(access, subs=tuple(map(self.exact.number, access.subs)))
            values = tuple(map(self.symbolic.of, access.subs))
            access = self.accesses[-1] = replace(access, symbolic_subs=values)
        rank = len(access.subs)
        margins = self.margins(access) if self.margins is not None else ((True, True),) * rank
        inside = is_inside(access.subs, tensor.whole_bounds(), margins, node.span)
        read = self._element(access, (False,) * rank)
        value = self.value(args[1], replace(at, guarded=True))
        if inside is None:
            type_ = meeting(read, value, at.hint)
            return Value(coerce(read, type_), type_)
        chosen = operators.select(node.span, Value(inside, BOOL), read, value, at.hint)
        return self._met(chosen, read, value)

    def _rand(self, node: n.Apply, at: Context) -> Value:
        """Type `rand(seed, c)`: a float of the type that it meets, like a literal."""
        args = plain_args(node)
        if len(args) != 2:
            message = f"'rand' takes a seed and a counter, but {given(len(args))}"
            raise FaultError("TC106", message, node.span)
        seed = self.value(args[0], replace(at, is_subscript=False))
        is_integer = not seed.literal and seed.type.is_integer
        if not is_integer or _is_counted(seed.expr):
            raise FaultError(
                "TC196",
                f"the seed of 'rand' is {'made of an index' if is_integer else 'not an integer'}",
                args[0].span,
                "expected a scalar, or an element of a tensor of seeds",
                Note("what tells one number from another is the second argument"),
            )
        counter = self.integer(args[1], at, "the counter of 'rand'")
        call = t.Builtin(RAND, (convert(seed.expr, UINT64), counter), FLOAT64, span=node.span)
        return Value(call, FLOAT64, literal=True)

    def _access(
        self, tensor: Tensor, node: n.Apply, at: Context, *, padded: bool = False
    ) -> Access:
        self.names.want_readable(tensor, node.name, node.name_span or node.span)
        tensor.is_read = True
        args = plain_args(node)
        if len(args) != tensor.rank:
            indices = count(len(args), "index", "indices")
            raise FaultError(
                "TC103",
                f"{node.name} has {count(tensor.rank or 0, 'dimension')}, "
                f"but {given(len(args), indices)}",
                node.span,
                indices,
                declared_here(tensor),
            )
        inner = replace(at, hint=FLOAT32, is_subscript=True, decides=False)
        subs: list[t.Expr] = []
        for a in args:  # accesses nest 200 deep, and a comprehension is a frame of its own
            sub = integral(self.value(a, inner), a, f"a subscript of '{node.name}'")
            subs.append(sub if self.exact is None else self.exact.operands(sub))
        values = tuple(self.symbolic.of(s) for s in subs)
        access = Access(tensor, node, tuple(subs), values, at, padded)
        self.accesses.append(access)
        return access

    def _element(self, access: Access, checked: tuple[bool, ...]) -> Value:
        """Return the element that an access reads, as a value."""
        tensor, stored = access.tensor, access.tensor.stored
        assert tensor.type is not None
        read: t.Expr = t.Read(tensor.name, access.subs, stored, checked, span=access.node.span)
        if tensor.host is not None:
            self.symbolic.know(read, tensor.host)
        return Value(convert(read, stored.computed), tensor.type)

    def _builtin(self, function: Function, node: n.Apply, at: Context) -> Value:
        args = plain_args(node)
        if len(args) != function.arity:
            raise FaultError(
                "TC106",
                f"'{function.name}' takes {count(function.arity, 'argument')}, "
                f"but {given(len(args))}",
                node.span,
            )
        if function.result == "same":
            values = tuple(self.value(a, at) for a in args)
            chosen = operators.extreme(function.name, values, node.span, at.hint)
            return self._met(chosen, *values)
        inner = replace(at, is_subscript=False)
        values = tuple(self.value(a, inner) for a in args)
        self._met(Value(values[0].expr, FLOAT32), *values)
        return operators.builtin(function, values, node.span, at.hint)

    # ---- operators

    def _cast(self, dtype: DType, operand: n.Expr, span: Span | None, at: Context) -> Value:
        hint = dtype if dtype.is_float else FLOAT32
        direct = dtype == INT64 and isinstance(operand, n.Name | n.Extent)
        inner = replace(
            at, hint=hint, is_subscript=direct or (at.is_subscript and not dtype.is_float)
        )
        return operators.cast(self.value(operand, inner), dtype, span)

    def _binary(self, node: n.Binary, at: Context) -> Value:
        first, chain = n.spine(node)
        if any(binary.op in ("&&", "||") for binary in chain):
            at = replace(at, decides=True)
        value = self.value(first, at)
        for binary in chain:
            right_at = at
            if binary.op in ("&&", "||"):
                want_bool(value, binary.lhs, f"the left of '{binary.op}'")
                facts = self.symbolic.facts(value.expr, binary.op == "&&")
                right_at = at.under(facts)
            right = self.value(binary.rhs, right_at)
            left, value = value, operators.binary(binary, value, right, at.hint)
            value = self._quotient(binary, left, right, value)
            if at.decides and binary.op in operators.COMPARISONS:
                value = replace(value, expr=self._compared(value.expr))
        return value

    def _quotient(self, node: n.Binary, left: Value, right: Value, value: Value) -> Value:
        """Return a result that knows of quotients of integers in it, until they meet a float."""
        if node.op in operators.COMPARISONS:
            is_float = any(v.literal or v.type.is_float for v in (left, right))
            self._met(Value(value.expr, FLOAT32 if is_float else value.type), left, right)
            return value
        value = self._met(value, left, right)
        if node.op != "/" or not value.type.is_integer or value.literal:
            return value
        a, b = self.symbolic.of(left.expr), self.symbolic.of(right.expr)
        return value if divides(b, a) else replace(value, quotient=node)

    def _met(self, value: Value, *parts: Value) -> Value:
        """Return the result of parts: an integer has their quotients, a float has met them."""
        rounded = [p.quotient for p in parts if p.quotient is not None]
        if not rounded:
            return value
        if value.literal or value.type.is_float:
            self.quotients += rounded
            return value
        return replace(value, quotient=rounded[0]) if value.type.is_integer else value

    def _compared(self, e: t.Expr) -> t.Expr:
        """Return a comparison of which something may be concluded."""
        if self.exact is None or not isinstance(e, t.Binary) or not e.lhs.dtype.is_integer:
            return e
        return replace(e, lhs=self.exact.number(e.lhs), rhs=self.exact.number(e.rhs))

    def _ternary(self, node: n.Ternary, at: Context) -> Value:
        cond = self.value(node.cond, replace(at, is_subscript=False, decides=True, hint=FLOAT32))
        want_bool(cond, node.cond, "the condition of '?:'")
        then, other = (
            self.value(arm, at.under(self.symbolic.facts(cond.expr, truth)))
            for arm, truth in ((node.then, True), (node.other, False))
        )
        return self._met(operators.select(node.span, cond, then, other, at.hint), then, other)


def _is_counted(e: t.Expr) -> bool:
    """Whether an expression has the value of an index, not only what stands there in a tensor."""
    match e:
        case t.IndexValue():
            return True
        case t.Unary(operand=a) | t.Cast(operand=a):
            return _is_counted(a)
        case t.Binary(lhs=a, rhs=b):
            return _is_counted(a) or _is_counted(b)
        case t.Select(a, b, c):
            return _is_counted(a) or _is_counted(b) or _is_counted(c)
        case t.Builtin(args=args):
            return any(map(_is_counted, args))
        case t.Lit() | t.SizeValue() | t.Read():
            return False


def _float_literal(value: float, span: Span | None) -> Value:
    return Value(t.Lit(value, FLOAT64, span=span), FLOAT64, literal=True)
