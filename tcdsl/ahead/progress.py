"""What people see while kernels are compiled: live on a terminal, lines elsewhere."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from rich.progress import Progress as RichProgress

_LINE_EVERY_S = 5.0


class Progress:
    """Is told how far it has come; says nothing of it."""

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        """End what is shown; kind: what ended the work before its end."""

    def show(self, done: int, failed: int, label: str) -> None:
        """Tell how many are done, of them how many failed, and which was the last."""


class _Counted(Progress):
    """Knows how many are done, and says it where Ctrl-C ends the work."""

    def __init__(self, total: int, stream: TextIO) -> None:
        self._done, self._total, self._stream = 0, total, stream

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        if kind is KeyboardInterrupt:
            print(f"{self._done} of {self._total} compiled, which are kept", file=self._stream)


def progress(total: int, quiet: bool = False, stream: TextIO | None = None) -> Progress:
    """Return the progress that suits a stream, by default standard error."""
    stream = stream or sys.stderr
    if quiet:
        return Progress()
    return _Live(total, stream) if stream.isatty() else _Lines(total, stream)


class _Lines(_Counted):
    """A line now and then."""

    def __init__(self, total: int, stream: TextIO) -> None:
        super().__init__(total, stream)
        self._said = time.monotonic()

    def show(self, done: int, failed: int, label: str) -> None:
        self._done = done
        if done < self._total and time.monotonic() - self._said < _LINE_EVERY_S:
            return
        self._said = time.monotonic()
        faults = f", {failed} failed" if failed else ""
        print(f"{done} of {self._total} compiled{faults}", file=self._stream, flush=True)


class _Live(_Counted):
    """A bar."""

    def __init__(self, total: int, stream: TextIO) -> None:
        super().__init__(total, stream)
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
        from rich.progress import Progress as Rich

        columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
                   TextColumn("{task.description}", markup=False))  # fmt: skip
        self._bar: RichProgress = Rich(*columns, console=Console(file=stream), transient=True)
        self._task = self._bar.add_task("", total=total)

    def __enter__(self) -> Progress:
        self._bar.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        self._bar.stop()
        super().__exit__(kind, *error)

    def show(self, done: int, failed: int, label: str) -> None:
        self._done = done
        faults = f"{failed} failed, " if failed else ""
        self._bar.update(self._task, completed=done, description=faults + label)
