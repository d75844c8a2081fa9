"""Expressions of a statement: names resolved, types made explicit, accesses collected.

A value of a half type is computed in float32: what is read is cast to float32, and only an
explicit cast or the store into an output rounds. A literal keeps the type it meets; until then it
is typed float64 and `literal`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, NoReturn

from tcdsl.grammar import nodes as n
from tcdsl.grammar import typed as t
from tcdsl.grammar.builtins import BUILTINS, FLOAT_NAMES, NOT_YET, Function, is_reserved
from tcdsl.grammar.dtypes import BOOL, BY_NAME, FLOAT32, FLOAT64, INT32, INT64, DType, promote
from tcdsl.grammar.errors import Note
from tcdsl.grammar.forms import Forms
from tcdsl.grammar.scope import (
    FaultError,
    Frame,
    Index,
    SilentError,
    StatementScope,
    Tensor,
    computing,
    function_names,
    near,
)
from tcdsl.grammar.sizes import Size
from tcdsl.grammar.source import Span

MAX_DEPTH = 300  # of nested expressions after names of `where` are replaced
MAX_NODES = 50_000  # that names of `where` stand for in one statement
MAX_INDICES = 64  # of one statement
MAX_FACTS = 32  # of the conditions around one access
INT32_MAX = 2**31 - 1
_COMPARISONS = ("<", "<=", ">", ">=", "==", "!=")


@dataclass(frozen=True, slots=True)
class Value:
    """A typed expression and its type in the language; literal: it takes the type it meets."""

    expr: t.Expr
    type: DType
    literal: bool = False

    @property
    def is_int_literal(self) -> bool:
        """Whether this is an integer literal."""
        return isinstance(self.expr, t.Lit) and self.type.is_integer


@dataclass(frozen=True, slots=True)
class Context:
    """Where an expression stands.

    hint: the type of float literals beside integers. is_subscript: indices, sizes and literals are
    int64. guarded: a condition decides whether it is evaluated, facts: sizes that are then >= 0.
    """

    hint: DType = FLOAT32
    is_subscript: bool = False
    guarded: bool = False
    facts: tuple[Size, ...] = ()
    depth: int = 0
    lets: tuple[str, ...] = ()
    new_indices: bool = True


@dataclass(frozen=True, slots=True)
class Access:
    """A read of an element, for ranges and bounds."""

    tensor: Tensor
    node: n.Apply
    subs: tuple[t.Expr, ...]
    forms: tuple[Size, ...]
    context: Context


@dataclass(slots=True)
class Typer:
    """Types the expressions of one statement.

    judge decides which subscripts of an access need a check at run time; it is None while ranges
    are still unknown.
    """

    frame: Frame
    scope: StatementScope
    defs: Mapping[str, n.Def]
    rename: Callable[[str], str]
    judge: Callable[[Access], tuple[bool, ...]] | None = None
    forms: Forms = field(default_factory=Forms)
    accesses: list[Access] = field(default_factory=list)
    wide: list[tuple[Size, Span | None]] = field(default_factory=list)
    new_kind: Literal["output", "reduction"] = "reduction"
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
                return Value(t.Lit(value, FLOAT64, span=node.span), FLOAT64, literal=True)
            case n.Name():
                return self._name(node, at)
            case n.Apply():
                return self._apply(node, at)
            case n.Extent():
                return self._extent(node, at)
            case n.Cast(dtype, operand):
                return self._cast(BY_NAME[dtype], operand, node.span, at)
            case n.MinMax(op, lhs, rhs):
                return self._extreme(op, (self.value(lhs, at), self.value(rhs, at)), node, at)
            case n.Unary():
                return self._unary(node, at)
            case n.Binary():
                return self._binary(node, at)
            case n.Ternary():
                return self._ternary(node, at)

    def integer(self, node: n.Expr, at: Context, what: str) -> t.Expr:
        """Return an int64 expression; a fault if the type is not integral."""
        return integral(self.value(node, replace(at, is_subscript=True)), node, what)

    # ---- names

    def _name(self, node: n.Name, at: Context) -> Value:
        name, frame = node.name, self.frame
        if name in self.scope.lets:
            return self._let(name, node, at)
        if name in self.scope.indices:
            return self._index(self.scope.indices[name], node, at)
        if name in frame.sizes:
            frame.used_generics.add(name)
            return self._size(frame.sizes[name], node, at)
        if name in frame.ints:
            frame.used_generics.add(name)
            return self.value(n.IntLit(frame.ints[name], span=node.span), at)
        if name in frame.tensors:
            return self._bare_tensor(frame.tensors[name], node, at)
        if name in frame.types:
            raise FaultError("TC101", f"'{name}' is a type, not a value", node.span)
        if is_reserved(name):
            arity = BUILTINS[name].arity
            raise FaultError(
                "TC105",
                f"'{name}' is a builtin function and cannot be the name of anything else",
                node.span,
                "",
                Note(f"choose another name, or call it: {name}({', '.join('xyzw'[:arity])})"),
            )
        if name in FLOAT_NAMES:
            value = FLOAT_NAMES[name]
            return Value(t.Lit(value, FLOAT64, span=node.span), FLOAT64, literal=True)
        if name in self.defs:
            message = f"'{name}' is a definition, not an index"
            raise FaultError("TC101", message, node.span, "", Note("choose another name"))
        if not at.new_indices:
            raise FaultError(
                "TC114",
                f"'{name}' is not known here",
                node.span,
                "expected a size, an integer or an integral scalar parameter",
                near(name, frame.names()),
                Note(
                    f"a size that no parameter has is a generic: def "
                    f"{frame.definition.name}<{name}>(...)"
                ),
            )
        self._written_later(name, node.span)
        if len(self.scope.indices) >= MAX_INDICES:
            raise FaultError("TC130", f"more than {MAX_INDICES} indices", node.span)
        index = Index(self.rename(name), self.new_kind, node.span)
        self.scope.indices[name] = index
        return self._index(index, node, at)

    def _written_later(self, name: str, span: Span | None) -> None:
        """Refuse the name of a tensor that only a later statement writes."""
        if name not in self.frame.later:
            return
        if self.new_kind == "output":
            raise FaultError(
                "TC101",
                f"'{name}' is a temporary of a later statement, so it cannot be an index",
                span,
                "",
                Note("choose another name"),
            )
        self._not_written(name, span)

    def _not_written(self, name: str, span: Span | None) -> NoReturn:
        raise FaultError(
            "TC112",
            f"'{name}' is read before it is written",
            span,
            "",
            near(name, (k for k, v in self.frame.tensors.items() if v.is_written)),
            Note("statements run in the order written"),
        )

    def _let(self, name: str, node: n.Name, at: Context) -> Value:
        let = self.scope.lets[name]
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
        if not at.new_indices:
            raise FaultError(
                "TC204",
                f"a bound depends on the index '{node.name}'",
                node.span,
                "",
                Note("ranges are boxes; write the condition as a guard: cond ? value : 0"),
            )
        dtype = INT64 if at.is_subscript else INT32
        if not at.is_subscript:
            self.wide.append((Size.symbol(index.name, signed=True), node.span))
        return Value(t.IndexValue(index.name, dtype, span=node.span), dtype)

    def _size(self, size: Size, node: n.Expr, at: Context) -> Value:
        dtype = INT64 if at.is_subscript else INT32
        if not at.is_subscript:
            self.wide.append((size, node.span))
        return Value(t.SizeValue(size, dtype, span=node.span), dtype)

    def _bare_tensor(self, tensor: Tensor, node: n.Name, at: Context) -> Value:
        if tensor.is_poisoned:
            raise SilentError
        if tensor.rank not in (0, None):
            raise FaultError(
                "TC108",
                f"'{node.name}' is a tensor of {_dimensions(tensor.rank)}, but no index is given",
                node.span,
                "",
                Note(f"write {node.name}({', '.join('ijklmnpq'[: tensor.rank])})"),
                declared_here(tensor),
            )
        return self._read(tensor, n.Apply(node.name, (), span=node.span), at)

    def _extent(self, node: n.Extent, at: Context) -> Value:
        tensor = self.frame.tensors.get(node.name)
        if tensor is None:
            note = near(node.name, self.frame.tensors)
            raise FaultError("TC102", f"no tensor is called '{node.name}'", node.span, "", note)
        self._readable(tensor, node.name, node.span)
        bounds = tensor.bounds()
        if not -len(bounds) <= node.dim < len(bounds):
            raise FaultError(
                "TC117",
                f"'{node.name}' has {_dimensions(len(bounds))}, so there is no '.{node.dim}'",
                node.span,
                "",
                declared_here(tensor),
            )
        tensor.is_read = True
        low, high = bounds[node.dim]
        return self._size(high - low, node, at)

    # ---- applications

    def _apply(self, node: n.Apply, at: Context) -> Value:
        name, frame = node.name, self.frame
        if name in frame.types:
            frame.used_generics.add(name)
            args = plain_args(node)
            if len(args) != 1:
                raise FaultError("TC106", f"the cast '{name}' takes one value", node.span)
            return self._cast(frame.types[name], args[0], node.span, at)
        if name in frame.tensors:
            return self._read(frame.tensors[name], node, at)
        role = frame.role(name)
        if name in self.scope.lets:
            role = "a name of 'where'"
        elif name in self.scope.indices:
            role = "an index"
        if role is not None:
            raise FaultError(
                "TC107",
                f"'{name}' is {role}, not a tensor",
                node.name_span or node.span,
                "it takes no subscripts",
            )
        if name in self.defs:
            raise FaultError(
                "TC122",
                f"the call of '{name}' is part of an expression",
                node.span,
                "",
                Note(f"a call is a whole right side: give its result a name, x = {name}(...)"),
            )
        if name in NOT_YET:
            raise FaultError(NOT_YET[name], f"'{name}' is not available yet", node.span)
        if name in BUILTINS:
            return self._builtin(BUILTINS[name], node, at)
        self._written_later(name, node.name_span or node.span)
        raise FaultError(
            "TC102",
            f"nothing is called '{name}'",
            node.name_span or node.span,
            "neither a tensor nor a function",
            near(name, (*frame.tensors, *self.defs, *function_names())),
        )

    def _read(self, tensor: Tensor, node: n.Apply, at: Context) -> Value:
        self._readable(tensor, node.name, node.name_span or node.span)
        tensor.is_read = True
        args = plain_args(node)
        if len(args) != tensor.rank:
            raise FaultError(
                "TC103",
                f"{node.name} has {_dimensions(tensor.rank or 0)}, but {_indices(len(args))} "
                f"{'is' if len(args) == 1 else 'are'} given",
                node.span,
                _indices(len(args)),
                declared_here(tensor),
            )
        inner = replace(at, hint=FLOAT32)
        subs = tuple(self.integer(a, inner, f"a subscript of '{node.name}'") for a in args)
        forms = tuple(self.forms.of(s) for s in subs)
        access = Access(tensor, node, subs, forms, at)
        self.accesses.append(access)
        checked = self.judge(access) if self.judge is not None else (False,) * len(subs)
        assert tensor.type is not None
        stored = tensor.stored
        read: t.Expr = t.Read(tensor.name, subs, stored, checked, span=node.span)
        if tensor.host is not None:
            self.forms.know(read, tensor.host)
        return Value(convert(read, computing(stored)), tensor.type)

    def _readable(self, tensor: Tensor, name: str, span: Span | None) -> None:
        if tensor.is_poisoned:
            raise SilentError
        if not tensor.is_written:
            self._not_written(name, span)

    def _builtin(self, function: Function, node: n.Apply, at: Context) -> Value:
        args = plain_args(node)
        if len(args) != function.arity:
            raise FaultError(
                "TC106",
                f"'{function.name}' takes {count(function.arity, 'argument')}, "
                f"but {_given(len(args))}",
                node.span,
            )
        keeps_integers = function.result == "same"
        inner = at if keeps_integers else replace(at, is_subscript=False)
        values = tuple(self.value(a, inner) for a in args)
        if keeps_integers:
            return self._extreme(function.name, values, node, at)
        type_ = meeting_all(values, at.hint)
        literal = all(v.literal or v.is_int_literal for v in values)
        if not type_.is_float:
            type_, literal = at.hint, literal and any(v.literal for v in values)
        if literal and function.result == "float" and any(v.literal for v in values):
            type_ = FLOAT64
        else:
            literal = False
        exprs = tuple(coerce(v, type_) for v in values)
        result = BOOL if function.result == "bool" else computing(type_)
        expr = t.Builtin(function.name, exprs, result, span=node.span)
        return Value(expr, BOOL if function.result == "bool" else type_, literal)

    def _extreme(self, name: str, values: tuple[Value, ...], node: n.Expr, at: Context) -> Value:
        """Type `min`, `max` and the builtins that keep the common type of their arguments."""
        type_ = meeting_all(values, at.hint)
        if type_ == BOOL:
            type_ = INT32
        literal = any(v.literal for v in values) and all(
            v.literal or v.is_int_literal for v in values
        )
        exprs = tuple(coerce(v, type_) for v in values)
        return Value(t.Builtin(name, exprs, computing(type_), span=node.span), type_, literal)

    # ---- operators

    def _cast(self, dtype: DType, operand: n.Expr, span: Span | None, at: Context) -> Value:
        hint = dtype if dtype.is_float else FLOAT32
        direct = dtype == INT64 and isinstance(operand, n.Name | n.Extent)
        inner = replace(
            at, hint=hint, is_subscript=direct or (at.is_subscript and not dtype.is_float)
        )
        value = self.value(operand, inner)
        if value.literal:
            value = Value(coerce(value, dtype if dtype.is_float else FLOAT64), dtype)
        expr = convert(value.expr, dtype, span)
        return Value(convert(expr, computing(dtype), span), dtype)

    def _unary(self, node: n.Unary, at: Context) -> Value:
        value = self.value(node.operand, at)
        if node.op == "!":
            _want_bool(value, node.operand, "the operand of '!'")
            return Value(t.Unary("!", value.expr, BOOL, span=node.span), BOOL)
        type_ = INT32 if value.type == BOOL else value.type
        expr = coerce(value, type_)
        if value.literal and isinstance(expr, t.Lit):
            return Value(t.Lit(-expr.value, FLOAT64, span=node.span), FLOAT64, literal=True)
        return Value(t.Unary("-", expr, computing(type_), span=node.span), type_, value.literal)

    def _binary(self, node: n.Binary, at: Context) -> Value:
        # A sum of ten thousand terms leans to the left: its spine is walked, not recursed into.
        spine: list[n.Binary] = []
        left: n.Expr = node
        while isinstance(left, n.Binary):
            spine.append(left)
            left = left.lhs
        value = self.value(left, at)
        for binary in reversed(spine):
            right_at = at
            if binary.op in ("&&", "||"):
                _want_bool(value, binary.lhs, f"the left of '{binary.op}'")
                facts = self.forms.facts(value.expr, binary.op == "&&")
                right_at = _guarded(at, facts)
            right = self.value(binary.rhs, right_at)
            value = self._operate(binary, value, right, at)
        return value

    def _operate(self, node: n.Binary, lhs: Value, rhs: Value, at: Context) -> Value:
        op = node.op
        if op in ("&&", "||"):
            _want_bool(rhs, node.rhs, f"the right of '{op}'")
            return Value(t.Binary(op, lhs.expr, rhs.expr, BOOL, span=node.span), BOOL)
        type_ = meeting(lhs, rhs, at.hint)
        literal = _both_literal(lhs, rhs)
        if type_ == BOOL:
            type_ = INT32
        a, b = coerce(lhs, type_), coerce(rhs, type_)
        if op in _COMPARISONS:
            return Value(t.Binary(op, a, b, BOOL, span=node.span), BOOL)
        if literal and isinstance(a, t.Lit) and isinstance(b, t.Lit):
            folded = _fold(op, float(a.value), float(b.value))
            if folded is not None:
                return Value(t.Lit(folded, FLOAT64, span=node.span), FLOAT64, literal=True)
        return Value(t.Binary(op, a, b, computing(type_), span=node.span), type_, literal)

    def _ternary(self, node: n.Ternary, at: Context) -> Value:
        cond = self.value(node.cond, replace(at, is_subscript=False, hint=FLOAT32))
        _want_bool(cond, node.cond, "the condition of '?:'")
        arms = []
        for arm, truth in ((node.then, True), (node.other, False)):
            arms.append(self.value(arm, _guarded(at, self.forms.facts(cond.expr, truth))))
        then, other = arms
        type_ = meeting(then, other, at.hint)
        a, b = coerce(then, type_), coerce(other, type_)
        expr = t.Select(cond.expr, a, b, computing(type_), span=node.span)
        return Value(expr, type_, _both_literal(then, other))


def _guarded(at: Context, facts: tuple[Size, ...]) -> Context:
    return replace(at, guarded=True, facts=(at.facts + facts)[-MAX_FACTS:])


# ---- types


def integral(value: Value, node: n.Expr, what: str) -> t.Expr:
    """Return an integer value as int64; a fault if its type is not integral."""
    if value.literal or not value.type.is_integer:
        kind = "a float" if value.literal else str(value.type)
        raise FaultError(
            "TC301",
            f"{what} is not an integer",
            node.span,
            f"this is {kind}",
            Note("write int32(...) to convert it"),
        )
    return convert(value.expr, INT64)


def meeting(a: Value, b: Value, hint: DType) -> DType:
    """Return the type in which two values meet; bool with bool stays bool."""
    if _both_literal(a, b):
        return FLOAT64
    if a.literal or b.literal:
        other = b.type if a.literal else a.type
        return other if other.is_float else hint
    return a.type if a.type == b.type else promote(a.type, b.type)


def meeting_all(values: tuple[Value, ...], hint: DType) -> DType:
    """Return the type in which several values meet."""
    fixed = [v for v in values if not v.literal]
    if not fixed:
        return FLOAT64
    if any(v.literal for v in values) and all(v.is_int_literal for v in fixed):
        return FLOAT64
    type_ = fixed[0].type
    for v in fixed[1:]:
        type_ = type_ if v.type == type_ else promote(type_, v.type)
    return type_ if type_.is_float or len(fixed) == len(values) else hint


def _both_literal(a: Value, b: Value) -> bool:
    return (a.literal and (b.literal or b.is_int_literal)) or (b.literal and a.is_int_literal)


def coerce(value: Value, type_: DType) -> t.Expr:
    """Return the expression of a value as computed in a type of the language."""
    dtype = computing(type_)
    if value.literal and dtype.is_float:
        return retype(value.expr, dtype)
    return convert(value.expr, dtype)


def convert(expr: t.Expr, dtype: DType, span: Span | None = None) -> t.Expr:
    """Return expr as dtype: itself, a literal of that type, or a cast."""
    if expr.dtype == dtype:
        return expr
    if isinstance(expr, t.Lit) and expr.dtype.is_integer:
        value = int(expr.value)
        if dtype == INT64 or (dtype in (FLOAT32, FLOAT64) and abs(value) <= 2**53):
            return t.Lit(float(value) if dtype.is_float else value, dtype, span=expr.span)
    if isinstance(expr, t.IndexValue | t.SizeValue) and dtype == INT64:
        return replace(expr, dtype=INT64)
    return t.Cast(expr, dtype, span=span or expr.span)


def retype(expr: t.Expr, dtype: DType) -> t.Expr:
    """Return a literal-only expression, typed float64 so far, as another float type."""
    if expr.dtype == dtype:
        return expr
    match expr:
        case t.Lit(value):
            return t.Lit(float(value), dtype, span=expr.span)
        case t.Unary(op, operand):
            return t.Unary(op, retype(operand, dtype), dtype, span=expr.span)
        case t.Binary():
            spine: list[t.Binary] = []
            left: t.Expr = expr
            while isinstance(left, t.Binary) and left.dtype == FLOAT64:
                spine.append(left)
                left = left.lhs
            left = retype(left, dtype)
            for binary in reversed(spine):
                right = retype(binary.rhs, dtype)
                left = t.Binary(binary.op, left, right, dtype, span=binary.span)
            return left
        case t.Select(cond, then, other):
            arms = retype(then, dtype), retype(other, dtype)
            return t.Select(cond, *arms, dtype, span=expr.span)
        case t.Builtin(name, args):
            return t.Builtin(name, tuple(retype(a, dtype) for a in args), dtype, span=expr.span)
        case _:
            raise AssertionError(expr)


def _fold(op: str, a: float, b: float) -> float | None:
    """Return a op b in float64 as IEEE has it, None for `%`."""
    match op:
        case "+":
            return a + b
        case "-":
            return a - b
        case "*":
            return a * b
        case "/":
            if b == 0:
                if a == 0 or math.isnan(a):
                    return math.nan
                return math.copysign(math.inf, a) * math.copysign(1.0, b)
            return a / b
        case _:
            return None


def _want_bool(value: Value, node: n.Expr, what: str) -> None:
    if value.type != BOOL or value.literal:
        kind = "a float" if value.literal else str(value.type)
        raise FaultError(
            "TC302",
            f"{what} is not a bool",
            node.span,
            f"this is {kind}",
            Note("compare it, as in x != 0"),
        )


# ---- forms of nodes


def plain_args(node: n.Apply) -> tuple[n.Expr, ...]:
    """Return the arguments where neither `...` nor `NAME=` is possible."""
    args: list[n.Expr] = []
    for arg in node.args:
        match arg:
            case n.Dots():
                raise not_yet_dots(arg.span)
            case n.Keyword(name):
                raise FaultError(
                    "TC125",
                    f"'{name}=' is possible in calls of definitions only",
                    arg.span,
                    "",
                    Note(f"'{node.name}' is not a definition", node.name_span),
                )
            case _:
                args.append(arg)
    return tuple(args)


def not_yet_dots(span: Span | None) -> FaultError:
    """Return the fault of `...`."""
    return FaultError("TC190", "'...' (any rank) is not available yet", span)


def declared_here(tensor: Tensor) -> Note | None:
    """Return the note with the declaration of a tensor."""
    if not tensor.declared:
        place = tensor.first_write or tensor.span
        return Note("first written here", place) if place is not None else None
    return Note(f"declared here as {tensor.declared}", tensor.span)


def count(number: int, noun: str) -> str:
    """Return "1 index", "2 dimensions"."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _dimensions(rank: int | None) -> str:
    return count(rank or 0, "dimension")


def _given(count: int) -> str:
    return f"{count} is given" if count == 1 else f"{count} are given"


def _indices(count: int) -> str:
    return "1 index" if count == 1 else f"{count} indices"
