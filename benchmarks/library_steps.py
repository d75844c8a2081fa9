"""The training steps that `library.py` times, of models written in PyTorch's names.

Each maker takes the library, `torch` or `tcdsl`, and gives a module, what its loss is of, and an
optimizer of its parameters.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Steps:
    """A model: its name, aim, maker, and batch.

    make: (library) -> (module, (module, *batch) -> loss, parameters -> optimizer).
    """

    name: str
    aim: float
    make: Callable[[Any], tuple[Any, Callable[..., Any], Callable[[Any], Any]]]
    batch: tuple[Array, ...]


def floats(*shape: int) -> Array:
    """Return normal numbers, the same for a shape in every run."""
    return np.random.default_rng(shape).standard_normal(shape, dtype=np.float32)


def classes(count: int, *shape: int) -> Array:
    """Return whole numbers below a count."""
    return np.random.default_rng(shape).integers(0, count, shape)


def perceptron(*widths: int, rate: float = 0.01) -> Callable[[Any], Any]:
    """Linear maps with relu between them."""

    def make(m: Any) -> Any:
        layers: list[Any] = []
        for a, b in pairwise(widths):
            layers += [m.nn.Linear(a, b), m.nn.ReLU()]
        entropy = m.nn.functional.cross_entropy
        return (
            m.nn.Sequential(*layers[:-1]),
            lambda net, x, y: entropy(net(x), y),
            lambda parameters: m.optim.SGD(parameters, lr=rate),
        )

    return make


def convnet(m: Any) -> Any:
    """Two convolutions, batch norms and pools, then a linear map."""
    nn, fn = m.nn, m.nn.functional

    class Net(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.conv1, self.norm1 = nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16)
            self.conv2, self.norm2 = nn.Conv2d(16, 32, 3, padding=1), nn.BatchNorm2d(32)
            self.linear = nn.Linear(32 * 2 * 2, 10)

        def forward(self, x: Any) -> Any:
            x = fn.max_pool2d(fn.relu(self.norm1(self.conv1(x))), 2)
            x = fn.max_pool2d(fn.relu(self.norm2(self.conv2(x))), 2)
            return self.linear(x.view(x.size(0), -1))

    return (
        Net(),
        lambda net, x, y: fn.nll_loss(fn.log_softmax(net(x), 1), y),
        lambda parameters: m.optim.SGD(parameters, lr=0.05, momentum=0.9),
    )


def gpt(m: Any) -> Any:
    """Letters and places to vectors, two blocks of attention, vectors to letters."""
    nn, fn = m.nn, m.nn.functional
    width, heads, length, letters = 48, 4, 24, 16

    class Block(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
            self.mix, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.wide = nn.Linear(width, 4 * width)
            self.narrow = nn.Linear(4 * width, width)

        def forward(self, x: Any) -> Any:
            batch, length, _ = x.shape
            parts = self.mix(self.norm1(x)).chunk(3, dim=-1)
            q, k, v = (p.view(batch, length, heads, -1).transpose(1, 2) for p in parts)
            scores = q.matmul(k.transpose(2, 3)) / (width // heads) ** 0.5
            later = m.ones(length, length).triu(1) > 0
            weights = fn.softmax(scores.masked_fill(later, float("-inf")), dim=-1)
            seen = weights.matmul(v).transpose(1, 2).reshape(batch, length, width)
            x = x + self.out(seen)
            return x + self.narrow(fn.gelu(self.wide(self.norm2(x))))

    class GPT(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.letter, self.place = nn.Embedding(letters, width), nn.Embedding(length, width)
            self.blocks = nn.ModuleList([Block() for _ in range(2)])
            self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, letters)

        def forward(self, x: Any) -> Any:
            x = self.letter(x) + self.place(m.arange(x.size(1)))
            for block in self.blocks:
                x = block(x)
            return self.head(self.norm(x))

    def loss(net: Any, x: Any, y: Any) -> Any:
        return fn.cross_entropy(net(x).view(-1, letters), y.view(-1))

    return GPT(), loss, lambda parameters: m.optim.AdamW(parameters, lr=3e-3)


def lstm(m: Any) -> Any:
    """Letters to vectors, an LSTM, vectors to letters."""
    nn, fn = m.nn, m.nn.functional

    class Model(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.letter, self.lstm = nn.Embedding(16, 16), nn.LSTM(16, 64)
            self.head = nn.Linear(64, 16)

        def forward(self, x: Any) -> Any:
            y, _ = self.lstm(self.letter(x))
            return self.head(y)

    def loss(net: Any, x: Any, y: Any) -> Any:
        return fn.cross_entropy(net(x).view(-1, 16), y.reshape(-1))

    return Model(), loss, lambda parameters: m.optim.RMSprop(parameters, lr=3e-3)


def resnet(m: Any) -> Any:
    """ResNet-18 for images of 32x32, of width 16."""
    nn, fn = m.nn, m.nn.functional

    class Block(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self, inputs: int, outputs: int, stride: int) -> None:
            super().__init__()
            self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
            self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
            self.norm1, self.norm2 = nn.BatchNorm2d(outputs), nn.BatchNorm2d(outputs)
            self.skip = nn.Sequential()
            if stride != 1 or inputs != outputs:
                self.skip = nn.Sequential(
                    nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs)
                )

        def forward(self, x: Any) -> Any:
            y = fn.relu(self.norm1(self.conv1(x)))
            return fn.relu(self.norm2(self.conv2(y)) + self.skip(x))

    width = 16
    layers = [nn.Conv2d(3, width, 3, 1, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU()]
    inputs = width
    for stage in range(4):
        for block in range(2):
            outputs = width << stage
            layers.append(Block(inputs, outputs, 2 if stage and not block else 1))
            inputs = outputs
    layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, 10)]
    return (
        nn.Sequential(*layers),
        lambda net, x, y: fn.cross_entropy(net(x), y),
        lambda parameters: m.optim.SGD(parameters, lr=0.05, momentum=0.9),
    )


STEPS = (
    Steps("step of a tiny MLP, 2x8-8-4", 6, perceptron(8, 8, 4), (floats(2, 8), classes(4, 2))),
    Steps("step of an MLP, 8x784-128-10", 2, perceptron(784, 128, 10),
          (floats(8, 784), classes(10, 8))),
    Steps("step of the convnet of digits", 1.3, convnet,
          (floats(50, 1, 8, 8), classes(10, 50))),
    Steps("step of a GPT of letters", 1.2, gpt, (classes(16, 16, 24), classes(16, 16, 24))),
    Steps("step of an LSTM", 1, lstm, (classes(16, 32, 8), classes(16, 32, 8))),
    Steps("step of ResNet-18, 8x3x32x32", 1, resnet,
          (floats(8, 3, 32, 32), classes(10, 8))),
)  # fmt: skip
