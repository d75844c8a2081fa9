"""Products whose output lays indices of both factors between each other, in two steps."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tcdsl.codegen.program.parted import parted
from tcdsl.codegen.program.ssa import program_of
from tcdsl.grammar.check.definition import check
from tcdsl.grammar.text.parser import parse
from tests.codegen.harness import Array, Case, Problem, differential, problem

RNG = np.random.default_rng(78)
MIXED = "def f(T(E,A,B) X, T(E,C,D) Y) -> (O) { O(c,a,d,b) +=! X(e,a,b) * Y(e,c,d) }"


def statements(text: str, **sizes: int) -> list[str]:
    program = program_of(check(parse(text.replace("T(", "float("))))
    return [s.text.partition(" where")[0] for s in parted(program, sizes, 64).statements]


def test_a_product_is_formed_apart_where_its_runs_are_short() -> None:
    small = {"E": 40, "A": 17, "B": 5, "C": 12, "D": 8}
    assert statements(MIXED, **small) == [
        "O.apart(c, d, a, b) +=! X(e, a, b) * Y(e, c, d)",
        "O(c, a, d, b) = O.apart(c, d, a, b)",
    ]
    assert len(statements(MIXED, **small | {"B": 300, "D": 200, "A": 2, "C": 2})) == 1
    assert len(statements(MIXED, **small | {"E": 1})) == 1


def test_a_product_whose_factors_are_read_as_they_lie_stays() -> None:
    text = "def f(T(M,A,K,Z) X, T(Y,K) W) -> (O) { O(m,a,y,z) +=! X(m,a,k,z) * W(y,k) }"
    sizes = {"M": 64, "A": 32, "K": 32, "Z": 16, "Y": 16}
    assert len(statements(text, **sizes)) == 1
    swapped = text.replace("X(m,a,k,z) * W(y,k)", "W(y,k) * X(m,a,k,z)")
    assert len(statements(swapped, **sizes)) == 1


@pytest.mark.parametrize(
    "text",
    [
        MIXED.replace("O(c,a,d,b)", "O(c,d,a,b)"),  # of one factor, then of the other
        MIXED.replace("O(c,a,d,b) +=!", "O(c,a,d,b) max=!"),
        MIXED.replace("X(e,a,b)", "X(e,a,b + 0 * a)").replace("E,A,B", "E,A,A"),
        MIXED.replace("T(", "int32("),
        MIXED.replace("-> (O)", "-> (T(C,A,D,B) O)").replace("+=!", "+="),
    ],
)
def test_what_is_no_such_product_of_floats_stays(text: str) -> None:
    assert len(statements(text, E=40, A=17, B=5, C=12, D=8)) == text.count("O(c,")


TEXTS = (
    MIXED,
    "def f(T(K,P,A,B) X, T(P,C,D,K) Y) -> (O) { O(a,p,c,b,d) +=! X(k,p,a,b) * Y(p,c,d,k) }",
    """def f(T(E,A,B) X, T(E,C,D) Y, T(B) z) -> (O) {
        O(c,a,d,b) +=! X(e,a,b) * Y(e,c,d)
        O(c,a,d,b) = fmax(O(c,a,d,b) + z(b), 0)
    }""",
    """def f(T(E,A,B) X, T(E,C,D) Y) -> (T(3,C,A,D,B) O) {
        for t in 0:3 { O(t,c,a,d,b) +=! X(e,a,b) * Y(e,c,d) }
    }""",
)


def _case(text: str, dtype: str, a: int, b: int, c: int, d: int, k: int) -> Problem:
    numpy_dtype = {"float": np.float32, "double": np.float64}.get(dtype, dtype)

    def numbers(*shape: int) -> Array:
        return RNG.integers(-4, 5, shape).astype(numpy_dtype)

    args: list[Any] = [numbers(k, a, b), numbers(k, c, d)]
    if "P" in text:
        args = [numbers(k, 3, a, b), numbers(3, c, d, k)]
    if "z" in text:
        args.append(numbers(b))
    return problem(text.replace("T(", f"{dtype}("), *args)


@pytest.mark.cc
@pytest.mark.parametrize("text", TEXTS)
def test_results_are_those_of_one_statement(text: str) -> None:
    p = _case(text, "float", 17, 5, 12, 8, 33)
    made = parted(p.program, p.sizes, 64)
    assert len(made.statements) == len(p.program.statements) + (made is not p.program)
    differential([Case(p, exact=True)], terms=33)


@pytest.mark.wide
@pytest.mark.cc
def test_of_every_type_and_of_nothing() -> None:
    types = ["double", "float16", "bfloat16", "int8", "int16", "int32", "int64", "uint8"]
    sizes = (0, 5, 6, 4, 40), (9, 5, 6, 4, 0), (1, 1, 1, 1, 1), (9, 1, 6, 4, 3)
    cases = [Case(_case(MIXED, t, 9, 5, 6, 4, 40), exact=True) for t in types]
    cases += [Case(_case(MIXED, "float", *at), exact=True) for at in sizes]
    nan = _case(MIXED, "float", 9, 5, 6, 4, 40)
    nan.args[0][3, 2, 1], nan.args[1][1, 1, 1] = np.nan, np.inf
    differential([*cases, Case(nan, exact=True)], terms=40)
