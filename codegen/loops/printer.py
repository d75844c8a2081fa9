"""Functions of loop nests as the text of a target.

It decides spelling only: types, literals, the fewest parentheses, indentation. What C would do
differently from the typed IR (promote narrow integers to int) is mended here with casts.
"""

from __future__ import annotations

from dataclasses import replace
from typing import assert_never

from tcdsl.codegen.loops import build as b
from tcdsl.codegen.loops.loopir import (
    I64,
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
    Let,
    Load,
    Mask,
    Offset,
    Opaque,
    Pointer,
    Return,
    Scalar,
    Select,
    Serial,
    Simd,
    Stmt,
    Type,
    Un,
    Unroll,
    Var,
    Vector,
)
from tcdsl.codegen.loops.spelling import Lines, in_comment, literal
from tcdsl.codegen.loops.target import Target, short_name

# Binding strength of C's operators: an operand that binds less than its place needs parentheses.
_BINARY = {
    "*": 13, "/": 13, "%": 13, "+": 12, "-": 12, "<<": 11, ">>": 11,
    "<": 10, "<=": 10, ">": 10, ">=": 10, "==": 9, "!=": 9,
    "&": 8, "^": 7, "|": 6, "&&": 5, "||": 4,
}  # fmt: skip
_POSTFIX, _PREFIX, _TERNARY, _ANY = 15, 14, 3, 0

_WRAPS = frozenset({"+", "-", "*", "/", "%", "<<", "&", "|", "^", ">>"})


class Printer:
    """Lines of functions in the making."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self.out = Lines()

    # ---- types

    def type(self, t: Type) -> str:
        """Return the name of a type, ready to be followed by a declarator."""
        match t:
            case Scalar(dtype):
                return self.target.types[dtype.name] + " "
            case Vector(dtype, lanes):
                return f"tc_v{lanes}{short_name(dtype)} "
            case Mask(dtype, lanes):
                return f"tc_m{lanes}{short_name(dtype)} "
            case Pointer(dtype, const, restrict, _):
                text = f"{'const ' if const else ''}{self.target.types[dtype.name]} *"
                return text + (f"{self.target.restrict} " if restrict else "")
            case Opaque(text):
                return text if text.endswith("*") else text + " "
            case _:
                assert_never(t)

    def bare(self, t: Type) -> str:
        """Return the name of a type as a cast has it."""
        return self.type(replace(t, restrict=False) if isinstance(t, Pointer) else t).rstrip()

    # ---- expressions

    def expr(self, e: Expr, place: int = _ANY) -> str:
        """Return e, in parentheses if it binds less than its place asks for."""
        text, strength = self._expr(e)
        return f"({text})" if strength < place else text

    def _expr(self, e: Expr) -> tuple[str, int]:
        match e:
            case Const(value, type):
                return self._const(value, type)
            case Var(name):
                return name, _POSTFIX
            case Bin(type=Scalar(dtype)) if e.op in _WRAPS and dtype.is_integer and dtype.bits < 32:
                return f"({self.bare(e.type)})({self._binary(e)[0]})", _PREFIX
            case Bin():
                return self._binary(e)
            case Un(op, operand):
                # a sign before a sign needs parentheses, or C reads `--`
                text = self.expr(operand, _PREFIX)
                text = f"{op}({text})" if text.startswith(op) else op + text
                if (
                    isinstance(e.type, Scalar)
                    and e.type.dtype.is_integer
                    and e.type.dtype.bits < 32
                ):
                    return f"({self.bare(e.type)})({text})", _PREFIX
                return text, _PREFIX
            case Select(cond, then, other):
                head = self.expr(cond, _TERNARY + 1)
                return f"{head} ? {self.expr(then)} : {self.expr(other, _TERNARY)}", _TERNARY
            case Cast(operand, type):
                return f"({self.bare(type)}){self.expr(operand, _PREFIX)}", _PREFIX
            case Load(pointer, index):
                return f"{self.expr(pointer, _POSTFIX)}[{self.expr(index)}]", _POSTFIX
            case Elem(array, indices):
                return array + "".join(f"[{self.expr(i)}]" for i in indices), _POSTFIX
            case Address(place):
                return f"&{self.expr(place, _PREFIX)}", _PREFIX
            case Offset(pointer, index, type, in_bytes):
                if in_bytes:
                    kind = "const char *" if isinstance(type, Pointer) and type.const else "char *"
                    base = f"({kind}){self.expr(pointer, _PREFIX)}"
                    return f"({self.bare(type)})({base} + {self.expr(index, 13)})", _PREFIX
                return f"{self.expr(pointer, 12)} + {self.expr(index, 13)}", 12
            case Field(base, text):
                return f"{self.expr(base, _POSTFIX)}->{text}", _POSTFIX
            case Call(function, args):
                return f"{function}({', '.join(self.expr(a) for a in args)})", _POSTFIX
            case _:
                assert_never(e)

    def _binary(self, e: Bin) -> tuple[str, int]:
        strength = _BINARY[e.op]
        # int64 literals are spelled without a suffix unless nothing else makes C compute in 64 bits
        alone = isinstance(e.lhs, Const) and (isinstance(e.rhs, Const) or e.op in ("<<", ">>"))
        left, right = (e.lhs, e.rhs) if e.op in ("<<", ">>") else _promoted(e.lhs, e.rhs)
        lhs = self._long(left) if alone else self.expr(left, strength)
        return f"{lhs} {e.op} {self.expr(right, strength + 1)}", strength

    def _long(self, e: Expr) -> str:
        if isinstance(e, Const) and isinstance(e.type, Scalar) and e.type.dtype.name == "int64":
            return f"(tc_i64){self.expr(e, _PREFIX)}"
        return self.expr(e, _PREFIX)

    def _const(self, value: int | float | bool, t: Type) -> tuple[str, int]:
        match t:
            case Scalar(dtype):
                text = literal(value, dtype)
                return text, _PREFIX if text.startswith(("-", "(tc_")) else _POSTFIX
            case Vector(dtype, lanes):
                return f"tc_splat_v{lanes}{short_name(dtype)}({literal(value, dtype)})", _POSTFIX
            case Mask() | Pointer() | Opaque():
                assert value == 0, f"a constant of type {t} can only be 0, not {value}"
                return "0", _POSTFIX
            case _:
                assert_never(t)

    # ---- statements

    def stmt(self, s: Stmt) -> None:
        """Add the lines of a statement."""
        match s:
            case Let(var, value, mutable):
                const = "" if mutable or not isinstance(var.type, Scalar) else "const "
                self.out.add(f"{const}{self.type(var.type)}{var.name} = {self.expr(value)};")
            case Array():
                self._array(s)
            case Assign(place, value, op):
                self.out.add(f"{self.expr(place)} {op} {self.expr(value)};")
            case For():
                self._for(s)
            case If(cond, then, other):
                with self.out.block(f"if ({self.expr(cond)})"):
                    self.stmt(then)
                    if other is not None:
                        self.out.divide("} else {")
                        self.stmt(other)
            case Block(stmts):
                for t in stmts:
                    self.stmt(t)
            case Eval(call):
                self.out.add(f"{self.expr(call)};")
            case Return(value):
                self.out.add("return;" if value is None else f"return {self.expr(value)};")
            case Comment(text):
                self.out.add(f"/* {in_comment(text)} */")
            case _:
                assert_never(s)

    def _array(self, s: Array) -> None:
        dims = "".join(f"[{n}]" for n in s.shape)
        depth = len(s.shape) if isinstance(s.type, Vector) else 0
        init = f" = {'{' * depth}{{0}}{'}' * depth}" if s.zero else ""
        place = self.target.spaces[s.space] + (self.target.align.format(s.align) if s.align else "")
        self.out.add(f"{place}{self.type(s.type)}{s.name}{dims}{init};")

    def _for(self, s: For) -> None:
        var, step = s.var.name, self.expr(s.step)
        match s.mark:
            case Unroll(count):
                self.out.add(self.target.unroll.format(count or _trip_count(s)))
            case Simd(reductions):
                if self.target.simd:
                    clauses = "".join(f" reduction({op}: {name})" for op, name in reductions)
                    self.out.add(self.target.simd + clauses)
            case Serial():
                pass
            case _:
                assert_never(s.mark)
        advance = f"{var}++" if step == "1" else f"{var} += {step}"
        head = f"{self.type(s.var.type)}{var} = {self.expr(s.low)}"
        with self.out.block(f"for ({head}; {var} < {self.expr(s.high, 11)}; {advance})"):
            self.stmt(s.body)

    # ---- functions

    def head(self, f: Function) -> str:
        """Return linkage, result, name and parameters of a function."""
        result = "void " if f.result is None else self.type(f.result)
        params = ", ".join(self.type(p.type) + p.name for p in f.params) or "void"
        if f.linkage == "kernel":
            result += self.target.bounds.format(threads=f.threads, min_blocks=max(1, f.min_blocks))
        linkage = self.target.linkages[f.linkage]
        if f.is_spelled_out:
            linkage += self.target.spelled_out
        return f"{linkage} {result}{f.name}({params})"

    def function(self, f: Function) -> None:
        """Add the lines of a function."""
        if f.linkage == "import":  # who loads the executable gives its address
            self.out.add(self.head(replace(f, name=f"(*{f.name})")) + ";")
            return
        with self.out.block(self.head(f)):
            self.stmt(f.body)


def _promoted(x: Expr, y: Expr) -> tuple[Expr, Expr]:
    """Return operands without a widening cast of one that C does for the other's sake."""
    if isinstance(x, Cast) and _is_widening(x) and _is_long(y) and not _is_widening(y):
        return x.operand, y
    if isinstance(y, Cast) and _is_widening(y) and _is_long(x):
        return x, y.operand
    return x, y


def _is_widening(e: Expr) -> bool:
    return isinstance(e, Cast) and e.type == I64 and e.operand.type == b.INT


def _is_long(e: Expr) -> bool:
    """Whether C has 64 bits for an int64 expression, which it has not for plain literals."""
    match e:
        case Bin("<<" | ">>", x):
            return _is_long(x)
        case Bin(lhs=x, rhs=y) | Select(then=x, other=y):
            return _is_long(x) or _is_long(y)
        case Un(operand=x):
            return _is_long(x)
        case Const():
            return False
        case _:
            return e.type == I64


def _trip_count(s: For) -> int:
    """Return the number of turns of a loop that is to be unrolled wholly."""
    low, high, step = (e.value if isinstance(e, Const) else None for e in (s.low, s.high, s.step))
    assert isinstance(low, int), f"loop {s.var.name} is unrolled wholly but has no known low end"
    assert isinstance(high, int), f"loop {s.var.name} is unrolled wholly but has no known end"
    assert isinstance(step, int), f"loop {s.var.name} is unrolled wholly but has no known step"
    return max(1, -(-(high - low) // step))
