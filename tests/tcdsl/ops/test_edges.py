"""Operations at their edges give PyTorch's values, types and gradients."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tcdsl import library, nn
from tcdsl.ops import pointwise
from tests.tiers import sampled

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.torch, pytest.mark.cc]

TIES = [0.0, 1.0, 2.0], [0.5, 1.0, 2.0]
CALLS: dict[str, Callable[[Any, Any], Any]] = {
    "distances of no columns are recorded": lambda t, x: t.cdist(x([[]]), x([[], []])),
    "nothing is combined by a recorded call": lambda t, x: t.ones(2, 3).scatter_reduce(
        0, t.zeros(0, 3, dtype=t.int64), x([[1.0, 2, 3]]), "amax"
    ),
    "attention by no features": lambda t, x: _functional(t).scaled_dot_product_attention(
        x([[[], []]]), x([[[], []]]), x([[[], []]])
    ),
    "an empty row that stands first is joined along any dimension": lambda t, x: t.cat(
        [t.zeros(0), x([[0.0, 1, 2], [3, 4, 5]]), t.ones(2, 1)], 1
    ),
    "the first of equals has the gradient of fmax": lambda t, x: t.fmax(x(TIES[0]), x(TIES[1])),
    "and of fmin": lambda t, x: t.fmin(x(TIES[0]), x(TIES[1])),
    "the slope of xlogy at 0": lambda t, x: t.xlogy(x(TIES[0]), x(TIES[1])),
    "counts of differences have the gradient 0": lambda t, x: t.cdist(
        x([TIES[0]]), x([TIES[1]]), 0
    ),
    "powers of 0 are 1 of what is no number": lambda t, x: t.vander(t.tensor([np.nan, 2]), 1),
    "powers of small integers": lambda t, x: t.vander(t.tensor([1, 9], dtype=t.int8), 4),
    "powers below the least float32 are 0": lambda t, x: t.vander(t.tensor([0.55]), 400)[:, :2],
    "no powers": lambda t, x: t.vander(t.ones(2), 0),
    "a number between integers": lambda t, x: t.searchsorted(t.tensor([1, 2, 3]), 2.5),
    "a number that no integer is": lambda t, x: t.isin(t.tensor([1, 2, 3]), 2.5),
    "no number of integers": lambda t, x: t.isin(2.5, t.tensor([1, 2, 3])),
    "choices of nothing": lambda t, x: t.combinations(t.ones(3), 0),
    "covariances of integers": lambda t, x: t.cov(t.tensor([[0, 1, 4], [2, 2, 3]])),
    "divisors of the least integers": lambda t, x: t.gcd(
        t.tensor([-128, -128, 0, -128], dtype=t.int8), t.tensor([-128, 0, -128, 64], dtype=t.int8)
    ),
    "divisors of the least integers of 32 bits": lambda t, x: t.gcd(
        t.tensor([-(2**31), 0, -(2**31)], dtype=t.int32),
        t.tensor([-(2**31), -(2**31), 8], dtype=t.int32),
    ),
    "means of windows whose places exceed int32": lambda t, x: _functional(t).adaptive_avg_pool1d(
        (t.arange(100003.0) % 7).view(1, 1, -1), 50001
    )[..., ::97],
    "what is no number is true": lambda t, x: t.zeros(2, dtype=t.bool).fill_(np.nan),
    "sums of a named type": lambda t, x: t.tensor([200, 100]).sum(0, dtype=t.uint8),
    "sums so far of a named type": lambda t, x: t.tensor([200, 100]).cumsum(0, dtype=t.uint8),
    "products so far of a named type": lambda t, x: t.tensor([20, 10]).cumprod(0, dtype=t.int32),
    "the type of a join counts what is empty": lambda t, x: t.cat([t.zeros(0), t.tensor([1, 2])]),
    "a bias of all columns": lambda t, x: (nn if t is library else t.nn).functional.linear(
        x([TIES[0]]), x([TIES[1], TIES[0]]), x([0.5])
    ),
    "roots of sums that are negative": lambda t, x: _functional(t).lp_pool1d(
        x([[-1.0, 0.5, 2, 0.25]]), 3, 2
    ),
    "slopes of roots that are no numbers": lambda t, x: _slope(
        lambda v: _functional(t).lp_pool1d(v, 1.5, 2), t.tensor([[-1.0, 0.5, 2, 0.25]])
    ),
    "the greatest and the least of windows": lambda t, x: t.cat(
        [_functional(t).lp_pool1d(x([[-3.0, 0.5, 2, 0.25]]), p, 2) for p in (math.inf, -math.inf)]
    ),
    "slopes of the greatest of windows": lambda t, x: _slope(
        lambda v: _functional(t).lp_pool2d(v, math.inf, 2), t.tensor([[[-3.0, 0.5], [2, 0.25]]])
    ),
    "norms of windows of integers": lambda t, x: _functional(t).lp_pool1d(
        t.arange(6).view(1, 6), 2, 2
    ),
    "margins of scores that are no numbers or infinite": lambda t, x: _functional(
        t
    ).multilabel_margin_loss(
        x([[0.5, np.nan, 2, 1], [np.inf, 1, -np.inf, 0.5], [3, 2, 1, 0.5], [1, 1, 0, 2]]),
        t.tensor([[1, 2, -1, 0], [2, 1, 1, -1], [-1, 0, 1, 2], [3, 3, 0, 1]]),
        reduction="none",
    ),
    "products of a named type": lambda t, x: t.tensor([20, 10]).prod(0, dtype=t.int16),
}


def _slope(call: Any, x: Any) -> Any:
    x.requires_grad_()
    call(x).sum().backward()
    return x.grad


def _functional(t: Any) -> Any:
    return (nn if t is library else t.nn).functional


@sampled("name", CALLS, keep=5)
def test_it_is_as_torchs(name: str) -> None:
    found = []
    for t in (library, torch):
        leaves: list[Any] = []

        def leaf(values: Any, t: Any = t, leaves: list[Any] = leaves) -> Any:
            leaves.append(t.tensor(values, requires_grad=True))
            return leaves[-1]

        made = CALLS[name](t, leaf)
        if leaves:
            made.sum().backward()
        arrays = [made.detach().numpy(), *(x.grad.numpy() for x in leaves)]
        found.append(arrays)
    for mine, theirs in zip(*found, strict=True):
        assert mine.dtype == theirs.dtype
        np.testing.assert_allclose(mine, theirs, rtol=1e-6)


@pytest.mark.wide
def test_places_at_the_edge_of_an_image_have_no_slope_and_nan_is_its_first_element() -> None:
    image = np.arange(1, 13, dtype=np.float32).reshape(1, 1, 3, 4)
    grid = np.array([[-1, -1], [1, 1], [1, 0.5], [0.25, -0.5], [2, -3]], np.float32)
    found = []
    for t, functional in ((library, nn.functional), (torch, torch.nn.functional)):
        place = t.tensor(grid.reshape(1, 1, 5, 2), requires_grad=True)
        made = functional.grid_sample(
            t.tensor(image), place, padding_mode="border", align_corners=True
        )
        made.sum().backward()
        found.append((made.detach().numpy(), place.grad.numpy()))
    for mine, theirs in zip(*found, strict=True):
        np.testing.assert_allclose(mine, theirs, atol=1e-5)
    nowhere = library.tensor([[[[np.nan, 1]]]])  # PyTorch's way back reads outside there
    made = nn.functional.grid_sample(
        library.tensor(image), nowhere, padding_mode="border", align_corners=True
    )
    assert made.item() == 9


def test_no_windows_of_an_image_have_no_greatest_elements() -> None:
    image = np.zeros((2, 3, 5), np.float32)
    made, places = nn.functional.adaptive_max_pool2d(
        library.tensor(image), (0, 2), return_indices=True
    )
    assert made.shape == places.shape == (2, 0, 2)


@pytest.mark.parametrize("length", [0, 1, 7, 40])
def test_windows_of_float64_are_pytorchs(length: int) -> None:
    for name in ("hann_window", "hamming_window"):
        for periodic in (False, True):
            mine, theirs = (
                getattr(m, name)(length, periodic, dtype=m.float64) for m in (library, torch)
            )
            np.testing.assert_allclose(mine.numpy(), theirs.numpy(), rtol=0, atol=1e-15)


SQUARE = [[1.0, np.nan, 3.0], [2.0, 2.0, -0.0], [3.0, 0.0, np.inf]]


@pytest.mark.parametrize(
    ("name", "made_by"),
    [
        ("eq_", lambda t: (t.tensor(SQUARE), t.tensor(SQUARE).t())),
        ("ne_", lambda t: (t.tensor(SQUARE)[:, ::2], t.tensor([1.0, 3.0]))),
        ("lt_", lambda t: (t.tensor([1, 2, 3]), 2.5)),
        ("ge_", lambda t: (t.tensor([1, 2, 3], dtype=t.uint8), t.tensor(2))),
        ("gt_", lambda t: (t.tensor([True, False]), t.tensor([False, False]))),
        ("gt_", lambda t: (t.tensor([0.1, 0.2], dtype=t.bfloat16), 0.15)),
        ("le_", lambda t: (t.tensor([1.0, 2.0], dtype=t.float16), t.tensor([1.5, 1.5]))),
        ("less_", lambda t: (t.tensor(1.0), t.tensor(2, dtype=t.int64))),
        ("not_equal_", lambda t: (t.zeros(0, 3), 1)),
        ("eq_", lambda t: (t.tensor(SQUARE, requires_grad=True) * 1, t.tensor(2.0))),
    ],
)
def test_comparisons_write_ones_in_the_type_of_their_target(
    name: str, made_by: Callable[[Any], tuple[Any, Any]]
) -> None:
    for _ in range(2):  # a form that is new, and one that is known
        found = []
        for module in (library, torch):
            x, other = made_by(module)
            before = x._version
            assert getattr(x, name)(other) is x
            assert x._version > before
            found.append((str(x.dtype).split(".")[-1], x.float().tolist(), x.requires_grad))
        assert found[0] == found[1]


def test_comparisons_refuse_shapes_that_the_target_has_not() -> None:
    for module in (library, torch):
        with pytest.raises(RuntimeError):
            module.ones(3).eq_(module.ones(2, 3))


@pytest.mark.parametrize(
    ("shape", "size"),
    [
        ((2, 3, 50), (3,)),
        pytest.param((2, 3, 7, 40), (5, 2), marks=pytest.mark.wide),
        pytest.param((2, 2, 5, 9, 50), (2, 3, 3), marks=pytest.mark.wide),
    ],
)
def test_long_windows_have_their_greatest_elements_where_pytorch_has_them(
    shape: tuple[int, ...], size: tuple[int, ...]
) -> None:
    image = np.random.default_rng(1).integers(0, 9, shape).astype(np.float32)  # with ties
    image[0, 0].flat[7] = np.nan
    image[1, 1] = -np.inf
    found = []
    for module in (library, torch):
        x = module.tensor(image, requires_grad=True)
        pool = getattr(_functional(module), f"adaptive_max_pool{len(size)}d")
        made, places = pool(x, size, return_indices=True)
        made.sum().backward()
        found.append((made.detach().numpy(), places.numpy(), x.grad.numpy()))
    for mine, theirs in zip(*found, strict=True):
        np.testing.assert_array_equal(mine, theirs)


@pytest.mark.parametrize(
    ("shape", "window"),
    [
        ((1, 2, 6), {"kernel_size": 2, "padding": 1}),
        pytest.param(
            (1, 2, 7),
            {"kernel_size": 3, "padding": 1, "dilation": 2, "stride": 1},
            marks=pytest.mark.wide,
        ),
        ((1, 3, 4, 5), {"kernel_size": (3, 5), "padding": (1, 2), "stride": 1, "dilation": (2, 1)}),
        pytest.param((1, 2, 3, 3, 4), {"kernel_size": 2, "padding": 1}, marks=pytest.mark.wide),
    ],
)
def test_windows_of_minus_infinity_have_their_first_place_in_the_image(
    shape: tuple[int, ...], window: dict[str, Any]
) -> None:
    image = np.full(shape, -np.inf, np.float32)
    image[0, 1, ..., 2] = 1
    found = []
    for module in (library, torch):
        x = module.tensor(image, requires_grad=True)
        pool = getattr(_functional(module), f"max_pool{len(shape) - 2}d")
        made, places = pool(x, return_indices=True, **window)
        weights = np.arange(1, made.numel() + 1, dtype=np.float32).reshape(made.shape)
        made.backward(module.tensor(weights))
        found.append((made.detach().numpy(), places.numpy(), x.grad.numpy()))
    for mine, theirs in zip(*found, strict=True):
        np.testing.assert_array_equal(mine, theirs)


BYTES: dict[str, dict[str, Any]] = {
    "cubic": {"size": (3, 9), "mode": "bicubic"},
    "cubic from end to end": {"size": (9, 4), "mode": "bicubic", "align_corners": True},
    "cubic by a factor": {"scale_factor": (1.7, 0.6), "mode": "bicubic"},
    "cubic means": {"size": (3, 8), "mode": "bicubic", "antialias": True},
    "linear": {"size": (11, 3), "mode": "bilinear"},
    "linear from end to end": {"size": (1, 9), "mode": "bilinear", "align_corners": True},
    "linear means": {"size": (2, 3), "mode": "bilinear", "antialias": True},
}


@sampled("how", BYTES, keep=2)
def test_images_of_bytes_are_resized_in_whole_numbers_as_pytorch_does(how: str) -> None:
    image = np.random.default_rng(3).integers(0, 256, (2, 3, 5, 7)).astype(np.uint8)
    image[0, 0] = 100
    mine, theirs = (
        _functional(t).interpolate(t.tensor(image), **BYTES[how]).numpy() for t in (library, torch)
    )
    np.testing.assert_array_equal(mine, theirs)
    assert mine.dtype == np.uint8
    assert (mine[0, 0] == 100).all()


def test_other_integers_are_not_weighed() -> None:
    for t in (library, torch):
        for dtype in (t.int8, t.int64):
            for how in ({"mode": "bicubic"}, {"mode": "bilinear", "antialias": True}):
                with pytest.raises(NotImplementedError, match="not implemented for"):
                    _functional(t).interpolate(t.ones(1, 1, 4, 4, dtype=dtype), size=3, **how)


@pytest.mark.parametrize("name", ["floor_divide", "minimum"])
def test_the_core_knows_calls_that_another_definition_serves(name: str) -> None:
    forms = getattr(library, name)
    whole, real = library.tensor([-7, 9, 4]), library.tensor([-7.0, 9.0, 4.0], requires_grad=True)
    by = library.tensor([2, -2, 5])
    core = (pointwise._div_floor if name == "floor_divide" else forms).forms.launcher
    forms(whole, by)
    runs = core.calls
    for _ in range(2):
        assert forms(whole, by).dtype is library.int64
        assert forms(real, by).requires_grad
    want = getattr(torch, name)(torch.tensor([-7, 9, 4]), torch.tensor([2, -2, 5]))
    assert forms(whole, by).tolist() == want.tolist()
    assert core.calls >= runs + 3  # of integers at least: all of them after the first


def test_what_is_empty_is_padded_by_numbers() -> None:
    for shape, widths in (((2, 0), (1, 2)), ((0,), (1, 0)), ((2, 0, 4), (1, 1))):
        mine, wanted = (
            f.pad(t.zeros(*shape), widths, value=2.0)
            for t, f in ((library, nn.functional), (torch, torch.nn.functional))
        )
        assert mine.tolist() == wanted.tolist()
