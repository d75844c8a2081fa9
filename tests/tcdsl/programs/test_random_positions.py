"""`rand(seed, ...)`: numbers by the position of a point in dimensions of any number."""

from __future__ import annotations

import numpy as np
import pytest

import tcdsl as tc
from tcdsl.grammar.text.errors import TCError
from tests.tcdsl.differential import reference

NOISE = "def noise(float(...) X, uint64 seed) -> (Y) { Y(...) = X(...) + rand(seed, ...) }"
ROW = "def row(float(N) X, uint64 seed) -> (Y) { Y(i) = X(i) + rand(seed, i) }"


@pytest.mark.cc
def test_numbers_go_by_the_row_major_position() -> None:
    noise, row = (tc.define(text, tune="off") for text in (NOISE, ROW))
    want = row(np.zeros(30, np.float32), 7)
    for shape in ((30,), (5, 6), (2, 3, 5), (2, 1, 15), (30, 1), (1, 1)):
        x = np.zeros(shape, np.float32)
        np.testing.assert_array_equal(noise(x, 7).ravel(), want[: x.size])
        bound = noise.with_shapes(shape, ()).variant().checked
        np.testing.assert_array_equal(
            reference(bound, [x, np.uint64(7)])[0].ravel(), want[: x.size]
        )
    assert noise(np.float32(0), 7) == want[0]
    assert noise(np.zeros((0, 3), np.float32), 7).shape == (0, 3)


@pytest.mark.cc
def test_repeated_dimensions_count_as_long_as_they_become() -> None:
    text = (
        "def mask(float(...) a, float(..., N) b, uint64 s) -> (y)"
        " { y(..., j) = a(...) + b(..., j) * rand(s, ...) }"
    )
    mask, row = tc.define(text, tune="off"), tc.define(ROW, tune="off")
    y = mask(np.zeros((3, 1), np.float32), np.ones((2, 1, 5, 4), np.float32), 3)
    want = row(np.zeros(30, np.float32), 3).reshape(2, 3, 5, 1)
    np.testing.assert_array_equal(y, np.broadcast_to(want, (2, 3, 5, 4)))


@pytest.mark.cc
def test_elements_of_a_batch_have_the_same_numbers_or_their_own() -> None:
    noise = tc.define(NOISE, tune="off")
    x = np.zeros((3, 2, 4), np.float32)
    same = noise.batched(X=0)(x, 7)
    np.testing.assert_array_equal(same, np.broadcast_to(noise(x[0], 7), x.shape))
    own = noise.batched({"X": 0}, randomness="different")
    assert np.unique(own(x, 7)).size == x.size
    again = tc.define(own.source, own.name, tune="off")
    np.testing.assert_array_equal(again(x, 7), own(x, 7))


def test_gradients_keep_the_numbers() -> None:
    text = (
        "def drop(float(...) X, uint64 s) -> (Y) { Y(...) = X(...) * (rand(s, ...) < 0.5 ? 0 : 2) }"
    )
    back = tc.grad(tc.define(text).with_rank(2))
    assert "rand(s, i0 * D1 + i1) < 0.5" in back.source


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "def f(float(N) X, uint64 s) -> (Y) { Y(i) = X(i) * rand(s, ...) }",
            "error[TC190]: '...' of 'rand' stands for no dimensions",
        ),
        (
            "def f(float(...) X, uint64 s) -> (Y) { Y(...) = X(...) * rand(s, ..., 1) }",
            "error[TC190]: '...' of 'rand' is the last argument",
        ),
    ],
)
def test_dots_that_count_nothing_are_refused(text: str, message: str) -> None:
    with pytest.raises(TCError) as caught:
        tc.define(text)(np.ones(3, np.float32), 1)
    assert message in str(caught.value)
