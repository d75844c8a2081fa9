"""The tunable choice: flat, storable, hashable, printable."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

from tcdsl.codegen.machine.plainjson import loads
from tcdsl.grammar.text.dataclass import dataclass

Value = int | str | bool

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.]{0,63}")
_LARGEST = 2**63


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
    def from_json(text: object) -> Config:
        """Read what `to_json` wrote.

        The text may come from any file: whether the values are those of a program's knobs is for
        the program to say (`compiler.is_legal`).

        Raises
        ------
        ValueError
            If it is anything but names of knobs with an integer, a text or a truth value each.
        """
        values = loads(text)
        if not isinstance(values, dict):
            raise ValueError("a config is a table of knobs")
        for name, value in values.items():
            if not _NAME.fullmatch(name) or not _is_value(value):
                raise ValueError(f"{name!r} is no knob with a value")
        return Config.of(values)

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


def is_same(a: Value, b: Value) -> bool:
    """Whether two values of a knob are one: to Python, 1 and True are equal."""
    return type(a) is type(b) and a == b


def _is_value(value: object) -> bool:
    if isinstance(value, str):
        return value.isprintable()
    return isinstance(value, int) and -_LARGEST <= value < _LARGEST
