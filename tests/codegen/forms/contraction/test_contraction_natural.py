"""Contractions whose vectors run along a factor's own neighbours, which are not the output's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np
import pytest

from tcdsl.codegen.choose import compiler
from tcdsl.codegen.machine.config import Config
from tcdsl.codegen.toolchain.host import detect
from tcdsl.grammar.text.errors import ScheduleError
from tests.codegen.harness import Case, Problem, differential, problem, rand, spec_of
from tests.codegen.knobs import knobs_of
from tests.tiers import sampled

pytestmark = pytest.mark.cc

Array = np.ndarray[Any, np.dtype[Any]]

FAR = "aebd,ce->dcba"  # the output's neighbours are the factor's slowest dimension
ODD = (FAR, "dabfe,fc->edcba", "adb,cd->cba")
PANELS = {"g0.form": "contraction"}
PACKINGS = [{"g0.pack_a": a, "g0.pack_b": b} for a, b in product((False, True), repeat=2)]
SIZES = {"a": 19, "b": 5, "c": 7, "d": 18, "e": 9, "f": 11, "g": 2}


def definition(spec: str, dtype: str = "float") -> str:
    """Return the text of a sum of products in the letters of `np.einsum`."""
    inputs, out = spec.split("->")
    left, right = inputs.split(",")
    sides = f"{dtype}({','.join(left.upper())}) X, {dtype}({','.join(right.upper())}) Y"
    terms = f"X({','.join(left)}) * Y({','.join(right)})"
    return f"def odd({sides}) -> (O) {{ O({','.join(out)}) +=! {terms} }}"


def odd(
    spec: str, sizes: Mapping[str, int] | None = None, dtype: str = "float32", tc: str = "float"
) -> Problem:
    known = SIZES | dict(sizes or {})
    inputs = spec.split("->")[0].split(",")
    shapes = [tuple(known[c] for c in letters) for letters in inputs]
    arrays = [rand(*s, seed=i, dtype=dtype) for i, s in enumerate(shapes)]
    return problem(definition(spec, tc), *arrays)


def columns(p: Problem, *, exact: bool) -> list[Any]:
    """Return the sides that vectors may run along."""
    knobs = knobs_of(p.program, spec_of(p, exact=exact), detect(), p.sizes)
    return [v for k in knobs if k.name == "g0.columns" for v in k.values]


def everywhere(problems: Sequence[Problem]) -> list[Case]:
    """Return all problems with vectors along every side, exact and generic."""
    cases = []
    for p in problems:
        sides = columns(p, exact=False)
        cases += [Case(p, False, Config.of(PANELS | {"g0.columns": side})) for side in sides]
        for side in columns(p, exact=True):
            packed = [Config.of(PANELS | x | {"g0.columns": side}) for x in PACKINGS]
            legal = [config for config in packed if is_legal(p, config)]
            assert legal, side
            cases += [Case(p, True, config) for config in legal]
    return cases


def is_legal(p: Problem, config: Config) -> bool:
    try:
        compiler.lower(p.program, spec_of(p, exact=True), config, detect(), p.sizes, "odd")
    except ScheduleError:
        return False
    return True


@pytest.mark.parametrize("spec", ODD)
def test_a_large_factor_stays_as_it_lies_by_default(spec: str) -> None:
    p = odd(spec)
    for exact in (True, False):
        asked = spec_of(p, exact=exact)
        chosen = compiler.default_config(p.program, asked, detect(), p.sizes)
        assert chosen.get("g0.columns") == "X.natural"
        assert not chosen.get("g0.pack_b"), "vectors are fetched ahead instead"
    asked = spec_of(p, exact=False)
    chosen = compiler.default_config(p.program, asked, detect(), p.sizes)
    unit = compiler.lower_generic(p.program, asked, chosen, detect(), p.sizes, "odd")
    packers = [f.name for f in unit.functions if f.name.startswith("tc_pack")]
    assert len(packers) == (spec == ODD[1]), "of its other factor, whose rows lie side by side"


def test_a_factor_that_many_rows_use_is_turned_around() -> None:
    p = odd(FAR, {"c": 65})
    chosen = compiler.default_config(p.program, spec_of(p, exact=True), detect(), p.sizes)
    assert chosen.get("g0.columns") == "X"


@sampled("part", [0, 1, 2], keep=1)
def test_vectors_along_every_side_give_the_same(part: int) -> None:
    differential(everywhere([odd(FAR)])[part::3], terms=9)


@pytest.mark.deep
def test_other_orders_and_sizes() -> None:
    small = {"a": 3, "b": 2, "c": 1, "d": 4, "e": 6, "f": 3}
    long = {"a": 17, "b": 3, "c": 13, "d": 33, "e": 70, "f": 40}
    ones = {"a": 1, "b": 1, "d": 1}
    problems = [odd(s, n) for s in ODD[1:] for n in ({}, small, long)]
    differential(everywhere([*problems, odd(FAR, ones), odd(FAR, {"e": 1})]), terms=70)


@pytest.mark.wide
def test_rows_whose_elements_are_gathered_in_several_strips() -> None:
    problems = [odd("fbea,ecfd->dcba"), odd("cged,bafg->fedcba", {"g": 37, "d": 3, "e": 4})]
    differential(everywhere(problems), terms=99)


@pytest.mark.deep
def test_nothing_to_sum_and_no_points() -> None:
    empty = [odd(FAR, {name: 0}) for name in "abcde"]
    differential(everywhere(empty), terms=1)


@pytest.mark.deep
def test_columns_that_do_not_fuse_in_the_output() -> None:
    """Columns lie side by side in the factor, and anywhere in the output: more than one block."""
    p = odd("aebd,ce->dcba", {"a": 33, "b": 31, "c": 30, "d": 29, "e": 3})
    differential(everywhere([p]), terms=3)


@pytest.mark.deep
def test_other_types_and_operands_with_gaps() -> None:
    half = odd(FAR, dtype="float16", tc="float16")
    double = odd(FAR, dtype="float64", tc="double")
    wide = np.full((21, 9, 7, 24), np.nan, np.float32)
    x = wide[1:20, :, 1:6, 3:21]
    x[...] = rand(19, 9, 5, 18)
    turned = rand(9, 7)[::-1].T
    out = np.full((18, 7, 5, 40), np.nan, np.float32)[..., 1:39:2]
    gaps = problem(definition(FAR), x, turned)
    into = problem(definition(FAR), x, turned, outs=[out])
    differential(everywhere([half, double, gaps]), terms=9)
    differential([Case(into, exact) for exact in (True, False)], terms=9)


@pytest.mark.deep
@pytest.mark.parametrize("dtype", ["int8", "int64"])
def test_integers_lie_there_too(dtype: str) -> None:
    terms = "X(a,e,b,d) * W(c,e)"
    if dtype == "int8":
        terms = "int32(X(a,e,b,d)) * int32(W(c,e))"
    text = f"def odd({dtype}(A,E,B,D) X, {dtype}(C,E) W) -> (O) {{ O(d,c,b,a) +=! {terms} }}"
    rng = np.random.default_rng(0)
    shapes = (19, 9, 5, 18), (7, 9)
    p = problem(text, *(rng.integers(-50, 50, s).astype(dtype) for s in shapes))
    differential(everywhere([p]))


@pytest.mark.deep
def test_a_factor_and_a_bias_for_every_row() -> None:
    text = """
def layer(float(A,E,B,D) X, float(C,E) W, float(C) z, float s) -> (O) {
  O(d,c,b,a) +=! s * X(a,e,b,d) * W(c,e)
  O(d,c,b,a) = fmax(O(d,c,b,a) + z(c), 0)
}"""
    p = problem(text, rand(19, 9, 5, 18), rand(7, 9), rand(7), 0.5)
    assert "X.natural" in columns(p, exact=True)
    differential([c for c in everywhere([p]) if c.exact], terms=9)


@pytest.mark.deep
@pytest.mark.parametrize("seed", range(12))
def test_random_orders(seed: int) -> None:
    rng = np.random.default_rng(seed)
    problems: list[Problem] = []
    while len(problems) < 4:
        letters = list("abcdef")
        rows, cols, terms = letters[:1], letters[1:4], letters[4 : rng.integers(5, 7)]
        batch = [rows.pop()] if rng.random() < 0.2 else []
        left, right, out = (
            "".join(rng.permutation(x))
            for x in (cols + terms + batch, rows + terms + batch, rows + cols + batch)
        )
        sizes = {c: int(rng.choice([1, 2, 3, 5, 16, 17, 20])) for c in letters}
        if right:
            problems.append(odd(f"{left},{right}->{out}", sizes))
    differential(everywhere(problems), terms=400)
