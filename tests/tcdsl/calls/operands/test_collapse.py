"""Collapsed operands are walked at the same points, all of them together."""

from __future__ import annotations

import itertools
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tcdsl.calls.operands.collapse import View, collapsed, in_c_order


def met(box: tuple[int, ...], operands: tuple[tuple[int, ...], ...]) -> Counter[tuple[int, ...]]:
    """Return where the points of a box lie in all operands."""
    points = itertools.product(*map(range, box))
    return Counter(
        tuple(sum(i * s for i, s in zip(at, strides, strict=True)) for strides in operands)
        for at in points
    )


STEPS = st.sampled_from([-6, -2, -1, 0, 1, 2, 3, 6, 12])


@given(st.data())
def test_the_same_points_are_met(data: st.DataObject) -> None:
    box = tuple(data.draw(st.lists(st.integers(0, 4), max_size=4)))
    inputs = data.draw(st.lists(st.tuples(*(STEPS for _ in box)), max_size=3))
    dense = in_c_order(data.draw(st.permutations(box)))
    out = dense if data.draw(st.booleans()) else in_c_order(box)
    operands = (*inputs, out)
    view = collapsed(box, operands, 1)
    assert met(view.extents, view.strides) == met(box, operands) or np.prod(box) <= 1
    assert view.is_flat == (len(view.extents) == 1)
    if view.is_flat:
        assert all(s == (1,) for s in view.strides)


@pytest.mark.parametrize(
    ("box", "operands", "extents"),
    [
        ((), [(), ()], (1,)),
        ((1, 1), [(7, 9), (1, 1)], (1,)),
        ((3, 0), [(0, 5), (0, 1)], (0,)),
        ((2, 3, 4), [(12, 4, 1), (12, 4, 1)], (24,)),
        ((2, 1, 4), [(4, 99, 1), (4, 4, 1)], (8,)),
        ((3, 4), [(1, 3), (1, 3)], (12,)),  # column-major
        ((2, 3, 4), [(1, 8, 2), (1, 8, 2)], (24,)),  # any order that all share
        ((3, 4), [(5, 1), (4, 1)], (1, 1, 3, 4)),  # padded
        ((3, 4), [(0, 1), (4, 1)], (1, 1, 3, 4)),  # repeated
        ((2, 3, 4), [(0, 0, 1), (12, 4, 1)], (1, 1, 6, 4)),
        ((2, 3, 4), [(0, 4, 1), (12, 4, 1)], (1, 1, 2, 12)),
        ((12,), [(2,), (1,)], (1, 1, 1, 12)),
        ((2,) * 5, [(32, 16, 8, 4, 2)] * 2, (1, 1, 1, 32)),
        ((7, 5, 6), [(1, 49, 7), (30, 6, 1)], (1, 5, 7, 6)),  # turned around: squares of 7 x 6
        ((3, 5, 6), [(1, 49, 7), (30, 6, 1)], (1, 3, 5, 6)),  # too few neighbours
        ((7, 5, 6), [(1, 7, 0), (30, 6, 1)], (1, 7, 5, 6)),  # repeated along rows
        ((7, 5, 6), [(1, 49, 7), (9, 1, 63), (30, 6, 1)], (1, 7, 5, 6)),  # one is turned as it is
        ((2,) * 5, [(99, 40, 19, 9, 2), (16, 8, 4, 2, 1)], (1, 1, 1, 2, 2, 2, 2, 2)),
    ],
)
def test_as_few_dimensions_are_left_as_strides_allow(
    box: tuple[int, ...], operands: list[tuple[int, ...]], extents: tuple[int, ...]
) -> None:
    found = collapsed(box, operands, 1)
    assert found.extents == extents
    assert isinstance(found, View)
