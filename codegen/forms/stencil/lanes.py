"""Expressions of a stencil at lanes points, where some of what they read does not exist.

Inside of all borders a choice that keeps reads inside is the branch it keeps. At a border its
bounds say between which lanes the elements lie; others are neither read nor computed with:

    tc_loadf_v16f32(I + .., tc_range_v16f32(1, 16), fill)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from tcdsl.codegen.forms.base import vexpr
from tcdsl.codegen.forms.base.expr import Values
from tcdsl.codegen.forms.stencil.block import Block
from tcdsl.codegen.forms.stencil.problem import guard_of, is_unsafe, numbers_of
from tcdsl.codegen.forms.stencil.walk import Region, Spot, Walk
from tcdsl.codegen.loops import build as b
from tcdsl.codegen.loops.loopir import Const, Expr, Let, Scalar, Var, Vector
from tcdsl.codegen.program.expressions import indices_of
from tcdsl.codegen.program.program import Statement
from tcdsl.grammar.text.dataclass import dataclass
from tcdsl.grammar.types import typed


@dataclass
class StencilScope(vexpr.LaneScope):
    """Values at a spot; see `vexpr.LaneScope`.

    given: values of reads of what was computed there.
    """

    block: Block = field(kw_only=True)
    spot: Spot = field(kw_only=True)
    statement: Statement = field(kw_only=True)
    region: Region | None = field(kw_only=True)

    def _value(self, e: typed.Expr) -> Expr:
        if self.region is not None and not self._varies(e) and not isinstance(e, typed.Lit):
            ctx, s = self.block.walk.ctx, self.statement
            if self.region != self.block.base and is_unsafe(ctx, s, e):
                return self._excluded(e)
        return super()._value(e)

    def _excluded(self, e: typed.Expr) -> Expr:
        """Return what is the same in all lanes, and read only if there are some."""
        assert self.region is not None
        low, high = self.block.ends(self.region)
        walk = self.block.walk
        value = scalar_at(walk, self.spot).value(e)
        zero = b.const(0, e.dtype.computed)
        return self.name(b.select(b.compare("<", low, high), value, zero))

    def _compute(self, e: typed.Expr) -> Expr:
        if isinstance(e, typed.Select):
            bounds = guard_of(self.block.walk.ctx, self.statement, e)
            if bounds is not None:
                kept, left = (e.then, e.other) if bounds.keeps_then else (e.other, e.then)
                if self.region is None:
                    return self._vector(kept)
                return self._within(kept, left, frozenset(bounds.all))
        return super()._compute(e)

    def _within(self, kept: typed.Expr, left: typed.Expr, bounds: Region) -> Expr:
        assert self.region is not None
        around = self.region
        walk, taps = self.block.walk, self.spot.taps
        asked = walk.asked(bounds, taps)
        region = self.block.region(asked, self.spot) | around
        region = self.block.region(region, Spot({}, {}))
        if isinstance(kept, typed.Read) and self._varies(kept) and isinstance(left, typed.Lit):
            return self.block.load(self.statement, kept, self.spot, region, left)
        held = self.known, self._named
        self.region, self.known, self._named = region, dict(self.known), {}
        inside = self._vector(kept)
        self.region, self.known, self._named = around, *held
        if region == around:
            return inside
        return self._keep(region, inside, self._vector(left))

    def _keep(self, region: Region, inside: Expr, outside: Expr) -> Expr:
        t = inside.type
        assert isinstance(t, Vector)
        return vexpr.vector_call("keep", t, self.block.mask(region), inside, outside)


def scalar_at(walk: Walk, spot: Spot) -> Values:
    """Return what lowers an expression that is the same in all lanes of a spot."""
    index: dict[str, Expr] = {n: b.add(v, spot.shift.get(n, 0)) for n, v in walk.index.items()}
    index |= {n: b.c64(v) for n, v in spot.taps.items()}
    return Values(walk.operands, index)


def scope_at(
    block: Block,
    spot: Spot,
    s: Statement,
    given: Mapping[str, Expr],
) -> StencilScope:
    """Return how a statement's expressions are evaluated at a spot."""
    walk = block.walk
    lane = walk.stencil.lane.name
    base = None if block.base is None else block.region(block.base, spot)

    def varies(e: typed.Expr) -> bool:
        match e:
            case typed.IndexValue(name):
                return name == lane
            case typed.Read(tensor, subs) if subs:
                return tensor in given or any(lane in indices_of(x) for x in subs)
            case _:
                return False

    def read(e: typed.Read) -> Expr:
        if e.tensor in given:
            return given[e.tensor]
        return block.load(s, e, spot, scope.region)

    def index(_: typed.IndexValue) -> Expr:
        t = Vector(vexpr.integer_of(walk.stencil.bits), walk.lanes)
        first = b.add(walk.index[lane], spot.shift.get(lane, 0))
        return vexpr.vector_call("iota", t, b.cast(first, Scalar(t.dtype)))

    leaves = "varies", lane, frozenset(given)
    scope = StencilScope(
        lanes=walk.lanes,
        bits=walk.stencil.bits,
        varies=varies,
        scalar=lambda e: hoisted(block, spot, s, e),
        read=read,
        index=index,
        fresh=walk.names.fresh,
        statements=block.level.stmts,
        all_vary=walk.ctx.once(leaves, lambda: vexpr.any_of(varies)),
        _numbers=numbers_of(walk.ctx),
        block=block,
        spot=spot,
        statement=s,
        region=base,
    )
    return scope


def hoisted(block: Block, spot: Spot, s: Statement, e: typed.Expr) -> Expr:
    """Return what is the same in all lanes: computed once a unit where it can be."""
    if isinstance(e, typed.Lit):
        return b.const(e.value, e.dtype.computed)
    walk = block.walk
    used = indices_of(e)
    row = walk.stencil.row
    moves = row is not None and row.name in used
    # what a border excludes stays where the border was asked for
    stays = moves or is_unsafe(walk.ctx, s, e)
    level = block.level if stays else walk.unit
    taps = tuple((n, v) for n, v in spot.taps.items() if n in used)
    shift = tuple((n, v) for n, v in spot.shift.items() if n in used)
    is_factor = walk.asks_memory and taps and not stays
    if is_factor and isinstance(e, typed.Read) and _is_as_computed(walk, e):
        return block.element(e, spot)
    key = ("scalar", e, taps, shift)
    if key not in level.known:
        values = scalar_at(walk, spot)
        value = values.value(e)
        level.stmts += values.take()
        if not isinstance(value, Var | Const):
            var = Var(walk.names.fresh("h"), b.type_of(value))
            level.stmts.append(Let(var, value))
            value = var
        level.known[key] = value
    return level.known[key]


def _is_as_computed(walk: Walk, e: typed.Read) -> bool:
    """Whether elements lie in memory as they are computed with."""
    return walk.operands.memory_dtype(e.tensor) == e.dtype.computed
