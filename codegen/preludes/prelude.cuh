/* What emitted CUDA stands on: scalar rules, threads and barriers, copies, atomics, tensor cores.
 *
 * Nothing is included but scalars.h: no CUDA installation is needed, and no header is read. C++17,
 * sm_75 or newer; asynchronous copies and tensor cores from sm_80 on. Neither -ftz nor
 * -use_fast_math: denormals live, / and sqrt are IEEE.
 *
 * Names are those of prelude.h, tc_WHAT_TYPE with a scalar TYPE. Grids and blocks have one
 * dimension, warps are full. What an instruction of the device does is in one section, which a
 * simulator (TC_CUSIM) supplies in its stead, before this file; all else is plain C++ and the same
 * text there.
 */
#ifndef TC_PRELUDE_CUH
#define TC_PRELUDE_CUH

typedef signed char tc_i8; typedef unsigned char tc_u8;
typedef short tc_i16; typedef unsigned short tc_u16;
typedef int tc_i32; typedef unsigned int tc_u32;
typedef long long tc_i64; typedef unsigned long long tc_u64;

/* The first fault wins: code 1, a subscript outside its tensor. As in tc_abi.h. */
typedef struct { tc_i64 code, tensor, dim, value, extent; } tc_error;

#define TC_FN static __device__ __forceinline__
#define TC_HELPER static __device__
#define TC_BY_FLOATS(b) 0
#define TC_MICRO static __device__ __noinline__

#ifdef TC_CUSIM
#define TC_BUILTIN(name) __builtin_##name
#define TC_INF_F32 __builtin_inff()
#define TC_INF_F64 __builtin_inf()
#define TC_NAN_F32 __builtin_nanf("")
#define TC_NAN_F64 __builtin_nan("")
#else
#define TC_BUILTIN(name) name
#define TC_INF_F32 __int_as_float(0x7f800000)
#define TC_INF_F64 __longlong_as_double(0x7ff0000000000000LL)
#define TC_NAN_F32 __int_as_float(0x7fc00000)
#define TC_NAN_F64 __longlong_as_double(0x7ff8000000000000LL)
#if __CUDA_ARCH__ >= 800
#define TC_NATIVE_F32 1
#endif
#endif
#include "scalars.h"

#ifndef TC_CUSIM
/* ---- instructions: what stands from here to the end of this section a simulator supplies */

TC_FN void tc_barrier() { __syncthreads(); }
TC_FN void tc_warp_barrier() { __syncwarp(); }

/* The value of another lane: this one, lane ^ mask, lane + n (past the last one: its own). */
#define TC_SHUFFLES(T)                                                                            \
  TC_FN tc_##T tc_shuffle_##T(tc_##T x, tc_i32 lane) {                                            \
    return (tc_##T)__shfl_sync(~0u, x, lane);                                                     \
  }                                                                                               \
  TC_FN tc_##T tc_shuffle_xor_##T(tc_##T x, tc_i32 mask) {                                        \
    return (tc_##T)__shfl_xor_sync(~0u, x, mask);                                                 \
  }                                                                                               \
  TC_FN tc_##T tc_shuffle_down_##T(tc_##T x, tc_i32 n) {                                          \
    return (tc_##T)__shfl_down_sync(~0u, x, n);                                                   \
  }
TC_SHUFFLES(i8) TC_SHUFFLES(i16) TC_SHUFFLES(i32) TC_SHUFFLES(i64) TC_SHUFFLES(f32)
TC_SHUFFLES(u8) TC_SHUFFLES(u16) TC_SHUFFLES(u32) TC_SHUFFLES(u64) TC_SHUFFLES(f64)
TC_FN tc_b tc_shuffle_b(tc_b x, tc_i32 lane) { return tc_shuffle_u8(x, lane); }
TC_FN tc_b tc_shuffle_xor_b(tc_b x, tc_i32 mask) { return tc_shuffle_xor_u8(x, mask); }
TC_FN tc_b tc_shuffle_down_b(tc_b x, tc_i32 n) { return tc_shuffle_down_u8(x, n); }

/* Copy so many bytes at once, between any memories and as any type: both addresses so aligned. */
#define TC_COPY(BYTES)                                                                            \
  struct __attribute__((may_alias)) alignas(BYTES) tc_bytes##BYTES { tc_u32 word[BYTES / 4]; };   \
  TC_FN void tc_copy##BYTES(void *to, const void *from) {                                         \
    *(tc_bytes##BYTES *)to = *(const tc_bytes##BYTES *)from;                                      \
  }
TC_COPY(4) TC_COPY(8) TC_COPY(16)

/* *p of global memory, read this once: what was checked is what is used, whoever writes the array
 * meanwhile. A relaxed load is neither done twice nor joined with another; within a block's scope it
 * may be served by the first level, which a volatile one is not. */
#define TC_READ_ONCE(T, R, SUFFIX, C)                                                             \
  TC_FN tc_##T tc_once_##T(const tc_##T *p) {                                                     \
    tc_##R x;                                                                                     \
    asm volatile("ld.relaxed.cta.global." #SUFFIX " %0, [%1];"                                    \
                 : "=" #C(x)                                                                      \
                 : "l"(__cvta_generic_to_global(p)));                                             \
    return (tc_##T)x;                                                                             \
  }
TC_READ_ONCE(i8, i16, s8, h) TC_READ_ONCE(u8, u16, u8, h) TC_READ_ONCE(b, u16, u8, h)
TC_READ_ONCE(i16, i16, s16, h) TC_READ_ONCE(u16, u16, u16, h)
TC_READ_ONCE(i32, i32, s32, r) TC_READ_ONCE(u32, u32, u32, r) TC_READ_ONCE(f32, f32, f32, f)
TC_READ_ONCE(i64, i64, s64, l) TC_READ_ONCE(u64, u64, u64, l) TC_READ_ONCE(f64, f64, f64, d)
TC_READ_ONCE(f16, u16, u16, h) TC_READ_ONCE(bf16, u16, u16, h)

/* Dynamic shared memory, aligned for what wants most of it. */
extern __shared__ __align__(1024) char tc_dynamic_shared[];
#define TC_SHARED(T)                                                                              \
  TC_FN tc_##T *tc_shared_##T() { return (tc_##T *)tc_dynamic_shared; }
TC_SHARED(i8) TC_SHARED(i16) TC_SHARED(i32) TC_SHARED(i64)
TC_SHARED(u8) TC_SHARED(u16) TC_SHARED(u32) TC_SHARED(u64)
TC_SHARED(b) TC_SHARED(f16) TC_SHARED(bf16) TC_SHARED(f32) TC_SHARED(f64)

/* Float additions in global memory flush denormals: the instruction does. */
#define TC_ATOMIC_ADD(T)                                                                          \
  TC_FN void tc_atomic_add_##T(tc_##T *p, tc_##T x) { (void)atomicAdd(p, x); }
#define TC_ATOMIC_EXTREMES(T)                                                                     \
  TC_FN void tc_atomic_min_##T(tc_##T *p, tc_##T x) { (void)atomicMin(p, x); }                    \
  TC_FN void tc_atomic_max_##T(tc_##T *p, tc_##T x) { (void)atomicMax(p, x); }
TC_ATOMIC_ADD(i32) TC_ATOMIC_ADD(u32) TC_ATOMIC_ADD(u64) TC_ATOMIC_ADD(f32) TC_ATOMIC_ADD(f64)
TC_ATOMIC_EXTREMES(i32) TC_ATOMIC_EXTREMES(u32) TC_ATOMIC_EXTREMES(i64) TC_ATOMIC_EXTREMES(u64)
TC_FN void tc_atomic_add_i64(tc_i64 *p, tc_i64 x) { tc_atomic_add_u64((tc_u64 *)p, (tc_u64)x); }

/* Count up and return the count before. Releases what the block wrote (a barrier first), acquires
 * what those wrote who counted before: the last block may read all of it. */
TC_FN tc_u32 tc_ticket(tc_u32 *p) {
  tc_u32 before;
  asm volatile("atom.acq_rel.gpu.add.u32 %0, [%1], 1;" : "=r"(before) : "l"(p) : "memory");
  return before;
}

#if __CUDA_ARCH__ >= 800
/* Extremes: min and max hand NaN on, fmin and fmax drop it. */
TC_FN tc_f32 tc_min_f32(tc_f32 a, tc_f32 b) {
  tc_f32 x;
  asm("min.NaN.f32 %0, %1, %2;" : "=f"(x) : "f"(a), "f"(b));
  return x;
}
TC_FN tc_f32 tc_max_f32(tc_f32 a, tc_f32 b) {
  tc_f32 x;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(x) : "f"(a), "f"(b));
  return x;
}
TC_FN tc_f32 tc_fmin_f32(tc_f32 a, tc_f32 b) { return fminf(a, b); }
TC_FN tc_f32 tc_fmax_f32(tc_f32 a, tc_f32 b) { return fmaxf(a, b); }

/* Half types: to nearest even, denormals live, a NaN becomes the canonical one. */
TC_FN tc_f32 tc_f16_f32(tc_f16 h) {
  tc_f32 x;
  asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(h));
  return x;
}
TC_FN tc_f16 tc_f32_f16(tc_f32 x) {
  tc_f16 h;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(x));
  return h;
}
TC_FN tc_bf16 tc_f32_bf16(tc_f32 x) {
  tc_bf16 h;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(h) : "f"(x));
  return h;
}
/* The bits of x as tensor cores read float32: 10 bits of mantissa, halves round away from 0. */
TC_FN tc_u32 tc_f32_tf32(tc_f32 x) {
  tc_u32 bits;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(x));
  return bits;
}

/* Start a copy from global to shared memory of the first `bytes` bytes, and of zeros for the rest
 * of 4, 8 or 16. What was started since the last commit is a group; tc_copy_wait(n) waits for all
 * groups of this thread but the n newest (a literal); their copies are then visible to it alone. */
#define TC_COPY_ASYNC(BYTES, CACHE)                                                               \
  TC_FN void tc_copy_async##BYTES(void *to, const void *from, tc_i32 bytes) {                     \
    asm volatile("cp.async." #CACHE ".shared.global [%0], [%1], " #BYTES ", %2;"                  \
                 :                                                                                \
                 : "r"((tc_u32)__cvta_generic_to_shared(to)), "l"(__cvta_generic_to_global(from)), \
                   "r"(bytes)                                                                     \
                 : "memory");                                                                     \
  }
TC_COPY_ASYNC(4, ca) TC_COPY_ASYNC(8, ca) TC_COPY_ASYNC(16, cg)
TC_FN void tc_copy_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
#define tc_copy_wait(n) asm volatile("cp.async.wait_group %0;" ::"n"(n) : "memory")

/* d += a b on the tensor cores, d 16x8. A register holds a pair: two neighbours along k, of tf32
 * one element. Lane l, with g = l / 4 and t = l % 4, holds of d rows g and g + 8 at columns 2 t and
 * 2 t + 1, row by row; of a in rows g, g + 8, g, g + 8 the pairs t, t, t + 4, t + 4; of b in column
 * g the pairs t, t + 4. */
#define TC_MMA(NAME, SHAPE, TYPE)                                                                 \
  TC_FN void tc_mma_##NAME(tc_f32 *d, const tc_u32 *a, const tc_u32 *b) {                         \
    asm volatile("mma.sync.aligned." SHAPE ".row.col.f32." TYPE "." TYPE ".f32 "                  \
                 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"                \
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])                                 \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));             \
  }
TC_MMA(m16n8k16_f16, "m16n8k16", "f16")
TC_MMA(m16n8k16_bf16, "m16n8k16", "bf16")
TC_MMA(m16n8k8_tf32, "m16n8k8", "tf32")

/* Four 8x8 matrices of 16-bit elements from shared memory: lanes 8 i to 8 i + 7 point to the rows
 * of matrix i, r[i] is this lane's pair of it, of its transpose for _t. */
#define TC_LDMATRIX(NAME, TRANS)                                                                  \
  TC_FN void tc_ldmatrix_##NAME(tc_u32 *r, const void *p) {                                       \
    asm volatile("ldmatrix.sync.aligned.m8n8.x4" TRANS ".shared.b16 {%0, %1, %2, %3}, [%4];"      \
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])                                 \
                 : "r"((tc_u32)__cvta_generic_to_shared(p))                                       \
                 : "memory");                                                                     \
  }
TC_LDMATRIX(x4, "") TC_LDMATRIX(x4_t, ".trans")
#endif
#endif /* instructions */

/* ---- threads */

TC_FN tc_i32 tc_thread() { return (tc_i32)threadIdx.x; }
TC_FN tc_i32 tc_lane() { return (tc_i32)(threadIdx.x % 32); }
TC_FN tc_i32 tc_warp() { return (tc_i32)(threadIdx.x / 32); }
TC_FN tc_i32 tc_block() { return (tc_i32)blockIdx.x; }
TC_FN tc_i32 tc_blocks() { return (tc_i32)gridDim.x; }
TC_FN tc_i64 tc_point() { return (tc_i64)blockIdx.x * blockDim.x + threadIdx.x; }

/* ---- extremes of floats in memory: no instruction has them, NaN is handed on */

/* Swap until nobody interferes; mostly there is nothing to write. */
#define TC_ATOMIC_FLOAT(NAME, WHAT, T, U)                                                         \
  TC_FN void NAME(tc_##T *p, tc_##T x) {                                                          \
    tc_##U *place = (tc_##U *)p, seen = *(volatile tc_##U *)place;                                \
    for (;;) {                                                                                    \
      tc_##U to = tc_bits_##T(tc_##WHAT##_##T(tc_float_##U(seen), x));                            \
      if (to == seen) return;                                                                     \
      tc_##U was = atomicCAS(place, seen, to);                                                    \
      if (was == seen) return;                                                                    \
      seen = was;                                                                                 \
    }                                                                                             \
  }
#ifndef TC_CUSIM
TC_ATOMIC_FLOAT(tc_atomic_min_f32, min, f32, u32) TC_ATOMIC_FLOAT(tc_atomic_max_f32, max, f32, u32)
TC_ATOMIC_FLOAT(tc_atomic_min_f64, min, f64, u64) TC_ATOMIC_FLOAT(tc_atomic_max_f64, max, f64, u64)
#endif

/* ---- faults */

/* Report a subscript outside its tensor; the host reads the first one after the kernels. */
TC_FN void tc_fault(tc_error *fault, tc_i64 tensor, tc_i64 dim, tc_i64 value, tc_i64 extent) {
  if (atomicCAS((tc_u64 *)&fault->code, 0, 1) != 0) return;
  fault->tensor = tensor;
  fault->dim = dim;
  fault->value = value;
  fault->extent = extent;
}

/* ---- arithmetic on signed integers that may overflow: it wraps */

#define TC_WRAP(T, U)                                                                             \
  TC_FN tc_##T tc_wrap_add_##T(tc_##T a, tc_##T b) { return (tc_##T)((tc_##U)a + (tc_##U)b); }    \
  TC_FN tc_##T tc_wrap_sub_##T(tc_##T a, tc_##T b) { return (tc_##T)((tc_##U)a - (tc_##U)b); }    \
  TC_FN tc_##T tc_wrap_mul_##T(tc_##T a, tc_##T b) { return (tc_##T)((tc_##U)a * (tc_##U)b); }    \
  TC_FN tc_##T tc_wrap_neg_##T(tc_##T a) { return (tc_##T)(0 - (tc_##U)a); }
TC_WRAP(i32, u32) TC_WRAP(i64, u64)
#endif
