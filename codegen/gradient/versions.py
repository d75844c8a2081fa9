"""A definition in the form that can be differentiated: every value has a name of its own.

A tensor that is settled (`order.py`) keeps its name: what a statement reads of it is what the whole
definition leaves there. Others get a name for every version. Everything is counted from 0.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

from tcdsl.codegen.gradient.order import Order, statements
from tcdsl.codegen.program import from_lowest, map_typed, reads_of, substitute_indices
from tcdsl.codegen.ssa import covers_box
from tcdsl.grammar import typed
from tcdsl.grammar.builtins import BUILTINS
from tcdsl.grammar.dtypes import INT64, DType
from tcdsl.grammar.nodes import AssignOp
from tcdsl.grammar.sizes import Size
from tcdsl.grammar.typed import CheckedDef, Expr, Range


@dataclass(frozen=True, slots=True)
class Step:
    """One statement: it makes version target, out of base where that is not None.

    covers: every element of the box is written.
    """

    target: str
    base: str | None
    subs: tuple[Expr, ...]
    op: AssignOp
    value: Expr
    ranges: tuple[Range, ...]
    covers: bool

    @property
    def onto(self) -> str | None:
        """The version whose elements the operator goes on from: `op=!` begins what it writes."""
        return None if self.op.endswith("!") else self.base


@dataclass(frozen=True, slots=True)
class Turns:
    """A loop around steps; private are the versions that live in one turn.

    again: nothing is kept of its turns, the gradient runs each a second time.
    """

    var: str
    low: Size
    high: Size
    body: tuple[Node, ...]
    private: frozenset[str]
    again: bool = False


Node = Step | Turns


@dataclass(frozen=True, slots=True)
class Value:
    """A version: its type and extents; tensor is what the definition calls it."""

    name: str
    tensor: str
    dtype: DType
    shape: tuple[Size, ...]


@dataclass(frozen=True, slots=True)
class Versions:
    """The steps in order, all versions by name, and the last version of each return.

    taken: names that mean something in the whole definition, which nothing new may have.
    exact: versions that hold, wherever a step `=` writes, what is on its right.
    """

    nodes: tuple[Node, ...]
    values: dict[str, Value]
    finals: dict[str, str]
    taken: frozenset[str]
    exact: frozenset[str]

    def box(self, version: str) -> tuple[Range, ...]:
        """Return indices over the whole of a version."""
        shape = self.values[version].shape
        names = index_names(len(shape), self.taken)
        return tuple(
            Range(n, Size.const(0), extent, "output")
            for n, extent in zip(names, shape, strict=True)
        )

    def at(self, version: str) -> tuple[Expr, ...]:
        """Return the subscripts of `box`."""
        return tuple(typed.IndexValue(r.name, INT64) for r in self.box(version))


def index_names(rank: int, taken: frozenset[str]) -> list[str]:
    """Return names of indices of statements that the text does not have."""
    behind = ""
    while not taken.isdisjoint(f"i{d}{behind}" for d in range(rank)):
        behind += "_"
    return [f"i{d}{behind}" for d in range(rank)]


STARTING: dict[AssignOp, AssignOp] = {
    "+=": "+=!", "*=": "*=!", "min=": "min=!", "max=": "max=!",
}  # fmt: skip


def versions_of(checked: CheckedDef, again: Collection[str] = ()) -> Versions:
    """Return the versions of a definition whose loops overwrite nothing (`expand.py`).

    again: the variables of loops of whose turns nothing is kept.
    """
    return _Maker(checked, again).result()


def steps(nodes: Sequence[Node]) -> Iterator[Step]:
    """Yield the steps in nodes, those of loops too."""
    for node in nodes:
        if isinstance(node, Turns):
            yield from steps(node.body)
        else:
            yield node


def reads_in(s: Step) -> list[typed.Read]:
    """Return the reads of a step, those of its subscripts too."""
    return [r for e in (s.value, *s.subs) for r in reads_of(e)]


def loops(nodes: Sequence[Node]) -> Iterator[Turns]:
    """Yield the loops in nodes, outer ones first."""
    for node in nodes:
        if isinstance(node, Turns):
            yield node
            yield from loops(node.body)


class _Maker:
    def __init__(self, checked: CheckedDef, again: Collection[str]) -> None:
        self.checked = checked
        self.again = again
        self.order = Order(checked)
        self.tensors = self.order.tensors
        self.values = {
            t.name: Value(t.name, t.name, t.dtype, t.shape) for t in self.tensors.values()
        }
        self.taken = {*self.tensors, *checked.sizes, checked.name, f"d_{checked.name}"}
        self.current = {t.name: t.name for t in checked.params}
        self.settled = {n for n in self.order.written if self.order.is_settled(n)}
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
        return Versions(nodes, self.values, finals, frozenset(self.taken), frozenset(self.exact))

    def block(self, body: Sequence[typed.Stmt]) -> tuple[Node, ...]:
        """Return the nodes of a body."""
        nodes: list[Node] = []
        for stmt in body:
            if not isinstance(stmt, typed.Loop):
                nodes.append(self.step(stmt))
                continue
            nodes += self._begun(stmt)
            self.turning.append(stmt.var)
            inner = self.block(stmt.body)
            self.turning.pop()
            depth = len(self.turning) + 1
            private = {n for n in self.order.written if self.order.depth(n) == depth}
            made = {s.target for s in steps(inner)}
            names = frozenset(n for n in made if self.values[n].tensor in private)
            again = stmt.var in self.again
            nodes.append(Turns(stmt.var, stmt.low, stmt.high, inner, names, again))
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
                ranges = self._box(t)
                at = tuple(typed.IndexValue(r.name, INT64) for r in ranges)
                begun.append(Step(s.target, None, at, "=", zero, ranges, covers=True))
        return begun

    def _box(self, t: typed.Tensor) -> tuple[Range, ...]:
        names = index_names(len(t.shape), frozenset(self.taken))
        return tuple(
            Range(n, Size.const(0), e, "output") for n, e in zip(names, t.shape, strict=True)
        )

    def step(self, s: typed.Statement) -> Step:
        """Return a statement as a step."""
        tensor = self.tensors[s.target]
        lows = tensor.low
        subs = tuple(from_lowest(self.renamed(e), x) for e, x in zip(s.subs, lows, strict=True))
        value = self.renamed(s.value)
        old = self.current.get(s.target)
        covers = covers_box(subs, s.ranges, tensor.shape)
        self.left[s.target] -= 1
        op, base, name = s.op, None, s.target
        if s.target in self.settled:
            if old is None:
                op = STARTING.get(op, op)
        else:
            if old is None:
                op = STARTING.get(op, op)
            elif not self._is_anew(s.op, subs, covers=covers):
                base = old
            if self.left[s.target]:
                name = self._fresh(s.target)
        others = self.order.written[s.target]
        is_sum = name == s.target and any(p.statement.op == "+=" for p in others)
        if op == "=" and not is_sum:
            self.exact.add(name)
        self.values[name] = Value(name, s.target, tensor.dtype, tensor.shape)
        self.current[s.target] = name
        return self._apart(Step(name, base, subs, op, value, s.ranges, covers))

    def _is_anew(self, op: AssignOp, subs: Sequence[Expr], *, covers: bool) -> bool:
        """Whether a statement leaves nothing of the version before."""
        if op.endswith("!"):  # where data says what is written, all elements begin anew
            return covers or any(reads_of(e) for e in subs)
        return covers and op == "="

    def _apart(self, s: Step) -> Step:
        """Rename indices that are called as something is that the gradient may use."""
        by: dict[str, Expr] = {}
        for r in s.ranges:
            if r.name in BUILTINS or r.name in self.values:
                new = f"{r.name}_"
                while new in self.taken or new in self.indices:
                    new += "_"
                by[r.name] = typed.IndexValue(new, INT64)
        if not by:
            return s

        def name(r: Range) -> Range:
            new = by.get(r.name)
            return replace(r, name=new.name) if isinstance(new, typed.IndexValue) else r

        return replace(
            s,
            subs=tuple(substitute_indices(e, by, address=True) for e in s.subs),
            value=substitute_indices(s.value, by),
            ranges=tuple(map(name, s.ranges)),
        )

    def _fresh(self, tensor: str) -> str:
        count = 1
        while (name := f"{tensor}_{count}") in self.taken or name in self.indices:
            count += 1
        self.taken.add(name)
        return name

    def renamed(self, e: Expr) -> Expr:
        """Return e with versions for names and subscripts from 0."""

        def one(x: Expr) -> Expr:
            if not isinstance(x, typed.Read):
                return x
            lows = self.tensors[x.tensor].low
            subs = tuple(from_lowest(s, low) for s, low in zip(x.subs, lows, strict=True))
            return replace(x, tensor=self.current.get(x.tensor, x.tensor), subs=subs)

        return map_typed(e, one)
