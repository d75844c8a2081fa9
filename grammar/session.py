"""What one check collects: diagnostics, constraints, tensors, fresh names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Literal

from tcdsl.grammar import nodes as n
from tcdsl.grammar.errors import Diagnostic
from tcdsl.grammar.scope import Frame, Tensor
from tcdsl.grammar.sizes import Size, is_nonnegative
from tcdsl.grammar.source import Span
from tcdsl.grammar.typed import Constraint


@dataclass(slots=True)
class Session:
    """The state of one check; frames come and go, this stays."""

    defs: Mapping[str, n.Def]
    taken: set[str]  # every identifier of the text, and the fresh names
    diagnostics: list[Diagnostic] = field(default_factory=list)
    constraints: dict[tuple[Size, str], Constraint] = field(default_factory=dict)
    tensors: list[Tensor] = field(default_factory=list)
    calls: list[tuple[str, Span | None]] = field(default_factory=list)
    statements: int = 0

    def report(self, diagnostic: Diagnostic) -> None:
        """Note an error or a warning, once."""
        if diagnostic not in self.diagnostics:
            self.diagnostics.append(diagnostic)

    @property
    def has_errors(self) -> bool:
        """Whether an error was noted."""
        return any(d.severity == "error" for d in self.diagnostics)

    def demand(
        self,
        size: Size,
        message: str,
        span: Span | None,
        relation: Literal[">=0", "==0"] = ">=0",
    ) -> bool:
        """Make calls check size >= 0 (or == 0); False if it is wrong for all sizes."""
        if relation == ">=0":
            if is_nonnegative(size):
                return True
            if is_nonnegative(-size - 1):
                return False
        else:
            if size == Size():
                return True
            if is_nonnegative(size - 1) or is_nonnegative(-size - 1):
                return False
        self.constraints.setdefault((size, relation), Constraint(size, relation, message, span))
        return True

    def fresh(self, name: str) -> str:
        """Return a name like this one that nothing else has."""
        candidate, count = name, 1
        while candidate in self.taken:
            count += 1
            candidate = f"{name}_{count}"
        self.taken.add(candidate)
        return candidate

    def index_name(self, frame: Frame, name: str) -> str:
        """Return what the checked statement calls an index."""
        if frame.is_entry or name not in self.taken:
            return name
        return self.fresh(name)


def identifiers(root: n.Node) -> Iterator[str]:
    """Yield the identifiers of a syntax tree."""
    todo: list[object] = [root]
    while todo:
        item = todo.pop()
        if isinstance(item, tuple):
            todo += item
        elif is_dataclass(item):
            for f in fields(item):
                value = getattr(item, f.name)
                if f.name in ("name", "callee", "var") and isinstance(value, str):
                    yield value
                elif not f.name.endswith("span"):
                    todo.append(value)
