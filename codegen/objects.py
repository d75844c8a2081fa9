"""The object cache: C text in, the path of a shared object out; each text is compiled once.

A file is called `NAME-KEY-SUM.so`: KEY hashes everything that decides its content, SUM is the hash
of the content itself, checked before the file is handed out. Objects are made in a folder of their
own and renamed into place, so that none is ever seen half written. While one is made its key is
locked by a lock of the kernel's (flock), which ends with the process that holds it.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import os
import re
import shutil
import signal
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from tcdsl.codegen.cachedir import subfolder
from tcdsl.codegen.cc import INCLUDES, Compiler, Run, Source, find_compiler
from tcdsl.codegen.machine import usable_cores
from tcdsl.grammar.errors import CompileError

FORMAT = "1"  # of keys and of files
_POLL_S = 0.002


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


def compile_many(
    sources: Sequence[Source], compiler: Compiler | None = None, jobs: int | None = None
) -> tuple[Path | CompileError, ...]:
    """Compile several sources, as many at a time as there are cores; an error stands for its own.

    What another thread or process is compiling is waited for, not compiled again. If the wait is
    interrupted, running compilers are killed and locks given back.
    """
    compiler = compiler or find_compiler()
    jobs = jobs or usable_cores()
    keys = [key_of(s, compiler) for s in sources]
    waiting = dict(zip(keys, sources, strict=True))  # equal sources are one
    done: dict[str, Path | CompileError] = {k: p for k in waiting if (p := lookup(k))}
    for key in done:
        del waiting[key]
    running: dict[str, _Making] = {}
    try:
        while waiting or running:
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
            time.sleep(_POLL_S if waiting or running else 0)
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
    digest = hashlib.sha256()
    parts = [
        FORMAT, compiler.kind, compiler.version, compiler.isa_key, *compiler.flags,
        source.opt, *source.flags, source.name, source.text,
    ]  # fmt: skip
    folders = [INCLUDES, *([source.include] if source.include else [])]
    for part in (*parts, *_headers(source.text, folders)):
        digest.update(part.encode())
        digest.update(b"\0")
    return digest.hexdigest()[:32]


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
    """Return the object of a key, or None; a damaged one is removed."""
    folder = subfolder("objects") / key[:2]
    for path in _listed(folder):
        name = path.stem.rsplit("-", 2)
        if path.suffix != ".so" or len(name) != 3 or name[1] != key:
            continue
        try:
            intact = _sum(path) == name[2]
        except FileNotFoundError:  # pruned meanwhile
            continue
        if intact:
            with contextlib.suppress(OSError):  # a cache that may only be read serves too
                os.utime(path)
            return path
        path.unlink(missing_ok=True)
    return None


def _listed(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except FileNotFoundError:
        return []


def _sum(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16]


class _Making:
    """An object in the making: its lock, its folder, its compiler."""

    def __init__(self, key: str, lock: _Lock, folder: Path, run: Run) -> None:
        self.key, self.lock, self.folder, self.run = key, lock, folder, run

    def end(self) -> Path | CompileError:
        """Move the object into place."""
        try:
            if error := self.run.error():
                return error
            place = subfolder("objects") / self.key[:2]
            place.mkdir(exist_ok=True, mode=0o700)
            made = self.run.output
            target = place / f"{self.run.source.name}-{self.key}-{_sum(made)}.so"
            os.replace(made, target)
            return target
        finally:
            self.abandon()

    def abandon(self) -> None:
        """Leave nothing behind: no process, no folder, no lock."""
        self.run.kill()
        shutil.rmtree(self.folder, ignore_errors=True)
        self.lock.release()


def _begin(compiler: Compiler, source: Source, key: str) -> _Making | Path | None:
    """Start a compiler; or return the object if it has been made meanwhile, None if it is being."""
    lock = _Lock.take(subfolder("locks") / key)
    if lock is None:
        return None
    folder = None
    try:
        if found := lookup(key):
            lock.release()
            return found
        folder = Path(tempfile.mkdtemp(dir=subfolder("building")))
        return _Making(key, lock, folder, Run(compiler, source, folder))
    except BaseException:
        if folder:
            shutil.rmtree(folder, ignore_errors=True)
        lock.release()
        raise


class _Lock:
    """A lock file held by flock: between processes and, each taking its own, between threads."""

    def __init__(self, path: Path, handle: int) -> None:
        self._path, self._handle = path, handle

    @staticmethod
    def take(path: Path) -> _Lock | None:
        """Return the lock, or None if it is held."""
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as e:
            if e.errno in (errno.EWOULDBLOCK, errno.EACCES):
                os.close(handle)
                return None
            if e.errno not in (errno.ENOLCK, errno.ENOTSUP):
                os.close(handle)
                raise
            # A file system without locks: a text may be compiled twice, the rename keeps it right.
        try:
            ours = os.path.samestat(os.fstat(handle), os.stat(path))
        except FileNotFoundError:
            ours = False
        if not ours:  # the last holder has removed the file since we opened it
            os.close(handle)
            return None
        return _Lock(path, handle)

    def release(self) -> None:
        """Remove the file, then let go; a forked child's copy of the handle holds nothing."""
        with contextlib.suppress(FileNotFoundError):
            self._path.unlink()
        with contextlib.suppress(OSError):
            fcntl.flock(self._handle, fcntl.LOCK_UN)
        os.close(self._handle)


# ---- housekeeping


def objects() -> Iterator[tuple[Path, os.stat_result]]:
    """Walk over all objects with their status; the time of change is that of the last use."""
    for folder in _listed(subfolder("objects")):
        for path in _listed(folder):
            with contextlib.suppress(FileNotFoundError):
                yield path, path.stat()


def size() -> tuple[int, int]:
    """Return how many objects there are and their bytes."""
    sizes = [status.st_size for _, status in objects()]
    return len(sizes), sum(sizes)


def prune(max_bytes: int = 0) -> int:
    """Remove the objects unused for longest until at most max_bytes are left; return bytes freed.

    Always safe: what is loaded stays loaded, what is needed again is compiled again.
    """
    found = sorted(objects(), key=lambda item: item[1].st_mtime)
    total = left = sum(status.st_size for _, status in found)
    for path, status in found:
        if left <= max_bytes:
            break
        path.unlink(missing_ok=True)
        left -= status.st_size
    day_ago = time.time() - 86400
    for folder in _listed(subfolder("building")):  # of processes that were killed
        if folder.stat().st_mtime < day_ago:
            shutil.rmtree(folder, ignore_errors=True)
    return total - left
