"""Which adjoints a way back hands on is found in a text that one process of a machine parses."""

from __future__ import annotations

from pathlib import Path

import pytest

from tcdsl.calls.bindings.parsed import parsed
from tcdsl.codegen.gradient.vjp import gradient
from tcdsl.codegen.toolchain import records
from tcdsl.grammar.check.definition import check
from tcdsl.grammar.text import parser
from tcdsl.ops.passing import passed_on

TEXT = "def add(float(N) A, float(N) B) -> (C) { C(i) = A(i) - B(i) }"


def test_what_is_passed_on_is_found_without_a_parser_in_later_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TCDSL_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(records, "generator", lambda: "0" * 32)
    made = gradient(check(parser.parse(TEXT)))
    parsed.cache_clear()
    assert passed_on(made) == ("A",)
    parsed.cache_clear()  # as in another process
    monkeypatch.delattr(parser, "parse")
    assert passed_on(made) == ("A",)
