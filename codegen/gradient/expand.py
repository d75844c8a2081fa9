"""State that turns of a loop overwrite, kept with a leading axis of turns.

    h(n) = X(0, n)                            h_all(0, n) = X(0, n)
    for t in 1:T {                     ->     for t in 1:T {
      h(n) = tanh(h(n) + X(t, n))               h_all(t, n) = tanh(h_all(t - 1, n) + X(t, n))
    }                                         }

Known to compilers as array expansion. A half state rounds in every turn, as in the definition.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from functools import partial

from tcdsl.codegen.gradient.lines import to_read
from tcdsl.codegen.gradient.order import Order, Placed, reads
from tcdsl.codegen.gradient.versions import index_names
from tcdsl.codegen.program.expressions import map_typed, with_bounds
from tcdsl.codegen.program.ssa import identity_of, writes_all
from tcdsl.grammar.proofs.signs import is_nonnegative, maximum
from tcdsl.grammar.proofs.sizes import Size
from tcdsl.grammar.text.fresh import counted
from tcdsl.grammar.text.nodes import starts_anew
from tcdsl.grammar.types import typed
from tcdsl.grammar.types.dtypes import FLOAT32, INT64
from tcdsl.grammar.types.typed import CheckedDef, Expr, Range, Statement, Stmt, Tensor


def expanded(
    checked: CheckedDef, again: Collection[str] = (), still: Collection[str] = ()
) -> tuple[CheckedDef, frozenset[str]]:
    """Return a definition that does the same, and the tensors that its loops still overwrite.

    Expanded is what each turn writes whole: of anything else, or where the number of turns depends
    on loops around, a state per turn is more than what turns overwrite. In nested loops the
    innermost comes first: what it keeps is made anew in each turn around it, and what it leaves is
    the state that those turns overwrite.

    Parameters
    ----------
    again
        The variables of loops whose turns run again: of those only the state before each is kept.
    still
        Tensors of loops that the gradient does not go back through: they stay as they are.
    """
    in_place: set[str] = set()
    while True:
        found = _expanded(checked, again, in_place, still)
        if found is not None:
            return found, frozenset(in_place)


def _expanded(
    checked: CheckedDef, again: Collection[str], in_place: set[str], still: Collection[str]
) -> CheckedDef | None:
    """Return a definition with what can be expanded; None where a tensor turned out not to be.

    That one is then in place.
    """
    made: dict[str, str] = {}  # what is kept of a tensor of the definition
    while True:
        order = Order(checked)
        name = next(
            (
                n
                for n in order.written
                if n not in in_place
                and n not in still
                and not order.is_settled(n)
                and not order.is_straight(n)
            ),
            None,
        )
        if name is None:
            return checked
        expansion = None if name in made else _Expansion(checked, order, name, again)
        if expansion is None or not expansion.is_whole():
            while name in made:
                name = made[name]
            in_place.add(name)
            if made:
                return None
            continue
        checked = expansion.result()
        made |= dict.fromkeys(expansion.names, name)


class _Expansion:
    """The expansion of one tensor in the innermost loop that overwrites it."""

    def __init__(
        self, checked: CheckedDef, order: Order, name: str, again: Collection[str]
    ) -> None:
        self.checked = checked
        self.tensor = order.tensors[name]
        self.place = max(order.written[name], key=lambda p: len(p.loops))
        self.outermost, self.loop = self.place.loops[0], self.place.loops[-1]
        inside = [p for p in order.all if _is_in(p, self.loop)]
        self.used = {*order.tensors, *checked.sizes, checked.name}
        self.used |= {r.name for p in order.all for r in p.statement.ranges}
        self.used |= {x.var for p in order.all for x in p.loops}
        outside = [p for p in order.all if not _is_in(p, self.outermost)]
        self.is_begun = any(p.at < inside[0].at for p in outside if p.statement.target == name)
        self.first = order.written[name][0].statement
        self.mine = [p.statement for p in inside if p.statement.target == name]
        suffix = "kept" if self.loop.var in again else "all"
        count = self.loop.high - self.loop.low
        self.turns = count if is_nonnegative(count) else maximum(Size.const(0), count)
        shape, low = (self.turns + 1, *self.tensor.shape), (Size(), *self.tensor.low)
        self.names: list[str] = []
        kept = self._fresh(f"{name}_{suffix}")
        self.everything = Tensor(kept, self.tensor.dtype, shape, low, "temp")
        self.reading = [p.statement for p in inside if any(r.tensor == name for r in reads(p))]

    def is_whole(self) -> bool:
        """Whether turns write all of the tensor, and there are as many of them always."""
        around = {x.var for x in self.place.loops[:-1]}
        if not around.isdisjoint(self.turns.symbols()):
            return False
        return any(writes_all(s, self.tensor) for s in self.mine)

    def result(self) -> CheckedDef:
        """Return the definition with the turns of this tensor kept."""
        old, loop, everything, turns = self.tensor, self.loop, self.everything, self.turns
        turn = Size.symbol(loop.var, signed=True) - loop.low
        begin: tuple[Stmt, ...] = ()
        before = self._rounded(old)
        if not self.is_begun:
            held = old.dtype.computed
            zero: Expr = typed.Lit(identity_of(self.first.op, held), held)
            zero = typed.Cast(zero, old.dtype) if old.dtype.is_half else zero
            if loop is self.outermost:
                before = zero
            else:
                begin = (self._copy(old, None, zero),)
        start = self._copy(everything, Size(), before)
        ended = self._rounded(everything, turns)
        temps = [*self.checked.temps, everything]
        if self._is_direct():
            body = self._direct(everything, turn)
        else:
            one = replace(old, name=self._fresh(f"{old.name}_turn"), role="temp", is_updated=False)
            temps.append(one)
            inner = self._rounding(_renamed(loop.body, old.name, one.name), one)
            copy_in = self._copy(one, None, self._rounded(everything, turn))
            body = (copy_in, *inner, self._copy(everything, turn + 1, self._rounded(one)))
        after = self._copy(old, None, ended)
        new = (start, replace(loop, body=body), after)
        stmts = _replaced(self.checked.body, loop, new)
        if begin:
            at = next(i for i, x in enumerate(self.checked.body) if x is self.outermost)
            stmts = (*stmts[:at], *begin, *stmts[at:])
        return replace(self.checked, body=stmts, temps=tuple(temps))

    def _is_direct(self) -> bool:
        """Whether each turn sets the whole tensor by one statement."""
        if len(self.mine) != 1 or any(s not in self.loop.body for s in self.reading):
            return False
        (s,) = self.mine
        return starts_anew(s.op) and writes_all(s, self.tensor)

    def _direct(self, everything: Tensor, turn: Size) -> tuple[Stmt, ...]:
        body: list[Stmt] = []
        at = turn
        for s in self.loop.body:
            f = _reader(self.tensor.name, everything.name, at)
            if not isinstance(s, Statement):
                body.append(s)
                continue
            subs = tuple(map_typed(e, f) for e in s.subs)
            ranges = with_bounds(s.ranges, partial(_mapped, f))
            new = replace(s, subs=subs, value=map_typed(s.value, f), ranges=ranges)
            if s.target == self.tensor.name:
                at = turn + 1
                new = replace(
                    new, target=everything.name, subs=(typed.SizeValue(at, INT64), *new.subs),
                    subs_checked=(),
                )  # fmt: skip
            body.append(new)
        return tuple(body)

    def _rounding(self, body: Sequence[Stmt], one: Tensor) -> tuple[Stmt, ...]:
        """Return a body in which a half rounds where the definition does: its sums are float32."""
        if not one.dtype.is_half:
            return tuple(body)
        out: list[Stmt] = []
        for s in body:
            if isinstance(s, typed.Loop):
                out.append(replace(s, body=self._rounding(s.body, one)))
                continue
            out.append(s)
            if s.target == one.name and s.op != "=":
                out.append(self._copy(one, None, self._rounded(one)))
        return tuple(out)

    # ---- pieces

    def _rounded(self, t: Tensor, turn: Size | None = None) -> Expr:
        """Return a whole tensor as a value of its type; a half as one that was rounded."""
        whole = self._whole(t, turn)
        return typed.Cast(typed.Cast(whole, FLOAT32), t.dtype) if t.dtype.is_half else whole

    def _whole(self, t: Tensor, turn: Size | None = None) -> Expr:
        names = [r.name for r in self._ranges()]
        at: tuple[Expr, ...] = tuple(typed.IndexValue(n, INT64) for n in names)
        if turn is not None:
            at = (typed.SizeValue(turn, INT64), *at)
        return typed.Read(t.name, at, t.dtype)

    def _ranges(self) -> tuple[Range, ...]:
        t = self.tensor
        names = index_names(len(t.shape), frozenset(self.used))
        return tuple(
            Range(n, low, low + extent, "output")
            for n, low, extent in zip(names, t.low, t.shape, strict=True)
        )

    def _copy(self, target: Tensor, turn: Size | None, value: Expr) -> Statement:
        whole = self._whole(target, turn)
        assert isinstance(whole, typed.Read)
        return Statement(target.name, whole.subs, "=", value, self._ranges())

    def _fresh(self, name: str) -> str:
        candidate = counted(name, self.used)
        self.used.add(candidate)
        self.names.append(candidate)
        return candidate


def _is_in(p: Placed, loop: typed.Loop) -> bool:
    return any(x is loop for x in p.loops)


def _replaced(body: Sequence[Stmt], loop: typed.Loop, new: Sequence[Stmt]) -> tuple[Stmt, ...]:
    """Return a body with statements in place of a loop."""
    out: list[Stmt] = []
    for s in body:
        if s is loop:
            out += new
        elif isinstance(s, typed.Loop):
            out.append(replace(s, body=_replaced(s.body, loop, new)))
        else:
            out.append(s)
    return tuple(out)


def _reader(name: str, new: str, turn: Size) -> Callable[[Expr], Expr]:
    def one(e: Expr) -> Expr:
        if not isinstance(e, typed.Read) or e.tensor != name:
            return e
        return replace(e, tensor=new, subs=(typed.SizeValue(turn, INT64), *e.subs), checked=())

    return one


def _mapped(f: Callable[[Expr], Expr], e: Expr) -> Expr:
    return map_typed(e, f)


def _renamed(body: Sequence[Stmt], name: str, new: str) -> tuple[Stmt, ...]:
    """Return a body with another tensor in place of one."""
    one = to_read(new, instead_of=name)
    out: list[Stmt] = []
    for s in body:
        if isinstance(s, typed.Loop):
            out.append(replace(s, body=_renamed(s.body, name, new)))
            continue
        target = new if s.target == name else s.target
        out.append(
            replace(
                s,
                target=target,
                subs=tuple(map_typed(e, one) for e in s.subs),
                value=map_typed(s.value, one),
                ranges=with_bounds(s.ranges, lambda e: map_typed(e, one)),
            )
        )
    return tuple(out)
