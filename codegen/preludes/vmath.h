/* The builtin functions for vectors of the native width: tc_NAME_v16f32, tc_NAME_v8f64 and so on.
 *
 * The functions of smath.h lane by lane, which compilers make vector code of; and those that have a
 * quicker form where all lanes are alike, with the lane by lane one behind a branch that is rarely
 * taken. They are within the same bounds.
 */
#ifndef TC_VMATH_H
#define TC_VMATH_H
#include "smath.h"

#define TC_NAMED(name, N, T) TC_NAMED_(name, N, T)
#define TC_NAMED_(name, N, T) tc_##name##_v##N##T
#define TC_F32(name) TC_NAMED(name, TC_VL_f32, f32) /* tc_NAME_v16f32 */
#define TC_F64(name) TC_NAMED(name, TC_VL_f64, f64)

/* Whether a lane of x is limit or more; NaN is not. */
TC_FN int tc_any_from(tc_native_f32 x, tc_f32 limit) {
#if TC_VECTOR_BYTES == 64 && defined(TC_ISA_AVX512)
  return __builtin_ia32_cmpps512_mask(x, TC_F32(splat)(limit), 0x1d, (short)-1, 4) != 0;
#elif TC_VECTOR_BYTES == 32 && defined(__AVX__)
  return __builtin_ia32_movmskps256((tc_native_f32)(x >= limit)) != 0;
#elif TC_VECTOR_BYTES == 16 && defined(__SSE2__)
  return __builtin_ia32_movmskps((tc_native_f32)(x >= limit)) != 0;
#else
  tc_native_i32 c = x >= limit;
  int any = 0;
  for (int i = 0; i < TC_VL_f32; i++) any |= c[i];
  return any;
#endif
}

/* Whether |x| is limit or more in a lane. */
TC_FN int tc_any_beyond(tc_native_f32 x, tc_f32 limit) {
  return tc_any_from((tc_native_f32)((tc_native_i32)x & 0x7fffffff), limit);
}

/* The quick form of a function of float32, but in a vector with a lane from limit on. */
#define TC_QUICK1(name, limit)                                                                    \
  static __attribute__((noinline, cold, unused)) void tc_##name##_far(tc_f32 *x) {                 \
    for (int i = 0; i < TC_VL_f32; i++) x[i] = tc_##name##_f32(x[i]);                              \
  }                                                                                               \
  TC_FN tc_native_f32 TC_F32(name)(tc_native_f32 x) {                                             \
    if (__builtin_expect(tc_any_beyond(x, limit), 0)) {                                           \
      tc_f32 lanes[TC_VL_f32] __attribute__((aligned(64)));                                       \
      TC_F32(store)(lanes, x);                                                                    \
      tc_##name##_far(lanes);                                                                     \
      return TC_F32(load)(lanes);                                                                 \
    }                                                                                             \
    return tc_##name##_quick(x);                                                                  \
  }

/* ---- trigonometry: float32 in float64 */

/* sin(pi k + r) for a whole k, cos where k is a half more; |r| <= pi/2, and the sign turns with k.
 * pi has a part of 33 bits, times which k < 2^19 is exact, and a rest of 53. */
TC_FN tc_native_f64 tc_wave(tc_native_f64 x, tc_native_f64 k, tc_native_i64 odd) {
  tc_native_f64 r = (x - k * 0x1.921fb54400000p+1) - k * 0x1.0b4611a626331p-33, z = r * r;
  tc_native_f64 p = -2.3886587449077862e-8 * z + 2.7525255581971832e-6;
  p = p * z - 0.00019840865761403171;
  p = p * z + 0.0083333310904005051;
  p = p * z - 0.16666666625732392;
  return (tc_native_f64)((tc_native_i64)(r * (p * z + 1.0)) ^ (odd << 63));
}
TC_FN tc_native_f64 tc_sin_wave(tc_native_f64 x) {
  tc_native_f64 n = x * 0x1.45f306dc9c883p-2 + 0x1.8p52; /* its last bits: the nearest integer */
  return tc_wave(x, n - 0x1.8p52, (tc_native_i64)n);
}
TC_FN tc_native_f64 tc_cos_wave(tc_native_f64 x) {
  tc_native_f64 n = (x * 0x1.45f306dc9c883p-2 - 0.5) + 0x1.8p52;
  return tc_wave(x, (n - 0x1.8p52) + 0.5, ~(tc_native_i64)n);
}
/* f of the halves of x, which are computed in float64. */
#define TC_IN_HALVES(f, x) TC_F32(join)(f(TC_F64(low)(x)), f(TC_F64(high)(x)))
TC_FN tc_native_f32 tc_sin_quick(tc_native_f32 x) { return TC_IN_HALVES(tc_sin_wave, x); }
TC_FN tc_native_f32 tc_cos_quick(tc_native_f32 x) { return TC_IN_HALVES(tc_cos_wave, x); }
TC_QUICK1(sin, 0x1p20f)
TC_QUICK1(cos, 0x1p20f)
#define TC_WAVES_f32(S, N)
#define TC_WAVES_f64(S, N) TC_LANES1(sin, S, f64, N) TC_LANES1(cos, S, f64, N)

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
  TC_FN tc_v##SI tc_abs_v##SI(tc_v##SI x) { return tc_select_v##SI(x < 0, -x, x); }               \
  TC_VECTOR_SIMPLE(S, (tc_##T)1) TC_VECTOR_SIMPLE(SI, 1)                                          \
  TC_LANES1(sqrt, S, T, N) TC_LANES1(rsqrt, S, T, N) TC_LANES1(floor, S, T, N)                    \
  TC_LANES1(ceil, S, T, N) TC_LANES1(trunc, S, T, N) TC_LANES1(round, S, T, N)                    \
  TC_LANES1(rint, S, T, N) TC_LANES1(silu, S, T, N) TC_LANES2(logaddexp, S, T, N)                 \
  TC_LANES1(exp2, S, T, N) TC_LANES1(expm1, S, T, N) TC_LANES1(exp10, S, T, N)                    \
  TC_LANES1(log, S, T, N) TC_LANES1(log2, S, T, N) TC_LANES1(log10, S, T, N)                      \
  TC_LANES1(log1p, S, T, N) TC_LANES1(tanh, S, T, N) TC_WAVES_##T(S, N)  \
  TC_LANES1(erf, S, T, N) TC_LANES1(erfc, S, T, N)                        \
  TC_LANES1(gelu, S, T, N) TC_LANES1(softplus, S, T, N) TC_LANES2(pow, S, T, N)                   \
  TC_VECTOR_EXP(S, T, N)                                                                          \
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

/* AVX-512 scales by 2^n in one instruction, which over- and underflows as it should. */
#if TC_VECTOR_BYTES == 64 && defined(TC_ISA_AVX512)
#ifdef __clang__
#define TC_SMALLER(W, a, x, all) __builtin_ia32_minp##W##512(a, x, 4) /* NaN in x passes */
#define TC_LARGER(W, a, x, all) __builtin_ia32_maxp##W##512(a, x, 4)
#else
#define TC_SMALLER(W, a, x, all) __builtin_ia32_minp##W##512_mask(a, x, a, all, 4)
#define TC_LARGER(W, a, x, all) __builtin_ia32_maxp##W##512_mask(a, x, a, all, 4)
#endif
TC_FN tc_v16f32 tc_exp_v16f32(tc_v16f32 x) {
  tc_v16f32 zero = {0};
  x = TC_LARGER(s, zero - 104.5f, TC_SMALLER(s, zero + 89.0f, x, (short)-1), (short)-1);
  tc_v16f32 n = x * 0x1.715476p+0f;
  n = __builtin_ia32_rndscaleps_mask(n, 8, n, (short)-1, 4);
  tc_v16f32 r = (x - n * 0.693359375f) - n * -2.12194440e-4f;
  tc_v16f32 p = zero;
  const tc_f32 c[] = {TC_EXP_F32};
#pragma GCC unroll 8
  for (int i = sizeof c / sizeof *c - 1; i >= 0; i--) p = p * r + c[i];
  p = p * (r * r) + r + 1.0f;
  return __builtin_ia32_scalefps512_mask(p, n, p, (short)-1, 4);
}
TC_FN tc_v8f64 tc_exp_v8f64(tc_v8f64 x) {
  tc_v8f64 zero = {0};
  x = TC_LARGER(d, zero - 746.0, TC_SMALLER(d, zero + 710.0, x, (char)-1), (char)-1);
  tc_v8f64 n = x * 0x1.71547652b82fep+0;
  n = __builtin_ia32_rndscalepd_mask(n, 8, n, (char)-1, 4);
  tc_v8f64 r = (x - n * 0x1.62e42feep-1) - n * 0x1.a39ef35793c76p-33, p = zero;
  const tc_f64 c[] = {TC_EXP_F64};
#pragma GCC unroll 16
  for (int i = sizeof c / sizeof *c - 1; i >= 0; i--) p = p * r + c[i];
  p = p * (r * r) + r + 1.0;
  return __builtin_ia32_scalefpd512_mask(p, n, p, (char)-1, 4);
}
#define TC_VECTOR_EXP(S, T, N)
#else
#define TC_VECTOR_EXP(S, T, N) TC_LANES1(exp, S, T, N)
#endif

#define TC_VECTORS_MATH(NS, NL)                                                                   \
  TC_VECTOR_MATH(NS##f32, f32, NS, NS##i32, 0x7fffffff)                                           \
  TC_VECTOR_MATH(NL##f64, f64, NL, NL##i64, 0x7fffffffffffffffLL)
TC_EXPAND(TC_VECTORS_MATH, TC_VL_f32, TC_VL_f64)
#endif
