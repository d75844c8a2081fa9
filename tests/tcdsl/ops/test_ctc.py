"""The loss of sequences whose places in time are not known, held against PyTorch's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tcdsl import library as tc
from tcdsl import nn
from tcdsl.nn import functional as F  # noqa: N812

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.torch, pytest.mark.cc]

# steps, samples, classes, lengths of inputs, of targets
SIZES = {
    "ragged": (7, 3, 5, (7, 5, 6), (3, 0, 2)),
    "one": (1, 1, 2, (1,), (1,)),
    "too long": (3, 2, 4, (3, 2), (2, 4)),
    "repeated": (6, 2, 2, (6, 5), (3, 2)),
    "no labels": (4, 2, 3, (4, 3), (0, 0)),
    "no steps": (4, 3, 3, (0, 0, 4), (0, 1, 2)),
}


def _case(name: str, dtype: str, flat: bool, blank: int, drops: bool, reduction: str) -> Any:
    steps, n, classes, inputs, labels = SIZES[name]
    rng = np.random.default_rng(3)
    data = rng.standard_normal((steps, n, classes))
    targets = rng.integers(0, classes - 1, (n, max(max(labels), 1)))
    targets += targets >= blank  # no label is the blank
    if flat:
        targets = np.concatenate([row[:k] for row, k in zip(targets, labels, strict=True)])
    found = []
    for u, f in ((tc, F), (torch, torch.nn.functional)):
        x = u.tensor(data, dtype=getattr(u, dtype)).requires_grad_()
        logs = f.log_softmax(x.transpose(0, 1), -1).transpose(0, 1)  # strided
        y = f.ctc_loss(logs, u.tensor(targets), u.tensor(inputs), u.tensor(labels), blank=blank,
                       reduction=reduction, zero_infinity=drops)  # fmt: skip
        kept = y if drops else y[y.isfinite()] if y.ndim else y
        (kept * kept).sum().backward()
        found.append((y.tolist(), x.grad.tolist()))
    return found


@pytest.mark.parametrize("flat", [False, pytest.param(True, marks=pytest.mark.wide)])
@pytest.mark.parametrize(
    "name",
    # Second sizes bring the kernel for all sizes, which the test below has compiled too.
    [pytest.param(n, marks=() if n == "ragged" else pytest.mark.wide) for n in SIZES],
)
def test_losses_and_gradients(name: str, flat: bool) -> None:
    for blank, drops, reduction in ((0, True, "mean"), (1, True, "sum"), (0, True, "none")):
        (y, g), (wanted, real) = _case(name, "float64", flat, blank, drops, reduction)
        np.testing.assert_allclose(y, wanted, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(g, real, rtol=1e-8, atol=1e-12)


def test_what_does_not_fit_is_infinite() -> None:
    (y, _), (wanted, _) = _case("too long", "float64", False, 0, False, "none")
    assert np.isinf(y[1])
    np.testing.assert_allclose(y, wanted, rtol=1e-5)


@pytest.mark.wide
def test_padding_is_not_read_and_one_sequence_has_no_batch() -> None:
    found = []
    for u, n in ((tc, nn), (torch, torch.nn)):
        logs = (u.arange(24.0).reshape(4, 2, 3) / 9).sin().log_softmax(-1)
        padded = u.tensor([[1, 2, -1], [2, -1, 99]])
        loss = n.CTCLoss()
        assert repr(n.CTCLoss(blank=1, zero_infinity=True)) == "CTCLoss()"
        batch = loss(logs, padded, (4, 4), (2, 1)).item()
        found.append([batch, loss(logs[:, 0], padded[0, :2], u.tensor(4), u.tensor(2)).item()])
    assert found[0] == pytest.approx(found[1], rel=1e-5)


@pytest.mark.parametrize(
    ("inputs", "labels", "blank", "words"),
    [((5, 4), (1, 1), 0, "at most 4"), ((4,), (1, 1), 0, "batch_size"),
     ((4, 4), (1, 1), 7, "blank")],
)  # fmt: skip
def test_what_is_refused(inputs: Any, labels: Any, blank: int, words: str) -> None:
    for u, f in ((tc, F), (torch, torch.nn.functional)):
        logs = u.zeros(4, 2, 3).log_softmax(-1)
        with pytest.raises(RuntimeError, match=words):
            f.ctc_loss(logs, u.tensor([[1], [2]]), inputs, labels, blank)
