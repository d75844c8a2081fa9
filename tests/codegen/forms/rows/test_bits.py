"""Operators on bits: the reference, C and CUDA against Python's integers."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tcdsl.codegen.gradient.vjp import gradient
from tcdsl.codegen.program.dtypes import numpy_dtype
from tcdsl.codegen.reference.evaluator import evaluate
from tcdsl.grammar.check.definition import check
from tcdsl.grammar.text.parser import parse
from tcdsl.grammar.types.dtypes import BOOL, BY_NAME, INT32, DType, promote
from tests.codegen.harness import Case, Problem, expected, problem, run_cases
from tests.cusim.harness import differential
from tests.tiers import sampled

INTEGERS = [d.name for d in BY_NAME.values() if d.is_integer]
PAIRS = [
    ("int32", "int32"), ("uint8", "int32"), ("int64", "uint8"), ("bool", "bool"),
    *itertools.product(INTEGERS, INTEGERS), ("bool", "int16"),
]  # fmt: skip
TEXT = """
def f<S, T>(S(N) a, T(N) b) -> (x, o, e, m) {
  x(i) = a(i) ^ b(i)
  o(i) = a(i) | b(i)
  e(i) = a(i) & b(i)
  m(i) = a(i) & 3 | b(i) ^ a(i) & b(i)
}
"""
SHIFTS = """
def f<S, T>(S(N) a, T(N) b) -> (l, r, q, n, p) {
  l(i) = a(i) << b(i)
  r(i) = a(i) >> b(i)
  q(i) = a(i) << 3 >> 2
  n(i) = ~a(i)
  p(i) = 1 << b(i)
}
"""


def wrapped(value: int, dtype: DType) -> int:
    if dtype == BOOL:
        return value & 1
    low = dtype.limits[0]
    return (value - low) % (1 << dtype.bits) + low


def shifted(op: str, a: int, n: int, dtype: DType) -> int:
    """Shift bit by bit for ever, or as often as there are bits."""
    n = n if 0 <= n <= 64 else 64
    return wrapped(a << n if op == "<<" else a >> n, dtype)


def values(name: str, rng: np.random.Generator) -> list[int]:
    dtype = BY_NAME[name]
    if dtype == BOOL:
        return [0, 1, 1, 0]
    low, high = dtype.limits
    edges = [0, 1, 3, 7, 8, 9, 31, 32, 63, 64, 65, 100, -1, -2, -64, low, high, high - 1]
    more = rng.integers(low, high, 7, endpoint=True, dtype=numpy_dtype(dtype)).tolist()
    return [*(v for v in edges if low <= v <= high), *more]


def case(s: str, t: str, rng: np.random.Generator) -> tuple[Problem, list[list[int]]]:
    pairs = [*itertools.product(values(s, rng), values(t, rng))]
    a, b = (np.array(v, numpy_dtype(BY_NAME[n])) for v, n in zip(zip(*pairs), (s, t)))  # noqa: B905
    left, both = BY_NAME[s], promote(BY_NAME[s], BY_NAME[t])
    both = BOOL if s == t == "bool" else both
    with_3 = promote(promote(left, INT32), both)
    one = promote(INT32, BY_NAME[t])
    is_bits = "bool" in (s, t)
    rules: list[tuple[Callable[[int, int], int], DType]] = [
        (lambda x, y: x ^ y, both), (lambda x, y: x | y, both), (lambda x, y: x & y, both),
        (lambda x, y: (x & 3) | wrapped(y ^ (x & y), both), with_3),
    ] if is_bits or rng.random() < 0.5 else [
        (lambda x, y: shifted("<<", x, y, left), left),
        (lambda x, y: shifted(">>", x, y, left), left),
        (lambda x, y: wrapped(x << 3, left) >> 2, left),
        (lambda x, y: ~x, left),
        (lambda x, y: shifted("<<", 1, y, one), one),
    ]  # fmt: skip
    wanted = [[wrapped(rule(x, y), d) for x, y in pairs] for rule, d in rules]
    text = TEXT if len(rules) == 4 else SHIFTS
    return problem(text, a, b, S=BY_NAME[s], T=BY_NAME[t]), wanted


def same(got: Any, wanted: list[list[int]], about: object) -> None:
    for one, want in zip(got, wanted, strict=True):
        assert [int(v) for v in one] == want, about


@pytest.mark.cc
@sampled("s, t", PAIRS, keep=2, wide=10)
def test_bits_are_those_of_pythons_integers(s: str, t: str, rng: np.random.Generator) -> None:
    for _ in range(3):
        p, wanted = case(s, t, rng)
        same(expected(p), wanted, "reference")
        for got in run_cases([Case(p, True), Case(p, False)]):
            same(got, wanted, "C")


@pytest.mark.cusim
@sampled("s, t", PAIRS, keep=2, wide=10)
def test_cuda_has_the_same_bits(s: str, t: str, rng: np.random.Generator) -> None:
    differential(case(s, t, rng)[0])


QUOTIENTS = """
def f<S>(S(N) a) -> (h, r, o, q, m) {
  h(i) = a(i) / 2
  r(i) = a(i) % 64
  o(i) = a(i) / 1 + a(i) % 1
  q(i) = a(i) / S(128)
  m(i) = a(i) % S(128)
}
"""


@pytest.mark.cc
@pytest.mark.cusim
@sampled("s", INTEGERS, keep=3)
def test_quotients_by_powers_of_two_floor(s: str, rng: np.random.Generator) -> None:
    dtype = BY_NAME[s]
    wide, by = promote(dtype, INT32), wrapped(128, dtype)  # -128 as int8
    a = np.array(values(s, rng), numpy_dtype(dtype))
    rules: list[tuple[Callable[[int], int], DType]] = [
        (lambda x: x // 2, wide), (lambda x: x % 64, wide), (lambda x: x, wide),
        (lambda x: x // by, dtype), (lambda x: x % by, dtype),
    ]  # fmt: skip
    wanted = [[rule(wrapped(int(x), d)) for x in a] for rule, d in rules]
    p = problem(QUOTIENTS, a, S=dtype)
    for got in (expected(p), *run_cases([Case(p, True), Case(p, False)])):
        same(got, wanted, s)
    differential(p)


HASH = """
def hash(uint32(N) x, int32(N) k) -> (h, odd, y) {
  h(i) = u ^ u >> 16 where u = (x(i) ^ x(i) >> 15) * uint32(739984525)
  odd(i) = (k(i) & 1 != 0) & (k(i) > 0) ^ (k(i) == -3)
  y(i) = (k(i) << 5 | 7) & ~(k(i) >> 31) ^ 0x55
}
"""


@pytest.mark.cc
def test_bits_in_vectors_and_among_bools(rng: np.random.Generator) -> None:
    x = rng.integers(0, 2**32, 1003, dtype=np.uint32)
    k = rng.integers(-(2**31), 2**31, 1003, dtype=np.int64).astype(np.int32)
    k[:3] = 7, -3, 2
    p = problem(HASH, x, k)
    u = (x ^ (x >> 15)) * np.uint32(739984525)
    wanted = [u ^ (u >> 16), (k & 1 != 0) & (k > 0) ^ (k == -3), (k << 5 | 7) & ~(k >> 31) ^ 0x55]
    for got in (expected(p), *run_cases([Case(p, True), Case(p, False)])):
        for one, want in zip(got, wanted, strict=True):
            np.testing.assert_array_equal(one, want)
    assert got[1].dtype == bool


def test_gradients_print_bits_with_the_parentheses_that_they_need() -> None:
    text = (
        "def f(double(N) A, int32(N) k) -> (y) {\n"
        "  y(i) = A(i) * double((k(i) & 3 ^ 1 | k(i) << (k(i) + 1 >> 1)) + (~k(i) & 7))"
        " * (((k(i) & 1) == 0) & ((k(i) > 2) | (k(i) < 0)) ? 2 : 3)\n}"
    )
    f = check(parse(text))
    k = np.arange(-9, 10, dtype=np.int32)
    slope = np.cos(k.astype(float))
    (back,) = evaluate(check(parse(gradient(f).text)), [np.zeros(19), k, slope])
    (want,) = evaluate(f, [slope, k])
    np.testing.assert_allclose(back, want, rtol=1e-13)
