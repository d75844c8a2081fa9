"""What micro-kernels do beside their sums: fetch what no cache holds, and nothing else."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Literal

import numpy as np
import pytest

from tcdsl.codegen.choose import compiler
from tcdsl.codegen.forms.contraction.library import Tiles
from tcdsl.codegen.forms.contraction.problem import Term
from tcdsl.codegen.forms.contraction.register_tile import RegisterTile, Strides
from tcdsl.codegen.forms.contraction.steps import k_loop
from tcdsl.codegen.loops.loopir import Call, Vector
from tcdsl.codegen.loops.walk import all_exprs, variables
from tcdsl.codegen.machine.config import Config
from tcdsl.codegen.machine.cpu import Machine
from tcdsl.codegen.toolchain.host import detect
from tcdsl.grammar.types.dtypes import FLOAT32, FLOAT64
from tests.codegen.harness import Case, Problem, differential, problem, rand, spec_of

pytestmark = pytest.mark.cc

PANELS = Config.of({"g0.form": "contraction"})
DIRECT = Config.of({"g0.form": "contraction", "g0.method": "panel", "g0.pack_a": False})
# a machine to which nearly everything is far away
TINY = replace(detect(), l2_bytes=1 << 10, shares_ports=False)
WIDE, NARROW = (replace(TINY, registers=registers) for registers in (32, 16))
NT = "def mm({0}(M,K) A, {0}(N,K) B) -> (O) {{ O(m,n) +=! A(m,k) * B(n,k) }}"
BIAS = (
    "def run(float(M,K) A, float(N,K) B, float(N) c) -> (O) "
    "{ O(m,n) +=! A(m,k) * B(n,k)  O(m,n) = tanh(O(m,n) + c(n)) }"
)
ADDED = (
    "def run(float(M,K) A, float(K,N) B, float(M,N) C) -> (O) "
    "{ O(m,n) +=! A(m,k) * B(k,n)  O(m,n) = O(m,n) + C(m,n) }"
)
SHAPES = ((300, 101, 17), (37, 5, 130), (23, 64, 70), (1, 40, 3), (50, 0, 7), (0, 9, 9))


def product(m: int, k: int, n: int, dtype: str = "float32", tc: str = "float") -> Problem:
    return problem(NT.format(tc), rand(m, k, dtype=dtype), rand(n, k, seed=1, dtype=dtype))


def text_of(
    p: Problem, config: Config = DIRECT, *, exact: bool = True, machine: Machine = WIDE
) -> str:
    what = p.program, spec_of(p, exact=exact), config, machine, p.sizes, "k"
    return compiler.emit_c(compiler.lower(*what))


def test_what_a_pass_over_finished_tiles_reads_is_fetched_before_they_are_summed() -> None:
    a, b, c = rand(7, 96), rand(96, 9), rand(7, 9)
    text = text_of(problem(ADDED, a, b, c), Config(), exact=False)
    behind = text[text.index("tc_prefetch(e0_at") :]
    assert behind.index("tc_tile_") < behind.index("k_g0_finish(")
    bias = problem(BIAS, a, np.ascontiguousarray(b.T), c[0])
    assert "tc_prefetch" not in text_of(bias, Config(), exact=False), "a row of it stays nearby"


def test_rows_from_memory_are_fetched_a_tile_ahead() -> None:
    assert "tc_prefetch(a +" in text_of(product(300, 101, 17))
    assert "tc_prefetch(a +" not in text_of(product(2, 101, 17)), "the second level holds them"


def test_rows_that_a_batch_has_in_common_are_near_however_large_that_is() -> None:
    """What lies behind them is nobody's: addresses without memory take long to be looked up."""
    batch = "def mm(float(M,K) A, float({0}K,N) B) -> (O) {{ O(p,m,n) +=! A({1}m,k) * B(p,k,n) }}"
    common, own = batch.format("P,", ""), batch.format("P,", "p,").replace("(M,K)", "(P,M,K)")
    for text, fetches in ((common, False), (own, True)):
        a = rand(8, 16) if text == common else rand(40, 8, 16)
        p = problem(text, a, rand(40, 16, 20))
        assert ("tc_prefetch(a +" in text_of(p)) is fetches
        sizes_tell = text_of(p, PANELS, exact=False)
        assert ("&& M * K * 4 > 1024 ? K : 0" in sizes_tell) is not fetches


def test_few_registers_leave_no_time_to_fetch_rows() -> None:
    for exact in (True, False):
        text = text_of(
            product(300, 101, 17), DIRECT if exact else PANELS, exact=exact, machine=NARROW
        )
        assert not re.search(r"tc_prefetch\((a|there)\b", text)
        assert "1024 ? K : 0" not in text


def test_an_output_in_memory_is_fetched_however_short_its_sums_are() -> None:
    assert ", 5, 11, columns" in text_of(product(37, 5, 130)), "first, last, far"
    assert ", 5, 3, columns" in text_of(product(3, 5, 30))


def test_the_library_is_told_how_far_ahead() -> None:
    text = text_of(product(300, 101, 17), PANELS, exact=False)
    assert "1024 ? K : 0" in text
    assert "1024 ? 8 : 0" in text


def test_where_a_prefetch_delays_sums_long_rows_are_left_to_the_hardware() -> None:
    shared = replace(WIDE, shares_ports=True)
    assert "tc_prefetch(there" in text_of(product(300, 511, 17), machine=shared)
    assert "tc_prefetch(there" not in text_of(product(300, 512, 17), machine=shared)
    text = text_of(product(300, 101, 17), PANELS, exact=False, machine=shared)
    assert "1024 && kc * 4 < 2048 ? K : 0" in text


def test_a_product_that_fetches_ahead_is_the_references() -> None:
    differential([Case(product(37, 5, 130), exact=True, config=DIRECT)], 5, machine=TINY)


def test_steps_by_twos_are_the_references() -> None:
    shared = replace(detect(), shares_ports=True)
    problems = [product(30, depth, 70) for depth in (1, 2, 7)]
    assert "pair += 2" in text_of(problems[0], PANELS, machine=replace(WIDE, shares_ports=True))
    cases = [Case(p, exact=True, config=DIRECT) for p in problems]
    cases += [Case(p, exact=False, config=PANELS) for p in (*problems, product(30, 0, 70))]
    for machine in (shared, replace(shared, l2_bytes=1 << 10)):  # of which one fetches ahead
        differential(cases, 7, machine=machine)


def test_steps_that_fetch_b_go_one_by_one() -> None:
    """What is fetched is asked in each call; the last step of an odd depth shares their loop."""
    name = Tiles(Vector(FLOAT32, 16), 32, shares=True).name
    kernels = re.split(r"\nstatic ", compiler.emit_c(compiler.lower_library(name)))
    large = [x for x in kernels if "pair += 2" in x]
    assert large
    for x in large:
        assert "done = b_ahead != 0 ? 0 : depth & -2;" in x
        twos, ones = x.split("k = done; k < depth; k++")
        assert "tc_prefetch(b0" not in twos
        assert "tc_prefetch(b0" in ones
        assert "tc_prefetch(a" in ones


def test_steps_by_twos_fetch_all_rows_of_the_next_tile_in_a_line() -> None:
    """By additions: each row once before the line ends, of tall tiles two at a time."""
    for name, lanes in ((FLOAT32, 16), (FLOAT64, 8)):
        library = Tiles(Vector(name, lanes), 32, shares=True).name
        text = compiler.emit_c(compiler.lower_library(library))
        kernels = [x for x in re.split(r"\nstatic ", text) if "pair += 2" in x]
        assert kernels
        for x in kernels:
            tile = re.search(r"tile_(\d+)x", x)
            assert tile is not None
            rows = int(tile[1])
            asked, plain = x.split("pair < stop")[1].split("pair < done")
            fetched = asked.count("tc_prefetch(there")
            assert (fetched - 1) * lanes // 2 < rows <= fetched * lanes // 2
            assert "there = there + a_ahead_row;" in asked
            assert "tc_prefetch" not in plain[: plain.index("k = done")]


def test_rows_of_narrow_tiles_are_reached_from_one_address_in_each_step() -> None:
    name = Tiles(Vector(FLOAT32, 16), 32, shares=True).name
    kernels = re.split(r"\nstatic ", compiler.emit_c(compiler.lower_library(name)))
    vectors = set()
    for x in kernels:
        if "pair += 2" in x:
            tile = re.search(r"tile_\d+x(\d)", x)
            assert tile is not None
            vectors.add(int(tile[1]))
            assert ("tc_pin_address(a0);" in x) is (int(tile[1]) <= 2)
    assert vectors >= {1, 2, 3}


@pytest.mark.parametrize("asks", ["b", "ab"])
def test_steps_by_twos_fetch_rows_only_where_they_are_asked_for(asks: Literal["b", "ab"]) -> None:
    """12 rows by one vector are the only tile of 16 registers that goes by twos."""
    tile = RegisterTile(12, 1, 8, FLOAT32, pairs=True)
    loop = k_loop(tile, Strides(asks=asks), "product")
    fetched = {
        name
        for e in all_exprs(loop)
        if isinstance(e, Call) and e.function == "tc_prefetch"
        for name in variables(e)
    }
    assert "b0" in fetched
    assert ("there" in fetched) is ("a" in fetched) is (asks == "ab")


@pytest.mark.parametrize("kind", [("square", "6x4"), ("product", "13x2"), ("product", "8x1")])
def test_steps_without_idle_slots_have_a_loop_that_fetches_nothing(kind: tuple[Term, str]) -> None:
    """Squares of differences are twice the work, narrow tiles have little of it."""
    term, tile = kind
    name = Tiles(Vector(FLOAT32, 16), 32, term=term).name
    kernels = re.split(r"\nstatic ", compiler.emit_c(compiler.lower_library(name)))
    (found,) = (x for x in kernels if f"tile_{tile}(const" in x)
    asked, plain = found.split("if (a_ahead != 0 || b_ahead != 0) {")[1].split("} else {")[:2]
    assert "tc_prefetch(b0" in asked
    assert "tc_prefetch(b0" not in plain[: plain.index("flags")]


def order(text: str) -> list[str]:
    """Return which of a tile's rows and columns are walked outside, in each walk."""
    return re.findall(r"for \(tc_i64 ([ij]) = 0", text[text.index("_g0_panel(const") :])[::2]


def test_rows_are_outside_where_the_second_level_keeps_up_with_all_panels() -> None:
    keeps_up = replace(WIDE, l2_bytes=1 << 15, l2_keeps_up=True)
    p = product(30, 7, 150)
    assert order(text_of(p, machine=keeps_up)) == ["i"]
    assert order(text_of(p, machine=replace(keeps_up, l2_keeps_up=False))) == ["j"]
    assert order(text_of(product(30, 300, 150), machine=keeps_up)) == ["j"], "too deep for it"
    stays = Config.of({**dict(DIRECT.items), "g0.pack_b": False})
    nn = problem(
        NT.replace("B(n,k)", "B(k,n)").replace("(N,K) B", "(K,N) B").format("float"),
        rand(30, 7),
        rand(7, 150),
    )
    assert order(text_of(nn, stays, machine=keeps_up)) == ["j"], "it may come from memory"
    sizes_tell = text_of(p, PANELS, exact=False, machine=keeps_up)
    assert "nc * kc * 4 <= 8192" in sizes_tell
    cases = [Case(p, exact=True, config=DIRECT), Case(p, exact=False, config=PANELS)]
    cases += [Case(product(30, 300, 150), exact=False, config=PANELS)]
    differential(cases, 300, machine=replace(detect(), l2_bytes=1 << 15, l2_keeps_up=True))


@pytest.mark.wide
def test_what_is_fetched_changes_no_result() -> None:
    problems = [product(*shape) for shape in SHAPES]
    problems += [product(70, 33, 21, "float64", "double")]
    m, k, n = 70, 39, 33
    problems += [problem(BIAS, rand(m, k), rand(n, k, seed=1), rand(n))]
    cases = [Case(p, exact, PANELS) for p in problems for exact in (True, False)]
    cases += [Case(p, exact=True, config=DIRECT) for p in problems if p.sizes["M"] > 1]
    differential(cases, 101, machine=TINY)


@pytest.mark.deep
def test_rows_fetched_a_tile_ahead_change_no_result() -> None:
    cases = [Case(product(*s), exact=True, config=DIRECT) for s in SHAPES if s[0] > 1]
    differential(cases, 101, machine=WIDE)


def test_strides_of_any_sign_are_fetched_from() -> None:
    a, b = rand(140, 78)[::-2], rand(40, 39, seed=1)
    differential(
        [Case(problem(NT.format("float"), x, b), exact, PANELS) for exact in (True, False)
         for x in (a[:, :39], a[:, ::2])],
        39, machine=TINY,
    )  # fmt: skip
