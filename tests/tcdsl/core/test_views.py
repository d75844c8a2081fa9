"""Views: layouts as torch has them, memory shared, gradients, plain arguments and others."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tcdsl import library as tc
from tcdsl.core import FORM, GRAD, Recipe, View, backward
from tests.tiers import sampled

pytestmark = [pytest.mark.torch, pytest.mark.cc]

VIEWS = (
    "x.t()", "x[0].t()", "x[0, 0].t()", "x.transpose(0, 1)", "x.transpose(-1, -1)",
    "x.permute(2, 0, 1)", "x.permute((2, 0, -2))", "x.reshape(-1)", "x.view(6, 1, 2, -1)",
    "x.transpose(0, 1).reshape(6, 10, 1)", "x[:, ::2].view(4, 1, 2, 5)", "x[::2].reshape(-1, 5)",
    "x.permute(2, 0, 1).reshape(10, -1)", "x[:0].reshape(5, 0)", "x[:0].view(0, 3)",
    "x.expand(2, -1, -1, -1)", "x[:, :1].expand(4, 7, 5)", "x[0, 0, 0].expand(2, 3)",
    "x.unsqueeze(0)", "x.unsqueeze(-1)", "x.transpose(0, 2).unsqueeze(1)", "x[:1].squeeze()",
    "x[:, :1].squeeze(1)", "x[:, :1].squeeze(0)", "x[:1, :1].squeeze((0, -2))",
    "x[0, 0, 0].unsqueeze(0)", "x.select(1, -1)", "x.narrow(2, -3, 2)", "x.narrow(0, 4, 0)",
    "x.flatten()", "x.flatten(1)", "x.flatten(0, -2)", "x.transpose(1, 2).flatten(1, 2)",
    "x[0, 0, 0].flatten()", "x[1]", "x[-1, 2]", "x[1:]", "x[:, 1]", "x[..., 1]", "x[None]",
    "x[::3, ..., None, 1:4:2]", "x[3:1]", "x[...]", "x[:, -2:100]", "x[1, 2, 3]", "x[()]",
    "x.chunk(3, dim=2)[1]", "x.split(2)[1]", "x.unbind(1)[2]", "x[np.int64(1)]",
    "x.view([12, 5])", "x.transpose(dim0=1, dim1=2)", "x[tensor(1):tensor(3)]",
    "x.diagonal()", "x.diagonal(-1, 2, 0)", "x.diagonal(9)", "x.diagonal(dim1=-1, dim2=0)",
    "x.unfold(2, 2, 2)", "x.unfold(-2, 3, 1)", "x.movedim(0, -1)",
)  # fmt: skip


@pytest.fixture(scope="module")
def torch() -> Any:
    return pytest.importorskip("torch")


def made(library: Any, text: str) -> tuple[Any, Any]:
    """Return a tensor and a view of it."""
    x = library.arange(60.0).reshape(4, 3, 5)
    x = x[0] if text == "x.t()" else x
    x = x.clone().requires_grad_()
    return x, eval(text, {"x": x, "np": np, "tensor": library.tensor})


@sampled("text", VIEWS, keep=4, wide=9)
def test_layout_memory_and_gradients(torch: Any, text: str) -> None:
    (x, y), (u, v) = made(tc, text), made(torch, text)
    assert tuple(y.shape) == tuple(v.shape)
    np.testing.assert_array_equal(y.detach().numpy(), v.detach().numpy())
    is_view = v.untyped_storage().data_ptr() == u.untyped_storage().data_ptr()
    assert (y._storage is x._storage) == is_view
    if is_view:
        assert y._base is x
        assert y.storage_offset() == v.storage_offset() or not y.numel()
    weights = np.random.default_rng(0).standard_normal(tuple(y.shape))
    grads = []
    for library, a, b in ((tc, x, y), (torch, u, v)):
        w = library.tensor(weights, dtype=library.float32, requires_grad=True)
        (d_a,) = library.autograd.grad(b, a, w, create_graph=True)
        (d_w,) = library.autograd.grad((d_a * d_a).sum(), w)
        grads.append((d_a.detach().numpy(), d_w.numpy()))
    for ours, theirs in zip(*grads, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("x.transpose(0, 3)", IndexError),
        ("x.t()", RuntimeError),
        ("x.permute(0, 0, 1)", RuntimeError),
        ("x.view(7, -1)", RuntimeError),
        ("x.transpose(0, 1).view(-1)", RuntimeError),
        ("x.expand(4, 2, 5)", RuntimeError),
        ("x.select(0, 4)", IndexError),
        ("x.narrow(0, 3, 2)", RuntimeError),
        ("x[4]", IndexError),
        ("x[0, 0, 0, 0]", IndexError),
        ("x[::0]", ValueError),
        ("x[1.5]", IndexError),
        ("x.view(2**62, 2**62)", RuntimeError),
    ],
)
def test_wrong_arguments_are_told_as_by_torch(
    torch: Any, text: str, error: type[Exception]
) -> None:
    for library in (torch, tc):
        x = library.zeros(4, 3, 5)
        with pytest.raises(Exception) as caught:  # noqa: PT011 - torch's is not always of the type
            eval(text, {"x": x})
        if library is tc:
            assert type(caught.value) is error


def test_a_view_is_of_a_known_rule_and_says_what_is_not_plain() -> None:
    recipe = Recipe(lambda g, form: g, (GRAD, FORM), (0,))
    with pytest.raises(ValueError, match="name of a rule"):
        View("V", "turned", recipe, print)
    seen: list[Any] = []
    swap = View("V", "swapped", recipe, lambda *given, **named: seen.append((given[1:], named)))
    x = tc.zeros(2, 3)
    assert swap(x, 0, 1).shape == (3, 2)
    assert swap.plain(x, 0, 2) is None
    for given, named in (((0, True), {}), ((0,), {"dim1": 1}), ((2**70, 0), {})):
        swap(x, *given, **named)
    assert seen == [((0, True), {}), ((0,), {"dim1": 1}), ((2**70, 0), {})]
    swap("no tensor", 0, 1)
    assert seen.pop() == ((0, 1), {})


def test_a_view_of_what_was_written_is_renewed() -> None:
    x = tc.ones(2, 3, requires_grad=True)
    y = x * 1.0
    row = y[0]
    y.mul_(2.0)
    assert row.transpose(0, 0).tolist() == [2.0, 2.0, 2.0]
    (d_x,) = backward((row.unsqueeze(0),), (tc.ones(1, 3),), (x,), 0, 0) or (None,)
    assert d_x is not None
    assert d_x.tolist() == [[2.0, 2.0, 2.0], [0.0, 0.0, 0.0]]


def test_what_lies_at_one_place_of_an_expanded_tensor_has_its_gradient_once() -> None:
    x = tc.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    x.expand(3, 2, 2).diagonal(0, -2, -1).log().sum().backward()
    assert x.grad.tolist() == [[3.0, 0.0], [0.0, 0.75]]
    y = tc.arange(5.0).requires_grad_()
    windows = y.unfold(0, 3, 1)  # (3, 3), whose elements overlap
    windows.diagonal().sum().backward()
    assert y.grad.tolist() == [1.0, 0.0, 1.0, 0.0, 1.0]
