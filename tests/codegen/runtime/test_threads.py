"""Calls on several threads, of ours and of Python's."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tcdsl.codegen import runtime
from tcdsl.grammar.text.errors import DeviceError, NumberError, TCTypeError

pytestmark = pytest.mark.cc


def test_the_number_of_threads() -> None:
    before = runtime.get_num_threads()
    assert before >= 1
    runtime.set_num_threads(3)
    assert runtime.get_num_threads() == 3
    for n in (0, -1, 257, 1 << 70):
        with pytest.raises(NumberError, match=f"count is {n}\n  pass a number .* 1 to 256, as set"):
            runtime.set_num_threads(n)
    for wrong in ("2", 2.5, None):
        with pytest.raises(TCTypeError, match=f"expected count as an int, got {wrong!r}\n  pass"):
            runtime.set_num_threads(wrong)  # type: ignore[arg-type]
    runtime.set_num_threads(before)


def test_the_first_number_of_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TCDSL_THREADS", raising=False)
    assert 1 <= runtime._first_threads() <= len(os.sched_getaffinity(0))
    monkeypatch.setenv("TCDSL_THREADS", "7")
    assert runtime._first_threads() == 7
    for text in ("0", "many", "-1", "257", "1000000000", "9" * 5000):
        monkeypatch.setenv("TCDSL_THREADS", text)
        with pytest.raises(DeviceError, match=f"TCDSL_THREADS is '{text:.40}', expected a number"):
            runtime._first_threads()


@pytest.mark.parametrize(("limit", "told"), [(0, 5), (1, 1), (3, 3), (9, 5)])
def test_an_entry_may_have_a_limit_of_its_own(kernels: Any, limit: int, told: int) -> None:
    before = runtime.get_num_threads()
    runtime.set_num_threads(5)
    try:
        k = runtime.Launcher("told", (), ("n",), lambda: None, lambda *_: None)
        form = (np.dtype(np.int64), (2,), None)
        address = kernels.address("told")
        entry = runtime.Entry(address, (), (), (form,), max_threads=limit, keep=kernels.library)
        assert k.run(entry, ()).tolist() == [told, told]
    finally:
        runtime.set_num_threads(before)
    with pytest.raises(ValueError, match="max_threads is negative"):
        runtime.Entry(kernels.address("told"), (), (), (form,), max_threads=-1)


@pytest.mark.parametrize("threads", [2, 3, 8])
def test_every_task_runs_once(kernels: Any, rng: np.random.Generator, threads: int) -> None:
    before = runtime.get_num_threads()
    runtime.set_num_threads(threads)
    try:
        k, m = kernels.add(), kernels.moments()
        for rows in (1, 2, 3, 7, 63, 64, 65, 1000):
            a, b = rng.standard_normal((2, rows, 257), dtype=np.float32)
            np.testing.assert_array_equal(k(a, b), a + b)
            x = rng.integers(-99, 99, rows * 64 - 1).astype(np.float64)
            assert m(x) == (x.sum(), (x * x).sum())
    finally:
        runtime.set_num_threads(before)


def test_tasks_are_shared_out(kernels: Any, two_threads: None) -> None:
    """Two tasks that wait for each other end only if each has a thread of its own."""
    k = kernels.meet(2)
    for _ in range(10):
        np.testing.assert_array_equal(k(np.zeros(1, np.int64)), [1, 1])


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="counts the workers' sleeps there")
def test_only_those_are_woken_who_have_work(kernels: Any, two_threads: None) -> None:
    runtime.set_num_threads(6)
    kernels.meet(6)(np.zeros(1, np.int64))  # now there are five workers
    runtime.set_num_threads(2)
    before, k = _sleeps_of_workers(), kernels.meet(2)
    for _ in range(50):
        k(np.zeros(1, np.int64))
        time.sleep(0.0005)  # until the one that helped sleeps again
    after = _sleeps_of_workers()
    assert len(before) >= 5
    # Who was awake from the call with six threads goes to sleep once.
    assert sum(after[worker] > before[worker] + 1 for worker in before) <= 1


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="no choice of processors here")
def test_woken_workers_keep_off_the_processor_of_the_caller(
    kernels: Any, two_threads: None
) -> None:
    allowed = os.sched_getaffinity(0)
    if len(allowed) < 2:
        pytest.skip("one processor")
    k = kernels.meet(2)
    k(np.zeros(1, np.int64))  # now there is a worker
    try:
        for here in sorted(allowed) * 2:
            os.sched_setaffinity(0, {here})
            sleeps = _sleeps_of_workers()
            while _sleeps_of_workers() == sleeps:  # the one that helps is woken only if it sleeps
                k(np.zeros(1, np.int64))
                time.sleep(0.001)
            k(np.zeros(1, np.int64))
            assert allowed - {here} in [os.sched_getaffinity(int(w)) for w in sleeps]
    finally:
        os.sched_setaffinity(0, allowed)


def _sleeps_of_workers() -> dict[str, int]:
    sleeps = {}
    for task in Path("/proc/self/task").iterdir():
        if (task / "comm").read_text().strip() == "tcdsl worker":
            status = (task / "status").read_text()
            sleeps[task.name] = int(status.partition("\nvoluntary_ctxt_switches:")[2].split()[0])
    return sleeps


def _together(n: int, job: Callable[[int], None]) -> None:
    with ThreadPoolExecutor(n) as pool:
        start = threading.Barrier(n)

        def run(i: int) -> None:
            start.wait()
            job(i)

        for future in [pool.submit(run, i) for i in range(n)]:
            future.result()


def test_one_launcher_from_many_threads(kernels: Any, two_threads: None) -> None:
    k = kernels.add()

    def job(i: int) -> None:
        rng = np.random.default_rng(i)
        for _ in range(40):
            rows, columns = rng.integers(1, 300, 2)  # more forms than are kept, short and long
            a, b = rng.standard_normal((2, rows, columns), dtype=np.float32)
            out = np.empty_like(a) if rows % 2 else None
            np.testing.assert_array_equal(k(a, b, out=out), a + b)

    _together(6, job)


def test_the_same_bits_while_the_pool_is_busy(
    kernels: Any, two_threads: None, rng: np.random.Generator
) -> None:
    k, x = kernels.moments(), rng.standard_normal(50_000)
    want = tuple(map(float, k(x)))
    seen: list[Any] = []

    def job(i: int) -> None:
        seen.extend(tuple(map(float, k(x))) for _ in range(25))

    _together(4, job)
    assert len(seen) == 100
    assert set(seen) == {want}


def test_workers_take_the_float_mode_of_the_caller(kernels: Any, two_threads: None) -> None:
    k = kernels.add()
    x, zero = np.full((400, 400), 1e-40, np.float32), np.zeros((400, 400), np.float32)
    k(x, zero)
    try:
        for _ in range(20):
            if not kernels.library.flush_denormals(1):
                pytest.skip("no way to set the mode here")
            flushed = k(x, zero)
            kernels.library.flush_denormals(0)
            assert not flushed.any()
            np.testing.assert_array_equal(k(x, zero), x)
    finally:
        kernels.library.flush_denormals(0)


def test_a_new_number_of_threads_while_calls_run(kernels: Any, two_threads: None) -> None:
    k, x = kernels.moments(), np.ones(50_000)
    want = (50_000, 50_000)

    def job(i: int) -> None:
        for n in range(60):
            if i == 0:
                runtime.set_num_threads(1 + n % 5)
            assert k(x) == want

    _together(3, job)


def test_a_long_call_lets_python_run(kernels: Any) -> None:
    k = kernels.gate(1)
    with ThreadPoolExecutor(1) as pool:
        called = pool.submit(k)
        k.await_tasks(1)
        k.open()  # from here: the call ends only because Python runs beside it
        np.testing.assert_array_equal(called.result(), [0])


def test_an_entry_in_use_stays_alive(kernels: Any) -> None:
    k = kernels.gate(1)
    with ThreadPoolExecutor(1) as pool:
        called = pool.submit(k)
        k.await_tasks(1)
        k.kernel.clear()
        k.open()
        np.testing.assert_array_equal(called.result(), [0])


def test_ctrl_c_in_a_long_call_raises_afterwards(kernels: Any, two_threads: None) -> None:
    k = kernels.gate(2)

    def interrupt() -> None:
        k.await_tasks(2)
        signal.raise_signal(signal.SIGINT)
        k.open()

    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        k()
    thread.join()
    np.testing.assert_array_equal(k(), [0, 1])
