"""The general nest computes any one statement: every program, each statement on its own."""

from __future__ import annotations

import sys
from collections.abc import Callable

import numpy as np
import pytest

from tcdsl.codegen.choose import compiler, forms
from tcdsl.codegen.forms.points import nest
from tcdsl.codegen.machine.config import Config
from tcdsl.codegen.machine.cpu import Machine
from tcdsl.codegen.toolchain.cc import probe
from tcdsl.grammar.text.errors import BoundsError
from tests.codegen.harness import (
    Case,
    assert_same,
    differential,
    expected,
    problem,
    run_cases,
    spec_of,
)
from tests.codegen.programs import PROGRAMS, View, problem_of
from tests.tiers import sampled

MACHINE = Machine("avx2", 32, 16, 32768, 8, 1 << 20, 1 << 25, 4, 3.0, 2)


@pytest.fixture(autouse=True)
def _only_nest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forms, "CPU", (nest.FORM,))


@pytest.mark.cc
@sampled("name", PROGRAMS, keep=4, wide=18)
def test_agrees_with_the_reference(name: str, rng: np.random.Generator) -> None:
    entry = PROGRAMS[name]
    cases = [
        Case(problem_of(entry, sizes, rng), exact)
        for sizes in entry.sizes
        for exact in (True, False)
    ]
    differential(cases, terms=1200)


@pytest.mark.wide
@pytest.mark.cc
@sampled("view", ["transposed", "strided", "reversed", "broadcast"], keep=1)
def test_inputs_of_any_stride(view: View, rng: np.random.Generator) -> None:
    cases = [
        Case(problem_of(PROGRAMS[name], sizes, rng, view), bool(exact))
        for name in ("row", "sum", "matmul", "largest", "reshape", "conv", "half")
        for exact, sizes in enumerate(PROGRAMS[name].sizes[:2])
    ]
    differential(cases, terms=1200)


@pytest.mark.cc
def test_outputs_of_any_stride(rng: np.random.Generator) -> None:
    a = rng.normal(size=(5, 7)).astype(np.float32)
    text = "def f(float(N,M) A) -> (O) { O(n,m) = A(n,m) * 2 }"
    outs = [
        np.zeros((7, 5), np.float32).T,
        np.zeros((5, 21), np.float32)[:, 2::3],
        np.zeros((5, 7), np.float32)[::-1, ::-1],
    ]
    cases = [Case(problem(text, a, outs=(out,)), exact) for out in outs for exact in (True, False)]
    differential(cases)
    for out in outs:
        np.testing.assert_array_equal(out, a * 2)


@pytest.mark.cc
def test_update_goes_on_from_the_caller_buffer(rng: np.random.Generator) -> None:
    a = rng.normal(size=(5, 7)).astype(np.float32)
    start = rng.normal(size=5).astype(np.float32)
    text = "def f(float(N,M) A) -> (O) { O(n) += A(n,m)  O(n) *= A(n,m) }"
    p = problem(text, a, outs=(start.copy(),))
    want = expected(p)
    assert_same(run_cases([Case(p, True)])[0], want, terms=20)


@pytest.mark.cc
@pytest.mark.parametrize(
    ("text", "index", "message"),
    [
        ("O(b) = T(I(b))", 9, r"operand 0 dim 0: 9 of 9"),
        ("O(b) = T(I(b))", -1, r"operand 0 dim 0: -1 of 9"),
        ("O(b) = I(b) < 0 || T(I(b)) > 0 ? 1.0 : 2.0", 9, r"operand 0 dim 0: 9 of 9"),
    ],
)
def test_read_outside_is_a_fault(
    text: str, index: int, message: str, rng: np.random.Generator
) -> None:
    t = rng.normal(size=9).astype(np.float32)
    p = problem(
        f"def f(float(V) T, int32(B) I) -> (O) {{ {text} }}", t, np.array([3, index], np.int32)
    )
    for exact in (True, False):
        with pytest.raises(BoundsError, match=message):
            run_cases([Case(p, exact)])


@pytest.mark.cc
def test_guarded_read_outside_is_not_evaluated(rng: np.random.Generator) -> None:
    t = np.arange(1, 10, dtype=np.float32)
    index = np.array([3, -1, 8, 20], np.int32)
    texts = [
        "O(b) = I(b) >= 0 && I(b) < V ? T(I(b)) : 0.0",
        "O(b) = I(b) < 0 || I(b) >= V || T(I(b)) > 5.0 ? 1.0 : 2.0",
        "O(b) = (I(b) >= 0 && I(b) < V && T(I(b)) > 5.0) ? T(I(b)) : 2.0",
    ]
    cases = [
        Case(problem(f"def f(float(V) T, int32(B) I) -> (O) {{ {text} }}", t, index), exact)
        for text in texts
        for exact in (True, False)
    ]
    differential(cases)


@pytest.mark.cc
@sampled("kind", ["int", "uint"], keep=1)
def test_integers_at_their_edges(kind: str) -> None:
    cases = []
    for bits in (8, 16, 32, 64):
        info = np.iinfo(f"{kind}{bits}")
        edges = np.array([info.min, info.min + 1, 0, 1, 3, info.max], info.dtype)
        if kind == "int":
            edges = np.append(edges, np.array([-1, -3], info.dtype))
        a, c = (x.ravel().copy() for x in np.meshgrid(edges, edges))
        text = (
            f"def f({kind}{bits}(N) A, {kind}{bits}(N) B) -> (O, P, Q, R, S) {{"
            " O(i) = A(i) / B(i)  P(i) = A(i) % B(i)  Q(i) = A(i) * B(i) - A(i)"
            " R(i) = (A(i) + B(i)) / A(i)  S(i) = -A(i) }"
        )
        cases.append(Case(problem(text, a, c), True))
    differential(cases)


@pytest.mark.cc
def test_floats_at_their_edges() -> None:
    edges = np.array([0.0, -0.0, 1.5, -1.5, 1e30, -1e30, np.inf, -np.inf, np.nan], np.float32)
    a, c = (x.ravel().copy() for x in np.meshgrid(edges, edges))
    targets = " ".join(
        f"P{k}(i) = {kind}{bits}(A(i))"
        for k, (kind, bits) in enumerate((k, n) for k in ("int", "uint") for n in (8, 16, 32, 64))
    )
    names = ", ".join(f"P{k}" for k in range(8))
    texts = [
        f"def f(float(N) A) -> ({names}) {{ {targets} }}",
        "def f(float(N) A, float(N) B) -> (O, P, Q, R) { O(i) = max(A(i), B(i))"
        " P(i) = min(A(i), B(i))  Q(i) = fmax(A(i), B(i))  R(i) = fmin(A(i), B(i)) }",
        "def f(float(N) A, float(N) B) -> (O, P) { O max=! A(i) + B(i)  P min=! A(i) * B(i) }",
        "def f(float(N) A, float(N) B) -> (O, P) { O(i) = A(i) < B(i)  P(i) = bool(A(i)) }",
    ]
    cases = [Case(problem(t, *((a, c) if "B" in t else (a,))), True) for t in texts]
    differential(cases)


@pytest.mark.cc
def test_addresses_beyond_2_to_the_31() -> None:
    rows = np.zeros((2, 2**31 + 5), np.uint8)  # pages that nobody touches take no memory
    rows[:, -1] = 3, 4
    rows[:, 0] = 1, 2
    text = "def f(uint8(N,M) A) -> (O) { O(n) = A(n, M - 1) * 10 + A(n, 0) where n in 0:N }"
    p = problem(text, rows)
    for got in run_cases([Case(p, True), Case(p, False)]):
        np.testing.assert_array_equal(got[0], [31, 42])


@pytest.mark.cc
def test_innermost_index_is_a_choice(rng: np.random.Generator) -> None:
    p = problem_of(PROGRAMS["transpose"], {"N": 33, "M": 65}, rng)
    configs = [Config.of({"g0.inner": name}) for name in ("n", "m")]
    differential([Case(p, True, c) for c in configs])


@pytest.mark.wide
@pytest.mark.cc
def test_innermost_summed_index_is_a_choice() -> None:
    """Not where ranges hang on each other, nor where the first of equals is asked for."""
    sizes = np.random.default_rng(5)
    text = "def f(float(W,D,V) E, int32(B,L) I) -> (O) {{ O(b) {} E(w, d, I(b, l)) {} }}"
    tensors = (
        sizes.standard_normal((5, 3, 50)).astype(np.float32),
        sizes.integers(0, 50, (7, 4)).astype(np.int32),
    )
    free = [problem(text.format(op, ""), *tensors) for op in ("+=!", "max=!")]
    configs = [Config.of({"g0.form": "nest", "g0.sum": name}) for name in ("w", "d", "l")]
    differential([Case(p, exact, c) for p in free for c in configs for exact in (True, False)], 60)
    for op, where in (("argmax=!", ""), ("+=!", "where d in 0 : b % 3 + 1")):
        tied = problem(text.format(op, where), *tensors)
        found = compiler.choices(tied.program, spec_of(tied, exact=True), MACHINE, tied.sizes)
        offered = [k.name for groups in found.values() for g in groups for x in g for k in x.knobs]
        assert "sum" not in offered


@pytest.mark.parametrize("exact", [True, False])
def test_emitted_text(
    exact: bool, golden: Callable[[str, str], None], rng: np.random.Generator
) -> None:
    p = problem_of(PROGRAMS["fcrelu"], {"M": 17, "N": 33, "K": 65}, rng)
    unit = compiler.lower(p.program, spec_of(p, exact=exact), Config(), MACHINE, p.sizes, "fcrelu")
    golden(compiler.emit_c(unit), f"emit/nest_{'exact' if exact else 'generic'}.c")


@pytest.mark.wide
@pytest.mark.zig
def test_zig_compiles_the_same_text(rng: np.random.Generator) -> None:
    cc = probe((sys.executable, "-m", "ziglang", "cc"))
    names = ("integers", "softmax", "half")
    cases = [Case(problem_of(PROGRAMS[n], PROGRAMS[n].sizes[-1], rng), True) for n in names]
    differential(cases, terms=1200, cc=cc)
