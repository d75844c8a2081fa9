"""`import tcdsl.torch` is light, so far as PyTorch lets it be."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytest.importorskip("torch")

pytestmark = pytest.mark.torch


def test_import_loads_neither_dynamo_nor_symbols_nor_sqlite() -> None:
    code = """
import sys, torch
before = {*sys.modules}
import tcdsl.torch
later = {"torch._dynamo", "torch.fx.experimental.symbolic_shapes", "sympy", "sqlite3"}
print(sorted(later & (sys.modules.keys() - before)))"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
