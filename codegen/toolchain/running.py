"""One run of a C compiler: started, waited for, ended, and asked why there is no object."""

from __future__ import annotations

import contextlib
import os
import re
import select
import shlex
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from tcdsl.codegen.toolchain.cc import (
    INCLUDES,
    INSTALL,
    Compiler,
    Source,
    environment,
    readable,
)
from tcdsl.grammar.text.errors import CompileError

_POLL_S = 0.002


class Run:
    """A compiler at work in its own process group, so that Ctrl-C reaches us and not it."""

    def __init__(self, compiler: Compiler, source: Source, folder: Path) -> None:
        self.source = source
        self.output = folder / "object.so"
        self._log = folder / "log"
        self._deadline = time.monotonic() + 300
        file = folder / source.file
        file.write_text(source.text, encoding="utf-8")
        folders = [INCLUDES, *([source.include] if source.include else [])]
        self._command = [
            *compiler.command, *source.all_flags(compiler), *(f"-I{f}" for f in folders),
            "-shared", "-o", str(self.output), str(file), *source.all_libraries(compiler),
        ]  # fmt: skip
        with self._log.open("wb") as log:
            try:
                self._process = subprocess.Popen(
                    self._command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=folder,
                    env=environment(folder), start_new_session=True,
                )  # fmt: skip
            except OSError as error:
                raise CompileError(_not_started(compiler, source, error)) from error

    def finished(self) -> bool:
        """Whether the compiler has ended; one that takes five minutes is ended."""
        if self._process.poll() is None and time.monotonic() > self._deadline:
            self.kill()
        return self._process.poll() is not None

    def wait(self) -> None:
        """Wait for the end; kill the compiler if the wait is interrupted."""
        try:
            self._process.wait(max(0.0, self._deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            self.kill()
        except BaseException:
            self.kill()
            raise

    def kill(self) -> None:
        """End the compiler and what it has started."""
        if self._process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def error(self) -> CompileError | None:
        """Return why there is no object, or None if there is one."""
        is_done = self._process.returncode == 0
        if is_done and self.output.is_file() and self.output.stat().st_size:
            return None
        log = readable(self._log.read_bytes())
        if is_done:
            log += "\nthe compiler ended as if all were well, but it wrote no object"
        if self._process.returncode < 0:
            log += f"\nthe compiler was ended by signal {-self._process.returncode}"
        return CompileError(
            f"the C compiler refused '{self.source.name}'\n  command: {shlex.join(self._command)}\n"
            f"{log}\n{_excerpt(self.source, log)}"
        )


def _not_started(compiler: Compiler, source: Source, error: OSError) -> str:
    """Return why a compiler did not run, and what to do."""
    if isinstance(error, FileNotFoundError | PermissionError):  # it may be one that was here before
        cure = f"'{source.name}' is not in the cache and has to be compiled: {INSTALL}"
    else:
        cure = "note: more processes, memory or open files may be needed (ulimit -u, -v, -n)"
    return f"the C compiler '{compiler.command[0]}' cannot be started: {error.strerror}\n  {cure}"


def wait_for_any(runs: Sequence[Run], seconds: float) -> None:
    """Wait until one of some compilers has ended, at most so long; handlers of signals run.

    They are not ended yet, as far as we know: their numbers are still theirs.
    """
    handles: list[int] = []
    ended = select.poll()
    try:
        for run in runs:
            handles.append(os.pidfd_open(run._process.pid))
            ended.register(handles[-1], select.POLLIN)
        ended.poll(seconds * 1e3)
    except (AttributeError, OSError):  # a system without, or no handles left
        time.sleep(min(seconds, _POLL_S))
    finally:
        for handle in handles:
            os.close(handle)


def _excerpt(source: Source, log: str, around: int = 3) -> str:
    """Return the numbered lines of a source that a log names, each error's with its neighbours."""
    lines = source.text.splitlines()
    named = re.findall(rf"{re.escape(source.file)}:(\d+):\d+: (?:fatal )?error", log)
    failing = [int(n) for n in named[:5]]
    shown = sorted(
        {
            n
            for line in failing
            for n in range(line - around, line + around + 1)
            if 1 <= n <= len(lines)
        }
    )
    return "\n".join(f"{'>' if n in failing else ' '}{n:5d} | {lines[n - 1]}" for n in shown)
