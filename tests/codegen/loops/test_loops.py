"""`for` loops: recurrences over time, scans, dynamic programming; what turns leave to the next."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tcdsl as tc
from tcdsl.codegen.choose.fuse import partitions
from tcdsl.codegen.machine.config import Config
from tcdsl.grammar.check.definition import check
from tcdsl.grammar.text.errors import ScheduleError
from tcdsl.grammar.text.parser import parse
from tcdsl.kernel import Kernel
from tests.codegen.harness import Case, Problem, differential, expected, problem
from tests.tiers import sampled

pytestmark = pytest.mark.cc

RNG = np.random.default_rng(17)

RNN = """def rnn(float(T,B,N) X, float(B,N) H0, float(N,N) U) -> (H) {
    H(0, b, n) = H0(b, n)
    for t in 0:T {
        Z(b, n) +=! H(t, b, m) * U(n, m)
        H(t + 1, b, n) = tanh(X(t, b, n) + Z(b, n))
    }
}"""
LSTM = """def lstm(float(T,B,M) X, float(G,M) W, float(G,N) U, float(B,N) H0, float(B,N) C0)
    -> (H, C) {
    H(0, b, n) = H0(b, n)
    C(0, b, n) = C0(b, n)
    for t in 0:T {
        Z(b, g) +=! X(t, b, m) * W(g, m)
        Z(b, g) += H(t, b, k) * U(g, k)
        C(t + 1, b, n) = sigmoid(Z(b, n + N)) * C(t, b, n)
                       + sigmoid(Z(b, n)) * tanh(Z(b, n + 2 * N))
        H(t + 1, b, n) = sigmoid(Z(b, n + 3 * N)) * tanh(C(t + 1, b, n))
    }
}"""
GRU = """def gru(float(T,B,N) X, float(N,N) Wr, float(N,N) Wz, float(N,N) Wh, float(B,N) H0)
    -> (H) {
    H(0, b, n) = H0(b, n)
    for t in 0:T {
        r(b, n) +=! H(t, b, m) * Wr(n, m)
        z(b, n) +=! H(t, b, m) * Wz(n, m)
        q(b, m) = sigmoid(r(b, m)) * H(t, b, m)
        h(b, n) +=! q(b, m) * Wh(n, m)
        H(t + 1, b, n) = (1.0 - sigmoid(z(b, n))) * H(t, b, n)
                       + sigmoid(z(b, n)) * tanh(h(b, n) + X(t, b, n))
    }
}"""
EDIT = """def edit(int32(M) a, int32(N) b) -> (float(M+1,N+1) D) {
    D(i, 0) = float(i) where i in 0:M+1
    D(0, j) = float(j) where j in 0:N+1
    for i in 0:M {
        for j in 0:N {
            D(i + 1, j + 1) = min(min(D(i, j + 1), D(i + 1, j)) + 1.0,
                                  D(i, j) + (a(i) == b(j) ? 0.0 : 1.0))
        }
    }
}"""
VITERBI = """def viterbi(float(T,S) E, float(S,S) A) -> (V, P) {
    V(0, s) = E(0, s)
    for t in 1:T {
        M(s) max=! V(t - 1, r) + A(r, s)
        V(t, s) = M(s) + E(t, s)
        P(t, s) argmax=! V(t - 1, r) + A(r, s)
    }
}"""
CUMSUM = "def cumsum(float(N,M) A) -> (S) { S(0, j) = A(0, j)  for t in 1:N { S(t, j) = S(t - 1, j) + A(t, j) } }"  # noqa: E501


def numbers(*shape: int) -> Any:
    return RNG.integers(-3, 4, shape).astype(np.float32)


def floats(*shape: int) -> Any:
    return (RNG.normal(size=shape) * 0.3).astype(np.float32)


def held(p: Problem, terms: int = 64) -> None:
    """Hold all partitions against the reference, in one unit."""
    names = [x.name for x in partitions(p.program)]
    cases = [
        Case(p, exact=e, config=Config.of({"partition": name}), threads=2 + e)
        for name in names
        for e in (True, False)
    ]
    differential(cases, terms)


@sampled("turns", [4, 0, 1], keep=1)
@sampled("shape", [(2, 3), (5, 17), (33, 40)], keep=1)
def test_rnn(turns: int, shape: tuple[int, int]) -> None:
    b, n = shape
    held(problem(RNN, floats(turns, b, n), floats(b, n), floats(n, n)))


@pytest.mark.deep
def test_lstm_and_gru() -> None:
    held(problem(LSTM, floats(5, 3, 4), floats(24, 4), floats(24, 6), floats(3, 6), floats(3, 6)))
    held(problem(GRU, floats(4, 3, 6), *(floats(6, 6) for _ in range(3)), floats(3, 6)))


def test_edit_distance() -> None:
    p = problem(EDIT, np.array([1, 2, 3, 5], np.int32), np.array([1, 3, 3, 4, 5], np.int32))
    held(p)
    assert expected(p)[0][-1, -1] == 2
    held(problem(EDIT, np.zeros(0, np.int32), np.zeros(3, np.int32)))


@pytest.mark.wide
def test_viterbi() -> None:
    held(problem(VITERBI, numbers(5, 4), numbers(4, 4)))


@sampled("shape", [(1, 1), (7, 5), (40, 130)], keep=2)
def test_cumulative_sum(shape: tuple[int, int]) -> None:
    p = problem(CUMSUM, numbers(*shape))
    held(p)
    assert np.array_equal(expected(p)[0], np.cumsum(p.args[0], axis=0))


def test_a_range_may_depend_on_the_turn() -> None:
    held(
        problem(
            "def f(float(N) A) -> (S) { for t in 0:N { S(t) +=! A(k) where k in 0:t+1 } }",
            numbers(9),
        )
    )
    held(
        problem(
            "def f(float(N) A) -> (S) { for t in 0:N { S(t, j) = A(j) where j in 0:t+1 } }",
            numbers(6),
        )
    )
    text = """def f(float(N) A) -> (S) {
        for t in 0:N { for s in 0:t + 1 { S(t, s) = A(t) - A(s) } }
    }"""
    held(problem(text, numbers(6)))


@pytest.mark.wide
def test_a_statement_starts_only_the_elements_that_it_writes() -> None:
    text = "def f(float(T,N) A) -> (S) { for t in 0:T { S(t) +=! A(t, i) } }"
    for turns in (0, 1, 5):
        p = problem(text, numbers(turns, 6))
        held(p)
        assert np.array_equal(expected(p)[0], p.args[0].sum(1))
    text = "def f(float(N,M) A) -> (S) { S(0) +=! A(0, j)  S(1) +=! A(1, j)  S(0) max=! A(2, j) }"
    held(problem(text, numbers(3, 5)))


def test_what_starts_anew_and_reduces_nothing_is_the_identity() -> None:
    text = "def f(float(N) A, float(M) B) -> (S) { S = A(0)  S min=! B(j) }"
    p = problem(text, numbers(3), numbers(0))
    held(p)
    assert expected(p)[0] == np.inf


def test_a_histogram_in_a_turn_starts_anew() -> None:
    text = """def f(int32(T,M) I, float(N) L) -> (float(N) last, int32(T) most) {
        for t in 0:T {
            h(clamp(I(t, m), 0, N - 1)) +=! 1
            most(t) max=! h(n)
            last(n) = float(h(n))
        }
    }"""
    held(problem(text, RNG.integers(0, 4, (5, 9)).astype(np.int32), np.zeros(4, np.float32)))


def test_state_that_turns_overwrite() -> None:
    text = """def f(float(T,N) A) -> (S) {
        S(i) = 1.0 where i in 0:N
        for t in 0:T { S(i) = S(i) * 2 + A(t, i) }
    }"""
    for turns in (0, 3):
        held(problem(text, numbers(turns, 6)))
    text = """def f(float(N) x, float(N,N) A, int32 K) -> (y) {
        y(i) = x(i)
        for k in 0:K {
            z(i) +=! A(i, j) * y(j)
            y(i) = z(i)
        }
    }"""
    held(problem(text, numbers(4), numbers(4, 4), np.int32(3)))
    held(problem(text, numbers(4), numbers(4, 4), np.int32(-2)))


@pytest.mark.wide
def test_a_loop_of_a_callee_and_a_variable_that_is_an_index_elsewhere() -> None:
    text = """def f(float(N,N) A, float(N) x) -> (O) {
        u = power(A, x)
        for i in 1:3 { v = power(A, u)  O(i, j) = v(j) + float(i) }
        O(0, i) = u(i)
    }
    def power(float(N,N) A, float(N) x) -> (y) {
        y(i) = x(i)
        for i in 0:2 { z(j) +=! A(j, k) * y(k)  y(j) = z(j) }
    }"""
    held(Problem(check(parse(text), "f"), (numbers(4, 4), numbers(4))))


def test_what_is_read_before_it_is_written_again_is_of_the_turn_before() -> None:
    text = """def f(float(T,N) A) -> (S) {
        p(i) = 0.0 where i in 0:N
        for t in 0:T {
            S(t, i) = p(i) + A(t, i)
            p(i) = A(t, i) * 3
        }
    }"""
    held(problem(text, numbers(4, 7)))


def test_loops_after_each_other_share_what_they_leave() -> None:
    text = """def f(float(N) A, int32 K) -> (S, R) {
        S(i) = A(i)
        for a in 0:K { S(i) = S(i) + 1.0 }
        for b in 0:K { S(i) = S(i) * 2.0 }
        R(i) = S(i) - A(i)
    }"""
    for k in (0, 3):
        held(problem(text, numbers(5), np.int32(k)))


def test_loops_after_each_other_may_have_variables_of_one_name() -> None:
    text = """def f(float(T,N) X) -> (H, Q) {
        H(0, n) = X(0, n)
        for t in 1:T { H(t, n) = H(t - 1, n) * X(t, n) }
        for t in 0:T {
          s +=! H(T - 1 - t, n)
          Q(t) = s
        }
    }"""
    held(problem(text, numbers(4, 3)))


def test_more_loops_than_a_kernel_has_name_the_cure() -> None:
    turns = " ".join(f"for t{i} in 0:T {{ h(n) = sin(h(n) * {i}.5) }}" for i in range(33))
    kernel = tc.define(f"def f(float(N) X, int32 T) -> (h) {{ h(n) = X(n) {turns} }}")
    assert isinstance(kernel, Kernel)
    with pytest.raises(ScheduleError) as caught:
        kernel(np.ones(3, np.float32), 2)
    assert str(caught.value) == (
        "f: 33 loops, at most 32 in one kernel: define a part of it, as some of its statements or "
        "one of its loops, as a kernel of its own"
    )
