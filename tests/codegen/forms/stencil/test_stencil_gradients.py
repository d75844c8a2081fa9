"""Gradients of windows as stencils: by weights, of extremes, of strides that leave pieces."""

from __future__ import annotations

import re

import numpy as np
import pytest

from tcdsl.codegen.choose import compiler
from tcdsl.codegen.gradient.vjp import gradient
from tcdsl.codegen.toolchain.host import detect
from tcdsl.grammar.check.definition import check
from tcdsl.grammar.text.parser import parse
from tests.codegen.forms.stencil.test_stencil import (
    both,
    floats,
    given,
    is_stencil,
    ties,
)
from tests.codegen.harness import (
    Case,
    Problem,
    differential,
    problem,
    spec_of,
)
from tests.codegen.pages import between_pages
from tests.codegen.under_configs import narrower

WEIGHTS = """def f<S=1, P=1>(float(N,C,H,W) I, float(N,C,A,B) G) -> (float(C,3,3) D) {
  D(c,i,j) +=! G(n,c,h,w) * pad(I(n, c, S*h + i - P, S*w + j - P), 0) }"""
WEIGHTS_7 = WEIGHTS.replace("(C,3,3)", "(C,7,7)")
WEIGHTS_LAST = """def f<S=1, P=1>(float(N,H,W,C) I, float(N,A,B,C) G) -> (float(3,3,C) D) {
  D(i,j,c) +=! G(n,h,w,c) * pad(I(n, S*h + i - P, S*w + j - P, c), 0) }"""
WEIGHTS_LAST_7 = WEIGHTS_LAST.replace("(3,3,C)", "(7,7,C)")
WEIGHTS_LAST_LINE = """def f(float(N,C) A, float(M,C) G) -> (float(C,3) D) {
  D(c,k) +=! G(i,c) * A(2 * i + k, c) where i in 0:M }"""
WEIGHTS_5 = (
    "def f(float(N) A, float(M) G) -> (float(5) D) { D(k) +=! G(i) * A(i + k) where i in 0:M }"
)
SPREAD = """def f<S=2>(float(N,H,W) G, float(3,3) K) -> (float(N, S*H, S*W) D) {
  D(n, S*y, S*x) +=! pad(G(n, y - i, x - j), 0) * K(i,j) where y in 0:H, x in 0:W
  D(n, S*y + 1, S*x + 1) max=! pad(G(n, y - i + 1, x - j), 0) where i in 0:2, j in 0:2,
    y in 0:H, x in 0:W
}"""


def test_of_a_large_window_a_unit_sums_for_a_row_of_taps() -> None:
    p = problem(given(WEIGHTS_7, P=3), floats(1, 2, 5, 6), floats(1, 2, 5, 6))
    assert is_stencil(p, exact=True)


@pytest.mark.wide
@pytest.mark.cc
def test_gradients_by_weights() -> None:
    found = []
    for s, (n, c, h, w) in (
        (1, (2, 3, 9, 21)),
        (1, (1, 1, 1, 1)),
        (1, (0, 2, 5, 5)),
        (1, (3, 2, 7, 64)),
        (2, (2, 2, 9, 37)),
        (3, (1, 2, 10, 20)),
    ):
        a, b = (h - 1) // s + 1, (w - 1) // s + 1
        found.append(problem(given(WEIGHTS, S=s), floats(n, c, h, w), floats(n, c, a, b)))
    found += [problem(WEIGHTS_5, floats(n), floats(n - 4)) for n in (4, 5, 37)]
    for s, (n, c, h, w) in ((1, (2, 3, 9, 21)), (1, (1, 2, 2, 3)), (2, (1, 2, 11, 40))):
        text, adjoint = given(WEIGHTS_7, S=s, P=3), ((h - 1) // s + 1, (w - 1) // s + 1)
        found.append(problem(text, floats(n, c, h, w), floats(n, c, *adjoint)))
    assert is_stencil(found[0], exact=True)
    assert is_stencil(found[-1], exact=True)
    cases = both(*found)
    with between_pages(found[0], "after") as p, between_pages(found[4], "after") as q:
        differential([*cases, *both(p, q)], terms=3 * 9 * 64)


def last_weights(text: str, s: int, n: int, h: int, w: int, c: int) -> Problem:
    a, b = (h - 1) // s + 1, (w - 1) // s + 1
    return problem(given(text, S=s), floats(n, h, w, c), floats(n, a, b, c))


@pytest.mark.cc
def test_gradients_by_weights_of_channels_last_are_sums_in_parts() -> None:
    p = last_weights(WEIGHTS_LAST, 1, 3, 30, 9, 45)  # three parts
    assert is_stencil(p, exact=True)
    differential(both(p), terms=3 * 30 * 9)


@pytest.mark.wide
@pytest.mark.cc
@pytest.mark.parametrize("width", [64, 32])
def test_gradients_by_weights_of_channels_last(width: int) -> None:
    cc, machine = (None, None) if width == 64 else narrower(width)
    sizes = (
        (1, 2, 9, 11, 3),
        (1, 1, 1, 1, 1),
        (1, 0, 5, 5, 16),
        (2, 3, 7, 12, 70),
        (3, 1, 9, 8, 16),
    )
    found = [last_weights(WEIGHTS_LAST, *x) for x in sizes]
    found += [last_weights(given(WEIGHTS_LAST_7, P=3), 1, 1, 7, 6, 33)]
    lines = ((0, 16), (1, 5), (40, 37))
    found += [problem(WEIGHTS_LAST_LINE, floats(2 * n + 1, c), floats(n, c)) for n, c in lines]
    whole = [np.arange(360, dtype=np.int32).reshape(1, 4, 5, 18)] * 2
    p = problem(WEIGHTS_LAST.replace("float(", "int32("), *whole)
    cases = both(*found, p)
    with between_pages(found[0], "after") as q, between_pages(found[3], "after") as r:
        differential([*cases, *both(q, r)], terms=3 * 7 * 12, cc=cc, machine=machine)


@pytest.mark.deep
@pytest.mark.cc
def test_every_second_or_third_element_is_written() -> None:
    found = [problem(SPREAD, floats(*s), floats(3, 3)) for s in ((2, 5, 19), (1, 2, 64), (1, 1, 1))]
    found.append(problem(given(SPREAD, S=3), floats(1, 4, 33), floats(3, 3)))
    text = SPREAD.replace("float(", "int32(")
    found.append(
        problem(
            text,
            *(np.arange(n).reshape(s).astype(np.int32) for n, s in ((44, (1, 2, 22)), (9, (3, 3)))),
        )
    )
    assert is_stencil(found[0], exact=True)
    differential(both(*found), terms=9)


def way_back(
    k: int,
    s: int,
    p: int,
    size: tuple[int, int] = (9, 37),
    last: str = "",
    named: bool = False,
    images: int = 2,
) -> Problem:
    """Return the way back of the maxima of windows, for any adjoint and any places.

    named: the text does not say how large the image is.
    """
    h, w = ((n + 2 * p - k) // s + 1 for n in size)
    pixel = f"{s} * y + i - {p}, {s} * x + j - {p}{last}"
    image_size = "H,W" if named else f"{size[0]},{size[1]}"
    text = f"""def f(float(N,{image_size}{last.upper()}) I) -> (O) {{
      O(n,y,x{last}) max=! pad(I(n, {pixel}), -inf)
        where i in 0:{k}, j in 0:{k}, y in 0:{h}, x in 0:{w} }}"""
    behind = (3,) if last else ()
    places = np.random.default_rng(k).integers(-1, k * k + 1, (images, h, w, *behind), np.int32)
    image = ties(images, *size, *behind)
    back = gradient(check(parse(text))).text
    return problem(back, image, places, floats(images, h, w, *behind))


def forms_of(p: Problem, *, exact: bool = True) -> list[tuple[str, str]]:
    host, spec = detect(), spec_of(p, exact=exact)
    config = compiler.default_config(p.program, spec, host, p.sizes)
    return compiler.describe(p.program, spec, config, host, p.sizes)


@pytest.mark.parametrize(("size", "last"), [((9, 37), ""), ((8, 36), ""), ((9, 11), ",c")])
def test_pieces_that_strides_leave_are_one_nest(size: tuple[int, int], last: str) -> None:
    exact = forms_of(way_back(3, 2, 1, size, last))
    of_any = forms_of(way_back(3, 2, 1, size, last, named=True), exact=False)
    assert len(exact) == len(of_any) == 4
    assert all(form.startswith("g0: stencil") for _, form in exact + of_any), (exact, of_any)


@pytest.mark.cc
def test_units_of_any_size_come_one_after_the_other() -> None:
    """Divisions by unknown numbers take longer than a small image; the plan has the parts."""
    p = way_back(3, 2, 1, (5, 45), named=True, images=70)
    spec, host = spec_of(p, exact=False), detect()
    config = compiler.default_config(p.program, spec, host, p.sizes)
    text = compiler.emit_c(compiler.lower_generic(p.program, spec, config, host, p.sizes, "f"))
    units = text[text.index("for (tc_i64 unit") : text.index("_plan(")]
    assert not re.search(r"\w / \w|%", units)
    assert "_back" in units  # lines of pieces are whole too
    found = [p, way_back(3, 2, 1, (5, 9), named=True, images=0), way_back(2, 2, 0, (4, 3))]
    differential([Case(q, exact=False) for q in found], terms=9)


@pytest.mark.wide
@pytest.mark.cc
def test_ways_back_of_extremes_compare_places() -> None:
    found = [way_back(3, 2, 1), way_back(3, 2, 1, (8, 36)), way_back(3, 2, 1, (9, 11), ",c")]
    found += [way_back(5, 3, 2), way_back(3, 2, 0, (3, 70)), way_back(2, 2, 0, (7, 5))]
    found += [way_back(3, 2, 0, (3, 3)), way_back(3, 2, 1, (1, 37)), way_back(3, 2, 1, (37, 1))]
    found += [way_back(3, 1, 1), way_back(2, 2, 0), way_back(4, 3, 0)]
    sizes = (9, 37), (8, 36), (1, 37), (37, 1), (2, 3)
    found += [way_back(3, 2, 1, size, named=True) for size in sizes]
    found += [way_back(3, 2, 1, (9, 11), ",c", named=True), way_back(5, 3, 2, named=True)]
    differential(both(*found), terms=16)
