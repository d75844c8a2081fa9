"""The one printer: a unit of loop nests as the text of a target.

It decides spelling only: types, literals, the fewest parentheses, indentation. What C would do
differently from the typed IR (promote narrow integers to int) is mended here with casts.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import assert_never

from tcdsl.codegen.loops import build as b
from tcdsl.codegen.loops.checked import Kept
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
    Executable,
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
    Table,
    Type,
    Un,
    Unit,
    Unroll,
    Var,
    Vector,
)
from tcdsl.codegen.loops.spelling import Lines, literal
from tcdsl.codegen.loops.target import Target, short_name
from tcdsl.codegen.loops.walk import all_exprs
from tcdsl.grammar.types.builtins import BUILTINS

# Binding strength of C's operators: an operand that binds less than its place needs parentheses.
_BINARY = {
    "*": 13, "/": 13, "%": 13, "+": 12, "-": 12, "<<": 11, ">>": 11,
    "<": 10, "<=": 10, ">": 10, ">=": 10, "==": 9, "!=": 9,
    "&": 8, "^": 7, "|": 6, "&&": 5, "||": 4,
}  # fmt: skip
_POSTFIX, _PREFIX, _TERNARY, _ANY = 15, 14, 3, 0

# Builtins of the language that smath.h has; % of floats in vectors is there too.
_MATHS = frozenset({*BUILTINS, "any"}) - {"fmin", "fmax"}
_MOD_OF_VECTORS = "tc_mod_v"

# What words.h has: vectors read from narrower integers, words, squares of integers.
_WORDS = re.compile(
    r"tc_(loadm?_v\d+i\d+_[iu]\d+|(dot|wide|weave|line|put)m?\d(su|us|bf)?(_|$)|least_|transpose_v\d+i)"
)

# What tiles.h has.
_TILES = re.compile(r"tc_(tiled\d|shape_tiles|drop_tiles|least_rows_)")

# What scans.h has.
_SCANS = re.compile(r"tc_r?scan_")

_WRAPS = frozenset({"+", "-", "*", "/", "%", "<<", "&", "|", "^", ">>"})


class Printed:
    """Functions that were printed for one target, by their identity: text, what each calls."""

    def __init__(self) -> None:
        self._known = Kept[int, tuple[Function, str, frozenset[str]]]()

    def of(self, f: Function, target: Target) -> tuple[str, frozenset[str]]:
        """Return the text of a function and the names of what it calls."""
        found = self._known.get(id(f))
        if found is None:
            printer = _Printer(target)
            printer.function(f)
            found = f, printer.out.text().rstrip("\n"), _called(f)
            self._known.put(id(f), found)
        return found[1:]


def emit(unit: Unit, target: Target, printed: Printed | None = None) -> str:
    """Return the text of a unit; texts of several units may be joined into one file.

    printed : functions that were printed before for this target.
    """
    return _Printer(target).unit(unit, printed or Printed())


def signature(f: Function, target: Target) -> str:
    """Return what stands before the body of a function."""
    return _Printer(target).head(f)


class _Printer:
    """Lines of a unit in the making."""

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
                self.out.add(f"/* {_safe(text)} */")
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

    def unit(self, u: Unit, known: Printed) -> str:
        """Return the whole text."""
        first, *rest = _safe(u.header).splitlines() or [u.name]
        self.out.add(f"/* {first}".rstrip())
        for line in rest:
            self.out.add(f" * {line}".rstrip())
        self.out.add(" */")
        self.out.add(self.target.prelude)
        texts = [known.of(f, self.target) for f in u.functions]
        called = frozenset[str]().union(*(names for _, names in texts))
        if any(map(_is_maths, called)):
            self.out.add(self.target.maths)
        if self.target.words and any(map(_WORDS.match, called)):
            self.out.add(self.target.words)
        if self.target.tiles and any(map(_TILES.match, called)):
            self.out.add(self.target.tiles)
        if self.target.scans and any(map(_SCANS.match, called)):
            self.out.add(self.target.scans)
        late = [t for t in u.tables if any(isinstance(v, str) for v in t.values)]
        for t in u.tables:
            if t not in late:
                self.out.add("")
                self._table(t)
        printed: set[str] = set()
        for f, (text, _) in zip(u.functions, texts, strict=True):
            self.out.add("")
            self.out.add(text)
            printed.add(f.name)
            # a table of functions stands right after the last one it names
            for t in [
                t for t in late if printed.issuperset(v for v in t.values if isinstance(v, str))
            ]:
                self.out.add("")
                self._table(t)
                late.remove(t)
        assert not late, f"tables {[t.name for t in late]} name functions the unit does not have"
        imports = [f.name for f in u.functions if f.linkage == "import"]
        for e in u.executables:
            self.out.add("")
            self._executable(e, imports)
        return self.out.text()

    def head(self, f: Function) -> str:
        """Return linkage, result, name and parameters of a function."""
        result = "void " if f.result is None else self.type(f.result)
        params = ", ".join(self.type(p.type) + p.name for p in f.params) or "void"
        if f.linkage == "kernel":
            result += self.target.bounds.format(threads=f.threads, min_blocks=max(1, f.min_blocks))
        return f"{self.target.linkages[f.linkage]} {result}{f.name}({params})"

    def function(self, f: Function) -> None:
        """Add the lines of a function."""
        if f.linkage == "import":  # who loads the executable gives its address
            self.out.add(self.head(replace(f, name=f"(*{f.name})")) + ";")
            return
        with self.out.block(self.head(f)):
            self.stmt(f.body)

    def _table(self, t: Table) -> None:
        kind = self.type(t.type)
        const = "" if kind.startswith("const ") else "const "
        values = ", ".join(map(str, t.values))
        head = f"{self.target.table} {const}{kind}{t.name}"
        self.out.add(f"{head}[{len(t.values)}] = {{{values}}};")

    def _executable(self, e: Executable, imports: Sequence[str]) -> None:
        phases = ", ".join(e.phases) or "0"
        slots = f"tc_imports_{e.name}"
        if imports:
            listed = ", ".join(f'{{"{name}", &{name}}}' for name in imports)
            self.out.add(f"static const tc_import {slots}[] = {{{listed}}};")
        self.out.add(f"{self.target.export} const tc_executable tc_exe_{e.name} = {{")
        loops = ", ".join(f"{{{x.first}, {x.last}, {x.range}}}" for x in e.loops)
        tail = f", {len(e.loops)}, {{{loops}}}" if e.loops else ""
        tail += f", .imports = {len(imports)}, .import = {slots}" if imports else ""
        self.out.add(f"  TC_ABI, {len(e.phases)}, {e.plan}, {{{phases}}}{tail}")
        self.out.add("};")


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


def _is_maths(name: str) -> bool:
    """Whether a function is a builtin that the prelude does not have."""
    if name.startswith(_MOD_OF_VECTORS):
        return True
    return name.startswith("tc_") and name.split("_", 1)[1].rsplit("_", 1)[0] in _MATHS


def _called(f: Function) -> frozenset[str]:
    """Return the names of all functions that a function calls."""
    return frozenset(e.function for e in all_exprs(f.body) if isinstance(e, Call))


def _trip_count(s: For) -> int:
    """Return the number of turns of a loop that is to be unrolled wholly."""
    low, high, step = (e.value if isinstance(e, Const) else None for e in (s.low, s.high, s.step))
    assert isinstance(low, int), f"loop {s.var.name} is unrolled wholly but has no known low end"
    assert isinstance(high, int), f"loop {s.var.name} is unrolled wholly but has no known end"
    assert isinstance(step, int), f"loop {s.var.name} is unrolled wholly but has no known step"
    return max(1, -(-(high - low) // step))


def _safe(text: str) -> str:
    """Return text that cannot end or open a comment."""
    return text.replace("*/", "* /").replace("/*", "/ *")
