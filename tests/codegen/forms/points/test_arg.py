"""Arg reductions: the place of an extreme, the first of equals, the first NaN."""

from __future__ import annotations

import re

import ml_dtypes
import numpy as np
import pytest

from tcdsl.codegen.choose import compiler
from tcdsl.codegen.forms.points import arg_vectors
from tcdsl.codegen.machine.config import Config
from tcdsl.codegen.machine.cpu import Machine
from tests.codegen.harness import Case, Problem, differential, expected, problem, spec_of
from tests.tiers import sampled

pytestmark = pytest.mark.cc

MACHINE = Machine("avx2", 32, 16, 32768, 8, 1 << 20, 1 << 25, 4, 3.0, 2)
RNG = np.random.default_rng(5)
ROWS = "def f(T(B,N) X) -> (A) { A(b) argmax=! X(b, n) }"


def held(p: Problem) -> None:
    differential([Case(p, exact=e) for e in (True, False)])


@pytest.mark.parametrize("op", ["argmin=!", "argmax=!"])
@sampled("shape", [(3, 130), (5, 7), (1, 1), (0, 4), (4, 0)], keep=2)
def test_rows(op: str, shape: tuple[int, int]) -> None:
    x = RNG.integers(-3, 4, shape).astype(np.float32)
    held(problem(ROWS.replace("T", "float").replace("argmax=!", op), x))


def test_any_number_of_chains_finds_the_same() -> None:
    narrow, wide = (
        problem(ROWS.replace("T", kind), RNG.integers(0, 9, (3, 150)).astype(dtype))
        for kind, dtype in (("float", np.float32), ("uint8", np.uint8))
    )
    cases = [Case(narrow, True, Config.of({"g0.vectors": n})) for n in (1, 8)]
    differential([*cases, *(Case(wide, True, Config.of({"g0.lanes": n})) for n in (8, 64))])


@sampled("kind", ["uint8", "int64", "double", "float16", "bool"], keep=2)
def test_types(kind: str) -> None:
    dtype = {"double": "float64"}.get(kind, kind)
    x = RNG.integers(0, 2, (6, 11)).astype(dtype)
    held(problem(ROWS.replace("T", kind), x))


def test_nan_wins_and_the_first_of_it() -> None:
    x = np.array([[1, np.nan, 9, np.nan], [np.inf, 2, np.inf, 3], [np.nan, 1, 2, 3]], np.float32)
    p = problem(ROWS.replace("T", "float"), x)
    held(p)
    assert expected(p)[0].tolist() == [1, 0, 0]


def test_several_reduced_indices_give_a_row_major_position() -> None:
    text = (
        "def f(float(B,N,M) X) -> (A, P) { A(b) argmax=! X(b, n, m)  P(b, m) argmin=! X(b, n, m) }"
    )
    held(problem(text, RNG.integers(-3, 4, (3, 5, 4)).astype(np.float32)))


def test_one_reduced_index_gives_its_own_value() -> None:
    text = "def f(float(N) X) -> (A) { A argmax=! X(j + 3) where j in -3:N-3 }"
    p = problem(text, np.array([0, 5, 1, 7, 2], np.float32))
    held(p)
    assert expected(p)[0] == 0


def test_the_position_can_be_used() -> None:
    text = """def f(float(B,N) X) -> (A, V) {
        A(b) argmax=! X(b, n)
        V(b) = X(b, A(b))
    }"""
    held(problem(text, RNG.normal(size=(7, 9)).astype(np.float32)))


def test_strided_operands() -> None:
    x = RNG.integers(-3, 4, (7, 12)).astype(np.float32)
    for view in (x.T, x[:, ::3], x[::-1, ::-1]):
        held(problem(ROWS.replace("T", "float"), view))


def form(p: Problem) -> str:
    spec = spec_of(p, exact=True)
    config = compiler.default_config(p.program, spec, MACHINE, p.sizes)
    return compiler.describe(p.program, spec, config, MACHINE, p.sizes)[-1][1]


@sampled("op", ["argmin=!", "argmax=!"], keep=1)
@sampled("kind", ["float", "double", "float16", "int64", "uint8"], keep=1)
def test_long_rows_go_in_lanes(op: str, kind: str) -> None:
    dtype = {"float": "float32", "double": "float64"}.get(kind, kind)
    for width in (64, 97, 1000):
        x = RNG.integers(0, 9, (3, width)).astype(dtype)
        p = problem(ROWS.replace("T", kind).replace("argmax=!", op), x)
        assert "lanes" in form(p)
        held(p)


@pytest.mark.parametrize("kind", ["int8", "uint16"])
def test_extremes_of_small_integers_lie_in_lanes_as_wide_as_places(kind: str) -> None:
    info = np.iinfo(kind)
    x = RNG.integers(info.min, info.max, (3, 97), dtype=kind, endpoint=True)
    x[1] = info.min
    p = problem(ROWS.replace("T", kind), x)
    assert "tc_i32 extremes[" in emitted(p, exact=True)
    held(p)


def test_of_lanes_the_first_of_equals_and_the_first_nan_win() -> None:
    x = np.full((8, 131), -np.inf, np.float32)
    x[1, [130, 70, 33]] = 5
    x[2, [129, 40, 90]] = np.nan
    x[2, 3] = np.inf
    x[3] = np.nan
    x[4, [31, 32]] = -0.0, 0.0
    x[5, 130] = 1
    x[6, ::-1] = np.arange(131)
    p = problem(ROWS.replace("T", "float"), x)
    assert "lanes" in form(p)
    held(p)
    assert expected(p)[0].tolist() == [0, 33, 40, 0, 31, 130, 0, 0]


@pytest.mark.deep
def test_of_lanes_along_the_last_of_several_indices() -> None:
    text = """def f(float(B,N,M) X, float(N) w) -> (A) {
        A(b) argmin=! X(b, n, m - 2) * w(n) where m in 2:M+2, n in 0:N
    }"""
    x = RNG.integers(-3, 4, (3, 5, 75)).astype(np.float32)
    p = problem(text, x, RNG.normal(size=5).astype(np.float32))
    assert "lanes" in form(p)
    held(p)
    strided = problem(ROWS.replace("T", "float"), x[:, ::-2, :].reshape(9, 75))
    held(strided)
    assert "nest" in form(problem(ROWS.replace("T", "float"), x[:, 0, ::-1]))


def emitted(p: Problem, *, exact: bool) -> str:
    spec = spec_of(p, exact=exact)
    config = compiler.default_config(p.program, spec, MACHINE, p.sizes)
    lower = compiler.lower if exact else compiler.lower_generic
    return compiler.emit_c(lower(p.program, spec, config, MACHINE, p.sizes, "arg"))


def hard_rows(kind: str, width: int) -> np.ndarray:
    """Return rows with ties, ends of the type in first and last places, infinities and NaN."""
    dtype = np.dtype({"float": "float32", "double": "float64"}.get(kind, kind))
    x = RNG.integers(-2, 3, (24, width)).astype(dtype)
    if dtype.kind == "f":
        low, high = -np.inf, np.inf
        for r in range(12, 18):
            x[r, RNG.integers(0, width, 1 + r % 3)] = np.nan
        x[18] = np.nan
    else:
        low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    x[0], x[1] = low, high
    x[2, 0], x[3, -1], x[4, -1] = low, high, low
    for r in range(5, 12):
        x[r, RNG.integers(0, width, 3)] = (low, high)[r % 2]
    x[19, width // 2 :] = low
    x[20, : width // 2] = low
    return x


@sampled("kind", ["float", "int32", "double", "int64", "float16", "bfloat16"], keep=1, wide=3)
@sampled("width", [67, 16, 17, 33, 64, 80, 130, 1000], keep=1, wide=3)
def test_rows_in_vectors_have_the_first_place(kind: str, width: int) -> None:
    if kind == "bfloat16":
        x = hard_rows("float", width).astype(ml_dtypes.bfloat16)
    else:
        x = hard_rows(kind, width)
    text = "def f(T(B,N) X) -> (A, C) { A(b) argmax=! X(b, n)  C(b) argmin=! X(b, n) }"
    p = problem(text.replace("T", kind), x)
    for exact in (True, False):
        assert "tc_above_v" in emitted(p, exact=exact)
    held(p)


def test_a_row_of_any_length_has_as_many_chains_as_one_of_its_length() -> None:
    p = problem(ROWS.replace("T", "float"), hard_rows("float", 33))
    text = emitted(p, exact=False)
    for count in (1, 2, 4):
        joined = "tc_max_v8f32(" * (count - 1) + "extreme0"
        assert f"tc_hmax_v8f32({joined}" in text
    held(p)
    held(problem(ROWS.replace("T", "float"), hard_rows("float", 130)))


def test_rows_with_more_positions_than_lanes_hold_go_point_by_point(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(arg_vectors, "_MOST", 50)
    for width in (49, 50, 131):
        p = problem(ROWS.replace("T", "float"), hard_rows("float", width))
        assert "if (N < 50)" in emitted(p, exact=False)
        differential([Case(p, exact=False)])


def test_rows_of_each_length_have_a_loop_of_their_own() -> None:
    text = emitted(problem(ROWS.replace("T", "float"), hard_rows("float", 33)), exact=False)
    for _, rows in re.findall(r"^( *)for \(tc_i64 task .*?\{\n(.*?)^\1\}", text, re.S | re.M):
        assert not re.search(r"if \(N < \d", rows)
    assert text.count("for (tc_i64 task") == 4


@pytest.mark.wide
@pytest.mark.parametrize(
    "text",
    [
        "def f(float(B,N) X, float(N) w) -> (A) { A(b) argmax=! abs(X(b,n)) * w(n) - 0.5 * n }",
        "def f(float(B,N) X, float(N) w) -> (A) {A(b) argmin=! w(b) where n in 0:N, exists X(b,n)}",
        "def f(float(B,N) X, float(N) w) -> (A) {"
        " A(b) argmax=! X(b,m) > w(n) ? w(n) : X(b,n) where m in 3:5 }",
        "def f(float(B,N) X, float(N) w) -> (A) {A(b) argmax=! X(b,n-7) * w(n-7) where n in 7:N+7}",
    ],
)
def test_values_of_rows_in_vectors(text: str) -> None:
    for width in (20, 131):
        x = RNG.integers(-3, 4, (9, width)).astype(np.float32)
        held(problem(text, x, RNG.integers(-3, 4, width).astype(np.float32)))
