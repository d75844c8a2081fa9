"""Calls on arrays of a GPU, from the user's hand to kernels in the simulator and back."""

from __future__ import annotations

import gc
import threading
from typing import Any

import numpy as np
import pytest

import tcdsl as tc
from tcdsl.codegen.device import devices
from tcdsl.codegen.device.device import Device
from tcdsl.codegen.machine.gpu import Gpu
from tcdsl.grammar.text.errors import DeviceError, ShapeError, TCTypeError
from tests.tcdsl.calls.gpu.null import NullArray, NullDevice
from tests.tcdsl.calls.gpu.sim import SimArray, SimDevice
from tests.tcdsl.differential import viewed
from tests.tiers import sampled

pytestmark = pytest.mark.cusim

ADD = "def add(float(N) A, float(N) B) -> (C) { C(i) = A(i) + B(i) }"
MM = "def mm(float(M,K) A, float(K,N) B) -> (C) { C(m, n) +=! A(m, k) * B(k, n) }"
SPREAD = """
def spread(float(B,N) X) -> (m, v) {
  m(b) +=! X(b, n) / N
  v(b) +=! (X(b, n) - m(b)) * (X(b, n) - m(b)) / N
}"""
SCALE = "def scale(float a, int32 n, float(N) A) -> (B) { B(i) = a * A(i) + n }"
HEAD = "def head(float(N) A, int32 k) -> (B) { B(i) = A(i) where i in 0:k }"
TOTAL = "def total(float(N) A) -> (s) { s +=! A(i) }"
GATHER = "def gather(float(V,D) E, int32(B) I) -> (O) { O(b, d) = E(I(b), d) }"
ONTO = "def onto(float(N) A) -> (S) { S(i) += A(i) }"


def kernel(text: str, **settings: Any) -> tc.Kernel:
    found = tc.define(text, tune="off", **settings)
    assert isinstance(found, tc.Kernel)
    return found


def ramp(*shape: int) -> Any:
    return np.arange(np.prod(shape), dtype=np.float32).reshape(shape)


def executables(k: tc.Kernel, gpu: Gpu) -> list[tuple[bool, bool]]:
    """Return, for each executable of a GPU, whether it is exact and whether it is small."""
    made = k.session.variant(k.definition, {}, gpu).executables
    return [(c.spec.sizes is not None, c.spec.is_small) for c in made]


# ---- what comes back


def test_what_is_known_of_a_call_keeps_none_of_its_arrays(device: SimDevice) -> None:
    k, a = kernel(ADD), device.array(ramp(4))
    b, out = device.array(ramp(4)), device.array(ramp(4))
    k(a, b)
    k(a, b, out=out)
    del b, out
    gc.collect()
    assert device.live_bytes == a.values.nbytes
    k(a, a)


def test_a_call_on_a_device_gives_arrays_of_its_library(device: SimDevice) -> None:
    a, b = ramp(4, 3), ramp(3, 5)
    c = kernel(MM)(device.array(a), device.array(b))
    assert isinstance(c, SimArray)
    np.testing.assert_array_equal(c.get(), a @ b)


def test_several_returns_are_a_named_tuple(device: SimDevice) -> None:
    x = ramp(3, 4)
    k = kernel(SPREAD)
    for _ in range(2):  # looked up the second time
        got = k(device.array(x))
        np.testing.assert_allclose(got.m.get(), x.mean(1))
        np.testing.assert_allclose(got.v.get(), x.var(1), rtol=1e-6)


def test_arguments_may_come_by_keyword_and_generics_too(device: SimDevice) -> None:
    k = kernel("def every<S=2>(float(N) A) -> (B) { B(i) = A(S * i) }")
    a = ramp(9)
    for _ in range(2):
        assert k(A=device.array(a)).get().tolist() == a[::2].tolist()
        assert k(device.array(a), S=3).get().tolist() == a[::3].tolist()


@sampled("view", ["transposed", "strided", "reversed", "broadcast", "sliced"], keep=2)
def test_a_view_is_read_where_it_lies(device: SimDevice, view: str) -> None:
    a, b = viewed(ramp(4, 4), view), ramp(4, 5)
    on_device = device.array(a), device.array(b)
    before = device.live_bytes
    c = kernel(MM)(*on_device)
    np.testing.assert_array_equal(c.get(), a @ b)
    assert device.live_bytes == before + 4 * 4 * 5  # the output, no copy of a view


def test_nothing_is_left_of_a_call_but_its_outputs(device: SimDevice) -> None:
    x = device.array(ramp(3, 4))
    k = kernel(SPREAD)
    k(x)
    gc.collect()
    before = device.live_bytes
    k(x)
    gc.collect()
    assert device.live_bytes == before


def test_an_empty_output_starts_nothing(device: SimDevice) -> None:
    got = kernel(ADD)(device.array(ramp(0)), device.array(ramp(0)))
    assert got.shape == (0,)
    assert not device.starts


def test_an_empty_sum_is_zero(device: SimDevice) -> None:
    got = kernel(MM)(device.array(ramp(2, 0)), device.array(ramp(0, 3)))
    np.testing.assert_array_equal(got.get(), np.zeros((2, 3)))


# ---- numbers


def test_numbers_go_by_value_rounded_to_their_types(device: SimDevice) -> None:
    k, a = kernel(SCALE), ramp(5)
    on_device = device.array(a)
    for factor, n in ((0.1, 2), (0.7, -3), (np.float64(0.1), np.int8(4))):
        want = np.float32(factor) * a + np.float32(n)
        np.testing.assert_allclose(k(factor, n, on_device).get(), want, rtol=1e-6)


def test_an_integer_that_does_not_fit_is_refused(device: SimDevice) -> None:
    k = kernel(SCALE)
    with pytest.raises(OverflowError, match="outside of int32"):
        k(1.0, 2**31, device.array(ramp(3)))
    with pytest.raises(TypeError):
        k(1.0, 1.5, device.array(ramp(3)))


def test_a_number_in_a_bound_is_a_size(device: SimDevice) -> None:
    k, a = kernel(HEAD), device.array(ramp(6))
    for n in (2, 4, 2, 4, 0):
        assert k(a, n).get().tolist() == list(range(n))
    with pytest.raises(ShapeError):
        k(a, 7)


def test_an_array_of_rank_0_is_read_as_a_number(device: SimDevice) -> None:
    k, a = kernel(SCALE), ramp(5)
    factor = device.array(np.array(2.0, np.float32))
    got = k(factor, np.int32(1), device.array(a))
    np.testing.assert_array_equal(got.get(), 2 * a + 1)
    on_host = k(factor, 1, a)
    assert isinstance(on_host, np.ndarray)
    np.testing.assert_array_equal(on_host, 2 * a + 1)


# ---- which executable serves


def test_first_sizes_are_exact_the_next_generic_and_many_layouts_strided(
    device: SimDevice,
) -> None:
    k = kernel(MM)

    def call(m: int, n: int, view: str = "c") -> None:
        a, b = viewed(ramp(m, 3), view), ramp(3, n)
        np.testing.assert_array_equal(k(device.array(a), device.array(b)).get(), a @ b)

    call(4, 4)
    assert executables(k, device.gpu) == [(True, False)]
    call(4, 4)
    call(5, 4)
    call(6, 2)
    assert executables(k, device.gpu) == [(True, False), (False, True)]
    for view in ("transposed", "strided", "reversed", "broadcast"):
        call(4, 4, view)
    assert executables(k, device.gpu)[1:] == 4 * [(False, True)]  # the last is the strided one
    strided = k.session.variant(k.definition, {}, device.gpu).executables[-1]
    assert not any(x.contiguous for x in strided.spec.layouts)


def test_operands_of_many_elements_get_an_executable_with_wide_addresses() -> None:
    null = NullDevice(9)
    devices.register(null)
    try:
        k, f32 = kernel(ADD), np.dtype(np.float32)
        for n in (5, 6, 2**30):
            a = NullArray((n,), f32)
            k(a, a)
        assert executables(k, null.gpu) == [(True, False), (False, True), (False, False)]
    finally:
        devices.unregister(9)


def test_the_host_and_devices_keep_apart(device: SimDevice) -> None:
    k, a = kernel(ADD), ramp(5)
    host = k(a, a)
    assert isinstance(host, np.ndarray)
    np.testing.assert_array_equal(k(device.array(a), device.array(a)).get(), host)
    np.testing.assert_array_equal(k(a, a), host)


# ---- out=


def test_outputs_go_into_the_callers_buffer(device: SimDevice) -> None:
    k, a, b = kernel(MM), ramp(4, 3), ramp(3, 5)
    on_device = device.array(a), device.array(b)
    for _ in range(2):
        out = device.array(np.full((4, 5), 7, np.float32))
        assert k(*on_device, out=out) is out
        np.testing.assert_array_equal(out.get(), a @ b)
    wide = device.array(np.zeros((5, 8), np.float32))
    k(*on_device, out=wide[:4, 1:6])
    np.testing.assert_array_equal(wide.get()[:4, 1:6], a @ b)
    assert not wide.get()[4].any()
    assert not wide.get()[:, 6:].any()


def test_outputs_of_several_returns(device: SimDevice) -> None:
    k, x = kernel(SPREAD), ramp(3, 4)
    outs = device.array(ramp(3)), device.array(ramp(3))
    for _ in range(2):
        got = k(device.array(x), out=outs)
        assert got.m is outs[0]
        np.testing.assert_allclose(outs[1].get(), x.var(1), rtol=1e-6)


def test_an_output_of_rank_0_is_written(device: SimDevice) -> None:
    s = device.array(np.array(9, np.float32))
    for _ in range(2):
        assert kernel(TOTAL)(device.array(ramp(5)), out=s) is s
        assert s.get() == 10


def test_an_output_may_be_the_very_view_of_an_input_read_only_there(device: SimDevice) -> None:
    k = kernel(ADD)
    a = device.array(ramp(6))
    for n in (1, 2, 3):
        starts = len(device.starts)
        k(a, a, out=a)
        np.testing.assert_array_equal(a.get(), 2**n * ramp(6))
        assert len(device.starts) == starts + 1


def test_an_output_that_overlaps_an_input_is_computed_beside_it(device: SimDevice) -> None:
    k = kernel(ADD)
    a = device.array(ramp(6))
    apart = device.array(ramp(5))
    k(a[:-1], apart, out=device.array(ramp(5)))  # the same form without an overlap
    for _ in range(2):
        before = a.get()
        k(a[:-1], apart, out=a[1:])
        np.testing.assert_array_equal(a.get()[1:], before[:-1] + apart.get())
    square = device.array(ramp(3, 3))
    kernel(MM)(square, square, out=square)
    np.testing.assert_array_equal(square.get(), ramp(3, 3) @ ramp(3, 3))


def test_an_updated_output_goes_on_from_the_buffer_or_from_nothing(device: SimDevice) -> None:
    with pytest.warns(UserWarning, match="S"):
        k = kernel(ONTO)
    a = device.array(ramp(5))
    np.testing.assert_array_equal(k(a).get(), ramp(5))
    out = device.array(np.full(5, 2, np.float32))
    k(a, out=out)
    np.testing.assert_array_equal(out.get(), ramp(5) + 2)
    k(out, out=out[::-1])  # meets the input: computed beside it, from what is there
    np.testing.assert_array_equal(out.get(), (ramp(5) + 2) + (ramp(5) + 2)[::-1])


def _out_faults(device: SimDevice) -> list[tuple[Any, type[Exception], str]]:
    whole = device.array(ramp(8))
    one = device.array(ramp(1))
    stride_0 = SimArray(device, np.broadcast_to(one.values, (4,)), one)
    stride_0.values.flags.writeable = True
    return [
        (device.array(ramp(5)), ShapeError, r"of shape \(N\) = \(4,\), got \(5,\)"),
        (device.array(np.zeros(4)), TCTypeError, "of type float32, got float64"),
        (stride_0, ShapeError, "has stride 0"),
        ((whole[:4], whole[:4]), TCTypeError, "has 1 return, got 2 outputs"),
        (np.zeros(4, np.float32), TCTypeError, "'A' lies on GPU 0, 'C' in the host's memory"),
    ]


@pytest.mark.parametrize("case", range(5))
@pytest.mark.filterwarnings("ignore:Numpy:DeprecationWarning")
def test_a_wrong_output_is_refused(device: SimDevice, case: int) -> None:
    out, error, text = _out_faults(device)[case]
    a = device.array(ramp(4))
    with pytest.raises(error, match=text):
        kernel(ADD)(a, a, out=out)


def test_two_outputs_must_not_overlap(device: SimDevice) -> None:
    k, x = kernel(SPREAD), device.array(ramp(3, 4))
    k(x, out=(device.array(ramp(3)), device.array(ramp(3))))
    whole = device.array(ramp(5))
    with pytest.raises(ShapeError, match="two outputs overlap"):
        k(x, out=(whole[:3], whole[2:]))


# ---- places


def test_arrays_of_host_and_device_do_not_mix(device: SimDevice) -> None:
    with pytest.raises(TCTypeError) as caught:
        kernel(ADD)(device.array(ramp(4)), ramp(4))
    assert str(caught.value) == (
        "add: 'A' lies on GPU 0, 'B' in the host's memory\n"
        "  bring all arrays to one place: cupy.asarray(x), torch's x.to('cuda:0')"
    )
    with pytest.raises(TCTypeError, match="'A' lies in the host's memory, 'B' on GPU 0"):
        kernel(ADD)(ramp(4), device.array(ramp(4)))


def test_arrays_of_two_devices_do_not_mix(device: SimDevice) -> None:
    other = SimDevice(1)
    devices.register(other)
    try:
        k, a = kernel(ADD), ramp(4)
        with pytest.raises(TCTypeError, match="'A' lies on GPU 0, 'B' on GPU 1"):
            k(device.array(a), other.array(a))
        for d in (device, other, device):
            np.testing.assert_array_equal(k(d.array(a), d.array(a)).get(), 2 * a)
        assert len(device.starts) == 2
        assert len(other.starts) == 1
        # two GPUs of one kind share what was chosen, each has machine code of its own
        assert executables(k, device.gpu) == [(True, False)]
    finally:
        devices.unregister(1)
    other.assert_clean()


def test_errors_of_types_and_shapes_are_those_of_the_host(device: SimDevice) -> None:
    k = kernel(MM)
    for bad in ((ramp(4, 3), ramp(4, 5)), (ramp(4), ramp(4, 5)), (ramp(4, 3), np.zeros((3, 5)))):
        with pytest.raises(tc.TCError) as on_host:
            k(*bad)
        with pytest.raises(tc.TCError) as on_device:
            k(*map(device.array, bad))
        assert str(on_device.value) == str(on_host.value)
        assert type(on_device.value) is type(on_host.value)
    with pytest.raises(TCTypeError, match="misses 'B'"):
        k(device.array(ramp(4, 3)))


def test_elements_that_lie_askew_are_refused(device: SimDevice) -> None:
    whole = device.array(np.zeros(9, np.uint8))
    askew = SimArray(device, whole.values[1:].view(np.float32), whole)
    with pytest.raises(TCTypeError, match="multiples of their size"):
        kernel(ADD)(askew, askew)


def test_a_grid_of_too_many_blocks_is_refused() -> None:
    null = NullDevice(9)
    devices.register(null)
    try:
        a = NullArray((2**44,), np.dtype(np.int8))
        with pytest.raises(DeviceError, match="a grid has at most"):
            kernel("def inc(int8(N) A) -> (B) { B(i) = A(i) + 1 }")(a)
    finally:
        devices.unregister(9)


# ---- streams and threads


def test_kernels_go_to_the_threads_current_stream(device: SimDevice) -> None:
    k, a = kernel(ADD), device.array(ramp(4))
    k(a, a)
    with device.on_stream(77):
        k(a, a)
    assert [stream for _, stream in device.starts] == [0, 77]


def test_threads_on_streams_of_their_own_do_not_meet(device: SimDevice) -> None:
    k = kernel(SPREAD)
    wrong: list[object] = []

    def work(stream: int) -> None:
        x = ramp(3, 4) * stream
        on_device = device.array(x)
        with device.on_stream(stream):
            for _ in range(20):
                got = k(on_device)
                if not np.allclose(got.m.get(), x.mean(1)):
                    wrong.append((stream, got.m.get()))

    threads = [threading.Thread(target=work, args=(s,)) for s in range(1, 5)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong
    assert {stream for _, stream in device.starts} == {1, 2, 3, 4}
    assert len(executables(k, device.gpu)) == 1


def test_a_simulated_device_is_a_device(device: SimDevice) -> None:
    found: Device = device
    assert devices.device(0) is found


PUT = "def put(float(N) X, int32(P) I, float(P) V) -> (Y) { Y(i) = X(i) Y(I(p)) = V(p) }"


def test_of_points_that_meet_the_last_one_is_assigned(device: SimDevice) -> None:
    x, v = ramp(40), -ramp(90)
    i = np.random.default_rng(0).integers(0, 40, 90).astype(np.int32)
    want = x.copy()
    for at, value in zip(i, v, strict=True):
        want[at] = value
    k = kernel(PUT)
    for _ in range(2):
        y = k(device.array(x), device.array(i), device.array(v))
        np.testing.assert_array_equal(y.get(), want)
