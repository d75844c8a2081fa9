"""Both ways of the form `scatter`, any number of ranges: rows of tasks, copies of parts."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tcdsl.codegen.choose import compiler
from tcdsl.codegen.forms.points import scatter_copies
from tcdsl.codegen.machine.config import Config
from tcdsl.codegen.machine.cpu import Machine
from tcdsl.codegen.toolchain.cc import probe
from tcdsl.codegen.toolchain.host import detect
from tcdsl.grammar.text.errors import BoundsError
from tcdsl.grammar.types.dtypes import BY_NAME
from tests.codegen.harness import (
    Case,
    Problem,
    differential,
    expected,
    problem,
    run_cases,
    spec_of,
)
from tests.tiers import sampled

pytestmark = pytest.mark.cc
MACHINE = Machine("avx2", 32, 16, 32768, 8, 1 << 20, 1 << 25, 4, 3.0, 2)

BAG = """def f(int32(B,L) I, float(B,D) g, float(B,L) w, float(N,M) E) -> (float(N,D) dE) {
    dE(I(b,l), d) +=! g(b, d) * w(b, l)
}"""


def numbers(rng: np.random.Generator, *shape: int) -> Any:
    return rng.integers(-4, 5, shape).astype(np.float32)


def indices(rng: np.random.Generator, n: int, *shape: int) -> Any:
    return rng.integers(0, max(1, n), shape).astype(np.int32)


IN_ORDER, BY_ROWS, TO_COPIES = (Config.of({"g0.ranges": n}) for n in (1, 4, 0))
IN_TURN = (IN_ORDER, BY_ROWS)
EVERY = (IN_ORDER, BY_ROWS, TO_COPIES)


def ways(p: Problem, *configs: Config, exact: tuple[bool, ...] = (True, False)) -> list[Case]:
    return [Case(p, e, c) for c in configs for e in exact]


def bag(rng: np.random.Generator, b: int, length: int, n: int, d: int) -> Problem:
    return problem(
        BAG, indices(rng, n, b, length), numbers(rng, b, d), numbers(rng, b, length),
        np.zeros((n, 1), np.float32),
    )  # fmt: skip


ENDS = [(0, 3, 4, 4), (3, 4, 4, 0)]


@sampled("sizes", [(7, 5, 3, 17), (300, 3, 5, 4), (1, 600, 2, 1), *ENDS], keep=1)
def test_a_bag_of_embeddings_every_way(
    sizes: tuple[int, int, int, int], rng: np.random.Generator
) -> None:
    # The ends share the size-generic executables: there is no more to compile.
    ends = [c for s in ENDS for c in ways(bag(rng, *s), *EVERY, exact=(False,))]
    differential([*ways(bag(rng, *sizes), *EVERY), *ends])


@sampled("sizes", [(7, 11, 30), (70, 300, 3), (4, 9, 5), (6, 0, 3), (0, 5, 4)], keep=1)
def test_points_that_are_nearer_than_columns_stay_in_a_row(
    sizes: tuple[int, int, int], rng: np.random.Generator
) -> None:
    text = (
        "def f(int64(M) I, float(R,M) X, float(N) L) -> (float(R,N) O) { O(i, I(x)) +=! X(i, x) }"
    )
    rows, points, n = sizes
    p = problem(
        text, rng.integers(0, n, points), numbers(rng, rows, points), np.zeros(n, np.float32)
    )
    across = problem(text, p.args[0][::-1], numbers(rng, points, rows).T, p.args[2])
    unit = compiler.lower(p.program, spec_of(p, exact=False), IN_ORDER, MACHINE, p.sizes, "far")
    assert ("const tc_i64 i = slab" in compiler.emit_c(unit)) == (rows >= 5)
    differential([*ways(p, *IN_TURN), *ways(across, IN_ORDER, exact=(False,))])


@pytest.mark.deep
def test_any_operator_and_type(rng: np.random.Generator) -> None:
    cases = []
    for dtype in ("float", "double", "int32", "uint8", "int64"):
        for op in ("+=!", "*=!", "min=!", "max=!"):
            text = f"def f(int64(M) I, {dtype}(M) A, float(N) L) -> ({dtype}(N) H) {{"
            given = rng.integers(0, 4, 13), rng.integers(0, 4, 13), np.zeros(5, np.float32)
            p = problem(f"{text} H(I(i)) {op} A(i) }}", *given)
            cases += ways(p, BY_ROWS, TO_COPIES, exact=(False,))
    differential(cases)


def test_parts_go_to_copies_and_are_added_in_order(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scatter_copies, "_LEAST_POINTS", 8)
    monkeypatch.setattr(scatter_copies, "_POINTS_PER_ELEMENT", 1)
    text = "def f(int32(M) I, float(M) A, float(N) L) -> (float(N) H) { H(I(i)) += A(i) }"
    start = numbers(rng, 7)
    cases = []
    for m in (0, 1, 9, 100, 1001):
        p = problem(
            text, indices(rng, 7, m), numbers(rng, m), np.zeros(7, np.float32), outs=(start.copy(),)
        )
        cases += ways(p, TO_COPIES, exact=(m % 2 == 0, False))
    wanted = [expected(c.problem) for c in cases]
    for c, want in zip(cases, wanted, strict=True):
        c.problem.outs[0][...] = start  # type: ignore[index]
        np.testing.assert_array_equal(run_cases([c])[0][0], want[0])


@sampled("strided", [False, True], keep=1)
def test_one_scatter_for_each_slab(strided: bool, rng: np.random.Generator) -> None:
    """Gradient of a max pool: where the largest stood was kept."""
    text = """def f(int64(N,C,Y,X) P, float(N,C,Y,X) g, float(N,C,H,W) I) -> (float(N,C,H,W) d) {
        d(n, c, P(n,c,y,x) / W, P(n,c,y,x) % W) +=! g(n,c,y,x)
    }"""
    place = rng.integers(0, 30, (2, 3, 3, 4))
    given = place, numbers(rng, 2, 3, 3, 4), np.zeros((2, 3, 5, 6), np.float32)
    apart = np.zeros((2, 3, 5, 12), np.float32)[..., ::2], np.zeros((2, 3, 6, 5), np.float32).mT
    configs, kinds = (IN_TURN, (True, False)) if strided else ((BY_ROWS,), (False,))
    problems = [problem(text, *given, outs=(x,)) for x in (apart if strided else (None,))]
    differential([c for p in problems for c in ways(p, *configs, exact=kinds)])
    for value in (-1, 30):
        place[1, 2, 0, 1] = value
        for case in ways(problem(text, *given), *configs, exact=(False,)):
            with pytest.raises(BoundsError, match=f"operand 3 dim 2: {value // 6} of 5"):
                run_cases([case])


def test_slabs_that_are_neighbours_go_side_by_side_in_order(rng: np.random.Generator) -> None:
    text = """def f(int64(N,M,D) I, float(N,M,D) A, float(K) L) -> (float(N,K,D) H) {
        H(n, I(n,m,d), d) +=! A(n,m,d)
    }"""
    at, a = rng.integers(0, 5, (2, 9, 70)), numbers(rng, 2, 9, 70)
    want = np.zeros((2, 5, 70), np.float32)
    for n, m, d in np.ndindex(*a.shape):
        want[n, at[n, m, d], d] += a[n, m, d]
    cases = ways(problem(text, at, a, np.zeros(5, np.float32)), *IN_TURN)
    for (got,) in run_cases(cases):
        np.testing.assert_array_equal(got, want)
    at[1, 2, 68] = 5
    with pytest.raises(BoundsError, match="operand 3 dim 1: 5 of 5"):
        run_cases(ways(problem(text, at, a, np.zeros(5, np.float32)), *IN_TURN, exact=(False,)))


def test_what_is_put_into_rows_is_a_scatter_whose_last_points_stay(
    rng: np.random.Generator,
) -> None:
    text = """def f<T>(int64(N,K) I, T(N,K) A, T(N,M) X) -> (T(N,M) O, T(M,K) P) {
        O(n, m) = X(n, m)
        O(n, I(n,k)) = A(n,k)
        P(I(n,k), k) = A(n,k)
    }"""
    at, a, x = rng.integers(0, 5, (9, 70)), numbers(rng, 9, 70), numbers(rng, 9, 5)
    put, side = x.copy(), np.zeros((5, 70), np.float32)
    for n, k in np.ndindex(*a.shape):
        put[n, at[n, k]] = side[at[n, k], k] = a[n, k]
    configs = [Config.of({f"g{i}.ranges": n for i in range(3)}) for n in (1, 4)]
    for dtype in ("float32", "float16", "bool"):
        p = problem(text, at, a.astype(dtype), x.astype(dtype), T=BY_NAME[dtype])
        shown = compiler.describe(p.program, spec_of(p, exact=True), Config(), detect(), p.sizes)
        assert sum("scatter by rows" in form for _, form in shown) == 2
        for got in run_cases(ways(p, *configs)):
            for o, want in zip(got, (put, side), strict=True):
                np.testing.assert_array_equal(o, want.astype(o.dtype), err_msg=dtype)


@sampled("exact", [(False,), (True,)], ids=["generic", "exact"], keep=1)
def test_dimensions_that_no_index_tells_alone_are_filled_before(
    exact: tuple[bool, ...], rng: np.random.Generator
) -> None:
    text = """def f(int32(M) I, float(M,D) A, float(N) L) -> (float(N,9) H) {
        H(I(i), 2 * d + 1) +=! A(i, d)
    }"""
    p = problem(text, indices(rng, 5, 9), numbers(rng, 9, 4), np.zeros(5, np.float32))
    differential(ways(p, *EVERY, exact=exact))


@pytest.mark.deep
def test_a_diagonal_is_filled_before(rng: np.random.Generator) -> None:
    diagonal = """def f(int32(M,B) I, float(M,B) A, float(N) L) -> (float(M,M,N) H) {
        H(i, i, I(i,b)) +=! A(i, b)
    }"""
    p = problem(diagonal, indices(rng, 5, 4, 9), numbers(rng, 4, 9), np.zeros(5, np.float32))
    differential(ways(p, *IN_TURN))


@pytest.mark.wide
def test_values_that_are_reduced_and_rows_of_two_subscripts(rng: np.random.Generator) -> None:
    text = """def f(int32(M,2) I, float(M,K,D) A, float(N,Q) L) -> (float(N,D,Q) H) {
        H(I(i,0), d, I(i,1)) +=! A(i, k, d)
    }"""
    p = problem(text, indices(rng, 4, 20, 2), numbers(rng, 20, 3, 5), np.zeros((4, 6), np.float32))
    differential(ways(p, *EVERY), terms=60)


@pytest.mark.deep
def test_targets_of_any_stride(rng: np.random.Generator) -> None:
    text = "def f(int32(M) I, float(M,D) A, float(N) L) -> (float(N,D) H) { H(I(i), d) +=! A(i,d) }"
    given = indices(rng, 6, 20), numbers(rng, 20, 5), np.zeros(6, np.float32)
    outs = (
        np.zeros((5, 6), np.float32).T,
        np.zeros((6, 15), np.float32)[:, 2::3],
        np.zeros((6, 5), np.float32)[::-1, ::-1],
    )
    differential([c for out in outs for c in ways(problem(text, *given, outs=(out,)), *EVERY)])


@sampled("value", [-1, 6, 2**31 - 1], keep=1)
def test_a_row_outside_is_a_fault_every_way(value: int, rng: np.random.Generator) -> None:
    p = bag(rng, 4, 3, 6, 2)
    p.args[0][1, 2] = value
    for case in ways(p, *EVERY):
        with pytest.raises(BoundsError, match=f"operand 4 dim 0: {value} of 6"):
            run_cases([case])


def test_the_default_follows_from_sizes_but_for_the_number_of_ranges(
    rng: np.random.Generator,
) -> None:
    p = bag(rng, 4, 3, 6, 2)
    for n, d, has_copies in ((1000, 1, True), (1 << 20, 1, False), (1000, 64, False)):
        sizes = {"B": 1 << 16, "L": 16, "N": n, "D": d, "M": 1}
        chosen = []
        for threads in (1, 2, 8):
            spec = spec_of(p, exact=False, threads=threads)
            config = compiler.default_config(p.program, spec, detect(), sizes)
            chosen.append(int(config.get("g0.ranges") or 0))
        assert [c == 0 for c in chosen] == [has_copies] * 3
        if d == 64:
            assert chosen[0] == 1
            assert chosen[2] >= 8


def test_of_ranges_about_as_quick_there_are_the_fewest() -> None:
    """Sizes that stand for all have longer rows than most: looks cost more beside shorter ones."""
    text = """def f(float(V,D) X, int64(L) I, float(L,D) Y) -> (O) {
      O(v, d) = X(v, d)  O(I(l), d) += Y(l, d) }"""
    found = np.zeros((9, 4), np.float32), np.zeros(5, np.int64), np.zeros((5, 4), np.float32)
    p = problem(text, *found)
    spec = spec_of(p, exact=False, threads=2)
    for columns, ranges in ((64, 2), (128, 2), (4096, 8)):
        sizes = {"V": 1000, "D": columns, "L": 20000}
        config = compiler.default_config(p.program, spec, detect(), sizes)
        assert config.get("g1.ranges") == ranges, columns


def test_few_points_of_a_large_target_are_looked_at_once() -> None:
    text = (
        "def f(float(N) X, int32(K) I, float(K) V) -> (float(N) O) { O(n) = X(n)  O(I(k)) = V(k) }"
    )
    few, values = np.zeros(4, np.int32), np.zeros(4, np.float32)
    p = problem(text, np.zeros(9, np.float32), few, values)
    sizes = {"N": 1 << 20, "K": 1000}
    for threads in (1, 2, 8):
        spec = spec_of(p, exact=False, threads=threads)
        config = compiler.default_config(p.program, spec, detect(), sizes)
        assert config.get("g1.ranges") == 1  # what is there is not started again


@pytest.mark.deep
def test_into_temporaries_and_in_loops(rng: np.random.Generator) -> None:
    text = """def f(int32(T,B) I, float(T,B,D) A, float(N) L) -> (float(N,D) H, O) {
        G(n, d) = 1.0 * n * d where n in 0:N, d in 0:D
        H(n, d) = -1.0 where n in 0:N, d in 0:D
        for t in 0:T {
            G(clamp(I(t,b), 0, N - 1), d) += A(t,b,d)
            H(I(t,b), d) max= A(t,b,d) * t
        }
        O(n, d) = 2 * G(n, d)
    }"""
    p = problem(text, indices(rng, 5, 3, 20), numbers(rng, 3, 20, 4), np.zeros(5, np.float32))
    spec = spec_of(p, exact=True)
    shown = compiler.describe(p.program, spec, Config(), detect(), p.sizes)
    assert sum("scatter" in form for _, form in shown) == 2
    configs = (Config.of({f"g{i}.ranges": n for i in range(5)}) for n in (4, 0))
    differential(ways(p, *configs))


@pytest.mark.parametrize(("config", "name"), [(BY_ROWS, "rows"), (TO_COPIES, "copies")])
def test_emitted_text(
    config: Config, name: str, golden: Callable[[str, str], None], rng: np.random.Generator
) -> None:
    p = bag(rng, 30, 5, 6, 19)
    unit = compiler.lower(p.program, spec_of(p, exact=False), config, MACHINE, p.sizes, "bag")
    golden(compiler.emit_c(unit), f"emit/scatter_{name}.c")


@pytest.mark.deep
@pytest.mark.zig
def test_zig_compiles_the_same_text(rng: np.random.Generator) -> None:
    cc = probe((sys.executable, "-m", "ziglang", "cc"))
    differential(ways(bag(rng, 30, 5, 6, 19), *EVERY), cc=cc)
