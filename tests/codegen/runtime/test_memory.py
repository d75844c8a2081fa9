"""Memory of outputs: reuse, limits, nothing lost."""

from __future__ import annotations

import gc
import os
import resource
import subprocess
import sys
import textwrap
import threading
import warnings
import weakref
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tcdsl as tc
from tcdsl.codegen import runtime

pytestmark = pytest.mark.cc


def _resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")


@pytest.mark.parametrize("n", [4, 1000, 3 << 20])
def test_a_dead_output_gives_its_memory_to_the_next(kernels: Any, n: int) -> None:
    k, a = kernels.add1(), np.ones(n, np.float32)
    k(a, a)
    c = k(a, a)
    address = c.ctypes.data
    del c
    c = k(a, a)
    assert c.ctypes.data == address
    view = c[1:3]
    del c
    d = k(a, a)
    assert d.ctypes.data != address, "a view keeps the memory"
    np.testing.assert_array_equal(view, [2, 2])


def test_empty_cache_gives_back_what_is_kept(kernels: Any) -> None:
    k, a = kernels.add1(), np.ones(4 << 20, np.float32)
    runtime.empty_cache()
    live = runtime.memory()[0]
    c = k(a, a)
    assert runtime.memory()[0] == live + c.nbytes
    few = k(a[:4], a[:4])
    assert runtime.memory()[0] == live + c.nbytes + few.nbytes, "what was asked for"
    del few
    del c
    assert runtime.memory()[0] == live
    before = _resident_bytes()
    assert runtime.empty_cache() >= a.nbytes
    assert runtime.memory()[1] == 0
    assert _resident_bytes() < before - a.nbytes // 2


def test_empty_cache_is_public_and_safe_beside_calls_and_forks(kernels: Any) -> None:
    k, a = kernels.add1(), np.ones(1 << 16, np.float32)
    done = threading.Event()
    wrong: list[Any] = []

    def call() -> None:
        while not done.is_set():
            c = k(a, a)
            if not (c == 2).all():
                wrong.append(c)

    threads = [threading.Thread(target=call) for _ in range(2)]
    for t in threads:
        t.start()
    try:
        for _ in range(200):
            assert tc.empty_cache() >= 0
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of fork beside threads
            child = os.fork()
        if child == 0:
            ok = (k(a, a) == 2).all() and tc.empty_cache() >= a.nbytes and (k(a, a) == 2).all()
            os._exit(0 if ok else 1)
        assert os.waitpid(child, 0)[1] == 0
    finally:
        done.set()
        for t in threads:
            t.join()
    assert not wrong
    k(a, a)
    assert tc.empty_cache() >= a.nbytes
    assert tc.empty_cache() == 0
    before = runtime.memory()[2]
    tc.set_cache_limit(0)
    k(a, a)
    assert tc.empty_cache() == 0, "a limit of 0 keeps nothing"
    tc.set_cache_limit(before)


def test_the_limit_is_kept(kernels: Any) -> None:
    limit = runtime.memory()[2]
    assert 1 << 26 <= limit <= 1 << 30
    k = kernels.add1()
    try:
        runtime.set_cache_limit(1 << 20)
        for n in (1 << 10, 1 << 14, 1 << 16, 1 << 17, 1 << 18, 1 << 20):
            a = np.ones(n, np.float32)
            k(a, a)
            assert runtime.memory()[1] <= 1 << 20
        runtime.set_cache_limit(0)
        assert runtime.memory()[1] == 0
        with pytest.raises(ValueError, match="negative"):
            runtime.set_cache_limit(-1)
    finally:
        runtime.set_cache_limit(limit)


def _faults() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt


def test_outputs_of_another_size_take_the_memory_of_those_before(kernels: Any) -> None:
    k = kernels.add1()
    runtime.empty_cache()
    live = runtime.memory()[0]

    def step(n: int) -> None:
        a = np.ones(n, np.float32)
        kept = [k(a, a) for _ in range(4 << 20 >> 2 >> n.bit_length())]
        assert all(c[0] == c[-1] == 2 for c in kept)

    sizes = (10_000, 11_000, 12_500, 14_500, 7_000)
    for n in sizes:  # the forms
        k(np.zeros(n, np.float32), np.zeros(n, np.float32))
    step(14_500)
    held, faults = runtime.memory()[1], _faults()
    for n in (*sizes, *sizes):
        step(n)
    assert runtime.memory()[0] == live
    assert runtime.memory()[1] < 1.2 * held
    assert _faults() - faults < 500, "ten steps of 500 pages and more"


def test_blocks_of_all_sizes_come_and_go(kernels: Any) -> None:
    k, chance = kernels.add1(), np.random.default_rng(0)
    operands = [np.full(n, n, np.float32) for n in chance.integers(1, 100_000, 30)]
    limit, live = runtime.memory()[2], runtime.memory()[0]
    held: list[Any] = []
    try:
        for turn in range(900):
            if turn % 300 == 299:
                tc.empty_cache()
                runtime.set_cache_limit((limit, 4 << 20, 0)[turn // 300])
            if len(held) > chance.integers(60):
                c = held.pop(chance.integers(len(held)))
                assert c[0] == c[-1] == 2 * len(c)
            a = operands[chance.integers(len(operands))]
            held.append(k(a, a))
            assert held[-1].ctypes.data % 64 == 0
        c = None
        spans = sorted((c.ctypes.data, c.nbytes) for c in held)
        assert all(a + n <= b for (a, n), (b, _) in pairwise(spans)), "no two meet"
        assert runtime.memory()[0] - live == sum(c.nbytes for c in held)
        assert runtime.memory()[1] == 0, "a limit of 0 keeps nothing"
    finally:
        runtime.set_cache_limit(limit)


def test_many_calls_leave_nothing(kernels: Any) -> None:
    add, moments, gather = kernels.add1(), kernels.moments(), kernels.gather()
    a, c, x = np.ones(16, np.float32), np.empty(16, np.float32), np.ones(100)
    good, bad = np.zeros(4, np.int32), np.full(4, 99, np.int32)

    def calls(n: int) -> None:
        for _ in range(n):
            add(a, a)
            add(a, a, out=c)
            moments(x)
        for _ in range(n // 100):
            gather(a, good)
            with pytest.raises(IndexError):
                gather(a, bad)
            with pytest.raises(TypeError):
                add(a)

    calls(1000)
    objects = [a, c, x, None, a.dtype, np.dtype(np.float64), add, moments]
    gc.collect()  # what other tests left behind holds references too
    counts = [sys.getrefcount(o) for o in objects]
    live, before = runtime.memory()[0], _resident_bytes()
    calls(100_000)
    gc.collect()
    assert _resident_bytes() - before < 2 << 20
    assert runtime.memory()[0] == live
    drift = [sys.getrefcount(o) - n for o, n in zip(objects, counts, strict=True)]
    assert max(map(abs, drift)) < 500


def test_a_launcher_in_a_cycle_is_collected(kernels: Any) -> None:
    a = np.ones(3, np.float32)

    class Kernel(runtime.Launcher):
        pass

    def make() -> weakref.ref[Kernel]:
        k = Kernel("k", ("a",), ("o",), lambda *args: k(*args), print)
        k.me = k  # type: ignore[attr-defined]
        form = (a.dtype, a.shape, None)
        entry = runtime.Entry(kernels.address("add1"), (3,), (form,), (form,))
        k.install(entry, (a,))
        return weakref.ref(k)

    ref = make()
    gc.collect()
    assert ref() is None


def test_installing_over_and_over_frees_the_old(kernels: Any) -> None:
    k, a = kernels.add1(), np.ones(3, np.float32)
    keep = kernels.library

    def install(n: int) -> None:
        for i in range(n):
            shape = np.ones(i % 100, np.float32)
            form = (a.dtype, shape.shape, None)
            address = kernels.address("add1")
            entry = runtime.Entry(address, shape.shape, (form, form), (form,), (), keep)
            k.install(entry, (shape, shape))

    install(200)
    count, before = sys.getrefcount(keep), _resident_bytes()
    install(20_000)
    assert sys.getrefcount(keep) == count
    assert _resident_bytes() - before < 1 << 20
    k.clear()
    assert sys.getrefcount(keep) == count - 100


def test_memory_error_comes_after_giving_up_the_cache(kernels: Any) -> None:
    program = """
        import ctypes, resource, sys
        import numpy as np
        from tcdsl.codegen import runtime
        lib = ctypes.CDLL(sys.argv[1])
        address = ctypes.addressof(ctypes.c_char.in_dll(lib, "tc_exe_add"))
        F4 = np.dtype("f4")
        k = runtime.Launcher("add", ("a", "b"), ("c",), None, None)
        def call(rows):
            x = np.broadcast_to(np.float32(1), (rows, 1024))
            form = F4, x.shape, (0, 0)
            entry = runtime.Entry(address, x.shape, (form, form), ((F4, x.shape, None),))
            return k.run(entry, (x, x))
        call(8)
        used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + (100 << 20),) * 2)
        call(16 << 10)  # 64 MB, now in the cache
        assert runtime.memory()[1] > 60 << 20
        c = call(20 << 10)  # 80 MB: only if the cache is given up
        assert runtime.memory()[1] < 60 << 20
        assert c.min() == c.max() == 2
        try:
            call(64 << 10)
        except MemoryError:
            print("MemoryError")
        del c
        assert call(8).sum() == 8 * 1024 * 2
    """
    run = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program), kernels.library._name],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert run.stdout == "MemoryError\n", run.stderr
