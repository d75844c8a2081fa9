"""What gcc makes of emitted C, read as assembly."""

from __future__ import annotations

import re
import subprocess

import pytest

from tcdsl.codegen.choose import compiler
from tcdsl.codegen.loops.loopir import Unit
from tcdsl.codegen.toolchain.cc import INCLUDES, find_compiler
from tcdsl.codegen.toolchain.host import detect


def held_in_registers(unit: Unit, names: str) -> list[str]:
    """Hold that the functions of such names refer to no vector on the stack; return their names.

    names: a regular expression. Skipped where the compiler is not gcc for AVX-512.
    """
    cc = find_compiler()
    if cc.kind != "gcc" or "avx512" not in detect().isa:
        pytest.skip("reads the assembly of gcc for AVX-512")
    command = [*cc.command, *cc.flags, f"-I{INCLUDES}", "-O3", "-S", "-x", "c", "-", "-o", "-"]
    text = compiler.emit_c(unit)
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=True)
    found = re.findall(rf"^({names}):\n(.*?)\.size", done.stdout, re.S | re.M)
    assert found
    assert not [n for n, body in found if re.search(r"\(%r[sb]p.*zmm|zmm.*\(%r[sb]p", body)]
    return [name for name, _ in found]
