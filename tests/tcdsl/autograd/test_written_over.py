"""What an in-place operation writes over is still there for its gradient."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tcdsl import library as tc
from tcdsl import nn
from tests.tiers import sampled

pytestmark = pytest.mark.cc

VALUES = np.array([[0.3, -0.7, 1.1], [0.9, 0.4, -0.2], [0.5, 1.3, 0.8]])


def test_a_product_that_is_written_into_its_factor() -> None:
    x, w = (tc.tensor([2.0, 3.0], requires_grad=True) for _ in range(2))
    for _ in range(2):  # the first call of a form, and one that is known
        x.grad = w.grad = None
        y = x * 1
        y.mul_(w)
        y[0].mul_(w[1])
        y.sum().backward()
        assert x.grad.tolist() == [6, 3]
        assert w.grad.tolist() == [6, 7]
    y = x * 1
    y.mul_(y)
    y.sum().backward()
    assert x.grad.tolist() == [10, 9]
    y = x * 1
    y.mul_(y.detach())  # whose elements are lost
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()
    y = x.sigmoid()
    y.mul_(2)
    said = r": \[torch.FloatTensor \[2\]\], which is output 0 of Sigmoid, is at version 1; expected"
    with pytest.raises(RuntimeError, match=f"{said} version 0 instead. Hint: enable anomaly"):
        y.sum().backward()


def every(library: Any, name: str, *, is_part: bool) -> tuple[Any, ...]:
    """Return the gradients of a sum after an operation on a tensor, or on a row of one."""
    x, w = (library.tensor(VALUES * s, requires_grad=True) for s in (0.7, 1.2))
    whole = x * 1
    y, u = (whole[1:], w[1:]) if is_part else (whole, w)
    places = library.tensor([1, 0, 1])
    is_small = library.tensor(VALUES[: y.shape[0]] < 0.6)
    calls: dict[str, Any] = {
        "pow_": lambda: y.abs_().pow_(2.5),
        "pow_ 1": lambda: y.pow_(1),
        "pow_ 3": lambda: y.pow_(3),
        "pow_ -1": lambda: y.abs_().pow_(-1),
        "clamp_": lambda: y.clamp_(-0.4, 0.5),
        "div_": lambda: y.div_(u),
        "addcmul_": lambda: y.addcmul_(u, u),
        "lerp_": lambda: y.lerp_(u, 0.3),
        "renorm_": lambda: y.renorm_(2, 0, 0.3),
        "fmod_": lambda: y.fmod_(0.3),
        "addmm_": lambda: y.addmm_(u, w),
        "index_fill_": lambda: y.index_fill_(0, places, 3.0),
        "index_add_": lambda: y.index_add_(0, places, w),
        "masked_fill_": lambda: y.masked_fill_(is_small, 2.0),
        "masked_scatter_": lambda: y.masked_scatter_(is_small, w),
        "put_": lambda: y.put_(library.tensor([1, 0, -1]), w[0] * w[1]),
        "no place": lambda: y.__setitem__(y > 100, w[0, 0]),
    }
    functions = ("leaky_relu", "elu", "hardtanh", "relu", "selu", "celu", "relu6")
    if name in functions:
        getattr((nn if library is tc else library.nn).functional, name)(y, inplace=True)
    else:
        calls.get(name, lambda: getattr(y, name)())()
    (whole * whole).sum().backward()
    return x.grad.tolist(), [0.0] if w.grad is None else w.grad.tolist()


@pytest.mark.torch
@pytest.mark.parametrize("is_part", [False, True], ids=["whole", "part"])
@sampled("name", [
    "sin_", "abs_", "square_", "atan_", "exp_", "sigmoid_", "pow_", "pow_ 1", "pow_ 3", "pow_ -1",
    "clamp_", "div_", "addcmul_", "lerp_", "renorm_", "fmod_", "addmm_", "index_fill_",
    "index_add_", "masked_fill_",
    "masked_scatter_", "put_", "no place", "leaky_relu", "elu", "hardtanh", "relu", "selu", "celu",
    "relu6",
], keep=0, wide=6)  # fmt: skip
def test_in_place_operations_as_in_pytorch(name: str, is_part: bool) -> None:
    torch = pytest.importorskip("torch")
    for mine, theirs in zip(
        every(tc, name, is_part=is_part), every(torch, name, is_part=is_part), strict=True
    ):
        np.testing.assert_allclose(mine, theirs, rtol=1e-12, atol=1e-12)


@pytest.mark.torch
def test_what_is_added_to_may_be_a_factor() -> None:
    """PyTorch's way back is refused: it keeps the factor, which is written over."""
    torch = pytest.importorskip("torch")
    found = []
    for library in (tc, torch):
        x, w = (library.tensor(VALUES * s, requires_grad=True) for s in (0.7, 1.2))
        y = x * 1
        z = y.addmm_(y, w) if library is tc else y.addmm(y, w)
        (z * z).sum().backward()
        found += [[x.grad.tolist(), w.grad.tolist()]]
    mine, theirs = found
    np.testing.assert_allclose(mine, theirs, rtol=1e-12, atol=1e-12)


def test_one_of_several_views_is_not_written_to() -> None:
    x = tc.ones(4, requires_grad=True)
    several = "is a view and is being modified inplace"
    for parts in (lambda y: y.chunk(2), lambda y: y.split([1, 3]), lambda y: y.unbind(), iter):
        first = next(iter(parts(x * 1)))
        for written in (first, first[...], first.reshape(-1)):
            with pytest.raises(RuntimeError, match=several):
                written.add_(1)
            with pytest.raises(RuntimeError, match=several):
                written.copy_(tc.ones(1))
        first.detach().add_(1)
        with tc.no_grad():
            first.add_(1)
    part = tc.zeros(4).chunk(2)[0]
    assert part.add_(1).tolist() == [1, 1]
    with pytest.raises(RuntimeError, match="multiple views"):
        part.mul_(x[:2])


def test_a_view_that_was_not_recorded_is_not_written_to() -> None:
    x = tc.ones(4, requires_grad=True)
    y = x * 1
    with tc.no_grad():
        views = x[:2], y[:2]
    for view in views:
        with pytest.raises(RuntimeError, match="created in no_grad mode"):
            view.mul_(2)
        with tc.no_grad():
            view.mul_(2)
    assert x.tolist() == y.tolist() == [2, 2, 1, 1]
    base = tc.zeros(4)
    view = base[:2]
    base.requires_grad_()
    with pytest.raises(RuntimeError, match="a view of a leaf Variable"):
        view.add_(1)
    assert base.tolist() == [0, 0, 0, 0]


def _hooked_views(u: Any, write: Any, again: bool) -> Any:
    seen: list[Any] = []
    a = u.ones(3, requires_grad=True)
    b = a * 2
    v = b[:2]
    w = v * 5
    for name, x in (("b", b), ("v", v)):
        x.register_hook(lambda g, name=name: seen.append((name, g.tolist())))
    v.retain_grad()
    write(b, v, a)
    if again:
        v.register_hook(lambda g: seen.append(("again", g.tolist())))
    (v.sum() + b.sum() + w.sum()).backward()
    return sorted(seen), a.grad.tolist(), v.grad.tolist()


@pytest.mark.torch
@pytest.mark.parametrize("again", [False, True])
def test_hooks_of_a_view_do_not_see_what_is_written_into_it(again: bool) -> None:
    import torch

    writes: tuple[Any, ...] = (
        lambda b, v, a: v.mul_(3),
        lambda b, v, a: v.mul_(a[1:]),
        lambda b, v, a: v.copy_(a[1:]),
        lambda b, v, a: v.mul_(3).add_(a[:2]),
    )
    if not again:  # which PyTorch adds to what made the view first where its base was written
        writes += (lambda b, v, a: b.mul_(3), lambda b, v, a: b[1:].mul_(3))
    for at, write in enumerate(writes):
        mine, theirs = (_hooked_views(library, write, again) for library in (tc, torch))
        assert mine == theirs, at


def _of_a_view_before_a_write(u: Any, is_leaf: bool, write: Any, use: Any) -> Any:
    x = u.ones(3, requires_grad=True)
    y = x if is_leaf else x * 1
    with u.no_grad():
        view = y[:2]
        if is_leaf:
            write(y, view)
    if not is_leaf:
        write(y, view)
    try:
        return use(u, view)
    except RuntimeError as error:
        return str(error)


@pytest.mark.torch
@pytest.mark.parametrize("is_leaf", [False, True])
def test_a_view_that_was_not_recorded_is_of_no_use_once_its_base_was_written(is_leaf: bool) -> None:
    import torch

    uses: tuple[Any, ...] = (
        lambda u, v: (v * 2).tolist(),
        lambda u, v: v[0].tolist(),
        lambda u, v: v.grad_fn,
        lambda u, v: v.is_leaf,
        lambda u, v: v.sum().backward(),
        lambda u, v: v.requires_grad,
        lambda u, v: repr(v),
        lambda u, v: v.tolist(),
        lambda u, v: v.detach().tolist(),
        lambda u, v: u.no_grad()(lambda: (v * 2).tolist())(),
        lambda u, v: u.no_grad()(lambda: v.add_(2).tolist())(),
    )
    for write in (lambda y, v: y.mul_(3), lambda y, v: y[1:].mul_(3)):
        for at, use in enumerate(uses):
            mine, theirs = (_of_a_view_before_a_write(u, is_leaf, write, use) for u in (tc, torch))
            assert mine == theirs, at
