"""Row programs on a GPU, in the simulator and through NVRTC: softmax, norms, rows and columns."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tcdsl.codegen.choose import compiler
from tcdsl.codegen.machine.config import Config, Value
from tcdsl.codegen.machine.gpu import gpu_of
from tcdsl.codegen.toolchain.nvrtc import compile_cuda
from tcdsl.grammar.text.errors import ScheduleError
from tests.codegen.forms.rows.test_rows import (
    BATCHNORM,
    CHANNELS,
    COSINE,
    FEATURES,
    LAYERNORM,
    LOGSOFTMAX,
    SOFTMAX,
)
from tests.codegen.harness import Array, Problem, problem, spec_of
from tests.codegen.knobs import knobs_of
from tests.codegen.programs import View, viewed
from tests.cusim.harness import differential, lowered, simulate
from tests.cusim.simulator import Order
from tests.tiers import sampled

GPU = gpu_of("sm_90")
ORDERS: tuple[Order, ...] = ("forward", "reverse", "random")
SMALL: dict[str, Value] = {"walk": "rows", "lanes": 32, "threads": 64, "width": 1, "unroll": 2}


def config(**values: Value) -> Config:
    """Return a config of small blocks, so that small problems have several."""
    return Config.of({"g0.form": "rows"} | {f"g0.{k}": v for k, v in (SMALL | values).items()})


def normal(rng: np.random.Generator, *shape: int) -> Array:
    return rng.normal(size=shape).astype(np.float32)


def forms(p: Problem, c: Config, *, exact: bool = True) -> set[str]:
    spec = spec_of(p, exact=exact, threads=0)
    return {form for _, form in compiler.describe(p.program, spec, c, GPU, p.sizes)}


# ---- values


@pytest.mark.cusim
@sampled(
    "values",
    [{"lanes": 1}, {"lanes": 4}, {"lanes": 32}, {"lanes": 64}, {"walk": "columns", "lanes": 4}],
    ids=str,
    keep=1,
)
def test_softmax_of_any_length(values: dict[str, Value], rng: np.random.Generator) -> None:
    """One size-generic kernel for each team, and exact ones that keep rows in registers."""
    for b, n in ((1, 1), (5, 31), (3, 33), (2, 1025), (0, 40), (40, 0)):
        differential(problem(SOFTMAX, normal(rng, b, n)), config(**values), exact=(False,))
    p = problem(SOFTMAX, normal(rng, 5, 77))
    assert all("in registers" in form for form in forms(p, config(**values)))
    differential(p, config(**values), exact=(True,))


@pytest.mark.cusim
def test_rows_that_do_not_fit_are_read_again(rng: np.random.Generator) -> None:
    p = problem(SOFTMAX, normal(rng, 3, 130))
    c = config(lanes=1)
    assert not any("in registers" in form for form in forms(p, c))
    differential(p, c, exact=(True,))


@pytest.mark.cusim
@sampled("width, lanes", [(4, 32), (2, 64)], keep=1)
def test_pieces_of_rows(width: int, lanes: int, rng: np.random.Generator) -> None:
    p = problem(SOFTMAX, normal(rng, 5, 260))
    differential(p, config(lanes=lanes, width=width), exact=(True,))


@pytest.mark.wide
@pytest.mark.cusim
def test_pieces_of_rows_however_they_lie(rng: np.random.Generator) -> None:
    whole, begun = normal(rng, 5, 260), normal(rng, 1301)[1:].reshape(5, 260)
    differential(problem(SOFTMAX, begun), config(width=4), exact=(True,))  # not aligned
    read_again = config(lanes=1, width=4)
    p = problem(SOFTMAX, whole)
    assert not any("in registers" in form for form in forms(p, read_again))
    differential(p, read_again, exact=(True,))
    norm = problem(LAYERNORM, normal(rng, 3, 704), normal(rng, 704), normal(rng, 704))
    differential(norm, config(lanes=64, width=4), exact=(True,), terms=700)
    planes = problem(BATCHNORM, normal(rng, 3, 5, 4, 6), normal(rng, 5))  # pieces end with a plane
    differential(planes, config(lanes=8, width=4), exact=(True,), terms=300)


@pytest.mark.cusim
def test_addresses_do_not_change_a_bit(rng: np.random.Generator) -> None:
    a = normal(rng, 3, 260)
    shifted = np.zeros(781, np.float32)
    shifted[1:] = a.reshape(-1)
    p, q = problem(SOFTMAX, a), problem(SOFTMAX, shifted[1:].reshape(a.shape))
    unit = lowered(p, config(width=4))
    text = compiler.emit_cuda(unit)
    ((x,), _), ((y,), _) = simulate(unit, text, p), simulate(unit, text, q)
    assert x.tobytes() == y.tobytes()


def test_what_pieces_do_not_divide_is_refused() -> None:
    def widths(b: int, n: int, *, exact: bool = True) -> tuple[Value, ...]:
        p = problem(SOFTMAX, np.zeros((b, n), np.float32))
        space = knobs_of(p.program, spec_of(p, exact=exact, threads=0), GPU, p.sizes)
        return next(k.values for k in space if k.name == "g0.width")

    assert widths(3, 260) == (1, 2, 4)
    assert widths(3, 262) == (1, 2)
    assert widths(3, 261) == (1,)
    assert widths(3, 260, exact=False) == (1,)
    p = problem(CHANNELS, np.zeros((3, 4, 8), np.float32))
    with pytest.raises(ScheduleError, match="width is 2; legal are 1"):
        lowered(p, config(walk="columns", lanes=1, width=2))
    p = problem(SOFTMAX, np.zeros((3, 8), np.float32))
    with pytest.raises(ScheduleError, match="columns cannot be read 2 points at once"):
        lowered(p, config(walk="columns", lanes=1, width=2))


@pytest.mark.cusim
def test_a_norm(rng: np.random.Generator) -> None:
    layer = problem(LAYERNORM, normal(rng, 3, 70), normal(rng, 70), normal(rng, 70))
    differential(layer, config(lanes=64), exact=(True,), terms=70)


@pytest.mark.wide
@pytest.mark.cusim
def test_norms(rng: np.random.Generator) -> None:
    layer = problem(LAYERNORM, normal(rng, 3, 700), normal(rng, 700), normal(rng, 700))
    differential(layer, Config(), config(lanes=256, threads=256), terms=700)


@pytest.mark.deep
@pytest.mark.cusim
def test_norms_by_channel(rng: np.random.Generator) -> None:
    batch = problem(BATCHNORM, normal(rng, 3, 5, 7, 11), normal(rng, 5))
    differential(batch, terms=300)
    differential(problem(FEATURES, normal(rng, 37, 40), normal(rng, 40)), terms=60)


@pytest.mark.deep
@pytest.mark.cusim
def test_several_results(rng: np.random.Generator) -> None:
    differential(problem(LOGSOFTMAX, normal(rng, 4, 70)), terms=100)
    differential(problem(COSINE, normal(rng, 3, 65), normal(rng, 3, 65)), terms=100)


@pytest.mark.cusim
def test_sweeps_over_different_dimensions(rng: np.random.Generator) -> None:
    text = """def f(float(B,N) X, float(B,M) Y) -> (Z, W) { A(b) max=! X(b,n)
      S(b) +=! Y(b,m) * A(b)  Z(b,n) = X(b,n) * S(b)  W(b,m) = Y(b,m) / A(b) }"""
    p = problem(text, normal(rng, 5, 70), normal(rng, 5, 33))
    assert len(forms(p, config(lanes=64))) == 1
    differential(p, config(lanes=8), config(lanes=64), exact=(True,), terms=60)


@pytest.mark.cusim
def test_names_of_a_program_are_its_own(rng: np.random.Generator) -> None:
    text = """def f(float(thread,lane) row) -> (i) { M(at) max=! row(at,k)
      i(at,k) = row(at,k) - M(at) }"""
    differential(problem(text, normal(rng, 6, 32)), config(lanes=8, width=4), exact=(True,))


@pytest.mark.deep
@pytest.mark.cusim
def test_integers_and_values_of_indices(rng: np.random.Generator) -> None:
    text = """def f(int32(B,N) X) -> (Y) { m(b) +=! X(b,n) * n
      Y(b,n) = X(b,n) * m(b) / 3 + n - b }"""
    a = rng.integers(-(2**30), 2**30, (5, 72)).astype(np.int32)  # wraps
    differential(problem(text, a), config(lanes=8, width=4), exact=(True,))
    differential(problem(text, a), config(lanes=64))


@pytest.mark.deep
@pytest.mark.cusim
def test_rows_side_by_side(rng: np.random.Generator) -> None:
    p = problem(CHANNELS, normal(rng, 3, 11, 35))
    assert all("columns" in form for form in forms(p, Config()))
    differential(p, Config(), config(walk="columns", lanes=1), config(lanes=8), terms=30)


@pytest.mark.cusim
@sampled("view", ["transposed", "strided", "reversed"], keep=1)
def test_any_layout(view: View, rng: np.random.Generator) -> None:
    p = problem(SOFTMAX, viewed(normal(rng, 9, 40), view))
    differential(p, config(lanes=8), terms=40)


@pytest.mark.cusim
@sampled("dtype", ["float16", "float64"], keep=1)
def test_other_types(dtype: str, rng: np.random.Generator) -> None:
    text = SOFTMAX.replace("float(", f"{dtype}(")
    p = problem(text, rng.normal(size=(3, 72)).astype(dtype))
    widest = 8 if dtype == "float16" else 2
    differential(p, config(), config(lanes=8, width=widest), exact=(True,), terms=70)


@pytest.mark.cusim
def test_rows_without_a_finite_value_give_nan(rng: np.random.Generator) -> None:
    a = normal(rng, 4, 40)
    a[1], a[2, 3], a[3, 5] = -np.inf, np.nan, np.inf
    with np.errstate(invalid="ignore"):
        differential(problem(SOFTMAX, a), config(), exact=(True,))


@pytest.mark.cusim
def test_a_value_read_at_another_point_is_not_a_row_s_own(rng: np.random.Generator) -> None:
    text = """def f(float(B,N) X) -> (Y, Z) { M(b) max=! X(b,n)  Y(b,n) = X(b,n) - M(b)
      Z(b,n) = Y(b,N-1-n) * 2.0 }"""
    differential(problem(text, normal(rng, 3, 40)), exact=(True,))


@pytest.mark.cusim
def test_guarded_reads_stay_behind_their_guard(rng: np.random.Generator) -> None:
    text = """def f(float(B,N) X) -> (Y) {
      S(b) +=! (n > 0 ? X(b,n-1) : 0.0) * X(b,n) where n in 0:N
      Y(b,n) = (n > 0 ? X(b,n-1) : 0.0) / S(b) where n in 0:N }"""
    differential(problem(text, normal(rng, 3, 70)), config(), config(lanes=64), terms=70)


@pytest.mark.cusim
def test_updates_inside_a_group(rng: np.random.Generator) -> None:
    text = """def f(float(B,N) X) -> (Y) { Y(b,n) = X(b,n) * 2.0  S(b) +=! Y(b,n)
      Y(b,n) += S(b)  Y(b,n) max= X(b,n) }"""
    differential(problem(text, normal(rng, 3, 70)), terms=70)


@pytest.mark.cusim
def test_the_order_of_threads_does_not_change_a_bit(rng: np.random.Generator) -> None:
    p = problem(SOFTMAX, normal(rng, 4, 300))
    unit = lowered(p, config(lanes=64))
    text = compiler.emit_cuda(unit)
    runs = [simulate(unit, text, p, order=o)[0][0] for o in ORDERS]
    assert len({r.tobytes() for r in runs}) == 1


@pytest.mark.deep
@pytest.mark.cusim
def test_every_value_of_every_knob(rng: np.random.Generator) -> None:
    for p in (
        problem(SOFTMAX, normal(rng, 5, 136)),
        problem(LAYERNORM, normal(rng, 3, 72), normal(rng, 72), normal(rng, 72)),
        problem(CHANNELS, normal(rng, 2, 24, 40)),
    ):
        space = knobs_of(p.program, spec_of(p, exact=True, threads=0), GPU, p.sizes)
        knobs = {k.name.removeprefix("g0."): k.values for k in space if k.name.startswith("g0.")}
        for walk in knobs["walk"]:
            for lanes in knobs["lanes"]:
                c = config(walk=walk, lanes=lanes, threads=max(64, int(lanes)))
                differential(p, c, orders=("reverse",), terms=200)
        for name, values in knobs.items():
            if name in ("threads", "unroll", "width"):
                configs = [config(**{"lanes": 16, name: v}) for v in values]
                differential(p, *configs, exact=(True,), orders=("reverse",), terms=200)


# ---- schedules


def test_defaults_follow_the_length_of_rows() -> None:
    def lanes(b: int, n: int) -> Value:
        p = problem(SOFTMAX, np.zeros((b, n), np.float32))
        spec = spec_of(p, exact=True, threads=0)
        return compiler.default_config(p.program, spec, GPU, p.sizes).group(0)["lanes"]

    assert lanes(1 << 16, 20) == 8
    assert lanes(4096, 1000) == 32
    assert lanes(4096, 4096) == 512
    assert lanes(1024, 16384) == 1024


@sampled("n", [16384, 1, 100, 1000, 1024, 4096], keep=1)
def test_rows_of_usual_lengths_stay_in_registers(n: int) -> None:
    p = problem(SOFTMAX, np.zeros((4096, n), np.float32))
    assert all("in registers" in form for form in forms(p, Config()))


def test_rows_that_are_too_long_do_not() -> None:
    p = problem(SOFTMAX, np.zeros((64, 1 << 20), np.float32))
    assert not any("in registers" in form for form in forms(p, Config()))


# ---- what the hardware makes of it


@pytest.mark.cusim
def test_full_sectors_and_no_bank_conflicts(rng: np.random.Generator) -> None:
    for values in ({"lanes": 64}, {"lanes": 64, "width": 4}, {"walk": "columns", "lanes": 2}):
        text = SOFTMAX if "walk" not in values else FEATURES
        p = problem(SOFTMAX, normal(rng, 4, 512))
        if text is FEATURES:
            p = problem(FEATURES, normal(rng, 64, 64), normal(rng, 64))
        unit = lowered(p, config(**values))
        _, report = simulate(unit, compiler.emit_cuda(unit), p, counters=True)
        report.assert_clean()
        for is_write in (True, False):
            sectors, ideal = report.sectors(is_write=is_write)
            assert sectors == ideal
        shared, ideal = report.wavefronts()
        assert shared == ideal


@pytest.mark.wide
@pytest.mark.nvrtc
@sampled("arch", ["sm_80", "sm_90"], keep=1)
def test_defaults_do_not_spill(arch: str) -> None:
    for text, shapes in (
        (SOFTMAX, [(4096, 1000)]),
        (SOFTMAX, [(4096, 16384)]),
        (LAYERNORM, [(4096, 4096), (4096,), (4096,)]),
        (BATCHNORM, [(8, 64, 30, 30), (64,)]),
        (CHANNELS, [(8, 21, 4096)]),
    ):
        p = problem(text, *(np.zeros(s, np.float32) for s in shapes))
        for exact in (True, False):
            unit = lowered(p, exact=exact, gpu=gpu_of(arch), is_small=True)
            report = compile_cuda(compiler.emit_cuda(unit), arch, name="k").report
            assert report.objection is None
            for k in report.kernels:
                assert (k.spills, k.stack) == (0, 0), (text, exact, k)


def test_kernels_read_well(golden: Callable[[str, str], None]) -> None:
    def text(source: str, *shapes: tuple[int, ...], **values: Value) -> str:
        p = problem(source, *(np.zeros(s, np.float32) for s in shapes))
        return compiler.emit_cuda(lowered(p, config(**values)))

    golden(text(SOFTMAX, (4096, 1000), threads=128, width=4), "emit/rows_warp.cu")
    block = text(LAYERNORM, (4096, 5000), (5000,), (5000,), lanes=512, threads=512)
    golden(block, "emit/rows_block.cu")
    golden(text(CHANNELS, (8, 21, 4096), walk="columns", lanes=1), "emit/rows_columns.cu")


@pytest.mark.cusim
def test_what_is_alike_along_a_row_is_not_read_where_the_row_has_no_points() -> None:
    text = """def f(float(I,K) A, float(K) s) -> (O, float(I) P) {
        P(i) max=! A(i, k) * exp(s(K - 1))
        O(i, k) = exp(s(K - 1)) + A(i, k) - P(i)
    }"""
    nothing = np.zeros((70, 0), np.float32), np.zeros(0, np.float32)
    differential(problem(text, *nothing), exact=(False,))
