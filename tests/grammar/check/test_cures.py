"""Cures that diagnostics offer: with them a text compiles and means what was meant."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from tcdsl.codegen.reference.evaluator import evaluate
from tcdsl.grammar.check.bind import bind
from tcdsl.grammar.check.definition import check
from tcdsl.grammar.text.errors import Diagnostic, ShapeError, TCError, render
from tcdsl.grammar.text.parser import parse
from tcdsl.grammar.types.typed import CheckedDef

X = "def f(float(N,C,H,W) I, float(C,KH,KW) D) -> (T) {\n"
V = "def f(float(N) A, float(K) w, int64(N) J) -> (float(N) O) {\n"


def made(text: str) -> CheckedDef:
    return check(parse(text, "f.tc"))


def faults(text: str) -> tuple[Diagnostic, ...]:
    with pytest.raises(TCError) as caught:
        made(text)
    return tuple(caught.value.diagnostics)


def cure(diagnostic: Diagnostic, pattern: str) -> str:
    """Return what the first note that matches says."""
    for note in diagnostic.notes:
        if found := re.search(pattern, note.message):
            return found[1]
    raise AssertionError(f"no {pattern!r} in\n{render(diagnostic)}")


def with_ranges(body: str) -> tuple[CheckedDef, list[str]]:
    """Return a definition with the ranges that its faults ask for."""
    wanted = [cure(d, r"(\w+ in .*?)(?:, say)?$") for d in faults(body + "}")]
    return made(f"{body} where {', '.join(wanted)} }}"), wanted


def shapes(checked: CheckedDef, *given: tuple[int, ...]) -> tuple[int, ...]:
    sizes = bind(checked, given)
    return tuple(s.evaluate(sizes) for s in checked.returns[0].shape)


def values(text: str, *args: Any) -> np.ndarray[Any, Any]:
    return evaluate(made(text), args)[0]


@pytest.mark.parametrize(
    ("body", "wanted", "shape"),
    [
        ("pad(I(n,c,y+i-1,x+j-1),0)*D(c,i,j)", ["y in 0:H", "x in 0:W"], (2, 3, 7, 9)),
        ("pad(I(n,c,2*y+i-1,x+j-1),0)*D(c,i,j)", ["y in 0:(H + 1) / 2", "x in 0:W"], (2, 3, 4, 9)),
        ("pad(I(n,c,i+3*y-1,j-x),0)*D(c,i,j)", ["y in 0:(H + 2) / 3", "x in 0:10"], (2, 3, 3, 10)),
    ],
)
def test_a_padded_dimension_is_as_long_as_what_it_reads(
    body: str, wanted: list[str], shape: tuple[int, ...]
) -> None:
    if "j-x" in body:
        wanted = [wanted[0], "x in 0:N"]  # it runs backwards: any number will do
        shape = (2, 3, 3, 2)
    checked, found = with_ranges(f"{X}T(n,c,y,x) +=! {body}")
    assert found == wanted
    assert shapes(checked, (2, 3, 7, 9), (3, 3, 3)) == shape


def test_an_annotated_return_needs_no_range() -> None:
    text = X.replace("(T)", "(float(N,C,H,W) T)")
    checked = made(f"{text}T(n,c,y,x) +=! pad(I(n,c,y+i-1,x+j-1),0)*D(c,i,j) }}")
    assert [str(r.high) for r in checked.body[0].ranges] == ["N", "C", "H", "W", "KH", "KW"]  # type: ignore[union-attr]
    assert not checked.warnings


@pytest.mark.parametrize(
    ("body", "wanted"),
    [
        ("def f(float(N) A) -> (O) { O(i) = A(N*i)", "i in 0:(2 * N - 1) / N"),
        ("def f(float s) -> (O) { O(i) = s", "i in 0:10"),
        ("def f(float s, float(M) A) -> (O) { O(i, j) = s * A(j)", "i in 0:M"),
        ("def f(float(I) A) -> (O) { O(i, j) = A(j)", "i in 0:I"),
    ],
)
def test_a_range_that_is_offered_is_legal(body: str, wanted: str) -> None:
    assert with_ranges(body)[1] == [wanted]


def test_where_two_indices_share_a_subscript_the_other_follows() -> None:
    body = "def f(float(N) A) -> (O) { O(i) +=! A(i + j)"
    for diagnostic in faults(body + "}"):
        wanted = cure(diagnostic, r"(\w+ in \S+), say")
        made(f"{body} where {wanted} }}")


def test_the_halves_of_an_output_are_both_written() -> None:
    x, c = np.arange(1.0, 9.0), np.array([1.0, 10.0, 100.0, 1000.0])
    text = """def f(double(D) X, double(E) C) -> (double(D) Y) {
        Y(d) = d < D/2 ? X(d)*C(d) : X(d)*C(d-D/2) }"""
    assert (values(text, x, c) == x * np.concatenate([c, c])).all()
    text = "def f(double(D) X) -> (double(D) Y) { Y(d) = d < D/2 ? X(d+D/2) : X(d-D/2) }"
    assert (values(text, x) == np.roll(x, 4)).all()
    text = "def f(double(D) X) -> (double(D) Y) { Y(d) +=! pad(X(d+k-1), 0) where k in 0:3 }"
    assert (values(text, x) == np.convolve(x, np.ones(3), "same")).all()
    # a read that no condition guards still says more
    text = "def f(double(D) X, double(E) C) -> (double(D) Y) { Y(d) = (d > 0 ? X(d-1) : 0) * C(d) }"
    assert [str(r.high) for r in made(text).body[0].ranges] == ["E"]  # type: ignore[union-attr]


PARTS = [
    ("O(i) +=! A(i + k) * w(k)", "N - K + 1 to N - 1", "N - K + 1", "N - K"),
    ("O(i) = A(i) * w(i)", "min(K, N) to N - 1", "min(K, N)", "min(K, N) - 1"),
    ("O(i) = A(i) + A(i + 2)", "N - 2 to N - 1", "N - 2", "N - 3"),
]


@pytest.mark.parametrize(("body", "part", "extent", "last"), PARTS)
def test_what_stays_unwritten_is_told(body: str, part: str, extent: str, last: str) -> None:
    (warning,) = made(f"{V}{body} P(i) = J(i) }}".replace("O) {", "O, P) {")).warnings
    some = "" if part.startswith("N - 2") else ", if there are any"
    assert render(warning).startswith(
        f"f.tc:2:3: warning[TC152]: nothing writes elements {part} of dimension 0 of 'O'{some}\n"
        f"  |\n2 | {body} P(i) = J(i) }}\n  |   ^ runs from 0 to {last}\n"
        f"  note: declare {extent} elements there, or write all of them, as in where i in 0:N, "
        "with 'pad' for what is outside\n  note: declared here as float(N)\n"
    )
    shorter = V.replace("(float(N) O)", f"(float({extent}) O, P)")
    assert not made(f"{shorter}{body} P(i) = J(i) }}").warnings


@pytest.mark.parametrize(
    "body",
    [
        "O(i) = A(i)",
        "O(i) = A(i) * w(i) where i in 0:K",  # asked for
        "O(i) = A(i) + A(i + 2)  O(i) += 1.0",  # another statement writes the rest
        "O(i + 1) = w(i)",  # a subscript that says so itself
        "O(J(i)) +=! A(i)",
        "O(i) = i < N ? A(i) : w(i - N)",
    ],
)
def test_no_warning_of_what_is_written_or_asked_for(body: str) -> None:
    text = f"{V}{body} P(i) = J(i) * w(0) }}".replace("O) {", "O, P) {")
    assert not made(text).warnings


def test_what_a_call_leaves_unwritten_is_told_once() -> None:
    callee = "def g(float(N) x, float(K) y) -> (float(N) z) { z(i) = x(i) * y(i) }\n"
    text = f"{callee}def f(float(N) A, float(K) B) -> (float(N) O) {{ O = g(A, B) }}"
    (warning,) = check(parse(text), "f").warnings
    assert warning.code == "TC152"


QUOTIENTS = [
    ("1/2 * A(i)", 0.5),
    ("A(i) * (1/N)", 0.2),
    ("A(i) * ((i + 3)/(N*2))", None),
    ("A(i) + -i/2", None),
    ("A(i) * sqrt(1/N)", 0.2**0.5),
    ("i < 9 ? 1 / 2 : A(i)", 0.5),
    ("max(A(i) - 9, 1 / 4)", 0.25),
    ("pad(A(i + 7), 1 / 4)", 0.25),
    ("i/2", None),
    ("A(i) < 1 / 2 ? 3.0 : 2.0", None),
    ("q where q = 3/2", 1.5),
]


@pytest.mark.parametrize(("value", "first"), QUOTIENTS)
def test_a_quotient_of_integers_that_meets_a_float(value: str, first: float | None) -> None:
    text = f"def f(float(N) A) -> (float(N) O) {{ O(i) = {value} }}"
    args = np.ones(5, np.float32)
    (warning,) = made(text).warnings
    assert warning.code == "TC153"
    assert warning.span is not None
    start, end = warning.span.start, warning.span.end
    fraction = cure(warning, "for the fraction write (.*)")
    exact = f"{text[:start]}{fraction}{text[end:]}"
    assert not made(exact).warnings
    if first is not None:
        assert values(exact, args)[0] == np.float32(first)
    rounded = f"{text[:start]}{cure(warning, 'say so, (.*)')}{text[end:]}"
    assert not made(rounded).warnings
    assert (values(rounded, args) == values(text, args)).all()


@pytest.mark.parametrize(
    "value",
    [
        "float(N) / 2 * A(i)",
        "A(i) / N",
        "float(i / 2) * A(i)",
        "int32(i / 2) * A(i)",
        "A(i) * (6 / 3)",
        "A(i) * (4 * N / 2)",
        "A(i) * (N * K / K)",
        "A(i / 2)",
        "i / 2 < 3 ? A(i) : 0.0",
        "rand(s, i / 2)",
        "A(i) * 1.0 / 2",
    ],
)
def test_no_warning_of_a_quotient_that_is_meant(value: str) -> None:
    text = (
        f"def f(float(N) A, float(K) B, uint64 s) -> (float(N) O, P) {{ O(i) = {value} P = B(0) }}"
    )
    assert not made(text).warnings


@pytest.mark.parametrize(
    ("condition", "wrong", "right"),
    [
        ("i * 3", "i * 3", "int64(i) * 3"),
        ("j + 2 * i", "j + 2 * i", "int64(j) + 2 * int64(i)"),
        ("int32(int64(i) * 3)", "int32(int64(i) * 3)", "int64(int64(i) * 3)"),
    ],
)
def test_what_does_not_fit_int32(condition: str, wrong: str, right: str) -> None:
    text = (
        "def f(float(N) A) -> (O) { O(i) +=! X < 9 ? A(i + j) : 0.0 where i in 0:N/2, j in 0:N/2 }"
    )
    with pytest.raises(ShapeError) as caught:
        bind(made(text.replace("X", condition)), [(2**31 - 9,)])
    offered = "write int64 for int32" if "int32" in wrong else "as in int64(i)"
    assert f"'{wrong}' does not fit int32" in str(caught.value)
    assert offered in str(caught.value)
    bind(made(text.replace("X", right)), [(2**31 - 9,)])


def test_a_result_that_nothing_bounds_is_declared() -> None:
    body = "{ O(J(i), k) += A(i) * w(k) }"
    head = "def f(double(N) A, double(K) w, int64(N) J) -> "
    (diagnostic,) = faults(f"{head}(O) {body}")
    written = cure(diagnostic, r"-> (\(.*?\) \w+\)),")
    assert written == "(float64(D0, K) O)"
    checked = check(parse(f"{head.replace('f(', 'f<D0>(', 1)}{written} {body}"), generics={"D0": 3})
    assert [str(s) for s in checked.returns[0].shape] == ["3", "K"]
    (diagnostic,) = faults("def f(float(N) A, int64(N) J) -> (O) { t(J(i)) +=! A(i)  O(i) = t(i) }")
    bounded = cure(diagnostic, r"bound the subscript: (clamp\(.*\)), for")
    made(f"def f(float(N) A, int64(N) J) -> (O) {{ t({bounded}) +=! A(i)  O(i) = t(i) }}")


APPLIED = [  # a fault, and the text with what its message says to write
    ("O(i) = A(i) * B(i, k)", "O(i) +=! A(i) * B(i, k)", "TC104"),
    ("O(i) = A(s * 1.5)", "O(i) = A(int32(s * 1.5)) where i in 0:N", "TC301"),
    ("O(i) = J(i) ? A(i) : 0.0", "O(i) = J(i) != 0 ? A(i) : 0.0", "TC302"),
    ("O(i) = A(i) where i in 0:3, i in 0:N", "O(i) = A(i) where i in 0:min(3, N)", "TC203"),
    ("O(i / 2) = A(i)", "O(i / 2) +=! A(i)", "TC192"),
    ("t(i) += A(i)  O(i) = t(i)", "t(i) +=! A(i)  O(i) = t(i)", "TC119"),
    ("O(i) = A(i)  O(i) = O(i - 1) where i in 1:N", "P(i) = A(i) O(i) = P(i - 1) where i in 1:N",
     "TC126"),
    ("O(0) = A(0)  O(i) = O(i - 1) + A(i) where i in 1:N",
     "O(0) = A(0)  for t in 1:N { O(t) = O(t - 1) + A(t) }", "TC126"),
    ("J(i) = A(i)  O(i) = A(i)", "O(i) = A(i)", "TC109"),
    ("O argmax=! s", "O argmax=! A(i)", "TC195"),
    ("O(i) = rand(i, i) where i in 0:N", "O(i) = rand(7 * int64(n), i) where i in 0:N", "TC196"),
    ("O(i) = rand(i, 0) where i in 0:N", "O(i) = rand(J(i), 0)", "TC196"),
    ("O(i) = sqroot(A(i))", "O(i) = sqrt(A(i))", "TC102"),
]  # fmt: skip


@pytest.mark.parametrize(("wrong", "right", "code"), APPLIED)
def test_texts_with_the_cures_of_their_messages(wrong: str, right: str, code: str) -> None:
    head = "def f(float(N) A, float(N, K) B, int32(N) J, float s, int32 n) -> (O) {\n"
    assert faults(f"{head}{wrong} }}")[0].code == code
    made(f"{head}{right} }}")


SPELLED = [  # a text, what its message says to write, and the text with that
    ("O(i) = A(i) > 0 and A(i) < 1 ? 1 : 0", "write '&&'", "O(i) = A(i) > 0 && A(i) < 1 ? 1 : 0"),
    ("O(i) = A(i)**2", "write pow(x, y)", "O(i) = pow(A(i), 2)"),
    ("O(i) = min(A(i), s, 2.0)", "write min(a, min(b, c))", "O(i) = min(A(i), min(s, 2.0))"),
    ("O(i) = A(i / 2) // 2 where i in 0:N", "write '/'", "O(i) = A(i / 2) / 2 where i in 0:N"),
    ("O = A @ B", "a sum: C(i, j) +=! A(i, k) * B(k, j)", "O(i, j) +=! A(i) * A(j)"),
    ("O(i) = 2A(i)", "write 2 * A", "O(i) = 2 * A(i)"),
    ("O(i) -= A(i)", "write '+=' and change the sign", "O(i) += -A(i)"),
    ("O(i) = A(i) =< 2 ? 1 : 0", "write '<='", "O(i) = A(i) <= 2 ? 1 : 0"),
    ("O(i) = A(i) where i in range(3)", "write 0:3", "O(i) = A(i) where i in 0:3"),
    ("O(i) = A(i) where i in 0:N:2", "read A(2 * i)", "O(i) = A(2 * i)"),
    ("O argmin= A(i)", "write 'argmin=!'", "O argmin=! A(i)"),
    ("O(i) == A(i)", "write '='", "O(i) = A(i)"),
    ("O(i) = +A(i)", "remove it", "O(i) = A(i)"),
    ("O(i) max = A(i)", "write 'max=' without blanks", "O(i) max= A(i)"),
    ("O(i) = 1.5f * A(i)", "remove 'f'", "O(i) = 1.5 * A(i)"),
    ("O(i) = 1.5f * A(i)", "a cast gives a type: float(1.5)", "O(i) = float(1.5) * A(i)"),
    ("O(i) = A(i) * 2ul", "a cast gives a type: uint64(2)", "O(i) = A(i) * uint64(2)"),
    ("O(i) = A(i) if s > 0 else 1", "condition ? value : other", "O(i) = s > 0 ? A(i) : 1"),
    ("O(i) = if A(i) > 0 1 else 0", "condition ? value : other", "O(i) = A(i) > 0 ? 1 : 0"),
    ("let x = 3 O(i) = A(i) * x", "where x = A(i)", "O(i) = A(i) * x where x = 3"),
    ("O = sum(A(i))", "s(i) +=! A(i, k)", "O +=! A(i)"),
    ("O = argmax(A)", "at(i) argmax=! A(i, k)", "O argmax=! A(i)"),
    ("O(i) = swish(A(i))", "write silu(x)", "O(i) = silu(A(i))"),
    ("O(i) = relu6(A(i))", "write clamp(x, 0, 6)", "O(i) = clamp(A(i), 0, 6)"),
    ("O(i) = if(s > 0, A(i), 1)", "condition ? value : other", "O(i) = s > 0 ? A(i) : 1"),
    ("O = A(:)", "a whole dimension has an index too: A(i, j)", "O(i) = A(i)"),
    ("O(i) = a(i)", "did you mean 'A'?", "O(i) = A(i)"),
    ("O(i) = true ? A(i) : 1", "write 1 == 1", "O(i) = 1 == 1 ? A(i) : 1"),
    ("O(i) = false", "write 1 == 0", "O(i) = 1 == 0 where i in 0:3"),
]


@pytest.mark.parametrize(("wrong", "said", "right"), SPELLED)
def test_spellings_that_messages_offer(wrong: str, said: str, right: str) -> None:
    head = "def f(float(N) A, float s) -> (O) {\n"
    with pytest.raises(TCError) as caught:
        made(f"{head}{wrong} }}")
    assert said in str(caught.value)
    made(f"{head}{right} }}")


@pytest.mark.parametrize(
    ("parameters", "said"),
    [
        ("A float(N)", "'A' stands before its type"),
        ("A: float(N)", "'A' stands before its type"),
        ("float(N) B, A float(N)", "'A' stands before its type"),
        ("float A(N)", "the dimensions of 'A' follow its name"),
    ],
)
def test_a_parameter_in_the_order_of_another_language(parameters: str, said: str) -> None:
    (fault,) = faults(f"def f({parameters}) -> (O) {{ O(i) = A(i) }}")
    assert (fault.code, fault.message) == ("TC018", said)
    assert fault.label == "the type with its dimensions stands before the name: float(N) A"


@pytest.mark.parametrize(
    ("statement", "code", "said"),
    [
        (
            "O(i) = A(i) * eps",
            "TC104",
            "if 'eps' is a number, declare it as a parameter: float eps",
        ),
        ("O(i) = exp(A(i) + eps)", "TC104", "declare it as a parameter: float eps"),
        ("O(i) +=! A(i) * eps", "TC201", "if it is a number, declare it: float eps"),
    ],
)
def test_a_number_that_nobody_declared_may_be_declared(
    statement: str, code: str, said: str
) -> None:
    (fault,) = faults(f"def f(float(N) A) -> (O) {{ {statement} }}")
    assert fault.code == code
    assert "+=!" not in str(fault.notes[0].message)
    assert said in fault.notes[0].message
    made(f"def f(float(N) A, float eps) -> (O) {{ {statement} }}")


@pytest.mark.parametrize("right", ["A(i + k)", "A(k)", "A(i) * k where k in 0:3"])
def test_an_index_with_a_range_is_told_of_the_sum(right: str) -> None:
    (fault,) = faults(f"def f(float(N) A) -> (O) {{ O(i) = {right} }}")
    assert fault.notes[0].message == "write '+=!' to sum from zero, or '+=' to add to O"
