"""What a test compiles: into a folder of its own, or noted by name; records of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tcdsl.codegen.toolchain import making, records
from tcdsl.codegen.toolchain.cc import Compiler
from tcdsl.codegen.toolchain.running import Run
from tcdsl.codegen.toolchain.source import Source


def compiled(compiler: Compiler, source: Source, folder: Path) -> Path:
    """Compile a source without the cache."""
    run = Run(compiler, source, folder)
    run.wait()
    if error := run.error():
        raise error
    return run.started.output


def noted(monkeypatch: pytest.MonkeyPatch, *, library: bool = True) -> list[str]:
    """Return the names of what this process compiles from here on.

    library: the functions of the library too, which a process has once, whichever test was first.
    """
    names: list[str] = []
    begin = making._begin

    def note(compiler: Any, source: Any, key: str) -> Any:
        if library or not source.name.startswith("tc_"):
            names.append(source.name)
        return begin(compiler, source, key)

    monkeypatch.setattr(making, "_begin", note)
    return names


def recorded(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """Keep records in a cache of the test's own, whoever edits sources at the moment.

    A process whose sources have changed since it began writes none.
    """
    monkeypatch.setenv("TCDSL_CACHE", str(folder))
    monkeypatch.setattr(records, "generator", lambda: "0" * 32)
    monkeypatch.setattr(records._watch, "is_same", lambda: True)
