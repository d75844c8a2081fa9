"""Long products in pairs where that is less work; what all terms share behind their sum."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tcdsl.codegen.choose.nominal import nominal_sizes
from tcdsl.codegen.gradient.vjp import gradient
from tcdsl.codegen.program.pairs import in_pairs
from tcdsl.codegen.program.program import Program
from tcdsl.codegen.program.ssa import program_of
from tcdsl.grammar.check.definition import check
from tcdsl.grammar.text.parser import parse
from tests.codegen.harness import Array, Case, Problem, differential, problem, run_cases
from tests.codegen.pages import between_pages
from tests.cusim.harness import differential as on_gpu
from tests.tiers import sampled

RNG = np.random.default_rng(77)
CHAIN = "def f(T(I,J) A, T(J,K) B, T(K,L) C) -> (O) { O(i, l) +=! A(i, j) * B(j, k) * C(k, l) }"


def floats(*shape: int) -> Array:
    return RNG.normal(size=shape).astype(np.float32)


def whole_numbers(*shape: int) -> Array:
    return RNG.integers(-3, 4, shape).astype(np.float32)


def split(text: str, **sizes: int) -> list[str]:
    """Return the statements of a definition at some sizes, without ranges."""
    program = program_of(check(parse(text.replace("T(", "float("))))
    return statements(program, sizes)


def statements(program: Program, sizes: dict[str, int], *, exact: bool = False) -> list[str]:
    at = {**dict(nominal_sizes(program)), **sizes}
    made = in_pairs(program, tuple(at.items()), tuple(sizes.items()) if exact else ())
    return [s.text.partition(" where")[0] for s in made.statements]


def test_the_order_follows_from_the_sizes() -> None:
    left = split(CHAIN, I=10, J=900, K=900, L=900)
    right = split(CHAIN, I=900, J=900, K=900, L=10)
    assert left[0] == "O.pair(i, k) +=! A(i, j) * B(j, k)", left
    assert right[0] == "O.pair(j, l) +=! B(j, k) * C(k, l)", right
    assert len(left) == len(right) == 2
    assert split(CHAIN, I=3, J=3, K=3, L=3) == [CHAIN[CHAIN.index("{") + 2 : -2]]


@pytest.mark.parametrize(
    ("text", "count"),
    [
        # of each the least work: every factor of the core in turn; both sums of an outer product
        (
            "def f(float(A,B,C) G, float(I,A) U, float(J,B) V, float(K,C) W) -> (O) "
            "{ O(i, j, k) +=! G(a, b, c) * U(i, a) * V(j, b) * W(k, c) }",
            3,
        ),
        ("def f(float(I,J) A, float(K,L) B) -> (O) { O(i, l) +=! A(i, j) * B(k, l) }", 3),
        (
            "def f(float(A,A) W) -> (O) { O(i, q) +=! " +
            " * ".join(f"W({a}, {b})" for a, b in zip("ijklmnop", "jklmnopq", strict=True)) + " }",
            7,
        ),
        # no product of some factors only has fewer points than all have
        ("def f(float(I,J) A, float(I,J) B, float(I,J) C) -> (O) "
         "{ O(i) +=! A(i, j) * B(i, j) * C(i, j) }", 1),
    ],
)  # fmt: skip
def test_each_product_has_two_factors(text: str, count: int) -> None:
    assert len(split(text)) == count


def test_gradients_share_products() -> None:
    gradient_text = gradient(check(parse(CHAIN.replace("T(", "float(")))).text
    made = split(gradient_text)
    assert len(made) == 5, made  # of three products with three factors each


# The first product has fewer terms; the last one fewer results, of which all products are there.
RANGES = """def f(T(N,N) A, T(N,N) B, T(N,N) C) -> (T(N,N) O, T(N,N) P, T(N,N) Q) {
    O(i,l) +=! A(i,j) * B(j,k) * C(k,l) where j in 0:32
    P(i,l) +=! A(i,j) * B(j,k) * C(k,l)
    Q(i,l) +=! A(i,j) * B(j,k) * C(k,l) where i in 0:32 }"""


def test_products_over_other_points_are_not_shared() -> None:
    made = split(RANGES, N=64)
    assert sum("pair" in line.partition("=")[0] for line in made) == 2, made


@pytest.mark.wide
@pytest.mark.cc
def test_products_over_other_points_have_their_own_results() -> None:
    p = problem(RANGES.replace("T(", "float("), *(floats(64, 64) for _ in "ABC"))
    differential([Case(p, exact) for exact in (True, False)], terms=4000)


# Of L = 0 a call checks nothing: then A may have less than 32 columns.
PART = """def f(float(I,J) A, float(J,K) B, float(K,L) C) -> (float(I,L) O) {
    O(i,l) +=! A(i,j) * B(j,k) * C(k,l) where j in 0:32 }"""


def test_what_exists_at_the_sizes_of_an_executable_is_split() -> None:
    program = program_of(check(parse(PART)))
    at = {"I": 900, "J": 64, "K": 900, "L": 9}
    assert len(statements(program, at, exact=True)) == 2
    assert len(statements(program, at)) == 1
    assert len(split(PART.replace("L)", "I)"), I=900, J=64, K=900)) == 1


@pytest.mark.cc
def test_what_a_call_without_points_lacks_is_not_read() -> None:
    p = problem(PART, floats(9, 0), floats(0, 40), floats(40, 0))
    with between_pages(p, "after") as guarded:
        differential([Case(guarded, exact) for exact in (True, False)])


def test_what_data_decides_stays_whole() -> None:
    text = """def f(float(I,J) A, int32(J) X, float(K,L) B, float(L,M) C) -> (O) {
        O(i, m) +=! A(i, j) * B(X(j), l) * C(l, m)
    }"""
    assert len(split(text)) == 1


TEXTS = [
    CHAIN,
    "def f(T(I,R) A, T(J,R) B, T(K,R) C) -> (O) { O(i, j, k) +=! A(i, r) * B(j, r) * C(k, r) }",
    "def f(T(I,J,K) A, T(J,R) B, T(K,R) C) -> (O) { O(i, r) +=! A(i, j, k) * B(j, r) * C(k, r) }",
    """def f(T(I,J) A, T(J,K) B, T(K,L) C) -> (T(I,L) O) {
        O(i, l) = C(0, l) where i in 0:I
        O(i, l) += exp(A(i, j)) * B(j, k) * C(k, l) * B(j, 0)
    }""",
    """def f(T(I,J) A, T(J,K) B, T(K,L) C) -> (T(3,I,L) O) {
        for t in 0:3 { O(t, i, l) +=! A(i, j) * B(j, k) * C(k, l) }
    }""",
    "def f(T(I,J) A, T(J,K) B, T(K,L) C) -> (O) { O(l, i) +=! A(i, j) * B(j, k+1) * C(k, l) }",
    "def f(T(I,J) A, T(J,K) B, T(K,L) C) -> (O) { O(i) +=! A(i, j) * B(j, k) * C(k, l) }",
]


def _case(text: str, dtype: str, at: tuple[int, int, int, int]) -> Problem:
    i, j, k, n = at
    numbers: Any = {"float": floats, "double": floats, "float16": whole_numbers}.get(
        dtype, whole_numbers
    )
    shapes: list[tuple[int, ...]] = [(i, j), (j, k), (k, n)]
    if "J,R" in text:
        shapes = [(i, j, k) if "J,K) A" in text else (i, n), (j, n), (k, n)]
    return problem(text.replace("T(", f"{dtype}("), *(numbers(*s) for s in shapes))


@pytest.mark.cc
@sampled("exact", [True, False], keep=1)
def test_a_chain_has_the_results_of_one_statement(exact: bool) -> None:
    p = _case(CHAIN, "float", (37, 70, 45, 33))
    differential([Case(p, exact)], terms=4000)


@pytest.mark.cc
@sampled("text", TEXTS, keep=0, wide=3)
def test_results_are_those_of_one_statement(text: str) -> None:
    cases = []
    for dtype in ("float", "int32"):
        if dtype == "int32" and "exp" in text:
            continue
        for at in ((37, 70, 45, 33), (67, 90, 40, 50), (1, 2, 2, 1), (5, 0, 4, 3)):
            cases += [Case(_case(text, dtype, at), exact) for exact in (True, False)]
    differential(cases, terms=4000)


@pytest.mark.deep
@pytest.mark.cc
@pytest.mark.parametrize("text", TEXTS[:3])
def test_results_in_other_types(text: str) -> None:
    cases = [
        Case(_case(text, dtype, (40, 70, 45, 33)), exact=True)
        for dtype in ("double", "float16", "bfloat16", "int8", "uint64")
    ]
    differential(cases, terms=4000)


@pytest.mark.cusim
@pytest.mark.deep
def test_pairs_on_a_gpu() -> None:
    on_gpu(_case(CHAIN, "float", (33, 40, 37, 35)))


SCALED = "def f(T(M,K) A, T(K,M) B, T(M) s) -> (O) { O(i, j) +=! s(i) * A(i, k) * B(k, j) }"
SHARED = [
    "-(s(i) * A(i, k) * B(k, j))",
    "2.0 * A(i, k) * B(k, j)",
    "A(i, k) * B(k, j) / s(j) / 3",
    "rsqrt(s(i)) * A(i, k) * exp(B(k, j))",
]


@pytest.mark.wide
@pytest.mark.cc
@pytest.mark.parametrize("value", SHARED)
def test_what_all_terms_share_stands_behind_the_sum(value: str) -> None:
    head = "def f(float(M,K) A, float(K,M) B, float(M) s) -> (float(M,M) O) { "
    first = "O(i, j) = s(j) where i in 0:M  "
    cases = []
    for body in (f"O(i, j) +=! {value} }}", f"{first}O(i, j) += {value} }}"):
        for m, k in ((21, 17), (1, 1), (4, 0)):
            p = problem(head + body, floats(m, k), floats(k, m), np.abs(floats(m)) + 1)
            names = [s.target for s in p.program.statements]
            assert "O_sum" in names, names
            cases += [Case(p, exact) for exact in (True, False)]
    differential(cases, terms=100)


@pytest.mark.cc
@sampled("exact", [False, True], keep=1)
def test_a_sum_without_terms_is_0_whatever_stands_behind_it(exact: bool) -> None:
    text = SCALED.replace("T(", "float(")
    s = np.array([np.inf, np.nan, 1], np.float32)
    p = problem(text, floats(3, 0), floats(0, 3), s)
    ((got,),) = run_cases([Case(p, exact)])
    np.testing.assert_array_equal(got, np.zeros((3, 3), np.float32))


@pytest.mark.deep
@pytest.mark.cc
def test_scaled_integers_wrap_as_their_terms_do() -> None:
    text = (
        "def f(int8(M,K) A, int8(K,M) B, int8(M) s) -> (O) { O(i, j) +=! s(i) * A(i, k) * B(k, j) }"
    )
    some = [RNG.integers(-128, 128, n).astype(np.int8) for n in ((9, 13), (13, 9), (9,))]
    differential([Case(problem(text, *some), exact) for exact in (True, False)])
