"""Vectors of prelude.h and scans.h: one function of each kind against a loop, for all tails."""

from __future__ import annotations

import ctypes
import itertools
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tcdsl.codegen.preludes.abi import TcArgs, TcError
from tests.codegen.native import Array, library
from tests.codegen.preludes.test_prelude import FLOATS, OFTEN, c, half_samples
from tests.tiers import sampled

VECTOR_TEXT = r"""
#include "scans.h"
TC_EXPORT tc_i64 lanes(void) { return TC_VL_f32; }

#if TC_VECTOR_BYTES == 32
#define SPLIT(S, T)                                                                               \
  TC_EXPORT void split_##T(tc_##T *out, const tc_##T *a, tc_i64 n) {                              \
    tc_split_v##S(out, out + n, tc_load_v##S(a));                                                 \
  }
#else
#define SPLIT(S, T)
#endif
#define KNOWN(S, T, n)                                                                            \
  case n:                                                                                         \
    tc_storet_v##S(out, tc_tail_v##S(n), tc_loadm_v##S(a, tc_tail_v##S(n)) + (tc_##T)1);          \
    break;
#define EACH(S, T, N)                                                                             \
  TC_EXPORT void known_##T(tc_##T *out, const tc_##T *a, tc_i64 n) {                              \
    switch (n) {                                                                                  \
      KNOWN(S, T, -1) KNOWN(S, T, 0) KNOWN(S, T, 1) KNOWN(S, T, 2) KNOWN(S, T, 3)                  \
      KNOWN(S, T, 4) KNOWN(S, T, 5) KNOWN(S, T, 6) KNOWN(S, T, 7) KNOWN(S, T, 8) KNOWN(S, T, 9)    \
    }                                                                                             \
  }                                                                                               \
  TC_EXPORT void tail_##T(tc_##T *out, const tc_##T *a, tc_i64 n) {                               \
    tc_storem_v##S(out, tc_tail_v##S(n), tc_loadm_v##S(a, tc_tail_v##S(n)) + (tc_##T)1);          \
  }                                                                                               \
  TC_EXPORT void first_##T(tc_##T *out, const tc_##T *a, tc_i64 n) {                              \
    tc_storet_v##S(out, tc_tail_v##S(n), tc_loadm_v##S(a, tc_tail_v##S(n)) + (tc_##T)1);          \
  }                                                                                               \
  TC_EXPORT void fill_##T(tc_##T *out, const tc_##T *a, tc_i64 n) {                               \
    tc_store_v##S(out, tc_loadf_v##S(a, tc_tail_v##S(n), tc_splat_v##S((tc_##T)-7)));             \
  }                                                                                               \
  TC_EXPORT void range_##T(tc_##T *out, const tc_##T *a, tc_i64 low, tc_i64 high) {               \
    tc_m##S m = tc_range_v##S(low, high);                                                         \
    tc_store_v##S(out, tc_keep_v##S(m, tc_load_v##S(a), tc_splat_v##S((tc_##T)-7)));              \
  }                                                                                               \
  TC_EXPORT void put_##T(tc_##T *out, const tc_##T *a, tc_i64 low, tc_i64 high) {                 \
    tc_storer_v##S(out, tc_range_v##S(low, high), tc_load_v##S(a));                               \
  }                                                                                               \
  SPLIT(S, T)                                                                                     \
  TC_EXPORT void folds_##T(tc_##T *out, const tc_##T *a, tc_i64 n) {                              \
    tc_v##S v = tc_load_v##S(a);                                                                  \
    (void)n;                                                                                      \
    out[0] = tc_sum_v##S(v);                                                                      \
    out[1] = tc_hmin_v##S(v);                                                                     \
    out[2] = tc_hmax_v##S(v);                                                                     \
  }                                                                                               \
  TC_EXPORT void stream_##T(tc_##T *out, const tc_##T *a, tc_i64 n) {                             \
    for (tc_i64 i = 0; i < n; i += N) tc_stream_v##S(out + i, tc_load_v##S(a + i));               \
    tc_stream_end();                                                                              \
  }
/* Every second element: all, and lanes low..high-1, as they are and woven. */
#define SECONDS(S, T, N)                                                                          \
  TC_EXPORT void seconds_##T(tc_##T *out, const tc_##T *a, tc_i64 low, tc_i64 high) {             \
    tc_m##S m = tc_lower_v##S(low, high), o = tc_upper_v##S(low, high);                           \
    tc_v##S fill = tc_splat_v##S((tc_##T)-7);                                                     \
    tc_store_v##S(out, tc_load2f_v##S(a, m, o, fill));                                            \
    tc_store_v##S(out + N, tc_unwoven_v##S(tc_load2wf_v##S(a, m, o, fill)));                      \
    if (low > 0 || high < N) return;                                                              \
    tc_store_v##S(out + 2 * N, tc_load2_v##S(a));                                                 \
    tc_store_v##S(out + 3 * N, tc_unwoven_v##S(tc_load2w_v##S(a)));                               \
  }
#define APART(S, T, N, K)                                                                         \
  TC_EXPORT void apart##K##_##T(tc_##T *out, const tc_##T *a, tc_i64 low, tc_i64 high) {          \
    tc_store_v##S(out, tc_load##K##_v##S(a));                                                     \
    tc_store_v##S(out + N, tc_load##K##r_v##S(a, low, high, tc_splat_v##S((tc_##T)-7)));          \
  }
#define ZIPS(S, T, N, K)                                                                          \
  TC_EXPORT void zip##K##_##T(tc_##T *out, const tc_##T *a, tc_i64 n) {                           \
    tc_zip##K##_v##S(out, n, tc_load_v##S(a), tc_load_v##S(a + N), tc_load_v##S(a + 2 * N),       \
                     tc_load_v##S(a + 3 * N));                                                    \
  }
#define TRANSPOSE(S, T, N)                                                                        \
  TC_EXPORT void transpose_##T(tc_##T *out, const tc_##T *a, tc_i64 n) {                          \
    tc_v##S r[N];                                                                                 \
    (void)n;                                                                                      \
    for (int i = 0; i < N; i++) r[i] = tc_load_v##S(a + N * i);                                   \
    tc_transpose_v##S(r);                                                                         \
    for (int i = 0; i < N; i++) tc_store_v##S(out + N * i, r[i]);                                 \
  }
#define HALVES(S, H)                                                                              \
  TC_EXPORT void some_##H(tc_##H *out, const tc_##H *a, tc_i64 low, tc_i64 high) {                \
    tc_m##S m = tc_range_v##S(low, high);                                                         \
    tc_storem_v##S##_##H(out, m, tc_loadm_v##S##_##H(a, m));                                      \
  }                                                                                               \
  TC_EXPORT void half_##H(tc_##H *out, const tc_##H *a, tc_i64 n) {                               \
    tc_m##S m = tc_tail_v##S(n);                                                                  \
    tc_storem_v##S##_##H(out, m, tc_loadm_v##S##_##H(a, m) * 2.0f);                               \
  }                                                                                               \
  TC_EXPORT void whole_##H(tc_##H *out, const tc_##H *a, tc_i64 n) {                              \
    for (tc_i64 i = 0; i < n; i += TC_VL_f32)                                                     \
      tc_store_v##S##_##H(out + i, tc_load_v##S##_##H(a + i));                                    \
  }                                                                                               \
  TC_EXPORT void narrow_##H(tc_##H *out, const tc_f32 *a, tc_i64 n) {                             \
    for (tc_i64 i = 0; i < n; i += TC_VL_f32) tc_store_v##S##_##H(out + i, tc_load_v##S(a + i));  \
  }
/* above, below: where a[N..] beats a[0..N]; where: the first lane of a[0..N] that holds a[N]. */
#define PLACES(S, T, N, SI)                                                                       \
  TC_EXPORT void above_##T(tc_##T *out, const tc_##T *a, tc_i64 n) {                              \
    tc_v##S one = tc_splat_v##S(1), e = tc_load_v##S(a), x = tc_load_v##S(a + n);                 \
    tc_store_v##S(out, tc_keep_v##S(tc_above_v##S(x, e), one, one * 0));                          \
    tc_store_v##S(out + n, tc_keep_v##S(tc_below_v##S(x, e), one, one * 0));                      \
    out[2 * n] = (tc_##T)tc_hmin_v##SI(tc_where_v##S(e, a[n], tc_iota_v##SI(0)) & 1023);          \
  }
#define WITHIN(S, T, N)                                                                           \
  TC_EXPORT void within_##T(tc_##T *out, const tc_##T *a, tc_i64 low, tc_i64 high) {              \
    tc_store_v##S(out, tc_within_v##S(tc_load_v##S(a), tc_splat_v##S(low), tc_splat_v##S(high))); \
  }
/* The scans of a vector, one after the other. */
#define SCANS(S, T, N)                                                                            \
  TC_EXPORT void scans_##T(tc_##T *out, const tc_##T *a, tc_i64 n) {                              \
    tc_v##S v = tc_load_v##S(a);                                                                  \
    tc_store_v##S(out, tc_scan_add_v##S(v)), tc_store_v##S(out + n, tc_rscan_add_v##S(v));        \
    tc_store_v##S(out + 2 * n, tc_scan_mul_v##S(v));                                              \
    tc_store_v##S(out + 3 * n, tc_rscan_mul_v##S(v));                                             \
    tc_store_v##S(out + 4 * n, tc_scan_max_v##S(v));                                              \
    tc_store_v##S(out + 5 * n, tc_rscan_min_v##S(v));                                             \
    tc_store_v##S(out + 6 * n, tc_last_v##S(v)), tc_store_v##S(out + 7 * n, tc_first_v##S(v));    \
    out[8 * n] = tc_lane_v##S(v);                                                                 \
  }
/* n lanes of 32 bits from elements of 64, and back. */
#define LONGS(NS)                                                                                 \
  TC_EXPORT void longs(tc_i64 *out, const tc_i64 *a, tc_i64 n) {                                  \
    tc_storew_v##NS##i32(out, n, tc_loadn_v##NS##i32(a, 0, n));                                   \
  }
#define ALL(NS, NL)                                                                               \
  LONGS(NS) WITHIN(NS##f32, f32, NS) WITHIN(NL##f64, f64, NL)                                     \
  PLACES(NS##f32, f32, NS, NS##i32) PLACES(NS##i32, i32, NS, NS##i32)                             \
  PLACES(NL##f64, f64, NL, NL##i64) PLACES(NL##i64, i64, NL, NL##i64)                             \
  SCANS(NS##f32, f32, NS) SCANS(NS##i32, i32, NS) SCANS(NL##f64, f64, NL) SCANS(NL##i64, i64, NL) \
  EACH(NS##f32, f32, NS) EACH(NS##i32, i32, NS) EACH(NL##f64, f64, NL) EACH(NL##i64, i64, NL)     \
  TRANSPOSE(NS##f32, f32, NS) TRANSPOSE(NL##f64, f64, NL)                                         \
  SECONDS(NS##f32, f32, NS) SECONDS(NS##i32, i32, NS)                                             \
  SECONDS(NL##f64, f64, NL) SECONDS(NL##i64, i64, NL)                                             \
  ZIPS(NS##f32, f32, NS, 2) ZIPS(NS##f32, f32, NS, 3) ZIPS(NS##f32, f32, NS, 4)                   \
  ZIPS(NL##f64, f64, NL, 2) ZIPS(NL##f64, f64, NL, 3) ZIPS(NL##f64, f64, NL, 4)                   \
  APART(NS##f32, f32, NS, 3) APART(NS##i32, i32, NS, 3) APART(NS##f32, f32, NS, 4)                \
  APART(NL##f64, f64, NL, 3) APART(NL##i64, i64, NL, 4) APART(NL##f64, f64, NL, 4)                \
  HALVES(NS##f32, f16) HALVES(NS##f32, bf16)                                                      \
  TC_EXPORT void through_f64(tc_f32 *out, const tc_f32 *a, tc_i64 n) {                            \
    tc_v##NS##f32 v = tc_load_v##NS##f32(a);                                                      \
    (void)n;                                                                                      \
    tc_store_v##NS##f32(out, tc_join_v##NS##f32(tc_low_v##NL##f64(v), tc_high_v##NL##f64(v) * 2)); \
  }                                                                                               \
  TC_EXPORT void iota(tc_f32 *out, const tc_f32 *a, tc_i64 n) {                                   \
    (void)a;                                                                                      \
    tc_store_v##NS##f32(out, tc_v##NS##i32_v##NS##f32(tc_iota_v##NS##i32((tc_i32)n)));            \
  }
TC_EXPAND(ALL, TC_VL_f32, TC_VL_f64)

TC_EXPORT int fault(const tc_args *args, tc_i64 value) { return tc_fault(args, 2, 1, value, 9); }
"""
VECTOR_TYPES = [np.dtype(t) for t in (np.float32, np.float64, np.int32, np.int64)]


@pytest.fixture(scope="module", params=OFTEN)
def vectors(request: pytest.FixtureRequest) -> ctypes.CDLL:
    return library("prelude_vectors", VECTOR_TEXT, request.param)


def call(lib: ctypes.CDLL, name: str, out: Array, a: Array, *numbers: int) -> None:
    arguments = [ctypes.c_void_p(x.ctypes.data) for x in (out, a)]
    getattr(lib, name)(*arguments, *(ctypes.c_int64(n) for n in numbers))


def lanes_of(lib: ctypes.CDLL, dtype: np.dtype[Any]) -> int:
    lib.lanes.restype = ctypes.c_int64
    return int(lib.lanes()) * 4 // dtype.itemsize


def at_page_end(values: Array) -> Array:
    """Return a copy that ends where memory ends: one element more would not be readable."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
    libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    page = 4096
    address = libc.mmap(None, 2 * page, 3, 0x22, -1, 0)
    assert libc.mprotect(address + page, page, 0) == 0
    memory = (ctypes.c_uint8 * values.nbytes).from_address(address + page - values.nbytes)
    copy = np.ctypeslib.as_array(memory).view(values.dtype)
    copy[:] = values
    return copy


@sampled("dtype", VECTOR_TYPES, ids=str, keep=2)
def test_masked_access_touches_the_first_lanes_only(
    vectors: ctypes.CDLL, dtype: np.dtype[Any]
) -> None:
    lanes = lanes_of(vectors, dtype)
    for n in range(-1, lanes + 2):
        count = min(max(n, 0), lanes)
        a = at_page_end(np.arange(1, count + 1).astype(dtype))
        for name in ("tail", "first", *(["known"] if n < 10 else [])):  # n is told as a number
            out = np.full(lanes, -1, dtype)
            call(vectors, f"{name}_{c(dtype)}", out, a, n)
            np.testing.assert_array_equal(out, [*range(2, count + 2), *[-1] * (lanes - count)])
        call(vectors, f"fill_{c(dtype)}", out, a, n)
        np.testing.assert_array_equal(out, [*range(1, count + 1), *[-7] * (lanes - count)])


@pytest.mark.parametrize("dtype", VECTOR_TYPES, ids=str)
def test_a_range_chooses_the_lanes_between(vectors: ctypes.CDLL, dtype: np.dtype[Any]) -> None:
    lanes = lanes_of(vectors, dtype)
    a, out = np.arange(lanes).astype(dtype), np.empty(lanes, dtype)
    for low, high in itertools.product(range(-1, lanes + 2), repeat=2):
        call(vectors, f"range_{c(dtype)}", out, a, low, high)
        want = [i if low <= i < high else -7 for i in range(lanes)]
        np.testing.assert_array_equal(out, want)


@pytest.mark.parametrize("dtype", VECTOR_TYPES, ids=str)
def test_halves_of_a_vector_go_to_two_places(vectors: ctypes.CDLL, dtype: np.dtype[Any]) -> None:
    lanes = lanes_of(vectors, dtype)
    if lanes * dtype.itemsize == 32:  # others are never split
        a, out = np.arange(lanes).astype(dtype), np.full(2 * lanes, -1, dtype)
        call(vectors, f"split_{c(dtype)}", out, a, lanes)
        half = [*range(lanes // 2)], [*range(lanes // 2, lanes)]
        kept = [-1] * (lanes - lanes // 2)
        np.testing.assert_array_equal(out, [*half[0], *kept, *half[1], *kept])


@pytest.mark.parametrize("dtype", VECTOR_TYPES, ids=str)
def test_lanes_fold_to_sum_and_extremes(vectors: ctypes.CDLL, dtype: np.dtype[Any]) -> None:
    lanes, rng = lanes_of(vectors, dtype), np.random.default_rng(7)
    out = np.empty(3, dtype)
    for _ in range(8):
        a = rng.integers(-1000, 1000, lanes).astype(dtype)
        call(vectors, f"folds_{c(dtype)}", out, a, lanes)
        np.testing.assert_array_equal(out, [a.sum(), a.min(), a.max()])
    if dtype.kind == "f":
        for lane in range(lanes):
            a = np.ones(lanes, dtype)
            a[lane] = np.nan
            call(vectors, f"folds_{c(dtype)}", out, a, lanes)
            assert np.isnan(out).all()


@pytest.mark.parametrize("dtype", VECTOR_TYPES, ids=str)
def test_what_beats_an_extreme_and_where_one_is(vectors: ctypes.CDLL, dtype: np.dtype[Any]) -> None:
    lanes, rng = lanes_of(vectors, dtype), np.random.default_rng(8)
    out = np.empty(2 * lanes + 1, dtype)
    if dtype.kind == "f":
        ends = [-np.inf, np.inf, np.nan]
    else:
        ends = [np.iinfo(dtype).min, np.iinfo(dtype).max]
    values = np.array([*ends, -1, 0, 1, 2], dtype)
    for _ in range(40):
        a = rng.choice(values, 2 * lanes)
        call(vectors, f"above_{c(dtype)}", out, a, lanes)
        e, x = a[:lanes], a[lanes:]
        np.testing.assert_array_equal(out[:lanes], ~np.isnan(e) & ~(x <= e))
        np.testing.assert_array_equal(out[lanes:-1], ~np.isnan(e) & ~(x >= e))
        held = (e == x[0]) | np.isnan(e)
        assert out[-1] == (held.argmax() if held.any() else 1023)


@pytest.mark.parametrize("dtype", VECTOR_TYPES[:2], ids=str)
def test_what_is_held_within_numbers_hands_nan_on(
    vectors: ctypes.CDLL, dtype: np.dtype[Any]
) -> None:
    lanes = lanes_of(vectors, dtype)
    values = np.array([np.nan, -np.inf, -3, -0.0, 0.0, 2.5, 7, np.inf], dtype)
    out = np.empty(lanes, dtype)
    for low, high in ((-2, 3), (0, 5), (4, 1)):
        for shift in range(len(values)):
            a = np.resize(np.roll(values, shift), lanes)
            call(vectors, f"within_{c(dtype)}", out, a, low, high)
            below = np.where(a < low, low, a)
            want = np.where(below > high, high, below)
            np.testing.assert_array_equal(out, want)
            np.testing.assert_array_equal(np.signbit(out), np.signbit(want))


@pytest.mark.parametrize("dtype", VECTOR_TYPES, ids=str)
def test_scans_of_lanes(vectors: ctypes.CDLL, dtype: np.dtype[Any]) -> None:
    lanes, rng = lanes_of(vectors, dtype), np.random.default_rng(9)
    out = np.empty(8 * lanes + 1, dtype)
    for special in (None, -0.0, np.inf, np.nan) if dtype.kind == "f" else (None,):
        a = rng.choice(np.array([-2, -1, 1, 2], dtype), lanes)
        if special is not None:
            a[rng.integers(lanes)] = special
        call(vectors, f"scans_{c(dtype)}", out, a, lanes)
        back = a[::-1]
        due = [a.cumsum(), back.cumsum()[::-1], a.cumprod(), back.cumprod()[::-1]]
        due += [np.maximum.accumulate(a), np.minimum.accumulate(back)[::-1]]
        due += [np.full(lanes, a[-1]), np.full(lanes, a[0])]
        np.testing.assert_array_equal(out, [*np.concatenate(due), a[0]])
    if dtype.kind == "f":
        call(vectors, f"scans_{c(dtype)}", out, np.full(lanes, -0.0, dtype), lanes)
        assert np.signbit(out[: 2 * lanes]).all()


@pytest.mark.parametrize("dtype", VECTOR_TYPES, ids=str)
def test_streaming_stores_arrive(vectors: ctypes.CDLL, dtype: np.dtype[Any]) -> None:
    memory = np.zeros(64 + 16, dtype)
    start = -memory.ctypes.data % 64 // dtype.itemsize
    out, a = memory[start : start + 64], np.arange(64).astype(dtype)
    call(vectors, f"stream_{c(dtype)}", out, a, 64)
    np.testing.assert_array_equal(out, a)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_a_square_of_vectors_is_transposed(vectors: ctypes.CDLL, dtype: np.dtype[Any]) -> None:
    lanes = lanes_of(vectors, dtype)
    a = np.arange(lanes * lanes).reshape(lanes, lanes).astype(dtype)
    out = np.empty_like(a)
    call(vectors, f"transpose_{c(dtype)}", out, a, lanes)
    np.testing.assert_array_equal(out, a.T)


@pytest.mark.parametrize("dtype", VECTOR_TYPES, ids=str)
def test_lanes_that_follow_each_other_are_stored(
    vectors: ctypes.CDLL, dtype: np.dtype[Any]
) -> None:
    lanes = lanes_of(vectors, dtype)
    a = np.arange(1, lanes + 1).astype(dtype)
    for low, high in ((low, high) for low in range(lanes + 1) for high in range(lanes + 1)):
        out = np.zeros(lanes, dtype)
        call(vectors, f"put_{c(dtype)}", out, a, low, high)
        is_in = (np.arange(lanes) >= low) & (np.arange(lanes) < high)
        np.testing.assert_array_equal(out, np.where(is_in, a, 0))


def test_elements_of_64_bits_are_lanes_of_32(vectors: ctypes.CDLL) -> None:
    lanes = lanes_of(vectors, np.dtype(np.int32))
    a = np.arange(lanes, dtype=np.int64) * 65537 - 3
    for n in range(lanes + 1):
        out = np.full(lanes, 7, np.int64)
        call(vectors, "longs", out, at_page_end(a[:n]) if n else a, n)
        np.testing.assert_array_equal(out, np.where(np.arange(lanes) < n, a, 7))


@pytest.mark.parametrize("dtype", VECTOR_TYPES, ids=str)
def test_every_second_element_is_loaded(vectors: ctypes.CDLL, dtype: np.dtype[Any]) -> None:
    lanes = lanes_of(vectors, dtype)
    every = np.arange(2 * lanes - 1).astype(dtype)
    out = np.empty((4, lanes), dtype)
    for low in (-3, *range(lanes + 2)):
        for high in (-5, *range(lanes + 1)):
            end = min(lanes, max(0, high))
            a = at_page_end(every[: max(0, 2 * end - 1)])  # nothing behind the last is touched
            call(vectors, f"seconds_{c(dtype)}", out, a, low, high)
            lane = np.arange(lanes)
            some = np.where((lane >= low) & (lane < end), every[::2], -7).astype(dtype)
            np.testing.assert_array_equal(out[:2], [some, some])
            if low <= 0 and high == lanes:
                np.testing.assert_array_equal(out[2:], [every[::2]] * 2)


@pytest.mark.parametrize(
    ("name", "step"),
    [("f32", 3), ("f32", 4), ("i32", 3), ("f64", 3), ("f64", 4), ("i64", 4)],
)
def test_elements_three_and_four_apart_are_loaded(
    vectors: ctypes.CDLL, name: str, step: int
) -> None:
    dtype = np.dtype({"f": "float", "i": "int"}[name[0]] + name[1:])
    lanes = lanes_of(vectors, dtype)
    a = at_page_end(np.arange(step * (lanes - 1) + 1).astype(dtype))
    out = np.empty((2, lanes), dtype)
    for low in range(lanes):
        for high in (0, low, low + 1, lanes):
            call(vectors, f"apart{step}_{name}", out, a, low, high)
            lane = np.arange(lanes)
            some = np.where((lane >= low) & (lane < high), a[::step], -7).astype(dtype)
            np.testing.assert_array_equal(out, [a[::step], some])


@pytest.mark.parametrize("dtype", VECTOR_TYPES[:2], ids=str)
@pytest.mark.parametrize("count", [2, 3, 4])
def test_lanes_of_vectors_take_turns(
    vectors: ctypes.CDLL, dtype: np.dtype[Any], count: int
) -> None:
    lanes = lanes_of(vectors, dtype)
    a = np.arange(4 * lanes).astype(dtype)
    turns = a.reshape(4, lanes)[:count].T.reshape(-1)
    for n in range(lanes + 1):
        out = at_page_end(np.full(count * n, -1).astype(dtype))
        call(vectors, f"zip{count}_{c(dtype)}", out, a, n)
        np.testing.assert_array_equal(out, turns[: count * n])


@pytest.mark.parametrize("name", ["f16", "bf16"])
def test_vectors_of_halves_convert_as_scalars_do(vectors: ctypes.CDLL, name: str) -> None:
    dtype = np.dtype(np.float16) if name == "f16" else np.dtype(ml_dtypes.bfloat16)
    bits = np.arange(1 << 16, dtype=np.uint16)
    out = np.empty_like(bits)
    call(vectors, f"whole_{name}", out, bits, 1 << 16)
    nan = np.isnan(bits.view(dtype).astype(np.float32))
    np.testing.assert_array_equal(out[~nan], bits[~nan])
    assert np.isnan(out[nan].view(dtype).astype(np.float32)).all()
    x = half_samples()
    narrow = np.empty(len(x), np.uint16)
    call(vectors, f"narrow_{name}", narrow, x, len(x))
    with np.errstate(all="ignore"):
        want = x.astype(dtype).view(np.uint16)
    np.testing.assert_array_equal(narrow[~np.isnan(x)], want[~np.isnan(x)])
    assert np.isnan(narrow[np.isnan(x)].view(dtype).astype(np.float32)).all()


@pytest.mark.parametrize("name", ["f16", "bf16"])
def test_masked_halves_touch_their_lanes_only(vectors: ctypes.CDLL, name: str) -> None:
    dtype = np.dtype(np.float16) if name == "f16" else np.dtype(ml_dtypes.bfloat16)
    lanes = lanes_of(vectors, np.dtype(np.float32))
    for n in range(lanes + 1):
        a = at_page_end(np.arange(1, n + 1).astype(dtype).view(np.uint16))
        out = np.zeros(lanes, np.uint16)
        call(vectors, f"half_{name}", out, a, n)
        want = [2.0 * i for i in range(1, n + 1)] + [0.0] * (lanes - n)
        np.testing.assert_array_equal(out.view(dtype).astype(np.float32), want)
    a = np.arange(1, lanes + 1).astype(dtype).view(np.uint16)
    for low, high in itertools.combinations(range(lanes + 1), 2):
        out = np.zeros(lanes, np.uint16)
        call(vectors, f"some_{name}", out, a, low, high)
        inside = (low <= np.arange(lanes)) & (np.arange(lanes) < high)
        np.testing.assert_array_equal(out, np.where(inside, a, 0))


def test_a_vector_splits_into_wide_halves_and_back(vectors: ctypes.CDLL) -> None:
    lanes = lanes_of(vectors, np.dtype(np.float32))
    a = np.random.default_rng(8).standard_normal(lanes).astype(np.float32)
    out = np.empty_like(a)
    call(vectors, "through_f64", out, a, lanes)
    np.testing.assert_array_equal(out, [*a[: lanes // 2], *(2 * a[lanes // 2 :])])
    call(vectors, "iota", out, a, 5)
    np.testing.assert_array_equal(out, np.arange(5, 5 + lanes))


def test_the_first_fault_is_kept(vectors: ctypes.CDLL) -> None:
    fault = TcError()
    args = TcArgs(error=ctypes.addressof(fault))
    for value in (12, 77):
        assert vectors.fault(ctypes.byref(args), ctypes.c_int64(value)) == 1
    fields = ("code", "tensor", "dim", "value", "extent")
    assert [getattr(fault, name) for name in fields] == [1, 2, 1, 12, 9]
