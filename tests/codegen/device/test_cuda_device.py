"""GPUs through CuPy, by a CuPy that computes nothing: contexts, failures, ways to start."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from tcdsl.codegen.device import cuda
from tcdsl.codegen.device import module as cuda_module
from tcdsl.codegen.device.cuda import CupyDevice
from tcdsl.codegen.device.module import CupyModule
from tcdsl.grammar.text.errors import DeviceError, DeviceMemoryError
from tests.codegen.device.fake_cupy import ILLEGAL_ADDRESS, INVALID_VALUE, NO_MEMORY, FakeCupy

TEXT = 'extern "C" __global__ void twice(float *x) { x[threadIdx.x] *= 2; }'


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeCupy]:
    yield from _installed(monkeypatch, FakeCupy(devices=2))


def _installed(monkeypatch: pytest.MonkeyPatch, made: FakeCupy) -> Iterator[FakeCupy]:
    monkeypatch.setattr(cuda, "load_cupy", lambda: made)
    yield made


def _function(device: CupyDevice, fake: FakeCupy, shared: int = 0) -> cuda_module.CupyFunction:
    with device.active():
        return CupyModule(fake, b"cubin", device._failures).function("f", shared, 2)


def _launch(device: CupyDevice, f: cuda_module.CupyFunction) -> None:
    values = np.array([3, 4], np.uint64)
    table = np.array([values.ctypes.data, values.ctypes.data + 8], np.uint64)
    with device.active():
        f.launch(10, 128, 64, table.ctypes.data, 5)


def _in_a_thread(do: Callable[[], None]) -> BaseException | None:
    ends: list[BaseException | None] = []

    def run() -> None:
        try:
            do()
        except BaseException as error:
            ends.append(error)
        else:
            ends.append(None)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    return ends[0]


def test_the_first_launch_of_a_new_thread_has_a_context(fake: FakeCupy) -> None:
    device = CupyDevice(0)
    f = _function(device, fake)
    assert _in_a_thread(lambda: _launch(device, f)) is None
    assert fake.launches == [(10, 128, 64, 5, [3, 4])]


def test_the_first_launch_of_a_new_thread_on_another_device_has_a_context(fake: FakeCupy) -> None:
    device = CupyDevice(1)
    f = _function(device, fake)
    assert _in_a_thread(lambda: _launch(device, f)) is None
    assert fake.cuda.runtime.getDevice() == 0  # as it was


def test_after_a_fatal_failure_every_message_names_it(fake: FakeCupy) -> None:
    device = CupyDevice(0)
    f = _function(device, fake)
    fake.fails = ILLEGAL_ADDRESS
    with pytest.raises(DeviceError) as first:
        device.synchronize()
    cause = "CUDA_ERROR_ILLEGAL_ADDRESS: an illegal memory access was encountered"
    over = (
        "  this process cannot use the GPU any more; start a new one "
        "(compute-sanitizer names the kernel)"
    )
    assert str(first.value) == f"GPU 0 did not end its work: {cause}\n{over}"
    a = np.zeros(3)
    later: dict[str, Callable[[], Any]] = {
        "does not start 'f'": lambda: _launch(device, f),
        "did not end its work": lambda: device.synchronize(5),
        "gives no memory (100 bytes)": lambda: device.allocate(100),
        "gives no memory (48 bytes)": lambda: device.empty((3, 4), np.dtype(np.float32)),
        "gives no page-locked memory (64 bytes)": lambda: device.pinned(64),
        "did not copy 24 bytes to the GPU": lambda: device.upload(16, a, 0),
        "did not copy 24 bytes from the GPU": lambda: device.download(a, 16, 0),
        "did not fill 8 bytes": lambda: device.fill(16, 0, 8, 0),
        "cannot let streams wait": lambda: device.wait(1, 2),
        "does not say whether a stream is captured": lambda: device.is_capturing(5),
        "cannot mark a point in a stream": lambda: device.event(0),
        "does not load a kernel that was compiled for it": lambda: _function(device, fake),
    }
    for what, do in later.items():
        with pytest.raises(DeviceError) as caught:
            do()
        assert str(caught.value).startswith(
            f"GPU 0 {what}: it failed before, by {cause}\n{over}"
        ), what
    error = _in_a_thread(lambda: _launch(device, f))
    assert isinstance(error, DeviceError)
    assert "GPU 0 cannot be used: it failed before, by" in str(error)


def test_a_captured_stream_is_told_from_another(fake: FakeCupy) -> None:
    device = CupyDevice(0)
    assert (device.is_capturing(6), device.is_capturing(5)) == (True, False)


def test_a_failure_that_is_not_fatal_is_said_once(fake: FakeCupy) -> None:
    device = CupyDevice(0)
    fake.fails = INVALID_VALUE
    with pytest.raises(DeviceError) as caught:
        device.fill(16, 0, 8, 0)
    assert str(caught.value) == (
        "GPU 0 did not fill 8 bytes: CUDA_ERROR_INVALID_VALUE: invalid argument"
    )
    device.fill(16, 0, 8, 0)


@pytest.mark.parametrize(
    ("ask", "kind"),
    [
        (lambda d: d.allocate(2 << 20), ""),
        (lambda d: d.empty((2, 1 << 20), np.dtype(np.uint8)), ""),
        (lambda d: d.pinned(2 << 20), "page-locked "),
    ],
)
def test_memory_that_is_not_there(
    fake: FakeCupy, ask: Callable[[CupyDevice], Any], kind: str
) -> None:
    device = CupyDevice(0)
    with pytest.raises(DeviceMemoryError, match=f"^GPU 0 has no 2,097,152 bytes of {kind}memory"):
        ask(device)
    with pytest.raises(MemoryError, match="free_all_blocks"):
        ask(device)
    fake.fails = NO_MEMORY  # of CUDA itself, not of CuPy's pool
    with pytest.raises(DeviceMemoryError):
        device.allocate(8)
    device.allocate(8)


def test_cupy_starts_kernels_where_the_drivers_call_is_missing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for fake in _installed(monkeypatch, FakeCupy(gives_launch=False)):
        device = CupyDevice(0)
        f = _function(device, fake)
        _launch(device, f)
        assert _in_a_thread(lambda d=device, f=f: _launch(d, f)) is None  # type: ignore[misc]
        assert fake.launches == [(10, 128, 64, 5, [3, 4])] * 2
        fake.fails = ILLEGAL_ADDRESS
        with pytest.raises(DeviceError, match=r"^GPU 0 does not start 'f': .*ILLEGAL_ADDRESS"):
            _launch(device, f)


def test_a_narrow_value_is_read_from_the_first_bytes_of_its_slot() -> None:
    slot = np.zeros(1, np.uint64)
    slot.view(np.float32)[0] = 1.5
    value = np.uint64(ctypes.c_uint64.from_address(slot.ctypes.data).value)
    assert np.frombuffer(value.tobytes()[:4], np.float32)[0] == 1.5


@pytest.mark.nvrtc
def test_a_raw_kernel_is_made_of_the_cubin_that_calls_load(
    fake: FakeCupy, monkeypatch: pytest.MonkeyPatch
) -> None:
    device = CupyDevice(0)
    with device.active():
        device.load(TEXT, "twice")
        raw = device.raw(TEXT, "twice", "twice", 100 << 10)
        again = device.raw(TEXT, "twice", "twice")
    assert raw.cubin == fake.loaded[0]
    assert raw.cubin[:4] == b"\x7fELF"
    assert (raw.name, raw.max_dynamic_shared_size_bytes) == ("twice", 100 << 10)
    assert (again.cubin, again.max_dynamic_shared_size_bytes) == (raw.cubin, 0)
