"""The general nest on a GPU computes any one statement: every program, each statement alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from tcdsl.codegen.choose import compiler, gpu_forms
from tcdsl.codegen.device.hostplan import plan
from tcdsl.codegen.forms.base import outputs
from tcdsl.codegen.forms.points.cuda import nest
from tcdsl.codegen.machine.config import Config
from tcdsl.codegen.machine.gpu import gpu_of
from tcdsl.codegen.machine.spec import Spec
from tcdsl.grammar.text.errors import BoundsError
from tcdsl.grammar.types import typed
from tcdsl.grammar.types.dtypes import INT32
from tests.codegen.harness import problem, spec_of
from tests.codegen.knobs import knobs_of
from tests.codegen.programs import PROGRAMS, View, problem_of
from tests.cusim.harness import differential, lowered, simulate
from tests.tiers import sampled

_QUICK = ("row", "softmax", "total", "lowest", "some_elements", "gather", "half", "scalar_bound")


@pytest.fixture(autouse=True)
def _only_nest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_forms, "GPU", (nest.FORM,))


def _programs() -> list[object]:
    return [n if n in _QUICK else pytest.param(n, marks=pytest.mark.deep) for n in PROGRAMS]


@pytest.mark.cusim
@sampled("name", _programs(), keep=4)
def test_agrees_with_the_reference(name: str, rng: np.random.Generator) -> None:
    entry = PROGRAMS[name]
    for k, sizes in enumerate(entry.sizes):
        exact = (True, False) if k == 0 else (False,)
        differential(problem_of(entry, sizes, rng), exact=exact, terms=1200)


@pytest.mark.cusim
@pytest.mark.deep
@pytest.mark.parametrize("view", ["transposed", "strided", "reversed", "broadcast"])
def test_inputs_of_any_stride(view: View, rng: np.random.Generator) -> None:
    for name in ("row", "sum", "matmul", "largest", "reshape", "conv", "half"):
        differential(problem_of(PROGRAMS[name], PROGRAMS[name].sizes[0], rng, view), terms=1200)


@pytest.mark.cusim
def test_a_thread_may_have_several_points(rng: np.random.Generator) -> None:
    p = problem_of(PROGRAMS["column_sum"], {"N": 5, "M": 300}, rng)
    differential(p, Config.of({"g0.threads": 64, "g0.points": 4}), terms=8)


@pytest.mark.cusim
@pytest.mark.deep
def test_every_knob_is_right(rng: np.random.Generator) -> None:
    p = problem_of(PROGRAMS["matmul"], {"M": 17, "N": 33, "K": 9}, rng)
    space = knobs_of(p.program, spec_of(p, exact=False, threads=0), gpu_of("sm_90"), p.sizes)
    configs = [Config.of({k.name: v}) for k in space for v in k.values]
    differential(p, *configs, terms=20)


@pytest.mark.cusim
def test_update_goes_on_from_the_caller_buffer(rng: np.random.Generator) -> None:
    a = rng.normal(size=(5, 7)).astype(np.float32)
    start = rng.normal(size=5).astype(np.float32)
    text = "def f(float(N,M) A) -> (O) { O(n) += A(n,m)  O(n) *= A(n,m) }"
    differential(problem(text, a, outs=(start,)), exact=(False,), terms=20)


@pytest.mark.cusim
@pytest.mark.parametrize("index", [9, -1])
def test_read_outside_is_a_fault(index: int, rng: np.random.Generator) -> None:
    t = rng.normal(size=9).astype(np.float32)
    text = "def f(float(V) T, int32(B) I) -> (O) { O(b) = T(I(b)) }"
    p = problem(text, t, np.array([3, index], np.int32))
    unit = lowered(p, exact=False)
    with pytest.raises(BoundsError, match=f"operand 0 dim 0: {index} of 9"):
        simulate(unit, compiler.emit_cuda(unit), p)


@pytest.mark.cusim
def test_guarded_read_outside_is_not_evaluated(rng: np.random.Generator) -> None:
    t = np.arange(1, 10, dtype=np.float32)
    index = np.array([3, -1, 8, 20], np.int32)
    text = "O(b) = I(b) < 0 || I(b) >= V || T(I(b)) > 5.0 ? 1.0 : 2.0"
    p = problem(f"def f(float(V) T, int32(B) I) -> (O) {{ {text} }}", t, index)
    differential(p, exact=(False,))


@pytest.mark.cusim
def test_arg_reductions(rng: np.random.Generator) -> None:
    a = rng.normal(size=(7, 33)).astype(np.float32)
    a[2, 5] = np.nan
    text = "def f(float(N,M) A) -> (O, P) { O(n) argmax=! A(n,m)  P argmin=! A(n,m) }"
    differential(problem(text, a), exact=(False,))


def test_an_empty_box_starts_nothing_an_empty_sum_stores_zero() -> None:
    text = "def f(float(N,M) A) -> (O) { O(n) +=! A(n,m) }"
    for shape, starts in (((0, 3), 0), ((3, 0), 1)):
        p = problem(text, np.zeros(shape, np.float32))
        for exact in (True, False):
            assert len(plan(lowered(p, exact=exact), p.sizes).starts) == starts


def test_a_grid_too_large_is_walked_in_strides() -> None:
    text = "def f(uint8(N) A) -> (O) { O(n) = A(n) }"
    p = problem(text, np.zeros(4, np.uint8))
    huge = {"N": 1 << 40}
    spec = spec_of(p, exact=False, threads=0)
    for s in (spec, Spec((("N", 1 << 40),), spec.layouts, 0)):
        unit = compiler.lower(p.program, s, Config(), gpu_of("sm_90"), huge, "k")
        assert "point += (tc_i64)tc_blocks() * 256" in compiler.emit_cuda(unit)
        assert plan(unit, huge).starts[0].blocks == 2**31 - 1


def test_points_that_meet_are_one_threads(rng: np.random.Generator) -> None:
    p = problem_of(PROGRAMS["update"], {"N": 5, "M": 37}, rng)
    (s,) = p.program.statements
    index = typed.Read("I", (typed.IndexValue("n", INT32),), INT32)
    assert outputs.injective_in(s) == {"n"}
    assert outputs.injective_in(replace(s, subs=(index,))) == frozenset()


def test_a_write_is_found_injective_in_one_index_after_the_other() -> None:
    text = "def f(float(N) A, float(M) B) -> (float(N,N+M) O) { O(i, i + j) = A(i) * B(j) }"
    p = problem(text, np.zeros(3, np.float32), np.zeros(4, np.float32))
    assert outputs.injective_in(p.program.statements[0]) == {"i", "j"}


def test_neighbouring_threads_are_neighbours_in_memory(rng: np.random.Generator) -> None:
    p = problem(
        "def f(float(N,M) A) -> (O) { O(n,m) = A(n,m) }",
        np.ascontiguousarray(rng.normal(size=(40, 30)).astype(np.float32)).T,
        outs=(np.zeros((40, 30), np.float32).T,),
    )
    spec = spec_of(p, exact=True, threads=0)
    config = compiler.default_config(p.program, spec, gpu_of("sm_90"), p.sizes)
    assert config.get("g0.inner") == "n"


def test_the_model_prefers_coalesced_accesses(rng: np.random.Generator) -> None:
    p = problem_of(PROGRAMS["matmul"], {"M": 500, "N": 500, "K": 500}, rng)
    spec = spec_of(p, exact=True, threads=0)

    def cost(inner: str) -> float:
        config = Config.of({"g0.inner": inner})
        return compiler.cost_ns(p.program, spec, config, gpu_of("sm_90"), p.sizes)

    assert cost("n") < cost("m")


@pytest.mark.parametrize("exact", [True, False])
def test_emitted_text(
    exact: bool, golden: Callable[[str, str], None], rng: np.random.Generator
) -> None:
    p = problem_of(PROGRAMS["fcrelu"], {"M": 17, "N": 33, "K": 65}, rng)
    text = compiler.emit_cuda(lowered(p, exact=exact, is_small=True, name="fcrelu"))
    golden(text, f"emit/nest_{'exact' if exact else 'generic'}.cu")


@pytest.mark.cusim
@sampled(
    "text,form",
    [
        ("-> (int32(9) H) { H(I(b)) +=! 1 }", "atomic"),
        ("-> (float(9) H) { H(I(b)) max=! X(b,d) }", "atomic"),
        ("-> (float(9,D) H) { H(I(b),d) +=! X(b,d) }", "atomic"),
        ("-> (double(9) H) { H(I(b)) +=! double(X(b,d)) }", "atomic"),
        ("-> (double(9,D) H) { H(I(b) / 2, d) *=! double(X(b,d)) where e in 0:2 }", "pairs"),
    ],
    keep=2,
)
def test_scatters(text: str, form: str, rng: np.random.Generator) -> None:
    index = rng.integers(0, 9, 40).astype(np.int32)
    x = rng.normal(size=(40, 6)).astype(np.float32)
    p = problem(f"def f(int32(B) I, float(B,D) X) {text}", index, x)
    assert form in lowered(p).header
    differential(p, orders=("forward", "reverse", "random"), terms=240)


@pytest.mark.cusim
@pytest.mark.deep
@pytest.mark.parametrize("meeting", ["atomic", "pairs", "ranges", "order"])
def test_scatters_of_several_indices(meeting: str, rng: np.random.Generator) -> None:
    index = rng.integers(0, 5, (7, 6)).astype(np.int32)
    x = rng.normal(size=(7, 6, 4)).astype(np.float32)
    text = "def f(int32(A,B) I, float(A,B,D) X) -> (float(5,D) H) { H(I(a,b),d) += X(a,b,d) }"
    start = rng.normal(size=(5, 4)).astype(np.float32)
    p = problem(text, index, x, outs=(start,))
    differential(p, Config.of({"g0.meeting": meeting}), terms=50)
    differential(p, Config.of({"g0.meeting": meeting, "g0.points": 2}), terms=50)


@pytest.mark.cusim
def test_a_scatter_outside_is_a_fault(rng: np.random.Generator) -> None:
    index = np.array([3, 0, 9, 3], np.int32)
    text = "def f(int32(B) I, float(B) X) -> (float(9) H) { H(I(b)) +=! X(b) }"
    p = problem(text, index, rng.normal(size=4).astype(np.float32))
    for meeting in ("atomic", "pairs", "ranges", "order"):
        unit = lowered(p, Config.of({"g0.meeting": meeting}))
        with pytest.raises(BoundsError, match="operand 2 dim 0: 9 of 9"):
            simulate(unit, compiler.emit_cuda(unit), p)
