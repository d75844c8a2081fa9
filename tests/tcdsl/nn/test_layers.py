"""Layers give PyTorch's values and gradients from PyTorch's parameters."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tcdsl import library as tc
from tcdsl import nn
from tests.tiers import sampled

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.torch, pytest.mark.cc]

# layer, its arguments, shapes of its inputs ("N": integers below N)
LAYERS: list[tuple[str, tuple[Any, ...], dict[str, Any], list[Any]]] = [
    ("Linear", (5, 3), {}, [(4, 5)]),
    ("Linear", (5, 3), {"bias": False}, [(2, 4, 5)]),
    ("Bilinear", (3, 4, 2), {}, [(5, 3), (5, 4)]),
    ("Conv1d", (3, 4, 3), {"padding": 1}, [(2, 3, 9)]),
    ("Conv2d", (2, 4, 3), {"stride": 2, "padding": 1}, [(2, 2, 8, 7)]),
    ("Conv2d", (4, 4, (3, 2)), {"groups": 2, "dilation": 2}, [(2, 4, 9, 8)]),
    ("Conv2d", (2, 4, 3), {"stride": (2,), "padding": (1,)}, [(2, 2, 8, 7)]),
    ("Conv3d", (2, 2, 2), {"bias": False}, [(1, 2, 4, 4, 5)]),
    ("ConvTranspose1d", (3, 2, 3), {"stride": 2, "output_padding": 1}, [(2, 3, 5)]),
    ("ConvTranspose2d", (3, 2, 3), {"stride": 2, "padding": 1}, [(2, 3, 5, 4)]),
    ("ConvTranspose2d", (3, 2, 3), {"stride": (2,), "output_padding": (1,)}, [(2, 3, 5, 4)]),
    ("BatchNorm1d", (4,), {}, [(6, 4)]),
    ("BatchNorm2d", (3,), {"momentum": 0.3}, [(2, 3, 4, 5)]),
    ("BatchNorm2d", (3,), {"affine": False, "track_running_stats": False}, [(2, 3, 4, 5)]),
    ("InstanceNorm2d", (3,), {"affine": True}, [(2, 3, 4, 5)]),
    ("LayerNorm", ((4, 5),), {}, [(3, 4, 5)]),
    ("GroupNorm", (2, 4), {}, [(3, 4, 5)]),
    ("LocalResponseNorm", (3,), {}, [(2, 5, 4)]),
    ("MaxPool2d", (2,), {}, [(2, 3, 6, 7)]),
    ("MaxPool2d", (3, 2, 1), {"ceil_mode": True}, [(2, 3, 6, 7)]),
    ("MaxPool1d", (3, 1), {"dilation": 2}, [(2, 3, 9)]),
    ("AvgPool2d", (2, 2), {"padding": 1, "count_include_pad": False}, [(2, 3, 6, 7)]),
    ("LPPool2d", (2, 2), {}, [(2, 3, 6, 6)]),
    ("AdaptiveAvgPool2d", ((3, 2),), {}, [(2, 3, 7, 5)]),
    ("AdaptiveMaxPool1d", (3,), {}, [(2, 3, 7)]),
    ("Upsample", (), {"scale_factor": 2}, [(1, 2, 3, 4)]),
    ("UpsamplingBilinear2d", (), {"size": (5, 7)}, [(1, 2, 3, 4)]),
    ("ReLU", (), {}, [(3, 4)]),
    ("LeakyReLU", (0.2,), {}, [(3, 4)]),
    ("PReLU", (4,), {}, [(3, 4, 2)]),
    ("ELU", (), {}, [(3, 4)]),
    ("SELU", (), {}, [(3, 4)]),
    ("GELU", (), {}, [(3, 4)]),
    ("Softplus", (), {}, [(3, 4)]),
    ("Softmax", (1,), {}, [(3, 4)]),
    ("LogSoftmax", (-1,), {}, [(3, 4)]),
    ("GLU", (), {}, [(3, 4)]),
    ("Hardtanh", (), {}, [(3, 4)]),
    ("Embedding", (7, 3), {"padding_idx": 2}, ["7"]),
    ("EmbeddingBag", (7, 3), {"mode": "sum"}, ["7"]),
    ("CosineSimilarity", (), {}, [(3, 4), (3, 4)]),
    ("PairwiseDistance", (), {}, [(3, 4), (3, 4)]),
    ("ReflectionPad2d", (1,), {}, [(1, 2, 4, 4)]),
    ("ReplicationPad1d", ((2, 1),), {}, [(1, 2, 4)]),
    ("PixelShuffle", (2,), {}, [(1, 8, 2, 3)]),
    ("MSELoss", (), {}, [(3, 4), (3, 4)]),
    ("L1Loss", (), {"reduction": "sum"}, [(3, 4), (3, 4)]),
    ("SmoothL1Loss", (), {"reduction": "none"}, [(3, 4), (3, 4)]),
    ("CrossEntropyLoss", (), {}, [(6, 5), "5"]),
    ("BCEWithLogitsLoss", (), {}, [(3, 4), (3, 4)]),
    ("RNN", (3, 4), {"nonlinearity": "relu"}, [(5, 2, 3)]),
    ("LSTM", (3, 4, 2), {"bidirectional": True}, [(5, 2, 3)]),
    ("GRU", (3, 4), {"batch_first": True}, [(2, 5, 3)]),
    ("LSTMCell", (3, 4), {}, [(2, 3)]),
    ("GRUCell", (3, 4), {"bias": False}, [(2, 3)]),
]
CASES = [pytest.param(*case, id=f"{case[0]}-{number}") for number, case in enumerate(LAYERS)]


def inputs(shapes: list[Any]) -> list[np.ndarray[Any, Any]]:
    """Return operands of these shapes."""
    source = np.random.default_rng(len(shapes))
    made: list[Any] = []
    for shape in shapes:
        if isinstance(shape, str):
            size = (made[0].shape[0],) if made else (4, 3)
            made.append(source.integers(0, int(shape), size))
        else:
            made.append(source.standard_normal(shape))
    return made


def flat(result: Any) -> list[Any]:
    """Return the tensors of a result."""
    if isinstance(result, tuple | list):
        return [tensor for part in result for tensor in flat(part)]
    return [result]


@sampled("name, args, kwargs, shapes", CASES, keep=2, wide=12)
def test_layer(name: str, args: Any, kwargs: dict[str, Any], shapes: list[Any]) -> None:
    theirs = getattr(torch.nn, name)(*args, **kwargs).double()
    ours = getattr(nn, name)(*args, **kwargs).double()
    assert [*ours.state_dict()] == [*theirs.state_dict()]
    ours.load_state_dict(theirs.state_dict())
    arrays = inputs(shapes)
    for training in (True, False):
        ours.train(training)
        theirs.train(training)
        x = [tc.tensor(a, requires_grad=a.dtype.kind == "f") for a in arrays]
        y = [torch.tensor(a, requires_grad=a.dtype.kind == "f") for a in arrays]
        mine, yours = flat(ours(*x)), flat(theirs(*y))
        for a, b in zip(mine, yours, strict=True):
            assert tuple(a.shape) == tuple(b.shape)
            np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), 1e-9, 1e-12)
        sum((a * a).sum() for a in mine).backward()
        sum((b * b).sum() for b in yours).backward()
        for a, b in zip(x, y, strict=True):
            if b.grad is not None:
                np.testing.assert_allclose(a.grad.numpy(), b.grad.numpy(), 1e-8, 1e-10)
        for a, b in zip(ours.parameters(), theirs.parameters(), strict=True):
            np.testing.assert_allclose(a.grad.numpy(), b.grad.numpy(), 1e-8, 1e-10)
        for (_, a), (_, b) in zip(ours.named_buffers(), theirs.named_buffers(), strict=True):
            np.testing.assert_allclose(a.numpy(), b.numpy(), 1e-9)


@sampled("name, both_ways", [("RNN", False), ("LSTM", True)], keep=1)
def test_sequences_of_several_lengths(name: str, both_ways: bool) -> None:
    theirs = getattr(torch.nn, name)(3, 4, bidirectional=both_ways).double()
    ours = getattr(nn, name)(3, 4, bidirectional=both_ways).double()
    ours.load_state_dict(theirs.state_dict())
    (x,) = inputs([(6, 3, 3)])
    lengths = [6, 4, 1]
    packed = nn.utils.rnn.pack_padded_sequence(tc.tensor(x), lengths)
    mine, state = ours(packed)
    their_packed = torch.nn.utils.rnn.pack_padded_sequence(torch.tensor(x), torch.tensor(lengths))
    yours, their_state = theirs(their_packed)
    assert mine.batch_sizes.tolist() == yours.batch_sizes.tolist()
    np.testing.assert_allclose(mine.data.detach().numpy(), yours.data.detach().numpy(), 1e-9)
    for a, b in zip(flat(state), flat(their_state), strict=True):
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), 1e-9)
    padded, ends = nn.utils.rnn.pad_packed_sequence(mine, batch_first=True)
    assert tuple(padded.shape) == (3, 6, 8 if both_ways else 4)
    assert ends.tolist() == lengths


def test_beginnings() -> None:
    tc.manual_seed(0)
    w = tc.empty(300, 200)
    for fill, deviation in (
        (nn.init.xavier_uniform_, (2 / 500) ** 0.5),
        (nn.init.xavier_normal_, (2 / 500) ** 0.5),
        (nn.init.kaiming_normal_, (2 / 200) ** 0.5),
        (nn.init.kaiming_uniform_, (2 / 200) ** 0.5),
    ):
        fill(w)
        assert abs(w.numpy().std() / deviation - 1) < 0.02
    assert nn.init.calculate_gain("leaky_relu", 0.2) == torch.nn.init.calculate_gain(
        "leaky_relu", 0.2
    )
    nn.init.dirac_(tc.empty(2, 3, 3))
    with pytest.raises(ValueError, match="fewer than 2 dimensions"):
        nn.init.xavier_normal_(tc.empty(3))
