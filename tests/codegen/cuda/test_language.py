"""Borders, positions, random numbers, scatters and reshapes in CUDA, in the simulator."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.codegen.harness import problem
from tests.cusim.harness import differential
from tests.tiers import sampled

pytestmark = pytest.mark.cusim

RNG = np.random.default_rng(12)


def numbers(*shape: int) -> Any:
    return RNG.integers(-3, 4, shape).astype(np.float32)


PROGRAMS: dict[str, tuple[str, tuple[Any, ...]]] = {
    "padded convolution": (
        """def f(float(N,C,H,W) I, float(F,C,KH,KW) K) -> (O) {
            O(n, o, h, w) +=! pad(I(n, c, h + kh - 1, w + kw - 1), 0) * K(o, c, kh, kw)
                where h in 0:H, w in 0:W
        }""",
        (numbers(2, 3, 7, 6), numbers(4, 3, 3, 3)),
    ),
    "pooling with a border": (
        """def f(float(C,H) I) -> (O) {
            O(c, h) max=! pad(I(c, 2 * h + k - 1), -inf) where h in 0:H / 2, k in 0:3
        }""",
        (numbers(5, 9),),
    ),
    "positions": (
        "def f(float(B,N,M) X) -> (A, P) { A(b) argmax=! X(b, n, m)  P(b, m) argmin=! X(b, n, m) }",
        (numbers(5, 7, 4),),
    ),
    "random numbers": (
        """def f(uint64 seed, float(N,M) A) -> (O, double(N) D) {
            O(i, j) = A(i, j) * (rand(seed, i * M + j) < 0.5 ? 0.0 : 2.0)
            D(i) = rand(seed, -i) where i in 0:N
        }""",
        (np.uint64(2**63 + 5), numbers(6, 35)),
    ),
    "transposed convolution": (
        "def f(float(C,H) I, float(C,F,K) W) -> (O) { O(o, 2 * h + k) +=! I(c, h) * W(c, o, k) }",
        (numbers(3, 6), numbers(3, 4, 3)),
    ),
    "embedding gradient": (
        """def f(int32(B) I, float(B,D) g, float(N,D) W) -> (float(N,D) dW) {
            dW(I(b), d) +=! g(b, d)
        }""",
        (RNG.integers(0, 6, 40).astype(np.int32), numbers(40, 5), numbers(6, 5)),
    ),
    "a contraction with an index that begins below 0": (
        "def f(float(N,N) A, float(N,N) B) -> (T) { T(i, j + 1) +=! A(q, i) * B(j + 1, q) }",
        (numbers(5, 5), numbers(5, 5)),
    ),
    "reshape": (
        "def f<W=3>(float(N) A) -> (O) { O(n / W, n % W) = A(n) }",
        (numbers(12),),
    ),
}


@sampled("name", PROGRAMS, keep=3)
def test_program(name: str) -> None:
    text, args = PROGRAMS[name]
    differential(problem(text, *args))
