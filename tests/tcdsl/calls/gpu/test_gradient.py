"""Gradients on a simulated GPU: first and second derivatives are those of the reference."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tcdsl as tc
from tcdsl.codegen.program.dtypes import numpy_dtype
from tests.tcdsl.calls.gpu.sim import SimDevice
from tests.tcdsl.differential import Array, assert_close, reference
from tests.texts import Example, arguments, examples
from tests.tiers import sampled

pytestmark = pytest.mark.cusim

OFTEN = {"rnn", "general", "embedding_bag"}
FLOATS = [e for e in examples() if e.name not in ("edit_distance", "brightest")]


def listed(value: Any) -> list[Any]:
    return [*value] if isinstance(value, tuple) else [value]


def on(device: SimDevice, arrays: list[Array]) -> list[Any]:
    return [device.array(a) if a.ndim else a[()] for a in arrays]


@sampled(
    "example",
    [pytest.param(e, marks=() if e.name in OFTEN else pytest.mark.deep) for e in FLOATS],
    ids=lambda e: e.name,
    keep=1,
)
def test_vjp_of_a_text(device: SimDevice, example: Example, rng: np.random.Generator) -> None:
    kernel = example.kernel()
    checked = kernel.variant().checked
    args = arguments(checked, example.sizes, rng)
    outputs, pull = kernel.vjp(*on(device, args))
    pairs = zip(listed(outputs), checked.returns, strict=True)
    seeds = [
        np.asarray(rng.normal(size=o.shape), numpy_dtype(t.dtype))
        for o, t in pairs
        if t.dtype.is_float
    ]
    whole = tc.grad(kernel).whole
    want = reference(whole.variant().checked, [*args, *seeds], float64=True)
    for got, exact in zip(listed(pull(*on(device, seeds))), want, strict=True):
        assert_close(got.get() if hasattr(got, "get") else np.asarray(got), exact, 400)


def test_second_derivatives(device: SimDevice, rng: np.random.Generator) -> None:
    softmax = tc.define(
        """def softmax(float(B,N) X) -> (Y) {
          top(b) max=! X(b, n)
          Z(b) +=! exp(X(b, n) - top(b))
          Y(b, n) = exp(X(b, n) - top(b)) / Z(b)
        }""",
        tune="off",
    )
    assert isinstance(softmax, tc.Kernel)
    x, seed, towards = (rng.normal(size=(3, 5)).astype(np.float32) for _ in range(3))
    _, pull = softmax.vjp(device.array(x))
    _, again = pull.vjp(device.array(seed))
    second = tc.grad(tc.grad(softmax)).whole
    want = reference(second.variant().checked, [x, seed, towards], float64=True)
    for got, exact in zip(again(device.array(towards)), want, strict=True):
        assert_close(got.get(), exact, 400)


def test_none_is_zeros_where_the_outputs_lie(device: SimDevice) -> None:
    moments = tc.define(
        "def moments(float(B,N) X) -> (m, q) { m(b) +=! X(b, n) q(b) +=! X(b, n) * X(b, n) }",
        tune="off",
    )
    assert isinstance(moments, tc.Kernel)
    _, pull = moments.vjp(device.array(np.full((2, 3), 3, np.float32)))
    ones = device.array(np.ones(2, np.float32))
    assert pull(ones, None).get().tolist() == [[1] * 3] * 2
    assert pull(d_q=ones).get().tolist() == [[6] * 3] * 2


def test_what_a_way_back_keeps_is_its_own(device: SimDevice) -> None:
    root: Any = tc.define("def root(double(N) x) -> (y) { y(i) = sqrt(x(i)) * x(i) }", tune="off")
    x = device.array(np.array([1.0, 4.0]))
    y, pull = root.vjp(x)
    nines = np.full(2, 9.0)
    for array in (x, y):
        device.upload(device.place(array)[0], nines, device.stream())
    np.testing.assert_allclose(pull(device.array(np.ones(2))).get(), [1.5, 3.0])
