"""The laws of loop nests. A unit that breaks one is our own mistake: `InternalError`.

Names are bound once on every path and before they are used; operands of one operator have one
type; nothing is stored through a pointer to const; what is assigned may be assigned; indices of
local arrays are inside them where loops have constant ends; phases and plans have the ABI's
signature; executables name them. Kernels give no result; launches hand them what they take.
On a CPU no condition of an access is known to the C compiler (`opaque.py`). Addresses that depend
on data: see `verify_data.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace
from typing import NoReturn, assert_never

from tcdsl.codegen.loops import build as b
from tcdsl.codegen.loops.checked import Checked
from tcdsl.codegen.loops.loopir import (
    I64,
    TRUTH,
    Address,
    Array,
    Assign,
    Bin,
    Block,
    Call,
    Cast,
    Comment,
    Const,
    Elem,
    Eval,
    Expr,
    Field,
    For,
    Function,
    If,
    Launch,
    Let,
    Load,
    Offset,
    Pointer,
    Return,
    Scalar,
    Select,
    Simd,
    Stmt,
    Type,
    Un,
    Unit,
    Unroll,
    Var,
    Vector,
)
from tcdsl.codegen.loops.opaque import exposed
from tcdsl.codegen.loops.verify_data import verify_addresses
from tcdsl.codegen.loops.walk import walk_expr
from tcdsl.grammar.text.dataclass import dataclass
from tcdsl.grammar.text.errors import InternalError

Interval = tuple[int, int]  # least and greatest value

_COMPARES = frozenset({"<", "<=", ">", ">=", "==", "!="})
_LOGIC = frozenset({"&&", "||"})


@dataclass(frozen=True, slots=True)
class _Name:
    """What a name in scope is."""

    type: Type
    mutable: bool = False
    shape: tuple[int, ...] | None = None
    span: Interval | None = None


@dataclass(slots=True)
class _Scope:
    """Names that are visible; copied at each block, so that siblings may use a name again."""

    names: dict[str, _Name] = field(default_factory=dict)

    def inner(self) -> _Scope:
        return _Scope(dict(self.names))


def verify(unit: Unit, checked: Checked | None = None) -> None:
    """Check the laws, but of functions that were found right before.

    Raises
    ------
    InternalError
        If one is broken; the message names the function and the place.
    """
    functions: dict[str, Function] = {}
    tables = {t.name: _Name(t.type, shape=(len(t.values),)) for t in unit.tables}
    right: set[int] = set()  # by identity
    for f in unit.functions:
        if f.name in functions or f.name in tables:
            raise InternalError(f"{unit.name}: '{f.name}' is defined twice")
        functions[f.name] = f
        if checked is not None and checked.holds(f, functions, tables):
            right.add(id(f))
        else:
            _Checker(f, functions, tables).check()
    for t in unit.tables:
        for v in t.values:
            if isinstance(v, str) and v not in functions:
                raise InternalError(f"{unit.name}: table {t.name} names '{v}', which is missing")
    for e in unit.executables:
        ranges = ((x.range, "range") for x in e.loops)
        for name, linkage in ((e.plan, "plan"), *((p, "phase") for p in e.phases), *ranges):
            if name not in functions or functions[name].linkage != linkage:
                raise InternalError(f"{unit.name}: executable {e.name} has no {linkage} '{name}'")
    for x in unit.launches:
        _check_launch(unit, x, functions)
    if unit.executables:
        for f in unit.functions:
            if id(f) not in right and (names := exposed(f)):
                by = ", ".join(sorted(names))
                raise InternalError(f"{f.name}: what a C compiler knows of {by} decides an access")
    verify_addresses(unit, checked)
    if checked is not None and unit.executables:
        so_far: dict[str, Function] = {}
        for f in unit.functions:
            so_far[f.name] = f
            checked.note(f, so_far, tables)


def _check_launch(unit: Unit, x: Launch, functions: Mapping[str, Function]) -> None:
    kernel = functions.get(x.function)
    if kernel is None or kernel.linkage != "kernel":
        raise InternalError(f"{unit.name}: launches '{x.function}', which is no kernel")
    if kernel.threads != x.threads or not 1 <= x.threads <= 1024:
        raise InternalError(f"{unit.name}: '{x.function}' is launched with {x.threads} threads")
    if len(kernel.params) != len(x.arguments):
        raise InternalError(f"{unit.name}: '{x.function}' takes {len(kernel.params)} arguments")
    for a in x.arguments:
        if a.kind == "workspace" and a.index >= len(unit.workspace):
            raise InternalError(
                f"{unit.name}: '{x.function}' gets block {a.index} of the workspace"
            )


class _Checker:
    """One function being checked."""

    def __init__(
        self, f: Function, functions: Mapping[str, Function], tables: Mapping[str, _Name]
    ) -> None:
        self.f = f
        self.functions = functions
        self.tables = tables

    def fail(self, message: str) -> NoReturn:
        raise InternalError(f"{self.f.name}: {message}")

    def check(self) -> None:
        f = self.f
        if f.linkage == "phase" and (f.params, f.result) != (b.PHASE_PARAMS, b.INT):
            self.fail("a phase has the ABI's signature")
        if f.linkage == "range" and (f.params, f.result) != (b.RANGE_PARAMS, b.INT):
            self.fail("the range of a loop has the ABI's signature")
        if f.linkage == "import" and f.body != Block(()):
            self.fail("what another unit has is only declared")
        if f.linkage == "kernel" and f.result is not None:
            self.fail("a kernel gives no result")
        if f.linkage == "plan" and (f.params, f.result) != (b.PLAN_PARAMS, b.INT):
            self.fail("a plan has the ABI's signature")
        scope = _Scope(dict(self.tables))
        for p in f.params:
            self.bind(scope, p.name, _Name(p.type, mutable=True))
        self.stmt(f.body, scope)

    def bind(self, scope: _Scope, name: str, what: _Name) -> None:
        if name in scope.names:
            self.fail(f"'{name}' is bound twice")
        scope.names[name] = what

    # ---- statements

    def stmt(self, s: Stmt, scope: _Scope) -> None:
        match s:
            case Let(var, value, mutable):
                self.same(var.type, self.expr(value, scope), f"'{var.name}' and its value")
                span = None if mutable else _interval(value, scope)
                self.bind(scope, var.name, _Name(var.type, mutable, span=span))
            case Array(name, type, shape):
                if not all(n > 0 for n in shape):
                    self.fail(f"array '{name}' has shape {shape}")
                self.bind(scope, name, _Name(type, shape=shape))
            case Assign(place, value, _):
                self.place(place, scope)
                self.same(place.type, self.expr(value, scope), "a place and its new value")
            case For():
                self.loop(s, scope)
            case If(cond, then, other):
                self.same(TRUTH, self.expr(cond, scope), "a condition")
                inside = scope.inner()
                _narrow(inside, cond)
                self.stmt(then, inside)
                if other is not None:
                    self.stmt(other, scope.inner())
            case Block(stmts):
                for t in stmts:
                    self.stmt(t, scope)
            case Eval(call):
                self.expr(call, scope)
            case Return(value):
                if (value is None) != (self.f.result is None):
                    self.fail("returns a value exactly if it has a result")
                if value is not None and self.f.result is not None:
                    self.same(self.f.result, self.expr(value, scope), "the result")
            case Comment():
                pass
            case _:
                assert_never(s)

    def loop(self, s: For, scope: _Scope) -> None:
        for e in (s.low, s.high, s.step):
            self.same(s.var.type, self.expr(e, scope), f"loop '{s.var.name}' and its ends")
        step = b.value_of(s.step)
        if step is not None and step <= 0:
            self.fail(f"loop '{s.var.name}' has step {step}")
        low, high = _interval(s.low, scope), _interval(s.high, scope)
        if s.mark == Unroll(0) and (b.value_of(s.low) is None or b.value_of(s.high) is None):
            self.fail(f"loop '{s.var.name}' is unrolled wholly but has no constant ends")
        inside = scope.inner()
        span = (low[0], high[1] - 1) if low and high and low[0] < high[1] else None
        self.bind(inside, s.var.name, _Name(s.var.type, span=span))
        if isinstance(s.mark, Simd):
            for _, name in s.mark.reductions:
                if name not in scope.names or not scope.names[name].mutable:
                    self.fail(f"simd loop '{s.var.name}' reduces '{name}', which is no variable")
        self.stmt(s.body, inside)

    def place(self, p: Var | Elem | Load | Field, scope: _Scope) -> None:
        self.expr(p, scope)
        match p:
            case Var(name):
                if not scope.names[name].mutable:
                    self.fail(f"'{name}' is assigned but not mutable")
            case Load(pointer):
                if isinstance(pointer.type, Pointer) and pointer.type.const:
                    names = [x.name for x in walk_expr(pointer) if isinstance(x, Var)]
                    self.fail(f"stores to input {', '.join(names)}")
            case Field(Var(name)):
                if name not in (b.PLAN.name, b.RANGE.name):
                    self.fail(f"stores to a field of '{name}'")
            case Elem() | Field():
                pass
            case _:
                assert_never(p)

    # ---- expressions

    def expr(self, e: Expr, scope: _Scope) -> Type:
        """Check e and return its type (that of a call without one: int of the ABI)."""
        match e:
            case Const(_, type):
                return type
            case Var(name, type):
                if name not in scope.names:
                    self.fail(f"'{name}' is used before it is bound")
                self.same(scope.names[name].type, type, f"'{name}' and its declaration")
                return type
            case Bin():
                return self.binary(e, scope)
            case Un(op, operand, type):
                self.same(type, self.expr(operand, scope), f"the operand of {op}")
                return type
            case Select(cond, then, other, type):
                self.same(TRUTH, self.expr(cond, scope), "a condition")
                self.same(type, self.expr(then, scope), "a choice")
                self.same(type, self.expr(other, scope), "a choice")
                return type
            case Cast(operand, type):
                self.expr(operand, scope)
                return type
            case Load(pointer, index, type):
                at = self.expr(pointer, scope)
                self.integer(index, scope)
                if not isinstance(at, Pointer):
                    self.fail(f"loads through {at}, no pointer")
                self.same(Scalar(at.dtype), type, "a pointer and its element")
                return type
            case Offset(pointer, index, type):
                self.same(type, self.expr(pointer, scope), "a pointer and its offset")
                self.integer(index, scope)
                return type
            case Elem(array, indices, type):
                self.element(array, indices, type, scope)
                return type
            case Address(place, type):
                self.same(Scalar(type.dtype), self.expr(place, scope), "an element and its address")
                return type
            case Field(base, _, type):
                self.expr(base, scope)
                return type
            case Call():
                return self.call(e, scope)
            case _:
                assert_never(e)

    def binary(self, e: Bin, scope: _Scope) -> Type:
        lhs, rhs = self.expr(e.lhs, scope), self.expr(e.rhs, scope)
        if e.op in _LOGIC:
            self.same(TRUTH, lhs, f"the left side of {e.op}")
            self.same(TRUTH, rhs, f"the right side of {e.op}")
            return TRUTH
        wide = next((t for t in (lhs, rhs) if isinstance(t, Vector)), None)
        if wide is not None:
            for t in (lhs, rhs):
                if t not in (wide, Scalar(wide.dtype)):
                    self.fail(f"{e.op} of {lhs} and {rhs}")
        elif e.op not in ("<<", ">>"):
            self.same(lhs, rhs, f"both sides of {e.op}")
        if e.op in _COMPARES:
            if wide is None:
                self.same(TRUTH, e.type, f"the result of {e.op}")
        else:
            self.same(wide or lhs, e.type, f"the result of {e.op}")
        return e.type

    def call(self, e: Call, scope: _Scope) -> Type:
        types = [self.expr(a, scope) for a in e.args]
        callee = self.functions.get(e.function)
        if callee is None:
            if not e.function.startswith("tc_") and e.function not in scope.names:
                self.fail(
                    f"calls '{e.function}', which is neither the prelude's nor defined before"
                )
        else:
            if len(types) != len(callee.params):
                self.fail(f"calls '{e.function}' with {len(types)} arguments")
            for p, t in zip(callee.params, types, strict=True):
                self.same(p.type, t, f"argument '{p.name}' of '{e.function}'")
        return b.INT if e.type is None else e.type

    def element(self, array: str, indices: tuple[Expr, ...], type: Type, scope: _Scope) -> None:
        what = scope.names.get(array)
        if what is None or what.shape is None:
            self.fail(f"'{array}' is not an array in scope")
        self.same(what.type, type, f"an element of '{array}'")
        if len(indices) != len(what.shape):
            self.fail(f"'{array}' has {len(what.shape)} dimensions, not {len(indices)}")
        for index, extent in zip(indices, what.shape, strict=True):
            self.integer(index, scope)
            span = _interval(index, scope)
            if span is not None and not (span[0] >= 0 and span[1] < extent):
                self.fail(f"index {span[0]}..{span[1]} of '{array}' is outside [0, {extent})")

    def integer(self, e: Expr, scope: _Scope) -> None:
        t = self.expr(e, scope)
        if not (isinstance(t, Scalar) and t.dtype.is_integer):
            self.fail(f"an index is {t}")

    def same(self, expected: Type, got: Type, what: str) -> None:
        if expected != got and _plain(expected) != _plain(got):
            self.fail(f"{what}: {expected} and {got}")


def _plain(t: Type) -> Type:
    """Return a type without what does not keep values apart: restrict, const."""
    if isinstance(t, Pointer):
        return replace(t, const=False, restrict=False)
    return t


def _narrow(scope: _Scope, cond: Expr) -> None:
    """Have a scope know what a condition that holds says of its names: `i < 8`."""
    match cond:
        case Bin("&&", lhs, rhs):
            _narrow(scope, lhs)
            _narrow(scope, rhs)
        case Bin("<" | "<=" | ">" | ">=" as op, Var(name), Const(value)):
            known = scope.names.get(name)
            if known is None or known.span is None:
                return
            low, high = known.span
            if op in ("<", "<="):
                high = min(high, int(value) - (op == "<"))
            else:
                low = max(low, int(value) + (op == ">"))
            span = (low, high) if low <= high else None  # nothing gets there
            scope.names[name] = replace(known, span=span)


def _interval(e: Expr, scope: _Scope) -> Interval | None:
    """Return bounds of an int64 expression over loops with constant ends, or None."""
    match e:
        case Const(value, type) if type == I64:
            return int(value), int(value)
        case Var(name):
            return scope.names[name].span if name in scope.names else None
        case Bin("+" | "-" | "*" as op, lhs, rhs):
            x, y = _interval(lhs, scope), _interval(rhs, scope)
            if x is None or y is None:
                return None
            if op == "+":
                return x[0] + y[0], x[1] + y[1]
            if op == "-":
                return x[0] - y[1], x[1] - y[0]
            ends = [i * j for i in x for j in y]
            return min(ends), max(ends)
        case _:
            return None
