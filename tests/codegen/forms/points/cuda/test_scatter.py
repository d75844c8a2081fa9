"""Scatters on a GPU: atomics, chains by pairs and by ranges of rows, and which one is taken."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tcdsl.codegen.choose import compiler
from tcdsl.codegen.forms.points.cuda import nest_ranges
from tcdsl.codegen.machine.config import Config
from tcdsl.codegen.machine.gpu import gpu_of
from tcdsl.codegen.machine.spec import Spec
from tcdsl.codegen.toolchain.nvrtc import compile_cuda
from tcdsl.grammar.text.errors import BoundsError
from tests.codegen.harness import Problem, problem, spec_of
from tests.codegen.knobs import knobs_of
from tests.cusim.harness import differential, lowered, simulate
from tests.tiers import sampled

ROWS = "def f(int32(B) I, float(B,D) X, float(N) L) -> (float(N,D) H) { H(I(b),d) +=! X(b,d) }"
IN_ORDER = ("pairs", "ranges", "order")


def rows(rng: np.random.Generator, b: int, d: int, n: int, kind: str = "uniform") -> Problem:
    index = np.full(b, n - 1) if kind == "equal" else rng.integers(0, max(1, n), b)
    wide = rng.normal(size=(b, d)) * 10.0 ** rng.integers(-5, 5, (b, d))
    return problem(ROWS, index.astype(np.int32), wide.astype(np.float32), np.zeros(n, np.float32))


def spec(p: Problem, *, is_deterministic: bool, exact: bool = False) -> Spec:
    return replace(spec_of(p, exact=exact, threads=0), is_deterministic=is_deterministic)


def meeting(p: Problem, sizes: dict[str, int], *, is_deterministic: bool) -> object:
    chosen = spec(p, is_deterministic=is_deterministic)
    config = compiler.default_config(p.program, chosen, gpu_of("sm_90"), sizes)
    return config.get("g0.meeting")


def test_sums_of_floats_are_atomic_unless_the_same_bits_are_asked_for(
    rng: np.random.Generator,
) -> None:
    p = rows(rng, 4, 6, 9)
    for points in (1 << 12, 1 << 20):
        sizes = {"B": points, "D": 64, "N": 50_000}
        assert meeting(p, sizes, is_deterministic=False) == "atomic"
        assert meeting(p, sizes, is_deterministic=True) == "ranges"


def test_the_tuner_has_no_atomics_where_the_same_bits_are_asked_for(
    rng: np.random.Generator,
) -> None:
    p = rows(rng, 4, 6, 9)
    gpu = gpu_of("sm_90")
    for asked, ways in ((False, ("atomic", *IN_ORDER)), (True, IN_ORDER)):
        space = knobs_of(p.program, spec(p, is_deterministic=asked), gpu, p.sizes)
        assert next(k.values for k in space if k.name == "g0.meeting") == ways


def test_where_no_order_shows_nothing_is_asked(rng: np.random.Generator) -> None:
    for text in ("(int32(N) H) { H(I(b)) +=! 1 }", "(float(N) H) { H(I(b)) max=! X(b) }"):
        given = rng.integers(0, 9, 40).astype(np.int32), rng.normal(size=40).astype(np.float32)
        head = "def f(int32(B) I, float(B) X, float(N) L) -> "
        p = problem(head + text, *given, np.zeros(9, np.float32))
        for asked in (False, True):
            unit = compiler.lower(
                p.program, spec(p, is_deterministic=asked), Config(), gpu_of("sm_90"), p.sizes, "k"
            )
            assert "[nest, atomic]" in unit.header


def bits(p: Problem, way: str, order: Any, *, exact: bool) -> bytes:
    unit = lowered(p, Config.of({"g0.meeting": way}), exact=exact)
    (got,), report = simulate(unit, compiler.emit_cuda(unit), p, order=order)
    report.assert_clean()
    return got.tobytes()


@pytest.mark.cusim
@sampled(
    "b,d,n,kind",
    [
        (600, 2, 70, "uniform"),
        (300, 3, 5, "equal"),
        pytest.param(257, 1, 3, "uniform", marks=pytest.mark.deep),
        pytest.param(1500, 5, 300, "uniform", marks=pytest.mark.deep),
        pytest.param(1, 1, 1, "equal", marks=pytest.mark.deep),
        pytest.param(0, 4, 4, "uniform", marks=pytest.mark.deep),
    ],
    keep=1,
)
def test_the_same_bits_in_any_order_of_threads(
    b: int, d: int, n: int, kind: str, rng: np.random.Generator
) -> None:
    """And those of one loop in the order of the text."""
    p = rows(rng, b, d, n, kind)
    want = np.zeros((n, d), np.float32)
    for i, x in zip(p.args[0], p.args[1], strict=True):
        want[i] += x
    for way in IN_ORDER if b < 500 else ("ranges",):
        for order in ("forward", "reverse", "random"):
            assert bits(p, way, order, exact=order == "random") == want.tobytes(), (way, order)


@pytest.mark.cusim
def test_atomics_are_near_in_any_order_of_threads(rng: np.random.Generator) -> None:
    p = rows(rng, 300, 3, 7)
    config = Config.of({"g0.meeting": "atomic"})
    differential(p, config, orders=("forward", "reverse", "random"), terms=300)


@pytest.mark.wide
@pytest.mark.cusim
def test_ranges_of_rows_of_several_subscripts_and_meeting_indices(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nest_ranges, "_LEAST_ROWS", 4)
    text = """def f(int32(A,B,2) I, float(A,B,D) X, float(M,N) L) -> (float(M,D,N) H) {
        H(I(a,b,0), d, I(a,b,1)) += X(a,b,d)
    }"""
    index = np.stack([rng.integers(0, 3, (40, 9)), rng.integers(0, 6, (40, 9))], -1)
    x = rng.integers(-4, 5, (40, 9, 2)).astype(np.float32)
    start = rng.integers(-4, 5, (3, 2, 6)).astype(np.float32)
    p = problem(text, index.astype(np.int32), x, np.zeros((3, 6), np.float32), outs=(start,))
    differential(p, Config.of({"g0.meeting": "ranges"}))


@pytest.mark.cusim
@pytest.mark.parametrize(
    "value", [9, *(pytest.param(v, marks=pytest.mark.deep) for v in (-1, 2**31 - 1))]
)
def test_a_row_outside_is_a_fault(value: int, rng: np.random.Generator) -> None:
    p = rows(rng, 20, 2, 9)
    p.args[0][13] = value
    for way in ("atomic", *IN_ORDER):
        unit = lowered(p, Config.of({"g0.meeting": way}))
        with pytest.raises(BoundsError, match=f"operand 3 dim 0: {value} of 9"):
            simulate(unit, compiler.emit_cuda(unit), p)


def test_rows_that_must_be_checked_to_be_found_are_compared_in_pairs() -> None:
    text = """def f(int32(B) I, int32(K) J, float(B) X, float(N) L) -> (float(N) H) {
        H(J(I(b))) +=! X(b)
    }"""
    zero = np.zeros(3, np.int32)
    p = problem(text, zero, zero, np.zeros(3, np.float32), np.zeros(3, np.float32))
    space = knobs_of(
        p.program, spec(p, is_deterministic=True), gpu_of("sm_90"), p.sizes
    )  # fmt: skip
    assert next(k.values for k in space if k.name == "g0.meeting") == ("pairs", "order")


@pytest.mark.nvrtc
@sampled("exact", [True, False], ids=["exact", "generic"], keep=1)
def test_kernels_compile_without_a_stack(exact: bool, rng: np.random.Generator) -> None:
    p = rows(rng, 5000, 3, 70)
    for way in ("atomic", "ranges"):
        text = compiler.emit_cuda(lowered(p, Config.of({"g0.meeting": way}), exact=exact))
        for k in compile_cuda(text, "sm_90", name="scatter").report.kernels:
            assert k.spills == k.stack == 0
            assert k.registers <= 64


def test_emitted_text(golden: Callable[[str, str], None], rng: np.random.Generator) -> None:
    p = rows(rng, 5000, 3, 70)
    unit = lowered(p, Config.of({"g0.meeting": "ranges"}), exact=False, is_small=True, name="add")
    golden(compiler.emit_cuda(unit), "emit/scatter_ranges.cu")
