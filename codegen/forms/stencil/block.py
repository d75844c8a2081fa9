"""Points of a stencil in one straight run: which lanes exist, what is loaded, what is stored."""

from __future__ import annotations

from collections.abc import Mapping

from tcdsl.codegen.forms.base import vexpr
from tcdsl.codegen.forms.base.access import ONE
from tcdsl.codegen.forms.stencil.near import is_near, reach_of
from tcdsl.codegen.forms.stencil.problem import SHUFFLED, Place, is_unsafe, numbers_of, place_of
from tcdsl.codegen.forms.stencil.walk import Level, Region, Spot, Walk
from tcdsl.codegen.loops import build as b
from tcdsl.codegen.loops.loopir import I64, Call, Cast, Const, Expr, Let, Mask, Pointer, Var, Vector
from tcdsl.codegen.loops.target import short_name
from tcdsl.codegen.program.bounds import Bound
from tcdsl.codegen.program.expressions import indices_of
from tcdsl.codegen.program.program import Statement
from tcdsl.grammar.proofs.sizes import Size
from tcdsl.grammar.types import typed


class Block:
    """Points that are computed together, in one straight run of statements.

    Parameters
    ----------
    walk
        What is shared.
    base
        Lanes that count, None inside of all borders.
    still
        Receives loads that are the same for all rows.
    asks_rows
        Whether bounds that are the same for all lanes may not hold.
    asks_lanes
        Whether the others may not.
    far
        Where they may not: how far the furthest point is from the indices' variables.
    """

    def __init__(
        self,
        walk: Walk,
        base: Region | None,
        still: Level,
        *,
        asks_rows: bool,
        asks_lanes: bool,
        far: Mapping[str, int] | None = None,
    ) -> None:
        self.walk = walk
        self.far = far if asks_lanes else None
        self.still = still
        self.base = base
        self.asks_rows = asks_rows
        self.asks_lanes = asks_lanes
        self.level = Level()

    def region(self, bounds: Region, spot: Spot) -> Region:
        """Return lanes where bounds hold, seen from the variables."""
        lane = self.walk.stencil.lane.name
        asked = (x for x in bounds if (self.asks_lanes if x.coefficient(lane) else self.asks_rows))
        least: dict[tuple[object, Size], Bound] = {}
        for bound in asked:  # of those that differ by a number the strictest
            x = bound.moved(spot.shift, spot.taps)
            key = (x.terms, x.const - x.const.offset)
            if key not in least or x.const.offset < least[key].const.offset:
                least[key] = x
        return frozenset(least.values())

    def ends(self, region: Region) -> tuple[Expr, Expr]:
        """Return the first lane of a region and the one behind the last."""
        key = ("ends", region)
        if key not in self.level.known:
            walk = self.walk
            lane = walk.stencil.lane.name
            first: Expr = b.c64(0)
            last: Expr = b.c64(walk.lanes)
            conds = [walk.holds(x) for x in sorted(region, key=str) if not x.coefficient(lane)]
            low, high = walk.lanes_within(region)
            if low is not None:
                first = b.max64(first, b.sub(low, walk.index[lane]))
            if high is not None:
                last = b.min64(last, b.sub(high, walk.index[lane]))
            last = b.select(b.all_of(*conds), last, b.c64(0))
            low_name, high_name = (Var(walk.names.fresh(n), I64) for n in ("from", "to"))
            self.level.stmts += [Let(low_name, first), Let(high_name, last)]
            self.level.known[key] = low_name
            self.level.known["end", region] = high_name
        return self.level.known[key], self.level.known["end", region]

    def forget(self) -> None:
        """Have elements loaded again from here on, which no register is kept for."""
        known = self.level.known
        for key in [k for k in known if isinstance(k, tuple) and k[0] == "load"]:
            del known[key]
        self.level.stmts.append(b.do("tc_fence"))

    def mask(self, region: Region) -> Expr:
        """Return the mask of a region."""
        key = ("mask", region)
        if key not in self.level.known:
            walk = self.walk
            kind = Mask(vexpr.mask_dtype(walk.stencil.bits), walk.lanes)
            short = f"v{kind.lanes}{short_name(kind.dtype)}"
            made = Call(f"tc_range_{short}", self.ends(region), kind)
            var = Var(walk.names.fresh("mask"), kind)
            self.level.stmts.append(Let(var, made))
            self.level.known[key] = var
        return self.level.known[key]

    def woven(self, region: Region) -> Expr:
        """Return the mask of a region in the order that halves of registers give."""
        key = ("woven", region)
        if key not in self.level.known:
            mask = self.mask(region)
            assert isinstance(mask, Var)
            assert isinstance(mask.type, Mask)
            whole = Vector(vexpr.integer_of(self.walk.stencil.bits), self.walk.lanes)
            name = f"tc_unwoven_v{whole.lanes}{short_name(whole.dtype)}"  # which is its own inverse
            var = Var(self.walk.names.fresh("mask"), mask.type)
            self.level.stmts.append(Let(var, Call(name, (mask,), mask.type)))
            self.level.known[key] = var
        return self.level.known[key]

    def masks_of_pairs(self, region: Region) -> tuple[Expr, Expr]:
        """Return the masks of both vectors of which a region takes every second element."""
        key = ("masks", region)
        if key not in self.level.known:
            walk = self.walk
            ends = self.ends(region)
            kind = Mask(vexpr.mask_dtype(walk.stencil.bits), walk.lanes)
            short = f"v{kind.lanes}{short_name(kind.dtype)}"
            for n, which in enumerate(("lower", "upper")):
                var = Var(walk.names.fresh("mask"), kind)
                self.level.stmts.append(Let(var, Call(f"tc_{which}_{short}", ends, kind)))
                self.level.known["masks", region, n] = var
            self.level.known[key] = var
        first, second = (self.level.known["masks", region, n] for n in (0, 1))
        return first, second

    # ---- memory

    def _at(self, place: Place, spot: Spot) -> tuple[Expr, Size]:
        """Return the address of lane 0, and its constant part by which equal ones are known.

        Those that differ by a number have one pointer: gcc keeps each sum in a register otherwise.
        """
        walk = self.walk
        const = place.const
        inner: list[Expr] = []
        for name, step in place.terms:
            if name in spot.taps:
                const = const + step * spot.taps[name]
                continue
            const = const + step * spot.shift.get(name, 0)
            row = walk.stencil.row
            if name == walk.stencil.lane.name or (row is not None and name == row.name):
                inner.append(b.mul(walk.index[name], walk.operands.size(step)))
        rest = tuple(t for t in place.terms if t[0] not in spot.taps)
        key = ("at", place.tensor, rest, const - const.offset)
        if key not in self.level.known:
            base, far = self._base(place), const - const.offset
            assert isinstance(base.type, Pointer)
            p = Var(walk.names.fresh("p"), Pointer(base.type.dtype, const=base.type.const))
            last = "last", place.tensor, rest
            before = self.level.rows.get(last)
            if before is None:
                found = b.offset(base, b.add(*inner, walk.operands.size(far)))
            else:  # a step of rows from there
                found = b.offset(before[0], walk.operands.size(far - before[1]))
            self.level.rows[last] = p, far
            self.level.stmts.append(Let(p, found))
            self.level.known[key] = p
        return b.offset(self.level.known[key], b.c64(const.offset)), const

    def _is_near(self, place: Place) -> bool:
        """Whether whole vectors are read of a place, the lanes that exist or not."""
        walk = self.walk
        key = "near", place
        return self.far is not None and walk.ctx.once(
            key, lambda: is_near(walk.ctx, walk.stencil, place)
        )

    def _base(self, place: Place) -> Var:
        """Return where a tensor's elements begin for the outer indices, or those of a copy."""
        walk, begin = self.walk, self.walk.pointer(place)
        if self.far is None or not self._is_near(place):
            return begin
        key = "near", place
        if key not in self.level.known:
            reach = reach_of(walk.ctx, walk.stencil, place, walk.index, self.far, walk.lanes)
            assert isinstance(begin.type, Pointer)
            kind = Pointer(begin.type.dtype, const=begin.type.const)
            ends = [Var(walk.names.fresh(n), I64) for n in ("first", "behind")]
            near = Var(walk.names.fresh("near"), kind)
            size = begin.type.dtype.size_bytes
            args = walk.room(place), begin, *ends, *reach.params
            copy = Call(f"tc_near_{size}", args, kind)
            is_inside = b.all_of(
                b.compare(">=", ends[0], reach.begin), b.compare("<=", ends[1], reach.end)
            )
            self.level.stmts += [
                Let(ends[0], reach.first),
                Let(ends[1], reach.behind),
                Let(near, b.select(is_inside, Cast(begin, kind), copy)),
            ]
            self.level.known[key] = near
        found = self.level.known[key]
        assert isinstance(found, Var)
        return found

    def element(self, read: typed.Read, spot: Spot) -> Expr:
        """Return an element that is the same in all lanes, read where it is used."""
        place = place_of(self.walk.ctx, read.tensor, read.subs)
        assert place is not None, "subscripts are affine"
        return b.load(self._at(place, spot)[0], 0)

    def load(
        self,
        s: Statement,
        read: typed.Read,
        spot: Spot,
        region: Region | None,
        fill: typed.Lit | None = None,
    ) -> Expr:
        """Return lanes elements; outside of the region fill, or zero."""
        walk = self.walk
        place = walk.place(read)
        row = walk.stencil.row
        indices = numbers_of(walk.ctx).fact("indices", read, lambda: indices_of(read))
        level = self.level
        is_still = walk.stencil.is_still and (row is None or row.name not in indices)
        if is_still and region == self.base and not is_unsafe(walk.ctx, s, read):
            level = self.still
        kept, self.level = self.level, level  # addresses and masks that it needs lie beside it
        at, const = self._at(place, spot)
        rest = tuple(t for t in place.terms if t[0] not in spot.taps)
        value = None if fill is None else fill.value
        key = ("load", place.tensor, rest, const, region, str(value))
        if key not in level.known:
            made = self._loaded(read, place, at, region, fill)
            var = Var(walk.names.fresh("x"), b.type_of(made))
            level.stmts.append(Let(var, made))
            level.known[key] = var
        self.level = kept
        return level.known[key]

    def _loaded(
        self,
        read: typed.Read,
        place: Place,
        at: Expr,
        region: Region | None,
        fill: typed.Lit | None,
    ) -> Expr:
        walk = self.walk
        stored = walk.stored(place)
        if read.dtype.is_integer and read.dtype.bits < stored.bits:  # a place, lanes hold it
            ends = (b.c64(0), b.c64(walk.lanes)) if region is None else self.ends(region)
            t = Vector(read.dtype, walk.lanes)
            return Call(f"tc_loadn_v{t.lanes}{short_name(t.dtype)}", (at, *ends), t)
        t = Vector(stored.computed, walk.lanes)
        name = vexpr.kind_of(t, stored)
        step = place.step(walk.stencil.lane.name)
        weave = "w" if walk.is_woven else ""
        if region:
            across = frozenset(x for x in region if x.coefficient(walk.stencil.lane.name))
            if across != region:  # a branch for what is the same in all lanes
                there = b.all_of(*(walk.holds(x) for x in sorted(region - across, key=str)))
                loaded = self._loaded(read, place, at, across, fill)
                return b.select(there, loaded, Const(0 if fill is None else fill.value, t))
        if not region:
            if step == ONE:
                return Call(f"tc_load_{name}", (at,), t)
            if step.constant == 2:
                return Call(f"tc_load2{weave}_{name}", (at,), t)
            if step.constant in SHUFFLED and not stored.is_half:
                return Call(f"tc_load{step.constant}_{name}", (at,), t)
            return Call(f"tc_loadx_{name}", (at, walk.operands.size(step), b.c64(walk.lanes)), t)
        outside = Const(0 if fill is None else fill.value, t)
        if self._is_near(place):
            whole = self._loaded(read, place, at, None, None)
            mask = self.woven(region) if weave and step != ONE else self.mask(region)
            if fill is not None and fill.value != 0:
                return vexpr.vector_call("keep", t, mask, whole, outside)
            return Call(f"tc_masked_{name}", (whole, mask), t)
        if step == ONE:
            mask = self.mask(region)
            made: Expr = Call(f"tc_loadm_{name}", (at, mask), t)
            if fill is not None and fill.value != 0:
                if stored.is_half:
                    return vexpr.vector_call("keep", t, mask, made, outside)
                return Call(f"tc_loadf_{name}", (at, mask, outside), t)
            return made
        if step.constant == 2:
            return Call(f"tc_load2{weave}f_{name}", (at, *self.masks_of_pairs(region), outside), t)
        low, high = self.ends(region)
        if step.constant in SHUFFLED and not stored.is_half and walk.ctx.machine.has_masks:
            return Call(f"tc_load{step.constant}r_{name}", (at, low, high, outside), t)
        return Call(f"tc_loadr_{name}", (at, walk.operands.size(step), low, high, outside), t)

    def store(self, s: Statement, spot: Spot, value: Expr) -> None:
        """Store the lanes that count."""
        walk = self.walk
        place = place_of(walk.ctx, s.target, s.subs)
        assert place is not None, "subscripts are affine"
        at, _ = self._at(place, spot)
        stored = walk.operands.memory_dtype(s.target)
        t = value.type
        assert isinstance(t, Vector)
        name = vexpr.kind_of(t, stored)
        step = place.step(walk.stencil.lane.name)
        is_wide = stored.computed.bits > t.dtype.bits
        if is_wide or step != ONE:
            count: Expr = b.c64(walk.lanes)
            if self.base:
                _, count = self.ends(self.region(self.base, spot))
            if is_wide:
                self.level.stmts.append(b.do(f"tc_storew_{name}", at, count, value))
            elif step.constant == 2 and t.dtype.is_float:
                self.level.stmts.append(b.do(f"tc_store2_{name}", at, count, value))
            else:
                far = walk.operands.size(step)
                self.level.stmts.append(b.do(f"tc_storex_{name}", at, far, count, value))
        elif not self.base:
            self.level.stmts.append(b.do(f"tc_store_{name}", at, value))
        else:
            mask = self.mask(self.region(self.base, spot))
            self.level.stmts.append(b.do(f"tc_storet_{name}", at, mask, value))

    def store_by_turns(self, s: Statement, spot: Spot, value: Expr, behind: Expr) -> None:
        """Store lanes that alternate with those of another value, all of them."""
        place = place_of(self.walk.ctx, s.target, s.subs)
        assert place is not None, "subscripts are affine"
        at, _ = self._at(place, spot)
        t = value.type
        assert isinstance(t, Vector)
        name = vexpr.kind_of(t, self.walk.operands.memory_dtype(s.target))
        two = value, behind
        self.level.stmts.append(b.do(f"tc_zip2_{name}", at, b.c64(t.lanes), *two, *two))
