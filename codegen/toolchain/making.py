"""Objects that are not in the cache are made: compilers side by side, each text by one of them."""

from __future__ import annotations

import errno
import os
import shutil
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from tcdsl.codegen.toolchain import spare
from tcdsl.codegen.toolchain.cachedir import lacks_room
from tcdsl.codegen.toolchain.cc import Compiler
from tcdsl.codegen.toolchain.command import uninterrupted
from tcdsl.codegen.toolchain.contentfile import (
    OBJECT,
    KeyLock,
    building_folder,
    lookup,
    move_into_place,
)
from tcdsl.codegen.toolchain.early import take
from tcdsl.codegen.toolchain.running import Run, wait_for_any
from tcdsl.codegen.toolchain.source import Source
from tcdsl.grammar.text.errors import CompileError

_POLL_S = 0.002
_LONGEST_S = 0.5  # between looks at whether a compiler takes too long


class UnwantedError(Exception):
    """What was being compiled is not wanted any more."""


def make(
    sources: Mapping[str, Source],
    compiler: Compiler,
    jobs: int,
    is_unwanted: Callable[[], bool] | None,
) -> dict[str, Path | CompileError]:
    """Return the objects of sources by their keys, jobs at a time; see `objects.compile_many`."""
    waiting = dict(sources)
    done: dict[str, Path | CompileError] = {}
    running: dict[str, _Making] = {}
    try:
        while waiting or running:
            if is_unwanted is not None and is_unwanted():
                raise UnwantedError
            with uninterrupted():
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
            if running:
                spare.do()
            if waiting and len(running) < jobs:  # others are at work on them
                time.sleep(_POLL_S)
            elif running:
                longest_s = _LONGEST_S if is_unwanted is None else _LONGEST_S / 10
                wait_for_any([making.run for making in running.values()], longest_s)
    finally:
        with uninterrupted():
            for making in running.values():
                making.abandon()
    return done


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
            return move_into_place(self.run.started.output, self.run.source.name, self.key, OBJECT)
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
    folder = waiting = None
    try:
        if found := lookup(key, OBJECT):
            lock.release()
            return found
        waiting = take(compiler, source)
        folder = building_folder() if waiting is None else waiting.folder
        return _Making(key, lock, folder, Run(compiler, source, folder, waiting))
    except BaseException:
        if waiting:
            waiting.end()
        if folder:
            shutil.rmtree(folder, ignore_errors=True)
        lock.release()
        raise
