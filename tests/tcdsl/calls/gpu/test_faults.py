"""Subscripts outside their tensors on a GPU: when the caller hears of them, and what of."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tcdsl as tc
from tcdsl.grammar.text.errors import BoundsError, DeviceError, TCTypeError
from tests.tcdsl.calls.gpu.sim import SimArray, SimDevice
from tests.tcdsl.calls.gpu.test_calls import ADD, GATHER, kernel, ramp

pytestmark = pytest.mark.cusim

TEXT = "gather: subscript 0 of 'E' is 12, outside [0, 10)\n  the outputs of this call are undefined"
WRONG = np.array([3, 12], np.int32)


def gather(device: SimDevice, at: Any = WRONG, **settings: Any) -> tuple[tc.Kernel, Any]:
    """Return a kernel and its arguments."""
    k = kernel(GATHER, **settings)
    return k, (device.array(ramp(10, 4)), device.array(np.asarray(at, np.int32)))


def test_a_call_whose_subscripts_are_inside_says_nothing(device: SimDevice) -> None:
    k, args = gather(device, [3, 0])
    np.testing.assert_array_equal(k(*args).get(), ramp(10, 4)[[3, 0]])
    k(*args)
    tc.synchronize()


def test_a_fault_is_raised_at_the_next_call_on_the_stream_once(device: SimDevice) -> None:
    k, args = gather(device)
    k(*args)
    with pytest.raises(BoundsError) as caught:
        k(*args)
    assert str(caught.value) == TEXT
    assert device.synchronized == [0]  # only then somebody waited
    tc.synchronize()  # the call that raised started nothing


def test_a_captured_stream_is_not_waited_for(device: SimDevice) -> None:
    k, args = gather(device)
    k(*args)
    device.captured.add(0)
    k(*args)
    device.captured.clear()
    assert not device.synchronized
    with pytest.raises(BoundsError, match="is 12"):
        k(*args)


def test_a_checked_call_is_refused_on_a_captured_stream(device: SimDevice) -> None:
    k, args = gather(device, [3, 0], check="sync")
    k(*args)
    device.captured.add(0)
    with pytest.raises(DeviceError) as caught:
        k(*args)
    device.captured.clear()
    assert str(caught.value) == (
        "gather has check='sync', which waits for the GPU, on a stream that is captured for a "
        "CUDA graph\n  with define(check='async') faults of its replays are told by "
        "tcdsl.synchronize()"
    )


def test_another_kernel_on_the_stream_raises_it(device: SimDevice) -> None:
    k, args = gather(device)
    k(*args)
    a = device.array(ramp(3))
    with device.on_stream(5):
        kernel(ADD)(a, a)
    with pytest.raises(IndexError, match="gather: subscript 0 of 'E' is 12"):
        kernel(ADD)(a, a)
    kernel(ADD)(a, a)


def test_synchronize_raises_it(device: SimDevice) -> None:
    k, args = gather(device)
    with device.on_stream(5):
        k(*args)
    with pytest.raises(BoundsError, match="is 12"):
        tc.synchronize()
    tc.synchronize()


def test_a_checked_call_raises_it_itself(device: SimDevice) -> None:
    k, args = gather(device, check="sync")
    for _ in range(2):
        with pytest.raises(BoundsError, match="is 12"):
            k(*args)
    k(args[0], device.array(np.array([1, 2], np.int32)))


def test_a_call_that_waits_does_so_only_where_it_can_fault(device: SimDevice) -> None:
    a = device.array(ramp(3))
    kernel(ADD, check="sync")(a, a)
    assert not device.synchronized


def test_an_unchecked_call_says_nothing_and_stays_inside(device: SimDevice) -> None:
    k, args = gather(device, check="off")
    out = device.array(np.full((2, 4), 7, np.float32))
    for _ in range(2):
        k(*args, out=out)
    tc.synchronize()
    np.testing.assert_array_equal(out.get()[0], ramp(10, 4)[3])
    assert isinstance(k(*args), SimArray)


def test_what_was_outside_in_both_is_told_by_each(device: SimDevice) -> None:
    other = kernel("def pick(float(V) E, int32(B) I) -> (O) { O(b) = E(I(b)) }")
    k, args = gather(device)
    k(*args)
    with device.on_stream(5):
        other(device.array(ramp(6)), device.array(np.array([-1], np.int32)))
        with pytest.raises(BoundsError, match=r"pick: subscript 0 of 'E' is -1, outside \[0, 6\)"):
            other(args[0][0], args[1])
    with pytest.raises(BoundsError, match="gather"):
        tc.synchronize()


def test_the_host_says_the_same_at_once() -> None:
    with pytest.raises(BoundsError) as caught:
        kernel(GATHER)(ramp(10, 4), WRONG)
    assert str(caught.value) == TEXT


def test_another_word_for_check_is_refused() -> None:
    with pytest.raises(TCTypeError, match="check is 'never'; expected 'async', 'sync' or 'off'"):
        tc.define(GATHER, check="never")  # type: ignore[arg-type]
