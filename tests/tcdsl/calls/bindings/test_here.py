"""The first way back that a program wants is built by a thread of its own process."""

from __future__ import annotations

import sys
import threading
import warnings
from collections.abc import Callable
from types import SimpleNamespace

import pytest

from tcdsl.calls.bindings import aside
from tcdsl.calls.bindings.aside import CALL, EXECUTABLE, WAY_BACK, Aside
from tcdsl.calls.process.caller import warn
from tcdsl.codegen.toolchain.making import UnwantedError
from tcdsl.codegen.toolchain.objects import UNWANTED
from tcdsl.grammar.text.errors import CompileError

SECONDS = 60.0  # after which a test fails


class Noted(aside.Queue):
    """A queue whose builder is never started, but asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = 0

    def _start(self) -> None:
        self.asked += 1


@pytest.fixture
def queue(own_cache: object, monkeypatch: pytest.MonkeyPatch) -> Noted:
    """Return the queue of this process."""
    found = Noted()
    monkeypatch.setattr(aside, "_queue", found)
    return found


@pytest.fixture
def builds(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[bytes], None]], None]:
    """Have ways back and calls to come be built by a function."""

    def by(build: Callable[[bytes], None]) -> None:
        for module in (WAY_BACK, CALL):
            monkeypatch.setitem(sys.modules, module, SimpleNamespace(build=build))

    return by


Builds = Callable[[Callable[[bytes], None]], None]


def test_what_is_wanted_beside_it_is_the_builders(queue: Noted, builds: Builds) -> None:
    begun, go_on, built = threading.Event(), threading.Event(), list[bytes]()

    def build(task: bytes) -> None:
        begun.set()
        assert go_on.wait(SECONDS)
        built.append(task)

    builds(build)
    aside.expect()
    first = Aside(b"1", "one", WAY_BACK)
    assert begun.wait(SECONDS)
    assert queue.asked == 0
    aside.expect()
    assert queue.asked == 1
    second = Aside(b"2", "two", CALL)
    assert queue.asked == 2
    second.wait()  # nobody has begun it
    go_on.set()
    first.wait()
    assert built == [b"1"]
    assert [one.task for *_, one in queue._waiting] == [b"2"]
    Aside(b"3", "three", WAY_BACK).wait()
    queue.settle()
    assert built in ([b"1"], [b"1", b"3"]), "who waits before it has begun does it himself"


def test_others_than_ways_back_are_the_builders(queue: Noted, builds: Builds) -> None:
    builds(lambda task: None)
    Aside(b"", "one", EXECUTABLE)
    assert queue.asked == 1


def test_a_fault_is_kept_and_a_warning_left_to_calls(queue: Noted, builds: Builds) -> None:
    def build(task: bytes) -> None:
        warn("said by the call")
        raise CompileError("no such thing")

    builds(build)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        one = Aside(b"", "mine", WAY_BACK)
        assert one._done.wait(SECONDS)
    assert aside.last_failure() == "mine: no such thing"


def test_a_process_that_ends_leaves_no_compiler_at_work(queue: Noted, builds: Builds) -> None:
    begun, ended = threading.Event(), list[bool]()

    def build(task: bytes) -> None:
        is_unwanted = UNWANTED.get()
        assert is_unwanted is not None
        begun.set()
        while not is_unwanted():
            pass
        ended.append(True)
        raise UnwantedError

    builds(build)
    one = Aside(b"", "mine", WAY_BACK)
    assert begun.wait(SECONDS)
    queue.leave()
    assert one._done.wait(SECONDS)
    assert ended == [True]
    assert aside.last_failure() == ""
    assert UNWANTED.get() is None, "it is the thread's"
