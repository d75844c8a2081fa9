"""The same calls on a real GPU, through CuPy and torch."""

from __future__ import annotations

import importlib
import threading
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import tcdsl as tc
from tcdsl.codegen.device import cuda, devices
from tcdsl.grammar.text.errors import BoundsError, DeviceError, TCTypeError
from tcdsl.tools.checked_run import run_once
from tests.tcdsl.calls.gpu.test_calls import (
    ADD,
    GATHER,
    MM,
    ONTO,
    SCALE,
    SPREAD,
    TOTAL,
    kernel,
    ramp,
)
from tests.tcdsl.calls.gpu.test_faults import TEXT, WRONG

pytestmark = pytest.mark.gpu

SOFTMAX = """
def softmax(float(B,N) X) -> (Y) {
  top(b) max=! X(b, n)
  Z(b) +=! exp(X(b, n) - top(b))
  Y(b, n) = exp(X(b, n) - top(b)) / Z(b)
}"""
FCRELU = """
def fcrelu(float(B,M) I, float(N,M) W, float(N) b) -> (O) {
  O(b_, n) +=! I(b_, m) * W(n, m)
  O(b_, n)  = fmax(O(b_, n) + b(n), 0)
}"""
CONV = """
def conv(float(N,C,H,W) I, float(F,C,KH,KW) K) -> (O) {
  O(n, f, h, w) +=! I(n, c, h + kh, w + kw) * K(f, c, kh, kw)
}"""
PERMUTE = "def permute(float(A,B,C) X) -> (Y) { Y(c, a, b) = X(a, b, c) }"
HALVES = "def mm<T>(T(M,K) A, T(K,N) B) -> (C) { C(m, n) +=! A(m, k) * B(k, n) }"


@pytest.fixture(scope="module")
def cupy() -> Iterator[ModuleType]:
    devices.unregister(0)
    try:
        if not cuda.device_count():
            pytest.skip("there is no GPU")
    except DeviceError as error:
        pytest.skip(str(error).splitlines()[0])
    yield cuda.load_cupy()
    tc.synchronize()


@pytest.fixture(scope="module")
def torch(cupy: ModuleType) -> ModuleType:
    found = pytest.importorskip("torch")
    if not found.cuda.is_available():
        pytest.skip("this torch has no CUDA")
    module: ModuleType = importlib.import_module("torch")
    return module


@pytest.mark.parametrize(
    ("text", "sizes"),
    [
        (MM, [{"M": 300, "K": 257, "N": 129}, {"M": 65, "K": 33, "N": 1000}]),
        (FCRELU, [{"B": 100, "M": 128, "N": 100}, {"B": 7, "M": 513, "N": 64}]),
        (SOFTMAX, [{"B": 33, "N": 1000}, {"B": 5, "N": 70_000}]),
        (CONV, [{"N": 2, "C": 5, "H": 20, "W": 21, "F": 6, "KH": 3, "KW": 3}]),
        (PERMUTE, [{"A": 37, "B": 65, "C": 129}]),
        (SPREAD, [{"B": 3, "N": 100_000}]),
        (TOTAL, [{"N": 3_000_001}]),
    ],
)
def test_results_are_those_of_the_reference(
    cupy: ModuleType, text: str, sizes: list[dict[str, int]]
) -> None:
    k = kernel(text)
    for at in (*sizes, {n: v + 1 for n, v in sizes[0].items()}):  # exact, then generic
        report, _ = run_once(k, at, {}, 0, True, device=devices.device(0))
        assert report["right"], report


@pytest.mark.parametrize("name", ["float16", "bfloat16", "float64", "int32"])
def test_types_of_elements(cupy: ModuleType, name: str) -> None:
    from tcdsl.grammar.types.dtypes import BY_NAME

    at = {"M": 65, "K": 48, "N": 33}
    generics = {"T": BY_NAME[name]}
    report, _ = run_once(kernel(HALVES), at, {}, 0, True, generics, devices.device(0))
    assert report["right"], report


@pytest.mark.parametrize("view", ["transposed", "strided", "reversed", "sliced"])
def test_views_of_cupy_arrays(cupy: ModuleType, view: str) -> None:
    a, b = ramp(8, 8) % 7, ramp(8, 5) % 5
    on_device = cupy.asarray(a)
    seen = {
        "transposed": on_device.T,
        "strided": on_device[::2, 1::3],
        "reversed": on_device[::-1, ::-1],
        "sliced": on_device[1:, 2:7],
    }[view]
    rows = seen.shape[1]
    got = kernel(MM)(seen, cupy.asarray(b[:rows]))
    np.testing.assert_array_equal(got.get(), seen.get() @ b[:rows])


def test_outputs_overlaps_and_updates(cupy: ModuleType) -> None:
    add, a = kernel(ADD), cupy.asarray(ramp(1000))
    assert add(a, a, out=a) is a
    np.testing.assert_array_equal(a.get(), 2 * ramp(1000))
    add(a[:-1], a[1:], out=a[1:])
    want = 2 * ramp(1000)
    want[1:] = want[:-1] + want[1:]
    np.testing.assert_array_equal(a.get(), want)
    with pytest.warns(UserWarning, match="S"):
        onto = kernel(ONTO)
    np.testing.assert_array_equal(onto(a).get(), want)
    s = cupy.asarray(np.array(0, np.float32))
    kernel(TOTAL)(cupy.asarray(ramp(9)), out=s)
    assert float(s) == 36
    scaled = kernel(SCALE)(cupy.asarray(np.float32(2)), 1, cupy.asarray(ramp(5)))
    np.testing.assert_array_equal(scaled.get(), 2 * ramp(5) + 1)


def test_faults_in_the_three_ways(cupy: ModuleType) -> None:
    args = cupy.asarray(ramp(10, 4)), cupy.asarray(WRONG)
    k = kernel(GATHER)
    k(*args)
    with pytest.raises(BoundsError) as caught:
        tc.synchronize()
    assert str(caught.value) == TEXT
    k(*args)
    cupy.cuda.get_current_stream().synchronize()
    with pytest.raises(BoundsError, match="is 12"):
        k(*args)
    with pytest.raises(BoundsError, match="is 12"):
        kernel(GATHER, check="sync")(*args)
    kernel(GATHER, check="off")(*args)
    tc.synchronize()


def test_streams_and_threads(cupy: ModuleType) -> None:
    k, x = kernel(SPREAD), cupy.asarray(ramp(64, 5000))
    want = ramp(64, 5000).mean(1)
    wrong: list[Any] = []

    def work() -> None:
        with cupy.cuda.Device(0), cupy.cuda.Stream(non_blocking=True) as stream:
            for _ in range(50):
                got = k(x)
            stream.synchronize()
            if not np.allclose(got.m.get(), want, rtol=1e-5):
                wrong.append(got.m.get())

    cupy.cuda.Device(0).synchronize()
    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def test_torch_tensors_on_streams_of_torch(cupy: ModuleType, torch: ModuleType) -> None:
    mm = kernel(HALVES)
    a, b = (torch.randn(64, 64, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    for _ in range(2):
        got = mm(a, b.T)
        assert got.dtype == torch.bfloat16
        assert torch.allclose(got.float(), (a.float() @ b.float().T), rtol=0.02, atol=0.1)
    with torch.cuda.stream(torch.cuda.Stream()):
        c = torch.zeros(64, 64, device="cuda", dtype=torch.bfloat16)
        torch.cuda._sleep(10_000_000)
        c += 1
        out = torch.empty_like(c)
        mm(c, c, out=out)
        assert bool((out == 64).all())
    with pytest.raises(TCTypeError, match="detach"):
        mm(a.requires_grad_(), b)
    with pytest.raises(TCTypeError, match="'A' lies on GPU 0, 'B' in the host's memory"):
        mm(b, b.cpu())


def test_a_device_says_what_it_is(cupy: ModuleType) -> None:
    gpu = devices.device(0).gpu
    assert gpu.capability >= 75
    assert gpu.sms > 0
    assert gpu.shared_block >= 48 << 10
    assert gpu.bandwidth_gbs > 50
