"""Rules: entries of new extents that the launcher makes itself."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tcdsl.codegen import runtime
from tests.codegen.runtime.conftest import Kernels, form

pytestmark = pytest.mark.cc

X0, X1 = (1, 1, 1, 0), (1, 1, 1, 1)
SAME = (0, 2, 1, 1, 0, -1, 1, 1)  # x0 - x1 is 0


def installed(kernels: Kernels, n: int, *rule: int) -> runtime.Launcher:
    """Return C(n) = A(n) + B(n), called with n elements and a rule."""
    k, a = kernels.add1(), np.ones(n, np.float32)
    entry = runtime.Entry(
        kernels.address("add1"), (n,), (form(a), form(a)), ((a.dtype, (n,), None),), (),
        kernels.library,
    )  # fmt: skip
    k.install(entry, (a, a), None, None, rule)
    return k


def test_a_rule_gives_entries_of_other_extents(kernels: Kernels) -> None:
    k = installed(kernels, 5, 0, 1, *SAME, *X0, *X0)
    for n in (7, 100, 5, 2, 7):
        a = np.arange(n, dtype=np.float32)
        np.testing.assert_array_equal(k(a, a), 2 * a)
    assert not kernels.misses
    others: tuple[Any, ...] = (
        np.ones(1, np.float32), np.ones(0, np.float32), np.ones(8, np.float32)[::2],
    )  # fmt: skip
    for a in others:
        assert (k(a, a) == 2).all()
    k(a, a, out=np.ones(4, np.float32))
    assert len(kernels.misses) == 4, "of another kind"
    k.clear()
    k(np.ones(9, np.float32), np.ones(9, np.float32))
    assert len(kernels.misses) == 5


@pytest.mark.parametrize(
    ("number", "value"),
    [
        ((1, 3, 0), 3),
        ((2, 2, 2, 0, 0, -43, 0), 55),  # 2 * x0 ** 2 - 43
        ((1, 1, 1, -1, *X0, 1, 2, 0), 3),  # x0 / 2
        ((1, 1, 1, -1, 1, -1, 1, 0, 1, 2, 0), -4),  # -x0 / 2, rounded down
        ((1, 1, 1, -2, 1, -1, 1, 0, 1, 4, 0), 1),  # -x0 % 4
        ((1, 1, 1, -2, *X0, 1, -4, 0), -1),
        ((1, 1, 1, -1, *X0, 1, -1, 0), -7),
        ((1, 1, 1, -2, *X0, 1, -1, 0), 0),
        ((1, 1, 1, -1, *X0, 0), 0),  # by 0
        ((1, 1, 1, -3, *X0, 1, 4, 0), 4),  # the least
        ((1, 1, 1, -4, *X0, 1, 4, 0), 7),
    ],
)
def test_numbers_are_what_the_language_says(
    kernels: Kernels, number: tuple[int, ...], value: int
) -> None:
    wanted = (number[0] + 1, *number[1:], -value, 0)
    installed(kernels, 7, 0, 1, 0, *wanted, *X0, *X0)
    with pytest.raises(ValueError, match="does not give the entry"):
        installed(kernels, 7, 0, 1, 1, *wanted, *X0, *X0)


@pytest.mark.parametrize(
    ("numbers", "has_room"),
    [
        ((1, 1 << 51, 0, 1, *X0, 1), False),  # 7 * 2 ** 51
        ((1, 1 << 49, 0, 1, *X0, 1), True),
        ((1, 1 << 49, 0, 1, *X0, 8), False),  # what counts as 8
        ((1, 1 << 49, 0, 1, 0, 0), True),  # of none
        ((1, 1 << 40, 0, 1, 1, 1 << 40, 0, 1), False),
    ],
)
def test_an_array_has_room(kernels: Kernels, numbers: tuple[int, ...], has_room: bool) -> None:
    rule = 0, 1, 5, 2, *numbers, *X0, *X0
    if has_room:
        installed(kernels, 7, *rule)
    else:
        with pytest.raises(ValueError, match="does not give the entry"):
            installed(kernels, 7, *rule)


@pytest.mark.parametrize(
    "rule",
    [
        (),
        (0, 1, 5, 9, 1, 1, 0, 1, *X0, *X0),
        (0, 0),
        (0, 0, *X0),
        (0, 0, *X0, *X0, 0),
        (0, 0, *X0, 1, 1, 1, 2),
        (0, 0, *X0, 1, 1, 1, -9),
        (0, 0, *X0, 1, 6, 0),
        (0, 0, 1, 1 << 62, 2, 0, 0, *X0),
        (0, 1 << 60, *X0, *X0),
        (1, 0, *X0, *X0),
    ],
)
def test_a_rule_that_is_none_is_refused(kernels: Kernels, rule: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="does not give the entry"):
        installed(kernels, 7, *rule)


def test_rules_are_bounded_and_conditions_tell_them_apart(kernels: Kernels) -> None:
    k = installed(kernels, 5, 0, 1, *SAME, *X0, *X0)
    for n in range(2, 200):  # each for one extent
        a = np.ones(n, np.float32)
        entry = runtime.Entry(
            kernels.address("add1"), (n,), (form(a), form(a)), ((a.dtype, (n,), None),), (),
            kernels.library,
        )  # fmt: skip
        k.install(entry, (a, a), None, None, (0, 1, 0, 2, 1, 1, 0, -n, 0, *X0, *X0))
    for n in range(2, 300):
        a = np.ones(n, np.float32)
        assert (k(a, a) == 2).all()
