"""A call being inlined: the frame it stands in, that of its callee, the statements it becomes."""

from __future__ import annotations

from dataclasses import dataclass, field

from tcdsl.grammar import nodes as n
from tcdsl.grammar import typed as t
from tcdsl.grammar.errors import Note
from tcdsl.grammar.scope import FatalError, FaultError, Frame, Tensor, near
from tcdsl.grammar.session import Session
from tcdsl.grammar.source import Span

MAX_CALLS = 50  # calls within calls


@dataclass(slots=True)
class Call:
    """What the steps of a call share: frame is the caller's, inner the callee's."""

    session: Session
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
        self.session.tensors.append(tensor)
        tensor.is_read = True


def call_of(session: Session, frame: Frame, span: Span | None, callee: str) -> Call:
    """Return a call of the definition of that name, which may not call itself."""
    defs = session.defs
    if callee not in defs:
        problem = f"no definition is called '{callee}'"
        raise FaultError("TC120", problem, span, "", near(callee, defs))
    names = [name for name, _ in session.calls]
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
    return Call(session, frame, span, definition, Frame(definition, is_entry=False))
