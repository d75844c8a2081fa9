"""smath.cuh: NVRTC takes every builtin, and programs that call them run in the simulator.

What they compute is tested with those of C, in test_smath.py.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pytest

from tcdsl.codegen.choose.compiler import emit_cuda
from tcdsl.codegen.toolchain.nvrtc import compile_cuda
from tcdsl.grammar.types.builtins import BUILTINS
from tests.codegen.harness import expected, problem
from tests.cusim.harness import lowered, simulate
from tests.tiers import sampled

OF_INTEGERS = ("abs", "sign", "relu", "clamp")
INTEGERS = ("i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64")


def kernel(name: str, t: str) -> str:
    count = BUILTINS[name].arity
    values = ", ".join(f"x[{count} * i + {n}]" for n in range(count))
    result = "b" if BUILTINS[name].result == "bool" else t
    return (
        f'extern "C" __global__ void {name}_{t}(const tc_{t} *x, tc_{result} *y) {{\n'
        f"  const tc_i64 i = tc_point();\n  y[i] = tc_{name}_{t}({values});\n}}\n"
    )


def text(names: Iterable[str], *types: str) -> str:
    made = ['#include "smath.cuh"\n', *(kernel(n, t) for t in types for n in names)]
    return "".join(made)


CASES = [("f32", "sm_90"), ("f64", "sm_80"), ("f32", "sm_80"), ("f64", "sm_90"), ("f32", "sm_120")]


@pytest.mark.nvrtc
@sampled(
    "t,arch", [*CASES[:2], *(pytest.param(*c, marks=pytest.mark.deep) for c in CASES[2:])], keep=1
)
def test_nvrtc_knows_every_function_without_a_header(t: str, arch: str) -> None:
    cubin = compile_cuda(text(BUILTINS, t), arch, name="smath")
    assert cubin.warnings == ()
    assert len(cubin.report.kernels) == len(BUILTINS)
    # Arguments of sin, cos and tan beyond 1e5 are reduced through a local array, CUDA's own.
    assert [k.kernel for k in cubin.report.kernels if k.spills] == []


@pytest.mark.nvrtc
def test_nvrtc_takes_those_of_integers() -> None:
    assert compile_cuda(text(OF_INTEGERS, *INTEGERS), "sm_80", name="smath").warnings == ()


@pytest.mark.cusim
@sampled("t, rtol", [("float", 3e-6), ("double", 1e-12), ("int32", 3e-6)], keep=1)
@pytest.mark.parametrize("part", range(4))
def test_programs_of_all_of_them_agree_with_the_reference(t: str, rtol: float, part: int) -> None:
    some = (*OF_INTEGERS, "exp", "isnan", "fma", "copysign")
    names = [n for n in BUILTINS if t != "int32" or n in some][part::4]
    reads = ("A(i)", "B(i)", "C(i)", "A(i)")
    body = "\n".join(
        f"O{k}(i) = {n}({', '.join(reads[: BUILTINS[n].arity])})" for k, n in enumerate(names)
    )
    outputs = ", ".join(f"O{k}" for k in range(len(names)))
    text = f"def f({t}(N) A, {t}(N) B, {t}(N) C) -> ({outputs}) {{\n{body}\n}}"
    rng, high = np.random.default_rng(0), 20 if t == "int32" else 1
    dtype = {"float": np.float32, "double": np.float64, "int32": np.int32}[t]
    p = problem(text, *(rng.uniform(0.1 * high, 0.9 * high, 20).astype(dtype) for _ in range(3)))
    unit = lowered(p)
    results, report = simulate(unit, emit_cuda(unit), p)
    report.assert_clean("builtins")
    for name, got, want in zip(names, results, expected(p), strict=True):
        np.testing.assert_allclose(got, want, rtol, err_msg=name)
