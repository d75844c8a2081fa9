"""What is computed beside the rest of a run, and never holds up its end."""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

from tcdsl.codegen.reference.evaluator import is_abandoned

T = TypeVar("T")


def aside(make: Callable[[], T], is_over: Callable[[], bool] | None = None) -> Future[T]:
    """Return the result to be of a function, which runs in a thread that no exit waits for.

    Where no thread can be started it runs here, and now.

    is_over: asked all the while by the reference evaluator, which ends once it is true.

    (A pool's threads are waited for when the interpreter ends: a second Ctrl-C would not.)
    """
    future: Future[T] = Future()

    def run() -> None:
        is_abandoned.set(is_over)  # in this thread's own context
        try:
            result = make()
        except BaseException as error:  # whose it is asks for the result
            future.set_exception(error)
        else:
            future.set_result(result)

    try:
        threading.Thread(target=run, name="tcdsl tuner's case", daemon=True).start()
    except RuntimeError:  # no more threads
        contextvars.copy_context().run(run)
    return future
