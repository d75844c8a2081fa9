"""Groups of statements and partitions of a program into them: plain data."""

from __future__ import annotations

from dataclasses import field

from tcdsl.codegen.program.program import Statement
from tcdsl.grammar.text.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Group:
    """Statements that run together, in program order.

    members are positions in `Program.statements`, in order; statements are what is left of them
    after pointwise producers were put into their consumers; origins tells, for each statement, the
    members that are in it. local names the versions that live in the tile only: nobody outside
    the group reads them, so they need no memory.
    """

    members: tuple[int, ...]
    statements: tuple[Statement, ...]
    local: tuple[str, ...] = ()
    origins: tuple[tuple[int, ...], ...] = ()
    _wanted: frozenset[str] | None = field(default=None, init=False, compare=False, repr=False)

    def wanted(self) -> frozenset[str]:
        """Return the versions that the group reads or goes on from."""
        if self._wanted is None:
            bases = {s.base for s in self.statements if s.base is not None}
            found = frozenset(bases | {r.tensor for s in self.statements for r in s.reads()})
            object.__setattr__(self, "_wanted", found)
        assert self._wanted is not None
        return self._wanted

    def part(self, start: int, stop: int) -> Group:
        """Return statements [start, stop) as a group of their own."""
        statements = self.statements[start:stop]
        others = self.statements[:start] + self.statements[stop:]
        outside = Group((), others).wanted()
        made = {s.target for s in statements}
        local = tuple(n for n in self.local if n in made and n not in outside)
        origins = self.origins[start:stop]
        members = tuple(sorted(m for origin in origins for m in origin))
        return Group(members, statements, local, origins)


@dataclass(frozen=True, slots=True)
class Partition:
    """All statements in groups, which run one after the other."""

    name: str
    groups: tuple[Group, ...]
