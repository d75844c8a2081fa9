"""Stencils: windows and neighbours in vectors, whatever their borders, sizes and types."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tcdsl
from tcdsl.autotune.targets.cpu.guard_pages import Place
from tcdsl.codegen.choose import compiler
from tcdsl.codegen.machine.config import Config
from tcdsl.codegen.toolchain.host import detect
from tests.codegen.harness import (
    Case,
    Problem,
    assert_same,
    differential,
    expected,
    problem,
    spec_of,
)
from tests.codegen.pages import between_pages
from tests.codegen.under_configs import narrower
from tests.tiers import sampled

RNG = np.random.default_rng(53)

DEPTHWISE = """def f<S=1, P=1, L=1>(float(N,C,H,W) I, float(C,KH,KW) K) -> (O) {
  O(n,c,h,w) +=! pad(I(n, c, S*h + L*i - P, S*w + L*j - P), 0) * K(c,i,j)
    where h in 0:(H + 2*P - L*(KH-1) - 1) / S + 1, w in 0:(W + 2*P - L*(KW-1) - 1) / S + 1 }"""
LAST = """def f<S=1, P=1>(float(N,H,W,C) I, float(C,KH,KW) K) -> (O) {
  O(n,h,w,c) +=! pad(I(n, S*h + i - P, S*w + j - P, c), 0) * K(c,i,j)
    where h in 0:(H + 2*P - KH) / S + 1, w in 0:(W + 2*P - KW) / S + 1 }"""
MULTIPLIED = """def f(float(N,C,H,W) I, float(C,M,KH,KW) K) -> (O) {
  O(n,c,m,h,w) +=! pad(I(n, c, h + i - 1, w + j - 1), 0) * K(c,m,i,j)
    where h in 0:H, w in 0:W }"""
MAX = """def f<K=3, S=2, P=1>(float(N,C,H,W) I) -> (O) {
  O(n,c,h,w) max=! pad(I(n, c, S*h + i - P, S*w + j - P), -inf)
    where i in 0:K, j in 0:K, h in 0:(H + 2*P - K) / S + 1, w in 0:(W + 2*P - K) / S + 1 }"""
MIN = MAX.replace("max=!", "min=!").replace("-inf", "inf")
POOL = """def f<K=2, S=2>(float(N,C,H,W) I) -> (O) {
  O(n,c,h,w) max=! I(n, c, S*h + i, S*w + j) where i in 0:K, j in 0:K }"""
PRODUCT = """def f(float(H,W) I) -> (O) {
  O(h,w) *=! pad(I(h + i - 1, w + j - 1), 1) where i in 0:3, j in 0:3, h in 0:H, w in 0:W }"""
MEAN = """def f(float(N,C,H,W) I) -> (O) {
  S(n,c,h,w) +=! pad(I(n, c, h + i - 1, w + j - 1), 0) where i in 0:3, j in 0:3, h in 0:H, w in 0:W
  O(n,c,h,w) = relu(S(n,c,h,w) / 9 + 0.1) }"""
POWERS = """def f(float(C,H,W) I) -> (O) {
  S(c,h,w) +=! I(c, 2*h + i, 2*w + j) * I(c, 2*h + i, 2*w + j) where i in 0:3, j in 0:3
  O(c,h,w) = sqrt(S(c,h,w)) }"""
LINE = """def f(float(N) A) -> (O) {
  O(i) = pad(A(i - 1), 0.5) + A(i) - pad(A(i + 1), 2) where i in 0:N }"""
HEAT = """def f(float(H,W) V, float a) -> (U) {
  U(h,w) = V(h,w) + a * (pad(V(h-1,w), 0) + pad(V(h+1,w), 0) + pad(V(h,w-1), 0)
    + pad(V(h,w+1), 0) - 4 * V(h,w)) where h in 0:H, w in 0:W }"""
TURNS = """def f(float(H,W) X, float a) -> (float(H,W) U) {
  U(h,w) = X(h,w)
  for t in 0:4 {
    V(h,w) = U(h,w)
    U(h,w) = V(h,w) + a * (pad(V(h-1,w), 0) + pad(V(h,w+1), 0) - 2 * V(h,w))
      where h in 0:H, w in 0:W
  } }"""
SOLID = """def f(float(D,H,W) I, float(3,3,3) K) -> (O) {
  O(d,h,w) +=! pad(I(d + a - 1, h + i - 1, w + j - 1), 0) * K(a,i,j)
    where d in 0:D, h in 0:H, w in 0:W }"""
ADDED = """def f(float(H,W) I, float(3,3) K) -> (float(H,W) O) {
  O(h,w) += pad(I(h + i - 1, w + j - 1), 0) * K(i,j) where h in 0:H, w in 0:W }"""
BAND = "def f(float(N,M) A) -> (O) { O(i,j) = j >= i ? A(i, j - i) : 0.5 where i in 0:N, j in 0:M }"
TURNED = """def f(float(N) A, float(5) K) -> (O) {
  O(i) +=! pad(A(N - i + k - 3), 0) * K(k) where i in 0:N }"""
PLACED = """def f(float(N) A) -> (O) {
  O(i) +=! pad(A(i + k - 1), 0) * float(i - k) where i in 0:N, k in 0:3 }"""

PLACE = """def f<K=3, S=2, P=1>(float(N,H,W) I) -> (Q) {
  Q(n,h,w) argmax=! pad(I(n, S*h + i - P, S*w + j - P), -inf)
    where i in 0:K, j in 0:K, h in 0:(H + 2*P - K) / S + 1, w in 0:(W + 2*P - K) / S + 1 }"""
FOUND = """def f<K=3, S=2, P=1>(float(N,H,W) I) -> (M, A) {
  M(n,h,w) max=! pad(I(n, S*h + i - P, S*w + j - P), -inf)
    where i in 0:K, j in 0:K, h in 0:(H + 2*P - K) / S + 1, w in 0:(W + 2*P - K) / S + 1
  Q(n,y,x) argmax=! pad(I(n, S*y + a - P, S*x + b - P), -inf)
    where a in 0:K, b in 0:K, y in 0:(H + 2*P - K) / S + 1, x in 0:(W + 2*P - K) / S + 1
  A(n,y,x) = (S*y + Q(n,y,x) / K - P) * W + S*x + Q(n,y,x) % K - P }"""
NEAREST = """def f(float(N) A) -> (Q) {
  Q(i) argmin=! pad(A(i + k), inf) where i in 0:N, k in -2:3 }"""
MOMENTS = """def f(float(H,W) I) -> (S, V) {
  S(h,w) +=! pad(I(h + i - 1, w + j - 1), 0) where i in 0:3, j in 0:3, h in 0:H, w in 0:W
  Q(h,w) +=! pad(I(h + i - 1, w + j - 1), 0) * pad(I(h + i - 1, w + j - 1), 0)
    where i in 0:3, j in 0:3, h in 0:H, w in 0:W
  V(h,w) = Q(h,w) / 9 - S(h,w) * S(h,w) / 81 }"""


def given(text: str, **generics: int) -> str:
    """Return a text with other defaults: cases are told apart by their texts."""
    for name, value in generics.items():
        text = re.sub(rf"\b{name}=\d+", f"{name}={value}", text)
    return text


def floats(*shape: int) -> Any:
    return RNG.normal(size=shape).astype(np.float32)


def special(*shape: int) -> Any:
    """Return floats among which are NaN and infinities."""
    a = floats(*shape)
    flat = a.reshape(-1)
    for first, value in ((3, np.nan), (5, np.inf), (11, -np.inf)):
        flat[first::29] = value
    return a


def is_stencil(p: Problem, *, exact: bool) -> bool:
    spec = spec_of(p, exact=exact)
    config = compiler.default_config(p.program, spec, detect(), p.sizes)
    found = compiler.describe(p.program, spec, config, detect(), p.sizes)
    return any("stencil" in form for _, form in found)


def both(*problems: Problem) -> list[Case]:
    return [Case(p, exact) for p in problems for exact in (True, False)]


def windows(sizes: Sequence[tuple[int, ...]], **generics: int) -> list[Problem]:
    """Return depthwise convolutions of (N, C, H, W, KH, KW)."""
    made = []
    for n, c, h, w, kh, kw in sizes:
        made.append(problem(given(DEPTHWISE, **generics), floats(n, c, h, w), floats(c, kh, kw)))
    return made


@pytest.mark.cc
def test_windows_and_neighbours_are_stencils() -> None:
    for p in (
        *windows([(1, 2, 9, 37, 3, 3)]),
        problem(MAX, special(1, 2, 9, 19)),
        problem(HEAT, floats(5, 40), 0.1),
        *windows([(1, 2, 9, 37, 3, 3)], P=0),  # `pad` of what is inside
        *windows([(1, 1, 7, 13, 5, 5)], P=2),  # no block of rows is inside of all borders
        problem(given(MAX, K=2, P=0), special(1, 2, 8, 20)),
        problem(FOUND, special(1, 9, 19)),
    ):
        assert is_stencil(p, exact=True)
        differential([Case(p, exact=True)], terms=9)


@pytest.mark.cc
def test_an_executable_for_all_sizes_is_for_a_window() -> None:
    kernel = tcdsl.define(DEPTHWISE)
    for h, w, kh, kw in (
        (9, 20, 3, 3),
        (10, 21, 3, 3),
        (8, 37, 3, 3),
        (9, 20, 2, 3),
        (9, 21, 3, 3),
    ):
        image, taps = floats(1, 2, h, w), floats(2, kh, kw)
        want = expected(problem(DEPTHWISE, image, taps))
        assert_same([np.asarray(kernel(image, taps))], want, terms=9)


ABOVE = """def f(float(H,W) A, float(H,W) B) -> (O) {
  O(h,w) = pad(A(h-1,w), 0) + pad(A(h+1,w+1), 0) + B(h,w) where h in 0:H, w in 0:W }"""


@pytest.mark.cc
def test_blocks_that_go_back_compute_no_point_from_what_they_wrote() -> None:
    kernel, mean = tcdsl.define(ABOVE), tcdsl.define(MEAN)
    for h, w in ((9, 20), (5, 47), (11, 16), (7, 33), (1, 31), (3, 1), (0, 5), (6, 67), (4, 17)):
        a, out = floats(h, w), floats(h, w)
        want = expected(problem(ABOVE, a, out))
        kernel(a, out, out=out)  # where the second operand lies
        assert_same([out], want, terms=3)
        image = floats(2, 3, h, w)
        assert_same([np.asarray(mean(image))], expected(problem(MEAN, image)), terms=11)


@pytest.mark.wide
@pytest.mark.cc
def test_depthwise_convolutions_of_all_sizes() -> None:
    odd = [(2, 3, 7, 7, 3, 3), (1, 2, 14, 14, 3, 3), (1, 1, 21, 50, 3, 5), (2, 0, 5, 5, 3, 3)]
    tiny = [(1, 1, 1, 1, 3, 3), (1, 2, 2, 1, 3, 3), (0, 2, 4, 4, 3, 3), (1, 1, 3, 17, 1, 1)]
    found = windows([*odd, *tiny, (1, 1, 11, 67, 9, 9)])
    found += windows([(1, 2, 15, 33, 3, 3), (1, 2, 16, 34, 5, 5)], S=2, P=2)
    found += windows([(1, 2, 17, 70, 3, 3)], S=3) + windows([(1, 2, 19, 37, 3, 3)], L=2, P=2)
    found += windows([(1, 2, 19, 37, 3, 3)], P=0)
    found += windows(
        [(3, 11, 21, 19, 3, 3), (2, 16, 300, 70, 3, 3)]
    )  # as many images as tall units need
    differential(both(*found), terms=81)


@pytest.mark.deep
@pytest.mark.cc
def test_windows_with_more_factors_than_registers() -> None:
    found = windows([(1, 2, 13, 29, 5, 5), (1, 1, 3, 6, 5, 5)], P=2)
    seven = windows([(1, 1, 12, 61, 7, 7)], P=3)
    differential([*both(*found), Case(seven[0], True)], terms=49)


@pytest.mark.skipif("not detect().has_masks")
def test_factors_that_registers_do_not_hold_stay_in_memory() -> None:
    kernel = tcdsl.define(given(DEPTHWISE, P=2))
    text = kernel.text({"N": 1, "C": 8, "H": 8, "W": 13, "KH": 5, "KW": 5})
    assert "[stencil 4x1]" in text
    assert text.count("tc_fence();") == 2 * 7  # eight rows are read for four, inside and at borders
    assert " h0 = " not in text


def test_units_leave_no_rest_that_is_less_than_a_block() -> None:
    """Else rows at borders would go one by one: 26 of them in blocks of 4, of few images."""
    sizes = {"N": 1, "C": 3, "H": 26, "W": 7, "KH": 5, "KW": 5}
    text = tcdsl.define(given(DEPTHWISE, P=2)).text(sizes)
    assert "[stencil 4x1]" in text
    assert text.count("step = h + 4 - h_at;") == 2


@pytest.mark.cc
@pytest.mark.skipif("detect().has_masks")
def test_where_masks_are_slow_no_store_has_one_and_pairs_stay_woven() -> None:
    text = tcdsl.define(MAX).text({"N": 1, "C": 2, "H": 13, "W": 37})
    assert "tc_storet_" not in text
    assert "tc_load2w_" in text


@pytest.mark.cc
@pytest.mark.skipif("detect().has_masks")
def test_where_masks_are_slow_no_window_is_loaded_under_one() -> None:
    sizes = {"N": 2, "C": 2, "H": 13, "W": 37}
    window = {"KH": 3, "KW": 3}
    for text in (DEPTHWISE, given(DEPTHWISE, S=2), MAX, given(MAX, S=1)):
        found = tcdsl.define(text).text(sizes | (window if "KH" in text else {}))
        assert re.search(r"tc_near_4\([^;]*, 37, \d\d?\)", found)  # of each line what lanes read
        assert not re.search(r"tc_load(m|f|2f|2wf|r)_", found)
    cases = windows(
        [(3, 2, 3, 9, 3, 3), (1, 1, 1, 17, 3, 3), (2, 1, 5, 8, 3, 3), (1, 1, 2, 3, 3, 3)]
    )
    cases.append(problem(MAX, special(2, 3, 5, 21)))
    with ExitStack() as stack:
        held = [stack.enter_context(between_pages(p, "after")) for p in cases]
        differential([Case(p, exact=False) for p in held], terms=9)


@pytest.mark.skipif("detect().has_masks")
def test_where_a_vector_is_half_a_line_many_channels_come_before_the_next_pixels() -> None:
    def loops(channels: int) -> list[str]:
        sizes = {"N": 1, "C": channels, "H": 4, "W": 6, "KH": 1, "KW": 2}
        text = tcdsl.define(given(LAST)).text(sizes)
        return re.findall(r"for \(tc_i64 (\w+) =", text)

    assert loops(64)[-1].startswith("c")
    assert loops(16)[-1].startswith("w")


@pytest.mark.deep
@pytest.mark.cc
def test_channels_last_and_more_channels() -> None:
    found = [
        problem(given(LAST, S=s), floats(n, h, w, c), floats(c, 3, 3))
        for n, h, w, c, s in (
            (2, 6, 7, 16, 1), (1, 9, 8, 21, 2), (1, 3, 5, 40, 1), (1, 2, 3, 1, 1),
            (2, 3, 5, 64, 1), (1, 5, 4, 75, 1), (1, 5, 6, 130, 2), (1, 1, 2, 72, 1),
        )
    ]  # fmt: skip
    found.append(problem(MULTIPLIED, floats(2, 3, 6, 19), floats(3, 2, 3, 3)))
    assert is_stencil(found[0], exact=True)
    differential(both(*found), terms=9)


@pytest.mark.cc
def test_the_only_window_of_an_image_is_a_row() -> None:
    whole = problem(given(POOL, K=5), special(2, 19, 5, 5))
    apart = problem(given(POOL, K=3, S=3), special(1, 2, 4, 70))
    assert not is_stencil(whole, exact=True)
    assert is_stencil(apart, exact=True)
    differential([Case(whole, exact=True), Case(apart, exact=True)], terms=25)


@pytest.mark.wide
@pytest.mark.cc
def test_pools_keep_nan_and_infinities() -> None:
    shapes = [(2, 2, 11, 19), (1, 1, 4, 70), (1, 3, 1, 1), (0, 1, 5, 5), (1, 2, 33, 34)]
    found = [problem(text, special(*s)) for s in shapes for text in (MAX, MIN)]
    found += [problem(given(MAX, K=5, S=1, P=2), special(1, 2, 9, 23))]
    found += [problem(POOL, special(1, 2, 9, 38)), problem(given(POOL, K=3), special(1, 1, 7, 66))]
    found += [problem(PRODUCT, floats(6, 21)), problem(POWERS, floats(2, 9, 41))]
    found += [problem(MEAN, floats(1, 2, 7, 35)), problem(MEAN, special(2, 1, 1, 3))]
    assert all(is_stencil(p, exact=e) for p in found[:2] for e in (True, False))
    differential(both(*found), terms=9)


def ties(*shape: int) -> Any:
    """Return floats of which many are equal, both zeros, NaN and infinities among them."""
    a = RNG.integers(-2, 3, shape).astype(np.float32)
    a[a == 0] *= RNG.choice((-1, 1), (a == 0).sum())
    a.reshape(-1)[7::23] = np.nan
    a.reshape(-1)[3::19] = -np.inf
    return a


@pytest.mark.wide
@pytest.mark.cc
def test_places_of_extremes() -> None:
    shapes = [(2, 11, 19), (1, 4, 70), (1, 1, 1), (0, 5, 5), (1, 33, 34)]
    few = [t.replace("argmax", "argmin").replace("-inf", "inf") for t in (PLACE, FOUND)]
    texts = [PLACE, FOUND, few[0], given(PLACE, S=1), given(FOUND, K=2, P=0)]
    found = [problem(t, ties(*s)) for s in shapes for t in texts]
    found += [problem(NEAREST, ties(n)) for n in (1, 37, 400)]
    for name, dtype in (("double", np.float64), ("int32", np.int32), ("float16", np.float16)):
        for text in (PLACE, FOUND):
            data = (9 * floats(1, 9, 40)).astype(dtype)
            typed = text.replace("float(", f"{name}(").replace("-inf", "-3")
            found.append(problem(typed, data))
    assert all(is_stencil(p, exact=e) for p in found[:5] for e in (True, False))
    differential(both(*found))


@pytest.mark.cc
@sampled("runs", [False, True], keep=1)
def test_places_in_an_image_of_any_size_have_narrow_lanes_up_to_a_size(runs: bool) -> None:
    def groups(p: Problem) -> str:
        spec, host = spec_of(p, exact=False), detect()
        config, regime = compiler.generic_choice(p.program, spec, host, p.sizes)
        assert regime.holds(p.sizes)
        return str(config)

    usual, wide = (problem(FOUND, ties(1, 3, w)) for w in ((1 << 14) - 1, 1 << 14))
    assert "g1." not in groups(usual)
    assert "g1." in groups(wide)
    if runs:
        differential([Case(p, exact=False) for p in (usual, wide, problem(FOUND, ties(2, 11, 19)))])


@pytest.mark.deep
@pytest.mark.cc
def test_windows_over_the_same_points_are_one_nest() -> None:
    def nests(p: Problem) -> set[str]:
        spec, host = spec_of(p, exact=True), detect()
        config = compiler.default_config(p.program, spec, host, p.sizes)
        return {form for _, form in compiler.describe(p.program, spec, config, host, p.sizes)}

    found = [problem(FOUND, ties(2, 9, 33)), problem(MOMENTS, floats(9, 33))]
    assert all(len(nests(p)) == 1 for p in found)
    differential(both(*found), terms=20)


def test_conditions_that_are_no_bounds_stand_inside_of_those_that_are() -> None:
    """What a condition reads is read behind its bounds; what no bound proves inside is refused."""
    text = """def f(float(M) A, float(N) B) -> (float(N) O) {
      O(i) = i < M && A(i) > 0 && i + 1 < N ? B(i + 1) : 0 where i in 0:N }"""
    p = problem(text, floats(30), floats(40))
    assert is_stencil(p, exact=True)
    refused = problem(text.replace("i + 1 < N", "(i + 1) * 2 < 2 * N"), floats(30), floats(40))
    assert not is_stencil(refused, exact=True)


@pytest.mark.deep
@pytest.mark.cc
def test_neighbours_of_points() -> None:
    found = [problem(LINE, floats(n)) for n in (0, 1, 2, 15, 16, 17, 5003)]
    found += [problem(HEAT, special(h, w), 0.25) for h, w in ((1, 1), (3, 15), (40, 33), (0, 4))]
    found += [
        problem(TURNS, floats(13, 37), 0.2),
        problem(SOLID, floats(4, 5, 20), floats(3, 3, 3)),
    ]
    found += [problem(BAND, floats(9, 35)), problem(TURNED, floats(50), floats(5))]
    found += [problem(PLACED, floats(37))]
    cases = both(*found)
    for exact in (True, False):
        p = problem(ADDED, floats(7, 18), floats(3, 3), outs=[floats(7, 18)])
        cases.append(Case(p, exact))
    assert all(is_stencil(p, exact=True) for p in found[2:4])
    differential(cases, terms=27)


def test_what_is_larger_than_a_cache_costs_more_a_point() -> None:
    machine = replace(detect(), l2_bytes=1 << 20)
    text = "def f(float(N) A, float(N) B) -> (float(N, 2) O) { O(i, 0) = A(i)  O(i, 1) = B(i) }"
    costs = []
    for n in (1 << 17, (1 << 17) + 1):  # points of eight bytes each
        p = problem(text, np.zeros(n, np.float32), np.zeros(n, np.float32))
        spec = spec_of(p, exact=True)
        config = compiler.default_config(p.program, spec, machine, p.sizes)
        emitted = compiler.emit_c(compiler.lower(p.program, spec, config, machine, p.sizes, "f"))
        assert "[stencil" in emitted
        costs.append(float(re.findall(r"cost_ns\[0\] = ([0-9.]+)", emitted)[0]))
    assert costs[1] > 2 * costs[0]


@pytest.mark.deep
@pytest.mark.cc
def test_types() -> None:
    def typed(text: str, dtype: Any, name: str, *shapes: tuple[int, ...]) -> Problem:
        data = [(8 * floats(*s)).astype(dtype) for s in shapes]
        return problem(text.replace("float(", f"{name}("), *data)

    found = []
    for dtype, name in (
        (np.float64, "float64"),
        (np.float16, "float16"),
        (ml_dtypes.bfloat16, "bfloat16"),
        (np.int32, "int32"),
        (np.int64, "int64"),
        (np.int8, "int8"),
        (np.uint8, "uint8"),
        (np.int16, "int16"),
    ):
        found.append(typed(DEPTHWISE, dtype, name, (1, 2, 7, 21), (2, 3, 3)))
        text = POOL if np.dtype(dtype).kind in "iu" else MAX
        found.append(typed(text, dtype, name, (1, 2, 9, 40)))
    differential(both(*found), terms=9)


@pytest.mark.wide
@pytest.mark.cc
def test_operands_of_any_strides() -> None:
    wide = floats(2, 2, 9, 80)
    turned = np.ascontiguousarray(wide.transpose(3, 2, 1, 0)).transpose(3, 2, 1, 0)
    still = np.broadcast_to(floats(2, 2, 9, 1), (2, 2, 9, 40))
    out = np.full((2, 2, 9, 100), 7, np.float32)[..., 5:45]
    k = floats(2, 3, 3)
    found = [
        problem(DEPTHWISE, i, k) for i in (wide[..., ::2], turned, still, wide[:, :, ::-1, ::-1])
    ]
    found.append(problem(DEPTHWISE, wide[..., 3:43], k[:, ::-1, ::-1], outs=[out]))
    found.append(problem(MAX, wide[..., ::-2]))
    differential(both(*found), terms=9)


@pytest.mark.deep
@pytest.mark.cc
@pytest.mark.parametrize("width", [32, 16])
def test_narrower_vectors(width: int) -> None:
    cc, machine = narrower(width)
    found = [*windows([(1, 2, 7, 21, 3, 3)], S=2), problem(MAX, special(1, 2, 9, 40))]
    found += [
        problem(HEAT, floats(6, 19), 0.1),
        problem(LAST, floats(1, 5, 6, 11), floats(11, 3, 3)),
    ]
    found += [problem(given(MAX, K=4, S=n), special(1, 1, 9, 45)) for n in (3, 4)]
    found += [problem(PLACE, ties(1, 9, 40)), problem(FOUND, ties(1, 7, 21))]
    half = floats(1, 2, 7, 21).astype(np.float16)
    text = MAX.replace("float(", "float16(")
    found.append(problem(text, half))
    differential(both(*found), 9, cc, machine)


@pytest.mark.deep
@pytest.mark.cc
def test_every_choice_of_rows_and_vectors() -> None:
    found = [*windows([(1, 2, 9, 53, 3, 3)]), problem(MAX, special(1, 1, 15, 70))]
    configs = [
        Config.of({"g0.form": "stencil", "g0.rows": r, "g0.vectors": v})
        for r in (1, 2, 5)
        for v in (1, 2)
    ]
    cases = [Case(p, True, c) for p in found for c in configs]
    cases += [Case(found[1], False, c) for c in configs]
    parted = [Config.of({"g0.form": "stencil", "g0.parts": n}) for n in (1, 2, 4)]
    differential([*cases, *(Case(p, True, c) for p in found for c in parted)], terms=9)


@pytest.mark.wide
@pytest.mark.cc
@pytest.mark.parametrize("place", ["after", "before"])
def test_nothing_outside_an_operand_is_read(place: Place) -> None:
    half = floats(1, 1, 5, 35).astype(np.float16)
    found = [
        *windows([(1, 2, 7, 21, 3, 3), (1, 1, 9, 64, 3, 3)]),
        *windows([(1, 1, 16, 65, 3, 3), (1, 1, 16, 64, 2, 2)], S=2, P=0),
        *windows([(1, 2, 3, 5, 5, 5), (2, 1, 1, 9, 3, 5)], P=2),
        *windows([(1, 2, 9, 21, 5, 3)], S=2, P=2),
        problem(MAX, special(1, 1, 9, 40)),
        problem(POOL, special(1, 1, 8, 64)),
        problem(given(POOL, K=3, S=3), special(1, 1, 9, 66)),
        problem(given(MAX, K=5, S=3, P=2), special(1, 1, 9, 73)),
        problem(given(MAX, K=3, S=4, P=1), special(1, 1, 6, 90)),
        problem(LAST, floats(1, 4, 5, 19), floats(19, 3, 3)),
        problem(LAST, floats(1, 4, 5, 16), floats(16, 3, 3)),
        problem(HEAT, floats(5, 33), 0.1),
        problem(BAND, floats(9, 35)),
        *(problem(given(MAX, S=n).replace("float(", "float16("), half) for n in (1, 2)),
    ]
    with ExitStack() as stack:
        held = [stack.enter_context(between_pages(p, place)) for p in found]
        differential(both(*held), terms=9)


@pytest.mark.cc
def test_windows_of_halves_by_steps_of_two_read_vectors() -> None:
    rows = "where y in 0 : H / 2, x in 0 : W / 2, i in 0:3, j in 0:3"
    text = f"""def f(T(H,W) I) -> (most, sum) {{
  most(y, x) max=! pad(I(2 * y + i - 1, 2 * x + j - 1), -inf) {rows}
  sum(y, x) +=! pad(I(2 * y + i - 1, 2 * x + j - 1), 1.5) {rows}
}}"""
    found = [
        problem(text.replace("T(", f"{np.dtype(t)}("), ties(*shape).astype(t))
        for t, shape in ((np.float16, (4, 70)), (ml_dtypes.bfloat16, (4, 71)))
    ]
    differential(both(*found), terms=9)
    spec, host = spec_of(found[0], exact=True), detect()
    config = compiler.default_config(found[0].program, spec, host, found[0].sizes)
    lowered = compiler.lower(found[0].program, spec, config, host, found[0].sizes, "f")
    emitted = compiler.emit_c(lowered)
    assert "tc_load2" in emitted
    assert "tc_loadx" not in emitted
