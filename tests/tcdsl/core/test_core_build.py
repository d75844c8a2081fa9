"""The core of the tensor library as a binary: what it needs, and what it must not know."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tcdsl.codegen.runtime import build as launcher
from tcdsl.codegen.toolchain import objects
from tcdsl.core import build


def _names(path: Path, option: str) -> set[str]:
    command = [shutil.which("nm") or pytest.skip("no nm"), "-D", option, str(path)]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return {line.split()[-1].split("@")[0] for line in text.splitlines()}


def _declared(header: Path) -> set[str]:
    listed = header.read_text().split("visibility push(default)")[1].split("visibility pop")[0]
    return set(re.findall(r"\b_?Py\w+(?=\(|\[\]|,|;)", listed)) - {"Py_ssize_t"}


@pytest.mark.cc
def test_the_core_uses_what_the_two_lists_declare_and_all_of_its_own() -> None:
    used = _names(objects.compile_source(build.core_source()), "--undefined-only")
    used = {name for name in used if name.lstrip("_").startswith("Py")}
    own = _declared(build.HERE / "pyabi_core.h")
    assert "PyObject_GC_Track" in own
    assert own <= used
    assert used <= own | _declared(launcher.HERE / "pyabi.h")


@pytest.mark.cc
def test_the_core_exports_its_init_function_only() -> None:
    names = _names(objects.compile_source(build.core_source()), "--defined-only")
    assert names - {"_init", "_fini", "_edata", "_end", "__bss_start"} == {"PyInit__core"}


def test_the_core_knows_no_operation_no_rule_of_types_and_no_device() -> None:
    words = {"relu", "matmul", "mul", "exp", "sum_all", "softmax", "promote", "float32", "cuda",
             "cupy", "conv", "mm", "log", "sqrt"}  # fmt: skip
    files = list(build.HERE.glob("*.[ch]"))
    assert len(files) > 5
    for path in files:
        assert not words & set(re.findall(r"\w+", path.read_text().lower())), path.name
