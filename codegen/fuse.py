"""Which statements run under common tiles."""

from __future__ import annotations

from dataclasses import dataclass

from tcdsl.codegen.program import Statement


@dataclass(frozen=True, slots=True)
class Group:
    """Statements that run together, in program order.

    members are positions in `Program.statements`; statements are what is left of them after
    pointwise producers were put into their consumers. local names the versions that live in the
    tile only: nobody outside the group reads them, so they need no memory.
    """

    members: tuple[int, ...]
    statements: tuple[Statement, ...]
    local: tuple[str, ...] = ()
