"""Calls that write over what they read: the result of separate memory, without Python."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tcdsl import autograd, library
from tcdsl.ops.table import METHODS

tc: Any = library
grad_of: Any = autograd.grad
pytestmark = pytest.mark.cc


def python_calls(call: Callable[[], object]) -> int:
    """Return how many Python functions a call enters, itself not counted."""
    entered = 0

    def count(frame: object, event: str, arg: object) -> None:
        nonlocal entered
        entered += event == "call"

    sys.setprofile(count)
    try:
        call()
    finally:
        sys.setprofile(None)
    return entered - 1


def tensors(*shapes: tuple[int, ...]) -> list[Any]:
    rng = np.random.default_rng(7)
    return [tc.from_numpy(rng.integers(-4, 5, s).astype(np.float32)) for s in shapes]


@pytest.mark.parametrize("k", [0, 5, 700])  # 700 terms: several passes, whose parts the output has
def test_a_product_is_added_to_its_target(k: int) -> None:
    c, a, b = tensors((9, 17), (9, k), (k, 17))
    wanted = c.numpy() + a.numpy() @ b.numpy()
    for _ in range(2):
        x = c.clone()
        version = x._version
        assert x.addmm_(a, b) is x
        np.testing.assert_array_equal(x.numpy(), wanted)
        assert x._version > version
        tc.addmm(y := c.clone(), a, b, out=y)
        np.testing.assert_array_equal(y.numpy(), wanted)
    x = c.clone()
    assert python_calls(lambda: x.addmm_(a, b)) == 0


def test_a_target_with_gaps_or_turned_around_is_written_alone() -> None:
    whole, a, b = tensors((20, 34), (9, 700), (700, 17))
    parts: tuple[Callable[[Any], Any], ...] = (
        lambda w: w[1:19:2, ::2],
        lambda w: w[:17, :9].t(),
        lambda w: w[:9, :17],
    )
    for of in parts:
        before, wanted = whole.clone(), whole.clone()
        of(wanted).copy_(of(before) + a @ b)
        for _ in range(2):
            after = before.clone()
            of(after).addmm_(a, b)
            np.testing.assert_array_equal(after.numpy(), wanted.numpy())


def test_a_factor_may_be_the_target_too() -> None:
    (x,) = tensors((33, 33))
    wanted = x.numpy() + x.numpy() @ x.numpy()
    for _ in range(2):
        y = x.clone()
        np.testing.assert_array_equal(y.addmm_(y, y).numpy(), wanted)
        y = x.clone()
        np.testing.assert_array_equal(tc.mm(y, y, out=y).numpy(), wanted - x.numpy())
    batch, f, g = tensors((3, 5, 6), (3, 5, 7), (3, 7, 6))
    wanted = batch.numpy() + f.numpy() @ g.numpy()
    for _ in range(2):
        np.testing.assert_array_equal(batch.clone().baddbmm_(f, g).numpy(), wanted)


@pytest.mark.parametrize(
    ("name", "shapes"),
    [
        ("addmv_", ((9,), (9, 600), (600,))),
        ("addmm_", ((9, 17), (9, 600), (600, 17))),
        ("baddbmm_", ((2, 9, 17), (2, 9, 600), (2, 600, 17))),
        ("addbmm_", ((9, 17), (2, 9, 600), (2, 600, 17))),
    ],
)
def test_a_sum_begins_with_what_is_there(name: str, shapes: tuple[tuple[int, ...], ...]) -> None:
    rng = np.random.default_rng(1)
    x, a, b = (tc.from_numpy(rng.standard_normal(s).astype(np.float32)) for s in shapes)
    plain = getattr(x.clone(), name)(a, b)
    forms = METHODS[name].forms
    assert (0, 0) in forms._inplace_of((x, a, b), x.dtype)  # so that nothing is put aside
    product = (
        np.einsum("kmn->mn", a.numpy() @ b.numpy()) if name == "addbmm_" else a.numpy() @ b.numpy()
    )
    np.testing.assert_allclose(plain.numpy(), x.numpy() + product, rtol=1e-4, atol=1e-4)
    recorded = getattr(x.clone(), name)(a.clone().requires_grad_(), b)
    assert recorded.requires_grad
    assert recorded.detach().numpy().tobytes() == plain.numpy().tobytes()


def test_gradients_go_through_it() -> None:
    c, a, b = (t.requires_grad_() for t in tensors((4, 5), (4, 600), (600, 5)))
    for _ in range(2):
        made = (c * 1).addmm_(a, b)
        grads = grad_of(made.square().sum(), (c, a, b))
        slope = 2 * (c.detach().numpy() + a.detach().numpy() @ b.detach().numpy())
        for grad, wanted in zip(
            grads, (slope, slope @ b.detach().numpy().T, a.detach().numpy().T @ slope), strict=True
        ):
            np.testing.assert_allclose(grad.numpy(), wanted, rtol=1e-6)


@pytest.mark.parametrize(
    "of",
    [
        lambda x: x.t(),
        lambda x: x,
        lambda x: x[0],
        lambda x: x[:, :1],
        lambda x: x[1:2].expand(7, 7),
        pytest.param(lambda x: x.as_strided((7, 7), (1, 6)), marks=pytest.mark.wide),
        pytest.param(lambda x: x[3, 4], marks=pytest.mark.wide),
    ],
)
def test_a_target_that_is_read_elsewhere_too_needs_no_python(of: Callable[[Any], Any]) -> None:
    (x,) = tensors((7, 7))
    wanted = x.numpy() + of(x.clone()).numpy()
    for _ in range(3):
        y = x.clone()
        other = of(y)
        assert y.add_(other) is y
        np.testing.assert_array_equal(y.numpy(), wanted)
    y = x.clone()
    other = of(y)
    if other.stride() != (1, 6):  # a view whose elements share memory
        assert python_calls(lambda: y.add_(other)) == 0
    z = x.clone().requires_grad_()
    grad = grad_of((z * 1).add_(of(z * 1)).sum(), z)[0]
    grad_of_both = grad_of((z + of(z)).sum(), z)[0]
    np.testing.assert_array_equal(grad.numpy(), grad_of_both.numpy())
