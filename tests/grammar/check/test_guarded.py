"""A range that nothing but a guarded read gives is told, with one that may have been meant."""

from __future__ import annotations

import re

import numpy as np
import pytest

from tcdsl.codegen.reference.evaluator import evaluate
from tcdsl.grammar.check.definition import check
from tcdsl.grammar.text.errors import render
from tcdsl.grammar.text.parser import parse
from tcdsl.grammar.types.typed import CheckedDef

HEAD = "def f(float(N) A, float(K) w) -> (O, P) {\n"


def made(body: str) -> CheckedDef:
    return check(parse(f"{HEAD}{body}  P(p) = w(p) + A(0) }}", "f.tc"))


def test_the_warning_names_the_index_and_the_read() -> None:
    (warning,) = made("O(i) = i > 0 ? A(i - 1) : 0.0").warnings
    assert render(warning) == (
        "f.tc:2:3: warning[TC154]: only a guarded read gives 'i' a range\n"
        "  |\n"
        "2 | O(i) = i > 0 ? A(i - 1) : 0.0  P(p) = w(p) + A(0) }\n"
        "  |   ^ runs from 1 to N\n"
        "  note: from what is read here, though a condition keeps it inside\n"
        "  |\n"
        "2 | O(i) = i > 0 ? A(i - 1) : 0.0  P(p) = w(p) + A(0) }\n"
        "  |                --------\n"
        "  note: for points at which that does not hold, write where i in 0:N + 1"
    )


GUARDED = [  # a value, the range that a guard alone gives, what is offered, the values then
    ("i > 0 ? A(i - 1) : 0.0", "1 to N", "0:N + 1", [0, 1, 2, 3]),
    ("i > 0 && i <= N ? A(i - 1) : 0.0", "1 to N", "0:N + 1", [0, 1, 2, 3]),
    ("i + 1 < N ? A(i + 1) : 0.0", "-1 to N - 2", "0:N", [2, 3, 0]),
    ("2 * i < N ? A(2 * i) : 9.0", "0 to (N + 1) / 2 - 1", "0:N", [1, 3, 9]),
    ("i < N ? A(i) : 0.0", "0 to N - 1", "0:N", [1, 2, 3]),
    ("i < 0 || i >= N ? 7.0 : A(i)", "0 to N - 1", "0:N", [1, 2, 3]),
    ("i < N && A(i) > 1 ? 1.0 : 0.0", "0 to N - 1", "0:N", [0, 1, 1]),
    ("i < N && A(i) > 1 ? w(0) : 0.0", "0 to N - 1", "0:N", [0, 5, 5]),
]


@pytest.mark.parametrize(("value", "runs", "offered", "wanted"), GUARDED)
def test_with_the_range_that_is_offered_all_points_are_there(
    value: str, runs: str, offered: str, wanted: list[float]
) -> None:
    (warning,) = made(f"O(i) = {value}").warnings
    assert (warning.code, warning.label) == ("TC154", f"runs from {runs}")
    found = re.search("write where (i in .*)$", warning.notes[-1].message)
    assert found is not None
    assert found[1] == f"i in {offered}"
    checked = made(f"O(i) = {value} where {found[1]}")
    assert not checked.warnings
    args = np.array([1.0, 2.0, 3.0], np.float32), np.array([5.0, 6.0], np.float32)
    assert evaluate(checked, args)[0].tolist() == wanted


@pytest.mark.parametrize(
    "body",
    [
        "O(i) = A(i) > 0 ? A(i) : 0.0",
        "O(i) = w(0) > 0 ? A(i) : 0.0",  # the condition says nothing of i
        "O(i) = i % 2 == 0 ? A(i) : 0.0",
        "O(i) = i > 0 ? A(i) - A(i - 1) : A(i)",
        "O(i) = i > 0 ? A(i - 1) : 0.0 where i in 0:N",
        "O(i) = i < N ? A(i) : w(i - N)",  # every point has one of both
        "O(i) +=! j < i ? A(j) * A(i) : 0.0",
        "O(i) +=! i + k >= 0 && i + k < N ? A(i + k) * w(k) : 0.0 where i in 0:N",
        "O(i) = pad(A(i), 0)",
    ],
)
def test_no_warning_where_something_else_bounds_the_index(body: str) -> None:
    assert not made(body).warnings


def test_a_declared_return_and_a_callee_are_told_once() -> None:
    text = "def f(float(N) A) -> (float(N) O) { O(i) = i > 0 ? A(i - 1) : 0.0 }"
    assert not check(parse(text)).warnings
    callee = "def g(float(N) x) -> (z) { z(i) = i > 0 ? x(i - 1) : 0.0 }\n"
    (warning,) = check(parse(f"{callee}def f(float(N) A) -> (O) {{ O = g(A) }}"), "f").warnings
    assert warning.code == "TC154"
