"""The stream method of contractions: few rows, b read once from end to end."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tcdsl.codegen.choose import compiler
from tcdsl.codegen.forms.contraction.library import Streams
from tcdsl.codegen.forms.contraction.stream import most_rows
from tcdsl.codegen.loops.loopir import Vector
from tcdsl.codegen.machine.config import Config, Value
from tcdsl.codegen.machine.cpu import Machine
from tcdsl.codegen.toolchain.host import detect
from tcdsl.grammar.text.errors import ScheduleError
from tcdsl.grammar.types.dtypes import FLOAT16, FLOAT32
from tests.codegen.assembly import held_in_registers
from tests.codegen.forms.contraction.test_contraction import NN, NT, TN, forms, matmul
from tests.codegen.harness import Case, Problem, differential, problem, rand, run_cases, spec_of
from tests.codegen.knobs import knobs_of
from tests.codegen.library.test_contraction_tiles import FINISHED, finished
from tests.codegen.under_configs import narrower
from tests.tiers import sampled

pytestmark = pytest.mark.cc

# Terms of sums with N columns that the plan of an executable for all sizes streams.
N = 1003
K = 4 * detect().l2_bytes // (4 * N) + 7
# few rows, columns and terms that no vector, strip or pass divides
FIXED = {"partition", "g0.form", "g0.columns", "g0.method"}
THIN = ((1, 4096, 40), (1, 77, 1025), (3, 35, 77), (8, 130, 530), (16, 65, 99), (13, 1000, 17))


def streamed(p: Problem, **values: Value) -> Config:
    """Return the config of the stream method, values of other knobs beside."""
    return streamed_on(p, detect(), **values)


def streamed_on(p: Problem, machine: Machine, **values: Value) -> Config:
    """Return it for a machine made up."""
    default = compiler.default_config(p.program, spec_of(p, exact=True), machine, p.sizes)
    knobs: dict[str, Value] = {f"g0.{name}": value for name, value in values.items()}
    return Config.of({**dict(default.items), "g0.method": "stream", **knobs})


def test_few_rows_of_a_large_matrix_are_streamed() -> None:
    cases = [matmul(NN, 1, N, K), matmul(TN, 13, N, K)]
    assert all("contraction stream" in forms(c, exact=True)[0] for c in cases)
    assert "panel or dot or stream" in forms(cases[0], exact=False)[0]
    differential([Case(p, exact) for p in cases for exact in (True, False)], terms=K)


@pytest.mark.parametrize("keeps_up", [True, False])
def test_copies_pay_for_fewer_rows_where_the_second_level_keeps_up(keeps_up: bool) -> None:
    made = Machine("avx512", 64, 32, 48 << 10, 12, 2 << 20, 32 << 20, 2, 3.3, 2)
    machine = replace(made, l2_keeps_up=keeps_up)

    def method(rows: int) -> Value:
        p = matmul(NN, rows, 4096, 4096)
        spec = spec_of(p, exact=True)
        return dict(compiler.default_config(p.program, spec, machine, p.sizes).items)["g0.method"]

    methods = [method(rows) for rows in (40, 47, 48, 64, 65)]
    assert methods == ["stream"] * (2 if keeps_up else 4) + ["panel"] * (3 if keeps_up else 1)


@sampled("text", [NN, TN], ids=["nn", "tn"], keep=1)
def test_any_few_rows(text: str) -> None:
    cases = [matmul(text, m, n, k) for m, n, k in THIN]
    cases += [matmul(text, m, n, k, "float64") for m, n, k in THIN[-3:]]
    differential([Case(p, True, streamed(p)) for p in cases], terms=1100)


@pytest.mark.deep
def test_one_executable_streams_few_rows_and_has_panels_for_many() -> None:
    shapes = [(m, N, K) for m in (*range(1, 17), 21, 40)]
    shapes += [(0, N, K), (5, 0, 9), (5, 64, 0), (2, 1, 700), (66, N, K), (17, 33, 200)]
    for text in (NN, TN):
        differential([Case(matmul(text, *s), False) for s in shapes], terms=K)
        differential([Case(matmul(text, *s, "float64"), False) for s in shapes[::3]], terms=K)


@pytest.mark.wide
@pytest.mark.parametrize("shape", [(21, 70, 150), (1, 33, 100), (7, 200, 65)])
def test_any_strips_and_rows_together(shape: tuple[int, int, int]) -> None:
    """Blocks of rows, strips of every depth, groups of rows with a remainder."""
    rng = np.random.default_rng(shape)
    cases = []
    for text in (NN, TN):
        p = matmul(text, *shape)
        knobs = knobs_of(p.program, spec_of(p, exact=True), detect(), p.sizes)
        free = {k.name[3:]: k.values for k in knobs if k.name not in FIXED}
        for _ in range(6):
            values = {name: found[rng.integers(len(found))] for name, found in free.items()}
            cases.append(Case(p, True, streamed(p, **values)))
    differential(cases, terms=150)


ROWS = {
    name: text.replace("(N,K) B", "(K,N) B").replace("B(n,k)", "B(k,n)")
    for name, text in FINISHED.items()
    if name not in ("of neighbours",)
} | {
    "added": "def run(float(M,K) A, float(K,N) B) -> (C) { C(m,n) += A(m,k) * B(k,n) }",
    "by columns": "def run(float(M,K) A, float(K,N) B) -> (C) { C(n,m) +=! A(m,k) * B(k,n) }",
    "of halves": (
        "def run(bfloat16(M,K) A, bfloat16(K,N) B) -> (float(M,N) C) "
        "{ C(m,n) +=! float(A(m,k)) * float(B(k,n)) }"
    ),
}
for name in ("bias and relu", "bias of rows", "residual", "choice"):
    ROWS[name] = ROWS[name].replace("(N,M) W", "(M,N) W").replace("W(n,m)", "W(m,n)")


def test_what_lies_along_the_sum_is_no_stream() -> None:
    p = matmul(NT, 4, 100, 100)
    with pytest.raises(ScheduleError, match=r"g0\.method is stream; legal are panel, dot"):
        run_cases([Case(p, True, streamed(p))])
    q = problem(ROWS["by columns"], rand(40, 90), rand(90, 70))
    config = Config.of({**dict(streamed(q).items), "g0.columns": "A"})
    with pytest.raises(ScheduleError, match=r"g0\.method cannot be stream for these layouts"):
        run_cases([Case(q, True, config)])


@sampled("exact", [False, True], keep=1)
@sampled("name", ROWS, keep=1, wide=5)
def test_sums_are_finished_in_the_workspace(name: str, exact: bool) -> None:
    small = [(1, 40, 9), (3, 130, 700), (14, 33, 40), (5, 64, 0), (9, 2, 70)]
    large = [(1, N, K), (19, N, K), (0, N, K), (5, 0, 9)]
    problems = [finished(ROWS[name], *mnk) for mnk in (*small, *large)]
    if exact and name != "turned around":  # where R lies along the rows
        differential([Case(p, True, _along_b(p)) for p in problems[:5]], terms=K)
    elif not exact:
        differential([Case(p, False) for p in problems], terms=K)


def _along_b(p: Problem) -> Config:
    """Return the stream method with vectors along B."""
    return Config.of({**dict(streamed(p).items), "g0.columns": p.checked.params[1].name})


@sampled("name", ["added", "bias and relu", "by columns", "rounded"], keep=1)
def test_nan_and_infinity_stay_in_their_rows_and_columns(name: str) -> None:
    p = finished(ROWS[name], 9, N, K)
    a, b = p.args[:2]
    a[3, 5], b[2, 17], a[7, 1] = np.nan, np.inf, -np.inf
    with np.errstate(invalid="ignore"):
        differential([Case(p, True, _along_b(p)), Case(p, False)], terms=K)


def test_added_sums_begin_with_what_is_there() -> None:
    text = ROWS["added"]
    base = rand(9, N, seed=5)
    for exact in (True, False):
        out = base.copy()
        p = problem(text, rand(9, K), rand(K, N), outs=[out])
        ((got,),) = run_cases([Case(p, exact)])
        want = base + p.args[0].astype(float) @ p.args[1]
        np.testing.assert_allclose(got, want, atol=K * 1e-6)


@pytest.mark.deep
def test_operands_of_any_strides() -> None:
    a, b = rand(9, K), rand(K, N)
    wide = rand(K, N + 30)[:, 11 : N + 11]
    every = np.repeat(b, 3, axis=0)[::3]
    back = np.ascontiguousarray(b[::-1])[::-1]
    row = np.broadcast_to(b[:1], b.shape)
    cases = [problem(NN, a, x) for x in (wide, every, back, row)]
    cases += [problem(NN, x, b) for x in (a.T.copy().T, a[:, ::-1], np.repeat(a, 2, 1)[:, ::2])]
    assert all("stream" in forms(p, exact=True)[0] for p in cases)
    differential([Case(p, exact) for p in cases for exact in (True, False)], terms=K)
    outs = [np.zeros((38, N), np.float32)[::2][:9], np.zeros((9, 2 * N), np.float32)[:, 3 : N + 3]]
    differential([Case(problem(NN, a, b, outs=[o]), True) for o in outs], terms=K)


@pytest.mark.deep
def test_batches_of_thin_products() -> None:
    text = "def run(float(B,M,K) X, float(B,K,N) Y) -> (Z) { Z(b,m,n) +=! X(b,m,k) * Y(b,k,n) }"
    p = problem(text, rand(5, 4, K // 5 + 1), rand(5, K // 5 + 1, N))
    assert "stream" in forms(p, exact=True)[0]
    differential([Case(p, True), Case(p, False)], terms=K)


def test_bits_do_not_depend_on_the_number_of_threads() -> None:
    p = matmul(NN, 7, N, K)
    for exact in (True, False):
        one, two, five = run_cases([Case(p, exact, threads=n) for n in (1, 2, 5)])
        assert one[0].tobytes() == two[0].tobytes() == five[0].tobytes()


@pytest.mark.deep
@pytest.mark.parametrize("width", [32, 16])
def test_streams_of_narrower_vectors(width: int) -> None:
    cc, machine = narrower(width)
    cases = [matmul(NN, m, 133, 150) for m in (1, 5, 12)] + [matmul(TN, 9, 70, 50, "float64")]
    differential([Case(p, True, streamed_on(p, machine)) for p in cases], 500, cc, machine)


@pytest.mark.wide
def test_no_sum_of_a_stream_leaves_its_register() -> None:
    machine = detect()
    vector = Vector(FLOAT32, machine.lanes(4))
    for stored in (FLOAT32, FLOAT16):
        unit = compiler.lower_library(Streams(vector, machine.registers, stored).name)
        names = held_in_registers(unit, r"stream_\d+")
        assert len(names) == most_rows(machine.registers)
