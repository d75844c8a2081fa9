"""What all points of a stencil's nest share: names, bounds, where memory begins."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from tcdsl.codegen.forms.base import vexpr
from tcdsl.codegen.forms.base.context import Context
from tcdsl.codegen.forms.stencil.near import reach_of
from tcdsl.codegen.forms.stencil.problem import Place, Stencil, asks_memory, is_woven, place_of
from tcdsl.codegen.loops import build as b
from tcdsl.codegen.loops.loopir import I64, Expr, Let, Pointer, Stmt, Var
from tcdsl.codegen.loops.names import numbered
from tcdsl.codegen.machine.cpu import LINE
from tcdsl.codegen.program.affine import Affine
from tcdsl.codegen.program.bounds import Bound
from tcdsl.grammar.proofs.signs import is_nonnegative
from tcdsl.grammar.proofs.sizes import Size
from tcdsl.grammar.text.dataclass import dataclass
from tcdsl.grammar.text.fresh import fresh
from tcdsl.grammar.types import typed
from tcdsl.grammar.types.dtypes import DType

Region = frozenset[Bound]  # lanes in which all of these hold


class Names:
    """Names of one function that are none of the program's."""

    def __init__(self, taken: frozenset[str]) -> None:
        self._taken = set(taken)

    @property
    def taken(self) -> frozenset[str]:
        """Those that are taken by now."""
        return frozenset(self._taken)

    def take(self, names: frozenset[str]) -> None:
        """Have names taken."""
        self._taken |= names

    def fresh(self, stem: str) -> str:
        """Return an unused name that starts with stem."""
        return numbered(stem, self._taken)

    def alone(self, stem: str) -> str:
        """Return stem, or with something behind it where it is taken."""
        name = fresh(stem, frozenset(self._taken))
        self._taken.add(name)
        return name


@dataclass
class Level:
    """Statements of a loop's body, and what they have computed.

    rows: the last pointer to rows of an operand, and how far it is from their first one.
    """

    stmts: list[Stmt] = field(default_factory=list)
    known: dict[object, Expr] = field(default_factory=dict)
    rows: dict[object, tuple[Expr, Size]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Spot:
    """lanes points: values of taps, and how far indices are from their variables."""

    taps: Mapping[str, int]
    shift: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class WalkState:
    """What statements that were lowered have left behind in a walk: names, what stands before."""

    names: frozenset[str]
    unit: tuple[Stmt, ...]
    rooms: tuple[tuple[str, tuple[Expr, Expr]], ...]


@dataclass(frozen=True, slots=True)
class Framing:
    """A read whose elements lie in the workspace: its place there, from where pointer shows to."""

    read: typed.Read
    place: Place
    pointer: Var
    dtype: DType


class Walk:
    """What all points of a nest share: how memory is reached, what is computed before loops.

    Parameters
    ----------
    ctx, stencil
        The group.
    index
        The variables of the output indices.
    names
        Of the function, where other nests have some of them.
    most
        How far the furthest point of a block is from the indices' variables, at most.
    """

    def __init__(
        self,
        ctx: Context,
        stencil: Stencil,
        index: Mapping[str, Var],
        names: Names | None = None,
        most: Mapping[str, int] | None = None,
    ) -> None:
        self.ctx = ctx
        self.stencil = stencil
        self.index = index
        self.operands = ctx.operands
        self.names = names or Names(ctx.operands.taken)
        self.lanes = vexpr.lanes_of(stencil.bits, ctx.machine)
        self.unit = Level()  # of a task's part: one value of each outer index
        self.is_woven = is_woven(ctx, stencil)
        self.asks_memory = asks_memory(ctx, stencil)
        self.most = dict(most or {})
        self.rooms: dict[str, tuple[Expr, Expr]] = {}  # by tensor: where it begins, its bytes
        self.framing: Framing | None = None

    @property
    def state(self) -> WalkState:
        """What has been left behind so far."""
        return WalkState(self.names.taken, tuple(self.unit.stmts), tuple(self.rooms.items()))

    @state.setter
    def state(self, state: WalkState) -> None:
        self.names.take(state.names)
        self.unit.stmts[:] = state.unit
        self.rooms = dict(state.rooms)

    # ---- bounds

    def value(self, bound: Bound) -> Expr:
        """Return the number that is not negative where a bound holds, at the variables."""
        terms = [b.mul(self.index[n], k) for n, k in bound.terms]
        return b.add(*terms, self.operands.size(bound.const))

    def holds(self, bound: Bound) -> Expr:
        """Return whether a bound holds at the variables."""
        return b.compare(">=", self.value(bound), 0)

    def asked(self, bounds: Region, taps: Mapping[str, int]) -> Region:
        """Return the bounds that do not hold at all points.

        All of them where masks cost no more than a load.
        """
        if self.ctx.machine.has_masks:
            return bounds
        return frozenset(x for x in bounds if not self._always(x.moved({}, taps)))

    def _always(self, bound: Bound) -> bool:
        """Whether a bound holds at all points."""
        ranges = {r.name: r for r in self.stencil.statement.outputs}
        if not {n for n, _ in bound.terms} <= {*ranges}:
            return False
        least, _ = Affine(bound.terms, bound.const).ends(ranges)
        return is_nonnegative(self.ctx.bind(least))

    def ends(self, bound: Bound, name: str) -> tuple[Expr | None, Expr | None]:
        """Return the least value of an index for which a bound holds, and the first too large."""
        k = bound.coefficient(name)
        rest = self.value(Bound(tuple(t for t in bound.terms if t[0] != name), bound.const))
        if abs(k) != 1:
            rest = _floor_div(rest, abs(k))
        return (b.sub(0, rest), None) if k > 0 else (None, b.add(rest, 1))

    def lanes_within(self, region: Region) -> tuple[Expr | None, Expr | None]:
        """Return the ends of the lanes for which all bounds of a region hold that tell lanes apart.

        What is the same in all of a unit is found once.
        """
        lane = self.stencil.lane.name
        same = {lane, *(r.name for r in self.stencil.outer)}
        found: list[Expr | None] = [None, None]
        for x in sorted((x for x in region if x.coefficient(lane)), key=str):
            is_same = {n for n, _ in x.terms} <= same
            for n, end in enumerate(self.ends(x, lane)):
                if end is not None:
                    held = self._held(("end", x, n), end) if is_same else end
                    before = found[n]
                    join = b.min64 if n else b.max64
                    found[n] = held if before is None else join(before, held)
        return found[0], found[1]

    def _held(self, key: object, value: Expr) -> Expr:
        if b.value_of(value) is not None:
            return value
        if key not in self.unit.known:
            var = Var(self.names.fresh("end"), I64)
            self.unit.stmts.append(Let(var, value))
            self.unit.known[key] = var
        return self.unit.known[key]

    # ---- memory

    def place(self, read: typed.Read) -> Place:
        """Return the address of a read's elements."""
        if self.framing is not None and read == self.framing.read:
            return self.framing.place
        found = place_of(self.ctx, read.tensor, read.subs)
        assert found is not None, "subscripts are affine"
        return found

    def stored(self, place: Place) -> DType:
        """Return the type of elements in memory."""
        if self.framing is not None and place == self.framing.place:
            return self.framing.dtype
        return self.operands.memory_dtype(place.tensor)

    def pointer(self, place: Place) -> Var:
        """Return where a tensor's elements begin for the outer indices: declared once a unit."""
        if self.framing is not None and place == self.framing.place:
            return self.framing.pointer
        inner = {self.stencil.lane.name, *(t for t, _ in self.stencil.taps)}
        if self.stencil.row is not None:
            inner.add(self.stencil.row.name)
        fixed = tuple(t for t in place.terms if t[0] not in inner)
        key = (place.tensor, fixed)
        base = self.operands.pointer(place.tensor)
        if not fixed:
            return base
        if key not in self.unit.known:
            assert isinstance(base.type, Pointer)
            kind = Pointer(base.type.dtype, const=base.type.const)
            at = b.add(*(b.mul(self.index[n], self.operands.size(step)) for n, step in fixed))
            p = Var(self.names.fresh(f"{base.name}_at"), kind)
            self.unit.stmts.append(Let(p, b.offset(base, at)))
            self.unit.known[key] = p
        found = self.unit.known[key]
        assert isinstance(found, Var)
        return found

    def room(self, place: Place) -> Expr:
        """Return where in the workspace a copy of what a block reads of a tensor goes."""
        if place.tensor not in self.rooms:
            reach = reach_of(self.ctx, self.stencil, place, self.index, self.most, self.lanes)
            size = self.operands.memory_dtype(place.tensor).size_bytes
            whole = b.round_up(b.mul(reach.span, size), LINE)
            self.rooms[place.tensor] = self.workspace(), whole
        return b.offset(b.WORKSPACE, self.rooms[place.tensor][0])

    def workspace(self) -> Expr:
        """Return the bytes of all copies."""
        return b.add(*(x for _, x in self.rooms.values())) if self.rooms else b.c64(0)


def _floor_div(e: Expr, by: int) -> Expr:
    known = b.value_of(e)
    if known is not None:
        return b.c64(known // by)
    return b.call("tc_div_i64", e, by, type=I64)
