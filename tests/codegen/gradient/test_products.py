"""Second derivatives of products: right where factors are 0, so symmetric."""

from __future__ import annotations

import numpy as np
import pytest

from tests.codegen.gradient.differences import (
    assert_gradient,
    differentiated,
    drawn,
    hessian,
    hessian_by_differences,
)
from tests.tiers import sampled

SIZES = {"B": 2, "N": 3}
TEXTS = {
    "row": "def f(double(B,N) X) -> (O) { O(b) *=! X(b, n) }",
    "all": "def f(double(B,N) X) -> (s) { s *=! X(b, n) }",
    "row of products": "def f(double(B,N) X, double(N) w) -> (O) { O(b) *=! X(b, n) * w(n) }",
    "segments": """def f(double(N) X, int32(N) I) -> (double(3) O) { O(I(n)) *=! X(n) }""",
    "onto a base": """def f(double(B,N) X, double(B) c) -> (O) {
      O(b) = c(b) * c(b)  O(b) *= X(b, n) }""",
    "segments onto a base": """def f(double(N) X, int32(N) I, double(3) c) -> (double(3) O) {
      O(i) = c(i)  O(I(n)) *= X(n) }""",
    "added to": "def f(double(B,N) X, double(B) c) -> (O) { O(b) *=! X(b, n)  O(b) += c(b) }",
    "then squared": "def f(double(B,N) X) -> (O) { O(b) *=! X(b, n)  O(b) = O(b) * O(b) }",
    "begun again in part": """def f(double(B,N) X, double(B) c) -> (O) {
      O(b) = c(b) * c(b)  O(0) *=! X(b, n)  O(1) *= X(b, n) }""",
    "two of one tensor": """def f(double(N) X, double(B) c) -> (O) {
      O(0) *=! X(n) * c(0)  O(1) *=! X(n) * X(n) * c(1) }""",
    "windows that meet": """def f(double(N) X) -> (double(N) O) {
      O(i + j) *=! X(i) where i in 0:2, j in 0:2 }""",
    "triangle": "def f(double(N) X) -> (O) { O(i) *=! j <= i ? X(j) : 1.0 where i in 0:N }",
}
OFTEN = {"onto a base"}


@sampled("name", sorted(TEXTS, key=lambda n: n not in OFTEN), keep=1, wide=5)
def test_second_derivatives_bear_zeros(name: str, rng: np.random.Generator) -> None:
    d = differentiated(TEXTS[name])
    for zeros in (2,) if name in OFTEN else (1, 2, 3):
        args = drawn(d.checked, SIZES, rng)
        for a in args:
            if a.dtype == np.float64 and a.size:
                a.reshape(-1)[rng.permutation(a.size)[:zeros]] = 0
        found = hessian(d, args)
        message = f"{args}\n{d.gradient.text}"
        np.testing.assert_allclose(found, found.T, rtol=1e-9, atol=1e-9, err_msg=message)
        want = hessian_by_differences(d, args)
        np.testing.assert_allclose(found, want, rtol=1e-6, atol=1e-6, err_msg=message)


FACTORS = ("X(b, n)", "X(b, n) * w(n)", "X(b, n) * X(b, n)", "(X(b, n) + c(b))", "sin(X(b, n))")
BEGINS = (
    "O(b) {op}=! {x}",
    "O(b) = c(b) * c(b)  O(b) {op}= {x}",
    "O(I(b)) {op}=! {x}",
    "O(b) = c(b)  O(I(b)) {op}= {x}",
    "T(b, m) {op}=! {x} * w(m)  O(b) *=! T(b, m)",
)
GOES_ON = (
    "",
    "O(b) += c(b)",
    "O(b) *= {x}",
    "O(b) = O(b) * O(b)",
    "O(b) *= c(b)  O(0) *=! {x}",
    "O(b) max= c(b)",
    "U(b) = O(b)  O(b) = U(b) * U(1 - b)  O(b) += c(b)",
)


def random_reductions(rng: np.random.Generator) -> tuple[str, bool]:
    """Return a small program of reductions into one tensor, and whether it is smooth."""
    op = rng.choice(["*", "*", "*", "+", "max", "min"])
    parts = [str(rng.choice(BEGINS)), *map(str, rng.choice(GOES_ON, 2))]
    body = "  ".join(p.format(op=op, x=rng.choice(FACTORS)) for p in parts)
    head = "def f(double(2,N) X, double(N) w, double(2) c, int32(2) I) -> (double(2) O)"
    return f"{head} {{ {body} where b in 0:2 }}", op in "*+" and "max=" not in body


@pytest.mark.wide
@sampled("seed", range(20), keep=8, wide=0)
def test_second_derivatives_of_random_reductions_are_symmetric(seed: int) -> None:
    rng = np.random.default_rng(seed)
    text, is_smooth = random_reductions(rng)
    d = differentiated(text)
    args = drawn(d.checked, {"N": 3}, rng)
    args[3][:] = rng.integers(0, 2, 2)
    for a in args[:3]:
        a[rng.random(a.shape) < 0.3] = 0
    found = hessian(d, args)
    message = f"{text}\n{args}\n{d.gradient.text}"
    np.testing.assert_allclose(found, found.T, rtol=1e-9, atol=1e-9, err_msg=message)
    if is_smooth:
        want = hessian_by_differences(d, args)
        np.testing.assert_allclose(found, want, rtol=1e-5, atol=1e-5, err_msg=message)


def test_a_product_with_one_zero_has_the_second_derivatives_of_mathematics() -> None:
    d = differentiated("def f(double(N) X) -> (s) { s *=! X(n) }")
    x = np.array([0.0, 2.0, 3.0])
    assert hessian(d, [x]).tolist() == [[0, 3, 2], [3, 0, 0], [2, 0, 0]]
    x = np.array([0.0, 5.0, 0.0])
    assert hessian(d, [x]).tolist() == [[0, 0, 5], [0, 0, 0], [5, 0, 0]]


def test_products_of_halves_keep_their_factors_in_float32() -> None:
    d = differentiated("def f(float16(N) X) -> (s) { s *=! X(n) }")
    x = np.array([0.25, 2.0**-14, 2.0**-12], np.float16)  # the product is 0 as a half
    (found,) = d.pull([x], [np.float16(1)])
    np.testing.assert_allclose(np.asarray(found, np.float64), [2.0**-26, 2.0**-14, 2.0**-16])


def test_halves_that_are_written_again_have_gradients(rng: np.random.Generator) -> None:
    head = "def f(float16(N,M) X, float16(N) b) -> (O)"
    for body in (
        "O(n) = b(n)  O(n) *= X(n, m)  O(n) += b(n)",
        "O(n) max=! X(n, m)  O(0) +=! X(n, m) * X(n, m)  O(n) *= b(n)",
    ):
        d = differentiated(f"{head} {{ {body} where n in 0:N }}")
        assert_gradient(d, drawn(d.checked, {"N": 2, "M": 3}, rng), rng)
