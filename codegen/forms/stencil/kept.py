"""What a window leaves at lanes points: sums and extremes in registers, and places of extremes.

wins = !(value <= best) && best == best     the first of equals, and the first NaN over everything
place = wins ? tap : place;  best = max(value, best)
"""

from __future__ import annotations

from collections.abc import Mapping

from tcdsl.codegen.forms.base import vexpr
from tcdsl.codegen.forms.base.combine import combined, operator
from tcdsl.codegen.forms.base.scalars import identity
from tcdsl.codegen.forms.stencil.block import Block
from tcdsl.codegen.forms.stencil.lanes import scope_at
from tcdsl.codegen.forms.stencil.problem import Stencil, numbers_of
from tcdsl.codegen.forms.stencil.walk import Spot
from tcdsl.codegen.loops import build as b
from tcdsl.codegen.loops.loopir import Assign, Bin, Const, Expr, Let, Un, Var, Vector
from tcdsl.codegen.program.program import Statement
from tcdsl.grammar.types import typed


def leader(s: Stencil, arg: Statement) -> Statement | None:
    """Return the extreme among the windows whose place an arg reduction looks for, if any."""
    op = arg.op.removeprefix("arg")
    for x in s.windows:
        if x.op.rstrip("!") == op.rstrip("!") and not x.resumes and x.value == arg.value:
            return x
    return None


def registers_of(s: Stencil) -> int:
    """Return how many registers a window keeps for lanes points."""
    return sum(1 + (x.is_arg and leader(s, x) is None) for x in s.windows)


def _in_order(value: Var) -> Expr:
    assert isinstance(value.type, Vector)
    return vexpr.vector_call("unwoven", value.type, value)


class Kept:
    """The registers of lanes points, and how a tap changes them.

    Parameters
    ----------
    stencil
        Whose windows.
    block
        Where the points are computed: it receives declarations and changes.
    shift
        How far the points are from the variables.
    """

    def __init__(self, stencil: Stencil, block: Block, shift: Mapping[str, int]) -> None:
        self._stencil = stencil
        self._block = block
        self._shift = shift
        self._best: dict[str, Var] = {}  # by target: sums, extremes, what is only assigned
        self._places: dict[str, Var] = {}
        self._wins: dict[str, Var] = {}  # of the tap at hand: the lanes that it takes
        self._leaders = {s.target: leader(stencil, s) for s in stencil.windows if s.is_arg}
        for s in stencil.windows:
            if s.op not in ("=", "=!") and not s.is_arg:
                self._best[s.target] = self._let("acc", self._first(s))

    def given(self) -> dict[str, Expr]:
        """Return what the windows give, by target."""
        found = {**self._best, **self._places}
        if not self._block.walk.is_woven:
            return {**found}
        return {name: self._let("v", _in_order(value)) for name, value in found.items()}

    def take(self, tap: Mapping[str, int]) -> None:
        """Combine with the value at a tap; the taps come in the order of the text."""
        number = numbers_of(self._block.walk.ctx).of  # a hash would walk all of a value, each tap
        values: dict[int, Expr] = {}
        for s in self._stencil.windows:
            if number(s.value) not in values:
                scope = scope_at(self._block, Spot(tap, self._shift), s, {})
                value = scope.vector(s.value)
                is_used_again = s.is_arg or self._leads(s)
                values[number(s.value)] = scope.name(value) if is_used_again else value
        for s in self._stencil.windows:
            if s.is_arg:
                self._search(s, tap, values[number(s.value)])
        for s in self._stencil.windows:
            self._combine(s, values[number(s.value)])

    def _leads(self, s: Statement) -> bool:
        return any(x is s for x in self._leaders.values())

    def _combine(self, s: Statement, value: Expr) -> None:
        if s.op in ("=", "=!"):
            self._best[s.target] = self._let("v", value)
        elif s.is_arg and self._leaders[s.target] is not None:
            pass  # another window keeps the extreme
        elif s.target in self._best:
            best = self._best[s.target]
            op = operator(s.op).removeprefix("arg")
            wins = self._wins.pop(s.target, None)
            kept = combined(op, value, best)
            if wins is not None:  # which is a choice then, where a maximum of NaN takes three steps
                assert isinstance(best.type, Vector)
                kept = vexpr.vector_call("select", best.type, wins, value, best)
            self._block.level.stmts.append(Assign(best, kept))
        else:
            self._best[s.target] = self._let("best", value)

    def _search(self, s: Statement, tap: Mapping[str, int], value: Expr) -> None:
        """Keep the tap as the place where its value beats the extreme before it."""
        walk, out = self._block.walk, self._block.level.stmts
        t = Vector(vexpr.integer_of(walk.stencil.bits), walk.lanes)
        here = Const(self._number(s, tap), t)
        if s.target not in self._places:
            self._places[s.target] = self._let("place", here)
            return
        place = self._places[s.target]
        lead = self._leaders[s.target]
        best = self._best[s.target if lead is None else lead.target]
        is_max = s.op.startswith("argmax")
        assert isinstance(value.type, Vector)
        if value.type.dtype.is_float:
            loses = Bin("<=" if is_max else ">=", value, best, t)
            wins: Expr = Bin("&", Un("~", loses, t), Bin("==", best, best, t), t)
        else:
            wins = Bin(">" if is_max else "<", value, best, t)
        if not walk.ctx.machine.has_masks:
            wins = self._let("v", wins)
            self._wins[s.target if lead is None else lead.target] = wins
        out.append(Assign(place, vexpr.vector_call("select", t, wins, here, place)))

    def _number(self, s: Statement, tap: Mapping[str, int]) -> int:
        """Return the place that a tap is: the index itself, or its position in their box."""
        names = [r.name for r in s.reductions]
        if len(names) == 1:
            return tap[names[0]]
        found = 0
        for name, values in self._stencil.taps:
            found = found * len(values) + tap[name] - values.start
        return found

    def _first(self, s: Statement) -> Expr:
        """Return what is combined with the first tap: what was there, or the identity."""
        ctx = self._block.walk.ctx
        if s.resumes and s.base is not None:
            dtype = ctx.operands.buffer(s.base).dtype
            before = typed.Read(s.base, s.subs, dtype, tuple(False for _ in s.subs))
            return scope_at(self._block, Spot({}, self._shift), s, {}).vector(before)
        dtype = ctx.operands.buffer(s.target).dtype
        neutral = identity(s.op, dtype)
        assert isinstance(neutral, Const)
        return Const(neutral.value, Vector(dtype.computed, self._block.walk.lanes))

    def _let(self, stem: str, value: Expr) -> Var:
        var = Var(self._block.walk.names.fresh(stem), b.type_of(value))
        self._block.level.stmts.append(Let(var, value, mutable=stem != "v"))
        return var
