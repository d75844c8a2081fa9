"""Ops compute by kernels of ours: NumPy holds memory, and computes nothing."""

from __future__ import annotations

import ast
import subprocess
import sys

import pytest

from tests.tcdsl.ops.calls import FOLDER

pytestmark = pytest.mark.cc

# Every ufunc of NumPy, and what computes beside them, raises; each op is called with the first of
# its samples, and some launcher must have run an entry.
WITHOUT_NUMPY = """
import numpy as np
import gc
from tcdsl.codegen.runtime import Launcher
def runs():
    return sum(o.calls for o in gc.get_objects() if type(o) is Launcher)
from tests.tcdsl.ops.calls import each, ours, tensor
from tests.tcdsl.ops.samples import FAMILIES
first = {}
for family in FAMILIES:
    for sample in family():
        first.setdefault(sample.name, (sample, each((sample.args, sample.kwargs), tensor)))
def refused(*args, **kwargs):
    raise AssertionError("NumPy computes")
COMPUTING = (
    "einsum matmul dot tensordot inner outer vdot sum prod mean std var min max amin amax argmin "
    "argmax sort argsort cumsum cumprod where take choose compress select place put clip round any "
    "all put_along_axis take_along_axis concatenate stack tile repeat pad roll flip tril triu "
    "cross convolve interp linspace diff bincount histogram"
).split()
for name in {*COMPUTING, *(n for n in dir(np) if isinstance(getattr(np, n), np.ufunc))}:
    setattr(np, name, refused)
for name, (sample, (args, kwargs)) in first.items():
    before = runs()
    ours(name)(*args, **kwargs)
    if runs() == before:
        raise SystemExit(f"{name} ran no kernel")
print(len(first))
"""


@pytest.mark.wide
def test_every_op_runs_kernels_where_numpy_computes_nothing() -> None:
    run = [sys.executable, "-c", WITHOUT_NUMPY]
    done = subprocess.run(run, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert int(done.stdout) > 150


ARRAYS = {  # what binds operands; what orders elements; what LAPACK takes
    "dispatch.py",
    "indexing.py",  # what is compacted: places of what is true
    "sorting.py",
    "matrices.py",
}


def test_no_family_takes_elements_out_of_tensors() -> None:
    for path in FOLDER.glob("*.py"):
        if path.name in ARRAYS:
            continue
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                where = f"{path.name}:{node.lineno}"
                assert node.func.attr not in ("_array", "numpy", "tolist"), where
