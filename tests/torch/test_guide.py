"""The guide for users of PyTorch is true: its Python runs from top to bottom."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

GUIDE = Path(__file__).parents[2] / "tcdsl" / "torch" / "GUIDE.md"


@pytest.mark.wide
@pytest.mark.torch
@pytest.mark.cc
def test_its_python_runs_from_top_to_bottom() -> None:
    blocks = re.findall(r"^```python\n(.*?)^```$", GUIDE.read_text(), re.MULTILINE | re.DOTALL)
    assert len(blocks) > 8
    torch.manual_seed(0)
    exec(compile("\n".join(blocks), GUIDE.name, "exec"), {"__name__": "guide"})
