"""What callers that race, fork, lie or go too far cannot break; numbers stay right."""

from __future__ import annotations

import copy
import gc
import os
import pickle
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tcdsl
from tcdsl import library
from tcdsl.autograd import Function, backward, no_grad
from tcdsl.core import Op, View
from tcdsl.library import from_dlpack, from_numpy, ones, tensor, zeros
from tcdsl.nn import functional
from tests.tiers import sampled

pytestmark = [pytest.mark.cc, pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")]


def _status_of_child(work: Callable[[], object]) -> int:
    """Return 0 if work went well in a forked child, else how that ended; 60 s at most."""
    child = os.fork()
    if not child:
        signal.alarm(60)
        try:
            work()
        except BaseException as error:
            print(repr(error), file=sys.stderr)
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


# ---- layouts


class _Liar(int):
    """An integer that says whatever is asked of it."""

    def __lt__(self, other: Any) -> bool:
        return False

    def __ge__(self, other: Any) -> bool:
        return False

    def __mul__(self, other: Any) -> int:
        return 0

    __rmul__ = __sub__ = __mul__


def test_a_view_lies_in_its_storage_whatever_its_numbers_say_of_themselves() -> None:
    x = ones(3)
    for size, stride in ((_Liar(5_000_000), 1), (2, _Liar(500_000_000))):
        with pytest.raises(RuntimeError, match="reaches beyond the storage"):
            x.as_strided((size,), (stride,), 0)


class _LyingArray(np.ndarray[Any, Any]):
    @property
    def __array_interface__(self) -> dict[str, Any]:
        return {"data": (12345, False), "shape": (3,), "typestr": "<f4", "version": 3}


setattr(_LyingArray, "shape", property(lambda array: (100_000_000,)))  # noqa: B010


def test_an_array_is_read_as_it_is_not_as_its_class_says() -> None:
    lying = np.ones(3, np.float32).view(_LyingArray)
    assert from_numpy(lying).tolist() == [1, 1, 1]


def test_a_tensor_has_less_than_2_to_the_63_elements() -> None:
    x = ones(1)
    calls: tuple[Callable[[], Any], ...] = (
        lambda: x.expand(2**31, 2**31, 4),
        lambda: x.as_strided((2**40, 2**40), (0, 0)),
        lambda: x.repeat(2**40, 2**40),
        lambda: x.expand(2**40).unfold(0, 2**39, 1),
    )
    for call in calls:
        with pytest.raises(RuntimeError, match="numel: integer multiplication overflow"):
            call()
    assert zeros(0, 1).expand(0, 2**62).numel() == 0


def test_too_many_dimensions_and_sizes_too_large_are_errors_of_their_own() -> None:
    with pytest.raises(RuntimeError, match="at most 64 dimensions"):
        zeros([1] * 64).unsqueeze(0)
    with pytest.raises(RuntimeError, match="sizes are below 2"):
        ones(1).expand(2**63)


# ---- chains of any length


def _gradients(a: Any) -> Any:
    b = ones(1)
    b.grad = a
    return b


@pytest.mark.parametrize(
    "link",
    [
        _gradients,
        lambda a: a.data,
        lambda a: from_numpy(a.numpy()),
        lambda a: from_numpy(a.numpy()[:1]),
        lambda a: from_dlpack(a),
    ],
    ids=["grad", "data", "numpy", "part", "dlpack"],
)
def test_a_chain_of_tensors_is_freed_without_recursion(link: Callable[[Any], Any]) -> None:
    def chain() -> None:
        a = ones(1)
        for _ in range(5000):
            a = link(a)

    def in_a_small_stack() -> None:
        threading.stack_size(128 << 10)
        thread = threading.Thread(target=chain)
        thread.start()
        thread.join()

    link(ones(1))
    assert _status_of_child(in_a_small_stack) == 0


def test_what_a_function_saved_goes_with_the_backward_pass() -> None:
    alive = library.ones(1)

    class Twice(Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            y = x * 2
            ctx.save_for_backward(y)
            return y

        @staticmethod
        def backward(ctx: Any, d_y: Any) -> Any:
            seen.append(ctx)
            return d_y * 2

    seen: list[Any] = []
    total = Twice.apply(alive.requires_grad_()).sum()
    total.backward()
    held = [v for v in vars(seen[0]).values() if isinstance(v, tuple) and v and v != (True,)]
    assert not held


# ---- several threads


@pytest.mark.wide
def test_a_long_call_keeps_the_memory_that_it_reads_and_writes() -> None:
    x = zeros(1_000_000)
    out = zeros(1_000_000)
    ended = threading.Event()
    mixed: list[Any] = []

    def change() -> None:
        n = 0
        while not ended.is_set():
            n += 1
            x.data = zeros(1_000_000).fill_(n)
            out.resize_(1_000_000 + n % 2 * 100_000)
            zeros(1_000_000).fill_(-1)  # in the block that was given back

    changing = threading.Thread(target=change)
    changing.start()
    try:
        for _ in range(100):
            y = x * 2
            low, high = y.min().item(), y.max().item()
            if low != high or low < 0:
                mixed.append((low, high))
    finally:
        ended.set()
        changing.join()
    assert not mixed


# ---- forks


def test_both_processes_go_on_with_a_backward_in_which_a_hook_forks() -> None:
    x = ones(3, requires_grad=True)
    y = x * 2
    parent = os.getpid()
    status: list[int] = []

    def fork(_: Any) -> None:
        child = os.fork()
        if child:
            status.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        else:
            signal.alarm(60)

    y.register_hook(fork)
    good = False
    try:
        backward((y * 3).sum())
        good = x.grad.tolist() == [6, 6, 6]
    finally:
        if os.getpid() != parent:
            os._exit(0 if good else 1)
    assert good
    assert status == [0]


_MODULE = """
import __main__, logging
__main__.AT.set()
__main__.GO.wait(60)
logging.getLogger("ours")
VALUE = 5
"""
_FORKS = """
import os, signal, sys, threading
import tcdsl
import logging  # its hook of a fork goes before those that were there
AT, GO = threading.Event(), threading.Event()
importing = threading.Thread(target=lambda: __import__("slow_module_with_words"))
importing.start()
AT.wait(60)
threading.Timer(0.1, GO.set).start()
if not (child := os.fork()):
    signal.alarm(60)
    os._exit(__import__("slow_module_with_words").VALUE)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 5
"""


def test_a_module_that_asks_for_a_logger_is_waited_for_too(tmp_path: Path) -> None:
    (tmp_path / "slow_module_with_words.py").write_text(_MODULE)
    path = os.pathsep.join([str(tmp_path), *sys.path])
    subprocess.run(
        [sys.executable, "-c", _FORKS], env={**os.environ, "PYTHONPATH": path}, check=True
    )


def test_a_fork_waits_for_imports_of_other_threads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "import tests.tcdsl.core.few as few\nfew.AT.set()\nfew.GO.wait(60)\nVALUE = 5\n"
    (tmp_path / "slow_module_of_ours.py").write_text(text)
    from tests.tcdsl.core import few

    at, go = threading.Event(), threading.Event()
    monkeypatch.setattr(few, "AT", at, raising=False)
    monkeypatch.setattr(few, "GO", go, raising=False)
    monkeypatch.syspath_prepend(str(tmp_path))
    importing = threading.Thread(target=lambda: __import__("slow_module_of_ours"))
    importing.start()
    at.wait(60)
    threading.Timer(0.05, go.set).start()

    def use() -> None:
        assert __import__("slow_module_of_ours").VALUE == 5

    assert _status_of_child(use) == 0
    importing.join()


def test_a_value_computed_once_holds_no_lock() -> None:
    from tcdsl.grammar.text.cached import cached_property

    class Slow:
        def __init__(self, name: str) -> None:
            self.name = name

        @cached_property
        def value(self) -> list[str]:
            if self.name == "first":
                at.set()
                go.wait(60)
            return [self.name]

    at, go = threading.Event(), threading.Event()
    first = Slow("first")
    computing = threading.Thread(target=lambda: first.value)
    computing.start()
    at.wait(60)
    second = Slow("second")
    assert second.value is second.value == ["second"]
    go.set()
    computing.join()
    assert vars(first)["value"] == ["first"]


# ---- copies and pickles


def test_generators_are_copied_and_pickled_with_their_state() -> None:
    g = library.Generator().manual_seed(3)
    library.rand(2, generator=g)
    copies = [copy.deepcopy(g), pickle.loads(pickle.dumps(g))]
    assert len({g.draw_seed(), *(c.draw_seed() for c in copies)}) == 1


@sampled("step", [16, 1], keep=1)
def test_public_functions_are_pickled_by_name_and_copied_as_themselves(step: int) -> None:
    checked = 0
    for home in (tcdsl, functional, tcdsl.Tensor):
        for name in dir(home)[::step]:
            value = None if name.startswith("__") else getattr(home, name)
            if isinstance(value, Op | View) or hasattr(value, "__code__"):
                assert pickle.loads(pickle.dumps(value)) is value, name
                assert copy.deepcopy(value) is value, name
                checked += 1
    assert checked > 500 / step


# ---- modes


def test_a_generator_is_without_gradients_in_its_steps_only() -> None:
    x = tensor([1.0], requires_grad=True)

    @no_grad()
    def steps() -> Any:
        got = yield (x * 2).requires_grad
        try:
            yield (x * 2).requires_grad, got
        except KeyError:
            yield "caught"
        return 7

    made = steps()
    assert next(made) is False
    assert (x * 2).requires_grad
    assert made.send(5) == (False, 5)
    assert made.throw(KeyError()) == "caught"
    with pytest.raises(StopIteration) as end:
        next(made)
    assert end.value.value == 7
    assert (x * 2).requires_grad
    gc.collect()


# ---- arguments


def test_a_pass_begins_at_as_many_tensors_as_there_are() -> None:
    x = ones(2, requires_grad=True)
    backward([x.sum() * n for n in range(100)])
    assert x.grad.tolist() == [4950, 4950]
    (gradient,) = tcdsl.autograd.grad([x * 1 for _ in range(70)], [x], [ones(2)] * 70)
    assert gradient is not None
    assert gradient.tolist() == [70, 70]


def test_arguments_of_no_meaning_are_told_in_words() -> None:
    x = ones(2, 3)
    assert x.sum(np.int64(1)).tolist() == [3, 3]
    for dim in (1.0, "a"):
        with pytest.raises(TypeError, match="expected dim as an int or a tuple of ints"):
            x.sum(dim)
    with pytest.raises(TypeError, match="must be Tensor, not str"):
        library.squeeze("a")
    for args in ((x,), (x, x, 3), (x, x, x, x, x, x)):
        with pytest.raises(TypeError, match="takes the Tensors input, mat1, mat2"):
            library.addmm(*args)
    with pytest.raises(RuntimeError, match="Trying to create tensor with negative dimension -1"):
        library.randperm(-1)
    with pytest.raises(TypeError):
        library.randperm("abc")
    with pytest.raises(RuntimeError, match="must match the size of tensor b"):
        library.masked_select(library.arange(5), library.ones(4) > 0)
    with pytest.raises(RuntimeError, match="elements of output_size must be greater than or equal"):
        functional.adaptive_max_pool1d(ones(1, 1, 3), -1)
