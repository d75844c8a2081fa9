"""The statements of a definition with a name for every value: how its versions are made."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from tcdsl.codegen.gradient.order import Order, reads, statements
from tcdsl.codegen.gradient.shadows import is_hiding
from tcdsl.codegen.gradient.versions import (
    STARTING,
    Local,
    Node,
    Turns,
    Version,
    Versions,
    VersionStep,
    apart,
    box_of,
    is_anew,
    point_of,
    steps,
)
from tcdsl.codegen.program.affine import affine_of
from tcdsl.codegen.program.expressions import (
    all_from_lowest,
    from_lowest,
    indices_of,
    reads_from_lowest,
    reads_of,
    substitute_indices,
    with_bounds,
)
from tcdsl.codegen.program.ssa import covers_box, identity_of, writes_all
from tcdsl.grammar.proofs.sizes import Size
from tcdsl.grammar.text.fresh import counted
from tcdsl.grammar.text.nodes import starts_anew
from tcdsl.grammar.types import typed
from tcdsl.grammar.types.dtypes import INT64
from tcdsl.grammar.types.typed import CheckedDef, Expr, Range


def versions_of(
    checked: CheckedDef,
    again: Collection[str],
    in_place: Collection[str],
    still: Collection[str],
) -> Versions:
    """Return the versions of a definition.

    Parameters
    ----------
    again
        The variables of loops of whose turns nothing is kept.
    in_place
        Tensors that loops overwrite (`expand.py`): all others they do not.
    still
        Tensors of loops that the gradient does not go back through: they may be overwritten too,
        and only what such a loop leaves is a version.
    """
    return _Maker(checked, again, in_place, still).result()


class _Maker:
    def __init__(
        self,
        checked: CheckedDef,
        again: Collection[str],
        in_place: Collection[str],
        still: Collection[str],
    ) -> None:
        self.checked = checked
        self.again = again
        self.in_place = frozenset(in_place)
        self.order = Order(checked)
        self.placed = {id(p.statement): p for p in self.order.all}
        self.tensors = self.order.tensors
        self.values = {
            t.name: Version(t.name, t.name, t.dtype, t.shape) for t in self.tensors.values()
        }
        self.taken = {*self.tensors, *checked.sizes, checked.name, f"d_{checked.name}"}
        self.current = {t.name: t.name for t in checked.params}
        self.settled = {
            n for n in self.order.written if n not in self.in_place and self.order.is_settled(n)
        }
        self.still = {n for n in still if n not in self.settled and not self.order.is_straight(n)}
        self.left = {name: len(found) for name, found in self.order.written.items()}
        self.turning: list[str] = []
        found = [s for s, _ in statements(checked.body, ())]
        self.taken |= {x.var for p in self.order.all for x in p.loops}
        self.indices = {r.name for s in found for r in s.ranges}
        self.exact: set[str] = set()

    def result(self) -> Versions:
        """Return all versions."""
        nodes = self.block(self.checked.body)
        finals = {t.name: self.current[t.name] for t in self.checked.returns}
        taken, exact = frozenset(self.taken), frozenset(self.exact)
        return Versions(nodes, self.values, finals, taken, exact, self.in_place)

    def block(self, body: Sequence[typed.Stmt]) -> tuple[Node, ...]:
        """Return the nodes of a body."""
        nodes: list[Node] = []
        for stmt in body:
            if not isinstance(stmt, typed.Loop):
                nodes += self._filled((stmt,), in_loop=False)
                nodes += self.step(stmt)
                continue
            nodes += self._filled(stmt.body, in_loop=True)
            nodes += self._begun(stmt)
            nodes += self._left_by(stmt)
            self.turning.append(stmt.var)
            inner = self.block(stmt.body)
            self.turning.pop()
            depth = len(self.turning) + 1
            private = {n for n in self.order.written if self.order.depth(n) == depth}
            private -= self.in_place
            made = {s.target for s in steps(inner)}
            names = frozenset(n for n in made if self.values[n].tensor in private)
            names |= {x.local.before for x in inner if isinstance(x, VersionStep) and x.local}
            names |= {x.local.after for x in inner if isinstance(x, VersionStep) and x.local}
            again = stmt.var in self.again
            nodes.append(Turns(stmt.var, stmt.low, stmt.high, inner, names, again, stmt.span))
        return tuple(nodes)

    def _begun(self, loop: typed.Loop) -> list[Node]:
        """Return steps that begin the sums whose first term is one of a loop."""
        begun: list[Node] = []
        seen = set(self.current)
        for s, _ in statements(loop.body, ()):
            is_first = s.target not in seen and s.op == "+="
            seen.add(s.target)
            if is_first and not self.turning and s.target in self.settled:
                t = self.tensors[s.target]
                self.current[s.target] = s.target
                zero: Expr = typed.Lit(0.0 if t.dtype.is_float else 0, t.dtype)
                box = box_of(t.shape, self.taken)
                begun.append(
                    VersionStep(s.target, None, point_of(box), "=", zero, box, covers=True)
                )
        return begun

    def _left_by(self, loop: typed.Loop) -> list[Node]:
        """Return steps that begin what a loop leaves of tensors that it overwrites as it goes."""
        begun: list[Node] = []
        count: dict[str, int] = {}
        for s, _ in statements(loop.body, ()):
            count[s.target] = count.get(s.target, 0) + 1
        for s, _ in statements(loop.body, ()):
            n = count.pop(s.target, 0)
            if self.turning or s.target not in self.still or not n:
                continue
            t, old = self.tensors[s.target], self.current.get(s.target)
            name = s.target if self.left[s.target] == n else self._version(s.target)
            self.current[s.target] = name
            self.values[name] = Version(name, s.target, t.dtype, t.shape)
            if old is None and starts_anew(s.op):
                continue
            held = t.dtype.computed
            box = box_of(t.shape, self.taken)
            if old is None:
                first: Expr = typed.Lit(identity_of(s.op, held), held)
            else:
                first = typed.Read(old, point_of(box), t.dtype)
                first = typed.Cast(first, held) if t.dtype.is_half else first
            first = typed.Cast(first, t.dtype) if t.dtype.is_half else first
            begun.append(VersionStep(name, None, point_of(box), "=", first, box, covers=True))
        return begun

    def _filled(self, body: Sequence[typed.Stmt], *, in_loop: bool) -> list[Node]:
        """Return steps that give tensors in place all their elements before a body begins them.

        The elements are what they would be anyway, but what is overwritten is read before. So for a
        ragged scatter, which nothing can begin.
        """
        out: list[Node] = []
        for s, _ in statements(body, ()):
            begins = s.target in self.in_place or s.is_ragged_scatter  # that goes on from something
            if not begins or s.target in self.current or self.turning:
                continue
            t = self.tensors[s.target]
            is_set = s.op == "=" or s.op.rstrip("!") in STARTING
            if not in_loop and is_set and writes_all(s, t):
                continue
            self.current[t.name] = t.name
            held = t.dtype.computed
            first: Expr = typed.Lit(identity_of(s.op, held), held)
            first = typed.Cast(first, t.dtype) if t.dtype.is_half else first
            box = box_of(t.shape, self.taken)
            out.append(VersionStep(t.name, None, point_of(box), "=", first, box, covers=True))
        return out

    def step(self, s: typed.Statement) -> list[VersionStep]:
        """Return a statement as a step; one in place comes behind what keeps what it overwrites."""
        is_begun = s.target in self.current
        passing = any(self._is_passing(s, r) for r in reads(self.placed[id(s)]))
        made = replace(self._step(s), is_passing=passing)
        return self._in_place(made) if is_begun and s.target in self.in_place else [made]

    def _is_passing(self, s: typed.Statement, read: typed.Read) -> bool:
        """Whether a later statement or turn may overwrite what is read."""
        if read.tensor not in self.in_place:
            return False
        p, writes = self.placed[id(s)], self.order.written[read.tensor]
        return not all(self.order.is_before(w, p, read, 0) for w in writes)

    def _in_place(self, s: VersionStep) -> list[VersionStep]:
        """Return a step in place, and before it the one that keeps its local.

        Of a dimension whose subscript none or one of the indices tells, the local has what they
        span, of any other all of it.
        """
        v = self.values[s.target]
        turns = {x.var for p in self.order.all for x in p.loops}
        spans = {
            r.name: r
            for r in s.ranges
            if r.kind == "output" and r.bounds is None and not _has(r, turns)
        }
        all_anew = s.op.endswith("!") and any(reads_of(e) for e in s.subs)
        dims: dict[str, int] = {}
        whole: dict[int, int] = {}
        shape: list[Size] = []
        subs: list[Expr] = []
        for d, (e, extent) in enumerate(zip(s.subs, v.shape, strict=True)):
            a, names = affine_of(e), sorted(indices_of(e))
            is_span = not all_anew and (not names or (a is not None and len(a.terms) == 1))
            if not is_span or not spans.keys() >= {*names}:
                whole[d] = len(shape)
                shape.append(extent)
                subs.append(e)
                continue
            for name in names:
                if name not in dims:
                    r, dims[name] = spans[name], len(shape)
                    shape.append(r.extent)
                    subs.append(from_lowest(typed.IndexValue(name, INT64), r.low))
        before, after = self._fresh(f"{v.tensor}_old"), self._fresh(f"{v.tensor}_new")
        box = box_of(shape, self.taken)
        here = point_of(box)
        by = {n: _from(here[d], spans[n].low) for n, d in dims.items()}
        at = tuple(
            here[whole[d]] if d in whole else substitute_indices(e, by, address=True)
            for d, e in enumerate(s.subs)
        )
        for name in (before, after):
            self.values[name] = Version(name, name, v.dtype, tuple(shape))
        if s.op == "=":
            self.exact.add(after)
        covers = covers_box(tuple(subs), s.ranges, tuple(shape))
        local = Local(before, after, at, tuple(subs), covers)
        value = typed.Read(s.target, at, v.dtype)
        keep = VersionStep(
            before, None, point_of(box), "=", value, box, covers=True, is_passing=True
        )
        return [keep, replace(s, local=local)]

    def _step(self, s: typed.Statement) -> VersionStep:
        tensor = self.tensors[s.target]
        subs = all_from_lowest([*map(self.renamed, s.subs)], tensor.low)
        value = self.renamed(s.value)
        ranges = with_bounds(s.ranges, self.renamed)
        old = self.current.get(s.target)
        covers = covers_box(subs, s.ranges, tensor.shape)
        self.left[s.target] -= 1
        op, base, name = s.op, None, s.target
        if s.target in self.still and self.turning:
            assert old is not None
            name = old
        elif s.target in self.settled | self.in_place:
            if old is None:
                op = STARTING.get(op, op)
        else:
            if old is None:
                op = STARTING.get(op, op)
            elif not is_anew(s.op, subs, covers=covers):
                base = old
            if self.left[s.target]:
                name = self._version(s.target)
        others = self.order.written[s.target]
        is_sum = name == s.target and any(p.statement.op == "+=" for p in others)
        is_whole = s.target not in self.still or not self.turning
        if op == "=" and not is_sum and name not in self.in_place and is_whole:
            self.exact.add(name)
        self.values[name] = Version(name, s.target, tensor.dtype, tensor.shape)
        self.current[s.target] = name
        return apart(
            VersionStep(name, base, subs, op, value, ranges, covers),
            lambda n: is_hiding(n) or n in self.values,
            lambda n: n in self.taken or n in self.indices,
        )

    def _version(self, tensor: str) -> str:
        count = 1
        while (name := f"{tensor}_{count}") in self.taken or name in self.indices:
            count += 1
        self.taken.add(name)
        return name

    def _fresh(self, stem: str) -> str:
        name = counted(stem, self.taken, self.indices)
        self.taken.add(name)
        return name

    def renamed(self, e: Expr) -> Expr:
        """Return e with versions for names and subscripts from 0."""
        return reads_from_lowest(e, self.tensors, lambda name: self.current.get(name, name))


def _from(e: Expr, low: Size) -> Expr:
    return e if low == Size() else typed.Binary("+", e, typed.SizeValue(low, INT64), INT64)


def _has(r: Range, names: Collection[str]) -> bool:
    return any(n in names for x in (r.low, r.high) for n in x.symbols())
