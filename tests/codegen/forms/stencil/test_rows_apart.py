"""Rows of windows that lie side by side are taken one by one."""

from __future__ import annotations

import pytest

from tcdsl.codegen.choose import compiler
from tcdsl.codegen.machine.config import Config
from tcdsl.codegen.toolchain.host import detect
from tests.codegen.harness import problem, rand, spec_of

pytestmark = pytest.mark.cc
POOL = """def pool(float(C,H,W) I) -> (O) {{
    O(c, y, x) max=! I(c, {step} * y + i, {step} * x + j)
        where i in 0:3, j in 0:3, y in 0:(H - 3) / {step} + 1, x in 0:(W - 3) / {step} + 1
}}"""


@pytest.mark.parametrize(("step", "is_alone"), [(3, True), (2, False), (1, False)])
def test_rows_that_share_nothing_go_alone(step: int, *, is_alone: bool) -> None:
    p = problem(POOL.format(step=step), rand(4, 40, 40))
    (title,) = {
        form
        for _, form in compiler.describe(
            p.program, spec_of(p, exact=True), Config(), detect(), p.sizes
        )
    }
    assert "stencil" in title
    assert ("stencil 1x" in title) is is_alone
