"""The process in which candidates run: `python -m tcdsl.autotune.worker.server FD FOLDER PARENT`.

It answers requests over one socket. A candidate may end it; the tuner then starts another one.
Each request brings the seconds it may take: after that the alarm ends the process, even if the
tuner is gone.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import signal
import sys
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from tcdsl.autotune.worker.allowance import Allowance
from tcdsl.autotune.worker.bench import Bench, Way, WrongAnswerError, opener
from tcdsl.autotune.worker.decision import unless_sure, with_rivals
from tcdsl.autotune.worker.timing import DROP, interleaved

_PR_SET_PDEATHSIG = 1


class Worker:
    """Candidates by the row of their trial, loaded, checked and timed."""

    _bench: Bench

    def __init__(self, channel: Connection, opener: Callable[[], Bench]) -> None:
        self._channel = channel
        self._opener = opener
        self._loaded: dict[int, Any] = {}
        self._turns = 0  # of the timing under way

    def serve(self) -> None:
        """Answer requests until the tuner closes the channel."""
        while True:
            try:
                request = json.loads(self._channel.recv_bytes())
            except EOFError:
                return
            signal.setitimer(signal.ITIMER_REAL, request["limit_s"])
            answer = self._answer(request)
            signal.setitimer(signal.ITIMER_REAL, 0)
            self._send(answer)

    def _answer(self, request: dict[str, Any]) -> dict[str, Any]:
        match request["do"]:
            case "open":
                self._bench = self._opener()
                return {}
            case "check":
                return self._check(request["row"], request["code"], request["is_known"])
            case "time":
                return self._time(request)
            case "ways":
                return {"samples": self._ways(request)}
            case other:
                raise AssertionError(other)

    def _check(self, row: int, code: dict[str, Any], is_known: bool) -> dict[str, Any]:
        begun = time.process_time()
        try:
            self._loaded[row] = self._bench.load(code, is_known)
        except WrongAnswerError as error:
            return {"wrong": str(error)}
        except MemoryError as error:
            return {"short": f"memory is short: {error}"}
        return {"own_s": time.process_time() - begun}

    def _time(self, request: Mapping[str, Any]) -> dict[str, Any]:
        begun, self._turns = time.monotonic(), 0
        allowance = Allowance(request["seconds"], request["latest"])
        samples = self._samples(request, "again", allowance)
        turn_s = (time.monotonic() - begun) / max(1, self._turns)
        return {"samples": samples, "turn_s": turn_s}

    def _ways(self, request: Mapping[str, Any]) -> dict[Way, list[tuple[int, list[float]]]]:
        ways, whole = self._bench.ways, Allowance(request["seconds"], request["latest"])
        return {
            way: self._samples(request, way, whole.share(len(ways) - number))
            for number, way in enumerate(ways)
        }

    def _samples(
        self, request: Mapping[str, Any], way: Way, allowance: Allowance
    ) -> list[tuple[int, list[float]]]:
        rows = request["rows"]
        candidates = {row: self._bench.sampler(self._loaded[row], way) for row in rows}
        before: dict[str, Any] = {"of": None, "new": []}

        def notice(row: int) -> None:
            self._turns += 1
            signal.setitimer(signal.ITIMER_REAL, request["limit_s"])
            self._send({"at": row, **before})  # one message a turn: each wakes the tuner

        def keep(row: int, new: Sequence[float]) -> None:
            before.update({"of": row, "new": new})

        drop = DROP if request["drops"] else ()
        narrow = with_rivals if way == "again" else unless_sure
        samples = interleaved(
            candidates,
            request["rounds"],
            notice,
            drop,
            allowance,
            request["least"],
            keep,
            None if drop else narrow,
        )
        return list(samples.items())

    def _send(self, answer: dict[str, Any]) -> None:
        self._channel.send_bytes(json.dumps(answer).encode())


def _end_with(parent: int) -> None:
    """Have the system end this process when the tuner is killed."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # it was, before we asked
            sys.exit(1)


def _keep_group() -> None:
    """Start a process of this group that ends the group when this process ends, however it does.

    The tuner does so too, while it lives. A candidate's children have nobody else: the system's
    signal at a parent's death is for its own child alone.
    """
    if sys.platform != "linux":
        return
    worker = os.getpid()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of threads: the copy takes no lock
        if os.fork() != 0:
            return
    # Only what the operating system gives: nothing of this copy of the worker is touched.
    signal.signal(signal.SIGUSR1, lambda *_: os.killpg(0, signal.SIGKILL))
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGUSR1)
    os.closerange(0, 1 << 16)  # the channel above all: its end is how the tuner sees a death
    if os.getppid() != worker:
        os.killpg(0, signal.SIGKILL)
    while True:
        signal.pause()


def main() -> None:
    """Serve the tuner at the other end of a file descriptor."""
    channel_fd, folder, parent = sys.argv[1:]
    _end_with(int(parent))
    if os.getpgrp() == os.getpid():
        _keep_group()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # a crash is expected here
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    with Connection(int(channel_fd)) as channel:
        try:
            Worker(channel, opener(Path(folder))).serve()
        except Exception as error:
            # After an error on a GPU nothing there can be used, nor given back: end at once.
            print(f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)
            os._exit(1)


if __name__ == "__main__":
    main()
