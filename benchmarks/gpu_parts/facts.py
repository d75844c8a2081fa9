"""What the device and the software on it are."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import platform
import shutil
import subprocess
from dataclasses import asdict
from typing import Any

from gpu_parts.setting import Setting
from tcdsl.codegen.toolchain.nvrtc import find_nvrtc

_PACKAGES = (
    "numpy", "scipy", "cupy-cuda13x", "cupy-cuda12x", "torch", "triton", "nvidia-cuda-nvrtc",
    "nvidia-cuda-nvrtc-cu12", "pytest",
)  # fmt: skip
_QUERY = (
    "name,driver_version,clocks.sm,clocks.max.sm,clocks.mem,power.limit,temperature.gpu,"
    "memory.total,memory.used,compute_mode,ecc.mode.current,mig.mode.current"
)


def versions(setting: Setting) -> dict[str, Any]:
    """Return what a reader of any figure has to know."""
    installed = {}
    for package in _PACKAGES:
        try:
            installed[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return {
        "device": setting.device.gpu.name,
        "is_simulated": setting.is_simulated,
        "driver": setting.device.gpu.driver,
        "nvrtc": ".".join(map(str, find_nvrtc().version)),
        "python": platform.python_version(),
        "cores": len(os.sched_getaffinity(0)),
        "packages": installed,
        "commit": setting.commit or _git_commit(),
    }


def facts(setting: Setting, seconds: float) -> dict[str, Any]:
    """Return the device as schedules see it, and what nvidia-smi says of it now."""
    del seconds
    gpu = asdict(setting.device.gpu)
    found: dict[str, Any] = {"gpu": gpu, "nvidia-smi": _smi(), "missing": missing(setting)}
    for name, value in gpu.items():
        print(f"  {name} = {value}")
    for what, cure in found["missing"].items():
        print(f"  missing: {what}: {cure}")
    return found


def missing(setting: Setting) -> dict[str, str]:
    """Return what some sections would use and what each lack costs."""
    lacks = {}
    if setting.torch is None:
        lacks["torch with a GPU"] = "no comparison; pip install torch"
    if importlib.util.find_spec("pytest") is None:
        lacks["pytest"] = 'no run of the tests marked gpu; pip install "tcdsl[test]"'
    if shutil.which("compute-sanitizer") is None:
        lacks["compute-sanitizer"] = "it comes with the CUDA toolkit; put its folder on PATH"
    return lacks


def _smi() -> dict[str, str] | str:
    """Return clocks, power and versions by name."""
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return "nvidia-smi is not on PATH"
    command = [tool, f"--query-gpu={_QUERY}", "--format=csv,noheader,nounits", "-i", "0"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    if done.returncode:
        return (done.stdout + done.stderr).strip()
    values = (v.strip() for v in done.stdout.strip().split(","))
    return dict(zip(_QUERY.split(","), values, strict=False))


def _git_commit() -> str:
    if shutil.which("git") is None:
        return "unknown"
    command = ["git", "rev-parse", "--short", "HEAD"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown"
