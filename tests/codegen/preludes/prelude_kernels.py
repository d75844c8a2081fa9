"""A unit of small kernels that use everything in prelude.cuh."""

from __future__ import annotations

INTEGERS = ("i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64")
SCALARS = (*INTEGERS, "b", "f32", "f64")
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
