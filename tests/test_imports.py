"""`import tcdsl` is light."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent


def run(code: str, **variables: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True,
        env={**os.environ, **variables},
    )  # fmt: skip
    return done.stdout


def test_import_loads_numpy_and_our_own_files_only() -> None:
    code = (
        "import sys, json, numpy; before = set(sys.modules); import tcdsl;"
        "print(json.dumps(sorted({m.split('.')[0] for m in set(sys.modules) - before})))"
    )
    loaded = {name for name in json.loads(run(code)) if name not in sys.stdlib_module_names}
    assert loaded == {"tcdsl"}


def test_import_does_little_beside_that_of_numpy(tmp_path: Path) -> None:
    code = """
import sys
def entered(name):
    count = 0
    def note(frame, event, arg):
        nonlocal count
        count += event == "call"
    sys.setprofile(note)
    __import__(name)
    sys.setprofile(None)
    return count
print(entered("numpy"), entered("tcdsl"), entered("tcdsl.definitions"))"""
    kept = {"PYTHONPYCACHEPREFIX": str(tmp_path), "PYTHONDONTWRITEBYTECODE": ""}
    run(code, **kept)  # a first import compiles, which is not what a user waits for every time
    numpy, ours, all_of_define = map(int, run(code, **kept).split())
    assert ours < 0.1 * numpy  # Python functions entered, in place of a time
    assert all_of_define < 2.5 * numpy


def test_rooms_are_reached_by_their_names_alone() -> None:
    code = (
        "import tcdsl; print(tcdsl.utils.data.DataLoader.__name__,"
        " tcdsl.utils.checkpoint.checkpoint.__name__, tcdsl.nn.utils.rnn.pad_sequence.__name__,"
        " tcdsl.optim.lr_scheduler.StepLR.__name__, hasattr(tcdsl.utils, 'absent'))"
    )
    assert run(code).split() == ["DataLoader", "checkpoint", "pad_sequence", "StepLR", "False"]


def test_a_call_on_the_host_loads_no_library_of_a_gpu() -> None:
    code = (
        "import sys, numpy as np, tcdsl;"
        "k = tcdsl.define('def f(float(N) A) -> (B) { B(i) = 2 * A(i) }');"
        "k(np.ones(3, np.float32)); tcdsl.synchronize();"
        "print({'cupy', 'cupy_backends', 'torch'} & set(sys.modules))"
    )
    assert run(code).strip() == "set()"


def test_a_tensor_that_is_met_first_has_its_methods() -> None:
    assert run("import tcdsl; print(tcdsl.Tensor([1, 2]).sum())") == "tensor(3.)\n"


# What stands under a public name, by the place that it is defined at, and what after every file has
# been imported: an import sets the name of the file in the room above it.
_EVERY_FILE = """
import importlib, json, pkgutil, types
import tcdsl
from tcdsl.names import LIBRARY, ROOMS
names = {("tcdsl", n): getattr(importlib.import_module("tcdsl.library"), n) for n in LIBRARY}
for n, home in tcdsl._HOME.items():
    at = importlib.import_module(home)
    names["tcdsl", n] = at if home == f"tcdsl.{n}" else getattr(at, n)
for room in ROOMS:
    at = importlib.import_module(f"tcdsl.{room}")
    names |= {(at.__name__, n): v for n, v in vars(at).items() if not n.startswith("_")}
ours = ("tcdsl.torch", "tcdsl.as_torch")  # the first imports torch
for found in pkgutil.walk_packages(tcdsl.__path__, "tcdsl."):
    if not found.name.startswith(ours) and not found.name.endswith("__main__"):
        try:
            importlib.import_module(found.name)
        except ImportError as missing:
            assert not (missing.name or "").startswith("tcdsl"), found.name
is_module = lambda value: isinstance(value, types.ModuleType)
became = [
    f"{room}.{n}" for (room, n), v in names.items()
    if is_module(v) != is_module(getattr(importlib.import_module(room), n))
]
print(json.dumps([len(names), became, tcdsl.gradient(tcdsl.arange(3.0))[0].tolist()]))"""


def test_no_file_stands_where_a_public_name_is() -> None:
    count, became, slope = json.loads(run(_EVERY_FILE))
    assert count > 1000
    assert became == []
    assert slope == [1, 1, 1]


def test_what_a_file_of_gradients_had_is_found_under_its_earlier_name() -> None:
    code = (
        "import pickle, tcdsl; found = pickle.loads(b'ctcdsl.gradient\\nWithGradient\\n.');"
        "print(found.__name__, tcdsl.gradient.__name__)"
    )
    assert run(code).split() == ["WithGradient", "gradient"]
