"""Expressions of the language as scalar loop IR.

Most expressions become one expression. Where a part must run before the rest, and only under a
guard (a checked read inside a branch), it becomes statements in front: `Values.stmts`.

What is read to choose an element is read once a point, and named: checks, guards and the address
all use the name (`const tc_i64 t_0 = tc_once_i64(I + b)`), whoever writes the array meanwhile.
`verify` holds that no address depends on another kind of load. A plain load with a name is not
enough: short of registers, gcc reads the array again in the name's place. So `tc_once_*` is
volatile on the CPU, and `ld.relaxed.cta` on a GPU, which the first level may still serve. What is
read for a condition in a branch is kept before it (`J(I(b)) < N ? A(J(I(b))) : 0`).

Plain are loads of temporaries, which nobody else writes, and of a byte that goes as it is into a
table of 256: it is inside.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import assert_never

from tcdsl.codegen.forms.base.operands import Operands
from tcdsl.codegen.forms.base.scalars import binary, builtin, convert, once, widen
from tcdsl.codegen.loops import build as b
from tcdsl.codegen.loops.loopir import (
    I64,
    TRUTH,
    Assign,
    Expr,
    If,
    Let,
    Load,
    Return,
    Scalar,
    Stmt,
    Un,
    Var,
)
from tcdsl.codegen.program.expressions import operands_of, walk_typed
from tcdsl.codegen.program.numbers import Numbers
from tcdsl.codegen.program.program import Statement
from tcdsl.grammar.types import typed
from tcdsl.grammar.types.dtypes import BOOL, INT32, INT64, UINT64, DType


class Values:
    """Lowers expressions at one point of a nest.

    Parameters
    ----------
    operands
        How memory is reached.
    index
        The value of each index variable, int64.
    local
        What a read of a version in the tile gives, in its computing type; None for a read that
        goes to memory.
    prefix
        Names of variables that have to be introduced start so.
    """

    def __init__(
        self,
        operands: Operands,
        index: Mapping[str, Expr],
        local: Callable[[typed.Read], Expr | None] = lambda _: None,
        prefix: str = "t",
    ) -> None:
        self.operands = operands
        self.index = index
        self.local = local
        self.prefix = prefix
        self.stmts: list[Stmt] = []
        self._introduced = 0
        self._numbers = Numbers()  # by which the next ones know expressions
        self._choosing: set[int] = set()  # whatever chooses elements
        self._once: dict[int, Expr] = {}  # reads and choices of it that every way here came by
        self._maybe: dict[int, Expr] = {}  # and those that only some did
        self._branches = self._conditions = 0  # around what is in the making
        self._declared: list[Stmt] = []  # in a condition's branch, to stand before the condition

    def take(self) -> list[Stmt]:
        """Return the statements that have to stand in front, and forget them."""
        stmts, self.stmts = self.stmts, []
        return stmts

    # ---- addresses

    def subscript(self, e: typed.Expr) -> Expr:
        """Return a subscript: arithmetic of addresses is exact, in int64."""
        self._chooses(e)
        return self._at(e)

    def _at(self, e: typed.Expr) -> Expr:
        match e:
            case typed.IndexValue(name):
                return self.index[name]
            case typed.SizeValue(size):
                return self.operands.size(size)
            case typed.Lit(value) if isinstance(value, int):
                return b.c64(int(value))
            case typed.Unary("-", operand):
                return b.sub(0, self._at(operand))
            case typed.Binary("+", lhs, rhs):
                return b.add(self._at(lhs), self._at(rhs))
            case typed.Binary("-", lhs, rhs):
                return b.sub(self._at(lhs), self._at(rhs))
            case typed.Binary("*", lhs, rhs):
                return b.mul(self._at(lhs), self._at(rhs))
            case typed.Binary("/" | "%" as op, lhs, rhs):
                name = "tc_div_i64" if op == "/" else "tc_mod_i64"
                return b.call(name, self._at(lhs), self._at(rhs), type=I64)
            case typed.Cast(typed.IndexValue() | typed.SizeValue() as operand, dtype) if (
                dtype.is_integer and dtype.bits >= 32
            ):
                return self._at(operand)
            case _:
                return b.cast(self.part(e), I64)

    def place(self, name: str, subs: tuple[typed.Expr, ...], checked: tuple[bool, ...]) -> Expr:
        """Return the stored element of a buffer, after the checks of its subscripts."""
        self._choose(name, subs)
        at = [self._at(s) for s in subs]
        for d, check in enumerate(checked):
            if check:
                at[d] = self.inside(name, d, at[d])
        return self.operands.element(name, at)

    def inside(self, name: str, dim: int, at: Expr) -> Expr:
        """Check a subscript, and return it; outside, the phase ends with a fault."""
        v = self.introduce(at)
        extent = self.operands.extent(name, dim)
        # one comparison: what is negative is large then
        outside = b.compare(">=", b.cast(v, Scalar(UINT64)), b.cast(extent, Scalar(UINT64)))
        position = self.operands.position(name)
        operand = -1 if position is None else position
        fault = b.call("tc_fault", b.ARGS, operand, dim, v, extent, type=Scalar(INT32))
        self.stmts.append(If(outside, Return(fault)))
        return v

    def introduce(self, value: Expr, *, mutable: bool = False) -> Var:
        """Declare a variable with this value in front, and return it."""
        name = self.operands.local(f"{self.prefix}_{self._introduced}")
        v = Var(name, b.type_of(value))
        self._introduced += 1
        self.stmts.append(Let(v, value, mutable))
        return v

    def _choose(self, name: str, subs: tuple[typed.Expr, ...]) -> None:
        """Note what is read for the subscripts of a buffer, where not every value of it will do.

        One byte in a table of 256 is inside whatever it is, so that a loop over it may be vectors.
        """
        for sub, extent in zip(subs, self.operands.buffer(name).shape, strict=True):
            inner = sub.operand if isinstance(sub, typed.Cast) else sub
            if isinstance(inner, typed.Read) and inner.dtype.kind == "uint":
                size = b.value_of(self.operands.size(extent))
                widens = sub.dtype.is_integer and sub.dtype.bits > inner.dtype.bits
                if size is not None and size >> inner.dtype.bits and (widens or sub is inner):
                    continue
            self._chooses(sub)

    def _chooses(self, e: typed.Expr) -> None:
        """Note that an expression, and so all in it, chooses elements."""
        todo = [e]
        while todo:
            x = todo.pop()
            number = self._numbers.of(x)
            if number not in self._choosing:
                self._choosing.add(number)
                todo += operands_of(x)

    # ---- values

    def value(self, e: typed.Expr) -> Expr:
        """Return an expression in its computing type (float32 for halves)."""
        for x in walk_typed(e):
            if isinstance(x, typed.Read) and x.subs:
                self._choose(x.tensor, x.subs)
        return self.part(e)

    def value_of(self, s: Statement) -> Expr:
        """Return the value of a statement.

        Where elements of what it writes choose elements in it, so does all that they are made of:
        `p(i) = A(p(i)) < X(i) ? p(i) + 1 : p(i)`, in a loop.
        """
        home = self.operands.buffer(s.target).home
        if any(self.operands.buffer(n).home == home for n in _choosing_in(s)):
            self._chooses(s.value)
        return self.value(s.value)

    def part(self, e: typed.Expr) -> Expr:
        """Return a part of an expression whose `value` is in the making."""
        dtype = e.dtype.computed
        match e:
            case typed.Lit(value):
                return b.const(value, dtype)
            case typed.IndexValue(name):
                return convert(self.index[name], INT64, dtype)
            case typed.SizeValue(size):
                return convert(self.operands.size(size), INT64, dtype)
            case typed.Read():
                return self.read(e)
            case typed.Unary(op, operand):
                x = self.part(operand)
                return b.not_(x) if op == "!" else Un(op, x, Scalar(dtype))
            case typed.Select() | typed.Binary("&&" | "||"):
                number = self._numbers.of(e)
                if number in self._once:
                    return self._once[number]
                if number not in self._choosing:
                    return self._chosen(e)
                self._once[number] = self._keep(self._chosen(e))
                return self._once[number]
            case typed.Binary(op, lhs, rhs):
                return binary(op, self.part(lhs), self.part(rhs), dtype)
            case typed.Cast(operand, to):
                return convert(self.part(operand), operand.dtype, to)
            case typed.Builtin(name, args):
                return builtin(name, tuple(map(self.part, args)), dtype)
            case _:
                assert_never(e)

    def read(self, e: typed.Read) -> Expr:
        """Return an element, halves widened to float32."""
        if (value := self.local(e)) is not None:
            return value
        if self.operands.is_scalar(e.tensor):
            return self.operands.scalar(e.tensor)
        number = self._numbers.of(e)
        if number in self._once:
            return self._once[number]
        place = self.place(e.tensor, e.subs, e.checked)
        stored = self.operands.memory_dtype(e.tensor)
        # nobody else writes a temporary
        if number in self._choosing and self.operands.position(e.tensor) is not None:
            assert isinstance(place, Load)
            self._once[number] = self._keep(widen(once(place), stored))
            return self._once[number]
        return widen(place, stored)

    def _keep(self, value: Expr) -> Expr:
        """Declare a variable with what was read, so that all see it who may use the same value.

        In a branch of a condition that is before the condition: `c && I(b) < N ? A(I(b)) : 0`.
        """
        if not (self._branches and self._conditions):
            return value if isinstance(value, Var) else self.introduce(value)
        kept, self.stmts = self.stmts, self._declared
        t = b.type_of(value)
        assert isinstance(t, Scalar)
        v = self.introduce(b.const(False if t == TRUTH else 0, t.dtype), mutable=True)
        self.stmts = kept
        self.stmts.append(Assign(v, value))
        return v

    def _chosen(self, e: typed.Select | typed.Binary) -> Expr:
        if isinstance(e, typed.Binary):
            return self.logic(e)
        return self.choose(e.cond, e.then, e.other, e.dtype.computed)

    def choose(
        self, decides: typed.Expr, then: typed.Expr, other: typed.Expr, dtype: DType
    ) -> Expr:
        """Return decides ? then : other, of which only the chosen one is evaluated."""
        cond = self._condition(decides)
        yes, yes_first = self.apart(then, decides, truth=True)
        no, no_first = self.apart(other, decides, truth=False)
        if not yes_first and not no_first:
            return b.select(cond, yes, no)
        zero = b.const(False if dtype == BOOL else 0, dtype)
        out = self.introduce(zero, mutable=True)
        self.stmts.append(
            If(
                cond,
                b.block(yes_first, Assign(out, yes)),
                b.block(no_first, Assign(out, no)),
            )
        )
        return out

    def logic(self, e: typed.Binary) -> Expr:
        """Return a && or ||: the right side only where the left one does not decide."""
        lhs = self._condition(e.lhs)
        rhs, first = self.apart(e.rhs, e.lhs, truth=e.op == "&&")
        if not first:
            return b.all_of(lhs, rhs) if e.op == "&&" else b.any_of(lhs, rhs)
        out = self.introduce(lhs, mutable=True)
        undecided: Expr = out if e.op == "&&" else Un("!", out, TRUTH)
        self.stmts.append(If(undecided, b.block(first, Assign(out, rhs))))
        return out

    def _condition(self, e: typed.Expr) -> Expr:
        self._conditions += 1
        value = self.part(e)
        self._conditions -= 1
        return value

    def apart(self, e: typed.Expr, decides: typed.Expr, *, truth: bool) -> tuple[Expr, list[Stmt]]:
        """Return a value and, apart from what stands in front now, the statements it needs.

        It is evaluated where a condition has that truth, and sees what was read for the condition.
        """
        kept, self.stmts = self.stmts, []
        known, self._once = self._once, dict(self._once)
        for r in _evaluated(decides, truth) if self._maybe else ():
            number = self._numbers.of(r)
            if number in self._maybe:
                self._once.setdefault(number, self._maybe[number])
        before = dict(self._once)
        self._branches += 1
        value = self.part(e)
        self._branches -= 1
        self._maybe |= {r: v for r, v in self._once.items() if r not in before}
        first, self.stmts, self._once = self.stmts, kept, known
        if not self._branches:
            self.stmts += self._declared
            self._declared = []
        return value, first


def _choosing_in(s: Statement) -> set[str]:
    """Return the buffers whose elements stand in subscripts."""
    found: set[str] = set()
    todo = [*s.subscripts()]
    while todo:
        x = todo.pop()
        if isinstance(x, typed.Read):
            found.add(x.tensor)  # what stands in its subscripts is among those of the statement
        else:
            todo += operands_of(x)
    return found


def _is_choice(e: typed.Expr) -> bool:
    """Whether a second evaluation may come to another value: a read, or what may not do one."""
    is_logic = isinstance(e, typed.Binary) and e.op in ("&&", "||")
    return isinstance(e, typed.Read | typed.Select) or is_logic


def _evaluated(cond: typed.Expr, truth: bool) -> Iterator[typed.Expr]:
    """Yield the choices that were made where a condition has that truth."""
    todo: list[tuple[typed.Expr, bool | None]] = [(cond, truth)]  # None: has either
    while todo:
        x, has = todo.pop()
        if _is_choice(x):
            yield x
        match x:
            case typed.Unary("!", operand):
                todo.append((operand, None if has is None else not has))
            case typed.Binary("&&" | "||" as op, lhs, rhs):
                is_both = has is (op == "&&")
                todo += [(rhs, has)] if is_both else []
                todo.append((lhs, has if is_both else None))
            case typed.Select(decides):
                todo.append((decides, None))
            case _:
                todo += [(p, None) for p in reversed(operands_of(x))]
