"""What breaks kernels elsewhere: threads, forks, signals, huge strides, odd memory, odd types."""

from __future__ import annotations

import mmap
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from numpy.lib.stride_tricks import as_strided

import tcdsl as tc
from tcdsl.grammar.text.errors import BoundsError, TCError
from tcdsl.kernel import Kernel
from tests.tcdsl.differential import VIEWS, poisoned, reference, same, viewed
from tests.tiers import sampled

pytestmark = pytest.mark.cc

ADD = "def add(float(N) A, float(N) B) -> (C) { C(i) = A(i) + B(i) }"
MM = "def mm(float(M,K) A, float(K,N) B) -> (C) { C(m, n) +=! A(m, k) * B(k, n) }"
SOFTMAX = """def softmax(float(N,M) A) -> (O) {
  mx(n) max=! A(n,m)  O(n,m) = exp(A(n,m) - mx(n))  s(n) +=! O(n,m)  O(n,m) = O(n,m) / s(n) }"""
ROOT = Path(__file__).parents[3]


def kernel(text: str, **options: Any) -> Kernel:
    defined = tc.define(text, tune="off", **options)
    assert isinstance(defined, Kernel)
    return defined


def normal(*shape: int) -> Any:
    return np.random.default_rng(sum(shape)).standard_normal(shape, dtype=np.float32)


def whole(*shape: int) -> Any:
    return np.random.default_rng(sum(shape)).integers(-4, 5, shape).astype(np.float32)


# ---- threads, forks, signals


def test_first_calls_from_many_threads_compile_once_and_are_right() -> None:
    mm = kernel(MM)
    operands = [(whole(n, n + 2), whole(n + 2, 7)) for n in (5, 5, 9, 9, 31, 31, 64, 64)]
    wrong: list[int] = []
    start = threading.Barrier(len(operands))

    def work(n: int) -> None:
        a, b = operands[n]
        start.wait()
        wrong.extend(n for _ in range(20) if not np.array_equal(mm(a, b), a @ b))

    threads = [threading.Thread(target=work, args=(n,)) for n in range(len(operands))]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong
    assert len(mm.variant().executables) == 2


def in_child(work: Callable[[], bool]) -> int:
    """Return the exit status of a forked child that works and ends at once."""
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            signal.alarm(60)  # a child that hangs fails
            status = 0 if work() else 2
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def test_a_forked_child_calls_what_its_parent_called_and_what_it_did_not() -> None:
    mm, a = kernel(MM, threads=2), whole(200, 200)
    want = mm(a, a)
    fresh = kernel("def twice(float(N) A) -> (B) { B(i) = 2 * A(i) }")
    assert in_child(lambda: bool(np.array_equal(mm(a, a), want))) == 0
    assert in_child(lambda: bool(np.array_equal(mm(a[:7], a), a[:7] @ a))) == 0
    assert in_child(lambda: bool(np.array_equal(fresh(a[0]), 2 * a[0]))) == 0
    np.testing.assert_array_equal(mm(a, a), want)


def test_a_fork_in_the_middle_of_another_threads_calls_hangs_nobody() -> None:
    mm, a = kernel(MM, threads=2), whole(160, 160)
    want = mm(a, a)
    stop = threading.Event()
    wrong: list[int] = []

    def work() -> None:
        while not stop.wait(0.001):  # a pause now and then, or who forks waits long for the GIL
            right = [np.array_equal(mm(a, a), want) for _ in range(10)]
            wrong.append(right.count(False))

    threads = [threading.Thread(target=work) for _ in range(2)]
    for t in threads:
        t.start()
    try:
        codes = [in_child(lambda: bool(np.array_equal(mm(a, a), want))) for _ in range(8)]
    finally:
        stop.set()
        for t in threads:
            t.join()
    assert codes == [0] * 8
    assert not any(wrong)


def test_results_are_the_same_bits_beside_a_busy_core() -> None:
    mm, softmax, a = kernel(MM), kernel(SOFTMAX), normal(150, 150)
    quiet = mm(a, a), softmax(a)
    stop = threading.Event()

    def spin() -> None:
        while not stop.is_set():
            np.matmul(a, a)

    threads = [threading.Thread(target=spin) for _ in range(2)]
    for t in threads:
        t.start()
    try:
        for _ in range(50):
            np.testing.assert_array_equal(mm(a, a), quiet[0])
            np.testing.assert_array_equal(softmax(a), quiet[1])
    finally:
        stop.set()
        for t in threads:
            t.join()


def test_ctrl_c_in_a_long_call_is_raised_after_it_and_harms_nothing() -> None:
    long = kernel("def long(float(N) A, int32 R) -> (O) { O(i) +=! A(i) / 3 where r in 0:R }")
    a = normal(64)
    long(a, 10)
    turns = 10
    while True:  # as many turns as take a fifth of a second here, also when nobody disturbs
        begin = time.process_time()
        long(a, turns)
        if time.process_time() - begin > 0.2:
            break
        turns *= 2
    want = long(a, turns)
    timer = threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGINT))

    def call_until_interrupted() -> None:
        timer.start()
        end = time.perf_counter() + 300
        while time.perf_counter() < end:  # the signal is seen between two calls at the latest
            long(a, turns)

    with pytest.raises(KeyboardInterrupt):
        call_until_interrupted()
    timer.join()
    np.testing.assert_array_equal(long(a, turns), want)


def test_two_sizes_that_alternate_keep_their_executables_and_bits() -> None:
    mm = kernel(MM)
    small, large = normal(17, 17), normal(90, 90)
    first = mm(small, small), mm(large, large), mm(large.T, large)
    count = len(mm.variant().executables)
    for _ in range(200):
        np.testing.assert_array_equal(mm(small, small), first[0])
        np.testing.assert_array_equal(mm(large, large), first[1])
        np.testing.assert_array_equal(mm(large.T, large), first[2])
    assert len(mm.variant().executables) == count


@pytest.mark.wide
@pytest.mark.parametrize(
    ("calls", "shapes"),
    [
        (5_000, 100),
        pytest.param(20_000, 500, marks=pytest.mark.wide),
        pytest.param(100_000, 17_000, marks=pytest.mark.deep),
    ],
)
def test_memory_does_not_grow_over_calls_of_changing_shapes(calls: int, shapes: int) -> None:
    script = f"""
        import numpy as np, tcdsl as tc
        def resident():
            return int(open("/proc/self/statm").read().split()[1]) * 4096
        text = "def add(float(N,M) A, float(M) B) -> (C) {{ C(i,j) = A(i,j) + B(j) }}"
        add = tc.define(text)
        base, row = np.ones((300, 60), np.float32), np.ones(60, np.float32)
        def calls(count):
            for n in range(count):
                i = n * 13 % {shapes}
                m = i % 59 + 1
                c = add(base[: i // 59 + 1, :m], row[:m])
            assert (c == 2).all()
        calls({shapes})
        before = resident()
        calls({calls})
        print(resident() - before)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
        timeout=1200,
    )
    assert int(done.stdout) < 8 << 20


# ---- addresses beyond 31 bits


@pytest.fixture
def sparse() -> np.ndarray[Any, Any]:
    """Address space of 12 GiB, of which only what is touched takes memory."""
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | getattr(mmap, "MAP_NORESERVE", 0)
    memory = mmap.mmap(-1, 12 << 30, flags=flags)
    return np.frombuffer(memory, np.int8)


FAR = {
    "pointwise": "def f(int8(N,M) A) -> (O) { O(n,m) = A(n,m) + 1 }",
    "sums": "def f(int8(N,M) A) -> (O) { O(n) +=! int32(A(n,m)) }",
    "column sums": "def f(int8(N,M) A) -> (O) { O(m) +=! int32(A(n,m)) }",
    "gather": "def f(int8(N,M) A) -> (O) { O(n,m) = A(N - 1 - n, m) }",
    "convolution": "def f(int8(N,M) A) -> (O) { O(n,m) max=! A(n+k, m) where k in 0:2 }",
}


@sampled("name", FAR, keep=1)
def test_strides_beyond_32_bits(name: str, sparse: Any) -> None:
    f = kernel(FAR[name])
    for rows, cols in ((3, 4), (4, 7)):  # exact, then generic
        for shape_strides in ((3_000_000_001, 1), (3_000_000_001, 700_001), (-2_500_000_003, 3)):
            row, col = shape_strides
            start = 10_000_000_000 if row < 0 else 5
            a = as_strided(sparse[start:], (rows, cols), (row, col))
            a[...] = np.random.default_rng(rows).integers(-9, 9, a.shape)
            (want,) = reference(f.variant().checked, [a.copy()])
            assert same(np.asarray(f(a)), want)
            far = as_strided(sparse[1:], want.shape, ((1 << 31) + 8, 9)[: want.ndim])
            if far.dtype == want.dtype and row < 0:
                f(a, out=far)
                assert same(far.copy(), want)


@pytest.mark.wide
def test_far_operands_of_a_product(sparse: Any) -> None:
    floats = sparse.view(np.float32)
    mm = kernel(MM)
    for m, k, n in ((3, 4, 2), (5, 3, 17)):
        a = as_strided(floats, (m, k), (2_400_000_004, 4))
        b = as_strided(floats[64:], (k, n), (2_200_000_000, 64))
        c = as_strided(floats[32:], (m, n), (2_400_000_000, 64))
        a[...], b[...] = whole(m, k), whole(k, n)
        held = a.copy(), b.copy()
        mm(a, b, out=c)
        np.testing.assert_array_equal(c.copy(), held[0] @ held[1])


def test_more_points_than_31_bits_count(sparse: Any) -> None:
    ones = np.broadcast_to(np.int8(1), (50_000, 50_000))
    total = kernel("def f(int8(N,M) A) -> (O) { O +=! int64(A(n,m)) }")
    total(ones[:2, :3])
    assert int(total(ones)) == 2_500_000_000  # generic
    assert int(kernel("def f(int8(N,M) A) -> (O) { O +=! int64(A(n,m)) }")(ones)) == 2_500_000_000
    line = sparse[: (1 << 31) + 5]
    last = kernel("def g(int8(N) A, int64(M) I) -> (O) { O(i) = A(I(i)) }")
    for places in ([0, 1 << 31], [(1 << 31) + 4, 7, 3]):
        index = np.array(places)
        line[index] = np.arange(1, 1 + len(places))
        np.testing.assert_array_equal(last(line, index), np.arange(1, 1 + len(places)))
    with pytest.raises(BoundsError, match=str((1 << 31) + 5)):
        last(line, np.array([(1 << 31) + 5]))


# ---- memory as it comes


@sampled(
    "statement",
    [
        "O(n,m,k) = A(n,m,k) * B(k) + m",
        "O(k,n,m) = A(n,m,k) + B(k)",
        "O(m,n) +=! A(n,m,k) * B(k)",
    ],
    keep=1,
)
def test_every_layout_of_inputs_and_outputs(statement: str) -> None:
    f = kernel(f"def f(float(N,M,K) A, float(K) B) -> (O) {{ {statement} }}")
    for view in VIEWS:
        for shape in ((3, 5, 17), (2, 4, 33), (1, 5, 1), (4, 1, 3)):
            a, b = viewed(whole(*shape), view), viewed(whole(shape[2]), view)
            (want,) = reference(f.variant().checked, [a, b])
            assert same(f(a, b), want)
            layout = "strided" if view == "broadcast" else view
            out = viewed(poisoned(want.shape, want.dtype), layout)
            assert f(a, b, out=out) is out
            assert same(np.asarray(out), want)


def test_read_only_inputs_are_read_and_read_only_outputs_refused() -> None:
    add, a, c = kernel(ADD), whole(9), whole(9)
    a.flags.writeable = c.flags.writeable = False
    np.testing.assert_array_equal(add(a, a), 2 * a)
    with pytest.raises(TCError, match="read-only"):
        add(a, a, out=c)
    with pytest.raises(ValueError, match="read-only"):
        add(a, a, out=c)


def test_rank_0_and_fortran_order() -> None:
    square = kernel("def f(float a, double b) -> (o, p) { o = a * a  p = b + a }")
    for a in (3.0, np.float32(3), np.array(3, np.float32), np.array(3.0), np.array([3.0])[0]):
        o, p = square(a, 0.5)
        assert (o.shape, o.dtype, float(o), float(p)) == ((), np.float32, 9.0, 3.5)
    mm, a = kernel(MM), np.asfortranarray(whole(13, 9))
    b = np.asfortranarray(whole(9, 5))
    out = np.zeros((13, 5), np.float32, order="F")
    np.testing.assert_array_equal(mm(a, b, out=out), a @ b)


def test_empty_ranges_and_boxes() -> None:
    every = kernel("def f(float(N) A) -> (O) { O(2 * i) = A(i)  O(2 * i + 1) = 3 where i in 0:N }")
    for n in (3, 0, 1):
        want = np.stack([whole(n), np.full(n, 3, np.float32)], 1).reshape(-1)
        np.testing.assert_array_equal(every(whole(n)), want)
    largest = kernel("def g(float(N,M) A) -> (O, s) { O(n) max=! A(n,m)  s +=! O(n) }")
    for shape in ((2, 3), (0, 3), (3, 0), (0, 0)):
        a = whole(*shape)
        o, s = largest(a)
        np.testing.assert_array_equal(o, a.max(1, initial=-np.inf))
        assert float(s) == o.sum()


@sampled("half", [np.float16, ml_dtypes.bfloat16], keep=0)
def test_half_types_are_stored_rounded_and_computed_in_float32(half: Any) -> None:
    name = np.dtype(half).name
    f = kernel(
        f"def f({name}(N,M) A, {name}(M) B) -> (O, S) {{"
        " t(n,m) = A(n,m) * B(m)  O(n,m) = t(n,m) + 1  S(n) +=! t(n,m) * t(n,m) }"
    )
    for shape in ((3, 5), (17, 33), (2, 130)):
        a, b = (normal(*shape) * 3).astype(half), normal(shape[1]).astype(half)
        for view in ("c", "transposed", "strided"):
            o, s = f(viewed(a, view), b)
            t = a.astype(np.float32) * b.astype(np.float32)
            assert o.dtype == s.dtype == np.dtype(half)
            assert same(o, (t + 1).astype(half))
            exact = (t.astype(np.float64) ** 2).sum(1)
            eps = 2.0**-8 if name == "bfloat16" else 2.0**-11
            np.testing.assert_allclose(s.astype(np.float64), exact, rtol=1.1 * eps)


def test_nan_and_inf_go_where_the_rules_send_them() -> None:
    nan, inf = np.nan, np.inf
    a = np.array([[1, nan, 3], [inf, -inf, 0], [-inf, -inf, -inf], [nan, nan, nan]], np.float32)
    f = kernel(
        "def f(float(N,M) A) -> (mx, mn, top, s, c, u, g) {"
        " mx(n) max=! A(n,m)  mn(n) min=! A(n,m)  top(n,m) = fmax(A(n,m), 2.0)  s(n) +=! A(n,m)"
        " c(n,m) = int32(A(n,m))  u(n,m) = uint8(A(n,m) * 200)  g(n,m) = A(n,m) < 1 }"
    )
    for columns in (3, 2):
        x = a[:, :columns]
        mx, mn, top, s, c, u, g = f(x)
        with np.errstate(invalid="ignore"):
            np.testing.assert_array_equal(mx, x.max(1))
            np.testing.assert_array_equal(mn, x.min(1))
            np.testing.assert_array_equal(top, np.fmax(x, np.float32(2)))
            np.testing.assert_array_equal(s, x.sum(1))
            np.testing.assert_array_equal(g, x < 1)
        whole_part = np.nan_to_num(x, nan=0, posinf=2.0**31, neginf=-(2.0**31)).astype(np.int64)
        np.testing.assert_array_equal(c, np.clip(whole_part, -(2**31), 2**31 - 1))
        np.testing.assert_array_equal(u, np.clip(np.nan_to_num(x * 200, nan=0), 0, 255))


# ---- torch


@pytest.mark.wide
@pytest.mark.torch
def test_torch_tensors_of_every_type_go_in_and_out() -> None:
    import torch

    names = ("float16", "bfloat16", "float64", "uint8", "int64")
    for name in names:
        f = kernel(f"def f({name}(N,M) A) -> (O) {{ O(m,n) = A(n,m) + A(n,m) }}")
        t = torch.arange(-4, 8).reshape(3, 4).to(getattr(torch, name))
        for x in (t, t.T, t[:, ::2], t[1:]):
            got = f(x)
            assert isinstance(got, torch.Tensor)
            assert got.dtype == t.dtype
            assert torch.equal(got, (x + x).T)
            out = torch.zeros_like(x.T)
            assert f(x, out=out) is out
            assert torch.equal(out, (x + x).T)
    flags = kernel("def g(bool(N) A) -> (O) { O(i) = !A(i) }")
    assert torch.equal(flags(torch.tensor([True, False])), torch.tensor([False, True]))
