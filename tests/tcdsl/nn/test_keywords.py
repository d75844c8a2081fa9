"""Losses take what PyTorch's take by name, and sizes may be said by name."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from tcdsl import library as tc
from tcdsl import linalg, nn, special
from tests.tiers import sampled

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.torch, pytest.mark.cc]

RNG = np.random.default_rng(11)
LOGITS = RNG.standard_normal((5, 4)).astype(np.float32)
CLASSES = np.array([0, 3, 1, 3, -100])
LOSSES: list[tuple[str, dict[str, Any], Any]] = [
    ("CrossEntropyLoss", {"label_smoothing": 0.2, "ignore_index": 1}, CLASSES % 4),
    ("CrossEntropyLoss", {"label_smoothing": 0.2}, CLASSES),
    ("CrossEntropyLoss", {"label_smoothing": 0.2, "reduction": "none"}, CLASSES),
    ("CrossEntropyLoss", {"label_smoothing": 0.1, "reduction": "sum"}, np.abs(LOGITS)),
    ("SmoothL1Loss", {"beta": 0.3}, LOGITS[::-1].copy()),
    ("SmoothL1Loss", {"beta": 0, "reduction": "sum"}, LOGITS[::-1].copy()),
    ("KLDivLoss", {"reduction": "batchmean", "log_target": True}, LOGITS[::-1].copy()),
]


@sampled("name, named, target", LOSSES[::-1], keep=1)
def test_losses_take_what_pytorchs_take_by_name(
    name: str, named: dict[str, Any], target: np.ndarray[Any, Any]
) -> None:
    found = []
    for library, layers in ((tc, nn), (torch, torch.nn)):
        x = library.tensor(LOGITS, requires_grad=True)
        loss = getattr(layers, name)(**named)(x, library.tensor(target))
        loss.sum().backward()
        found.append((loss.detach().numpy(), x.grad.numpy()))
    for mine, theirs in zip(*found, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=2e-5, atol=1e-6)


def test_sizes_and_dimensions_are_said_by_name() -> None:
    x = np.arange(6.0, dtype=np.float32).reshape(1, 2, 3)
    for library in (tc, torch):
        t = library.tensor(x)
        made = {
            "flip": (library.flip(t, dims=[1, 2]), t.flip(dims=(1, 2))),
            "permute": (library.permute(t, dims=(2, 0, 1)), t.permute(dims=(2, 0, 1))),
            "reshape": (library.reshape(t, shape=(3, -1)), t.reshape(shape=(3, -1))),
            "tile": (library.tile(t, dims=(2,)), t.tile(dims=(2,))),
            "grown": (t.expand(size=(4, 2, 3)), t.view(size=(6,)), t.repeat(repeats=(2, 1, 1))),
            "made": (library.zeros(size=(2, 1)), library.ones(size=[3]), library.full((2,), 7.0)),
        }
        values = {name: [v.numpy() for v in each] for name, each in made.items()}
        assert library.empty(size=(2, 3)).shape == library.rand(size=(2, 3)).shape == (2, 3)
        assert library.randn(size=(4,)).shape == (4,)
        with pytest.raises(TypeError):
            library.flip(t, 0, dims=(1,))
        with pytest.raises(TypeError):
            library.zeros(2, size=(2,))
        if library is tc:
            mine = values
    for name, each in values.items():
        for a, b in zip(mine[name], each, strict=True):
            np.testing.assert_array_equal(a, b, strict=True)


def test_today_s_short_words_for_matrices() -> None:
    x = RNG.standard_normal((2, 3, 3)).astype(np.float32)
    x = x @ x.swapaxes(1, 2) + np.eye(3, dtype=np.float32)
    right = RNG.standard_normal((2, 3, 2)).astype(np.float32)
    found = []
    for library in (tc, torch):
        t, b = library.tensor(x), library.tensor(right)
        low = (linalg if library is tc else torch.linalg).cholesky(t)
        high = low.mT.contiguous()
        made = [
            library.cholesky_solve(b, low), b.cholesky_solve(high, upper=True),
            library.cholesky_inverse(low), high.cholesky_inverse(upper=True), b.mT, b.mH, b[0].H,
            library.zeros(3, 3, 3).fill_diagonal_(2), library.zeros(2, 5).fill_diagonal_(2),
            library.zeros(8, 2).fill_diagonal_(2), library.zeros(8, 2).fill_diagonal_(2, wrap=True),
            library.zeros(3, 8).t().fill_diagonal_(2, True), library.zeros(0, 2).fill_diagonal_(1),
        ]  # fmt: skip
        found.append([m.numpy() for m in made])
        with pytest.raises(RuntimeError, match="only supported on matrices"):
            _ = library.zeros(3).mT
        with pytest.raises(RuntimeError, match="equal length"):
            library.zeros(2, 2, 3).fill_diagonal_(1)
    for mine, theirs in zip(*found, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=2e-4, atol=1e-5)


def test_norms_print_whether_they_shift() -> None:
    for layers in (nn, torch.nn):
        made = [
            layers.BatchNorm1d(3), layers.BatchNorm2d(3, affine=False), layers.InstanceNorm2d(3),
            layers.GroupNorm(1, 3), layers.GroupNorm(1, 3, bias=False),
            layers.BatchNorm1d(3, bias=False),
        ]  # fmt: skip
        if layers is nn:
            mine = [str(layer) for layer in made]
    assert mine == [str(layer) for layer in made]


def test_dimensions_may_have_numpys_names() -> None:
    x = tc.arange(6.0).view(2, 3)
    assert x.sum(axis=1).tolist() == [3, 12]
    assert x.mean(axis=0, keepdims=True).shape == (1, 3)
    assert tc.max(x, axis=1).indices.tolist() == [2, 2]
    assert tc.cat([x, x], axis=1).shape == (2, 6)
    with pytest.raises(TypeError, match="axes"):
        x.mean(axes=1)


def test_further_names_of_arguments_are_pytorchs() -> None:
    found = []
    for t, layers in ((tc, nn), (torch, torch.nn)):
        f, x = layers.functional, t.arange(6.0) - 3
        with pytest.warns(FutureWarning, match="`min_value` is deprecated"):
            between = layers.Hardtanh(min_value=-2.0)(x)
        made = [
            f.elu_(x.clone(), alpha=0.5),
            f.hardtanh_(x.clone(), min_val=-1, max_val=2),
            f.threshold_(x.clone(), threshold=1, value=9),
            between,
            f.normalize(x, dim=0, out=t.empty(0)),
            t.addcmul(x, tensor1=x, tensor2=x, value=3),
            t.addcdiv(input=x, tensor1=x, tensor2=t.ones(6)),
            x.clone().addcmul_(tensor1=x, tensor2=x, value=2),
            t.hsplit(x, sections=2)[1],
            t.tensor_split(x, indices=(1, 3))[1],
        ]
        found.append([m.tolist() for m in made])
    for mine, theirs in zip(*found, strict=True):
        assert mine == pytest.approx(theirs)


@pytest.mark.wide
def test_decompositions_are_written_into_tensors_of_the_callers() -> None:
    matrix = np.array([[4.0, 1.0], [1.0, 3.0]])
    found = []
    places: list[tuple[Any, Any, Any]]
    places = [(tc, linalg, special), (torch, torch.linalg, torch.special)]
    for t, lib, functions in places:
        a = t.tensor(matrix)
        outs = [t.empty(0, dtype=t.float64) for _ in range(7)]
        lib.cholesky(a, out=outs[0])
        lib.eigh(a, out=(outs[1], outs[2]))
        lib.solve(a, a[:1].t(), out=outs[3])
        t.inverse(a, out=outs[4])
        lib.norm(a, out=outs[5])
        functions.logit(a / 9, out=outs[6])
        found.append([np.abs(o.numpy()) for o in outs])
    for mine, theirs in zip(*found, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-9)


def test_a_sequence_of_layers_may_be_repeated() -> None:
    layer = nn.Linear(2, 2)
    twice = nn.Sequential(layer, nn.ReLU()) * 2
    assert len(twice) == 4
    assert twice[2] is layer
    with pytest.raises(ValueError, match="Non-positive multiplication factor 0"):
        twice * 0


def test_weights_of_losses_of_elements_are_pytorchs() -> None:
    for name, (reduction, size) in itertools.product(
        ("mse_loss", "l1_loss", "huber_loss"), (("mean", 4), ("sum", 4), ("none", 4), ("mean", 1))
    ):
        found = []
        for library, functional in ((tc, nn.functional), (torch, torch.nn.functional)):
            x = library.tensor(LOGITS, requires_grad=True)
            weight = library.arange(5.0 * size).reshape(5, size)
            target = library.tensor(LOGITS[::-1].copy())
            loss = getattr(functional, name)
            if size == 1:
                with pytest.raises(ValueError, match="Weights and input must have the same size"):
                    loss(x, target, weight=weight)
                continue
            made = loss(x, target, reduction=reduction, weight=weight)
            made.sum().backward()
            found.append((made.detach().numpy(), x.grad.numpy()))
        for mine, theirs in zip(*found, strict=True):
            np.testing.assert_allclose(mine, theirs, rtol=2e-5, atol=1e-6, err_msg=name)
