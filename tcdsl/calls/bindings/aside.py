"""What another process builds while calls go on without: executables, the library of a machine.

That process leaves them in the cache, with the records that name them, and outlives this one. So
nothing is handed over: whoever wants one looks there, and builds it himself where it is not. Why
the last one failed is kept there too, for `tcdsl doctor`: nobody else is told.
"""

from __future__ import annotations

import subprocess
import threading

from tcdsl.calls.process.locks import Lock
from tcdsl.codegen.toolchain.cachedir import read_json, update_json
from tcdsl.codegen.toolchain.ours import start
from tcdsl.grammar.text.errors import CompileError

EXECUTABLE = "tcdsl.calls.bindings.building"  # by name: it imports what starts it
LIBRARY = "tcdsl.codegen.library.building"
_FILE = "aside.json"
_MOST = 2000  # characters of what is kept

_turn = Lock()  # one at a time: whoever asked has other work


class Aside:
    """What a process builds, once it is its turn.

    Parameters
    ----------
    task : bytes
        What the module reads.
    name : str
        Of the definition.
    module : str
        What the process runs: `EXECUTABLE` or `LIBRARY`.
    """

    def __init__(self, task: bytes, name: str, module: str = EXECUTABLE) -> None:
        self._task, self._name, self._module = task, name, module
        self._has_begun = self._is_cancelled = False
        self._lock = Lock()  # that it begins, or is not wanted any more
        self._thread = threading.Thread(target=self._run, name="tcdsl aside", daemon=True)
        self._thread.start()

    def wait(self) -> None:
        """Wait for the end, if it has begun: else the caller is sooner done by himself.

        A forked child, which has no such thread, waits for nothing.
        """
        with self._lock:
            self._is_cancelled = not self._has_begun
        if self._has_begun:
            self._thread.join()

    def _run(self) -> None:
        with _turn:
            with self._lock:
                if self._is_cancelled:
                    return
                self._has_begun = True
            why = self._built()
            if why or last_failure():
                said = f"{self._name}: {why}"[:_MOST] if why else ""
                update_json(_FILE, {"failed": said})

    def _built(self) -> str:
        """Return why it was not built, "" if it was."""
        pipe, same = subprocess.PIPE, subprocess.STDOUT
        try:
            process = start(self._module, stdin=pipe, stdout=pipe, stderr=same)
        except CompileError as error:
            return str(error)
        said, _ = process.communicate(self._task)
        if process.returncode == 0:
            return ""
        words = said.decode(errors="replace").strip()[-_MOST:]
        return words or f"its process ended with exit code {process.returncode}"


def last_failure() -> str:
    """Return what was to be built aside last and why it was not, "" if it was or nothing was."""
    said = read_json(_FILE).get("failed", "")
    return said[:_MOST] if isinstance(said, str) else ""
