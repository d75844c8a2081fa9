"""The tests that need a GPU, and NVIDIA's sanitizer over one program of each form.

A run that did nothing is no success: pytest has to have passed tests, a tool of the sanitizer to
say itself that it saw kernels and no error in them.
"""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gpu_parts.children import run_children
from gpu_parts.setting import Setting

ROOT = Path(__file__).resolve().parents[2]
_NO_ERRORS = re.compile(r"ERROR SUMMARY: 0 errors|RACECHECK SUMMARY: 0 hazards")
_TOOLS = ("memcheck", "racecheck", "synccheck", "initcheck")


def gpu_tests(setting: Setting, seconds: float) -> dict[str, Any]:
    """Run `pytest -m gpu`."""
    if setting.is_simulated:
        return {"skipped": "the device is simulated"}
    if importlib.util.find_spec("pytest") is None:
        return {"skipped": "pytest is not installed"}
    command = [sys.executable, "-m", "pytest", "-q", "-m", "gpu", "-p", "no:cacheprovider"]
    command += gpu_files(ROOT / "tests")
    try:
        done = subprocess.run(
            command, cwd=ROOT, capture_output=True, text=True, timeout=seconds, check=False
        )
    except subprocess.TimeoutExpired as late:
        said = late.stdout.decode() if isinstance(late.stdout, bytes) else late.stdout or ""
        return {"error": f"not done in {seconds:.0f} s", "output": said[-2000:]}
    text = (done.stdout + done.stderr).strip()
    print(f"  {text.splitlines()[-1] if text else 'no output'}")
    found: dict[str, Any] = {"exit_code": done.returncode, "output": text[-4000:]}
    passed = re.search(r"\b([1-9]\d*) passed", text)
    if done.returncode or passed is None:
        found["error"] = text.splitlines()[-1] if text else "pytest said nothing"
    return found


def gpu_files(folder: Path) -> list[str]:
    """Return the files with tests that are marked gpu: to collect the others takes a minute."""
    return sorted(str(p) for p in folder.rglob("test_*.py") if "mark.gpu" in p.read_text())


def sanitizer(setting: Setting, seconds: float) -> dict[str, Any]:
    """Run one program of each form under every tool of compute-sanitizer."""
    if setting.is_simulated:
        return {"skipped": "the simulator checks by itself"}
    tool = shutil.which("compute-sanitizer")
    if tool is None:
        return {"skipped": "compute-sanitizer is not on PATH; it comes with the CUDA toolkit"}
    found: dict[str, Any] = {"faults": []}
    for name in _TOOLS:
        prefix = [tool, "--tool", name, "--error-exitcode", "9", "--print-limit", "5"]
        done = run_children(setting, seconds / len(_TOOLS), {"quick": True}, prefix)
        found[name] = done
        faults = sanitizer_faults(done)
        found["faults"] += [f"{name}: {fault}" for fault in faults]
        state = f"{len(faults)} faults" if faults else "clean"
        print(f"  {name}: {state}, {done['kernels']} kernels")
    return found


def sanitizer_faults(done: Mapping[str, Any]) -> list[str]:
    """Return what a tool found, or why its finding nothing says nothing."""
    if done["faults"]:
        return list(done["faults"])
    if not done["kernels"] or not done["is_complete"]:
        return [f"the time was over after {done['kernels']} kernels"]
    if _NO_ERRORS.search(done["output"]) is None:
        return ["the tool gave no summary: it saw nothing of what ran"]
    return []
