"""What layers say of themselves, and what they refuse, in PyTorch's words."""

from __future__ import annotations

from typing import Any

import pytest

from tcdsl import library as tc
from tcdsl import nn

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.torch, pytest.mark.cc]


def test_attention_is_shown_as_pytorchs() -> None:
    assert repr(nn.MultiheadAttention(4, 2)) == repr(torch.nn.MultiheadAttention(4, 2))


@pytest.mark.parametrize("dtype", ["float32", "float64", "bool"])
def test_an_embedding_refuses_what_is_no_integer(dtype: str) -> None:
    def refused(lib: Any, layers: Any) -> str:
        layer = layers.Embedding(3, 2)
        with pytest.raises(RuntimeError) as said:
            layer(lib.ones(2, dtype=getattr(lib, dtype)))
        return str(said.value)

    assert refused(tc, nn) == refused(torch, torch.nn)


def test_a_hinge_loss_takes_two_tensors() -> None:
    loss = nn.HingeEmbeddingLoss(margin=0.5)
    with pytest.raises(TypeError, match="takes 3 positional arguments but 4 were given"):
        loss(*[tc.ones(2)] * 3)
    ours = nn.MarginRankingLoss()(input1=tc.ones(2), input2=tc.zeros(2), target=-tc.ones(2))
    assert ours.item() == 1
