"""Gradients of loops: nested ones, states that are overwritten, checkpoints, what leaves a loop."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np
import pytest

import tcdsl as tc
from tcdsl.codegen.choose import compiler
from tcdsl.codegen.gradient.order import Order
from tcdsl.codegen.gradient.vjp import gradient
from tcdsl.codegen.machine.config import Config
from tcdsl.codegen.program.dtypes import numpy_dtype
from tcdsl.codegen.toolchain.host import detect
from tcdsl.grammar.check.definition import check
from tcdsl.grammar.text.parser import parse
from tcdsl.kernel import Kernel
from tests.codegen.gradient.differences import (
    Array,
    Differentiated,
    assert_gradient,
    differentiated_def,
    drawn,
    seeds_of,
)
from tests.codegen.harness import Case, Problem, differential, spec_of
from tests.cusim.harness import differential as differential_on_cusim
from tests.tiers import sampled

RNN = """def rnn(float(T,B,I) X, float(B,N) H0, float(I,N) W, float(N,N) U) -> (H, h) {
  h(b, n) = H0(b, n)
  for t in 0:T {
    z(b, n) +=! X(t, b, i) * W(i, n)
    r(b, n) +=! h(b, m) * U(m, n)
    h(b, n) = tanh(z(b, n) + r(b, n))
    H(t, b, n) = h(b, n)
  }
}"""
LSTM = """def lstm(float(T,B,I) X, float(B,N) H0, float(B,N) C0, float(4,N,I) W, float(4,N,N) U,
    float(4,N) bias) -> (H, h, c) {
  h(b, n) = H0(b, n)
  c(b, n) = C0(b, n)
  for t in 0:T {
    G(k, b, n) = bias(k, n) where b in 0:B
    G(k, b, n) += X(t, b, i) * W(k, n, i)
    G(k, b, n) += h(b, m) * U(k, n, m)
    c(b, n) = sigmoid(G(1, b, n)) * c(b, n) + sigmoid(G(0, b, n)) * tanh(G(2, b, n))
    h(b, n) = sigmoid(G(3, b, n)) * tanh(c(b, n))
    H(t, b, n) = h(b, n)
  }
}"""
GRU = """def gru(float(T,B,I) X, float(B,N) H0, float(3,N,I) W, float(3,N,N) U, float(3,N) v,
    float(3,N) w) -> (H, h) {
  h(b, n) = H0(b, n)
  for t in 0:T {
    x(k, b, n) +=! X(t, b, i) * W(k, n, i)
    u(k, b, n) +=! h(b, m) * U(k, n, m)
    r(b, n) = sigmoid(x(0, b, n) + v(0, n) + u(0, b, n) + w(0, n))
    z(b, n) = sigmoid(x(1, b, n) + v(1, n) + u(1, b, n) + w(1, n))
    q(b, n) = tanh(x(2, b, n) + v(2, n) + r(b, n) * (u(2, b, n) + w(2, n)))
    h(b, n) = (1 - z(b, n)) * q(b, n) + z(b, n) * h(b, n)
    H(t, b, n) = h(b, n)
  }
}"""
PRODUCT = """def product(float(T,N) X) -> (Y) {
  s(n) = 1.0 where n in 0:N
  for t in 0:T { s(n) = s(n) * X(t, n)  Y(t, n) = s(n) }
}"""
VITERBI = """def viterbi(float(T,B,S) E, float(S,S) A, float(B,S) I) -> (v) {
  v(b, s) = I(b, s)
  for t in 0:T {
    m(b, s) max=! v(b, r) + A(r, s)
    v(b, s) = m(b, s) + E(t, b, s)
  }
}"""
TEXTS = {"rnn": RNN, "lstm": LSTM, "gru": GRU, "product": PRODUCT, "viterbi": VITERBI}

NESTED = {
    "one state": """def f(float(T,S,N) X, float(N) h0) -> (h) {
      h(n) = h0(n)
      for t in 0:T { for s in 0:S { h(n) = tanh(h(n) + X(t, s, n)) } } }""",
    "changed at both levels": """def f(float(T,S,N) X, float(N,N) U) -> (h) {
      h(n) = X(0, 0, n)
      for t in 0:T {
        z(n) +=! h(m) * U(m, n)
        h(n) = tanh(z(n))
        for s in 0:S { h(n) = h(n) * X(t, s, n) + sin(h(n)) }
        h(n) = h(n) * h(n)
      } }""",
    "first written inside": """def f(float(T,S,N) X) -> (h, q) {
      q(n) = X(0, 0, n)
      for t in 0:T { for s in 0:S { h(n) max= X(t, s, n) * q(n)  q(n) = tanh(h(n) + q(n)) } } }""",
    "three loops": """def f(float(T,S,N) X) -> (h) {
      h = 0.5
      for t in 0:T { for s in 0:S { for n in 0:N { h = sin(h * X(t, s, n)) } } } }""",
    "turns that meet": """def f(float(T,S,N) X) -> (A) {
      A(n) = X(0, 0, n) where n in 0:N
      for s in 0:2 { for k in 0:2 { A(s + k) = A(s + k) * X(s, k, 0) + X(s, k, 1) } } }""",
}
HALVES = {
    "assigned": """def f(float16(T,N) X, float16(N) h0) -> (float16(N) h) {
      h(n) = h0(n)
      for t in 0:T { h(n) = float16(tanh(float(h(n)) + float(X(t, n)))) } }""",
    "summed": """def f(float16(T,N) X, float16(N) h0) -> (float16(N) h) {
      h(n) = h0(n)
      for t in 0:T { h(n) *= X(t, n)  h(n) += h(n) * X(t, n) } }""",
}


def defined(text: str) -> Kernel:
    kernel = tc.define(text)
    assert isinstance(kernel, Kernel)
    return kernel


@cache
def made(text: str, checkpoint: int | None = None) -> Differentiated:
    return differentiated_def(check(parse(text)), checkpoint)


def sizes_of(text: str, turns: int) -> dict[str, int]:
    return dict.fromkeys(check(parse(text)).sizes, 2) | {"T": turns}


def flat(text: str) -> str:
    """Return a text as one line."""
    return " ".join(text.split())


# ---- right


@pytest.mark.parametrize(
    "name", [n if n == "one state" else pytest.param(n, marks=pytest.mark.deep) for n in NESTED]
)
def test_nested_loops_that_overwrite_a_state(name: str, rng: np.random.Generator) -> None:
    d = made(NESTED[name])
    assert_gradient(d, drawn(d.checked, {"T": 3, "S": 2, "N": 3}, rng), rng)


@pytest.mark.parametrize(
    "name",
    [pytest.param("rnn"), *(pytest.param(n, marks=pytest.mark.deep) for n in TEXTS if n != "rnn")],
)
@pytest.mark.parametrize("turns", [1, pytest.param(4, marks=pytest.mark.deep)])
def test_central_differences(name: str, turns: int, rng: np.random.Generator) -> None:
    for checkpoint in (None, 2):
        d = made(TEXTS[name], checkpoint)
        assert_gradient(d, drawn(d.checked, sizes_of(TEXTS[name], turns), rng), rng)


def _both(
    text: str, checkpoint: int, turns: int, **sizes: int
) -> tuple[tuple[Array, ...], tuple[Array, ...]]:
    rng = np.random.default_rng(turns)
    kept, again = made(text), made(text, checkpoint)
    args = drawn(kept.checked, sizes_of(text, turns) | sizes, rng)
    seeds = seeds_of(kept.checked, args, rng)
    return kept.pull(args, seeds), again.pull(args, seeds)


@pytest.mark.wide
@sampled(
    "turns", [1, 3, 4, 7, *(pytest.param(t, marks=pytest.mark.deep) for t in (0, 2, 6, 11))], keep=1
)
def test_checkpoints_before_turns_that_do_not_divide(turns: int) -> None:
    for want, got in zip(*_both(PRODUCT, 3, turns), strict=True):
        np.testing.assert_array_equal(got, want)  # no sum is in another order
    for want, got in zip(*_both(RNN, 3, turns), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-14)


@pytest.mark.deep
@pytest.mark.parametrize("name", ["lstm", "gru", "viterbi"])
@pytest.mark.parametrize("turns", [0, 1, 2, 3, 4, 7])
def test_checkpoints_of_layers(name: str, turns: int) -> None:
    for want, got in zip(*_both(TEXTS[name], 3, turns), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-14)


@pytest.mark.deep
@pytest.mark.parametrize("name", NESTED)
def test_checkpoints_in_nested_loops(name: str) -> None:
    for want, got in zip(*_both(NESTED[name], 2, 5, N=3), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-14)


@pytest.mark.deep
def test_the_second_derivative_of_a_checkpointed_gradient(rng: np.random.Generator) -> None:
    d = made(PRODUCT, 2)
    args = drawn(d.checked, {"T": 5, "N": 2}, rng)
    more = [*args, *d.kept(args), *seeds_of(d.checked, args, rng)]
    assert_gradient(differentiated_def(d.backward), more, rng)


@pytest.mark.deep
@pytest.mark.cc
@pytest.mark.parametrize("name", HALVES)
def test_half_states_round_in_every_turn(name: str, rng: np.random.Generator) -> None:
    kernel = defined(HALVES[name])
    args = (rng.normal(size=(6, 5)).astype(np.float16), rng.normal(size=5).astype(np.float16))
    h, pull = kernel.vjp(*args)
    np.testing.assert_array_equal(h, kernel(*args))
    d = made(HALVES[name])
    want = d.pull([np.asarray(a, np.float64) for a in args], [np.ones(5)])
    for g, w in zip(pull(np.ones(5, np.float16)), want, strict=True):
        np.testing.assert_allclose(g, w, rtol=0.05, atol=0.05 * np.abs(w).max())


def _backward(name: str, checkpoint: int | None, turns: int) -> Problem:
    rng = np.random.default_rng(5)
    d = made(TEXTS[name], checkpoint)
    args = drawn(d.checked, {**sizes_of(TEXTS[name], turns), "B": 3, "N": 5}, rng)
    everything = [*args, *d.kept(args), *seeds_of(d.checked, args, rng)]
    return Problem(
        d.backward,
        tuple(
            np.asarray(a, numpy_dtype(t.dtype))
            for a, t in zip(everything, d.backward.params, strict=True)
        ),
    )


@pytest.mark.cc
@pytest.mark.parametrize(
    ("name", "checkpoint", "exact"),
    [
        ("product", 3, False),
        pytest.param("rnn", 3, True, marks=pytest.mark.wide),
        *(
            pytest.param(n, c, e, marks=pytest.mark.deep)
            for n in ("lstm", "gru", "viterbi")
            for c in (None, 3)
            for e in (True, False)
        ),
    ],
)
def test_kernels_of_checkpointed_gradients(name: str, checkpoint: int | None, exact: bool) -> None:
    differential([Case(_backward(name, checkpoint, 7), exact=exact)], terms=300)


@pytest.mark.wide
@pytest.mark.cusim
def test_a_checkpointed_gradient_in_cuda() -> None:
    differential_on_cusim(_backward("product", 2, 3), exact=(True,), terms=300)


# ---- as text


def test_the_gradient_by_the_weights_is_one_product_behind_the_loop() -> None:
    _, behind = flat(gradient(check(parse(RNN))).text).split("} ", 1)
    assert behind.startswith(
        "d_U(m, n) +=! a_r(t, b, n) * h_all(t, b, m) where t in 0:T "
        "d_W(i, n) +=! a_z(t, b, n) * X(t, b, i) "
        "d_X(t, b, i) +=! a_z(t, b, n) * W(i, n) "
    )


def test_sums_of_a_turn_are_kept_and_products_of_them_are_not_formed_again() -> None:
    made = gradient(check(parse(LSTM)))
    assert made.kept == ("G", "h_all", "c_all")
    assert "X(T - t - 1" not in made.text


def test_segments_run_again_from_the_state_that_is_kept() -> None:
    made = gradient(check(parse(PRODUCT)), 8)
    assert made.extra == ("s_kept", "s_all_2")
    assert (
        "for segment in 0 : T / 8 { "
        "s_all(0, i0) = s_kept(T / 8 - segment - 1, i0) "
        "for turn in 0:8 { "
        "s_all(turn + 1, n) = s_all(turn, n) * X(turn + 8 * (T / 8) - 8 * segment - 8, n) }"
    ) in flat(made.text)


def test_a_loop_of_which_nothing_is_kept_has_no_segments() -> None:
    text = "def f(float(T,N) X) -> (A) { A(n) +=! X(0, n) for t in 1:T { A(n) += X(t, n) } }"
    assert gradient(check(parse(text)), 4).text == gradient(check(parse(text))).text


def test_a_tensor_whose_elements_turns_of_two_loops_reach_is_not_written_once() -> None:
    once = """def f(float(N) X) -> (float(64) A) {{
      for s in 0:4 {{ for k in 0:{} {{ A({} * s + k) = X(k) }} }} }}"""
    for inner, step, is_once in ((4, 4, True), (4, 3, False), (3, 4, True), (2, 1, False)):
        order = Order(check(parse(once.format(inner, step))))
        assert order.is_settled("A") is is_once, (inner, step)


@sampled("name", ["rnn", "lstm"], keep=1)
def test_what_turns_write_takes_the_forms_of_whole_tensors(name: str) -> None:
    p = _backward(name, None, 4)
    titles = compiler.describe(p.program, spec_of(p, exact=True), Config(), detect(), p.sizes)
    assert not [text for text, title in titles if "nest" in title]


# ---- for callers


@pytest.mark.deep
@pytest.mark.cc
def test_a_call_beyond_the_limit_keeps_checkpoints(rng: np.random.Generator) -> None:
    kernel = defined(PRODUCT)
    x = rng.uniform(0.5, 1.5, size=(20, 3)).astype(np.float32)
    seed = rng.normal(size=(20, 3)).astype(np.float32)
    want = kernel.vjp(x)[1](seed)
    limited = kernel.with_grad(memory_limit=21 * 3 * 4 - 1)
    np.testing.assert_array_equal(limited(x)[1](seed), want)
    assert len(limited._known) == 2
    np.testing.assert_array_equal(kernel.with_grad(checkpoint=4)(x)[1](seed), want)
    with pytest.raises(tc.TCError, match="expected a number of turns"):
        tc.grad(kernel, checkpoint=0)


def test_a_definition_of_known_sizes_beyond_the_limit() -> None:
    kernel = defined(
        PRODUCT.replace("float(T,N) X", "float(100,8) X")
        .replace("0:T", "0:100")
        .replace("0:N", "0:8")
    )
    assert "s_kept" in tc.grad(kernel, memory_limit=1000).params
    assert "s_all" in tc.grad(kernel).params


# ---- PyTorch


def _cells(torch: Any, name: str, args: Mapping[str, Any]) -> list[Any]:
    x, h = args["X"], args["H0"]
    flat = {n: a.reshape(-1, a.shape[-1]) for n, a in args.items() if n in ("W", "U")}
    c, out = args.get("C0"), []
    for t in range(x.shape[0]):
        if name == "rnn":
            h = torch.rnn_tanh_cell(x[t], h, args["W"].T, args["U"].T)
        elif name == "gru":
            h = torch.gru_cell(x[t], h, flat["W"], flat["U"], args["v"].ravel(), args["w"].ravel())
        else:
            h, c = torch.lstm_cell(x[t], (h, c), flat["W"], flat["U"], args["bias"].ravel())
        out.append(h)
    return [torch.stack(out), h, *([] if c is None else [c])]


@pytest.mark.torch
@pytest.mark.parametrize(
    "name",
    [
        pytest.param("rnn", marks=pytest.mark.wide),
        pytest.param("lstm", marks=pytest.mark.deep),
        pytest.param("gru", marks=pytest.mark.deep),
    ],
)
def test_cells_of_pytorch(name: str, rng: np.random.Generator) -> None:
    torch = pytest.importorskip("torch")
    for checkpoint in (None, 2):
        d = made(TEXTS[name], checkpoint)
        args = drawn(d.checked, {"T": 5, "B": 3, "I": 2, "N": 4}, rng)
        seeds = seeds_of(d.checked, args, rng)
        theirs = {
            t.name: torch.tensor(a, requires_grad=True)
            for t, a in zip(d.checked.params, args, strict=True)
        }
        outputs = _cells(torch, name, theirs)
        torch.autograd.backward(outputs, [torch.tensor(s) for s in seeds])
        for got, t in zip(d.pull(args, seeds), theirs.values(), strict=True):
            np.testing.assert_allclose(got, t.grad, rtol=1e-9, atol=1e-12)
