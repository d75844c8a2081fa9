/* The builtin functions of the language: tc_NAME_f32, tc_NAME_f64; vmath.h has them for vectors.
 *
 * float32: nearly all are free of branches and calls, so that the compiler vectorises loops over
 * them. The common ones compute in float32; the others in float64, which makes them simple and right
 * to half a unit. float64: exp, log and their kin are ours; libm's do the rest. libm is declared, not
 * included, so that nothing is parsed for it. Every function is right for NaN, infinities, zeros of
 * both signs, denormals and at the edges of overflow; tests/codegen/preludes/smath_bounds.py states how far
 * each may be off, and holds it against exact values.
 *
 * Polynomials are minimax fits over the interval stated, coefficients ascending.
 */
#ifndef TC_SMATH_H
#define TC_SMATH_H
#include "prelude.h"

/* c[0] + c[1] x + c[2] x^2 + ... */
#define TC_POLY(T, x, ...)                                                                        \
  tc_poly_##T(x, (const tc_##T[]){__VA_ARGS__}, sizeof((tc_##T[]){__VA_ARGS__}) / sizeof(tc_##T))
TC_FN tc_f32 tc_poly_f32(tc_f32 x, const tc_f32 *c, int n) {
  tc_f32 p = c[n - 1];
#pragma GCC unroll 32
  for (int i = n - 2; i >= 0; i--) p = p * x + c[i];
  return p;
}
TC_FN tc_f64 tc_poly_f64(tc_f64 x, const tc_f64 *c, int n) {
  tc_f64 p = c[n - 1];
#pragma GCC unroll 32
  for (int i = n - 2; i >= 0; i--) p = p * x + c[i];
  return p;
}

/* The same by even and odd powers, for long ones: half as many steps wait for each other. */
#define TC_PAIRED(T, x, ...)                                                                      \
  tc_paired_##T(x, (const tc_##T[]){__VA_ARGS__}, sizeof((tc_##T[]){__VA_ARGS__}) / sizeof(tc_##T))
#define TC_PAIRED_OF(T)                                                                           \
  TC_FN tc_##T tc_paired_##T(tc_##T x, const tc_##T *c, int n) {                                  \
    tc_##T z = x * x, p = c[n - 1], q = c[n - 2];                                                 \
    _Pragma("GCC unroll 16") for (int i = n - 3; i > 0; i -= 2) {                                 \
      p = p * z + c[i];                                                                           \
      q = q * z + c[i - 1];                                                                       \
    }                                                                                             \
    return n % 2 ? p * z + (q * x + c[0]) : p * x + q;                                            \
  }
TC_PAIRED_OF(f32) TC_PAIRED_OF(f64)

/* Nearest integer, even at ties, by the rounding of an addition: |x| < 2^22 and < 2^51. */
TC_FN tc_f32 tc_nearest_f32(tc_f32 x) { return (x + 0x1.8p23f) - 0x1.8p23f; }
TC_FN tc_f64 tc_nearest_f64(tc_f64 x) { return (x + 0x1.8p52) - 0x1.8p52; }
/* 2^n for an integral n, -127 < n < 128 and -1023 < n < 1024. */
TC_FN tc_f32 tc_pow2_f32(tc_f32 n) { return tc_float_u32(tc_bits_f32(n + (0x1.8p23f + 127)) << 23); }
TC_FN tc_f64 tc_pow2_f64(tc_f64 n) { return tc_float_u64(tc_bits_f64(n + (0x1.8p52 + 1023)) << 52); }
TC_FN tc_f32 tc_copysign_f32(tc_f32 x, tc_f32 s) { return __builtin_copysignf(x, s); }
TC_FN tc_f64 tc_copysign_f64(tc_f64 x, tc_f64 s) { return __builtin_copysign(x, s); }
TC_FN tc_f32 tc_fabs_f32(tc_f32 x) { return __builtin_fabsf(x); }
TC_FN tc_f64 tc_fabs_f64(tc_f64 x) { return __builtin_fabs(x); }
TC_FN tc_f32 tc_trunc_f32(tc_f32 x) { return __builtin_truncf(x); }
TC_FN tc_f64 tc_trunc_f64(tc_f64 x) { return __builtin_trunc(x); }
TC_FN tc_f32 tc_rint_f32(tc_f32 x) { return __builtin_rintf(x); } /* no thread has another mode */
TC_FN tc_f64 tc_rint_f64(tc_f64 x) { return __builtin_rint(x); }

/* ---- exponentials, float32 */

/* e^r = 1 + r + r r P(r), |r| <= ln(2) / 2 */
#define TC_EXP_F32 0.5f, 0.16666666f, 0.041666303f, 0.008333493f, 0.0013944284f, 0.00019791716f

/* p 2^n for -254 < n < 256, where x = n + TC_WHOLE: a whole number in its last bits, 254 more than n.
 * The power comes in two steps, the halves of that, so that neither overflows before the result does. */
#define TC_WHOLE (0x1.8p23f + 254)
TC_FN tc_f32 tc_scaled_f32(tc_f32 p, tc_f32 x) {
  tc_u32 n = tc_bits_f32(x), half = n >> 1;
  return p * tc_float_u32(half << 23) * tc_float_u32((n - half) << 23);
}
/* factor * e^(x + low) for x in [-104, 89] and a small low: 2^n e^r with |r| <= ln(2) / 2. The power is
 * that of tc_scaled_f32, its first half beside the polynomial, not behind it: the time is the chain's. */
TC_FN tc_f32 tc_scaled_exp_f32(tc_f32 factor, tc_f32 x, tc_f32 low) {
  tc_f32 whole = x * 0x1.715476p+0f + TC_WHOLE, n = whole - TC_WHOLE;
  tc_f32 r = (x - n * 0.693359375f) - (n * -2.12194440e-4f - low);
  tc_f32 p = TC_PAIRED(f32, r, TC_EXP_F32) * (r * r) + r;
  tc_u32 bits = tc_bits_f32(whole), half = bits >> 1;
  factor *= tc_float_u32(half << 23);
  return (factor + factor * p) * tc_float_u32((bits - half) << 23);
}
TC_FN tc_f32 tc_exp_f32(tc_f32 x) {
  x = x > 89.0f ? 89.0f : x; /* NaN passes */
  x = x < -104.5f ? -104.5f : x;
  return tc_scaled_exp_f32(1.0f, x, 0.0f);
}
TC_FN tc_f32 tc_exp2_f32(tc_f32 x) {
  x = x > 129.0f ? 129.0f : x;
  x = x < -151.0f ? -151.0f : x;
  tc_f32 whole = x + TC_WHOLE, r = x - (whole - TC_WHOLE);
  tc_f32 p = TC_POLY(f32, r, 0.6931472f, 0.2402265f, 0.055504356f, 0.009618186f, 0.0013316397f,
                     0.00015416661f, 1.8729339e-05f);
  return tc_scaled_f32(p * r + 1.0f, whole);
}
/* 2^n p + (2^n - 1) with p = e^r - 1; computed halved, so that 2^128 fits. */
TC_FN tc_f32 tc_expm1_f32(tc_f32 x) {
  tc_f32 c = x > 89.0f ? 89.0f : x;
  c = c < -18.0f ? -18.0f : c;
  tc_f32 n = tc_nearest_f32(c * 0x1.715476p+0f);
  tc_f32 r = (c - n * 0.693359375f) - n * -2.12194440e-4f;
  tc_f32 p = TC_POLY(f32, r, TC_EXP_F32);
  p = p * (r * r) + r;
  tc_f32 s = tc_pow2_f32(n - 1.0f), y = (p * s + (s - 0.5f)) * 2.0f;
  return tc_fabs_f32(x) < 0x1p-24f ? x : y; /* -0 too */
}
/* e / (e + 2) with e = e^(2|x|) - 1: one polynomial, one division. */
TC_FN tc_f32 tc_tanh_f32(tc_f32 x) {
  tc_f32 a = tc_fabs_f32(x), y = a > 10.0f ? 20.0f : a + a;
  tc_f32 n = tc_nearest_f32(y * 0x1.715476p+0f);
  tc_f32 r = (y - n * 0.693359375f) - n * -2.12194440e-4f;
  tc_f32 p = TC_POLY(f32, r, TC_EXP_F32);
  tc_f32 s = tc_pow2_f32(n), e = (p * (r * r) + r) * s + (s - 1.0f);
  return tc_copysign_f32(e / (e + 2.0f), x);
}

/* ---- logarithms, float32 */

/* ln(1 + f) + k ln(2) for 1 + f in [sqrt(1/2), sqrt(2)]; low: a correction to the whole. */
TC_FN tc_f32 tc_log_parts_f32(tc_f32 f, tc_f32 k, tc_f32 low) {
  tc_f32 z = f * f;
  tc_f32 p = TC_PAIRED(f32, f, 0.33333313f, -0.25000009f, 0.20002121f, -0.16667996f, 0.1421952f,
                     -0.12405544f, 0.11888378f, -0.1167605f, 0.067466348f);
  tc_f32 y = f * z * p + (k * -2.12194440e-4f + low);
  return f + (y - 0.5f * z) + k * 0.693359375f;
}
/* Split u > 0, no denormal, into 2^k (1 + f). */
TC_FN tc_f32 tc_split_f32(tc_f32 u, tc_f32 *k) {
  int bits = (int)tc_bits_f32(u), e = (bits - 0x3f3504f3) >> 23;
  *k = (tc_f32)e;
  return tc_float_u32((tc_u32)bits - ((tc_u32)e << 23)) - 1.0f;
}
/* Split also a denormal. */
TC_FN tc_f32 tc_split_any_f32(tc_f32 u, tc_f32 *k) {
  int is_denormal = u < 0x1p-126f; /* asked once, or compilers split twice */
  tc_f32 scale = is_denormal ? 0x1p23f : 1.0f, less = is_denormal ? 23.0f : 0.0f;
  tc_f32 f = tc_split_f32(u * scale, k);
  *k -= less;
  return f;
}
/* What a logarithm gives where u > 0 does not hold, and at infinity. */
TC_FN tc_f32 tc_log_ends_f32(tc_f32 u, tc_f32 y) {
  y = u == 0.0f ? -TC_INF_F32 : y;
  y = u < 0.0f ? TC_NAN_F32 : y;
  return ((u == TC_INF_F32) | (u != u)) ? u : y;
}
TC_FN tc_f32 tc_log_f32(tc_f32 x) {
  tc_f32 k, f = tc_split_any_f32(x, &k);
  return tc_log_ends_f32(x, tc_log_parts_f32(f, k, 0.0f));
}
/* ln(u) + c / u with u = 1 + x rounded and c what the rounding lost. */
TC_FN tc_f32 tc_log1p_f32(tc_f32 x) {
  tc_f32 u = 1.0f + x, k, f = tc_split_f32(u, &k);
  tc_f32 c = (x > 1.0f ? 1.0f - (u - x) : x - (u - 1.0f)) / u;
  tc_f32 y = tc_log_parts_f32(k == 0.0f ? x : f, k, k == 0.0f ? 0.0f : c);
  return x == 0.0f ? x : tc_log_ends_f32(u, y);
}

/* ---- the error function, float32 */

/* Near 0 x + x P(x x), else 1 - e^(-a Q(a)). */
TC_FN tc_f32 tc_erf_f32(tc_f32 x) {
  tc_f32 a = tc_fabs_f32(x), z = x * x;
  tc_f32 near = TC_PAIRED(f32, z, 0.12837917f, -0.37612635f, 0.11283697f, -0.0268595f, 0.0052012863f,
                        -0.00081455981f, 8.3823921e-05f);
  a = a > 4.0f ? 4.0f : a;
  tc_f32 far = TC_PAIRED(f32, a, 1.128641f, 0.63518149f, 0.10618761f, -0.023720184f, 0.0036229184f,
                       -0.00031805964f, 1.0763172e-05f);
  tc_f32 y = a < 0.92f ? x + x * near
                       : tc_copysign_f32(1.0f - tc_scaled_exp_f32(1.0f, -a * far, 0.0f), x);
  return x != x ? x : y;
}

/* ---- float64: exponentials and logarithms, and what float32 makes of them */

/* e^r = 1 + r + r r P(r), |r| <= ln(2) / 2 */
#define TC_EXP_F64                                                                                \
  0.5, 0.16666666666666682, 0.04166666666666617, 0.008333333333317757, 0.0013888888889094305,     \
      0.0001984126989488183, 2.4801586953768126e-05, 2.7557236160033096e-06,                      \
      2.755756590034985e-07, 2.5111636819904093e-08, 2.0830139723715573e-09
TC_FN tc_f64 tc_exp_f64(tc_f64 x) {
  x = x > 710.0 ? 710.0 : x;
  x = x < -746.0 ? -746.0 : x;
  tc_f64 n = tc_nearest_f64(x * 0x1.71547652b82fep+0);
  tc_f64 r = (x - n * 0x1.62e42feep-1) - n * 0x1.a39ef35793c76p-33;
  tc_f64 p = TC_POLY(f64, r, TC_EXP_F64), half = tc_nearest_f64(n * 0.5);
  return (p * (r * r) + r + 1.0) * tc_pow2_f64(half) * tc_pow2_f64(n - half);
}
/* The same forms as in float32. */
TC_FN tc_f64 tc_expm1_f64(tc_f64 x) {
  tc_f64 c = x > 710.0 ? 710.0 : x;
  c = c < -40.0 ? -40.0 : c;
  tc_f64 n = tc_nearest_f64(c * 0x1.71547652b82fep+0);
  tc_f64 r = (c - n * 0x1.62e42feep-1) - n * 0x1.a39ef35793c76p-33;
  tc_f64 p = TC_POLY(f64, r, TC_EXP_F64) * (r * r) + r;
  tc_f64 s = tc_pow2_f64(n - 1.0), y = (p * s + (s - 0.5)) * 2.0;
  return tc_fabs_f64(x) < 0x1p-53 ? x : y;
}
TC_FN tc_f64 tc_tanh_f64(tc_f64 x) {
  tc_f64 a = tc_fabs_f64(x), e = tc_expm1_f64(a > 20.0 ? 40.0 : a + a);
  return tc_copysign_f64(e / (e + 2.0), x);
}
/* ln(1 + f) + k ln(2) + low, with ln(1 + f) = 2 atanh(s), s = f / (2 + f). */
TC_FN tc_f64 tc_log_parts_f64(tc_f64 f, tc_f64 k, tc_f64 low) {
  tc_f64 s = f / (2.0 + f), z = s * s, hz = 0.5 * f * f;
  tc_f64 p = z * TC_POLY(f64, z, 0.6666666666666735, 0.399999999994131, 0.2857142874278577,
                         0.22222198528124718, 0.18183566867369316, 0.15313980781609238,
                         0.147966926806009);
  tc_f64 tail = s * (hz + p) + (k * 0x1.a39ef35793c76p-33 + low);
  return k * 0x1.62e42feep-1 + (f - (hz - tail));
}
/* Split u > 0, no denormal, into 2^k (1 + f). The exponent stays in float64 bits: no instruction set
 * but AVX-512 converts 64-bit integers. */
TC_FN tc_f64 tc_split_f64(tc_f64 u, tc_f64 *k) {
  tc_u64 bits = tc_bits_f64(u) + (0x3ff0000000000000 - 0x3fe6a09e00000000);
  *k = tc_float_u64(bits >> 52 | 0x4330000000000000) - (0x1p52 + 1023);
  return tc_float_u64((bits & 0x000fffffffffffff) + 0x3fe6a09e00000000) - 1.0;
}
TC_FN tc_f64 tc_log_ends_f64(tc_f64 u, tc_f64 y) {
  y = u == 0.0 ? -TC_INF_F64 : y;
  y = u < 0.0 ? TC_NAN_F64 : y;
  return ((u == TC_INF_F64) | (u != u)) ? u : y;
}
TC_FN tc_f64 tc_log_f64(tc_f64 x) {
  tc_f64 k, f = tc_split_f64(x < 0x1p-1022 ? x * 0x1p54 : x, &k);
  return tc_log_ends_f64(x, tc_log_parts_f64(f, x < 0x1p-1022 ? k - 54.0 : k, 0.0));
}
TC_FN tc_f64 tc_log1p_f64(tc_f64 x) {
  tc_f64 u = 1.0 + x, k, f = tc_split_f64(u, &k);
  tc_f64 c = (x > 1.0 ? 1.0 - (u - x) : x - (u - 1.0)) / u;
  tc_f64 y = tc_log_parts_f64(k == 0.0 ? x : f, k, k == 0.0 ? 0.0 : c);
  return x == 0.0 ? x : tc_log_ends_f64(u, y);
}

#include "builtins.h"

#include "precise.h"
#include "trigonometry.h"

/* ---- roots, norms, parts: both types */

#define TC_INEXACT(T, F)                                                                          \
  TC_FN tc_##T tc_sqrt_##T(tc_##T x) { return __builtin_sqrt##F(x); }                             \
  TC_FN tc_##T tc_rsqrt_##T(tc_##T x) { return (tc_##T)1 / __builtin_sqrt##F(x); }                \
  TC_FN tc_##T tc_fma_##T(tc_##T x, tc_##T y, tc_##T z) { return __builtin_fma##F(x, y, z); }     \
  TC_FN tc_##T tc_ceil_##T(tc_##T x) { return __builtin_ceil##F(x); }                             \
  TC_FN tc_##T tc_floor_##T(tc_##T x) { return __builtin_floor##F(x); }                           \
  TC_FN tc_##T tc_logb_##T(tc_##T x) { return __builtin_logb##F(x); }
TC_INEXACT(f32, f) TC_INEXACT(f64, )
TC_FN tc_f32 tc_fmod_f32(tc_f32 x, tc_f32 y) { return __builtin_fmodf(x, y); }
TC_FN tc_f32 tc_remainder_f32(tc_f32 x, tc_f32 y) { return __builtin_remainderf(x, y); }

/* The next of the bits, upwards in size where y lies away from zero; libm's is a call. */
#define TC_NEXT(T, U, least)                                                                      \
  TC_FN tc_##T tc_nextafter_##T(tc_##T x, tc_##T y) {                                             \
    tc_##U up = tc_bits_##T(x) + 1, down = tc_bits_##T(x) - 1;                                    \
    tc_##T next = tc_float_##U((x < y) == (x > 0) ? up : down);                                   \
    next = x == 0 ? tc_copysign_##T(least, y) : next;                                             \
    return ((x != x) | (y != y)) ? x + y : x == y ? y : next;                                     \
  }
TC_NEXT(f32, u32, 0x1p-149f) TC_NEXT(f64, u64, 0x1p-1074)

/* Squares of float32 fit float64 without scaling. An infinity wins over NaN. */
TC_FN tc_f64 tc_square_sum(tc_f32 a, tc_f32 b, tc_f32 c, tc_f32 d) {
  tc_f64 sum = (tc_f64)a * a + (tc_f64)b * b + (tc_f64)c * c + (tc_f64)d * d;
  int infinite = tc_isinf_f32(a) | tc_isinf_f32(b) | tc_isinf_f32(c) | tc_isinf_f32(d);
  return infinite ? TC_INF_F64 : sum;
}
TC_FN tc_f32 tc_hypot_f32(tc_f32 a, tc_f32 b) {
  return (tc_f32)__builtin_sqrt(tc_square_sum(a, b, 0, 0));
}
TC_FN tc_f32 tc_norm3d_f32(tc_f32 a, tc_f32 b, tc_f32 c) {
  return (tc_f32)__builtin_sqrt(tc_square_sum(a, b, c, 0));
}
TC_FN tc_f32 tc_norm4d_f32(tc_f32 a, tc_f32 b, tc_f32 c, tc_f32 d) {
  return (tc_f32)__builtin_sqrt(tc_square_sum(a, b, c, d));
}
TC_FN tc_f32 tc_rhypot_f32(tc_f32 a, tc_f32 b) {
  return (tc_f32)(1.0 / __builtin_sqrt(tc_square_sum(a, b, 0, 0)));
}
TC_FN tc_f32 tc_rnorm3d_f32(tc_f32 a, tc_f32 b, tc_f32 c) {
  return (tc_f32)(1.0 / __builtin_sqrt(tc_square_sum(a, b, c, 0)));
}
TC_FN tc_f32 tc_rnorm4d_f32(tc_f32 a, tc_f32 b, tc_f32 c, tc_f32 d) {
  return (tc_f32)(1.0 / __builtin_sqrt(tc_square_sum(a, b, c, d)));
}

#include "float64.h"
#include "pairs.h"
#include "rare.h"

#endif
