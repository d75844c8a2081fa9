"""Subscripts mean what NumPy's mean: values, views, gradients, what is written."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tcdsl import library as tc
from tests.tiers import sampled

pytestmark = pytest.mark.cc

SHAPE = (4, 3, 5)
ROWS = np.array([3, 0, -1])
GRID = np.array([[0, 2], [1, -1]])
MASK = np.arange(12).reshape(4, 3) % 3 == 0
KEYS: list[Any] = [
    0,
    -1,
    np.s_[1:3],
    np.s_[:, 1],
    np.s_[..., 2],
    np.s_[::2, None, 1:, ::3],
    np.s_[1, 2, 3],
    np.s_[3:1],
    ROWS,
    GRID,
    np.s_[:, GRID],
    np.s_[ROWS, :, GRID[:, :1]],
    np.s_[1, ROWS[:2] - 1],
    np.s_[:, ROWS - 1, 1],
    MASK,
    np.s_[MASK, 0],
    [2, 0],
    np.s_[None, ROWS, ..., None],
    np.zeros(SHAPE, bool),
]


def ours(key: Any) -> Any:
    """Return a key whose arrays are tensors."""
    if isinstance(key, tuple):
        return tuple(map(ours, key))
    return tc.tensor(key) if isinstance(key, np.ndarray) else key


NUMBERED = [pytest.param(key, id=str(i)) for i, key in enumerate(KEYS)]


@sampled("key", NUMBERED, keep=4, wide=7)
def test_elements_and_gradients(key: Any) -> None:
    array = np.arange(60.0).reshape(SHAPE)
    x = tc.tensor(array, requires_grad=True)
    y = x[ours(key)]
    expected = array[key]
    np.testing.assert_array_equal(y.detach().numpy(), expected)
    weights = np.arange(1.0, expected.size + 1).reshape(expected.shape)
    (y * tc.tensor(weights)).sum().backward()
    counted = np.zeros(SHAPE)
    np.add.at(counted, key, weights)
    np.testing.assert_array_equal(x.grad.numpy(), counted)


@sampled("key", NUMBERED, keep=4, wide=7)
def test_what_is_written(key: Any) -> None:
    array = np.arange(60.0).reshape(SHAPE)
    x = tc.tensor(array)
    x[ours(key)] = -1.0
    expected = array.copy()
    expected[key] = -1
    np.testing.assert_array_equal(x.numpy(), expected)
    values = 100 + np.arange(float(expected[key].size)).reshape(expected[key].shape)
    x[ours(key)] = tc.tensor(values)
    expected[key] = values
    np.testing.assert_array_equal(x.numpy(), expected)


def test_views_share_memory_and_versions() -> None:
    x = tc.zeros(3, 4)
    x[1:, 2] = 5.0
    row = x[2]
    row += 1
    assert x.tolist() == [[0, 0, 0, 0], [0, 0, 5, 0], [1, 1, 6, 1]]
    assert row._version == x._version


def test_writing_is_recorded() -> None:
    x = tc.ones(4, requires_grad=True)
    v = tc.ones(2, requires_grad=True)
    y = x * 1
    y[tc.tensor([0, 2])] = v * 3
    (y * tc.tensor([1.0, 2.0, 3.0, 4.0])).sum().backward()
    assert x.grad.tolist() == [0, 2, 0, 4]
    assert v.grad.tolist() == [3, 9]


@pytest.mark.parametrize(
    ("key", "error", "words"),
    [
        (4, IndexError, "index 4 is out of bounds for dimension 0 with size 4"),
        ((0, 0, 0, 0), IndexError, "too many indices for tensor of dimension 3"),
        (0.5, IndexError, "only integers, slices"),
        (np.s_[::-1], ValueError, "step must be greater than zero"),
        (np.ones((4, 2), bool), IndexError, "The shape of the mask"),
        (np.array([0, 7]), IndexError, "7"),
    ],
)
def test_wrong_subscripts(key: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words.replace("(", r"\(")):
        tc.zeros(SHAPE)[ours(key)]


PARTS = """
0 | 1: | :, 1 | :, None | None, 0 | 0, 1: | ..., 0 | : | :, : | ... | 1:, None | :, ::2, 0 | -1
""".strip()


@pytest.mark.parametrize("key", PARTS.split(" | "))
def test_a_subscript_is_recorded_under_pytorchs_name(key: str) -> None:
    torch = pytest.importorskip("torch")
    found, wanted = (
        eval(f"x[{key}]", {"x": t.ones(4, 3, 5, requires_grad=True)}).grad_fn for t in (tc, torch)
    )
    assert found.name() == wanted.name()


def test_a_part_is_written_from_another_part_of_the_same_memory() -> None:
    x = tc.arange(6.0).reshape(2, 3)
    x[:, 2:] = x[:, :1]
    assert x.tolist() == [[0, 1, 0], [3, 4, 3]]


def test_a_list_of_anything_but_numbers_is_a_subscript_for_each_dimension() -> None:
    torch = pytest.importorskip("torch")
    keys: list[Callable[[Any], Any]] = [
        lambda t: [[0, 1], [1, 0]],
        lambda t: [[0, 1]],
        lambda t: [t.tensor([0, 1]), t.tensor([1, 0])],
        lambda t: [0, t.tensor(1)],
        lambda t: [t.tensor(2)],
        lambda t: [(0, 1), 2],
        lambda t: [[True, False, True]],
        lambda t: [np.array([0, 1])],
        lambda t: [[]],
        lambda t: [0] * 40,
        lambda t: [[0]] * 33,
        lambda t: (..., 1, ...),
    ]
    for key in keys:
        found = []
        for t in (tc, torch):
            x = t.arange(12.0).view(3, 4)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)
                seen = x[key(t)]
                x[key(t)] = -1.0
            found.append((seen.tolist(), x.tolist()))
        assert found[0] == found[1]
    x, bytes_ = tc.ones(2, 2), tc.ones(2, dtype=tc.uint8)
    told: tuple[tuple[Any, str], ...] = (
        ([[0, 1], [1, 0]], "Using a non-tuple sequence for multidimensional"),
        (bytes_, "indexing with dtype torch.uint8"),
    )
    for key, words in told:
        with pytest.warns(UserWarning, match=words) as seen:
            x[key]
        with pytest.warns(UserWarning, match=words) as written:
            x[key] = 1
        assert {w.filename for w in [*seen, *written]} == {__file__}  # the line of whoever asked
