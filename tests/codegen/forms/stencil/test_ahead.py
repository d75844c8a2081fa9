"""Windows fetch the rows of operands that no cache holds before they read them."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from tcdsl.codegen.choose import compiler
from tcdsl.codegen.machine.cpu import Machine
from tcdsl.codegen.toolchain.host import detect
from tests.codegen.harness import Case, Problem, differential, problem, rand, spec_of

POOL = """def pool(float(N,C,H,W) I) -> (O) {
  O(n, c, y, x) max=! pad(I(n, c, 2*y + i - 1, 2*x + j - 1), -inf)
    where i in 0:3, j in 0:3, y in 0:(H - 1) / 2 + 1, x in 0:(W - 1) / 2 + 1 }"""
SMALL = replace(detect(), l3_bytes=1 << 14)  # bytes that rows in these tests exceed


def text_of(p: Problem, machine: Machine, *, exact: bool) -> str:
    spec = spec_of(p, exact=exact)
    config = compiler.default_config(p.program, spec, machine, p.sizes)
    lower = compiler.lower if exact else compiler.lower_generic
    text = compiler.emit_c(lower(p.program, spec, config, machine, p.sizes, "f"))
    assert "[stencil" in text
    return text


@pytest.mark.cc
def test_rows_that_no_cache_holds_are_fetched_ahead() -> None:
    """Of known sizes that is known; of any the plan finds out."""
    p, image = problem(POOL, rand(2, 3, 37, 45)), problem(POOL, rand(1, 1, 9, 17))
    assert "tc_prefetch" not in text_of(p, detect(), exact=True)
    assert "tc_prefetch" in text_of(p, SMALL, exact=True)
    assert "tc_prefetch" not in text_of(image, SMALL, exact=True)
    of_any = text_of(p, SMALL, exact=False)
    assert re.search(r"if \(args->plan->param\[\d\] != 0\) \{\s+const float \*next", of_any)
    both = [Case(q, exact=exact) for q in (p, image) for exact in (True, False)]
    differential(both, machine=SMALL)


def test_a_block_fetches_the_rows_that_it_adds() -> None:
    """Of a window of three by twos it is two for each of its own: the others were there before."""
    text = text_of(problem(POOL, rand(2, 3, 80, 64)), SMALL, exact=True)
    rows = re.search(r"\[stencil (\d)x1\]", text)
    assert rows is not None
    loops = re.findall(r"for \(tc_i64 x", text)
    assert text.count("*next") == 2 * int(rows[1]) * len(loops)


def test_long_rows_are_left_to_the_hardware() -> None:
    assert "tc_prefetch" not in text_of(problem(POOL, rand(1, 1, 8, 4000)), SMALL, exact=True)
