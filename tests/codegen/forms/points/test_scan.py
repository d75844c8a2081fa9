"""Loops along rows, and sums over all that lies before: the scan form."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tcdsl.codegen.choose import compiler, specialise
from tcdsl.codegen.gradient.vjp import gradient
from tcdsl.codegen.machine.config import Config
from tcdsl.codegen.toolchain.host import detect
from tests.codegen.harness import (
    Array,
    Case,
    Problem,
    differential,
    expected,
    problem,
    rand,
    run_cases,
    spec_of,
)
from tests.tiers import sampled

RNG = np.random.default_rng(51)
HEAD = "def f(T(N,M) X) -> (T(N,M) Y) { "
FOR = HEAD + "Y(n, 0) = X(n, 0) for t in 1:M { Y(n, t) = Y(n, t - 1) + X(n, t) } }"
SUM = HEAD + "Y(n, m) +=! X(n, j) where j in 0 : m + 1 }"
SCANS = {
    "for": FOR,
    "for, backwards": HEAD
    + "Y(n, m) = X(n, m) for t in 0 : M - 1 { Y(n, M - t - 2) += Y(n, M - t - 1) } }",
    "for, two back": HEAD
    + "Y(n, m) = X(n, m) for t in 2:M { Y(n, t) = Y(n, t - 1) - Y(n, t - 2) + X(n, t) } }",
    "for, under a condition": HEAD + "Y(n, m) = X(n, m) for t in 0:M { "
    "Y(n, t) = X(n, t) + (t > 0 ? Y(n, t - 1) : X(n, M - 1)) } }",
    "for, the turn is a number": HEAD
    + "Y(n, 0) = X(n, 0) for t in 1:M { Y(n, t) = max(Y(n, t - 1), X(n, t)) + t % 3 } }",
    "sum": SUM,
    "sum of those behind": HEAD + "Y(n, m) +=! X(n, j) where j in m:M }",
    "sum without itself": HEAD + "Y(n, m) +=! X(n, j) where j in 0:m }",
    "product": HEAD + "Y(n, m) *=! X(n, j) where j in 0 : m + 1 }",
    "largest": HEAD + "Y(n, m) max=! X(n, j) where j in 0 : m + 1 }",
    "smallest of those behind": HEAD + "Y(n, m) min=! X(n, j) where j in m:M }",
}
STAY = {
    "rows side by side": HEAD
    + "Y(0, m) = X(0, m) for t in 1:N { Y(t, m) = Y(t - 1, m) + X(t, m) } }",
    "another row is read": HEAD
    + "Y(n, m) = X(n, m) for t in 1:M { Y(n, t) = Y(N - 1 - n, t - 1) + X(n, t) where n in 0:0 } }",
    "two statements": HEAD
    + "Y(n, 0) = X(n, 0) for t in 1:M { z(n) = Y(n, t - 1)  Y(n, t) = z(n) + X(n, t) } }",
    "two terms to begin with": HEAD + "Y(n, m) +=! pad(X(n, j), 0) where j in 0 : m + 2 }",
    "the terms depend on the point": HEAD + "Y(n, m) +=! X(n, j) * (m - j) where j in 0 : m + 1 }",
}


def numbers(dtype: str, *shape: int) -> Array:
    return RNG.integers(-3, 4, shape).astype({"float": "float32"}.get(dtype, dtype))


def titles(p: Problem) -> list[str]:
    told = compiler.describe(p.program, spec_of(p, exact=True), Config(), detect(), p.sizes)
    return [title for _, title in told]


@pytest.mark.parametrize("name", SCANS)
def test_rows_are_scanned(name: str) -> None:
    p = problem(SCANS[name].replace("T(", "float("), numbers("float", 3, 4))
    assert any("scan along" in title for title in titles(p)), titles(p)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_sums_of_halves_are_scanned(dtype: str) -> None:
    p = problem(SUM.replace("T(", f"{dtype}("), numbers("float16", 3, 4))
    assert any("scan along" in title for title in titles(p)), titles(p)


@pytest.mark.parametrize("name", STAY)
def test_other_loops_stay(name: str) -> None:
    p = problem(STAY[name].replace("T(", "float("), numbers("float", 3, 4))
    assert not any("scan" in title for title in titles(p)), titles(p)


def test_what_a_scan_overwrites_is_not_filled_before() -> None:
    p = problem(FOR.replace("T(", "float("), numbers("float", 3, 4))
    unit = compiler.lower(p.program, spec_of(p, exact=True), Config(), detect(), p.sizes, "k")
    assert "fill" not in compiler.emit_c(unit)


@pytest.mark.cc
def test_what_a_scan_reads_before_it_writes_it_is_zero() -> None:
    start, end = "Y(n, 0) = X(n, 0) for t in 1:M ", "Y(n, M - 1) = X(n, 0) for t in 0 : M - 1 "
    texts = (
        start + "{ Y(n, t) = Y(n, t - 1) + 2 * Y(n, t) + X(n, t) }",
        start + "{ Y(n, t) = Y(n, t - 1) + X(n, t) + (t < M - 1 ? Y(n, t + 1) : 0) }",
        start + "{ Y(n, t) += Y(n, t - 1) + X(n, t) }",
        end + "{ Y(n, t) = Y(n, t + 1) + X(n, t) }",
        end + "{ Y(n, M - t - 2) *= Y(n, M - t - 1) }",
    )
    problems = [
        problem((HEAD + t + " }").replace("T(", "int32("), numbers("int32", 3, 5)) for t in texts
    ]
    differential([Case(p, True) for p in problems])


@pytest.mark.cc
def test_a_running_sum() -> None:
    p = problem(SUM.replace("T(", "float("), numbers("float", 7, 33))
    differential([Case(p, exact) for exact in (True, False)])


@pytest.mark.wide
@pytest.mark.cc
def test_rows_side_by_side_are_a_choice_that_changes_no_bit() -> None:
    p = problem(SCANS["for, two back"].replace("T(", "float("), rand(11, 33))
    cases = [Case(p, True, Config.of({"g0.rows": n, "g1.rows": n})) for n in (1, 2, 4, 8)]
    first, *others = run_cases(cases)
    assert all(x[0].tobytes() == first[0].tobytes() for x in others)
    differential(cases[-1:])


@pytest.mark.cc
@sampled("name", SCANS, keep=0, wide=6)
def test_results_are_those_of_the_text(name: str) -> None:
    cases = []
    for dtype in ("float", "double", "int32"):
        for shape in ((7, 33), (9, 2), (1, 1), (4, 1), (0, 5), (3, 3)):
            p = problem(SCANS[name].replace("T(", f"{dtype}("), numbers(dtype, *shape))
            cases += [Case(p, exact) for exact in (True, False)]
    if name not in ("for", "for, the turn is a number"):  # whose first element is always written
        p = problem(SCANS[name].replace("T(", "float("), numbers("float", 5, 0))
        cases += [Case(p, exact) for exact in (True, False)]
    differential(cases)


@pytest.mark.cc
def test_long_rows_are_cut_and_go_in_vectors() -> None:
    x = numbers("float", 1, 33001)  # whose sums are exact, and too many for the reference
    p = problem(SUM.replace("T(", "float("), x)
    assert titles(p)[-1].endswith("in vectors")
    np.testing.assert_array_equal(run_cases([Case(p, exact=False)])[0][0], x.cumsum(1))


@pytest.mark.parametrize("op", ["+", "*", "max", "min"])
def test_loops_over_floats_keep_their_order(op: str) -> None:
    step = f"Y(n, t - 1) {op} X(n, t)" if op in "+*" else f"{op}(Y(n, t - 1), X(n, t))"
    text = HEAD + f"Y(n, 0) = X(n, 0) for t in 1:M {{ Y(n, t) = {step} }} }}"
    for dtype, is_grouped in (("float", op in ("max", "min")), ("int32", True)):
        p = problem(text.replace("T(", f"{dtype}("), numbers(dtype, 3, 99))
        assert titles(p)[-1].endswith("in vectors") is is_grouped


def test_more_sums_along_columns_than_a_kernel_has_loops(monkeypatch: pytest.MonkeyPatch) -> None:
    """The rest stay sums: a program without a loop is not refused for its loops."""
    monkeypatch.setattr(specialise, "MAX_LOOPS", 2)  # fewer take less time
    text = "def f(float(N,M) X) -> (float(N,M) A, float(N,M) B, float(N,M) C) { "
    text += " ".join(f"{y}(n, m) +=! X(j, m) where j in 0 : n + 1" for y in "ABC") + " }"
    p = problem(text, numbers("float", 3, 4))
    unit = compiler.lower(p.program, spec_of(p, exact=False), Config(), detect(), p.sizes, "k")
    emitted = compiler.emit_c(unit)
    assert "k_turns1" in emitted
    assert "k_turns2" not in emitted


@pytest.mark.cc
def test_products_that_overflow_behind_a_zero_stay_zero() -> None:
    x = np.ones((3, 20011), np.float32)
    x[0], x[0, 0], x[1, :3], x[2, :3] = 2, 0, (0, 1e30, 1e30), (1e30, 1e-25, 1e-25)
    p = problem(SCANS["product"].replace("T(", "float("), x)
    np.testing.assert_array_equal(run_cases([Case(p, exact=False)])[0][0], x.cumprod(1))


@pytest.mark.cc
def test_which_of_equal_zeros_a_loop_keeps_is_as_the_text_has_it() -> None:
    """The second: vectors, blocks and points one by one agree on it."""
    x = RNG.choice(np.array([0.0, -0.0, -1.0], np.float32), (2, 20011))
    texts = {  # with the row in the order in which it is walked
        "Y(n, 0) = X(n, 0) for t in 1:M { Y(n, t) = max(Y(n, t - 1), X(n, t)) } }": (1, True),
        "Y(n, 0) = X(n, 0) for t in 1:M { Y(n, t) = max(X(n, t), Y(n, t - 1)) } }": (1, False),
        "Y(n, m) = X(n, m) for t in 0:M - 1 "
        "{ Y(n, M - t - 2) = max(Y(n, M - t - 1), X(n, M - t - 2)) } }": (-1, True),
    }
    cases = [Case(problem((HEAD + t).replace("T(", "float("), x), exact=False) for t in texts]
    for got, (step, term_is_second) in zip(run_cases(cases), texts.values(), strict=True):
        due = x[:, ::step].copy()
        for t in range(1, due.shape[1]):
            pair = due[:, t - 1], due[:, t]
            a, b = pair if term_is_second else pair[::-1]
            due[:, t] = np.where(a > b, a, b)
        assert got[0][:, ::step].tobytes() == due.tobytes()


@pytest.mark.wide
@pytest.mark.cc
@pytest.mark.parametrize("dtype", ["float", "double", "int32", "int64"])
def test_rows_in_vectors(dtype: str) -> None:
    cases = []
    for name in ("sum", "sum of those behind", "product", "largest", "smallest of those behind"):
        for shape in ((3, 131), (0, 50), (70, 49)):
            x = numbers(dtype, *shape)
            x = np.where(x == 0, 1, np.sign(x)).astype(x.dtype) if name == "product" else x
            cases.append(Case(problem(SCANS[name].replace("T(", f"{dtype}("), x), exact=False))
    x = numbers(dtype, 2, 130)
    if dtype in ("float", "double"):
        x[0, 3], x[0, 70], x[1, 99], x[1, 100] = np.inf, -np.inf, np.nan, -np.inf
    cases += [
        Case(problem(SCANS[name].replace("T(", f"{dtype}("), x), exact=True)
        for name in ("sum", "sum of those behind", "largest", "smallest of those behind")
    ]
    differential(cases)
    x = numbers(dtype, 2, 20011)
    for name, due in (("sum", x.cumsum(1)), ("sum of those behind", x[:, ::-1].cumsum(1)[:, ::-1])):
        p = problem(SCANS[name].replace("T(", f"{dtype}("), x)
        np.testing.assert_array_equal(run_cases([Case(p, exact=True)])[0][0], due)


@pytest.mark.wide
@pytest.mark.cc
def test_sums_along_columns_and_of_halves() -> None:
    cases = []
    for end in ("0 : n + 1", "n:N"):
        text = HEAD + f"Y(n, m) +=! X(j, m) where j in {end} }}"
        for dtype in ("float", "int32", "float16"):
            for shape in ((17, 5), (1, 3), (0, 4), (6, 0)):
                p = problem(text.replace("T(", f"{dtype}("), numbers(dtype, *shape))
                cases.append(Case(p, exact=False))
    half = problem(SUM.replace("T(", "float16("), RNG.normal(size=(3, 99)).astype("float16"))
    differential([*cases, Case(half, exact=True), Case(half, exact=False)])


@pytest.mark.deep
@pytest.mark.cc
def test_bits_of_blocks_do_not_depend_on_threads() -> None:
    p = problem(SUM.replace("T(", "float("), RNG.normal(size=(2, 40001)).astype(np.float32))
    found = [
        run_cases([Case(p, exact, threads=threads)], seed=threads)[0][0].tobytes()
        for threads in (1, 3)
        for exact in (True, False)
    ]
    assert len({*found}) == 1


@pytest.mark.deep
@pytest.mark.cc
def test_strides_other_ranks_and_types() -> None:
    x = numbers("float", 40, 20)
    cases = []
    for text in (FOR, SUM):
        for view in (x[::2, ::3], x[:, ::-1], x.T, np.broadcast_to(x[:1], (5, 20)), x[:6, :1]):
            cases.append(Case(problem(text.replace("T(", "float("), view), exact=True))
            cases.append(Case(problem(text.replace("T(", "float("), view), exact=False))
    out = guarded_column()
    cases.append(Case(problem(FOR.replace("T(", "float("), x, outs=(out,)), exact=True))
    one = "def f(float(M) X, float(M) A) -> (float(M) Y) "
    one += "{ Y(0) = X(0) for t in 1:M { Y(t) = A(t) * Y(t - 1) + X(t) } }"
    cases.append(Case(problem(one, numbers("float", 1001), numbers("float", 1001)), exact=False))
    three = "def f(float(A,B,M) X) -> (float(A,B,M) Y) { Y(a, b, m) +=! X(a, b, j) where j in m:M }"
    cases.append(Case(problem(three, numbers("float", 3, 5, 17)), exact=False))
    half = FOR.replace("T(", "float16(")
    cases += [Case(problem(half, numbers("float16", 6, 21)), exact) for exact in (True, False)]
    differential(cases)


def guarded_column() -> Array:
    base: Any = np.zeros((40, 41), np.float32)
    view: Array = base[:, 1::2]
    return view


@pytest.mark.deep
@pytest.mark.cc
def test_nan_and_infinity_go_on() -> None:
    x = numbers("float", 5, 19)
    x[0, 3], x[1, 4], x[2, 5], x[2, 9] = np.nan, np.inf, np.inf, -np.inf
    cases = [
        Case(problem(SCANS[n].replace("T(", "float("), x), exact=True)
        for n in ("for", "sum", "largest", "smallest of those behind")
    ]
    for got, c in zip(run_cases(cases), cases, strict=True):
        np.testing.assert_array_equal(got[0], expected(c.problem)[0])


@pytest.mark.wide
@pytest.mark.cc
def test_bits_do_not_depend_on_threads() -> None:
    text = FOR.replace("T(", "float(")
    p = problem(text, RNG.normal(size=(37, 201)).astype(np.float32))
    found = [
        run_cases([Case(p, exact, threads=threads)], seed=threads)[0][0].tobytes()
        for threads in (1, 2, 7)
        for exact in (True, False)
    ]
    assert len({*found}) == 1


def test_gradients_are_scans_too() -> None:
    from tcdsl.grammar.check.definition import check  # the text of a gradient, beside its forward
    from tcdsl.grammar.text.parser import parse

    rows = "def f(float(N,M) A, float(N,M) X) -> (float(N,M) Y) { Y(n, 0) = X(n, 0) "
    rows += "for t in 1:M { Y(n, t) = A(n, t) * Y(n, t - 1) + X(n, t) } }"
    for text in (rows, SUM.replace("T(", "float(")):
        derived = gradient(check(parse(text)))
        checked = check(parse(derived.text))
        args = [np.ones([4] * len(t.shape), np.float32) for t in checked.params]
        assert any("scan" in title for title in titles(Problem(checked, tuple(args)))), derived.text


@pytest.mark.cc
def test_extremes_where_each_lane_none_or_one_that_is_no_number_changes_them() -> None:
    rising = np.arange(70, dtype=np.float32)
    rows = np.stack([rising, -rising, np.where(rising % 3 == 0, -0.0, 0.0), rising % 7])
    rows[3, [20, 21, 50]] = np.nan, np.inf, -np.inf
    for name, end in (("largest", np.maximum), ("smallest of those behind", np.minimum)):
        p = problem(SCANS[name].replace("T(", "float("), rows.astype(np.float32))
        way = slice(None, None, 1 if name == "largest" else -1)
        want = end.accumulate(rows[:, way], axis=1)[:, way]
        for (got,) in run_cases([Case(p, exact) for exact in (True, False)]):
            np.testing.assert_array_equal(got, want)
