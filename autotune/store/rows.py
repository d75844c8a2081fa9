"""Rows of the table of trials as values."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, get_args

from tcdsl.autotune.store.trial import Reason, Status, Trial
from tcdsl.autotune.store.tuning_file import warn_once
from tcdsl.autotune.store.untrusted import date_in, optional_time_in, text_in
from tcdsl.codegen.machine.config import Config
from tcdsl.grammar.text.dataclass import dataclass

# Why a config is out that ran when its tuner ended: it may be to blame, or a user's kill.
TUNER_ENDED = "the tuning process ended while this config ran"


@dataclass(frozen=True, slots=True)
class TrialRow:
    """A row of the table of trials.

    time_ns : None where it failed or has not ended.
    owner : the run that works on it (`owner.py`).
    text : digest of what its config emits, "" before it is known.
    """

    id: int
    config: Config
    status: Status
    reason: Reason
    detail: str
    time_ns: float | None
    owner: str
    origin: str
    text: str
    created: float
    updated: float

    @property
    def trial(self) -> Trial:
        """The trial of a row that is timed or failed."""
        time_ns = math.inf if self.time_ns is None else self.time_ns
        return Trial(self.config, time_ns, self.reason, self.detail)


def trial_rows(rows: Iterable[Mapping[str, Any]], path: Path) -> Iterator[TrialRow]:
    """Yield the rows of a file; corrupt ones are skipped with a warning."""
    for row in rows:
        try:
            yield _trial_row(row)
        except ValueError as error:
            warn_once(f"a corrupt trial of {path} is skipped: {row['id']!r:.40}: {error}")


def _trial_row(row: Mapping[str, Any]) -> TrialRow:
    """Return a row of the table of trials.

    Raises
    ------
    ValueError
        If it holds anything else than what a store writes.
    """
    status, reason, time_ns = row["status"], row["reason"], optional_time_in(row["time_ns"])
    if status not in get_args(Status) or reason not in get_args(Reason):
        raise ValueError("it has an unknown status or reason")
    if status == "timed" and time_ns is None:
        raise ValueError("it is timed and has no time")
    return TrialRow(
        row["id"],
        Config.from_json(row["config"]),
        status,
        reason,
        text_in(row["detail"]),
        time_ns,
        text_in(row["owner"]),
        text_in(row["origin"]),
        text_in(row["text"]),
        date_in(row["created"]),
        date_in(row["updated"]),
    )
