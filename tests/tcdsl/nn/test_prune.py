"""Pruned parameters are PyTorch's: masks, what is drawn, what is left after several methods."""

from __future__ import annotations

from typing import Any

import pytest

from tcdsl import library, nn
from tcdsl.nn.utils import prune

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.cc, pytest.mark.torch]


def _told(t: Any, nn: Any, prune: Any) -> list[Any]:
    """Return the masks of methods by chance, by size, of channels, of a mask, and of all."""

    class Even(prune.BasePruningMethod):  # type: ignore[misc]
        PRUNING_TYPE = "unstructured"

        def compute_mask(self, t: Any, default_mask: Any) -> Any:
            mask = default_mask.clone()
            mask.view(-1)[::2] = 0
            return mask

    t.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 3))
    prune.random_unstructured(net[0], "weight", amount=0.3)
    prune.ln_structured(net[0], "weight", amount=2, n=2, dim=0)
    prune.random_structured(net[2], "weight", amount=0.4, dim=1)
    Even.apply(net[2], "weight")
    prune.l1_unstructured(net[0], "bias", amount=2)
    prune.custom_from_mask(net[2], "bias", t.tensor([1, 0, 1]))
    rows = [b.tolist() for _, b in net.named_buffers()]
    net(t.ones(1, 4)).sum().backward()
    rows += [sorted(net.state_dict()), (net[0].weight_orig.grad != 0).tolist()]
    prune.remove(net[0], "weight")
    prune.global_unstructured(
        [(net[0], "weight"), (net[2], "weight")], prune.L1Unstructured, amount=0.5
    )
    rows += [(layer.weight == 0).tolist() for layer in (net[0], net[2])]
    try:
        prune.l1_unstructured(net[0], "bias", amount=1.5)
    except ValueError as error:
        rows.append(str(error))
    return [*rows, [*net[0]._parameters], prune.is_pruned(net)]


def test_masks_are_pytorchs() -> None:
    import torch.nn.utils.prune as theirs

    assert _told(library, nn, prune) == _told(torch, torch.nn, theirs)


def test_weights_in_another_order_lose_the_same_elements() -> None:
    plain, turned = (nn.Conv2d(3, 4, 3) for _ in range(2))
    turned.load_state_dict(plain.state_dict())
    turned.to(memory_format=library.channels_last)
    for layer in (plain, turned):
        prune.l1_unstructured(layer, "weight", amount=0.5)
    assert turned.weight_orig.stride() == (27, 1, 9, 3)
    assert turned.weight_mask.tolist() == plain.weight_mask.tolist()
