"""Diagnostics: their text, their order, the exceptions that carry them."""

from __future__ import annotations

import pickle

import pytest

from tcdsl.grammar.text.errors import (
    Diagnostic,
    Note,
    RangeError,
    TCError,
    TCSyntaxError,
    TCTypeError,
    raise_all,
    raise_one,
    render,
)
from tcdsl.grammar.text.excerpt import MAX_WIDTH
from tcdsl.grammar.text.source import Source, Span

MM = Source("def mm(float(M,K) A) -> (C) {\n  C(m, n) = A(m, k) * A(k, n)\n}", "mm.tc")


def at(text: str, source: Source = MM, nth: int = 0) -> Span:
    start = -1
    for _ in range(nth + 1):
        start = source.text.index(text, start + 1)
    return Span(start, start + len(text), source)


def excerpt_of(text: str, marked: str) -> list[str]:
    source = Source(text)
    return render(Diagnostic("TC999", "m", at(marked, source))).split("\n")[1:]


def test_a_diagnostic_shows_place_code_message_label_and_notes() -> None:
    declared = Note("declared here as float(M, K)", at("float(M,K)"))
    cure = Note("write '+=!' to sum from zero, or '+=' to add to C")
    label = "not an index of C(m, n)"
    fault = Diagnostic("TC999", "'=' does not reduce", at("k"), label, (declared, cure))
    assert render(fault) == (
        "mm.tc:2:18: error[TC999]: '=' does not reduce\n"
        "  |\n"
        "2 |   C(m, n) = A(m, k) * A(k, n)\n"
        "  |                  ^ not an index of C(m, n)\n"
        "  note: declared here as float(M, K)\n"
        "  |\n"
        "1 | def mm(float(M,K) A) -> (C) {\n"
        "  |        ----------\n"
        "  note: write '+=!' to sum from zero, or '+=' to add to C"
    )


def test_a_warning_without_a_place() -> None:
    assert render(Diagnostic("TC999", "odd", severity="warning")) == "warning[TC999]: odd"


def test_a_note_has_a_label() -> None:
    note = Note("first", at("A", nth=0), "here")
    assert render(Diagnostic("TC999", "m", at("C"), "", (note,))).endswith(" - here")


@pytest.mark.parametrize(
    ("text", "marked", "shown", "marks"),
    [
        ("\tA\t(i)", "(i)", "    A   (i)", "        ^^^"),
        ("x\tA", "\tA", "x   A", " ^^^^"),
        ("# 寬 A", "A", "# 寬 A", "     ^"),
        ("寬寬", "寬寬", "寬寬", "^^^^"),
        ("e\u0301 A", "A", "e\u0301 A", "  ^"),
        ("\x1b[31m A", "A", "\ufffd[31m A", "      ^"),
        ("\u202e A", "A", "\ufffd A", "  ^"),
        ("\ud800 A", "A", "\ufffd A", "  ^"),
        ("A(i\n + j)", "A(i\n + j)", "A(i", "^^^"),
        ("A\r\nB", "A", "A", "^"),
    ],
)
def test_marks_stand_under_what_a_terminal_shows(
    text: str, marked: str, shown: str, marks: str
) -> None:
    assert excerpt_of(text, marked) == ["  |", f"1 | {shown}", f"  | {marks}"]


def test_the_place_after_the_last_character_has_a_mark() -> None:
    source = Source("ab")
    lines = render(Diagnostic("TC999", "m", Span(2, 3, source))).split("\n")
    assert lines == ["<text>:1:3: error[TC999]: m", "  |", "1 | ab", "  |   ^"]


def test_an_empty_text_has_a_mark() -> None:
    lines = render(Diagnostic("TC999", "m", Span(0, 0, Source("")))).split("\n")
    assert lines == ["<text>:1:1: error[TC999]: m", "  |", "1 |", "  | ^"]


@pytest.mark.parametrize("before", [0, 30, 60, 500])
@pytest.mark.parametrize("after", [0, 30, 60, 500])
def test_of_a_long_line_the_part_around_the_span_is_shown(before: int, after: int) -> None:
    _, line, marks = excerpt_of("a" * before + "XYZ" + "b" * after, "XYZ")
    assert len(line) <= 4 + MAX_WIDTH + 2 * len("...")
    assert marks.index("^") == line.index("XYZ")
    assert marks.count("^") == 3


def test_line_numbers_of_two_digits_widen_the_gutter() -> None:
    source = Source("\n" * 9 + "A")
    assert render(Diagnostic("TC999", "m", at("A", source))).split("\n")[1:] == [
        "   |",
        "10 | A",
        "   | ^",
    ]


def test_colour_only_on_request() -> None:
    fault = Diagnostic("TC999", "m", at("k"), "label", (Note("n", at("C")),))
    assert "\x1b" not in render(fault)
    colored = render(fault, color=True)
    assert "\x1b[1;31merror[TC999]\x1b[0m: m" in colored
    assert "\x1b[1;31m^ label\x1b[0m" in colored
    assert "\x1b[1;36m-\x1b[0m" in colored


def test_errors_are_raised_once_and_in_the_order_of_the_text() -> None:
    faults = [Diagnostic("TC199", "b", at("A", nth=1)), Diagnostic("TC299", "a", at("C"))]
    with pytest.raises(RangeError) as caught:
        raise_all([*faults, faults[0], Diagnostic("TC198", "w", at("mm"), severity="warning")])
    assert caught.value.diagnostics == (faults[1], faults[0])
    assert str(caught.value) == f"{render(faults[1])}\n\n{render(faults[0])}"


def test_ten_errors_are_shown_and_all_are_carried() -> None:
    faults = [Diagnostic("TC099", f"fault {i}", at("C")) for i in range(13)]
    with pytest.raises(TCSyntaxError) as caught:
        raise_all(faults)
    assert len(caught.value.diagnostics) == 13
    assert str(caught.value).count("error[TC099]") == 10
    assert str(caught.value).endswith("\n\n... and 3 more errors")
    with pytest.raises(TCSyntaxError, match=r"\.\.\. and 1 more error$"):
        raise_all(faults[:11])


def test_nothing_is_raised_without_an_error() -> None:
    raise_all([])
    raise_all([Diagnostic("TC199", "w", at("C"), severity="warning")])


@pytest.mark.parametrize(
    ("code", "kinds"),
    [
        ("TC099", (TCSyntaxError, ValueError)),
        ("TC199", (TCTypeError, TypeError)),
        ("TC299", (RangeError, ValueError)),
        ("TC399", (TCTypeError, TypeError)),
    ],
)
def test_an_error_is_also_the_exception_of_python(code: str, kinds: tuple[type, ...]) -> None:
    with pytest.raises(TCError) as caught:
        raise_one(Diagnostic(code, "m"))
    assert all(isinstance(caught.value, kind) for kind in kinds)


def test_an_error_survives_pickling_and_can_be_hashed() -> None:
    with pytest.raises(TCError) as caught:
        raise_all([Diagnostic("TC199", "m", at("k"), "label", (Note("n", at("C")),))])
    error = caught.value
    again: TCError = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error)
    assert str(again) == str(error)
    assert again.diagnostics == error.diagnostics
    assert again.diagnostics[0].span is not None
    assert again.diagnostics[0].span.text == "k"
    assert len({error, again}) == 2
