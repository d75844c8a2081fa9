"""Calls of a launcher on NumPy arrays: values, forms, results."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from tcdsl.codegen import runtime

pytestmark = pytest.mark.cc

Array = npt.NDArray[Any]


def test_a_form_is_compiled_once(kernels: Any, rng: np.random.Generator) -> None:
    k = kernels.add()
    for _ in range(3):
        a, b = rng.standard_normal((2, 3, 5), dtype=np.float32)
        np.testing.assert_array_equal(k(a, b), a + b)
    assert kernels.misses == ["add"]
    assert k.calls == 3


def _misses(kernels: Any, k: Any, arrays: Sequence[Array], times: int = 1) -> int:
    """Return how many calls on these arrays in turn were the slow path's; all are right."""
    before = len(kernels.misses)
    for a in [*arrays] * times:
        assert (k(a, a) == 2 * a).all()
    return len(kernels.misses) - before


def test_each_of_a_thousand_forms_in_turn_is_slow_once(kernels: Any) -> None:
    k = kernels.add1()
    arrays = [np.full(n, n, np.float32) for n in range(1000)]
    assert _misses(kernels, k, arrays) == 1000
    assert _misses(kernels, k, arrays, 2) == 0


@pytest.mark.wide
def test_thousands_of_forms_are_kept_and_more_do_not_thrash(kernels: Any) -> None:
    k = kernels.add1()
    arrays = [np.full(n, n, np.float32) for n in range(10_000)]
    assert _misses(kernels, k, arrays[:8192]) == 8192
    assert _misses(kernels, k, arrays[:8192]) == 0
    for _ in range(3):
        last = _misses(kernels, k, arrays)
    assert 1808 <= last < 7000, "of forms that come in turn most are still there"
    assert _misses(kernels, k, arrays[:8192]) < 5500


def test_the_memory_of_a_table_has_a_bound_too(kernels: Any) -> None:
    k = kernels.many(500)  # a row of some 70 KB
    arrays = [np.ones(n, np.float32) for n in range(1, 401)]

    def misses() -> int:
        before = len(kernels.misses)
        for a in arrays:
            assert (k(*[a] * 500) == 1002).all()
        return len(kernels.misses) - before

    assert misses() == 400
    assert 0 < misses() < 400


def test_the_plan_of_a_form_is_its_own(kernels: Any) -> None:
    for cost_ns in (0, 1_000_000):  # with the GIL, and without it
        k = kernels.many(2, cost_ns)
        arrays = [np.ones(n, np.float32) for n in (1023, 1, 500, 1024, 7)]
        for a in arrays * 3:  # one number of a thousand is not 0, another in each form
            assert (k(a, a) == 1002).all()


@pytest.mark.wide
def test_forms_are_given_up_while_other_threads_call(kernels: Any) -> None:
    k = kernels.many(500, 1_000_000)  # without the GIL: others install meanwhile
    arrays = [np.ones(n, np.float32) for n in range(1, 120)]

    def job(i: int) -> bool:
        mine = [a[: a.size - i % 2] for a in arrays]
        mine += [np.ones(n + 200 * i, np.float32) for n in range(200, 300)]
        return all(bool((k(*[a] * 500) == 1002).all()) for a in mine)

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(job, range(4)))


def test_the_table_may_be_cleared_while_other_threads_call(kernels: Any) -> None:
    k = kernels.add1()
    arrays = [np.ones(n, np.float32) for n in range(1, 40)]
    done = threading.Event()

    def clear() -> None:
        while not done.is_set():
            k.clear()

    other = threading.Thread(target=clear)
    other.start()
    try:
        for _ in range(100):
            for a in arrays:
                assert k(a, a)[-1] == 2
    finally:
        done.set()
        other.join()


@pytest.mark.parametrize(
    "view",
    [
        lambda x: x[::-1],
        lambda x: x[:, ::-2],
        lambda x: x.T,
        lambda x: np.broadcast_to(x[:1], x.shape),
        lambda x: x[:0],
        lambda x: x[:, :0],
        lambda x: x[:1, :1],
        lambda x: x[1:],
    ],
)
def test_strides_are_served_without_a_copy(
    kernels: Any, rng: np.random.Generator, view: Any
) -> None:
    k = kernels.add()
    a, b = rng.standard_normal((2, 6, 8), dtype=np.float32)
    for _ in range(2):
        np.testing.assert_array_equal(k(view(a), view(b)), view(a) + view(b))
    assert kernels.misses == ["add"]


def test_strides_beyond_32_bits(kernels: Any) -> None:
    try:
        far = np.zeros((5, 1 << 29), np.float32)  # 10 GB, of which five pages are touched
    except MemoryError:
        pytest.skip("not enough memory")
    view = far[:, -1:]
    view[:, 0] = range(5)
    k = kernels.add()
    for _ in range(2):
        np.testing.assert_array_equal(k(view, view)[:, 0], [0, 2, 4, 6, 8])
    k(view, view, out=view)
    np.testing.assert_array_equal(view[:, 0], [0, 2, 4, 6, 8])


def test_fresh_output_is_an_ordinary_array(kernels: Any) -> None:
    a = np.ones((3, 4), np.float32)
    c = kernels.add()(a, a)
    assert type(c) is np.ndarray
    assert c.flags.c_contiguous
    assert c.flags.writeable
    assert c.flags.aligned
    assert c.ctypes.data % 64 == 0
    c[0] = 7
    np.testing.assert_array_equal(c, [[7] * 4, [2] * 4, [2] * 4])


def test_several_returns_are_a_named_tuple(kernels: Any, rng: np.random.Generator) -> None:
    k = kernels.moments()
    x = rng.integers(-9, 9, 1000).astype(np.float64)
    for _ in range(2):
        r = k(x)
        assert type(r).__name__ == "moments_result"
        assert r.r0 == x.sum()
        assert r.r1 == (x * x).sum()
        assert r.r0.shape == ()
    s, p = np.zeros(()), np.zeros(())
    for _ in range(2):
        r = k(x, out=(s, p))
        assert r.r0 is s
        assert r.r1 is p
        assert s == x.sum()


def test_out_and_outputs_mean_the_same(kernels: Any) -> None:
    k, a = kernels.add1(), np.arange(5, dtype=np.float32)
    c, d = np.zeros_like(a), np.zeros_like(a)
    assert k(a, a, out=c) is c
    assert k(a, a, outputs=d) is d
    np.testing.assert_array_equal(c, d)
    assert kernels.misses == ["add1"]
    np.testing.assert_array_equal(k(a, a, out=None), c)


def test_entry_refuses_operands_of_another_form(kernels: Any) -> None:
    k, a = kernels.add1(), np.zeros(4, np.float32)
    form = (a.dtype, (4,), None)
    entry = runtime.Entry(kernels.address("add1"), (4,), (form, form), (form,))
    wrong: list[Any] = [
        a[:3],
        a.astype("f8"),
        a.astype(">f4"),
        np.zeros(8, "f4")[::2],
        a.tolist(),
        a[None],
    ]
    for x in wrong:
        with pytest.raises(ValueError, match="operand 1 is not"):
            k.run(entry, (a, x))
        with pytest.raises(ValueError, match="operand 1 is not"):
            k.install(entry, (a, x))


def test_an_executable_may_walk_other_dimensions_than_operands_have(kernels: Any) -> None:
    """The column-major operands of a call of rank 3 are rows for it; the result is made as ever."""
    k = kernels.add()
    a = np.arange(24, dtype=np.float32).reshape(4, 3, 2).T
    b = np.ones((1, 3, 4), np.float32)
    form = (a.dtype, a.shape, (1, 2, 6))
    entry = runtime.Entry(
        kernels.address("add"),
        (2, 12),
        (form, (b.dtype, b.shape, (12, 4, 1))),
        ((a.dtype, (2, 12), None),),
        (),
        kernels.library,
        strides=(1, 2, 0, 1, 12, 1),
    )
    got = k.run(entry, (a, b), None)
    np.testing.assert_array_equal(got, a.transpose(0, 2, 1).reshape(2, 12) + 1)
    with pytest.raises(TypeError):
        runtime.Entry(kernels.address("add"), (2,), (form,), (form,), strides=[1])  # type: ignore[arg-type]
