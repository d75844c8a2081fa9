"""One point, or lanes of them, of a row: how memory is reached and values are computed there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace

from tcdsl.codegen.forms.base import scalars, vexpr
from tcdsl.codegen.forms.base.access import ONE, ZERO, DimLoop
from tcdsl.codegen.forms.base.combine import combined, operator
from tcdsl.codegen.forms.base.context import Context
from tcdsl.codegen.forms.base.guarded import behind_conditions, inside
from tcdsl.codegen.forms.base.space import Access, IterationSpace, combines
from tcdsl.codegen.forms.rows.values import RowValues
from tcdsl.codegen.loops import build as b
from tcdsl.codegen.loops.loopir import Call, Cast, Const, Expr, Let, Mask, Scalar, Stmt, Var, Vector
from tcdsl.codegen.loops.target import short_name
from tcdsl.codegen.program.program import Statement
from tcdsl.grammar.text.dataclass import dataclass
from tcdsl.grammar.types import typed
from tcdsl.grammar.types.dtypes import DType


@dataclass(frozen=True, slots=True)
class RowWalk:
    """How a row is walked: lanes of a vector (1: scalar text), their bits, vectors a turn.

    prefetch: the first sweep over a row asks for the same place of the next row. stream: outputs
    are stored past the cache.
    """

    lanes: int
    bits: int
    unroll: int
    prefetch: bool = False
    stream: bool = False


@dataclass
class RowPoint:
    """lanes points of a sweep: counters, the tail's mask, values computed there.

    stream: stores are aligned and go past the cache.
    """

    counters: Mapping[str, Expr]
    mask: Var | None = None
    count: Expr | None = None
    local: dict[Access, Expr] = field(default_factory=dict)
    stream: bool = False


class RowPoints(RowValues):
    """What a nest over rows knows at a point: `RowValues`, and values in vectors.

    Parameters
    ----------
    ctx, space
        The group and its loops.
    walk
        How rows are walked.
    """

    def __init__(self, ctx: Context, space: IterationSpace, walk: RowWalk) -> None:
        super().__init__(ctx, space)
        self.walk = walk
        self.hoisted: dict[typed.Expr, Expr] = {}
        self.prefetched: set[Access] = set()  # what an earlier sweep has read

    # ---- memory

    def arena_offsets(self) -> tuple[dict[str, Expr], Expr]:
        """Return where locals that outlive their sweep lie in the workspace, and its bytes."""
        at: Expr = b.c64(0)
        offsets: dict[str, Expr] = {}
        for name, elements in self.space.arena.items():
            offsets[name] = at
            size = self.operands.buffer(name).dtype.computed.size_bytes
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

    # ---- values

    def varies(self, e: typed.Expr, inner: DimLoop, point: RowPoint) -> bool:
        """Whether a leaf differs between neighbours along the innermost loop."""
        match e:
            case typed.IndexValue(name):
                return name == inner.name
            case typed.Read(tensor, subs) if subs and tensor not in self.values:
                access = (tensor, subs)
                if access in point.local or access not in self.space.linear:
                    return True
                return self.space.linear[access].step(inner.name) != ZERO
            case _:
                return False

    def hoist(self, e: typed.Expr, point: RowPoint, inner: DimLoop, out: list[Stmt]) -> Expr:
        """Return an invariant of the innermost loop, computed once before it."""
        if isinstance(e, typed.Lit):
            return b.const(e.value, e.dtype.computed)
        if e not in self.hoisted:
            outer = {n: c for n, c in point.counters.items() if n != inner.name}
            value = self.scalar(self.where_points(e, (inner,)), outer, out)
            if not isinstance(value, Var | Const):
                var = Var(self.fresh("h"), b.type_of(value))
                out.append(Let(var, value))
                value = var
            self.hoisted[e] = value
        return self.hoisted[e]

    def invariants(
        self,
        e: typed.Expr,
        point: RowPoint,
        inner: DimLoop,
        hoist: list[Stmt],
        known: dict[typed.Expr, Expr],
    ) -> None:
        """Gather the largest parts of e that can be computed before the innermost loop.

        Parts under a guard stay where they are.
        """
        varies = vexpr.any_of(lambda leaf: self.varies(leaf, inner, point))
        todo = [e]
        while todo:
            x = todo.pop()
            if not varies(x):
                if not isinstance(x, typed.Lit):
                    known[x] = self.hoist(x, point, inner, hoist)
                continue
            match x:
                case typed.Select(cond=c):
                    todo.append(c)
                case typed.Binary("&&" | "||", lhs, _):
                    todo.append(lhs)
                case _:
                    todo += reversed(vexpr.operands(x))

    def read_anyway(
        self, e: typed.Expr, point: RowPoint, known: dict[typed.Expr, Expr], out: list[Stmt]
    ) -> None:
        """Read what a condition of e may exclude before it, where it is there whatever it says.

        A C compiler makes no vectors of `a[i] && b[i]`: it may not read b, and AVX2 has no masks
        for elements that small.
        """
        dims = {d.name: d for d in self.space.aligned.dims}
        for r in behind_conditions(e):
            access = (r.tensor, r.subs)
            is_value = r in known or access in point.local or r.tensor in self.values
            if is_value or access not in self.space.linear or not inside(self.ctx, r, dims):
                continue
            value = self.element(access, point.counters)
            known[r] = var = Var(self.fresh("v"), b.type_of(value))
            out.append(Let(var, value))

    def named(self, value: Expr, out: list[Stmt]) -> Expr:
        """Return a value that is computed once; one of a half type waits as it is stored."""
        if isinstance(value, Var | Const):
            return value
        held = scalars.widened(value)
        x = held[0] if held else value
        var = Var(self.fresh("v"), b.type_of(x))
        out.append(Let(var, x))
        return scalars.widen(var, held[1]) if held else var

    def scope(
        self, point: RowPoint, inner: DimLoop, hoist: list[Stmt], out: list[Stmt]
    ) -> vexpr.LaneScope:
        """Return how expressions are evaluated at a point, in vectors."""

        def read(x: typed.Read) -> Expr:
            access = (x.tensor, x.subs)
            if access in point.local:
                return point.local[access]
            if self.walk.prefetch and point.mask is None:
                scope.statements.extend(self.prefetches(access, point))
            return self.load(access, point, inner)

        def index(x: typed.IndexValue) -> Expr:
            t = Vector(vexpr.integer_of(self.walk.bits), self.walk.lanes)
            first = b.add(point.counters[x.name], self.lows[x.name])
            return vexpr.vector_call("iota", t, b.cast(first, Scalar(t.dtype)))

        scope = vexpr.LaneScope(
            lanes=self.walk.lanes,
            bits=self.walk.bits,
            varies=lambda e: self.varies(e, inner, point),
            scalar=lambda e: self.hoist(e, point, inner, hoist),
            read=read,
            index=index,
            fresh=self.fresh,
            statements=out,
        )
        return scope

    def settle(
        self, s: Statement, value: Expr, point: RowPoint, scope: vexpr.LaneScope, out: list[Stmt]
    ) -> None:
        """Combine the vector of a statement with what was there, name it and store it.

        What is rounded to a half is named as such: it is stored as it is, and widened by readers.
        """
        if combines(s) and s.base is not None:
            dtype = self.operands.buffer(s.base).dtype
            before = scope.vector(typed.Read(s.base, s.subs, dtype))
            value = combined(operator(s.op), before, value)
        value = self.as_stored(s, value)
        access = s.target, s.subs
        if self.in_memory(s.target) and self.is_rounded(access, value, point):
            assert isinstance(value, Call), "a widening"
            halves = scope.name(value.args[0])
            point.local[access] = replace(value, args=(halves,))
            out.append(self.vector_store(access, point, halves))
            return
        value = scope.name(value)
        point.local[access] = value
        if self.in_memory(s.target):
            out.append(self.vector_store(access, point, value))

    def is_rounded(self, access: Access, value: Expr, point: RowPoint) -> bool:
        """Whether neighbours are stored that were widened from what is stored there."""
        widening = f"tc_widen_{short_name(self.stored(access[0]))}"
        is_near = self.space.linear[access].step(self.inner_of(point)) == ONE
        return isinstance(value, Call) and value.function == widening and is_near

    # ---- vectors of memory

    def prefetches(self, access: Access, point: RowPoint) -> list[Stmt]:
        """Return the request for the same place of the next row, if this is its first sweep."""
        if access in self.prefetched or not self.space.kept:
            return []
        step = self.space.linear[access].step(self.space.kept[-1].name)
        if step == ZERO:
            return []
        pointer, index = self.address(access, point.counters)
        return [b.do("tc_prefetch", b.offset(pointer, b.add(index, self.size(step))))]

    def load(self, access: Access, point: RowPoint, inner: DimLoop) -> Expr:
        """Return lanes elements of memory."""
        pointer, index = self.address(access, point.counters)
        stored = self.stored(access[0])
        t = Vector(stored.computed, self.walk.lanes)
        name = vexpr.kind_of(t, stored)
        at = b.offset(pointer, index)
        step = self.space.linear[access].step(inner.name)
        if step != ONE:
            count = point.count if point.count is not None else b.c64(self.walk.lanes)
            return Call(f"tc_loadx_{name}", (at, self.size(step), count), t)
        if point.mask is not None:
            return Call(f"tc_loadm_{name}", (at, point.mask), t)
        return Call(f"tc_load_{name}", (at,), t)

    def vector_store(self, access: Access, point: RowPoint, value: Expr) -> Stmt:
        """Return the store of lanes elements, which may be halves already."""
        pointer, index = self.address(access, point.counters)
        stored = self.stored(access[0])
        t = value.type
        assert isinstance(t, Vector) or t == vexpr.HALVES, f"{t} is no vector"
        name = vexpr.kind_of(t, stored) if isinstance(t, Vector) else "halves"
        at = b.offset(pointer, index)
        step = self.space.linear[access].step(self.inner_of(point))
        if step != ONE:
            count = point.count if point.count is not None else b.c64(self.walk.lanes)
            return b.do(f"tc_storex_{name}", at, self.size(step), count, value)
        if point.mask is not None:
            return b.do(f"tc_storet_{name}", at, point.mask, value)
        return b.do(f"tc_{'stream' if point.stream else 'store'}_{name}", at, value)

    def inner_of(self, point: RowPoint) -> str:
        """Return the name of the loop whose values lie in the lanes: the last counter."""
        return next(reversed(list(point.counters)))

    @property
    def mask_dtype(self) -> DType:
        """The element type that masks are named after."""
        return vexpr.mask_dtype(self.walk.bits)

    def tail(self, left: Expr) -> Expr:
        """Return the mask of the first `left` lanes."""
        t = Mask(self.mask_dtype, self.walk.lanes)
        return Call(f"tc_tail_v{t.lanes}{short_name(t.dtype)}", (left,), t)

    def masked(self, point: RowPoint, value: Expr, other: Expr) -> Expr:
        """Return value in the lanes that count."""
        if point.mask is None:
            return value
        t = value.type
        assert isinstance(t, Vector)
        return vexpr.vector_call("keep", t, point.mask, value, other)
