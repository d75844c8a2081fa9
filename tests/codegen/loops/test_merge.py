"""Equal functions and tables of a unit are one, whoever calls them."""

from __future__ import annotations

import numpy as np
import pytest

from tcdsl.codegen.choose import compiler
from tcdsl.codegen.loops import build as b
from tcdsl.codegen.loops.loopir import I64, Elem, Executable, Function, Let, Return, Table, Unit
from tcdsl.codegen.loops.merge import merge
from tcdsl.codegen.machine.config import Config
from tcdsl.codegen.toolchain.host import detect
from tests.codegen.harness import Case, differential, problem, spec_of

TWICE = """def f(float(M,K) A, float(K,N) B, float(N,P) D) -> (C, E) {
  C(m, n) +=! A(m, k) * B(k, n)
  E(m, p) +=! C(m, n) * D(n, p)
}"""


def reader(name: str, table: str) -> Function:
    at = b.i64("at")
    return Function(name, (at,), Return(Elem(table, (at,), I64)), "helper", I64)


def caller(name: str, helper: str) -> Function:
    value = Let(b.i64("value"), b.call(helper, 1, type=I64))
    return b.phase_function(name, b.block(value, Return(b.call("tc_zero"))))


def test_what_is_equal_is_called_by_the_first_name() -> None:
    unit = Unit(
        "u",
        "",
        (
            reader("g0_read", "g0_costs"),
            caller("g0_phase", "g0_read"),
            reader("g1_read", "g1_costs"),
            reader("g2_read", "g2_costs"),
            caller("g1_phase", "g1_read"),
            caller("g2_phase", "g2_read"),
        ),
        tuple(Table(f"g{i}_costs", I64, (1, 2, 3 + i // 2)) for i in range(3)),
        (Executable("u", "plan", ("g0_phase", "g1_phase", "g2_phase")),),
    )
    merged = merge(unit)
    assert [t.name for t in merged.tables] == ["g0_costs", "g2_costs"]
    names = ["g0_read", "g0_phase", "g2_read", "g1_phase", "g2_phase"]
    assert [f.name for f in merged.functions] == names
    by = {f.name: f for f in merged.functions}
    assert by["g1_phase"].body == by["g0_phase"].body
    assert by["g2_phase"].body == caller("g2_phase", "g2_read").body
    assert merge(merged) == merged


@pytest.mark.wide
@pytest.mark.cc
def test_two_contractions_share_their_tiles(rng: np.random.Generator) -> None:
    shapes = ((37, 29), (29, 41), (41, 23))
    p = problem(TWICE, *(rng.normal(size=s).astype(np.float32) for s in shapes))
    spec = spec_of(p, exact=False)
    unit = compiler.lower(p.program, spec, Config(), detect(), p.sizes, "f")
    names = [f.name for f in unit.functions if f.linkage == "import"]
    assert len(names) == len(set(names)) > 0
    own = Config.of({f"g{i}.tiles": "own" for i in range(2)})
    scaled = problem(TWICE.replace("+=! ", "+=! 0.5 * "), *p.args)
    unit = compiler.lower(scaled.program, spec, own, detect(), p.sizes, "f")
    tiles = [f.name.split("_")[1] for f in unit.functions if f.linkage == "micro"]
    assert set(tiles) == {"g0"}
    differential([Case(p, exact) for exact in (True, False)], terms=50)
