"""From a program to results: every form, every partition, exact and size-generic."""

from __future__ import annotations

import numpy as np
import pytest

from tcdsl.codegen.choose.fuse import partitions
from tcdsl.codegen.machine.config import Config
from tests.codegen.harness import Case, differential
from tests.codegen.programs import PROGRAMS, View, problem_of
from tests.tiers import sampled


@pytest.mark.cc
@sampled("name", PROGRAMS, keep=4, wide=9)
def test_every_partition_agrees_with_the_reference(name: str, rng: np.random.Generator) -> None:
    entry = PROGRAMS[name]
    cases = []
    for k, sizes in enumerate(entry.sizes):
        p = problem_of(entry, sizes, rng)
        for partition in partitions(p.program):
            config = Config.of({"partition": partition.name})
            # one size-generic executable serves all sizes; exact ones are a compile each
            cases += [Case(p, exact, config) for exact in (False, True)[: 1 + (k % 2 == 0)]]
    differential(cases, terms=1200)


@pytest.mark.cc
@sampled("view", ["transposed", "strided", "reversed", "broadcast"], keep=1)
@sampled(
    "names", [("row", "softmax", "matmul"), ("sum", "batchnorm", "conv")], ids=", ".join, keep=1
)
def test_inputs_of_any_stride(view: View, names: tuple[str, ...], rng: np.random.Generator) -> None:
    cases = [
        Case(problem_of(PROGRAMS[name], sizes, rng, view), bool(exact))
        for name in names
        for exact, sizes in enumerate(PROGRAMS[name].sizes[:2])
    ]
    differential(cases, terms=1200)
