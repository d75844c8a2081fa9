"""The comparison of an output with the reference."""

from __future__ import annotations

import numpy as np
import pytest

from tcdsl.autotune.targets.compare import difference
from tcdsl.autotune.worker.case import Expected


def floats(*values: float) -> Expected:
    return Expected(np.array(values), None, 1e-6, 1e-6)


@pytest.mark.parametrize(
    ("got", "wanted"),
    [
        ([1.0, np.nan], [1.0, np.nan]),
        ([np.inf, -np.inf], [np.inf, -np.inf]),
        ([1.0 + 5e-7, 2.0], [1.0, 2.0]),
        ([], []),
    ],
)
def test_equal_answers_have_no_difference(got: list[float], wanted: list[float]) -> None:
    assert difference(np.array(got, np.float32), floats(*wanted)) is None


@pytest.mark.parametrize(
    ("got", "wanted", "text"),
    [
        ([1.0, 2.5], [1.0, 2.0], "expected 2.0 at (1), got 2.5; 1 of 2"),
        ([1.0, np.nan], [1.0, 2.0], "expected 2.0 at (1), got nan"),
        ([1.0, 2.0], [1.0, np.nan], "expected nan at (1), got 2.0"),
        ([np.inf, 2.0], [1e30, 2.0], "got inf"),
        ([1e30, 2.0], [np.inf, 2.0], "expected inf"),
        ([np.inf, 2.0], [-np.inf, 2.0], "expected -inf"),
    ],
)
def test_a_difference_says_where_it_is_largest(
    got: list[float], wanted: list[float], text: str
) -> None:
    assert text in str(difference(np.array(got, np.float32), floats(*wanted)))


def test_integers_have_to_be_equal_and_bools_to_be_0_or_1() -> None:
    whole = Expected(np.array([1, 2]), None, 5.0, 5.0)
    assert difference(np.array([1, 2], np.int32), whole) is None
    assert "expected 2 at (1), got 3" in str(difference(np.array([1, 3], np.int32), whole))
    truth = Expected(np.array([True, False]), None, 0, 0)
    assert difference(np.array([1, 0], np.uint8).view(np.bool_), truth) is None
    assert difference(np.array([2, 0], np.uint8).view(np.bool_), truth) is not None


def test_a_difference_at_chosen_positions_names_the_element() -> None:
    got = np.zeros((100, 50), np.float32)
    got[7, 9] = 1
    chosen = Expected(np.zeros(3), np.array([0, 7 * 50 + 9, 4999]), 0.0, 0.0)
    assert "at (7, 9), got 1.0" in str(difference(got, chosen))
