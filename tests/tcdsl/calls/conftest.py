"""What the tests of calls share."""

from __future__ import annotations

from typing import Any

import pytest

from tcdsl.codegen.library import load


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> list[str]:
    """The texts that go to a compiler, in a folder where nothing lies."""
    monkeypatch.setenv("TCDSL_CACHE", str(tmp_path))
    texts: list[str] = []
    compile_and_load = load.compile_and_load

    def counted(text: str, *args: Any) -> load.Loaded:
        texts.append(text)
        return compile_and_load(text, *args)

    monkeypatch.setattr(load, "compile_and_load", counted)
    return texts
