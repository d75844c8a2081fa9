"""Ragged ranges: the reference, C and CUDA against plain loops."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from tests.codegen import harness
from tests.codegen.harness import Case, problem
from tests.codegen.ragged import CASES, SIZES
from tests.cusim.harness import differential
from tests.tiers import sampled

WITNESSES = ("cumulative sum", "segments of rows", "scatter of segments")


def arguments(name: str, rng: np.random.Generator) -> list[tuple[Any, ...]]:
    return [CASES[name].args(rng, b, n) for b, n in SIZES]


def same(got: Sequence[Any], want: Any, name: str) -> None:
    np.testing.assert_array_equal(got[0], want, err_msg=f"{name} {want.shape}")


def test_the_reference_is_plain_loops(rng: np.random.Generator) -> None:
    for name, case in CASES.items():
        for args in arguments(name, rng):
            same(harness.expected(problem(case.text, *args)), case.wanted(args), name)


@pytest.mark.cc
@sampled("name", [*WITNESSES, *(n for n in CASES if n not in WITNESSES)], keep=1, wide=6)
def test_c_is_plain_loops(name: str, rng: np.random.Generator) -> None:
    case = CASES[name]
    every = arguments(name, rng)
    cases = [Case(problem(case.text, *args), exact) for args in every for exact in (True, False)]
    for args, *got in zip(every, *[iter(harness.run_cases(cases))] * 2, strict=True):
        for one in got:
            same(one, case.wanted(args), name)


@pytest.mark.cusim
@sampled("name", [*WITNESSES, *(n for n in CASES if n not in WITNESSES)], keep=1, wide=8)
def test_cuda_is_the_reference(name: str, rng: np.random.Generator) -> None:
    for args in arguments(name, rng)[:4:3]:
        differential(problem(CASES[name].text, *args))
