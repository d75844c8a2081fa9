/* The builtin functions for vectors of the native width: tc_NAME_v16f32, tc_NAME_v8f64 and so on.
 *
 * The functions of smath.h lane by lane, which compilers make vector code of; and those that have a
 * quicker form where all lanes are ordinary, with the lane by lane one behind a branch that is
 * rarely taken. They are within the same bounds. vmath_avx512.h and vmath_avx2.h have more of them.
 */
#ifndef TC_VMATH_H
#define TC_VMATH_H
#include "smath.h"

#define TC_NAMED(name, N, T) TC_NAMED_(name, N, T)
#define TC_NAMED_(name, N, T) tc_##name##_v##N##T
#define TC_F32(name) TC_NAMED(name, TC_VL_f32, f32) /* tc_NAME_v16f32 */
#define TC_F64(name) TC_NAMED(name, TC_VL_f64, f64)

TC_FN tc_native_f32 tc_size_of(tc_native_f32 x) {
  return (tc_native_f32)((tc_native_i32)x & 0x7fffffff);
}
/* Whether a < b does not hold in some lane. */
TC_FN int tc_any_not_less(tc_native_f32 a, tc_native_f32 b) {
#if TC_VECTOR_BYTES == 64 && defined(TC_ISA_AVX512)
  return __builtin_ia32_cmpps512_mask(a, b, 0x15, (short)-1, 4) != 0;
#elif TC_VECTOR_BYTES == 32 && defined(__AVX__)
  return __builtin_ia32_movmskps256((tc_native_f32)~(a < b)) != 0;
#elif TC_VECTOR_BYTES == 16 && defined(__SSE2__)
  return __builtin_ia32_movmskps((tc_native_f32)~(a < b)) != 0;
#else
  tc_native_i32 c = ~(a < b);
  int any = 0;
  for (int i = 0; i < TC_VL_f32; i++) any |= c[i];
  return any;
#endif
}

/* Whether a truth value, all ones or zero in each lane, holds in some lane. */
TC_FN int TC_NAMED(any, TC_VL_f32, i32)(tc_native_i32 c) {
#if TC_VECTOR_BYTES == 64 && defined(TC_ISA_AVX512)
  return __builtin_ia32_cmpd512_mask(c, (tc_native_i32){0}, 4, (short)-1) != 0;
#elif TC_VECTOR_BYTES == 32 && defined(__AVX__)
  return __builtin_ia32_movmskps256((tc_native_f32)c) != 0;
#elif TC_VECTOR_BYTES == 16 && defined(__SSE2__)
  return __builtin_ia32_movmskps((tc_native_f32)c) != 0;
#else
  int any = 0;
  for (int i = 0; i < TC_VL_f32; i++) any |= c[i];
  return any != 0;
#endif
}
TC_FN int TC_NAMED(any, TC_VL_f64, i64)(tc_native_i64 c) {
#if TC_VECTOR_BYTES == 16
  tc_pin(c); /* or gcc 12 makes a choice by the comparison where there is a branch, which SSE2 lacks */
#endif
  return TC_NAMED(any, TC_VL_f32, i32)((tc_native_i32)c);
}

/* tc_NAME_lanes: of smath.h lane by lane, in a function of its own: for the rare vectors in which
 * not all lanes suit a quick form. */
#define TC_FAR1(name)                                                                             \
  static __attribute__((noinline, unused)) void tc_##name##_far(tc_f32 *x) {                       \
    _Pragma("omp simd") for (int i = 0; i < TC_VL_f32; i++) x[i] = tc_##name##_f32(x[i]);         \
  }                                                                                               \
  TC_FN tc_native_f32 tc_##name##_lanes(tc_native_f32 x) {                                        \
    tc_f32 a[TC_VL_f32] __attribute__((aligned(64)));                                             \
    TC_F32(store)(a, x);                                                                          \
    tc_##name##_far(a);                                                                           \
    return TC_F32(load)(a);                                                                       \
  }
#define TC_FAR2(name)                                                                             \
  static __attribute__((noinline, unused)) void tc_##name##_far(tc_f32 *x, const tc_f32 *y) {      \
    _Pragma("omp simd") for (int i = 0; i < TC_VL_f32; i++) x[i] = tc_##name##_f32(x[i], y[i]);   \
  }                                                                                               \
  TC_FN tc_native_f32 tc_##name##_lanes(tc_native_f32 x, tc_native_f32 y) {                       \
    tc_f32 a[TC_VL_f32] __attribute__((aligned(64))), b[TC_VL_f32] __attribute__((aligned(64)));  \
    TC_F32(store)(a, x);                                                                          \
    TC_F32(store)(b, y);                                                                          \
    tc_##name##_far(a, b);                                                                        \
    return TC_F32(load)(a);                                                                       \
  }

/* ---- trigonometry: float32 in float64, and where products are fused in two of float32 */

/* sin(pi k + r) for a whole k, cos where k is a half more, but for the sign, which turns with k;
 * |r| < 1.03 pi/2. pi has a part of 33 bits, times which k < 2^19 is exact, and a rest of 53. */
TC_FN tc_native_f64 tc_wave(tc_native_f64 x, tc_native_f64 k) {
  tc_native_f64 r = (x - k * 0x1.921fb54400000p+1) - k * 0x1.0b4611a626331p-33, z = r * r;
  tc_native_f64 p = -2.3886587449077862e-8 * z + 2.7525255581971832e-6;
  p = p * z - 0.00019840865761403171;
  p = p * z + 0.0083333310904005051;
  p = p * z - 0.16666666625732392;
  return r * (p * z + 1.0);
}
/* How many half waves, and whether that is odd, is found for all lanes at once: below 2^18 a product
 * of float32 is off by 0.011 at most, so that |r| < 1.03 pi/2. */
TC_FN tc_native_f32 tc_waves(tc_native_f32 x, tc_native_f32 k, tc_native_i32 odd) {
  tc_native_f32 y = TC_F32(join)(tc_wave(TC_F64(low)(x), TC_F64(low)(k)),
                                 tc_wave(TC_F64(high)(x), TC_F64(high)(k)));
  return (tc_native_f32)((tc_native_i32)y ^ (odd << 31));
}
TC_FN tc_native_f32 tc_sin_waves(tc_native_f32 x) {
  tc_native_f32 n = x * 0x1.45f306p-2f + 0x1.8p23f; /* its last bits: the nearest integer */
  return tc_waves(x, n - 0x1.8p23f, (tc_native_i32)n);
}
TC_FN tc_native_f32 tc_cos_waves(tc_native_f32 x) {
  tc_native_f32 n = (x * 0x1.45f306p-2f - 0.5f) + 0x1.8p23f;
  return tc_waves(x, (n - 0x1.8p23f) + 0.5f, ~(tc_native_i32)n);
}
/* r P(z) / Q(z) to 35 bits for |r| < 1.01 pi/4, next to odd quarters -Q(z) / (r P(z)). An inverse of
 * float32 is made one of 46 bits. */
TC_FN tc_f32 tc_slope(tc_f32 x, tc_f32 k, tc_i32 odd) {
  tc_f64 r = (x - k * 0x1.921fb54400000p+0) - k * 0x1.0b4611a626331p-34, z = r * r;
  tc_f64 p = r * ((0.0010755740898238176 * z - 0.11136753422548272) * z + 1.0);
  tc_f64 q = (0.01597584123724398 * z - 0.44470086572308215) * z + 0.9999999999752248;
  tc_f64 num = odd ? -q : p, den = odd ? p : q, near = 1.0f / (tc_f32)den, y = num * near;
  return (tc_f32)(y + near * (num - y * den));
}
TC_FN tc_native_f32 tc_tan_waves(tc_native_f32 x) {
  tc_native_f32 n = x * 0x1.45f306p-1f + 0x1.8p23f;
  tc_f32 a[TC_VL_f32] __attribute__((aligned(64))), k[TC_VL_f32] __attribute__((aligned(64)));
  tc_i32 odd[TC_VL_f32] __attribute__((aligned(64)));
  TC_F32(store)(a, x);
  TC_F32(store)(k, n - 0x1.8p23f);
  TC_NAMED(store, TC_VL_f32, i32)(odd, (tc_native_i32)n & 1);
  _Pragma("omp simd") for (int i = 0; i < TC_VL_f32; i++) a[i] = tc_slope(a[i], k[i], odd[i]);
  return TC_F32(load)(a);
}
#define TC_WAVE(name)                                                                             \
  TC_FAR1(name)                                                                                   \
  TC_FN tc_native_f32 TC_F32(name)(tc_native_f32 x) {                                             \
    tc_native_f32 far = TC_F32(splat)(0x1p18f);                                                   \
    if (__builtin_expect(tc_any_not_less(tc_size_of(x), far), 0)) return tc_##name##_lanes(x);     \
    return tc_##name##_waves(x);                                                                  \
  }
#if TC_VECTOR_BYTES != 64 || !defined(TC_ISA_AVX512)
TC_WAVE(tan)
#endif

#if TC_VECTOR_BYTES == 64 && defined(TC_ISA_AVX512)
#define TC_FUSED(a, b, c) __builtin_ia32_vfmaddps512_mask(a, b, c, (short)-1, 4)
#elif TC_VECTOR_BYTES == 32 && defined(__AVX2__) && defined(__FMA__)
#ifdef __clang__ /* which has no builtin of this width; of the loop it makes the instruction */
TC_FN tc_v8f32 tc_fused(tc_v8f32 a, tc_v8f32 b, tc_v8f32 c) {
#pragma clang loop unroll(full)
  for (int i = 0; i < 8; i++) c[i] = __builtin_fmaf(a[i], b[i], c[i]);
  return c;
}
#define TC_FUSED(a, b, c) tc_fused(a, b, c)
#else
#define TC_FUSED(a, b, c) __builtin_ia32_vfmaddps256(a, b, c)
#endif
#endif
#ifdef TC_FUSED
/* x - k pi/2 for 0 <= x < 2^13 and the integer k next to it, as a float and the next 24 bits. pi/2 has
 * a part of 23 bits, less which times k x is exact: a multiple of 2^-24 below 1; a part of 11, times
 * which k < 2^13 is exact, so that what rounding loses is known; and a rest. */
TC_FN tc_native_f32 tc_quarter(tc_native_f32 x, tc_native_f32 k, tc_native_f32 *low) {
  tc_native_f32 r = TC_FUSED(k, TC_F32(splat)(-0x1.921fb4p+0f), x);
  tc_native_f32 part = TC_F32(splat)(-0x1.444p-24f), h = TC_FUSED(k, part, r);
  *low = TC_FUSED(k, part, r - h) - k * 0x1.68c234p-39f;
  return h;
}
/* sin(h + low), cos where n is odd, |h| < 1.02 pi/4. What makes 1 - h^2/2 a float is given back: 0.9
 * units at most, of all floats below 2^13. */
TC_FN tc_native_f32 tc_sin_or_cos(tc_native_f32 h, tc_native_f32 low, tc_native_i32 n) {
  tc_native_f32 z = h * h, one = TC_F32(splat)(1.0f), half = TC_F32(splat)(-0.5f);
  tc_native_f32 s = -0.00019502134662670808f * z + 0.008332063873256256f;
  s = s * z - 0.1666665307949309f;
  s = h + (h * z * s + low);
  tc_native_f32 c = 2.441812827638731e-05f * z - 0.0013887184701091443f;
  c = c * z + 0.04166664298369069f;
  tc_native_f32 a = TC_FUSED(z, half, one), lost = TC_FUSED(z, half, one - a);
  c = a + (z * z * c + (lost - h * low));
  return TC_F32(select)((n & 1) != 0, c, s);
}
TC_FN tc_native_f32 tc_sin_near(tc_native_f32 x, tc_native_f32 a) {
  tc_native_f32 n = a * 0x1.45f306p-1f + 0x1.8p23f, low; /* its last bits: the nearest integer */
  tc_native_f32 h = tc_quarter(a, n - 0x1.8p23f, &low);
  tc_native_i32 y = (tc_native_i32)tc_sin_or_cos(h, low, (tc_native_i32)n);
  return (tc_native_f32)(y ^ (((tc_native_i32)x ^ (tc_native_i32)n << 30) & (-0x7fffffff - 1)));
}
TC_FN tc_native_f32 tc_cos_near(tc_native_f32 x, tc_native_f32 a) {
  tc_native_f32 n = a * 0x1.45f306p-1f + 0x1.8p23f, low;
  tc_native_f32 h = tc_quarter(a, n - 0x1.8p23f, &low);
  tc_native_i32 i = (tc_native_i32)n + 1;
  tc_native_i32 y = (tc_native_i32)tc_sin_or_cos(h, low, i);
  return (tc_native_f32)(y ^ (i << 30 & (-0x7fffffff - 1)));
}
#define TC_QUARTER_WAVE(name, near)                                                               \
  TC_FAR1(name)                                                                                   \
  static __attribute__((noinline, unused)) tc_native_f32 tc_##name##_beyond(tc_native_f32 x) {     \
    tc_native_f32 far = TC_F32(splat)(0x1p18f);                                                   \
    return tc_any_not_less(tc_size_of(x), far) ? tc_##name##_lanes(x) : tc_##name##_waves(x);      \
  }                                                                                               \
  TC_FN tc_native_f32 TC_F32(name)(tc_native_f32 x) {                                             \
    tc_native_f32 a = tc_size_of(x), far = TC_F32(splat)(near);                                   \
    if (__builtin_expect(tc_any_not_less(a, far), 0)) return tc_##name##_beyond(x);                \
    return tc_##name##_near(x, a);                                                                \
  }
TC_QUARTER_WAVE(sin, 0x1p13f)
TC_QUARTER_WAVE(cos, 0x1p13f)
#else
TC_WAVE(sin)
TC_WAVE(cos)
#endif

/* ---- trigonometry, float64: where no angle is large, and none next to a quarter but 0 */

#define TC_FAR_F64(name)                                                                          \
  static __attribute__((noinline, unused)) void tc_##name##_far_f64(tc_f64 *x) {                   \
    for (int i = 0; i < TC_VL_f64; i++) x[i] = tc_##name##_f64(x[i]);                             \
  }                                                                                               \
  TC_FN tc_native_f64 tc_##name##_lanes_f64(tc_native_f64 x) {                                    \
    tc_f64 a[TC_VL_f64] __attribute__((aligned(64)));                                             \
    TC_F64(store)(a, x);                                                                          \
    tc_##name##_far_f64(a);                                                                       \
    return TC_F64(load)(a);                                                                       \
  }
/* x - k pi/2 for 0 <= x < 2^20 and the integer k next to it, as two floats: off by 2^-98. pi/2 has two
 * parts of 33 bits, times which k is exact, and a rest of 53 (fdlibm's). */
TC_FN tc_native_f64 tc_quarter_f64(tc_native_f64 x, tc_native_f64 k, tc_native_f64 *low) {
  tc_native_f64 r = x - k * 0x1.921fb54400000p+0, h = r - k * 0x1.0b4611a600000p-34;
  tc_native_f64 l = ((r - h) - k * 0x1.0b4611a600000p-34) - k * 0x1.3198a2e037073p-69, y = h + l;
  *low = l - (y - h);
  return y;
}
/* sin(h + low), cos where n is odd, |h| < 1.01 pi/4: fdlibm's polynomials. */
TC_FN tc_native_f64 tc_sin_or_cos_f64(tc_native_f64 h, tc_native_f64 low, tc_native_i64 n) {
  tc_native_f64 z = h * h, w = z * z, v = z * h, half = z * 0.5;
  tc_native_f64 s = (0x1.111111110f8a6p-7 + z * -0x1.a01a019c161d5p-13) +
                    w * ((0x1.71de357b1fe7dp-19 + z * -0x1.ae5e68a2b9cebp-26) + w * 0x1.5d93a5acfd57cp-33);
  s = h - ((z * (0.5 * low - v * s) - low) - v * -0x1.5555555555549p-3);
  tc_native_f64 c = (0x1.555555555554cp-5 + z * -0x1.6c16c16c15177p-10) +
                    w * ((0x1.a01a019cb159p-16 + z * -0x1.27e4f809c52adp-22) +
                         w * (0x1.1ee9ebdb4b1c4p-29 + z * -0x1.8fae9be8838d4p-37));
  tc_native_f64 a = 1.0 - half;
  c = a + (((1.0 - a) - half) + (w * c - h * low));
  return TC_F64(select)((n & 1) != 0, c, s);
}
#define TC_QUARTER_WAVE_F64(as, name, turn, sign)                                                 \
  TC_FAR_F64(name)                                                                                \
  TC_FN tc_native_f64 as(tc_native_f64 x) {                                                       \
    tc_native_f64 a = (tc_native_f64)((tc_native_i64)x & 0x7fffffffffffffffLL), low;              \
    tc_native_f64 n = a * 0x1.45f306dc9c883p-1 + 0x1.8p52, k = n - 0x1.8p52;                      \
    tc_native_f64 h = tc_quarter_f64(a, k, &low);                                                 \
    tc_native_i64 rare = ((h < 0x1p-30) & (h > -0x1p-30) & (k != 0)) | ~(a < 0x1p20);             \
    tc_native_i64 i = (tc_native_i64)n + turn;                                                    \
    tc_native_i64 bits = (tc_native_i64)tc_sin_or_cos_f64(h, low, i);                             \
    tc_native_f64 y = (tc_native_f64)(bits ^ ((sign ^ i << 62) & (-0x7fffffffffffffffLL - 1)));   \
    if (__builtin_expect(TC_NAMED(any, TC_VL_f64, i64)(rare), 0))                                 \
      y = TC_F64(select)(rare, tc_##name##_lanes_f64(x), y);                                      \
    return y;                                                                                     \
  }
#if TC_VECTOR_BYTES == 64 && defined(TC_ISA_AVX512)
TC_QUARTER_WAVE_F64(tc_sin_wide_f64, sin, 0, (tc_native_i64)x)
TC_QUARTER_WAVE_F64(tc_cos_wide_f64, cos, 1, (tc_native_i64){0})
#else
TC_QUARTER_WAVE_F64(TC_F64(sin), sin, 0, (tc_native_i64)x)
TC_QUARTER_WAVE_F64(TC_F64(cos), cos, 1, (tc_native_i64){0})
#endif

/* ---- remainders: float32 in float64, where the quotient is small enough to be exact */

/* x - n y with the integer n next to x / y, even at ties, below 2^25. */
TC_FN tc_native_f64 tc_rest(tc_native_f64 x, tc_native_f64 y) {
  tc_native_f64 n = (x / y + 0x1.8p52) - 0x1.8p52;
  return x - n * y;
}
TC_FN tc_native_f32 tc_rests(tc_native_f32 x, tc_native_f32 y) {
  return TC_F32(join)(tc_rest(TC_F64(low)(x), TC_F64(low)(y)),
                      tc_rest(TC_F64(high)(x), TC_F64(high)(y)));
}
/* r, or r + y where its sign is not that of y; a zero has the sign of y. */
TC_FN tc_native_f32 tc_rest_signed(tc_native_f32 r, tc_native_f32 y) {
  tc_native_i32 sign = (tc_native_i32)y & (-0x7fffffff - 1);
  tc_native_i32 differ = ((tc_native_i32)r ^ (tc_native_i32)y) < 0;
  tc_native_f32 zero = (tc_native_f32)sign;
  return TC_F32(select)(r == 0, zero, TC_F32(select)(differ, r + y, r));
}
TC_FN tc_native_f32 tc_remainder_quick(tc_native_f32 x, tc_native_f32 y) {
  tc_native_f32 r = tc_rests(x, y);
  return TC_F32(select)(r == 0, (tc_native_f32)((tc_native_i32)x & (-0x7fffffff - 1)), r);
}
TC_FN tc_native_f32 tc_fmod_quick(tc_native_f32 x, tc_native_f32 y) {
  tc_native_i32 sign = (tc_native_i32)x & (-0x7fffffff - 1);
  return tc_rest_signed(tc_rests(x, y), (tc_native_f32)((tc_native_i32)tc_size_of(y) | sign));
}
TC_FN tc_native_f32 tc_mod_quick(tc_native_f32 x, tc_native_f32 y) {
  return tc_rest_signed(tc_rests(x, y), y);
}
#define TC_REMAINDER(name)                                                                        \
  TC_FAR2(name)                                                                                   \
  TC_FN tc_native_f32 TC_F32(name)(tc_native_f32 x, tc_native_f32 y) {                            \
    tc_native_f32 size = tc_size_of(y), all = TC_F32(splat)(TC_INF_F32);                          \
    if (__builtin_expect(tc_any_not_less(tc_size_of(x), size * 0x1p25f) |                         \
                             tc_any_not_less(size, all), 0))                                      \
      return tc_##name##_lanes(x, y);                                                             \
    return tc_##name##_quick(x, y);                                                               \
  }
TC_REMAINDER(remainder)
TC_REMAINDER(fmod)
TC_REMAINDER(mod)

/* ---- the inverse error function: where no lane is next to 1 or -1, one polynomial of two */

#if TC_VECTOR_BYTES != 64 || !defined(TC_ISA_AVX512)
TC_FAR1(erfinv)
TC_FN tc_native_f32 TC_F32(erfinv)(tc_native_f32 x) {
  if (__builtin_expect(tc_any_not_less(tc_size_of(x), TC_F32(splat)(0.998f)), 0))
    return tc_erfinv_lanes(x);
  tc_f32 a[TC_VL_f32] __attribute__((aligned(64)));
  TC_F32(store)(a, x);
  _Pragma("omp simd") for (int i = 0; i < TC_VL_f32; i++) a[i] = tc_erfinv_middle_f32(a[i]);
  return TC_F32(load)(a);
}
#endif

/* ---- float64, where no lane is rare: tc_NAME_near_f64 lane by lane (pairs.h) */

#define TC_NEAR1_F64(name)                                                                        \
  TC_FAR_F64(name)                                                                                \
  TC_FN tc_native_f64 TC_F64(name)(tc_native_f64 x) {                                             \
    tc_f64 a[TC_VL_f64] __attribute__((aligned(64)));                                             \
    tc_i64 rare[TC_VL_f64] __attribute__((aligned(64)));                                          \
    TC_F64(store)(a, x);                                                                          \
    _Pragma("omp simd") for (int i = 0; i < TC_VL_f64; i++) {                                     \
      tc_i64 is_rare;                                                                                \
      a[i] = tc_##name##_near_f64(a[i], &is_rare);                                                \
      rare[i] = is_rare;                                                                          \
    }                                                                                             \
    if (__builtin_expect(TC_NAMED(any, TC_VL_f64, i64)(-TC_NAMED(load, TC_VL_f64, i64)(rare)), 0)) \
      return tc_##name##_lanes_f64(x);                                                            \
    return TC_F64(load)(a);                                                                       \
  }
#define TC_NEAR2_F64(name)                                                                        \
  static __attribute__((noinline, unused)) void tc_##name##_far_f64(tc_f64 *x, const tc_f64 *y) {  \
    for (int i = 0; i < TC_VL_f64; i++) x[i] = tc_##name##_f64(x[i], y[i]);                       \
  }                                                                                               \
  TC_FN tc_native_f64 TC_F64(name)(tc_native_f64 x, tc_native_f64 y) {                            \
    tc_f64 a[TC_VL_f64] __attribute__((aligned(64))), b[TC_VL_f64] __attribute__((aligned(64)));  \
    tc_f64 c[TC_VL_f64] __attribute__((aligned(64)));                                             \
    tc_i64 rare[TC_VL_f64] __attribute__((aligned(64)));                                          \
    TC_F64(store)(a, x);                                                                          \
    TC_F64(store)(b, y);                                                                          \
    _Pragma("omp simd") for (int i = 0; i < TC_VL_f64; i++) {                                     \
      tc_i64 is_rare;                                                                                \
      c[i] = tc_##name##_near_f64(a[i], b[i], &is_rare);                                          \
      rare[i] = is_rare;                                                                          \
    }                                                                                             \
    if (__builtin_expect(TC_NAMED(any, TC_VL_f64, i64)(-TC_NAMED(load, TC_VL_f64, i64)(rare)), 0)) { \
      tc_##name##_far_f64(a, b);                                                                  \
      return TC_F64(load)(a);                                                                     \
    }                                                                                             \
    return TC_F64(load)(c);                                                                       \
  }
TC_NEAR1_F64(erfinv)
TC_NEAR2_F64(fmod)
TC_NEAR2_F64(remainder)
TC_NEAR2_F64(mod)

/* ---- vectors of the native width: tc_NAME_v16f32 and so on */

/* The scalar function lane by lane; gcc makes vector code of it where the function has no branch. */
#define TC_LANES1(name, S, T, N)                                                                  \
  TC_FN tc_v##S tc_##name##_v##S(tc_v##S x) {                                                     \
    tc_##T a[N] __attribute__((aligned(64)));                                                     \
    tc_store_v##S(a, x);                                                                          \
    _Pragma("omp simd") for (int i = 0; i < N; i++) a[i] = tc_##name##_##T(a[i]);                 \
    return tc_load_v##S(a);                                                                       \
  }
#define TC_LANES2(name, S, T, N)                                                                  \
  TC_FN tc_v##S tc_##name##_v##S(tc_v##S x, tc_v##S y) {                                          \
    tc_##T a[N] __attribute__((aligned(64))), b[N] __attribute__((aligned(64)));                  \
    tc_store_v##S(a, x);                                                                          \
    tc_store_v##S(b, y);                                                                          \
    _Pragma("omp simd") for (int i = 0; i < N; i++) a[i] = tc_##name##_##T(a[i], b[i]);           \
    return tc_load_v##S(a);                                                                       \
  }

#define TC_BY_TWO(S, T, N) /* by two floats where there are tables and fused products */            \
  TC_LANES1(acos, S, T, N) TC_LANES1(asin, S, T, N)                                               \
  TC_LANES1(log2, S, T, N) TC_LANES1(log10, S, T, N)
#define TC_TABLED(S, T, N)                                                                        \
  TC_LANES1(log1p, S, T, N) TC_LANES1(expm1, S, T, N) TC_LANES1(silu, S, T, N)                    \
  TC_LANES1(tanh, S, T, N) TC_LANES2(atan2, S, T, N)
#define TC_BY_PIECES(S, T, N) TC_LANES1(erf, S, T, N) TC_LANES1(gelu, S, T, N)
#define TC_LOOKED_UP(S, T, N) TC_LANES1(atan, S, T, N) TC_LANES1(log, S, T, N)
#if TC_VECTOR_BYTES == 64 && defined(TC_ISA_AVX512)
#include "vmath_avx512.h"
#define TC_TABLED_f32(S, N)
#define TC_TABLED_f64(S, N)                                                                       \
  TC_TABLED(S, f64, N) TC_BY_TWO(S, f64, N) TC_LANES1(erfc, S, f64, N)                            \
  TC_LANES1(gelu, S, f64, N) TC_LANES2(pow, S, f64, N)
#else
TC_NEAR1_F64(tan)
#if TC_VECTOR_BYTES == 32 && defined(__AVX2__)
#include "vmath_avx2.h"
#define TC_BY_PIECES_f32(S, N)
#else
#define TC_BY_PIECES_f32(S, N) TC_BY_PIECES(S, f32, N)
TC_FN tc_native_f32 TC_F32(exp)(tc_native_f32 x) {
  tc_f32 a[TC_VL_f32] __attribute__((aligned(64)));
  /* of the scalar text gcc makes choices between results, which take longer */
  TC_F32(store)(a, TC_F32(within)(x, TC_F32(splat)(-104.5f), TC_F32(splat)(89.0f)));
  _Pragma("omp simd") for (int i = 0; i < TC_VL_f32; i++) a[i] = tc_scaled_exp_f32(1.0f, a[i], 0);
  return TC_F32(load)(a);
}
#endif
TC_FAR2(pow)
/* x between 2^-125 and 2^125, powers between 2^-1000 and 2^1000. */
TC_FN tc_native_f32 TC_F32(pow)(tc_native_f32 x, tc_native_f32 y) {
  tc_native_i32 e = ((tc_native_i32)x - 0x3f3504f3) >> 23;
  tc_native_f32 k = __builtin_convertvector(e, tc_native_f32), size = tc_size_of(k);
  tc_native_i32 is_quick = (size < 126.0f) & (tc_size_of(y) * (size + 1.0f) < 1000.0f);
  if (__builtin_expect(TC_NAMED(any, TC_VL_f32, i32)(~is_quick), 0)) return tc_pow_lanes(x, y);
  tc_f32 a[TC_VL_f32] __attribute__((aligned(64))), b[TC_VL_f32] __attribute__((aligned(64)));
  tc_f32 c[TC_VL_f32] __attribute__((aligned(64)));
  TC_F32(store)(a, (tc_native_f32)((tc_native_i32)x - (e << 23)) - 1.0f);
  TC_F32(store)(b, k);
  TC_F32(store)(c, y);
  _Pragma("omp simd") for (int i = 0; i < TC_VL_f32; i++) a[i] = tc_power_f32(a[i], b[i], c[i]);
  return TC_F32(load)(a);
}
#if TC_VECTOR_BYTES == 32 && defined(__AVX2__) && defined(TC_FUSED)
#define TC_TABLED_f32(S, N)                                                                       \
  TC_TABLED(S, f32, N) TC_LANES1(erfc, S, f32, N) TC_BY_PIECES_f32(S, N)
#else
#define TC_TABLED_f32(S, N)                                                                       \
  TC_TABLED(S, f32, N) TC_BY_TWO(S, f32, N) TC_LOOKED_UP(S, f32, N) TC_LANES1(erfc, S, f32, N)    \
  TC_BY_PIECES_f32(S, N)
#endif
#define TC_TABLED_f64(S, N)                                                                       \
  TC_TABLED(S, f64, N) TC_BY_TWO(S, f64, N) TC_BY_PIECES(S, f64, N) TC_LOOKED_UP(S, f64, N)       \
  TC_LANES1(erfc, S, f64, N) TC_LANES1(exp, S, f64, N) TC_LANES2(pow, S, f64, N)
#endif

#define TC_VECTOR_SIMPLE(S, ONE)                                                                  \
  TC_FN tc_v##S tc_relu_v##S(tc_v##S x) { return tc_select_v##S(x <= 0, (tc_v##S){0}, x); }       \
  TC_FN tc_v##S tc_clamp_v##S(tc_v##S x, tc_v##S low, tc_v##S high) {                             \
    return tc_min_v##S(tc_max_v##S(x, low), high);                                                \
  }                                                                                               \
  TC_FN tc_v##S tc_hardtanh_v##S(tc_v##S x, tc_v##S low, tc_v##S high) {                          \
    return tc_clamp_v##S(x, low, high);                                                           \
  }                                                                                               \
  TC_FN tc_v##S tc_sign_v##S(tc_v##S x) {                                                         \
    tc_v##S one = (tc_v##S){0} + ONE;                                                             \
    return tc_select_v##S(x > 0, one, tc_select_v##S(x < 0, -one, x));                            \
  }
#define TC_VECTOR_MATH(S, T, N, SI, ALL)                                                          \
  TC_FN tc_v##S tc_fabs_v##S(tc_v##S x) { return (tc_v##S)((tc_v##SI)x & ALL); }                  \
  TC_FN tc_v##S tc_abs_v##S(tc_v##S x) { return tc_fabs_v##S(x); }                                \
  TC_FN tc_v##S tc_copysign_v##S(tc_v##S x, tc_v##S s) {                                          \
    return (tc_v##S)(((tc_v##SI)x & ALL) | ((tc_v##SI)s & ~ALL));                                 \
  }                                                                                               \
  TC_FN tc_v##SI tc_abs_v##SI(tc_v##SI x) { return tc_select_v##SI(x < 0, -x, x); }               \
  TC_VECTOR_SIMPLE(S, (tc_##T)1) TC_VECTOR_SIMPLE(SI, 1)                                          \
  TC_LANES1(sqrt, S, T, N) TC_LANES1(rsqrt, S, T, N) TC_LANES1(floor, S, T, N)                    \
  TC_LANES1(ceil, S, T, N) TC_LANES1(trunc, S, T, N) TC_LANES1(round, S, T, N)                    \
  TC_LANES1(rint, S, T, N) TC_LANES1(exp2, S, T, N) TC_LANES1(exp10, S, T, N)                     \
  TC_TABLED_##T(S, N)                                                          \
  TC_FN tc_v##S tc_softplus_v##S(tc_v##S x) {                                                     \
    return tc_max_v##S(x, (tc_v##S){0}) + tc_log1p_v##S(tc_exp_v##S(-tc_fabs_v##S(x)));           \
  }                                                                                               \
  TC_FN tc_v##S tc_logaddexp_v##S(tc_v##S x, tc_v##S y) {                                         \
    tc_v##S d = tc_select_v##S(x == y, (tc_v##S){0}, -tc_fabs_v##S(x - y)); /* of infinities too */ \
    return tc_max_v##S(x, y) + tc_log1p_v##S(tc_exp_v##S(d));                                     \
  }                                                                                               \
  TC_FN tc_v##S tc_sigmoid_v##S(tc_v##S x) {                                                      \
    tc_v##S one = (tc_v##S){0} + (tc_##T)1, e = tc_exp_v##S(-tc_fabs_v##S(x));                    \
    return tc_select_v##S(x < 0, e, one) / (one + e);                                             \
  }                                                                                               \
  TC_FN tc_v##S tc_leaky_relu_v##S(tc_v##S x, tc_v##S slope) {                                    \
    return tc_select_v##S(x > 0, x, slope * x);                                                   \
  }                                                                                               \
  TC_FN tc_v##S tc_elu_v##S(tc_v##S x, tc_v##S alpha) {                                           \
    return tc_select_v##S(x > 0, x, alpha * tc_expm1_v##S(x));                                    \
  }

#define TC_VECTORS_MATH(NS, NL)                                                                   \
  TC_VECTOR_MATH(NS##f32, f32, NS, NS##i32, 0x7fffffff)                                           \
  TC_VECTOR_MATH(NL##f64, f64, NL, NL##i64, 0x7fffffffffffffffLL)
TC_EXPAND(TC_VECTORS_MATH, TC_VL_f32, TC_VL_f64)
#endif
