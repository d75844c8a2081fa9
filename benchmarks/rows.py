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

import argparse
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from common import Array, kernel, rand
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

from tcdsl.codegen.toolchain.host import usable_cores
from tcdsl.tools.timing import interleaved

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


@dataclass(frozen=True)
class Problem:
    """A definition, its inputs, the shape of its output, and what torch does instead."""

    name: str
    text: str
    inputs: tuple[Array, ...]
    shape: tuple[int, ...]
    peer: Peer


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
        yield Problem(name, text, (rand(n), rand(n, 1)[:, 0].copy())[:count], (n,), peer)
    a = rand(2048, 2048)
    yield Problem("transpose 2048", TRANSPOSE, (a,), a.shape, lambda t: t.t().contiguous())
    yield Problem(
        "NCHW->NHWC 8x64x56x56",
        CHANNELS_LAST,
        (rand(8, 64, 56, 56),),
        (8, 56, 56, 64),
        lambda t: t.permute(0, 2, 3, 1).contiguous(),
    )
    for shape in ((4096, 1000), (1024, 1024), (128, 100), (500, 26)):
        peer = into(torch.softmax, *shape, dim=1)
        yield Problem(f"softmax {shape[0]}x{shape[1]}", SOFTMAX, (rand(*shape),), shape, peer)
    planes = (8, 64, 3136)
    peer = into(torch.softmax, *planes, dim=1)
    yield Problem("softmax channels", SOFTMAX_CHANNELS, (rand(*planes),), planes, peer)
    yield Problem(
        "layernorm 4096x1024",
        LAYERNORM,
        (rand(4096, 1024), rand(1024), rand(1024)),
        (4096, 1024),
        lambda x, g, h: F.layer_norm(x, (1024,), g, h),
    )
    yield Problem(
        "batchnorm 32x64x784",
        BATCHNORM,
        (rand(32, 64, 784), rand(64), rand(64)),
        (32, 64, 784),
        lambda x, g, h: F.batch_norm(x, None, None, g, h, True),
    )
    yield Problem(
        "cosine 4096x512",
        COSINE,
        (rand(4096, 512), rand(4096, 512)),
        (4096,),
        lambda x, y: F.cosine_similarity(x, y, dim=1),
    )
    a = rand(4096, 1024)
    yield Problem("rowsum 4096x1024", ROWSUM, (a,), (4096,), into(torch.sum, 4096, dim=1))
    yield Problem("rowmax 4096x1024", ROWMAX, (a,), (4096,), into(torch.amax, 4096, dim=1))
    yield Problem("colsum 4096x1024", COLSUM, (a,), (1024,), into(torch.sum, 1024, dim=0))
    yield Problem("sum 4096x1024", TOTAL, (a,), (), torch.sum)


def measure(p: Problem, seconds: float) -> dict[str, float]:
    """Return microseconds by executable."""
    out = np.zeros(p.shape, np.float32)
    tensors = [torch.from_numpy(x) for x in p.inputs]
    exact, generic = kernel(p.text), kernel(p.text)
    exact(*p.inputs, out=out)
    want = p.peer(*tensors).numpy()
    scale = float(np.abs(want).max())
    assert np.allclose(out, want, rtol=1e-4, atol=1e-4 * scale), f"{p.name} is wrong"
    # the first sizes get an executable of their own, the next ones a generic one
    generic(*(x[tuple(slice(0, 3) for _ in x.shape)].copy() for x in p.inputs))
    generic(*p.inputs, out=out)
    assert np.allclose(out, want, rtol=1e-4, atol=1e-4 * scale), f"{p.name} is wrong, generic"
    calls: dict[str, Callable[[], object]] = {
        "torch": lambda: p.peer(*tensors),
        "rest": lambda: time.sleep(1e-3),  # until threads of torch no longer spin
        "wake": lambda: exact(*p.inputs, out=out),  # our own threads
        "exact": lambda: exact(*p.inputs, out=out),
        "generic": lambda: generic(*p.inputs, out=out),
    }
    return {name: t.time_ns / 1e3 for name, t in interleaved(calls, seconds).items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=2.0, help="per problem")
    parser.add_argument("--only", default="", help="problems whose name contains this")
    args = parser.parse_args()
    threads = usable_cores()
    torch.set_num_threads(threads)
    print(f"{threads} threads, torch {torch.__version__}, times in us")
    print(f"{'problem':24}{'torch':>9}{'exact':>9}{'generic':>9}{'x torch':>9}{'GB/s':>7}")
    for p in problems():
        if args.only in p.name:
            got = measure(p, args.seconds)
            moved = sum(x.nbytes for x in p.inputs) + 4 * int(np.prod(p.shape))
            e, g, t = got["exact"], got["generic"], got["torch"]
            ratio, speed = t / e, moved / e / 1e3
            print(f"{p.name:24}{t:9.1f}{e:9.1f}{g:9.1f}{ratio:9.2f}{speed:7.0f}", flush=True)


if __name__ == "__main__":
    main()
