"""Scripts written for PyTorch run as they are, and give PyTorch's numbers."""

from __future__ import annotations

import runpy
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.torch, pytest.mark.cc]

SCRIPT = """
import sys
import torch
import torch.backends.cudnn as cudnn
import torch.nn as nn
import torch.nn.functional as F
from torch import optim
from torch.utils.data import DataLoader, TensorDataset

cudnn.benchmark = True
x = torch.linspace(-1, 1, 24).reshape(12, 2)
y = (x[:, 0] * x[:, 1] > 0).long()
model = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 2))
with torch.no_grad():
    for p in model.parameters():
        p.copy_(torch.linspace(-0.5, 0.5, p.numel()).view(p.shape))
optimizer = optim.Adam(model.parameters(), lr=0.05)
for epoch in range(5):
    for a, b in DataLoader(TensorDataset(x, y), batch_size=5):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(a), b)
        loss.backward()
        optimizer.step()
assert isinstance(x, torch.Tensor) and torch.is_tensor(loss)
print(f"{loss.item():.5f}", sys.argv[1:], torch.__version__.endswith("tcdsl"))
"""


def test_a_script_gives_the_same_numbers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("torch")
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    command = [sys.executable, "-m", "tcdsl.as_torch", str(script), "--fast"]
    ours = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    monkeypatch.setattr(sys, "argv", [str(script), "--fast"])
    runpy.run_path(str(script), run_name="__main__")  # here torch is loaded anyway
    real = capsys.readouterr().out.split()
    assert ours[:2] == real[:2]
    assert (ours[-1], real[-1]) == ("True", "False")


def test_usage(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tcdsl.as_torch"]
    assert subprocess.run(command, capture_output=True, check=False).returncode == 2
    missing = subprocess.run([*command, "no.py"], capture_output=True, text=True, check=False)
    assert missing.returncode == 2
    assert "no such file" in missing.stderr
