"""From sources to code: what the tuner asks of a compiler.

A builder works on an iterator, so that the next candidates are emitted while compilers are at work
on the first: a trial costs 20 to 100 ms of a core in the C compiler, 5 to 50 in ours, 10 on the
clock. Nothing runs while a candidate is timed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Protocol

from tcdsl.autotune.store.trial import Failure
from tcdsl.autotune.worker.emitted import Emitted
from tcdsl.grammar.text.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Built:
    """A compiled candidate.

    load : what the bench in the worker process loads it by, as JSON.
    digest : of its machine code and its launches, "" where that is not known: candidates that
        share it are one.
    objection : why it cannot be fast, if the compiler told: then it is not worth a run.
    """

    load: Mapping[str, Any]
    digest: str = ""
    objection: str | None = None


class Builder(Protocol):
    """What compiles the candidates of a problem."""

    @property
    def jobs(self) -> int:
        """How many compilers run at a time."""

    def build(
        self,
        sources: Iterable[Emitted],
        count: int,
        is_unwanted: Callable[[], bool] = lambda: False,
        meanwhile: Callable[[], bool] = lambda: False,
    ) -> Iterator[tuple[int, Built | Failure]]:
        """Yield, in any order, the number of each source and what became of it.

        Parameters
        ----------
        sources : iterable of Emitted
        count : int
            How many there are at most.
        is_unwanted : callable
            Asked all the while, in threads too: whether it is to end at once, with what it has.
        meanwhile : callable
            Does a piece of other work, once compilers have all sources, until it returns False:
            the same work, however fast compilers are.
        """
