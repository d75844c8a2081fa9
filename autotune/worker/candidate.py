"""A trial on its way: from a row to text to code that can be loaded."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tcdsl.autotune.store.rows import TrialRow
from tcdsl.autotune.worker.emitted import Emitted
from tcdsl.autotune.worker.problem import TuningProblem
from tcdsl.codegen.machine.config import Config
from tcdsl.grammar.text.dataclass import dataclass


@dataclass(frozen=True, slots=True, eq=False)
class Candidate:
    """A config on its way to a time.

    text : the digest that equal candidates share.
    code : what the worker is told to load it by; None before it is compiled.
    """

    row: TrialRow
    emitted: Emitted
    text: str
    code: Mapping[str, Any] | None = None

    @property
    def config(self) -> Config:
        """The config."""
        return self.row.config

    def compiled(self, text: str, code: Mapping[str, Any]) -> Candidate:
        """Return the candidate with its code."""
        return replace(self, text=text, code=code)


def emit(problem: TuningProblem, row: TrialRow) -> Candidate:
    """Return the candidate of a row.

    Raises
    ------
    ScheduleError
        If the config does not fit.
    """
    emitted = problem.emit(row.config)
    return Candidate(row, emitted, emitted.fingerprint)
