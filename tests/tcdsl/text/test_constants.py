"""`{name}` in a text."""

from __future__ import annotations

from typing import Any

import pytest

from tcdsl.grammar.text.errors import TCSyntaxError, TCTypeError
from tcdsl.text.constants import fill_constants


def test_a_field_is_replaced_and_the_body_stays() -> None:
    text = "def f(float(N) A) -> (B) { B(i) = A({s} * i) }"
    assert fill_constants(text, {"s": 2}, "f") == "def f(float(N) A) -> (B) { B(i) = A(2 * i) }"


def test_a_text_with_doubled_braces_goes_through_format() -> None:
    text = "def f(float(N) A) -> (B) {{ B(i) = A({s} * i) }}"
    assert fill_constants(text, {"s": 2}, "f") == "def f(float(N) A) -> (B) { B(i) = A(2 * i) }"


@pytest.mark.parametrize("braces", [("{", "}"), ("{{", "}}")])
def test_a_field_without_constant_is_an_error_with_its_place(braces: tuple[str, str]) -> None:
    text = f"def f(float(N) A) -> (B) {braces[0]}\n B(i) = A({{s}} * i) {braces[1]}"
    with pytest.raises(TCSyntaxError) as error:
        fill_constants(text, {"t": 2}, "f.tc")
    assert str(error.value).startswith("f.tc:2:11: error[TC090]: no constant 's'")
    assert "constants given: 't'" in str(error.value)


@pytest.mark.parametrize(
    ("field", "shown"),
    [
        ("{S.foo}", "{S.foo}"),
        ("{S.__class__.__mro__}", "{S.__class__.__mro__}"),
        ("{S:3000000000}", "{S:3000000000}"),
        ("{S[0]}", "{S[0]}"),
        ("{S!r}", "{S!r}"),
        ("{}", "{}"),
        ("{0}", "{0}"),
        ("{ i\n + 1", "{"),
        ("}", "}"),
    ],
)
def test_in_a_text_for_format_a_field_is_a_name_and_nothing_more(field: str, shown: str) -> None:
    text = f"def f(float(N) A) -> (B) {{{{\n B(i) = A({field} * i) }}}}"
    with pytest.raises(TCSyntaxError) as error:
        fill_constants(text, {"S": 2}, "f.tc")
    assert len(error.value.diagnostics) == 1
    first = str(error.value).splitlines()[0]
    assert first == f"f.tc:2:11: error[TC090]: '{shown}' is no constant"
    assert "in a text with '{{', write '{name}' for a constant" in str(error.value)


def test_without_doubled_braces_only_fields_are_looked_at() -> None:
    text = "def f(float(N) A) -> (B) { B(i) = A({S.foo} * {s} * i) }"
    assert "{S.foo} * 2" in fill_constants(text, {"s": 2}, "f.tc")


@pytest.mark.parametrize("value", [None, [1], True, 1j, 10**500, -(2**63) - 1])
def test_a_constant_is_a_number_or_a_text(value: Any) -> None:
    with pytest.raises(TCTypeError, match="constant 's'"):
        fill_constants("def f(float(N) A) -> (B) { B(i) = A({s} * i) }", {"s": value}, "f")
