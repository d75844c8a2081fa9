"""Processes that do tasks, as many at a time as there are cores.

A worker runs ``python -P -m`` of this module, takes pickled tasks over a pipe, and sends back that
it is there, then why each failed, "" where it did not. Compilers are its children: ended by a
signal it leaves none.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import queue
import signal
import subprocess
import sys
import threading
import time
import traceback
import warnings
from collections.abc import Generator, Sequence
from multiprocessing.connection import Connection

from tcdsl.ahead.task import Task, packed, run, unpacked
from tcdsl.codegen.toolchain.cachedir import is_lasting, usual_folder
from tcdsl.codegen.toolchain.ours import start
from tcdsl.grammar.text.dataclass import dataclass
from tcdsl.grammar.text.errors import CompileError, TCError

_GRACE_S = 10.0  # for a worker that was told to stop


@dataclass(frozen=True, slots=True)
class Done:
    """How a task went: its place in the order given, seconds, and why it failed, "" if not."""

    index: int
    seconds: float
    error: str


def run_all(tasks: Sequence[Task], jobs: int) -> Generator[Done, None, None]:
    """Do tasks in processes of their own and yield each as it ends, in no order.

    Whoever stops listening, by Ctrl-C for one, ends the processes; what is compiled is kept.

    Raises
    ------
    CompileError
        If no process can be started.
    """
    waiting: queue.SimpleQueue[tuple[int, bytes]] = queue.SimpleQueue()
    for index, task in enumerate(tasks):
        waiting.put((index, packed(task)))
    done: queue.SimpleQueue[Done | CompileError] = queue.SimpleQueue()
    crew = [_Member(waiting, done) for _ in range(min(jobs, len(tasks)))]
    try:
        for member in crew:
            member.thread.start()
        for _ in tasks:
            found = done.get()
            if isinstance(found, CompileError):
                raise found
            yield found
    finally:
        for member in crew:
            member.stop()
        for member in crew:
            member.thread.join()


class _Member:
    """A thread that hands tasks to a process, and starts a new one where that has died."""

    def __init__(
        self,
        waiting: queue.SimpleQueue[tuple[int, bytes]],
        done: queue.SimpleQueue[Done | CompileError],
    ) -> None:
        self._waiting, self._done = waiting, done
        self._process: subprocess.Popen[bytes] | None = None
        self._channel: Connection | None = None
        self._is_stopped = False
        self._is_ready = False  # the process has loaded us: until then Ctrl-C is a traceback of it
        self._lock = threading.Lock()  # a process is started, or stopped
        self.thread = threading.Thread(target=self._work, daemon=True)

    def stop(self) -> None:
        """Let the process end what it does, now."""
        with self._lock:
            self._is_stopped = True
            if self._process is not None and self._process.poll() is None:
                self._process.send_signal(signal.SIGINT if self._is_ready else signal.SIGTERM)

    def _work(self) -> None:
        try:
            while not self._is_stopped:
                try:
                    index, task = self._waiting.get_nowait()
                except queue.Empty:
                    return
                begin = time.monotonic()
                error = self._ask(task)
                self._done.put(Done(index, time.monotonic() - begin, error))
        except CompileError as error:
            self._done.put(error)
        finally:
            self._end()

    def _ask(self, task: bytes) -> str:
        self._start()
        if self._channel is None or self._process is None:
            return "stopped"
        try:
            if not self._is_ready:
                self._channel.recv_bytes()
                with self._lock:  # one that is about to be stopped is given nothing to begin
                    if self._is_stopped:
                        return "stopped"
                    self._is_ready = True
            self._channel.send_bytes(task)
            return self._channel.recv_bytes().decode()
        except (EOFError, OSError):
            process = self._process
            self._end()
            return f"the process that compiled it ended with exit code {process.returncode}"

    def _start(self) -> None:
        with self._lock:
            if self._process is not None or self._is_stopped:
                return
            ours, theirs = multiprocessing.Pipe()
            with theirs:
                try:
                    self._process = start(
                        __name__, str(theirs.fileno()), pass_fds=(theirs.fileno(),),
                        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                    )  # fmt: skip
                except CompileError:
                    ours.close()
                    raise
            self._channel = ours

    def _end(self) -> None:
        with self._lock:
            process, channel = self._process, self._channel
            self._process = self._channel = None
            self._is_ready = False
        if channel is not None:
            channel.close()  # it ends when there is nobody to ask it
        if process is not None:
            try:
                process.wait(_GRACE_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def main() -> int:
    """Do the tasks that come, until nobody is there to send one."""
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job ignores it
    with (
        contextlib.suppress(EOFError, OSError, KeyboardInterrupt),
        Connection(int(sys.argv[1])) as channel,
    ):
        channel.send_bytes(b"ready")
        while True:
            task = unpacked(channel.recv_bytes())
            channel.send_bytes(_answer(task).encode())
    return 0


def _answer(task: Task) -> str:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # who defined the kernel was told
            if is_lasting():
                run(task)
        if not is_lasting():  # its disk may have become full
            return not_kept()
    except TCError as error:
        return str(error) or type(error).__name__
    except Exception:  # a fault of ours in one kernel: others are compiled all the same
        return traceback.format_exc()
    return ""


def not_kept() -> str:
    """Return why a later call would find nothing of what is compiled."""
    return (
        f"the cache folder '{usual_folder()}' cannot keep it: it may not be written, or is full\n"
        "  note: set TCDSL_CACHE to a folder that you may write to, with room"
    )


if __name__ == "__main__":
    sys.exit(main())
