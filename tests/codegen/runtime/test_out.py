"""Outputs given by the caller: overlap, writability, layout."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tcdsl.codegen import runtime

pytestmark = pytest.mark.cc


def _twice(k: Any, a: Any, b: Any, out: Any) -> None:
    """The first call installs, the second takes the fast path."""
    for _ in range(2):
        want = a + b
        assert k(a, b, out=out) is out
        np.testing.assert_array_equal(out, want)


def test_out_of_any_layout(kernels: Any, rng: np.random.Generator) -> None:
    k = kernels.add()
    a, b = rng.standard_normal((2, 6, 8), dtype=np.float32)
    big = np.zeros((8, 12), np.float32)
    outs = (
        np.empty_like(a),
        np.empty((8, 6), np.float32).T,
        big[1:7, 2:10],
        big[::-1, ::-1][:6, :8],
    )
    for out in outs:
        _twice(k, a, b, out)
    assert len(kernels.misses) == len(outs)


def test_one_output_may_stand_in_a_tuple(kernels: Any, rng: np.random.Generator) -> None:
    k = kernels.add()
    a, b = rng.standard_normal((2, 6, 8), dtype=np.float32)
    out = np.empty_like(a)
    k(a, b, out=out)
    for _ in range(2):
        out[...] = 0
        assert k(a, b, out=(out,)) is out
        assert k(a, b, outputs=(out,)) is out
        np.testing.assert_array_equal(out, a + b)
    assert len(kernels.misses) == 1


def test_the_very_same_view_is_written_in_place(kernels: Any, rng: np.random.Generator) -> None:
    k = kernels.add()
    a, b = rng.standard_normal((2, 6, 8), dtype=np.float32)
    _twice(k, a, b, a)
    _twice(k, a, b, b)
    _twice(k, a[::2], b[::2], a[::2])
    _twice(k, a, a, a)
    assert len(kernels.misses) == 2


def test_the_same_view_needs_the_executable_to_allow_it(kernels: Any) -> None:
    k = kernels.add(inplace=())
    a, c = np.ones((2, 4, 4), np.float32)
    k(a, a, out=c)
    with pytest.raises(ValueError, match="overlaps"):
        k(a, a, out=a)
    assert len(kernels.misses) == 2, "overlap is the slow path's"


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (np.s_[1:], np.s_[:-1]),
        (np.s_[:-1], np.s_[1:]),
        (np.s_[::-1], np.s_[:]),
        (np.s_[:4], np.s_[3:7]),
        (np.s_[::2], np.s_[1:10:2]),
    ],
)
def test_other_overlap_is_left_to_the_slow_path(kernels: Any, first: Any, second: Any) -> None:
    k = kernels.add()
    x = np.arange(80, dtype=np.float32).reshape(10, 8)
    a, out = x[first], x[second]
    apart = np.zeros(x.shape, np.float32)[second]
    k(a, a, out=apart)
    misses = len(kernels.misses)
    before = x.copy()
    with pytest.raises(ValueError, match="overlaps"):
        k(a, a, out=out)
    np.testing.assert_array_equal(x, before)
    assert len(kernels.misses) == misses + 1


def test_touching_is_not_overlap(kernels: Any) -> None:
    k = kernels.add()
    x = np.ones((10, 8), np.float32)
    _twice(k, x[:5], x[:5], x[5:])
    _twice(k, x[5:][::-1], x[5:], x[:5][::-1])


def test_empty_views_overlap_nothing(kernels: Any) -> None:
    k = kernels.add()
    x = np.ones((10, 8), np.float32)
    _twice(k, x[:0], x[5:5], x[:0])


def test_a_read_only_out_is_the_slow_paths(kernels: Any) -> None:
    k = kernels.add()
    a, c = np.ones((2, 4, 4), np.float32)
    k(a, a, out=c)
    c.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        k(a, a, out=c)
    np.testing.assert_array_equal(c, 2)


def test_an_output_of_stride_0_makes_no_entry(kernels: Any) -> None:
    a = np.ones((4, 4), np.float32)
    one = np.lib.stride_tricks.as_strided(np.zeros(4, np.float32), (4, 4), (0, 4))
    with pytest.raises(ValueError, match="stride 0"):
        kernels.add()(a, a, out=one)


def test_outputs_must_not_overlap_each_other(kernels: Any) -> None:
    k, x = kernels.moments(), np.arange(10.0)
    s, p = np.zeros(()), np.zeros(())
    k(x, out=(s, p))
    with pytest.raises(ValueError, match="overlaps"):
        k(x, out=(s, s))
    k(x, out=(p, s))
    assert s == (x * x).sum()


def test_unusual_outs_are_the_slow_paths(kernels: Any) -> None:
    k = kernels.moments()
    x, s = np.arange(10.0), np.zeros(())
    for out in ((s,), [s, s], s, (s, None)):
        with pytest.raises((ValueError, AttributeError, TypeError)):
            k(x, out=out)
    with pytest.raises(TypeError, match="unexpected keyword"):
        k(x, into=s)


def test_an_out_that_dies_in_another_view_lives_on(kernels: Any) -> None:
    k, a = kernels.add1(), np.ones(100, np.float32)
    out = k(a, a)[::2]
    assert out.base is not None
    live = runtime.memory()[0]
    b = np.ones(50, np.float32)
    assert k(b, b, out=out) is out
    assert runtime.memory()[0] == live
