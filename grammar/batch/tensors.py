"""Which tensors of a definition have a value for each element of a batch.

Which have it follows from the statements, for a name as a whole: one statement that reads the batch
gives it to all. `exists X(i)` reads X; `X.0` does not, the extents of a batch are one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import assert_never

from tcdsl.grammar.text import nodes as n
from tcdsl.grammar.text.defaults import placed
from tcdsl.grammar.text.errors import Note
from tcdsl.grammar.text.fault import FaultError
from tcdsl.grammar.text.fresh import counted
from tcdsl.grammar.text.walk import identifiers, targets_of, walk
from tcdsl.grammar.types.builtins import RAND
from tcdsl.grammar.types.dtypes import BY_NAME

Places = Mapping[str, int]  # by tensor, at which of its dimensions it has the batch


class Shared:
    """What the definitions over one batch share.

    size, index: the names of its extent and of its index. is_random: `rand` gives each element
    numbers of its own.
    """

    def __init__(self, program: n.Program, *, is_random: bool) -> None:
        self.defs = {d.name: d for d in program.defs}
        self.is_random = is_random
        self._taken = {*identifiers(program)}
        self.size, self.index = self.fresh("B"), self.fresh("b")
        self.has_halves = any(_is_half(x) for d in program.defs for x in walk(d))
        self._calls: list[str] = []  # around the definition at hand
        self._results: dict[tuple[str, frozenset[str]], frozenset[str]] = {}

    def fresh(self, name: str) -> str:
        """Return a name like this one that nothing else has."""
        candidate = counted(name, self._taken)
        self._taken.add(candidate)
        return candidate

    def is_within(self, callee: str) -> bool:
        """Whether a definition around calls itself by this call, which the check refuses."""
        return callee in self._calls

    def results(self, callee: str, params: frozenset[str]) -> frozenset[str]:
        """Return which returns of a definition depend on the batch if these parameters have it."""
        if self.is_within(callee):
            return frozenset()
        key = callee, params
        if key not in self._results:
            with self.within(callee):
                inner = Tensors(self, self.defs[callee], dict.fromkeys(params, 0))
                inner.follow(inner.definition.body)
            returns = {r.name for r in inner.definition.returns}
            self._results[key] = frozenset(returns & inner.places.keys())
        return self._results[key]

    @contextmanager
    def within(self, callee: str) -> Iterator[None]:
        """Follow a call."""
        self._calls.append(callee)
        yield
        self._calls.pop()


class Tensors:
    """The tensors of one definition: places has those that have the batch.

    A target has it if one of its statements that were followed reads what has it, or is told to.
    The others do not depend on the batch, or are sums over it: summed.
    """

    def __init__(
        self,
        shared: Shared,
        definition: n.Def,
        params: Places,
        returns: Mapping[str, int | None] | None = None,
        out_dim: int = 0,
        summed: Collection[str] = (),
    ) -> None:
        self.shared = shared
        self.definition = definition
        self.summed = summed
        returns = returns or {}
        declared = (*definition.params, *definition.returns)
        self.names = {p.name for p in declared} | {*targets_of(definition.body)}
        self.places: dict[str, int] = dict(params)
        self.places |= {name: at for name, at in returns.items() if at is not None}
        self._returns = {r.name: returns.get(r.name, out_dim) for r in definition.returns}

    def follow(self, body: Sequence[n.Stmt]) -> None:
        """Give the batch to what statements compute from it."""
        known = -1
        while known != len(self.places):  # what a turn writes the next one reads
            known = len(self.places)
            self._follow(body)

    def is_call(self, name: str) -> bool:
        """Whether a name before parentheses is a definition that is called."""
        return name in self.shared.defs and name not in self.names

    def is_rand(self, name: str) -> bool:
        """Whether a name before parentheses is the builtin `rand`."""
        return name == RAND and name not in self.names and name not in self.shared.defs

    def depends(self, *roots: object) -> bool:
        """Whether expressions and clauses have a value for each element of the batch."""
        for x in walk(*roots):
            match x:
                case n.Apply(name) if self.shared.is_random and self.is_rand(name):
                    return True
                case n.Apply(name) | n.Name(name) if name in self.places:
                    return True
        return False

    def _follow(self, body: Sequence[n.Stmt]) -> None:
        for node in body:
            match node:
                case n.ForLoop(body=inner):
                    self._follow(inner)
                case n.MultiCall(targets, callee, args) if self.is_call(callee):
                    self._call(targets, callee, args)
                case n.Comprehension(target, value=n.Apply(name, args)) if self.is_call(name):
                    self._call((target,), name, args)
                case n.Comprehension(target):
                    if self.depends(target.subs or (), node.value, node.clauses):
                        self._add(target)
                case n.MultiCall():
                    pass
                case _:
                    assert_never(node)

    def _call(self, targets: Sequence[n.Target], callee: str, args: Sequence[n.Arg]) -> None:
        definition = self.shared.defs[callee]
        given, _ = placed(definition, args)
        pairs = zip(definition.params, given, strict=False)  # of one length, or the check says so
        params = frozenset(p.name for p, arg in pairs if arg is not None and self.depends(arg))
        found = self.shared.results(callee, params)
        for target, result in zip(targets, definition.returns, strict=False):
            if result.name in found:
                self._add(target)

    def _add(self, target: n.Target) -> None:
        if target.name in self.places or target.name in self.summed:
            return
        place = self._returns.get(target.name, 0)
        if place is None:
            raise FaultError(
                "TC162",
                f"'{target.name}' depends on the batch, so it has a value for each element",
                target.name_span or target.span,
                "",
                Note(
                    f"let it have the batch at a dimension, as in out_dims={{'{target.name}': 0}}"
                ),
            )
        self.places[target.name] = place


def _is_half(node: n.Node) -> bool:
    """Whether a type is one of the halves, or may be: a type variable."""
    match node:
        case n.TypeRef(name) | n.Cast(name):
            return name not in BY_NAME or BY_NAME[name].is_half
    return False
