"""Texts of operations are parsed beside the compiler, once on a machine."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from tcdsl.calls.bindings.parsed import is_parsed
from tcdsl.core import meanwhile
from tests.codegen.compiled import recorded

TEXT = "def half_of_all(float(N) A) -> (B) { B(i) = A(i) / 2 }"


def test_texts_are_parsed_where_no_process_has_parsed_them(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    recorded(monkeypatch, tmp_path / "cache")
    (tmp_path / "ops.tc").write_text(TEXT)
    monkeypatch.setattr(meanwhile, "TEXTS", tmp_path)
    with meanwhile.texts_read():  # and a compiler waited for
        pass
    assert is_parsed(TEXT)
    monkeypatch.setattr(threading, "Thread", None)
    with meanwhile.texts_read():  # nothing is begun
        pass
