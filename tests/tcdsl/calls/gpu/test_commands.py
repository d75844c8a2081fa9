"""`tcdsl run --target cuda` and `tcdsl doctor` with and without a GPU."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import click.testing
import numpy as np
import pytest

from tcdsl.cli import main
from tcdsl.codegen.device import cuda, devices
from tcdsl.codegen.toolchain import nvrtc
from tcdsl.grammar.text.errors import DeviceError
from tcdsl.tools.doctor_gpu import examine_gpus
from tcdsl.tools.finding import Finding
from tests.tcdsl.calls.gpu.sim import SimDevice
from tests.tcdsl.calls.gpu.test_calls import GATHER, MM

NO_CUPY = """kernels on a GPU need CuPy, which cannot be loaded: No module named 'cupy'
  pip install "tcdsl[cuda13]", or "tcdsl[cuda12]" where the driver is older than 580
"""


@pytest.fixture
def mm(tmp_path: Path) -> Path:
    path = tmp_path / "mm.tc"
    path.write_text(MM)
    return path


def tcdsl(*args: object, code: int = 0) -> click.testing.Result:
    result = click.testing.CliRunner().invoke(main, [str(a) for a in args])
    assert result.exit_code == code, result.output
    return result


@pytest.mark.cusim
def test_run_moves_inputs_to_the_gpu_and_checks_the_answer(
    device: SimDevice, mm: Path, tmp_path: Path
) -> None:
    a, c = tmp_path / "a.npy", tmp_path / "c.npy"
    np.save(a, np.arange(12, dtype=np.float32).reshape(4, 3).T)
    args = (
        "run",
        mm,
        "--target",
        "cuda",
        "--sizes",
        "N=5",
        "--input",
        f"A={a}",
        "--output",
        f"C={c}",
    )
    (report,) = json.loads(tcdsl(*args, "--json").stdout)
    assert report["right"] is True
    assert report["sizes"] == {"M": 3, "K": 4, "N": 5}
    assert device.starts
    assert np.load(c).shape == (3, 5)


@pytest.mark.cusim
def test_run_tells_of_a_subscript_outside(device: SimDevice, tmp_path: Path) -> None:
    (tmp_path / "g.tc").write_text(GATHER)
    at = tmp_path / "at.npy"
    np.save(at, np.array([1, 9], np.int32))
    sizes = "--sizes", "V=5,D=4"
    result = tcdsl(
        "run", tmp_path / "g.tc", "--target", "cuda:0", *sizes, "--input", f"I={at}", code=1
    )
    assert "subscript 0 of 'E' is 9, outside [0, 5)" in result.output


def test_an_unknown_target_is_an_error(mm: Path) -> None:
    for target in ("gpu", "cuda:", "cuda:x"):
        result = tcdsl("run", mm, "--sizes", "M=1,N=1,K=1", "--target", target, code=1)
        assert f"target is '{target}'; expected 'cpu', 'cuda' or 'cuda:1'" in result.output


def _without(monkeypatch: pytest.MonkeyPatch, error: DeviceError) -> None:
    def refuse() -> Any:
        raise error

    monkeypatch.setattr(cuda, "load_cupy", refuse)


def test_run_says_what_is_missing_and_the_cure(mm: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    devices.unregister(0)
    _without(monkeypatch, DeviceError(NO_CUPY.rstrip()))
    result = tcdsl("run", mm, "--sizes", "M=1,N=1,K=1", "--target", "cuda", code=1)
    assert result.output == NO_CUPY


def test_cupy_that_cannot_be_loaded_is_told_with_the_cure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cupy", None)
    cuda.load_cupy.cache_clear()
    try:
        with pytest.raises(DeviceError, match=r"need CuPy, which cannot.*\n.*tcdsl\[cuda13\]"):
            cuda.load_cupy()
    finally:
        cuda.load_cupy.cache_clear()


# ---- doctor


class FakeCupy:
    __version__ = "14.2.0"


@pytest.fixture
def healthy(device: SimDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let one simulated GPU be found, with a driver and an NVRTC that fit."""
    monkeypatch.setattr(cuda, "load_cupy", FakeCupy)
    monkeypatch.setattr(cuda, "device_count", lambda: 1)
    monkeypatch.setattr(cuda, "driver_version", lambda: (13, 0))
    report = {"version": "13.0", "architectures": "sm_90", "library": "x.so", "chosen by": "search"}
    monkeypatch.setattr(nvrtc, "report", lambda: report)


def found() -> dict[str, Finding]:
    return {f.name: f for f in examine_gpus()}


@pytest.mark.cusim
@pytest.mark.usefixtures("healthy")
def test_doctor_runs_a_kernel_on_each_gpu() -> None:
    findings = found()
    assert {f.state for f in findings.values()} == {"ok"}
    assert findings["cupy"].value == "14.2.0"
    assert findings["driver"].value == "serves CUDA 13.0"
    assert findings["nvrtc"].value == "13.0 for sm_90, x.so (by search)"
    assert findings["gpu 0"].value == (
        "H200, sm_90, 132 SMs, L2 60 MB, 4800 GB/s; kernel compiled, called, right"
    )


@pytest.mark.cusim
@pytest.mark.usefixtures("healthy")
def test_doctor_finds_an_nvrtc_that_is_too_new(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda, "driver_version", lambda: (12, 8))
    driver = found()["driver"]
    assert driver.state == "broken"
    assert driver.cure == 'pip install "tcdsl[cuda12]", or install a newer driver'


@pytest.mark.cusim
@pytest.mark.usefixtures("healthy")
def test_doctor_shows_why_a_gpu_cannot_be_used(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(number: int) -> Any:
        raise DeviceError(f"GPU {number}, Old, is sm_60; sm_75 or newer is needed")

    monkeypatch.setattr(devices, "device", refuse)
    assert found()["gpu 0"].state == "broken"
    assert "sm_60" in found()["gpu 0"].value


@pytest.mark.usefixtures("healthy")
def test_doctor_without_a_gpu_is_content(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda, "device_count", lambda: 0)
    assert {f.state for f in found().values()} == {"ok", "note"}
    no_driver = DeviceError("no GPU can be used: no driver\n  nvidia-smi shows the driver")

    def refuse() -> int:
        raise no_driver

    monkeypatch.setattr(cuda, "device_count", refuse)
    assert found()["gpu"] == Finding(
        "gpu", "note", "no GPU can be used: no driver", "nvidia-smi shows the driver"
    )
    _without(monkeypatch, DeviceError(NO_CUPY.rstrip()))
    assert found()["cupy"].cure.startswith('pip install "tcdsl[cuda13]"')
    monkeypatch.setattr(nvrtc, "report", lambda: {"error": "no NVRTC was found\n  looked in"})
    assert found()["nvrtc"].cure == nvrtc.INSTALL


def test_doctor_shows_the_gpus_lines() -> None:
    assert " nvrtc " in tcdsl("doctor", "--quick").stdout
