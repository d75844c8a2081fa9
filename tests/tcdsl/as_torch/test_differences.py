"""Each difference between PyTorch 0.4 and today holds as the table says it, in both versions."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tcdsl.as_torch import install
from tcdsl.as_torch.differences import DIFFERENCES, listing

pytestmark = pytest.mark.cc

# What is true in 0.4 and not today; `words(f)` is what f() is refused in.
FACTS = {
    "integer division": """
        t = torch.tensor([7, -7]) / 2
        inplace = torch.tensor([7, -7]); inplace /= torch.tensor([2, 2])
        fact = (t.tolist(), t.dtype) == ([3, -3], torch.int64) and inplace.tolist() == [3, -3]
        fact = fact and torch.div(torch.tensor([9]), torch.tensor([2])).tolist() == [4]
        fact = fact and (torch.tensor([7.0]) / 2).tolist() == [3.5]
    """,
    "floor division": "fact = (torch.tensor([-7, 7]) // 2).tolist() == [-3, 3]",
    "numbers": """
        fact = (torch.tensor(5) * 0.5).item() == 0 and (2.5 + torch.tensor([1])).tolist() == [3]
        x = torch.tensor([1]); x.add_(2.7); fact = fact and x.tolist() == [3]
    """,
    "tensors of rank 0": """
        fact = (torch.tensor([1, 2]) * torch.tensor(2.5)).tolist() == [2, 4]
    """,
    "types of operands": """
        a, b = torch.ones(2), torch.ones(2, dtype=torch.float64)
        says = "Expected object of type torch.FloatTensor but found type torch.DoubleTensor " \\
            "for argument #2 'other'"
        fact = words(lambda: a + b) == words(lambda: torch.add(a, b)) == says
        fact = fact and words(lambda: a.pow(b)) == says.replace("other", "exponent")
        fact = fact and "LongTensor" in words(lambda: torch.tensor([1]) / a)
    """,
    "functions of floats": """
        says = "exp is not implemented for type torch.LongTensor"
        fact = words(lambda: torch.exp(torch.tensor([1]))) == says
        fact = fact and words(lambda: torch.tensor([1]).exp()) == says
    """,
    "comparisons": """
        m = torch.tensor([1.0, 3]) > 2
        fact = m.dtype is torch.uint8 and (1 - m).tolist() == [1, 0] and m.sum().item() == 1
        fact = fact and torch.eq(m, m).dtype is torch.uint8 and m.all().dtype is torch.uint8
        fact = fact and m.ne(1).tolist() == [1, 0] and torch.tensor([1.0, 3])[m].tolist() == [3]
    """,
    "inversion": """
        fact = (~torch.tensor([0, 1], dtype=torch.uint8)).tolist() == [1, 0]
        fact = fact and "byte tensors" in words(lambda: ~torch.tensor([1]))
    """,
    "tensors of bools": "fact = torch.tensor([True, False]).dtype is torch.uint8",
    "masks of bytes": """
        m, x = torch.tensor([0, 1], dtype=torch.uint8), torch.tensor([1.0, 2])
        fact = not words(lambda: x.masked_fill(m, 5.0)) and not words(lambda: x.masked_select(m))
        fact = fact and x.clone().masked_fill_(m, 5.0).tolist() == [1, 5]
        fact = fact and x.clone().masked_scatter_(m, torch.zeros(1)).tolist() == [1, 0]
        fact = fact and torch.masked_select(x, m).tolist() == [2]
    """,
    "subscripts of bytes": """
        with warnings.catch_warnings(record=True) as found:
            x = torch.tensor([1.0, 2])[torch.tensor([0, 1], dtype=torch.uint8)]
        fact = not found and x.tolist() == [2]
    """,
    "full": "fact = torch.full((2,), 3).dtype is torch.float32",
    "arange": "fact = torch.arange(3).dtype is torch.float32",
    "randint": "fact = torch.randint(9, (2,)).dtype is torch.float32",
    "subscript of a scalar": """
        fact = words(lambda: torch.tensor(1.0).data[0]).endswith(
            "Use tensor.item() to convert a 0-dim tensor to a Python number")
    """,
    "align_corners": """
        image = torch.tensor([[[[1.0, 2], [3, 4]]]])
        places = torch.tensor([[[[-1.0, -1], [1, 1]]]])
        fact = F.grid_sample(image, places).tolist() == [[[[1, 4]]]]
        theta = torch.tensor([[[1.0, 0, 0], [0, 1, 0]]])
        fact = fact and F.affine_grid(theta, (1, 1, 2, 2))[0, 0, 0].tolist() == [-1, -1]
    """,
    "scale_factor": """
        x = torch.arange(0.0, 5).reshape(1, 1, 5)
        y = nn.Upsample(scale_factor=1.5, mode="linear")(x)
        fact = torch.allclose(y, F.interpolate(x, size=7, mode="linear"))
        fact = fact and torch.allclose(y, F.upsample(x, None, 1.5, "linear"))
    """,
    "multilabel_soft_margin_loss": """
        x, y = torch.zeros(2, 3), torch.ones(2, 3)
        fact = tuple(F.multilabel_soft_margin_loss(x, y, reduce=False).shape) == (2, 3)
        total = nn.MultiLabelSoftMarginLoss(size_average=False)(x, y).item()
        fact = fact and abs(total - 6 * math.log(2)) < 1e-5
    """,
    "nll_loss of nothing": """
        x, y = torch.zeros(2, 3), torch.full((2,), -100.0).long()
        fact = F.nll_loss(x, y).item() == 0 == nn.CrossEntropyLoss()(x, y).item()
        fact = fact and F.nll_loss(x, y * 0).item() == 0
    """,
    "zero_grad": """
        layer = nn.Linear(2, 1); layer(torch.ones(1, 2)).sum().backward(); layer.zero_grad()
        fact = layer.weight.grad is not None and layer.weight.grad.tolist() == [[0, 0]]
        layer(torch.ones(1, 2)).sum().backward()
        optim.SGD(layer.parameters(), lr=0.1).zero_grad()
        fact = fact and layer.weight.grad is not None
    """,
    "scheduler.step": """
        opt = optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
        schedule, rates = optim.lr_scheduler.StepLR(opt, 2, 0.5), []
        for epoch in range(4):
            schedule.step(); rates.append(opt.param_groups[0]["lr"])
        fact = rates == [1, 1, 0.5, 0.5]
    """,
    "eps of Adam": """
        p = torch.zeros(1, requires_grad=True); p.sum().backward()
        optim.Adam([p], lr=1.0, eps=1.0).step()
        root, correction = 0.001 ** 0.5, 0.001 ** 0.5
        fact = abs(p.item() + correction / (root + 1)) < 1e-5
    """,
    "clip_grad_norm_": """
        p = torch.zeros(2, requires_grad=True); p.sum().backward()
        fact = isinstance(nn.utils.clip_grad_norm_([p], 1.0), float)
    """,
}
SCRIPT = """
import json, math, sys, textwrap, warnings
import torch
from torch import nn, optim
import torch.nn.functional as F

def words(f):
    try:
        f()
    except Exception as error:
        return str(error)
    return ""

found = {}
for name, text in json.loads(sys.argv[1]).items():
    names = {**globals()}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("always")
            if torch.__version__.startswith("0.4"):
                warnings.filterwarnings("ignore", "indexing with dtype torch.uint8")
            exec(textwrap.dedent(text), names)
        found[name] = bool(names["fact"])
    except Exception as error:
        found[name] = repr(error)
print(json.dumps(found))
"""


def _facts(tmp_path: Path, *options: str) -> dict[str, object]:
    script = tmp_path / "facts.py"
    script.write_text(SCRIPT)
    done = subprocess.run(
        [sys.executable, "-m", "tcdsl.as_torch", *options, str(script), json.dumps(FACTS)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)  # type: ignore[no-any-return]


def test_every_difference_has_its_fact() -> None:
    assert list(FACTS) == [d.name for d in DIFFERENCES]


@pytest.mark.wide
def test_scripts_of_0_4_mean_what_they_meant(tmp_path: Path) -> None:
    found = _facts(tmp_path, "--version", "0.4")
    assert {name: fact for name, fact in found.items() if fact is not True} == {}


@pytest.mark.wide
def test_scripts_of_today_mean_what_they_mean(tmp_path: Path) -> None:
    found = _facts(tmp_path)
    assert [name for name, fact in found.items() if fact is True] == []


def test_the_table_is_printed() -> None:
    command = [sys.executable, "-m", "tcdsl.as_torch", "--list-differences"]
    shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert shown.strip() == listing().strip()
    assert all(d.name in shown for d in DIFFERENCES)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (["--version", "0.3", "x.py"], "--version: expected 2.13 or 0.4, got '0.3'"),
        (["--fast"], "unknown option '--fast'"),
    ],
)
def test_unknown_options_are_wrong_usage(options: list[str], problem: str) -> None:
    command = [sys.executable, "-m", "tcdsl.as_torch", *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith(problem)


def test_install_knows_its_versions() -> None:
    with pytest.raises(ValueError, match=r"expected a version of 2\.13, 0\.4, got '1\.0'"):
        install("1.0")
