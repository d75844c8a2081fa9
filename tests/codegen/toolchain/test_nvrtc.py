"""NVRTC by ctypes: found, told apart, its refusals readable, several texts at a time."""

from __future__ import annotations

import ctypes
from pathlib import Path

import pytest

from tcdsl.codegen.toolchain import nvrtc
from tcdsl.codegen.toolchain.nvrtc import compile_cuda, find_nvrtc
from tcdsl.grammar.text.errors import CompileError

GOOD = """#include "prelude.cuh"
extern "C" __global__ void scale(float *x, tc_i32 n) {
  const tc_i64 i = tc_point();
  if (i < n) {
    x[i] = x[i] * 2.0f;
  }
}
"""
BAD = GOOD.replace("x[i] * 2.0f", "y[i]")


@pytest.mark.nvrtc
@pytest.mark.parametrize("arch", ["sm_80", "sm_90", "sm_90a", "sm_120"])
def test_text_becomes_a_cubin_of_the_architecture(arch: str) -> None:
    cubin = compile_cuda(GOOD, arch, name="scale")
    assert cubin.data.startswith(b"\x7fELF")
    assert b"scale" in cubin.data
    assert cubin.arch == arch
    assert cubin.warnings == ()
    assert cubin.report.kernel("scale").registers > 0


@pytest.mark.nvrtc
def test_a_refusal_shows_the_log_and_the_lines() -> None:
    with pytest.raises(CompileError) as caught:
        compile_cuda(BAD, "sm_80", name="scale")
    text = str(caught.value)
    assert text.splitlines()[0].endswith("refused 'scale' for sm_80")
    assert 'scale.cu(5): error: identifier "y" is undefined' in text
    assert "\n>    5 |     x[i] = y[i];\n" in text
    assert "\n     2 | extern" in text


@pytest.mark.nvrtc
def test_messages_of_the_assembler_are_in_a_refusal() -> None:
    text = 'extern "C" __global__ void k() { asm volatile("nonsense;"); }'
    with pytest.raises(CompileError, match=r"ptxas application .*nonsense"):
        compile_cuda(text, "sm_80", name="k")


@pytest.mark.nvrtc
def test_too_much_shared_memory_is_named() -> None:
    text = """extern "C" __global__ void big(float *p) {
      __shared__ float a[20000];
      a[threadIdx.x] = 1;
      __syncthreads();
      p[0] = a[99 - threadIdx.x];
    }"""
    with pytest.raises(CompileError, match="'big' uses too much shared data"):
        compile_cuda(text, "sm_80", name="big")


@pytest.mark.nvrtc
def test_an_unknown_architecture_is_refused_with_those_known() -> None:
    with pytest.raises(CompileError, match=r"this NVRTC knows .*sm_90"):
        compile_cuda(GOOD, "sm_12", name="scale")


@pytest.mark.nvrtc
def test_warnings_are_seen() -> None:
    cubin = compile_cuda('extern "C" __global__ void k() { int unused = 1; }', "sm_80", name="k")
    assert len(cubin.warnings) == 1
    assert "unused" in cubin.warnings[0]


@pytest.mark.nvrtc
def test_the_architectures_it_knows_are_those_it_says() -> None:
    found = find_nvrtc()
    assert found.version >= (12, 0)
    assert 90 in found.archs
    assert nvrtc.report()["version"] == ".".join(map(str, found.version))


@pytest.fixture
def no_library(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide every NVRTC, and forget what was found."""
    nvrtc._open.cache_clear()
    monkeypatch.delenv("TCDSL_NVRTC", raising=False)
    monkeypatch.setattr(nvrtc, "_wheel_folders", list)
    monkeypatch.setattr(nvrtc, "_installed_folders", lambda: [Path("/nowhere/lib64")])
    monkeypatch.setattr(ctypes.util, "find_library", lambda _: None)


@pytest.mark.usefixtures("no_library")
def test_without_nvrtc_the_error_says_where_it_was_looked_for_and_the_cure() -> None:
    with pytest.raises(CompileError) as caught:
        find_nvrtc()
    assert str(caught.value) == (
        "no NVRTC was found\n"
        "  looked for libnvrtc.so in: /nowhere/lib64, the linker's folders\n"
        '  note: pip install "tcdsl[cuda13]" or "tcdsl[cuda12]", '
        "or set TCDSL_NVRTC to a libnvrtc.so"
    )
    assert nvrtc.report() == {"error": str(caught.value)}


@pytest.mark.usefixtures("no_library")
def test_a_broken_library_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    broken = tmp_path / "libnvrtc.so.13"
    broken.write_text("no library")
    monkeypatch.setenv("TCDSL_NVRTC", str(broken))
    with pytest.raises(CompileError, match=r"libnvrtc.so.13' cannot be loaded"):
        find_nvrtc()
    monkeypatch.delenv("TCDSL_NVRTC")
    monkeypatch.setattr(nvrtc, "_installed_folders", lambda: [tmp_path])
    with pytest.raises(CompileError, match=r"(?s)no NVRTC was found\n  NVRTC '.*cannot be loaded"):
        find_nvrtc()


@pytest.mark.nvrtc
def test_the_newest_of_one_place_is_first(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("libnvrtc.so.12", "libnvrtc.so.13.0.88", "libnvrtc.alt.so.13"):
        (tmp_path / name).touch()
    monkeypatch.setattr(nvrtc, "_wheel_folders", lambda: [tmp_path])
    names = [p.name for p in nvrtc._candidates()]
    assert names[:2] == ["libnvrtc.so.13.0.88", "libnvrtc.so.12"]
