"""Any text parses or raises a `TCSyntaxError`; nothing else ever comes out."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tcdsl.grammar.text.errors import TCSyntaxError
from tcdsl.grammar.text.format import format_program
from tcdsl.grammar.text.parser import parse
from tests.tiers import drawn

DATA = Path(__file__).parents[2] / "data"
CATALOG = [entry["tc"] for entry in json.loads((DATA / "tc_catalog.json").read_text())]
CATALOG += [entry["tc"] for entry in json.loads((DATA / "tc_negative.json").read_text())]

KEYWORDS = [
    "def",
    "where",
    "in",
    "exists",
    "min",
    "max",
    "for",
    "float",
    "int8",
    "bool",
    "argmin",
    "argmax",
    "and",
    "or",
    "not",
    "if",
    "inf",
]
SIGNS = "( ) { } < > , : = + - * / % ! ? . ... -> <=> <= >= == != && || += +=! max= max=! argmin=!"
PIECES = [
    *KEYWORDS,
    *SIGNS.split(),
    "A",
    "i",
    "N",
    "0",
    "1",
    "0x",
    "2.5",
    ".5",
    "1e9",
    "3x",
    "99" * 12,
]
PIECES += [
    "#",
    "\n",
    " ",
    "\t",
    ";",
    "[",
    "]",
    "'",
    "@",
    "\u00d7",
    "\u00a0",
    "\0",
    "def f(float(N) A) -> (B) {",
]


def check(text: str) -> None:
    refusal = None
    try:
        program = parse(text, "fuzz.tc")
    except TCSyntaxError as error:
        refusal = error
    if refusal is None:
        assert parse(format_program(program)) == program
        return
    assert refusal.diagnostics
    for diagnostic in refusal.diagnostics:
        assert diagnostic.code.startswith("TC0")
        assert diagnostic.span is not None
        assert 0 <= diagnostic.span.start <= diagnostic.span.end <= len(text) + 1
    str(refusal).encode()  # what is shown can be printed


@drawn(15, 300, st.text(max_size=80))
@example("")
@example("\ufeffdef f() -> () {}")
@example("def f() -> () {}\x1a")
@example("def f() -> () {} \ud800")
@example("\r")
def test_any_text(text: str) -> None:
    check(text)


@drawn(40, 250, st.lists(st.sampled_from(PIECES), max_size=30), st.sampled_from(["", " "]))
def test_any_row_of_words_and_signs(pieces: list[str], between: str) -> None:
    check(between.join(pieces))


@drawn(80, 250, st.lists(st.sampled_from(PIECES), max_size=12), st.sampled_from(["", " "]))
def test_any_row_of_words_and_signs_in_a_body(pieces: list[str], between: str) -> None:
    check(f"def f(float(N) A) -> (B) {{ B(i) {between.join(pieces)} }}")


@drawn(
    100,
    300,
    st.sampled_from(CATALOG),
    st.lists(
        st.tuples(st.integers(0, 4000), st.integers(0, 6), st.sampled_from(PIECES)),
        min_size=1,
        max_size=3,
    ),
)
def test_any_change_of_a_text_of_the_original(text: str, edits: list[tuple[int, int, str]]) -> None:
    for place, length, piece in edits:
        start = place % (len(text) + 1)
        text = text[:start] + piece + text[start + length :]
    check(text)


@settings(max_examples=100)
@given(st.sampled_from(CATALOG), st.integers(0, 4000))
def test_any_beginning_of_a_text_of_the_original(text: str, length: int) -> None:
    check(text[: length % (len(text) + 1)])


@pytest.mark.deep
@settings(max_examples=20_000)
@given(st.lists(st.sampled_from(PIECES), max_size=40))
def test_many_rows_of_words_and_signs(pieces: list[str]) -> None:
    check("".join(pieces))
    check(f"def f(float(N) A) -> (B) {{ B(i) {' '.join(pieces)} }}")
