"""prelude.cuh: what needs threads, in the simulator; that NVRTC takes all of it.

Its scalar rules are tested with those of C, in test_prelude.py.
"""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

import numpy as np
import pytest

from tcdsl.codegen.toolchain.nvrtc import compile_cuda
from tests.codegen.native import C_OF, Array, cuda_library
from tests.codegen.preludes.prelude_kernels import ADDED, SCALARS, TEXT, shuffle_text
from tests.cusim.harness import on_device
from tests.cusim.simulator import Module, Simulator

DTYPES: dict[str, Any] = {short: np.dtype(name) for name, short in C_OF.items()}
DTYPES |= {"b": np.dtype(np.uint8)}


@cache
def module() -> Module:
    return Module(TEXT)


def run(
    kernel: str, blocks: int, threads: int, *arrays: Array, shared_bytes: int = 0
) -> list[Array]:
    """Return what a kernel has made of arrays, of which it may change all."""
    simulator = Simulator()
    placed = [on_device(a) for a in arrays]
    for i, (_, view) in enumerate(placed):
        simulator.add_array(f"operand {i}", view)
    pointers = [ctypes.c_void_p(view.ctypes.data) for _, view in placed]
    assert simulator.launch(module(), kernel, blocks, threads, pointers, shared_bytes)
    simulator.report.assert_clean(kernel)
    assert all(block.is_intact for block, _ in placed)
    return [view for _, view in placed]


@pytest.mark.nvrtc
@pytest.mark.parametrize(
    "arch",
    ["sm_80", "sm_90", *(pytest.param(a, marks=pytest.mark.deep) for a in ("sm_86", "sm_120"))],
)
def test_nvrtc_takes_all_of_it_and_local_arrays_are_registers(arch: str) -> None:
    cubin = compile_cuda(TEXT, arch, name="prelude")
    assert cubin.warnings == ()
    assert len(cubin.report.kernels) == TEXT.count("__global__")
    assert [k.kernel for k in cubin.report.kernels if k.stack or k.spills] == []


@pytest.mark.nvrtc
def test_before_sm_80_what_there_is_compiles() -> None:
    text = "".join(['#include "prelude.cuh"\n', *map(shuffle_text, SCALARS)])
    assert compile_cuda(text, "sm_75", name="prelude").warnings == ()


@pytest.mark.cusim
def test_threads_know_where_they_are() -> None:
    (y,) = run("geometry", 3, 64, np.zeros(3 * 64 * 6, np.int64))
    point = np.arange(192)
    thread, block = point % 64, point // 64
    want = np.stack([thread, thread % 32, thread // 32, block, np.full(192, 3), point], 1)
    np.testing.assert_array_equal(y.reshape(-1, 6), want)


@pytest.mark.cusim
@pytest.mark.parametrize("t", SCALARS)
def test_shuffles_move_bits_between_lanes(t: str) -> None:
    rng, dtype = np.random.default_rng(0), DTYPES[t]
    bits = rng.integers(0, 2 if t == "b" else 256, 64 * dtype.itemsize, dtype=np.uint8)
    x = bits.view(dtype)
    _, y = run(f"shuffle_{t}", 1, 64, x, np.zeros(256, dtype))
    lane = np.arange(32)
    down = np.where(lane + 5 < 32, lane + 5, lane)
    places = np.concatenate([lane * 7 % 32, lane ^ 21, down, np.full(32, 3)])
    want = x.reshape(2, 32)[:, places]
    assert y.tobytes() == want.tobytes()


@pytest.mark.cusim
@pytest.mark.parametrize("t", ADDED)
def test_atomics_combine_what_all_threads_bring(t: str) -> None:
    rng, dtype = np.random.default_rng(1), DTYPES[t]
    if dtype.kind == "f":
        x = rng.integers(-1000, 1000, 128).astype(dtype)
    else:
        info = np.iinfo(dtype)
        x = rng.integers(info.min, info.max, 128, dtype=dtype, endpoint=True)
    _, y = run(f"atomic_{t}", 2, 64, x, np.array([1, x[5], x[9]], dtype))
    np.testing.assert_array_equal(y, [x.sum(dtype=dtype) + dtype.type(1), x.min(), x.max()])


@pytest.mark.cusim
@pytest.mark.parametrize("t", ["f32", "f64"])
def test_atomic_extremes_hand_nan_on(t: str) -> None:
    x = np.zeros(64, DTYPES[t])
    x[17] = np.nan
    _, y = run(f"atomic_{t}", 1, 64, x, np.array([0, 3, -3], DTYPES[t]))
    assert np.isnan(y).all()
    _, y = run(f"atomic_{t}", 1, 64, np.zeros_like(x), np.full(3, np.nan, DTYPES[t]))
    assert np.isnan(y).all()


# What another thread does to the place in between: the first swap of each finds it changed.
INTERFERENCE = r"""
#include "prelude.cuh"
static int meddling;
#define CAS(U)                                                                                    \
  static tc_##U atomicCAS_##U(tc_##U *p, tc_##U from, tc_##U to, tc_##U other) {                   \
    if (meddling) *p = other, meddling = 0;                                                       \
    tc_##U was = *p;                                                                              \
    if (was == from) *p = to;                                                                     \
    return was;                                                                                   \
  }                                                                                               \
  static tc_##U other_##U;
CAS(u32) CAS(u64)
#define EXTREMES(T, U)                                                                            \
  TC_ATOMIC_FLOAT(smallest_##T, min, T, U) TC_ATOMIC_FLOAT(largest_##T, max, T, U)                 \
  TC_EXPORT void extremes_##T(tc_##T *y, const tc_##T *x, const tc_##T *other, tc_i64 n) {         \
    for (tc_i64 i = 0; i < n; i++) {                                                              \
      other_##U = tc_bits_##T(other[i]);                                                          \
      meddling = 1, smallest_##T(y + 2 * i, x[i]);                                                \
      meddling = 1, largest_##T(y + 2 * i + 1, x[i]);                                             \
    }                                                                                             \
  }
#define atomicCAS(p, from, to) atomicCAS_u32(p, from, to, other_u32)
EXTREMES(f32, u32)
#undef atomicCAS
#define atomicCAS(p, from, to) atomicCAS_u64(p, from, to, other_u64)
EXTREMES(f64, u64)
"""


@pytest.mark.cusim
@pytest.mark.parametrize("t", ["f32", "f64"])
def test_extremes_are_swapped_in_though_others_interfere(t: str) -> None:
    dtype = DTYPES[t]
    values = np.array([0.0, 1, -2, np.inf, -np.inf, np.nan, 1e-40], dtype)
    start, x, other = (np.ascontiguousarray(v.ravel()) for v in np.meshgrid(values, values, values))
    y = np.repeat(start, 2)
    pointers = [ctypes.c_void_p(a.ctypes.data) for a in (y, x, other)]
    library = cuda_library("interference", INTERFERENCE)
    getattr(library, f"extremes_{t}")(*pointers, ctypes.c_int64(len(x)))
    for k, extreme in enumerate((np.minimum, np.maximum)):
        # Nothing to write: nobody else is met either.
        idle = np.equal(extreme(start, x), start) | np.isnan(start)
        want = np.where(idle, start, extreme(other, x))
        np.testing.assert_array_equal(y[k::2], want)


@pytest.mark.cusim
def test_copies_go_between_all_memories() -> None:
    x = np.random.default_rng(2).standard_normal(256).astype(np.float32)
    _, y = run("copies", 1, 32, x, np.zeros_like(x))
    want = x.reshape(32, 8).copy()
    want[:, 7] = want[:, 6] + 1
    np.testing.assert_array_equal(y.reshape(32, 8), want)


@pytest.mark.cusim
def test_asynchronous_copies_fill_up_with_zeros() -> None:
    x = np.random.default_rng(3).standard_normal(512).astype(np.float32)
    _, y = run("async_copies", 1, 64, x, np.zeros_like(x), shared_bytes=2048)
    want = x.reshape(64, 8).copy()
    t = np.arange(64)
    want[t % 3 < 2, 5] = 0
    want[t % 3 < 1, 4] = 0
    want[:, 7] = 0
    np.testing.assert_array_equal(y.reshape(64, 8), want[t ^ 1])


@pytest.mark.cusim
def test_the_last_block_reads_what_the_others_wrote() -> None:
    x = np.arange(128, dtype=np.float32)
    none = np.zeros(128, np.float32)
    _, _, count, y = run("last_sums", 4, 32, x, none, np.zeros(1, np.uint32), none[:32])
    assert count == 4
    np.testing.assert_array_equal(y, 2 * x.reshape(4, 32).sum(0))


@pytest.mark.cusim
def test_the_first_fault_is_kept() -> None:
    (fault,) = run("faults", 2, 32, np.zeros(5, np.int64))
    code, tensor, dim, value, extent = fault
    assert (code, tensor, dim, extent) == (1, 2, 1, 9)
    assert value in range(100, 164)
    (again,) = run("faults", 1, 32, fault)
    np.testing.assert_array_equal(again, fault)


@pytest.mark.cusim
@pytest.mark.parametrize("t", ["f16", "bf16"])
def test_products_of_halves(t: str) -> None:
    rng = np.random.default_rng(4)
    a = rng.integers(-8, 8, (16, 16)).astype(np.float32)
    b = rng.integers(-8, 8, (8, 16)).astype(np.float32)
    stored = [x.astype(np.float16).view(np.uint16) for x in (a, b)]
    if t == "bf16":
        stored = [(x.view(np.uint32) >> 16).astype(np.uint16) for x in (a, b)]
    *_, c = run(f"mma_{t}", 1, 32, *stored, np.zeros((16, 8), np.float32))
    start = np.tile([[0, 1]], (16, 4)) + np.repeat([0, 2], 8)[:, None]
    np.testing.assert_array_equal(c, start + 2 * (a @ b.T))


@pytest.mark.cusim
def test_products_of_tf32_round_their_factors() -> None:
    rng = np.random.default_rng(5)
    a, b = (rng.standard_normal(s).astype(np.float32) for s in ((16, 8), (8, 8)))
    *_, c = run("mma_tf32", 1, 32, a, b, np.zeros((16, 8), np.float32))
    a, b = (((x.view(np.uint32) + 0x1000) & 0xFFFFE000).view(np.float32) for x in (a, b))
    want = a.astype(np.float64) @ b.T.astype(np.float64)
    np.testing.assert_allclose(c, want, atol=8 * 2.0**-23 * 16)


@pytest.mark.cusim
def test_matrices_are_turned_around_when_loaded() -> None:
    x = np.arange(256, dtype=np.uint16)
    _, y = run("transposed", 1, 32, x, np.zeros(128, np.uint32))
    lanes = np.arange(32)
    pairs = y.view(np.uint16).reshape(4, 32, 2)
    for i, matrix in enumerate(x.reshape(4, 8, 8)):
        turned = matrix.T[lanes // 4]
        np.testing.assert_array_equal(pairs[i, :, 0], turned[lanes, lanes % 4 * 2])
        np.testing.assert_array_equal(pairs[i, :, 1], turned[lanes, lanes % 4 * 2 + 1])


@pytest.mark.cusim
def test_arithmetic_wraps() -> None:
    edges = [[0, 1, -1, 7, 2 ** (n - 1) - 1, -(2 ** (n - 1)), 2 ** (n // 2), -3] for n in (32, 64)]
    a, b = np.array(edges[0], np.int32), np.array(edges[1], np.int64)
    results = run("wraps", 1, 64, a, b, np.zeros(256, np.int32), np.zeros(256, np.int64))[2:]
    for n, values, got in zip((32, 64), edges, results, strict=True):
        exact = [v for x in values for y in values for v in (x + y, x - y, x * y, -x)]
        half = 1 << (n - 1)
        assert got.tolist() == [(v + half) % (2 * half) - half for v in exact]
