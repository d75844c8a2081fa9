"""The adjoint of every version, statement by statement backwards.

A statement hands the adjoint of what it wrote to what it read:

    O(i, j) +=! A(i, k) * B(k, j)   ->   d_A(i, k) += d_O(i, j) * B(k, j)
                                         d_B(k, j) += d_O(i, j) * A(i, k)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from tcdsl.codegen.gradient import build as g
from tcdsl.codegen.gradient.adjoints import Adjoints
from tcdsl.codegen.gradient.combine import (
    PartialFactor,
    computed,
    first_extreme,
    has,
    other_factors,
    product,
)
from tcdsl.codegen.gradient.gather import gathered
from tcdsl.codegen.gradient.known import is_trivial, with_known
from tcdsl.codegen.gradient.lines import Line, Loop, Part
from tcdsl.codegen.gradient.pull import Share, pull
from tcdsl.codegen.gradient.tidy import without_nothing
from tcdsl.codegen.gradient.versions import (
    Local,
    Node,
    Turns,
    Version,
    VersionStep,
    is_anew,
    loops,
    steps,
)
from tcdsl.codegen.program.affine import affine_of
from tcdsl.codegen.program.expressions import (
    from_lowest,
    indices_of,
    map_typed,
    reads_of,
    substitute_indices,
)
from tcdsl.grammar.proofs.ranges import Interval
from tcdsl.grammar.text.nodes import AssignOp
from tcdsl.grammar.types import typed
from tcdsl.grammar.types.typed import Expr


class Backward(Adjoints):
    """The way back through steps and loops; lines of a gradient in the making."""

    def block(self, nodes: Sequence[Node]) -> list[Part]:
        """Return the lines that go back through the nodes of the definition."""
        back: list[Part] = []
        for version in sorted(self.versions.in_place & self._active & self._useful - self.begun):
            self.begun.add(version)
            zero = g.number(0, self.values[version].dtype.computed)
            self.zeros.append(self._full(self._adjoint(version), version, zero))
        for node in reversed(nodes):
            if isinstance(node, Turns):
                back += self._turns(node, self.zeros)
            else:
                back += self._step(node, self.zeros, in_loop=False)
        return back

    def _turns(self, node: Turns, zeros: list[Part]) -> list[Part]:
        """Return the loop that goes back through the turns of another."""
        local: list[Part] = []
        back: list[Part] = []
        carried = {s.target for s in steps(node.body)} & self._active & self._useful
        carried -= {n for x in loops((node,)) for n in x.private}
        for version in sorted(carried - self.begun):  # a turn reads them later on
            self.begun.add(version)
            zero = g.number(0, self.values[version].dtype.computed)
            zeros.append(self._full(self._adjoint(version), version, zero))
        self._around[node.var] = Interval(node.low, node.high - 1)
        for inner in reversed(node.body):
            begin: list[Part] = []
            self._private = node.private
            if isinstance(inner, Turns):
                back += self._turns(inner, begin)
            else:
                back += self._step(inner, begin, in_loop=True)
            for z in begin:
                assert isinstance(z, Line)
                (local if self.values[z.target].tensor in node.private else zeros).append(z)
        del self._around[node.var]
        if not back:
            return []
        return [Loop(node.var, node.low, node.high, (*local, *back), of=node)]

    def _step(self, s: VersionStep, zeros: list[Part], *, in_loop: bool) -> list[Part]:
        """Return the lines that hand the adjoint of a step's target on."""
        if s.local is not None:
            return self._in_place(s, s.local, zeros, in_loop=in_loop)
        v = self.values[s.target]
        if s.target not in self.adjoints or not v.dtype.is_float or s.op.startswith("arg"):
            return []
        name = self.adjoints[s.target]
        seed = computed(typed.Read(name, s.subs, self.values[name].dtype))
        seed = g.convert(seed, s.value.dtype.computed)
        lines: list[Part] = []
        if s.base is not None and s.base in self._active | self.adjoints.keys():
            lines += self._to_base(s, name, zeros, in_loop=in_loop)
        if not any(r.tensor in self._active for r in reads_of(s.value)):
            return lines
        match s.op.rstrip("!"):
            case "max=" | "min=":
                factor = first_extreme(s, seed, self)
            case "*=":
                factor = other_factors(s, seed, self)
            case _:
                factor = PartialFactor([], seed)
        lines += factor.lines
        seed = factor.value
        value = s.value
        if isinstance(value, typed.Cast) and value.dtype.is_half:
            value = value.operand
        shares = pull(value, seed, self._active)
        if any(x.guard is not None and x.read.tensor == s.target for x in shares):
            line, seed = self._apart(s, name, seed)  # guards let a share seem to meet its seed
            lines.append(line)
            shares = pull(value, seed, self._active)
        plain = shares if factor.plain is None else pull(value, factor.plain, self._active)
        for share, bare in zip(shares, plain, strict=True):
            made = (s, share) if share is bare else _placed(s, share, bare, factor.at)
            lines += self._share(*made, zeros, in_loop=in_loop)
        return lines

    def _apart(self, s: VersionStep, name: str, seed: Expr) -> tuple[Line, Expr]:
        """Return the line that reads the seed of every element, and what reads that."""
        outputs = tuple(r for r in s.ranges if r.kind == "output")
        subs = tuple(from_lowest(g.index(r.name), r.low) for r in outputs)
        apart = self.fresh(f"{name}_here")
        self.values[apart] = Version(apart, apart, seed.dtype, tuple(r.extent for r in outputs))
        return Line(apart, subs, "=", seed, outputs), typed.Read(apart, subs, seed.dtype)

    def _in_place(
        self, s: VersionStep, local: Local, zeros: list[Part], *, in_loop: bool
    ) -> list[Part]:
        """Return the lines of a step in place: those of one that makes its local out of the old.

        a_new(n) = a_H(t, n)                  what the step has written is handed on,
        H(t, n) = H_old(t, n)                 its elements are again what they were,
        a_H(t, n) = 0                         and get the shares of what was read of them
        """
        v = self.values[s.target]
        all_of_it, box = self.at(local.before), self.box(local.before)
        old = typed.Read(local.before, all_of_it, v.dtype)
        restore = Line(s.target, local.at, "=", old, box)
        if s.target not in self.adjoints or not v.dtype.is_float:
            return [restore]
        reads = [r for r in reads_of(s.value) if r.tensor == s.target]
        if s.op == "+=" and not reads:
            return [restore, *self._step(replace(s, local=None), zeros, in_loop=in_loop)]
        name, mine = self.adjoints[s.target], self._adjoint(local.after)
        adjoint = typed.Read(name, local.at, self.values[name].dtype)
        lines: list[Part] = [
            Line(local.after, all_of_it, "=", typed.Read(s.target, local.at, v.dtype), box),
            Line(mine, all_of_it, "=", adjoint, box),
            restore,
            Line(name, local.at, "=", g.number(0, adjoint.dtype), box),
        ]

        def own(e: Expr) -> Expr:
            is_own = isinstance(e, typed.Read) and (e.tensor, e.subs) == (s.target, s.subs)
            return typed.Read(local.before, local.subs, v.dtype) if is_own else e

        anew = is_anew(s.op, local.subs, covers=local.covers)
        inner = replace(
            s,
            target=local.after,
            base=None if anew else local.before,
            subs=local.subs,
            value=map_typed(s.value, own),
            covers=local.covers,
            local=None,
        )
        return lines + self._step(inner, zeros, in_loop=in_loop)

    def _share(
        self, s: VersionStep, share: Share, zeros: list[Part], *, in_loop: bool
    ) -> list[Line]:
        source = share.read.tensor
        v = self.values[source]
        value = g.convert(share.value, v.dtype.computed)
        if s.op == "=" and s.target in self.versions.exact and not is_trivial(s.value):
            known = typed.Read(s.target, s.subs, s.value.dtype)
            value = with_known(value, s.value, known)
        names = frozenset(self.taken - {r.name for r in s.ranges})
        found = gathered(
            s, share.read, value, share.guard, v.shape, names, self._around, self.values
        )
        lines = without_nothing([Line("", x.subs, "+=", x.value, x.ranges) for x in found])
        if not lines:  # an extent is the number 0, a condition never holds
            return []
        name = self._adjoint(source)
        lines = [replace(line, target=name) for line in lines]
        return self._add(lines, source, zeros, in_loop=in_loop)

    def _to_base(
        self, s: VersionStep, name: str, zeros: list[Part], *, in_loop: bool
    ) -> list[Part]:
        """Return how the version before gets its share: all, or what is not overwritten."""
        base = s.base
        assert base is not None
        at, dtype = self.at(base), self.values[name].dtype
        whole = computed(typed.Read(name, at, dtype))
        zero = g.number(0, whole.dtype)
        lines: list[Part] = []
        match s.op:
            case "+=":
                value = whole
            case "*=":
                factor = product(s, self)
                lines += factor.lines
                assert isinstance(factor.value, typed.Read)
                all_of_it = typed.Read(factor.value.tensor, at, factor.value.dtype)
                value = g.mul(whole, g.convert(all_of_it, whole.dtype))
            case "max=" | "min=":
                here = computed(typed.Read(s.target, at, self.values[s.target].dtype))
                before = computed(typed.Read(base, at, self.values[base].dtype))
                value = g.choose(has(before, here), whole, zero)
            case _:
                written = _is_written(s, at)
                if written is not None:
                    value = g.choose(written, zero, whole)
                else:
                    rest = self.fresh(f"{name}_rest")
                    self.values[rest] = Version(rest, base, dtype, self.values[base].shape)
                    outputs = tuple(r for r in s.ranges if r.kind == "output")
                    lines.append(self._full(rest, base, whole))
                    op: AssignOp = "+=!" if s.op.endswith("!") else "="  # '+=!': points may meet
                    lines.append(Line(rest, s.subs, op, zero, outputs))
                    value = typed.Read(rest, at, dtype)
        value = g.convert(value, self.values[base].dtype.computed)
        line = Line(self._adjoint(base), at, "+=", value, self.box(base))
        return [*lines, *self._add([line], base, zeros, in_loop=in_loop)]


def _is_written(s: VersionStep, at: tuple[Expr, ...]) -> Expr | None:
    """Return whether a step writes element at, or None where no condition says it shortly."""
    ranges = {r.name: r for r in s.ranges if r.kind == "output"}
    cond: Expr | None = None
    for e, here in zip(s.subs, at, strict=True):
        a = affine_of(e)
        if a is None or len(a.terms) > 1:
            return None
        if not a.terms:
            cond = g.both(cond, g.compare("==", here, g.size(a.const)))
            continue
        ((name, c),) = a.terms
        r = ranges.pop(name, None)
        if c != 1 or r is None:
            return None
        cond = g.both(cond, g.compare(">=", here, g.size(r.low + a.const)))
        cond = g.both(cond, g.compare("<", here, g.size(r.high + a.const)))
    return cond


def _placed(
    s: VersionStep, share: Share, bare: Share, at: Mapping[str, Expr]
) -> tuple[VersionStep, Share]:
    """Return a share of the point that attains an extreme: a scatter, where elements get several.

        d_A(r, s) += r == place(b, s) ? a(b, s) : 0   ->   d_A(place(b, s), s) += a(b, s)

    Where every point reads an element of its own, the comparison is a part of what computes it.
    """
    told = {n for e in share.read.subs for n in indices_of(e)}
    outputs = {r.name for r in s.ranges if r.kind == "output"}
    if share.guard is not None or (outputs <= told and not told.isdisjoint(at)):
        return s, share
    read = replace(
        bare.read, subs=tuple(substitute_indices(e, at, address=True) for e in share.read.subs)
    )
    ranges = tuple(r for r in s.ranges if r.name not in at)
    return replace(s, ranges=ranges), Share(read, substitute_indices(bare.value, at))
