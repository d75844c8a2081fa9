"""Contractions against torch and the FMA peak, exact and size-generic, none of them tuned.

`python benchmarks/contraction.py [--seconds 2] [--only TEXT]` prints, for each problem, GFLOP/s of
the executable for its exact sizes and of the size-generic one, their ratio, the share of the peak
measured in the same run, and how many times faster than torch the exact one is. All calls write
into given outputs, in one process, in turns; times are 20 % quantiles.
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

import tcdsl as tc
from tcdsl.codegen.machine import usable_cores
from tcdsl.codegen.peak import measure_peak
from tcdsl.kernel import Kernel
from tcdsl.timing import interleaved

Array = np.ndarray[Any, np.dtype[np.float32]]

MATMUL = "def matmul(float(M,K) A, float(K,N) B) -> (C) { C(m,n) +=! A(m,k) * B(k,n) }"
LINEAR = "def linear(float(M,K) A, float(N,K) B) -> (C) { C(m,n) +=! A(m,k) * B(n,k) }"
BATCHED = "def bmm(float(P,M,K) A, float(P,K,N) B) -> (C) { C(p,m,n) +=! A(p,m,k) * B(p,k,n) }"
FCRELU = """
def fcrelu(float(M,K) A, float(N,K) B, float(N) bias) -> (C) {
  C(m,n) +=! A(m,k) * B(n,k)
  C(m,n) = fmax(C(m,n) + bias(n), 0)
}"""


@dataclass(frozen=True)
class Problem:
    """A definition, its inputs, what torch does instead, and the multiply-adds."""

    name: str
    text: str
    inputs: tuple[Array, ...]
    shape: tuple[int, ...]
    peer: Callable[..., torch.Tensor]
    fma: int


def rand(*shape: int) -> Array:
    return np.random.default_rng(shape).standard_normal(shape, dtype=np.float32)


def problems() -> Iterator[Problem]:
    """Yield the problems, the large ones first."""
    for m, k, n in ((1024, 1024, 1024), (263, 109, 1825), (128, 32, 256), (64, 64, 64)):
        inputs = rand(m, k), rand(k, n)
        yield Problem(f"{m}x{k}x{n}", MATMUL, inputs, (m, n), torch.mm, m * k * n)
    inputs = rand(500, 26, 72), rand(500, 72, 26)
    yield Problem("500x(26x72x26)", BATCHED, inputs, (500, 26, 26), torch.bmm, 500 * 26 * 72 * 26)
    for m, k, n in ((128, 1024, 1024), (100, 128, 100)):
        inputs3 = rand(m, k), rand(n, k), rand(n)
        yield Problem(
            f"fcrelu {m}x{k}x{n}",
            FCRELU,
            inputs3,
            (m, n),
            lambda a, w, c: torch.relu(torch.nn.functional.linear(a, w, c)),
            m * k * n,
        )
    for m in (1, 4, 16):
        inputs = rand(m, 1024), rand(1024, 1024)
        yield Problem(
            f"linear {m}x1024x1024",
            LINEAR,
            inputs,
            (m, 1024),
            torch.nn.functional.linear,
            m << 20,
        )


def kernel(text: str) -> Kernel:
    """Return the only definition of a text, never tuned."""
    k = tc.define(text, tune="off")
    assert isinstance(k, Kernel)
    return k


def measure(p: Problem, seconds: float) -> dict[str, float]:
    """Return GFLOP/s by executable."""
    out = np.zeros(p.shape, np.float32)
    tensors = [torch.from_numpy(x) for x in p.inputs]
    exact, generic = kernel(p.text), kernel(p.text)
    exact(*p.inputs, out=out)
    want = p.peer(*(t.double() for t in tensors)).numpy()
    assert np.allclose(out, want, atol=1e-3), f"{p.name} is wrong"
    # the first sizes get an executable of their own, the next ones a generic one
    few = [x[tuple(slice(0, 3) for _ in x.shape)].copy() for x in p.inputs]
    generic(*few)
    generic(*p.inputs, out=out)
    assert np.allclose(out, want, atol=1e-3), f"{p.name} is wrong with generic sizes"
    calls: dict[str, Callable[[], object]] = {
        "torch": lambda: p.peer(*tensors),
        "rest": lambda: time.sleep(1e-3),  # until threads of torch no longer spin
        "wake": lambda: exact(*p.inputs, out=out),  # our own threads
        "exact": lambda: exact(*p.inputs, out=out),
        "generic": lambda: generic(*p.inputs, out=out),
    }
    return {name: 2 * p.fma / t.time_ns for name, t in interleaved(calls, seconds).items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=2.0, help="per problem")
    parser.add_argument("--only", default="", help="problems whose name contains this")
    args = parser.parse_args()
    threads = usable_cores()
    torch.set_num_threads(threads)
    peak = measure_peak(threads)
    print(f"FMA peak {peak:.0f} GFLOP/s with {threads} threads, torch {torch.__version__}")
    head = (
        f"{'problem':24}{'exact':>8}{'generic':>9}{'torch':>7}{'g/e':>7}{'peak':>7}{'x torch':>9}"
    )
    print(head)
    for p in problems():
        if args.only in p.name:
            got = measure(p, args.seconds)
            e, g, t = got["exact"], got["generic"], got["torch"]
            ratios = f"{g / e:7.2f}{e / peak:7.0%}{e / t:9.2f}"
            print(f"{p.name:24}{e:8.0f}{g:9.0f}{t:7.0f}{ratios}", flush=True)


if __name__ == "__main__":
    main()
