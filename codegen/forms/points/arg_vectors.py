"""Arg reductions along a row in vector registers: each lane keeps its extreme and where it was.

    e0, e1, .. = -inf; p0, p1, .. = 0
    for blocks of n: at = n - low; x = X(b, n + lanes u ..); where x beats eu: eu = x, pu = at
    the vectors that are left: the same into e0; then the last one that ends where the row ends
    extreme = of all lanes; the place: the least pu + lanes u + lane of those that hold it

Several vectors a turn, so that their chains of comparisons overlap. The last vector may look at
points again, which changes no extreme and no first place. A lane whose points never beat -inf has
seen nothing else (or nothing), and its place is the first that it could have.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from tcdsl.codegen.forms.base import vexpr
from tcdsl.codegen.forms.base.context import Context
from tcdsl.codegen.forms.base.expr import Values
from tcdsl.codegen.forms.base.phase import nested
from tcdsl.codegen.forms.base.scalars import identity
from tcdsl.codegen.forms.points.arg import arg_reduction, place_of, result_of
from tcdsl.codegen.loops import build as b
from tcdsl.codegen.loops.loopir import (
    I64,
    Assign,
    Call,
    Expr,
    If,
    Let,
    Load,
    Mask,
    Scalar,
    Serial,
    Stmt,
    Var,
    Vector,
)
from tcdsl.codegen.loops.names import safe_name
from tcdsl.codegen.program.expressions import indices_of
from tcdsl.codegen.program.program import Statement
from tcdsl.grammar.text.dataclass import dataclass
from tcdsl.grammar.types import typed

CHAINS = 4  # vectors of extremes: a comparison and a choice take about as many cycles
_FEW, _MANY = 8, 32  # vectors of a row: for fewer, to join chains takes more than overlap gains
_COUNTS = (1, 2, 4, 8)  # to choose from, where lengths are known
_FEWER = 2  # of rows of less than many vectors; one of less than a few
_JOIN_NS, _LATENCY = 1.0, {1: 1.6, 2: 1.15}  # measured on Zen 3, rows of 17 to 1000
_MOST = 1 << 31  # positions that lanes of 32 bits hold


def in_vectors(ctx: Context, s: Statement) -> bool:
    """Whether the values of a row have a vector form, and its positions fit beside them."""
    bits = vexpr.width_of((s.value,))
    if bits is None or s.is_ragged or s.value.dtype.computed.bits != bits:
        return False
    if bits == 32 and ctx.is_exact() and _positions(ctx, s) >= _MOST:
        return False
    return vexpr.unsupported(s.value, _varies(s)) is None


def chain_counts(ctx: Context, s: Statement) -> tuple[int, ...]:
    """Return how many vectors of extremes there may be: a row of known length has as many."""
    most = max(1, _vectors(ctx, s))
    return tuple(sorted({*(n for n in _COUNTS if n <= most), default_chains(ctx, s)}))


def default_chains(ctx: Context, s: Statement) -> int:
    """Return how many vectors of extremes suit a row of known length."""
    lines = math.prod(max(1, ctx.extent(r.extent)) for r in s.reductions[:-1])
    along = _vectors(ctx, s)
    suited = 1 if lines * along < _FEW else _FEWER if lines * along < _MANY else CHAINS
    return max(1, min(suited, along))


def chains_ns(chains: int) -> tuple[float, float]:
    """Return what so many chains take a row beside four of them, and times as long a point."""
    return (chains - CHAINS) * _JOIN_NS, _LATENCY.get(chains, 1.0)


def _vectors(ctx: Context, s: Statement) -> int:
    lanes = vexpr.lanes_of(s.value.dtype.computed.bits, ctx.machine)
    return ctx.extent(s.reductions[-1].extent) // lanes


def exact_row(ctx: Context, s: Statement, chains: int) -> Stmt:
    """Return the search at one output point and the store of its result, of a known length."""
    return _Search(ctx, s, chains).whole()


def any_rows(ctx: Context, s: Statement, rows: Callable[[Stmt], Stmt]) -> Stmt:
    """Return the searches at all output points of a task, of rows of any length.

    rows: puts a search into the loop over rows, each length's into one of its own: what a row asks
        of its length takes registers that its search needs.
    """
    search, short, least = (_Search(ctx, s, count) for count in (CHAINS, _FEWER, 1))
    positions = b.mul(*(ctx.operands.size(r.extent) for r in s.reductions))
    is_short, is_least = (b.compare("<", positions, search.lanes * n) for n in (_MANY, _FEW))
    found = If(
        is_short, If(is_least, rows(least.whole()), rows(short.whole())), rows(search.whole())
    )
    if search.bits == 64:
        return found
    values = Values(ctx.operands, {r.name: b.i64(safe_name(r.name)) for r in s.ranges})
    one_by_one = arg_reduction(values, s, lambda x: nested(ctx, s.reductions, x, Serial()))
    return If(b.compare("<", positions, _MOST), found, rows(one_by_one))


def _positions(ctx: Context, s: Statement) -> int:
    most = 1
    for r in s.reductions:
        most *= max(1, ctx.extent(r.extent))
    return most


def _varies(s: Statement) -> Callable[[typed.Expr], bool]:
    name = s.reductions[-1].name
    return lambda leaf: name in indices_of(leaf)


@dataclass(frozen=True, slots=True)
class _Chain:
    """A vector of extremes, and one of the blocks where they were found."""

    extreme: Var
    block: Var


class _Search:
    """The search along one row, of at least one vector.

    chains: how many vectors of extremes.
    """

    def __init__(self, ctx: Context, s: Statement, chains: int) -> None:
        self.ctx = ctx
        self.ops = ctx.operands
        self.s = s
        self.along = s.reductions[-1]
        self.v = b.i64(safe_name(self.along.name))
        kept = s.value.dtype.computed
        self.bits = kept.bits
        self.lanes = vexpr.lanes_of(kept.bits, ctx.machine)
        self.values = Vector(kept, self.lanes)
        self.kind = vexpr.kind_of(self.values, kept)
        self.places = Vector(vexpr.integer_of(kept.bits), self.lanes)
        self.is_max = s.op.startswith("argmax")
        self._named = 0
        self.chains = [
            _Chain(
                Var(self.ops.local(f"extreme{u}"), self.values),
                Var(self.ops.local(f"block{u}"), self.places),
            )
            for u in range(chains)
        ]

    def whole(self) -> Stmt:
        """Return all of it."""
        least = identity("max=" if self.is_max else "min=", self.values.dtype)
        none = vexpr.splat(b.const(0, self.places.dtype), self.places)
        return b.block(
            [Let(c.extreme, vexpr.splat(least, self.values), mutable=True) for c in self.chains],
            [Let(c.block, none, mutable=True) for c in self.chains],
            nested(self.ctx, self.s.reductions[:-1], self._walk(), Serial()),
            self._compare(),
        )

    def _walk(self) -> Stmt:
        """Return the walk along the innermost reduction."""
        ops, lanes, turn = self.ops, self.lanes, self.lanes * len(self.chains)
        low, high, extent = (
            ops.size(x) for x in (self.along.low, self.along.high, self.along.extent)
        )
        whole = b.add(low, b.mul(b.div(extent, turn), turn))
        vectors = b.add(low, b.mul(b.div(extent, lanes), lanes))
        rest = b.loop(self.v, whole, vectors, self._turn(self.chains[:1]), step=lanes)
        last = b.block(Let(self.v, b.sub(high, lanes)), self._turn(self.chains[:1]))
        return b.block(
            b.loop(self.v, low, whole, self._turn(self.chains), step=turn),
            rest if len(self.chains) > 1 else None,
            b.when(b.compare("<", vectors, high), last),
        )

    def _turn(self, chains: list[_Chain]) -> Stmt:
        """Return what the vectors from `v` on change."""
        out: list[Stmt] = []
        values = Values(self.ops, {r.name: b.i64(safe_name(r.name)) for r in self.s.ranges})
        position = b.cast(place_of(values, self.s), Scalar(self.places.dtype))
        at = Var(self._name("at"), self.places)
        out.append(Let(at, vexpr.splat(position, self.places)))
        mask = Mask(vexpr.mask_dtype(self.bits), self.lanes)
        for u, chain in enumerate(chains):
            value = self._value(u * self.lanes, out)
            wins = Var(self._name("wins"), mask)
            name = "above" if self.is_max else "below"
            out.append(Let(wins, Call(f"tc_{name}_{self.kind}", (value, chain.extreme), mask)))
            for kept, new in ((chain.extreme, value), (chain.block, at)):
                assert isinstance(kept.type, Vector)
                out.append(Assign(kept, vexpr.vector_call("keep", kept.type, wins, new, kept)))
        return b.block(out)

    def _value(self, shift: int, out: list[Stmt]) -> Expr:
        """Return the values at lanes points from `v + shift` on."""
        index: dict[str, Expr] = {r.name: b.i64(safe_name(r.name)) for r in self.s.ranges}
        index[self.along.name] = b.add(self.v, shift)
        values = Values(self.ops, index, prefix=self._name("t"))

        def scalar(e: typed.Expr) -> Expr:
            value = values.value(e)
            out.extend(values.take())
            return value

        def read(e: typed.Read) -> Expr:
            place = values.place(e.tensor, e.subs, e.checked)
            out.extend(values.take())
            assert isinstance(place, Load)
            stored = self.ops.memory_dtype(e.tensor)
            t = Vector(stored.computed, self.lanes)
            at = b.offset(place.pointer, place.index)
            return Call(f"tc_load_{vexpr.kind_of(t, stored)}", (at,), t)

        def iota(e: typed.IndexValue) -> Expr:
            first = b.cast(index[e.name], Scalar(self.places.dtype))
            return vexpr.vector_call("iota", self.places, first)

        scope = vexpr.LaneScope(
            self.lanes, self.bits, _varies(self.s), scalar, read, iota, self._name, out
        )
        return scope.name(scope.vector(self.s.value), "x")

    def _name(self, stem: str) -> str:
        self._named += 1
        return self.ops.local(f"{stem}_{self._named}")

    def _compare(self) -> Stmt:
        """Return the store of the first place of the extreme of all lanes."""
        s, folded = self.s, "max" if self.is_max else "min"
        values = Values(self.ops, {r.name: b.i64(safe_name(r.name)) for r in s.ranges})
        target = values.place(s.target, s.subs, s.subs_checked)
        assert isinstance(target, Load)
        most: Expr = self.chains[0].extreme
        for c in self.chains[1:]:
            most = vexpr.vector_call(folded, self.values, most, c.extreme)
        extreme = b.var(self._name("most"), self.values.dtype)
        first: Expr | None = None
        for u, c in enumerate(self.chains):
            own = vexpr.vector_call("iota", self.places, b.const(u * self.lanes, self.places.dtype))
            place = b.arith("+", c.block, own)
            found = Call(f"tc_where_{self.kind}", (c.extreme, extreme, place), self.places)
            first = found if first is None else vexpr.vector_call("min", self.places, first, found)
        assert first is not None
        places = f"tc_hmin_{vexpr.kind_of(self.places, self.places.dtype)}"
        best = b.i64(self._name("best"))
        return b.block(
            values.take(),
            Let(extreme, Call(f"tc_h{folded}_{self.kind}", (most,), b.type_of(extreme))),
            Let(best, b.cast(Call(places, (first,), Scalar(self.places.dtype)), I64)),
            Assign(target, result_of(values, s, best)),
        )
