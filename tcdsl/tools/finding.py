"""One thing that the doctor looked at."""

from __future__ import annotations

from dataclasses import asdict
from typing import Literal

from tcdsl.grammar.text.dataclass import dataclass

State = Literal["ok", "note", "broken"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing looked at: its state, what was found, and what to do if it is not well."""

    name: str
    state: State
    value: str
    cure: str = ""

    @property
    def mark(self) -> str:
        """One character for the state."""
        return {"ok": "+", "note": "?", "broken": "!"}[self.state]

    def as_dict(self) -> dict[str, str]:
        """Return the fields."""
        return asdict(self)
