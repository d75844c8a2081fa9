"""Calls with index arrays: outputs in their memory, rows outside."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tcdsl as tc

pytestmark = pytest.mark.cc

PADDED = "def f(int32(N) A, int32(B) I) -> (O) { O(b) = pad(A(I(b)), 0) }"
CHECKED = "def f(int32(N) A, int32(B) I) -> (O) { O(b) = A(I(b)) }"
NEIGHBOURS = """def f(int32(N) A, int32(B) I) -> (O) {
    O(b) = pad(A(I(b)), 0) - pad(A(I(b + 1)), 0) where b in 0:B-1 }"""
COUNTS = "def f(int32(B) I, int32(N) L) -> (int32(N) O) { O(I(b)) +=! 1 where b in 0:B }"
ROWS = "def f(float(N,D) A, {T}(B) I) -> (O) { O(b,d) = A(I(b), d) }"
SUMS = "def f(float(N) A, {T}(B,L) I) -> (O) { O(b) +=! A(I(b,l)) }"


def kernel(text: str) -> Any:
    return tc.define(text, tune="off", threads=2)


def padded(a: Any, rows: Any) -> Any:
    inside = (rows >= 0) & (rows < len(a))
    return np.where(inside, a[np.where(inside, rows, 0)], 0)


def test_outputs_in_the_memory_of_the_index_array(rng: np.random.Generator) -> None:
    table = rng.integers(-(10**6), 10**6, 700).astype(np.int32)
    memory = rng.integers(-9, 709, 3001).astype(np.int32)
    f, g, h = kernel(PADDED), kernel(CHECKED), kernel(NEIGHBOURS)
    for where in (slice(0, 3000), slice(1, 3001), slice(2999, None, -1)):
        held = memory.copy()
        rows = held[:3000]
        want = padded(table, rows.copy())
        f(table, rows, out=held[where])
        np.testing.assert_array_equal(held[where], want)
    held = memory.copy()
    want = padded(table, held[:-1]) - padded(table, held[1:])
    h(table, held, out=held[1:])
    np.testing.assert_array_equal(held[1:], want)
    held = np.clip(memory, 0, 699)
    want = table[held]
    g(table, held, out=held)
    np.testing.assert_array_equal(held, want)


def test_counts_in_the_memory_of_what_is_counted(rng: np.random.Generator) -> None:
    held = rng.integers(0, 500, 2000).astype(np.int32)
    want = np.bincount(held, minlength=500)
    kernel(COUNTS)(held, np.zeros(500, np.int32), out=held[700:1200])
    np.testing.assert_array_equal(held[700:1200], want)


@pytest.mark.parametrize(
    "dtype", ["int32", *(pytest.param(t, marks=pytest.mark.wide) for t in ("int8", "int64"))]
)
def test_rows_outside_are_named(dtype: str) -> None:
    f, g, a = (
        kernel(ROWS.replace("{T}", dtype)),
        kernel(SUMS.replace("{T}", dtype)),
        np.ones((9, 4), np.float32),
    )
    for row in (-1, 9, np.iinfo(dtype).min, np.iinfo(dtype).max):
        rows = np.zeros((5, 8), dtype)
        rows[3, 6] = row
        message = rf"subscript 0 of 'A' is {row}, outside \[0, 9\)"
        for lie in (rows, np.asfortranarray(rows), rows[::-1].copy()[::-1]):
            with pytest.raises(IndexError, match=message):
                f(a, lie[:, 6])
            with pytest.raises(IndexError, match=message):
                f(a, lie[::-1, 6])
            with pytest.raises(IndexError, match=message):
                g(a[:, 0], lie)


@pytest.mark.wide
def test_the_largest_unsigned_row_is_outside() -> None:
    f, a = kernel(ROWS.replace("{T}", "uint64")), np.ones((9, 4), np.float32)
    with pytest.raises(IndexError, match=r"subscript 0 of 'A' is .*, outside \[0, 9\)"):
        f(a, np.array([0, 2**64 - 1], np.uint64))
