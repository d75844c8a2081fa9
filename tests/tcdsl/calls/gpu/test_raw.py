"""A call as raw kernels: what it starts gives what the call gives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tcdsl as tc
from tcdsl.grammar.text.errors import BoundsError, ShapeError, TCTypeError
from tests.tcdsl.calls.gpu.sim import SimDevice, SimRawKernel
from tests.tcdsl.calls.gpu.test_calls import (
    ADD,
    GATHER,
    HEAD,
    MM,
    ONTO,
    SCALE,
    SPREAD,
    kernel,
    ramp,
)

pytestmark = pytest.mark.cusim

LOOP = """
def sums(float(T,N) X, float(N) H0) -> (H) {
  H(0, n) = H0(n)
  for t in 0:T { H(t + 1, n) = H(t, n) + X(t, n) }
}"""
TYPES = """
def types(bool up, uint8 u, int64 i, double d, float16 h, float(N) A) -> (B) {
  B(n) = (up ? A(n) : 0) + u + float(i) + float(d) + float(h)
}"""


def started(raw: Any) -> None:
    """Start everything by hand, as a user of CuPy does."""
    for s in raw:
        assert isinstance(s.kernel, SimRawKernel)
        s.kernel(s.grid, s.block, s.args, shared_mem=s.shared_mem)


def same(got: Any, want: Any) -> None:
    np.testing.assert_array_equal(got.get(), want.get())


def test_the_starts_of_a_call_give_its_result(device: SimDevice) -> None:
    k = kernel(MM)
    for m, n in ((4, 5), (40, 33)):  # exact, then any size
        a, b = device.array(ramp(m, 3)), device.array(ramp(3, n))
        raw = k.raw(a, b)
        with device.active():
            started(raw)
        same(raw.outputs[0], k(a, b))
        same(raw(), k(a, b))
        assert "__global__" in raw.text


def test_several_outputs_kernels_and_a_workspace(device: SimDevice) -> None:
    k, x = kernel(SPREAD), device.array(ramp(3, 5000))
    raw = k.raw(x)
    m, v = raw()
    want = k(x)
    same(m, want.m)
    same(v, want.v)


def test_loops_are_unrolled_into_starts(device: SimDevice) -> None:
    k, h = kernel(LOOP), device.array(ramp(3))
    few, more = (k.raw(device.array(ramp(t, 3)), h) for t in (4, 9))
    assert len(list(more)) == len(list(few)) + 5
    x = device.array(ramp(9, 3))
    same(k.raw(x, h)(), k(x, h))


def test_strided_views_and_outputs_of_the_caller(device: SimDevice) -> None:
    k, a = kernel(ADD), device.array(ramp(6, 8))
    out = device.array(np.zeros(6, np.float32))
    raw = k.raw(a[:, 1], a[::-1, 2], out=out)
    assert raw() is out
    same(out, k(a[:, 1], a[::-1, 2]))
    assert k.raw(out, out, out=out)() is out  # in place, where calls are too


def test_numbers_go_by_value_in_their_types(device: SimDevice) -> None:
    a = device.array(ramp(5))
    for text, numbers in ((SCALE, (2.5, -3)), (TYPES, (True, 200, -(2**40), 0.1, 0.3))):
        k = kernel(text)
        same(k.raw(*numbers, a)(), k(*numbers, a))
    k = kernel(HEAD)
    same(k.raw(a, 3)(), k(a, 3))


def test_a_subscript_outside_is_raised_later(device: SimDevice) -> None:
    k = kernel(GATHER)
    raw = k.raw(device.array(ramp(10, 4)), device.array(np.array([3, 12], np.int32)))
    raw()
    with pytest.raises(BoundsError, match="subscript 0 of 'E' is 12"):
        tc.synchronize()


def test_what_raw_kernels_cannot_do_is_refused(device: SimDevice) -> None:
    a = device.array(ramp(5))
    with pytest.raises(TCTypeError, match=r"raw kernels need arrays on a GPU, cupy\.asarray"):
        kernel(ADD).raw(ramp(5), ramp(5))
    with pytest.raises(ShapeError, match="overlaps an input"):
        kernel(ADD).raw(a[:-1], a[:-1], out=a[1:])
    with pytest.warns(UserWarning, match="S"):
        onto = kernel(ONTO)
    with pytest.raises(TCTypeError, match="adds to what its output holds"):
        onto.raw(a)
    held = device.array(ramp(5))
    onto.raw(a, out=held)()
    np.testing.assert_array_equal(held.get(), 2 * ramp(5))
