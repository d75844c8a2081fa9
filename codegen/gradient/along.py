"""The tangent of every tensor, statement by statement forwards.

What a statement reads has a tangent already; what it writes gets one, by a statement that stands
before it where it reads what is overwritten, or behind it where it reads what is stored
(`t_Y(i) = t_X(i) * (1 - Y(i) * Y(i))`). A sum of products has a sum for each factor, so that each
is a contraction. An extreme has the tangent of its first point, a product that of each factor times
the others, by the same lines as the way back.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from tcdsl.codegen.gradient import build as g
from tcdsl.codegen.gradient.combine import (
    computed,
    first_extreme,
    has,
    is_one_to_one,
    other_factors,
    product,
)
from tcdsl.codegen.gradient.known import is_trivial, with_known
from tcdsl.codegen.gradient.lines import Line, Loop, Part
from tcdsl.codegen.gradient.order import Order, Placed, misses
from tcdsl.codegen.gradient.push import joined, push
from tcdsl.codegen.gradient.shadows import is_hiding
from tcdsl.codegen.gradient.versions import STARTING, Version, Versions, VersionStep, apart
from tcdsl.codegen.program.expressions import (
    all_from_lowest,
    map_typed,
    reads_of,
    substitute_indices,
    with_bounds,
)
from tcdsl.codegen.program.ssa import covers_box, identity_of
from tcdsl.grammar.text.fresh import counted
from tcdsl.grammar.text.nodes import AssignOp, starts_anew
from tcdsl.grammar.types import typed
from tcdsl.grammar.types.typed import CheckedDef, Expr, Range, Tensor


class Along:
    """Lines of a Jacobian-vector product in the making, all tensors counted from 0.

    Attributes
    ----------
    order : Order
        What the definition writes and reads where.
    values : dict
        All tensors by name: those of the definition, tangents, and what else lines need.
    tangents, active : dict
        What the tangent of a tensor is called; of those that are not 0 everywhere.
    """

    def __init__(
        self,
        checked: CheckedDef,
        inputs: Sequence[Tensor],
        filled: Collection[str] = (),
        written: Mapping[str, str] | None = None,  # what the text calls tensors with new names
    ) -> None:
        self.filled = filled  # tensors whose box only a statement over all of it gives
        order = self.order = Order(checked)
        self.tensors = order.tensors
        self.values = {
            t.name: Version(t.name, t.name, t.dtype, t.shape) for t in self.tensors.values()
        }
        self.taken = {*self.tensors, *checked.sizes, checked.name}
        self.taken |= {x.var for p in order.all for x in p.loops}
        self.indices = {r.name for p in order.all for r in p.statement.ranges}
        self.name = self.fresh(f"j_{checked.name}")
        self.products: dict[VersionStep, typed.Read] = {}
        self.compared: set[str] = set()  # all that is compared is computed here
        self.searches: dict[str, VersionStep] = {}
        self.begun: set[str] = set()
        self.before: list[Part] = []  # what begins tensors of a loop, to stand in front of it
        self.around: tuple[typed.Loop, ...] = ()
        self.tangents: dict[str, str] = {}
        active = order.depending(t.name for t in inputs)
        for name in self.tensors:
            tensor = self.tensors[name]
            if name in active or (tensor.role == "return" and tensor.dtype.is_float):
                self.tangents[name] = self.fresh(f"t_{(written or {}).get(name, name)}")
                self.values[self.tangents[name]] = replace(
                    self.values[name], name=self.tangents[name], tensor=name
                )
        self.active = {n: t for n, t in self.tangents.items() if n in active}
        self.versions = Versions(
            (), self.values, {}, frozenset({*self.taken, *self.values}), frozenset()
        )

    def fresh(self, name: str) -> str:
        """Return a name like this one that nothing else has."""
        candidate = counted(name, self.taken, self.indices)
        self.taken.add(candidate)
        return candidate

    def box(self, version: str) -> tuple[Range, ...]:
        """Return indices over the whole of a tensor."""
        return self.versions.box(version)

    def at(self, version: str) -> tuple[Expr, ...]:
        """Return the subscripts of `box`."""
        return self.versions.at(version)

    def makers(self, name: str) -> Sequence[Expr]:
        """Return what may be computed again where a tensor is read; nothing of one in memory."""
        found = (p.statement for p in self.order.written.get(name, ()))
        return [s.value for s in found if s.op == "="]

    # ---- statements

    def block(self, body: Sequence[typed.Stmt]) -> list[Part]:
        """Return the lines of a body."""
        out: list[Part] = []
        for s in body:
            if isinstance(s, typed.Loop):
                self.around = (*self.around, s)
                loop = Loop(s.var, s.low, s.high, tuple(self.block(s.body)))
                self.around = self.around[:-1]
                if not self.around:
                    out += self.before
                    self.before = []
                out.append(loop)
            else:
                out += self.statement(self._step(s))
        return out

    def _step(self, s: typed.Statement) -> VersionStep:
        """Return a statement with all tensors counted from 0."""

        def one(x: Expr) -> Expr:
            if not isinstance(x, typed.Read):
                return x
            subs = all_from_lowest(x.subs, self.tensors[x.tensor].low)
            return replace(x, subs=subs, checked=())

        t = self.tensors[s.target]
        subs = all_from_lowest([map_typed(e, one) for e in s.subs], t.low)
        covers = covers_box(subs, s.ranges, t.shape)
        base = None if starts_anew(s.op) else s.target
        ranges = with_bounds(s.ranges, lambda e: map_typed(e, one))
        step = VersionStep(s.target, base, subs, s.op, map_typed(s.value, one), ranges, covers)
        return apart(
            step,
            lambda n: is_hiding(n) or n in self.values,
            lambda n: n in self.taken or n in self.indices,
        )

    def statement(self, s: VersionStep) -> list[Part]:
        """Return the lines of a statement: its own, and those that give its target's tangent."""
        begin, s = self._begun(s)
        if s.target not in self.active:
            return [*begin, _own(s)]
        terms = push(s.value, self.active)
        match s.op.rstrip("!"):
            case "=":
                return begin + self._assigned(s, joined(terms))
            case "+=":
                return begin + self._summed(s, terms)
            case "*=":
                return begin + self._multiplied(s, joined(terms))
            case _:
                return begin + self._extreme(s, joined(terms))

    def _begun(self, s: VersionStep) -> tuple[list[Part], VersionStep]:
        """Return a statement that begins its target or goes on from it, behind what it needs.

        A return that a call would add to begins as the operator's identity.
        """
        if s.target in self.begun:
            return [], s
        self.begun.add(s.target)
        is_anew = starts_anew(s.op)
        is_scatter = any(r.bounds is not None and r.kind == "output" for r in s.ranges)
        if s.target in self.filled or is_scatter or (self.around and not is_anew):
            op: AssignOp = "=" if s.op.startswith("arg") else s.op
            begin: list[Part] = [self.whole(s.target, self._identity(s.target, op))]
            if s.target in self.active:
                begin.append(self.whole(self.active[s.target], self.zero(s.target)))
            if not self.around:
                return begin, s
            self.before += begin
            return [], s
        return [], s if is_anew else replace(s, op=STARTING[s.op], base=None)

    def _identity(self, name: str, op: AssignOp) -> Expr:
        dtype = self.values[name].dtype
        lit = typed.Lit(identity_of(op, dtype.computed), dtype.computed)
        return typed.Cast(lit, dtype) if dtype.is_half else lit

    def whole(self, name: str, value: Expr) -> Line:
        """Return the line that sets all of a tensor."""
        return Line(name, self.at(name), "=", value, self.box(name))

    def zero(self, name: str) -> Expr:
        """Return 0 of a tensor's type."""
        return self._identity(name, "+=")

    # ---- tangents

    def _tangent(
        self, s: VersionStep, op: AssignOp, value: Expr, ranges: Sequence[Range] | None = None
    ) -> Line:
        """Return the line that puts a value into the tangent of what a statement writes."""
        its = s.ranges if ranges is None else tuple(ranges)
        return Line(self.tangents[s.target], s.subs, op, value, its)

    def _constant(self, s: VersionStep, op: AssignOp) -> Line:
        """Return the line of a statement whose value has no tangent."""
        zero = g.number(0, s.value.dtype)
        outputs = [r for r in s.ranges if r.kind == "output"]
        return self._tangent(s, op, self.zero(s.target) if op == "=" else zero, outputs)

    def _assigned(self, s: VersionStep, value: Expr | None) -> list[Part]:
        """`O(i) = tanh(A(i))`: the tangent reads what is stored, or else comes first."""
        if value is None:
            return [self._constant(s, "="), _own(s)]
        is_kept = s.value.dtype == s.value.dtype.computed and not self._reads_own(s)
        if is_kept and not is_trivial(s.value) and not any(map(reads_of, s.subs)):
            known = with_known(value, s.value, typed.Read(s.target, s.subs, s.value.dtype))
            if known != value:
                return [_own(s), self._tangent(s, "=", known)]
        return [self._tangent(s, "=", value), _own(s)]

    def _summed(self, s: VersionStep, terms: Sequence[Expr]) -> list[Part]:
        """`O(i) +=! A(i, k) * B(k)`: a sum for each term, so that each is one of plain factors."""
        if not terms:
            is_temp = self.tensors[s.target].role == "temp"
            says = s.op == "+=!" or (is_temp and not s.covers)  # where it begins, or its box
            return [*([self._constant(s, s.op)] if says else []), _own(s)]
        if self._reads_own(s):
            terms = [x for x in (joined(terms),) if x is not None]
        first, *others = terms
        lines = [self._tangent(s, s.op, first)]
        lines += [self._tangent(s, "+=", term) for term in others]
        return [*lines, _own(s)]

    def _multiplied(self, s: VersionStep, value: Expr | None) -> list[Part]:
        """`O(i) *= A(i, k)`: each factor's tangent times the other factors."""
        name = self.tangents[s.target]
        dtype = self.values[name].dtype
        if all(r.kind == "output" for r in s.ranges) and is_one_to_one(s):
            if s.base is None:
                return [self._constant(s, "+=!") if value is None else
                        self._tangent(s, "+=!", value), _own(s)]  # fmt: skip
            before = computed(typed.Read(s.target, s.subs, dtype))
            whole = g.mul(computed(typed.Read(name, s.subs, dtype)), s.value)
            if value is not None:
                whole = g.add(whole, g.mul(before, value))
            return [self._tangent(s, "=", g.convert(whole, dtype)), _own(s)]
        lines: list[Part] = []
        if s.base is not None:
            every = product(s, self)
            assert isinstance(every.value, typed.Read)
            at = self.at(name)
            scaled = g.mul(computed(typed.Read(name, at, dtype)), replace(every.value, subs=at))
            lines += [*every.lines, self.whole(name, g.convert(scaled, dtype))]
        op: AssignOp = "+=!" if s.base is None else "+="
        if value is not None:
            factor = other_factors(s, value, self)
            lines += [*factor.lines, self._tangent(s, op, factor.value)]
        elif s.base is None:
            lines.append(self._constant(s, op))
        return [*lines, _own(s)]

    def _extreme(self, s: VersionStep, value: Expr | None) -> list[Part]:
        """`O(i) max= A(i, k)`: the tangent of the first point that has the extreme."""
        name = self.tangents[s.target]
        dtype = self.values[name].dtype
        names = [s.target] if s.base is not None else []
        if self._reads_own(s):
            names = [s.target, name]
        old, lines = self._kept(names)
        base = None if s.base is None else old[s.target]
        lines.append(_own(s))
        if base is not None:
            at = self.at(name)
            here = computed(typed.Read(s.target, at, dtype))
            its = computed(typed.Read(name, at, dtype))
            stays = has(typed.Read(base, at, dtype.computed), here)
            kept = g.choose(stays, its, g.number(0, its.dtype))
            lines.append(self.whole(name, g.convert(kept, dtype)))
        op: AssignOp = "+=!" if base is None else "+="
        if value is None:
            return [*lines, *([self._constant(s, op)] if base is None else [])]
        step = replace(s, value=_renamed(s.value, old), base=base)
        factor = first_extreme(step, _renamed(value, old), self)
        lines += factor.lines
        if factor.plain is None:
            return [*lines, self._tangent(s, op, factor.value)]
        ranges = [r for r in s.ranges if r.name not in factor.at]
        found = substitute_indices(factor.plain, factor.at)
        if any(r.tensor == name and any(map(reads_of, r.subs)) for r in reads_of(found)):
            # data says which of its elements it reads, and no more that it does not write these
            return [*lines, self._tangent(s, op, factor.value)]
        return [*lines, self._tangent(s, op, found, ranges)]

    def _reads_own(self, s: VersionStep) -> bool:
        """Whether a statement reads elements that it writes: then what they were is asked for."""
        at = typed.Statement(s.target, s.subs, s.op, s.value, s.ranges)
        here = Placed(0, at, self.around)
        return any(
            r.tensor == s.target and not misses(here, here, r, len(self.around), None)
            for r in reads_of(s.value)
        )

    def _kept(self, names: Sequence[str]) -> tuple[dict[str, str], list[Part]]:
        """Return what copies of tensors are called, and the lines that make them."""
        old: dict[str, str] = {}
        lines: list[Part] = []
        for name in names:
            v = self.values[name]
            old[name] = self.fresh(f"{name}_old")
            self.values[old[name]] = Version(old[name], name, v.dtype.computed, v.shape)
            value = computed(typed.Read(name, self.at(name), v.dtype))
            lines.append(self.whole(old[name], value))
        return old, lines


def _own(s: VersionStep) -> Line:
    return Line(s.target, s.subs, s.op, s.value, s.ranges)


def _renamed(e: Expr, names: dict[str, str]) -> Expr:
    """Return an expression that reads copies, which are held in the type that computes."""

    def one(x: Expr) -> Expr:
        match x:
            case typed.Read(tensor, dtype=dtype) if tensor in names:
                return replace(x, tensor=names[tensor], dtype=dtype.computed)
            case typed.Cast(typed.Read(tensor, dtype=its) as read, dtype) if its == dtype:
                return read if tensor in names.values() else x
            case _:
                return x

    return map_typed(e, one) if names else e
