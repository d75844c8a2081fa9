"""The process of `aside.py`: it builds what comes over its input, one after the other.

It runs as ``python -P -m`` of this module and reads pairs of a module's name and a task, pickled by
the very program that started it. An empty line says that it has begun; then it answers each by a
line of JSON: what went wrong, "" if nothing did, and what is to be built after it. When its input
ends so does it, once it is done with what it has begun.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import pickle
import sys
import warnings
from importlib import import_module

from tcdsl.calls.bindings.aside import (
    CALL,
    EXECUTABLE,
    LIBRARY,
    USUAL,
    WAY_BACK,
    Aside,
    Queue,
    collect_in,
)
from tcdsl.calls.bindings.tasks import built

_NEEDED = (EXECUTABLE, LIBRARY, WAY_BACK, CALL, "tcdsl.codegen.choose.compiler")
_NICE = 2  # whoever asked has other work


class _Wanted(Queue):
    """What tasks would have built aside: what comes after them is told, calls ask for the rest."""

    def __init__(self) -> None:
        super().__init__()
        self._library: list[str] = []  # what was built will import it at other sizes
        self._usual: list[tuple[str, str]] = []

    def put(self, one: Aside) -> None:
        if one.module == LIBRARY:
            self._library += json.loads(one.task)
        elif one.module == USUAL:
            self._usual.append((USUAL, one.task.decode()))

    def taken(self) -> list[tuple[str, str]]:
        """Return modules and tasks, once."""
        library = [(LIBRARY, json.dumps(self._library))] if self._library else []
        found = library + self._usual
        self._library, self._usual = [], []
        return found


def main() -> int:
    """Build until nobody asks."""
    with contextlib.suppress(OSError):
        os.nice(_NICE)
    wanted = _Wanted()
    collect_in(wanted)
    requests, answers = sys.stdin.buffer, os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # what a task prints is no answer
    for module in _NEEDED:
        import_module(module)
    gc.freeze()  # what is imported stays: no search for cycles goes through it again
    answer = ""
    with contextlib.suppress(EOFError, OSError), answers:
        while True:
            answers.write(answer.encode() + b"\n")
            answers.flush()
            module, task = pickle.load(requests)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # calls say them
                why = built(module, task)
            answer = json.dumps([why, wanted.taken()])
    return 0


if __name__ == "__main__":
    sys.exit(main())
