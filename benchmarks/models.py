"""Training steps of three models, one kernel per operation: what a library of kernels would call.

Each is a ResNet-18, a GPT or an LSTM language model as its author writes it: convolution, batch
norm, relu, sum, ... with their gradients, and the update of each parameter. Every operation is one
text for all shapes, so a step meets what a library has to compile.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
from operands import Array

import tcdsl as tc

OPS = """
def add<T>(T(...) A, T(...) B) -> (C) { C(...) = A(...) + B(...) }
def rectify<T>(T(...) X) -> (Y) { Y(...) = relu(X(...)) }
def gelu<T>(T(...) X) -> (Y) { Y(...) = 0.5 * X(...) * (1 + erf(X(...) * 0.70710678)) }
def linear(float(..., K) X, float(N,K) W, float(N) b) -> (Y) {
  Y(..., n) +=! X(..., k) * W(n, k)
  Y(..., n) = Y(..., n) + b(n)
}
def conv<S, P>(float(N,C,H,W) I, float(F,C,KH,KW) K) -> (O) {
  O(n, f, y, x) +=! pad(I(n, c, S * y + i - P, S * x + j - P), 0) * K(f, c, i, j)
      where y in 0:(H + 2 * P - KH) / S + 1, x in 0:(W + 2 * P - KW) / S + 1
}
def batch_norm(float(N,C,H,W) X, float(C) g, float(C) h) -> (Y) {
  m(c) +=! X(n, c, y, x) / (N * H * W)
  v(c) +=! (X(n, c, y, x) - m(c)) * (X(n, c, y, x) - m(c)) / (N * H * W)
  Y(n, c, y, x) = (X(n, c, y, x) - m(c)) * rsqrt(v(c) + 1e-5) * g(c) + h(c)
}
def max_pool(float(N,C,H,W) X) -> (Y) {
  Y(n, c, y, x) max=! pad(X(n, c, 2 * y + i - 1, 2 * x + j - 1), -inf)
      where i in 0:3, j in 0:3, y in 0:(H - 1) / 2 + 1, x in 0:(W - 1) / 2 + 1
}
def mean_pool(float(N,C,H,W) X) -> (Y) { Y(n, c) +=! X(n, c, y, x) / (H * W) }
def layer_norm(float(..., N) X, float(N) g, float(N) h) -> (Y) {
  m(...) +=! X(..., n) / N
  v(...) +=! (X(..., n) - m(...)) * (X(..., n) - m(...)) / N
  Y(..., n) = (X(..., n) - m(...)) * rsqrt(v(...) + 1e-5) * g(n) + h(n)
}
def embedding(float(V,D) E, int64(B,T) I) -> (Y) { Y(b, t, d) = E(I(b, t), d) }
def scores(float(B,T,H,E) Q, float(B,T,H,E) K) -> (S) {
  S(b, h, i, j) +=! Q(b, i, h, e) * K(b, j, h, e)
  S(b, h, i, j) = j > i ? -inf : S(b, h, i, j) * rsqrt(float(E))
}
def softmax(float(..., N) X) -> (Y) {
  M(...) max=! X(..., n)
  E(..., n) = exp(X(..., n) - M(...))
  S(...) +=! E(..., n)
  Y(..., n) = E(..., n) / S(...)
}
def weighted(float(B,H,T,S) W, float(B,S,H,E) V) -> (O) {
  O(b, i, h, e) +=! W(b, h, i, j) * V(b, j, h, e)
}
def lstm(float(B,T,I) X, float(4,N,I) W, float(4,N,N) U) -> (H, C) {
  H(b, 0, n) = 0.0 where b in 0:B, n in 0:N
  C(b, 0, n) = 0.0 where b in 0:B, n in 0:N
  for t in 0:T {
    G(b, k, n) +=! X(b, t, i) * W(k, n, i)
    G(b, k, n) += H(b, t, m) * U(k, n, m)
    C(b, t + 1, n) = sigmoid(G(b, 1, n)) * C(b, t, n) + sigmoid(G(b, 0, n)) * tanh(G(b, 2, n))
    H(b, t + 1, n) = sigmoid(G(b, 3, n)) * tanh(C(b, t + 1, n))
  }
}
def cross_entropy(float(B,C) X, int64(B) I) -> (l) {
  M(b) max=! X(b, c)
  S(b) +=! exp(X(b, c) - M(b))
  l +=! (log(S(b)) + M(b) - X(b, I(b))) / B
}
def momentum<T>(T(...) P, T(...) G, T(...) V) -> (Q, U) {
  U(...) = 0.9 * V(...) + G(...)
  Q(...) = P(...) - 0.02 * U(...)
}
def adam<T>(T(...) P, T(...) G, T(...) M, T(...) V) -> (Q, A, B) {
  A(...) = 0.9 * M(...) + 0.1 * G(...)
  B(...) = 0.999 * V(...) + 0.001 * G(...) * G(...)
  Q(...) = P(...) - 0.001 * A(...) / (sqrt(B(...)) + 1e-8)
}
"""


@cache
def ops() -> tc.Definitions:
    return tc.define_all(OPS, tune="off")


def op(name: str) -> Any:
    """Return the kernel of an operation."""
    return ops()[name]


Weights = tuple[Array, ...]


@dataclass(frozen=True)
class Call:
    """A call that was made: what its gradient is by, what it gave, the way back."""

    by: Weights
    result: Array
    pull: Callable[..., Any]


@dataclass
class Tape:
    """The calls of a forward pass, in order, and the gradient by weights.

    Gradients are by what depends on the weights, nothing else: an image has none.
    """

    weights: Weights
    calls: list[Call] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._known = {id(w) for w in self.weights}

    def __call__(self, name: str, *operands: Array, **generics: int) -> Array:
        """Return the first output of an operation."""
        kernel = op(name)
        which = [i for i, x in enumerate(operands) if id(x) in self._known]
        wanted = kernel.with_grad(wrt=[kernel.params[i] for i in which], copy=False)
        results, pull = wanted(*operands, **generics)
        result: Array = results[0] if isinstance(results, tuple) else results
        rest = (None,) * (len(results) - 1) if isinstance(results, tuple) else ()

        def back(adjoint: Array) -> Sequence[Array]:
            found = pull((adjoint, *rest)) if rest else pull(adjoint)
            return found if len(which) > 1 else (found,)

        return self._note(tuple(operands[i] for i in which), result, back)

    def view(self, x: Array, *shape: int) -> Array:
        """Return an array in another shape; no kernel runs."""
        return self._note((x,), x.reshape(shape), lambda adjoint: (adjoint.reshape(x.shape),))

    def _note(self, by: Weights, result: Array, pull: Callable[..., Any]) -> Array:
        self.calls.append(Call(by, result, pull))
        self._known.add(id(result))
        return result

    def gradient(self, loss: Array) -> list[Array]:
        """Return the gradient of a loss by each weight."""
        adjoints: dict[int, Array] = {id(loss): np.ones((), np.float32)}
        for call in reversed(self.calls):
            for x, d in zip(call.by, call.pull(adjoints[id(call.result)]), strict=True):
                before = adjoints.get(id(x))
                adjoints[id(x)] = d if before is None else op("add")(before, d)
        return [adjoints[id(w)] for w in self.weights]


@dataclass
class Model:
    """Weights, what updates them, and the loss of a batch.

    rule: an operation that takes a weight, its gradient and states, and gives all but the gradient.
    """

    rule: str
    states: int
    loss: Callable[[Tape, Iterator[Array], Sequence[Array]], Array]
    batch: Callable[[int], Sequence[Array]]
    weights: Weights

    def __post_init__(self) -> None:
        self._states = [[np.zeros_like(w) for _ in range(self.states)] for w in self.weights]

    def step(self, size: int) -> float:
        """Take a training step on a batch of so many; return the loss."""
        tape = Tape(self.weights)
        loss = self.loss(tape, iter(self.weights), self.batch(size))
        for w, d, states in zip(self.weights, tape.gradient(loss), self._states, strict=True):
            op(self.rule)(w, d, *states, out=(w, *states))
        return float(loss)


def _weights(*shapes: tuple[int, ...]) -> Weights:
    """Return weights; those of one dimension begin as ones."""
    draw = np.random.default_rng(0)

    def one(shape: tuple[int, ...]) -> Array:
        if len(shape) == 1:
            return np.ones(shape, np.float32)
        scale = np.float32(np.prod(shape[1:]) ** -0.5)
        return draw.standard_normal(shape, dtype=np.float32) * scale

    return tuple(map(one, shapes))


def _drawn(*shape: int) -> Array:
    return np.random.default_rng(1).standard_normal(shape, dtype=np.float32)


def _labels(below: int, *shape: int) -> Array:
    return np.random.default_rng(2).integers(0, below, shape)


def resnet(width: int = 64, side: int = 64) -> Model:
    """Return a ResNet-18 of images of 3 x side x side."""
    widths = [width << stage for stage in range(4) for _ in range(2)]
    blocks = [*zip([width, *widths], widths, strict=False)]
    shapes: list[tuple[int, ...]] = [(width, 3, 7, 7), (width,), (width,)]
    for inputs, outputs in blocks:
        for channels in (inputs, outputs):
            shapes += [(outputs, channels, 3, 3), (outputs,), (outputs,)]
        if inputs != outputs:
            shapes += [(outputs, inputs, 1, 1), (outputs,), (outputs,)]

    def loss(run: Tape, w: Iterator[Array], batch: Sequence[Array]) -> Array:
        def normed(x: Array, stride: int, pad: int) -> Array:
            y = run("conv", x, next(w), S=stride, P=pad)
            return run("batch_norm", y, next(w), next(w))

        x = run("max_pool", run("rectify", normed(batch[0], 2, 3)))
        for inputs, outputs in blocks:
            stride = 1 if inputs == outputs else 2
            y = run("rectify", normed(x, stride, 1))
            y = normed(y, 1, 1)
            x = run("rectify", run("add", y, x if stride == 1 else normed(x, 2, 0)))
        logits = run("linear", run("mean_pool", x), next(w), next(w))
        return run("cross_entropy", logits, batch[1])

    return Model(
        "momentum",
        1,
        loss,
        lambda size: (_drawn(size, 3, side, side), _labels(10, size)),
        _weights(*shapes, (10, 8 * width), (10,)),
    )


def gpt(width: int = 128, heads: int = 4, depth: int = 4, length: int = 64) -> Model:
    """Return a GPT of 64 symbols."""
    block = (
        (width,), (width,), *((width, width), (width,)) * 4,
        (width,), (width,), (4 * width, width), (4 * width,), (width, 4 * width), (width,),
    )  # fmt: skip
    last = ((width,), (width,), (64, width), (64,))

    def loss(run: Tape, w: Iterator[Array], batch: Sequence[Array]) -> Array:
        def linear(x: Array) -> Array:
            return run("linear", x, next(w), next(w))

        def norm(x: Array) -> Array:
            return run("layer_norm", x, next(w), next(w))

        symbols, places, wanted = batch
        size = len(symbols)
        x = run("add", run("embedding", next(w), symbols), run("embedding", next(w), places))
        for _ in range(depth):
            seen = norm(x)
            q, k, v = (run.view(linear(seen), size, length, heads, -1) for _ in range(3))
            found = run("weighted", run("softmax", run("scores", q, k)), v)
            x = run("add", x, linear(run.view(found, size, length, width)))
            x = run("add", x, linear(run("gelu", linear(norm(x)))))
        return run("cross_entropy", run.view(linear(norm(x)), -1, 64), wanted)

    def batch(size: int) -> Sequence[Array]:
        places = np.tile(np.arange(length), (size, 1))
        return _labels(64, size, length), places, _labels(64, size * length)

    return Model(
        "adam", 2, loss, batch, _weights((64, width), (length, width), *block * depth, *last)
    )


def language_model(width: int = 128, symbols: int = 1000, length: int = 35) -> Model:
    """Return a language model of two LSTMs."""
    layer = ((4, width, width),) * 2

    def loss(run: Tape, w: Iterator[Array], batch: Sequence[Array]) -> Array:
        x = run("embedding", next(w), batch[0])
        for _ in range(2):
            x = run("lstm", x, next(w), next(w))
        logits = run("linear", x, next(w), next(w))
        return run("cross_entropy", run.view(logits, -1, symbols), batch[1])

    def batch(size: int) -> Sequence[Array]:
        # The state before the first symbol has a guess too, hence two more of them.
        return _labels(symbols, size, length), _labels(symbols, size * (length + 2))

    head = (symbols, width), (symbols,)
    return Model("momentum", 1, loss, batch, _weights((symbols, width), *layer * 2, *head))
