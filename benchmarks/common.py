"""What the benchmarks of a CPU share: operands, kernels that are not tuned, kept reports."""

from __future__ import annotations

import json
import platform
import subprocess
from pathlib import Path
from typing import Any

import numpy as np

import tcdsl as tc
from tcdsl.codegen import runtime
from tcdsl.kernel import Kernel

Array = np.ndarray[Any, np.dtype[Any]]


def rand(*shape: int) -> Array:
    """Return normal float32 numbers, the same for a shape in every run."""
    return np.random.default_rng(shape).standard_normal(shape, dtype=np.float32)


def kernel(text: str) -> Kernel:
    """Return the only definition of a text, never tuned."""
    k = tc.define(text, tune="off", threads=runtime.get_num_threads())
    assert isinstance(k, Kernel)
    return k


def facts() -> dict[str, Any]:
    """Return what a report says of where its figures come from."""
    done = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False
    )
    return {
        "commit": done.stdout.strip() or "unknown",
        "machine": platform.processor() or platform.machine(),
        "threads": runtime.get_num_threads(),
        "numpy": np.__version__,
        "python": platform.python_version(),
    }


def keep(report: dict[str, Any], path: Path | None) -> None:
    """Write a report as JSON where a path is given."""
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(report, indent=1))
