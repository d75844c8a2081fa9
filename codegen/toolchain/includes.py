"""What a text includes."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path

_INCLUDE = re.compile(r'#[ \t]*include\s+"([^"]+)"')  # begins with what is quickly looked for


def included(text: str, folders: Sequence[Path]) -> list[str]:
    """Return the texts of what a text includes by quotes, and of what that includes."""
    return [*_texts(_names(text), [*map(str, folders)], frozenset())]


def _names(text: str) -> Iterator[str]:
    for match in _INCLUDE.finditer(text):
        if not text[text.rfind("\n", 0, match.start()) + 1 : match.start()].strip():
            yield match[1]  # it is at the beginning of a line


def _texts(names: Iterable[str], folders: Sequence[str], seen: frozenset[str]) -> Iterator[str]:
    for name in names:
        found = next(_found(name, folders), None)
        if found is None or found[0] in seen:
            continue  # a missing one is the compiler's to report
        path, status = found
        header, others = _read(path, status.st_mtime_ns, status.st_size)
        seen |= {path}
        yield header
        yield from _texts(others, [os.path.dirname(path), *folders], seen)


def _found(name: str, folders: Sequence[str]) -> Iterator[tuple[str, os.stat_result]]:
    for folder in folders:
        path = os.path.join(folder, name)
        with contextlib.suppress(OSError):
            yield path, os.stat(path)


@lru_cache(maxsize=256)
def _read(path: str, changed_ns: int, size: int) -> tuple[str, tuple[str, ...]]:
    """Return a header as it was at a time, and what it includes.

    A process reads each for every text it compiles.
    """
    header = Path(path).read_text(encoding="utf-8")
    return header, tuple(_names(header))
