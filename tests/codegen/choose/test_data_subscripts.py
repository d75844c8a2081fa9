"""Subscripts from data: read once a point, whoever writes the array meanwhile; any integer type."""

from __future__ import annotations

import ctypes
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tcdsl.codegen.choose import compiler
from tcdsl.codegen.library.load import load
from tcdsl.codegen.machine.config import Config
from tcdsl.codegen.toolchain.host import detect
from tcdsl.codegen.toolchain.objects import compile_source
from tcdsl.codegen.toolchain.source import Source
from tcdsl.grammar.text.errors import ScheduleError
from tests.codegen import racing
from tests.codegen.data_subscripts import (
    OUTSIDE,
    TEXTS,
    is_clean,
    subscripts_problem,
    within_poison,
)
from tests.codegen.harness import (
    Problem,
    call,
    guarded,
    spec_of,
)
from tests.tiers import sampled

pytestmark = pytest.mark.cc

# Every way of the scatter; what does not fit a program is left out.
CONFIGS = (Config(), *(Config.of({"g0.ranges": n}) for n in (0, 1, 4)))

# Every so many-th read leaves a row outside for whoever reads again, or the one from before.
CHANGING = f"""__attribute__((visibility("default"))) long changing = 1;
static long reads;
#define TC_ONCE(T, p)                                                                             \\
  ({{ volatile tc_##T *at = (volatile tc_##T *)(p); tc_##T x = *at;                               \\
     if (++reads % changing == 0) *(volatile char *)at ^= {OUTSIDE}; x; }})
"""
EVERY = (1, 2, 3, 5, 7)


def units(p: Problem, name: str) -> Iterator[tuple[str, str]]:
    """Yield the text of every kernel of a problem, with its name."""
    for exact in (True, False):
        for k, config in enumerate(CONFIGS):
            try:
                unit = compiler.lower(
                    p.program, spec_of(p, exact=exact), config, detect(), p.sizes,
                    f"{name}{k}{'x' if exact else ''}",
                )  # fmt: skip
            except ScheduleError:
                continue
            yield compiler.emit_c(unit), f"{name}{k}{'x' if exact else ''}"


def with_margins(p: Problem) -> Problem:
    """Return the problem with outputs far inside of canaries."""
    shapes = [tuple(s.evaluate(p.sizes) for s in t.shape) for t in p.checked.returns]
    kinds = [o.dtype for o in p.fresh_outputs()]
    outs = tuple(guarded(s, d, 4096) for s, d in zip(shapes, kinds, strict=True))
    return Problem(p.checked, p.args, outs)


WITNESSES = ("padded", "guarded, rows along", "through another, guarded", "to rows")
PARTS = [sorted({*TEXTS} - {*WITNESSES})[k::3] for k in range(3)]


@sampled("names", [WITNESSES, *PARTS], keep=1, wide=1)
def test_rows_that_change_when_they_are_read(
    names: tuple[str, ...], rng: np.random.Generator
) -> None:
    problems = {f"p{i}_": subscripts_problem(name, rng) for i, name in enumerate(names)}
    made = [(p, *unit) for name, p in problems.items() for unit in units(p, name)]
    assert len(made) >= 2 * len(names)
    text = CHANGING + "\n".join(text for _, text, _ in made)
    path = compile_source(Source("changing", text))
    for p, text, name in made:
        for every in EVERY:
            ctypes.c_long.in_dll(ctypes.CDLL(str(path)), "changing").value = every
            here = with_margins(Problem(p.checked, tuple(map(_copy, p.args))))
            found = call(load(path, name).address, here, 1, rng, writes_inputs=True)
            assert all(map(is_clean, found)), f"a read outside, of {every}:\n{text}"


def _copy(a: Any) -> Any:
    return within_poison(a) if a.dtype.kind == "f" else a.copy()


@pytest.mark.wide
@sampled("name", racing.TEXTS, keep=2, wide=0)
def test_nothing_outside_is_touched_while_another_thread_writes_the_rows(name: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.codegen.racing", name],
        cwd=Path(__file__).parents[3],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
