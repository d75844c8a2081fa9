"""What a call costs, as ratios to NumPy in the same run; room for a busy machine."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

from tcdsl.codegen import runtime

pytestmark = pytest.mark.cc


def _best_ns(jobs: Mapping[str, Callable[[], object]], times: int, rounds: int) -> dict[str, float]:
    """Return the best time of each job, interleaved."""
    best = dict.fromkeys(jobs, float("inf"))
    for job in jobs.values():
        job()
    for _ in range(rounds):
        for name, job in jobs.items():
            start = time.perf_counter_ns()
            for _ in range(times):
                job()
            best[name] = min(best[name], (time.perf_counter_ns() - start) / times)
    return best


def _ratios(pairs: list[tuple[Any, Any, Any]], k: Any) -> tuple[float, float]:
    """Return our time over NumPy's, with fresh outputs and with given ones, less empty loops."""

    def fresh(f: Any) -> None:
        for a, b, _ in pairs:
            f(a, b)

    def into(f: Any) -> None:
        for a, b, c in pairs:
            f(a, b, out=c)

    t = _best_ns(
        {
            "none": lambda: fresh(lambda a, b: None),
            "numpy": lambda: fresh(np.add),
            "ours": lambda: fresh(k),
            "numpy out": lambda: into(np.add),
            "ours out": lambda: into(k),
        },
        200,
        15,
    )
    t = {name: ns - t["none"] for name, ns in t.items()}
    return t["ours"] / t["numpy"], t["ours out"] / t["numpy out"]


def test_a_small_call_is_cheaper_than_numpys(kernels: Any) -> None:
    a, b, c = np.ones((3, 16), np.float32)
    fresh, into = _ratios([(a, b, c)], kernels.add1())
    assert fresh <= 1.5
    assert into <= 0.6


def test_so_are_calls_that_alternate_between_forms(kernels: Any) -> None:
    pairs: list[Any] = [tuple(np.ones((3, m, 4), np.float32)) for m in (2, 3, 4, 5)]
    a, c = np.ones((2, 6, 4), np.float32)
    fresh, into = _ratios([*pairs, (a, np.ones((4, 6), np.float32).T, c)], kernels.add())
    assert fresh <= 1.5
    assert into <= 0.6
    assert len(kernels.misses) == 10


def test_a_large_fresh_output_costs_what_a_given_one_does(kernels: Any) -> None:
    a, b, c = np.ones((3, 4096, 4096), np.float32)
    k = kernels.add()
    before = runtime.get_num_threads()
    for _ in range(3):
        runtime.set_num_threads(1)
        t = _best_ns({"fresh": lambda: k(a, b), "out": lambda: k(a, b, out=c)}, 1, 12)
        runtime.set_num_threads(before)
        if t["fresh"] <= 1.1 * t["out"]:
            return
    pytest.fail(f"{t['fresh'] / t['out']:.2f} times in each of 3 attempts")
