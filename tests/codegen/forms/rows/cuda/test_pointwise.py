"""Pointwise groups on a GPU: shapes, layouts, alignment, types, knobs, text, resources."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tcdsl.codegen.choose import compiler, gpu_forms
from tcdsl.codegen.forms.points.cuda import nest
from tcdsl.codegen.forms.rows.cuda import pointwise
from tcdsl.codegen.machine.config import Config
from tcdsl.codegen.machine.gpu import gpu_of
from tcdsl.codegen.program.dtypes import numpy_dtype
from tcdsl.codegen.toolchain.nvrtc import compile_cuda
from tcdsl.grammar.types.dtypes import ALL
from tests.codegen.harness import Array, Problem, problem, spec_of
from tests.codegen.programs import PROGRAMS, problem_of
from tests.cusim.harness import differential, lowered, simulate
from tests.tiers import sampled

ADD = "def f(float(N,M) A, float(N,M) B) -> (O) { O(n,m) = A(n,m) + 2 * B(n,m) }"
BIAS = "def f(float(N,M) A, float(M) b, float(N) c) -> (O) { O(n,m) = A(n,m) * b(m) + c(n) }"
GPU = gpu_of("sm_90")


@pytest.fixture(autouse=True)
def _only_pointwise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        gpu_forms,
        "GPU",
        (
            pointwise.FORM,
            nest.FORM,
        ),
    )


def normal(rng: np.random.Generator, *shape: int) -> Array:
    return rng.normal(size=shape).astype(np.float32)


def at_odd_element(a: Array) -> Array:
    """Return a's values in memory that begins one element after an aligned address."""
    room = np.zeros(a.size + 1, a.dtype)
    out = room[1:].reshape(a.shape)
    out[...] = a
    return out


def layouts(a: Array) -> dict[str, Array]:
    """Return arrays of a's shape in layouts that reach every kind of access."""
    n, m = a.shape
    wide = np.zeros((n, 2 * m + 1), a.dtype)
    wide[:, : 2 * m : 2] = a
    return {
        "transposed": np.ascontiguousarray(a.T).T,
        "every second": wide[:, : 2 * m : 2],
        "reversed": np.ascontiguousarray(a[::-1, ::-1])[::-1, ::-1],
        "rows": np.broadcast_to(a[:1], a.shape),
        "columns": np.broadcast_to(a[:, :1], a.shape),
        "padded": np.pad(a, ((0, 0), (0, 4)))[:, :m],
        "padded oddly": np.pad(a, ((0, 0), (0, 3)))[:, :m],
    }


def config_of(p: Problem, *, exact: bool = True) -> Config:
    return compiler.default_config(p.program, spec_of(p, exact=exact, threads=0), GPU, p.sizes)


@pytest.mark.cusim
@sampled(
    "shape",
    [
        (1, 1),
        (19, 100),
        (3, 1024),
        *(pytest.param(s, marks=pytest.mark.deep) for s in ((3, 5), (2, 33), (1, 4099), (64, 64))),
    ],
    keep=2,
)
def test_any_shape(shape: tuple[int, int], rng: np.random.Generator) -> None:
    p = problem(ADD, normal(rng, *shape), normal(rng, *shape))
    differential(p)
    differential(p, Config.of({"g0.vectors": 2, "g0.threads": 128}), exact=(False,), is_small=True)


@pytest.mark.parametrize("shape", [(0, 4), (4, 0)])
def test_an_empty_box_starts_nothing(shape: tuple[int, int]) -> None:
    p = problem(ADD, np.zeros(shape, np.float32), np.zeros(shape, np.float32))
    assert lowered(p, exact=True).launches == ()
    differential(p, exact=(False,))


@pytest.mark.cusim
def test_rows_that_are_not_one_run(rng: np.random.Generator) -> None:
    for n, m in ((9, 128), (33, 37)):
        differential(problem(BIAS, normal(rng, n, m), normal(rng, m), normal(rng, n)))


@pytest.mark.cusim
def test_an_array_may_begin_at_any_element(rng: np.random.Generator) -> None:
    a, b = normal(rng, 16, 256), normal(rng, 16, 256)
    for args in ((at_odd_element(a), b), (a, at_odd_element(b))):
        differential(problem(ADD, *args))
    differential(problem(ADD, a, b, outs=(at_odd_element(np.zeros_like(a)),)))


@pytest.mark.cusim
@sampled(
    "name",
    [
        "padded",
        "columns",
        *(
            pytest.param(n, marks=pytest.mark.deep)
            for n in ("transposed", "every second", "reversed", "rows", "padded oddly")
        ),
    ],
    keep=1,
)
def test_any_layout(name: str, rng: np.random.Generator) -> None:
    a, b = normal(rng, 21, 140), normal(rng, 21, 140)
    differential(problem(ADD, layouts(a)[name], b))
    out = layouts(np.zeros_like(a))[name]
    if 0 not in out.strides:
        differential(problem(ADD, a, b, outs=(out.copy(order="K"),)))
        differential(problem(ADD, a, b, outs=(out,)))


@pytest.mark.cusim
@sampled(
    "name",
    [
        d.name if d.name in ("uint8", "bfloat16") else pytest.param(d.name, marks=pytest.mark.deep)
        for d in ALL
    ],
    keep=1,
)
def test_every_type(name: str, rng: np.random.Generator) -> None:
    dtype = numpy_dtype(next(d for d in ALL if d.name == name))
    text = f"def f({name}(N,M) A, {name}(N,M) B) -> (O) {{ O(n,m) = A(n,m) * B(n,m) - A(n,m) }}"
    if name == "bool":
        text = "def f(bool(N,M) A, bool(N,M) B) -> (O) { O(n,m) = A(n,m) && !B(n,m) }"
    high = 2 if name == "bool" else 100
    for shape in ((8, 512), (3, 37)):
        a, b = (rng.integers(0, high, shape).astype(dtype) for _ in range(2))
        differential(problem(text, a, b))


@pytest.mark.cusim
def test_types_meet(rng: np.random.Generator) -> None:
    shape = (9, 256)
    a, b = normal(rng, *shape), rng.normal(size=shape)
    i, h = rng.integers(-9, 9, shape).astype(np.int8), normal(rng, *shape).astype(np.float16)
    text = (
        "def f(float(N,M) A, double(N,M) B, int8(N,M) I, float16(N,M) H) -> (O, P, Q) {"
        " O(n,m) = A(n,m) * B(n,m) + I(n,m)  P(n,m) = float16(A(n,m) * I(n,m) * H(n,m))"
        " Q(n,m) = int8(I(n,m) > 2 ? 1 : 0) }"
    )
    differential(problem(text, a, b, i, h))


@pytest.mark.cusim
def test_what_is_stored_in_half_is_read_rounded(rng: np.random.Generator) -> None:
    a = normal(rng, 2, 1024).astype(np.float16)
    text = (
        "def f(float16(N,M) A) -> (O, P) {"
        " O(n,m) = A(n,m) * A(n,m)  P(n,m) = (float(O(n,m)) - float(A(n,m)) * A(n,m)) * 4096 }"
    )
    differential(problem(text, a))


@pytest.mark.cusim
def test_chains_stay_in_registers(rng: np.random.Generator) -> None:
    p = problem_of(PROGRAMS["chain"], {"N": 8, "M": 256}, rng)
    unit = lowered(p)
    assert unit.workspace == ()
    assert len(unit.launches) == 1
    for name in ("chain", "two_outputs", "overwrite"):
        differential(problem_of(PROGRAMS[name], {"N": 9, "M": 260}, rng), exact=(True,))


@pytest.mark.cusim
def test_nan_infinity_and_signed_zero(rng: np.random.Generator) -> None:
    edges = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.5, -1e30, 3e38], np.float32)
    a, b = (np.tile(x.ravel(), 16).reshape(4, 256) for x in np.meshgrid(edges, edges))
    text = (
        "def f(float(N,M) A, float(N,M) B) -> (O, P, Q) {"
        " O(n,m) = max(A(n,m), B(n,m)) + fmin(A(n,m), B(n,m))  P(n,m) = A(n,m) * B(n,m)"
        " Q(n,m) = A(n,m) < B(n,m) || !(A(n,m) > 0) ? A(n,m) : sigmoid(B(n,m)) }"
    )
    differential(problem(text, a, b), exact=(True,), terms=8)
    p = problem("def f(float(N,M) A) -> (O) { O(n,m) = -A(n,m) }", a)
    unit = lowered(p)
    (got,), _ = simulate(unit, compiler.emit_cuda(unit), p)
    np.testing.assert_array_equal(np.signbit(got), ~np.signbit(a))


@pytest.mark.cusim
def test_a_guarded_read_stays_guarded(rng: np.random.Generator) -> None:
    shift = "def f(float(N) A) -> (O) { O(i) = i > 0 ? A(i - 1) : 7.0 where i in 0:N }"
    differential(problem(shift, normal(rng, 1024)))
    relu = "def f(float(N) A, float(N) D) -> (O) { O(i) = A(i) > 0 ? D(i) : 0.0 }"
    p = problem(relu, normal(rng, 1024), normal(rng, 1024))
    assert "tc_copy16(&D_v[0]" in compiler.emit_cuda(lowered(p))  # ranges prove D(i) inside
    differential(p, exact=(False,))


@pytest.mark.cusim
def test_values_of_indices_and_scalars(rng: np.random.Generator) -> None:
    text = (
        "def f(float(N,M) A, float alpha, int32 k) -> (O) {"
        " O(n,m) = A(n,m) * alpha + n * k - m + M }"
    )
    differential(problem(text, normal(rng, 6, 512), np.float32(0.5), np.int32(3)))


@pytest.mark.cusim
def test_update_goes_on_from_the_caller_buffer(rng: np.random.Generator) -> None:
    text = "def f(float(N,M) A) -> (O) { O(n,m) += A(n,m) }"
    differential(problem(text, normal(rng, 4, 512), outs=(normal(rng, 4, 512),)))


@pytest.mark.cusim
def test_a_total_is_read_once_for_all_neighbours(rng: np.random.Generator) -> None:
    text = "def f(float(N,M) A) -> (O) { t +=! A(n,m)  O(n,m) = A(n,m) / t }"
    p = problem(text, normal(rng, 4, 256))
    assert compiler.emit_cuda(lowered(p)).count("t[0]") >= 1
    differential(p, exact=(True,), terms=1100)


@pytest.mark.cusim
@pytest.mark.deep
@pytest.mark.parametrize("text", [ADD, BIAS])
def test_every_knob_is_right(text: str, rng: np.random.Generator) -> None:
    args = [normal(rng, 12, 1024), normal(rng, 12, 1024)]
    if text == BIAS:
        args = [args[0], normal(rng, 1024), normal(rng, 12)]
    p = problem(text, *args)
    (forms,) = compiler.choices(p.program, spec_of(p, exact=True, threads=0), GPU, p.sizes)["fused"]
    knobs = next(f.knobs for f in forms if f.name == "pointwise")
    differential(p, *(Config.of({f"g0.{k.name}": v}) for k in knobs for v in k.values))


def test_widths_follow_types_and_layouts(rng: np.random.Generator) -> None:
    def width(text: str, *args: Array) -> object:
        return config_of(problem(text, *args)).get("g0.width")

    a = normal(rng, 64, 64)
    two = "def f({0}(N,M) A, {0}(N,M) B) -> (O) {{ O(n,m) = A(n,m) + B(n,m) }}"
    for name, expected in (("double", 2), ("float", 4), ("float16", 8), ("uint8", 16)):
        dtype = numpy_dtype(next(d for d in ALL if d.name == {"double": "float64"}.get(name, name)
                                 or d.name == {"float": "float32"}.get(name, name)))  # fmt: skip
        assert width(two.format(name), a.astype(dtype), a.astype(dtype)) == expected
    assert width(ADD, a, layouts(a)["every second"]) == 1
    assert width(BIAS, a[:, :38].copy(), a[0, :38].copy(), a[:, 0].copy()) == 2
    assert width(BIAS, a[:, :37].copy(), a[0, :37].copy(), a[:, 0].copy()) == 1
    mixed = "def f(float(N,M) A, uint8(N,M) B) -> (O) { O(n,m) = A(n,m) * B(n,m) }"
    assert width(mixed, a, a.astype(np.uint8)) == 4


def test_contiguous_operands_are_one_run(rng: np.random.Generator) -> None:
    a = rng.normal(size=(5, 6, 7, 8)).astype(np.float32)
    p = problem(
        "def f(float(A,B,C,D) X, float(A,B,C,D) Y) -> (O) { O(a,b,c,d) = X(a,b,c,d) * Y(a,b,c,d) }",
        a,
        a,
    )
    for exact in (True, False):
        text = compiler.emit_cuda(lowered(p, exact=exact))
        assert "% 4 ==" not in text  # no rows whose length would have to be checked
        assert "O[point] = X[point] * Y[point];" in text


def test_small_problems_have_few_vectors_a_thread(rng: np.random.Generator) -> None:
    small = problem(ADD, normal(rng, 8, 64), normal(rng, 8, 64))
    sizes = {"N": 1 << 14, "M": 1 << 14}
    spec = spec_of(small, exact=False, threads=0)
    assert config_of(small).get("g0.vectors") == 1
    assert compiler.default_config(small.program, spec, GPU, sizes).get("g0.vectors") == 4


def test_the_model_knows_bandwidth_and_launches(rng: np.random.Generator) -> None:
    p = problem(ADD, normal(rng, 8, 64), normal(rng, 8, 64))
    spec = spec_of(p, exact=False, threads=0)

    def cost(n: int, **config: int) -> float:
        chosen = Config.of({f"g0.{k}": v for k, v in config.items()})
        return compiler.cost_ns(p.program, spec, chosen, GPU, {"N": n, "M": n})

    moved = 3 * 4 * 2.0**28 / GPU.bandwidth_gbs
    assert moved < cost(1 << 14) < 1.1 * moved + 3000
    assert 3000 <= cost(8) < 5000
    assert cost(1 << 14, width=4) < cost(1 << 14, width=1, vectors=1)


@pytest.mark.cusim
def test_all_sectors_are_used(rng: np.random.Generator) -> None:
    p = problem(ADD, normal(rng, 64, 64), normal(rng, 64, 64))
    for width in (1, 4):
        unit = lowered(p, Config.of({"g0.width": width}))
        _, report = simulate(unit, compiler.emit_cuda(unit), p, counters=True)
        moved, ideal = report.sectors()
        assert moved == ideal


@pytest.mark.nvrtc
@sampled("exact", [True, False], ids=["exact", "generic"], keep=1)
def test_defaults_need_no_stack(exact: bool, rng: np.random.Generator) -> None:
    p = problem(BIAS, normal(rng, 4096, 4096), normal(rng, 4096), normal(rng, 4096))
    cubin = compile_cuda(compiler.emit_cuda(lowered(p, exact=exact)), "sm_90", name="pointwise")
    for k in cubin.report.kernels:
        assert k.spills == 0
        assert k.stack == 0
        assert k.registers <= 64


def test_emitted_text(golden: Callable[[str, str], None], rng: np.random.Generator) -> None:
    p = problem(BIAS, normal(rng, 1000, 64), normal(rng, 64), normal(rng, 1000))
    config = Config.of({"g0.vectors": 2})
    text = compiler.emit_cuda(lowered(p, config, exact=False, is_small=True, name="bias"))
    golden(text, "emit/pointwise.cu")
