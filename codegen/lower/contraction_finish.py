"""What happens to a finished register tile on its way out: the fused epilogue.

Scale factors, the version that the sum is added to and the pointwise statements after the
contraction are evaluated on accumulators, a vector at a time. What they read is reached from the
tile's first element: as vectors along the columns (a bias), as one element per row, or by value.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import assert_never

from tcdsl.codegen import build as b
from tcdsl.codegen.loopir import Assign, Expr, Let, Load, Stmt, Var
from tcdsl.codegen.lower.context import Context
from tcdsl.codegen.lower.contraction_kernel import Tile, accumulator, load_vector, store_vector
from tcdsl.codegen.lower.contraction_problem import (
    ONE,
    ZERO,
    Operand,
    Problem,
    Reach,
    operand_of,
    problem_of,
)
from tcdsl.codegen.lower.expr import Values, narrow, widen
from tcdsl.codegen.lower.operands import Operands, compute_dtype
from tcdsl.codegen.lower.rows_space import strides_of
from tcdsl.codegen.lower.vexpr import Scope, unsupported, walk, width_of
from tcdsl.codegen.program import Statement, affine_of, map_typed
from tcdsl.grammar import typed
from tcdsl.grammar.dtypes import BOOL, DType
from tcdsl.grammar.sizes import Size

SUM = "sum"  # a name no tensor has inside expressions of a finish: the accumulator


@dataclass(frozen=True, slots=True)
class Access:
    """What the tile reads or writes: param is its pointer in the micro-kernel.

    row: its stride along the rows is not zero, then `param_row` holds it. along: it runs along
    the columns with stride one, else it is the same for all columns.
    """

    param: str
    operand: Operand
    row: bool
    along: bool
    stored: DType

    def params(self) -> Iterator[Var]:
        """Yield pointer and row stride as parameters."""
        yield b.pointer(self.param, self.stored, restrict=True)
        if self.row:
            yield b.i64(f"{self.param}_row")

    def at(self, r: Expr) -> Expr:
        """Return the address of row r."""
        p = b.pointer(self.param, self.stored)
        return b.offset(p, b.mul(r, b.i64(f"{self.param}_row"))) if self.row else p


@dataclass(frozen=True, slots=True)
class Step:
    """One value of every point: what is known of it later, and where it is stored."""

    version: typed.Read
    value: typed.Expr
    store: Access | None


@dataclass(frozen=True, slots=True)
class Finish:
    """Steps in order; the last one's value is what the micro-kernel stores at c.

    reads: accesses by the reads they stand for. uniforms: parameters that are the same for all
    points. resumes: the sum is added to what c holds.
    """

    steps: tuple[Step, ...]
    reads: tuple[tuple[typed.Read, Access], ...]
    uniforms: tuple[tuple[Var, typed.Expr], ...]
    operands: Operands
    resumes: bool
    is_vector: bool  # every step has a vector form; else elements are computed one by one
    overwrites: bool  # c may be read by a step: it must not hold partial sums

    @property
    def is_plain(self) -> bool:
        """Whether sums are stored as they are."""
        return len(self.steps) == 1 and self.steps[0].value == _sum(self.steps[0].value.dtype)

    @property
    def accesses(self) -> tuple[Access, ...]:
        """What the tile reaches besides c, in the order of parameters."""
        stores = [s.store for s in self.steps if s.store is not None]
        return (*(a for _, a in self.reads), *stores)

    @property
    def params(self) -> tuple[Var, ...]:
        """The parameters a micro-kernel takes for it."""
        reached = [p for a in self.accesses for p in a.params()]
        return (*reached, *(v for v, _ in self.uniforms))

    def element(self, tile: Tile, r: Expr, x: Var, total: Expr, to: Load, stored: DType) -> Stmt:
        """Return the way of one finished sum into its place, for steps without a vector form."""
        reads = dict(self.reads)
        known: dict[str, Expr] = {SUM: total} | {v.name: v for v, _ in self.uniforms}

        def at(access: Access) -> Load:
            return b.load(access.at(r), x if access.along else 0)

        def local(e: typed.Read) -> Expr:
            if e.tensor in known and not e.subs:
                return known[e.tensor]
            return widen(at(reads[e]), reads[e].stored)

        stmts: list[Stmt] = []
        values = Values(self.operands, {}, local, prefix="p")
        for i, step in enumerate(self.steps):
            dtype = compute_dtype(step.value.dtype)
            value = values.value(step.value)
            var = b.var(f"value{i}", dtype)
            stmts += [*values.take(), Let(var, value)]
            known[step.version.tensor] = var
            if step.store is not None:
                stmts.append(b.assign(at(step.store), narrow(var, step.store.stored)))
        stmts.append(b.assign(to, narrow(var, stored)))
        return b.block(stmts)

    def vector(self, tile: Tile, r: Expr, v: Expr, masked: bool) -> Sequence[Stmt]:
        """Return the change of acc[r][v] in place, and the stores of further versions."""
        reads = dict(self.reads)
        uniforms = {var.name: var for var, _ in self.uniforms}
        columns = b.mul(v, tile.lanes)
        stmts: list[Stmt] = []

        def vector_at(access: Access) -> Expr:
            at = b.offset(access.at(r), columns)
            return load_vector(tile, at, masked=masked, stored=access.stored)

        def local(e: typed.Read) -> Expr | None:
            if e.tensor in uniforms and not e.subs:
                return uniforms[e.tensor]
            access = reads[e]
            return widen(b.load(access.at(r), 0), access.stored)

        def scalar(e: typed.Expr) -> Expr:
            values = Values(self.operands, {}, local)
            out = values.value(e)
            stmts.extend(values.take())
            return out

        def read(e: typed.Read) -> Expr:
            return vector_at(reads[e])

        def index(e: typed.IndexValue) -> Expr:
            raise AssertionError(f"{e.name} has no value in a register tile")

        count = 0

        def fresh(stem: str) -> str:
            nonlocal count
            count += 1
            return f"last_{stem}{count}" if masked else f"{stem}{count}"

        known: dict[typed.Expr, Expr] = {}

        def varies(e: typed.Expr) -> bool:
            return any(
                x in known or (x in reads and reads[x].along)
                for x in walk(e)
                if isinstance(x, typed.Read)
            )

        acc = accumulator(tile, r, v)
        scope = Scope(tile.lanes, tile.dtype.bits, varies, scalar, read, index, fresh, stmts)
        scope.known = known
        known[_sum(self.steps[0].value.dtype)] = acc
        for step in self.steps:
            value = scope.name(scope.vector(step.value))
            known[step.version] = value
            if step.store is not None:
                at = b.offset(step.store.at(r), columns)
                stored = step.store.stored
                stmts.append(store_vector(tile, at, value, masked=masked, stored=stored))
        stmts.append(Assign(acc, value))
        return stmts


def _sum(dtype: DType) -> typed.Read:
    return typed.Read(SUM, (), dtype)


# ---- from statements


class Unfused(Exception):  # noqa: N818  (not an error: the reason why a form does not apply)
    """A group does not run as one contraction; the text says why."""


def split_group(ctx: Context, *, swap: bool = False) -> tuple[Problem, Finish]:
    """Return the contraction that a group is, and its epilogue.

    Raises
    ------
    Unfused
        With the reason why the group is not one contraction and pointwise statements after it.
    """
    first, *later = ctx.group.statements
    exact = {n: Size.const(v) for n, v in ctx.spec.sizes or ()}
    reach = Reach(ctx.program, lambda name: strides_of(ctx.operands, name), exact)
    last = later[-1] if later else first
    problem = problem_of(reach, first, last.target, swap=swap)
    if problem is None:
        raise Unfused("it is not the sum of a product of two affine accesses")
    builder = _Builder(ctx, reach, problem)
    builder.contraction(last)
    for s in later:
        builder.pointwise(s, last)
    return problem, builder.finish()


class _Builder:
    """Steps in the making."""

    def __init__(self, ctx: Context, reach: Reach, problem: Problem) -> None:
        self.ctx = ctx
        self.reach = reach
        self.problem = problem
        self.steps: list[Step] = []
        self.reads: dict[typed.Read, Access] = {}
        self.uniforms: dict[typed.Expr, Var] = {}
        self.known: set[str] = set()
        self.resumes = False
        self.is_vector = True

    # ---- statements

    def contraction(self, last: Statement) -> None:
        """Add the finished sum: times its scale, plus what it is added to."""
        s = self.problem.statement
        total: typed.Expr = _sum(s.value.dtype)
        for factor in self.problem.scale:
            total = typed.Binary("*", total, self.point(factor, {}), s.value.dtype)
        if s.base is not None and s.op == "+=":
            homes = {self.home(s.base), self.home(s.target), self.home(last.target)}
            self.resumes = len(homes) == 1 and not self.problem.scale
            if not self.resumes:
                base = typed.Read(s.base, s.subs, s.value.dtype)
                total = typed.Binary("+", total, self.point(base, {}), s.value.dtype)
        self.add(s, total, last)

    def pointwise(self, s: Statement, last: Statement) -> None:
        """Add a statement on the same points."""
        if s.reductions or not s.covers:
            raise Unfused(f"'{s.text}' is not pointwise")
        rename = self.renaming(s)
        value = self.point(s.value, rename)
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
            if buffer.role == "return" and dtype.is_half:
                raise Unfused(f"'{s.target}' is rounded to {dtype} before it is read")
            if s.target not in self.ctx.group.local and buffer.home != self.home(last.target):
                store = self.access(f"s{len(self.steps)}", s.target, self.problem.statement.subs)
                if not store.along:
                    raise Unfused(f"'{s.target}' is not stored along the vectors")
        # every read of a step lies inside its tensor, guarded or not
        why = unsupported(value, lambda e: not isinstance(e, typed.Read))
        width = compute_dtype(self.problem.dtype).bits
        self.is_vector &= why is None and width_of((value,)) == width
        self.steps.append(Step(typed.Read(s.target, (), dtype), value, store))
        self.known.add(s.target)

    def finish(self) -> Finish:
        """Return what has been gathered."""
        reads = tuple(self.reads.items())
        uniforms = tuple((v, e) for e, v in self.uniforms.items())
        homes = {self.home(a.operand.buffer) for a in self.reads.values()}
        overwrites = self.home(self.problem.c.buffer) in homes
        return Finish(
            tuple(self.steps),
            reads,
            uniforms,
            self.ctx.operands,
            self.resumes,
            self.is_vector,
            overwrites,
        )

    # ---- expressions

    def home(self, version: str) -> str:
        return self.ctx.program.buffer(version).home

    def renaming(self, s: Statement) -> dict[str, typed.Expr]:
        """Return the contraction's index for every index of a statement on the same points."""
        main = self.problem.statement
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
                    self.reads[e] = self.access(f"e{len(self.reads)}", e.tensor, e.subs)
                return e
            case typed.Read() | typed.SizeValue():
                if e not in self.uniforms:
                    name = f"u{len(self.uniforms)}"
                    self.uniforms[e] = b.var(name, compute_dtype(e.dtype))
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

    def access(self, param: str, name: str, subs: tuple[typed.Expr, ...]) -> Access:
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
        return Access(param, x, row != ZERO, along == ONE, stored)


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
