"""What holds candidates against a case and times them, inside the worker process: per target."""

from __future__ import annotations

import json
import pkgutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Protocol

from tcdsl.autotune.worker.case import Case
from tcdsl.autotune.worker.timing import Sampler

# How a caller runs a kernel: call upon call; outputs read after each; operands in no cache.
Way = Literal["again", "read", "cold"]


class WrongAnswerError(Exception):
    """What a candidate computed is not what the reference computed, or it broke a rule."""


class Bench(Protocol):
    """A case on one device. Made before any candidate's deadline runs.

    A candidate may end the process: what it does is its own business, the tuner records it.
    """

    def load(self, code: Mapping[str, Any], is_known: bool = False) -> Any:
        """Return a candidate, loaded from what its builder gave and found right.

        is_known : whether it was found right before, in a process that has ended.

        Raises
        ------
        WrongAnswerError
            If an output differs from what is expected, or anything else was written.
        """

    @property
    def ways(self) -> Sequence[Way]:
        """The ways beside call upon call in which one that serves calls has to hold its own."""

    def sampler(self, candidate: Any, way: Way = "again") -> Sampler:
        """Return a candidate as what is timed; in other ways each turn is one sample."""


def save(folder: Path, settings: Mapping[str, Any]) -> None:
    """Write which bench a worker over this folder opens, beside its case."""
    (folder / "bench.json").write_text(json.dumps(settings))


def opener(folder: Path) -> Callable[[], Bench]:
    """Return what opens the bench that was saved into a folder, over the case in it.

    All that it imports is imported now: the case may not be there yet.
    Its settings have `open`, the function that makes it from the case, as `MODULE:NAME`; the rest
    are that function's arguments.
    """
    settings = json.loads((folder / "bench.json").read_text())
    make: Callable[..., Bench] = pkgutil.resolve_name(settings.pop("open"))
    return lambda: make(Case.load(folder), **settings)
