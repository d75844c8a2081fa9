"""The derivative of every builtin function agrees with differences of it, and so at its corners."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tcdsl.codegen.gradient.rules import WITHOUT
from tcdsl.codegen.reference.evaluator import evaluate
from tcdsl.grammar.types.builtins import BUILTINS
from tests.codegen.gradient.differences import Array, Differentiated, differentiated
from tests.tiers import sampled

STEP = 1e-4  # of a formula of the fourth order: what it leaves out is 1e-16, rounding is 1e-12
POINTS = 16
DOMAINS: dict[str, tuple[float, float]] = {
    "acos": (-0.9, 0.9), "acosh": (1.1, 3), "asin": (-0.9, 0.9), "atanh": (-0.9, 0.9),
    "erfcinv": (0.1, 1.9), "erfinv": (-0.9, 0.9), "log": (0.1, 3), "log10": (0.1, 3),
    "log1p": (-0.9, 3), "log2": (0.1, 3), "normcdfinv": (0.1, 0.9), "rsqrt": (0.1, 3),
    "sqrt": (0.1, 3), "y0": (0.3, 9), "y1": (0.3, 9), "j0": (-9, 9), "j1": (-9, 9),
    "pow": (0.2, 3), "tan": (-1.4, 1.4), "fmod": (0.6, 2), "remainder": (0.6, 2),
    "digamma": (0.3, 3), "lgamma": (0.3, 3), "tgamma": (0.3, 3), "trigamma": (0.3, 3),
}  # fmt: skip
FLOAT = [
    n for n, f in BUILTINS.items()
    if n not in WITHOUT and n not in ("isnan", "isinf", "isfinite", "rand", "pad")
]  # fmt: skip


def function(name: str) -> Differentiated:
    letters = "ABCD"[: BUILTINS[name].arity if name in BUILTINS else 2]
    params = ", ".join(f"double(N) {x}" for x in letters)
    args = ", ".join(f"{x}(i)" for x in letters)
    return differentiated(f"def f({params}) -> (O) {{ O(i) = {name}({args}) }}")


def slopes(d: Differentiated, *args: Any) -> tuple[Array, ...]:
    arrays = [np.asarray(a, np.float64) for a in args]
    return d.pull(arrays, [np.ones(arrays[0].shape)])


@sampled("name", FLOAT, keep=30)
def test_derivative_of(name: str, rng: np.random.Generator) -> None:
    d = function(name)
    low, high = DOMAINS.get(name, (-2, 2))
    args = [rng.uniform(low, high, POINTS) for _ in range(BUILTINS[name].arity)]
    if name in ("clamp", "hardtanh"):
        args[1:] = [np.full(POINTS, -0.5), np.full(POINTS, 0.75)]
    found = slopes(d, *args)
    for k, slope in enumerate(found):

        def at(step: float, k: int = k) -> Array:
            moved = [a + step * STEP if i == k else a for i, a in enumerate(args)]
            return evaluate(d.checked, moved, float64=True)[0]

        want = (8 * (at(1) - at(-1)) - (at(2) - at(-2))) / (12 * STEP)
        np.testing.assert_allclose(slope, want, rtol=1e-7, atol=1e-7, err_msg=d.gradient.text)


def test_ties_go_as_they_are_written_down() -> None:
    half, first, none = [0.5], [1.0], [0.0]
    for name, (a, b) in {"max": (half, half), "min": (half, half), "fmax": (first, none),
                         "fmin": (first, none)}.items():  # fmt: skip
        got = slopes(function(name), [2.0], [2.0])
        assert [list(x) for x in got] == [a, b], name
    assert slopes(function("relu"), [0.0, -1.0, 1.0])[0].tolist() == [0, 0, 1]
    assert slopes(function("abs"), [0.0, -1.0, 1.0])[0].tolist() == [0, -1, 1]


def test_of_equal_largest_ones_the_first_gets_all() -> None:
    x = np.array([[1.0, 3.0, 3.0], [2.0, 2.0, 2.0]])
    d = differentiated("def f(double(B,N) X) -> (O) { O(b) max=! X(b, n) }")
    assert d.pull([x], [np.ones(2)])[0].tolist() == [[0, 1, 0], [1, 0, 0]]
    d = differentiated("def f(double(N) X, int32(N) I) -> (double(2) O) { O(I(n)) min=! X(n) }")
    index = np.array([0, 1, 0, 1], np.int32)
    got = d.pull([np.array([5.0, 4.0, 5.0, 4.0]), index], [np.array([2.0, 3.0])])[0]
    assert got.tolist() == [2, 3, 0, 0]
    d = differentiated("def f(double(N) X, double(N) Y) -> (O) { O(n) = X(n) O(n) max= Y(n) }")
    by_x, by_y = d.pull([np.array([1.0, 2.0]), np.array([1.0, 3.0])], [np.ones(2)])
    assert (by_x.tolist(), by_y.tolist()) == ([1, 0], [0, 1])


def test_of_a_maximum_that_is_nan_the_first_nan_gets_all() -> None:
    x = np.array([[1.0, np.nan, 3.0, np.nan], [2.0, 5.0, 5.0, 1.0]])
    want = [[0, 1, 0, 0], [0, 1, 0, 0]]
    for value in ("X(b, n)", "2 * X(b, n) / 2"):  # found by comparing, and by an arg reduction
        d = differentiated(f"def f(double(B,N) X) -> (O) {{ O(b) max=! {value} }}")
        assert d.pull([x], [np.ones(2)])[0].tolist() == want
    d = differentiated("def f(double(N) X, int32(N) I) -> (double(2) O) { O(I(n)) max=! X(n) }")
    got = d.pull([x[0], np.array([0, 1, 0, 1], np.int32)], [np.array([2.0, 3.0])])[0]
    assert got.tolist() == [0, 3, 2, 0]


@pytest.mark.parametrize(
    ("row", "want"),
    [([2, 3, 4], [12, 8, 6]), ([0, 3, 4], [12, 0, 0]), ([0, 3, 0], [0, 0, 0]), ([5], [1])],
)
def test_products_bear_zeros(row: list[float], want: list[float]) -> None:
    d = differentiated("def f(double(B,N) X) -> (O) { O(b) *=! X(b, n) }")
    assert d.pull([np.array([row], np.float64)], [np.ones(1)])[0].tolist() == [want]


def test_powers_have_finite_slopes_at_zero() -> None:
    by_x, by_y = slopes(function("pow"), [0.0, 0.0, 2.0], [2.0, 0.0, 0.0])
    assert by_x.tolist() == [0, 0, 0]
    np.testing.assert_allclose(by_y, [0, 0, np.log(2)])


def test_norms_and_angles_bear_the_smallest_the_largest_and_infinity() -> None:
    inf, small, large = np.inf, 1e-200, 1e200
    x, y = [small, large, inf, 1.0, -inf], [small, large, 1.0, inf, 2.0]
    half = np.sqrt(0.5)
    by_x, by_y = slopes(function("hypot"), x, y)
    np.testing.assert_allclose(by_x, [half, half, 1, 0, -1], rtol=1e-15)
    np.testing.assert_allclose(by_y, [half, half, 0, 1, 0], rtol=1e-15)
    by_y, by_x = slopes(function("atan2"), y, x)
    np.testing.assert_allclose(by_y, [5e199, 5e-201, 0, 0, 0], rtol=1e-15)
    np.testing.assert_allclose(by_x, [-5e199, -5e-201, 0, 0, 0], rtol=1e-15)
    assert slopes(function("rhypot"), x[2:], y[2:])[0].tolist() == [0, 0, 0]


@pytest.mark.parametrize(
    ("value", "turns"),
    [("fmod(A(i), B(i))", [9, -3, 0]), ("remainder(A(i), B(i))", [10, -4, 0]),
     ("A(i) % B(i)", [9, -4, 0])],
)  # fmt: skip
def test_a_remainder_loses_as_many_turns_as_it_took(value: str, turns: list[float]) -> None:
    d = differentiated(f"def f(double(N) A, double(N) B) -> (O) {{ O(i) = {value} }}")
    by_a, by_b = slopes(d, [1.0, -7.3, 5.0], [0.1, 2.0, np.inf])  # 1 / 0.1 rounds to 10
    assert by_a.tolist() == [1, 1, 1]
    assert (-by_b).tolist() == turns


def test_names_that_hide_builtins_are_no_matter() -> None:
    text = "def f(double(N) A, double(N) isinf) -> (O) { O(i) = hypot(A(i), isinf(i)) }"
    by_a, by_b = slopes(differentiated(text), [np.inf, 3.0, np.nan], [1.0, 4.0, 1.0])
    np.testing.assert_allclose(by_a, [1, 0.6, np.nan])
    np.testing.assert_allclose(by_b, [0, 0.8, np.nan])


def test_a_power_of_a_number_has_a_plain_slope() -> None:
    d = differentiated("def f(double(N) A) -> (O) { O(i) = pow(A(i), 3.0) }")
    assert "3.0 * pow(A(i), 2.0)" in d.gradient.text
    assert slopes(d, [0.0, -2.0])[0].tolist() == [0, 12]


def test_nan_passes_by_fmax_and_fmin() -> None:
    by_a, by_b = slopes(function("fmax"), [np.nan, 1.0], [1.0, np.nan])
    assert (by_a.tolist(), by_b.tolist()) == ([0, 1], [1, 0])
