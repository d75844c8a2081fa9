"""Two pieces of a tensor that alternate along lines leave as whole vectors."""

from __future__ import annotations

import numpy as np
import pytest

from tcdsl.codegen.choose import compiler
from tcdsl.codegen.gradient.vjp import gradient
from tcdsl.codegen.toolchain.host import detect
from tcdsl.grammar.check.definition import check
from tcdsl.grammar.text.parser import parse
from tests.codegen.harness import Case, Problem, differential, problem, rand, spec_of

pytestmark = pytest.mark.cc


def way_back(k: int, s: int, size: tuple[int, int], images: int = 2) -> Problem:
    """Return the way back of the maxima of windows of an image of any size."""
    h, w = ((n - k) // s + 1 for n in size)
    text = f"""def f(float(N,H,W) I) -> (O) {{
      O(n,y,x) max=! pad(I(n, {s} * y + i, {s} * x + j), -inf)
        where i in 0:{k}, j in 0:{k}, y in 0:{h}, x in 0:{w} }}"""
    places = np.random.default_rng(k).integers(0, k * k, (images, h, w), np.int32)
    return problem(
        gradient(check(parse(text))).text, rand(images, *size), places, rand(images, h, w)
    )


def text_of(p: Problem, *, exact: bool) -> str:
    spec, host = spec_of(p, exact=exact), detect()
    config = compiler.default_config(p.program, spec, host, p.sizes)
    lower = compiler.lower if exact else compiler.lower_generic
    text = compiler.emit_c(lower(p.program, spec, config, host, p.sizes, "f"))
    assert "[stencil" in text
    return text


def test_even_and_odd_elements_are_stored_together() -> None:
    for exact in (True, False):
        text = text_of(way_back(2, 2, (20, 66)), exact=exact)
        assert text.count("tc_zip2_") >= 2  # of even and of odd rows
    assert "tc_zip2_" not in text_of(way_back(3, 3, (21, 66)), exact=True)


def hold(k: int, *sizes: tuple[int, int]) -> None:
    found = [way_back(k, 2, size) for size in sizes]
    differential([Case(p, exact=exact) for p in found for exact in (True, False)], terms=4)


def test_the_last_odd_element_may_be_missing() -> None:
    hold(2, (7, 37))


@pytest.mark.wide
@pytest.mark.parametrize("k", [2, 3])
def test_lines_of_any_length_are_whole(k: int) -> None:
    hold(k, (7, 66), (8, 65), (6, 37), (9, 36), (5, 9), (4, 3))
