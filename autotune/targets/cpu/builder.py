"""Candidates for the CPU: compiled many at a time into shared objects."""

from __future__ import annotations

import functools
import itertools
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from pathlib import Path

from tcdsl.autotune.store.trial import Failure
from tcdsl.autotune.worker.builder import Built
from tcdsl.autotune.worker.emitted import Emitted
from tcdsl.codegen.toolchain.host import usable_cores
from tcdsl.codegen.toolchain.making import UnwantedError
from tcdsl.grammar.text.dataclass import dataclass
from tcdsl.grammar.text.errors import CompileError

UNIT = 8  # candidates at most in one translation unit

# What is not wanted any more is left; the compilers that run are ended.
Compile = Callable[[Sequence[Emitted], Callable[[], bool]], Path | CompileError]


@dataclass(frozen=True, slots=True)
class SharedObjects:
    """Builds candidates for the CPU, several in one shared object: a compiler's start costs most.

    A unit that fails is split until the guilty one stands alone.

    Parameters
    ----------
    compile : callable
        Makes a shared object of candidates, as long as it is wanted.
    """

    compile: Compile

    @property
    def jobs(self) -> int:
        """How many compilers run at a time."""
        return usable_cores()

    def build(
        self,
        sources: Iterable[Emitted],
        count: int,
        is_unwanted: Callable[[], bool] = lambda: False,
        meanwhile: Callable[[], bool] = lambda: False,
    ) -> Iterator[tuple[int, Built | Failure]]:
        """Yield what became of each source; there is one unit for each compiler where it is full.

        (Two for each end more evenly, and take a sixth more of the compilers' time.) Compilers end
        with it: when the time is over, or the user wants no more.
        """
        left = threading.Event()
        jobs = self.jobs
        share = min(UNIT, max(1, -(-count // jobs)))
        numbered = iter(enumerate(sources))
        units = iter(lambda: list(itertools.islice(numbered, share)), [])
        pool = ThreadPoolExecutor(jobs)
        try:
            begin = functools.partial(self._begin, pool, lambda: left.is_set() or is_unwanted())
            running = deque(begin(unit) for unit in units)
            while running and meanwhile():
                pass
            while running:
                unit, result = running[0][0], running.popleft()[1].result()
                if not isinstance(result, CompileError):
                    for number, source in unit:
                        yield number, Built({"library": str(result), "name": source.name})
                elif len(unit) == 1:
                    yield unit[0][0], Failure("compile", str(result))
                else:
                    middle = len(unit) // 2
                    running += [begin(unit[:middle]), begin(unit[middle:])]
        except UnwantedError:
            return
        finally:
            left.set()
            pool.shutdown(cancel_futures=True)

    def _begin(
        self, pool: Executor, is_unwanted: Callable[[], bool], unit: list[tuple[int, Emitted]]
    ) -> tuple[list[tuple[int, Emitted]], Future[Path | CompileError]]:
        sources = [source for _, source in unit]

        def compiled() -> Path | CompileError:
            return self.compile(sources, is_unwanted)

        try:
            return unit, pool.submit(compiled)
        except RuntimeError:  # no more threads
            done: Future[Path | CompileError] = Future()
            done.set_result(compiled())
            return unit, done
