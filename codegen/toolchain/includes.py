"""What a text includes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

_INCLUDE = re.compile(r'#[ \t]*include\s+"([^"]+)"')  # begins with what is quickly looked for


def included(text: str, folders: Sequence[Path], seen: frozenset[Path] = frozenset()) -> list[str]:
    """Return the texts of what a text includes by quotes, and of what that includes."""
    texts = []
    for match in _INCLUDE.finditer(text):
        if text[text.rfind("\n", 0, match.start()) + 1 : match.start()].strip():
            continue  # it is not at the beginning of a line
        name = match[1]
        path = next((f / name for f in folders if (f / name).exists()), None)
        if path is None or path in seen:
            continue  # a missing one is the compiler's to report
        status = path.stat()
        header = _read(path, status.st_mtime_ns, status.st_size)
        seen |= {path}
        texts += [header, *included(header, [path.parent, *folders], seen)]
    return texts


@lru_cache(maxsize=256)
def _read(path: Path, changed_ns: int, size: int) -> str:
    """Return a header as it was at a time: a process reads each for every text it compiles."""
    return path.read_text(encoding="utf-8")
