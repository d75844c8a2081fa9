"""The core as a binary: what it needs, who can compile it, which Pythons it serves."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tcdsl.codegen.runtime import build
from tcdsl.codegen.toolchain import cc, objects
from tcdsl.codegen.toolchain.source import Source
from tcdsl.grammar.text.errors import CompileError
from tests.codegen.compiled import compiled
from tests.tiers import sampled

HERE = Path(__file__).parent
ROOT = HERE.parents[2]


def _names(path: Path, *options: str) -> set[str]:
    command = [shutil.which("nm") or pytest.skip("no nm"), "-D", *options, str(path)]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return {line.split()[-1].split("@")[0] for line in text.splitlines()}


@pytest.mark.cc
def test_the_core_uses_what_pyabi_declares_and_nothing_else() -> None:
    header = (build.HERE / "pyabi.h").read_text()
    listed = header.split("visibility push(default)")[1].split("visibility pop")[0]
    declared = set(re.findall(r"\b_?Py\w+(?=\(|\[\]|,|;)", listed)) - {"Py_ssize_t"}
    used = _names(objects.compile_source(build.core_source()), "--undefined-only")
    assert declared == {name for name in used if name.lstrip("_").startswith("Py")}
    assert "PyType_FromSpec" in declared


@pytest.mark.cc
def test_the_core_exports_its_init_function_only() -> None:
    names = _names(objects.compile_source(build.core_source()), "--defined-only")
    assert names - {"_init", "_fini", "_edata", "_end", "__bss_start"} == {"PyInit__core"}


def test_the_core_knows_no_operation_and_no_device() -> None:
    words = {"relu", "matmul", "softmax", "gradient", "backward", "cuda", "cupy", "torch"}
    files = list(build.HERE.glob("*.[ch]"))
    assert len(files) > 5
    for path in files:
        assert not words & set(re.findall(r"[a-z]+", path.read_text().lower())), path.name


def _calls(python: str, library: Any, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [python, str(HERE / "calls.py"), library._name],
        capture_output=True, text=True, check=False, timeout=600,
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
    )  # fmt: skip


@sampled(
    "command",
    [
        pytest.param(("gcc",), marks=pytest.mark.cc),
        pytest.param(("clang",), marks=pytest.mark.clang),
        pytest.param((sys.executable, "-m", "ziglang", "cc"), marks=pytest.mark.zig),
    ],
    ids=["gcc", "clang", "zig"],
    keep=0,
)
def test_every_compiler_makes_it(command: tuple[str, ...], library: Any, tmp_path: Path) -> None:
    source = build.core_source()
    strict = (*source.flags, "-Wall", "-Wextra", "-Werror")
    checked = Source(source.name, source.text, source.opt, strict, source.include)
    compiled(cc.probe(command), checked, tmp_path)
    run = _calls(sys.executable, library, TCDSL_CC=" ".join(command))
    assert run.returncode == 0, run.stderr


@pytest.mark.cc
@pytest.mark.parametrize("version", ["3.11", "3.12", "3.13", "3.14"])
def test_the_same_binary_serves_other_pythons(version: str, library: Any) -> None:
    python = shutil.which(f"python{version}")
    probe = [python or "", "-c", "import numpy, ml_dtypes, platformdirs"]
    if python is None or subprocess.run(probe, capture_output=True, check=False).returncode:
        pytest.skip(f"no Python {version} with NumPy and ml_dtypes")
    run = _calls(python, library)
    assert run.returncode == 0, run.stderr
    assert run.stdout.strip() == str(objects.compile_source(build.core_source()))


def test_a_free_threaded_python_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "abiflags", "t")
    with pytest.raises(CompileError, match="free-threaded") as e:
        build.load()
    assert "ordinary build" in str(e.value)
