"""Contractions against the reference: shapes, layouts, epilogues, every knob; no spills."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tcdsl.codegen.choose import compiler
from tcdsl.codegen.forms.contraction.kernel import DEEP
from tcdsl.codegen.loops.emit import emit
from tcdsl.codegen.loops.target import C
from tcdsl.codegen.machine.config import Config, Value
from tcdsl.codegen.machine.cpu import Machine
from tcdsl.codegen.program.dtypes import numpy_dtype
from tcdsl.codegen.toolchain.host import detect
from tcdsl.grammar.types.dtypes import BY_NAME
from tests.codegen.harness import (
    Case,
    Problem,
    differential,
    problem,
    rand,
    run_cases,
    spec_of,
)
from tests.codegen.knobs import knobs_of
from tests.codegen.under_configs import narrower
from tests.tiers import sampled

pytestmark = pytest.mark.cc

Array = np.ndarray[Any, np.dtype[Any]]

ZEN4 = Machine("avx512", 64, 32, 32 << 10, 8, 1 << 20, 32 << 20, 2, 3.6, 1, crosses_lines=True)
NN = "def mm(float(M,K) A, float(K,N) B) -> (C) { C(m,n) +=! A(m,k) * B(k,n) }"
NT = "def mm(float(M,K) A, float(N,K) B) -> (C) { C(m,n) +=! A(m,k) * B(n,k) }"
TN = "def mm(float(K,M) A, float(K,N) B) -> (C) { C(m,n) +=! A(k,m) * B(k,n) }"
TT = "def mm(float(K,M) A, float(N,K) B) -> (C) { C(m,n) +=! A(k,m) * B(n,k) }"
SIZES = (0, 1, 2, 3, 17, 33, 130, 77)


EPILOGUES = {
    "bias and relu": (
        "def run(float(B,M) I, float(N,M) W, float(N) c) -> (O) { O(b,n) +=! I(b,m) * W(n,m) "
        "O(b,n) = O(b,n) + c(n)  O(b,n) = fmax(O(b,n), 0) }"
    ),
    "bias of rows": (
        "def run(float(B,M) I, float(N,M) W, float(B) c) -> (O) "
        "{ T(b,n) +=! I(b,m) * W(n,m)  O(b,n) = tanh(T(b,n) - c(b)) }"
    ),
    "residual": (
        "def run(float(B,M) I, float(N,M) W, float(B,N) R) -> (O) "
        "{ O(b,n) +=! I(b,m) * W(n,m)  O(b,n) = O(b,n) * R(b,n) + 0.5 }"
    ),
    "choice": (
        "def run(float(B,M) I, float(N,M) W, float(N) c) -> (O) { T(b,n) +=! I(b,m) * W(n,m) "
        "O(b,n) = T(b,n) > c(n) ? T(b,n) : -c(n) }"
    ),
}


def forms(p: Problem, *, exact: bool, config: Config | None = None) -> list[str]:
    spec = spec_of(p, exact=exact)
    default = compiler.default_config(p.program, spec, detect(), p.sizes)
    described = compiler.describe(p.program, spec, config or default, detect(), p.sizes)
    return [form for _, form in described]


def check(
    cases: Sequence[Problem],
    terms: int,
    *,
    exact: Sequence[bool] = (True, False),
    config: Config | None = None,
) -> None:
    """Hold problems against the reference, and see that they run as contractions."""
    listed = [Case(p, e, config or Config()) for p in cases for e in exact]
    for c in listed:
        found = forms(c.problem, exact=c.exact, config=config)
        assert all("contraction" in f for f in found), found
    differential(listed, terms)


def matmul(text: str, m: int, n: int, k: int, dtype: str = "float32") -> Problem:
    if dtype == "float64":
        text = text.replace("float(", "double(")
    a = (k, m) if text in (TN, TT) or "A(k,m)" in text else (m, k)
    b = (n, k) if "B(n,k)" in text else (k, n)
    return problem(text, rand(*a, dtype=dtype), rand(*b, dtype=dtype, seed=1))


@sampled("dtype", ["float32", "float64"], keep=1)
@sampled("text", [NN, NT, TN, TT], ids=["nn", "nt", "tn", "tt"], keep=1)
def test_any_sizes(text: str, dtype: str) -> None:
    rng = np.random.default_rng(len(text) + len(dtype))
    shapes = [tuple(int(rng.choice(SIZES)) for _ in range(3)) for _ in range(5)]
    cases = [matmul(text, m, n, k, dtype) for m, n, k in (*shapes, (130, 77, 600))]
    check(cases, terms=600, exact=[True])
    if (text, dtype) in ((NN, "float32"), (NT, "float64")):
        check(cases, terms=600, exact=[False])


@pytest.mark.wide
@sampled("dtype", ["float32", "float64"], keep=1)
def test_few_rows_are_dot_products(dtype: str) -> None:
    shapes = [(1, 77, 1024), (2, 5, 300), (3, 130, 600), (4, 33, 500), (16, 21, 1000)]
    cases = [matmul(NT, m, n, k, dtype) for m, n, k in shapes]
    assert all("dot" in forms(c, exact=True)[0] for c in cases)
    check([*cases, matmul(NT, 5, 0, 300, dtype)], terms=1024, exact=[True])
    if dtype == "float32":  # one executable takes the panel form where there are many rows
        check([*cases, matmul(NT, 100, 40, 30)], terms=1024, exact=[False])


@pytest.mark.deep
def test_dot_products_with_an_epilogue_and_of_halves() -> None:
    p = tensors(EPILOGUES["bias and relu"], (5, 1000), (70, 1000), (70,))
    assert all("dot + epilogue" in f for f in forms(p, exact=True))
    half = NT.replace("float(", "float16(")
    q = problem(half, rand(3, 100, dtype="float16"), rand(50, 100, dtype="float16"))
    assert "dot" in forms(q, exact=True)[0]
    check([p, q], terms=1000, exact=[True])


VIEWS: dict[str, Callable[[Array], Array]] = {
    "transposed": lambda x: np.ascontiguousarray(x.T).T,
    "every other column": lambda x: np.repeat(x, 2, axis=1)[:, ::2],
    "every third row": lambda x: np.repeat(x, 3, axis=0)[::3],
    "reversed rows": lambda x: np.ascontiguousarray(x[::-1])[::-1],
    "reversed columns": lambda x: np.ascontiguousarray(x[:, ::-1])[:, ::-1],
    "repeated row": lambda x: np.broadcast_to(x[:1], x.shape),
    "repeated column": lambda x: np.broadcast_to(x[:, :1], x.shape),
}


@pytest.mark.wide
def test_any_strides() -> None:
    cases = []
    for i, view in enumerate(VIEWS.values()):
        a, b = rand(19, 37, seed=i), rand(37, 53, seed=i + 1)
        cases += [problem(NN, view(a), b), problem(NN, a, view(b))]
    check(cases, terms=37, exact=[True])
    check(cases[2:3], terms=37, exact=[False])


def test_offsets_of_fused_indices_need_not_rise() -> None:
    # 9 * r + 27 * q + f, of which the last 11 end where they would if each followed the one before
    turned = """def run(float(F,C,R,S) K, float(F,Y,X) G) -> (D) {
        D(c,y,x) +=! pad(G(f,y-r,x-q),0) * K(f,c,r,q) where y in 0:Y+R-1, x in 0:X+S-1
    }"""
    p = problem(turned, rand(3, 3, 3, 3).T, rand(3, 7, 9))
    assert "packed a" in ", ".join(forms(p, exact=True))
    differential([Case(p, exact=True)], terms=27)


@pytest.mark.deep
def test_columns_of_fused_indices_need_not_rise() -> None:
    columns = (
        "def run(float(M,K) A, float(K,I,J,L) B) -> (C) { C(m,i,j,l) +=! A(m,k) * B(k,i,j,l) }"
    )
    listed = []
    for order in ((1, 2, 0, 3), (1, 0, 2, 3), (2, 3, 0, 1), (0, 2, 1, 3)):
        block = rand(*(3 if d else 20 for d in order)).transpose(np.argsort(order))
        listed.append(problem(columns, rand(40, 20), block))
    differential([Case(p, exact=True) for p in listed], terms=27)


@pytest.mark.deep
def test_output_of_any_strides() -> None:
    a, b = rand(19, 37), rand(37, 53)
    outs = [
        np.zeros((53, 19), np.float32).T,
        np.zeros((38, 106), np.float32)[::2, ::2],
        np.zeros((19, 53), np.float32)[::-1, ::-1],
    ]
    check([problem(NN, a, b, outs=[o]) for o in outs], terms=37, exact=[True])


def tensors(text: str, *shapes: tuple[int, ...]) -> Problem:
    return problem(text, *(rand(*s, seed=i) for i, s in enumerate(shapes)))


MANY = {
    "batch": tensors(
        "def run(float(B,M,K) X, float(B,K,N) Y) -> (Z) { Z(b,m,n) +=! X(b,m,k) * Y(b,k,n) }",
        (5, 26, 72),
        (5, 72, 26),
    ),
    "two batches, one of them inside": tensors(
        "def run(float(B,M,H,K) X, float(B,N,H,K) Y) -> (Z) "
        "{ Z(b,h,m,n) +=! X(b,m,h,k) * Y(b,n,h,k) }",
        (2, 9, 3, 24),
        (2, 21, 3, 24),
    ),
    "four indices each": tensors(
        "def run(float(A,E,B,F) X, float(D,F,C,E) Y) -> (Z) "
        "{ Z(a,b,c,d) +=! X(a,e,b,f) * Y(d,f,c,e) }",
        (3, 7, 5, 19),
        (6, 19, 4, 7),
    ),
    "output in another order": tensors(
        "def run(float(A,D,B) X, float(C,D) W) -> (Z) { Z(c,b,a) +=! X(a,d,b) * W(c,d) }",
        (20, 13, 35),
        (6, 13),
    ),
    "convolution": tensors(
        "def run(float(N,C,H,W) I, float(F,C,KH,KW) P) -> (O) "
        "{ O(n,f,h,w) +=! I(n,c,h+kh,w+kw) * P(f,c,kh,kw) }",
        (2, 3, 12, 40),
        (5, 3, 3, 5),
    ),
    "strided convolution": tensors(
        "def run(float(N,C,H,W) I, float(F,C,KH,KW) P) -> (O) "
        "{ O(n,f,h,w) +=! I(n,c,2*h+kh,2*w+kw) * P(f,c,kh,kw) }",
        (2, 3, 13, 41),
        (18, 3, 3, 3),
    ),
    "grouped convolution": tensors(
        "def run(float(N,G,C,H,W) I, float(G,F,C,KH,KW) P) -> (O) "
        "{ O(n,g,f,h,w) +=! I(n,g,c,h+kh,w+kw) * P(g,f,c,kh,kw) }",
        (1, 2, 3, 7, 24),
        (2, 4, 3, 3, 3),
    ),
    "matrix times vector": tensors(
        "def run(float(M,K) A, float(K) x) -> (y) { y(m) +=! A(m,k) * x(k) }", (45, 67), (67,)
    ),
    "vector times matrix": tensors(
        "def run(float(M,K) A, float(M) x) -> (y) { y(k) +=! A(m,k) * x(m) }", (45, 67), (45,)
    ),
    "a factor with a sum of its own": tensors(
        "def run(float(M,K,L) A, float(K,N) B) -> (C) { C(m,n) +=! A(m,k,l) * B(k,n) }",
        (9, 7, 5),
        (7, 33),
    ),
    "an output index in no factor": tensors(
        "def run(float(M,K) A, float(K,N) B, float(Q) s) -> (C) "
        "{ C(q,m,n) +=! A(m,k) * B(k,n) where q in 0:s.0 }",
        (9, 7),
        (7, 33),
        (3,),
    ),
    "windows from one": tensors(
        "def run(float(M,K) A, float(K,N) B) -> (C) "
        "{ C(m,n) +=! A(m,k) * B(k,n) where k in 1:K-1 }",
        (9, 17),
        (17, 33),
    ),
}


@sampled("name", MANY, keep=2)
def test_indices_of_any_role(name: str) -> None:
    # a window of known size has a form of its own
    check([MANY[name]], terms=200, exact=[True], config=Config.of({"g0.form": "contraction"}))


@pytest.mark.deep
def test_any_indices_of_any_size() -> None:
    names = ("two batches, one of them inside", "four indices each", "convolution")
    check([MANY[n] for n in names], terms=200, exact=[False])


@sampled("name", EPILOGUES, keep=1)
def test_epilogues_in_the_register_tile(name: str) -> None:
    text = EPILOGUES[name]
    third = {"bias of rows": (21,), "residual": (21, 70)}.get(name, (70,))
    p = tensors(text, (21, 600), (70, 600), third)
    assert all("+ epilogue" in f for f in forms(p, exact=True)), forms(p, exact=True)
    check([p], terms=600, exact=[True, False] if name == "bias and relu" else [True])


APART = {
    "value of an index": "float(M,N) R|O(m,n) = n > m ? 0.0 : T(m,n) * R(m,n)",
    "read across the vectors": "float(N,M) R|O(m,n) = T(m,n) * R(n,m)",
    "rows": "float(M,N) R|x(m) max=! T(m,n)  E(m,n) = exp(T(m,n) - x(m))  s(m) +=! E(m,n)"
    "  O(m,n) = E(m,n) / s(m) * R(m,n)",
}


@sampled("name", APART, keep=2)
def test_whatever_follows_a_contraction_stays_one(name: str) -> None:
    third, rest = APART[name].split("|")
    body = f"T(m,n) +=! A(m,k) * B(n,k)  {rest}"
    text = f"def run(float(M,K) A, float(N,K) B, {third}) -> (O) {{ {body} }}"
    p = tensors(text, (40, 30), (40, 30), (40, 40))
    for exact in (True, False):
        found = forms(p, exact=exact)
        assert "contraction" in found[0], found
        assert not any("nest" in form for form in found), found
    differential([Case(p, exact=True)], terms=100)


@pytest.mark.wide
def test_sums_are_kept_where_somebody_reads_them() -> None:
    text = (
        "def run(float(B,M) I, float(N,M) W) -> (S, O) "
        "{ S(b,n) +=! I(b,m) * W(n,m)  O(b,n) = S(b,n) * S(b,n) }"
    )
    check([tensors(text, (21, 600), (70, 600))], terms=600, exact=[True])


def test_scale_and_update() -> None:
    scaled = (
        "def run(float(B,M) I, float(M,N) W, float(N) s, float a) -> (O) "
        "{ O(b,n) +=! a * I(b,m) * -W(m,n) * s(n) }"
    )
    p = problem(scaled, rand(9, 40), rand(40, 33), rand(33), np.float32(2.5))
    check([p], terms=40, exact=[True])
    update = "def run(float(M,K) A, float(K,N) B) -> (C) { C(m,n) += A(m,k) * B(k,n) }"
    out = rand(9, 33, seed=5)
    p = problem(update, rand(9, 600), rand(600, 33), outs=[out])
    want = out + p.args[0].astype(float) @ p.args[1]
    assert "contraction" in forms(p, exact=True)[0]
    ((got,),) = run_cases([Case(p, exact=True)])
    np.testing.assert_allclose(got, want, atol=600 * 1e-6)


def test_nan_goes_through_relu() -> None:
    a, b = rand(9, 20), rand(20, 33)
    a[3, 5] = np.nan
    text = (
        "def run(float(M,K) A, float(K,N) B) -> (C) "
        "{ C(m,n) +=! A(m,k) * B(k,n)  C(m,n) = relu(C(m,n)) }"
    )
    ((got,),) = run_cases([Case(problem(text, a, b), exact=True)])
    assert np.isnan(got[3]).all()
    assert not np.isnan(np.delete(got, 3, axis=0)).any()


@sampled("half", ["float16", "bfloat16"], keep=1)
def test_halves_are_summed_in_float32(half: str) -> None:
    dtype = numpy_dtype(BY_NAME[half])
    a, b = rand(19, 200).astype(dtype), rand(33, 200).astype(dtype)
    same = NT.replace("float(", f"{half}(")
    wide = same.replace("-> (C)", "-> (float(M,N) C)").replace("A(m,k)", "float(A(m,k))")
    wide = wide.replace("B(n,k)", "float(B(n,k))")
    check([problem(same, a, b), problem(wide, a, b)], terms=20, exact=[True])
    check([problem(same, a[:, :0], b[:, :0])], terms=1, exact=[True])  # no terms


@pytest.mark.wide
def test_every_knob_value_computes_the_same() -> None:
    p = matmul(NT, 40, 70, 150)
    machine, spec = detect(), spec_of(p, exact=True)
    start = compiler.default_config(p.program, spec, machine, p.sizes)
    knobs = knobs_of(p.program, spec, machine, p.sizes)
    cases = [Case(p, exact=True)]
    for knob in knobs:
        if knob.name in ("partition", "g0.form"):
            continue
        for value in knob.values[:: max(1, len(knob.values) // 5)]:
            config = Config.of({**dict(start.items), knob.name: value})
            cases.append(Case(p, exact=True, config=config))
    assert len(cases) > 15
    differential(cases, terms=150)


def packing_rows(text: str, m: int, k: int, tile: str, dtype: str = "float32") -> Case:
    """Return a product whose rows of a are packed for a tile, whatever the schedule thinks."""
    p = matmul(text, m, 29, k, dtype)
    default = compiler.default_config(p.program, spec_of(p, exact=True), detect(), p.sizes)
    chosen: dict[str, Value] = {"g0.tile": tile, "g0.pack_a": True, "g0.method": "panel"}
    return Case(p, True, Config.of({**dict(default.items), **chosen}))


def test_rows_are_packed_for_narrow_tiles() -> None:
    """Of 21 rows five panels are four wide, four of them packed by twos, and one has a row."""
    differential([packing_rows(TN, 21, 37, "4x3")], terms=37)


@pytest.mark.wide
def test_rows_are_packed_for_tiles_of_any_rows() -> None:
    sizes = (21, 37), (8, 5), (6, 1), (13, 64)
    tiles = "4x3", "6x2", "3x1", "5x2"
    made = [packing_rows(t, m, k, tile) for t in (NT, TN) for m, k in sizes for tile in tiles]
    doubles = [packing_rows(t, 11, 19, "4x3", "float64") for t in (NT, TN)]
    differential([*made, *doubles], terms=64)


@pytest.mark.deep
@pytest.mark.parametrize("width", [32, 16])
def test_narrower_vectors(width: int) -> None:
    cases = [matmul(NT, 40, 70, 150), matmul(NN, 33, 21, 50, "float64"), matmul(NT, 3, 33, 500)]
    cases.append(tensors(EPILOGUES["bias and relu"], (21, 60), (70, 60), (70,)))
    differential([Case(p, exact=True) for p in cases], 500, *narrower(width))


@pytest.mark.parametrize(("k", "depth"), [(50, 50), (80, 80), (80, 64)])
def test_a_micro_kernel_has_nothing_for_passes_that_are_not(k: int, depth: int) -> None:
    """No sums that go on, no lines of which nobody waits for: gcc took a fifth longer for these."""
    p = matmul(NN, 40, 60, k)
    spec, config = spec_of(p, exact=True), Config.of({"g0.method": "panel", "g0.depth": depth})
    unit = compiler.lower(p.program, spec, config, detect(), p.sizes, "k")
    tiles = [emit(replace(unit, functions=(f,), executables=()), C) for f in unit.functions]
    tiles = [text for text in tiles if "TC_MICRO" in text]
    assert tiles
    for text in tiles:
        assert ("flags &" in text) == (depth < k)
        assert ("tc_prefetch(c" in text) == (k >= DEEP)
    differential([Case(p, exact=True, config=config)], terms=k)


@pytest.mark.parametrize("k", [50, 51, 1, 2])
def test_steps_by_twos_leave_nothing_of_an_even_depth(k: int) -> None:
    """A loop for one step more is a third of a compiler's work on a tile."""
    p = matmul(NN, 40, 60, k)
    config = Config.of({"g0.form": "contraction", "g0.method": "panel"})
    machine = replace(ZEN4, shares_ports=True)
    unit = compiler.lower(p.program, spec_of(p, exact=True), config, machine, p.sizes, "k")
    text = compiler.emit_c(unit)
    assert "pair += 2" in text
    assert text.count("depth & -2") == (text.count("pair += 2") if k % 2 else 0)
    differential([Case(p, exact=True, config=config)], terms=k)


def test_tiles_without_functions_are_spelled_out() -> None:
    """What gcc is spared finds nothing in them, and is an eighth of its time."""
    p = matmul(NN, 40, 60, 50)
    with_function = tensors(EPILOGUES["bias and relu"], (21, 60), (70, 60), (70,))
    config = Config.of({"g0.form": "contraction", "g0.method": "panel"})
    for one, expected in ((p, True), (with_function, False)):
        spec = spec_of(one, exact=True)
        unit = compiler.lower(one.program, spec, config, ZEN4, one.sizes, "k")
        tiles = [f for f in unit.functions if f.linkage == "micro"]
        assert {f.is_spelled_out for f in tiles} == {expected}
        text = compiler.emit_c(unit)
        assert text.count("TC_MICRO TC_SPELLED_OUT") == len(tiles) * expected


def test_register_tile_reads_well(golden: Callable[[str, str], None]) -> None:
    machine = replace(detect(), isa="avx512", vector_bytes=64, registers=32, shares_ports=False)
    p = tensors(EPILOGUES["bias and relu"], (5, 64), (48, 64), (48,))
    config = Config.of({"g0.method": "panel", "g0.tile": "5x3"})
    unit = compiler.lower(p.program, spec_of(p, exact=True), config, machine, p.sizes, "k")
    kernels = tuple(f for f in unit.functions if "_tile_" in f.name)
    golden(emit(replace(unit, header="one register tile", functions=kernels, executables=()), C),
           "emit/register_tile.c")  # fmt: skip
