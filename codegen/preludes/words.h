/* Factors of products that are narrower than their sums: small integers widened as they are read,
 * and words of two or four steps along a sum, which dot instructions take.
 *
 * A word is an int32 that holds pairs (two int16, two bfloat16) or quads (four bytes), the first
 * step lowest. Functions of integers give the same bits on every processor: sums of words wrap,
 * none saturates.
 */
#ifndef TC_WORDS_H
#define TC_WORDS_H
#include "prelude.h"

/* ---- tc_load_v16i32_i8, tc_loadm_v16i32_i8: as the vectors of prelude.h, from narrower elements */

/* gcc 12 converts element by element. */
#if TC_VECTOR_BYTES == 64 && defined(TC_ISA_AVX512) && !defined(__clang__)
#define TC_WIDER(V, N, T, v)                                                                      \
  V wide;                                                                                         \
  __asm__("vpmov" TC_WIDER_##N##_##T " %1, %0" : "=v"(wide) : "v"(v));                            \
  return wide;
#define TC_WIDER_16_i8 "sxbd"
#define TC_WIDER_16_u8 "zxbd"
#define TC_WIDER_16_i16 "sxwd"
#define TC_WIDER_16_u16 "zxwd"
#define TC_WIDER_8_i8 "sxbq"
#define TC_WIDER_8_u8 "zxbq"
#define TC_WIDER_8_i16 "sxwq"
#define TC_WIDER_8_u16 "zxwq"
#define TC_WIDER_8_i32 "sxdq"
#define TC_WIDER_8_u32 "zxdq"
#else
#define TC_WIDER(V, N, T, v) return __builtin_convertvector(v, V);
#endif
#define TC_NARROW(S, N, T)                                                                        \
  typedef tc_##T tc_##T##x##N __attribute__((vector_size(N * sizeof(tc_##T))));                   \
  TC_FN tc_v##S tc_load_v##S##_##T(const tc_##T *p) {                                             \
    tc_##T##x##N v;                                                                               \
    __builtin_memcpy(&v, p, sizeof v);                                                            \
    TC_WIDER(tc_v##S, N, T, v)                                                                    \
  }                                                                                               \
  TC_FN tc_v##S tc_loadm_v##S##_##T(const tc_##T *p, tc_m##S m) {                                 \
    tc_##T##x##N v = {0};                                                                         \
    TC_NARROW_MASKED(N, T, v, p, m);                                                              \
    TC_WIDER(tc_v##S, N, T, v)                                                                    \
  }
#if TC_VECTOR_BYTES == 64 && defined(TC_ISA_AVX512)
typedef char tc_masked_8 __attribute__((vector_size(16)));
typedef short tc_masked_16 __attribute__((vector_size(16)));
typedef short tc_masked_16w __attribute__((vector_size(32)));
typedef int tc_masked_32w __attribute__((vector_size(32)));
#define TC_NARROW_MASKED(N, T, v, p, m) TC_MASKED_##N##_##T(v, p, m)
#define TC_MASKED(V, name, v, p, m)                                                               \
  {                                                                                               \
    V all = __builtin_ia32_loaddqu##name##_mask((const void *)(p), (V){0}, m);                    \
    __builtin_memcpy(&v, &all, sizeof v);                                                         \
  }
#define TC_MASKED_16_i8(v, p, m) TC_MASKED(tc_masked_8, qi128, v, p, m)
#define TC_MASKED_16_u8(v, p, m) TC_MASKED(tc_masked_8, qi128, v, p, m)
#define TC_MASKED_16_i16(v, p, m) TC_MASKED(tc_masked_16w, hi256, v, p, m)
#define TC_MASKED_16_u16(v, p, m) TC_MASKED(tc_masked_16w, hi256, v, p, m)
#define TC_MASKED_8_i8(v, p, m) TC_MASKED(tc_masked_8, qi128, v, p, m)
#define TC_MASKED_8_u8(v, p, m) TC_MASKED(tc_masked_8, qi128, v, p, m)
#define TC_MASKED_8_i16(v, p, m) TC_MASKED(tc_masked_16, hi128, v, p, m)
#define TC_MASKED_8_u16(v, p, m) TC_MASKED(tc_masked_16, hi128, v, p, m)
#define TC_MASKED_8_i32(v, p, m) TC_MASKED(tc_masked_32w, si256, v, p, m)
#define TC_MASKED_8_u32(v, p, m) TC_MASKED(tc_masked_32w, si256, v, p, m)
#else
#define TC_NARROW_MASKED(N, T, v, p, m)                                                           \
  for (int i = 0; i < N; i++)                                                                     \
    if (m[i]) v[i] = p[i]
#endif
#define TC_NARROWS(NS, NL)                                                                        \
  TC_NARROW(NS##i32, NS, i8) TC_NARROW(NS##i32, NS, u8)                                           \
  TC_NARROW(NS##i32, NS, i16) TC_NARROW(NS##i32, NS, u16)                                         \
  TC_NARROW(NL##i64, NL, i8) TC_NARROW(NL##i64, NL, u8)                                           \
  TC_NARROW(NL##i64, NL, i16) TC_NARROW(NL##i64, NL, u16)                                         \
  TC_NARROW(NL##i64, NL, i32) TC_NARROW(NL##i64, NL, u32)                                         \
  TC_FN void tc_transpose_v##NS##i32(tc_v##NS##i32 *r) {                                          \
    tc_native_f32 square[NS];                                                                     \
    _Pragma("GCC unroll 16") for (int i = 0; i < NS; i++) square[i] = (tc_native_f32)r[i];        \
    tc_transpose_f32(square);                                                                     \
    _Pragma("GCC unroll 16") for (int i = 0; i < NS; i++) r[i] = (tc_v##NS##i32)square[i];        \
  }                                                                                               \
  TC_FN void tc_transpose_v##NL##i64(tc_v##NL##i64 *r) {                                          \
    tc_native_f64 square[NL];                                                                     \
    _Pragma("GCC unroll 8") for (int i = 0; i < NL; i++) square[i] = (tc_native_f64)r[i];         \
    tc_transpose_f64(square);                                                                     \
    _Pragma("GCC unroll 8") for (int i = 0; i < NL; i++) r[i] = (tc_v##NL##i64)square[i];         \
  }
TC_EXPAND(TC_NARROWS, TC_VL_f32, TC_VL_f64)

/* ---- words: x is step i of a word */

TC_FN tc_i32 tc_put4(tc_i32 word, tc_i32 x, tc_i64 i) {
  return (tc_i32)((tc_u32)word | (tc_u32)(x & 0xff) << 8 * i);
}
TC_FN tc_i32 tc_put2(tc_i32 word, tc_i32 x, tc_i64 i) {
  return (tc_i32)((tc_u32)word | (tc_u32)(x & 0xffff) << 16 * i);
}

/* tc_weave4_v16i32_i8: the words of neighbours at p, whose steps are step apart; those from n on
 * are not read and 0. tc_weavem4: of the mask's lanes.
 * tc_line4_v16i32_i8: the words of n elements that follow each other at p, then 0. */
#define TC_WEAVE(C, S, T)                                                                         \
  TC_FN tc_v##S tc_weave##C##_v##S##_##T(const tc_##T *p, tc_i64 step, tc_i64 n) {                \
    tc_v##S word = {0};                                                                           \
    _Pragma("GCC unroll 4") for (int i = 0; i < C; i++) if (i < n)                                \
      word |= (tc_load_v##S##_##T(p + i * step) & TC_STEP_##C) << (32 / C * i);                   \
    return word;                                                                                  \
  }                                                                                               \
  TC_FN tc_v##S tc_weavem##C##_v##S##_##T(const tc_##T *p, tc_i64 step, tc_i64 n, tc_m##S m) {    \
    tc_v##S word = {0};                                                                           \
    _Pragma("GCC unroll 4") for (int i = 0; i < C; i++) if (i < n)                                \
      word |= (tc_loadm_v##S##_##T(p + i * step, m) & TC_STEP_##C) << (32 / C * i);               \
    return word;                                                                                  \
  }
#define TC_STEP_4 0xff
#define TC_STEP_2 0xffff
/* E: the type of a step in the word. */
#define TC_LINE(C, S, N, T, E)                                                                    \
  TC_FN tc_v##S tc_line##C##_v##S##_##T(const tc_##T *p, tc_i64 n) {                              \
    typedef tc_##T tc_steps __attribute__((vector_size(C * N * sizeof(tc_##T))));                 \
    typedef tc_##E tc_words_of __attribute__((vector_size(C * N * sizeof(tc_##E))));              \
    tc_steps v = {0};                                                                             \
    if (n >= C * N)                                                                               \
      __builtin_memcpy(&v, p, sizeof v);                                                          \
    else                                                                                          \
      __builtin_memcpy(&v, p, (unsigned long)n * sizeof *p);                                      \
    return (tc_v##S)__builtin_convertvector(v, tc_words_of);                                      \
  }
#define TC_WORDS(N)                                                                               \
  TC_WEAVE(4, N##i32, i8) TC_WEAVE(4, N##i32, u8)                                                 \
  TC_WEAVE(2, N##i32, i8) TC_WEAVE(2, N##i32, u8)                                                 \
  TC_WEAVE(2, N##i32, i16) TC_WEAVE(2, N##i32, u16)                                               \
  TC_LINE(4, N##i32, N, i8, i8) TC_LINE(4, N##i32, N, u8, i8)                                     \
  TC_LINE(2, N##i32, N, i8, i16) TC_LINE(2, N##i32, N, u8, i16)                                   \
  TC_LINE(2, N##i32, N, i16, i16) TC_LINE(2, N##i32, N, u16, i16)
TC_EXPAND(TC_WORDS, TC_VL_i32)

/* ---- sums of products of words: tc_dot2 of int16, tc_dot4su of int8 in the vector by uint8 in x,
 * tc_dot4us the other way round. By assembly: the names of the builtins differ between compilers. */

#if defined(__AVX512VNNI__) && defined(__AVX512VL__)
#define TC_VNNI(name, acc, x, y) __asm__(name " %2, %1, %0" : "+v"(acc) : "v"(x), "v"(y))
#elif defined(__AVXVNNI__) && TC_VECTOR_BYTES <= 32
#define TC_VNNI(name, acc, x, y) __asm__("%{vex%} " name " %2, %1, %0" : "+x"(acc) : "x"(x), "x"(y))
#endif
TC_FN tc_native_i32 tc_dot2_native(tc_native_i32 acc, tc_native_i32 v, tc_native_i32 w) {
#if defined(TC_VNNI)
  TC_VNNI("vpdpwssd", acc, v, w);
  return acc;
#elif defined(__AVX2__) || (defined(__AVX__) && TC_VECTOR_BYTES == 16)
  tc_native_i32 sum;
#if TC_VECTOR_BYTES == 64
  __asm__("vpmaddwd %2, %1, %0" : "=v"(sum) : "v"(v), "v"(w));
#else
  __asm__("vpmaddwd %2, %1, %0" : "=x"(sum) : "x"(v), "x"(w));
#endif
  return acc + sum;
#elif defined(__SSE2__) && !defined(__AVX__)
  __asm__("pmaddwd %1, %0" : "+x"(v) : "x"(w));
  return acc + v;
#else
  return acc + (v << 16 >> 16) * (w << 16 >> 16) + (v >> 16) * (w >> 16);
#endif
}
TC_FN tc_native_i32 tc_dot4_native(tc_native_i32 acc, tc_native_i32 u, tc_native_i32 s) {
#if defined(TC_VNNI)
  TC_VNNI("vpdpbusd", acc, u, s);
#else
  for (int i = 0; i < 32; i += 8) acc += (u >> i & 0xff) * (s << (24 - i) >> 24);
#endif
  return acc;
}
#define TC_DOTS(S)                                                                                \
  TC_FN tc_v##S tc_dot2_v##S(tc_v##S acc, tc_v##S v, tc_i32 x) {                                  \
    return tc_dot2_native(acc, v, tc_splat_v##S(x));                                              \
  }                                                                                               \
  TC_FN tc_v##S tc_dot4su_v##S(tc_v##S acc, tc_v##S v, tc_i32 x) {                                \
    return tc_dot4_native(acc, tc_splat_v##S(x), v);                                              \
  }                                                                                               \
  TC_FN tc_v##S tc_dot4us_v##S(tc_v##S acc, tc_v##S v, tc_i32 x) {                                \
    return tc_dot4_native(acc, v, tc_splat_v##S(x));                                              \
  }
#define TC_DOTS_(N) TC_DOTS(N##i32)
TC_EXPAND(TC_DOTS_, TC_VL_i32)

/* ---- sums of products of bfloat16 in float32: tc_wide2bf of any, tc_dot2bf by an instruction that
 * takes what is below 2^-126 for zero, in factors, products and sums. */

TC_FN tc_native_f32 tc_wide2bf_native(tc_native_f32 acc, tc_native_i32 v, tc_native_i32 w) {
  acc += (tc_native_f32)(v << 16) * (tc_native_f32)(w << 16);
  return acc + (tc_native_f32)(v & ~0xffff) * (tc_native_f32)(w & ~0xffff);
}
TC_FN tc_native_f32 tc_dot2bf_native(tc_native_f32 acc, tc_native_i32 v, tc_native_i32 w) {
#if defined(__AVX512BF16__) && defined(__AVX512VL__)
  __asm__("vdpbf16ps %2, %1, %0" : "+v"(acc) : "v"(v), "v"(w));
  return acc;
#else
  return tc_wide2bf_native(acc, v, w);
#endif
}
#define TC_BFLOATS(S, I)                                                                          \
  TC_FN tc_v##S tc_wide2bf_v##S(tc_v##S acc, tc_v##I v, tc_i32 x) {                               \
    return tc_wide2bf_native(acc, v, tc_splat_v##I(x));                                           \
  }                                                                                               \
  TC_FN tc_v##S tc_dot2bf_v##S(tc_v##S acc, tc_v##I v, tc_i32 x) {                                \
    return tc_dot2bf_native(acc, v, tc_splat_v##I(x));                                            \
  }
#define TC_BFLOATS_(N) TC_BFLOATS(N##f32, N##i32)
TC_EXPAND(TC_BFLOATS_, TC_VL_i32)

/* Sums of products of float16 in float32. */
TC_FN tc_native_f32 tc_wide2f16_native(tc_native_f32 acc, tc_native_i32 v, tc_native_i32 w) {
  tc_words a = (tc_words)v, b = (tc_words)w;
  acc += tc_widen_f16(TC_HALVES(a & 0xffff)) * tc_widen_f16(TC_HALVES(b & 0xffff));
  return acc + tc_widen_f16(TC_HALVES(a >> 16)) * tc_widen_f16(TC_HALVES(b >> 16));
}

/* The least exponent, as it is stored, of what is not zero in n words; -256 where one is denormal,
 * 511 where all are zero. */
typedef tc_u16 tc_step_of_word __attribute__((may_alias));
TC_FN tc_i64 tc_least_bf16(const tc_i32 *words, tc_i64 n) {
  const tc_step_of_word *steps = (const tc_step_of_word *)words;
  tc_u16 least = 0xffff; /* of magnitudes less 1: that of zero is the largest */
  for (tc_i64 i = 0; i < 2 * n; i++) {
    tc_u16 here = (tc_u16)((steps[i] & 0x7fff) - 1);
    least = here < least ? here : least;
  }
  if (least == 0xffff) return 511;
  return least < 0x7f ? -256 : (least + 1) >> 7;
}
#endif
