"""A call being inlined: the frame it stands in, that of its callee, the statements it becomes."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import field
from typing import assert_never

from tcdsl.grammar.check.scope import FatalError, Frame, Tensor, near
from tcdsl.grammar.check.state import CheckState
from tcdsl.grammar.text import nodes as n
from tcdsl.grammar.text.dataclass import dataclass
from tcdsl.grammar.text.errors import Note
from tcdsl.grammar.text.fault import FaultError
from tcdsl.grammar.text.source import Span
from tcdsl.grammar.text.walk import declared_names, targets_of
from tcdsl.grammar.types import typed as t

MAX_CALLS = 50  # calls within calls


@dataclass(slots=True)
class Call:
    """What the steps of a call share: frame is the caller's, inner the callee's."""

    state: CheckState
    frame: Frame
    span: Span | None
    definition: n.Def
    inner: Frame
    statements: list[t.Stmt] = field(default_factory=list)

    @property
    def callee(self) -> str:
        """The name of the callee."""
        return self.definition.name

    def add_temporary(self, name: str, tensor: Tensor) -> None:
        """Give the caller a tensor that its text does not name."""
        self.frame.tensors[name] = tensor
        self.state.tensors.append(tensor)
        tensor.is_read = True


def call_of(state: CheckState, frame: Frame, span: Span | None, callee: str) -> Call:
    """Return a call of the definition of that name, which may not call itself."""
    defs = state.defs
    if callee not in defs:
        problem = f"no definition is called '{callee}'"
        raise FaultError("TC120", problem, span, "", near(callee, defs))
    names = [name for name, _ in state.calls]
    if callee in names:
        cycle = [*names[names.index(callee) :], callee]
        raise FaultError(
            "TC123",
            f"'{callee}' calls itself",
            span,
            "",
            Note("the cycle: " + " -> ".join(cycle)),
        )
    if len(names) > MAX_CALLS:
        raise FatalError("TC130", f"calls nested deeper than {MAX_CALLS}", span)
    definition = defs[callee]
    return Call(state, frame, span, definition, Frame(definition, is_entry=False))


def inlined(state: CheckState, callee: str, depth: int = 0) -> int:
    """Return how many statements a call becomes: the body of the callee, and of those it calls."""
    known = state.inlined
    if callee not in known and depth <= MAX_CALLS:
        known[callee] = 0  # of a definition that calls itself; the call says so
        definition = state.defs[callee]
        hidden = {*declared_names(definition), *targets_of(definition.body)}
        names = state.defs.keys() - hidden
        known[callee] = _count(state, definition.body, names, depth)
    return known.get(callee, 0)


def _count(state: CheckState, body: Sequence[n.Stmt], names: Collection[str], depth: int) -> int:
    total = 0
    for node in body:
        total += 1
        match node:
            case n.Comprehension(value=n.Apply(name)) | n.MultiCall(callee=name) if name in names:
                total += inlined(state, name, depth + 1)
            case n.ForLoop(body=inner):
                total += _count(state, inner, names, depth)
            case n.Comprehension() | n.MultiCall():
                pass
            case _:
                assert_never(node)
    return total
