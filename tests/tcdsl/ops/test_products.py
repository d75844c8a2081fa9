"""Products as PyTorch's where operands are of several types."""

from __future__ import annotations

import pytest

from tcdsl import library as tc

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.torch, pytest.mark.cc]


def test_outer_promotes_and_refuses_what_is_no_vector() -> None:
    said = []
    for lib in (tc, torch):
        x = lib.tensor([0.5, 1.5], requires_grad=True)
        made = lib.outer(lib.arange(3), x)
        made.sum().backward()
        with pytest.raises(RuntimeError) as refused:
            lib.outer(lib.ones(2, 2), lib.ones(2))
        bools = lib.outer(lib.tensor([True, False]), lib.tensor([2, 3]))
        said.append((made.tolist(), x.grad.tolist(), str(bools.dtype), str(refused.value)))
    assert said[0] == said[1]
