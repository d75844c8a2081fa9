"""What a call costs, counted: `benchmarks/figures.py` has the times beside NumPy's."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tcdsl.codegen import runtime

pytestmark = pytest.mark.cc


def _python_frames(call: Callable[[], object]) -> int:
    """Return how many Python functions a call enters, itself not counted."""
    entered = 0

    def count(frame: object, event: str, arg: object) -> None:
        nonlocal entered
        entered += event == "call"

    sys.setprofile(count)
    try:
        call()
    finally:
        sys.setprofile(None)
    return entered - 1


def _new_blocks(call: Callable[[], object]) -> int:
    """Return how many more objects there are after many calls whose results are dropped."""
    call()
    before = sys.getallocatedblocks()
    for _ in range(100):
        call()
    return sys.getallocatedblocks() - before


def test_a_call_enters_no_python_and_keeps_nothing(kernels: Any) -> None:
    a, b, c = np.ones((3, 16), np.float32)
    k = kernels.add1()

    def fresh() -> None:
        k(a, b)

    def into() -> None:
        k(a, b, out=c)

    for call in (fresh, into):
        call()
        assert _python_frames(call) == 0
        assert abs(_new_blocks(call)) < 10
    assert len(kernels.misses) == 2


def test_so_do_calls_that_alternate_between_forms(kernels: Any) -> None:
    pairs: list[Any] = [tuple(np.ones((3, m, 4), np.float32)) for m in (2, 3, 4, 5)]
    a, c = np.ones((2, 6, 4), np.float32)
    pairs.append((a, np.ones((4, 6), np.float32).T, c))
    k = kernels.add()

    def all_forms() -> None:
        for x, y, z in pairs:
            k(x, y)
            k(x, y, out=z)

    all_forms()
    assert _python_frames(all_forms) == 0
    assert abs(_new_blocks(all_forms)) < 10
    assert len(kernels.misses) == 10


def test_a_large_fresh_output_takes_the_memory_of_one_that_was_freed(kernels: Any) -> None:
    a, b = np.ones((2, 1024, 1024), np.float32)
    k = kernels.add()
    k(a, b)
    for _ in range(3):  # no new pages, which would cost more than the kernel
        kept = runtime.memory()[1]
        c = k(a, b)
        assert runtime.memory()[1] <= kept - c.nbytes
        del c
