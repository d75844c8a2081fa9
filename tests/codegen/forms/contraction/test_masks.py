"""Where a vector under a mask is dear, register tiles load b by such ones only if they have to."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace

import numpy as np
import pytest

from tcdsl.autotune.targets.cpu.guard_pages import GuardedBytes
from tcdsl.codegen.choose import compiler
from tcdsl.codegen.forms.contraction.library import Tiles
from tcdsl.codegen.loops.loopir import Vector
from tcdsl.codegen.machine.config import Config
from tcdsl.codegen.machine.cpu import Machine
from tcdsl.codegen.toolchain.host import detect
from tcdsl.grammar.types.dtypes import FLOAT32
from tests.codegen import harness
from tests.codegen.forms.chain.test_chain import attention, qkv
from tests.codegen.forms.contraction.test_contraction import NN, NT, matmul
from tests.codegen.forms.contraction.test_kept import TURN, made
from tests.codegen.harness import Case, Problem, differential, problem, spec_of
from tests.codegen.under_configs import narrower

pytestmark = pytest.mark.cc

DEAR = replace(detect(), isa="avx2", vector_bytes=32, registers=16)
CHEAP = replace(detect(), isa="avx512", vector_bytes=64, registers=32)

BY_MASK, WHOLE = {"loadm"}, {"load"}


def by_panels(tile: str, *, packs: bool) -> Config:
    values = {"g0.form": "contraction", "g0.method": "panel", "g0.columns": "B"}
    return Config.of({**values, "g0.tile": tile, "g0.pack_b": packs})


def loads(text: str) -> dict[str, set[str]]:
    """Return by what functions each register tile loads the last vector of a line of b."""
    parts = re.split(r"static TC_MICRO (?:TC_SPELLED_OUT )?void \w*?tile_(\d+x\d+)\(", text)[1:]
    tiles = zip(parts[::2], parts[1::2], strict=True)
    return {
        name: set(re.findall(rf"column\[{int(name[-1]) - 1}\] = tc_(\w+?)_v", body))
        for name, body in tiles
    }


def exact_loads(
    p: Problem, tile: str, *, packs: bool, machine: Machine = DEAR
) -> dict[str, set[str]]:
    config = by_panels(tile, packs=packs)
    unit = compiler.lower(p.program, spec_of(p, exact=True), config, machine, p.sizes, "k")
    return loads(compiler.emit_c(unit))


def test_tiles_of_whole_vectors_or_of_a_packed_b_load_nothing_by_a_mask() -> None:
    assert exact_loads(matmul(NN, 40, 50, 300), "4x3", packs=True) == {"4x1": WHOLE, "4x3": WHOLE}
    assert exact_loads(matmul(NN, 40, 40, 300), "4x3", packs=False) == {"4x2": WHOLE, "4x3": WHOLE}
    assert exact_loads(matmul(NN, 40, 50, 300), "4x3", packs=False) == {
        "4x1": BY_MASK,
        "4x3": WHOLE,
    }
    assert exact_loads(matmul(NN, 40, 70, 300), "4x3", packs=False) == {"4x3": BY_MASK | WHOLE}
    assert exact_loads(matmul(NN, 40, 22, 300), "4x3", packs=False) == {"4x3": BY_MASK}


def test_where_masks_cost_nothing_all_last_vectors_have_them() -> None:
    for n in (48, 50):
        found = exact_loads(matmul(NN, 40, n, 300), "4x3", packs=True, machine=CHEAP)
        assert found == dict.fromkeys(found, BY_MASK)


def test_tiles_of_the_library_are_told() -> None:
    for lanes, registers, both in ((8, 16, BY_MASK | WHOLE), (16, 32, BY_MASK)):
        name = Tiles(Vector(FLOAT32, lanes), registers).name
        found = loads(compiler.emit_c(compiler.lower_library(name)))
        assert found == dict.fromkeys(found, both)


@pytest.fixture
def guarded_memory(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Have what nests work in end at a page that cannot be touched."""
    with ExitStack() as stack:

        def up_to_a_page(size: int) -> tuple[int, np.ndarray[tuple[int], np.dtype[np.uint8]]]:
            memory = stack.enter_context(GuardedBytes(size, "after", 64))
            memory.bytes[:] = 0xFF
            return memory.address, np.full(1, 0xFF, np.uint8)

        monkeypatch.setattr(harness, "_poisoned", up_to_a_page)
        yield


@pytest.mark.usefixtures("guarded_memory")
def test_what_lies_behind_packed_panels_is_there() -> None:
    """The workspace is poisoned: no result has what lanes beyond the last column compute."""
    packed = by_panels("4x3", packs=True)
    cases = [Case(matmul(t, m, n, 64), exact=True, config=packed)
             for t in (NN, NT) for m, n in ((13, 25), (300, 49))]  # fmt: skip
    cases += [Case(matmul(t, 300, n, 64), exact=False) for t in (NN, NT) for n in (25, 49, 150)]
    in_a_loop = made(TURN.format("H(t, b, m) * U(n, m)", ""), q=4)
    in_a_chain = problem(attention(), *qkv(2, 40, 25, 64, 20))
    cases += [Case(p, is_exact) for p in (in_a_loop, in_a_chain) for is_exact in (True, False)]
    differential(cases, 256, *narrower(32))


@pytest.mark.parametrize("n", [13, 24, 50])
def test_a_b_that_is_not_packed_is_read_up_to_its_end(n: int) -> None:
    """Tiles of the library, of their own, and whole ones beside those that are not."""
    direct = by_panels("4x3", packs=False)
    p = matmul(NN, 9, n, 40)
    with GuardedBytes(p.args[1].nbytes, "after", 4) as memory:
        view = memory.bytes.view(np.float32).reshape(p.args[1].shape)
        view[...] = p.args[1]
        guarded = Problem(p.checked, (p.args[0], view), p.outs)
        both = [Case(guarded, exact=True, config=direct), Case(guarded, exact=False)]
        differential(both, 64, *narrower(32))
