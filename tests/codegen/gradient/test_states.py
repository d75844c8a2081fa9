"""Gradients of loops that overwrite a state in part: in place, and what they keep grows with T."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

import tcdsl as tc
from tcdsl.codegen.gradient.vjp import gradient
from tcdsl.codegen.gradient.whole import whole
from tcdsl.grammar.check.definition import check
from tcdsl.grammar.text.parser import parse
from tcdsl.kernel import Kernel
from tests.codegen.gradient.differences import (
    assert_gradient,
    differentiated_def,
    drawn,
    seeds_of,
)
from tests.codegen.harness import Case, Problem, differential
from tests.cusim.harness import differential as differential_on_cusim
from tests.tiers import sampled

SIZES = {"T": 4, "N": 3, "M": 3}
TEXTS = {
    "a row written twice in a turn": """def f(float(T,N) X, float(N) H0, float(N,N) U) -> (H) {
      H(0, n) = H0(n)
      for t in 0:T {
        H(t + 1, n) +=! H(t, m) * U(m, n)
        H(t + 1, n) = tanh(H(t + 1, n) + X(t, n))
      } }""",
    "earlier rows read": """def f(float(T,N) X) -> (h) {
      h(0, n) = X(0, n)
      for t in 1:T { c(n) = h(0, n) * h(t - 1, n)  h(t, n) = sin(c(n)) } }""",
    "borders that share a corner": """def f(float(M,N) S, float g) -> (float(M+1,N+1) H) {
      H(i, 0) = 0.0 where i in 0:M+1
      H(0, j) = 0.0 where j in 0:N+1
      for i in 0:M { for j in 0:N {
        H(i + 1, j + 1) = max(max(H(i, j) + S(i, j), 0.0), max(H(i, j + 1) - g, H(i + 1, j) - g))
      } } }""",
    "edit distance": """def f(float(M,N) S, float g) -> (d) {
      H(i, 0) = i * g where i in 0:M+1
      H(0, j) = j * g where j in 0:N+1
      for i in 0:M { for j in 0:N {
        H(i + 1, j + 1) = min(H(i, j) + S(i, j), min(H(i, j + 1) + g, H(i + 1, j) + g))
      } }
      d = H(M, N) }""",
    "viterbi": """def f(float(T,N) E, float(N,N) A, float(N) I) -> (v) {
      v(0, s) = I(s)
      for t in 0:T { v(t + 1, s) max=! v(t, r) + A(r, s)  v(t + 1, s) += E(t, s) } }""",
    "changed after the loop": """def f(float(T,N) X) -> (h) {
      h(0, n) = X(0, n)
      for t in 1:T { h(t, n) = sin(h(t - 1, n) * X(t, n)) }
      h(u, n) = h(u, n) * h(u, n) where u in 0:T
      h(0, n) *= h(1, n) }""",
    "rows that turns come back to": """def f(float(T,N) X) -> (h) {
      A(i, n) = X(i, n) where i in 0:3
      for t in 0:T { c(n) = A((t + 1) % 3, n)  A(t % 3, n) = sin(A(t % 3, n) * c(n)) + X(t, n) }
      h(n) = A(0, n) * A(1, n) }""",
    "rows that data tell": """def f(float(T,N) X, int32(T) I, float(4,N) A0) -> (float(4,N) A) {
      A(i, n) = A0(i, n)
      for t in 0:T { A(I(t), n) = sin(A(I(t), n) * X(t, n)) } }""",
    "sums through data": """def f(float(T,N) X, int32(T,M) I, float(4,N) A0) -> (float(4,N) A) {
      A(i, n) = A0(i, n)
      for t in 0:T { s(n) +=! A(i, n) * A(i, n)  A(I(t, p), n) += X(t, n) * s(n) } }""",
    "every reduction": """def f(float(T,N) X) -> (h) {
      h(0, n) = 1.0 where n in 0:N
      for t in 0:T {
        h(t + 1, n) max= X(t, n) * h(t, n)
        h(t + 1, n) *= X(t, n) + 2
        h(t + 1, n) min= X(t, n) * 3 + 1
      } }""",
    "elements that turns share": """def f(float(T,N) X, float(M) w) -> (h) {
      for t in 0:T { h(n + k) += X(t, n) * w(k)  h(n) = sin(h(n)) where n in 0:N } }""",
    "a row that is mended a turn later": """def f(float(T,N) X) -> (h) {
      h(0, n) = X(0, n)
      h(1, n) = X(1, n)
      for t in 2:T {
        h(t, n) = h(t - 1, n) * h(t - 2, n) + X(t, n)
        h(t - 1, n) = sin(h(t - 1, n))
      } }""",
    "single elements": """def f(float(T,N) X) -> (h) {
      h(n) = X(0, n)
      for t in 0:T {
        s = h(0)
        h(1) = s * h(2) + X(t, 1)
        h(2) = sin(h(1) * s)
        h(0) = h(2) * h(0)
      } }""",
    "a sum that a later loop goes on with": """def f(float(T,N) X) -> (h, a) {
      a(n) = X(0, n)
      for t in 0:T { h(t, n) = X(t, n) * a(n) }
      for t in 0:T { for s in 0:t { a(n) += tanh(X(1, n) * h(0, n)) } } }""",
    "integers that are subscripts": """def f(float(T,N) X, int32(N) J) -> (y) {
      k(n) = J(n) where n in 0:N
      for t in 0:T { y(t, n) = X(t, k(n)) * X(t, n)  k(0) = (k(0) + 1) % 3  k(1) = k(0) } }""",
    "inner loops of as many turns as the outer one tells": """def f(float(T,N) X) -> (h) {
      h(n) = X(0, n)
      for t in 0:T { for s in t / 2 : t { h(n) = tanh(h(n) + X(s, n)) } } }""",
    "inner loops of as many turns as a scalar tells": """def f(float(T,N) X, int32 K) -> (h) {
      h(n) = X(0, n)
      for t in 0:T { for s in 0:K { h(n) = tanh(h(n) + X(t, n)) } } }""",
    "shifted pads": """def f(float(T,N) x, float(N) w) -> (y) {
      y(0, n) = x(0, n)
      for t in 1:T {
        y(t, n) = y(t - 1, n) * pad(x(t - 2, n - 1), 0.5) + pad(y(t - 1, n + 1), 0) * w(n)
      } }""",
    "shifted guards": """def f(float(T) x) -> (y) {
      y(0) = x(0)
      for t in 1:T { y(t) = y(t - 1) * x(t) + pad(y(t - 2), 1.0) * (t > 1 ? x(t - 2) : 0.5) } }""",
}
SQUARE = "inner loops of as many turns as the outer one tells"
TWICE, EARLIER, BORDERS = [*TEXTS][:3]
FAST = (TWICE, "viterbi", "shifted guards", "rows that turns come back to")


def _drawn(text: str, rng: np.random.Generator, sizes: Mapping[str, int]) -> list[np.ndarray]:
    checked = check(parse(text))
    return [
        np.asarray(2, np.int32) if t.name == "K" else a
        for t, a in zip(checked.params, drawn(checked, sizes, rng), strict=True)
    ]


def _tiered(*but: str) -> list[object]:
    names = [n for n in TEXTS if n not in but]
    return [n if n in FAST else pytest.param(n, marks=pytest.mark.wide) for n in names]


@pytest.mark.parametrize("name", _tiered())
def test_a_state_that_is_overwritten_in_part(name: str, rng: np.random.Generator) -> None:
    d = differentiated_def(check(parse(TEXTS[name])))
    assert_gradient(d, _drawn(TEXTS[name], rng, SIZES), rng)


@sampled("name", TEXTS, keep=0, wide=4)
def test_its_second_derivative(name: str, rng: np.random.Generator) -> None:
    d = differentiated_def(check(parse(TEXTS[name])))
    args = _drawn(TEXTS[name], rng, SIZES)
    args += seeds_of(d.checked, args, rng)
    both = differentiated_def(check(whole(d.gradient), d.gradient.name))
    assert_gradient(both, args, rng, tolerance=1e-4)


@pytest.mark.wide
@sampled("name", TEXTS, keep=4, wide=0)
@sampled("turns", [2, 3], keep=1, wide=0)
def test_it_is_the_same_in_segments(name: str, turns: int, rng: np.random.Generator) -> None:
    d = differentiated_def(check(parse(TEXTS[name])), turns)
    assert_gradient(d, _drawn(TEXTS[name], rng, {**SIZES, "T": 7, "N": 8}), rng)


@pytest.mark.parametrize("name", _tiered(SQUARE, "a sum that a later loop goes on with"))
def test_what_is_kept_grows_with_the_turns_and_no_faster(name: str) -> None:
    made = gradient(check(parse(TEXTS[name])))

    def kept(turns: int) -> int:
        return made.memory.evaluate({"T": turns, "N": 8, "M": 8, "K": 8})

    assert kept(2000) - kept(1000) <= 1.01 * (kept(1000) - kept(0))


@sampled("name", [TWICE, EARLIER, BORDERS], keep=1)
def test_what_nothing_reads_again_is_not_kept(name: str) -> None:
    assert gradient(check(parse(TEXTS[name]))).extra == ()


@pytest.mark.wide
def test_of_a_state_the_turns_that_are_read_are_kept() -> None:
    made = gradient(check(parse(TEXTS["viterbi"])))
    assert [(g.name, str(g.shape[0])) for g in made.given[:2]] == [("v", "T + 1"), ("v_old_3", "T")]


@pytest.mark.cc
def test_kernels_of_states_in_place(rng: np.random.Generator) -> None:
    differential([Case(p, exact=True) for p in _backward(rng)], terms=300)


@pytest.mark.deep
@pytest.mark.cusim
def test_states_in_place_in_cuda(rng: np.random.Generator) -> None:
    for p in _backward(rng):
        differential_on_cusim(p, exact=(True,), terms=300)


def _backward(rng: np.random.Generator) -> list[Problem]:
    found = []
    for name in (TWICE, "viterbi"):
        d = differentiated_def(check(parse(TEXTS[name])))
        args = _drawn(TEXTS[name], rng, {"T": 5, "N": 7})
        everything = [*args, *d.kept(args), *seeds_of(d.checked, args, rng)]
        found.append(Problem(d.backward, tuple(np.asarray(a, np.float32) for a in everything)))
    return found


# ---- large ones

KALMAN = """def kalman(float(T,2) z, float(N,N) F, float(N,N) Q, float(2,N) H, float(2,2) R,
    float(N) x0, float(N,N) P0) -> (x, P) {
  x(i) = x0(i)
  P(i, j) = P0(i, j)
  for t in 0:T {
    xp(i) +=! F(i, j) * x(j)
    FP(i, j) +=! F(i, k) * P(k, j)
    Pp(i, j) = Q(i, j)
    Pp(i, j) += FP(i, k) * F(j, k)
    y(m) = z(t, m)
    y(m) += -H(m, i) * xp(i)
    PH(i, m) +=! Pp(i, j) * H(m, j)
    S(m, n) = R(m, n)
    S(m, n) += H(m, i) * PH(i, n)
    d = 1.0 / (S(0, 0) * S(1, 1) - S(0, 1) * S(1, 0))
    V(m, n) = (m == n ? S(1 - m, 1 - n) : -S(m, n)) * d where m in 0:2, n in 0:2
    K(i, m) +=! PH(i, n) * V(n, m)
    x(i) = xp(i)
    x(i) += K(i, m) * y(m)
    P(i, j) = Pp(i, j)
    P(i, j) += -K(i, m) * PH(j, m)
  } }"""


@pytest.mark.cc
@pytest.mark.deep
def test_the_second_derivative_of_a_kalman_filter_is_a_kernel(rng: np.random.Generator) -> None:
    kernel = tc.define(KALMAN)
    assert isinstance(kernel, Kernel)
    first = tc.grad(kernel)
    d = differentiated_def(check(parse(KALMAN)))
    args = [0.3 * a for a in drawn(d.checked, {"T": 4, "N": 3}, rng)]
    args[4] += np.eye(2)
    args += seeds_of(d.checked, args, rng)
    twice = differentiated_def(check(whole(d.gradient), d.gradient.name))
    seeds = seeds_of(twice.checked, args, rng)
    want = twice.pull(args, seeds)
    single = [np.asarray(a, np.float32) for a in args]
    _, pull = first.whole.vjp(*single)
    for got, w in zip(pull(*(np.asarray(s, np.float32) for s in seeds)), want, strict=True):
        np.testing.assert_allclose(got, w, rtol=1e-2, atol=1e-3 * (1 + np.abs(w).max()))


# ---- halves

HALVES = {
    "a sum of sums": """def f({0}(M,N) A) -> (s) {{ C(m) +=! A(m, n)  s +=! C(m) * C(m) }}""",
    "a loop": """def f({0}(M,N) A) -> (h) {{
      for m in 0:M {{ c(n) +=! A(m, n) * A(m, k)  h(m) +=! c(n) * c(n) }} }}""",
    "a state": """def f({0}(M,N) A) -> (h) {{
      h(0, n) = A(0, n)
      for m in 1:M {{ h(m, n) = h(m - 1, n) * A(m, n)  h(m, n) *= A(m, n) }} }}""",
}


@pytest.mark.cc
@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        ("a sum of sums", "float16"),
        *(pytest.param(n, "bfloat16", marks=pytest.mark.wide) for n in HALVES),
        pytest.param("a state", "float16", marks=pytest.mark.wide),
    ],
)
def test_halves_that_are_kept_in_float32(name: str, dtype: str, rng: np.random.Generator) -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    kind = np.float16 if dtype == "float16" else ml_dtypes.bfloat16
    text = HALVES[name].format(dtype)
    kernel = tc.define(text)
    assert isinstance(kernel, Kernel)
    a = rng.uniform(0.5, 1.0, size=(3, 4)).astype(kind)
    out, pull = kernel.vjp(a)
    np.testing.assert_array_equal(out, kernel(a))
    seed = rng.normal(size=np.shape(out)).astype(kind)
    d = differentiated_def(check(parse(text)))
    (want,) = d.pull([np.asarray(a, np.float64)], [np.asarray(seed, np.float64)])
    got = np.asarray(pull(seed), np.float64)
    np.testing.assert_allclose(got, want, rtol=0.05, atol=0.05 * np.abs(want).max())
    twice = differentiated_def(check(whole(d.gradient), d.gradient.name))
    args = [np.asarray(x, np.float64) for x in (a, seed)]
    assert_gradient(twice, args, rng, tolerance=1e-4)
