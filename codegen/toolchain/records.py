"""Records: what was worked out before, by what decides it, as JSON among the files of the cache.

A record says nothing but what its key decides: whoever finds none works it out again. One that is
damaged, of another key, another version or another shape than its reader expects is removed. Text
and numbers only are read, never code.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import os
import re
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from tcdsl import grammar
from tcdsl.codegen.machine.plainjson import loads
from tcdsl.codegen.toolchain import contentfile
from tcdsl.codegen.toolchain.contentfile import hash_of
from tcdsl.grammar.text.dataclass import dataclass

T = TypeVar("T")

VERSION = 2  # of all kinds of records
SUFFIX = ".json"
_MOST_CHARS, _MOST_BRACKETS = 1 << 22, 1 << 16
_SETTLED_NS = 2_000_000_000  # by which this module may be imported later than the first one
_MOMENT_S = 0.1  # in which several records of one kernel are written
_SOURCES = (".py", ".h", ".cuh", ".c", ".lark", ".json")
_SUM = ".sum"  # of the files of a generator

_imported_ns = time.time_ns()


def read(kind: str, parts: Sequence[str], decode: Callable[[object], T]) -> T | None:
    """Return what the record of a kind says of these parts, None where there is none.

    decode gets the value that `write` was given, or anything else that is JSON.

    Raises
    ------
    ValueError
        Never: what decode raises one for is removed.
    """
    return next(read_all(kind, parts, decode), None)


def read_all(kind: str, parts: Sequence[str], decode: Callable[[object], T]) -> Iterator[T]:
    """Yield what all records of a kind say of these parts."""
    key = key_of(kind, parts)
    if key is None:
        return
    for path, content in contentfile.contents(key, SUFFIX):
        try:
            match loads(content.decode(), _MOST_CHARS, _MOST_BRACKETS):
                case {"version": version, "key": of, "value": value, **rest} if (
                    not rest and version == VERSION and of == key
                ):
                    found = decode(value)
                case _:
                    raise ValueError("it is another record")
        except ValueError:  # of text that is no UTF-8 too
            with contextlib.suppress(OSError):
                path.unlink()
        else:
            yield found


def is_kept(kind: str, parts: Sequence[str]) -> bool:
    """Whether there is a record of these parts, which may say anything."""
    key = key_of(kind, parts)
    return key is not None and contentfile.lookup(key, SUFFIX) is not None


def write(kind: str, parts: Sequence[str], value: object, name: str) -> None:
    """Keep a value for `read`; name: of the definition, for whoever looks into the folder.

    Nothing is kept once a source has changed: a module loaded since may be another generator's.
    """
    key = key_of(kind, parts)
    if key is not None and _watch.is_same():
        text = json.dumps({"version": VERSION, "key": key, "value": value}, separators=(",", ":"))
        contentfile.keep(text.encode(), f"{name[:32]}.{kind}", key, SUFFIX)


def key_of(kind: str, parts: Sequence[str]) -> str | None:
    """Return what the records of a kind that say something of these parts are found by."""
    of = generator()
    return None if of is None else hash_of([str(VERSION), of, kind, *parts])


@functools.cache
def generator() -> str | None:
    """Return the digest of the files that decide what is emitted and derived.

    None where one has changed since this process began: what it has loaded may be the earlier one.
    """
    return _digest(_found_first(), _imported_ns - _SETTLED_NS)


def digest_of_sources(folders: Sequence[Path], before_ns: int) -> str | None:
    """Return the digest of the sources in folders; None if one has changed since a time."""
    return _digest(_found_in(folders), before_ns)


@dataclass(frozen=True, slots=True)
class _Found:
    """Sources as they lay in folders. stats: a hash of their names, sizes and times.

    times: of each file its size and times. folders: when names in each were changed last, None
    where that was so lately that one more may have the same time.
    """

    files: tuple[str, ...]
    stats: str
    changed_ns: int
    times: tuple[_Times, ...]
    folders: Mapping[str, int | None]

    def is_there(self) -> bool:
        """Whether files and folders are untouched; this asks half of what to go through them does.

        False does not say that they are not: what is no source may have come to a folder.
        """
        try:
            names = all(os.stat(f).st_mtime_ns == at for f, at in self.folders.items())
            return names and self.has_same_files()
        except OSError:
            return False

    def has_same_files(self) -> bool:
        """Whether the files are untouched; an `OSError` where one has gone."""
        return tuple(map(_times, map(os.stat, self.files))) == self.times

    def has_same_headers(self) -> bool:
        """Whether the files are untouched that are no modules."""
        try:
            return all(
                _times(os.stat(path)) == times
                for path, times in zip(self.files, self.times, strict=True)
                if not path.endswith(".py")
            )
        except OSError:
            return False


_Times = tuple[int, int, int]


def _times(stat: os.stat_result) -> _Times:
    return stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns


def _digest(found: _Found | None, before_ns: int) -> str | None:
    if found is None or found.changed_ns > before_ns:
        return None
    for _, content in contentfile.contents(found.stats, _SUM):  # to read all takes longer
        if re.fullmatch(rb"[0-9a-f]{32}", content):
            return content.decode()
    try:
        digest = _content(found.files)
        if not found.has_same_files():  # what was read may be what this process has not loaded
            return None
    except OSError:  # one has gone since
        return None
    contentfile.keep(digest.encode(), "generator", found.stats, _SUM)
    return digest


@functools.cache
def _found_first() -> _Found | None:
    return _found_in(_folders())


def _folders() -> Sequence[Path]:
    return Path(str(grammar.__file__)).parent, Path(__file__).parent.parent


def _found_in(folders: Sequence[Path]) -> _Found | None:
    within: dict[str, int | None] = {}
    try:
        files = sorted(_sources(folders, within))
    except OSError:  # they are not in folders
        return None
    if not any(path.endswith(".py") for path, _ in files):  # installed without what it was made of
        return None
    paths, times = zip(*files, strict=True)
    stats = hash_of((*paths, repr(times)))
    return _Found(paths, stats, max(changed_ns for _, _, changed_ns in times), times, within)


class _Watch:
    """Whether the sources are those that the generator's digest was made of.

    Most modules are loaded when something is lowered, headers are read when it is compiled: by
    then a file may be another one. All are asked again once a module more is loaded, what is no
    module after a moment.
    """

    def __init__(self) -> None:
        self._asked: tuple[int, float] | None = None
        self._is_same = True

    def is_same(self) -> bool:
        """Whether nothing has changed; what has is never the same again."""
        modules, now = len(sys.modules), time.monotonic()
        asked = self._asked
        if self._is_same and (asked is None or asked[0] != modules or now - asked[1] > _MOMENT_S):
            first = _found_first()
            has_loaded = asked is None or asked[0] != modules
            is_there = _Found.is_there if has_loaded else _Found.has_same_headers
            self._is_same = first is not None and (is_there(first) or _are_again(first))
            self._asked = modules, now
        return self._is_same


def _are_again(first: _Found) -> bool:
    found = _found_in(_folders())
    return found is not None and found.stats == first.stats


_watch = _Watch()


def _content(files: Sequence[str]) -> str:
    digest = hashlib.sha256()
    for path in files:
        content = Path(path).read_bytes()
        digest.update(f"{Path(path).name} {len(content)}\0".encode() + content)
    return digest.hexdigest()[:32]


def _sources(folders: Sequence[Path], within: dict[str, int | None]) -> list[tuple[str, _Times]]:
    """Return the sources in folders; within: gets when names in each folder were changed last."""
    found = []
    todo = [str(folder) for folder in folders]
    while todo:
        folder = todo.pop()
        changed_ns = os.stat(folder).st_mtime_ns
        is_settled = changed_ns < time.time_ns() - _SETTLED_NS
        within[folder] = changed_ns if is_settled else None
        with os.scandir(folder) as entries:
            for entry in entries:
                name = entry.name
                if name.endswith(_SOURCES):
                    found.append((entry.path, _times(entry.stat())))
                elif name != "__pycache__" and entry.is_dir():
                    todo.append(entry.path)
    return found
