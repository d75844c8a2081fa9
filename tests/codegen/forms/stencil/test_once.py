"""Rows of a stencil are lowered once for all configs that cut units in another way."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from contextlib import suppress

import pytest

from tcdsl.codegen.choose import compiler
from tcdsl.codegen.forms.stencil.lines import StencilLines
from tcdsl.codegen.forms.stencil.nest import StencilNest
from tcdsl.codegen.loops.loopir import Expr, Stmt
from tcdsl.codegen.machine.config import Config, Value
from tcdsl.codegen.machine.cpu import Machine
from tcdsl.grammar.text.errors import ScheduleError
from tests.codegen.forms.stencil.test_pairs import way_back
from tests.codegen.harness import Problem, problem, rand, spec_of

ZEN4 = Machine("avx512", 64, 32, 32 << 10, 8, 1 << 20, 32 << 20, 2, 3.6, 1, crosses_lines=True)
AVX2 = Machine("avx2", 32, 16, 32 << 10, 8, 1 << 20, 32 << 20, 2, 3.6, 1)

DEPTHWISE = """def f(float(N,C,H,W) I, float(C,KH,KW) K) -> (O) {
  O(n,c,h,w) +=! pad(I(n, c, h + i - 1, w + j - 1), 0) * K(c,i,j) where h in 0:H, w in 0:W }"""
LAST = """def f(float(N,H,W,C) I, float(C,KH,KW) K) -> (O) {
  O(n,h,w,c) +=! pad(I(n, h + i - 1, w + j - 1, c), 0) * K(c,i,j) where h in 0:H, w in 0:W }"""
POOL = """def f(float(N,C,H,W) I) -> (O) {
  O(n,c,h,w) max=! pad(I(n, c, 2*h + i - 1, 2*w + j - 1), -inf)
    where i in 0:3, j in 0:3, h in 0:(H - 1) / 2 + 1, w in 0:(W - 1) / 2 + 1 }"""
PROBLEMS = {
    "depthwise": problem(DEPTHWISE, rand(2, 3, 28, 30), rand(3, 3, 3)),
    "large window": problem(DEPTHWISE, rand(1, 3, 20, 64), rand(3, 7, 7)),
    "last": problem(LAST, rand(1, 9, 8, 21), rand(21, 3, 3)),
    "pool": problem(POOL, rand(2, 3, 29, 57)),
    "pairs": way_back(2, 2, (30, 66)),
    "pieces": way_back(3, 3, (30, 66)),
}
CONFIGS = [
    Config.of({"g0.form": "stencil", "g0.rows": rows, "g0.vectors": vectors, "g0.parts": parts})
    for rows, vectors, parts in itertools.product((1, 4), (1, 2), (0, 1, 4))
]


def texts(p: Problem, machine: Machine) -> list[str]:
    spec = spec_of(p, exact=True)
    found = []
    for config in CONFIGS:
        with suppress(ScheduleError):  # no such rows or vectors
            unit = compiler.lower(p.program, spec, config, machine, p.sizes, "f")
            found.append(compiler.emit_c(unit))
    assert len(found) >= 3
    return found


@pytest.mark.parametrize("machine", [ZEN4, AVX2], ids=["AVX-512", "AVX2"])
@pytest.mark.parametrize(
    "name",
    [
        name if name in ("pool", "pairs") else pytest.param(name, marks=pytest.mark.wide)
        for name in PROBLEMS
    ],
)
def test_texts_are_those_of_rows_that_are_lowered_each_time(
    name: str, machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def anew(nest: StencilNest, given: tuple[Expr, ...], make: Callable[[], Stmt]) -> Stmt:
        del nest, given
        return make()

    found = texts(PROBLEMS[name], machine)
    assert any("stencil" in text for text in found)
    monkeypatch.setattr(StencilNest, "once", anew)
    assert found == texts(PROBLEMS[name], machine)


def test_only_units_are_cut_in_another_way_and_blocks_are_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made: list[int] = []
    block_of = StencilLines.block_of

    def counted(nest: StencilLines, rows: int, *args: int, **options: bool) -> Stmt:
        made.append(rows)
        return block_of(nest, rows, *args, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(StencilLines, "block_of", counted)
    p = problem(DEPTHWISE.replace("def f", "def g"), rand(2, 3, 28, 30), rand(3, 3, 3))
    spec = spec_of(p, exact=True)
    for parts in (0, 1, 2, 4):
        values: dict[str, Value] = {
            "g0.form": "stencil",
            "g0.rows": 2,
            "g0.vectors": 1,
            "g0.parts": parts,
        }
        compiler.lower(p.program, spec, Config.of(values), ZEN4, p.sizes, "g")
    assert len(made) <= 4  # inside and at borders, of rows inside and of others
