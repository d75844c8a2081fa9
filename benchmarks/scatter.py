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

import functools
from collections.abc import Callable, Iterator

import numpy as np
import torch
from beside_torch import Problem, in_turns, use_threads
from operands import Array, check, generic, kernel, rand
from reports import Table, asking, facts, keep

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
    for n, d in ((50_000, 64), (50_000, 256), (1000, 64), (1000, 256)):
        for count in (4096, 65536):
            for kind in ("uniform", "zipf", "equal"):
                yield Problem(
                    f"embedding {n}x{d} {count} {kind}",
                    EMBEDDING,
                    (chosen(kind, n, count), rand(count, d), rand(n, d)),
                    lambda i, g, like: torch.ops.aten.embedding_dense_backward(
                        g, i, like.shape[0], -1, False
                    ),
                )
    yield Problem(
        "bag 50000x64 4096x16",
        BAG,
        (chosen("zipf", 50_000, 4096, 16), rand(4096, 64), rand(50_000, 64)),
        bag_backward,
    )
    for n in (1000, 1 << 16, 1 << 20):
        yield Problem(
            f"scatter-add {n} 1M",
            ADD,
            (chosen("uniform", n, 1 << 20), rand(1 << 20), rand(n)),
            lambda i, g, like: torch.zeros_like(like).scatter_add_(0, i, g),
        )
    for n in (256, 1000, 1 << 16):
        yield Problem(
            f"histogram {n} 1M",
            HISTOGRAM,
            (chosen("uniform", n, 1 << 20), rand(n)),
            lambda i, like: torch.bincount(i, minlength=like.shape[0]),
        )
    image = rand(16, 64, 56, 56)
    pooled, places = F.max_pool2d(torch.from_numpy(image), 2, return_indices=True)
    yield Problem(
        "max pool 16x64x56x56",
        POOL,
        (places.numpy(), rand(*pooled.shape), image),
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


def measure(p: Problem, seconds: float) -> dict[str, float]:
    """Return microseconds by executable; new: of the exact one, its output made anew too."""
    tensors = p.tensors()
    want = p.peer(*tensors).numpy()
    out = np.zeros_like(want)
    kernels = {"exact": kernel(p.text), "generic": generic(p.text, p.inputs)}
    for form, k in kernels.items():
        check(f"{p.name}, {form}", k(*p.inputs), want, 1e-3)
    calls: dict[str, Callable[[], object]] = {
        form: functools.partial(k, *p.inputs, out=out) for form, k in kernels.items()
    }
    calls["new"] = functools.partial(kernels["exact"], *p.inputs)
    return in_turns({"torch": lambda: p.peer(*tensors)}, calls, seconds)


def main() -> None:
    options = asking(__doc__, 2.0, "per problem").parse_args()
    threads = use_threads(options.threads)
    print(f"{threads} threads, torch {torch.__version__}, times in us")
    times = ("torch", "exact", "generic", "new")
    heads = {**dict.fromkeys(times, "9.0f"), "x torch": "9.2f", "new x": "9.2f"}
    table = Table("problem", 32, heads)
    rows = []
    for p in problems():
        if options.only in p.name:
            us = measure(p, options.seconds)
            rows.append({"problem": p.name, "time_us": us})
            ratios = (us["torch"] / us[form] for form in ("exact", "new"))
            table.row(p.name, *(us[form] for form in times), *ratios)
    keep({**facts(), "torch": torch.__version__, "problems": rows}, options.json)


if __name__ == "__main__":
    main()
