"""Outputs that are written over what elementwise programs read."""

from __future__ import annotations

import pytest

from tcdsl.codegen.program.inplace import inplace_pairs
from tcdsl.codegen.program.ssa import program_of
from tcdsl.grammar.check.definition import check
from tcdsl.grammar.text.parser import parse


def pairs(body: str) -> tuple[tuple[int, int], ...]:
    return inplace_pairs(program_of(check(parse(f"def f(float(N) A) -> (O, P) {{ {body} }}"))))


@pytest.mark.parametrize("value", ["T(i) + 3", "T(i) + O(i)", "U(i)"])
def test_what_is_computed_again_of_a_parameter_keeps_its_memory(value: str) -> None:
    # T may be put into P, which would read A behind O
    body = f"T(i) = 2 * A(i) U(i) = T(i) + 1 O(i) = A(i) + U(i) P(i) = {value}"
    assert pairs(body) == ((1, 0),)


def test_versions_of_a_return_may_be_computed_again() -> None:
    assert pairs("O(i) = A(i) + 1 O(i) = 2 * O(i) P(i) = O(i) + 1") == ((0, 0), (1, 0))
    assert pairs("T(i) = 2 * A(i) P(i) = T(i) * T(i) O(i) = T(i) + P(i)") == ((0, 0),)
