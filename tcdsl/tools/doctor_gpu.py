"""What a machine has and lacks for kernels on a GPU: CuPy, driver, NVRTC, devices."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tcdsl.calls.gpu.copies import to_device, to_host
from tcdsl.codegen.device import cuda, devices
from tcdsl.codegen.device.device import Device
from tcdsl.codegen.toolchain import nvrtc
from tcdsl.definitions import define
from tcdsl.grammar.text.errors import TCError
from tcdsl.tools.finding import Finding

_TRIAL = "def add(float(N) A, float(N) B) -> (C) { C(i) = A(i) + B(i) }"


def examine_gpus() -> Iterator[Finding]:
    """Look at what kernels on a GPU need, and run one on each."""
    compiler = nvrtc.report()
    yield _nvrtc(compiler)
    try:
        cupy = cuda.load_cupy()
    except TCError as error:
        yield _lack("cupy", error)
        return
    yield Finding("cupy", "ok", str(cupy.__version__))
    try:
        count = cuda.device_count()
    except TCError as error:
        yield _lack("gpu", error)
        return
    if not count:
        yield Finding("gpu", "note", "there is none; kernels run on the CPU")
        return
    driver = cuda.driver_version()
    yield _driver(driver, compiler)
    for number in range(count):
        yield _device(number)


def _lack(name: str, error: TCError) -> Finding:
    """Return what is missing for a GPU: none of it is needed for the CPU."""
    found, _, cure = str(error).partition("\n")
    return Finding(name, "note", found, "\n".join(map(str.strip, cure.splitlines())))


def _nvrtc(compiler: dict[str, str]) -> Finding:
    if "error" in compiler:
        return Finding("nvrtc", "note", compiler["error"].splitlines()[0], nvrtc.INSTALL)
    found = f"{compiler['version']} for {compiler['architectures']}, {compiler['library']}"
    return Finding("nvrtc", "ok", f"{found} (by {compiler['chosen by']})")


def _driver(version: tuple[int, int], compiler: dict[str, str]) -> Finding:
    """Return whether a driver loads what NVRTC compiles: that of its own CUDA or an older one."""
    text = f"serves CUDA {version[0]}.{version[1]}"
    made_by = int(compiler.get("version", "0").partition(".")[0])
    if made_by > version[0]:
        return Finding(
            "driver",
            "broken",
            f"{text}, and does not load what an NVRTC of CUDA {made_by} compiles",
            f'pip install "tcdsl[cuda{version[0]}]", or install a newer driver',
        )
    return Finding("driver", "ok", text)


def _device(number: int) -> Finding:
    name = f"gpu {number}"
    try:
        device = devices.device(number)
        is_right = _is_right(device)
    except TCError as error:
        found, _, cure = str(error).partition("\n")
        return Finding(name, "broken", found, cure.strip())
    gpu = device.gpu
    about = (
        f"{gpu.name}, {gpu.arch}, {gpu.sms} SMs, L2 {gpu.l2_bytes >> 20} MB, "
        f"{gpu.bandwidth_gbs:.0f} GB/s"
    )
    if is_right:
        return Finding(name, "ok", f"{about}; kernel compiled, called, right")
    return Finding(name, "broken", f"{about}; wrong answer", "please report this")


def _is_right(device: Device) -> bool:
    """Whether a kernel runs and gives what it should."""
    add = define(_TRIAL, tune="off")
    values = np.arange(5, dtype=np.float32)
    a = to_device(device, values)
    doubled = to_host(device, add(a, a))
    return bool((doubled == 2 * values).all())
