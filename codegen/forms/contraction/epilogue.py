"""From the statements of a group to a contraction and what happens to its sums."""

from __future__ import annotations

from dataclasses import replace
from typing import assert_never

from tcdsl.codegen.forms.base.context import Context
from tcdsl.codegen.forms.base.guarded import behind_conditions, inside
from tcdsl.codegen.forms.base.vexpr import unsupported, width_of
from tcdsl.codegen.forms.contraction.finish import SUM, Finish, FinishAccess, FinishStep, sum_of
from tcdsl.codegen.forms.contraction.problem import ONE, ZERO, Problem, Reach, Side, reach_of
from tcdsl.codegen.forms.contraction.roles import operand_of, problem_of
from tcdsl.codegen.loops import build as b
from tcdsl.codegen.loops.loopir import Var
from tcdsl.codegen.program.affine import affine_of
from tcdsl.codegen.program.expressions import map_operands, map_typed
from tcdsl.codegen.program.program import Statement
from tcdsl.grammar.proofs.signs import substitute_symbols
from tcdsl.grammar.proofs.sizes import Size
from tcdsl.grammar.types import typed
from tcdsl.grammar.types.dtypes import BOOL, FLOAT32, DType


class Unfused(Exception):  # noqa: N818  (not an error: the reason why a form does not apply)
    """A group does not run as one contraction; the text says why."""


def split_group(ctx: Context, side: Side) -> tuple[Problem, Finish]:
    """Return the contraction that a group is, and its epilogue.

    Raises
    ------
    Unfused
        With the reason why the group is not one contraction and pointwise statements after it.
    """
    first, *later = ctx.group.statements
    reach = reach_of(ctx)
    last = later[-1] if later else first
    problem = problem_of(reach, first, last.target, side)
    if problem is None:
        raise Unfused("it is not the sum of a product of two affine accesses with such vectors")
    return problem, finish_of(ctx, reach, problem)


def finish_of(ctx: Context, reach: Reach, problem: Problem) -> Finish:
    """Return what happens to the sums of a contraction, the first statement of the group.

    Raises
    ------
    Unfused
        If a later statement is not pointwise on its result.
    """
    first, *later = ctx.group.statements
    last = later[-1] if later else first
    builder = _Builder(ctx, reach, problem)
    builder.contraction(last)
    for s in later:
        builder.pointwise(s, last)
    return builder.finish()


def _decided(ctx: Context, e: typed.Expr) -> typed.Expr:
    """Return an expression without choices of `size > 0` where the sizes are known.

    They guard factors that stand behind a sum (`program/invariant.py`); lanes have none such.
    """
    match e:
        case typed.Select(typed.Binary(">", typed.SizeValue(size), typed.Lit(0)), then, other):
            by = {name: Size.const(value) for name, value in ctx.spec.sizes or ()}
            extent = substitute_symbols(size, by).constant
            if extent is not None:
                return _decided(ctx, then if extent > 0 else other)
        case typed.Cast():
            return map_operands(e, lambda x: _decided(ctx, x))
    return e


class _Builder:
    """Steps in the making."""

    def __init__(self, ctx: Context, reach: Reach, problem: Problem) -> None:
        self.ctx = ctx
        self.reach = reach
        self.problem = problem
        self.steps: list[FinishStep] = []
        self.reads: dict[typed.Read, FinishAccess] = {}
        self.uniforms: dict[typed.Expr, Var] = {}
        self.known: set[str] = set()
        self.resumes = False
        self.is_vector = True

    # ---- statements

    def contraction(self, last: Statement) -> None:
        """Add the finished sum: times its scale, plus what it is added to."""
        s = self.problem.statement
        total: typed.Expr = sum_of(s.value.dtype)
        for factor in self.problem.scale:
            total = typed.Binary("*", total, self.point(factor, {}), s.value.dtype)
        if s.base is not None and s.op == "+=":
            homes = {self.home(s.base), self.home(s.target), self.home(last.target)}
            # the workspace, where tiles of an output without vectors wait, does not hold the base
            self.resumes = len(homes) == 1 and not self.problem.scale and self.problem.unit
            if not self.resumes:
                base = typed.Read(s.base, s.subs, s.value.dtype)
                total = typed.Binary("+", total, self.point(base, {}), s.value.dtype)
        self.add(s, total, last)

    def pointwise(self, s: Statement, last: Statement) -> None:
        """Add a statement on the same points."""
        if s.reductions or not s.covers:
            raise Unfused(f"'{s.text}' is not pointwise")
        ranges = {r.name: r for r in s.ranges}
        for r in behind_conditions(s.value):
            if not inside(self.ctx, r, ranges):
                raise Unfused(f"only a condition keeps a read of '{r.tensor}' inside")
        rename = renaming(self.problem.statement, s)
        value = self.point(_decided(self.ctx, s.value), rename)
        if s.op != "=" and s.base is not None:
            base = self.point(typed.Read(s.base, s.subs, s.value.dtype), rename)
            value = _combined(s, base, value)
        self.add(s, value, last)

    def add(self, s: Statement, value: typed.Expr, last: Statement) -> None:
        """Add the step of a statement."""
        dtype = s.value.dtype
        store = None
        buffer = self.ctx.program.buffer(s.target)
        if s is not last:
            if buffer.role == "return" and buffer.dtype.is_half:
                raise Unfused(f"'{s.target}' is rounded to {buffer.dtype} before it is read")
            if s.target not in self.ctx.group.local and buffer.home != self.home(last.target):
                subs = self.problem.statement.subs
                store = self.access(f"s{len(self.steps)}", s.target, subs, is_read=False)
                if not store.along:
                    raise Unfused(f"'{s.target}' is not stored along the vectors")
            if store is not None:
                self.is_vector &= self.is_computed_in(store.stored)
        elif not self.is_computed_in(self.ctx.operands.memory_dtype(s.target)):
            # parts of sums wait there too
            raise Unfused(f"'{s.target}' holds {buffer.dtype}, and sums are {self.problem.dtype}")
        # every read of a step lies inside its tensor, guarded or not
        why = unsupported(value, lambda e: not isinstance(e, typed.Read), lambda _: True)
        width = self.problem.dtype.computed.bits
        self.is_vector &= why is None and width_of((value,)) == width
        self.steps.append(FinishStep(typed.Read(s.target, (), dtype), value, store))
        self.known.add(s.target)

    def finish(self) -> Finish:
        """Return what has been gathered."""
        reads = tuple(self.reads.items())
        uniforms = tuple((v, e) for e, v in self.uniforms.items())
        homes = {self.home(a.operand.buffer) for a in self.reads.values()}
        overwrites = self.home(self.problem.c.buffer) in homes
        *before, last = self.steps
        return Finish(
            (*before, self.as_stored(last)),
            reads,
            uniforms,
            self.ctx.operands,
            self.resumes,
            self.is_vector,
            overwrites,
        )

    def as_stored(self, last: FinishStep) -> FinishStep:
        """Return the last step without a rounding to the half that it is stored as anyway."""
        match last.value:
            case typed.Cast(operand=x, dtype=half) if half.is_half and x.dtype.computed == FLOAT32:
                if half == self.ctx.operands.memory_dtype(last.version.tensor):
                    return replace(last, value=x)
        return last

    # ---- expressions

    def is_computed_in(self, stored: DType) -> bool:
        """Whether elements in memory have the type of the sums, so that vectors hold as many."""
        return stored.computed == self.problem.dtype.computed

    def home(self, version: str) -> str:
        return self.ctx.program.buffer(version).home

    def point(self, e: typed.Expr, rename: dict[str, typed.Expr]) -> typed.Expr:
        """Return e on the contraction's indices, its leaves replaced by what the tile knows."""

        def one(x: typed.Expr) -> typed.Expr:
            match x:
                case typed.IndexValue(name):
                    return rename.get(name, x)
                case _:
                    return x

        return self.leaves(map_typed(e, one))

    def leaves(self, e: typed.Expr) -> typed.Expr:
        """Replace reads by what the tile knows, and what is the same everywhere by parameters."""
        match e:
            case typed.Read(tensor=name) if name == SUM or (name in self.known and not e.subs):
                return e
            case typed.Read(tensor=name, subs=subs) if name in self.known:
                if subs != self.problem.statement.subs:
                    raise Unfused(f"'{name}' is read at other points")
                return typed.Read(name, (), e.dtype)
            case typed.Read() if e.subs:
                if e not in self.reads:
                    if any(e.checked):
                        raise Unfused(f"subscripts of '{e.tensor}' are checked")
                    access = self.access(f"e{len(self.reads)}", e.tensor, e.subs)
                    self.is_vector &= not access.along or self.is_computed_in(access.stored)
                    self.reads[e] = access
                return e
            case typed.Read() | typed.SizeValue():
                if e not in self.uniforms:
                    name = f"u{len(self.uniforms)}"
                    self.uniforms[e] = b.var(name, e.dtype.computed)
                return typed.Read(self.uniforms[e].name, (), e.dtype)
            case typed.IndexValue(name):
                raise Unfused(f"the value of '{name}' is used")
            case typed.Lit():
                return e
            case typed.Unary() | typed.Cast():
                return replace(e, operand=self.leaves(e.operand))
            case typed.Binary():
                return replace(e, lhs=self.leaves(e.lhs), rhs=self.leaves(e.rhs))
            case typed.Select():
                parts = (self.leaves(e.cond), self.leaves(e.then), self.leaves(e.other))
                return typed.Select(*parts, e.dtype)
            case typed.Builtin():
                return replace(e, args=tuple(map(self.leaves, e.args)))
            case _:
                assert_never(e)

    def access(
        self, param: str, name: str, subs: tuple[typed.Expr, ...], *, is_read: bool = True
    ) -> FinishAccess:
        """Return how the tile reaches an element that belongs to its points."""
        x = operand_of(self.reach, self.problem.statement, name, subs)
        if x is None:
            raise Unfused(f"a subscript of '{name}' is not affine")
        row, along = x.linear(self.problem.m), x.linear(self.problem.n)
        if row is None or along not in (ZERO, ONE):
            raise Unfused(f"'{name}' does not lie along the vectors")
        stored = self.ctx.operands.memory_dtype(name)
        if stored == BOOL:
            raise Unfused(f"'{name}' has bool elements")
        return FinishAccess(param, x, row != ZERO, along == ONE, stored, is_read)


def renaming(main: Statement, s: Statement) -> dict[str, typed.Expr]:
    """Return the contraction's index for every index of a statement on the same points.

    Raises
    ------
    Unfused
        If it writes other points than the contraction, main.
    """
    if len(s.subs) != len(main.subs):
        raise Unfused(f"'{s.text}' has other points")
    mine = {r.name: r for r in s.ranges}
    out: dict[str, typed.Expr] = {}
    for there, here in zip(main.subs, s.subs, strict=True):
        x, y = affine_of(there), affine_of(here)
        if x is None or y is None or x.plain is None or y.plain is None:
            raise Unfused(f"'{s.text}' is written at shifted subscripts")
        span = next(r for r in main.ranges if r.name == x.plain)
        if (mine[y.plain].low, mine[y.plain].high) != (span.low, span.high):
            raise Unfused(f"'{s.text}' runs over other points")
        out[y.plain] = there
    return out


def _combined(s: Statement, base: typed.Expr, value: typed.Expr) -> typed.Expr:
    """Return base op value."""
    match s.op:
        case "+=":
            return typed.Binary("+", base, value, s.value.dtype)
        case "*=":
            return typed.Binary("*", base, value, s.value.dtype)
        case "min=" | "max=":
            return typed.Builtin(s.op[:3], (base, value), s.value.dtype)
        case _:
            raise Unfused(f"'{s.text}' is not pointwise")
