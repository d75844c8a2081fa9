"""Forked children compute, whatever the parent was doing."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.tiers import sampled

pytestmark = [
    pytest.mark.cc,
    pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork"),
    pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning"),
]


def _in_child(job: Callable[[], bool]) -> None:
    """Run a job in a forked child that must not hang; it must return true."""
    child = os.fork()
    if child == 0:
        signal.alarm(300)
        ok = False
        try:
            ok = job()
        finally:
            os._exit(0 if ok else 1)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0


def test_a_child_computes_in_parallel(kernels: Any, two_threads: None) -> None:
    k, x = kernels.add(), np.ones((1000, 1000), np.float32)
    k(x, x)

    def job() -> bool:
        return all(bool((k(x, x) == 2).all()) for _ in range(5)) and _threads() == 2

    _in_child(job)
    _in_child(job)
    assert (k(x, x) == 2).all()


@pytest.mark.wide
def test_a_child_gives_up_forms_of_a_table_that_was_full(kernels: Any) -> None:
    k = kernels.many(500)
    arrays = [np.ones(n, np.float32) for n in range(1, 300)]

    def job() -> bool:
        return all(bool((k(*[a] * 500) == 1002).all()) for a in arrays)

    assert job()
    more = [np.ones(n, np.float32) for n in range(300, 330)]
    arrays += more
    _in_child(job)
    assert job()


def _threads() -> int:
    return len(os.listdir("/proc/self/task"))


def test_fork_while_a_kernel_runs(kernels: Any, two_threads: None) -> None:
    long, k, x = kernels.gate(4), kernels.add(), np.ones((1000, 1000), np.float32)
    k(x, x)
    thread = threading.Thread(target=long)
    thread.start()
    long.await_tasks(2)  # both threads of the pool are at work, and it is owned

    def job() -> bool:
        long.open()  # in the memory of the child alone
        return bool((k(x, x) == 2).all()) and long().tolist() == [0, 1, 2, 3]

    _in_child(job)
    long.open()
    thread.join()
    assert (k(x, x) == 2).all()


@sampled("times", [6, 30], keep=0, wide=1)
def test_fork_again_and_again_under_load(kernels: Any, two_threads: None, times: int) -> None:
    k, x = kernels.add(), np.ones((300, 300), np.float32)
    k(x, x)
    stop = threading.Event()

    def load() -> None:
        while not stop.wait(0.001):  # a pause now and then, or who forks waits long for the GIL
            for _ in range(10):
                assert (k(x, x) == 2).all()

    threads = [threading.Thread(target=load) for _ in range(2)]
    for t in threads:
        t.start()
    try:
        for _ in range(times):
            _in_child(lambda: bool((k(x, x) == 2).all()))
    finally:
        stop.set()
        for t in threads:
            t.join()
