/* Vectors of the native width and their masks: made, loaded, chosen among, folded; places of extremes.
 * Of prelude.h, which includes it. */
#ifndef TC_VECTORS_H
#define TC_VECTORS_H

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
 * tc_loadf gives those of fill; tc_storem writes the mask's lanes only; tc_keep(m, a, b) chooses,
 * tc_masked has a vector's or 0, where masks have no registers of their own. tc_storet is tc_storem of the first lanes, and most often of all, tc_storer of lanes that follow
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
  }                                                                                               \
  TC_FN tc_v##S tc_masked_v##S(tc_v##S v, tc_m##S m) { return (tc_v##S)((tc_m##S)v & m); }
#if TC_VECTOR_BYTES == 32 && defined(__AVX2__)
/* AMD's processors before Zen 4 take 42 micro-operations for a masked store: a whole vector, or
 * pieces of one, are faster, a tile of 6x2 vectors and 26 steps by a quarter. i: a bit for 4 bytes,
 * of which the first ones are set. */
typedef int TC_MASK_s __attribute__((vector_size(32)));
typedef long long TC_MASK_d __attribute__((vector_size(32)));
typedef int TC_PIECE_32 __attribute__((vector_size(32), aligned(4), may_alias));
typedef int TC_PIECE_16 __attribute__((vector_size(16), aligned(4), may_alias));
typedef int TC_PIECE_8 __attribute__((vector_size(8), aligned(4), may_alias));
typedef int TC_PIECE_4 __attribute__((may_alias));
TC_FN void tc_store_known(void *to, int i, TC_MASK_s v) {
  char *p = (char *)to;
  if (i == 255) {
    *(TC_PIECE_32 *)p = v;
    return;
  }
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
/* The same as one instruction to gcc, which passes through six blocks for each store else: rows of
 * any length have a dozen stores. What is stored is some of 32 bytes; a sanitizer sees it in C. */
#ifdef __SANITIZE_ADDRESS__
#define TC_IS_IN_C(i) 1
#else
#define TC_IS_IN_C(i) __builtin_constant_p(i)
#endif
TC_FN void tc_store_pieces(void *to, int i, TC_MASK_s v) {
  if (TC_IS_IN_C(i)) return tc_store_known(to, i, v);
  char *p = (char *)to;
  __asm__("cmpl $255, %[i]\n\tjne 1f\n\t"
          "vmovdqu %[v], (%[p])\n\tjmp 4f\n"
          "1:\ttestb $8, %b[i]\n\tje 2f\n\t"
          "vmovdqu %x[v], (%[p])\n\tvextracti128 $1, %[v], %x[v]\n\t"
          "addq $16, %[p]\n\tshrl $4, %[i]\n"
          "2:\ttestb $2, %b[i]\n\tje 3f\n\t"
          "vmovq %x[v], (%[p])\n\tvpshufd $238, %x[v], %x[v]\n\t"
          "addq $8, %[p]\n\tshrl $2, %[i]\n"
          "3:\ttestb $1, %b[i]\n\tje 4f\n\t"
          "vmovd %x[v], (%[p])\n4:"
          : [p] "+r"(p), [i] "+r"(i), [v] "+x"(v), "+m"(*(char(*)[32])to)
          :
          : "cc");
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
    tc_store_pieces(p, __builtin_ia32_movmskps256((tc_native_f32)m), (TC_MASK_s)v);               \
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

#endif
