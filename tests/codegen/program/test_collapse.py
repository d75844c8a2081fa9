"""Which programs are free of rank, and what all their ranks share."""

from __future__ import annotations

import pytest

from tcdsl.codegen.program.collapse import at_rank, pointwise_of
from tcdsl.codegen.program.pointwise import Pointwise
from tcdsl.codegen.program.program import Program
from tcdsl.codegen.program.ssa import program_of
from tcdsl.grammar.check.definition import check
from tcdsl.grammar.ranks.ellipsis import bind_ranks
from tcdsl.grammar.text.parser import parse


def program(text: str, *shapes: tuple[int, ...]) -> Program:
    parsed = parse(text)
    if shapes:
        bound = bind_ranks(parsed, "f", shapes)
        parsed = parsed.__class__((bound,))
    return program_of(check(parsed, "f"))


ADD = "def f(float(...) A, float(...) B) -> (O) { O(...) = A(...) + B(...) }"


def test_all_ranks_and_repetitions_share_one_program() -> None:
    shapes = [((4,), (4,)), ((3, 4), (4,)), ((3, 1), (1, 4)), ((2, 3, 4), (2, 1, 4))]
    found = [pointwise_of(program(ADD, *s)) for s in shapes]
    assert len({p.key for p in found if p is not None}) == 1
    assert [p.places for p in found if p is not None] == [
        ((0,), (0,), (0,)),
        ((0, 1), (1,), (0, 1)),
        ((0, None), (None, 1), (0, 1)),
        ((0, 1, 2), (0, None, 2), (0, 1, 2)),
    ]
    texts = {at_rank(program(ADD, *s), 2).text for s in shapes}
    assert texts == {
        "def f(float32(D0, D1) A, float32(D0, D1) B) -> (O) {\n"
        "  O(i0, i1) = A(i0, i1) + B(i0, i1)\n}"
    }
    assert len({at_rank(program(ADD, *s), 3) for s in shapes}) == 1


def test_another_program_has_another_key() -> None:
    texts = [
        ADD,
        ADD.replace("+", "*"),
        ADD.replace("float(...) B", "double(...) B"),
    ]
    found = [pointwise_of(program(t, (4,), (4,))) for t in texts]
    found.append(pointwise_of(program(ADD, (4,), ())))  # a number
    assert len({p.key for p in found if p is not None}) == 4


@pytest.mark.parametrize(
    "text",
    [
        "def f(float(N) A) -> (O) { O(i) = A(N - 1 - i) }",
        "def f(float(N) A) -> (O) { O(i) = A(i) * float(i) }",
        "def f(float(N) A) -> (O) { O(i) = A(i) / float(N) }",
        "def f(float(N) A) -> (O) { O(i) = i > 3 ? A(i) : 0.0 }",
        "def f(float(N) A) -> (O) { O(i) = A(i) + pad(A(i + 1), 0) }",
        "def f(float(N) A) -> (O) { O(i) = A(i) + A(2) }",
        "def f(float(N,N) A) -> (O) { O(i, j) = A(i, j) + A(j, i) }",
        "def f(float(N,N) A) -> (O) { O(i) = A(i, i) }",
        "def f(float(N) A, int32(N) I) -> (O) { O(i) = A(I(i)) }",
        "def f(float(N) A) -> (O) { O(i + 1) = A(i) }",
        "def f(float(N,M) A) -> (O) { O(i) +=! A(i, j) }",
        "def f(float(N) A, int32 k) -> (O) { O(i) = A(i) where i in 0:N - k }",
        "def f(float(N,M) A) -> (S, O) { S(i) +=! A(i, j)  O(i, j) = A(i, j) - S(i) }",
        "def f(float(N,M) A, float(N) B) -> (T, O) { T(i) = exp(B(i))  O(i, j) = A(i, j) * T(i) }",
        "def f(float(N) A, int32 T) -> (O) { O(i) = A(i)  for t in 0:T { O(i) = 2 * O(i) } }",
    ],
)
def test_what_hangs_on_its_place_or_neighbours_is_not_collapsed(text: str) -> None:
    assert pointwise_of(program(text)) is None


def test_statements_over_one_box_collapse_together() -> None:
    text = """
    def f(float(N,M) A, float(M) B, float c, int32(M,N) S) -> (O, P) {
      T(i, j) = sqrt(A(i, j)) + c
      O(i, j) = T(i, j) * exp(B(j)) + B(j)
      P(i, j) = O(i, j) / T(i, j) where exists S(j, i)
    }"""
    bound = program(text)
    found = pointwise_of(bound)
    assert isinstance(found, Pointwise)
    # S is not read; T is of A, O of A and B, and exp(B) alone
    assert found.places == ((0, 1), (1,), (), None, (0, 1), (0, 1))
    assert found.costly == ((0,), (1,))
    moved = at_rank(bound, 1)
    assert [s.text for s in moved.statements] == [
        "T(i0) = sqrt(A(i0)) + c",
        "O(i0) = T(i0) * exp(B(i0)) + B(i0)",
        "P(i0) = O(i0) / T(i0)",
    ]
    assert pointwise_of(moved) is not None


def test_names_of_sizes_and_indices_are_none_of_the_tensors() -> None:
    found = at_rank(program("def f(float(N) D0, float(N) i0) -> (D1) { D1(i) = D0(i) + i0(i) }"), 2)
    assert found.sizes == ("D0_", "D1_")
    assert found.statements[0].text == "D1(i0_, i1) = D0(i0_, i1) + i0(i0_, i1)"
