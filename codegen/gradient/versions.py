"""A definition in the form that can be differentiated: every value has a name of its own.

Tensors whose elements are written once, each by one statement in one turn, keep their name: what a
statement reads of them is what the whole definition leaves. Others get a name for every version.
Everything is counted from 0.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from tcdsl.codegen.program import map_typed, reads_of
from tcdsl.codegen.ssa import covers_box
from tcdsl.grammar import typed
from tcdsl.grammar.dtypes import INT64, DType
from tcdsl.grammar.errors import TCTypeError
from tcdsl.grammar.forms import Forms
from tcdsl.grammar.nodes import AssignOp
from tcdsl.grammar.ranges import Interval, interval, over_turns
from tcdsl.grammar.signs import is_nonnegative
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


@dataclass(frozen=True, slots=True)
class Turns:
    """A loop around steps; private are the versions that live in one turn."""

    var: str
    low: Size
    high: Size
    body: tuple[Node, ...]
    private: frozenset[str]


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
    """The steps in order, all versions by name, and the last version of each return."""

    nodes: tuple[Node, ...]
    values: dict[str, Value]
    finals: dict[str, str]


STARTING: dict[AssignOp, AssignOp] = {
    "+=": "+=!", "*=": "*=!", "min=": "min=!", "max=": "max=!",
}  # fmt: skip


def versions_of(checked: CheckedDef) -> Versions:
    """Return the versions of a definition.

    Raises
    ------
    TCTypeError
        If turns of a loop overwrite what earlier ones left.
    """
    return _Maker(checked).result()


class _Maker:
    def __init__(self, checked: CheckedDef) -> None:
        self.checked = checked
        self.tensors = {t.name: t for t in (*checked.params, *checked.returns, *checked.temps)}
        self.values = {
            t.name: Value(t.name, t.name, t.dtype, t.shape) for t in self.tensors.values()
        }
        self.current = {t.name: t.name for t in checked.params}
        self.written: dict[str, list[tuple[typed.Statement, tuple[typed.Loop, ...]]]] = {}
        for s, loops in _statements(checked.body, ()):
            self.written.setdefault(s.target, []).append((s, loops))
        self.once = {name for name in self.written if self._is_written_once(name)}
        self.left = {name: len(found) for name, found in self.written.items()}

    def result(self) -> Versions:
        nodes = self.block(self.checked.body, ())
        finals = {t.name: self.current[t.name] for t in self.checked.returns}
        return Versions(nodes, self.values, finals)

    def block(self, body: Sequence[typed.Stmt], loops: tuple[typed.Loop, ...]) -> tuple[Node, ...]:
        nodes: list[Node] = []
        for stmt in body:
            if isinstance(stmt, typed.Loop):
                private = self._private(stmt)
                inner = self.block(stmt.body, (*loops, stmt))
                made = {s.target for s in _steps(inner)}
                names = frozenset(n for n in made if self.values[n].tensor in private)
                nodes.append(Turns(stmt.var, stmt.low, stmt.high, inner, names))
            else:
                nodes.append(self.step(stmt))
        return tuple(nodes)

    def step(self, s: typed.Statement) -> Step:
        tensor = self.tensors[s.target]
        subs = tuple(
            _minus(self.renamed(e), low) for e, low in zip(s.subs, tensor.low, strict=True)
        )
        value = self.renamed(s.value)
        old = self.current.get(s.target)
        covers = covers_box(subs, s.ranges, tensor.shape)
        self.left[s.target] -= 1
        op = s.op
        if s.target in self.once or old is None:
            base = None
            op = STARTING.get(op, op)
        else:
            base = None if covers and (op == "=" or op.endswith("!")) else old
        name = s.target
        if s.target not in self.once and self.left[s.target]:
            name = self._fresh(s.target)
        self.values[name] = Value(name, s.target, tensor.dtype, tensor.shape)
        self.current[s.target] = name
        return Step(name, base, subs, op, value, s.ranges, covers)

    def _fresh(self, tensor: str) -> str:
        count = 1
        while (name := f"{tensor}_{count}") in self.values or name in self.checked.sizes:
            count += 1
        return name

    def renamed(self, e: Expr) -> Expr:
        """Return e with versions for names and subscripts from 0."""

        def one(x: Expr) -> Expr:
            if not isinstance(x, typed.Read):
                return x
            lows = self.tensors[x.tensor].low
            subs = tuple(_minus(s, low) for s, low in zip(x.subs, lows, strict=True))
            return replace(x, tensor=self.current[x.tensor], subs=subs)

        return map_typed(e, one)

    # ---- which tensors are written once

    def _is_written_once(self, name: str) -> bool:
        """Whether no element is written by two statements or in two turns."""
        found = self.written[name]
        boxes = []
        for s, loops in found:
            turns = {x.var: Interval(x.low, x.high - 1) for x in loops}
            forms = [Forms().of(e) for e in s.subs]
            if not all(any(_counts(f, x.var, s) for f in forms) for x in loops):
                return False
            domain = {r.name: Interval(r.low, r.high - 1) for r in s.ranges}
            boxes.append([over_turns(interval(f, domain), turns) for f in forms])
        return all(
            any(_apart(a, b) for a, b in zip(x, y, strict=True))
            for i, x in enumerate(boxes)
            for y in boxes[:i]
        )

    def _private(self, loop: typed.Loop) -> set[str]:
        """Return the tensors that each turn writes anew before it reads them.

        Raises
        ------
        TCTypeError
            If the loop overwrites another one.
        """
        found: set[str] = set()
        seen: set[str] = set()
        inside = [s for s, _ in _statements(loop.body, ())]
        everywhere = [s for s, _ in _statements(self.checked.body, ())]
        for s in inside:
            name = s.target
            if name in self.once or name in seen:
                continue
            seen.add(name)
            tensor = self.tensors[name]
            mine = [x for x in inside if x.target == name]
            reads = [x for x in everywhere if any(r.tensor == name for r in _reads(x))]
            first = mine[0]
            anew = (first.op == "=" or first.op.endswith("!")) and covers_box(
                tuple(_minus(e, low) for e, low in zip(first.subs, tensor.low, strict=True)),
                first.ranges,
                tensor.shape,
            )
            early = inside[: inside.index(first) + 1]
            is_private = (
                anew
                and tensor.role == "temp"
                and len(mine) == len(self.written[name])
                and all(x in inside for x in reads)
                and not any(r.tensor == name for x in early for r in _reads(x))
            )
            if not is_private:
                raise TCTypeError(
                    f"{self.checked.name}: turns of the loop over '{loop.var}' overwrite '{name}', "
                    "whose earlier values the gradient needs\n"
                    f"  give it a leading axis: {name}({loop.var} + 1, ...) = ... "
                    f"{name}({loop.var}, ...)"
                )
            found.add(name)
        return found


def _statements(
    body: Sequence[typed.Stmt], loops: tuple[typed.Loop, ...]
) -> Iterator[tuple[typed.Statement, tuple[typed.Loop, ...]]]:
    for stmt in body:
        if isinstance(stmt, typed.Loop):
            yield from _statements(stmt.body, (*loops, stmt))
        else:
            yield stmt, loops


def _steps(nodes: Sequence[Node]) -> Iterator[Step]:
    for node in nodes:
        if isinstance(node, Turns):
            yield from _steps(node.body)
        else:
            yield node


def _reads(s: typed.Statement) -> Iterator[typed.Read]:
    for e in (s.value, *s.subs):
        yield from reads_of(e)


def _counts(form: Size, var: str, s: typed.Statement) -> bool:
    """Whether a subscript is c * var + what is the same in all turns, c not 0."""
    symbol = Size.symbol(var, signed=True)
    (monomial, _) = symbol.terms[0]
    c = next((k for m, k in form.terms if m == monomial), 0)
    names = set((form - symbol * c).symbols())
    return c != 0 and var not in names and names.isdisjoint(r.name for r in s.ranges)


def _apart(a: Interval, b: Interval) -> bool:
    return any(
        x.low is not None and y.high is not None and is_nonnegative(x.low - y.high - 1)
        for x, y in ((a, b), (b, a))
    )


def _minus(e: Expr, low: Size) -> Expr:
    if low == Size.const(0):
        return e
    return typed.Binary("-", e, typed.SizeValue(low, INT64), INT64)
