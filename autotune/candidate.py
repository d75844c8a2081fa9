"""A trial on its way: from a row to C text to an object that can be loaded."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tcdsl.autotune.key import digest_of
from tcdsl.autotune.model import fingerprint
from tcdsl.autotune.problem import Problem
from tcdsl.autotune.store import Row
from tcdsl.codegen.config import Config
from tcdsl.grammar.errors import CompileError

UNIT = 16  # candidates at most in one translation unit

Build = Callable[[Sequence[str]], Sequence[Path | CompileError]]


@dataclass(slots=True, eq=False)
class Candidate:
    """A row, its C text and the digest of that, where its object lies, its times so far.

    generation is that of the worker process that has it loaded.
    """

    row: Row
    name: str
    source: str
    text: str
    library: Path | None = None
    generation: int = -1
    samples: list[float] = field(default_factory=list)

    @property
    def config(self) -> Config:
        """The config."""
        return self.row.config


def emitted(problem: Problem, row: Row) -> Candidate:
    """Return the candidate of a row.

    Raises
    ------
    ScheduleError
        If the config does not fit.
    """
    name = f"c{digest_of(row.config.to_json())}"
    source = problem.source(row.config, name)
    return Candidate(row, name, source, digest_of(fingerprint(source, name)))


def compile_together(
    build: Build, candidates: Sequence[Candidate], jobs: int
) -> list[tuple[Candidate, CompileError]]:
    """Compile many candidates in one unit, and return those that do not compile.

    A unit that fails is split until the guilty one stands alone. The others get their library.
    """
    share = min(UNIT, max(1, -(-len(candidates) // jobs)))
    units = [list(candidates[i : i + share]) for i in range(0, len(candidates), share)]
    guilty: list[tuple[Candidate, CompileError]] = []
    while units:
        results = build(["\n".join(c.source for c in unit) for unit in units])
        halves: list[list[Candidate]] = []
        for unit, result in zip(units, results, strict=True):
            if not isinstance(result, CompileError):
                for candidate in unit:
                    candidate.library = result
            elif len(unit) == 1:
                guilty.append((unit[0], result))
            else:
                middle = len(unit) // 2
                halves += [unit[:middle], unit[middle:]]
        units = halves
    return guilty
