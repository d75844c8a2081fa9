"""Units of candidates, and what is done while compilers are at work on them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from tcdsl.autotune.targets.cpu.builder import SharedObjects
from tcdsl.autotune.worker.emitted import Emitted


def test_other_work_is_done_once_compilers_have_all_sources_and_always_as_much() -> None:
    done: list[str] = []
    is_over = threading.Event()

    def compiled(sources: Sequence[Emitted], is_unwanted: Callable[[], bool]) -> Path:
        del is_unwanted
        is_over.wait(10)
        return Path("/".join(source.name for source in sources))

    def sources() -> Iterator[Emitted]:
        for name in "abcde":
            done.append(name)
            yield Emitted(name, "")

    def meanwhile() -> bool:
        done.append("more")
        is_over.set()  # compilers end with the first piece
        return done.count("more") < 4

    built = dict(SharedObjects(compiled).build(sources(), 5, meanwhile=meanwhile))
    assert done == [*"abcde", *["more"] * 4]
    assert sorted(built) == [0, 1, 2, 3, 4]
