"""What recorded calls are called: scripts print it with every tensor that has a gradient."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tcdsl import library, nn
from tcdsl.core import Node

pytestmark = pytest.mark.cc

FEW = [
    "x**2",
    "1 - x",
    "1 / x",
    "x.sum(0)",
    "x.max()",
    "F.linear(x, x, x[0])",
    "F.mse_loss(x, y)",
]
MORE = [
    "2.0**x", "x**y", "x.sum()", "x.mean(1)", "x.max(1)[0]", "x.norm()", "x.clamp(min=0)",
    "x.clamp_min(0)", "x.sort()[0]", "x.topk(2)[0]", "x.median()", "x[x > 0]", "x.repeat(2, 1)",
    "x.scatter_add(0, i, x)", "x.index_add(0, i[0], x)", "x.double()", "F.cross_entropy(x, i[0])",
    "F.nll_loss(x, i[0])", "F.l1_loss(x, y)", "F.smooth_l1_loss(x, y, reduction='sum')",
    "F.binary_cross_entropy_with_logits(x, y)", "F.gelu(x)", "F.softplus(x)", "F.linear(z, x)",
    "F.layer_norm(x, (3,))", "F.conv1d(z, z)", "F.max_pool2d(z, 1)", "F.pad(x, (1, 1))",
    "F.interpolate(z, scale_factor=2)", "z @ x", "z @ z", "torch.einsum('ij,jk->ik', x, x)",
    "torch.where(x > 0, x, y)", "F.cosine_similarity(x, y)", "F.pairwise_distance(x, y)",
    "x[:1].squeeze(0)", "x.roll(1)", "(x * 1).normal_()", "torch.stack([x])", "(x**3).flatten()",
    "(x[:1] * 1).squeeze_(0)", "(x * 1).fill_(2.0)", "x.put(i[0], x[0])", "torch.slogdet(x)[0]",
    "nn.LSTM(3, 2)(z)[0]", "nn.GRU(3, 2, batch_first=True)(z)[0]", "nn.LSTMCell(3, 2)(x)[1]",
]  # fmt: skip


def _named(package: Any, nn: Any, expressions: list[str]) -> list[str]:
    values = np.arange(9, dtype=np.float32).reshape(3, 3) / 3 - 1
    x, z = (
        package.tensor(v).requires_grad_() for v in (values, np.stack([values, values, values]))
    )
    scope = {"torch": package, "nn": nn, "F": nn.functional, "x": x, "z": z}
    scope |= {"y": package.tensor(values.clip(0, 1)), "i": package.tensor([[0, 1, 2]] * 3)}
    nodes = [eval(e, dict(scope)).grad_fn for e in expressions]
    return [f"{e}: {n.name()} {type(n).__name__}" for e, n in zip(expressions, nodes, strict=True)]


@pytest.mark.parametrize("expressions", [FEW, pytest.param(MORE, marks=pytest.mark.wide)])
def test_calls_are_called_as_pytorchs(expressions: list[str]) -> None:
    torch = pytest.importorskip("torch")
    assert _named(library, nn, expressions) == _named(torch, torch.nn, expressions)


def test_a_graph_is_walked_by_the_names_of_its_types() -> None:
    x = library.ones(2).requires_grad_()
    node = (x * 2).exp().grad_fn
    (below, _), *_ = node.next_functions
    (leaf, _), *_ = below.next_functions
    assert [type(n).__name__ for n in (node, below, leaf)] == [
        "ExpBackward0", "MulBackward0", "AccumulateGrad",
    ]  # fmt: skip
    assert type(node) is type(x.exp().grad_fn)
    assert isinstance(node, Node)


def _drawn(package: Any, nn: Any, expressions: list[str]) -> list[Any]:
    """Return what scripts that walk a graph meet: names, parameters by their shapes."""
    package.manual_seed(0)
    scope = {"torch": package, "nn": nn, "F": nn.functional, "x": package.ones(2, 3)}
    scope |= {"y": package.ones(2, 3).requires_grad_(), "z": package.ones(2, 3, 4, 4)}
    scope |= {"w": package.ones(2, 3).requires_grad_(), "i": package.tensor([0, 1])}

    def tree(node: Any) -> Any:
        if node is None or hasattr(node, "variable"):
            return node and tuple(node.variable.shape)
        return [type(node).__name__, *(tree(below) for below, _ in node.next_functions)]

    return [tree(eval(e, dict(scope)).grad_fn) for e in expressions]


WALKED = ["nn.Sequential(nn.Linear(3, 2), nn.ReLU(), nn.Linear(2, 1))(x)", "F.mse_loss(y * 2, x)"]
OTHERS = [
    "nn.Linear(3, 2)(x[None])", "nn.Conv2d(3, 2, 3)(z)", "nn.BatchNorm2d(3)(z)", "y.view(-1)[1:]",
    "nn.LayerNorm(3)(x)", "nn.GroupNorm(1, 3)(z)", "F.embedding(i, y)", "torch.where(x > 0, y, w)",
    "F.max_pool2d(nn.Conv2d(3, 2, 3)(z), 2)", "F.avg_pool2d(nn.Conv2d(3, 2, 3)(z), 2)", "y.sum(0)",
    "torch.addmm(y[:, :2], y, torch.ones(3, 2))", "torch.cat([y, w])", "y.scatter(0, i[None], w)",
    "F.nll_loss(y, i)", "F.cross_entropy(y, i)", "nn.Linear(3, 2, bias=False)(x)",
    "nn.Linear(3, 2, bias=False)(x[None])", "1 - y", "2**y",
]  # fmt: skip


@pytest.mark.parametrize("expressions", [WALKED, pytest.param(OTHERS, marks=pytest.mark.wide)])
def test_graphs_are_walked_as_pytorchs(expressions: list[str]) -> None:
    torch = pytest.importorskip("torch")
    assert _drawn(library, nn, expressions) == _drawn(torch, torch.nn, expressions)
