"""Contractions of halves on tensor cores: values, shared memory, registers."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tcdsl.codegen.choose import compiler
from tcdsl.codegen.forms.contraction.cuda.mma_schedule import GOOD
from tcdsl.codegen.machine.config import Config, Value
from tcdsl.codegen.machine.gpu import gpu_of
from tcdsl.codegen.program.dtypes import numpy_dtype
from tcdsl.codegen.toolchain.nvrtc import compile_cuda
from tcdsl.grammar.text.errors import ScheduleError
from tcdsl.grammar.types.dtypes import BY_NAME
from tests.codegen.forms.contraction.test_contraction import EPILOGUES, NN, NT, TN, TT, VIEWS
from tests.codegen.harness import Problem, problem, rand, spec_of
from tests.cusim.harness import differential, lowered, simulate
from tests.tiers import sampled

GPU = gpu_of("sm_90")
SMALL: dict[str, Value] = {"tile": "32x32", "warp": "16x16", "depth": 32, "stages": 3, "splits": 1}


def config(**values: Value) -> Config:
    return Config.of({f"g0.{k}": v for k, v in {**SMALL, **values}.items()})


def halves(text: str, *shapes: tuple[int, ...], half: str = "float16") -> Problem:
    """Return a problem whose tensors are halves."""
    dtype = numpy_dtype(BY_NAME[half])
    arrays = (rand(*s, seed=i).astype(dtype) for i, s in enumerate(shapes))
    return problem(text.replace("float(", f"{half}("), *arrays)


def matmul(text: str, m: int, n: int, k: int, half: str = "float16") -> Problem:
    a = (k, m) if "A(k,m)" in text else (m, k)
    b = (n, k) if "B(n,k)" in text else (k, n)
    return halves(text, a, b, half=half)


def titles_of(p: Problem, arch: str = "sm_90") -> str:
    spec = spec_of(p, exact=True, threads=0)
    return compiler.describe(p.program, spec, Config(), gpu_of(arch), p.sizes)[0][1]


def check(p: Problem, *configs: Config, exact: tuple[bool, ...] = (True,)) -> None:
    assert "mma" in titles_of(p), titles_of(p)
    differential(p, *(configs or (config(),)), exact=exact, terms=20)


@pytest.mark.cusim
@sampled("text", [NN, NT, TN, TT], ids=["nn", "nt", "tn", "tt"], keep=1)
def test_any_sizes(text: str) -> None:
    """Rows of whole chunks are copied at once, the others element by element: one kernel."""
    for m, n, k in [(1, 1, 1), (40, 72, 56), (37, 41, 13), (3, 4, 0), (0, 3, 4)]:
        check(matmul(text, m, n, k), exact=(False,))
    check(matmul(text, 40, 72, 56, "bfloat16"))


@pytest.mark.deep
@pytest.mark.cusim
def test_views() -> None:
    for i, view in enumerate(VIEWS.values()):
        a, b = (rand(*s, dtype="float16", seed=i) for s in ((24, 40), (40, 48)))
        text = NN.replace("float(", "float16(")
        p = problem(text, a, view(b)) if i % 2 else problem(text, view(a), b)
        check(p, exact=(i < 4,))


@pytest.mark.cusim
@sampled("exact", [True, False], keep=1)
def test_arrays_that_begin_anywhere(*, exact: bool) -> None:
    text = NT.replace("float(", "float16(")
    a, b = (rand(33 * 40 + 1, dtype="float16")[1:].reshape(33, 40) for _ in range(2))
    check(problem(text, a, b), exact=(exact,))


MANY = {
    "batch": (
        "def run(float(B,M,K) X, float(B,K,N) Y) -> (Z) { Z(b,m,n) +=! X(b,m,k) * Y(b,k,n) }",
        ((3, 26, 24), (3, 24, 40)),
    ),
    "channels last": (
        "def run(float(N,H,W,C) I, float(F,KH,KW,C) P) -> (O) "
        "{ O(n,h,w,f) +=! I(n,h+kh,w+kw,c) * P(f,kh,kw,c) }",
        ((2, 6, 9, 16), (24, 3, 3, 16)),
    ),
    "channels first": (
        "def run(float(N,C,H,W) I, float(F,C,KH,KW) P) -> (O) "
        "{ O(n,f,h,w) +=! I(n,c,2*h+kh,2*w+kw) * P(f,c,kh,kw) }",
        ((2, 3, 13, 17), (18, 3, 3, 3)),
    ),
    "four indices each": (
        "def run(float(A,E,B,F) X, float(D,F,C,E) Y) -> (Z) "
        "{ Z(a,b,c,d) +=! X(a,e,b,f) * Y(d,f,c,e) }",
        ((3, 7, 5, 8), (6, 8, 4, 7)),
    ),
    "epilogue": (EPILOGUES["bias and relu"], ((21, 40), (50, 40), (50,))),
}


@pytest.mark.cusim
@sampled("name", MANY, keep=2)
def test_indices_of_any_role(name: str) -> None:
    text, shapes = MANY[name]
    check(halves(text, *shapes))


@pytest.mark.cusim
@pytest.mark.deep
@pytest.mark.parametrize("name", MANY)
def test_indices_of_any_role_and_size(name: str) -> None:
    text, shapes = MANY[name]
    check(halves(text, *shapes), config(), config(depth=16, stages=2), exact=(True, False))


@pytest.mark.deep
@pytest.mark.cusim
def test_tiles_and_parts() -> None:
    p = matmul(NN, 100, 90, 80)
    check(p, config(splits=3), config(tile="64x64", warp="32x32", depth=64, stages=2))
    check(p, config(tile="64x128", warp="64x32", depth=16, stages=5))


@pytest.mark.cusim
@sampled("text", [NT, NN], ids=["nt", "nn"], keep=1)
def test_no_bank_conflicts_and_full_sectors(text: str) -> None:
    p = matmul(text, 128, 128, 64)
    for depth in (32, 64):
        unit = lowered(p, config(tile="128x128", warp="64x32", depth=depth))
        _, report = simulate(unit, compiler.emit_cuda(unit), p, counters=True)
        report.assert_clean(f"{depth}")
        counts = [c for c in report.counts if c.is_shared or not c.is_write]
        assert len(counts) > 4
        for c in counts:
            assert c.excess == 1, c


def test_only_what_tensor_cores_compute() -> None:
    assert "mma" in titles_of(matmul(NT, 9, 9, 9), "sm_80")
    squares = "def f(float(M,K) A, float(N,K) B) -> (C) { C(m,n) max=! A(m,k) * B(n,k) }"
    assert "mma" not in titles_of(halves(squares, (19, 20), (33, 20)))
    mixed = NT.replace("float(N", "bfloat16(N").replace("float(M", "float16(M")
    bf16 = rand(33, 20).astype(numpy_dtype(BY_NAME["bfloat16"]))
    assert "mma" not in titles_of(problem(mixed, rand(19, 20, dtype="float16"), bf16))
    with pytest.raises(ScheduleError, match="threads"):
        lowered(matmul(NT, 9, 9, 9), config(warp="32x32"))


@pytest.mark.nvrtc
@pytest.mark.deep
@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
@pytest.mark.parametrize("text", [NN, NT], ids=["nn", "nt"])
def test_defaults_do_not_spill(text: str, arch: str) -> None:
    for t in GOOD:
        values = config(tile=f"{t.bm}x{t.bn}", warp=f"{t.um}x{t.un}", depth=t.bk, stages=t.stages)
        for exact in (True, False):
            p = matmul(text, 304, 320, 304)
            unit = lowered(p, values, exact=exact, gpu=gpu_of(arch), is_small=True)
            cubin = compile_cuda(compiler.emit_cuda(unit), arch, name="k")
            assert [k for k in cubin.report.kernels if k.spills] == []


@pytest.mark.nvrtc
def test_the_largest_default_does_not_spill() -> None:
    p = matmul(NN, 4096, 4096, 64)
    assert "128x256" in titles_of(matmul_of_any_values(4096))
    unit = lowered(p, config(tile="128x256", warp="64x64"))
    cubin = compile_cuda(compiler.emit_cuda(unit), "sm_90", name="k")
    assert [k for k in cubin.report.kernels if k.spills] == []


def matmul_of_any_values(size: int) -> Problem:
    one = np.broadcast_to(np.float16(1), (size, size))
    return problem(NN.replace("float(", "float16("), one, one)


def test_kernel_reads_well(golden: Callable[[str, str], None]) -> None:
    unit = lowered(matmul(NT, 100, 200, 64), config(tile="64x64", warp="32x32"))
    golden(compiler.emit_cuda(unit), "emit/contraction_mma.cu")
