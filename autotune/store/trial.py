"""One tried config: how far it came and what it took."""

from __future__ import annotations

import math
from typing import Literal

from tcdsl.codegen.machine.config import Config
from tcdsl.grammar.text.dataclass import dataclass
from tcdsl.grammar.text.errors import TCError

Status = Literal["proposed", "compiled", "running", "checked", "timed", "failed"]
FINAL: tuple[Status, ...] = ("timed", "failed")

# schedule: the form refused the config. resources: its code cannot run well, or at all: it
# spills registers, or not one block fits. slow: cut at its deadline; it may hang as well, from
# outside these are the same. wrong: another answer than the reference, or a byte written outside an
# operand that no guard page caught.
Reason = Literal["", "schedule", "compile", "resources", "crash", "slow", "wrong"]


class TuneError(TCError, RuntimeError):
    """A problem cannot be tuned."""


class UntunedError(TuneError):
    """A run came to no verdict, and nothing is wrong with the kernel: the default serves."""


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a candidate is out."""

    reason: Reason
    detail: str


@dataclass(frozen=True, slots=True)
class Trial:
    """The end of a trial: a time per call, or the reason why there is none.

    is_twin: another config emits the same text, and this end is that one's.
    """

    config: Config
    time_ns: float = math.inf
    reason: Reason = ""
    detail: str = ""
    is_twin: bool = False

    @property
    def is_timed(self) -> bool:
        """Whether the config ran, gave the right answer and has a time."""
        return math.isfinite(self.time_ns)


@dataclass(frozen=True, slots=True)
class Verdict:
    """The end of a tuning run: the config to use, its time, and the default's beside it."""

    config: Config
    time_ns: float
    default_ns: float
