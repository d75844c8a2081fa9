"""What the benchmark of a GPU calls a success: nothing that did nothing, nothing that failed."""

from __future__ import annotations

import importlib
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tcdsl.autotune.targets.cuda.problem import roofline_of
from tcdsl.codegen.machine.gpu import KNOWN
from tests.codegen.harness import problem
from tests.test_benchmarks import ROOT, script

CLEAN = "========= ERROR SUMMARY: 0 errors"


@pytest.fixture
def parts(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Return the benchmark's modules, by name."""
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    names = ("children", "tests", "peers")
    yield SimpleNamespace(**{n: importlib.import_module(f"gpu_parts.{n}") for n in names})
    for name in [n for n in sys.modules if n.split(".")[0] in ("gpu_parts", "layers", "operands")]:
        del sys.modules[name]


def tool(folder: Path, *lines: str) -> str:
    """Return a program that stands before a child's command, and runs something else."""
    path = folder / "tool"
    path.write_text("#!/bin/sh\n" + "\n".join(lines) + "\n")
    path.chmod(path.stat().st_mode | stat.S_IEXEC)
    return str(path)


OVER = (
    'echo \'{"begin": 0, "name": "add"}\'',
    'echo \'{"end": 0, "name": "add", "kernels": 3, "faults": []}\'',
    "echo '{\"over\": true}'",
)


@pytest.mark.parametrize(
    ("lines", "fault"),
    [
        ((*OVER, f"echo '{CLEAN}'"), None),
        ((*OVER, "echo '========= Invalid read of size 4'", "exit 9"), "exit code 9"),
        (OVER, "the tool gave no summary"),
        ((f"echo '{CLEAN}'",), "no child begins"),
        (("echo '{\"over\": true}'", f"echo '{CLEAN}'"), "the time was over after 0 kernels"),
    ],
)
def test_a_sanitizer_is_clean_only_if_it_says_so_of_kernels_that_ran(
    parts: Any, tmp_path: Path, lines: tuple[str, ...], fault: str | None
) -> None:
    setting = SimpleNamespace(is_simulated=True)
    done = parts.children.run_children(setting, 3600, {"quick": True}, [tool(tmp_path, *lines)])
    found = parts.tests.sanitizer_faults(done)
    assert len(found) == (fault is not None)
    assert fault is None or fault in found[0]


def test_a_sanitizer_without_time_is_not_clean(parts: Any, tmp_path: Path) -> None:
    setting = SimpleNamespace(is_simulated=True)
    done = parts.children.run_children(setting, -1, {"quick": True}, [tool(tmp_path, *OVER)])
    assert parts.tests.sanitizer_faults(done) == ["the time was over after 0 kernels"]


@pytest.mark.parametrize("difference", [1e-2, float("nan"), float("inf")])
def test_results_that_are_not_torchs_are_faults(parts: Any, difference: float) -> None:
    row = {"name": "add", "difference": difference, "tolerance": 1e-5}
    assert "differs from torch by" in parts.peers.faults_of(row)[0]
    assert parts.peers.faults_of(row | {"difference": 1e-6}) == []
    assert parts.peers.faults_of({"name": "add", "error": "no"}) == ["no"]


def test_faults_of_any_section_make_the_command_fail() -> None:
    failures = script().failures_of
    assert failures({"rows": []}) == []
    assert failures({"faults": ["memcheck: exit code 9"]}) == ["memcheck: exit code 9"]
    assert failures({"error": "no", "faults": ["x"]}) == ["no", "x"]


def test_only_files_with_tests_for_a_gpu_are_collected(parts: Any) -> None:
    files = [Path(f).name for f in parts.tests.gpu_files(ROOT / "tests")]
    assert "test_gpu.py" in files
    assert len(files) < 5


def test_half_products_are_held_against_the_peak_of_tensor_cores() -> None:
    text = "def mm(TYPE(M,K) A, TYPE(K,N) B) -> (C) { C(m, n) +=! A(m, k) * B(k, n) }"
    gpu = KNOWN["sm_90"]
    peaks = {}
    for name in ("float16", "float32", "float64"):
        a = np.zeros((4096, 4096), name)
        p = problem(text.replace("TYPE", name), a, a)
        peaks[name] = roofline_of(p.program, p.sizes, gpu).peak_gflops
    assert peaks["float16"] == gpu.tensor_gflops() > 900_000
    assert peaks["float32"] == gpu.peak_gflops()
    assert peaks["float64"] == gpu.peak_gflops() / 2
