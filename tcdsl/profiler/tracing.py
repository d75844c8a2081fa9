"""What ran and when: calls of kernels, as the launcher saw them, and labels of a program."""

from __future__ import annotations

import os
import threading
import time
from typing import NamedTuple

from tcdsl.calls.process import waits
from tcdsl.calls.process.locks import Lock
from tcdsl.codegen import runtime
from tcdsl.codegen.runtime import Entry, Launcher

__all__ = ["Call", "Label", "Recording", "label"]


class Call(NamedTuple):
    """A call of a kernel: the time of its phases, in nanoseconds of `time.perf_counter_ns`."""

    launcher: Launcher
    entry: Entry
    start_ns: int
    end_ns: int
    thread: int


class Label(NamedTuple):
    """A block of the program that has a name."""

    name: str
    start_ns: int
    end_ns: int
    thread: int


_lock = Lock()  # a finalizer or a handler that ends a block may run within
_open: list[Recording] = []


class Recording:
    """All that runs, in any thread, between `start` and `stop`."""

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self.labels: list[Label] = []
        self.lost = 0  # calls for which there was no room
        self.start_ns = self.end_ns = 0

    def start(self) -> None:
        """Begin; a recording is made once."""
        with _lock:
            _hand_out()
            _open.append(self)
            _listen()
        self.start_ns = time.perf_counter_ns()

    def stop(self) -> None:
        """End; nothing happens where it has ended."""
        with _lock:
            if self not in _open:
                return
            self.end_ns = time.perf_counter_ns()
            _hand_out()
            _open.remove(self)
            _listen()


def label(name: str, start_ns: int) -> None:
    """Tell all recordings that a block ends here, in this thread."""
    ended = Label(name, start_ns, time.perf_counter_ns(), threading.get_ident())
    with _lock:
        for recording in _open:
            recording.labels.append(ended)


def is_recording() -> bool:
    """Whether anybody listens."""
    return bool(_open)


def _listen() -> None:
    """Hear of calls, and of what they wait for, while there are recordings."""
    runtime.trace(bool(_open))
    waits.listeners[:] = [_prepared] if _open else []


def _prepared(name: str, start_ns: int) -> None:
    label(f"prepare {name}", start_ns)


def _hand_out() -> None:
    """Give what the launcher has kept to whoever was listening."""
    calls, lost = runtime.traced()
    for recording in _open:
        recording.calls += map(Call._make, calls)
        recording.lost += lost


def _forget() -> None:
    """Record nothing in a forked child: the recordings are the parent's, and end here."""
    now = time.perf_counter_ns()
    for recording in _open:
        recording.end_ns = now
    _open.clear()
    _listen()
    runtime.traced()


os.register_at_fork(after_in_child=_forget)
