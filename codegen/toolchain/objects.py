"""The object cache: C text in, the path of a shared object out; each text is compiled once."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import shutil
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

from tcdsl.codegen.toolchain import contentfile
from tcdsl.codegen.toolchain.cachedir import lacks_room, with_room
from tcdsl.codegen.toolchain.cc import (
    INCLUDES,
    Compiler,
    Source,
    find_compiler,
)
from tcdsl.codegen.toolchain.contentfile import KeyLock, building_folder, hash_of, move_into_place
from tcdsl.codegen.toolchain.host import usable_cores
from tcdsl.codegen.toolchain.running import Run, wait_for_any
from tcdsl.grammar.text.errors import CompileError

T = TypeVar("T")

FORMAT = "1"  # of keys
SUFFIX = ".so"
_POLL_S = 0.002
_LONGEST_S = 0.5  # between looks at whether a compiler takes too long


def compile_source(source: Source, compiler: Compiler | None = None) -> Path:
    """Return the shared object of a source, compiled now or at any time before.

    Raises
    ------
    CompileError
        If there is no compiler or it refuses the text.
    """
    (result,) = compile_many([source], compiler)
    if isinstance(result, CompileError):
        raise result
    return result


def use_object(source: Source, use: Callable[[Path], T]) -> T:
    """Return what is made of the shared object of a source; pruned before that, it is made again.

    So is, once, what cannot be loaded: it is what a compiler wrote and called well, on a bad day.

    Raises
    ------
    CompileError
        If there is no compiler, it refuses the text, or nothing that it makes can be loaded.
    """
    has_failed = False
    while True:
        path = compile_source(source)
        try:
            return use(path)
        except (OSError, ImportError) as error:
            if not path.exists():
                continue
            contentfile.remove(path)  # else it would lie there for ever, whatever is cured
            if has_failed:
                raise CompileError(
                    f"the object of '{source.name}' cannot be loaded: {error}\n"
                    f"  note: it was compiled by {find_compiler()}; if memory is short (ulimit -v)"
                    " free some, else try another compiler (TCDSL_CC)"
                ) from error
            has_failed = True


class UnwantedError(Exception):
    """What was being compiled is not wanted any more."""


def compile_many(
    sources: Sequence[Source],
    compiler: Compiler | None = None,
    jobs: int | None = None,
    is_unwanted: Callable[[], bool] | None = None,
) -> tuple[Path | CompileError, ...]:
    """Compile several sources, as many at a time as there are cores; an error stands for its own.

    What another thread or process is compiling is waited for, not compiled again. If the wait is
    interrupted, running compilers are killed and locks given back; so they are when
    is_unwanted, which is asked all the while, says so: `UnwantedError`.
    """
    chosen = compiler or find_compiler()
    return with_room(lambda: _compile_many(sources, chosen, jobs or usable_cores(), is_unwanted))


def _compile_many(
    sources: Sequence[Source],
    compiler: Compiler,
    jobs: int,
    is_unwanted: Callable[[], bool] | None,
) -> tuple[Path | CompileError, ...]:
    keys = [key_of(s, compiler) for s in sources]
    waiting = dict(zip(keys, sources, strict=True))  # equal sources are one
    done: dict[str, Path | CompileError] = {k: p for k in waiting if (p := lookup(k))}
    for key in done:
        del waiting[key]
    running: dict[str, _Making] = {}
    try:
        while waiting or running:
            if is_unwanted is not None and is_unwanted():
                raise UnwantedError
            with _uninterrupted():
                for key in list(waiting):
                    if len(running) >= jobs:
                        break
                    match _begin(compiler, waiting[key], key):
                        case None:  # someone else is at work on it
                            continue
                        case Path() as path:
                            done[key] = path
                        case making:
                            running[key] = making
                    del waiting[key]
                for key in [k for k, making in running.items() if making.run.finished()]:
                    done[key] = running.pop(key).end()
            if waiting and len(running) < jobs:  # others are at work on them
                time.sleep(_POLL_S)
            elif running:
                longest_s = _LONGEST_S if is_unwanted is None else _LONGEST_S / 10
                wait_for_any([making.run for making in running.values()], longest_s)
    finally:
        with _uninterrupted():
            for making in running.values():
                making.abandon()
    return tuple(done[k] for k in keys)


@contextlib.contextmanager
def _uninterrupted() -> Iterator[None]:
    """Let Ctrl-C wait: between the start of a compiler and the note of it, it would be lost."""
    in_main = threading.current_thread() is threading.main_thread()
    usual = signal.getsignal(signal.SIGINT)
    if (
        not in_main or usual is None
    ):  # KeyboardInterrupt cannot come; or the handler is not Python's
        yield
        return
    pending: list[int] = []
    signal.signal(signal.SIGINT, lambda number, _frame: pending.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, usual)
        if pending:
            signal.raise_signal(signal.SIGINT)


# ---- keys


def key_of(source: Source, compiler: Compiler) -> str:
    """Return the hash of all that decides an object: text, headers, flags, compiler, processor."""
    parts = [
        FORMAT, compiler.kind, compiler.version, compiler.isa_key, source.language,
        *source.all_flags(compiler), *source.libraries, source.name, source.text,
    ]  # fmt: skip
    folders = [INCLUDES, *([source.include] if source.include else [])]
    return hash_of([*parts, *_headers(source.text, folders)])


def _headers(text: str, folders: Sequence[Path], seen: frozenset[Path] = frozenset()) -> list[str]:
    """Return the texts of what a text includes by quotes, and of what that includes."""
    texts = []
    for name in re.findall(r'^\s*#\s*include\s+"([^"]+)"', text, re.MULTILINE):
        path = next((f / name for f in folders if (f / name).exists()), None)
        if path is None or path in seen:
            continue  # a missing one is the compiler's to report
        header = path.read_text(encoding="utf-8")
        seen |= {path}
        texts += [header, *_headers(header, [path.parent, *folders], seen)]
    return texts


# ---- files


def lookup(key: str) -> Path | None:
    """Return the object of a key, or None."""
    return contentfile.lookup(key, SUFFIX)


class _Making:
    """An object in the making: its lock, its folder, its compiler."""

    def __init__(self, key: str, lock: KeyLock, folder: Path, run: Run) -> None:
        self.key, self.lock, self.folder, self.run = key, lock, folder, run

    def end(self) -> Path | CompileError:
        """Move the object into place."""
        try:
            if error := self.run.error():
                if lacks_room(self.folder):
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self.folder))
                return error
            return move_into_place(self.run.output, self.run.source.name, self.key, SUFFIX)
        finally:
            self.abandon()

    def abandon(self) -> None:
        """Leave nothing behind: no process, no folder, no lock."""
        self.run.kill()
        shutil.rmtree(self.folder, ignore_errors=True)
        self.lock.release()


def _begin(compiler: Compiler, source: Source, key: str) -> _Making | Path | None:
    """Start a compiler; or return the object if it has been made meanwhile, None if it is being."""
    lock = KeyLock.take(key)
    if lock is None:
        return None
    folder = None
    try:
        if found := lookup(key):
            lock.release()
            return found
        folder = building_folder()
        return _Making(key, lock, folder, Run(compiler, source, folder))
    except BaseException:
        if folder:
            shutil.rmtree(folder, ignore_errors=True)
        lock.release()
        raise
