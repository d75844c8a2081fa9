"""What PyTorch has and this library has not says what to use; special functions are PyTorch's."""

from __future__ import annotations

import importlib
import math
import re
import subprocess
import sys
from typing import Any

import pytest

from tcdsl import library, special
from tcdsl.as_torch.absent import REASONS, missing
from tests.tiers import sampled

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.torch, pytest.mark.cc]


def test_what_is_absent_is_pytorchs_and_not_ours() -> None:
    for name in REASONS:
        assert name not in library.names(), name
        assert importlib.util.find_spec(f"tcdsl.{name}") is None, name


@pytest.mark.parametrize("name", re.findall(r"torch\.([a-z][\w.]*\w)", " ".join(REASONS.values())))
def test_what_is_to_be_used_is_there(name: str) -> None:
    found: Any = importlib.import_module("tcdsl")
    at = "tcdsl"
    for part in name.split("."):
        at = f"{at}.{part}"
        found = getattr(found, part, None) or importlib.import_module(at)
    assert found is not None


def test_a_name_that_is_nearly_one_is_told() -> None:
    assert missing("matmull") == "; did you mean 'matmul'?"
    assert missing("no_such_thing_at_all") == ""


def test_scripts_are_told_and_tensors_have_their_methods() -> None:
    script = (
        "from tcdsl.as_torch import install; install(); import torch\n"
        "assert torch.Tensor.abs\n"
        "try: torch.onnx.export\n"
        "except AttributeError as error: print(error)\n"
        "for name in ('onnx.utils', 'utils.tensorboard', 'distributed.rpc', 'no_such_thing'):\n"
        "    try: __import__(f'torch.{name}')\n"
        "    except ImportError as error: print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    told = done.stdout.splitlines()
    assert "models are not exported" in told[0]
    assert told[1].startswith(
        "No module named 'torch.onnx.utils' in tcdsl: models are not exported"
    )
    assert told[2].startswith("No module named 'torch.utils.tensorboard' in tcdsl: write numbers")
    assert told[3].startswith("No module named 'torch.distributed.rpc' in tcdsl: processes")
    assert told[4] == "No module named 'torch.no_such_thing'"


OF_TWO = ("zeta", "gammainc", "gammaincc")  # and polynomials: `ops/test_special.py` has them
OF_ONE = [n for n in special.__all__ if "polynomial" not in n and n not in OF_TWO]


@sampled("name", OF_ONE, keep=4)
def test_special_functions_are_pytorchs(name: str) -> None:
    numbers = [[0.0, 0.25, 0.5], [0.75, 0.9, 1.0], [-0.5, 2.0, math.nan]]
    mine, real = (u.tensor(numbers, dtype=u.float64) for u in (library, torch))
    further: list[list[Any]] = [[], []]
    if name in ("softmax", "log_softmax", "logsumexp"):
        further = [[1], [1]]
    elif name.startswith("xlog"):
        further = [[mine * 0.7 + 1], [real * 0.7 + 1]]
    calls = [[mine, *further[0]], [real, *further[1]]]
    if name == "polygamma":
        calls = [[1, mine], [1, real]]
    elif name == "multigammaln":
        calls = [[mine[:2] + 1, 2], [real[:2] + 1, 2]]
    found = torch.tensor(getattr(special, name)(*calls[0]).tolist(), dtype=torch.float64)
    wanted = getattr(torch.special, name)(*calls[1])
    # PyTorch's series of polygamma(1, x) ends before 1 / (30 x**9), from 6 on.
    rtol = 4e-9 if name == "polygamma" else 1e-10
    assert torch.allclose(found, wanted, rtol=rtol, atol=1e-12, equal_nan=True)
