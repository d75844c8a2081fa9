"""Executables that another process builds while calls go on with others.

That process leaves them in the cache, with the records that name them, and outlives this one. So
nothing is handed over: whoever wants one looks there, and builds it himself where it is not.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

from tcdsl.calls.process.locks import Lock

_MODULE = "tcdsl.calls.bindings.building"  # by name: it imports what starts it

_turn = Lock()  # one at a time: whoever asked has other work


class Aside:
    """What a process builds, once it is its turn.

    Parameters
    ----------
    task : bytes
        As that module takes it.
    """

    def __init__(self, task: bytes) -> None:
        self._task = task
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
            if not sys.executable:
                return
            package = sys.modules[__name__.partition(".")[0]]
            root = str(Path(str(package.__file__)).resolve().parent.parent)
            paths = [root, *filter(None, [os.environ.get("PYTHONPATH")])]
            try:  # -P and a session of its own: as the tuner's worker has them
                subprocess.run(
                    [sys.executable, "-P", "-m", _MODULE], input=self._task,
                    stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
                    env=os.environ | {"PYTHONPATH": os.pathsep.join(paths)}, check=False,
                )  # fmt: skip
            except OSError:  # no interpreter of that name: this one is a part of a program
                return
