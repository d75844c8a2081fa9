"""Conditions that are the bounds of a read stand at the read, as `pad`; others stay."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tcdsl import define
from tcdsl.codegen.gradient.jvp import tangents
from tcdsl.codegen.gradient.vjp import gradient
from tcdsl.codegen.reference.evaluator import evaluate
from tcdsl.grammar.check.definition import check
from tcdsl.grammar.text.parser import parse
from tests.codegen.gradient.differences import assert_gradient, differentiated, drawn
from tests.tiers import sampled


def text_of(statement: str) -> str:
    """Return the gradient of a definition of one statement, with single blanks."""
    text = f"def f(float(N) A, float(N) B, float(M) K) -> (O) {{ {statement} }}"
    return " ".join(differentiated(text).gradient.text.split())


@pytest.mark.parametrize(
    ("statement", "share"),
    [
        ("O(h) +=! A(h + k) * K(k)", "d_A(x) +=! pad(d_O(x - k), 0) * K(k)"),
        ("O(h) +=! A(h + 2 * k) * K(k)", "d_A(x) +=! pad(d_O(x - 2 * k), 0) * K(k)"),
        (
            "O(h) +=! pad(A(h + k - 1), 0) * K(k) where h in 0:N",
            "d_A(x) +=! pad(d_O(x - k + 1), 0) * K(k)",
        ),
        ("O(h) = A(h - 1)", "d_A(x) +=! d_O(x)"),
        ("O(h) = pad(A(h + 1), 5) where h in 0:N", "d_A(x) +=! pad(d_O(x - 1), 0)"),
        ("O(h) +=! A(h + k) / 4 where k in 0:4", "d_A(x) +=! pad(d_O(x - k), 0) / 4.0 where"),
        (  # both factors have the same bounds
            "O(h) +=! A(h + 1) * B(h) * K(k)",
            "d_A(x) +=! pad(d_O(x - 1), 0) * K(k) * pad(B(x - 1), 0)",
        ),
        (  # the index has another name where the builtin is needed
            "O(h) +=! A(h + pad) * K(pad)",
            "d_A(x) +=! pad(d_O(x - pad_), 0) * K(pad_)",
        ),
    ],
)
def test_bounds_of_a_read_are_pad(statement: str, share: str) -> None:
    assert share in text_of(statement)


@pytest.mark.parametrize(
    "statement",
    [
        "O(h) +=! A(h + 1) / B(h) * K(k)",  # 0 / 0 outside
        "O(h) +=! A(h + 1) * log(B(h)) * K(k)",
        "O(h) = h > 2 ? A(h - 1) : 0.0 where h in 0:N",
    ],
)
def test_other_conditions_stay(statement: str) -> None:
    text = text_of(statement)
    assert "pad(" not in text
    assert " ? " in text


def test_conditions_that_are_decided_are_no_part_of_others() -> None:
    text = (
        "def f<A>(float(N) x, int64 e) -> (y) { u(n) = 2 * x(n) "
        "y(n) = A != 2 ? u(n) : A == 1 ? (e == 1 ? 0.0 : 3 * u(n)) : 4 * u(n) }"
    )
    for a, slope in ((0, 2), (1, 2), (2, 8)):
        _, pull = define(text).vjp(np.ones(3, np.float32), 2, A=a)
        np.testing.assert_array_equal(pull(np.ones(3, np.float32)), slope)


def test_what_a_bounded_read_reads_stays_a_tensor() -> None:
    text = """def f(float(N) A, float(N) B) -> (float(N) O) {
      t(h) = A(h) * A(h + 1)  O(h) = pad(t(h), 0) * B(h) where h in 0:N }"""
    assert "pad(t(h), 0)" in differentiated(text).gradient.text


@pytest.mark.parametrize(
    "body",
    [
        "O(h) +=! h > 0 ? A(h - 1) * K(k) : 0.0 where h in 0:N",
        "t(h, k) = h > 0 ? A(h - 1) * K(k) : 0.0 where h in 0:N  O(h) +=! tanh(t(h, k))",
    ],
)
def test_no_derivative_changes_what_a_weight_without_a_number_gives(body: str) -> None:
    made = check(parse(f"def f(float(N) A, float(M) K) -> (float(N) O) {{ {body} }}"))
    a, k = np.arange(1.0, 5.0), np.array([np.inf, 1.0])
    want, *_ = evaluate(made, (a, k), float64=True)
    assert want[0] == 0
    forward = check(parse(gradient(made).forward))
    np.testing.assert_array_equal(evaluate(forward, (a, k), float64=True)[0], want)
    both = check(parse(tangents(made).text))
    np.testing.assert_array_equal(evaluate(both, (a, k, a, k), float64=True)[0], want)


@pytest.mark.parametrize(
    ("value", "read"),
    [
        ("A(i) * pad(B(3), 0.5)", lambda n, k: 3 if k > 3 else None),
        ("A(i) * pad(B(-1), 0.5)", lambda n, k: None),
        ("A(i) * pad(B(N - 3), 0.5)", lambda n, k: n - 3 if 3 <= n < k + 3 else None),
        ("A(i) * (K > 0 ? B(0) : 0.5)", lambda n, k: 0 if k else None),
    ],
)
def test_an_element_that_may_not_be_there_gets_its_share_where_it_is(
    value: str, read: Callable[[int, int], int | None]
) -> None:
    """The slope of sum(A) * B(at); where B has no such element nothing is written."""
    d = differentiated(f"def f(float(N) A, float(K) B) -> (O) {{ O(i) = {value} }}")
    for n, k in [(2, 0), (2, 1), (4, 2), (5, 4), (4, 7), (1, 0)]:
        a, b = np.arange(1.0, n + 1), np.full(k, 2.0)
        d_a, d_b = d.pull([a, b], [np.ones(n)])
        at, wanted = read(n, k), np.zeros(k)
        if at is not None:
            wanted[at] = a.sum()
        np.testing.assert_array_equal(d_b, wanted)
        np.testing.assert_array_equal(d_a, np.full(n, 0.5 if at is None else 2.0))


def test_a_place_that_only_a_guard_makes_readable_is_read_where_it_is() -> None:
    """What a scatter has as its subscript is read at all points, those without a share too."""
    d = differentiated(
        """def f(float(N) A, int32(N) I, float(M) E) -> (float(M) O) {
          O(i) = i < N && A(i) > 0 ? A(i) * E(I(i)) : 0.0 }"""
    )
    args = [np.array([3.0, -1.0]), np.array([4, 0], np.int32), np.arange(5.0)]
    d_a, d_e = d.pull(args, [np.ones(5)])
    np.testing.assert_array_equal(d_a, [4, 0])
    np.testing.assert_array_equal(d_e, [0, 0, 0, 0, 3])


def test_nothing_is_put_into_a_tensor_without_elements() -> None:
    """A guard that never holds lets data be subscripts of what has no elements, compiled too."""
    f = define("""def f(float(E, D) A, int32(N) I, float(N) B) -> (O) {
      O(i, d) = B(i) > 0 ? A(I(i), d) : B(i) }""")
    places = np.array([0, 2, -3, 7], np.int32)
    for e, wins in ((0, []), (3, [0, 1])):
        b = np.full(4, -1, np.float32)
        b[wins] = 1
        _, pull = f.vjp(np.ones((e, 2), np.float32), places, b)
        wanted = np.zeros((e, 2))
        wanted[places[wins]] = 1
        gradients = pull(np.ones((4, 2), np.float32))
        np.testing.assert_array_equal(gradients.d_A, wanted)
        np.testing.assert_array_equal(gradients.d_B, np.where(b > 0, 0, 2))


def test_a_share_under_a_condition_that_never_holds_is_no_line() -> None:
    text = """def f(float(N) A, int32(N) I) -> (O) {
      T(i) = A(i) * A(i)  O(i) = A(i) + (i >= 0 ? A(i) : A(I(i)) * T(I(i))) }"""
    lines = differentiated(text).gradient.text.splitlines()
    assert [x.strip() for x in lines[1:-1]] == ["d_A(i) +=! 2.0 * d_O(i)"]


@sampled("i, j", ["iy", "yx", "xy", "ij"], keep=2)
def test_gradient_under_a_guard_does_not_depend_on_names_of_indices(
    i: str, j: str, rng: np.random.Generator
) -> None:
    text = f"""def f(float(P, 3) T, float(N) q) -> (float(N, 4, N) A) {{
      A({i}, {j}, {i} + 1) +=! pad(T({i}, {j}), 0) * q(0) where {i} in 0:N - 1, {j} in 0:4
    }}"""
    for p in (2, 3, 6):
        d = differentiated(text)
        assert_gradient(d, drawn(d.checked, {"P": p, "N": 5}, rng), rng)
