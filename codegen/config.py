"""The tunable choice: flat, storable, hashable, printable."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

Value = int | str | bool


@dataclass(frozen=True, slots=True)
class Knob:
    """One choice of a search space: `g0.mr` among values, in their natural order."""

    name: str
    values: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class Config:
    """Values of knobs by name, sorted. Names are `partition`, `threads`, `g0.form`, `g0.mr`, ..."""

    items: tuple[tuple[str, Value], ...] = ()

    @staticmethod
    def of(values: Mapping[str, Value]) -> Config:
        """Return the config of a mapping."""
        return Config(tuple(sorted(values.items())))

    @staticmethod
    def from_json(text: str) -> Config:
        """Read what `to_json` wrote."""
        return Config.of(json.loads(text))

    def to_json(self) -> str:
        """Return one line of JSON with sorted keys."""
        return json.dumps(dict(self.items), separators=(",", ":"))

    def get(self, name: str, default: Value | None = None) -> Value | None:
        """Return the value of a knob."""
        return dict(self.items).get(name, default)

    def group(self, index: int) -> dict[str, Value]:
        """Return the knobs of group index, without the prefix `g{index}.`."""
        head = f"g{index}."
        return {k.removeprefix(head): v for k, v in self.items if k.startswith(head)}

    def __str__(self) -> str:
        return " ".join(f"{k}={v}" for k, v in self.items)
