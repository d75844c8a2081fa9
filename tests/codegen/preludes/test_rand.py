"""`rand(seed, c)`: one sequence, whatever computes it."""

from __future__ import annotations

import numpy as np
import pytest

from tcdsl.codegen.reference.philox import philox, uniform
from tests.codegen.harness import Case, differential, expected, problem

# Of the authors' own test vectors for philox4x32, 10 rounds.
KNOWN = [
    ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((0xFFFFFFFF,) * 4, (0xFFFFFFFF,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    (
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
        (0xA4093822, 0x299F31D0),
        (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
]


@pytest.mark.parametrize(("counter", "key", "words"), KNOWN)
def test_known_answers(
    counter: tuple[int, ...], key: tuple[int, int], words: tuple[int, ...]
) -> None:
    a, b, c, d = (np.asarray([x], np.uint64) for x in counter)
    keys = np.uint64(key[0]), np.uint64(key[1])
    assert tuple(int(w[0]) for w in philox((a, b, c, d), keys)) == words


def test_bits_and_range() -> None:
    c = np.arange(100_000)
    seed = np.uint64(7)
    single, double = (uniform(seed, c, np.dtype(t)) for t in (np.float32, np.float64))
    for x, bits in ((single, 24), (double, 53)):
        assert x.min() >= 0
        assert x.max() < 1
        scaled = x.astype(np.float64) * 2.0**bits
        assert np.array_equal(scaled, np.floor(scaled))
        assert abs(x.mean() - 0.5) < 0.005
        assert abs(x.var() - 1 / 12) < 0.002
    first = uniform(np.uint64(0), np.zeros(1, np.int64), np.dtype(np.float32))[0]
    assert first == (0x6627E8D5 >> 8) / 2**24


@pytest.mark.cc
@pytest.mark.parametrize("seed", [0, 5, 2**63 + 12345, 2**64 - 1])
def test_the_kernel_draws_the_same_numbers(seed: int) -> None:
    text = """def f(uint64 seed, float(N,M) A) -> (O, P, double(N) Q) {
        O(i, j) = A(i, j) * (rand(seed, i * M + j) < 0.5 ? 0.0 : 2.0)
        P(i) = rand(seed, -i)  + A(i, 0)
        Q(i) = rand(seed, int64(i) * 4294967297)
    }"""
    p = problem(text, np.uint64(seed), np.ones((13, 29), np.float32))
    differential([Case(p, exact=e) for e in (True, False)])


@pytest.mark.cc
def test_a_counter_may_be_data_and_the_type_is_that_of_what_it_meets() -> None:
    text = """def f(int32 s, int32(N) I, double(N) D) -> (O, P, R) {
        O(i) = rand(s, I(i))
        P(i) = rand(s, I(i)) - D(i)
        R(i) = double(rand(s, I(i))) where i in 0:N
    }"""
    data = np.array([0, 1, -1, 2**31 - 1, 1], np.int32)
    p = problem(text, np.int32(-3), data, np.zeros(5))
    one, two, three = expected(p)
    assert [x.dtype.name for x in (one, two, three)] == ["float32", "float64", "float64"]
    assert np.array_equal(two, three)
    assert one[1] == one[4]
    differential([Case(p, exact=e) for e in (True, False)])


@pytest.mark.cc
def test_each_seed_of_a_tensor_has_its_sequence() -> None:
    text = """def f(int32(B) S, float(B,N) A) -> (O, P) {
        O(b, i) = A(b, i) * rand(S(b), i)
        P(b) +=! A(b, i) * (rand(S(b) + 1, i) < 0.5 ? 1.0 : 0.0)
    }"""
    seeds = np.array([3, -1, 2**31 - 2, 3], np.int32)
    p = problem(text, seeds, np.ones((4, 37), np.float32))
    got, _ = expected(p)
    for row, seed in zip(got, seeds, strict=True):
        key = np.asarray([seed], np.int64).view(np.uint64)
        np.testing.assert_array_equal(row, uniform(key, np.arange(37), np.dtype(np.float32)))
    differential([Case(p, exact=e) for e in (True, False)])
