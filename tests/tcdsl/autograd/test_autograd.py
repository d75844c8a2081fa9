"""What users ask of autograd, beside what the core's tests hold."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tcdsl import autograd
from tcdsl.core import Tensor, from_numpy
from tests.tcdsl.core.few import array, e_to, plus, tensor, times, total

pytestmark = pytest.mark.cc


def test_modes_nest_decorate_and_come_back() -> None:
    x = tensor([1.0], requires_grad=True)
    with autograd.no_grad():
        assert not times(x, x).requires_grad
        with autograd.enable_grad():
            assert times(x, x).requires_grad
        assert not autograd.is_grad_enabled()

    @autograd.no_grad()
    def quiet(y: Tensor) -> Any:
        return times(y, y)

    assert not quiet(x).requires_grad
    with autograd.set_grad_enabled(False):
        assert not autograd.is_grad_enabled()
    assert autograd.is_grad_enabled()
    with pytest.raises(ValueError, match="boom"), autograd.no_grad():
        raise ValueError("boom")
    assert autograd.is_grad_enabled()


def test_grad_of_inputs_that_are_not_used() -> None:
    x, y = (tensor([1.0, 2.0], requires_grad=True) for _ in range(2))
    z = total(times(x, x))
    with pytest.raises(RuntimeError, match="appears to not have been used"):
        autograd.grad(z, (x, y), retain_graph=True)
    g, none = autograd.grad(z, (x, y), retain_graph=True, allow_unused=True)
    assert none is None
    assert array(g).tolist() == [2, 4]
    _, zero = autograd.grad(z, (x, y), materialize_grads=True)
    assert array(zero).tolist() == [0, 0]


def test_a_gradient_may_be_given_and_is_held_against_its_tensor() -> None:
    x = tensor([1.0, 2.0], requires_grad=True)
    y = times(x, x)
    y.backward(tensor([1.0, 10.0]), retain_graph=True)
    assert array(x.grad).tolist() == [2, 40]
    with pytest.raises(RuntimeError, match="Mismatch in shape"):
        y.backward(tensor([1.0]))
    y.backward(gradient=tensor([0.0, 1.0]), inputs=[x], retain_graph=True)
    assert array(x.grad).tolist() == [2, 44]
    y.backward(from_numpy(np.array([1.0, 0.0])))  # of another type: of y's from there on
    assert array(x.grad).tolist() == [4, 44]


def test_hooks_see_and_replace_gradients() -> None:
    x = tensor([1.0, 2.0], requires_grad=True)
    seen: list[Any] = []
    y = times(x, 2.0)
    handle = y.register_hook(lambda g: seen.append(array(g).tolist()))
    y.register_hook(lambda g: times(g, 10.0))
    leaf = x.register_hook(lambda g: plus(g, 1.0))
    total(y).backward(retain_graph=True)
    assert seen == [[1, 1]]
    assert array(x.grad).tolist() == [21, 21]
    handle.remove()
    leaf.remove()
    x.grad = None
    total(y).backward()
    assert seen == [[1, 1]]
    assert array(x.grad).tolist() == [20, 20]


def test_what_is_no_leaf_may_retain_its_gradient() -> None:
    x = tensor([1.0, 2.0], requires_grad=True)
    y = times(x, 2.0)
    y.retain_grad()
    total(times(y, y)).backward()
    assert array(y.grad).tolist() == [4, 8]
    assert y.retains_grad


def test_functions_with_a_way_back_of_their_own() -> None:
    class Exp(autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor, scale: float) -> Any:
            y = times(e_to(x), scale)
            ctx.save_for_backward(y)
            return y

        @staticmethod
        def backward(ctx: Any, grad: Tensor) -> Any:
            (y,) = ctx.saved_tensors
            return times(grad, y), None

    x = tensor([0.5, 1.0], requires_grad=True)
    y = Exp.apply(x, 3.0)
    assert y.grad_fn.name() == "ExpBackward"
    (g,) = autograd.grad(total(y), x, create_graph=True)
    np.testing.assert_allclose(array(g), 3 * np.exp([0.5, 1.0]))
    total(g).backward()  # the gradient reads y, whose own gradient is this again
    np.testing.assert_allclose(array(x.grad), 3 * np.exp([0.5, 1.0]))


def test_several_outputs_of_a_function_and_one_without_gradient() -> None:
    class Both(autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Any:
            a, b, c = times(x, 2.0), times(x, 3.0), times(x, 0.0)
            ctx.mark_non_differentiable(c)
            return a, b, c

        @staticmethod
        def backward(ctx: Any, d_a: Tensor, d_b: Tensor, d_c: Tensor) -> Any:
            return plus(times(d_a, 2.0), times(d_b, 3.0))

    x = tensor([1.0, 2.0], requires_grad=True)
    a, b, c = Both.apply(x)
    assert not c.requires_grad
    total(b).backward(retain_graph=True)
    assert array(x.grad).tolist() == [3, 3]
    total(plus(a, b)).backward()
    assert array(x.grad).tolist() == [8, 8]


@pytest.mark.parametrize("materializes", [True, False])
def test_gradients_that_are_not_there_come_as_zeros_or_as_none(materializes: bool) -> None:
    came: list[Any] = []

    class Twice(autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Any:
            ctx.set_materialize_grads(materializes)
            return x.clone(), x.clone()

        @staticmethod
        def backward(ctx: Any, *gradients: Any) -> Any:
            came.extend(gradients)
            return gradients[0]

    x = tensor([1.0, 2.0], requires_grad=True)
    first, _ = Twice.apply(x)
    total(first).backward()
    assert array(x.grad).tolist() == [1.0, 1.0]
    assert (came[1] is None) == (not materializes)
    if materializes:
        assert array(came[1]).tolist() == [0.0, 0.0]
