"""A trial on its way: from a row to text to code that can be loaded."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tcdsl.autotune.store.rows import TrialRow
from tcdsl.autotune.worker.emitted import Emitted
from tcdsl.autotune.worker.problem import TuningProblem
from tcdsl.codegen.machine.config import Config


@dataclass(slots=True, eq=False)
class Candidate:
    """A row, its source and the digest that equal candidates share, its code, its times so far.

    code is what the worker is told to load it by; generation that of the worker process that has
    it loaded.
    """

    row: TrialRow
    source: Emitted
    text: str
    code: Mapping[str, Any] | None = None
    generation: int = -1
    samples: list[float] = field(default_factory=list)

    @property
    def config(self) -> Config:
        """The config."""
        return self.row.config


def emitted(problem: TuningProblem, row: TrialRow) -> Candidate:
    """Return the candidate of a row.

    Raises
    ------
    ScheduleError
        If the config does not fit.
    """
    source = problem.emit(row.config)
    return Candidate(row, source, source.fingerprint)
