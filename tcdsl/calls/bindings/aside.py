"""What another process builds while calls go on without: executables, ways back, the library.

That process, the builder (`builder.py`), leaves them in the cache with the records that name them,
and ends what it has begun even if this process ends before. So nothing is handed over: whoever
wants one looks there, and builds it himself where it is not. Why the last one failed is kept there
too, for `tcdsl doctor`: nobody else is told. To start the builder costs as much as a small
executable, so one does all, one after the other, and ends when nothing has come for a while.

The first way back that a program wants is built by a thread of its own process: that has loaded
what the builder would have to, and waits for the compiler of the forward pass meanwhile. Only what
is wanted beside it starts the builder.
"""

from __future__ import annotations

import atexit
import heapq
import itertools
import json
import os
import pickle
import threading
import weakref
from typing import TYPE_CHECKING, Any

from tcdsl.calls.process.locks import Lock
from tcdsl.codegen.toolchain.cachedir import read_json, update_json
from tcdsl.grammar.text.errors import CompileError
from tcdsl.grammar.text.stack import on_own_stack

if TYPE_CHECKING:
    import subprocess

# Modules that the builder imports by name, each with a `build(task)`: some import what starts them.
LIBRARY = "tcdsl.codegen.library.building"
WAY_BACK = "tcdsl.derived.building"
EXECUTABLE = "tcdsl.calls.bindings.building"
CALL = "tcdsl.calls.to_come"
USUAL = "tcdsl.library.usual"
_HERE = {WAY_BACK, CALL}  # what a thread of this process builds while there is no builder
_ORDER = (WAY_BACK, LIBRARY, CALL, EXECUTABLE, USUAL)  # what is wanted soonest first
_BUILDER = "tcdsl.calls.bindings.builder"
_FILE = "aside.json"
_MOST = 2000  # characters of what is kept
_IDLE_S = 5.0  # until the builder ends
_END_S = 1.0  # that a thread may take to leave nothing behind


class Aside:
    """What the builder builds, once it is its turn.

    Parameters
    ----------
    task : bytes
        What the module reads.
    name : str
        Of the definition.
    module : str
        What the builder runs: `EXECUTABLE`, `WAY_BACK`, `CALL`, `LIBRARY` or `USUAL`.
    is_later : bool
        Whether others of its kind are built before it, whenever they come.
    """

    def __init__(
        self, task: bytes, name: str, module: str = EXECUTABLE, *, is_later: bool = False
    ) -> None:
        self.task, self.name, self.module, self.is_later = task, name, module, is_later
        self._has_begun = self._is_cancelled = False
        self._lock = Lock()  # that it begins, or is not wanted any more
        self._done = threading.Event()
        self._process = os.getpid()
        _queue.put(self)

    def wait(self) -> None:
        """Wait for the end, if it has begun: else the caller is sooner done by himself.

        A forked child, which has no builder, waits for nothing.
        """
        with self._lock:
            self._is_cancelled = not self._has_begun
        if self._has_begun and self._process == os.getpid():
            self._done.wait()

    def begin(self) -> bool:
        """Say that it is built now; return whether somebody still wants it."""
        with self._lock:
            self._has_begun = not self._is_cancelled
            return self._has_begun

    def end(self, why: str) -> None:
        """Say that it was built, or why not."""
        try:
            if why or last_failure():
                update_json(_FILE, {"failed": f"{self.name}: {why}"[:_MOST] if why else ""})
        finally:
            self._done.set()


@on_own_stack
def packed(what: object) -> bytes:
    """Return what a task says as bytes; trees of texts may be deep, and ask for no lock of ours."""
    return pickle.dumps(what)


@on_own_stack
def unpacked(task: bytes) -> Any:
    """Return what `packed` was given, in the builder."""
    return pickle.loads(task)


class Queue:
    """What is to be built, and the thread that hands it to the builder."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._waiting: list[tuple[int, bool, int, Aside]] = []
        self._numbers = itertools.count()
        self._is_served = self._is_building = False
        self._here: threading.Thread | None = None  # that builds one
        self.is_ending = False

    def put(self, one: Aside) -> None:
        """Have one built after those that are wanted sooner."""
        with self._changed:
            is_first = self._here is None and not self._is_served
            if one.module in _HERE and is_first and self._begin_here(one):
                return
            turn = _ORDER.index(one.module), one.is_later, next(self._numbers)
            heapq.heappush(self._waiting, (*turn, one))
            self._changed.notify_all()
        self._start()

    def expect(self) -> None:
        """Let the builder start if a way back would have to wait for the one that is built here."""
        if self._here is not None:
            self._start()

    def _start(self) -> None:
        with self._changed:
            if not self._is_served:
                thread = threading.Thread(target=self._serve, name="tcdsl aside", daemon=True)
                try:
                    thread.start()
                except RuntimeError:  # no more threads, or Python is ending: nothing begins
                    return
                self._is_served = True

    def _begin_here(self, one: Aside) -> bool:
        """Build one in a thread of this process; return False where there are no more threads."""
        thread = threading.Thread(target=self._build_here, args=(one,), name="tcdsl here")
        thread.daemon = True
        try:
            thread.start()
        except RuntimeError:
            return False
        self._here = thread
        return True

    def _build_here(self, one: Aside) -> None:
        from tcdsl.calls.bindings.tasks import built  # on use: most programs build nothing here
        from tcdsl.calls.process.caller import IS_SILENT
        from tcdsl.codegen.toolchain.objects import UNWANTED

        IS_SILENT.set(True)
        UNWANTED.set(lambda: self.is_ending)
        is_wanted = one.begin()
        why = built(one.module, one.task) if is_wanted else ""
        with self._changed:
            self._here = None
            self._changed.notify_all()
        if is_wanted:
            one.end(why)

    def leave(self) -> None:
        """End what is built here, before the process ends: a compiler would outlive it."""
        self.is_ending = True
        if (thread := self._here) is not None:
            thread.join(_END_S)

    def _serve(self) -> None:
        builder = Builder()
        builder.start()
        while (one := self._next()) is not None:
            why = builder.start()
            if one.begin():
                one.end(why or builder.build(one))
        builder.end()

    def settle(self) -> None:
        """Wait until all that was put here is built; what nobody serves is not waited for."""
        with self._changed:
            self._changed.wait_for(
                lambda: (
                    self._here is None
                    and (not self._is_served or not (self._waiting or self._is_building))
                )
            )

    def _next(self) -> Aside | None:
        """Return what is wanted soonest; None when nothing has come for a while."""
        with self._changed:
            self._is_building = False
            self._changed.notify_all()
            if not self._waiting and not self._changed.wait_for(lambda: self._waiting, _IDLE_S):
                self._is_served = False
                return None
            self._is_building = True
            return heapq.heappop(self._waiting)[-1]


class Builder:
    """The process and the pipes to it, started where it is not there."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._variables: dict[str, str] = {}
        _builders.add(self)

    def start(self) -> str:
        """Have a process that can build at once; return why there is none, "" if there is.

        It is started again where the environment, which may name another cache or compiler, is not
        that of its start.
        """
        variables = {**os.environ}
        if self._process is not None and self._variables == variables:
            return ""
        import subprocess  # on use: warm programs start no process

        from tcdsl.codegen.toolchain.ours import start

        self.end()
        self._variables = variables
        pipe, nothing = subprocess.PIPE, subprocess.DEVNULL
        try:
            self._process = start(_BUILDER, stdin=pipe, stdout=pipe, stderr=nothing, bufsize=0)
            self._answer()  # it has imported what it needs
        except CompileError as error:
            return str(error)
        except (OSError, EOFError, ValueError):
            return self._died()
        return ""

    def build(self, one: Aside) -> str:
        """Have something built; return why it was not, "" if it was."""
        assert self._process is not None
        assert self._process.stdin is not None
        request = memoryview(pickle.dumps((one.module, one.task)))
        try:
            while request:  # the pipe has no buffer, and takes what it can
                request = request[self._process.stdin.write(request) :]
            why, further = json.loads(self._answer())
        except (OSError, EOFError, ValueError):
            return self._died()
        for module, task in further:
            Aside(task.encode(), one.name, module)
        return str(why)

    def end(self) -> int:
        """Let the process end, if there is one; return its exit code."""
        self.close()
        process, self._process = self._process, None
        return 0 if process is None else process.wait()

    def close(self) -> None:
        """Close the pipes: so does a forked child, which has them too but is not served."""
        if self._process is not None:
            for pipe in (self._process.stdin, self._process.stdout):
                assert pipe is not None
                pipe.close()

    def _answer(self) -> bytes:
        assert self._process is not None
        assert self._process.stdout is not None
        answer = b""
        while not answer.endswith(b"\n"):
            part = self._process.stdout.read(1 << 16)
            if not part:
                raise EOFError
            answer += part
        return answer

    def _died(self) -> str:
        return f"its process ended with exit code {self.end()}"


_builders: weakref.WeakSet[Builder] = weakref.WeakSet()
_queue = Queue()


def expect() -> None:
    """Let the builder start, if need be: a way back is likely to be built aside soon."""
    _queue.expect()


def settle() -> None:
    """Wait until nothing is built aside, so that what is timed has the machine for itself."""
    _queue.settle()


def collect_in(queue: Queue) -> None:
    """Have what this process wants built put elsewhere."""
    global _queue
    _queue = queue


def _after_fork() -> None:
    collect_in(Queue())
    for builder in list(_builders):
        builder.close()


os.register_at_fork(after_in_child=_after_fork)
atexit.register(lambda: _queue.leave())


def last_failure() -> str:
    """Return what was to be built aside last and why it was not, "" if it was or nothing was."""
    said = read_json(_FILE).get("failed", "")
    return said[:_MOST] if isinstance(said, str) else ""
