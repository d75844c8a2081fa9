"""A child forked while another thread held a lock can still take it."""

from __future__ import annotations

import os
import threading

from tcdsl.calls.process.locks import Lock


def test_a_lock_held_by_another_thread_is_open_in_a_child() -> None:
    lock, held, done = Lock(), threading.Event(), threading.Event()

    def hold() -> None:
        with lock:
            held.set()
            done.wait(60)

    holder = threading.Thread(target=hold)
    holder.start()
    held.wait(60)
    child = os.fork()
    if child == 0:
        with lock, lock:
            os._exit(7)
    done.set()
    holder.join()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


def test_only_one_thread_at_a_time_holds_it() -> None:
    lock, count = Lock(), 0

    def work() -> None:
        nonlocal count
        for _ in range(2000):
            with lock:
                before = count
                count = before + 1

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert count == 8000
