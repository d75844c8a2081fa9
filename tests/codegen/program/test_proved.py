"""Checks of reads that hold at known sizes are gone, others stay and are made."""

from __future__ import annotations

import numpy as np
import pytest

from tcdsl.codegen.program.proved import proved
from tcdsl.grammar.text.errors import BoundsError
from tests.codegen.harness import Array, Case, Problem, differential, problem, run_cases

RNG = np.random.default_rng(5)


def floats(*shape: int) -> Array:
    return RNG.normal(size=shape).astype(np.float32)


def rows(body: str, n: int, m: int) -> Problem:
    text = f"def f(float(N,L) X, float(L) c, int32(N) k) -> (float(N) Z) {{ {body} }}"
    return problem(text, floats(n, m), floats(m), np.arange(n, dtype=np.int32))


def checks(p: Problem, *, known: bool) -> int:
    program = proved(p.program, tuple(p.sizes.items())) if known else p.program
    return sum(sum(r.checked) for s in program.statements for r in s.reads())


@pytest.mark.parametrize(
    ("body", "n", "m", "count"),
    [
        ("Z(i) +=! X(i, j) where i in 0:N, j in 0:i + 1", 5, 5, 0),
        ("Z(i) +=! X(i, j) where i in 0:N, j in 0:i + 1", 5, 9, 0),
        ("Z(i) +=! X(i, j) where i in 0:N, j in 0:i + 1", 5, 4, 1),  # the last row leaves it
        ("Z(i) +=! X(i, j) * c(j) where i in 0:N, j in 0:i", 5, 4, 0),
        ("Z(i) +=! X(i, j) * c(j) where i in 0:N, j in 0:i + 2", 5, 5, 2),
        ("Z(i) +=! X(i, j) * c(j + i) where i in 0:N, j in 0:i + 1", 5, 9, 0),
        ("Z(i) +=! X(i, j) * c(j + i) where i in 0:N, j in 0:i + 1", 5, 8, 1),
        ("Z(i) = X(i, k(i)) where i in 0:N", 5, 9, 1),  # data
    ],
)
def test_checks_that_hold_are_gone(body: str, n: int, m: int, count: int) -> None:
    p = rows(body, n, m)
    assert checks(p, known=False) >= max(1, count)
    assert checks(p, known=True) == count


def test_what_a_call_says_is_not_known() -> None:
    body = "Z(i) +=! X(i, j) where i in 0:N, j in 0:i + m"
    text = f"def f(float(N,L) X, int32 m) -> (float(N) Z) {{ {body} }}"
    p = problem(text, floats(5, 9), np.int32(3))
    assert checks(p, known=True) == checks(p, known=False) == 1


@pytest.mark.cc
def test_they_are_the_references_and_others_raise() -> None:
    inside = "Z(i) +=! X(i, j) * c(j) where i in 0:N, j in 0:i"
    differential([Case(rows(inside, n, m), True) for n, m in ((7, 6), (7, 20), (1, 1))], terms=8)
    with pytest.raises(BoundsError):
        run_cases([Case(rows(inside, 7, 5), True)])
