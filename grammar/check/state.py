"""What one check collects: diagnostics, constraints, tensors, fresh names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import field, replace
from typing import Literal

from tcdsl.grammar.check.scope import Box, Frame, Tensor
from tcdsl.grammar.proofs.ranges import Interval, over_turns
from tcdsl.grammar.proofs.signs import is_nonnegative, maximum
from tcdsl.grammar.proofs.sizes import Size
from tcdsl.grammar.text import nodes as n
from tcdsl.grammar.text.dataclass import dataclass
from tcdsl.grammar.text.errors import Diagnostic, Note
from tcdsl.grammar.text.fresh import counted
from tcdsl.grammar.text.source import Span
from tcdsl.grammar.types.typed import Constraint

Shapes = tuple[tuple[int, ...], ...]

MAX_KNOWN = 12  # constraints from which others are tried to be proved


@dataclass(slots=True)
class CheckState:
    """The state of one check; frames come and go, this stays."""

    defs: Mapping[str, n.Def]
    taken: set[str]  # every identifier of the text, and the fresh names
    visible: frozenset[str]  # names of the entry that are no indices
    diagnostics: list[Diagnostic] = field(default_factory=list)
    constraints: dict[tuple[Size, str], Constraint] = field(default_factory=dict)
    tensors: list[Tensor] = field(default_factory=list)
    calls: list[tuple[str, Span | None]] = field(default_factory=list)
    statements: int = 0
    turns: dict[str, Interval] = field(default_factory=dict)  # values of the loops around
    looped: set[str] = field(default_factory=set)  # variables of all loops so far
    foreseen: dict[str, Box] = field(default_factory=dict)  # of temporaries new in a loop
    inlined: dict[str, int] = field(default_factory=dict)  # how many statements definitions become
    ranked: dict[tuple[str, Shapes], n.Def] = field(default_factory=dict)  # callees bound to ranks
    is_trial: bool = False  # only the boxes count: nothing is judged, demanded or reported

    @contextmanager
    def trial(self) -> Iterator[None]:
        """Let what happens leave no trace here."""
        diagnostics, constraints = [*self.diagnostics], {**self.constraints}
        tensors, taken, statements = [*self.tensors], {*self.taken}, self.statements
        looped = {*self.looped}
        self.is_trial = True
        yield
        self.is_trial = False
        self.diagnostics, self.constraints = diagnostics, constraints
        self.tensors, self.taken, self.statements = tensors, taken, statements
        self.looped = looped

    def report(self, diagnostic: Diagnostic) -> None:
        """Note an error or a warning, once; in a callee, also where it is called."""
        for callee, span in reversed(self.calls[1:]):
            note = Note(f"in the call of '{callee}' here", span)
            diagnostic = replace(diagnostic, notes=(*diagnostic.notes, note))
        if diagnostic not in self.diagnostics:
            self.diagnostics.append(diagnostic)

    @property
    def error_count(self) -> int:
        """Number of errors noted."""
        return sum(d.severity == "error" for d in self.diagnostics)

    def demand(
        self,
        size: Size,
        message: str,
        span: Span | None,
        relation: Literal[">=0", "==0"] = ">=0",
    ) -> bool:
        """Make calls check size >= 0 (or == 0); False if it is wrong for all sizes.

        In a loop the size is that of the turn in which it is least; nothing is checked without
        turns.
        """
        if self.is_trial:
            return True
        if self.turns and relation == ">=0":
            least = self._least(size)
            if least is None:
                return True
            size = maximum(least, *self._no_turns())
        if relation == ">=0":
            known = tuple(c.size for c in self.constraints.values() if c.relation == ">=0")
            if is_nonnegative(size) or is_nonnegative(size, known[:MAX_KNOWN]):
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

    def require(self, size: Size, message: str, span: Span | None) -> None:
        """Make calls check size >= 0; if it is wrong for all sizes, each of them is refused."""
        if not self.demand(size, message, span):
            self.constraints.setdefault((size, ">=0"), Constraint(size, ">=0", message, span))

    def _no_turns(self) -> Iterator[Size]:
        """Yield sizes that are >= 0 where a loop around has no turn."""
        for at in self.turns.values():
            if at.low is None or at.high is None:
                continue
            least = self._least(at.low - at.high - 1)
            if least is not None and not is_nonnegative(-least - 1):
                yield least

    def _least(self, size: Size) -> Size | None:
        """Return the least value of a size in all turns of the loops around."""
        return over_turns(Interval(size, size), self.turns).low

    def fresh(self, name: str) -> str:
        """Return a name like this one that nothing else has."""
        candidate = counted(name, self.taken)
        self.taken.add(candidate)
        return candidate

    def index_name(self, frame: Frame, name: str) -> str:
        """Return what the checked statement calls an index."""
        if frame.is_entry or name not in self.visible:
            return name
        return self.fresh(name)

    def loop_name(self, frame: Frame, name: str) -> str:
        """Return what the checked definition calls a loop's variable: no two loops share one."""
        var = self.index_name(frame, name)
        if var in self.looped:
            var = self.fresh(name)
        self.looped.add(var)
        return var
