"""CUDA text and a header that stand alone: they compile, and start what the launcher starts."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from tcdsl.codegen.choose import compiler
from tcdsl.codegen.device.hostplan import plan
from tcdsl.codegen.device.standalone import Standalone, inlined, standalone
from tcdsl.codegen.loops.loopir import Unit
from tcdsl.codegen.machine.config import Config
from tcdsl.codegen.machine.gpu import gpu_of
from tcdsl.codegen.machine.spec import Layout, Spec
from tcdsl.codegen.program.ssa import program_of
from tcdsl.codegen.toolchain.nvrtc import compile_cuda
from tcdsl.grammar.check.definition import check
from tcdsl.grammar.text.parser import parse

ARCH = "sm_90"
SIZES = {"N": 100, "K": 77, "M": 9}
TEXT = """def pick(float(N,K) X, int32(N) idx, float(K) w, float scale) -> (Y, P, S) {
    Y(n, k) = exp(X(n, k)) * w(k) + scale
    P(n) = w(idx(n))
    S(k) +=! Y(n, k) where n in 0:N
    S(k) = S(k) / 2
}"""


def files(sizes: Mapping[str, int] | None) -> tuple[Unit, Standalone]:
    program = program_of(check(parse(TEXT)))
    ranks = [len(next(x.shape for x in program.buffers if x.name == n)) for n in program.operands]
    layouts = tuple(Layout(r, contiguous=True, unit=r - 1 if r else None) for r in ranks)
    model = {n: SIZES[n] for n in program.sizes}
    spec = Spec(tuple(sizes.items()) if sizes else None, layouts, 0, is_small=not sizes)
    unit = compiler.lower(program, spec, Config(), gpu_of(ARCH), model, "pick")
    return unit, standalone(unit, program, spec, ARCH)


@pytest.fixture(scope="module")
def generic() -> tuple[Unit, Standalone]:
    return files(None)


@pytest.mark.nvrtc
def test_the_text_compiles_alone_and_without_warnings(generic: tuple[Unit, Standalone]) -> None:
    unit, made = generic
    assert "#include" not in made.source
    cubin = compile_cuda(made.source, ARCH, name="pick")
    assert cubin.warnings == ()
    assert {k.kernel for k in cubin.report.kernels} == {x.function for x in unit.launches}


@pytest.mark.deep
def test_nvcc_takes_the_text(generic: tuple[Unit, Standalone], tmp_path: Path) -> None:
    nvcc = shutil.which("nvcc")
    if nvcc is None:
        pytest.skip("no nvcc on PATH")
    source, _ = generic[1].write(tmp_path)
    command = [nvcc, "-std=c++17", f"-arch={ARCH}", "-cubin", "-o", "pick.cubin", source.name]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=600)
    assert run.returncode == 0, run.stderr
    assert "warning" not in run.stderr


MAIN = """#include <stdio.h>
#include "pick.h"
int main(void) {
  const pick_sizes all[] = {%s};
  for (unsigned k = 0; k < sizeof all / sizeof *all; k++) {
    for (int i = 0; i < pick_launches; i++) {
      pick_launch x = pick_launch_of(i, &all[k]);
      if (x.blocks > 0)
        printf("%%s %%lld %%lld %%lld\\n", x.kernel, (long long)x.blocks, (long long)x.threads,
               (long long)x.shared_bytes);
    }
    for (int i = 0; i < %d; i++)
      printf("%%lld ", (long long)pick_workspace_offset(&all[k], i));
    printf("%%lld\\n", (long long)pick_workspace_bytes(&all[k]));
  }
  return 0;
}
"""


def printed(made: Standalone, program: str, folder: Path) -> list[str]:
    """Return what a C program prints that includes the header."""
    made.write(folder)
    (folder / "main.c").write_text(program)
    compiler_path = next(p for c in ("cc", "gcc", "clang") if (p := shutil.which(c)))
    flags = ["-std=c99", "-pedantic", "-Wall", "-Wextra", "-Werror"]
    subprocess.run([compiler_path, *flags, "main.c", "-o", "main"], cwd=folder, check=True)
    run = subprocess.run(["./main"], cwd=folder, check=True, capture_output=True, text=True)
    return run.stdout.splitlines()


def planned(unit: Unit, sizes: Mapping[str, int]) -> list[str]:
    host = plan(unit, sizes)
    starts = [f"{x.function} {x.blocks} {x.threads} {x.shared_bytes}" for x in host.starts]
    return [*starts, " ".join(map(str, [*host.offsets, host.workspace_bytes]))]


@pytest.mark.cc
def test_the_header_gives_the_grids_of_the_launcher(
    generic: tuple[Unit, Standalone], tmp_path: Path
) -> None:
    unit, made = generic
    names = list(SIZES)[:2]
    tried = [(100, 77), (1, 1), (100000, 3), (0, 5), (4096, 4096)]
    rows = ", ".join(f"{{.N = {n}, .K = {k}}}" for n, k in tried)
    found = printed(made, MAIN % (rows, len(unit.workspace)), tmp_path)
    expected = [planned(unit, dict(zip(names, values, strict=True))) for values in tried]
    assert found == [line for one in expected for line in one]


@pytest.mark.cc
def test_the_header_of_exact_sizes_names_them(tmp_path: Path) -> None:
    sizes = {"N": 100, "K": 77}
    unit, made = files(sizes)
    assert "#define pick_exact {100, 77}" in made.header
    found = printed(made, MAIN % ("pick_exact", len(unit.workspace)), tmp_path)
    assert found == planned(unit, sizes)


def test_every_argument_of_every_kernel_is_told(generic: tuple[Unit, Standalone]) -> None:
    unit, made = generic
    functions = {f.name: f for f in unit.functions}
    for x in unit.launches:
        section = made.header[made.header.index(f" {x.function}(") :]
        section = section[: section.index("static inline")]
        told = [line.split(" = ")[0].strip(" *") for line in section.splitlines() if " = " in line]
        assert told == [p.name for p in functions[x.function].params]
    assert " *   idx = address of idx\n" in made.header
    assert " *   fault = address of a pick_fault\n" in made.header
    assert " *   scale = number scale\n" in made.header
    assert "X: float32 (N, K) in C order" in made.header


def test_a_header_is_inlined_once() -> None:
    text = inlined('#include "smath.cuh"\n#include "prelude.cuh"\nint x;\n')
    assert text.count("typedef long long tc_i64") == 1
    assert text.endswith("int x;\n")
    assert inlined('#include "other.h"\n') == "\n"
