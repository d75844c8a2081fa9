"""The tests that need a GPU, and NVIDIA's sanitizer over one program of each form."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from gpu_parts.children import run_children
from gpu_parts.setting import Setting

ROOT = Path(__file__).resolve().parents[2]
_TOOLS = ("memcheck", "racecheck", "synccheck", "initcheck")


def gpu_tests(setting: Setting, seconds: float) -> dict[str, Any]:
    """Run `pytest -m gpu`."""
    if setting.is_simulated:
        return {"skipped": "the device is simulated"}
    if importlib.util.find_spec("pytest") is None:
        return {"skipped": "pytest is not installed"}
    command = [sys.executable, "-m", "pytest", "-q", "-m", "gpu", "-p", "no:cacheprovider", "tests"]
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
    if done.returncode not in (0, 5):  # 5: no test has the mark
        found["error"] = text.splitlines()[-1]
    return found


def sanitizer(setting: Setting, seconds: float) -> dict[str, Any]:
    """Run one program of each form under every tool of compute-sanitizer."""
    if setting.is_simulated:
        return {"skipped": "the simulator checks by itself"}
    tool = shutil.which("compute-sanitizer")
    if tool is None:
        return {"skipped": "compute-sanitizer is not on PATH; it comes with the CUDA toolkit"}
    found = {}
    for name in _TOOLS:
        prefix = [tool, "--tool", name, "--error-exitcode", "9", "--print-limit", "5"]
        done = run_children(setting, seconds / len(_TOOLS), {"quick": True}, prefix)
        found[name] = done
        state = "clean" if not done["faults"] else f"{len(done['faults'])} faults"
        print(f"  {name}: {state}, {done['kernels']} kernels")
    return found
