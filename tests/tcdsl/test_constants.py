"""`{name}` in a text."""

from __future__ import annotations

import pytest

from tcdsl.constants import fill_constants
from tcdsl.grammar.errors import TCSyntaxError


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
