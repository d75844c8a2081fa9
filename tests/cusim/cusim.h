/* CUDA C on the CPU: the language, and the instructions that codegen/preludes/prelude.cuh leaves to it.
 *
 * Included before a unit's own text, which is compiled as it is. Whatever touches memory or other
 * threads is a call into the runtime, which checks it; plain loads and stores get there through
 * the hooks of -fsanitize=thread.
 */
#ifndef CUSIM_H
#define CUSIM_H
#define TC_CUSIM 1

/* ---- the language */

#define __global__
#define __device__
#define __host__
#define __constant__ const
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __launch_bounds__(...)
#define __align__(n) __attribute__((aligned(n)))
/* One section, so that the runtime knows all shared memory of a unit by the linker's symbols. */
#define __shared__ static __attribute__((section("cusim_shared")))
#define CUSIM_FN static inline __attribute__((always_inline, unused))

typedef signed char tc_i8;
typedef unsigned char tc_u8;
typedef short tc_i16;
typedef unsigned short tc_u16;
typedef int tc_i32;
typedef unsigned int tc_u32;
typedef long long tc_i64;
typedef unsigned long long tc_u64;

struct cusim_dim3 {
  unsigned x, y, z;
};

extern "C" {
/* Of one thread these never change, so that the compiler may read them once. */
unsigned cusim_thread(void) __attribute__((const));
unsigned cusim_block(void) __attribute__((const));
unsigned cusim_threads(void) __attribute__((const));
unsigned cusim_blocks(void) __attribute__((const));
void *cusim_dynamic_shared(void) __attribute__((const));

/* line tells calls apart where the compiler has made two of one. */
void cusim_barrier(int line);
void cusim_warp_barrier(int line);
void cusim_shuffle(void *out, const void *in, unsigned bytes, int lane, int line);
void cusim_copy(void *to, const void *from, unsigned bytes);
void cusim_copy_async(void *to, const void *from, unsigned size, unsigned bytes);
void cusim_copy_commit(void);
void cusim_copy_wait(int running);
void cusim_ldmatrix(tc_u32 *r, const void *row, int is_transposed, int line);
void cusim_mma(float *d, const tc_u32 *a, const tc_u32 *b, int kind, int line);
tc_u32 cusim_ticket(tc_u32 *p);
void cusim_once(void *p, unsigned bytes);
void cusim_atomic_add_i32(tc_i32 *p, tc_i32 x);
void cusim_atomic_add_u32(tc_u32 *p, tc_u32 x);
void cusim_atomic_add_i64(tc_i64 *p, tc_i64 x);
void cusim_atomic_add_u64(tc_u64 *p, tc_u64 x);
void cusim_atomic_add_f32(float *p, float x);
void cusim_atomic_add_f64(double *p, double x);
void cusim_atomic_min_i32(tc_i32 *p, tc_i32 x);
void cusim_atomic_min_u32(tc_u32 *p, tc_u32 x);
void cusim_atomic_min_i64(tc_i64 *p, tc_i64 x);
void cusim_atomic_min_u64(tc_u64 *p, tc_u64 x);
void cusim_atomic_min_f32(float *p, float x);
void cusim_atomic_min_f64(double *p, double x);
void cusim_atomic_max_i32(tc_i32 *p, tc_i32 x);
void cusim_atomic_max_u32(tc_u32 *p, tc_u32 x);
void cusim_atomic_max_i64(tc_i64 *p, tc_i64 x);
void cusim_atomic_max_u64(tc_u64 *p, tc_u64 x);
void cusim_atomic_max_f32(float *p, float x);
void cusim_atomic_max_f64(double *p, double x);
tc_u64 cusim_compare_and_swap(tc_u64 *p, tc_u64 expected, tc_u64 x);
int cusim_pattern(void);
int cusim_launch(void (*entry)(void *, void **), void *kernel, void **args, const char *section,
                 const char *section_end, const char *image, const char *image_end);
extern char __start_cusim_shared[] __attribute__((weak, visibility("hidden")));
extern char __stop_cusim_shared[] __attribute__((weak, visibility("hidden")));
extern char __ehdr_start[] __attribute__((visibility("hidden")));
extern char _end[] __attribute__((visibility("hidden")));
}

CUSIM_FN cusim_dim3 cusim_along_x(unsigned x, unsigned other) { return {x, other, other}; }
#define threadIdx cusim_along_x(cusim_thread(), 0)
#define blockIdx cusim_along_x(cusim_block(), 0)
#define blockDim cusim_along_x(cusim_threads(), 1)
#define gridDim cusim_along_x(cusim_blocks(), 1)

#define CUSIM_BITS(name, To, From)                                                                \
  CUSIM_FN To name(From x) {                                                                      \
    To y;                                                                                         \
    __builtin_memcpy(&y, &x, sizeof y);                                                           \
    return y;                                                                                     \
  }
CUSIM_BITS(__int_as_float, float, int)
CUSIM_BITS(__uint_as_float, float, unsigned)
CUSIM_BITS(__float_as_int, int, float)
CUSIM_BITS(__float_as_uint, unsigned, float)
CUSIM_BITS(__longlong_as_double, double, long long)
CUSIM_BITS(__double_as_longlong, long long, double)

CUSIM_FN unsigned long long atomicCAS(unsigned long long *p, unsigned long long expected,
                                      unsigned long long x) {
  return cusim_compare_and_swap(p, expected, x);
}

/* What stands behind the declaration of a local without a value. */
#define CUSIM_POISON_FLOAT(x) __builtin_memset(&x, 0xff, sizeof x)
#define CUSIM_POISON_INTEGER(x) __builtin_memset(&x, cusim_pattern(), sizeof x)

/* ---- instructions, by the names of the prelude */

#define CUSIM_LINE int line = __builtin_LINE()

CUSIM_FN void tc_barrier(CUSIM_LINE) { cusim_barrier(line); }
CUSIM_FN void tc_warp_barrier(CUSIM_LINE) { cusim_warp_barrier(line); }

#define CUSIM_SHUFFLES(T, C)                                                                      \
  CUSIM_FN C tc_shuffle_##T(C x, int lane, CUSIM_LINE) {                                          \
    C y;                                                                                          \
    cusim_shuffle(&y, &x, sizeof x, lane, line);                                               \
    return y;                                                                                     \
  }                                                                                               \
  CUSIM_FN C tc_shuffle_xor_##T(C x, int mask, CUSIM_LINE) {                                      \
    C y;                                                                                          \
    cusim_shuffle(&y, &x, sizeof x, (int)(cusim_thread() % 32) ^ mask, line);                  \
    return y;                                                                                     \
  }                                                                                               \
  CUSIM_FN C tc_shuffle_down_##T(C x, int n, CUSIM_LINE) { /* its own value past the end */       \
    C y;                                                                                          \
    const int lane = (int)(cusim_thread() % 32);                                                  \
    cusim_shuffle(&y, &x, sizeof x, lane + n < 32 ? lane + n : lane, line);                    \
    return y;                                                                                     \
  }
CUSIM_SHUFFLES(i8, tc_i8) CUSIM_SHUFFLES(i16, tc_i16)
CUSIM_SHUFFLES(i32, tc_i32) CUSIM_SHUFFLES(i64, tc_i64)
CUSIM_SHUFFLES(u8, tc_u8) CUSIM_SHUFFLES(u16, tc_u16)
CUSIM_SHUFFLES(u32, tc_u32) CUSIM_SHUFFLES(u64, tc_u64)
CUSIM_SHUFFLES(b, tc_u8) CUSIM_SHUFFLES(f32, float) CUSIM_SHUFFLES(f64, double)

CUSIM_FN void tc_copy4(void *to, const void *from) { cusim_copy(to, from, 4); }
CUSIM_FN void tc_copy8(void *to, const void *from) { cusim_copy(to, from, 8); }
CUSIM_FN void tc_copy16(void *to, const void *from) { cusim_copy(to, from, 16); }
CUSIM_FN void tc_copy_async4(void *to, const void *from, tc_i32 bytes) {
  cusim_copy_async(to, from, 4, bytes);
}
CUSIM_FN void tc_copy_async8(void *to, const void *from, tc_i32 bytes) {
  cusim_copy_async(to, from, 8, bytes);
}
CUSIM_FN void tc_copy_async16(void *to, const void *from, tc_i32 bytes) {
  cusim_copy_async(to, from, 16, bytes);
}
CUSIM_FN void tc_copy_commit() { cusim_copy_commit(); }
CUSIM_FN void tc_copy_wait(tc_i32 running) { cusim_copy_wait(running); }

#define CUSIM_DYNAMIC(T, C)                                                                       \
  CUSIM_FN C *tc_shared_##T() { return (C *)cusim_dynamic_shared(); }
CUSIM_DYNAMIC(i8, tc_i8) CUSIM_DYNAMIC(i16, tc_i16)
CUSIM_DYNAMIC(i32, tc_i32) CUSIM_DYNAMIC(i64, tc_i64)
CUSIM_DYNAMIC(u8, tc_u8) CUSIM_DYNAMIC(u16, tc_u16)
CUSIM_DYNAMIC(u32, tc_u32) CUSIM_DYNAMIC(u64, tc_u64)
CUSIM_DYNAMIC(b, tc_u8) CUSIM_DYNAMIC(f16, tc_u16) CUSIM_DYNAMIC(bf16, tc_u16)
CUSIM_DYNAMIC(f32, float) CUSIM_DYNAMIC(f64, double)

#define CUSIM_ATOMICS(T, C)                                                                       \
  CUSIM_FN void tc_atomic_add_##T(C *p, C x) { cusim_atomic_add_##T(p, x); }                      \
  CUSIM_FN void tc_atomic_min_##T(C *p, C x) { cusim_atomic_min_##T(p, x); }                      \
  CUSIM_FN void tc_atomic_max_##T(C *p, C x) { cusim_atomic_max_##T(p, x); }
CUSIM_ATOMICS(i32, tc_i32) CUSIM_ATOMICS(i64, tc_i64)
CUSIM_ATOMICS(u32, tc_u32) CUSIM_ATOMICS(u64, tc_u64)
CUSIM_ATOMICS(f32, float) CUSIM_ATOMICS(f64, double)

/* cvt.rna: to 10 bits of mantissa, halves away from zero. */
CUSIM_FN tc_u32 tc_f32_tf32(float x) {
  const tc_u32 bits = __float_as_uint(x);
  return (bits & 0x7f800000) == 0x7f800000 ? bits : (bits + 0x1000) & 0xffffe000;
}

/* Of what chooses an element; where memory is to change (`Simulator(changing=1)`) it does then. */
#define CUSIM_ONCE(T, C)                                                                          \
  CUSIM_FN C tc_once_##T(const C *p) {                                                            \
    const C x = *(const volatile C *)p;                                                           \
    cusim_once((void *)p, sizeof x);                                                              \
    return x;                                                                                     \
  }
CUSIM_ONCE(i8, tc_i8) CUSIM_ONCE(i16, tc_i16) CUSIM_ONCE(i32, tc_i32) CUSIM_ONCE(i64, tc_i64)
CUSIM_ONCE(u8, tc_u8) CUSIM_ONCE(u16, tc_u16) CUSIM_ONCE(u32, tc_u32) CUSIM_ONCE(u64, tc_u64)
CUSIM_ONCE(b, tc_u8) CUSIM_ONCE(f16, tc_u16) CUSIM_ONCE(bf16, tc_u16)
CUSIM_ONCE(f32, float) CUSIM_ONCE(f64, double)

CUSIM_FN tc_u32 tc_ticket(tc_u32 *p) { return cusim_ticket(p); }

/* Kinds of fragments, as the runtime numbers them. */
CUSIM_FN void tc_mma_m16n8k16_bf16(float *d, const tc_u32 *a, const tc_u32 *b, CUSIM_LINE) {
  cusim_mma(d, a, b, 0, line);
}
CUSIM_FN void tc_mma_m16n8k16_f16(float *d, const tc_u32 *a, const tc_u32 *b, CUSIM_LINE) {
  cusim_mma(d, a, b, 1, line);
}
CUSIM_FN void tc_mma_m16n8k8_tf32(float *d, const tc_u32 *a, const tc_u32 *b, CUSIM_LINE) {
  cusim_mma(d, a, b, 2, line);
}
CUSIM_FN void tc_ldmatrix_x4(tc_u32 *r, const void *row, CUSIM_LINE) {
  cusim_ldmatrix(r, row, 0, line);
}
CUSIM_FN void tc_ldmatrix_x4_t(tc_u32 *r, const void *row, CUSIM_LINE) {
  cusim_ldmatrix(r, row, 1, line);
}

#include "libdevice.h" /* CUDA's functions of the mathematics, for smath.cuh */

/* ---- the way in: a kernel called with the addresses of its arguments */

template <int... I> struct cusim_indices {};
template <int N, int... I> struct cusim_count : cusim_count<N - 1, N - 1, I...> {};
template <int... I> struct cusim_count<0, I...> {
  typedef cusim_indices<I...> type;
};
template <class T> struct cusim_value {
  typedef T type;
};
template <class T> struct cusim_value<const T> {
  typedef T type;
};
#define CUSIM_PLAIN __attribute__((no_sanitize("thread")))
template <class... P, int... I>
CUSIM_PLAIN void cusim_apply(void (*kernel)(P...), void **args, cusim_indices<I...>) {
  (void)args;
  kernel(*(typename cusim_value<P>::type *)args[I]...);
}
template <class... P> struct cusim_entry {
  CUSIM_PLAIN static void run(void *kernel, void **args) {
    cusim_apply((void (*)(P...))kernel, args, typename cusim_count<sizeof...(P)>::type{});
  }
};
template <class... P> CUSIM_PLAIN int cusim_start(void (*kernel)(P...), void **args) {
  return cusim_launch(cusim_entry<P...>::run, (void *)kernel, args, __start_cusim_shared,
                      __stop_cusim_shared, __ehdr_start, _end);
}
#define CUSIM_EXPORT(kernel)                                                                      \
  extern "C" CUSIM_PLAIN int kernel##__start(void **args) { return cusim_start(kernel, args); }
#endif
