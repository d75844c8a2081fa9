"""Pointwise and row groups against the reference: shapes, layouts, types, exact and generic."""

from __future__ import annotations

import numpy as np
import pytest

from tcdsl.codegen import compiler
from tcdsl.codegen.lower import nest, pointwise, reduction, rows
from tests.codegen.harness import (
    Case,
    differential,
)
from tests.codegen.programs import PROGRAMS, problem_of


@pytest.fixture(autouse=True)
def _only_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiler, "LOWERINGS", (pointwise, reduction, rows, nest))


@pytest.mark.cc
@pytest.mark.parametrize("name", PROGRAMS)
def test_agrees_with_the_reference(name: str, rng: np.random.Generator) -> None:
    entry = PROGRAMS[name]
    cases = [
        Case(problem_of(entry, sizes, rng, view), exact)
        for sizes in entry.sizes
        for exact in (True, False)
        for view in ("c", "transposed", "strided")
    ]
    differential(cases, terms=1200)
