"""`torch.cuda.amp`: the older names of training in halves."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = pytest.mark.cc

SCRIPT = """
from tcdsl.as_torch import install; install()
import warnings
import torch
from torch.cuda.amp import GradScaler, autocast, custom_fwd
with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always")
    scaler = GradScaler(enabled=False)
    with autocast(enabled=False):
        assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype is torch.float32
    assert [w.category for w in told] == [FutureWarning] * 2, [str(w.message) for w in told]
assert issubclass(torch.cuda.amp.autocast, torch.amp.autocast)
assert scaler.scale(3.0 * torch.ones(1)).item() == 3
print(str(told[1].message))
"""


def test_scripts_find_the_older_names() -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True)
    assert done.stdout.startswith("`torch.cuda.amp.autocast(args...)` is deprecated."), done.stderr
