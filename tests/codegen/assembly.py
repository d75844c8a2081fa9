"""What gcc makes of emitted C, read as assembly."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator

import pytest

from tcdsl.codegen.choose import compiler
from tcdsl.codegen.loops.loopir import Unit
from tcdsl.codegen.toolchain.cc import INCLUDES, find_compiler
from tcdsl.codegen.toolchain.host import detect


def assembly(text: str) -> str:
    """Return what gcc makes of a text; skipped where it is not gcc for AVX-512 or AVX2."""
    cc, isa = find_compiler(), detect().isa
    if cc.kind != "gcc" or isa not in ("avx512", "avx2"):
        pytest.skip("reads the assembly of gcc for AVX-512 and AVX2")
    command = [*cc.command, *cc.flags, f"-I{INCLUDES}", "-O3", "-S", "-x", "c", "-", "-o", "-"]
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=True)
    assert not done.stderr  # as of a macro that is defined twice
    return done.stdout


def held_in_registers(unit: Unit, names: str) -> list[str]:
    """Hold that loops of the functions of such names keep their vectors; return their names.

    No loop lays a vector on the stack. With 32 registers no such function does at all, nor reads
    one there (a number that it has there may go to all lanes); with 16 a loop may read there what
    stays as it is, the mask of the last columns.

    names: a regular expression.
    """
    found = re.findall(rf"^({names}):\n(.*?)\.size", assembly(compiler.emit_c(unit)), re.S | re.M)
    assert found
    if detect().isa == "avx512":
        vector = r"^(?!\tvbroadcasts|.*\{1to).*(\(%r[sb]p.*zmm|zmm.*\(%r[sb]p)"
        out = [n for n, body in found if re.search(vector, body, re.M)]
    else:
        laid_down = r"ymm\d+, -?\d*\(%r[sb]p"
        out = [n for n, body in found if any(re.search(laid_down, x) for x in _loops(body))]
    assert not out
    return [name for name, _ in found]


def _loops(body: str) -> Iterator[str]:
    """Yield the innermost loops of a function: from a label to the jump back, no other inside.

    What jumps back over a return is no loop: it is what gcc thinks seldom runs, laid at the end.
    Nor is what leaves by the first jump behind the label, whatever holds.
    """
    lines = body.split("\n")
    labels = {line[:-1]: i for i, line in enumerate(lines) if re.fullmatch(r"\.L\w+:", line)}
    jumps = [(i, re.match(r"\tj\w+\s+(\.L\w+)", line)) for i, line in enumerate(lines)]
    spans = [(labels[to[1]], i) for i, to in jumps if to and labels.get(to[1], i) < i]
    spans = [(first, last) for first, last in spans if "\tret" not in lines[first:last]]
    spans = [x for x in spans if not _leaves(lines, labels, *x)]
    for first, last in spans:
        if not any(first <= f and t <= last for f, t in spans if (f, t) != (first, last)):
            yield "\n".join(lines[first:last])


def _leaves(lines: list[str], labels: dict[str, int], first: int, last: int) -> bool:
    """Whether the first jump from a line on leads out of a span of lines in any case."""
    to = next(x for line in lines[first:] if (x := re.match(r"\t(j\w+)\s+(\.L\w+)", line)))
    return to[1] == "jmp" and not first <= labels.get(to[2], first) <= last
