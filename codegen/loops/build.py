"""Short constructors of loop nests that fold integer constants: `add(mul(i, 4), j)`.

Python ints stand for int64 constants wherever an `Expr` is taken beside another one. Only
integers are folded; floats are left as the program has them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from tcdsl.codegen.loops.loopir import (
    I64,
    TRUTH,
    Assign,
    Bin,
    BinaryOp,
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
    Let,
    Load,
    Mark,
    Offset,
    Opaque,
    Pointer,
    Scalar,
    Select,
    Serial,
    Stmt,
    Type,
    Un,
    Var,
    Vector,
)
from tcdsl.grammar.types.dtypes import INT32, DType

IntLike = Expr | int

# ---- the ABI's names

ARGS = Var("args", Opaque("const tc_args *"))
PLAN = Var("plan", Opaque("tc_plan *"))
WORKSPACE = Var("workspace", Opaque("char *"))
BEGIN, END = Var("begin", I64), Var("end", I64)
PHASE_PARAMS = (ARGS, WORKSPACE, BEGIN, END)
PLAN_PARAMS = (ARGS, PLAN)
RANGE = Var("range", Opaque("tc_range *"))
RANGE_PARAMS = (ARGS, RANGE)
INT = Scalar(INT32)  # what phases and plans return


def phase_function(name: str, body: Stmt) -> Function:
    """Return a phase: it runs tasks [begin, end) and gives 0, or 1 after a fault."""
    return Function(name, PHASE_PARAMS, body, "phase", INT)


def plan_function(name: str, body: Stmt) -> Function:
    """Return the plan of a unit."""
    return Function(name, PLAN_PARAMS, body, "plan", INT)


def range_function(name: str, body: Stmt) -> Function:
    """Return what gives the range of a loop over phases."""
    return Function(name, RANGE_PARAMS, body, "range", INT)


def plan_param(index: int) -> Expr:
    """Return `args->plan->param[index]`, as phases read it."""
    return Field(ARGS, f"plan->param[{index}]", I64)


def set_param(index: int, value: IntLike) -> Stmt:
    """Return `plan->param[index] = value`, as the plan writes it."""
    return Assign(Field(PLAN, f"param[{index}]", I64), expr(value))


# ---- leaves


_SMALL = tuple(Const(n, I64) for n in range(1025))  # most extents, steps and bytes


def c64(value: int) -> Const:
    """Return an int64 constant."""
    if type(value) is int and 0 <= value < len(_SMALL):
        return _SMALL[value]
    return Const(value, I64)


def const(value: int | float | bool, dtype: DType) -> Const:
    """Return a scalar constant."""
    return Const(value, Scalar(dtype))


def expr(e: IntLike) -> Expr:
    """Return e, a Python int as an int64 constant."""
    return c64(e) if isinstance(e, int) else e


def i64(name: str) -> Var:
    """Return an int64 variable."""
    return Var(name, I64)


def var(name: str, dtype: DType) -> Var:
    """Return a scalar variable."""
    return Var(name, Scalar(dtype))


def pointer(name: str, dtype: DType, *, const: bool = False, restrict: bool = False) -> Var:
    """Return a pointer variable."""
    return Var(name, Pointer(dtype, const=const, restrict=restrict))


def value_of(e: Expr) -> int | None:
    """Return the value of an integer constant, else None."""
    if type(e) is Const and isinstance(e.value, int) and isinstance(e.type, Scalar):
        return int(e.value)
    return None


def type_of(e: Expr) -> Type:
    """Return the type of an expression that has one."""
    assert e.type is not None, f"{e} has no value"
    return e.type


def _is_wide(e: Expr) -> bool:
    return e.type is I64 or e.type == I64


# ---- arithmetic


def add(*terms: IntLike) -> Expr:
    """Return the sum; int64 constants are gathered at the end, zeros vanish."""
    total, rest = 0, list[Expr]()
    for t in terms:
        if type(t) is Const and _is_wide(t) and isinstance(t.value, int):
            total += t.value
        elif type(t) is Bin and t.op in ("+", "-") and _is_wide(t) and type(t.rhs) is Const:
            v = value_of(t.rhs)
            assert v is not None, f"{t} is no sum of integers"
            total += v if t.op == "+" else -v
            rest.append(t.lhs)
        elif isinstance(t, int):
            total += t
        else:
            rest.append(t)
    if not rest:
        return c64(total)
    out = rest[0]
    for t in rest[1:]:
        out = Bin("+", out, t, _wider(out, t))
    if total < 0:
        return Bin("-", out, c64(-total), I64)
    return Bin("+", out, c64(total), I64) if total else out


def sub(a: IntLike, b: IntLike) -> Expr:
    """Return a - b."""
    a, b = expr(a), expr(b)
    if _is_wide(b) and (v := value_of(b)) is not None:
        return add(a, -v)
    if a == b and _is_wide(a):
        return c64(0)
    return Bin("-", a, b, _wider(a, b))


def mul(*factors: IntLike) -> Expr:
    """Return the product; int64 constants are gathered at the end, ones vanish, zero wins."""
    total, rest = 1, list[Expr]()
    for f in factors:
        if type(f) is Const and _is_wide(f) and isinstance(f.value, int):
            total *= f.value
        elif type(f) is Bin and f.op == "*" and _is_wide(f) and type(f.rhs) is Const:
            v = value_of(f.rhs)
            assert v is not None, f"{f} is no product of integers"
            total *= v
            rest.append(f.lhs)
        elif isinstance(f, int):
            total *= f
        else:
            rest.append(f)
    if not rest or total == 0:
        return c64(total)
    out = rest[0]
    for f in rest[1:]:
        out = Bin("*", out, f, _wider(out, f))
    return Bin("*", out, c64(total), I64) if total != 1 else out


def div(a: IntLike, b: IntLike) -> Expr:
    """Return a / b where both are known to be non-negative and b positive."""
    a, b = expr(a), expr(b)
    x, y = value_of(a), value_of(b)
    if y == 1:
        return a
    if x is not None and y is not None and _is_wide(a):
        return c64(x // y)
    return Bin("/", a, b, _wider(a, b))


def mod(a: IntLike, b: IntLike) -> Expr:
    """Return a % b where both are known to be non-negative and b positive."""
    a, b = expr(a), expr(b)
    x, y = value_of(a), value_of(b)
    if y == 1:
        return c64(0)
    if x is not None and y is not None and _is_wide(a):
        return c64(x % y)
    return Bin("%", a, b, _wider(a, b))


def unravel(flat: Expr, extents: Sequence[IntLike]) -> list[Expr]:
    """Return the indices that a row-major number stands for, the last one running fastest."""
    found: list[Expr] = []
    for k, extent in enumerate(extents):
        at = div(flat, mul(*extents[k + 1 :]))
        found.append(mod(at, extent) if k else at)
    return found


def ceil_div(a: IntLike, b: IntLike) -> Expr:
    """Return ceil(a / b) for a >= 0, b > 0."""
    return div(add(a, sub(b, 1)), b)


def round_up(a: IntLike, unit: IntLike) -> Expr:
    """Return the least multiple of a unit from a on, for a >= 0, unit > 0."""
    return mul(ceil_div(a, unit), unit)


def min64(a: IntLike, b: IntLike) -> Expr:
    """Return the lesser of two int64."""
    a, b = expr(a), expr(b)
    x, y = value_of(a), value_of(b)
    if x is not None and y is not None:
        return c64(min(x, y))
    return a if a == b else Call("tc_min_i64", (a, b), I64)


def max64(a: IntLike, b: IntLike) -> Expr:
    """Return the greater of two int64."""
    a, b = expr(a), expr(b)
    x, y = value_of(a), value_of(b)
    if x is not None and y is not None:
        return c64(max(x, y))
    return a if a == b else Call("tc_max_i64", (a, b), I64)


def arith(op: Literal["+", "-", "*", "/"], a: Expr, b: Expr) -> Expr:
    """Return a op b as it stands: for floats, where nothing may be folded."""
    return Bin(op, a, b, _wider(a, b))


def _wider(a: Expr, b: Expr) -> Type:
    """Return the type of an arithmetic operation: a vector wins over its scalar."""
    return type_of(b) if isinstance(b.type, Vector) else type_of(a)


# ---- truth


def compare(op: Literal["<", "<=", ">", ">=", "==", "!="], a: IntLike, b: IntLike) -> Expr:
    """Return a comparison of scalars."""
    a, b = expr(a), expr(b)
    x, y = value_of(a), value_of(b)
    if x is not None and y is not None:
        table = {"<": x < y, "<=": x <= y, ">": x > y, ">=": x >= y, "==": x == y, "!=": x != y}
        return Const(table[op], TRUTH)
    return Bin(op, a, b, TRUTH)


def all_of(*conds: Expr) -> Expr:
    """Return the conjunction, evaluated left to right; true if there is none."""
    return _logic("&&", True, conds)


def any_of(*conds: Expr) -> Expr:
    """Return the disjunction, evaluated left to right; false if there is none."""
    return _logic("||", False, conds)


def _logic(op: BinaryOp, neutral: bool, conds: Sequence[Expr]) -> Expr:
    out: Expr | None = None
    for c in conds:
        if isinstance(c, Const):
            if bool(c.value) == neutral:
                continue
            return c  # expressions have no effects, so what stands before need not be evaluated
        out = c if out is None else Bin(op, out, c, TRUTH)
    return Const(neutral, TRUTH) if out is None else out


def not_(a: Expr) -> Expr:
    """Return !a."""
    return Const(not a.value, TRUTH) if isinstance(a, Const) else Un("!", a, TRUTH)


def select(cond: Expr, then: Expr, other: Expr) -> Expr:
    """Return cond ? then : other."""
    if isinstance(cond, Const):
        return then if cond.value else other
    return Select(cond, then, other, type_of(then))


# ---- memory


def cast(e: Expr, to: Type) -> Expr:
    """Return e as another type; integer constants wrap into it, the same type stays."""
    if e.type == to:
        return e
    value = value_of(e)
    if value is not None and isinstance(to, Scalar) and to.dtype.is_integer:
        bits = to.dtype.bits
        low = 0 if to.dtype.kind == "uint" else -(1 << (bits - 1))
        return Const((value - low) % (1 << bits) + low, to)
    return Cast(e, to)


def load(p: Expr, index: IntLike) -> Load:
    """Return p[index]."""
    t = p.type
    assert isinstance(t, Pointer), f"{p} is no pointer"
    return Load(p, expr(index), Scalar(t.dtype))


def offset(p: Expr, index: IntLike) -> Expr:
    """Return p + index in elements."""
    i = expr(index)
    return p if value_of(i) == 0 else Offset(p, i, type_of(p))


def call(function: str, *args: IntLike, type: Type | None = None) -> Call:
    """Return function(args); without a type it is for its effect."""
    return Call(function, tuple(map(expr, args)), type)


# ---- statements


def block(*stmts: Stmt | Sequence[Stmt] | None) -> Stmt:
    """Return statements in order: sequences and blocks are laid flat, None is left out."""
    flat: list[Stmt] = []
    for s in stmts:
        match s:
            case None:
                pass
            case Block(inner):
                flat.extend(inner)
            case Let() | Assign() | For() | If() | Eval() | Comment():
                flat.append(s)
            case Sequence():
                for t in s:
                    flat.extend(t.stmts if isinstance(t, Block) else (t,))
            case _:
                flat.append(s)
    return flat[0] if len(flat) == 1 else Block(tuple(flat))


def loop(
    v: Var,
    low: IntLike,
    high: IntLike,
    *body: Stmt | Sequence[Stmt] | None,
    step: IntLike = 1,
    mark: Mark = Serial(),  # noqa: B008  (frozen)
) -> For:
    """Return for (v = low; v < high; v += step) body."""
    return For(v, expr(low), expr(high), block(*body), expr(step), mark)


def when(cond: Expr, *body: Stmt | Sequence[Stmt] | None) -> Stmt:
    """Return if (cond) body; a known condition needs no test."""
    if isinstance(cond, Const):
        return block(*body) if cond.value else Block(())
    return If(cond, block(*body))


def either(cond: Expr, then: Stmt, other: Stmt) -> Stmt:
    """Return if (cond) then else other; a known condition needs no test."""
    if isinstance(cond, Const):
        return then if cond.value else other
    return If(cond, then, other)


def assign(place: Var | Elem | Load | Field, value: IntLike) -> Assign:
    """Return place = value."""
    return Assign(place, expr(value))


def do(function: str, *args: IntLike) -> Eval:
    """Return a call for its effect."""
    return Eval(call(function, *args))
