"""Subscripts from data on a GPU: each is read once, whoever writes the array meanwhile."""

from __future__ import annotations

import numpy as np
import pytest

from tcdsl.codegen.choose import compiler
from tcdsl.codegen.machine.config import Config
from tcdsl.codegen.toolchain.nvrtc import compile_cuda
from tcdsl.grammar.text.errors import ScheduleError
from tests.codegen.data_subscripts import TEXTS, subscripts_problem
from tests.codegen.harness import Problem, problem
from tests.cusim.build import compile_all
from tests.cusim.harness import lowered, simulate
from tests.tiers import sampled

MEETINGS = ("atomic", "pairs", "ranges", "order")
CONFIGS = (Config(), *(Config.of({"g0.meeting": way}) for way in MEETINGS))
WITNESSES = ("through another, guarded",)
PARTS = [sorted({*TEXTS} - {*WITNESSES})[k::3] for k in range(3)]


def run_while_rows_change(p: Problem, *configs: Config) -> None:
    """Run all kernels of a problem: what was read is outside for whoever reads it again."""
    units = []
    for config in configs:
        try:
            units.append(lowered(p, config, exact=False))
        except ScheduleError:
            continue
    texts = [compiler.emit_cuda(u) for u in units]
    compile_all(texts)
    for unit, text in zip(units, texts, strict=True):
        for every in (1, 2, 3, 7):
            # of points whose rows change between two looks nobody may have written the links
            _, report = simulate(unit, text, p, checked=False, changing=every)
            report.assert_clean()


@pytest.mark.cusim
@sampled("names", [WITNESSES, *PARTS], keep=1, wide=1)
def test_rows_that_change_when_they_are_read(
    names: tuple[str, ...], rng: np.random.Generator
) -> None:
    for name in names:
        run_while_rows_change(subscripts_problem(name, rng), *CONFIGS)


@pytest.mark.cusim
def test_chains_of_which_blocks_see_different_rows_come_to_an_end(
    rng: np.random.Generator,
) -> None:
    text = "def f(int32(B) I, float(B) X, float(N) L) -> (float(N) O) { O(I(b)) +=! X(b) }"
    rows, x = rng.integers(0, 50, 90).astype(np.int32), rng.normal(size=90).astype(np.float32)
    # two blocks: what the first one turns outside, so that the other leaves it out, that turns back
    p = problem(text, rows, x, np.zeros(50, np.float32))
    run_while_rows_change(p, Config.of({"g0.meeting": "ranges"}))


@pytest.mark.nvrtc
@pytest.mark.parametrize("dtype", ["int32", pytest.param("int8", marks=pytest.mark.wide), "uint64"])
def test_what_is_read_once_compiles(dtype: str, rng: np.random.Generator) -> None:
    text = compiler.emit_cuda(lowered(subscripts_problem("padded", rng, dtype)))
    assert text.count("tc_once_") == 1
    assert compile_cuda(text, "sm_90", name="once").report.kernels


@pytest.mark.nvrtc
def test_any_type_is_read_once_by_one_instruction() -> None:
    kinds = "b i8 i16 i32 i64 u8 u16 u32 u64 f16 bf16 f32 f64".split()  # noqa: SIM905
    body = "".join(
        f'extern "C" __global__ void k_{k}(const tc_{k} *p, tc_{k} *q) {{ *q = tc_once_{k}(p); }}\n'
        for k in kinds
    )
    text = f'#include "prelude.cuh"\n{body}'
    for arch in ("sm_75", "sm_90"):
        assert len(compile_cuda(text, arch, name="kinds").report.kernels) == len(kinds)
