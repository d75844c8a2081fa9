"""Arrays of other libraries on a GPU: DLPack and the CUDA array interface."""

from __future__ import annotations

import ctypes
import sys
import types
from collections.abc import Iterator
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tcdsl.calls.operands.device_arrays import as_device_array, is_on_device
from tcdsl.calls.operands.dlpack import Borrowed
from tcdsl.codegen.device import devices
from tcdsl.grammar.text.errors import DeviceError, TCTypeError
from tests.tcdsl.calls.gpu.sim import SimArray, SimDevice
from tests.tcdsl.calls.gpu.test_calls import ADD, SPREAD, TOTAL, kernel, ramp

pytestmark = pytest.mark.cusim

BF16 = np.dtype(ml_dtypes.bfloat16)


class Tensor:
    """A tensor of another library, whose work goes to a stream of its own."""

    stream = 40

    def __init__(self, array: SimArray, needs_grad: bool = False) -> None:
        self.array, self.needs_grad = array, needs_grad
        self.asked: list[int | None] = []

    @property
    def ndim(self) -> int:
        return self.array.ndim

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.array.__dlpack_device__()

    def __dlpack__(self, *, stream: int | None = None) -> Any:
        if self.needs_grad:
            raise BufferError("Can't export tensors that require gradient, use tensor.detach()")
        self.asked.append(stream)
        with self.array.device.on_stream(self.stream):
            return self.array.__dlpack__(stream=stream)


class Interface:
    """An array that has nothing but ``__cuda_array_interface__``."""

    def __init__(self, array: SimArray, **changes: Any) -> None:
        self._array, self._changes = array, changes
        self.ndim = array.ndim

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {**self._array.__cuda_array_interface__, **self._changes}


@pytest.fixture
def library() -> Iterator[list[Borrowed]]:
    """Install a module whose `from_dlpack` notes what it was given."""
    module = types.ModuleType("another_library")
    taken: list[Borrowed] = []

    def from_dlpack(producer: Any) -> Tensor:
        taken.append(Borrowed(producer, Tensor.stream))
        address, shape, _, dtype, number = taken[-1].place
        device = devices.device(number)
        assert isinstance(device, SimDevice)
        room = (ctypes.c_char * (int(np.prod(shape)) * dtype.itemsize)).from_address(address)
        return Tensor(
            SimArray(device, np.frombuffer(memoryview(room), dtype).reshape(shape), taken[-1])
        )

    module.from_dlpack = from_dlpack  # type: ignore[attr-defined]
    sys.modules["another_library"] = module
    Tensor.__module__ = "another_library"
    yield taken
    del sys.modules["another_library"]


def tensor(device: SimDevice, values: Any) -> Tensor:
    return Tensor(device.array(np.asarray(values)))


def test_results_come_in_the_kind_of_the_first_array(
    device: SimDevice, library: list[Borrowed]
) -> None:
    k, a = kernel(ADD), ramp(4)
    for _ in range(2):
        got = k(tensor(device, a), device.array(a))
        assert isinstance(got, Tensor)
        np.testing.assert_array_equal(got.array.get(), 2 * a)
    assert isinstance(k(device.array(a), tensor(device, a)), SimArray)
    both = kernel(SPREAD)(tensor(device, ramp(3, 4)))
    assert isinstance(both.v, Tensor)


def test_streams_wait_for_one_another_as_the_protocol_says(
    device: SimDevice, library: list[Borrowed]
) -> None:
    k, a, b = kernel(ADD), tensor(device, ramp(4)), tensor(device, ramp(4))
    k(a, b)
    assert a.asked == [1]  # what the protocol calls stream 0
    assert (1, Tensor.stream) in device.waits  # we wait for what the tensor's stream does
    assert device.waits[-1] == (Tensor.stream, 0)  # and its stream for our result
    out = tensor(device, ramp(4))
    with device.on_stream(77):
        assert k(a, b, out=out) is out
    assert out.asked == [77]
    assert device.waits[-1] == (Tensor.stream, 77)
    np.testing.assert_array_equal(out.array.get(), 2 * ramp(4))


def test_bfloat16_goes_both_ways(device: SimDevice, library: list[Borrowed]) -> None:
    k = kernel("def inc<T>(T(N) A) -> (B) { B(i) = A(i) + 1 }")
    a = ramp(5).astype(BF16)
    got = k(tensor(device, a))
    assert isinstance(got, Tensor)
    assert library[-1].place[3] == BF16
    np.testing.assert_array_equal(got.array.get().astype(np.float32), ramp(5) + 1)


@pytest.mark.parametrize("name", ["bool", "int8", "uint16", "int64", "float16", "float64"])
def test_types_of_elements(device: SimDevice, name: str) -> None:
    a = ramp(2, 3).astype(name)
    taken = Borrowed(device.array(a.T), 1)
    assert taken.place[1:] == (a.T.shape, a.T.strides, a.dtype, 0)
    assert not taken.is_readonly


def test_a_type_that_the_language_lacks_is_refused(device: SimDevice) -> None:
    a = tensor(device, np.zeros(3, np.complex64))
    with pytest.raises(TCTypeError, match=r"argument 'A' gives no memory: .*type code 5"):
        kernel(ADD)(a, a)


def test_a_tensor_that_records_gradients_is_refused_with_the_cure(device: SimDevice) -> None:
    a = Tensor(device.array(ramp(3)), needs_grad=True)
    with pytest.raises(TCTypeError, match=r"argument 'A' gives no memory.*use tensor.detach"):
        kernel(ADD)(a, a)


def test_a_tensor_of_rank_0_is_a_number(device: SimDevice, library: list[Borrowed]) -> None:
    k = kernel("def times(float a, float(N) A) -> (B) { B(i) = a * A(i) }")
    got = k(tensor(device, np.float32(3)), tensor(device, ramp(4)))
    assert isinstance(got, Tensor)
    np.testing.assert_array_equal(got.array.get(), 3 * ramp(4))


def test_an_array_with_the_interface_alone_gets_the_devices_own(device: SimDevice) -> None:
    a = device.array(ramp(4))
    for _ in range(2):
        got = kernel(ADD)(Interface(a), Interface(a))
        assert isinstance(got, SimArray)
        np.testing.assert_array_equal(got.get(), 2 * ramp(4))
    out = device.array(np.array(0, np.float32))
    kernel(TOTAL)(Interface(a), out=Interface(out))
    assert out.get() == 6


def test_the_interfaces_stream_is_waited_for(device: SimDevice) -> None:
    a = device.array(ramp(4))
    kernel(ADD)(Interface(a, stream=33), Interface(a, stream=1))
    assert device.waits == [(0, 33)]  # 1 is CUDA's stream 0, which is ours


def test_what_the_interface_says_of_an_array_is_kept_to(device: SimDevice) -> None:
    a = device.array(ramp(4))
    facts = a.__cuda_array_interface__
    readonly = Interface(a, data=(facts["data"][0], True))
    for out, text in (
        (readonly, "'C' is read-only"),
        (Interface(a, mask=object()), "'C' has a mask"),
        (Interface(a, typestr=">f4"), "foreign order"),
    ):
        for _ in range(2):
            with pytest.raises((TCTypeError, ValueError), match=text):
                kernel(ADD)(device.array(ramp(4)), device.array(ramp(4)), out=out)
    lost = Interface(a, data=(64, False))
    with pytest.raises(DeviceError):
        as_device_array(lost, "A")


def test_what_lies_on_the_host_is_not_on_a_device() -> None:
    for value in (ramp(3), np.float32(1), 3, 2.0, True, [1], None, "text", np.ma.zeros(2)):
        assert not is_on_device(value)


@pytest.mark.torch
def test_torch_tensors_of_the_host_stay_there(device: SimDevice) -> None:
    import torch

    t = torch.arange(4.0)
    assert not is_on_device(t)
    assert isinstance(kernel(ADD)(t, t), torch.Tensor)
    with pytest.raises(TCTypeError, match="'A' lies on GPU 0, 'B' in the host's memory"):
        kernel(ADD)(device.array(ramp(4)), t)


class TorchTensor(Tensor):
    """What `tcdsl.calls.operands.foreign` asks of a tensor of torch."""

    requires_grad = is_quantized = negates = False
    layout = "strided"
    __torch_dispatch__ = None

    def is_neg(self) -> bool:
        return self.negates

    def is_conj(self) -> bool:
        return False

    _is_zerotensor = is_conj

    def resolve_conj(self) -> TorchTensor:
        return self

    def resolve_neg(self) -> TorchTensor:
        return TorchTensor(self.array.device.array(-self.array.get()))


def test_what_is_more_than_memory_is_seen_on_a_device_too(
    device: SimDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch: Any = types.ModuleType("torch")
    torch.Tensor, torch.strided, torch.is_grad_enabled = TorchTensor, "strided", lambda: True
    torch._C = types.SimpleNamespace(
        _functorch=types.SimpleNamespace(is_functorch_wrapped_tensor=lambda x: False),
        _get_tracing_state=lambda: None,
    )
    torch.autograd = types.SimpleNamespace(forward_ad=types.SimpleNamespace(_current_level=-1))
    torch.from_dlpack = lambda a: a
    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.setattr(TorchTensor, "__module__", "torch")
    x = TorchTensor(device.array(ramp(4)))
    x.negates = True
    plain = device.array(np.zeros(4, np.float32))
    np.testing.assert_array_equal(kernel(ADD)(x, plain).get(), -ramp(4))
    with pytest.raises(TCTypeError, match="'C' is a view that negates what is written to it"):
        kernel(ADD)(plain, plain, out=x)
    x.negates, x.requires_grad = False, True
    with pytest.raises(TCTypeError, match=r"'A' requires grad.*\n.*torch.no_grad\(\)"):
        kernel(ADD)(x, plain)
