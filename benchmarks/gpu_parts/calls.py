"""What a call costs the host, and how NVRTC compiles in several threads."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from layers import ADD, MATMUL

import tcdsl as tc
from gpu_parts.setting import Setting, random_array
from gpu_parts.tuning import problem
from tcdsl.codegen.toolchain.nvrtc import compile_cuda
from tcdsl.kernel import Kernel

_SIZE = 16
_CALLS = 1000  # between two waits: fewer than a device's queue holds


def host_cost(setting: Setting, seconds: float) -> dict[str, Any]:
    """Return microseconds of the host for a call that does nearly nothing on the device."""
    kernel = tc.define(ADD, tune="off", check="off")
    assert isinstance(kernel, Kernel)
    a, b = (setting.place(n, random_array(_SIZE)).view for n in "AB")
    out = setting.place("O", np.zeros(_SIZE, np.float32), "out").view
    calls: dict[str, Callable[[], object]] = {"out": lambda: kernel(a, b, out=out)}
    if not setting.is_simulated:
        calls |= _with_cupy(kernel)
    if (torch := setting.torch) is not None:
        x, y, z = (torch.zeros(_SIZE, device="cuda") for _ in range(3))
        calls |= {
            "torch tensors, out": lambda: kernel(x, y, out=z),
            "torch tensors, fresh": lambda: kernel(x, y),
            "torch.add, out": lambda: torch.add(x, y, out=z),
            "torch.add, fresh": lambda: torch.add(x, y),
        }
    found = {}
    for label, call in calls.items():
        count = 3 if setting.is_simulated else _CALLS
        found[label] = _us(setting, call, count, seconds / len(calls))
        print(f"  {label:22}{found[label]:8.2f} us")
    return {"us": found}


def _with_cupy(kernel: Kernel) -> dict[str, Callable[[], object]]:
    from tcdsl.codegen.device.cuda import load_cupy

    cupy = load_cupy()
    x, y, z = (cupy.zeros(_SIZE, cupy.float32) for _ in range(3))
    return {
        "cupy arrays, out": lambda: kernel(x, y, out=z),
        "cupy arrays, fresh": lambda: kernel(x, y),
        "cupy.add, out": lambda: cupy.add(x, y, z),
        "cupy.add, fresh": lambda: cupy.add(x, y),
    }


def _us(setting: Setting, call: Callable[[], object], count: int, seconds: float) -> float:
    """Return the least time per call of several batches, none of which waits for the device."""
    end = time.monotonic() + seconds
    best = float("inf")
    with setting.device.active():
        call()
        for _ in range(20):
            setting.device.synchronize()
            begun = time.perf_counter()
            for _ in range(count):
                call()
            best = min(best, (time.perf_counter() - begun) / count)
            if time.monotonic() > end:
                break
        setting.device.synchronize()
    return best * 1e6


def compile_in_threads(setting: Setting, seconds: float) -> dict[str, Any]:
    """Return seconds for compiling a contraction many times, by threads; no cache takes part."""
    side = 64 if setting.is_simulated else 1024
    one = problem(MATMUL, {"M": side, "K": side, "N": side}, setting)
    text = one.emit(one.space.default).text
    arch = setting.device.gpu.arch
    count = 2 if setting.is_simulated else 32
    cores = len(os.sched_getaffinity(0))
    found: dict[str, float] = {}
    end = time.monotonic() + seconds
    for threads in [n for n in (16, 8, 4, 2, 1) if n <= 2 * cores]:
        if time.monotonic() > end:
            break
        begun = time.perf_counter()
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(lambda _: compile_cuda(text, arch, name="scaling"), range(count)))
        found[str(threads)] = time.perf_counter() - begun
        print(f"  {count} compiles in {threads:2} threads: {found[str(threads)]:.2f} s")
    return {"compiles": count, "cores": cores, "seconds_by_threads": found}
