"""The guide for users of PyTorch is true: its Python runs from top to bottom."""

from __future__ import annotations

import functools
import re
from pathlib import Path
from typing import Any

import pytest

from tests.tiers import sampled

torch = pytest.importorskip("torch")
tct: Any = pytest.importorskip("tcdsl.torch")

pytestmark = [pytest.mark.torch, pytest.mark.cc]

GUIDE = Path(__file__).parents[2] / "tcdsl" / "torch" / "GUIDE.md"
FCRELU = """
def fcrelu(float(B,M) I, float(N,M) W, float(N) b) -> (O) {
  O(b_, n) +=! I(b_, m) * W(n, m)
  O(b_, n)  = fmax(O(b_, n) + b(n), 0)
}"""
EMBED = "def embed(float(V,D) E, int32(B) I) -> (O) { O(b, d) = E(I(b), d) }"


@sampled("backend", ["aot_eager", "inductor"], keep=0, wide=1)  # torch's own takes a minute
def test_its_python_runs_from_top_to_bottom(backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "compile", functools.partial(torch.compile, backend=backend))
    blocks = re.findall(r"^```python\n(.*?)^```$", GUIDE.read_text(), re.MULTILINE | re.DOTALL)
    assert len(blocks) > 8
    torch.manual_seed(0)
    exec(compile("\n".join(blocks), GUIDE.name, "exec"), {"__name__": "guide"})


def test_the_messages_it_explains_are_those_that_one_meets() -> None:
    explained = re.findall(r"^\| `(.*?)` \|", GUIDE.read_text().split("## Errors")[1], re.MULTILINE)
    fcrelu, embed = tct.define(FCRELU), tct.define(EMBED)
    layer = tct.nn.TC(fcrelu, parameters={"W": (3, 5), "b": (3,)})
    x, w, b = torch.ones(4, 5), torch.ones(3, 5, requires_grad=True), torch.zeros(3)

    def changed() -> None:
        y = fcrelu(x.clone().requires_grad_(), w, b)
        with torch.no_grad():
            w.mul_(2)
        y.sum().backward()

    wrong = (
        lambda: fcrelu(x.double(), w, b),
        lambda: fcrelu(x, torch.ones(3, 6), b),
        lambda: fcrelu(x, w, b, out=torch.empty(4, 3)),
        changed,
        lambda: embed(torch.ones(10, 4), torch.tensor([3, 12], dtype=torch.int32)),
        layer.half,
        lambda: layer(x, W=w),
    )
    for message, call in zip(explained, wrong, strict=True):
        with pytest.raises(Exception, match=re.escape(message)):
            call()
