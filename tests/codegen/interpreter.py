"""Runs loop IR on Python integers: as the IR says (integers wrap), or as C++ has it (they may not).

Strictly, a signed operator of 32 or 64 bits that leaves its type is a failure, and so is a
conversion in a declaration or an assignment that would change the value.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping

from tcdsl.codegen.loops.loopir import (
    Array,
    Assign,
    Bin,
    Block,
    Call,
    Cast,
    Const,
    Elem,
    Expr,
    For,
    Function,
    If,
    Let,
    Load,
    Return,
    Scalar,
    Select,
    Stmt,
    Type,
    Un,
    Var,
)
from tcdsl.codegen.narrow import spans


class Left(Exception):  # noqa: N818  (no error: a return statement)
    """The function has returned."""


class Machine:
    """One thread of a kernel.

    Parameters
    ----------
    values : mapping of str to int
        Parameters; `tc_thread` and `tc_block` too.
    memory : mapping of str to function
        What a load through a pointer gives at an index.
    strict : bool
        Whether overflow is a failure.
    """

    def __init__(
        self,
        values: Mapping[str, int],
        memory: Mapping[str, Callable[[int], int]],
        *,
        strict: bool,
    ) -> None:
        self.values = dict(values)
        self.memory = memory
        self.strict = strict
        self.stored: list[tuple[int, int]] = []

    def run(self, f: Function) -> list[tuple[int, int]]:
        """Return the stores of a kernel: index and value."""
        with contextlib.suppress(Left):
            self.stmt(f.body)
        return self.stored

    def fit(self, value: int, t: Type | None, *, may_change: bool = False) -> int:
        """Return a value as a type has it."""
        assert isinstance(t, Scalar)
        low, high = spans.of_dtype(t.dtype)
        if not low <= value <= high:
            wraps = may_change or not self.strict or t.dtype.bits < 32 or t.dtype.kind != "int"
            assert wraps, f"{value} leaves {t.dtype.name}"
            return (value - low) % (high - low + 1) + low
        return value

    def stmt(self, s: Stmt) -> None:
        match s:
            case Let(var, value):
                self.values[var.name] = self.given(value, var.type)
            case Array(name, _, shape):
                self.values.update({f"{name}[{i}]": 0 for i in range(shape[0])})
            case Assign(place, value, op):
                v = self.given(value, place.type)
                if op != "=":
                    old = self.expr(place)
                    v = self.fit(old + v if op == "+=" else old * v, place.type)
                match place:
                    case Var(name):
                        self.values[name] = v
                    case Elem(name, (i,)):
                        self.values[f"{name}[{self.expr(i)}]"] = v
                    case Load(_, index):
                        self.stored.append((self.expr(index), v))
            case For(var, low, high, body, step):
                at = self.given(low, var.type)
                while at < self.expr(high):
                    self.values[var.name] = at
                    self.stmt(body)
                    at = self.fit(at + self.expr(step), var.type)
            case If(cond, then, other):
                if self.expr(cond):
                    self.stmt(then)
                elif other is not None:
                    self.stmt(other)
            case Block(stmts):
                for t in stmts:
                    self.stmt(t)
            case Return():
                raise Left
            case _:
                raise AssertionError(s)

    def given(self, e: Expr, t: Type | None) -> int:
        """Return what a declaration or an assignment of type t makes of a value."""
        assert not self.strict or e.type == t, f"{e} is no {t}"
        return self.fit(self.expr(e), t)

    def expr(self, e: Expr) -> int:
        match e:
            case Const(value):
                return self.fit(int(value), e.type)
            case Var(name):
                return self.fit(self.values[name], e.type)
            case Elem(name, (i,)):
                return self.values[f"{name}[{self.expr(i)}]"]
            case Load(Var(name), index):
                return self.fit(self.memory[name](self.expr(index)), e.type)
            case Bin("&&", x, y):
                return int(self.expr(x) and self.expr(y))
            case Bin("||", x, y):
                return int(self.expr(x) or self.expr(y))
            case Bin(op, x, y, t):
                if self.strict and op not in ("<<", ">>"):
                    assert x.type == y.type, f"{x} {op} {y}"
                return self.fit(_OPERATORS[op](self.expr(x), self.expr(y)), t)
            case Un("-", x, t):
                return self.fit(-self.expr(x), t)
            case Un("!", x):
                return int(not self.expr(x))
            case Select(cond, x, y):
                assert not self.strict or x.type == y.type == e.type
                return self.expr(x) if self.expr(cond) else self.expr(y)
            case Cast(x, t):
                return self.fit(self.expr(x), t, may_change=True)
            case Call(function, args):
                if not args:
                    return self.values[function]
                _, name, *_ = function.split("_")
                if name == "wrap":
                    name = function.split("_")[2]
                values = [self.fit(self.expr(a), e.type) for a in args]
                return self.fit(_FUNCTIONS[name](*values), e.type, may_change=True)
            case _:
                raise AssertionError(e)


def _over(x: int, y: int) -> int:
    assert x >= 0, "the left side of / and % is not negative"
    assert y > 0, "the right side of / and % is positive"
    return x // y


_OPERATORS: Mapping[str, Callable[[int, int], int]] = {
    "+": int.__add__, "-": int.__sub__, "*": int.__mul__,
    "/": _over, "%": lambda x, y: x - _over(x, y) * y,
    "<": int.__lt__, "<=": int.__le__, ">": int.__gt__, ">=": int.__ge__,
    "==": int.__eq__, "!=": int.__ne__,
    "&": int.__and__, "|": int.__or__, "^": int.__xor__,
    "<<": int.__lshift__, ">>": int.__rshift__,
}  # fmt: skip
_FUNCTIONS: Mapping[str, Callable[..., int]] = {
    "add": int.__add__, "sub": int.__sub__, "mul": int.__mul__, "neg": int.__neg__,
    "div": lambda x, y: x // y if y else 0, "mod": lambda x, y: x % y if y else 0,
    "min": min, "max": max, "abs": abs,
}  # fmt: skip
