"""Panels that the task before has packed are there: matrices that a batch has in common."""

from __future__ import annotations

import re

import pytest

from tcdsl.codegen.choose import compiler
from tcdsl.codegen.machine.config import Config
from tcdsl.codegen.toolchain.host import detect
from tests.codegen.harness import Case, Problem, differential, problem, rand, spec_of

pytestmark = pytest.mark.cc

LEFT = "def mm(float(K,F) W, float(N,K,P) X) -> (O) { O(n,f,p) +=! W(k,f) * X(n,k,p) }"
GROUPS = "def mm(float(G,K,F) W, float(G,N,K,P) X) -> (O) { O(g,n,f,p) +=! W(g,k,f) * X(g,n,k,p) }"
APART = "def mm(float(G,K,F) W, float(N,G,K,P) X) -> (O) { O(n,g,f,p) +=! W(g,k,f) * X(n,g,k,p) }"
BLOCKS = {"g0.rows": 1, "g0.cols": 1}


def packed(columns: str = "X", **blocks: int) -> Config:
    values = {"g0.form": "contraction", "g0.method": "panel", "g0.columns": columns}
    both = {"g0.pack_a": True, "g0.pack_b": True}
    return Config.of({**values, **both, **BLOCKS, **{f"g0.{k}": n for k, n in blocks.items()}})


def made(text: str, n: int, k: int, f: int, p: int) -> Problem:
    shapes = {LEFT: ((k, f), (n, k, p)), GROUPS: ((2, k, f), (2, n, k, p))}
    shapes[APART] = (2, k, f), (n, 2, k, p)
    return problem(text, *(rand(*s, seed=i) for i, s in enumerate(shapes[text])))


def packs(p: Problem, config: Config | None = None) -> list[str]:
    """Return under what conditions panels of the factors are packed, where there are some."""
    spec = spec_of(p, exact=config is not None)
    unit = compiler.lower(p.program, spec, config or Config(), detect(), p.sizes, "k")
    text = compiler.emit_c(unit)
    body = text[text.index("_panel(const tc_args") :]
    return re.findall(r"if \(!\((task > begin .*)\)\) \{", body)


def test_a_matrix_that_a_batch_has_in_common_is_packed_once() -> None:
    p = made(LEFT, 4, 20, 40, 50)
    for columns in ("X", "W"):  # it is a, or b
        assert packs(p, packed(columns)) == ["task > begin && at_n > 0"]
    (condition,) = packs(p)
    assert condition == "task > begin && kc >= K && (mt == 1 && mb >= F) && (n0 > 0 || at_n > 0)"
    assert packs(made(GROUPS, 4, 20, 40, 50), packed()) == ["task > begin && at_n > 0"]
    assert not packs(made(APART, 4, 20, 40, 50), packed()), "the next one is of another group"


def test_what_is_packed_once_changes_no_result() -> None:
    problems = [made(t, 3, 20, 40, 50) for t in (LEFT, GROUPS, APART)]
    problems += [made(LEFT, 3, 1000, 40, 50), made(LEFT, 0, 20, 40, 50)]  # several passes; none
    cases = [Case(p, exact=True, config=packed()) for p in problems]
    cases += [Case(p, exact=False) for p in problems]
    differential(cases, 1000)


@pytest.mark.wide
@pytest.mark.parametrize("columns", ["X", "W"])
def test_blocks_of_rows_and_of_columns_are_told_apart(columns: str) -> None:
    configs = [packed(columns, rows=m, cols=n) for m in (1, 2) for n in (1, 3)]
    problems = [made(t, 3, 20, 70, 90) for t in (LEFT, GROUPS)]
    differential([Case(p, exact=True, config=c) for p in problems for c in configs], 20)
