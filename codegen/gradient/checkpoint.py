"""Loops in segments, so that the state is kept before every c-th turn only.

    for t in 0:T { body(t) }   ->   for segment in 0 : T / c {
                                      for turn in 0:c { body(c * segment + turn) }
                                    }
                                    for t in T / c * c : T { body(t) }

What a segment overwrites `expand.py` keeps within it, and before it the state. The gradient runs a
segment again, keeps its turns, and goes back through them: T / c + c states in place of T, for one
more forward pass. Known as checkpointing; the split of the loop as strip-mining.

Without sums the bits are those of the gradient without segments. The rest is a loop of its own:
bounds `min(c, T - c * s)` would be extents that change from turn to turn, which no fast form takes.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from tcdsl.codegen.gradient.order import Order, statements
from tcdsl.codegen.program.expressions import map_typed, with_bounds
from tcdsl.grammar.proofs.signs import is_nonnegative, maximum, substitute_symbols
from tcdsl.grammar.proofs.sizes import Size
from tcdsl.grammar.text.fresh import fresh
from tcdsl.grammar.types import typed
from tcdsl.grammar.types.typed import CheckedDef, Expr, Statement, Stmt, Tensor


def segmented(
    checked: CheckedDef, turns: int, still: Collection[str]
) -> tuple[CheckedDef, frozenset[str]]:
    """Return a definition with its outermost loops in segments, and the variables of those.

    Loops of which nothing is kept stay as they are, and those of no more turns than a segment has.

    Parameters
    ----------
    turns
        How many turns a segment has.
    still
        Tensors of loops that the gradient does not go back through.
    """
    maker = _Segments(checked, turns, still)
    body = tuple(y for x in checked.body for y in maker.split(x))
    temps = (*checked.temps, *maker.temps)
    return replace(checked, body=body, temps=temps), frozenset(maker.variables)


def turns_between(checked: CheckedDef, sizes: Mapping[str, int]) -> int:
    """Return how many turns a segment should have: the least power of two above the root of all.

    So few different ones serve all sizes, and a segment's states are about as many as segments.
    """
    loops = [x for x in checked.body if isinstance(x, typed.Loop)]
    most = max(((x.high - x.low).evaluate(sizes) for x in loops), default=0)
    turns = 1
    while turns * turns < most:
        turns *= 2
    return turns


class _Segments:
    def __init__(self, checked: CheckedDef, turns: int, still: Collection[str]) -> None:
        self.order = Order(checked)
        self.still = still
        self.turns = turns
        self.used = {*self.order.tensors, *checked.sizes, checked.name}
        self.used |= {r.name for p in self.order.all for r in p.statement.ranges}
        self.used |= {x.var for p in self.order.all for x in p.loops}
        self.temps: list[Tensor] = []
        self.variables: set[str] = set()

    def split(self, loop: Stmt) -> tuple[Stmt, ...]:
        """Return a statement as it is, a loop of which something is kept in segments."""
        if not isinstance(loop, typed.Loop):
            return (loop,)
        count = loop.high - loop.low
        if not is_nonnegative(count):
            count = maximum(Size.const(0), count)
        known = count.constant
        if (known is not None and known <= self.turns) or not self._keeps(loop):
            return (loop,)
        segment, turn = self._fresh("segment"), self._fresh("turn")
        self.variables.add(segment)
        first = loop.low + Size.symbol(segment, signed=True) * self.turns
        here = {loop.var: first + Size.symbol(turn, signed=True)}
        whole = Size.const(self.turns)
        body = _at(loop.body, here, {})
        inner = replace(loop, var=turn, low=Size(), high=whole, body=body)
        segments = count // self.turns
        outer = typed.Loop(segment, Size(), segments, (inner,))
        done = segments * self.turns
        if count == done:
            return (outer,)
        names: dict[str, str] = {}
        for name in self._private(loop):
            names[name] = self._fresh(f"{name}_rest")
            self.temps.append(replace(self.order.tensors[name], name=names[name]))
        rest = replace(loop, low=loop.low + done, body=_at(loop.body, {}, names))
        return outer, rest

    def _keeps(self, loop: typed.Loop) -> bool:
        """Whether the gradient keeps something of every turn: a state, or a sum."""
        written = {s.target for s, _ in statements(loop.body, ())}
        if written <= {*self.still}:
            return False
        if any(not self.order.is_settled(n) and not self.order.is_straight(n) for n in written):
            return True
        return any(
            s.target in self._private(loop) and any(r.kind == "reduction" for r in s.ranges)
            for s, _ in statements(loop.body, ())
        )

    def _private(self, loop: typed.Loop) -> list[str]:
        """Return the tensors that live in a turn."""
        written = dict.fromkeys(s.target for s, _ in statements(loop.body, ()))
        return [n for n in written if self.order.depth(n)]

    def _fresh(self, name: str) -> str:
        name = fresh(name, self.used)
        self.used.add(name)
        return name


def _at(
    body: Sequence[Stmt], turn: Mapping[str, Size], names: Mapping[str, str]
) -> tuple[Stmt, ...]:
    """Return a body with another turn in place of its loop's variable, and other tensors."""

    def one(e: Expr) -> Expr:
        match e:
            case typed.SizeValue(size):
                return replace(e, size=substitute_symbols(size, turn))
            case typed.Read(tensor):
                return replace(e, tensor=names.get(tensor, tensor))
            case _:
                return e

    out: list[Stmt] = []
    for s in body:
        if isinstance(s, Statement):
            ranges = tuple(
                replace(
                    r, low=substitute_symbols(r.low, turn), high=substitute_symbols(r.high, turn)
                )
                for r in with_bounds(s.ranges, lambda e: map_typed(e, one))
            )
            subs = tuple(map_typed(e, one) for e in s.subs)
            target, value = names.get(s.target, s.target), map_typed(s.value, one)
            out.append(replace(s, target=target, subs=subs, value=value, ranges=ranges))
        else:
            low, high = substitute_symbols(s.low, turn), substitute_symbols(s.high, turn)
            out.append(replace(s, low=low, high=high, body=_at(s.body, turn, names)))
    return tuple(out)
