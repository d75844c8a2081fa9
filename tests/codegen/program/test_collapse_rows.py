"""Which programs run along rows, and what all their ranks share."""

from __future__ import annotations

import pytest

from tcdsl.codegen.program.collapse_rows import at_ranks, rowwise_of
from tcdsl.codegen.program.program import Program
from tcdsl.codegen.program.rowwise import Rowwise
from tcdsl.codegen.program.ssa import program_of
from tcdsl.grammar.check.definition import check
from tcdsl.grammar.text.parser import parse


def program(text: str) -> Program:
    return program_of(check(parse(text), "f"))


MEANS = {
    "the last of two": "def f(float(M,N) A) -> (O) { S(i) +=! A(i, k)  O(i) = S(i) / N }",
    "the first of two": "def f(float(N,M) A) -> (O) { S(i) +=! A(k, i)  O(i) = S(i) / N }",
    "a square's": "def f(float(N,N) A) -> (O) { S(i) +=! A(i, k)  O(i) = S(i) / N }",
    "one of three": "def f(float(L,N,M) A) -> (O) { S(a,b) +=! A(a, k, b)  O(a,b) = S(a,b) / N }",
    "two of three": "def f(float(L,M,N) A) -> (O) { S(i) +=! A(k, i, l)  O(i) = S(i) / (L * N) }",
    "kept as one": "def f(float(M,N) A) -> (O) { S(i, 0) +=! A(i, k)  O(i, 0) = S(i, 0) / N }",
}


def test_all_ranks_and_dimensions_share_one_program() -> None:
    programs = {name: program(text) for name, text in MEANS.items()}
    found = {name: rowwise_of(p) for name, p in programs.items()}
    assert len({r.key for r in found.values() if r is not None}) == 1
    assert {name: r and (r.kept, r.places, r.is_ordered) for name, r in found.items()} == {
        "the last of two": (1, ((0, 1), (0,)), True),
        "the first of two": (1, ((1, 0), (0,)), True),
        "a square's": (1, ((0, 1), (0,)), True),
        "one of three": (2, ((0, 2, 1), (0, 1)), True),
        "two of three": (1, ((1, 0, 2), (0,)), False),
        "kept as one": (1, ((0, 1), (0, None)), True),
    }
    for kept, row, text in (
        (1, 1, "O(i0) = S(i0) / float32(K0)"),
        (2, 1, "O(i0, i1) = S(i0, i1) / float32(K0)"),
        (1, 2, "O(i0) = S(i0) / float32(K0*K1)"),
    ):
        moved = {at_ranks(p, kept, row) for p in programs.values()}
        assert [p.statements[1].text.replace(" * ", "*") for p in moved] == [text]
        assert len({p.text for p in moved}) == 1


@pytest.mark.parametrize(
    "text",
    [
        "def f(float(N,M) A) -> (o) { o +=! A(i, i) }",
        "def f(float(N,N) A, float(N,M) B) -> (O) { S(i) +=! B(i, k)  O(i) = S(i) * A(i, i) }",
        "def f(float(L,N,M) A) -> (O) { O(a) max=! A(a, k, k) }",
    ],
)
def test_diagonals_do_not_collapse(text: str) -> None:
    assert rowwise_of(program(text)) is None


def test_results_of_no_dimension_stay_so() -> None:
    moved = at_ranks(program("def f(float(M,N) A) -> (O) { O +=! A(i, j) }"), 1, 1)
    assert moved.text == "def f(float32(K0) A) -> (O) {\n  O +=! A(k0)\n}"
    found = rowwise_of(moved)
    assert found is not None
    assert found.kept == 0


def test_operands_have_the_dimensions_that_they_are_repeated_along_or_are_rows() -> None:
    text = """
    def f(float(B,H,Q,K) X, float(Q,K) M, float(K) w, float(H) s, int32(B) unread) -> (Y) {
      T(b, h, q) max=! X(b, h, q, k) * s(h) + M(q, k)
      Y(b, h, q, k) = (X(b, h, q, k) - T(b, h, q)) * w(k) where exists unread(b)
    }"""
    bound = program(text)
    found = rowwise_of(bound)
    assert isinstance(found, Rowwise)
    assert found.places == ((0, 1, 2, 3), (2, 3), (3,), (1,), None, (0, 1, 2, 3))
    assert at_ranks(bound, 2, 1).text.splitlines() == [
        "def f(float32(D0, D1, K0) X, float32(D0, D1, K0) M, float32(K0) w, float32(D0, D1) s, "
        "int32(K0) unread) -> (Y) {",
        "  T(i0, i1) max=! X(i0, i1, k0) * s(i0, i1) + M(i0, i1, k0)",
        "  Y(i0, i1, k0) = (X(i0, i1, k0) - T(i0, i1)) * w(k0)",
        "}",
    ]


def test_the_number_of_a_point_is_a_value_where_rows_keep_their_order() -> None:
    bound = program("def f(float(M,L,N) A) -> (O) { O(j) argmax=! A(i, j, k) }")
    found = rowwise_of(bound)
    assert found is not None
    assert found.is_ordered
    assert found.places == ((1, 0, 2), (0,))
    text = "def f(float(M,N) A, int32(N) I) -> (O) { O(i, j) = I(j) == i ? A(i, j) : 0.0 }"
    bound = program(text)
    assert rowwise_of(bound) is not None
    assert at_ranks(bound, 1, 1).statements[0].text == "O(i0, k0) = I(i0) == k0 ? A(i0, k0) : 0.0"


def test_what_is_computed_once_a_row_says_what_a_row_is() -> None:
    text = "def f(float(N,M) A, float(M) b) -> (O) { T(i) = exp(b(i))  O(j, i) = A(j, i) * T(i) }"
    found = rowwise_of(program(text))
    assert found is not None
    assert (found.kept, found.places) == (1, ((1, 0), (0,), (1, 0)))


@pytest.mark.parametrize(
    "text",
    [
        "def f(float(N) A) -> (O) { O(i) = A(i) }",  # no row
        "def f(float(N) A, float(M,L) B) -> (O, P) { O(i) = A(i)  P(i, j) = B(i, j) }",
        "def f(float(M,N) A) -> (S, R) { S(i) +=! A(i, k)  R(k) +=! A(i, k) }",  # two directions
        "def f(float(M,N) A) -> (O) { S(i) +=! A(i, k)  O(i) = S(i) / M }",
        "def f(float(M,N) A) -> (O) { S(i) +=! A(i, k)  O(i) = S(i) / (N * N) }",
        "def f(float(M,N) A) -> (O) { O(i) +=! A(i, k) * float(i) }",
        "def f(float(M,N,L) A) -> (O) { O(i) +=! A(i, k, l) * float(k) }",
        "def f(float(N,N) A) -> (O) { O(i) +=! A(i, k) + A(k, i) }",
        "def f(float(M,N) A) -> (O) { O(i) +=! A(i, k) + A(i, 0) }",
        "def f(float(M,N) A) -> (O) { O(i) +=! A(i, k) where k in 1:N }",
        "def f(float(M,N) A) -> (O) { O(i) +=! A(i, k) where k in 0:i+1 }",
        "def f(float(M,N) A) -> (O) { S(i) +=! A(i, k) where k in 0:N-1  O(i) = S(i) / N }",
        "def f(float(M,N) A) -> (O) { O(i) +=! pad(A(i, k - 1), 0) where k in 0:N }",
        "def f(float(M,3) A) -> (O) { O(i) +=! A(i, k) }",  # a constant extent
        "def f(float(M,K) A, float(K,N) B) -> (O) { O(m, n) +=! A(m, k) * B(k, n) }",
        "def f(float(M,K) A, float(K) b) -> (O) { O(m) +=! A(m, k) * b(k) }",
        "def f(float(M,N) A) -> (O) { O(i) +=! A(i, k)  for t in 0:3 { O(i) = 2 * O(i) } }",
        "def f(float(N) A, float(1) b) -> (O) { O +=! A(k) + b(0) }",
        "def f(float(M,K) A, float(N,K) B) -> (O) {"  # register tiles of differences
        " O(m,n) +=! (A(m,k) - B(n,k)) * (A(m,k) - B(n,k)) }",
        "def f(float(M,K) A, float(N,K) B) -> (O) { O(m,n) +=! abs(A(m,k) - B(n,k)) }",
    ],
)
def test_what_is_no_program_along_rows_is_not_collapsed(text: str) -> None:
    assert rowwise_of(program(text)) is None


def test_what_keeps_what_a_result_held_goes_on_from_it() -> None:
    bound = program("def f(float(M,N) A) -> (O) { O(i, 0) +=! A(i, k)  O(i, 0) += A(i, k) }")
    moved = at_ranks(bound, 1, 1)
    assert [s.base for s in moved.statements] == [None, "O"]
    assert moved.statements[1].resumes
