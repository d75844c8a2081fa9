"""Passes on a stack of their own: whatever interrupts them leaves things as they were."""

from __future__ import annotations

import gc
import os
import signal
import sys
import threading
from typing import Any

import pytest

from tcdsl.grammar.text import stack
from tcdsl.grammar.text.garbage import OBJECTS, sought_seldom
from tcdsl.grammar.text.stack import FRAMES, is_on_own_stack, on_own_stack


@pytest.fixture(autouse=True)
def _no_thread_waits() -> None:
    """Let the first pass of a test start a thread."""
    stack._stacks.end_idle()


@on_own_stack
def limit() -> int:
    assert is_on_own_stack()
    return sys.getrecursionlimit()


def test_a_start_that_is_interrupted_leaves_the_limit_as_it_was(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    usual, start = sys.getrecursionlimit(), threading.Thread.start

    def interrupted(thread: threading.Thread) -> None:
        start(thread)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", interrupted)
        with pytest.raises(KeyboardInterrupt):
            limit()
    assert sys.getrecursionlimit() == usual
    assert limit() == FRAMES
    assert sys.getrecursionlimit() == usual
    assert not stack._stacks.running


def test_cycles_are_looked_for_seldom_while_a_pass_runs() -> None:
    find = on_own_stack(gc.get_threshold)
    usual = gc.get_threshold()
    assert find() == (OBJECTS, *usual[1:])
    assert gc.get_threshold() == usual
    for others in (0, OBJECTS, 3 * OBJECTS):  # what a program has set itself stays
        gc.set_threshold(others)
        try:
            assert find()[0] == others
            assert gc.get_threshold()[0] == others
        finally:
            gc.set_threshold(*usual)
    set_meanwhile = on_own_stack(gc.set_threshold)
    try:
        set_meanwhile(1234)
        assert gc.get_threshold()[0] == 1234
    finally:
        gc.set_threshold(*usual)


def test_a_signals_handler_may_start_a_pass_while_another_one_starts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    start, limits = threading.Thread.start, []

    def handle(*_: Any) -> None:
        limits.append(limit())

    def started(thread: threading.Thread) -> None:
        monkeypatch.setattr(threading.Thread, "start", start)
        signal.raise_signal(signal.SIGUSR1)
        start(thread)

    usual, handler = sys.getrecursionlimit(), signal.signal(signal.SIGUSR1, handle)
    monkeypatch.setattr(threading.Thread, "start", started)
    try:
        assert limit() == FRAMES
    finally:
        signal.signal(signal.SIGUSR1, handler)
    assert limits == [FRAMES]
    assert sys.getrecursionlimit() == usual


def test_a_child_forked_by_a_signals_handler_runs_the_pass_itself() -> None:
    ends: list[int] = []
    begun, go_on = threading.Event(), threading.Event()
    parent = os.getpid()

    def handle(*_: Any) -> None:
        ends.append(os.fork())
        go_on.set()

    @on_own_stack
    def work() -> int:
        if os.getpid() == parent:
            begun.set()
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGUSR1)
            go_on.wait(60)
        return 7

    handler = signal.signal(signal.SIGUSR1, handle)
    try:
        found = work()
        if os.getpid() != parent:
            os._exit(found)
    except BaseException:
        if os.getpid() != parent:
            os._exit(1)
        raise
    finally:
        signal.signal(signal.SIGUSR1, handler)
    assert found == 7
    assert os.waitstatus_to_exitcode(os.waitpid(ends[0], 0)[1]) == 7


def test_passes_that_follow_each_other_share_a_thread() -> None:
    here = on_own_stack(threading.current_thread)
    first = here()
    assert here() is first
    with pytest.raises(ZeroDivisionError):
        on_own_stack(lambda: 1 // 0)()
    assert here() is first
    stack._stacks.end_idle()
    assert not first.is_alive()
    assert here() is not first


def test_two_at_once_have_two_threads() -> None:
    both = threading.Barrier(2, timeout=60)

    @on_own_stack
    def meet() -> int:
        both.wait()
        return threading.get_ident()

    found: list[int] = []
    other = threading.Thread(target=lambda: found.append(meet()))
    other.start()
    found.append(meet())
    other.join()
    assert len({*found}) == 2


def test_a_thread_without_work_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stack, "_IDLE_S", 0.001)
    first = on_own_stack(threading.current_thread)()
    first.join(60)
    assert not first.is_alive()
    assert not stack._stacks.idle
    assert limit() == FRAMES


def test_one_that_ctrl_c_left_is_not_used_again() -> None:
    go_on = threading.Event()
    left: list[threading.Thread] = []

    @on_own_stack
    def work() -> None:
        left.append(threading.current_thread())
        ident = threading.main_thread().ident
        assert ident is not None
        signal.pthread_kill(ident, signal.SIGINT)  # it waits for this one
        go_on.wait(60)

    usual = sys.getrecursionlimit()
    with pytest.raises(KeyboardInterrupt):
        work()
    assert sys.getrecursionlimit() == usual
    assert on_own_stack(threading.current_thread)() is not left[0]
    go_on.set()
    left[0].join(60)
    assert not left[0].is_alive()


@pytest.mark.filterwarnings("error")
def test_none_waits_while_a_process_forks() -> None:
    first = on_own_stack(threading.current_thread)()
    child = os.fork()
    if child == 0:
        os._exit(limit() != FRAMES)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert not first.is_alive()


def test_no_thread_is_waited_for_while_python_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread that is started then never gets to run."""
    monkeypatch.setattr(sys, "is_finalizing", lambda: True)
    assert on_own_stack(threading.get_ident)() == threading.get_ident()


def test_a_module_that_is_there_counts_no_frozen_objects(monkeypatch: pytest.MonkeyPatch) -> None:
    counted: list[int] = []

    def count() -> int:
        counted.append(1)
        return 1

    monkeypatch.setattr(gc, "get_freeze_count", count)
    gc.collect(0)
    with sought_seldom():
        pass
    assert not counted
    usual = gc.get_threshold()[0]
    with sought_seldom():
        made = [[i] for i in range(2 * usual)]
    assert counted
    assert made


def test_cycles_are_looked_for_seldom_while_modules_load() -> None:
    usual = gc.get_threshold()
    with sought_seldom():
        assert gc.get_threshold() == (OBJECTS, *usual[1:])
        made = [[i] for i in range(2 * usual[0])]
        with sought_seldom():
            pass
        assert gc.get_threshold()[0] == OBJECTS
    assert gc.get_threshold() == usual
    assert not any(x is made[0] for x in gc.get_objects(0))  # it is old
    with sought_seldom():
        gc.set_threshold(1234)
    try:
        assert gc.get_threshold()[0] == 1234
    finally:
        gc.set_threshold(*usual)
