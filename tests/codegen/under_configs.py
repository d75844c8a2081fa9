"""A problem under every config of a list that fits it, exact and generic."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from tcdsl.codegen.forms.contraction.schedule import register_tiles
from tcdsl.codegen.machine.config import Config, Value
from tcdsl.codegen.machine.cpu import Machine
from tcdsl.codegen.toolchain.cc import Compiler, find_compiler
from tcdsl.codegen.toolchain.host import detect
from tests.codegen.harness import Case, Problem, spec_of
from tests.codegen.knobs import knobs_of


def cases_under(p: Problem, configs: Sequence[Mapping[str, Value]]) -> list[Case]:
    """Return the cases whose values are all legal for the problem."""
    out = []
    for exact in (True, False):
        spec = spec_of(p, exact=exact)
        space = {k.name: k.values for k in knobs_of(p.program, spec, detect(), p.sizes)}
        out += [
            Case(p, exact, Config.of(c))
            for c in configs
            if all(v in space.get(n, ()) for n, v in c.items())
        ]
    assert out, "no config fits"
    return out


def held(tile: str) -> str:
    """Return a register tile with as many rows of it as the registers of this machine hold."""
    rows, vectors = map(int, tile.split("x"))
    most = max(mr for mr, nv in register_tiles(detect()) if nv == vectors)
    return f"{min(rows, most)}x{vectors}"


def narrower(width: int) -> tuple[Compiler, Machine]:
    """Return this machine's compiler and description with vectors of width bytes, if it has such.

    Else the test is skipped.
    """
    if detect().vector_bytes < width:
        pytest.skip("this machine has none wider")
    cc = find_compiler()
    machine = replace(detect(), isa="avx2", vector_bytes=width, registers=16)
    return replace(cc, flags=(*cc.flags, f"-DTC_VECTOR_BYTES={width}")), machine
