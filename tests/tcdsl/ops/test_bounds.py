"""Bounds that are tensors; numbers beside integers; parts of nothing, covariances of one row."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tcdsl
from tcdsl import library
from tcdsl.nn import functional

tc: Any = tcdsl  # names that are found when they are asked for
pytestmark = [pytest.mark.cc, pytest.mark.torch]

X = [1.0, 2.0, np.nan, -1.0, 0.5, 3.0]
LOW = [1.0, 1.0, 0.0, 0.0, 0.5, 4.0]
HIGH = [2.0, 1.0, 0.0, -0.5, 0.5, 3.0]
BOUNDS = {"min": (LOW, None), "max": (None, HIGH), "both": (LOW, HIGH), "upper below": (HIGH, LOW)}


def _clamped(lib: Any, low: Any, high: Any, *, in_place: bool) -> list[Any]:
    """Return a result and the gradients of all that it has."""
    leaves: list[Any] = [
        None if v is None else lib.tensor(v, requires_grad=True) for v in (X, low, high)
    ]
    x, *bounds = leaves
    z = x * 1
    made = z.clamp_(*bounds) if in_place else z.clamp(*bounds)
    (made * lib.arange(1.0, 7.0)).sum().backward()
    return [made.tolist(), *(t.grad.tolist() for t in leaves if t is not None)]


@pytest.mark.parametrize("bounds", BOUNDS)
def test_tensors_bound_with_pytorchs_numbers_and_gradients(bounds: str) -> None:
    import torch

    for in_place in (False, True):
        np.testing.assert_array_equal(
            _clamped(library, *BOUNDS[bounds], in_place=in_place),
            _clamped(torch, *BOUNDS[bounds], in_place=in_place),
        )


@pytest.mark.parametrize(
    "shapes", [((2, 3), (3,), (2, 1)), ((2, 3), (2, 3), ()), ((2, 3), (), None)]
)
def test_bounds_of_other_shapes_have_gradients_of_theirs(shapes: Any) -> None:
    import torch

    found = []
    for lib in (library, torch):
        numbers = [
            None if s is None else np.sin(np.arange(np.prod(s)) + 2).reshape(s) for s in shapes
        ]
        leaves: list[Any] = [n if n is None else lib.tensor(n, requires_grad=True) for n in numbers]
        (made := lib.clamp(*leaves)).pow(2).sum().backward()
        found.append([made.tolist(), *(t.grad.tolist() for t in leaves if t is not None)])
        (z := leaves[0] * 1).clamp_(*leaves[1:])
        z.sum().backward()
        found[-1] += [z.tolist(), *(t.grad.tolist() for t in leaves if t is not None)]
    for ours, theirs in zip(*found, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-12)


def test_bounds_that_are_tensors_write_into_out_and_are_promoted() -> None:
    x, low, out = tc.tensor([3.0, 1.0]), tc.tensor([2.0, 2.0]), tc.zeros(2)
    assert tc.clamp(x, min=low, out=out) is out
    assert out.tolist() == [3, 2]
    assert tc.clamp_max(x, 2.0, out=out) is out
    assert out.tolist() == [2, 1]
    assert tc.clamp(tc.tensor([3, 1]), min=tc.tensor([2.5, 2.5])).tolist() == [3, 2.5]
    assert x.clamp_(max=low.double()).tolist() == [2, 1]
    with pytest.raises(RuntimeError, match="can't be cast"):
        tc.tensor([3, 1]).clamp_(min=low)


def test_thresholds_of_integers_are_rounded_towards_zero() -> None:
    whole = tc.tensor([1, 0, -1, 9])
    assert tc.threshold(whole, -0.9, 7.6).tolist() == [1, 7, 7, 9]
    assert functional.hardtanh(whole, -0.5, 5.5).tolist() == [1, 0, 0, 5]


def test_a_row_has_one_covariance() -> None:
    import torch

    for values in ([[1.0, -2.0, 4.0]], [1.0, -2.0, 4.0]):
        for name in ("cov", "corrcoef"):
            found = getattr(tc, name)(tc.tensor(values))
            wanted = getattr(torch, name)(torch.tensor(values))
            assert (found.shape, found.item()) == (wanted.shape, pytest.approx(wanted.item()))


def test_what_is_split_evenly_has_that_many_parts() -> None:
    assert [tuple(p.shape) for p in tc.zeros(2, 0).chunk(3, 1)] == [(2, 0)] * 3
    for name, shape in (("hsplit", (2, 3)), ("vsplit", (3, 2)), ("dsplit", (2, 2, 3))):
        with pytest.raises(RuntimeError, match=f"torch.{name} attempted to split"):
            getattr(tc.zeros(*shape), name)(2)
        assert len(getattr(tc.zeros(*shape), name)([1])) == 2


def test_a_divergence_from_what_is_no_probability_is_no_number() -> None:
    found = functional.kl_div(
        tc.tensor([1.0, 2.0, 3.0]), tc.tensor([-1.0, 0.0, 1.0]), reduction="none"
    )
    np.testing.assert_array_equal(found.tolist(), [np.nan, 0.0, -3.0])
    assert not np.signbit(found[1].item())


@pytest.mark.parametrize("name", ["hardsigmoid", "hardswish"])
def test_hard_activations_have_pytorchs_slopes_at_their_ends_and_beyond(name: str) -> None:
    import torch

    points = [-np.inf, -4.0, -3.0, -1.0, 0.0, 3.0, 5.0, np.inf, np.nan]
    for inplace in (False, True):
        slopes: list[list[float]] = []
        for lib, functions in ((library, functional), (torch, torch.nn.functional)):
            x = lib.tensor(points, requires_grad=True)
            made = getattr(functions, name)(x * 1, inplace)
            made.sum().backward()
            slopes.append(x.grad.tolist())
        np.testing.assert_allclose(slopes[0], slopes[1], rtol=1e-6)
