"""Row groups against the reference: sweeps, arenas, layouts, lengths, types."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pytest

from tcdsl.codegen.choose import compiler, forms
from tcdsl.codegen.forms.base.align import align
from tcdsl.codegen.forms.points import nest
from tcdsl.codegen.forms.rows.cpu import pointwise, rows
from tcdsl.codegen.machine.config import Config, Value
from tcdsl.codegen.program.ssa import program_of
from tcdsl.codegen.toolchain.host import detect
from tcdsl.grammar.check.definition import check
from tcdsl.grammar.text.parser import parse
from tests.codegen.harness import (
    Array,
    Case,
    Problem,
    assert_same,
    differential,
    expected,
    problem,
    run_cases,
    spec_of,
)
from tests.codegen.native import compiler_of
from tests.codegen.pages import between_pages
from tests.codegen.under_configs import cases_under, narrower
from tests.tiers import sampled

SOFTMAX = """def f(float(B,N) X) -> (Y) { M(b) max=! X(b,n)  E(b,n) = exp(X(b,n) - M(b))
    S(b) +=! E(b,n)  Y(b,n) = E(b,n) / S(b) }"""
LOGSOFTMAX = """def f(float(B,N) X) -> (Y, L) { M(b) max=! X(b,n)  S(b) +=! exp(X(b,n) - M(b))
    L(b) = log(S(b)) + M(b)  Y(b,n) = X(b,n) - L(b) }"""
LAYERNORM = """def f(float(B,N) X, float(N) g, float(N) h) -> (Y, mean) { mean(b) +=! X(b,n) / N
    D(b,n) = X(b,n) - mean(b)  V(b) +=! D(b,n) * D(b,n)
    Y(b,n) = D(b,n) / sqrt(V(b) / N + 1e-5) * g(n) + h(n) }"""
COSINE = """def f(float(B,N) A, float(B,N) C) -> (O) { x(b) +=! A(b,n) * C(b,n)
    p(b) +=! A(b,n) * A(b,n)  q(b) +=! C(b,n) * C(b,n)  O(b) = x(b) / sqrt(p(b) * q(b)) }"""
BATCHNORM = """def f(float(N,C,H,W) X, float(C) g) -> (Y) { s(c) +=! X(n,c,h,w)
    q(c) +=! X(n,c,h,w) * X(n,c,h,w)  m(c) = s(c) / (N * H * W)
    Y(n,c,h,w) = (X(n,c,h,w) - m(c)) * rsqrt(q(c) / (N * H * W) - m(c) * m(c) + 1e-5) * g(c) }"""
LENGTHS = [(1, 1), (3, 5), (5, 16), (4, 26), (2, 128), (3, 131), (2, 700), (0, 4)]
CHANNELS = """def f(float(B,C,HW) X) -> (Y) { M(b,s) max=! X(b,c,s)
    E(b,c,s) = exp(X(b,c,s) - M(b,s))  S(b,s) +=! E(b,c,s)  Y(b,c,s) = E(b,c,s) / S(b,s) }"""
FEATURES = """def f(float(N,C) X, float(C) g) -> (Y, m) { s(c) +=! X(n,c)  q(c) +=! X(n,c) * X(n,c)
    m(c) = s(c) / N  Y(n,c) = (X(n,c) - m(c)) * rsqrt(q(c) / N - m(c) * m(c) + 1e-5) * g(c) }"""
SEGMENTS = """def f(float(N,G,D,P) X, float(N,G,D,P) Z, float(G,D) h) -> (Y, B, M, T) {
    B(n,g,d) +=! Z(n,g,d,p)  M(n,g,d) max=! X(n,g,d,p)  w(n,g,d) +=! Z(n,g,d,p) * X(n,g,d,p)
    Y(n,g,d,p) = Z(n,g,d,p) * h(g,d)  w(n,g,d) += B(n,g,d) * h(g,d)
    T(n,g) +=! w(n,g,d) * h(g,d)  T(n,g) += X(n,g,d,p)
    w(n,g,d) += X(n,g,d,p) * T(n,g)  Y(n,g,d,p) += w(n,g,d) * (X(n,g,d,p) - M(n,g,d)) + T(n,g) }"""
TURN = "def f(float(N,M) A) -> (O) { O(m,n) = A(n,m) > 0 ? A(n,m) + 1 : 2.0 }"
FORMS: list[Mapping[str, Value]] = [
    {},
    {"g0.walk": "rows", "g0.vectors": False},
    {"g0.walk": "rows", "g0.unroll": 1},
    {"g0.walk": "columns"},
]
ALONG = FORMS[:-1]  # the walks that a row in parts has


@pytest.fixture(autouse=True)
def _only_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        forms,
        "CPU",
        (
            pointwise.FORM,
            rows.FORM,
            nest.FORM,
        ),
    )


def normal(rng: np.random.Generator, *shape: int) -> Array:
    return rng.normal(size=shape).astype(np.float32)


def check_all(
    *texts_and_args: tuple[object, ...],
    terms: int = 1000,
    forms: Sequence[Mapping[str, Value]] = FORMS,
) -> None:
    cases = []
    for text, *args in texts_and_args:
        cases += cases_under(problem(str(text), *args), forms)
    differential(cases, terms)


@pytest.mark.deep
@pytest.mark.cc
def test_blocks_of_columns_of_any_width(rng: np.random.Generator) -> None:
    text = SOFTMAX.replace("(b,n)", "(n,b)").replace("(B,N) X", "(N,B) X")
    blocks = [{"g0.walk": "columns", "g0.block": n} for n in (64, 128)]
    check_all((text, normal(rng, 30, 300)), (text, normal(rng, 3, 65)), forms=blocks)


@pytest.mark.cc
@sampled("lengths", [[LENGTHS[n] for n in (3, 7)], LENGTHS], ids=["some", "all"], keep=0)
def test_softmax_of_any_length(lengths: list[tuple[int, int]], rng: np.random.Generator) -> None:
    check_all(*((SOFTMAX, normal(rng, *s)) for s in lengths))


@pytest.mark.cc
def test_the_last_pass_along_rows_may_go_past_the_caches(rng: np.random.Generator) -> None:
    past: list[Mapping[str, Value]] = [{"g0.walk": "rows", "g0.stream": True}]
    check_all(
        *((SOFTMAX, normal(rng, *s)) for s in ((3, 131), (2, 704), (4, 26), (0, 4))),
        (LAYERNORM, normal(rng, 3, 333), normal(rng, 333), normal(rng, 333)),
        (BATCHNORM, normal(rng, 3, 4, 5, 13), normal(rng, 4)),
        (SOFTMAX.replace("float(", "double("), rng.normal(size=(3, 131))),
        (SOFTMAX.replace("float(", "float16("), normal(rng, 3, 131).astype(np.float16)),
        forms=past,
    )


@pytest.mark.cc
def test_rows_go_past_the_caches_where_none_holds_them_and_most_lines_are_their_own() -> None:
    machine = replace(detect(), l3_bytes=1 << 16)

    def streams(text: str, rows: int, length: int) -> list[Value]:
        p = problem(text, np.zeros((rows, length), np.float32))
        config = compiler.default_config(p.program, spec_of(p, exact=True), machine, p.sizes)
        return [value for knob, value in config.items if knob == "g0.stream"]

    assert streams(SOFTMAX, 64, 256) == [True]
    assert streams(SOFTMAX, 63, 256) == streams(SOFTMAX, 65, 255) == [False]
    sums = SOFTMAX.replace("Y(b,n) = E(b,n) / S(b)", "").replace("(Y)", "(S)")
    assert streams(sums, 64, 256) == [], "nothing is stored point by point"


@pytest.mark.cc
def test_softmax_of_any_length_is_one_executable(rng: np.random.Generator) -> None:
    problems = [problem(SOFTMAX, normal(rng, *s)) for s in LENGTHS]
    differential([Case(p, exact=False) for p in problems], 1000)


@pytest.mark.deep
@pytest.mark.cc
def test_log_softmax(rng: np.random.Generator) -> None:
    check_all(*((LOGSOFTMAX, normal(rng, *s)) for s in ((3, 26), (2, 300))))


@pytest.mark.wide
@pytest.mark.cc
def test_layer_norm(rng: np.random.Generator) -> None:
    shapes = ((2, 40), (3, 333))
    check_all(*((LAYERNORM, normal(rng, *s), normal(rng, s[1]), normal(rng, s[1])) for s in shapes))


@pytest.mark.deep
@pytest.mark.cc
def test_independent_folds_share_a_pass(rng: np.random.Generator) -> None:
    p = problem(COSINE, normal(rng, 9, 77), normal(rng, 9, 77))
    forms = [form for _, form in _described(p)]
    assert forms[0].startswith("g0: rows of 1 sweep")
    check_all((COSINE, *p.args), (COSINE, normal(rng, 4, 513), normal(rng, 4, 513)))


@pytest.mark.wide
@pytest.mark.cc
def test_rows_of_several_dimensions(rng: np.random.Generator) -> None:
    check_all(
        (BATCHNORM, normal(rng, 3, 4, 5, 7), normal(rng, 4)),
        (BATCHNORM, normal(rng, 2, 1, 1, 1), normal(rng, 1)),
    )


def segments(rng: np.random.Generator, *shape: int) -> tuple[object, ...]:
    return (SEGMENTS, normal(rng, *shape), normal(rng, *shape), normal(rng, *shape[1:3]))


@pytest.mark.wide
@pytest.mark.cc
def test_a_fold_leaves_values_at_parts_of_a_row(rng: np.random.Generator) -> None:
    p = problem(str(SEGMENTS), *segments(rng, 3, 3, 5, 37)[1:])
    assert {form.split(",")[0] for _, form in _described(p)} == {"g0: rows of 5 sweeps"}
    check_all(segments(rng, 3, 3, 5, 37), forms=ALONG)


@pytest.mark.deep
@pytest.mark.cc
def test_parts_of_a_row_of_any_size_and_layout(rng: np.random.Generator) -> None:
    shapes = [(8, 1, 1, 1), (2, 5, 1, 19), (9, 1, 7, 1), (4, 2, 3, 131), (1, 8, 2, 4099)]
    check_all(
        *(segments(rng, *s) for s in (*shapes, (8, 1, 0, 5), (8, 2, 3, 0), (0, 8, 3, 4))),
        forms=ALONG,
    )
    text, x, z, g = segments(rng, 3, 4, 3, 21)
    assert isinstance(x, np.ndarray)
    padded = np.pad(x, ((0, 1), (0, 0), (0, 2), (0, 3)))[:3, :, :3, :21]
    last = np.ascontiguousarray(x.transpose(0, 3, 1, 2)).transpose(0, 2, 3, 1)
    holes = x.copy()
    holes[1, 2, 0, 3], holes[2, 1, 1, 20], holes[0, 0, 2, 0] = np.nan, np.inf, -np.inf
    check_all(*((text, a, z, g) for a in (padded, x[:, ::-1, :, ::-1], last, holes)), forms=ALONG)
    for name, dtype in (("double", np.float64), ("float16", np.float16)):
        halves = [np.asarray(a).astype(dtype) for a in (x, z, g)]
        check_all((SEGMENTS.replace("float(", f"{name}("), *halves), forms=ALONG)


@pytest.mark.cc
def test_few_rows_are_not_walked_in_parts(rng: np.random.Generator) -> None:
    forms = [form for _, form in _described(problem(SEGMENTS, *segments(rng, 1, 2, 5, 37)[1:]))]
    assert "g1" in forms[-1].split(":")[0] or "g2" in forms[-1].split(":")[0]
    assert not any("5 sweeps" in form for form in forms)


def test_a_value_waits_for_the_sweep_that_reads_it() -> None:
    text = """def f(float(B,N) A, float(B,N) C) -> (D) { D(b,n) = A(b,n) * C(b,n)
        S(b) +=! A(b,n)  D(b,n) = D(b,n) + S(b)  Q(b) +=! A(b,n) * S(b)
        D(b,n) += Q(b) }"""
    aligned = align(program_of(check(parse(text))).statements)
    assert aligned is not None
    sweeps = [[s.statement.target for s in w.steps] for w in aligned.sweeps]
    assert sweeps == [["S"], ["Q"], ["D", "D.1", "D.2"]]
    inside = text.replace("Q(b) +=! A(b,n) * S(b)", "Q(b) +=! D(b,n) * S(b)")
    aligned = align(program_of(check(parse(inside))).statements)
    assert aligned is not None
    sweeps = [[s.statement.target for s in w.steps] for w in aligned.sweeps]
    assert sweeps == [["S"], ["D", "D.1", "Q"], ["D.2"]]


AGAIN = """def f(float(B,N) X) -> (Y) { M(b) max=! X(b,n)  S(b) +=! exp(X(b,n) - M(b))
    Y(b,n) = exp(X(b,n) - M(b)) / S(b) }"""


def test_a_function_is_computed_once_a_point_where_vectors_are_narrow(
    rng: np.random.Generator,
) -> None:
    p = problem(AGAIN, normal(rng, 9, 304))  # turns of two vectors; of 64 bytes one is left
    for width, isa, calls in ((32, "avx2", 2), (64, "avx512", 6)):
        machine = replace(detect(), isa=isa, vector_bytes=width)
        unit = compiler.lower(p.program, spec_of(p, exact=True), Config(), machine, p.sizes, "f")
        assert compiler.emit_c(unit).count("tc_exp_v") == calls, isa


ELSEWHERE = """def f(float(N,M) X, float(N) b) -> (T, Z) {{ s(n) +=! X(n,m)
    T(n,m) = X(n,m) + s(n) * b(n)  Y(n,m) = T(n,m) * {}  Z(n) max=! Y(n,m) }}"""


def test_a_value_does_not_wait_for_who_reads_another_point() -> None:
    for read, count in (("T(n,m)", 2), ("T(n,0)", 3), ("T(n,M-1-m)", 3)):
        aligned = align(program_of(check(parse(ELSEWHERE.format(read)))).statements)
        assert aligned is not None
        assert len(aligned.sweeps) == count, read


@pytest.mark.deep
@pytest.mark.cc
def test_other_points_of_a_row_are_read_when_they_are_there(rng: np.random.Generator) -> None:
    cases = [
        Case(problem(text, normal(rng, 5, 37), normal(rng, 5)), exact)
        for read in ("T(n,0)", "T(n,M-1-m)")
        for text in (ELSEWHERE.format(read), ELSEWHERE.format(read).replace("(T, Z)", "(Z)"))
        for exact in (True, False)
    ]
    differential(cases, terms=40)


@pytest.mark.cc
def test_a_value_is_taken_before_what_it_reads_is_overwritten(rng: np.random.Generator) -> None:
    text = """def f(float(B,N) A) -> (E, D) { E(b,n) = A(b,n) * 2  S(b) +=! E(b,n)
        D(b,n) = E(b,n) * E(b,n)  E(b,n) = E(b,n) + S(b)  Q(b) +=! E(b,n)
        D(b,n) += Q(b) }"""
    check_all((text, normal(rng, 9, 45)))


@pytest.mark.deep
@pytest.mark.cc
def test_rows_side_by_side(rng: np.random.Generator) -> None:
    check_all(
        (CHANNELS, normal(rng, 2, 5, 37)),
        (CHANNELS, normal(rng, 1, 67, 3)),
        (CHANNELS, normal(rng, 3, 0, 20)),
        (FEATURES, normal(rng, 23, 150), normal(rng, 150)),
        (FEATURES, normal(rng, 9, 1), normal(rng, 1)),
    )


@pytest.mark.cc
def test_memory_decides_the_direction(rng: np.random.Generator) -> None:
    across, along = problem(CHANNELS, normal(rng, 2, 5, 64)), problem(SOFTMAX, normal(rng, 9, 64))
    if detect().isa in ("avx512", "avx2"):
        assert "along columns" in _described(across)[0][1]
        assert "along columns" not in _described(along)[0][1]


@pytest.mark.deep
@pytest.mark.cc
def test_any_layout(rng: np.random.Generator) -> None:
    x = normal(rng, 7, 45)
    wide = np.zeros((7, 91), np.float32)
    wide[:, :90:2] = x
    check_all(
        (SOFTMAX, np.ascontiguousarray(x.T).T),
        (SOFTMAX, wide[:, :90:2]),
        (SOFTMAX, x[::-1, ::-1]),
        (SOFTMAX, np.broadcast_to(x[:1], x.shape)),
        (SOFTMAX, np.pad(x, ((0, 0), (0, 3)))[:, :45]),
    )


@pytest.mark.wide
@pytest.mark.cc
def test_other_types(rng: np.random.Generator) -> None:
    x = rng.normal(size=(3, 45))
    for name, dtype in (("double", np.float64), ("float16", np.float16)):
        check_all((SOFTMAX.replace("float(", f"{name}("), x.astype(dtype)))


@pytest.mark.wide
@pytest.mark.cc
def test_rows_without_a_finite_value_give_nan(rng: np.random.Generator) -> None:
    x = normal(rng, 5, 50)
    x[1] = -np.inf
    x[2, 7] = np.nan
    x[3, 9] = np.inf
    check_all((SOFTMAX, x), (LOGSOFTMAX, x), (AGAIN, np.tile(x, 3)))


@pytest.mark.cc
def test_threads_do_not_change_a_bit(rng: np.random.Generator) -> None:
    p = problem(SOFTMAX, normal(rng, 50, 300))
    for exact in (True, False):
        runs = run_cases([Case(p, exact, threads=t) for t in (1, 2, 5)])
        assert len({r[0].tobytes() for r in runs}) == 1
        assert_same(runs[0], expected(p), terms=300)


def _described(p: Problem) -> list[tuple[str, str]]:
    spec = spec_of(p, exact=True)
    return compiler.describe(p.program, spec, Config(), detect(), p.sizes)


@pytest.mark.cc
@sampled("vectors", [5, 1, 2, 3, 4, 6, 7, 8, 9], keep=1)
def test_short_rows_of_any_length_end_in_any_lane(vectors: int, rng: np.random.Generator) -> None:
    """They stay in registers by branches, of which each has masks behind the vectors before."""
    most = vectors * detect().lanes(4)
    lengths = [most - 1, most, most + 1]
    listed = [problem(LAYERNORM, *(normal(rng, *x) for x in ((3, n), (n,), (n,)))) for n in lengths]
    listed += [problem(COSINE, normal(rng, 3, n), normal(rng, 3, n)) for n in lengths]
    differential([Case(p, exact=False) for p in listed], 400)


@pytest.mark.deep
@pytest.mark.cc
@pytest.mark.parametrize("width", [32, 16])
def test_narrower_vectors(width: int, rng: np.random.Generator) -> None:
    problems = [
        problem(SOFTMAX, normal(rng, 5, 45)),
        problem(AGAIN, normal(rng, 5, 145)),
        problem(CHANNELS, normal(rng, 2, 5, 37)),
        problem(LAYERNORM, normal(rng, 3, 333), normal(rng, 333), normal(rng, 333)),
        problem(TURN, normal(rng, 19, 21)),
    ]
    cases = [Case(p, exact) for p in problems for exact in (True, False)]
    differential(cases, 1000, *narrower(width))


@pytest.mark.deep
@pytest.mark.parametrize(
    "build",
    [pytest.param("zig", marks=pytest.mark.zig), pytest.param("clang", marks=pytest.mark.clang)],
)
def test_other_compilers(build: str, rng: np.random.Generator) -> None:
    problems = [
        problem(SOFTMAX, normal(rng, 5, 45)),
        problem(CHANNELS, normal(rng, 2, 5, 37)),
        problem(COSINE, normal(rng, 3, 333), normal(rng, 3, 333)),
        problem(
            "def f(float(N,M) A) -> (O) { O(m,n) = A(n,m) > 0 ? A(n,m) : 2.0 }", normal(rng, 19, 21)
        ),
    ]
    differential([Case(p, e) for p in problems for e in (True, False)], 1000, compiler_of(build))


@pytest.mark.cc
def test_what_is_alike_along_a_row_is_not_read_where_the_row_has_no_points() -> None:
    head = "def f(float(I,K) A, float(K) s) -> "
    texts = (
        head + "(float(I) O) { O(i) +=! s(K - 1) * A(i,k) }",
        head + "(float(I) O) { O(i) max=! s(K - 1) + A(i,k) }",
        head + "(O, float(I) P) { P(i) max=! A(i,k)  O(i,k) = s(K - 1) + A(i,k) - P(i) }",
        head + "(O) { O(i,k) = s(K - 1) + A(i,k) }",
    )
    nothing = np.zeros((70, 0), np.float32), np.zeros(0, np.float32)
    with contextlib.ExitStack() as stack:
        problems = [problem(t, *nothing) for t in texts]
        guarded = [stack.enter_context(between_pages(p, "before")) for p in problems]
        differential([Case(p, exact=False) for p in guarded])
