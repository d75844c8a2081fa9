"""Permutes on a GPU: tiles through shared memory, ragged edges, types, banks and sectors."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tcdsl.codegen.choose import compiler, gpu_forms
from tcdsl.codegen.forms.points.cuda import nest
from tcdsl.codegen.forms.rows.cuda import permute, pointwise
from tcdsl.codegen.machine.config import Config
from tcdsl.codegen.machine.gpu import gpu_of
from tcdsl.codegen.program.dtypes import numpy_dtype
from tcdsl.codegen.toolchain.nvrtc import compile_cuda
from tcdsl.grammar.types.dtypes import ALL
from tests.codegen.harness import Array, problem, spec_of
from tests.cusim.harness import differential, lowered, simulate
from tests.tiers import sampled

TURN = "def f(float(N,M) A, float(M,N) B, float(M) c) -> (O) { O(m,n) = A(n,m) * c(m) + B(m,n) }"
COPY = "def f({0}(N,M) A) -> (O) {{ O(m,n) = A(n,m) }}"
GPU = gpu_of("sm_90")


@pytest.fixture(autouse=True)
def _no_contractions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        gpu_forms,
        "GPU",
        (
            permute.FORM,
            pointwise.FORM,
            nest.FORM,
        ),
    )


def normal(rng: np.random.Generator, *shape: int) -> Array:
    return rng.normal(size=shape).astype(np.float32)


@pytest.mark.cusim
@sampled(
    "shape",
    [
        (40, 33),
        (64, 32),
        *(pytest.param(s, marks=pytest.mark.deep) for s in ((8, 8), (31, 97), (129, 9), (32, 65))),
    ],
    keep=1,
)
def test_any_shape(shape: tuple[int, int], rng: np.random.Generator) -> None:
    n, m = shape
    p = problem(TURN, normal(rng, n, m), normal(rng, m, n), normal(rng, m))
    assert "permute" in lowered(p).header
    differential(p)
    differential(p, Config.of({"g0.threads": 128}), exact=(False,), is_small=True)


def test_narrow_ones_and_empty_ones_are_left_to_pointwise(rng: np.random.Generator) -> None:
    for shape in ((3, 1000), (1000, 7), (0, 64)):
        p = problem(COPY.format("float"), normal(rng, *shape))
        assert "permute" not in lowered(p).header


@pytest.mark.cusim
def test_a_generic_one_serves_narrow_and_empty_shapes(rng: np.random.Generator) -> None:
    wide = problem(COPY.format("float"), normal(rng, 64, 64))
    unit = lowered(wide, exact=False)
    text = compiler.emit_cuda(unit)
    for shape in ((1, 70), (0, 64), (33, 2)):
        p = problem(COPY.format("float"), normal(rng, *shape))
        (got,), report = simulate(unit, text, p)
        report.assert_clean()
        np.testing.assert_array_equal(got, p.args[0].T)


@pytest.mark.cusim
@pytest.mark.parametrize(
    "name",
    [d.name if d.name == "float16" else pytest.param(d.name, marks=pytest.mark.deep) for d in ALL],
)
def test_every_type(name: str, rng: np.random.Generator) -> None:
    dtype = numpy_dtype(next(d for d in ALL if d.name == name))
    for tile, shape in ((32, (37, 40)), (64, (37, 40)), (64, (64, 128))):
        a = rng.integers(0, 2 if name == "bool" else 100, shape).astype(dtype)
        p = problem(COPY.format(name), a)
        unit = lowered(p, Config.of({"g0.tile": tile}))
        (got,), report = simulate(unit, compiler.emit_cuda(unit), p, counters=True)
        report.assert_clean()
        np.testing.assert_array_equal(got.view(np.uint8), np.ascontiguousarray(a.T).view(np.uint8))
        if shape == (64, 128) or tile == 32:  # lanes that run together are counted together
            moved, ideal = report.wavefronts()
            assert moved == ideal


@pytest.mark.cusim
@pytest.mark.parametrize(
    "text",
    [
        "def f(float(N,C,H,W) A) -> (O) { O(n,h,w,c) = A(n,c,h,w) }",
        pytest.param(
            "def f(float(N,H,W,C) A) -> (O) { O(n,c,h,w) = A(n,h,w,c) }", marks=pytest.mark.deep
        ),
        pytest.param(
            "def f(float(N,H,W,C) A) -> (O) { O(c,w,h,n) = A(n,h,w,c) }", marks=pytest.mark.deep
        ),
    ],
)
def test_any_rank(text: str, rng: np.random.Generator) -> None:
    p = problem(text, normal(rng, 3, 9, 5, 10))
    differential(p)


@pytest.mark.cusim
def test_two_operands_cross_and_a_chain_follows(rng: np.random.Generator) -> None:
    text = (
        "def f(float(N,M) A, float(N,M) B) -> (O, P) {"
        " O(m,n) = A(n,m) + B(n,m)  P(m,n) = O(m,n) * A(n,m) }"
    )
    p = problem(text, normal(rng, 33, 40), normal(rng, 33, 40))
    assert compiler.emit_cuda(lowered(p)).count("__shared__") == 2
    differential(p, exact=(False,))


@pytest.mark.cusim
@pytest.mark.deep
def test_strided_operands(rng: np.random.Generator) -> None:
    a = normal(rng, 40, 70)
    differential(problem(COPY.format("float"), a[:, 3:60]))
    differential(problem(COPY.format("float"), a[::-1, :50]))
    differential(problem(COPY.format("float"), a, outs=(np.zeros((70, 50), np.float32)[:, :40],)))
    same = "def f(float(N,M) A) -> (O) { O(n,m) = A(n,m) * 2 }"
    p = problem(same, a, outs=(np.zeros((70, 40), np.float32).T,))
    assert "permute" in lowered(p).header
    differential(p)


@pytest.mark.cusim
@pytest.mark.deep
@pytest.mark.parametrize("threads", [128, 256, 512])
@pytest.mark.parametrize("tile", [32, 64])
def test_every_knob_is_right(tile: int, threads: int, rng: np.random.Generator) -> None:
    p = problem(TURN, normal(rng, 40, 70), normal(rng, 70, 40), normal(rng, 70))
    config = Config.of({"g0.tile": tile, "g0.threads": threads})
    differential(p, config, orders=("forward", "reverse", "random"))


def test_large_narrow_types_have_large_tiles(rng: np.random.Generator) -> None:
    p = problem(COPY.format("float16"), np.zeros((64, 96), np.float16))
    spec = spec_of(p, exact=False, threads=0)
    for n, tile in ((64, 32), (8192, 64)):
        config = compiler.default_config(p.program, spec, GPU, {"N": n, "M": n})
        assert config.get("g0.tile") == tile


@pytest.mark.cusim
def test_memory_is_walked_side_by_side_and_banks_do_not_meet(rng: np.random.Generator) -> None:
    p = problem(COPY.format("float"), normal(rng, 64, 96))
    for form, wasted in (("permute", 1.0), ("pointwise", 3.0)):
        unit = lowered(p, Config.of({"g0.form": form}))
        _, report = simulate(unit, compiler.emit_cuda(unit), p, counters=True)
        moved, ideal = report.sectors()
        assert moved >= wasted * ideal
        if form == "permute":
            assert moved == ideal
            moved, ideal = report.wavefronts()
            assert moved == ideal > 0


def test_the_model_prefers_tiles(rng: np.random.Generator) -> None:
    p = problem(COPY.format("float"), normal(rng, 64, 96))
    spec = spec_of(p, exact=False, threads=0)

    def cost(form: str) -> float:
        config = Config.of({"g0.form": form})
        return compiler.cost_ns(p.program, spec, config, GPU, {"N": 8192, "M": 8192})

    assert cost("permute") < cost("pointwise")


@pytest.mark.nvrtc
def test_defaults_need_no_stack(rng: np.random.Generator) -> None:
    p = problem(TURN, normal(rng, 1000, 300), normal(rng, 300, 1000), normal(rng, 300))
    for tile in (32, 64):
        unit = lowered(p, Config.of({"g0.tile": tile}), exact=tile == 64)
        cubin = compile_cuda(compiler.emit_cuda(unit), "sm_90", name="permute")
        (k,) = cubin.report.kernels
        assert (k.spills, k.stack) == (0, 0)
        assert k.registers <= 64


def test_emitted_text(golden: Callable[[str, str], None], rng: np.random.Generator) -> None:
    p = problem(TURN, normal(rng, 40, 70), normal(rng, 70, 40), normal(rng, 70))
    text = compiler.emit_cuda(lowered(p, exact=False, is_small=True, name="turn"))
    golden(text, "emit/permute.cu")
