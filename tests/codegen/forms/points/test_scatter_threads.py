"""No race: scatters give the same bits in every call, on any threads, beside other calls."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

import tcdsl as tc
from tests.tiers import sampled

pytestmark = pytest.mark.cc

TEXTS = {
    "scatter by rows": """def f(int32(B) I, float(B,D) A, float(N) L) -> (float(N,D) H) {
        H(I(b), d) +=! A(b, d)
    }""",
    "scatter to copies": """def f(int32(B,D) I, float(B,D) A, float(N) L) -> (float(N) H) {
        H(I(b,d)) +=! A(b, d)
    }""",
}
SIZES = {"scatter by rows": (3000, 48, 40), "scatter to copies": (3000, 12, 40)}


def operands(form: str) -> tuple[Any, ...]:
    rng = np.random.default_rng(3)
    b, d, n = SIZES[form]
    shape = (b,) if form == "scatter by rows" else (b, d)
    index = (rng.zipf(1.3, shape) % n).astype(np.int32)  # some rows meet far more points
    wide = (rng.normal(size=(b, d)) * 10.0 ** rng.integers(-6, 6, (b, d))).astype(np.float32)
    return index, wide, np.zeros(n, np.float32)


def made(form: str, threads: int) -> Any:
    return tc.define(TEXTS[form], tune="off", threads=threads)


@sampled(
    "threads,calls",
    [(2, 100), (3, 5), (8, 5), *(pytest.param(n, 1000, marks=pytest.mark.deep) for n in (2, 3, 8))],
    keep=2,
)
@pytest.mark.parametrize("form", TEXTS)
def test_many_calls_give_the_bits_of_one_thread(form: str, threads: int, calls: int) -> None:
    given = operands(form)
    want = made(form, 1)(*given)
    exact = np.zeros(want.shape)
    np.add.at(exact, given[0], given[1].astype(np.float64))
    np.testing.assert_allclose(want, exact, rtol=1e-3, atol=1e3)
    f = made(form, threads)
    for _ in range(calls):
        assert f(*given).tobytes() == want.tobytes()


@pytest.mark.parametrize("form", TEXTS)
def test_calls_from_other_threads_at_the_same_time(form: str) -> None:
    given = operands(form)
    f = made(form, 2)
    want = f(*given).tobytes()
    wrong: list[None] = []

    def repeat() -> None:
        wrong.extend(None for _ in range(50) if f(*given).tobytes() != want)

    callers = [threading.Thread(target=repeat) for _ in range(3)]
    for t in callers:
        t.start()
    for t in callers:
        t.join()
    assert not wrong


def test_these_sizes_have_the_forms_and_several_tasks() -> None:
    for form, (b, d, n) in SIZES.items():
        text = made(form, 2).text({"B": b, "D": d, "N": n})
        assert f"[{form}]" in text
        assert "plan->tasks[0] = 1;" not in text
