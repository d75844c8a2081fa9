"""State that turns of a loop overwrite, kept with a leading axis of turns.

    h(n) = X(0, n)                            h_all(0, n) = X(0, n)
    for t in 1:T {                     ->     for t in 1:T {
      h(n) = tanh(h(n) + X(t, n))               h_all(t, n) = tanh(h_all(t - 1, n) + X(t, n))
    }                                         }

Known to compilers as array expansion.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from tcdsl.codegen.gradient.order import Order, reads
from tcdsl.codegen.gradient.versions import index_names
from tcdsl.codegen.program import from_lowest, map_typed
from tcdsl.codegen.ssa import covers_box, identity_of
from tcdsl.grammar import typed
from tcdsl.grammar.dtypes import INT64
from tcdsl.grammar.errors import Diagnostic, Note, raise_one
from tcdsl.grammar.signs import is_nonnegative
from tcdsl.grammar.sizes import Size, maximum
from tcdsl.grammar.typed import CheckedDef, Expr, Range, Statement, Stmt, Tensor


def expanded(checked: CheckedDef) -> CheckedDef:
    """Return a definition that does the same, and whose loops overwrite nothing they read.

    Raises
    ------
    TCTypeError
        If turns of nested loops overwrite a tensor, or one of half precision.
    """
    while True:
        order = Order(checked)
        name = next(
            (n for n in order.written if not order.is_settled(n) and not order.is_straight(n)), None
        )
        if name is None:
            return checked
        checked = _Expansion(checked, order, name).result()


class _Expansion:
    """The expansion of one tensor in the first loop that overwrites it."""

    def __init__(self, checked: CheckedDef, order: Order, name: str) -> None:
        self.checked = checked
        self.tensor = order.tensors[name]
        place = next(p for p in order.written[name] if p.loops)
        self.loop = place.loops[0]
        inside = [p for p in order.all if p.loops and p.loops[0] is self.loop]
        mine = [p for p in inside if p.statement.target == name]
        if any(len(p.loops) > 1 for p in mine) or self.tensor.dtype.is_half:
            self._refuse(place.statement)
        self.used = {*order.tensors, *checked.sizes}
        self.used |= {r.name for p in order.all for r in p.statement.ranges}
        self.used |= {x.var for p in order.all for x in p.loops} | {checked.name}
        begun = [p for p in order.written[name] if p.at < inside[0].at]
        self.is_begun = bool(begun)
        self.first = order.written[name][0].statement
        self.mine = [p.statement for p in mine]
        self.reading = [p.statement for p in inside if any(r.tensor == name for r in reads(p))]

    def result(self) -> CheckedDef:
        """Return the definition with the turns of this tensor kept."""
        old, loop = self.tensor, self.loop
        low, high = loop.low, loop.high
        count = high - low
        turns = count if is_nonnegative(count) else maximum(Size.const(0), count)
        everything = Tensor(
            self._fresh(f"{old.name}_all"), old.dtype, (turns + 1, *old.shape),
            (Size.const(0), *old.low), "temp",
        )  # fmt: skip
        turn = Size.symbol(loop.var, signed=True) - low
        before: Expr = self._whole(old)
        if not self.is_begun:
            before = typed.Lit(identity_of(self.first.op, old.dtype), old.dtype)
        start = self._copy(everything, Size(), before)
        ended = self._whole(everything, turns)
        temps = [*self.checked.temps, everything]
        if self._is_direct():
            body = self._direct(everything, turn)
        else:
            one = replace(old, name=self._fresh(f"{old.name}_turn"), role="temp", is_updated=False)
            temps.append(one)
            inner = _renamed(loop.body, old.name, one.name)
            copy_in = self._copy(one, None, self._whole(everything, turn))
            body = (copy_in, *inner, self._copy(everything, turn + 1, self._whole(one)))
        after = self._copy(old, None, ended)
        new = (start, replace(loop, body=body), after)
        stmts = [y for x in self.checked.body for y in (new if x is loop else (x,))]
        return replace(self.checked, body=tuple(stmts), temps=tuple(temps))

    def _is_direct(self) -> bool:
        """Whether each turn sets the whole tensor by one statement."""
        if len(self.mine) != 1 or any(s not in self.loop.body for s in self.reading):
            return False
        (s,) = self.mine
        subs = tuple(from_lowest(e, low) for e, low in zip(s.subs, self.tensor.low, strict=True))
        is_anew = s.op == "=" or s.op.endswith("!")
        return is_anew and covers_box(subs, s.ranges, self.tensor.shape)

    def _direct(self, everything: Tensor, turn: Size) -> tuple[Stmt, ...]:
        body: list[Stmt] = []
        at = turn
        for s in self.loop.body:
            f = _reader(self.tensor.name, everything.name, at)
            if not isinstance(s, Statement):
                body.append(s)
                continue
            subs = tuple(map_typed(e, f) for e in s.subs)
            new = replace(s, subs=subs, value=map_typed(s.value, f))
            if s.target == self.tensor.name:
                at = turn + 1
                new = replace(
                    new, target=everything.name, subs=(typed.SizeValue(at, INT64), *new.subs),
                    subs_checked=(),
                )  # fmt: skip
            body.append(new)
        return tuple(body)

    # ---- pieces

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
        while name in self.used:
            name += "_"
        self.used.add(name)
        return name

    def _refuse(self, s: Statement) -> None:
        name, var = self.tensor.name, self.loop.var
        raise_one(
            Diagnostic(
                "TC142",
                f"turns of the loop over '{var}' overwrite '{name}', "
                "whose earlier values the gradient needs",
                s.span,
                "",
                (Note(f"give it a leading axis: {name}({var} + 1, ...) = ... {name}({var}, ...)"),),
            )
        )


def _reader(name: str, new: str, turn: Size) -> Callable[[Expr], Expr]:
    def one(e: Expr) -> Expr:
        if not isinstance(e, typed.Read) or e.tensor != name:
            return e
        return replace(e, tensor=new, subs=(typed.SizeValue(turn, INT64), *e.subs), checked=())

    return one


def _renamed(body: Sequence[Stmt], name: str, new: str) -> tuple[Stmt, ...]:
    """Return a body with another tensor in place of one."""

    def one(e: Expr) -> Expr:
        return replace(e, tensor=new) if isinstance(e, typed.Read) and e.tensor == name else e

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
            )
        )
    return tuple(out)
