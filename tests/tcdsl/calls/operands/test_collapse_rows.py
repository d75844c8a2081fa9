"""Collapsed operands along rows are walked at the same points, rows being rows."""

from __future__ import annotations

import itertools
from collections import Counter
from math import prod

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tcdsl.calls.operands.collapse import in_c_order
from tcdsl.calls.operands.collapse_rows import RowView, collapsed_rows
from tcdsl.codegen.machine.spec import Layout
from tcdsl.codegen.program.rowwise import Kind

Points = tuple[tuple[int, ...], ...]
W: Kind = "whole"
KEPT: Kind = "kept"
ROW: Kind = "row"


def rows(
    extents: tuple[int, ...], kept: int, operands: list[tuple[int, ...]], *, is_ordered: bool
) -> Counter[Points]:
    """Return where the points of each row lie in all operands; sorted, if they have no order."""

    def places(at: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(sum(i * s for i, s in zip(at, strides, strict=True)) for strides in operands)

    found: Counter[Points] = Counter()
    for row in itertools.product(*map(range, extents[:kept])):
        points = [places((*row, *at)) for at in itertools.product(*map(range, extents[kept:]))]
        found[tuple(points if is_ordered else sorted(points))] += 1
    return found


STEPS = st.sampled_from([-6, -2, -1, 0, 1, 2, 3, 6, 12])


@given(st.data())
def test_the_same_rows_are_met(data: st.DataObject) -> None:
    extents = tuple(data.draw(st.lists(st.integers(0, 4), min_size=1, max_size=4)))
    kept = data.draw(st.integers(0, len(extents) - 1))
    inputs = data.draw(st.lists(st.tuples(*(STEPS for _ in extents)), max_size=3))
    operands = [*inputs, in_c_order(extents)]
    ordered = data.draw(st.booleans())
    view = collapsed_rows(extents, kept, operands, [W] * len(operands), is_ordered=ordered)
    assert prod(view.extents) == prod(extents)
    if prod(extents):
        here = rows(view.extents, view.kept, list(view.strides), is_ordered=ordered)
        assert here == rows(extents, kept, operands, is_ordered=ordered)
    for layout, steps in zip(view.layouts, view.strides, strict=True):
        assert layout.unit is None or steps[layout.unit] == 1 or view.extents[layout.unit] == 1
        assert all(steps[d] == 0 for d in layout.zeros)
        assert not view.is_dense or layout.unit is not None


@pytest.mark.parametrize(
    ("shape", "row", "extents", "kept", "is_dense"),
    [
        ((6,), (0,), (6,), 0, True),
        ((5, 6), (1,), (5, 6), 1, True),
        ((5, 6), (0,), (1, 6, 5), 2, True),
        ((4, 5, 6), (2,), (20, 6), 1, True),
        ((4, 5, 6), (1, 2), (4, 30), 1, True),
        ((4, 5, 6), (1,), (4, 6, 5), 2, True),
        ((4, 5, 6), (0, 1), (1, 6, 20), 2, True),
        ((4, 5, 6), (0, 2), (5, 4, 6), 1, True),
        ((4, 5, 3), (1,), (4, 3, 5), 2, False),  # too few rows for a vector: one after the other
        ((1, 1, 6), (2,), (1, 6), 1, True),
        ((4, 1, 1), (2,), (1, 4, 1), 2, True),
        ((1, 1), (1,), (1, 1), 1, True),
    ],
)
def test_sums_of_dense_arrays_have_one_of_few_forms(
    shape: tuple[int, ...],
    row: tuple[int, ...],
    extents: tuple[int, ...],
    kept: int,
    is_dense: bool,
) -> None:
    found = sums(np.empty(shape, np.float32), row)
    assert (found.extents, found.kept, found.is_dense) == (extents, kept, is_dense)


def sums(x: np.ndarray, row: tuple[int, ...]) -> RowView:
    steps = tuple(s // 4 for s in x.strides)
    outer = [d for d in range(x.ndim) if d not in row]
    out = dict(zip(outer, in_c_order([x.shape[d] for d in outer]), strict=True))
    order = [*outer, *row]
    operands = [tuple(steps[d] for d in order), tuple(out.get(d, 0) for d in order)]
    at = [x.shape[d] for d in order]
    return collapsed_rows(at, len(outer), operands, [W, KEPT], is_ordered=False)


def test_layouts_say_what_is_known_of_the_dimension_that_is_walked() -> None:
    x = np.empty((4, 5, 6), np.float32)
    along, across = Layout(2, False, 1), Layout(1, False, None)
    assert sums(x, (2,)).layouts == (along, across)
    assert sums(x[..., ::2], (2,)).layouts == (Layout(2, False, None), across)
    assert sums(np.broadcast_to(x[..., :1], x.shape), (2,)).layouts[0].zeros == (1,)
    assert sums(x, (1,)).layouts == (Layout(3, False, 1), Layout(2, False, 1))
    few = sums(np.empty((4, 5, 2), np.float32), (1,))
    assert few.layouts == few.any_layouts == (Layout(3, False, None), Layout(2, False, None))
    turned = collapsed_rows((5, 6), 1, [(1, 5), (6, 1)], [W, W], is_ordered=True)
    assert turned.layouts == (Layout(2, False, 0), Layout(2, False, 1))
    assert not turned.is_dense


def test_transposed_arrays_are_sorted() -> None:
    x = np.empty((5, 6), np.float32)
    assert sums(x.T, (0,)) == sums(x, (1,))
    assert sums(x.T, (0, 1)).extents == (30,)
    ordered = collapsed_rows((6, 5), 0, [(1, 6), (0, 1)], [W, ROW], is_ordered=True)
    assert ordered.extents == (6, 5)
