"""Tuned configs that come with a model: a file that `tcdsl cache export` left, read once.

Nobody writes such a file while it is in use, and anybody may have written it before: it is read
like a stranger's (`tuning_file.py`), kept in memory, and every config is checked again by the
program that is to use it. Nothing is written, so a folder that is read-only serves, as an installed
package does. (To merge it into the user's store was refused: a model would change other models'
kernels.)

Such a config serves where nothing was tuned here: its time is of another machine, so it is not
weighed against the own one; a search tries it right after the default.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

from tcdsl.autotune.store import records
from tcdsl.autotune.store.best import Best, nearest
from tcdsl.autotune.store.key import ProblemKey
from tcdsl.autotune.store.tuning_file import not_ours, reading, require_file
from tcdsl.autotune.store.untrusted import date_in, optional_time_in, time_in
from tcdsl.codegen.machine.config import Config
from tcdsl.codegen.machine.plainjson import loads
from tcdsl.grammar.text.dataclass import dataclass

MOST_CHARS = 1 << 26  # of `to_json`: a hundred thousand rows
_FORMAT = "tcdsl configs 1"


@dataclass(frozen=True, slots=True)
class ShippedConfig:
    """A tuned config and what it was tuned for."""

    key: ProblemKey
    config: Config
    time_ns: float
    default_ns: float | None
    updated: float


class Shipped:
    """Tuned configs by problem.

    A config is also that of a problem which differs by the versions of the compiler and of the code
    generator alone: a model outlives them, and a config says how to split loops, not what code
    that is. Of several the latest serves.
    """

    def __init__(self, rows: Iterable[ShippedConfig]) -> None:
        self.rows = tuple(sorted(rows, key=lambda r: (r.updated, r.key.digest)))
        self._exact = {r.key.digest: r for r in self.rows}
        self._any_version = {_versionless(r.key).digest: r for r in self.rows}
        self._families: dict[str, list[ShippedConfig]] = {}
        for row in self._any_version.values():
            self._families.setdefault(_versionless(row.key).family, []).append(row)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Shipped) and self.rows == other.rows

    def __hash__(self) -> int:
        return hash(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def __repr__(self) -> str:
        return f"<{len(self)} tuned configs>"

    def __reduce__(self) -> tuple[object, ...]:
        return Shipped.from_json, (self.to_json(),)

    def lookup(self, key: ProblemKey) -> Config | None:
        """Return the config of a problem, or None."""
        found = self._exact.get(key.digest) or self._any_version.get(_versionless(key).digest)
        return None if found is None else found.config

    def relatives(self, key: ProblemKey) -> tuple[Best, ...]:
        """Return the configs of the same problem at other sizes, nearest sizes first."""
        family = self._families.get(_versionless(key).family, ())
        return nearest((_best(r) for r in family if r.key.sizes != key.sizes), key)

    def to_json(self) -> str:
        """Return all of it as one line."""
        rows = [
            [r.key.to_json(), r.config.to_json(), r.time_ns, r.default_ns, r.updated]
            for r in self.rows
        ]
        return json.dumps({"format": _FORMAT, "rows": rows})

    @staticmethod
    def from_json(text: object) -> Shipped:
        """Read what `to_json` wrote.

        Raises
        ------
        ValueError
            If it is anything else: the text may come from any file.
        """
        match loads(text, MOST_CHARS, MOST_CHARS):
            case {"format": str(version), "rows": list(rows)} if version == _FORMAT:
                return _one_of(tuple(map(_row, rows)))
        raise ValueError("it holds no tuned configs of this version")

    @staticmethod
    def read(path: Path) -> Shipped:
        """Return the tuned configs of a file; rows that no store has written are left out.

        Raises
        ------
        StoreError
            If there is no such file, or it is no tuning file.
        """
        if not require_file(path):
            raise not_ours(path, "it is empty" if path.exists() else "it does not exist")
        with reading(path, alone=True) as connection:
            records.require_same_schema(connection, path)
        return _one_of(
            tuple(
                ShippedConfig(p.key, p.config, p.time_ns, p.default_ns, p.updated)
                for p in records.problems(path)
                if p.config is not None and p.time_ns is not None
            )
        )


@lru_cache(maxsize=64)
def _one_of(rows: tuple[ShippedConfig, ...]) -> Shipped:
    """Return the same object for the same rows: the layers of a model share one."""
    return Shipped(rows)


def _versionless(key: ProblemKey) -> ProblemKey:
    return replace(key, compiler="", generator="")


def _best(row: ShippedConfig) -> Best:
    key = row.key
    return Best(key.digest, key.family, key.sizes, row.config, row.time_ns, row.default_ns)


def _row(row: object) -> ShippedConfig:
    """Return a row of `to_json`.

    Raises
    ------
    ValueError
        If it is none.
    """
    if not isinstance(row, Sequence) or isinstance(row, str) or len(row) != 5:
        raise ValueError("a row has five columns")
    key, config, time_ns, default_ns, updated = row
    return ShippedConfig(
        ProblemKey.from_json(key),
        Config.from_json(config),
        time_in(time_ns),
        optional_time_in(default_ns),
        date_in(updated),
    )
