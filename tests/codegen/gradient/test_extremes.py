"""Extremes that are added to later: the share goes by what the extreme was, not by the sum."""

from __future__ import annotations

import numpy as np
import pytest

from tcdsl import define
from tests.codegen.gradient.differences import assert_gradient, differentiated, drawn

TEXTS = {
    "over an index": "def f(float(N,L) I, float(N) b) -> (O) { O(n) max=! I(n, l) O(n) += b(n) }",
    "least": "def f(float(N,L) I, float(N) b) -> (O) { O(n) min=! I(n, l) O(n) += b(n) }",
    "through data": """def f(float(L) X, int32(L) I, float(N) b) -> (float(N) O) {
      O(I(l)) max=! X(l)  O(n) += b(n) }""",
    "scaled": "def f(float(N,L) I, float(N) b) -> (O) { O(n) max=! I(n, l) O(n) *= b(n) }",
    "written over": """def f(float(N,L) I, float(N) b) -> (O) {
      O(n) max=! I(n, l)  O(n) = O(n) * b(n) }""",
    "of a sum": "def f(float(N,L) I, float(N) b) -> (O) { O(n) +=! I(n, l)  O(n) max= b(n) }",
    "of a product": """def f(float(N,L) I, float(N) b) -> (O) {
      O(n) *=! I(n, l)  O(n) max= b(n)  O(n) += I(n, l) }""",
    "onto a parameter": """def f(float(N,L) I, float(N) b) -> (O) {
      O(n) = b(n)  O(n) max= I(n, l)  O(n) += b(n) }""",
    "in turn": """def f(float(N,L) I, float(N) b) -> (O) {
      O(n) max=! I(n, l)  O(n) min= b(n)  O(n) += b(n)  O(n) max= I(n, l) * b(n)  O(n) *= b(n) }""",
    "twice": """def f(float(N,L) I, float(N) b) -> (O) {
      O(n) max=! I(n, l)  O(n) += b(n)  O(n) max=! I(n, l) * b(n)  O(n) *= b(n) }""",
    "of a temporary": """def f(float(N,L) I, float(N) b) -> (O) {
      T(n) max=! I(n, l)  T(n) += b(n)  O(n, l) = T(n) * I(n, l) }""",
    "begun again in part": """def f(float(N,L) I, float(N) b) -> (O) {
      O(n) = b(n)  O(0) max=! I(n, l)  O(1) min=! I(n, l) * b(n)  O(n) += b(n) }""",
    "begun again, points meet": """def f(float(N,L) I, float(N) b) -> (O) {
      O(n) = b(n)  O(i + j) max=! I(i, j) where i in 0:2, j in 0:2 }""",
    "begun again, through data": """def f(float(L) X, int32(L) I, float(N) b) -> (float(N) O) {
      O(n) = b(n)  O(I(l)) +=! X(l)  O(n) += b(n) * b(n) }""",
    "of products, through data": """def f(float(L) X, int32(L) I, float(N) b) -> (float(N) O) {
      O(n) = b(n)  O(I(l)) max= X(l) * X(l) + X(l)  O(n) *= b(n) }""",
}
WIDE = {"least", "scaled", "written over", "of a sum", "of a temporary", "onto a parameter"}


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=pytest.mark.wide) if n in WIDE else n for n in TEXTS]
)
def test_an_extreme_among_other_statements(name: str, rng: np.random.Generator) -> None:
    d = differentiated(TEXTS[name])
    args = drawn(d.checked, {"N": 3, "L": 5}, rng)
    for at, t in enumerate(d.checked.params):
        if t.name == "I" and not t.dtype.is_float:
            args[at][:3] = [2, 0, 1]  # no row is empty: the maximum of nothing has no differences
    assert_gradient(d, args, rng)


def test_a_base_that_is_nan_or_ties_gets_all() -> None:
    d = differentiated("def f(float(N) b, float(N,L) I) -> (O) { O(n) = b(n)  O(n) max= I(n, l) }")
    b = np.array([np.nan, 2.0, 1.0, 1.0])
    x = np.array([[1.0, np.nan], [2.0, 2.0], [np.nan, 3.0], [2.0, 2.0]])
    by_b, by_x = d.pull([b, x], [np.ones(4)])
    assert by_b.tolist() == [1, 1, 0, 0]
    assert by_x.tolist() == [[0, 0], [0, 0], [1, 0], [1, 0]]


def test_places_of_many_points_are_int64_in_the_text() -> None:
    text = "def f(float(N,M) X, int32(N,M) I) -> (float(9) O) { O(I(n, m)) max=! X(n, m) }"
    assert "int64(n) * M + m" in differentiated(text).gradient.text
    window = "def f(float(N,L) X) -> (O) { O(n) max=! X(n + i, j) where i in 0:3, j in 0:4 }"
    assert "int64" not in differentiated(window).gradient.text


ROUNDED = "def f(float(N,M) X, float(N,M) W, float(M) c) -> (Y) {{ {}  Y(m) max=! {} }}"


@pytest.mark.parametrize(
    ("made", "value", "is_searched"),
    [  # what is computed again may be fused otherwise than in the forward pass
        ("t(n, m) = X(n, m) * W(n, m)", "t(n, m)", False),
        ("t(n, m) = fmax(X(n, m) + c(m), 0.0)", "t(n, m)", False),
        ("s(m) +=! X(n, m) * W(n, m)", "X(n, m) * s(m)", False),
        ("t(n, m) = X(n, m) * W(n, m)", "t(n, m) + c(m)", True),
        ("t(n, m) = c(m) * c(m) - X(n, m) * W(n, m)", "t(n, m)", True),
        ("t(n, m) = exp(X(n, m))  u(n, m) = -t(n, m)", "u(n, m)", True),
    ],
)
def test_bits_are_compared_where_they_are_the_same(
    made: str, value: str, is_searched: bool
) -> None:
    d = differentiated(ROUNDED.format(made, value))
    assert ("argmax=!" in d.gradient.forward) == is_searched, d.gradient.forward


def test_a_base_whose_bits_are_compared_is_kept() -> None:
    text = (
        "def f(float(N) b, float(N,L) X) -> (Y) {{ t(n) = {}  t(n) max= X(n, l)  Y(n) = t(n) * 2 }}"
    )
    assert "t_1" not in differentiated(text.format("b(n) * b(n)")).gradient.extra
    assert "t_1" in differentiated(text.format("b(n) * b(n) + exp(b(n))")).gradient.extra


@pytest.mark.parametrize(
    ("head", "window", "dtype"),
    [
        ("float(N,L) X", "where i in 0:3, j in 0:4", "int32"),
        ("float16(N,L) X", "where i in 0:3, j in 0:4", "int32"),
        ("double(N,L) X", "where i in 0:3, j in 0:4", "int64"),
        ("float(N,L) X", "where i in 0:65536, j in 0:65536", "int64"),
    ],
)
def test_the_training_forward_keeps_the_places_of_extremes(
    head: str, window: str, dtype: str
) -> None:
    d = differentiated(f"def f({head}) -> (O) {{ O(n) max=! X(n + i, j) {window} }}")
    assert "argmax=!" in d.gradient.forward
    assert "argmax=!" not in d.gradient.text
    assert d.gradient.extra == ("O_place",)
    assert f"{dtype}(O_place_n0) O_place" in d.gradient.text


def test_places_of_turns_are_searched_where_the_loop_goes_back() -> None:
    text = """def f(float(T,N,L) X, float(N) b) -> (float(N) O) {
      O(n) = b(n)
      for t in 0:T { M(n) max=! X(t, n, l) * O(n)  O(n) = O(n) + M(n) }
    }"""
    d = differentiated(text)
    assert not any("place" in n for n in d.gradient.extra)


@pytest.mark.wide
@pytest.mark.cc
def test_every_extreme_of_a_fused_value_has_a_place(rng: np.random.Generator) -> None:
    text = ROUNDED.format("t(n, m) = c(m) * c(m) - X(n, m) * W(n, m)", "t(n, m)")
    x, w, c = (rng.normal(size=s).astype(np.float32) for s in ((64, 64), (64, 64), (64,)))
    y, pull = define(text).vjp(x, w, c)
    by_x = np.asarray(pull(np.ones_like(y))[0])
    assert ((by_x != 0).sum(axis=0) == 1).all()
