"""Orders beside PyTorch's: values are its own, places are places of these values."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

import tcdsl
from tests.tiers import sampled

torch = pytest.importorskip("torch")

tc: Any = tcdsl

pytestmark = [pytest.mark.torch, pytest.mark.cc]

Array = np.ndarray[Any, np.dtype[Any]]
TYPES = ("float32", "float16", "float64", "int64", "int32", "int8", "uint8")


def numbers(shape: tuple[int, ...], dtype: str) -> Array:
    """Return numbers with ties; a NaN and infinities among floats."""
    rng = np.random.default_rng(shape)
    found = rng.integers(0, 90, shape).astype(dtype)
    if found.dtype.kind == "f" and found.size > 3:
        found.flat[1], found.flat[2], found.flat[3] = np.nan, np.inf, -np.inf
    return found


def check(ours: Any, theirs: Any, of: Array, dim: int) -> None:
    values, places = ours.values.numpy(), ours.indices.numpy()
    np.testing.assert_array_equal(values, theirs.values.numpy())
    if of.ndim and places.ndim == of.ndim:
        np.testing.assert_array_equal(np.take_along_axis(of, places, dim), values)


@sampled("dtype", TYPES, keep=0, wide=3)
@pytest.mark.parametrize(("shape", "dim"), [((5,), 0), ((3, 700), 1), ((601, 2), 0), ((2, 0), 1)])
def test_the_first_of_an_order_are_torchs(shape: tuple[int, ...], dim: int, dtype: str) -> None:
    a = numbers(shape, dtype)
    x, t, n = tc.from_numpy(a), torch.from_numpy(a), shape[dim]
    for descending in (False, True):
        check(x.sort(dim, descending), t.sort(dim, descending), a, dim)
        for k in {0, min(1, n), min(100, n), n}:
            check(x.topk(k, dim, descending), t.topk(k, dim, descending), a, dim)
    if n:
        check(x.kthvalue(n // 2 + 1, dim), t.kthvalue(n // 2 + 1, dim), a, dim)
        check(x.median(dim), t.median(dim), a, dim)
        check(x.mode(dim), t.mode(dim), a, dim)


@pytest.mark.wide
@pytest.mark.parametrize("step", [1, 2])
def test_equal_elements_stay_in_order(step: int) -> None:
    minus_nan = np.array(0xFFC00001, np.uint32).view(np.float32)
    least = np.float32(1e-45)
    some = [0.0, -0.0, minus_nan, np.nan, -least, least, np.inf, -np.inf, -1.0, 1.0, 0.0, -0.0]
    a = np.array(some * 2, np.float32).repeat(step)
    x, t = tc.from_numpy(a)[::step], torch.from_numpy(a)[::step]
    for descending in (False, True):
        ours, theirs = (z.sort(dim=0, descending=descending, stable=True) for z in (x, t))
        np.testing.assert_array_equal(ours.indices.numpy(), theirs.indices.numpy())
        np.testing.assert_array_equal(
            ours.values.numpy().view(np.int32), theirs.values.numpy().view(np.int32)
        )
        for k in (1, 7, 16, 17):  # one after the other, and sorted
            found = x.topk(k, 0, descending)
            kept = ours.indices.numpy() if descending else x.sort(0).indices.numpy()
            np.testing.assert_array_equal(found.indices.numpy(), kept[:k])


@pytest.mark.wide
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("apart", [1, 10**9])  # counted, and sorted
def test_what_is_unique_is_torchs(dtype: str, apart: int) -> None:
    a = numbers((7, 60), dtype) - np.array(5, dtype)
    if a.dtype.itemsize == 8:
        a *= np.array(apart, dtype)
    x, t = tc.from_numpy(a), torch.from_numpy(a)
    for asked in ((False, False), (True, False), (False, True), (True, True)):
        ours, theirs = (of(z, True, *asked) for of, z in ((tc.unique, x), (torch.unique, t)))
        both = zip(ours, theirs, strict=True) if any(asked) else [(ours, theirs)]
        for mine, other in both:
            assert str(mine.dtype) == str(other.dtype)
            np.testing.assert_array_equal(mine.numpy(), other.numpy())


@pytest.mark.parametrize("shape", [(7, 3), (2, 9, 2), (6, 0), (0, 2), (5,)])
@sampled("dtype", ["float32", "int64", "bool"], keep=1)
def test_parts_that_are_unique_are_torchs(dtype: str, shape: tuple[int, ...]) -> None:
    a = (np.random.default_rng(1).random(shape) * 2).astype(dtype)
    for dim in range(-1, len(shape) - 1):
        if 0 in shape[:dim] + shape[dim + 1 or len(shape) :]:
            for lib in (tc, torch):
                with pytest.raises(RuntimeError, match="they aren't selected, so unique cannot be"):
                    lib.from_numpy(a).unique(dim=dim)
            continue
        ours, theirs = (
            z.unique(return_inverse=True, return_counts=True, dim=dim)
            for z in (tc.from_numpy(a), torch.from_numpy(a))
        )
        for mine, other in zip(ours, theirs, strict=True):
            assert str(mine.dtype) == str(other.dtype)
            np.testing.assert_array_equal(mine.numpy(), other.numpy())


@pytest.mark.wide
@sampled("dtype", ["float32", "int64", "uint8", "float64"], keep=1)
def test_the_middle_and_the_most_frequent_are_torchs(dtype: str) -> None:
    a = np.random.default_rng(1).integers(0, 5, (3, 9)).astype(dtype)
    if a.dtype.kind == "f":
        a[0] *= np.array(-0.5, dtype)
        a[1, 4] = np.nan
    x, t = tc.from_numpy(a), torch.from_numpy(a)
    np.testing.assert_array_equal(x.median().numpy(), t.median().numpy())
    for dim in (0, 1):
        check(x.median(dim), t.median(dim), a, dim)
        check(x.kthvalue(2, dim), t.kthvalue(2, dim), a, dim)
    whole = tc.from_numpy(a[[0, 2]]), torch.from_numpy(a[[0, 2]])
    for dim in (0, 1):
        check(whole[0].mode(dim), whole[1].mode(dim), a[[0, 2]], dim)


@sampled("count", [201, 1, 2, 199], keep=1)  # sought by two bits, and bit for bit
@sampled("dtype", ["float32", "float16", "int64", "uint8"], keep=1)
def test_middle_elements_are_torchs_at_any_length_and_stride(dtype: str, count: int) -> None:
    rng = np.random.default_rng(count)
    spread = 3 if count % 2 else 200  # with ties, and of both signs
    a = rng.integers(-spread, spread, (3, 2 * count)).astype(dtype)
    whole = a if a.dtype.kind != "f" else a * np.array(0.37, dtype)
    holed = whole.copy()
    if a.dtype.kind == "f":
        holed[1, ::4] = np.nan
        holed[2, :2] = -np.inf, np.inf
    for of in (whole, holed):
        x, t = tc.from_numpy(of)[:, ::2], torch.from_numpy(of)[:, ::2]
        for name in ("median", "nanmedian"):
            for row in range(3):
                ours, theirs = (getattr(z[row], name)() for z in (x, t))
                np.testing.assert_array_equal(ours.numpy(), theirs.numpy())
            for keepdim in (False, True):
                ours, theirs = (getattr(z, name)(1, keepdim) for z in (x, t))
                check(ours, theirs, of[:, ::2], 1)
                assert tuple(ours.indices.shape) == tuple(theirs.indices.shape)
            flipped = (getattr(z.t(), name)(0).values for z in (x, t))
            np.testing.assert_array_equal(*(z.numpy() for z in flipped))


def test_the_first_of_equal_middle_elements_is_found() -> None:
    for count in (5, 301):
        a = np.full(count, -0.0, np.float32)
        a[1::2] = 0
        assert tc.from_numpy(a).median(0).indices.item() == 0
        a[3:] = np.nan
        assert tc.from_numpy(a).median(0).indices.item() == 3
        assert tc.from_numpy(a[3:]).nanmedian(0).indices.item() == 0


def test_a_gradient_goes_where_the_values_came_from() -> None:
    a = numbers((601, 2), "int64").astype(np.float64)
    x = tc.from_numpy(a).requires_grad_()
    found = x.topk(3, 0)
    (found.values * tc.tensor([[1.0], [2.0], [3.0]]).double()).sum().backward()
    assert x.grad is not None
    expected = np.zeros_like(a)
    np.put_along_axis(expected, found.indices.numpy(), np.array([[1.0], [2.0], [3.0]]), 0)
    np.testing.assert_array_equal(x.grad.numpy(), expected)


@sampled(
    "name",
    ["max", "min", "sort", "topk", "kthvalue", "median", "mode", "cummax"],
    keep=3,
)
def test_results_print_as_torchs_and_are_pickled(name: str) -> None:
    how = (1, 0) if name in ("topk", "kthvalue") else (0,)
    made, wanted = (getattr(lib.tensor([3, 1, 2]), name)(*how) for lib in (tc, torch))
    assert repr(made) == repr(wanted)
    again = pickle.loads(pickle.dumps(made))
    assert type(again) is type(made)
    assert again.indices.tolist() == wanted.indices.tolist()


@sampled("dtype", ["float32", "float64", "float16"], keep=1)
def test_the_median_of_all_has_its_gradient_by_all_that_are_like_it(dtype: str) -> None:
    numbers = [[3.0, 1.0, 1.0], [2.0, 1.0, float("nan")]]
    for name, columns in (("median", 2), ("median", 3), ("nanmedian", 3)):
        found = []
        for t in (tc, torch):
            x = t.tensor(numbers, dtype=getattr(t, dtype), requires_grad=True)
            y = getattr(x[:, :columns], name)()
            (y * y).backward()
            found.append((str(y.item()), str(x.grad.tolist())))
        assert found[0] == found[1]


@pytest.mark.parametrize("name", ["median", "nanmedian"])
def test_the_median_of_all_keeps_what_its_gradient_asks_for_until_then(name: str) -> None:
    x = tc.arange(3.0).requires_grad_()
    y = x * 1
    found = getattr(tc, name)(y)
    y.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        found.backward()
    found = getattr(tc, name)(x)
    found.backward()
    with pytest.raises(RuntimeError, match="a second time"):
        found.backward()
    assert x.grad.tolist() == [0, 1, 0]


@pytest.mark.parametrize("dtype", ["float32", "float16", "int64", "uint8", "bool"])
def test_the_first_of_each_run_is_torchs_in_long_rows(dtype: str) -> None:
    for count, below in ((40_000, 2), (40_000, 90), (20_000, 1), (16_385, 200)):
        with np.errstate(invalid="ignore"):  # NaN as an integer
            row = (numbers((count,), "float32") % below).astype(dtype)
        ours, theirs = tc.from_numpy(row), torch.from_numpy(row)
        for step in (1, 2):
            np.testing.assert_array_equal(
                tc.unique_consecutive(ours[::step]).numpy(),
                torch.unique_consecutive(theirs[::step]).numpy(),
            )
    assert tc.unique_consecutive(tc.zeros(200, 100)).tolist() == [0]
