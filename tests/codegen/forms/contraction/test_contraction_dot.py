"""The dot form of contractions in configs that no analytic schedule chooses."""

from __future__ import annotations

import numpy as np
import pytest

from tcdsl.codegen.choose import compiler
from tcdsl.codegen.machine.config import Config
from tcdsl.codegen.toolchain.host import detect
from tests.codegen.harness import Case, differential, problem, spec_of
from tests.tiers import sampled

pytestmark = pytest.mark.cc

NT = "def mm(float(M,K) A, float(N,K) B) -> (C) { C(m,n) +=! A(m,k) * B(n,k) }"


@sampled("tile", ["5x2", "6x4", "1x1"], keep=1)
def test_blocks_whose_rows_leave_a_remainder_of_their_own(tile: str) -> None:
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(s, dtype=np.float32) for s in ((100, 40), (37, 40)))
    p = problem(NT, a, b)
    default = compiler.default_config(p.program, spec_of(p, exact=True), detect(), p.sizes)
    cases = [
        Case(
            p,
            exact=True,
            config=Config.of(
                {**dict(default.items), "g0.method": "dot", "g0.tile": tile, "g0.rows": rows}
            ),
        )
        for rows in (1, 2, 3)
    ]
    differential(cases, terms=40)
