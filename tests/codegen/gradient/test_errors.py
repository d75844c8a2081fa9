"""What has no gradient says so, with its place and the cure."""

from __future__ import annotations

import pytest

from tcdsl.codegen.gradient.vjp import gradient
from tcdsl.grammar.check.definition import check
from tcdsl.grammar.text.errors import TCTypeError
from tcdsl.grammar.text.parser import parse


def message(text: str) -> str:
    with pytest.raises(TCTypeError) as caught:
        gradient(check(parse(text, "f.tc")))
    return str(caught.value)


def test_a_definition_without_a_float_parameter_or_return() -> None:
    assert message("def f(int32(N) A) -> (O) { O(i) = A(i) * 0.5 }") == (
        "error[TC140]: 'f' has no float parameter, so it has no gradient\n"
        "  note: integers and bool are passed on, they have no derivative"
    )
    assert message("def f(float(N) A) -> (O) { O(i) = A(i) > 0 ? 1 : 2 }").startswith(
        "error[TC140]: 'f' has no float return, so it has no gradient"
    )


def test_a_function_without_derivative_where_the_gradient_goes_through_it() -> None:
    assert message("def f(float(N) A) -> (O) {\n  O(i) = 2 * nextafter(A(i), 1.0)\n}") == (
        "f.tc:2:14: error[TC141]: the gradient goes through 'nextafter', "
        "which has no derivative here\n"
        "  |\n"
        "2 |   O(i) = 2 * nextafter(A(i), 1.0)\n"
        "  |              ^^^^^^^^^^^^^^^^^^^^\n"
        "  note: nothing else of the definition is in its way: give that part a value of its own, "
        "and a derivative by hand"
    )


@pytest.mark.parametrize(
    "value",
    ["A(i) * nextafter(2.5, B(i))", "nextafter(A(i), 0.0) > 0 ? A(i) : 0"],
)
def test_a_function_without_derivative_is_no_matter_where_none_is_asked(value: str) -> None:
    gradient(check(parse(f"def f(float(N) A, int32(N) B) -> (O) {{ O(i) = {value} }}")))


def test_turns_of_an_inner_loop_whose_number_has_no_bound() -> None:
    text = """def f(float(T,N) X, int32 K) -> (h) {
  h(n) = X(0, n)
  for t in 0:T {
    for s in 0:K*t { h(n) = tanh(h(n) + X(t, n)) }
  }
}"""
    assert message(text) == (
        "f.tc:4:5: error[TC142]: what the gradient keeps of the turns of the loop over 's' has no "
        "extent\n"
        "  |\n"
        "4 |     for s in 0:K*t { h(n) = tanh(h(n) + X(t, n)) }\n"
        "  |     ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^\n"
        "  note: no size bounds its number of turns, which depends on loops around: count to a size"
        " or a scalar, and let a condition say what turns leave as it is: s < ... ? ... : ..."
    )
