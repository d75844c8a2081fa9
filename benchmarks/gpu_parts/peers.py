"""Times of kernels by the device's events, untuned, beside torch's for the same thing."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from layers import (
    ADD,
    BATCHED,
    COLSUM,
    CONV,
    EXP,
    FCRELU,
    GELU,
    LAYERNORM,
    MATMUL,
    ROWSUM,
    SOFTMAX,
    TOTAL,
    TRANSPOSE,
)
from operands import Array

import tcdsl as tc
from gpu_parts.setting import Setting, random_array
from tcdsl.autotune.targets.cuda.problem import roofline_of
from tcdsl.autotune.targets.tolerance import relative_errors
from tcdsl.autotune.worker.timing import interleaved, quantile_ns
from tcdsl.kernel import Kernel

HALF = "def matmul(float16(M,K) A, float16(K,N) B) -> (C) { C(m,n) +=! A(m,k) * B(k,n) }"

_ROUNDS = 8


@dataclass(frozen=True)
class Workload:
    """A definition at shapes, and the same thing said to torch."""

    name: str
    text: str
    shapes: tuple[tuple[int, ...], ...]
    out: tuple[int, ...]
    peer: Callable[..., Any]
    dtype: str = "float32"

    def inputs(self) -> list[Array]:
        return [random_array(*s, dtype=self.dtype) for s in self.shapes]


def workloads() -> Iterator[Workload]:
    """Yield what is timed on a GPU, contractions first."""

    def torch_mm(t: Any, a: Any, b: Any) -> Any:
        return t.matmul(a, b)

    for m, k, n in ((4096, 4096, 4096), (1024, 1024, 1024), (1000, 777, 333), (64, 8192, 64)):
        yield Workload(f"matmul {m}x{k}x{n}", MATMUL, ((m, k), (k, n)), (m, n), torch_mm)
    n = 4096
    yield Workload(f"matmul f16 {n}", HALF, ((n, n), (n, n)), (n, n), torch_mm, "float16")
    shapes = (500, 26, 72), (500, 72, 26)
    yield Workload("bmm 500x26x72x26", BATCHED, shapes, (500, 26, 26), lambda t, a, b: t.bmm(a, b))
    shapes = (64, 512, 64), (64, 64, 512)
    yield Workload(
        "bmm 64x512x64x512", BATCHED, shapes, (64, 512, 512), lambda t, a, b: t.bmm(a, b)
    )
    for m, k, n in ((128, 1024, 1024), (100, 128, 100)):
        yield Workload(
            f"fcrelu {m}x{k}x{n}",
            FCRELU,
            ((m, k), (n, k), (n,)),
            (m, n),
            lambda t, a, w, b: t.relu(t.nn.functional.linear(a, w, b)),
        )
    for n, c, h in ((8, 64, 58), (32, 256, 16)):
        yield Workload(
            f"conv N{n} C{c} {h}x{h}",
            CONV,
            ((n, c, h, h), (c, c, 3, 3)),
            (n, c, h - 2, h - 2),
            lambda t, x, w: t.conv2d(x, w),
        )
    for shape in ((4096, 1000), (8192, 8192), (128, 100)):
        yield Workload(
            f"softmax {shape[0]}x{shape[1]}",
            SOFTMAX,
            (shape,),
            shape,
            lambda t, x: t.softmax(x, dim=1),
        )
    for shape in ((4096, 1024), (16384, 4096)):
        yield Workload(
            f"layernorm {shape[0]}x{shape[1]}",
            LAYERNORM,
            (shape, shape[1:], shape[1:]),
            shape,
            lambda t, x, g, h: t.nn.functional.layer_norm(x, g.shape, g, h),
        )
    square = (8192, 8192)
    yield Workload("rowsum 8192", ROWSUM, (square,), square[:1], lambda t, a: a.sum(1))
    yield Workload("colsum 8192", COLSUM, (square,), square[:1], lambda t, a: a.sum(0))
    yield Workload("sum 8192^2", TOTAL, (square,), (), lambda t, a: a.sum())
    mega = 1 << 20
    for count in (mega, 64 * mega):
        size, label = (count,), f"{count // mega}M"
        yield Workload(f"add {label}", ADD, (size, size), size, lambda t, a, b: a + b)
        yield Workload(f"exp {label}", EXP, (size,), size, lambda t, a: t.exp(a))
    size = (16 * mega,)
    yield Workload(
        "gelu 16M",
        GELU,
        (size,),
        size,
        lambda t, a: t.nn.functional.gelu(a, approximate="tanh"),
    )
    yield Workload("transpose 8192", TRANSPOSE, (square,), square, lambda t, a: a.t().contiguous())


def tiny_workloads() -> Iterator[Workload]:
    """Yield what the simulated device takes a moment for."""
    yield Workload("matmul 9x7x5", MATMUL, ((9, 7), (7, 5)), (9, 5), lambda t, a, b: a @ b)
    yield Workload("softmax 3x40", SOFTMAX, ((3, 40),), (3, 40), lambda t, x: t.softmax(x, 1))


def beside_torch(setting: Setting, seconds: float) -> dict[str, Any]:
    """Return times, shares of the peak and ratios; level 2 is overwritten before each run."""
    end = time.monotonic() + seconds
    rows: list[dict[str, Any]] = []
    left: list[str] = []
    faults: list[str] = []
    print(f"  {'':22}{'us':>10}{'of peak':>9}{'torch us':>10}{'x torch':>9}")
    for work in tiny_workloads() if setting.is_simulated else workloads():
        if time.monotonic() > end:
            left.append(work.name)
            continue
        try:
            row = measured(setting, work)
        except Exception as error:  # one workload less
            row = {"name": work.name, "error": f"{type(error).__name__}: {error}"}
        rows.append(row)
        faults += [f"{work.name}: {fault}" for fault in faults_of(row)]
        print(f"  {_line(row)}", flush=True)
    return {"rows": rows, "not_reached": left, "cold": True, "faults": faults}


def faults_of(row: Mapping[str, Any]) -> list[str]:
    """Return what is wrong with a workload: it did not run, or its results are not torch's."""
    if "error" in row:
        return [row["error"]]
    difference, tolerance = row.get("difference", 0.0), row.get("tolerance", 0.0)
    if difference <= tolerance:  # NaN is no difference that is small
        return []
    return [f"differs from torch by {difference:.1e} of the largest value, {tolerance:.1e} allowed"]


def measured(setting: Setting, work: Workload) -> dict[str, Any]:
    """Return the figures of one workload."""
    kernel = tc.define(work.text, tune="off", check="off")
    assert isinstance(kernel, Kernel)
    values = work.inputs()
    args = [setting.place(n, v).view for n, v in zip(kernel.params, values, strict=True)]
    out = setting.place(kernel.returns[0], np.zeros(work.out, work.dtype), "out")
    with setting.device.active():
        begun = time.perf_counter()
        kernel(*args, out=out.view)
        setting.device.synchronize()
        first_ms = (time.perf_counter() - begun) * 1e3
    calls = {"ours": lambda: kernel(*args, out=out.view)}
    torch = setting.torch
    result: dict[str, Any] = {"name": work.name}
    if torch is not None:
        tensors = [torch.from_numpy(v).cuda() for v in values]
        want = work.peer(torch, *tensors).float().cpu().numpy()
        got = out.read()[0].astype(np.float32)
        scale = max(float(np.abs(want).max()), 1e-30)
        result["difference"] = float(np.abs(got - want).max()) / scale
        call = kernel.call(*args)
        own = relative_errors(call.variant.program, call.sizes)[0]
        result["tolerance"] = 2 * own  # torch rounds as well
        calls["torch"] = lambda: work.peer(torch, *tensors)
    turns = {i: setting.sampler(call) for i, call in enumerate(calls.values())}
    samples = interleaved(turns, _ROUNDS, lambda _: None, drop=())
    for i, label in enumerate(calls):
        times = samples[i]
        median = float(np.median(times))
        result[f"{label}_us"] = quantile_ns(times) / 1e3
        result[f"{label}_median_us"] = median / 1e3
    call = kernel.call(*args)
    program, sizes = call.variant.program, call.sizes
    rates = roofline_of(program, sizes, setting.device.gpu)
    time_ns = result["ours_us"] * 1e3
    config = call.variant.default_config(call.spec, sizes)
    result |= {"first_ms": first_ms, "unit": rates.unit, "config": str(config)}
    if time_ns:
        result |= {"rate": rates.rate(time_ns), "share": rates.share(time_ns)}
    if torch is not None and time_ns:
        result["x_torch"] = result["torch_us"] / result["ours_us"]
    return result


def _line(row: dict[str, Any]) -> str:
    if "error" in row:
        return f"{row['name']:22} {row['error'].splitlines()[0]}"
    share = row.get("share")  # None where it is faster than what should be the peak
    of_peak = "above" if share is None else f"{share:.0%}"
    text = f"{row['name']:22}{row['ours_us']:10.1f}{of_peak:>9}"
    if "x_torch" in row:
        text += f"{row['torch_us']:10.1f}{row['x_torch']:9.2f}"
        text += "".join(f"  {fault}" for fault in faults_of(row))
    return text
