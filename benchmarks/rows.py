"""Pointwise, reduction and row kernels against torch, exact and size-generic, none of them tuned.

`python benchmarks/rows.py [--seconds 2] [--only TEXT]` prints, for each problem, the microseconds
of torch, of the executable for its exact sizes and of the size-generic one, how many times faster
than torch they are, and the bandwidth of the exact one (inputs and outputs counted once). All
calls write into given outputs where the library can, in one process, in turns; times are 20 %
quantiles.
"""

from __future__ import annotations

import os

# Two pools of threads on the same cores only measure each other: let idle ones sleep.
os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "4")
os.environ.setdefault("GOMP_SPINCOUNT", "1000")

import functools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from beside_torch import Problem, in_turns, use_threads
from layers import (
    ADD,
    COLSUM,
    EXP,
    GELU,
    LAYERNORM,
    ROWSUM,
    SOFTMAX,
    TOTAL,
    TRANSPOSE,
)
from operands import check, generic, kernel, rand
from reports import Table, asking, facts, keep

Peer = Callable[..., Any]
F = torch.nn.functional

TANH = "def tangent(float(N) A) -> (O) { O(i) = tanh(A(i)) }"
GATE = "def gate(float(N) A, float(N) B) -> (O) { O(i) = A(i) * sigmoid(A(i)) * B(i) + A(i) }"
CHANNELS_LAST = "def last(float(N,C,H,W) A) -> (O) { O(n,h,w,c) = A(n,c,h,w) }"
SOFTMAX_CHANNELS = """
def softmax(float(B,C,P) X) -> (Y) {
  M(b,p) max=! X(b,c,p)
  E(b,c,p) = exp(X(b,c,p) - M(b,p))
  S(b,p) +=! E(b,c,p)
  Y(b,c,p) = E(b,c,p) / S(b,p)
}"""
BATCHNORM = """
def batchnorm(float(N,C,P) X, float(C) g, float(C) h) -> (Y) {
  s(c) +=! X(n,c,p)
  q(c) +=! X(n,c,p) * X(n,c,p)
  m(c) = s(c) / (N * P)
  Y(n,c,p) = (X(n,c,p) - m(c)) * rsqrt(q(c) / (N * P) - m(c) * m(c) + 1e-5) * g(c) + h(c)
}"""
COSINE = """
def cosine(float(B,N) A, float(B,N) C) -> (O) {
  x(b) +=! A(b,n) * C(b,n)
  p(b) +=! A(b,n) * A(b,n)
  q(b) +=! C(b,n) * C(b,n)
  O(b) = x(b) / sqrt(p(b) * q(b))
}"""
ROWMAX = "def rowmax(float(M,N) A) -> (O) { O(i) max=! A(i,j) }"


def into(function: Peer, *shape: int, **options: Any) -> Peer:
    """Return a torch function that writes into an output made once."""
    out = torch.empty(shape)
    return lambda *tensors: function(*tensors, out=out, **options)


def problems() -> Iterator[Problem]:
    """Yield the problems, pointwise ones first."""
    mega = 1 << 20
    for name, text, count, n, peer in (
        ("exp 1M", EXP, 1, mega, into(torch.exp, mega)),
        ("tanh 1M", TANH, 1, mega, into(torch.tanh, mega)),
        ("gelu 1M", GELU, 1, mega, lambda a: F.gelu(a, approximate="tanh")),
        ("x*sigmoid(x)*y+x 1M", GATE, 2, mega, lambda a, c: a * torch.sigmoid(a) * c + a),
        ("add 1K", ADD, 2, 1000, into(torch.add, 1000)),
        ("add 1M", ADD, 2, mega, into(torch.add, mega)),
        ("add 16M", ADD, 2, 16 * mega, into(torch.add, 16 * mega)),
    ):
        yield Problem(name, text, (rand(n), rand(n, 1)[:, 0].copy())[:count], peer)
    a = rand(2048, 2048)
    yield Problem("transpose 2048", TRANSPOSE, (a,), lambda t: t.t().contiguous())
    yield Problem(
        "NCHW->NHWC 8x64x56x56",
        CHANNELS_LAST,
        (rand(8, 64, 56, 56),),
        lambda t: t.permute(0, 2, 3, 1).contiguous(),
    )
    for shape in ((4096, 1000), (1024, 1024), (128, 100), (500, 26)):
        peer = into(torch.softmax, *shape, dim=1)
        yield Problem(f"softmax {shape[0]}x{shape[1]}", SOFTMAX, (rand(*shape),), peer)
    planes = (8, 64, 3136)
    peer = into(torch.softmax, *planes, dim=1)
    yield Problem("softmax channels", SOFTMAX_CHANNELS, (rand(*planes),), peer)
    yield Problem(
        "layernorm 4096x1024",
        LAYERNORM,
        (rand(4096, 1024), rand(1024), rand(1024)),
        lambda x, g, h: F.layer_norm(x, (1024,), g, h),
    )
    yield Problem(
        "batchnorm 32x64x784",
        BATCHNORM,
        (rand(32, 64, 784), rand(64), rand(64)),
        lambda x, g, h: F.batch_norm(x, None, None, g, h, True),
    )
    yield Problem(
        "cosine 4096x512",
        COSINE,
        (rand(4096, 512), rand(4096, 512)),
        lambda x, y: F.cosine_similarity(x, y, dim=1),
    )
    a = rand(4096, 1024)
    yield Problem("rowsum 4096x1024", ROWSUM, (a,), into(torch.sum, 4096, dim=1))
    yield Problem("rowmax 4096x1024", ROWMAX, (a,), into(torch.amax, 4096, dim=1))
    yield Problem("colsum 4096x1024", COLSUM, (a,), into(torch.sum, 1024, dim=0))
    yield Problem("sum 4096x1024", TOTAL, (a,), torch.sum)


def measure(p: Problem, seconds: float) -> dict[str, float]:
    """Return microseconds by executable, and the GB/s of the exact one."""
    tensors = p.tensors()
    want = p.peer(*tensors).numpy()
    out = np.zeros_like(want)
    kernels = {"exact": kernel(p.text), "generic": generic(p.text, p.inputs)}
    calls = {form: functools.partial(k, *p.inputs, out=out) for form, k in kernels.items()}
    for form, call in calls.items():
        call()
        check(f"{p.name}, {form}", out, want, 1e-4)
    us = in_turns({"torch": lambda: p.peer(*tensors)}, calls, seconds)
    moved = sum(x.nbytes for x in (*p.inputs, out))
    return {**us, "GB/s": moved / us["exact"] / 1e3}


def main() -> None:
    options = asking(__doc__, 2.0, "per problem").parse_args()
    threads = use_threads(options.threads)
    print(f"{threads} threads, torch {torch.__version__}, times in us")
    heads = {"torch": "9.1f", "exact": "9.1f", "generic": "9.1f", "x torch": "9.2f", "GB/s": "7.0f"}
    table = Table("problem", 24, heads)
    rows = []
    for p in problems():
        if options.only in p.name:
            got = measure(p, options.seconds)
            rows.append({"problem": p.name, "figures": got})
            e, g, t = got["exact"], got["generic"], got["torch"]
            table.row(p.name, t, e, g, t / e, got["GB/s"])
    keep({**facts(), "torch": torch.__version__, "problems": rows}, options.json)


if __name__ == "__main__":
    main()
