"""Calls on tensors of a GPU: torch's current stream, its allocator, faults, graphs, gradients.

The GPUs are simulated, and so is what of torch needs one: tensors that say 'cuda' over simulated
memory, the current stream, `torch.empty` there.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any

import ml_dtypes
import numpy as np
import pytest

torch = pytest.importorskip("torch")
tct: Any = pytest.importorskip("tcdsl.torch")

import tcdsl as tc  # noqa: E402 - torch may be missing
from tcdsl.calls.gpu import copies as device_copies  # noqa: E402
from tcdsl.codegen.device import devices  # noqa: E402
from tcdsl.derived import own, with_gradient  # noqa: E402
from tcdsl.grammar.text.errors import BoundsError, DeviceError, TCTypeError  # noqa: E402
from tcdsl.torch import gpu, library  # noqa: E402
from tests.tcdsl.calls.gpu.sim import SimArray, SimDevice  # noqa: E402

pytestmark = [pytest.mark.torch, pytest.mark.cusim]

MUL = "def mul<T>(T(N) A, T(N) B) -> (C) { C(i) = A(i) * B(i) }"
SHIFT = "def shift(float(N) A) -> (B) { B(i) = A(N - 1 - i) }"
SCALE = "def scale(float a, float(N) A) -> (B) { B(i) = a * A(i) }"
ONTO = "def onto(float(N) A) -> (S) { S(i) += A(i) }"
BOTH = "def both(float(N) A) -> (B, C) { B(i) = A(i) + 1  C(i) = 2 * A(i) }"
SUMS = "def sums(float(B,N) X) -> (v) { m(b) +=! X(b, n)  v(b) = m(b) + m(B - 1 - b) }"
GATHER = "def gather(float(V) E, int32(B) I) -> (O) { O(b) = E(I(b)) }"


class Tensor(torch.Tensor):  # type: ignore[misc, name-defined]
    """A tensor that says that it lies on a GPU."""

    __torch_function__ = torch._C._disabled_torch_function_impl
    array: SimArray

    @property
    def device(self) -> Any:
        return torch.device("cuda", self.get_device())

    @property
    def is_cuda(self) -> bool:
        return True

    def get_device(self) -> int:
        return self.array.device.number

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.array.__dlpack_device__()

    def __dlpack__(self, *, stream: int | None = None, **_: Any) -> Any:
        return self.array.__dlpack__(stream=stream)

    def detach(self) -> Tensor:
        return wrapped(self.array)

    def resolve_neg(self) -> Tensor:
        return wrapped(self.array.device.array(-self.array.get()))


def wrapped(array: SimArray) -> Tensor:
    values = array.values
    if values.dtype == ml_dtypes.bfloat16:
        flat = torch.from_numpy(values.view(np.uint16)).view(torch.bfloat16)
    else:
        flat = torch.from_numpy(values)
    made: Tensor = torch.Tensor._make_subclass(Tensor, flat)
    made.array = array
    return made


class Torch:
    """What of torch needs a GPU.

    Attributes
    ----------
    made : list of (shape, dtype, number of the GPU)
        What its allocator was asked for.
    """

    def __init__(self) -> None:
        self.gpus = [SimDevice(0), SimDevice(1)]
        self.made: list[tuple[tuple[int, ...], Any, int]] = []
        self._current = threading.local()
        self._empty = torch.empty

    def stream(self, number: int) -> int:
        """Return the thread's current stream of a GPU."""
        handle: int = getattr(self._current, f"of_{number}", 0)
        return handle

    @contextlib.contextmanager
    def on(self, handle: int, number: int = 0) -> Iterator[None]:
        """Make a stream the thread's current one."""
        before = self.stream(number)
        setattr(self._current, f"of_{number}", handle)
        try:
            yield
        finally:
            setattr(self._current, f"of_{number}", before)

    def empty(self, *shape: Any, dtype: Any = None, device: Any = None, **more: Any) -> Any:
        """Stand for `torch.empty`."""
        if device is None or torch.device(device).type != "cuda":
            return self._empty(*shape, dtype=dtype, device=device, **more)
        number = torch.device(device).index
        form = (shape[0],) if isinstance(shape[0], int) else tuple(shape[0])
        self.made.append((form, dtype, number))
        own = self.gpus[number]
        with own.active():
            return wrapped(own.empty(form, gpu._NUMPYS.get(dtype) or gpu._numpys(dtype)))

    def tensor(self, values: Any, number: int = 0) -> Tensor:
        """Return a tensor on a GPU."""
        return wrapped(self.gpus[number].array(np.asarray(values)))

    def streams(self, number: int = 0) -> list[int]:
        """Return the streams that kernels were started on, in order."""
        return [stream for _, stream in self.gpus[number].starts]


@pytest.fixture
def cuda(monkeypatch: pytest.MonkeyPatch) -> Iterator[Torch]:
    stands = Torch()
    monkeypatch.setattr(torch._C, "_cuda_getCurrentRawStream", stands.stream, raising=False)
    monkeypatch.setattr(torch, "empty", stands.empty)
    monkeypatch.setitem(gpu.READERS, Tensor, gpu._read)
    for device in stands.gpus:
        devices.register(device)
    for made in (device_copies._copier, with_gradient._zeros, own._copy):
        made.cache_clear()  # kernels bound to devices before
    try:
        yield stands
    finally:
        for device in stands.gpus:
            devices.unregister(device.number)
    for device in stands.gpus:
        device.assert_clean()


def define(text: str, **settings: Any) -> Any:
    return tct.define(text, tune="off", **settings)


def ramp(count: int) -> Any:
    return np.arange(count, dtype=np.float32)


def told(tensor: Tensor) -> Any:
    """Return values as NumPy's."""
    return tensor.array.get()


# ---- streams and memory


def test_a_call_runs_on_torchs_current_stream_into_torchs_memory(cuda: Torch) -> None:
    k, x, y = define(MUL), cuda.tensor(ramp(5)), cuda.tensor(ramp(5) + 1)
    for handle in (70, 90, 0, 70):  # looked up from the second on
        with cuda.on(handle), cuda.gpus[0].on_stream(3):  # which is CuPy's
            z = k(x, y)
        assert type(z) is Tensor
        assert z.device == torch.device("cuda", 0)
        np.testing.assert_array_equal(told(z), ramp(5) * (ramp(5) + 1))
    assert cuda.streams() == [70, 90, 0, 70]
    assert cuda.made == [((5,), torch.float32, 0)] * 4
    assert not cuda.gpus[0].waits
    assert not cuda.gpus[0].synchronized


def test_a_repeated_call_is_looked_up(cuda: Torch, monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[object] = []
    real = gpu.TensorCalls._call

    def counted(calls: Any, given: Any) -> Any:
        looked.append(given)
        return real(calls, given)

    monkeypatch.setattr(gpu.TensorCalls, "_call", counted)
    k = define(MUL)
    for count in (5, 5, 7, 5, 7):
        x = cuda.tensor(ramp(count))
        np.testing.assert_array_equal(told(k(x, x)), ramp(count) ** 2)
    out = cuda.tensor(ramp(5))
    x = cuda.tensor(ramp(5))
    for _ in range(3):
        assert k(x, x, out=out) is out
    assert len(looked) == 3  # the first of each form


def test_several_outputs_and_workspaces_are_torchs(cuda: Torch) -> None:
    x = cuda.tensor(ramp(6))
    with cuda.on(11):
        b, c = define(BOTH)(x)
    assert (type(b), type(c)) == (Tensor, Tensor)
    np.testing.assert_array_equal(told(c), 2 * ramp(6))
    cuda.made.clear()
    before = cuda.gpus[0].live_bytes
    values = ramp(12).reshape(3, 4)
    with cuda.on(12):
        v = define(SUMS)(cuda.tensor(values))
    np.testing.assert_array_equal(told(v), values.sum(1) + values.sum(1)[::-1])
    assert cuda.made[0] == ((3,), torch.float32, 0)
    assert [dtype for _, dtype, _ in cuda.made] == [torch.float32, torch.uint8]
    assert {*cuda.streams()} == {11, 12}
    assert cuda.gpus[0].live_bytes == before + v.array.values.nbytes  # no more


def test_each_gpu_has_its_own_stream_and_memory(cuda: Torch) -> None:
    k = define(MUL)
    for _ in range(2):
        for number in (0, 1):
            x = cuda.tensor(ramp(3), number)
            with cuda.on(20, 0), cuda.on(21, 1):
                z = k(x, x)
            assert z.device == torch.device("cuda", number)
            np.testing.assert_array_equal(told(z), ramp(3) ** 2)
    assert (cuda.streams(0), cuda.streams(1)) == ([20, 20], [21, 21])
    assert [number for _, _, number in cuda.made] == [0, 1, 0, 1]
    with pytest.raises(TCTypeError, match="'A' lies on GPU 1, 'B' on GPU 0"):
        k(x, cuda.tensor(ramp(3), 0))
    with pytest.raises(TCTypeError, match="'A' lies on GPU 1, 'B' in the host's memory"):
        k(x, torch.ones(3))


def test_threads_have_streams_of_their_own(cuda: Torch) -> None:
    k, x = define(MUL), cuda.tensor(ramp(4))
    k(x, x)
    together = threading.Barrier(2)
    seen: dict[int, list[Any]] = {31: [], 32: []}

    def work(handle: int) -> None:
        with cuda.on(handle):
            for _ in range(4):
                together.wait(30)
                seen[handle].append(told(k(x, x)))

    threads = [threading.Thread(target=work, args=(handle,)) for handle in seen]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sorted(cuda.streams()) == [0, *[31] * 4, *[32] * 4]
    for results in seen.values():
        np.testing.assert_array_equal(results, [ramp(4) ** 2] * 4)


# ---- what is read and written


def test_tensors_are_read_as_they_lie(cuda: Torch) -> None:
    k = define(MUL)
    x, y = ramp(12).reshape(3, 4), ramp(8)
    for _ in range(2):
        column = wrapped(cuda.tensor(x).array[:, 1])
        other = wrapped(cuda.tensor(y).array[1::3])
        np.testing.assert_array_equal(told(k(column, other)), x[:, 1] * y[1::3])
    half = cuda.tensor(ramp(5).astype(ml_dtypes.bfloat16))
    for _ in range(2):
        z = k(half, half)
        assert z.dtype == torch.bfloat16
        np.testing.assert_array_equal(told(z).astype(np.float32), ramp(5) ** 2)
    empty = k(cuda.tensor(ramp(0)), cuda.tensor(ramp(0)))
    assert empty.shape == (0,)


def test_a_negated_view_is_resolved_also_where_its_form_is_known(cuda: Torch) -> None:
    k, x = define(MUL), cuda.tensor(ramp(4))
    k(x, x)
    negated = torch.Tensor._make_subclass(Tensor, torch._neg_view(torch.from_numpy(x.array.values)))
    negated.array = x.array
    assert negated.is_neg()
    np.testing.assert_array_equal(told(k(negated, x)), -(ramp(4) ** 2))
    with pytest.raises(TCTypeError, match="'C' is a view that negates what is written to it"):
        k(x, x, out=negated)


def test_buffers_are_written_in_place_and_count_a_version(cuda: Torch) -> None:
    k, x = define(MUL), cuda.tensor(ramp(4))
    out = cuda.tensor(np.zeros(4, np.float32))
    for turn in range(3):
        with cuda.on(40 + turn):
            assert k(x, x, out=out) is out
        assert out._version == turn + 1
    np.testing.assert_array_equal(told(out), ramp(4) ** 2)
    assert cuda.streams() == [40, 41, 42]
    assert not cuda.made
    with cuda.on(50):  # by way of fresh memory, since it reads what it writes
        define(SHIFT)(x, out=x)
    np.testing.assert_array_equal(told(x), ramp(4)[::-1])
    assert {*cuda.streams()[3:]} == {50}
    assert len(cuda.streams()) > 4
    assert not cuda.gpus[0].waits


@pytest.mark.filterwarnings("ignore:.*TC150")
def test_an_output_that_is_added_to_begins_at_its_identity(cuda: Torch) -> None:
    with cuda.on(41):
        s = define(ONTO)(cuda.tensor(ramp(4)))
    assert type(s) is Tensor
    np.testing.assert_array_equal(told(s), ramp(4))
    assert {*cuda.streams()} == {41}


def test_a_tensor_of_rank_0_is_a_number(cuda: Torch) -> None:
    k, x = define(SCALE), cuda.tensor(ramp(4))
    for a in (cuda.tensor(np.float32(3)), 3.0, torch.tensor(3.0)):
        np.testing.assert_array_equal(told(k(a, x)), 3 * ramp(4))


def test_a_buffer_alone_may_decide_where_a_call_runs(cuda: Torch) -> None:
    out = cuda.tensor(np.zeros(4, np.float32))
    k = define("def fill(float a, int32 s) -> (B) { B(i) = a + s where i in 0:4 }")
    for handle in (9, 10):
        with cuda.on(handle):
            assert k(1.0, handle, out=out) is out
        np.testing.assert_array_equal(told(out), np.full(4, 1 + handle, np.float32))
    assert cuda.streams() == [9, 10]


def test_numbers_alone_give_tensors_on_their_gpu(cuda: Torch) -> None:
    text = "def fill<T>(T a) -> (B, C) { B(i) = a where i in 0:4  C = a + a }"
    for dtype in (np.float32, ml_dtypes.bfloat16):
        b, c = define(text)(cuda.tensor(np.array(3, dtype), 1))
        assert (b.device, c.device) == (torch.device("cuda", 1),) * 2
        np.testing.assert_array_equal(told(b), np.full(4, 3, dtype))
        assert told(c) == 6


def test_arrays_of_cupy_are_waited_for_and_wait(cuda: Torch) -> None:
    k, x, device = define(MUL), cuda.tensor(ramp(4)), cuda.gpus[0]
    with cuda.on(60), device.on_stream(6):
        z = k(device.array(ramp(4)), x)
        assert type(z) is Tensor  # wherever tensors come in, tensors come out
        assert device.waits == [(60, 6), (6, 60)]
        out = device.array(ramp(4))
        assert k(x, x, out=out) is out
        assert device.waits[2:] == [(60, 6), (6, 60)]
        assert isinstance(k(out, out), SimArray)  # no tensor: all is CuPy's
    assert cuda.streams() == [60, 60, 6]
    np.testing.assert_array_equal(out.get(), ramp(4) ** 2)


def test_a_plain_kernel_stays_on_cupys_stream(cuda: Torch, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "from_dlpack", wrapped)
    k: Any = tc.define(MUL, tune="off")
    x = cuda.tensor(ramp(4))
    with cuda.on(60), cuda.gpus[0].on_stream(6):
        np.testing.assert_array_equal(told(k(x, x)), ramp(4) ** 2)
        out = cuda.tensor(ramp(4))
        k(x, x, out=out)
    assert out._version == 1  # torch hears of what was written
    assert cuda.streams() == [6, 6]
    assert not [form for form in cuda.made if form[0] == (4,)]


# ---- faults, and graphs


def test_a_fault_is_told_on_its_stream(cuda: Torch) -> None:
    k, x, plain = define(GATHER), cuda.tensor(ramp(4)), define(MUL)
    right, wrong = (cuda.tensor(np.array([1, at], np.int32)) for at in (3, 9))
    with cuda.on(5):
        k(x, wrong)
    with cuda.on(6):
        k(x, right)
        plain(x, x)
    with cuda.on(5):
        with pytest.raises(BoundsError, match=r"gather: subscript 0 of 'E' is 9, outside \[0, 4\)"):
            plain(x, x)
        plain(x, x)
    assert cuda.gpus[0].synchronized == [5]
    with cuda.on(6):
        k(x, wrong)
    with cuda.gpus[0].on_stream(6), pytest.raises(BoundsError):  # one stream, whoever asks
        k(x.array, right.array)
    with cuda.on(7):
        k(x, wrong)
    with pytest.raises(BoundsError):
        tc.synchronize()
    tc.synchronize()


def test_a_call_in_a_graph_neither_waits_nor_loads(cuda: Torch) -> None:
    device, k, x = cuda.gpus[0], define(GATHER), cuda.tensor(ramp(4))
    right, wrong = (cuda.tensor(np.array([1, at], np.int32)) for at in (3, 9))
    out = cuda.tensor(np.zeros(2, np.float32))
    with cuda.on(5):
        k(x, right)
        k(x, right, out=out)
    device.captured.add(9)
    with cuda.on(9):
        k(x, wrong)  # the capture does not run it, the simulator does, as a replay would
        k(x, right)  # what is known of faults by now waits, nobody else
        k(x, right, out=out)
        with pytest.raises(DeviceError) as caught:
            k(x, cuda.tensor(np.zeros(3, np.int32)))
    device.captured.clear()
    assert str(caught.value) == (
        "gather: the stream is being captured for a CUDA graph, and machine code for such "
        "arguments is not loaded yet\n  make such a call before the capture"
    )
    assert not device.synchronized
    assert not device.waits
    with pytest.raises(BoundsError, match="is 9"):  # faults of replays
        tc.synchronize()


@pytest.mark.filterwarnings("ignore:.*TC150")
def test_calls_that_have_to_wait_are_refused_in_a_graph(cuda: Torch) -> None:
    x, device = cuda.tensor(ramp(4)), cuda.gpus[0]
    at = cuda.tensor(np.array([1], np.int32))
    scale, onto, gather = define(SCALE), define(ONTO), define(GATHER, check="sync")
    number = cuda.tensor(np.float32(3))
    calls: dict[str, Callable[[], Any]] = {
        "a number from a GPU's memory is read.*\n  give Python's number": lambda: scale(number, x),
        "copied from the host\n  give it as out=": lambda: onto(x),
        "gather has check='sync', which waits.*\n.*define": lambda: gather(x, at),
    }
    for call in calls.values():
        call()
    started = len(device.starts)
    device.captured.add(9)
    with cuda.on(9):
        for text, call in calls.items():
            with pytest.raises(DeviceError, match=text):
                call()
        scale(3.0, x)
    device.captured.clear()
    assert len(device.starts) == started + 1


# ---- what of torch stands above


def test_a_recorded_call_and_its_way_back_run_on_the_current_stream(cuda: Torch) -> None:
    k = define(MUL)
    x, y = cuda.tensor(ramp(4)).requires_grad_(), cuda.tensor(ramp(4) + 2).requires_grad_()
    for forth, back in ((70, 71), (72, 73)):
        before = len(cuda.streams())
        with cuda.on(forth):
            z = k(x, y)
        assert {*cuda.streams()[before:]} == {forth}
        before = len(cuda.streams())
        with cuda.on(back):
            adjoint = cuda.tensor(ramp(4) + 5)
            dx, dy = torch.autograd.grad(z, (x, y), adjoint)
        assert {*cuda.streams()[before:]} == {back}
        np.testing.assert_array_equal(dx.detach().numpy(), (ramp(4) + 5) * (ramp(4) + 2))
        np.testing.assert_array_equal(dy.detach().numpy(), (ramp(4) + 5) * ramp(4))
    assert not cuda.gpus[0].waits
    assert not cuda.gpus[0].synchronized


def test_the_operator_runs_there_too(cuda: Torch) -> None:
    runner = library.runner_of(library.spelling_of(define(MUL)))
    x = cuda.tensor(ramp(4))
    with cuda.on(80):
        assert type(runner(x, x)) is Tensor
    assert cuda.streams() == [80]
