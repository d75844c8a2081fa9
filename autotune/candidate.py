"""A trial on its way: from a row to C text to an object that can be loaded."""

from __future__ import annotations

import functools
import itertools
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from tcdsl.autotune.key import digest_of
from tcdsl.autotune.model import fingerprint
from tcdsl.autotune.problem import Problem
from tcdsl.autotune.store import Row
from tcdsl.codegen.config import Config
from tcdsl.grammar.errors import CompileError

UNIT = 8  # candidates at most in one translation unit

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
    build: Build, candidates: Iterable[Candidate], count: int, jobs: int
) -> list[tuple[Candidate, CompileError]]:
    """Compile candidates, many in one unit, and return those that do not compile.

    A unit that fails is split until the guilty one stands alone. The others get their library.

    Parameters
    ----------
    build : callable
    candidates : iterable of Candidate
        The next ones are emitted while compilers are at work on the first.
    count : int
        How many there are at most.
    jobs : int
        How many compilers run at once; each has two units or more if there are enough candidates,
        so that none is idle for long.
    """
    share = min(UNIT, max(1, -(-count // (2 * jobs))))
    rest = iter(candidates)
    units = iter(lambda: list(itertools.islice(rest, share)), [])
    guilty: list[tuple[Candidate, CompileError]] = []
    pool = ThreadPoolExecutor(jobs)
    try:
        begin = functools.partial(_begin, pool, build)
        running = deque(begin(unit) for unit in units)
        while running:
            unit, result = running[0][0], running.popleft()[1].result()
            if not isinstance(result, CompileError):
                for candidate in unit:
                    candidate.library = result
            elif len(unit) == 1:
                guilty.append((unit[0], result))
            else:
                middle = len(unit) // 2
                running += [begin(unit[:middle]), begin(unit[middle:])]
    finally:
        pool.shutdown(cancel_futures=True)
    return guilty


def _begin(
    pool: Executor, build: Build, unit: list[Candidate]
) -> tuple[list[Candidate], Future[Path | CompileError]]:
    text = "\n".join(c.source for c in unit)
    return unit, pool.submit(lambda: build([text])[0])
