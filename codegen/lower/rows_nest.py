"""The nest of one row: sweeps over its points, folds, and what is computed between them.

With lanes > 1 the innermost loop runs in explicit vectors with a masked tail, folds are kept in
several vectors; with lanes == 1 it is scalar text under `omp simd`. A row of a few vectors of
known length is not looped over at all: its values stay in registers from sweep to sweep.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from tcdsl.codegen import build as b
from tcdsl.codegen.loopir import (
    TRUTH,
    Assign,
    Bin,
    Call,
    Cast,
    Const,
    Expr,
    Let,
    Mask,
    Offset,
    Pointer,
    Scalar,
    Simd,
    Stmt,
    Var,
    Vector,
)
from tcdsl.codegen.lower import vexpr
from tcdsl.codegen.lower.context import Context
from tcdsl.codegen.lower.expr import Values, combine, identity, narrow, widen
from tcdsl.codegen.lower.operands import compute_dtype, fresh, safe_name
from tcdsl.codegen.lower.rows_access import ONE, ZERO, Linear, Loop
from tcdsl.codegen.lower.rows_align import Step
from tcdsl.codegen.lower.rows_space import Access, Space, combines, size_expr
from tcdsl.codegen.target import short_name
from tcdsl.grammar import typed
from tcdsl.grammar.dtypes import BOOL, INT32, DType
from tcdsl.grammar.sizes import Size

BLOCK = 4096  # elements whose sum is formed before it is added to the others: rounding
HELD_VECTORS = 8  # longest row that stays in registers


@dataclass(frozen=True, slots=True)
class Form:
    """How a row is walked: lanes of a vector (1: scalar text), their bits, vectors a turn."""

    lanes: int
    bits: int
    unroll: int


@dataclass
class _Fold:
    """A fold in the making: accumulators of one block, and their total over blocks."""

    step: Step
    dtype: DType  # in which it is computed
    accumulators: list[Var]
    total: Var | None
    unordered: Var | None = None  # scalar min and max of floats: whether a NaN was met

    @property
    def op(self) -> str:
        return self.step.statement.op.rstrip("!")[:-1]


@dataclass
class Point:
    """lanes points of a sweep: counters, the tail's mask, values computed there."""

    counters: Mapping[str, Expr]
    mask: Var | None = None
    count: Expr | None = None
    local: dict[Access, Expr] = field(default_factory=dict)


class RowNest:
    """Builds the statements of a row.

    Parameters
    ----------
    ctx, space
        The group and its loops.
    form
        How rows are walked.
    """

    def __init__(self, ctx: Context, space: Space, form: Form) -> None:
        self.ctx = ctx
        self.space = space
        self.form = form
        self.operands = ctx.operands
        self.row: list[Stmt] = []  # of the row in the making, so far
        self.index: dict[str, Expr] = {}  # values of index variables
        self.kept: dict[str, Expr] = {}  # counters of the loops over rows
        self.values: dict[str, Expr] = {}  # scalars of this row by buffer
        self.hoisted: dict[typed.Expr, Expr] = {}
        self.pointers: dict[tuple[str, Linear], Var] = {}
        self.held: dict[int, tuple[Point, vexpr.Scope]] = {}
        self.whole = True  # rows are walked from end to end
        self.taken = set(ctx.operands.taken)
        self.lows = {d.name: size_expr(ctx.operands, d.low) for d in space.aligned.dims}

    def fresh(self, stem: str) -> str:
        """Return an unused name that starts with stem."""
        n = 0
        while f"{stem}{n}" in self.taken:
            n += 1
        self.taken.add(f"{stem}{n}")
        return f"{stem}{n}"

    def size(self, size: Size) -> Expr:
        """Return a size as an expression."""
        return size_expr(self.operands, size)

    def counter(self, loop: Loop) -> Var:
        """Return the variable of a loop."""
        return b.i64(safe_name(loop.name))

    # ---- memory

    def arena_offsets(self) -> tuple[dict[str, Expr], Expr]:
        """Return where locals that outlive their sweep lie in the workspace, and its bytes."""
        at: Expr = b.c64(0)
        offsets: dict[str, Expr] = {}
        for name, elements in self.space.arena.items():
            offsets[name] = at
            size = compute_dtype(self.operands.buffer(name).dtype).size_bytes
            rounded = b.div(b.add(b.mul(self.size(elements), size), 63), 64)
            at = b.add(at, b.mul(rounded, 64))
        return offsets, at

    def arena_pointers(self) -> list[Stmt]:
        """Return the declarations of pointers to them."""
        offsets, _ = self.arena_offsets()
        out: list[Stmt] = []
        for name, at in offsets.items():
            p = self.base(name)
            out.append(Let(p, Cast(b.offset(b.WORKSPACE, at), p.type)))
        return out

    def base(self, name: str) -> Var:
        """Return the pointer to a buffer's element 0."""
        if name in self.space.arena:
            stem = fresh("row_" + name.replace(".", "_"), self.operands.taken)
            return b.pointer(stem, self.stored(name))
        return self.operands.pointer(name)

    def stored(self, name: str) -> DType:
        """Return the type of a buffer's elements in memory."""
        if name in self.space.arena:
            return compute_dtype(self.operands.buffer(name).dtype)
        return self.operands.memory_dtype(name)

    def in_memory(self, name: str) -> bool:
        """Whether somebody reads a buffer's elements from memory."""
        return name in self.space.arena or name not in self.ctx.group.local

    def address(self, access: Access, counters: Mapping[str, Expr]) -> tuple[Var, Expr]:
        """Return the row's pointer of an access and the position behind it."""
        form = self.space.linear[access]
        rest = form.without(tuple(self.kept))
        fixed = replace(form, terms=tuple(t for t in form.terms if t[0] in self.kept))
        key = (access[0], fixed)
        if key not in self.pointers:
            base = self.base(access[0])
            terms = [b.mul(self.kept[n], self.size(step)) for n, step in fixed.terms]
            at = b.add(*terms, self.size(fixed.const))
            if b.value_of(at) == 0:
                self.pointers[key] = base
            else:
                assert isinstance(base.type, Pointer)
                kind = replace(base.type, restrict=False)
                p = Var(self.fresh(f"{base.name}_row"), kind)
                self.row.append(Let(p, Offset(base, at, kind)))
                self.pointers[key] = p
        index = b.add(*(b.mul(counters[n], self.size(step)) for n, step in rest.terms))
        return self.pointers[key], index

    def element(self, access: Access, counters: Mapping[str, Expr]) -> Expr:
        """Return an element in its computing type."""
        pointer, index = self.address(access, counters)
        return widen(b.load(pointer, index), self.stored(access[0]))

    def store(self, access: Access, counters: Mapping[str, Expr], value: Expr) -> Stmt:
        """Return the store of a computed scalar."""
        pointer, index = self.address(access, counters)
        return Assign(b.load(pointer, index), narrow(value, self.stored(access[0])))

    # ---- a row

    def build(self, counters: Mapping[str, Expr], span: tuple[Expr, Expr] | None) -> list[Stmt]:
        """Return the statements of the row at these counters.

        span: the part [low, high) of each sweep's outermost loop to walk; None for all of it.
        """
        self.enter(counters)
        self.whole = span is None
        for n in range(len(self.space.sweeps)):
            self.sweep(n, span)
        for step in self.space.aligned.after:
            self.scalar_step(step)
        return self.row

    def enter(self, counters: Mapping[str, Expr]) -> None:
        """Fix the counters of the loops over rows."""
        self.kept = dict(counters)
        self.index = self.lows | {n: b.add(c, self.lows[n]) for n, c in counters.items()}

    def scalar_step(self, step: Step) -> None:
        """Compute a statement that has one value a row."""
        s = step.statement
        value = self.scalar(s.value, {}, self.row)
        self.finish(step, value)

    def finish(self, step: Step, value: Expr) -> None:
        """Name a value of the row and store it where somebody else reads it."""
        s = step.statement
        access = (s.target, s.subs)
        if combines(s) and s.base is not None:
            held = self.values.get(s.base)
            before = held if held is not None else self.element((s.base, s.subs), {})
            value = combine(s.op, before, value)
        if not isinstance(value, Var | Const):
            name = fresh(s.target.replace(".", "_") + "_value", self.taken)
            self.taken.add(name)
            var = Var(name, b.type_of(value))
            self.row.append(Let(var, value))
            value = var
        self.values[s.target] = value
        if self.in_memory(s.target):
            self.row.append(self.store(access, {}, value))

    def scalar(
        self,
        e: typed.Expr,
        counters: Mapping[str, Expr],
        out: list[Stmt],
        local: Mapping[Access, Expr] | None = None,
        known: Mapping[typed.Expr, Expr] | None = None,
    ) -> Expr:
        """Return the scalar value of e; what has to run before it goes to out."""

        def read(x: typed.Read) -> Expr | None:
            if x.tensor in self.values:
                return self.values[x.tensor]
            access = (x.tensor, x.subs)
            if local is not None and access in local:
                return local[access]
            return self.element(access, counters) if x.subs else None

        low = {n: b.add(c, self.lows[n]) for n, c in counters.items()}
        values = _Known(self.operands, {**self.index, **low}, read, known or {}, self.fresh("t"))
        value = values.value(e)
        out.extend(values.take())
        return value

    # ---- a sweep

    def sweep(self, n: int, span: tuple[Expr, Expr] | None) -> None:
        """Add a pass over the points of the row."""
        sweep, loops = self.space.aligned.sweeps[n], self.space.sweeps[n]
        for step in sweep.before:
            self.scalar_step(step)
        self.hoisted = {}
        steps = sweep.steps
        held = self.held_count(n)
        folds = [self.fold(s, n) for s in steps if s.folds]
        if held is not None:
            body = self.unrolled(steps, folds, loops[-1], held)
        else:
            body = self.looped(steps, folds, loops, span)
        self.row.extend(self.start(f.total, f.op) for f in folds if f.total)
        self.row.extend(self.starts([f for f in folds if not f.total]))
        self.row.extend(body)
        for f in folds:
            self.finish(f.step, self.folded(f))

    def held_count(self, n: int) -> int | None:
        """Return the vectors of a row if all its sweeps keep it in registers, else None."""
        if not self.whole or self.form.lanes == 1 or any(len(w) > 1 for w in self.space.sweeps):
            return None
        lengths = {w[0].extent for w in self.space.sweeps}
        length = lengths.pop().constant if len(lengths) == 1 else None
        if length is None or length > HELD_VECTORS * self.form.lanes or length == 0:
            return None
        return -(-length // self.form.lanes)

    def looped(
        self,
        steps: tuple[Step, ...],
        folds: list[_Fold],
        loops: tuple[Loop, ...],
        span: tuple[Expr, Expr] | None,
    ) -> list[Stmt]:
        """Return the loops of a sweep; folds with a total start and end within a block."""
        inner, outers = loops[-1], loops[:-1]
        outer = {x.name: self.counter(x) for x in outers}
        hoist: list[Stmt] = [] if outers else self.row
        low: Expr = b.c64(0)
        high = self.size(inner.extent)
        if span is not None and not outers:
            low, high = span
        blocked = [f for f in folds if f.total]
        length = inner.extent.constant
        if blocked and (length is None or length > BLOCK):
            at = b.i64(self.fresh("block"))
            end = b.i64(self.fresh("end"))
            body = [
                Let(end, b.min64(b.add(at, BLOCK), high)),
                *self.starts(blocked),
                *self.innermost(steps, folds, inner, outer, at, end, hoist),
                *self.flushes(blocked),
            ]
            nest: list[Stmt] = [b.loop(at, low, high, body, step=BLOCK)]
        else:
            nest = self.innermost(steps, folds, inner, outer, low, high, hoist)
            if blocked and outers:
                nest = [*self.starts(blocked), *nest, *self.flushes(blocked)]
        if outers:
            nest = [*hoist, *nest]
        for x in reversed(outers):
            part = span if span is not None and x is outers[0] else (b.c64(0), self.size(x.extent))
            nest = [b.loop(outer[x.name], *part, nest)]
        return nest

    def innermost(
        self,
        steps: tuple[Step, ...],
        folds: list[_Fold],
        inner: Loop,
        outer: Mapping[str, Expr],
        low: Expr,
        high: Expr,
        hoist: list[Stmt],
    ) -> list[Stmt]:
        """Return the loop over [low, high) of the innermost counter."""
        var = self.counter(inner)
        if self.form.lanes == 1:
            point = Point({**outer, inner.name: var})
            body = self.scalar_point(steps, folds, point, inner, hoist)
            clauses = [(f.op, f.accumulators[0].name) for f in folds]
            clauses += [("|", f.unordered.name) for f in folds if f.unordered]
            mark = Simd(tuple(clauses))  # type: ignore[arg-type]
            return [b.loop(var, low, high, body, mark=mark)]
        lanes, unroll = self.form.lanes, self.form.unroll
        count = b.sub(high, low)
        turn = lanes * unroll
        main = b.add(low, b.mul(b.div(count, turn), turn))
        known = b.value_of(count)
        out: list[Stmt] = []
        if known is None:
            main_var = b.i64(self.fresh("main"))
            out.append(Let(main_var, main))
            main = main_var
        if known is None or known >= turn:
            stmts: list[Stmt] = []
            for u in range(unroll):
                point = Point({**outer, inner.name: b.add(var, u * lanes)})
                stmts += self.vector_point(steps, folds, point, inner, hoist, u)
            out.append(b.loop(var, low, main, stmts, step=turn))
        if known is None or known % turn:
            rest = Var(self.fresh("tail"), Mask(self.mask_dtype, lanes))
            left = b.sub(high, var)
            point = Point({**outer, inner.name: var}, rest, left)
            stmts = [Let(rest, self.tail(left))]
            if known is not None and known % lanes == 0:
                point, stmts = Point(point.counters), []
            stmts += self.vector_point(steps, folds, point, inner, hoist, 0)
            out.append(b.loop(var, main, high, stmts, step=lanes))
        return out

    def unrolled(
        self, steps: tuple[Step, ...], folds: list[_Fold], inner: Loop, vectors: int
    ) -> list[Stmt]:
        """Return a sweep over a short row, vector by vector, on values that are in registers."""
        out: list[Stmt] = []
        length = inner.extent.constant
        assert length is not None
        for u in range(vectors):
            left = length - u * self.form.lanes
            if u not in self.held:
                point = Point({inner.name: b.c64(u * self.form.lanes)})
                if left < self.form.lanes:
                    point.mask = Var(self.fresh("tail"), Mask(self.mask_dtype, self.form.lanes))
                    point.count = b.c64(left)
                    self.row.append(Let(point.mask, self.tail(point.count)))
                self.held[u] = point, self.scope(point, inner, self.row, [])
            point, scope = self.held[u]
            point.counters = {inner.name: b.c64(u * self.form.lanes)}
            scope.statements = out
            self.vector_steps(steps, folds, point, scope, out, u)
        return out

    # ---- folds

    def fold(self, step: Step, n: int) -> _Fold:
        """Return the accumulators of a fold in sweep n."""
        s = step.statement
        dtype = compute_dtype(self.operands.buffer(s.target).dtype)
        loops = self.space.sweeps[n]
        kind = Vector(dtype, self.form.lanes) if self.form.lanes > 1 else Scalar(dtype)
        count = min(self.form.unroll, 4) if self.form.lanes > 1 else 1
        if (vectors := self.held_count(n)) is not None:
            count = min(vectors, 4)
        accumulators = [Var(self.fresh("acc"), kind) for _ in range(count)]
        length = loops[-1].extent.constant
        long = length is None or length > BLOCK or len(loops) > 1
        total = None
        if s.op.startswith("+") and dtype.is_float and long:
            total = Var(self.fresh("sum"), kind)
        fold = _Fold(step, dtype, accumulators, total)
        if self.form.lanes == 1 and fold.op in ("min", "max") and dtype.is_float:
            fold.unordered = b.var(self.fresh("unordered"), INT32)
        return fold

    def start(self, acc: Var, op: str) -> Stmt:
        """Return the declaration of an accumulator at the identity of its operator."""
        dtype = acc.type.dtype if isinstance(acc.type, Vector | Scalar) else BOOL
        neutral = identity(f"{op}=", dtype)  # type: ignore[arg-type]
        assert isinstance(neutral, Const)
        return Let(acc, Const(neutral.value, acc.type), mutable=True)

    def starts(self, folds: list[_Fold]) -> list[Stmt]:
        """Return the declarations of all accumulators."""
        out = [self.start(a, f.op) for f in folds for a in f.accumulators]
        out += [Let(f.unordered, b.const(0, INT32), True) for f in folds if f.unordered]
        return out

    def flushes(self, folds: list[_Fold]) -> list[Stmt]:
        """Return the additions of a block's sums to the totals."""
        return [
            Assign(f.total, self.merged(f.op, list(f.accumulators)), "+=") for f in folds if f.total
        ]

    def merged(self, op: str, parts: list[Expr]) -> Expr:
        """Return accumulators combined pairwise."""
        while len(parts) > 1:
            pairs = [parts[i : i + 2] for i in range(0, len(parts), 2)]
            parts = [self.combined(op, *p) if len(p) == 2 else p[0] for p in pairs]
        return parts[0]

    def combined(self, op: str, x: Expr, y: Expr) -> Expr:
        """Return x op y, scalars or vectors."""
        t = b.type_of(x)
        if op in ("+", "*"):
            return Bin("+" if op == "+" else "*", x, y, t)
        if isinstance(t, Vector):
            return vexpr.vector_call(op, t, x, y)
        assert isinstance(t, Scalar)
        return Call(f"tc_{op}_{short_name(t.dtype)}", (x, y), t)

    def folded(self, f: _Fold) -> Expr:
        """Return the scalar result of a fold."""
        whole: Expr = f.total if f.total else self.merged(f.op, list(f.accumulators))
        if isinstance(whole.type, Vector):
            name = {"+": "sum", "max": "hmax", "min": "hmin"}[f.op]
            call = vexpr.vector_call(name, whole.type, whole)
            return replace(call, type=Scalar(f.dtype))
        if f.unordered:
            nan = b.const(float("nan"), f.dtype)
            return b.select(b.compare("!=", f.unordered, b.const(0, INT32)), nan, whole)
        return whole

    # ---- points

    @property
    def mask_dtype(self) -> DType:
        """The element type that masks are named after."""
        return vexpr.mask_dtype(self.form.bits)

    def tail(self, left: Expr) -> Expr:
        """Return the mask of the first `left` lanes."""
        t = Mask(self.mask_dtype, self.form.lanes)
        return Call(f"tc_tail_v{t.lanes}{short_name(t.dtype)}", (left,), t)

    def varies(self, e: typed.Expr, inner: Loop, point: Point) -> bool:
        """Whether e differs between neighbours along the innermost loop."""
        for x in vexpr.walk(e):
            match x:
                case typed.IndexValue(name) if name == inner.name:
                    return True
                case typed.Read(tensor, subs) if subs and tensor not in self.values:
                    access = (tensor, subs)
                    if access in point.local or access not in self.space.linear:
                        return True
                    if self.space.linear[access].step(inner.name) != ZERO:
                        return True
                case _:
                    pass
        return False

    def hoist(self, e: typed.Expr, point: Point, inner: Loop, out: list[Stmt]) -> Expr:
        """Return an invariant of the innermost loop, computed once before it."""
        if isinstance(e, typed.Lit):
            return b.const(e.value, compute_dtype(e.dtype))
        if e not in self.hoisted:
            outer = {n: c for n, c in point.counters.items() if n != inner.name}
            value = self.scalar(e, outer, out)
            if not isinstance(value, Var | Const):
                var = Var(self.fresh("h"), b.type_of(value))
                out.append(Let(var, value))
                value = var
            self.hoisted[e] = value
        return self.hoisted[e]

    def scalar_point(
        self,
        steps: tuple[Step, ...],
        folds: list[_Fold],
        point: Point,
        inner: Loop,
        hoist: list[Stmt],
    ) -> list[Stmt]:
        """Return what happens at one point, in scalars."""
        out: list[Stmt] = []
        by_target = {f.step.statement.target: f for f in folds}
        for step in steps:
            s = step.statement
            known: dict[typed.Expr, Expr] = {}
            self.invariants(s.value, point, inner, hoist, known)
            value = self.scalar(s.value, point.counters, out, point.local, known)
            if step.folds:
                out += self.scalar_fold(by_target[s.target], value)
                continue
            if combines(s) and s.base is not None:
                access = (s.base, s.subs)
                before = point.local.get(access)
                if before is None:
                    before = self.element(access, point.counters)
                value = combine(s.op, before, value)
            if not isinstance(value, Var):
                var = Var(self.fresh("v"), b.type_of(value))
                out.append(Let(var, value))
                value = var
            point.local[s.target, s.subs] = value
            if self.in_memory(s.target):
                out.append(self.store((s.target, s.subs), point.counters, value))
        return out

    def invariants(
        self,
        e: typed.Expr,
        point: Point,
        inner: Loop,
        hoist: list[Stmt],
        known: dict[typed.Expr, Expr],
    ) -> None:
        """Gather the largest parts of e that can be computed before the innermost loop.

        Parts under a guard stay where they are.
        """
        if not self.varies(e, inner, point):
            if not isinstance(e, typed.Lit):
                known[e] = self.hoist(e, point, inner, hoist)
            return
        match e:
            case typed.Select(cond=c):
                self.invariants(c, point, inner, hoist, known)
            case typed.Binary("&&" | "||", lhs, _):
                self.invariants(lhs, point, inner, hoist, known)
            case _:
                for x in vexpr.operands(e):
                    self.invariants(x, point, inner, hoist, known)

    def scalar_fold(self, f: _Fold, value: Expr) -> list[Stmt]:
        """Return the statements that fold a scalar."""
        acc = f.accumulators[0]
        if f.op in ("+", "*"):
            return [Assign(acc, value, "+=" if f.op == "+" else "*=")]
        x = Var(self.fresh("v"), b.type_of(value))
        better = Bin(">" if f.op == "max" else "<", x, acc, TRUTH)
        out: list[Stmt] = [Let(x, value), Assign(acc, b.select(better, x, acc))]
        if f.unordered:
            nan = Cast(Bin("!=", x, x, TRUTH), f.unordered.type)
            out.append(Assign(f.unordered, nan, "|="))
        return out

    def scope(self, point: Point, inner: Loop, hoist: list[Stmt], out: list[Stmt]) -> vexpr.Scope:
        """Return how expressions are evaluated at a point, in vectors."""

        def read(x: typed.Read) -> Expr:
            access = (x.tensor, x.subs)
            return point.local[access] if access in point.local else self.load(access, point, inner)

        def index(x: typed.IndexValue) -> Expr:
            t = Vector(vexpr.integer_of(self.form.bits), self.form.lanes)
            first = b.add(point.counters[x.name], self.lows[x.name])
            return vexpr.vector_call("iota", t, b.cast(first, Scalar(t.dtype)))

        return vexpr.Scope(
            lanes=self.form.lanes,
            bits=self.form.bits,
            varies=lambda e: self.varies(e, inner, point),
            scalar=lambda e: self.hoist(e, point, inner, hoist),
            read=read,
            index=index,
            fresh=self.fresh,
            statements=out,
        )

    def vector_point(
        self,
        steps: tuple[Step, ...],
        folds: list[_Fold],
        point: Point,
        inner: Loop,
        hoist: list[Stmt],
        u: int,
    ) -> list[Stmt]:
        """Return what happens at lanes points."""
        out: list[Stmt] = []
        self.vector_steps(steps, folds, point, self.scope(point, inner, hoist, out), out, u)
        return out

    def vector_steps(
        self,
        steps: tuple[Step, ...],
        folds: list[_Fold],
        point: Point,
        scope: vexpr.Scope,
        out: list[Stmt],
        u: int,
    ) -> None:
        """Add what happens at lanes points to out."""
        by_target = {f.step.statement.target: f for f in folds}
        for step in steps:
            s = step.statement
            value = scope.vector(s.value)
            if step.folds:
                f = by_target[s.target]
                acc = f.accumulators[u % len(f.accumulators)]
                out.append(Assign(acc, self.masked(point, self.combined(f.op, value, acc), acc)))
                continue
            if combines(s) and s.base is not None:
                dtype = self.operands.buffer(s.base).dtype
                before = scope.vector(typed.Read(s.base, s.subs, dtype))
                value = self.combined(s.op.rstrip("!")[:-1], before, value)
            value = scope.name(value)
            point.local[s.target, s.subs] = value
            if self.in_memory(s.target):
                out.append(self.vector_store((s.target, s.subs), point, value))

    def masked(self, point: Point, value: Expr, other: Expr) -> Expr:
        """Return value in the lanes that count."""
        if point.mask is None:
            return value
        t = value.type
        assert isinstance(t, Vector)
        return vexpr.vector_call("keep", t, point.mask, value, other)

    def load(self, access: Access, point: Point, inner: Loop) -> Expr:
        """Return lanes elements of memory."""
        pointer, index = self.address(access, point.counters)
        stored = self.stored(access[0])
        t = Vector(compute_dtype(stored), self.form.lanes)
        half = f"_{short_name(stored)}" if stored.is_half else ""
        name = f"v{t.lanes}{short_name(t.dtype)}{half}"
        at = b.offset(pointer, index)
        step = self.space.linear[access].step(inner.name)
        if step != ONE:
            count = point.count if point.count is not None else b.c64(self.form.lanes)
            return Call(f"tc_loadx_{name}", (at, self.size(step), count), t)
        if point.mask is not None:
            return Call(f"tc_loadm_{name}", (at, point.mask), t)
        return Call(f"tc_load_{name}", (at,), t)

    def vector_store(self, access: Access, point: Point, value: Expr) -> Stmt:
        """Return the store of lanes elements."""
        pointer, index = self.address(access, point.counters)
        stored = self.stored(access[0])
        t = value.type
        assert isinstance(t, Vector)
        half = f"_{short_name(stored)}" if stored.is_half else ""
        name = f"v{t.lanes}{short_name(t.dtype)}{half}"
        at = b.offset(pointer, index)
        step = self.space.linear[access].step(self.inner_of(point))
        if step != ONE:
            count = point.count if point.count is not None else b.c64(self.form.lanes)
            return b.do(f"tc_storex_{name}", at, self.size(step), count, value)
        if point.mask is not None:
            return b.do(f"tc_storem_{name}", at, point.mask, value)
        return b.do(f"tc_store_{name}", at, value)

    def inner_of(self, point: Point) -> str:
        """Return the name of the loop whose values lie in the lanes: the last counter."""
        return next(reversed(list(point.counters)))


class _Known(Values):
    """Scalar expressions of which some parts have been computed already."""

    def __init__(
        self,
        operands: object,
        index: Mapping[str, Expr],
        local: object,
        known: Mapping[typed.Expr, Expr],
        prefix: str,
    ) -> None:
        super().__init__(operands, index, local, prefix)  # type: ignore[arg-type]
        self.known = known

    def value(self, e: typed.Expr) -> Expr:
        return self.known[e] if e in self.known else super().value(e)
