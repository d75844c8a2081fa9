"""Contractions on a GPU: what is taken, the text of a kernel."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tcdsl.codegen import compiler
from tcdsl.codegen.config import Config
from tcdsl.codegen.gpu import gpu_of
from tests.codegen.harness import Problem, problem, spec_of

NN = "def mm(float(M,K) A, float(K,N) B) -> (C) { C(m,n) +=! A(m,k) * B(k,n) }"

GPU = gpu_of("sm_90")


def matmul(text: str, m: int, n: int, k: int) -> Problem:
    rng = np.random.default_rng(m + n + k)
    a = (m, k) if "A(m,k)" in text else (k, m)
    b = (k, n) if "B(k,n)" in text else (n, k)
    return problem(text, *(rng.standard_normal(s).astype(np.float32) for s in (a, b)))


def text_of(p: Problem, *, exact: bool = True, **config: int | str) -> str:
    chosen = Config.of({f"g0.{name}": value for name, value in config.items()})
    spec = spec_of(p, exact=exact, threads=0)
    return compiler.emit_cuda(compiler.lower(p.program, spec, chosen, GPU, p.sizes, "k"))


def test_kernel_reads_well(golden: Callable[[str, str], None]) -> None:
    tiles: dict[str, int | str] = {"tile": "64x64", "thread": "8x4", "depth": 8, "splits": 1}
    golden(text_of(matmul(NN, 100, 200, 30), **tiles), "emit/contraction.cu")
