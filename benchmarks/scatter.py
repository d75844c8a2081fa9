"""Scatters against torch, exact and size-generic, none of them tuned.

`python benchmarks/scatter.py [--seconds 2] [--threads 2] [--only TEXT]` prints, for each problem,
the microseconds of torch, of the executable for its exact sizes and of the size-generic one, and
how many times faster than torch they are. All calls are made in one process, in turns; times are
20 % quantiles. Torch makes its outputs anew, since its functions have no `out=`.
"""

from __future__ import annotations

import os

# Two pools of threads on the same cores only measure each other: let idle ones sleep.
os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "4")
os.environ.setdefault("GOMP_SPINCOUNT", "1000")

import argparse
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from common import Array, rand

import tcdsl as tc
from tcdsl.codegen.toolchain.host import usable_cores
from tcdsl.kernel import Kernel
from tcdsl.tools.timing import interleaved

Peer = Callable[..., Any]
F = torch.nn.functional

EMBEDDING = """
def embedding(int64(B) I, float(B,D) g, float(N,D) like) -> (float(N,D) d) {
  d(I(b), e) +=! g(b, e)
}"""
BAG = """
def bag(int64(B,L) I, float(B,D) g, float(N,D) like) -> (float(N,D) d) {
  d(I(b,l), e) +=! g(b, e)
}"""
ADD = "def add(int64(B) I, float(B) g, float(N) like) -> (float(N) d) { d(I(b)) +=! g(b) }"
HISTOGRAM = "def histogram(int64(B) I, float(N) like) -> (int64(N) d) { d(I(b)) +=! int64(1) }"
POOL = """
def pool(int64(N,C,Y,X) P, float(N,C,Y,X) g, float(N,C,H,W) like) -> (float(N,C,H,W) d) {
  d(n, c, P(n,c,y,x) / W, P(n,c,y,x) % W) +=! g(n,c,y,x)
}"""


@dataclass(frozen=True)
class Problem:
    """A definition, its inputs and smaller ones, and what torch does instead of it."""

    name: str
    text: str
    inputs: tuple[Array, ...]
    small: tuple[Array, ...]
    peer: Peer


def chosen(kind: str, extent: int, *shape: int) -> Array:
    """Return subscripts: all equal, uniform, or few often and many seldom (Zipf)."""
    rng = np.random.default_rng(5)
    if kind == "equal":
        return np.full(shape, extent // 2)
    if kind == "zipf":
        return np.asarray((rng.zipf(1.2, shape) - 1) % extent)
    return rng.integers(0, extent, shape)


def problems() -> Iterator[Problem]:
    """Yield the problems, embeddings first."""
    three = np.zeros(3, np.int64)
    for n, d in ((50_000, 64), (50_000, 256), (1000, 64), (1000, 256)):
        for count in (4096, 65536):
            for kind in ("uniform", "zipf", "equal"):
                yield Problem(
                    f"embedding {n}x{d} {count} {kind}",
                    EMBEDDING,
                    (chosen(kind, n, count), rand(count, d), rand(n, d)),
                    (three, rand(3, 5), rand(3, 5)),
                    lambda i, g, like: torch.ops.aten.embedding_dense_backward(
                        g, i, like.shape[0], -1, False
                    ),
                )
    yield Problem(
        "bag 50000x64 4096x16",
        BAG,
        (chosen("zipf", 50_000, 4096, 16), rand(4096, 64), rand(50_000, 64)),
        (np.zeros((3, 2), np.int64), rand(3, 5), rand(3, 5)),
        bag_backward,
    )
    for n in (1000, 1 << 16, 1 << 20):
        yield Problem(
            f"scatter-add {n} 1M",
            ADD,
            (chosen("uniform", n, 1 << 20), rand(1 << 20), rand(n)),
            (three, rand(3), rand(3)),
            lambda i, g, like: torch.zeros_like(like).scatter_add_(0, i, g),
        )
    for n in (256, 1000, 1 << 16):
        yield Problem(
            f"histogram {n} 1M",
            HISTOGRAM,
            (chosen("uniform", n, 1 << 20), rand(n)),
            (three, rand(3)),
            lambda i, like: torch.bincount(i, minlength=like.shape[0]),
        )
    image = rand(16, 64, 56, 56)
    pooled, places = F.max_pool2d(torch.from_numpy(image), 2, return_indices=True)
    yield Problem(
        "max pool 16x64x56x56",
        POOL,
        (places.numpy(), rand(*pooled.shape), image),
        (np.zeros((1, 1, 2, 2), np.int64), rand(1, 1, 2, 2), rand(1, 1, 3, 3)),
        lambda p, g, like: torch.ops.aten.max_pool2d_with_indices_backward(
            g, like, [2, 2], [2, 2], [0, 0], [1, 1], False, p
        ),
    )


def bag_backward(i: torch.Tensor, g: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    """Return the gradient of `embedding_bag` by its table, without the forward pass."""
    counts = torch.full((i.shape[0],), i.shape[1])
    offsets = torch.arange(i.shape[0]) * i.shape[1]
    owner = torch.arange(i.shape[0]).repeat_interleave(i.shape[1])
    found: torch.Tensor = torch.ops.aten._embedding_bag_dense_backward(
        g, i.ravel(), owner, counts, torch.zeros_like(offsets), like.shape[0], False, 0, None
    )
    return found


def kernel(text: str, threads: int) -> Kernel:
    """Return the only definition of a text, never tuned."""
    k = tc.define(text, tune="off", threads=threads)
    assert isinstance(k, Kernel)
    return k


def measure(p: Problem, threads: int, seconds: float) -> dict[str, float]:
    """Return microseconds by executable."""
    tensors = [torch.from_numpy(x) for x in p.inputs]
    exact, generic = (kernel(p.text, threads) for _ in range(2))
    want = p.peer(*tensors).numpy()
    scale = float(np.abs(want).max())
    generic(*p.small)  # the first sizes get an executable of their own, the next ones a generic one
    for k in (exact, generic):
        assert np.allclose(k(*p.inputs), want, rtol=1e-3, atol=1e-4 * scale), f"{p.name} is wrong"
    out = np.zeros_like(want)
    calls: dict[str, Callable[[], object]] = {
        "torch": lambda: p.peer(*tensors),
        "rest": lambda: time.sleep(1e-3),  # until threads of torch no longer spin
        "wake": lambda: exact(*p.inputs, out=out),  # our own threads
        "exact": lambda: exact(*p.inputs, out=out),
        "generic": lambda: generic(*p.inputs, out=out),
        "new": lambda: exact(*p.inputs),
    }
    return {name: t.time_ns / 1e3 for name, t in interleaved(calls, seconds).items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=2.0, help="per problem")
    parser.add_argument("--threads", type=int, default=usable_cores())
    parser.add_argument("--only", default="", help="problems whose name contains this")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    print(f"{args.threads} threads, torch {torch.__version__}, times in us")
    heads = ("torch", "exact", "generic", "new", "x torch", "new x")
    print(f"{'problem':32}" + "".join(f"{h:>9}" for h in heads))
    for p in problems():
        if args.only in p.name:
            got = measure(p, args.threads, args.seconds)
            times = [got[h] for h in heads[:4]]
            ratios = [got["torch"] / got["exact"], got["torch"] / got["new"]]
            print(f"{p.name:32}" + "".join(f"{t:9.0f}" for t in times), end="")
            print("".join(f"{r:9.2f}" for r in ratios), flush=True)


if __name__ == "__main__":
    main()
