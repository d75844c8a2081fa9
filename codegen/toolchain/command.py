"""A command of others, as a C compiler: bounded in time and output, ended with all it started.

What it prints goes to a file: a pipe whose writer outlives the command would be waited for.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

MOST_PRINTED = 16 << 20  # bytes; more is a fault, and would fill the disk or the memory
_LONGEST_LOG = 20_000  # characters
_POLL_S = 0.002
# What systems and compilers say where a limit of the process ended them.
_SHORT = (
    "Resource temporarily unavailable", "Too many open files", "File size limit exceeded",
    "File too large", "Cannot allocate memory", "out of memory", "virtual memory exhausted",
)  # fmt: skip


class Command:
    """A command at work in a process group of its own, so that Ctrl-C reaches us and not it.

    Parameters
    ----------
    words : sequence of str
    seconds : float
        After which it is ended.
    folder : Path
        In which it works.
    printed : Path
        The file that takes what it prints.
    env : mapping of str to str
    errors : Path, optional
        The file of what it prints as an error; the same by default.
    handles : sequence of int
        Open files that it has too.

    Raises
    ------
    OSError
        If it cannot be started.
    """

    def __init__(
        self,
        words: Sequence[str],
        seconds: float,
        folder: Path,
        printed: Path,
        env: Mapping[str, str],
        errors: Path | None = None,
        handles: Sequence[int] = (),
    ) -> None:
        self._printed = [printed, *([errors] if errors else [])]
        self._seconds = seconds
        self.begin()
        self.objection = ""  # why we ended it
        with contextlib.ExitStack() as files:
            streams = [files.enter_context(path.open("wb")) for path in self._printed]
            self._process = subprocess.Popen(
                words, stdin=subprocess.DEVNULL, stdout=streams[0], stderr=streams[-1], cwd=folder,
                env=env, start_new_session=True, pass_fds=handles,
            )  # fmt: skip

    def begin(self) -> None:
        """Let its seconds begin now."""
        self._deadline = time.monotonic() + self._seconds

    @property
    def number(self) -> int:
        """Of its process."""
        return self._process.pid

    @property
    def status(self) -> int:
        """What it ended with, as `subprocess` tells it."""
        assert self._process.returncode is not None
        return self._process.returncode

    def finished(self) -> bool:
        """Whether it has ended, and all that it started with it; too much of it is ended."""
        if self._process.returncode is not None:
            return True
        if self._is_over():
            self.kill()
            return True
        if time.monotonic() > self._deadline:
            self.objection = f"it had not ended after {self._seconds:g} s, and was ended"
        elif any(path.stat().st_size > MOST_PRINTED for path in self._printed):
            self.objection = f"it printed more than {MOST_PRINTED >> 20} MB, and was ended"
        else:
            return False
        self.kill()
        return True

    def wait(self) -> None:
        """Wait for its end; it is ended if the wait is interrupted."""
        try:
            while not self.finished():
                time.sleep(_POLL_S)
        except BaseException:
            self.kill()
            raise

    def kill(self) -> None:
        """End it and what it has started: not waited for yet, it keeps the number of the group."""
        if self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):  # macOS: of zombies
                os.killpg(self.number, signal.SIGKILL)
            self._process.wait()

    def _is_over(self) -> bool:
        if not hasattr(os, "waitid"):  # macOS
            return self._process.poll() is not None
        flags = os.WEXITED | os.WNOWAIT | os.WNOHANG
        return os.waitid(os.P_PID, self.number, flags) is not None


@contextlib.contextmanager
def uninterrupted() -> Iterator[None]:
    """Let Ctrl-C wait: between the start of a compiler and the note of it, it would be lost."""
    in_main = threading.current_thread() is threading.main_thread()
    usual = signal.getsignal(signal.SIGINT)
    if not in_main or usual is None:  # it cannot come here; or the handler is not Python's
        yield
        return
    pending: list[int] = []
    signal.signal(signal.SIGINT, lambda number, _frame: pending.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, usual)
        if pending:
            signal.raise_signal(signal.SIGINT)


def beginning_of(log: Path) -> bytes:
    """Return of what was printed as much as people are shown."""
    with log.open("rb") as file:
        return file.read(4 * _LONGEST_LOG)


def readable(log: str | bytes) -> str:
    """Return what a command said as a text for people, whatever it is."""
    text = log.decode("utf-8", "replace") if isinstance(log, bytes) else log
    kept = "".join(c if c.isprintable() or c in "\n\t" else "?" for c in text[:_LONGEST_LOG])
    return kept.strip() + ("\n..." if len(text) > _LONGEST_LOG else "")


def cure_in(printed: str) -> str:
    """Return a line with what to do where a limit of this process ended a command, else ""."""
    if not any(words in printed for words in _SHORT):
        return ""
    return (
        "\n  note: it needs more processes, memory, open files or larger files than it may have"
        " here (ulimit -u, -v, -n, -f)"
    )
