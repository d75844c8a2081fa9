"""The texts of operations, parsed while the core is compiled.

Whoever loads the core goes on to `tcdsl.ops`, whose texts are parsed once on a machine too: a
second of a core that would stand idle beside the compiler's.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path

from tcdsl.calls.bindings.parsed import is_parsed, parsed

TEXTS = Path(__file__).resolve().parent.parent / "ops"


@contextmanager
def texts_read() -> Iterator[None]:
    """Have texts parsed beside what is done here, where this machine has not parsed them before."""
    *_, last = paths = sorted(TEXTS.glob("*.tc"))
    if is_parsed(last.read_text("utf-8")):
        yield
        return
    # Here, not by the other thread: two that import the same modules may see halves of them.
    import_module("tcdsl.grammar.text.parser")

    def read() -> None:
        for path in paths:
            parsed(path.read_text("utf-8"), path.name)

    thread = threading.Thread(target=read, name="tcdsl texts", daemon=True)
    thread.start()
    yield
    thread.join()
