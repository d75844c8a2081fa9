"""One run of a C compiler: started, waited for, ended, and asked why there is no object."""

from __future__ import annotations

import os
import re
import select
import shlex
import time
from collections.abc import Sequence
from pathlib import Path

from tcdsl.codegen.toolchain.cc import INSTALL, Compiler
from tcdsl.codegen.toolchain.command import beginning_of, cure_in, readable
from tcdsl.codegen.toolchain.early import Early
from tcdsl.codegen.toolchain.headers import cut
from tcdsl.codegen.toolchain.source import Source
from tcdsl.codegen.toolchain.starting import Started
from tcdsl.grammar.text.errors import CompileError

_POLL_S = 0.002


class Run:
    """A compiler at work on a source.

    Parameters
    ----------
    compiler : Compiler
    source : Source
    folder : Path
        Its own, for what it reads and writes.
    waiting : Early, optional
        One that was started in this folder before; what it is no use for, and what it refuses,
        another one compiles.
    """

    def __init__(
        self, compiler: Compiler, source: Source, folder: Path, waiting: Early | None = None
    ) -> None:
        self.source = source
        self._compiler, self._folder = compiler, folder
        self._text = text = cut(source, compiler, folder)
        is_cut = text is not source.text
        self._libraries = source.all_libraries(compiler, text if is_cut else None)
        self._is_early = False
        if waiting is not None and is_cut and self._libraries == waiting.started.libraries:
            self._is_early = True
            self.started = waiting.started
            waiting.give(text)
        else:
            if waiting is not None:
                waiting.end()
            self.started = self._start()

    def _start(self) -> Started:
        (self._folder / self.source.file).write_text(self._text, encoding="utf-8")
        try:
            return Started(self._compiler, self.source, self._folder, self._libraries)
        except OSError as error:
            raise CompileError(_not_started(self._compiler, self.source, error)) from error

    def finished(self) -> bool:
        """Whether the compiler has ended; one that takes five minutes is ended."""
        command = self.started.command
        if not command.finished():
            return False
        if not self._is_early or command.status == 0 or command.objection:
            return True
        self._is_early = False
        self.started = self._start()
        return False

    def wait(self) -> None:
        """Wait for the end; end the compiler if the wait is interrupted."""
        while not self.finished():
            self.started.command.wait()

    def kill(self) -> None:
        """End the compiler and what it has started."""
        self.started.command.kill()

    def error(self) -> CompileError | None:
        """Return why there is no object, or None if there is one."""
        command, output = self.started.command, self.started.output
        is_done = command.status == 0
        if is_done and output.is_file() and output.stat().st_size:
            return None
        log = readable(beginning_of(self.started.log))
        if is_done:
            log += "\nthe compiler ended as if all were well, but it wrote no object"
        elif command.objection:
            log += f"\n{command.objection}"
        elif command.status < 0:
            log += f"\nthe compiler was ended by signal {-command.status}"
        words = shlex.join(self.started.words)
        return CompileError(
            f"the C compiler refused '{self.source.name}'\n  command: {words}\n"
            f"{log}{cure_in(log)}\n{_excerpt(self.source, log)}"
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
            handles.append(os.pidfd_open(run.started.command.number))
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
