"""Recorded calls and backward in several threads, and in forked children."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable

import numpy as np
import pytest

from tcdsl.autograd import backward, grad
from tests.tcdsl.core.few import array, e_to, tensor, times, total

pytestmark = pytest.mark.cc


def _in_threads(work: Callable[[], None], count: int = 3) -> list[BaseException]:
    """Run work in threads at the same time; return what they raised."""
    raised: list[BaseException] = []
    together = threading.Barrier(count)

    def run() -> None:
        try:
            together.wait()
            work()
        except BaseException as error:
            raised.append(error)

    threads = [threading.Thread(target=run) for _ in range(count)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    return raised


def test_graphs_of_several_threads_add_to_one_leaf() -> None:
    x = tensor(
        np.zeros(100_000), np.float32, requires_grad=True
    )  # long enough to give the GIL away

    def work() -> None:
        for _ in range(20):
            total(times(x, 1.0)).backward()

    assert not _in_threads(work)
    assert np.unique(array(x.grad)).tolist() == [60]


def test_threads_go_through_one_graph_one_after_the_other() -> None:
    x = tensor(np.zeros(100_000), np.float32, requires_grad=True)
    shared = e_to(times(x, 2.0))

    def work() -> None:
        for _ in range(10):
            backward(total(times(shared, shared)), retain_graph=True)
            grad(total(shared), x, retain_graph=True)

    assert not _in_threads(work)
    assert np.unique(array(x.grad)).tolist() == [4 * 30]


def test_a_backward_in_a_backward_of_the_same_graph_is_refused() -> None:
    x = tensor([1.0], requires_grad=True)
    y = times(x, 2.0)
    z = total(times(y, y))
    y.register_hook(lambda g: backward(z, retain_graph=True))
    with pytest.raises(RuntimeError, match="backward was called in a backward"):
        z.backward(retain_graph=True)
    y.grad_fn._hooks = None
    z.backward()
    assert array(x.grad).tolist() == [8]


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_child_goes_on_with_a_graph_that_its_parent_was_at() -> None:
    x = tensor([1.0, 2.0], requires_grad=True)
    y = times(x, 3.0)
    z = total(times(y, y))
    at, go = threading.Event(), threading.Event()

    def wait(_: object) -> None:
        at.set()
        go.wait(60)

    y.register_hook(wait)
    thread = threading.Thread(target=lambda: backward(z, retain_graph=True))
    thread.start()
    at.wait(60)
    child = os.fork()
    if not child:
        y.grad_fn._hooks = None
        backward(z, retain_graph=True)
        os._exit(0 if array(x.grad).tolist() == [18, 36] else 1)
    status = os.waitpid(child, 0)[1]
    go.set()
    thread.join()
    assert status == 0
    assert array(x.grad).tolist() == [18, 36]
