"""Reductions on a GPU, in the simulator and through NVRTC: directions, parts, operators, types."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tcdsl.codegen.choose import compiler
from tcdsl.codegen.machine.config import Config, Value
from tcdsl.codegen.machine.gpu import gpu_of
from tcdsl.codegen.program.dtypes import numpy_dtype
from tcdsl.codegen.toolchain.nvrtc import compile_cuda
from tcdsl.grammar.text.errors import ScheduleError
from tcdsl.grammar.types.dtypes import ALL
from tests.codegen.forms.rows.test_reduction import COLUMNS, MIDDLE, PLANES, ROWS, TOTAL
from tests.codegen.harness import Array, Problem, problem, spec_of
from tests.codegen.knobs import knobs_of
from tests.cusim.harness import differential, lowered, simulate
from tests.cusim.simulator import Order
from tests.tiers import sampled

GPU = gpu_of("sm_90")
ORDERS: tuple[Order, ...] = ("forward", "reverse", "random")
SMALL: dict[str, Value] = {
    "walk": "rows",
    "lanes": 32,
    "threads": 64,
    "width": 1,
    "unroll": 2,
    "parts": 1,
}


def config(**values: Value) -> Config:
    """Return a config of small blocks, so that small problems have several."""
    return Config.of({"g0.form": "reduction"} | {f"g0.{k}": v for k, v in (SMALL | values).items()})


def normal(rng: np.random.Generator, *shape: int) -> Array:
    return rng.normal(size=shape).astype(np.float32)


def titles_of(p: Problem, c: Config = Config(), *, exact: bool = True) -> str:  # noqa: B008  (frozen)
    spec = spec_of(p, exact=exact, threads=0)
    return compiler.describe(p.program, spec, c, GPU, p.sizes)[0][1]


def chosen(text: str, *shapes: tuple[int, ...]) -> dict[str, Value]:
    """Return the default values at sizes."""
    arrays = [np.zeros(s, np.float32) for s in shapes]
    p = problem(text, *arrays)
    made = compiler.default_config(p.program, spec_of(p, exact=True, threads=0), GPU, p.sizes)
    return made.group(0)


# ---- values


@pytest.mark.cusim
@sampled("lanes", [1, 8, 32, 64], keep=2)
def test_along_rows(lanes: int, rng: np.random.Generator) -> None:
    """One size-generic kernel for each team: rows shorter, as long as and longer than it."""
    for n, m in ((1, 1), (3, 31), (5, 33), (70, 64), (0, 70), (3, 0), (2, 1025)):
        p = problem(ROWS, normal(rng, n, m), normal(rng, m))
        differential(p, config(lanes=lanes), exact=(False,), terms=500)
    p = problem(ROWS, normal(rng, 7, 131), normal(rng, 131))
    differential(p, config(lanes=lanes), exact=(True,), terms=500)


@pytest.mark.cusim
@sampled("lanes", [1, 2, 16], keep=1)
def test_along_columns(lanes: int, rng: np.random.Generator) -> None:
    for n, m in ((1, 1), (37, 33), (31, 64), (0, 70), (3, 0)):
        p = problem(COLUMNS, normal(rng, n, m), normal(rng, n))
        differential(p, config(walk="columns", lanes=lanes), exact=(False,), terms=50)
    p = problem(COLUMNS, normal(rng, 131, 7), normal(rng, 131))
    differential(p, config(walk="columns", lanes=lanes), exact=(True,), terms=150)


@pytest.mark.cusim
def test_parts(rng: np.random.Generator) -> None:
    rows = problem(ROWS, normal(rng, 3, 300), normal(rng, 300))
    both = [config(lanes=64, parts=4), config(walk="columns", lanes=4, parts=2)]
    differential(rows, *both, terms=500)
    short = problem(ROWS, normal(rng, 3, 3), normal(rng, 3))  # fewer points than parts
    for p in (short, problem(ROWS, normal(rng, 3, 0), normal(rng, 0))):
        with pytest.raises(ScheduleError, match="parts is 4; legal are 1"):
            lowered(p, config(parts=4))
        differential(p, config(lanes=64, parts=4), exact=(False,))
    differential(problem(TOTAL, normal(rng, 7, 130)), config(parts=2), config(), terms=1000)


@pytest.mark.deep
@pytest.mark.cusim
def test_pieces_of_rows(rng: np.random.Generator) -> None:
    p = problem(ROWS, normal(rng, 7, 260), normal(rng, 260))
    some = (config(lanes=lanes, width=4) for lanes in (1, 8, 64))
    differential(p, *some, config(width=2, parts=4), exact=(True,), terms=300)
    begun = problem(TOTAL, normal(rng, 1041)[1:].reshape(4, 260))  # not aligned
    differential(begun, config(width=4, parts=2), exact=(True,), terms=2000)


@pytest.mark.cusim
def test_windows_have_a_thread_each(rng: np.random.Generator) -> None:
    text = """def pool(float(B,C,H,W) X) -> (O) { O(b,c,h,w) +=! X(b,c,2*h+i,2*w+j)
      where i in 0:2, j in 0:2, h in 0:H/2, w in 0:W/2 }"""
    p = problem(text, np.zeros((64, 64, 56, 56), np.float32))
    assert "1 thread to a row" in titles_of(p)
    p = problem(text, normal(rng, 2, 3, 8, 10))
    differential(p, config(lanes=1), config(lanes=1, width=2), config(lanes=4), exact=(True,))


@pytest.mark.deep
@pytest.mark.cusim
def test_several_dimensions(rng: np.random.Generator) -> None:
    for p in (
        problem(MIDDLE, normal(rng, 3, 11, 35)),
        problem(PLANES, normal(rng, 2, 3, 5, 7)),
        problem(MIDDLE, normal(rng, 5, 4, 3)[::-1].transpose(0, 2, 1)),
        problem(TOTAL, np.zeros((6, 90), np.float32)[:, ::3] + 1),
    ):
        assert "reduction" in titles_of(p)
        differential(p, terms=500)


@pytest.mark.deep
@pytest.mark.cusim
def test_every_value_of_every_knob(rng: np.random.Generator) -> None:
    for p in (
        problem(ROWS, normal(rng, 5, 520), normal(rng, 520)),
        problem(COLUMNS, normal(rng, 130, 33), normal(rng, 130)),
        problem(PLANES, normal(rng, 2, 3, 4, 12)),
    ):
        space = knobs_of(p.program, spec_of(p, exact=True, threads=0), GPU, p.sizes)
        knobs = {k.name.removeprefix("g0."): k.values for k in space if k.name.startswith("g0.")}
        for walk in knobs["walk"]:
            for lanes in knobs["lanes"]:
                c = config(walk=walk, lanes=lanes, threads=max(64, int(lanes)))
                differential(p, c, orders=("reverse",), terms=1000)
        for name, values in knobs.items():
            if name in ("threads", "unroll", "width", "parts"):
                configs = [config(**{"lanes": 16, name: v}) for v in values]
                differential(p, *configs, exact=(True,), orders=("reverse",), terms=1000)


@pytest.mark.cusim
@sampled("op", ["+=!", "*=!", "min=!", "max=!"], keep=1)
def test_operators_and_types(op: str, rng: np.random.Generator) -> None:
    deep = ("int8", "uint16", "int64", "bool", "float16", "float64")
    types = [d for d in ALL if d.name in deep]
    for d in types:
        text = f"def f({d.name}(N,M) A) -> (O) {{ O(n) {op} A(n,m) }}"
        high = 2 if d.name == "bool" else 3 if d.is_float else 120
        a = rng.integers(1 if d.is_float else 0, high, (3, 41)).astype(numpy_dtype(d))
        differential(problem(text, a), config(lanes=64), exact=(True,), orders=("forward",))


@pytest.mark.cusim
def test_min_and_max_hand_nan_on_wherever_it_stands(rng: np.random.Generator) -> None:
    text = "def f(float(N,M) A) -> (O) { O(n) max=! A(n,m) }"
    for at in (0, 31, 66):
        a = normal(rng, 4, 67)
        a[1, at] = np.nan
        a[2, at], a[3, at] = np.inf, -np.inf
        differential(problem(text, a), config(lanes=64), exact=(True,))


UPDATE = "def f(float(N,M) A) -> (O) { O(n) += A(n,m) }"


@pytest.mark.cusim
def test_an_update_starts_from_what_the_output_holds(rng: np.random.Generator) -> None:
    p = problem(UPDATE, normal(rng, 5, 140), outs=[normal(rng, 5)])
    differential(p, config(lanes=64, parts=2), exact=(True,), terms=200)


@pytest.mark.wide
@pytest.mark.cusim
def test_updates_of_any_schedule_start_from_what_the_output_holds(rng: np.random.Generator) -> None:
    p = problem(UPDATE, normal(rng, 5, 140), outs=[normal(rng, 5)])
    differential(p, config(), config(lanes=64, parts=2), config(walk="columns", lanes=4), terms=200)


@pytest.mark.cusim
def test_a_sum_is_the_same_in_any_order_of_threads(rng: np.random.Generator) -> None:
    p = problem(TOTAL, normal(rng, 30, 100))
    unit = lowered(p, config(lanes=64, parts=8))
    text = compiler.emit_cuda(unit)
    runs = [simulate(unit, text, p, order=order)[0][0] for order in ORDERS]
    assert len({r.tobytes() for r in runs}) == 1


def test_checked_subscripts_are_left_to_a_nest_without_barriers(rng: np.random.Generator) -> None:
    text = "def f(float(K) A, int32(N,M) at) -> (O) { O(n) +=! A(at(n,m)) }"
    p = problem(text, normal(rng, 5), np.zeros((3, 4), np.int32))
    assert "nest" in titles_of(p)


# ---- schedules


def test_a_row_has_no_more_threads_than_its_block(rng: np.random.Generator) -> None:
    p = problem(ROWS, normal(rng, 3, 300), normal(rng, 300))
    with pytest.raises(ScheduleError, match="a row of 128 threads in a block of 64"):
        lowered(p, config(lanes=128))


def test_defaults_follow_layout_and_sizes() -> None:
    assert chosen(ROWS, (4096, 4096), (4096,))["walk"] == "rows"
    assert chosen(COLUMNS, (4096, 4096), (4096,))["walk"] == "columns"
    assert chosen(ROWS, (1 << 16, 32), (32,))["lanes"] == 8
    assert int(chosen(TOTAL, (4096, 4096))["parts"]) >= GPU.sms
    assert chosen(ROWS, (4096, 4096), (4096,))["parts"] == 1


def test_costs_know_what_is_far_better() -> None:
    def cost(text: str, shapes: list[tuple[int, ...]], **values: Value) -> float:
        p = problem(text, *(np.zeros(s, np.float32) for s in shapes))
        spec = spec_of(p, exact=True, threads=0)
        return compiler.cost_ns(p.program, spec, config(threads=256, **values), GPU, p.sizes)

    square = [(4096, 4096), (4096,)]
    assert cost(ROWS, square, lanes=256) * 2 < cost(ROWS, square, walk="columns", lanes=8)
    assert cost(COLUMNS, square, walk="columns", lanes=8, unroll=8) < cost(
        COLUMNS, square, lanes=256, unroll=8
    )
    assert cost(TOTAL, square[:1], lanes=256, parts=256) * 4 < cost(TOTAL, square[:1], lanes=256)


# ---- what the hardware makes of it


@pytest.mark.cusim
@sampled(
    "text,shapes,values",
    [
        (ROWS, [(8, 512), (512,)], {"lanes": 64}),
        (ROWS, [(8, 512), (512,)], {"lanes": 32, "width": 4}),
        (COLUMNS, [(64, 64), (64,)], {"walk": "columns", "lanes": 2}),
        (COLUMNS, [(64, 64), (64,)], {"walk": "columns", "lanes": 8}),
    ],
    keep=2,
)
def test_full_sectors_and_no_bank_conflicts(
    text: str, shapes: list[tuple[int, ...]], values: dict[str, Value], rng: np.random.Generator
) -> None:
    p = problem(text, *(normal(rng, *s) for s in shapes))
    unit = lowered(p, config(**values))
    _, report = simulate(unit, compiler.emit_cuda(unit), p, counters=True)
    report.assert_clean()
    loads, ideal = report.sectors(is_write=False)
    assert loads == ideal
    shared, ideal = report.wavefronts()
    assert shared == ideal


@pytest.mark.nvrtc
@sampled("arch", ["sm_80", "sm_90"], keep=1)
def test_defaults_do_not_spill(arch: str) -> None:
    for text, shapes in (
        (ROWS, [(999, 1000), (1000,)]),
        (COLUMNS, [(5000, 1000), (5000,)]),
        (TOTAL, [(999, 1000)]),
        (PLANES, [(8, 64, 30, 30)]),
    ):
        p = problem(text, *(np.zeros(s, np.float32) for s in shapes))
        for exact in (True, False):
            unit = lowered(p, exact=exact, gpu=gpu_of(arch), is_small=True)
            report = compile_cuda(compiler.emit_cuda(unit), arch, name="k").report
            assert report.objection is None
            assert all(k.spills == 0 for k in report.kernels), (text, exact, report)


def test_kernels_read_well(golden: Callable[[str, str], None]) -> None:
    def text(source: str, shapes: list[tuple[int, ...]], **values: Value) -> str:
        p = problem(source, *(np.zeros(s, np.float32) for s in shapes))
        return compiler.emit_cuda(lowered(p, config(**values)))

    rows = text(ROWS, [(100, 1000), (1000,)], lanes=256, threads=256)
    golden(rows, "emit/reduction_rows.cu")
    columns = text(COLUMNS, [(1000, 100), (1000,)], walk="columns", lanes=8, threads=256)
    golden(columns, "emit/reduction_columns.cu")
    golden(text(TOTAL, [(300, 1000)], lanes=256, threads=256, parts=64), "emit/reduction_parts.cu")
