"""Gradients by the way back: modes, hooks, functions of one's own, errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tcdsl import autograd
from tcdsl import library as tc
from tcdsl.core import Tensor

pytestmark = pytest.mark.cc


class Exp(autograd.Function):
    """exp, with a way back of its own."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        y: Tensor = x.exp()
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx: Any, d_y: Tensor) -> Any:
        (y,) = ctx.saved_tensors
        return d_y * y


def test_gradients_of_two_orders() -> None:
    x = tc.tensor([1.0, 2.0], requires_grad=True)
    d_x: Any
    (d_x,) = autograd.grad((x * x * x).sum(), x, create_graph=True)
    assert d_x.tolist() == [3, 12]
    d_x.sum().backward()
    assert x.grad.tolist() == [6, 12]


def test_modes() -> None:
    x = tc.ones(2, requires_grad=True)
    with tc.no_grad():
        assert not (x * 2).requires_grad
        with tc.enable_grad():
            assert (x * 2).requires_grad
    assert (x * 2).requires_grad

    modes: Any = autograd
    plain = modes.no_grad()(lambda: x * 2)
    plainer = modes.no_grad(lambda: x * 2)

    assert not plain().requires_grad
    assert not plainer().requires_grad
    tc.set_grad_enabled(False)
    try:
        assert not tc.is_grad_enabled()
    finally:
        tc.set_grad_enabled(True)
    with tc.set_grad_enabled(False):
        assert not tc.is_grad_enabled()
    assert tc.is_grad_enabled()


def test_hooks_change_gradients_until_they_are_removed() -> None:
    x = tc.ones(2, requires_grad=True)
    handle = x.register_hook(lambda g: g * 10)
    y = x * 3
    y.register_hook(lambda g: g + 1)
    y.retain_grad()
    y.sum().backward()
    assert x.grad.tolist() == [60, 60]
    assert y.grad.tolist() == [2, 2]
    handle.remove()
    x.grad = None
    (x * 3).sum().backward()
    assert x.grad.tolist() == [3, 3]


def test_a_function_with_a_way_back_of_its_own() -> None:
    x = tc.tensor([0.5, -1.0], dtype=tc.float64, requires_grad=True)
    assert autograd.gradcheck(Exp.apply, (x,))
    assert autograd.gradgradcheck(Exp.apply, (x,))
    y = Exp.apply(x)
    assert type(y.grad_fn).__name__ == "ExpBackward"
    assert y.grad_fn.name() == "ExpBackward"


def test_a_wrong_gradient_is_found() -> None:
    class Wrong(Exp):
        @staticmethod
        def backward(ctx: Any, d_y: Tensor) -> Any:
            return d_y

    x = tc.tensor([0.5], dtype=tc.float64, requires_grad=True)
    assert not autograd.gradcheck(Wrong.apply, (x,), raise_exception=False)
    with pytest.raises(RuntimeError, match="Jacobian mismatch"):
        autograd.gradcheck(Wrong.apply, (x,))


def test_errors_in_pytorchs_words() -> None:
    x = tc.ones(2, requires_grad=True)
    y = (x * x).sum()
    y.backward()
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        y.backward()
    with pytest.raises(
        RuntimeError, match="grad can be implicitly created only for scalar outputs"
    ):
        (x * 2).backward()
    with pytest.raises(RuntimeError, match="does not require grad and does not have a grad_fn"):
        tc.ones(1).backward()
    other = tc.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match="appears to not have been used in the graph"):
        autograd.grad((x * x).sum(), other)
    assert autograd.grad((x * x).sum(), other, allow_unused=True) == (None,)
    z = x * 1
    product = z * z
    z.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        product.sum().backward()
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad"):
        x.add_(1)


def test_only_the_inputs_asked_for() -> None:
    x, w = (tc.ones(2, requires_grad=True) for _ in range(2))
    autograd.backward((x * w).sum(), inputs=[w])
    assert x.grad is None
    assert w.grad.tolist() == [1, 1]


def test_deep_graphs_go_back() -> None:
    x = tc.ones(1, requires_grad=True)
    y = x
    for _ in range(20000):
        y = y + 1
    y.backward()
    assert x.grad.tolist() == [1]
    np.testing.assert_array_equal(y.detach().numpy(), [20001])


def test_the_hook_of_a_leaf_sees_the_whole_gradient_once() -> None:
    x = tc.tensor([1.0, 2.0], requires_grad=True)
    seen: list[Any] = []

    def hook(gradient: Tensor) -> Any:
        seen.append(gradient.tolist())
        return gradient * 10

    handle = x.register_hook(hook)
    (x * 2 + x * 3 + x).sum().backward()
    assert seen == [[6, 6]]
    assert x.grad.tolist() == [60, 60]
    d_x: Any
    (d_x,) = autograd.grad((x * x).sum() + x.sum(), x)
    assert d_x.tolist() == [30, 50]
    x.backward(tc.ones(2))  # a root that is a leaf
    assert seen[2:] == [[1, 1]]
    handle.remove()
    (x * 2 + x).sum().backward()
    assert x.grad.tolist() == [73, 73]


def test_a_function_may_keep_what_it_needs_apart() -> None:
    class Times(autograd.Function):
        @staticmethod
        def forward(x: Any, y: Any) -> Any:
            return x * y

        @staticmethod
        def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
            ctx.save_for_backward(*inputs)

        @staticmethod
        def backward(ctx: Any, d_z: Any) -> Any:
            x, y = ctx.saved_tensors
            return d_z * y, d_z * x

    x, y = (tc.tensor([2.0, 3.0], dtype=tc.float64, requires_grad=True) for _ in range(2))
    assert autograd.gradcheck(Times.apply, (x, y))
    assert autograd.gradgradcheck(Times.apply, (x, y))
    (d_y,) = autograd.grad(Times.apply(x, y[:1]).sum(), y)  # which was broadcast
    assert d_y is not None
    assert d_y.tolist() == [5, 0]


def test_functions_refuse_what_would_be_wrong() -> None:
    class Twice(autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.mark_dirty(x)
            return x.mul_(2)

        @staticmethod
        def backward(ctx: Any, d_y: Any) -> Any:
            return d_y[:1]

    x = tc.ones(3, requires_grad=True)
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad"):
        Twice.apply(x)
    y = Twice.apply(x * 1).sum()
    with pytest.raises(RuntimeError, match=r"TwiceBackward returned an invalid gradient at"):
        y.backward()


def test_a_function_that_writes_into_a_view_is_the_way_back_of_its_base() -> None:
    class Threefold(autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.mark_dirty(x)
            return x.mul_(3)

        @staticmethod
        def backward(ctx: Any, d_y: Any) -> Any:
            return d_y * 3

    x = tc.tensor([1.0, 2.0, 4.0], requires_grad=True)
    z = x * 1
    part, other = z[:2], z[1:]
    assert Threefold.apply(part) is part
    z.backward(tc.ones(3), retain_graph=True)
    assert x.grad.tolist() == [3, 3, 1]
    (part * part).sum().backward(retain_graph=True)  # 2 * 3x * 3
    assert x.grad.tolist() == [21, 39, 1]
    other.sum().backward()  # another view of the base
    assert x.grad.tolist() == [21, 42, 2]
    buffer = tc.zeros(2, 2)  # of which nothing was recorded before
    row = buffer[1]

    class Put(autograd.Function):
        @staticmethod
        def forward(ctx: Any, to: Any, x: Any) -> Any:
            ctx.mark_dirty(to)
            return to.copy_(x)

        @staticmethod
        def backward(ctx: Any, d_y: Any) -> Any:
            return None, d_y

    y = tc.tensor([5.0, 6.0], requires_grad=True)
    Put.apply(row, y)
    assert buffer.requires_grad
    (buffer * buffer).sum().backward()
    assert y.grad.tolist() == [10, 12]


def test_a_gradient_that_is_marked_has_none() -> None:
    class Cube(autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return x**3

        @staticmethod
        @autograd.function.once_differentiable
        def backward(ctx: Any, d_y: Any) -> Any:
            (x,) = ctx.saved_tensors
            return 3 * x * x * d_y

    x = tc.tensor([2.0], requires_grad=True)
    (slope,) = autograd.grad(Cube.apply(x), x, create_graph=True)
    assert slope is not None
    assert slope.tolist() == [12]
    assert not slope.requires_grad
    (slope,) = autograd.grad(Cube.apply(x) ** 2, x, create_graph=True)
    assert slope is not None
    with pytest.raises(RuntimeError, match="marked with @once_differentiable"):
        slope.sum().backward()


def test_a_gradient_that_is_set_is_like_its_tensor() -> None:
    x = tc.ones(3, requires_grad=True)
    with pytest.raises(RuntimeError, match=r"gradient of size 'torch.Size\(\[4\]\)' and type"):
        x.grad = tc.ones(4)
    with pytest.raises(RuntimeError, match=r"type 'torch.float64' to a tensor .* 'torch.float32'"):
        x.grad = tc.ones(3).double()
    with pytest.raises(TypeError, match=r"Tensor or None but got grad of type <class 'int'>"):
        x.grad = 1
    x.register_hook(lambda gradient: gradient.sum())
    with pytest.raises(RuntimeError, match="hook '<lambda>' has changed the size"):
        x.sum().backward()


def test_a_gradient_that_is_kept_is_by_what_a_tensor_was_made_last() -> None:
    x = tc.ones(2, 3, requires_grad=True)
    y = x * 2
    y.retain_grad()
    y.mul_(3)
    y.sum().backward()
    assert y.grad.tolist() == [[1] * 3] * 2
    y = x * 2
    row = y[0]
    y.retain_grad()
    row.retain_grad()
    row.mul_(3)
    ((y * y).sum() + row.sum()).backward()
    assert y.grad.tolist() == [[13] * 3, [4] * 3]
    assert row.grad.tolist() == [1] * 3
    assert y.retains_grad
    assert x.grad.tolist() == [[6 + 78] * 3, [6 + 8] * 3]


def test_parts_of_a_tensor_may_be_written_but_for_those_of_a_split() -> None:
    x = tc.ones(4, requires_grad=True)
    for parts in (tc.tensor_split, tc.hsplit):
        y = x * 2
        parts(y, 2)[1].mul_(5)
        y.sum().backward()
    assert x.grad.tolist() == [4, 4, 20, 20]
    with pytest.raises(RuntimeError, match="function that returns multiple views"):
        (x * 2).split(2)[1].mul_(5)


@pytest.mark.torch
def test_gradients_are_checked_with_pytorchs_options() -> None:
    import torch

    libraries: tuple[tuple[Any, Any], ...] = ((tc, autograd), (torch, torch.autograd))
    for u, ways in libraries:

        class Uneven(ways.Function):  # type: ignore[misc, name-defined]
            calls = 0

            @staticmethod
            def forward(ctx: Any, x: Any) -> Any:
                return x * 2

            @staticmethod
            def backward(ctx: Any, d: Any) -> Any:
                Uneven.calls += 1
                return d * (2 + 1e-7 * (Uneven.calls % 2))

        x = u.tensor([[0.5, -1.5, 2.0]], dtype=u.float64, requires_grad=True)
        y = u.tensor([[1.0], [0.25]], dtype=u.float64, requires_grad=True)

        def f(a: Any, b: Any, k: float) -> Any:
            return (a * b).sin() * k, (a * a).sum()

        given = (x, y, 3.0)
        assert ways.gradcheck(f, given, check_forward_ad=True, check_grad_dtypes=True)
        assert ways.gradcheck(f, given, check_forward_ad=True, check_backward_ad=False)
        assert ways.gradcheck(f, given, fast_mode=True)
        assert ways.gradgradcheck(f, given, nondet_tol=1e-9, fast_mode=True)
        assert ways.gradcheck(Uneven.apply, (x,), nondet_tol=1e-6)
        with pytest.raises(RuntimeError, match="Backward is not reentrant"):
            ways.gradcheck(Uneven.apply, (x,))
        with pytest.raises((ValueError, AssertionError), match="check_forward_ad"):
            ways.gradcheck(f, given, check_backward_ad=False)


def test_tangents_are_held_against_differences() -> None:
    class Wrong(autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 2

        @staticmethod
        def backward(ctx: Any, d: Any) -> Any:
            return d * 3

    x = tc.tensor([0.5, -1.5], dtype=tc.float64, requires_grad=True)
    with pytest.raises(RuntimeError, match="computed with forward mode mismatch"):
        autograd.gradcheck(Wrong.apply, (x,), check_forward_ad=True, check_backward_ad=False)
