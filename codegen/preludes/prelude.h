/* What emitted C stands on: vectors, masks, faults, and the scalar rules of scalars.h.
 *
 * No header is included but our own: <immintrin.h> alone would cost every kernel 115 ms of
 * compile time. gcc >= 12, clang >= 14, zig cc; -fwrapv -fno-math-errno -ffp-contract=fast.
 *
 * Names are regular: tc_WHAT_TYPE, with TYPE one of
 *   f32 f64 i8 i16 i32 i64 u8 u16 u32 u64 b (bool)        scalars; f16 bf16 are storage only
 *   v16f32 v8f64 v16i32 v8i64 (lanes by the width below)   vectors of the native width
 * A cast is tc_FROM_TO. The C type of TYPE is tc_TYPE, of a mask over 16 f32 tc_m16f32.
 *
 * The compiler's macros choose the width; -DTC_VECTOR_BYTES=16 asks for a narrower one.
 * Wrapping + - * are C's own under -fwrapv; a result of type i8 i16 u8 u16 is cast back to it.
 */
#ifndef TC_PRELUDE_H
#define TC_PRELUDE_H
#include "tc_abi.h"

#define TC_FN static inline __attribute__((always_inline))
/* A micro-kernel: gcc must neither inline nor clone it for a known trip count, or it spills. */
#ifdef __clang__
#define TC_MICRO __attribute__((noinline))
#else
#define TC_MICRO __attribute__((noipa))
#endif
#define TC_EXPORT __attribute__((visibility("default")))

#define TC_INF_F32 __builtin_inff()
#define TC_INF_F64 __builtin_inf()
#define TC_NAN_F32 __builtin_nanf("")
#define TC_NAN_F64 __builtin_nan("")

#define TC_BUILTIN(name) __builtin_##name
#include "scalars.h"

#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512VL__) && defined(__AVX512DQ__)
#define TC_ISA_AVX512 1
#endif

#ifndef TC_VECTOR_BYTES
#if defined(TC_ISA_AVX512)
#define TC_VECTOR_BYTES 64
#elif defined(__AVX2__) && defined(__FMA__)
#define TC_VECTOR_BYTES 32
#else
#define TC_VECTOR_BYTES 16
#endif
#endif
#if TC_VECTOR_BYTES == 64 /* lanes of a vector */
#define TC_VL_f32 16
#define TC_VL_i32 16
#define TC_VL_f64 8
#define TC_VL_i64 8
#elif TC_VECTOR_BYTES == 32
#define TC_VL_f32 8
#define TC_VL_i32 8
#define TC_VL_f64 4
#define TC_VL_i64 4
#elif TC_VECTOR_BYTES == 16
#define TC_VL_f32 4
#define TC_VL_i32 4
#define TC_VL_f64 2
#define TC_VL_i64 2
#else
#error TC_VECTOR_BYTES must be 16, 32 or 64
#endif
/* Call macro m with expanded arguments, so that TC_VL_f32 pastes as 16. */
#define TC_EXPAND(m, ...) m(__VA_ARGS__)

/* ---- hints */

/* Keep vector lvalue b in a register: without it gcc folds an unaligned load into several FMAs. For
 * what was loaded; accumulators in an array that are pinned in a loop move to the stack. */
#if defined(__AVX512VL__)
#define tc_pin(b) __asm__("" : "+v"(b))
#elif defined(__SSE2__)
#define tc_pin(b) __asm__("" : "+x"(b))
#elif defined(__aarch64__)
#define tc_pin(b) __asm__("" : "+w"(b))
#else
#define tc_pin(b) ((void)0)
#endif
/* Lay scalar lvalue x down in memory until it is read again: else gcc keeps a parameter in its vector
 * register, through a loop that needs all of them, and what the loop adds up moves to the stack. */
#if defined(__GNUC__)
#define tc_lay_down(x) __asm__("" : "+m"(x))
#else
#define tc_lay_down(x) ((void)0)
#endif
/* Stop the compiler (not the processor) from moving loads and stores across this point. */
#define tc_fence() __asm__ __volatile__("" ::: "memory")
/* Fetch the line of an address, which need not be valid. */
#define tc_prefetch(p) __builtin_prefetch((p), 0, 3)
/* After the last tc_stream_*: its stores are seen before whatever follows. */
#if defined(__SSE2__)
#define tc_stream_end() __builtin_ia32_sfence()
#else
#define tc_stream_end() __sync_synchronize()
#endif

/* x, of which the compiler knows nothing: a mask made of it is made when the code runs (opaque.py). */
TC_FN tc_i64 tc_opaque_i64(tc_i64 x) {
  __asm__("" : "+r"(x));
  return x;
}

/* ---- data that chooses addresses */

/* *p, read this once: what was checked is what is used, whoever writes the array meanwhile. Of a plain
 * load a compiler may keep the address in place of the value, and read again where registers run
 * short or where it meets a compare and a move. A test supplies TC_ONCE in its stead. */
#ifndef TC_ONCE
#define TC_ONCE(T, p) (*(const volatile tc_##T *)(p))
#define TC_PEEK(T, p) (*(p))
#else
#define TC_PEEK TC_ONCE
#endif
/* tc_peek: into a copy that is settled then, and used in its place. */
#define TC_READ_ONCE(T)                                                                           \
  TC_FN tc_##T tc_once_##T(const tc_##T *p) { return TC_ONCE(T, p); }                              \
  TC_FN tc_##T tc_peek_##T(const tc_##T *p) { return TC_PEEK(T, p); }
TC_READ_ONCE(i8) TC_READ_ONCE(i16) TC_READ_ONCE(i32) TC_READ_ONCE(i64) TC_READ_ONCE(b)
TC_READ_ONCE(u8) TC_READ_ONCE(u16) TC_READ_ONCE(u32) TC_READ_ONCE(u64)
TC_READ_ONCE(f16) TC_READ_ONCE(bf16) TC_READ_ONCE(f32) TC_READ_ONCE(f64)
/* The local array that begins at p may hold anything from here on, for all that the compiler knows:
 * what it was copied from can no longer stand in for it. */
#define tc_settle(p) __asm__ __volatile__("" : : "r"(p) : "memory")

/* ---- faults */

/* Report a subscript outside its tensor; the first one is kept. Returns 1, what a phase returns. */
static __attribute__((noinline, cold, unused)) int tc_fault(const tc_args *args, tc_i64 tensor,
                                                            tc_i64 dim, tc_i64 value,
                                                            tc_i64 extent) {
  tc_error *error = args->error;
  tc_i64 none = 0;
  if (__atomic_compare_exchange_n(&error->code, &none, 1, 0, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED)) {
    error->tensor = tensor;
    error->dim = dim;
    error->value = value;
    error->extent = extent;
  }
  return 1;
}

/* ---- vectors of the native width */

/* S "16f32", T "f32", N 16, SI "16i32" (integers of the same width: what comparisons give).
 * tc_load, tc_store: any alignment of the element. tc_stream: aligned to the vector, past the cache. */
#define TC_VECTOR(S, T, N, SI, TI)                                                                \
  typedef tc_##T tc_v##S __attribute__((vector_size(N * sizeof(tc_##T))));                         \
  typedef tc_##T tc_u##S                                                                          \
      __attribute__((vector_size(N * sizeof(tc_##T)), aligned(sizeof(tc_##T)), may_alias));        \
  TC_FN tc_v##S tc_load_v##S(const tc_##T *p) { return *(const tc_u##S *)p; }                      \
  TC_FN void tc_store_v##S(tc_##T *p, tc_v##S v) { *(tc_u##S *)p = v; }                            \
  TC_FN tc_v##S tc_splat_v##S(tc_##T x) { return x - (tc_v##S){0}; }

/* After all vector types exist: lane choice (c: all ones or zero per lane), order. */
#define TC_VECTOR_CHOICE(S, SI)                                                                   \
  TC_FN tc_v##S tc_select_v##S(tc_v##SI c, tc_v##S a, tc_v##S b) {                                 \
    return (tc_v##S)(((tc_v##SI)a & c) | ((tc_v##SI)b & ~c));                                      \
  }
#define TC_VECTOR_INT(S)                                                                          \
  TC_FN tc_v##S tc_min_v##S(tc_v##S a, tc_v##S b) { return tc_select_v##S(a < b, a, b); }          \
  TC_FN tc_v##S tc_max_v##S(tc_v##S a, tc_v##S b) { return tc_select_v##S(a > b, a, b); }
/* Of floats: where a is no NaN the processor's own max gives b for equal values and if b is NaN,
 * which is the rule; so one compare and one masked max do. An accumulator is best passed as b. */
#if TC_VECTOR_BYTES == 64 && defined(TC_ISA_AVX512) && !defined(__clang__)
#define TC_VECTOR_EXTREME(op, S, W, a, b, asked)                                                  \
  __builtin_ia32_##op##p##W##512_mask(                                                            \
      a, b, a, __builtin_ia32_cmpp##W##512_mask(asked, asked, 7, -1, 4), 4)
#define TC_EXTREME(op, S, W, a, b, than) __builtin_ia32_##op##p##W##512_mask(a, b, a, -1, 4)
#define TC_VECTOR_FLOAT(S, W)                                                                     \
  TC_FN tc_v##S tc_min_v##S(tc_v##S a, tc_v##S b) { return TC_VECTOR_EXTREME(min, S, W, a, b, a); } \
  TC_FN tc_v##S tc_max_v##S(tc_v##S a, tc_v##S b) { return TC_VECTOR_EXTREME(max, S, W, a, b, a); } \
  TC_FN tc_v##S tc_fmin_v##S(tc_v##S a, tc_v##S b) {                                               \
    return TC_VECTOR_EXTREME(min, S, W, a, b, b);                                                 \
  }                                                                                               \
  TC_FN tc_v##S tc_fmax_v##S(tc_v##S a, tc_v##S b) {                                               \
    return TC_VECTOR_EXTREME(max, S, W, a, b, b);                                                 \
  }
#else
#if TC_VECTOR_BYTES == 32 && defined(__AVX__)
#define TC_EXTREME(op, S, W, a, b, than) ((tc_v##S)__builtin_ia32_##op##p##W##256(a, b))
#elif TC_VECTOR_BYTES == 16 && defined(__SSE2__)
#define TC_EXTREME(op, S, W, a, b, than) ((tc_v##S)__builtin_ia32_##op##p##W(a, b))
#else
#define TC_EXTREME(op, S, W, a, b, than) tc_select_v##S(a than b, a, b)
#endif
#define TC_VECTOR_FLOAT(S, W)                                                                     \
  TC_FN tc_v##S tc_min_v##S(tc_v##S a, tc_v##S b) {                                                \
    return tc_select_v##S(a != a, a, TC_EXTREME(min, S, W, a, b, <));                             \
  }                                                                                               \
  TC_FN tc_v##S tc_max_v##S(tc_v##S a, tc_v##S b) {                                                \
    return tc_select_v##S(a != a, a, TC_EXTREME(max, S, W, a, b, >));                             \
  }                                                                                               \
  TC_FN tc_v##S tc_fmin_v##S(tc_v##S a, tc_v##S b) {                                               \
    return tc_select_v##S(b != b, a, TC_EXTREME(min, S, W, a, b, <));                             \
  }                                                                                               \
  TC_FN tc_v##S tc_fmax_v##S(tc_v##S a, tc_v##S b) {                                               \
    return tc_select_v##S(b != b, a, TC_EXTREME(max, S, W, a, b, >));                             \
  }
#endif
/* x, but not below low, then not above high. Neither is NaN; that of x passes. */
#define TC_VECTOR_WITHIN(S, W)                                                                    \
  TC_FN tc_v##S tc_within_v##S(tc_v##S x, tc_v##S low, tc_v##S high) {                            \
    tc_v##S y = TC_EXTREME(max, S, W, low, x, >);                                                 \
    return TC_EXTREME(min, S, W, high, y, <);                                                     \
  }

/* Fold the lanes: sum and product take halves in a fixed order; max and min hand NaN on. */
#define TC_FOLD2(op, S) v = op(v, __builtin_shufflevector(v, v, 1, 0));
#define TC_FOLD4(op, S)                                                                           \
  v = op(v, __builtin_shufflevector(v, v, 2, 3, 0, 1));                                           \
  v = op(v, __builtin_shufflevector(v, v, 1, 0, 3, 2));
#define TC_FOLD8(op, S)                                                                           \
  v = op(v, __builtin_shufflevector(v, v, 4, 5, 6, 7, 0, 1, 2, 3));                               \
  v = op(v, __builtin_shufflevector(v, v, 2, 3, 0, 1, 6, 7, 4, 5));                               \
  v = op(v, __builtin_shufflevector(v, v, 1, 0, 3, 2, 5, 4, 7, 6));
#define TC_FOLD16(op, S)                                                                          \
  v = op(v, __builtin_shufflevector(v, v, 8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7)); \
  v = op(v, __builtin_shufflevector(v, v, 4, 5, 6, 7, 0, 1, 2, 3, 12, 13, 14, 15, 8, 9, 10, 11)); \
  v = op(v, __builtin_shufflevector(v, v, 2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9, 14, 15, 12, 13)); \
  v = op(v, __builtin_shufflevector(v, v, 1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14));
#define TC_PLUS(a, b) ((a) + (b))
#define TC_TIMES(a, b) ((a) * (b))
#define TC_VECTOR_FOLD(S, T, N)                                                                   \
  TC_FN tc_##T tc_sum_v##S(tc_v##S v) { TC_FOLD##N(TC_PLUS, S) return v[0]; }                      \
  TC_FN tc_##T tc_product_v##S(tc_v##S v) { TC_FOLD##N(TC_TIMES, S) return v[0]; }                 \
  TC_FN tc_##T tc_hmax_v##S(tc_v##S v) { TC_FOLD##N(tc_max_v##S, S) return v[0]; }                 \
  TC_FN tc_##T tc_hmin_v##S(tc_v##S v) { TC_FOLD##N(tc_min_v##S, S) return v[0]; }

/* Masks: tc_tail_v16f32(n) has the first n lanes (n < 0: none, n > 16: all), tc_range_(low, high)
 * lanes low..high-1. tc_loadm gives 0 in lanes outside the mask and does not touch their memory,
 * tc_loadf gives those of fill; tc_storem writes the mask's lanes only; tc_keep(m, a, b) chooses.
 * tc_storet is tc_storem of the first lanes, and most often of all, tc_storer of lanes that follow
 * each other: for what has no quick one. tc_split, of vectors of 32 bytes alone, writes the first
 * half to one place and the second to another. */
#define TC_CLAMP(n, N) ((n) < 0 ? 0 : (n) > (N) ? (N) : (n))

#if TC_VECTOR_BYTES == 64 && defined(TC_ISA_AVX512)
#if defined(__clang__)
#define TC_BLEND(W, m, a, b) __builtin_ia32_selectp##W##_512(m, a, b)
#else
#define TC_BLEND(W, m, a, b) __builtin_ia32_blendmp##W##_512_mask(b, a, m)
#endif
/* F, W: the float vector of this element width and its letter; bits move the same. */
#define TC_VECTOR_MASK(S, T, N, SI, TI, F, W)                                                     \
  typedef unsigned TC_MASK_##N tc_m##S;                                                           \
  TC_FN tc_m##S tc_tail_v##S(tc_i64 n) { return (tc_m##S)((1u << TC_CLAMP(n, N)) - 1); }           \
  TC_FN tc_m##S tc_range_v##S(tc_i64 low, tc_i64 high) {                                          \
    return (tc_m##S)(tc_tail_v##S(high) & ~tc_tail_v##S(low));                                    \
  }                                                                                               \
  TC_FN tc_v##S tc_loadf_v##S(const tc_##T *p, tc_m##S m, tc_v##S fill) {                          \
    return (tc_v##S)__builtin_ia32_loadup##W##512_mask((const void *)p, (F)fill, m);               \
  }                                                                                               \
  TC_FN tc_v##S tc_loadm_v##S(const tc_##T *p, tc_m##S m) {                                        \
    return tc_loadf_v##S(p, m, (tc_v##S){0});                                                      \
  }                                                                                               \
  TC_FN void tc_storem_v##S(tc_##T *p, tc_m##S m, tc_v##S v) {                                     \
    __builtin_ia32_storeup##W##512_mask((void *)p, (F)v, m);                                       \
  }                                                                                               \
  TC_FN void tc_storet_v##S(tc_##T *p, tc_m##S m, tc_v##S v) { tc_storem_v##S(p, m, v); }          \
  TC_FN void tc_storer_v##S(tc_##T *p, tc_m##S m, tc_v##S v) { tc_storem_v##S(p, m, v); }          \
  TC_FN tc_v##S tc_keep_v##S(tc_m##S m, tc_v##S a, tc_v##S b) {                                    \
    return (tc_v##S)TC_BLEND(W, m, (F)a, (F)b);                                                    \
  }
#define TC_MASK_16 short
#define TC_MASK_8 char
#else
/* A mask is a vector of integers, all ones or zero per lane. */
#define TC_VECTOR_MASK_TYPE(S, T, N, SI, TI)                                                      \
  typedef tc_v##SI tc_m##S;                                                                       \
  TC_FN tc_m##S tc_tail_v##S(tc_i64 n) { return tc_iota_v##SI(0) < (tc_##TI)TC_CLAMP(n, N); }      \
  TC_FN tc_m##S tc_range_v##S(tc_i64 low, tc_i64 high) {                                          \
    return tc_tail_v##S(high) & ~tc_tail_v##S(low);                                               \
  }                                                                                               \
  TC_FN tc_v##S tc_keep_v##S(tc_m##S m, tc_v##S a, tc_v##S b) {                                    \
    return tc_select_v##S(m, a, b);                                                               \
  }
#if TC_VECTOR_BYTES == 32 && defined(__AVX2__)
/* AMD's processors before Zen 4 take 42 micro-operations for a masked store: a whole vector, or
 * pieces of one, are faster, a tile of 6x2 vectors and 26 steps by a quarter. i: a bit for 4 bytes. */
typedef int TC_MASK_s __attribute__((vector_size(32)));
typedef long long TC_MASK_d __attribute__((vector_size(32)));
typedef int TC_PIECE_16 __attribute__((vector_size(16), aligned(4), may_alias));
typedef int TC_PIECE_8 __attribute__((vector_size(8), aligned(4), may_alias));
typedef int TC_PIECE_4 __attribute__((may_alias));
TC_FN void tc_store_pieces(void *to, int i, TC_MASK_s v) {
  char *p = (char *)to;
  tc_pin(v); /* pieces of a value in all lanes: gcc 12 breaks down where it sees that they are it */
  int __attribute__((vector_size(16))) h = __builtin_shufflevector(v, v, 0, 1, 2, 3);
  if (i & 8) {
    *(TC_PIECE_16 *)p = h;
    h = __builtin_shufflevector(v, v, 4, 5, 6, 7);
    p += 16, i >>= 4;
  }
  if (i & 2) {
    *(TC_PIECE_8 *)p = __builtin_shufflevector(h, h, 0, 1);
    h = __builtin_shufflevector(h, h, 2, 3, 2, 3);
    p += 8, i >>= 2;
  }
  if (i & 1) *(TC_PIECE_4 *)p = h[0];
}
/* The same of lanes that follow each other, from any on. */
TC_FN void tc_store_range(void *to, int i, TC_MASK_s v) {
  int low = i ? __builtin_ctz(i) : 0;
  TC_MASK_s from = low + (TC_MASK_s){0, 1, 2, 3, 4, 5, 6, 7};
  if (low) v = __builtin_ia32_permvarsi256(v, from);
  tc_store_pieces((char *)to + 4 * low, i >> low, v);
}
#define TC_VECTOR_MASK(S, T, N, SI, TI, F, W)                                                     \
  TC_VECTOR_MASK_TYPE(S, T, N, SI, TI)                                                            \
  TC_FN tc_v##S tc_loadm_v##S(const tc_##T *p, tc_m##S m) {                                        \
    return (tc_v##S)__builtin_ia32_maskloadp##W##256((const void *)p, (TC_MASK_##W)m);            \
  }                                                                                               \
  TC_FN tc_v##S tc_loadf_v##S(const tc_##T *p, tc_m##S m, tc_v##S fill) {                          \
    return tc_keep_v##S(m, tc_loadm_v##S(p, m), fill);                                            \
  }                                                                                               \
  TC_FN void tc_storem_v##S(tc_##T *p, tc_m##S m, tc_v##S v) {                                     \
    __builtin_ia32_maskstorep##W##256((void *)p, (TC_MASK_##W)m, (F)v);                           \
  }                                                                                               \
  TC_FN void tc_storet_v##S(tc_##T *p, tc_m##S m, tc_v##S v) {                                     \
    int i = __builtin_ia32_movmskps256((tc_native_f32)m);                                         \
    if (i == 255)                                                                                 \
      tc_store_v##S(p, v);                                                                        \
    else                                                                                          \
      tc_store_pieces(p, i, (TC_MASK_s)v);                                                        \
  }                                                                                               \
  TC_FN void tc_storer_v##S(tc_##T *p, tc_m##S m, tc_v##S v) {                                     \
    int i = __builtin_ia32_movmskps256((tc_native_f32)m);                                         \
    if (i == 255) return tc_store_v##S(p, v);                                                     \
    tc_store_range(p, i, (TC_MASK_s)v);                                                           \
  }                                                                                               \
  TC_FN void tc_split_v##S(tc_##T *p, tc_##T *q, tc_v##S v) {                                      \
    TC_MASK_s s = (TC_MASK_s)v;                                                                   \
    *(TC_PIECE_16 *)p = __builtin_shufflevector(s, s, 0, 1, 2, 3);                                \
    *(TC_PIECE_16 *)q = __builtin_shufflevector(s, s, 4, 5, 6, 7);                                \
  }
#else
#define TC_VECTOR_MASK(S, T, N, SI, TI, F, W)                                                     \
  TC_VECTOR_MASK_TYPE(S, T, N, SI, TI)                                                            \
  TC_FN tc_v##S tc_loadf_v##S(const tc_##T *p, tc_m##S m, tc_v##S fill) {                          \
    for (int i = 0; i < N; i++)                                                                   \
      if (m[i]) fill[i] = p[i];                                                                   \
    return fill;                                                                                  \
  }                                                                                               \
  TC_FN tc_v##S tc_loadm_v##S(const tc_##T *p, tc_m##S m) {                                        \
    return tc_loadf_v##S(p, m, (tc_v##S){0});                                                      \
  }                                                                                               \
  TC_FN void tc_storem_v##S(tc_##T *p, tc_m##S m, tc_v##S v) {                                     \
    for (int i = 0; i < N; i++)                                                                   \
      if (m[i]) p[i] = v[i];                                                                      \
  }                                                                                               \
  TC_FN void tc_storet_v##S(tc_##T *p, tc_m##S m, tc_v##S v) { tc_storem_v##S(p, m, v); }          \
  TC_FN void tc_storer_v##S(tc_##T *p, tc_m##S m, tc_v##S v) { tc_storem_v##S(p, m, v); }          \
  TC_FN void tc_split_v##S(tc_##T *p, tc_##T *q, tc_v##S v) {                                      \
    for (int i = 0; i < N / 2; i++) p[i] = v[i], q[i] = v[N / 2 + i];                             \
  }
#endif
#endif

/* The four vector types: NS lanes of 32 bits, NL of 64. tc_native_f32 is v16f32 at 64 bytes. */
#define TC_VECTORS_(NS, NL)                                                                       \
  TC_VECTOR(NS##i32, i32, NS, NS##i32, i32) TC_VECTOR(NL##i64, i64, NL, NL##i64, i64)             \
  TC_VECTOR(NS##f32, f32, NS, NS##i32, i32) TC_VECTOR(NL##f64, f64, NL, NL##i64, i64)             \
  typedef tc_v##NS##i32 tc_native_i32; typedef tc_v##NL##i64 tc_native_i64;                       \
  typedef tc_v##NS##f32 tc_native_f32; typedef tc_v##NL##f64 tc_native_f64;                       \
  TC_FN tc_v##NS##i32 tc_iota_v##NS##i32(tc_i32 first) {                                          \
    return first + (tc_v##NS##i32)TC_IOTA_##NS;                                                   \
  }                                                                                               \
  TC_FN tc_v##NL##i64 tc_iota_v##NL##i64(tc_i64 first) {                                          \
    return first + (tc_v##NL##i64)TC_IOTA_##NL;                                                   \
  }                                                                                               \
  TC_VECTOR_CHOICE(NS##i32, NS##i32) TC_VECTOR_CHOICE(NL##i64, NL##i64)                           \
  TC_VECTOR_CHOICE(NS##f32, NS##i32) TC_VECTOR_CHOICE(NL##f64, NL##i64)                           \
  TC_VECTOR_INT(NS##i32) TC_VECTOR_INT(NL##i64)                                                   \
  TC_VECTOR_FLOAT(NS##f32, s) TC_VECTOR_FLOAT(NL##f64, d)                                               \
  TC_VECTOR_WITHIN(NS##f32, s) TC_VECTOR_WITHIN(NL##f64, d)                                       \
  TC_VECTOR_FOLD(NS##i32, i32, NS) TC_VECTOR_FOLD(NL##i64, i64, NL)                               \
  TC_VECTOR_FOLD(NS##f32, f32, NS) TC_VECTOR_FOLD(NL##f64, f64, NL)                               \
  TC_VECTOR_MASK(NS##i32, i32, NS, NS##i32, i32, tc_v##NS##f32, s)                                \
  TC_VECTOR_MASK(NL##i64, i64, NL, NL##i64, i64, tc_v##NL##f64, d)                                \
  TC_VECTOR_MASK(NS##f32, f32, NS, NS##i32, i32, tc_v##NS##f32, s)                                \
  TC_VECTOR_MASK(NL##f64, f64, NL, NL##i64, i64, tc_v##NL##f64, d)
#define TC_IOTA_2 {0, 1}
#define TC_IOTA_4 {0, 1, 2, 3}
#define TC_IOTA_8 {0, 1, 2, 3, 4, 5, 6, 7}
#define TC_IOTA_16 {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}

TC_EXPAND(TC_VECTORS_, TC_VL_f32, TC_VL_f64)

/* ---- places of extremes: tc_above_v16f32(x, e): where x takes the place of e, the largest before it,
 * as more or as the first NaN; tc_below_ of the smallest. tc_where_(e, extreme, place): the places of
 * lanes that hold the extreme of all, be it NaN, and in the others the last there is. */

#if TC_VECTOR_BYTES == 64 && defined(TC_ISA_AVX512)
/* 0x16, 0x19: not less or equal, not greater or equal, true of NaN; 7: no NaN. */
#define TC_BEATS_FLOAT(W, x, e, not)                                                              \
  __builtin_ia32_cmpp##W##512_mask(x, e, not, __builtin_ia32_cmpp##W##512_mask(e, e, 7, -1, 4), 4)
#define TC_PLACES_FLOAT(S, SI, W)                                                                 \
  TC_FN tc_m##S tc_above_v##S(tc_v##S x, tc_v##S e) { return TC_BEATS_FLOAT(W, x, e, 0x16); }       \
  TC_FN tc_m##S tc_below_v##S(tc_v##S x, tc_v##S e) { return TC_BEATS_FLOAT(W, x, e, 0x19); }
#define TC_PLACES_INT(S, W)                                                                       \
  TC_FN tc_m##S tc_above_v##S(tc_v##S x, tc_v##S e) {                                              \
    return __builtin_ia32_cmp##W##512_mask(x, e, 6, -1);                                          \
  }                                                                                               \
  TC_FN tc_m##S tc_below_v##S(tc_v##S x, tc_v##S e) {                                              \
    return __builtin_ia32_cmp##W##512_mask(x, e, 1, -1);                                          \
  }
#else
#define TC_PLACES_FLOAT(S, SI, W)                                                                 \
  TC_FN tc_m##S tc_above_v##S(tc_v##S x, tc_v##S e) { return (tc_v##SI)(e == e) & ~(x <= e); }      \
  TC_FN tc_m##S tc_below_v##S(tc_v##S x, tc_v##S e) { return (tc_v##SI)(e == e) & ~(x >= e); }
#define TC_PLACES_INT(S, W)                                                                       \
  TC_FN tc_m##S tc_above_v##S(tc_v##S x, tc_v##S e) { return x > e; }                              \
  TC_FN tc_m##S tc_below_v##S(tc_v##S x, tc_v##S e) { return x < e; }
#endif
#define TC_PLACES(S, T, SI, LAST)                                                                 \
  TC_FN tc_v##SI tc_where_v##S(tc_v##S e, tc_##T extreme, tc_v##SI place) {                        \
    return tc_select_v##SI((e == extreme) | (e != e), place, (tc_v##SI){0} + LAST);               \
  }
#define TC_ALL_PLACES(NS, NL)                                                                     \
  TC_PLACES_FLOAT(NS##f32, NS##i32, s) TC_PLACES_FLOAT(NL##f64, NL##i64, d)                       \
  TC_PLACES_INT(NS##i32, d) TC_PLACES_INT(NL##i64, q)                                             \
  TC_PLACES(NS##f32, f32, NS##i32, 0x7fffffff) TC_PLACES(NS##i32, i32, NS##i32, 0x7fffffff)       \
  TC_PLACES(NL##f64, f64, NL##i64, 0x7fffffffffffffffLL)                                          \
  TC_PLACES(NL##i64, i64, NL##i64, 0x7fffffffffffffffLL)
TC_EXPAND(TC_ALL_PLACES, TC_VL_f32, TC_VL_f64)

/* ---- strided access: lanes at p, p + step, ...; those from n on are neither read nor written */

#define TC_REVERSED2(v) __builtin_shufflevector(v, v, 1, 0)
#define TC_REVERSED4(v) __builtin_shufflevector(v, v, 3, 2, 1, 0)
#define TC_REVERSED8(v) __builtin_shufflevector(v, v, 7, 6, 5, 4, 3, 2, 1, 0)
#define TC_REVERSED16(v)                                                                          \
  __builtin_shufflevector(v, v, 15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0)
#define TC_STRIDED(S, T, N)                                                                       \
  TC_FN tc_v##S tc_loadx_v##S(const tc_##T *p, tc_i64 step, tc_i64 n) {                            \
    tc_v##S v = {0};                                                                              \
    if (__builtin_constant_p(step) && step == -1 && n >= N) {                                     \
      v = tc_load_v##S(p - (N - 1));                                                              \
      return TC_REVERSED##N(v);                                                                   \
    }                                                                                             \
    _Pragma("GCC unroll 16") for (int i = 0; i < N; i++) if (i < n) v[i] = p[i * step];           \
    return v;                                                                                     \
  }                                                                                               \
  TC_FN void tc_storex_v##S(tc_##T *p, tc_i64 step, tc_i64 n, tc_v##S v) {                         \
    _Pragma("GCC unroll 16") for (int i = 0; i < N; i++) if (i < n) p[i * step] = v[i];           \
  }
#define TC_STRIDES(NS, NL)                                                                        \
  TC_STRIDED(NS##f32, f32, NS) TC_STRIDED(NS##i32, i32, NS)                                       \
  TC_STRIDED(NL##f64, f64, NL) TC_STRIDED(NL##i64, i64, NL)
TC_EXPAND(TC_STRIDES, TC_VL_f32, TC_VL_f64)

/* Lanes low <= i < high at p + i * step; the others are not read and have those of fill. */
#define TC_STRIDED_RANGE(S, T, N)                                                                 \
  TC_FN tc_v##S tc_loadr_v##S(const tc_##T *p, tc_i64 step, tc_i64 low, tc_i64 high, tc_v##S fill) { \
    for (tc_i64 i = TC_CLAMP(low, N); i < high && i < N; i++) fill[i] = p[i * step];               \
    return fill;                                                                                  \
  }
#define TC_STRIDED_RANGES(NS, NL)                                                                 \
  TC_STRIDED_RANGE(NS##f32, f32, NS) TC_STRIDED_RANGE(NS##i32, i32, NS)                           \
  TC_STRIDED_RANGE(NL##f64, f64, NL) TC_STRIDED_RANGE(NL##i64, i64, NL)
TC_EXPAND(TC_STRIDED_RANGES, TC_VL_f32, TC_VL_f64)

/* Lanes at p, p + 2, ..., p + 2 * (N - 1): nothing behind the last is read. tc_load2f: those
 * of the masks of p and of p + N - 1, the others have those of fill, in which all lanes are alike.
 * tc_load2w, tc_load2wf leave them woven, as halves of registers give them (0 1 4 5 2 3 6 7 of 32
 * bytes), which saves the shuffle between halves; tc_unwoven puts them in order. */
#define TC_PAIRS(S, T, N)                                                                         \
  TC_FN tc_v##S tc_load2_v##S(const tc_##T *p) {                                                  \
    return __builtin_shufflevector(tc_load_v##S(p), tc_load_v##S(p + N - 1), TC_SECOND_##N);       \
  }                                                                                               \
  TC_FN tc_v##S tc_load2w_v##S(const tc_##T *p) {                                                 \
    return __builtin_shufflevector(tc_load_v##S(p), tc_load_v##S(p + N - 1), TC_WOVEN_##N);        \
  }                                                                                               \
  TC_FN tc_v##S tc_unwoven_v##S(tc_v##S v) { return __builtin_shufflevector(v, v, TC_UNWOVEN_##N); } \
  TC_PAIRS_SOME(S, T, N, load2f, TC_SECOND_##N)                                                   \
  TC_PAIRS_SOME(S, T, N, load2wf, TC_WOVEN_##N)
#define TC_PAIRS_SOME(S, T, N, name, ...)                                                         \
  TC_FN tc_v##S tc_##name##_v##S(const tc_##T *p, tc_m##S m, tc_m##S n, tc_v##S fill) {            \
    tc_v##S a = tc_loadf_v##S(p, m, fill), b = tc_loadf_v##S(p + N - 1, n, fill);                  \
    return __builtin_shufflevector(a, b, __VA_ARGS__);                                            \
  }
#if TC_VECTOR_BYTES == 32
#define TC_WOVEN_4 0, 5, 2, 7
#define TC_WOVEN_8 0, 2, 9, 11, 4, 6, 13, 15
#define TC_UNWOVEN_4 0, 2, 1, 3
#define TC_UNWOVEN_8 0, 1, 4, 5, 2, 3, 6, 7
#else
#define TC_WOVEN_2 TC_SECOND_2
#define TC_WOVEN_4 TC_SECOND_4
#define TC_WOVEN_8 TC_SECOND_8
#define TC_WOVEN_16 TC_SECOND_16
#define TC_UNWOVEN_2 TC_IN_ORDER_2
#define TC_UNWOVEN_4 TC_IN_ORDER_4
#define TC_UNWOVEN_8 TC_IN_ORDER_8
#define TC_UNWOVEN_16 TC_IN_ORDER_16
#define TC_IN_ORDER_2 0, 1
#define TC_IN_ORDER_4 0, 1, 2, 3
#define TC_IN_ORDER_8 0, 1, 2, 3, 4, 5, 6, 7
#define TC_IN_ORDER_16 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15
#endif
#define TC_SECOND_2 0, 3
#define TC_SECOND_4 0, 2, 5, 7
#define TC_SECOND_8 0, 2, 4, 6, 9, 11, 13, 15
#define TC_SECOND_16 0, 2, 4, 6, 8, 10, 12, 14, 17, 19, 21, 23, 25, 27, 29, 31
#define TC_PAIRS_(NS, NL)                                                                         \
  TC_PAIRS(NS##f32, f32, NS) TC_PAIRS(NS##i32, i32, NS)                                           \
  TC_PAIRS(NL##f64, f64, NL) TC_PAIRS(NL##i64, i64, NL)
TC_EXPAND(TC_PAIRS_, TC_VL_f32, TC_VL_f64)

/* Whether a store under a mask takes longer than a whole one: on AVX2 ten times as long on Zen 3;
 * below AVX2 it is a loop. */
#if TC_VECTOR_BYTES == 64 && defined(TC_ISA_AVX512)
#define TC_SLOW_MASKS 0
#else
#define TC_SLOW_MASKS 1
#endif
/* Lanes at p, p + 2, ...; those from n on are not written. */
#if TC_VECTOR_BYTES == 64 && defined(TC_ISA_AVX512)
#define TC_EVEN(S, SI) ((tc_m##S)0x5555)
#else
#define TC_EVEN(S, SI) ((tc_iota_v##SI(0) & 1) == 0)
#endif
#define TC_SPREAD(S, T, N, SI)                                                                    \
  TC_FN void tc_store2_v##S(tc_##T *p, tc_i64 n, tc_v##S v) {                                      \
    if (TC_SLOW_MASKS) return tc_storex_v##S(p, 2, n, v);                                         \
    tc_v##S low = __builtin_shufflevector(v, v, TC_TWICE_##N(0));                                 \
    tc_v##S high = __builtin_shufflevector(v, v, TC_TWICE_##N(N / 2));                            \
    tc_storem_v##S(p, TC_EVEN(S, SI) & tc_tail_v##S(2 * n), low);                                 \
    tc_storem_v##S(p + N, TC_EVEN(S, SI) & tc_tail_v##S(2 * n - N), high);                        \
  }
#define TC_TWICE_2(f) f, f
#define TC_TWICE_4(f) f, f, f + 1, f + 1
#define TC_TWICE_8(f) TC_TWICE_4(f), TC_TWICE_4(f + 2)
#define TC_TWICE_16(f) TC_TWICE_8(f), TC_TWICE_8(f + 4)
#define TC_SPREADS(NS, NL)                                                                        \
  TC_SPREAD(NS##f32, f32, NS, NS##i32) TC_SPREAD(NL##f64, f64, NL, NL##i64)
TC_EXPAND(TC_SPREADS, TC_VL_f32, TC_VL_f64)

/* gcc 12 widens half a register at a time, and narrows by a dozen shuffles. */
#if TC_VECTOR_BYTES == 32 && defined(__AVX2__) && !defined(__clang__)
#define TC_LONGS(h, V) ((V)__builtin_ia32_pmovsxdq256(h))
#else
#define TC_LONGS(h, V) __builtin_convertvector(h, V)
#endif
#if TC_VECTOR_BYTES == 32
#define TC_INTS(a, b, NS, NL)                                                                     \
  __builtin_shufflevector((tc_v##NS##i32)(a), (tc_v##NS##i32)(b), 0, 2, 4, 6, 8, 10, 12, 14)
#else
#define TC_INTS(a, b, NS, NL)                                                                     \
  __builtin_shufflevector(__builtin_convertvector(a, tc_half_i32),                                \
                          __builtin_convertvector(b, tc_half_i32), TC_LOW_##NL, TC_HIGH_##NL)
#endif
/* Lanes of 32 bits as elements of 64 at p, p + 1, ...: tc_storew writes the first n, tc_loadn reads
 * lanes low <= i < high of what 32 bits hold; the others are 0. */
#define TC_WIDENED(NS, NL)                                                                        \
  typedef tc_i32 tc_half_i32 __attribute__((vector_size(NL * 4)));                                \
  TC_FN void tc_storew_v##NS##i32(tc_i64 *p, tc_i64 n, tc_v##NS##i32 v) {                          \
    tc_half_i32 low = __builtin_shufflevector(v, v, TC_LOW_##NL);                                 \
    tc_half_i32 high = __builtin_shufflevector(v, v, TC_HIGH_##NL);                               \
    tc_v##NL##i64 a = TC_LONGS(low, tc_v##NL##i64), b = TC_LONGS(high, tc_v##NL##i64);            \
    if (TC_SLOW_MASKS && n >= NS) {                                                               \
      tc_store_v##NL##i64(p, a);                                                                  \
      tc_store_v##NL##i64(p + NL, b);                                                             \
      return;                                                                                     \
    }                                                                                             \
    tc_storem_v##NL##i64(p, tc_tail_v##NL##i64(n), a);                                            \
    tc_storem_v##NL##i64(p + NL, tc_tail_v##NL##i64(n - NL), b);                                  \
  }                                                                                               \
  TC_FN tc_v##NS##i32 tc_loadn_v##NS##i32(const tc_i64 *p, tc_i64 low, tc_i64 high) {             \
    if (TC_SLOW_MASKS && low <= 0 && high >= NS)                                                  \
      return TC_INTS(tc_load_v##NL##i64(p), tc_load_v##NL##i64(p + NL), NS, NL);                  \
    tc_v##NL##i64 a = tc_loadm_v##NL##i64(p, tc_range_v##NL##i64(low, high));                      \
    tc_v##NL##i64 b = tc_loadm_v##NL##i64(p + NL, tc_range_v##NL##i64(low - NL, high - NL));       \
    return TC_INTS(a, b, NS, NL);                                                                 \
  }
#define TC_LOW_2 0, 1
#define TC_LOW_4 0, 1, 2, 3
#define TC_LOW_8 0, 1, 2, 3, 4, 5, 6, 7
#define TC_HIGH_2 2, 3
#define TC_HIGH_4 4, 5, 6, 7
#define TC_HIGH_8 8, 9, 10, 11, 12, 13, 14, 15
TC_EXPAND(TC_WIDENED, TC_VL_f32, TC_VL_f64)

/* ---- stores past the cache: p aligned to the vector, tc_stream_end() after the last */

#if defined(__clang__)
#define TC_MOVNT(W, F, p, v) __builtin_nontemporal_store(v, (F *)(p))
#elif TC_VECTOR_BYTES == 64 && defined(__AVX512F__)
#define TC_MOVNT(W, F, p, v) __builtin_ia32_movntp##W##512((void *)(p), v)
#elif TC_VECTOR_BYTES == 32 && defined(__AVX__)
#define TC_MOVNT(W, F, p, v) __builtin_ia32_movntp##W##256((void *)(p), v)
#elif TC_VECTOR_BYTES == 16 && defined(__SSE2__)
#define TC_MOVNT(W, F, p, v) __builtin_ia32_movntp##W((void *)(p), v)
#else
#define TC_MOVNT(W, F, p, v) (*(F *)(p) = (v))
#endif
#define TC_STREAM(S, T, F, W)                                                                     \
  TC_FN void tc_stream_v##S(tc_##T *p, tc_v##S v) { TC_MOVNT(W, F, p, (F)v); }
#define TC_STREAMS(NS, NL)                                                                        \
  TC_STREAM(NS##f32, f32, tc_native_f32, s) TC_STREAM(NL##f64, f64, tc_native_f64, d)             \
  TC_STREAM(NS##i32, i32, tc_native_f32, s) TC_STREAM(NL##i64, i64, tc_native_f64, d)
TC_EXPAND(TC_STREAMS, TC_VL_f32, TC_VL_f64)

/* ---- conversions between vectors: tc_FROM_TO lane by lane; float64 needs two of float32
 * (tc_low_v8f64, tc_high_v8f64 widen, tc_join_v16f32 rounds back). Halves are read and written as
 * float32 vectors: tc_load_v16f32_f16, tc_loadm_, tc_store_, tc_storem_, and the same with bf16.
 * tc_odd_v16i32: what float32 holds of an integer, as in scalars.h. */

/* gcc 12 converts half a register at a time. */
#if TC_VECTOR_BYTES == 64 && defined(TC_ISA_AVX512) && !defined(__clang__)
#define TC_WIDEN(h, V) __builtin_ia32_cvtps2pd512_mask(h, (V){0}, (char)-1, 4)
#elif TC_VECTOR_BYTES == 32 && defined(__AVX__) && !defined(__clang__)
#define TC_WIDEN(h, V) __builtin_ia32_cvtps2pd256(h)
#else
#define TC_WIDEN(h, V) __builtin_convertvector(h, V)
#endif
#define TC_VECTOR_CONVERT(NS, NL)                                                                 \
  typedef tc_f32 tc_half_f32 __attribute__((vector_size(NL * 4)));                             \
  TC_FN tc_v##NS##f32 tc_v##NS##i32_v##NS##f32(tc_v##NS##i32 v) {                                 \
    return __builtin_convertvector(v, tc_v##NS##f32);                                             \
  }                                                                                               \
  TC_FN tc_v##NS##i32 tc_odd_v##NS##i32(tc_v##NS##i32 v) {                                        \
    tc_v##NS##i32 is_long = ((v > 0xffffff) | (v < -0xffffff)) & ((v & 0x7f) != 0);               \
    return tc_select_v##NS##i32(is_long, (v | 0x80) & ~0x7f, v);                                  \
  }                                                                                               \
  TC_FN tc_v##NL##f64 tc_v##NL##i64_v##NL##f64(tc_v##NL##i64 v) {                                 \
    return __builtin_convertvector(v, tc_v##NL##f64);                                             \
  }                                                                                               \
  TC_FN tc_v##NL##f64 tc_low_v##NL##f64(tc_v##NS##f32 v) {                                        \
    tc_half_f32 h = __builtin_shufflevector(v, v, TC_LOW_##NL);                                \
    return TC_WIDEN(h, tc_v##NL##f64);                                             \
  }                                                                                               \
  TC_FN tc_v##NL##f64 tc_high_v##NL##f64(tc_v##NS##f32 v) {                                       \
    tc_half_f32 h = __builtin_shufflevector(v, v, TC_HIGH_##NL);                               \
    return TC_WIDEN(h, tc_v##NL##f64);                                             \
  }                                                                                               \
  TC_FN tc_v##NS##f32 tc_join_v##NS##f32(tc_v##NL##f64 low, tc_v##NL##f64 high) {                 \
    tc_half_f32 l = __builtin_convertvector(low, tc_half_f32);                              \
    tc_half_f32 h = __builtin_convertvector(high, tc_half_f32);                             \
    return __builtin_shufflevector(l, h, TC_LOW_##NL, TC_HIGH_##NL);                              \
  }
TC_EXPAND(TC_VECTOR_CONVERT, TC_VL_f32, TC_VL_f64)

/* 16-bit vectors in registers: the widths of one v*f32. */
typedef tc_u16 tc_halves __attribute__((vector_size(TC_VECTOR_BYTES / 2)));
typedef tc_u16 tc_halves_u __attribute__((vector_size(TC_VECTOR_BYTES / 2), aligned(2), may_alias));

#define TC_MASK_OF(N) tc_m##N##f32
TC_FN void tc_store_halves(tc_u16 *p, tc_halves h) { *(tc_halves_u *)p = h; }

/* The processor's own rounding takes denormals for zero: it serves vectors that have none. */
#if TC_VECTOR_BYTES == 64 && defined(TC_ISA_AVX512) && defined(__AVX512BF16__)
#define TC_NARROW_BF16(v)                                                                         \
  unsigned short denormal;                                                                        \
  tc_halves h;                                                                                    \
  __asm__("vfpclassps $0x20, %1, %0" : "=k"(denormal) : "v"(v));                                  \
  __asm__("vcvtneps2bf16 %1, %0" : "=v"(h) : "v"(v));                                             \
  return __builtin_expect(denormal != 0, 0) ? tc_round_bf16(v) : h;
#else
#define TC_NARROW_BF16(v) return tc_round_bf16(v);
#endif
/* gcc 12 converts half a register at a time; what is packed is 16 bits already. */
#if TC_VECTOR_BYTES == 32 && defined(__AVX2__) && !defined(__clang__)
typedef short TC_SHORTS __attribute__((vector_size(16)));
#define TC_WORDS(h) ((tc_words)__builtin_ia32_pmovzxwd256((TC_SHORTS)(h)))
TC_FN tc_halves tc_packed(tc_native_i32 v) {
  tc_native_i64 both = (tc_native_i64)__builtin_ia32_packusdw256(v, v);
  return (tc_halves)__builtin_shufflevector(both, both, 0, 2);
}
#define TC_HALVES(v) tc_packed((tc_native_i32)(v))
#else
#define TC_WORDS(h) __builtin_convertvector(h, tc_words)
#define TC_HALVES(v) __builtin_convertvector(v, tc_halves)
#endif
#define TC_VECTOR_HALVES(N)                                                                       \
  typedef tc_u32 tc_words __attribute__((vector_size(TC_VECTOR_BYTES)));                          \
  TC_FN tc_v##N##f32 tc_widen_bf16(tc_halves h) { return (tc_v##N##f32)(TC_WORDS(h) << 16); }      \
  TC_FN tc_halves tc_round_bf16(tc_v##N##f32 v) {                                                 \
    tc_words bits = (tc_words)v, rounded = bits + 0x7fff + (bits >> 16 & 1), quiet = bits | 0x400000; \
    tc_v##N##f32 r = tc_select_v##N##f32(v != v, (tc_v##N##f32)quiet, (tc_v##N##f32)rounded);     \
    return TC_HALVES((tc_words)r >> 16);                                                          \
  }                                                                                               \
  TC_FN tc_halves tc_narrow_bf16(tc_v##N##f32 v) { TC_NARROW_BF16(v) }                            \
  TC_VECTOR_HALF(N, f16) TC_VECTOR_HALF(N, bf16)
#define TC_VECTOR_HALF(N, H)                                                                      \
  TC_FN tc_v##N##f32 tc_load_v##N##f32_##H(const tc_##H *p) {                                     \
    return tc_widen_##H(*(const tc_halves_u *)p);                                                 \
  }                                                                                               \
  TC_FN void tc_store_v##N##f32_##H(tc_##H *p, tc_v##N##f32 v) {                                  \
    *(tc_halves_u *)p = tc_narrow_##H(v);                                                         \
  }                                                                                               \
  TC_FN tc_v##N##f32 tc_loadm_v##N##f32_##H(const tc_##H *p, tc_m##N##f32 m) {                    \
    return tc_widen_##H(tc_loadm_halves(p, m));                                                   \
  }                                                                                               \
  TC_FN void tc_storem_v##N##f32_##H(tc_##H *p, tc_m##N##f32 m, tc_v##N##f32 v) {                 \
    tc_storem_halves(p, m, tc_narrow_##H(v));                                                     \
  }                                                                                               \
  TC_FN void tc_storet_v##N##f32_##H(tc_##H *p, tc_m##N##f32 m, tc_v##N##f32 v) {                 \
    tc_storem_v##N##f32_##H(p, m, v);                                                             \
  }                                                                                               \
  TC_FN tc_v##N##f32 tc_loadr_v##N##f32_##H(const tc_##H *p, tc_i64 step, tc_i64 low, tc_i64 high, \
                                            tc_v##N##f32 fill) {                                  \
    for (tc_i64 i = TC_CLAMP(low, N); i < high && i < N; i++) fill[i] = tc_##H##_f32(p[i * step]); \
    return fill;                                                                                  \
  }                                                                                               \
  TC_FN tc_v##N##f32 tc_loadx_v##N##f32_##H(const tc_##H *p, tc_i64 step, tc_i64 n) {              \
    return tc_loadr_v##N##f32_##H(p, step, 0, n, (tc_v##N##f32){0});                               \
  }

#if TC_VECTOR_BYTES == 64 && defined(TC_ISA_AVX512)
typedef short TC_HI __attribute__((vector_size(32)));
TC_FN tc_v16f32 tc_widen_f16(tc_halves h) {
  return (tc_v16f32)__builtin_ia32_vcvtph2ps512_mask((TC_HI)h, (tc_v16f32){0}, (short)-1, 4);
}
TC_FN tc_halves tc_narrow_f16(tc_v16f32 v) {
  return (tc_halves)__builtin_ia32_vcvtps2ph512_mask(v, 0, (TC_HI){0}, (short)-1);
}
TC_FN tc_halves tc_loadm_halves(const tc_u16 *p, tc_m16f32 m) {
  return (tc_halves)__builtin_ia32_loaddquhi256_mask((const void *)p, (TC_HI){0}, m);
}
TC_FN void tc_storem_halves(tc_u16 *p, tc_m16f32 m, tc_halves h) {
  __builtin_ia32_storedquhi256_mask((void *)p, (TC_HI)h, m);
}
#else
#if TC_VECTOR_BYTES == 32 && defined(__F16C__)
typedef short TC_HI __attribute__((vector_size(16)));
TC_FN tc_v8f32 tc_widen_f16(tc_halves h) {
#if __has_builtin(__builtin_ia32_vcvtph2ps256)
  return __builtin_ia32_vcvtph2ps256((TC_HI)h);
#else /* clang has dropped it since */
  typedef _Float16 tc_v8f16 __attribute__((vector_size(16)));
  return __builtin_convertvector((tc_v8f16)h, tc_v8f32);
#endif
}
TC_FN tc_halves tc_narrow_f16(tc_v8f32 v) { return (tc_halves)__builtin_ia32_vcvtps2ph256(v, 0); }
#else
TC_FN tc_native_f32 tc_widen_f16(tc_halves h) {
  tc_native_f32 v;
  for (int i = 0; i < TC_VL_f32; i++) v[i] = tc_f16_f32(h[i]);
  return v;
}
TC_FN tc_halves tc_narrow_f16(tc_native_f32 v) {
  tc_halves h;
  for (int i = 0; i < TC_VL_f32; i++) h[i] = tc_f32_f16(v[i]);
  return h;
}
#endif
#if TC_VECTOR_BYTES == 32 && defined(__AVX2__)
/* In few instructions: beside many for single lanes gcc 12 keeps what nobody reads in loops around.
 * Most masks have all lanes, most others the first ones. i: a bit for each lane. */
typedef tc_u32 TC_TWO_HALVES __attribute__((aligned(2), may_alias));
typedef tc_u64 TC_FOUR_HALVES __attribute__((aligned(2), may_alias));
typedef tc_u64 TC_PAIR __attribute__((vector_size(16)));
TC_FN tc_u64 tc_first_halves(const tc_u16 *p, int n) {
  tc_u64 two = n & 2 ? *(const TC_TWO_HALVES *)p : 0;
  return n & 1 ? two | (tc_u64)p[n & 2] << (n & 2) * 16 : two;
}
TC_FN tc_halves tc_loadm_halves(const tc_u16 *p, tc_native_i32 m) {
  int i = __builtin_ia32_movmskps256((tc_native_f32)m), n = __builtin_popcount(i);
  if (n == 8) return *(const tc_halves_u *)p;
  if (i & (i + 1)) {
    tc_u16 some[8] = {0};
    for (; i; i &= i - 1) some[__builtin_ctz(i)] = p[__builtin_ctz(i)];
    return *(const tc_halves_u *)some;
  }
  if (n < 4) return (tc_halves)(TC_PAIR){tc_first_halves(p, n)};
  return (tc_halves)(TC_PAIR){*(const TC_FOUR_HALVES *)p, tc_first_halves(p + 4, n - 4)};
}
TC_FN void tc_storem_halves(tc_u16 *p, tc_native_i32 m, tc_halves h) {
  int i = __builtin_ia32_movmskps256((tc_native_f32)m);
  if (i == 255) {
    tc_store_halves(p, h);
    return;
  }
  tc_u16 all[8];
  tc_store_halves(all, h);
  for (; i; i &= i - 1) p[__builtin_ctz(i)] = all[__builtin_ctz(i)];
}
#else
TC_FN tc_halves tc_loadm_halves(const tc_u16 *p, tc_native_i32 m) {
  tc_halves h = {0};
  for (int i = 0; i < TC_VL_f32; i++)
    if (m[i]) h[i] = p[i];
  return h;
}
TC_FN void tc_storem_halves(tc_u16 *p, tc_native_i32 m, tc_halves h) {
  for (int i = 0; i < TC_VL_f32; i++)
    if (m[i]) p[i] = h[i];
}
#endif
#endif
TC_FN void tc_storet_halves(tc_u16 *p, TC_EXPAND(TC_MASK_OF, TC_VL_f32) m, tc_halves h) {
  tc_storem_halves(p, m, h);
}

TC_EXPAND(TC_VECTOR_HALVES, TC_VL_f32)

/* ---- transposes: tc_transpose_v16f32(r) turns the square r[0], ..., r[15] around in registers */

#if TC_VECTOR_BYTES == 64
#define TC_ZIP_LOW_f32 0, 16, 1, 17, 4, 20, 5, 21, 8, 24, 9, 25, 12, 28, 13, 29
#define TC_ZIP_HIGH_f32 2, 18, 3, 19, 6, 22, 7, 23, 10, 26, 11, 27, 14, 30, 15, 31
#define TC_ZIP_LOW_f64 0, 8, 2, 10, 4, 12, 6, 14
#define TC_ZIP_HIGH_f64 1, 9, 3, 11, 5, 13, 7, 15
#elif TC_VECTOR_BYTES == 32
#define TC_ZIP_LOW_f32 0, 8, 1, 9, 4, 12, 5, 13
#define TC_ZIP_HIGH_f32 2, 10, 3, 11, 6, 14, 7, 15
#define TC_ZIP_LOW_f64 0, 4, 2, 6
#define TC_ZIP_HIGH_f64 1, 5, 3, 7
#else
#define TC_ZIP_LOW_f32 0, 4, 1, 5
#define TC_ZIP_HIGH_f32 2, 6, 3, 7
#define TC_ZIP_LOW_f64 0, 2
#define TC_ZIP_HIGH_f64 1, 3
#endif
/* Interleave the lanes of a and b within blocks of 16 bytes: low ones to a, high ones to b. */
TC_FN void tc_zip_f32(tc_native_f32 *a, tc_native_f32 *b) {
  tc_native_f32 low = __builtin_shufflevector(*a, *b, TC_ZIP_LOW_f32);
  *b = __builtin_shufflevector(*a, *b, TC_ZIP_HIGH_f32);
  *a = low;
}
TC_FN void tc_zip_f64(tc_native_f64 *a, tc_native_f64 *b) {
  tc_native_f64 low = __builtin_shufflevector(*a, *b, TC_ZIP_LOW_f64);
  *b = __builtin_shufflevector(*a, *b, TC_ZIP_HIGH_f64);
  *a = low;
}
/* Transpose the blocks of 16 bytes of r[0], r[step], ...: one vector per block. */
TC_FN void tc_turn_blocks(tc_native_f64 *r, int step) {
#if TC_VECTOR_BYTES == 64
  tc_native_f64 a = r[0], b = r[step], c = r[2 * step], d = r[3 * step];
  tc_native_f64 ab_even = __builtin_shufflevector(a, b, 0, 1, 4, 5, 8, 9, 12, 13);
  tc_native_f64 ab_odd = __builtin_shufflevector(a, b, 2, 3, 6, 7, 10, 11, 14, 15);
  tc_native_f64 cd_even = __builtin_shufflevector(c, d, 0, 1, 4, 5, 8, 9, 12, 13);
  tc_native_f64 cd_odd = __builtin_shufflevector(c, d, 2, 3, 6, 7, 10, 11, 14, 15);
  r[0] = __builtin_shufflevector(ab_even, cd_even, 0, 1, 4, 5, 8, 9, 12, 13);
  r[step] = __builtin_shufflevector(ab_odd, cd_odd, 0, 1, 4, 5, 8, 9, 12, 13);
  r[2 * step] = __builtin_shufflevector(ab_even, cd_even, 2, 3, 6, 7, 10, 11, 14, 15);
  r[3 * step] = __builtin_shufflevector(ab_odd, cd_odd, 2, 3, 6, 7, 10, 11, 14, 15);
#elif TC_VECTOR_BYTES == 32
  tc_native_f64 a = r[0], b = r[step];
  r[0] = __builtin_shufflevector(a, b, 0, 1, 4, 5);
  r[step] = __builtin_shufflevector(a, b, 2, 3, 6, 7);
#else
  (void)r, (void)step;
#endif
}
TC_FN void tc_transpose_f64(tc_native_f64 *r) {
#pragma GCC unroll 8
  for (int i = 0; i < TC_VL_f64; i += 2) tc_zip_f64(r + i, r + i + 1);
  tc_turn_blocks(r, 2);
  tc_turn_blocks(r + 1, 2);
}
TC_FN void tc_transpose_f32(tc_native_f32 *r) {
  tc_native_f64 q[TC_VL_f32];
#pragma GCC unroll 16
  for (int i = 0; i < TC_VL_f32; i += 2) tc_zip_f32(r + i, r + i + 1);
#pragma GCC unroll 16
  for (int i = 0; i < TC_VL_f32; i += 4) { /* four columns of four rows, in their order */
    q[i] = (tc_native_f64)r[i];
    q[i + 1] = (tc_native_f64)r[i + 2];
    q[i + 2] = (tc_native_f64)r[i + 1];
    q[i + 3] = (tc_native_f64)r[i + 3];
    tc_zip_f64(q + i, q + i + 1);
    tc_zip_f64(q + i + 2, q + i + 3);
  }
#pragma GCC unroll 4
  for (int c = 0; c < 4; c++) tc_turn_blocks(q + c, 4);
#pragma GCC unroll 16
  for (int i = 0; i < TC_VL_f32; i++) r[i] = (tc_native_f32)q[i];
}
#define TC_TRANSPOSE(NS, NL)                                                                      \
  TC_FN void tc_transpose_v##NS##f32(tc_v##NS##f32 *r) { tc_transpose_f32(r); }                   \
  TC_FN void tc_transpose_v##NL##f64(tc_v##NL##f64 *r) { tc_transpose_f64(r); }
TC_EXPAND(TC_TRANSPOSE, TC_VL_f32, TC_VL_f64)

/* a / b for a >= 0, b > 0, where a is mostly less. */
TC_FN tc_i64 tc_quotient_i64(tc_i64 a, tc_i64 b) { return a < b ? 0 : a / b; }

/* ---- points of a row that lie apart, copied next to each other: elements of 1, 2, 4, 8 bytes
 *
 * tc_fill: n times the point at from. tc_line: n points at from, from + step, ... tc_spread: n points to to, to + step, ... tc_turn: of
 * rows whose points at the same place are neighbours (from[r + c * step]), n points each, row r to
 * to + r * pitch. */

typedef tc_u8 tc_bytes_1 __attribute__((may_alias));
typedef tc_u16 tc_bytes_2 __attribute__((may_alias));
typedef tc_u32 tc_bytes_4 __attribute__((may_alias));
typedef tc_u64 tc_bytes_8 __attribute__((may_alias));
#define TC_COPIES(B)                                                                              \
  TC_FN void tc_fill_##B(void *to, const void *from, tc_i64 n) {                                  \
    tc_bytes_##B *o = to, value = *(const tc_bytes_##B *)from;                                    \
    for (tc_i64 i = 0; i < n; i++) o[i] = value;                                                  \
  }                                                                                               \
  __attribute__((noinline, unused)) static void tc_line_##B(void *to, const void *from, tc_i64 step, tc_i64 n) {    \
    tc_bytes_##B *o = to;                                                                         \
    const tc_bytes_##B *p = from;                                                                 \
    if (step == 2)                                                                                \
      for (tc_i64 i = 0; i < n; i++) o[i] = p[2 * i];                                             \
    else if (step == -1)                                                                          \
      for (tc_i64 i = 0; i < n; i++) o[i] = p[-i];                                                \
    else                                                                                          \
      for (tc_i64 i = 0; i < n; i++) o[i] = p[i * step];                                          \
  }                                                                                               \
  __attribute__((noinline, unused)) static void tc_spread_##B(void *to, tc_i64 step, const void *from, tc_i64 n) {  \
    tc_bytes_##B *o = to;                                                                         \
    const tc_bytes_##B *p = from;                                                                 \
    for (tc_i64 i = 0; i < n; i++) o[i * step] = p[i];                                            \
  }                                                                                               \
  TC_FN void tc_turn_some_##B(tc_bytes_##B *to, tc_i64 pitch, const tc_bytes_##B *from, tc_i64 step, tc_i64 rows,    \
                              tc_i64 low, tc_i64 n) {                                             \
    for (tc_i64 c = low; c < n; c++)                                                              \
      for (tc_i64 r = 0; r < rows; r++) to[r * pitch + c] = from[c * step + r];                   \
  }
TC_COPIES(1) TC_COPIES(2) TC_COPIES(4) TC_COPIES(8)
#define TC_TURNS(B)                                                                               \
  __attribute__((noinline, unused)) static void tc_turn_##B(void *to, tc_i64 pitch, const void *from, tc_i64 step,  \
                                                            tc_i64 rows, tc_i64 n) {              \
    tc_turn_some_##B(to, pitch, from, step, rows, 0, n);                                          \
  }
TC_TURNS(1) TC_TURNS(2)
/* T: the float of B bytes: vectors of it are moved, never computed with. Asked for ahead: columns
 * are pages apart, and no hardware fetches the next ones. */
#define TC_TURNS_IN_SQUARES(B, T)                                                                 \
  __attribute__((noinline, unused)) static void tc_turn_##B(void *to, tc_i64 pitch, const void *from, tc_i64 step,  \
                                                            tc_i64 rows, tc_i64 n) {              \
    enum { L = TC_VECTOR_BYTES / B };                                                             \
    tc_bytes_##B *o = to;                                                                         \
    const tc_bytes_##B *p = from;                                                                 \
    tc_i64 whole = n / L * L, r = 0;                                                              \
    for (; r + L <= rows; r += L)                                                                 \
      for (tc_i64 c = 0; c < whole; c += L) {                                                     \
        tc_native_##T square[L];                                                                  \
        _Pragma("GCC unroll 16") for (int k = 0; k < L; k++) {                                    \
          const tc_bytes_##B *at = p + r + (c + k) * step;                                        \
          __builtin_prefetch(at + L * step);                                                      \
          __builtin_memcpy(&square[k], at, sizeof square[k]);                                     \
        }                                                                                         \
        tc_transpose_##T(square);                                                                 \
        _Pragma("GCC unroll 16") for (int k = 0; k < L; k++)                                      \
          __builtin_memcpy(o + (r + k) * pitch + c, &square[k], sizeof square[k]);                \
      }                                                                                           \
    if (r) tc_turn_some_##B(o, pitch, p, step, r, whole, n);                                      \
    if (r < rows) tc_turn_some_##B(o + r * pitch, pitch, p + r, step, rows - r, 0, n);            \
  }
TC_TURNS_IN_SQUARES(4, f32) TC_TURNS_IN_SQUARES(8, f64)
#endif
