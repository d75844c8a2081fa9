"""Rows that data chooses: found and checked once a row, copied, combined or summed in vectors."""

from __future__ import annotations

import numpy as np
import pytest

from tcdsl.codegen.choose import compiler
from tcdsl.codegen.machine.config import Config
from tcdsl.codegen.machine.cpu import Machine
from tcdsl.codegen.toolchain.host import detect
from tcdsl.grammar.text.errors import BoundsError
from tests.codegen.harness import Case, differential, problem, run_cases, spec_of
from tests.tiers import sampled

MACHINE = Machine("avx2", 32, 16, 32768, 8, 1 << 20, 1 << 25, 4, 3.0, 2)
BAG = "def f(float(V,D) E, int64(B,L) I) -> (O) { O(b,d) +=! E(I(b,l), d) where l in 0:L }"
TEXTS = {
    "embedding": "def f(float(V,D) E, int64(B,L) I) -> (O) { O(b,l,d) = E(I(b,l), d) }",
    "bag": BAG,
    "weighted": """def f(float(V,D) E, int64(B,L) I, float(B,L) w) -> (O) {
        O(b,d) +=! w(b,l) * exp(E(I(b,l), d)) }""",
    "largest": BAG.replace("+=!", "max=!"),
    "product": BAG.replace("+=!", "*=!"),
    "in place": "def f(float(V,D) E, int64(B,L) I) -> (O) { O(b,d) +=! E(b,d) * 2 where b in 0:B"
    "    O(b,d) += E(I(b,l), d) * E(I(b,0), d) }",
    "clamped": BAG.replace("I(b,l), d", "min(max(I(b,l), 0), V - 1), d"),
    "half": BAG.replace("float(V,D)", "float16(V,D)"),
    "integers": BAG.replace("float(V,D)", "int32(V,D)"),
    "one row": "def f(float(V,D) E, int64(B,L) I) -> (O) { O(d) +=! E(I(b,l), d) }",
}


def args(v: int, d: int, b: int, n: int, rng: np.random.Generator) -> tuple[np.ndarray, ...]:
    table = rng.normal(size=(v, d)).astype(np.float32)
    return table, rng.integers(0, min(v, b) if v else 1, (b, n))


def case(name: str, sizes: tuple[int, int, int, int], rng: np.random.Generator) -> list[object]:
    table, rows = args(*sizes, rng)
    if name == "half":
        table = table.astype(np.float16)
    if name == "integers":
        table = (table * 100).astype(np.int32)
    weights = [rng.normal(size=rows.shape).astype(np.float32)] if name == "weighted" else []
    return [table, rows, *weights]


def form(text: str, *values: object) -> str:
    p = problem(text, *values)
    spec = spec_of(p, exact=True)
    config = compiler.default_config(p.program, spec, MACHINE, p.sizes)
    return compiler.describe(p.program, spec, config, MACHINE, p.sizes)[-1][1]


@pytest.mark.cc
@sampled("name", TEXTS, keep=2)
def test_agrees_with_the_reference(name: str, rng: np.random.Generator) -> None:
    sizes = ((7, 5, 3, 4), (50, 64, 11, 3), (9, 131, 5, 1), (3, 1, 4, 2), (4, 17, 3, 0))
    cases = [
        Case(problem(TEXTS[name], *case(name, s, rng)), exact)
        for s in sizes[: 3 if name == "in place" else None]
        for exact in (True, False)
    ]
    assert all("gather" in form(TEXTS[name], *c.problem.args) for c in cases)
    differential(cases, terms=100)


LONG = {
    "sum": BAG,
    "double": BAG.replace("float(V,D)", "double(V,D)"),
    "weighted": """def f(float(V,D) E, int64(B,L) I, float(B,L) w) -> (O) {
        O(b,d) +=! w(b,l) * E(I(b,l), d) - E(b,d) where b in 0:B }""",
    "largest": TEXTS["largest"],
    "in place": TEXTS["in place"],
    "part": BAG.replace("l in 0:L", "l in 0:L, d in 0 : D - 3"),
}


@pytest.mark.cc
@sampled("name", LONG, keep=2)
def test_sums_in_registers_agree_with_the_reference(name: str, rng: np.random.Generator) -> None:
    cases = []
    for width in (15, 16, 32, 33, 63, 64, 127, 128, 129, 200, 259):
        table, rows, *weights = case(name, (9, width, 5, 4), rng)
        assert isinstance(table, np.ndarray)
        table = table.astype(np.float64 if name == "double" else np.float32)
        table[3, ::5] = np.nan
        p = problem(LONG[name], table, rows, *weights)
        cases += [Case(p, exact) for exact in (True, False)]
    differential(cases, terms=100)


@pytest.mark.cc
def test_sums_of_a_block_stay_in_registers(rng: np.random.Generator) -> None:
    p, machine = problem(BAG, *case("bag", (9, 300, 5, 4), rng)), detect()
    for exact in (True, False):
        spec = spec_of(p, exact=exact)
        config = compiler.default_config(p.program, spec, machine, p.sizes)
        unit = compiler.lower(p.program, spec, config, machine, p.sizes, "f")
        assert "sum7 += tc_load_v" in compiler.emit_c(unit)


@pytest.mark.cc
def test_blocks_of_a_row(rng: np.random.Generator) -> None:
    given = case("bag", (8, 300, 5, 3), rng)
    cases = [
        Case(problem(BAG, *given), exact, Config.of({"g0.block": block}))
        for block in (64, 128)
        for exact in (True, False)
    ]
    differential(cases)


@pytest.mark.cc
@sampled("name", ["bag", *(n for n in TEXTS if n != "bag")], keep=1)
def test_rows_of_usual_widths_have_texts_of_their_own(name: str, rng: np.random.Generator) -> None:
    sizes = [(9, width, 5, 3) for width in (1, 31, 32, 64, 96, 128, 160, 257)]
    differential([Case(problem(TEXTS[name], *case(name, s, rng)), exact=False) for s in sizes])


@pytest.mark.cc
def test_rows_of_any_stride(rng: np.random.Generator) -> None:
    table, rows = args(20, 36, 6, 3, rng)
    out = np.zeros((12, 36), np.float32)[::-2]
    cases = [
        Case(problem(BAG, view, rows[:, ::-1], outs=(out,)), exact)
        for view in (table[::-1], table[::2], np.repeat(table, 2, axis=0)[1::2])
        for exact in (True, False)
    ]
    for c in cases:
        c.problem.args[1][...] %= c.problem.args[0].shape[0]
    differential(cases)


@pytest.mark.cc
def test_a_row_outside_the_table_is_named(rng: np.random.Generator) -> None:
    table, rows = args(6, 40, 5, 3, rng)
    for bad in (-1, 6):
        rows[3, 1] = bad
        for exact in (True, False):
            with pytest.raises(BoundsError, match=f"operand 0 dim 0: {bad} of 6"):
                run_cases([Case(problem(BAG, table, rows), exact)])


@pytest.mark.parametrize(
    "text",
    [
        "def f(float(V,D) E, int64(B,L) I) -> (O) { O(b,d) = E(I(b, d), d) where d in 0:L }",
        "def f(float(V,D) E, int64(B,L) I) -> (O) { O(b,d) argmax=! E(I(b,l), d) }",
        "def f(float(V,D) E, int64(B,L) I) -> (O) {"
        " O(b,d) = I(b,0) > 0 ? E(I(b,0), d) : E(I(b,1), d) * d }",
    ],
)
def test_what_differs_along_the_row_or_is_chosen_is_left_to_the_nest(
    text: str, rng: np.random.Generator
) -> None:
    table, rows = args(6, 5, 4, 3, rng)
    assert form(text, table, rows).endswith("nest")
