"""Programs with ragged ranges, and what they mean in plain loops: no code in common with ours."""

# ruff: noqa: N803, E741  (arguments are called as in the texts)

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]
Point = tuple[tuple[int, ...], Any]  # an element of the result, and what is combined with it
Points = Callable[..., Iterator[Point]]


@dataclass(frozen=True, slots=True)
class Ragged:
    """A definition, its arguments by sizes, and the points of its last statement in order.

    op: by which they are combined, from first. shape: of the result.
    """

    text: str
    args: Callable[[np.random.Generator, int, int], tuple[Any, ...]]
    shape: Callable[..., tuple[int, ...]]
    points: Points
    op: str = "+"
    first: float = 0.0
    dtype: str = "float32"

    def wanted(self, args: tuple[Any, ...]) -> Array:
        """Return what plain loops make of it."""
        out = np.full(self.shape(*args), self.first, self.dtype)
        best: dict[tuple[int, ...], Any] = {}
        for at, value in self.points(*args):
            if self.op == "+":
                out[at] = out[at] + value
            elif self.op == "*":
                out[at] = out[at] * value
            elif self.op in ("max", "min"):
                out[at] = (max if self.op == "max" else min)(out[at], value)
            else:  # the first of the largest, and the first NaN before all
                place, number = value
                held = best.get(at)
                if held is None or (held == held and (number != number or number > held)):
                    best[at], out[at] = number, place
        return out


def whole(rng: np.random.Generator, *shape: int) -> Array:
    """Return small whole numbers, whose sums have no rounding."""
    return rng.integers(-4, 5, shape).astype(np.float32)


def _two(rng: np.random.Generator, b: int, n: int) -> tuple[Any, ...]:
    return (whole(rng, b, n),)


def _offsets(rng: np.random.Generator, b: int, n: int) -> Array:
    """Return b + 1 offsets in [0, n], some descending."""
    return rng.integers(0, n + 1, b + 1).astype(np.int32)


def _triangle(X: Array) -> Iterator[Point]:
    for b, i in itertools.product(*map(range, X.shape)):
        for j in range(i + 1):
            yield (b, i), X[b, j]


def _after(X: Array) -> Iterator[Point]:
    for b, i in itertools.product(*map(range, X.shape)):
        for j in range(i + 1, X.shape[1]):
            yield (b, i), X[b, j]


def _window(X: Array) -> Iterator[Point]:
    for b, i in itertools.product(*map(range, X.shape)):
        for j in range(max(0, i - 2), min(X.shape[1], i + 2)):
            yield (b, i), X[b, j]


def _reversed_range(X: Array) -> Iterator[Point]:
    for b, i in itertools.product(*map(range, X.shape)):
        for j in range(i + 2, i - 1):
            yield (b, i), X[b, j]
        for j in range(X.shape[1] - i, min(3, X.shape[1])):
            yield (b, i), X[b, j]


def _two_deep(X: Array) -> Iterator[Point]:
    for b, i in itertools.product(*map(range, X.shape)):
        for j in range(i + 1):
            for k in range(j, i + 1):
                yield (i,), X[b, j] * X[b, k]


def _segments(E: Array, I: Array, off: Array) -> Iterator[Point]:
    for b, d in itertools.product(range(len(off) - 1), range(E.shape[1])):
        for l in range(off[b], off[b + 1]):
            yield (b, d), E[I[l], d]


def _segment_args(rng: np.random.Generator, b: int, n: int) -> tuple[Any, ...]:
    rows = rng.integers(0, 5, n).astype(np.int32)
    return whole(rng, 5, 3), rows, _offsets(rng, b, n)


def _lengths(X: Array, n: Array) -> Iterator[Point]:
    for b in range(X.shape[0]):
        for j in range(n[b]):
            yield (b,), X[b, j]


def _length_args(rng: np.random.Generator, b: int, n: int) -> tuple[Any, ...]:
    return whole(rng, b, n), rng.integers(-2, n + 1, b).astype(np.int64)


def _places(X: Array, n: Array) -> Iterator[Point]:
    for b in range(X.shape[0]):
        for j in range(n[b] - 2, n[b]):
            if j >= 0:
                yield (b,), (j, X[b, j])


def _triangle_places(X: Array) -> Iterator[Point]:
    for b, i in itertools.product(*map(range, X.shape)):
        for j in range(i, X.shape[1]):
            yield (b, i), (j, X[b, j])


def _pairs_places(X: Array) -> Iterator[Point]:
    n = X.shape[1]
    for b in range(X.shape[0]):
        for j in range(n):
            for k in range(j + 1):
                yield (b,), (j * n + k, X[b, j] * X[b, k])


def _pool(X: Array, out: Array) -> Iterator[Point]:
    b, n, m = len(X), X.shape[1], len(out)
    for r, y in itertools.product(range(b), range(m)):
        for h in range(y * n // m, ((y + 1) * n + m - 1) // m):
            yield (r, y), X[r, h]


def _scattered(S: Array, I: Array, off: Array, V: Array) -> Iterator[Point]:
    for b in range(len(S)):
        for l in range(off[b], off[b + 1]):
            for d in range(S.shape[1]):
                yield (I[l], d), S[b, d]


def _scattered_args(rng: np.random.Generator, b: int, n: int) -> tuple[Any, ...]:
    rows = rng.integers(0, 4, n).astype(np.int64)
    return whole(rng, b, 3), rows, _offsets(rng, b, n), np.zeros(4, np.float32)


def _spread(X: Array) -> Iterator[Point]:
    n = X.shape[1]
    for i in range(n):
        for j in range(i + 1):
            for b in range(X.shape[0]):
                yield (j,), X[b, i]


def _causal(P: Array, V: Array) -> Iterator[Point]:
    for i in range(len(P)):
        for j in range(i + 1):
            for e in range(V.shape[1]):
                yield (i, e), P[i, j] * V[j, e]


def _guarded(X: Array) -> Iterator[Point]:
    for b, i in itertools.product(*map(range, X.shape)):
        for j in range(i + 1):
            yield (b, i), X[b, j] if X[b, j] > 0 and j != 1 else 0.0


def _like(X: Array, *_: Array) -> tuple[int, ...]:
    return tuple(X.shape)


def _rows(X: Array, *_: Array) -> tuple[int, ...]:
    return (len(X),)


CASES: Mapping[str, Ragged] = {
    "cumulative sum": Ragged(
        "def f(float(B,N) X) -> (float(B,N) Y) { Y(b, i) +=! X(b, j) where j in 0:i + 1 }",
        _two, _like, _triangle,
    ),
    "exclusive, from behind": Ragged(
        "def f(float(B,N) X) -> (float(B,N) Y) { Y(b, i) +=! X(b, j) where j in i + 1:N }",
        _two, _like, _after,
    ),
    "cumulative product": Ragged(
        "def f(float(B,N) X) -> (float(B,N) Y) { Y(b, i) *=! X(b, j) where j in 0:i + 1 }",
        _two, _like, _triangle, "*", 1.0,
    ),
    "cumulative maximum": Ragged(
        "def f(float(B,N) X) -> (Y) { Y(b, i) max=! X(b, j) where i in 0:N, j in 0:i + 1 }",
        _two, _like, _triangle, "max", -np.inf,
    ),
    "maxima of windows, some empty": Ragged(
        "def f(float(B,N) X) -> (float(B,N) Y) { Y(b, i) min=! X(b, j) where j in i + 1:N }",
        _two, _like, _after, "min", np.inf,
    ),
    "windows clipped by min and max": Ragged(
        "def f(float(B,N) X) -> (float(B,N) Y) "
        "{ Y(b, i) +=! X(b, j) where j in max(0, i - 2):min(N, i + 2) }",
        _two, _like, _window,
    ),
    "ends before it begins": Ragged(
        "def f(float(B,N) X) -> (float(B,N) Y) { Y(b, i) +=! X(b, j) where j in i + 2:i - 1 "
        "Y(b, i) += X(b, j) where j in N - i:min(3, N) }",
        _two, _like, _reversed_range,
    ),
    "one in the other": Ragged(
        "def f(float(B,N) X) -> (float(N) Y) "
        "{ Y(i) +=! X(b, k) * X(b, j) where j in 0:i + 1, k in j:i + 1 }",
        _two, lambda X: X.shape[1:], _two_deep,
    ),
    "segments of rows": Ragged(
        "def f(float(V,D) E, int32(L) I, int32(C) off) -> (S) "
        "{ S(b, d) +=! E(I(l), d) where l in off(b):off(b + 1) }",
        _segment_args, lambda E, I, off: (len(off) - 1, E.shape[1]), _segments,
    ),
    "lengths, negative ones too": Ragged(
        "def f(float(B,N) X, int64(B) n) -> (S) { S(b) +=! X(b, j) where j in 0:n(b) }",
        _length_args, _rows, _lengths,
    ),
    "an end that is computed before": Ragged(
        "def f(float(B,N) X, int64(B) n) -> (S) { m(b) = min(n(b), 2)  most max=! n(b)  "
        "S(b) +=! X(b, j) where j in 0:m(b)  S(b) += X(b, j) where j in 2:most }",
        _length_args, _rows,
        lambda X, n: (((b,), X[b, j]) for b in range(len(X))
                      for j in (*range(min(n[b], 2)), *range(2, max(n)))),
    ),
    "data that begins another range": Ragged(
        "def f(float(B,N) X, int64(B) n) -> (S) "
        "{ S(b) +=! X(b, j) * X(b, k) where j in 1:n(b), k in j:min(N, b + 2) }",
        _length_args, _rows,
        lambda X, n: (((b,), X[b, j] * X[b, k]) for b in range(len(X))
                      for j in range(1, n[b]) for k in range(j, min(X.shape[1], b + 2))),
    ),
    "place of a maximum, lengths from data": Ragged(
        "def f(float(B,N) X, int64(B) n) -> (A) "
        "{ A(b) argmax=! X(b, j) where j in max(0, n(b) - 2):n(b) }",
        _length_args, _rows, _places, "arg", 0, "int64",
    ),
    "places of maxima": Ragged(
        "def f(float(B,N) X) -> (int64(B,N) A) { A(b, i) argmax=! X(b, j) where j in i:N }",
        _two, _like, _triangle_places, "arg", 0, "int64",
    ),
    "place of a pair": Ragged(
        "def f(float(B,N) X) -> (A) "
        "{ A(b) argmax=! X(b, j) * X(b, k) where j in 0:N, k in 0:j + 1 }",
        _two, _rows, _pairs_places, "arg", 0, "int64",
    ),
    "adaptive pool": Ragged(
        "def f(float(B,N) X, float(M) like) -> (float(B,M) O) "
        "{ O(b, y) +=! X(b, h) where h in y * N / M:((y + 1) * N + M - 1) / M }",
        lambda rng, b, n: (whole(rng, b, n), np.zeros(max(1, n // 2), np.float32)),
        lambda X, like: (len(X), len(like)), _pool,
    ),
    "scatter of segments": Ragged(
        "def f(float(B,D) S, int64(L) I, int32(C) off, float(V) like) -> (float(V,D) E) "
        "{ E(v, d) = 0 where v in 0:V  "
        "E(I(l), d) += S(b, d) where b in 0:B, l in off(b):off(b + 1) }",
        _scattered_args, lambda S, I, off, V: (len(V), S.shape[1]), _scattered,
    ),
    "scatter of a triangle": Ragged(
        "def f(float(B,N) X) -> (float(N) Y) "
        "{ Y(j) += X(b, i) where i in 0:N, j in 0:i + 1 }",
        _two, lambda X: X.shape[1:], _spread,
    ),
    "causal product": Ragged(
        "def f(float(N,N) P, float(N,E) V) -> (O) "
        "{ O(i, e) +=! P(i, j) * V(j, e) where i in 0:N, j in 0:i + 1 }",
        lambda rng, b, n: (whole(rng, n, n), whole(rng, n, b)),
        lambda P, V: (len(P), V.shape[1]), _causal,
    ),
    "guarded": Ragged(
        "def f(float(B,N) X) -> (float(B,N) Y) "
        "{ Y(b, i) +=! X(b, j) > 0 && j != 1 ? X(b, j) : 0 where j in 0:i + 1 }",
        _two, _like, _guarded,
    ),
    "with neighbours that are fused": Ragged(
        "def f(float(B,N) X) -> (float(B,N) Y) { T(b, i) = X(b, i) * 2  "
        "C(b, i) +=! T(b, j) where i in 0:N, j in 0:i + 1  Y(b, i) = C(b, i) / 2 }",
        _two, _like, _triangle,
    ),
    "in a loop": Ragged(
        "def f(float(B,N) X) -> (float(B,N) Y) "
        "{ for t in 0:N { Y(b, t) +=! X(b, j) where j in 0:t + 1 } }",
        _two, _like, _triangle,
    ),
    "in a loop, over its turn and an index": Ragged(
        "def f(float(B,N) X) -> (float(N) Y) { Y(i) = 0 where i in 0:N  "
        "for t in 0:N { Y(i) += X(b, t) where j in t:i + 1 } }",
        _two, lambda X: X.shape[1:],
        lambda X: (((i,), X[b, t]) for t in range(X.shape[1]) for i in range(X.shape[1])
                   for b in range(X.shape[0]) for _ in range(t, i + 1)),
    ),
}  # fmt: skip

SIZES = ((2, 5), (1, 1), (3, 1), (3, 7), (0, 4), (2, 0), (5, 23))
