"""C text as a Python library, by each compiler and instruction set at hand; CUDA's as C++."""

from __future__ import annotations

import ctypes
import platform
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from _pytest.mark import ParameterSet  # what pytest.param gives; it has no public name

from tcdsl.codegen.toolchain.cc import Compiler, find_compiler, probe
from tcdsl.codegen.toolchain.objects import compile_source
from tcdsl.codegen.toolchain.source import Source

Array = np.ndarray[Any, np.dtype[Any]]

C_OF = {
    "float32": "f32", "float64": "f64", "bool": "b",
    **{f"{k}int{b}": f"{'u' if k else 'i'}{b}" for k in ("", "u") for b in (8, 16, 32, 64)},
}  # fmt: skip
ON_X86 = pytest.mark.skipif(platform.machine() != "x86_64", reason="instruction sets of x86")
BUILDS = [
    pytest.param("cc", marks=pytest.mark.cc),
    pytest.param("cc x86-64-v3", marks=[pytest.mark.cc, ON_X86, pytest.mark.wide]),
    pytest.param("cc x86-64", marks=[pytest.mark.cc, ON_X86]),
    pytest.param("zig", marks=pytest.mark.zig),
    pytest.param("clang", marks=pytest.mark.clang),
]
CUDA = pytest.param("cuda", marks=pytest.mark.cusim)


def in_tier(build: ParameterSet, tier: pytest.MarkDecorator) -> ParameterSet:
    """Return a build for a tier, whichever it is for otherwise."""
    needs = [mark for mark in build.marks if mark.name != "wide"]
    return pytest.param(*build.values, marks=[*needs, tier])


_CUSIM = Path(__file__).parent.parent / "cusim"


def compiler_of(build: str) -> Compiler:
    match build.split()[0]:
        case "zig":
            return probe((sys.executable, "-m", "ziglang", "cc"))
        case "clang":
            return probe(("clang",))
        case _:
            return find_compiler()


def library(name: str, text: str, build: str) -> ctypes.CDLL:
    """Compile for a build: a compiler, then, if given, another architecture than the machine's.

    "cuda" takes the same text with the headers of CUDA, by the simulator's header as C++.
    """
    if build == "cuda":
        return cuda_library(name, text.replace('.h"', '.cuh"'))
    _, *march = build.split()
    source = Source(name, text, flags=tuple(f"-march={m}" for m in march))
    return ctypes.CDLL(str(compile_source(source, compiler_of(build))))


def cuda_library(name: str, text: str) -> ctypes.CDLL:
    """Compile functions that need no device: no threads, no instructions of the device."""
    whole = f'#include "cusim.h"\n#define TC_EXPORT extern "C"\n{text}'
    flags = ("-x", "c++", "-std=c++17", "-w", "-fno-exceptions", "-fvisibility=default")
    source = Source(f"{name}_cuda", whole, "-O2", flags, _CUSIM)
    return ctypes.CDLL(str(compile_source(source, find_compiler())))


def loop(name: str, call: str, result: str, *args: str) -> str:
    """Return an exported function that puts a call at each i of arrays a0, a1, ... into out."""
    params = "".join(f", const tc_{t} *a{n}" for n, t in enumerate(args))
    values = ", ".join(f"a{n}[i]" for n in range(len(args)))
    return (
        f"TC_EXPORT void {name}(tc_{result} *out{params}, tc_i64 n) {{\n"
        "#pragma omp simd\n"
        f"  for (tc_i64 i = 0; i < n; i++) out[i] = {call}({values});\n}}\n"
    )


def run(lib: ctypes.CDLL, name: str, dtype: Any, *args: Array) -> Array:
    """Run a `loop` over arrays of one length."""
    arrays = [np.ascontiguousarray(a) for a in args]
    out = np.empty(len(arrays[0]), dtype)
    pointers = [ctypes.c_void_p(a.ctypes.data) for a in (out, *arrays)]
    getattr(lib, name)(*pointers, ctypes.c_int64(len(out)))
    return out
