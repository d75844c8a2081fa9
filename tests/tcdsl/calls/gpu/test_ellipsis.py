"""Definitions of any rank on arrays of a GPU: ranks and repetition choose the variant there too."""

from __future__ import annotations

import numpy as np
import pytest

import tcdsl as tc
from tcdsl.grammar.text.errors import ShapeError
from tests.tcdsl.calls.gpu.sim import SimDevice

pytestmark = pytest.mark.cusim

ADD = "def add(float(...) A, float(...) B) -> (C) { C(...) = A(...) + B(...) }"


def test_ranks_and_repeated_dimensions_differ_between_calls(device: SimDevice) -> None:
    add = tc.define(ADD, tune="off")
    assert isinstance(add, tc.Kernel)
    a = np.arange(12, dtype=np.float32).reshape(3, 4)
    for b in (a, a[:, :1], a[0], a[0]):  # the last is found by its look
        got = add(device.array(a), device.array(np.ascontiguousarray(b)))
        np.testing.assert_array_equal(got.get(), a + b)
    np.testing.assert_array_equal(add(device.array(a), 2.0).get(), a + 2)
    with pytest.raises(ShapeError, match=r"expected B of shape \(D0, D1\) with D0 = 3"):
        add(device.array(a), device.array(np.ones((2, 4), np.float32)))
