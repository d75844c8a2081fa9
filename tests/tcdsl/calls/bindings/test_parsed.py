"""A text that a process has parsed is parsed by no other; texts with faults are, each time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import tcdsl as tc
from tcdsl.calls.bindings.parsed import parsed
from tcdsl.codegen.toolchain import records
from tcdsl.grammar.text import parser
from tcdsl.grammar.text.errors import TCSyntaxError
from tcdsl.grammar.text.unread import Unread

TEXT = "def sums(float(M, N) x) -> (y) { y(m) +=! x(m, n) }"


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TCDSL_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(records, "generator", lambda: "0" * 32)
    parsed.cache_clear()
    return tmp_path / "cache"


@pytest.fixture
def texts(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The texts that are parsed from now on."""
    done: list[str] = []
    parse = parser.parse

    def count(text: str, name: str = "<text>") -> Any:
        done.append(text)
        return parse(text, name)

    monkeypatch.setattr(parser, "parse", count)
    return done


def test_another_process_reads_the_tree_under_the_name_that_it_gives(texts: list[str]) -> None:
    first = parsed(TEXT, "one")
    assert texts == [TEXT]
    parsed.cache_clear()
    again = parsed(TEXT, "other")
    assert texts == [TEXT]
    assert again == first
    assert again.span is not None
    assert again.span.source.name == "other"
    with pytest.raises(tc.TCTypeError, match="sums"):
        tc.define(TEXT)(1.0)
    assert texts == [TEXT]


def test_another_process_finds_a_signature_without_making_a_body(texts: list[str]) -> None:
    both = TEXT + " def sum(float(M, N) x) -> (z) { y = sums(x) z +=! y(m) }"
    for _ in range(2):
        parsed.cache_clear()
        kernels = tc.define_all(both)
    assert texts == [both]
    for definition in (kernels.sums.definition, kernels.sum.definition):
        body = type(definition).__dict__["body"]._slot.__get__(definition)
        assert isinstance(body, Unread)
    assert (kernels.sum.variant().identity or "").count("def ") == 2  # with what it calls
    assert (kernels.sums.variant().identity or "").count("def ") == 1


def test_a_text_with_faults_is_told_in_every_process(texts: list[str]) -> None:
    wrong = TEXT.replace("}", "")
    for _ in range(2):
        parsed.cache_clear()
        with pytest.raises(TCSyntaxError):
            parsed(wrong)
    assert texts == [wrong] * 2


def test_a_damaged_tree_is_parsed_again(texts: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    parsed.cache_clear()
    write = records.write

    def damaged(kind: str, parts: Any, value: Any, name: str) -> None:
        write(kind, parts, value[1:], name)

    with monkeypatch.context() as patch:
        patch.setattr(records, "write", damaged)
        first = parsed(TEXT)
    parsed.cache_clear()
    assert parsed(TEXT) == first
    assert texts == [TEXT] * 2
    parsed.cache_clear()
    assert parsed(TEXT) == first
    assert texts == [TEXT] * 2
