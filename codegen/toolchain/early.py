"""A compiler that is started before its text is there: it reads it from a pipe.

What a compiler does before it reads (the driver, its tables of builtin functions) takes 9 ms of 36
of a small kernel, and to choose and lower that takes this process longer: on another core the one
is over before the other. Whoever is about to choose says so (`wanted`); the first question that
needs what lowers starts the compiler (`begin`); what is then compiled takes it (`take`), if it has
the flags for it. Nobody else does: it is ended where the text was found in the cache.

A text comes as `#include "/dev/fd/N"` of a file that only says so, and ends with a macro that the
file asks for: whatever stands in for the compiler and reads twice finds nothing the second time. If
this process dies the pipe ends, and so does the compiler.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path

from tcdsl.codegen.toolchain import spare
from tcdsl.codegen.toolchain.cachedir import subfolder
from tcdsl.codegen.toolchain.cc import Compiler, find_compiler
from tcdsl.codegen.toolchain.contentfile import building_folder
from tcdsl.codegen.toolchain.host import usable_cores
from tcdsl.codegen.toolchain.source import Source
from tcdsl.grammar.text.errors import CompileError
from tcdsl.grammar.text.garbage import sought_seldom

BEGINS = True  # tests count processes
_PIPES = "/dev/fd"
_ENDS = "TC_ENDS"  # the macro


class Early:
    """A compiler that waits for the text of an executable.

    folder: its own, which who takes it removes.
    """

    def __init__(self, compiler: Compiler, source: Source, folder: Path) -> None:
        from tcdsl.codegen.toolchain.starting import Started  # on use: warm programs start none

        reading, self._writing = os.pipe()
        _open.add(self._writing)
        try:
            file = folder / source.file
            file.write_text(
                f'#include "{_PIPES}/{reading}"\n#ifndef {_ENDS}\n#error "no text"\n#endif\n',
                encoding="utf-8",
            )
            libraries = source.all_libraries(compiler, "")
            self.started = Started(compiler, source, folder, libraries, (reading,))
        except BaseException:
            self._close()
            raise
        finally:
            os.close(reading)
        self.folder = folder
        self._told = compiler, source.name, source.all_flags(compiler)

    def fits(self, compiler: Compiler, source: Source) -> bool:
        """Whether it is what a source would be compiled by, where that is now."""
        told = compiler, source.name, source.all_flags(compiler)
        is_same = source.is_bare(compiler) and told == self._told
        return is_same and self.folder.parent == subfolder("building")

    def give(self, text: str) -> None:
        """Let it compile a text."""
        self.started.command.begin()
        left = memoryview(f"{text}\n#define {_ENDS}\n".encode())
        with contextlib.suppress(BrokenPipeError):  # it has ended, and says why
            while left:
                left = left[os.write(self._writing, left) :]
        self._close()

    def end(self) -> None:
        """End it; its folder stays."""
        self.started.command.kill()
        self._close()

    def _close(self) -> None:
        if self._writing in _open:
            _open.remove(self._writing)
            os.close(self._writing)


_open: set[int] = set()  # ends of pipes that texts go into


class _Here(threading.local):
    """Of a thread: the definition that is chosen for, and the compiler that waits."""

    name = ""
    waiting: Early | None = None


_here = _Here()


@contextlib.contextmanager
def wanted(name: str) -> Iterator[None]:
    """Let a compiler be started in here as soon as something has to be lowered.

    name: of the definition, which the file has that is compiled.
    """
    around, _here.name = _here.name, name
    try:
        with sought_seldom(), spare.held():
            yield
    finally:
        _here.name = around
        if not around and _here.waiting is not None:
            _drop()


def begin() -> None:
    """Start the compiler: something is chosen and lowered now, and compiled most likely."""
    if not BEGINS or not _here.name or _here.waiting is not None or usable_cores() < 2:
        return
    from tcdsl.codegen.toolchain.command import uninterrupted  # on use, as above

    with contextlib.suppress(CompileError, OSError), uninterrupted():  # who compiles tells
        compiler, source = find_compiler(), Source(_here.name, "")
        if not source.is_bare(compiler) or not os.path.isdir(_PIPES):
            return
        folder = building_folder()
        try:
            _here.waiting = Early(compiler, source, folder)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise


def take(compiler: Compiler, source: Source) -> Early | None:
    """Return the compiler that waits for this source, None where there is none."""
    found = _here.waiting
    if found is None or not found.fits(compiler, source):
        return None
    _here.waiting = None
    return found


def _drop() -> None:
    found, _here.waiting = _here.waiting, None
    assert found is not None
    found.end()
    shutil.rmtree(found.folder, ignore_errors=True)


def _after_fork() -> None:
    """Close what a forked child has of its parent's pipes: else they would not end."""
    for pipe in _open:
        with contextlib.suppress(OSError):
            os.close(pipe)
    _open.clear()
    _here.waiting = None


os.register_at_fork(after_in_child=_after_fork)
