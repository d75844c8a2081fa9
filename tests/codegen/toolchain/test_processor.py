"""What the processor has that a kernel or a compiler says nothing of."""

from __future__ import annotations

import platform
from pathlib import Path

import pytest

from tcdsl.codegen.toolchain import cc
from tcdsl.codegen.toolchain.cc import probe
from tcdsl.codegen.toolchain.processor import has_amx_fp16
from tests.codegen.native import ON_X86, library
from tests.codegen.toolchain.test_cc import fake_compiler


@pytest.mark.parametrize(
    ("gcc", "tiles", "has", "is_added"),
    [
        (12, True, True, True),
        (12, True, False, False),
        (12, False, True, False),
        (13, True, True, False),
    ],
)
def test_an_instruction_that_a_compiler_does_not_know_is_told_to_preludes(
    gcc: int,
    tiles: bool,
    has: bool,
    is_added: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """And parts its objects from those of processors without it; gcc 13 knows by itself."""
    monkeypatch.setattr(cc, "has_amx_fp16", lambda: False)
    macros = [f"__GNUC__ {gcc}", *["__AMX_TILE__ 1"] * tiles]
    body = "; ".join(f"echo '#define {macro}'" for macro in macros)
    without = probe((str(fake_compiler(tmp_path, "without", body)),))
    monkeypatch.setattr(cc, "has_amx_fp16", lambda: has)
    found = probe((str(fake_compiler(tmp_path, "with", body)),))
    assert ("-D__AMX_FP16__" in found.flags) == is_added
    assert ("__AMX_FP16__" in found.macros) == is_added
    assert (found.isa_key != without.isa_key) == is_added
    again = probe((str(tmp_path / "with"),))
    assert again == found


@pytest.mark.cc
@ON_X86
@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="the C library does not tell")
def test_what_is_known_of_tiles_of_float16_is_what_the_processor_says() -> None:
    text = """#include <cpuid.h>
    __attribute__((visibility("default"))) int told(void) {
      unsigned a, b, c, d;
      return __get_cpuid_count(7, 1, &a, &b, &c, &d) && a >> 21 & 1;
    }"""
    assert has_amx_fp16() == bool(library("cpuid", text, "cc").told())
