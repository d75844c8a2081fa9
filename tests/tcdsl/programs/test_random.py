"""Random programs, called in random ways, give what the reference gives."""

from __future__ import annotations

import pytest

from tcdsl.grammar.check.definition import check
from tcdsl.grammar.text.parser import parse
from tests.tcdsl.programs.random_programs import Trial, distributes, run_program, run_text
from tests.tiers import sampled

pytestmark = pytest.mark.cc

# What random programs broke, in few words each.
FOUND = {
    "op=! reads its return, does not cover it": """
        def f(float(N) A) -> (O) { O(i) = 2 * A(i)  O(i) +=! O(i) * 2 where i in 1:N }""",
    "op=! reads its return through a temporary": """
        def f(float(N) A) -> (O) {
          O(i) = 2 * A(i)  t(i) = O(i) * 3  O(i) +=! t(i) where i in 1:N }""",
    "op=! reads the caller's buffer": """
        def f(float16(N) A) -> (O) {
          O(i) += 2 * A(i)  O(i) +=! O(i) * 2 where i in 1:N  O(i) = float16(O(i) + 1) }""",
    "op=! reads its temporary, does not cover it": """
        def f(float(N, M) A) -> (O) {
          t(i) +=! A(i,k)  t(i) max=! t(i) - 1 where i in 1:N  O(i,k) = t(i) * A(i,k) }""",
    "last extent 1 in a strided output": """
        def f(bool(M) A, bool(N) B) -> (O) { O(i, j) +=! 2 where i in 0:M + 1, j in 1:N }""",
    "strided writes of an empty range": """
        def f(float(N) A, float(M) B) -> (O, P) {
          O(2 * i) = A(i)  P(2 * i - 3, j) +=! B(i) where j in 0:2 }""",
    "literals that wrap in a cast": """
        def f(int16(N) A) -> (O, P, Q) {
          O(i) = uint8(-3) / A(i)  P(i) = int32(uint8(-3)) + A(i)
          Q(i) = A(i) + int64(int8(200)) + uint16(70000) }""",
    "a product added to a buffer of any layout": """
        def f(float(M,K) A, float(K,N) B) -> (O) { O(m,n) += A(m,k) * B(k,n) }""",
    "rows whose points need two loops, size-generic": """
        def f(float(M) A, bool(N) B) -> (T, O) {
          T(j) = A(j) * A(0)  O(i, j, l) = T(j) + 1 where i in 0:N, l in 1:M + 1 }""",
    "unsigned sums": """
        def f(uint64(N) A, uint32(N) B) -> (O, P) {
          O(i, j) +=! A(p) * A(j) where i in 2:N  P(i) min=! B(p) * B(q + 1) where i in 2:N }""",
}


def assert_right(trial: Trial | None) -> Trial:
    assert trial is not None
    assert not trial.faults, trial.text + "\n" + "\n".join(trial.faults)
    return trial


@sampled("name", FOUND, keep=2)
@sampled("seed", range(2), keep=1)
def test_what_was_wrong_once_is_right(name: str, seed: int) -> None:
    assert_right(run_text(FOUND[name], seed, calls=8))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("def f(float(N,N) A) -> (O) { O(j) +=! A(q,j) * A(j,p) }", True),
        ("def f(float(N) A, float c) -> (O) { O +=! -A(i) / c }", True),
        ("def f(float(I,J) A, float(J,K) B, float(K) C) -> (O) { O(i) +=! A(i,j) * B(j,k) * C(k) }",
         True),
        ("def f(float(M,K) A, float(K,N) B) -> (O) { O(m,n) +=! A(m,k) * B(k,n) }", False),
        ("def f(float(N) A, float(M) B) -> (O) { O(i,j) = A(i) * B(j) }", False),
        ("def f(int32(N) A, int32 c) -> (O) { O +=! A(i) * c }", False),
    ],
)  # fmt: skip
def test_which_sums_may_be_products_of_sums(text: str, expected: bool) -> None:
    assert distributes(check(parse(text))) is expected


CHUNK = 5  # programs in a wide test


@sampled("first, count", [(0, 1), *((n, CHUNK) for n in range(0, 30, CHUNK))], keep=1, wide=3)
def test_random_programs_give_what_the_reference_gives(first: int, count: int) -> None:
    trials = [
        assert_right(t) for s in range(first, first + count) if (t := run_program(s, calls=4))
    ]
    assert sum(t.exact for t in trials) >= len(trials)  # most calls are held to the bit


@pytest.mark.deep
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("first", range(10_000, 11_000, 100))
def test_many_random_programs_give_what_the_reference_gives(first: int) -> None:
    for seed in range(first, first + 100):
        if trial := run_program(seed, calls=8):
            assert_right(trial)
