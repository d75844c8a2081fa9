"""prelude.cuh: what needs threads, in the simulator; that NVRTC takes all of it.

Its scalar rules are tested with those of C, in test_prelude.py.
"""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

import numpy as np
import pytest

from tcdsl.codegen.nvrtc import compile_cuda
from tests.codegen.native import C_OF, Array, cuda_library
from tests.cusim.harness import on_device
from tests.cusim.simulator import Module, Simulator

INTEGERS = ("i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64")
SCALARS = (*INTEGERS, "b", "f32", "f64")
DTYPES: dict[str, Any] = {short: np.dtype(name) for name, short in C_OF.items()}
DTYPES |= {"b": np.dtype(np.uint8)}
ADDED = ("i32", "u32", "i64", "u64", "f32", "f64")


def shuffle_text(t: str) -> str:
    return f"""
extern "C" __global__ void shuffle_{t}(const tc_{t} *x, tc_{t} *y) {{
  const tc_i32 l = tc_lane();
  const tc_{t} v = x[tc_thread()];
  tc_{t} *out = y + 128 * tc_warp();
  out[l] = tc_shuffle_{t}(v, l * 7 % 32);
  out[32 + l] = tc_shuffle_xor_{t}(v, 21);
  out[64 + l] = tc_shuffle_down_{t}(v, 5);
  out[96 + l] = tc_shuffle_{t}(v, 3);
}}
"""


def atomic_text(t: str) -> str:
    return f"""
extern "C" __global__ void atomic_{t}(const tc_{t} *x, tc_{t} *y) {{
  const tc_{t} v = x[tc_point()];
  tc_atomic_add_{t}(y, v);
  tc_atomic_min_{t}(y + 1, v);
  tc_atomic_max_{t}(y + 2, v);
}}
"""


# A row of b is a column of the product: b(n, k), as the tensor cores want it.
def mma_text(t: str) -> str:
    return f"""
extern "C" __global__ void mma_{t}(const tc_u16 *a, const tc_u16 *b, float *c) {{
  __shared__ __align__(16) tc_u16 s[24 * 16];
  const tc_i32 l = tc_lane();
  tc_copy16(s + 8 * l, a + 8 * l);
  if (l < 16) {{
    tc_copy16(s + 256 + 8 * l, b + 8 * l);
  }}
  tc_barrier();
  tc_u32 fa[4];
  tc_u32 fb[4];
  tc_ldmatrix_x4(fa, s + l % 16 * 16 + l / 16 * 8);
  tc_ldmatrix_x4(fb, s + 256 + l % 8 * 16 + l / 8 % 2 * 8);
  float d[4] = {{0.0f, 1.0f, 2.0f, 3.0f}};
  tc_mma_m16n8k16_{t}(d, fa, fb);
  tc_mma_m16n8k16_{t}(d, fa, fb);
  for (tc_i32 i = 0; i < 4; i++) {{
    c[(l / 4 + i / 2 * 8) * 8 + l % 4 * 2 + i % 2] = d[i];
  }}
}}
"""


KERNELS = r"""
extern "C" __global__ void geometry(tc_i64 *y) {
  tc_i64 *out = y + 6 * tc_point();
  out[0] = tc_thread();
  out[1] = tc_lane();
  out[2] = tc_warp();
  out[3] = tc_block();
  out[4] = tc_blocks();
  out[5] = tc_point();
}

extern "C" __global__ void copies(const float *x, float *y) {
  __shared__ __align__(16) float s[7 * 32];
  float *local = s + 7 * tc_thread();
  __align__(16) float r[8];
  const float *from = x + 8 * tc_thread();
  float *to = y + 8 * tc_thread();
  tc_copy16(r, from);
  tc_copy8(r + 4, from + 4);
  tc_copy4(r + 6, from + 6);
  tc_copy4(local, r + 6);
  r[7] = local[0] + 1.0f;
  tc_copy16(to, r);
  tc_copy8(to + 4, r + 4);
  tc_copy8(to + 6, r + 6);
}

extern "C" __global__ void async_copies(const float *x, float *y) {
  float *s = tc_shared_f32();
  const tc_i32 t = tc_thread();
  tc_copy_async16(s + 8 * t, x + 8 * t, 16);
  tc_copy_commit();
  tc_copy_async8(s + 8 * t + 4, x + 8 * t + 4, t % 3 * 4);
  tc_copy_async4(s + 8 * t + 6, x + 8 * t + 6, 4);
  tc_copy_async4(s + 8 * t + 7, x + 8 * t + 7, 0);
  tc_copy_commit();
  tc_copy_wait(1);
  tc_warp_barrier();
  const float first = s[8 * (t ^ 1)];
  tc_copy_wait(0);
  tc_barrier();
  for (tc_i32 i = 0; i < 8; i++) {
    y[8 * t + i] = s[8 * (t ^ 1) + i];
  }
  y[8 * t] = first;
}

extern "C" __global__ void last_sums(const float *x, float *partial, tc_u32 *count, float *y) {
  __shared__ tc_u32 before;
  partial[tc_point()] = 2.0f * x[tc_point()];
  tc_barrier();
  if (tc_thread() == 0) {
    before = tc_ticket(count);
  }
  tc_barrier();
  if (before == (tc_u32)tc_blocks() - 1) {
    float sum = 0.0f;
    for (tc_i32 i = 0; i < tc_blocks(); i++) {
      sum += partial[32 * i + tc_thread()];
    }
    y[tc_thread()] = sum;
  }
}

extern "C" __global__ void faults(tc_error *fault) {
  tc_fault(fault, 2, 1, 100 + tc_point(), 9);
}

extern "C" __global__ void transposed(const tc_u16 *x, tc_u32 *y) {
  __shared__ __align__(16) tc_u16 s[32 * 8];
  tc_copy16(s + 8 * tc_lane(), x + 8 * tc_lane());
  tc_barrier();
  tc_u32 r[4];
  tc_ldmatrix_x4_t(r, s + 8 * tc_lane());
  for (tc_i32 i = 0; i < 4; i++) {
    y[32 * i + tc_lane()] = r[i];
  }
}

extern "C" __global__ void mma_tf32(const float *a, const float *b, float *c) {
  const tc_i32 g = tc_lane() / 4;
  const tc_i32 t = tc_lane() % 4;
  tc_u32 fa[4];
  tc_u32 fb[2];
  for (tc_i32 i = 0; i < 4; i++) {
    fa[i] = tc_f32_tf32(a[(g + i % 2 * 8) * 8 + t + i / 2 * 4]);
  }
  for (tc_i32 i = 0; i < 2; i++) {
    fb[i] = tc_f32_tf32(b[g * 8 + t + i * 4]);
  }
  float d[4] = {0.0f, 0.0f, 0.0f, 0.0f};
  tc_mma_m16n8k8_tf32(d, fa, fb);
  for (tc_i32 i = 0; i < 4; i++) {
    c[(g + i / 2 * 8) * 8 + t * 2 + i % 2] = d[i];
  }
}

extern "C" __global__ void wraps(const tc_i32 *a, const tc_i64 *b, tc_i32 *x, tc_i64 *y) {
  const tc_i32 i = tc_thread() / 8;
  const tc_i32 j = tc_thread() % 8;
  tc_i32 *u = x + 4 * tc_thread();
  tc_i64 *v = y + 4 * tc_thread();
  u[0] = tc_wrap_add_i32(a[i], a[j]);
  u[1] = tc_wrap_sub_i32(a[i], a[j]);
  u[2] = tc_wrap_mul_i32(a[i], a[j]);
  u[3] = tc_wrap_neg_i32(a[i]);
  v[0] = tc_wrap_add_i64(b[i], b[j]);
  v[1] = tc_wrap_sub_i64(b[i], b[j]);
  v[2] = tc_wrap_mul_i64(b[i], b[j]);
  v[3] = tc_wrap_neg_i64(b[i]);
}

extern "C" __global__ void native(const float *x, float *y, tc_f16 *h, tc_bf16 *b) {
  const float u = x[0];
  const float v = x[1];
  y[0] = tc_min_f32(u, v) + tc_max_f32(u, v) + tc_fmin_f32(u, v) + tc_fmax_f32(u, v);
  y[1] = tc_f16_f32(h[0]) + tc_bf16_f32(b[0]) + TC_INF_F32 + TC_NAN_F32;
  h[1] = tc_f32_f16(u);
  b[1] = tc_f32_bf16(v);
}
"""
TEXT = "".join(
    [
        '#include "prelude.cuh"\n',
        *map(shuffle_text, SCALARS),
        *map(atomic_text, ADDED),
        *map(mma_text, ("f16", "bf16")),
        KERNELS,
    ]
)


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
