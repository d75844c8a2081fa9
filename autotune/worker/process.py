"""The tuner's end of the worker process: start, ask, wait so long and no longer, start anew."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from tcdsl.autotune.store.trial import Reason
from tcdsl.codegen.toolchain.ours import start

_START_S = 60.0
_GRACE_S = 2.0  # after which the tuner ends a worker whose own alarm did not
_POLL_S = 0.1  # between looks at whether the answer is still wanted
_KILLED = "its process was killed (SIGKILL), as systems do where memory is short"
_INTERRUPTED = "KeyboardInterrupt"  # the last line of what Python says then
_TAIL = 400  # characters of a dead worker's last words


class WorkerDiedError(Exception):
    """The worker process ended or was ended while a candidate ran.

    row is the trial it was timing, None where the request named only one. is_killed: from outside,
    as a user or a system that is short of memory does; no candidate ends so by itself.
    """

    def __init__(
        self, reason: Reason, detail: str, row: int | None, *, is_killed: bool = False
    ) -> None:
        super().__init__(detail)
        self.reason, self.detail, self.row, self.is_killed = reason, detail, row, is_killed


class CutError(Exception):
    """The time is over: what was asked for is not waited for."""


class WorkerProcess:
    """A worker over the case in a folder; started when it is needed, and again after a death.

    Parameters
    ----------
    folder : Path
    is_cut : callable
        Whether what the worker is asked for is not wanted any more, however it goes on.
    """

    def __init__(self, folder: Path, is_cut: Callable[[], bool] = lambda: False) -> None:
        self._folder, self._is_cut = folder, is_cut
        self._process: subprocess.Popen[bytes] | None = None
        self._channel: Connection | None = None
        self._words: Any = None
        self._is_open = False
        self.generation = 0  # counts starts: what an earlier process had loaded is gone

    def __enter__(self) -> WorkerProcess:
        return self

    def __exit__(self, *error: object) -> None:
        self.end()

    def ask(
        self,
        limit_s: float,
        request: dict[str, Any],
        hear: Callable[[dict[str, Any]], None] = lambda _: None,
    ) -> dict[str, Any]:
        """Send a request and return its answer.

        Parameters
        ----------
        limit_s : float
            Seconds for the answer, or for each turn of a candidate in a timing request.
        request : dict
        hear : callable
            Told what comes before the answer: at a turn of a candidate what earlier ones gave.

        Raises
        ------
        WorkerDiedError
            If the process ended, by a signal or by the time limit.
        CutError
            If the answer is not wanted any more; then the process was ended.
        """
        if self._is_cut():
            raise CutError
        self.start()
        return self._ask(limit_s, request, hear)

    def _ask(
        self, limit_s: float, request: dict[str, Any], hear: Callable[[dict[str, Any]], None]
    ) -> dict[str, Any]:
        assert self._channel is not None
        row: int | None = None
        try:
            self._channel.send_bytes(json.dumps(request | {"limit_s": limit_s}).encode())
            while True:
                if not self._answers(limit_s + _GRACE_S):
                    self.end()
                    raise _too_slow(limit_s, row)
                answer: dict[str, Any] = json.loads(self._channel.recv_bytes())
                if "at" not in answer:
                    return answer
                row = answer["at"]
                hear(answer)
        except (EOFError, OSError):
            raise self._obituary(limit_s, row) from None

    def end(self) -> None:
        """End the process and whatever a candidate has started in it."""
        if self._process is not None:
            self._kill_group()
            self._process.wait()
        if self._channel is not None:
            self._channel.close()
        if self._words is not None:
            self._words.close()
        self._process = self._channel = self._words = None

    def start(self) -> None:
        """Start the process if none runs, and have it open the case, which is there now.

        One that has ended while it waited for the case is replaced: no candidate was in it.

        Raises
        ------
        WorkerDiedError, CutError
            As of `ask`.
        """
        if not self._is_open and self._process is not None and self._has_ended():
            self.end()
        self.launch()
        if not self._is_open:
            # Its preparations are nobody's running time.
            self._ask(_START_S, {"do": "open"}, lambda _: None)
            self._is_open = True

    def launch(self) -> None:
        """Start the process if none runs: it imports what it needs while others work."""
        if self._process is not None:
            return
        self._is_open = False
        ours, theirs = multiprocessing.Pipe()
        self._words = tempfile.TemporaryFile()  # noqa: SIM115 - closed in end()
        self._channel = ours
        with theirs:
            self._process = start(
                "tcdsl.autotune.worker.server", str(theirs.fileno()), str(self._folder),
                str(os.getpid()), pass_fds=(theirs.fileno(),),
                stdin=subprocess.DEVNULL, stdout=self._words, stderr=self._words,
            )  # fmt: skip
        self.generation += 1

    def _answers(self, seconds: float) -> bool:
        """Wait so long for the next message; return whether it is there."""
        assert self._channel is not None
        end = time.monotonic() + seconds
        while not self._channel.poll(max(0.0, min(_POLL_S, end - time.monotonic()))):
            if self._is_cut():
                self.end()
                raise CutError
            if time.monotonic() >= end:
                return False
        return True

    def _kill_group(self) -> None:
        """End all of the worker's group; not yet waited for, it keeps the number of the group."""
        assert self._process is not None
        if self._process.returncode is None:
            with suppress(ProcessLookupError, PermissionError):  # macOS: of zombies alone
                os.killpg(self._process.pid, signal.SIGKILL)

    def _obituary(self, limit_s: float, row: int | None) -> WorkerDiedError:
        assert self._process is not None
        if not self._has_died():  # the channel alone is broken
            self._process.kill()
        self._kill_group()
        code = self._process.wait()
        self._words.seek(0)
        words = self._words.read().decode(errors="replace").strip()[-_TAIL:]
        self.end()
        if code == -signal.SIGALRM:
            return _too_slow(limit_s, row)
        if code == -signal.SIGKILL:
            return WorkerDiedError("resources", _KILLED, row, is_killed=True)
        # Ctrl-C reaches it between its start and the moment it leaves the tuner's group. Python
        # that is still importing what it begins with ends by status 1.
        is_interrupted = code == -signal.SIGINT or (code == 1 and words.endswith(_INTERRUPTED))
        is_killed = is_interrupted and not self._is_open
        parts = (signal.Signals(-code).name, words) if code < 0 else (words, f"exit code {code}")
        detail = "\n".join(filter(None, parts))
        return WorkerDiedError("crash", detail, row, is_killed=is_killed)

    def _has_died(self) -> bool:
        """Wait a little for the end of the process, and leave it to be waited for."""
        end = time.monotonic() + _GRACE_S
        while not self._has_ended():
            if time.monotonic() > end:
                return False
            time.sleep(0.001)
        return True

    def _has_ended(self) -> bool:
        """Whether the process has ended; it is left to be waited for."""
        assert self._process is not None
        flags = os.WEXITED | os.WNOWAIT | os.WNOHANG
        return os.waitid(os.P_PID, self._process.pid, flags) is not None


def _too_slow(limit_s: float, row: int | None) -> WorkerDiedError:
    return WorkerDiedError("slow", f"no answer in {limit_s:.1f} s", row)
