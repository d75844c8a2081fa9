"""`import tcdsl` is light."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent


def run(code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return done.stdout


def test_import_loads_numpy_and_our_own_files_only() -> None:
    code = (
        "import sys, json, numpy; before = set(sys.modules); import tcdsl;"
        "print(json.dumps(sorted({m.split('.')[0] for m in set(sys.modules) - before})))"
    )
    loaded = {name for name in json.loads(run(code)) if name not in sys.stdlib_module_names}
    assert loaded == {"tcdsl"}


def test_import_takes_at_most_2_5_times_the_time_of_numpy() -> None:
    code = (
        "import time; t0 = time.perf_counter(); import numpy; t1 = time.perf_counter();"
        "import tcdsl; t2 = time.perf_counter(); print((t2 - t0) / (t1 - t0))"
    )
    assert min(float(run(code)) for _ in range(5)) < 2.5


def test_a_call_on_the_host_loads_no_library_of_a_gpu() -> None:
    code = (
        "import sys, numpy as np, tcdsl;"
        "k = tcdsl.define('def f(float(N) A) -> (B) { B(i) = 2 * A(i) }');"
        "k(np.ones(3, np.float32)); tcdsl.synchronize();"
        "print({'cupy', 'cupy_backends', 'torch'} & set(sys.modules))"
    )
    assert run(code).strip() == "set()"
