"""smath.cuh: NVRTC takes every builtin, and kernels that call them run in the simulator.

What they compute is tested with those of C, in test_smath.py.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterable

import numpy as np
import pytest
import scipy.special

from tcdsl.codegen.nvrtc import compile_cuda
from tcdsl.grammar.builtins import BUILTINS
from tests.cusim.harness import on_device
from tests.cusim.simulator import Module, Simulator

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
@pytest.mark.parametrize(
    ("t", "arch"), [*CASES[:2], *(pytest.param(*c, marks=pytest.mark.deep) for c in CASES[2:])]
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
def test_a_kernel_that_calls_them_runs_in_the_simulator() -> None:
    x = np.random.default_rng(0).standard_normal(64).astype(np.float32)
    module = Module(text(("gelu", "normcdfinv"), "f32"))
    simulator = Simulator()
    (_, given), (_, y) = on_device(x), on_device(np.zeros_like(x))
    simulator.add_array("x", given, "read")
    simulator.add_array("y", y, "write")
    pointers = [ctypes.c_void_p(a.ctypes.data) for a in (given, y)]
    for name, want in (("gelu", x * scipy.special.ndtr(x)), ("normcdfinv", scipy.special.ndtri(x))):
        assert simulator.launch(module, f"{name}_f32", 2, 32, pointers)
        simulator.report.assert_clean(name)
        np.testing.assert_allclose(y, want, rtol=1e-6)
