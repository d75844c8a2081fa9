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

/* ---- float32 in float64, to the bits that float32 needs */

/* 2^x for |x| < 1000 to 33 bits. */
TC_FN tc_f64 tc_exp2_near(tc_f64 x) {
  tc_f64 whole = x + 0x1.8p52, r = x - (whole - 0x1.8p52);
  tc_f64 p = TC_PAIRED(f64, r, 1.0, 0.6931471805537177, 0.24022650922399383, 0.055504109287551,
                     0.009618056660678097, 0.0013333454547324625, 0.0001546145045611541,
                     1.5310081372910543e-05);
  return tc_float_u64(tc_bits_f64(p) + (tc_bits_f64(whole) << 52));
}
/* log2(1 + f) + k for 1 + f in [sqrt(1/2), sqrt(2)] to 38 bits: a division takes as long as half of
 * this. */
TC_FN tc_f64 tc_log2_near(tc_f64 f, tc_f64 k) {
  tc_f64 p = TC_PAIRED(f64, f, 1.4426950408865757, -0.7213475203275672, 0.4808983488027021,
                     -0.36067379313996717, 0.28853879572625213, -0.24044643334948895,
                     0.20610712345149665, -0.18043675651642765, 0.16021665765431375,
                     -0.14249856917860584, 0.13027571101557828, -0.13462970307153083,
                     0.13251167425905364, -0.06973807702662463);
  return f * p + k;
}
/* Phi(-a) for a = x unit, 0 <= a <= 14.6, to 30 bits. An inverse of float32 is made one of 40 bits. */
TC_FN tc_f64 tc_normal_tail(tc_f32 x, tc_f64 unit) {
  tc_f64 a = x * unit, s = a + 2.5, near = 1.0f / (x * (tc_f32)unit + 2.5f);
  tc_f64 u = near + near * (1.0 - s * near);
  tc_f64 e = tc_exp2_near(a * a * -0x1.71547652b82fep-1);
  return e * u * TC_PAIRED(f64, 1.0 - 5.0 * u, TC_MILLS);
}
TC_FN tc_f32 tc_normcdf_f32(tc_f32 x) {
  tc_f32 a = tc_fabs_f32(x);
  tc_f64 tail = tc_normal_tail(a > 14.6f ? 14.6f : a, 1.0);
  return (tc_f32)(x > 0.0f ? 1.0 - tail : tail);
}
TC_FN tc_f32 tc_erfc_f32(tc_f32 x) {
  tc_f32 a = tc_fabs_f32(x);
  tc_f64 tail = 2.0 * tc_normal_tail(a > 10.3f ? 10.3f : a, 0x1.6a09e667f3bcdp+0);
  return (tc_f32)(x < 0.0f ? 2.0 - tail : tail);
}
/* In w = -ln(1 - x x), then in its root: x P(w - 3), x Q(sqrt(w) - 3.25). */
TC_FN tc_f64 tc_erfinv_near(tc_f64 w) {
  return TC_PAIRED(f64, w - 3.0, 1.6235420065140777, 0.24163040371220394, -0.0057381358218317872,
                 -0.00083618016834520239, 0.00019506247062236722, -1.2718089966441307e-05,
                 -1.7487970021466801e-06, 4.5075598158877992e-07, -2.343425939841287e-08,
                 -5.6524130169775077e-09, 1.0710103614488675e-09, -7.1020331179943709e-12,
                 -1.466026747236917e-11, 1.0068014328914471e-12);
}
TC_FN tc_f32 tc_erfinv_f32(tc_f32 x) {
  tc_f64 a = tc_fabs_f64(x), w = -tc_log_f64((1.0 - a) * (1.0 + a)), near = tc_erfinv_near(w);
  tc_f64 far = TC_POLY(f64, __builtin_sqrt(w) - 3.25, 3.0838856102828177, 1.0052589695040772,
                       0.0053709376848747756, -0.003751270909655711, 0.0024910347706245378,
                       -0.0016876305619978499, 0.00095587363150039495, -0.00035803286060022733,
                       1.678413809676444e-05, 7.5360930449882872e-05, -3.8470735323511001e-05,
                       4.0915021008231077e-06);
  tc_f64 y = x * (w < 6.0 ? near : far);
  return (tc_f32)(a == 1.0 ? tc_copysign_f64(TC_INF_F64, x) : y);
}
/* The same for |x| < 0.998, where w < 6. */
TC_FN tc_f32 tc_erfinv_middle_f32(tc_f32 x) {
  tc_f64 a = x, k, f = tc_split_f64((1.0 - a) * (1.0 + a), &k);
  return (tc_f32)(a * tc_erfinv_near(-0x1.62e42fefa39efp-1 * tc_log2_near(f, k)));
}
TC_FN tc_f32 tc_exp10_f32(tc_f32 x) { return (tc_f32)tc_exp_f64((tc_f64)x * 0x1.26bb1bbb55516p+1); }
/* log2(x) times unit; of a NaN and where x > 0 does not hold, anything. */
TC_FN tc_f64 tc_log_near(tc_f32 x, tc_f64 unit) {
  tc_f32 k, f = tc_split_any_f32(x, &k);
  return tc_log2_near(f, k) * unit;
}
TC_FN tc_f32 tc_log2_f32(tc_f32 x) { return tc_log_ends_f32(x, (tc_f32)tc_log_near(x, 1.0)); }
TC_FN tc_f32 tc_log10_f32(tc_f32 x) {
  return tc_log_ends_f32(x, (tc_f32)tc_log_near(x, 0x1.34413509f79ffp-2));
}
/* e^a for 0 <= a <= 90, and its inverse: of a small one 33 bits, one of float32 made one of 46. */
TC_FN tc_f64 tc_exp_pair(tc_f32 a, tc_f64 *inverse) {
  tc_f64 e = tc_exp2_near(a * 0x1.71547652b82fep+0), near = 1.0f / (tc_f32)e;
  *inverse = near + near * (1.0 - e * near);
  return e;
}
/* Below 1/4, where the difference loses digits, a series. */
TC_FN tc_f32 tc_sinh_f32(tc_f32 x) {
  tc_f32 a = tc_fabs_f32(x);
  tc_f64 inverse, e = tc_exp_pair(a > 90.0f ? 90.0f : a, &inverse), z = (tc_f64)a * a;
  tc_f64 y = a + a * z * TC_POLY(f64, z, 1.0 / 6, 1.0 / 120, 1.0 / 5040);
  return tc_copysign_f32((tc_f32)(a < 0.25f ? y : 0.5 * (e - inverse)), x);
}
TC_FN tc_f32 tc_cosh_f32(tc_f32 x) {
  tc_f32 a = tc_fabs_f32(x);
  tc_f64 inverse, e = tc_exp_pair(a > 90.0f ? 90.0f : a, &inverse);
  return (tc_f32)(0.5 * (e + inverse));
}
TC_FN tc_f32 tc_asinh_f32(tc_f32 x) {
  tc_f64 a = tc_fabs_f64(x), y = tc_log_f64(a + __builtin_sqrt(a * a + 1.0));
  return (tc_f32)tc_copysign_f64(a < 1e-3 ? a - a * a * a * (1.0 / 6) : y, x);
}
TC_FN tc_f32 tc_acosh_f32(tc_f32 x) {
  tc_f64 a = x;
  return a < 1.0 ? TC_NAN_F32 : (tc_f32)tc_log_f64(a + __builtin_sqrt((a - 1.0) * (a + 1.0)));
}
/* ln(num / den) / 2 for num / den = 2^k (1 + f) with one division: atanh(s) + k ln(2) / 2 for
 * s = f / (2 + f) = (num - 2^k den) / (num + 2^k den), |s| < 0.21. */
TC_FN tc_f32 tc_atanh_f32(tc_f32 x) {
  tc_f64 a = tc_fabs_f64(x), num = 1.0 + a, den = 1.0 - a;
  tc_u64 e = (tc_bits_f64(num) - tc_bits_f64(den) + (0x3ff0000000000000 - 0x3fe6a09e00000000)) >> 52;
  tc_f64 k = tc_float_u64(e | 0x4330000000000000) - 0x1p52;
  tc_f64 scaled = tc_float_u64(tc_bits_f64(den) + (e << 52));
  tc_f64 s = (num - scaled) / (num + scaled), z = s * s;
  tc_f64 y = s + s * z * TC_POLY(f64, z, 1.0 / 3, 1.0 / 5, 1.0 / 7, 1.0 / 9, 1.0 / 11, 1.0 / 13);
  y += k * 0x1.62e42fefa39efp-2;
  y = a < 1e-3 ? a + a * a * a * (1.0 / 3) : y;
  return (tc_f32)tc_copysign_f64(a < 1.0 ? y : a == 1.0 ? TC_INF_F64 : TC_NAN_F64, x);
}
TC_FN tc_f32 tc_cbrt_f32(tc_f32 x) {
  tc_f64 a = tc_fabs_f64(x), y = tc_exp_f64(tc_log_f64(a) * (1.0 / 3));
  return (tc_f32)tc_copysign_f64(a < TC_INF_F64 ? y : a, x);
}
TC_FN tc_f32 tc_rcbrt_f32(tc_f32 x) {
  tc_f64 y = tc_exp_f64(tc_log_f64(tc_fabs_f64(x)) * (-1.0 / 3));
  return x == 0.0f ? 1.0f / x : tc_copysign_f32((tc_f32)y, x);
}
/* |x|^y by 2^(y log2 |x|), then the sign and the cases in which C's pow does not follow from that. */
TC_FN tc_f32 tc_pow_f32(tc_f32 x, tc_f32 y) {
  tc_f32 a = tc_fabs_f32(x);
  tc_f64 l = tc_log_near(a, 1.0);
  l = a == 0.0f ? -TC_INF_F64 : a < TC_INF_F32 ? l : a;
  tc_f64 w = y, h = 0.5 * w, t = w * l;
  t = t > 200.0 ? 200.0 : t < -200.0 ? -200.0 : t;
  tc_f64 p = tc_exp2_near(t);
  int big = tc_fabs_f64(w) >= 0x1p24; /* then even */
  int whole = big | (tc_nearest_f64(w) == w);
  int odd = (big ^ 1) & whole & (tc_nearest_f64(h) != h);
  p = ((a == 1.0f) & (y == y)) ? 1.0 : p;
  p = ((x < 0.0f) & (a < TC_INF_F32) & (whole ^ 1)) ? TC_NAN_F64 : p;
  p = odd ? tc_copysign_f64(p, x) : p;
  return ((y == 0.0f) | (x == 1.0f)) ? 1.0f : (tc_f32)p;
}
/* (2^k (1 + f))^y, where that is between 2^-1000 and 2^1000. */
TC_FN tc_f32 tc_power_f32(tc_f32 f, tc_f32 k, tc_f32 y) {
  return (tc_f32)tc_exp2_near((tc_f64)y * tc_log2_near(f, k));
}

/* ---- trigonometry, float32 */

/* sin(pi/2 (n + f)) for an integral n and |f| <= 1/2. */
TC_FN tc_f32 tc_sin_quarters(tc_f64 n, tc_f64 f) {
  tc_f64 r = f * 0x1.921fb54442d18p+0, z = r * r, k = n - 4.0 * tc_nearest_f64(n * 0.25);
  tc_f64 s = r * (1.0 + z * TC_POLY(f64, z, -0.16666666666631272, 0.008333333325212647,
                                    -0.00019841263789778337, 2.7555350534425236e-06,
                                    -2.476111793544133e-08));
  tc_f64 c = 1.0 + z * (-0.5 + z * TC_POLY(f64, z, 0.04166666662247717, -0.001388888372263408,
                                           2.4799511766448095e-05, -2.7209547952475715e-07));
  tc_f64 y = ((k == 1.0) | (k == -1.0)) ? c : s;
  return (tc_f32)(((k < 0.0) | (k > 1.5)) ? -y : y);
}
/* x = pi/2 (n + f). 2/pi comes in three pieces of which the first two, times the 24 bits of x, are
 * exact. For |x| >= 2^50 x is 2^26 (2^52, 2^78) times an integer, and only 2/pi times that power
 * modulo 4 counts. */
TC_FN tc_f64 tc_quarters_f32(tc_f32 x, tc_f64 *n) {
  tc_f64 a = tc_fabs_f64(x);
  int b1 = a >= 0x1p50, b2 = a >= 0x1p76, b3 = a >= 0x1p102;
  tc_f64 scale = b3 ? 0x1p-78 : b2 ? 0x1p-52 : b1 ? 0x1p-26 : 1.0;
  tc_f64 c1 = b3   ? 0x1.d5f47d4000000p+0
              : b2 ? 0x1.529fc26000000p+0
              : b1 ? 0x1.b939104000000p+0
                   : 0x1.45f306c000000p-1;
  tc_f64 c2 = b3   ? 0x1.a6ee06c000000p-29
              : b2 ? 0x1.57d1f52000000p-28
              : b1 ? 0x1.4a7f09c000000p-28
                   : 0x1.c9c8828000000p-29;
  tc_f64 c3 = b3   ? 0x1.b14acc9e21c82p-57
              : b2 ? 0x1.4ddc0db629599p-56
              : b1 ? 0x1.5f47d4d377037p-56
                   : 0x1.29fc2757d1f53p-56;
  tc_f64 y = (tc_f64)x * scale, p = y * c1, n1 = tc_nearest_f64(p);
  tc_f64 q = (p - n1) + y * c2, n2 = tc_nearest_f64(q);
  *n = n1 + n2;
  return (q - n2) + y * c3;
}
TC_FN tc_f32 tc_sin_f32(tc_f32 x) {
  tc_f64 n, f = tc_quarters_f32(x, &n);
  return tc_sin_quarters(n, f);
}
TC_FN tc_f32 tc_cos_f32(tc_f32 x) {
  tc_f64 n, f = tc_quarters_f32(x, &n);
  return tc_sin_quarters(n + 1.0, f);
}
TC_FN tc_f32 tc_tan_f32(tc_f32 x) {
  tc_f64 n, f = tc_quarters_f32(x, &n);
  tc_f64 r = f * 0x1.921fb54442d18p+0, z = r * r, h = n * 0.5;
  tc_f64 s = r * (1.0 + z * TC_POLY(f64, z, -0.16666666666631272, 0.008333333325212647,
                                    -0.00019841263789778337, 2.7555350534425236e-06,
                                    -2.476111793544133e-08));
  tc_f64 c = 1.0 + z * (-0.5 + z * TC_POLY(f64, z, 0.04166666666660161, -0.001388888887818936,
                                           2.4801580933720256e-05, -2.755556014031579e-07,
                                           2.0647282209617092e-09));
  int odd = tc_nearest_f64(h) != h;
  return (tc_f32)((odd ? -c : s) / (odd ? s : c));
}
/* Half turns: 2 x = n + f exactly; floats from 2^25 on are even. Zeros have the sign of x, of cospi
 * they are positive. */
TC_FN tc_f32 tc_sinpi_f32(tc_f32 x) {
  tc_f64 y = tc_fabs_f32(x) < 0x1p25f ? 2.0 * x : (tc_f64)(x - x), n = tc_nearest_f64(y);
  tc_f32 s = tc_sin_quarters(n, y - n);
  return s == 0.0f ? tc_copysign_f32(0.0f, x) : s;
}
TC_FN tc_f32 tc_cospi_f32(tc_f32 x) {
  tc_f64 y = tc_fabs_f32(x) < 0x1p25f ? 2.0 * x : (tc_f64)(x - x), n = tc_nearest_f64(y);
  return tc_sin_quarters(n + 1.0, y - n) + 0.0f;
}
/* The angle of (x, y), both >= 0: the smaller over the larger, beyond tan(pi/8) less pi/4. */
TC_FN tc_f64 tc_angle(tc_f64 y, tc_f64 x) {
  tc_f64 small = y < x ? y : x, large = y < x ? x : y;
  int high = small > 0.41421356237309503 * large;
  tc_f64 num = high ? small - large : small, den = high ? small + large : large;
  tc_f64 t = num / (den < 0x1p-1000 ? 0x1p-1000 : den), z = t * t; /* 0 / 0: 0 */
  tc_f64 a = t + t * z * TC_POLY(f64, z, -0.33333333296226497, 0.1999999437947431,
                                 -0.14285425496050722, 0.11104034137663359, -0.08997085969166928,
                                 0.06992193576871522, -0.037939357349414726);
  a = high ? a + 0x1.921fb54442d18p-1 : a;
  return y > x ? 0x1.921fb54442d18p+0 - a : a;
}
TC_FN tc_f32 tc_atan_f32(tc_f32 x) {
  return (tc_f32)tc_copysign_f64(tc_angle(tc_fabs_f64(x), 1.0), x);
}
/* asin(a) up to a = 1/2, beyond of sqrt((1 - a) / 2), half of acos(a), to 33 bits: a root, no division. */
TC_FN tc_f64 tc_asin_near(tc_f64 a) {
  tc_f64 s = a <= 0.5 ? a * a : 0.5 - 0.5 * a, t = a <= 0.5 ? a : __builtin_sqrt(s);
  tc_f64 p = TC_PAIRED(f64, s, 0.16666666686085643, 0.07499992404401838, 0.04464766388813485,
                     0.030269138728589183, 0.023611817008891752, 0.010574415516912909,
                     0.030974540371355073);
  return t + t * s * p;
}
TC_FN tc_f32 tc_asin_f32(tc_f32 x) {
  tc_f64 a = tc_fabs_f64(x), p = tc_asin_near(a);
  return tc_copysign_f32((tc_f32)(a <= 0.5 ? p : 0x1.921fb54442d18p+0 - 2.0 * p), x);
}
TC_FN tc_f32 tc_acos_f32(tc_f32 x) {
  tc_f64 a = tc_fabs_f64(x), p = tc_asin_near(a), y = a <= 0.5 ? 0x1.921fb54442d18p+0 - p : 2.0 * p;
  return (tc_f32)(x < 0.0f ? 0x1.921fb54442d18p+1 - y : y);
}
TC_FN tc_f32 tc_atan2_f32(tc_f32 y, tc_f32 x) {
  tc_f64 a = tc_fabs_f64(y), b = tc_fabs_f64(x); /* finite: 1 / inf is 0, inf / inf is 1 */
  tc_f64 angle = tc_angle(a > 0x1p900 ? 0x1p900 : a, b > 0x1p900 ? 0x1p900 : b);
  angle = tc_copysign_f64(1.0, x) < 0.0 ? 0x1.921fb54442d18p+1 - angle : angle;
  return ((x != x) | (y != y)) ? x + y : (tc_f32)tc_copysign_f64(angle, y);
}

/* ---- roots, norms, parts: both types */

#define TC_INEXACT(T, F)                                                                          \
  TC_FN tc_##T tc_sqrt_##T(tc_##T x) { return __builtin_sqrt##F(x); }                             \
  TC_FN tc_##T tc_rsqrt_##T(tc_##T x) { return (tc_##T)1 / __builtin_sqrt##F(x); }                \
  TC_FN tc_##T tc_fma_##T(tc_##T x, tc_##T y, tc_##T z) { return __builtin_fma##F(x, y, z); }     \
  TC_FN tc_##T tc_ceil_##T(tc_##T x) { return __builtin_ceil##F(x); }                             \
  TC_FN tc_##T tc_floor_##T(tc_##T x) { return __builtin_floor##F(x); }                           \
  TC_FN tc_##T tc_fmod_##T(tc_##T x, tc_##T y) { return __builtin_fmod##F(x, y); }                \
  TC_FN tc_##T tc_remainder_##T(tc_##T x, tc_##T y) { return __builtin_remainder##F(x, y); }      \
  TC_FN tc_##T tc_nextafter_##T(tc_##T x, tc_##T y) { return __builtin_nextafter##F(x, y); }      \
  TC_FN tc_##T tc_logb_##T(tc_##T x) { return __builtin_logb##F(x); }
TC_INEXACT(f32, f) TC_INEXACT(f64, )

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

/* ---- libm's, float64 */

double acos(double), acosh(double), asin(double), asinh(double), atan(double), atanh(double);
double cbrt(double), cos(double), cosh(double), erf(double), erfc(double), exp2(double);
double j0(double), j1(double), lgamma_r(double, int *), log10(double), log2(double);
double sin(double), sinh(double), tan(double), tgamma(double), y0(double), y1(double);
double atan2(double, double), hypot(double, double), pow(double, double);

#define TC_LIBM(name) TC_FN tc_f64 tc_##name##_f64(tc_f64 x) { return name(x); }
TC_LIBM(acos) TC_LIBM(acosh) TC_LIBM(asin) TC_LIBM(asinh) TC_LIBM(atan) TC_LIBM(atanh)
TC_LIBM(cbrt) TC_LIBM(cos) TC_LIBM(cosh) TC_LIBM(erf) TC_LIBM(erfc) TC_LIBM(exp2)
TC_LIBM(log10) TC_LIBM(log2) TC_LIBM(sin) TC_LIBM(sinh) TC_LIBM(tan)
/* Too rare for float32 forms of their own. */
#define TC_LIBM_BOTH(name)                                                                        \
  TC_LIBM(name)                                                                                   \
  TC_FN tc_f32 tc_##name##_f32(tc_f32 x) { return (tc_f32)name(x); }
TC_LIBM_BOTH(j0) TC_LIBM_BOTH(j1) TC_LIBM_BOTH(tgamma) TC_LIBM_BOTH(y0) TC_LIBM_BOTH(y1)
TC_FN tc_f64 tc_lgamma_f64(tc_f64 x) { /* lgamma itself writes a global */
  int sign;
  return lgamma_r(x, &sign);
}
TC_FN tc_f32 tc_lgamma_f32(tc_f32 x) { return (tc_f32)tc_lgamma_f64(x); }
TC_FN tc_f64 tc_atan2_f64(tc_f64 y, tc_f64 x) { return atan2(y, x); }
TC_FN tc_f64 tc_pow_f64(tc_f64 x, tc_f64 y) { return pow(x, y); }
TC_FN tc_f64 tc_exp10_f64(tc_f64 x) { return pow(10.0, x); } /* exp10 is not in every libm */
TC_FN tc_f64 tc_rcbrt_f64(tc_f64 x) { return 1.0 / cbrt(x); }
TC_FN tc_f64 tc_hypot_f64(tc_f64 a, tc_f64 b) { return hypot(a, b); }
TC_FN tc_f64 tc_norm3d_f64(tc_f64 a, tc_f64 b, tc_f64 c) { return hypot(hypot(a, b), c); }
TC_FN tc_f64 tc_norm4d_f64(tc_f64 a, tc_f64 b, tc_f64 c, tc_f64 d) {
  return hypot(hypot(a, b), hypot(c, d));
}
TC_FN tc_f64 tc_rhypot_f64(tc_f64 a, tc_f64 b) { return 1.0 / hypot(a, b); }
TC_FN tc_f64 tc_rnorm3d_f64(tc_f64 a, tc_f64 b, tc_f64 c) { return 1.0 / tc_norm3d_f64(a, b, c); }
TC_FN tc_f64 tc_rnorm4d_f64(tc_f64 a, tc_f64 b, tc_f64 c, tc_f64 d) {
  return 1.0 / tc_norm4d_f64(a, b, c, d);
}

/* ---- rare ones of which libm has none: float64, rounded for float32 */

#define TC_ROUNDED(name)                                                                          \
  TC_FN tc_f32 tc_##name##_f32(tc_f32 x) { return (tc_f32)tc_##name##_f64(x); }

/* Half turns: x modulo 2 and the quarter are exact. */
static __attribute__((unused)) tc_f64 tc_sinpi_f64(tc_f64 x) {
  tc_f64 t = x - 2.0 * __builtin_rint(0.5 * x), n = __builtin_rint(2.0 * t);
  tc_f64 r = 0x1.921fb54442d18p+1 * (t - 0.5 * n);
  tc_f64 y = n == 0.0 ? sin(r) : n == 1.0 ? cos(r) : n == -1.0 ? -cos(r) : -sin(r);
  return y == 0.0 ? tc_copysign_f64(0.0, x) : y;
}
static __attribute__((unused)) tc_f64 tc_cospi_f64(tc_f64 x) {
  tc_f64 t = x - 2.0 * __builtin_rint(0.5 * x), n = __builtin_rint(2.0 * t);
  tc_f64 r = 0x1.921fb54442d18p+1 * (t - 0.5 * n);
  tc_f64 y = n == 0.0 ? cos(r) : n == 1.0 ? -sin(r) : n == -1.0 ? sin(r) : -cos(r);
  return y == 0.0 ? 0.0 : y;
}

/* e^(x x) erfc(x): a polynomial in t = (x - 4) / (x + 4), over x + 4; 2 e^(x x) - that of -x. */
static __attribute__((unused)) tc_f64 tc_erfcx_f64(tc_f64 x) {
  tc_f64 a = tc_fabs_f64(x), t = a < 0x1p60 ? (a - 4.0) / (a + 4.0) : 1.0;
  tc_f64 p = TC_POLY(
      f64, t, 1.095995661000491, -0.976548729080882, 0.7732087022652369, -0.5408538313132364,
      0.33085158787802266, -0.17401093723987654, 0.0763815149091835, -0.026370053341497116,
      0.00611205565561393, -0.00028095885277318257, -0.0004550526714402559, 0.0001768127364004479,
      -3.6352864144616853e-06, -1.8860553687331944e-05, 4.6949536005148395e-06,
      1.4233234089904587e-06, -8.477202827598295e-07, -7.407726447194413e-08,
      1.2678363974294932e-07, -5.946736991122364e-10, -1.8096905734635933e-08,
      9.056195982610775e-10, 2.282283310732059e-09, -1.4930421704916652e-10, -1.791502752209178e-10,
      1.1644005365676359e-11);
  p /= a + 4.0;
  if (!(x < 0.0)) return p + (x != x ? x : 0.0);
  tc_f64 head = tc_float_u64(tc_bits_f64(a) & 0xfffffffff8000000); /* its square is exact */
  tc_f64 square = a > 27.0 ? 800.0 : head * head, rest = a > 27.0 ? 0.0 : (a - head) * (a + head);
  return 2.0 * tc_exp_f64(square) * (1.0 + tc_expm1_f64(rest)) - p;
}

/* Phi(x) = erfc(-x / sqrt(2)) / 2; low is what rounding -x / sqrt(2) lost. */
static __attribute__((unused)) tc_f64 tc_normcdf_f64(tc_f64 x) {
  x = x < -38.6 ? -38.6 : x > 38.6 ? 38.6 : x;
  tc_f64 z = x * -0x1.6a09e667f3bcdp-1;
  tc_f64 low = __builtin_fma(x, -0x1.6a09e667f3bcdp-1, -z) - x * -0x1.bdd3413b26456p-55;
  tc_f64 y = erfc(z);
  return 0.5 * (z > 1.0 ? y - 2.0 * z * low * y * (1.0 + 0.5 / (z * z)) : y);
}
static __attribute__((unused)) tc_f64 tc_gelu_f64(tc_f64 x) { return x * tc_normcdf_f64(x); }

/* Halley's steps on erf(z) = x for small x, on erfc(z) = y, divided by e^(-z z), for small y. */
static __attribute__((unused)) tc_f64 tc_erfcinv_f64(tc_f64 y);
static __attribute__((unused)) tc_f64 tc_erfinv_f64(tc_f64 x) {
  tc_f64 a = tc_fabs_f64(x);
  if (!(a < 0.5)) return a <= 1.0 ? tc_copysign_f64(tc_erfcinv_f64(1.0 - a), x) : TC_NAN_F64;
  if (a < 1e-9) return x * 0x1.c5bf891b4ef6bp-1;
  tc_f64 s = x * 0x1.c5bf891b4ef6bp-1, q = s * s, z = s * (1.0 + q * (1.0 / 3 + q * (7.0 / 30)));
  for (int i = 0; i < 3; i++) {
    tc_f64 h = (erf(z) - x) * tc_exp_f64(z * z) * 0x1.c5bf891b4ef6bp-1;
    z -= h / (1.0 + z * h);
  }
  return z;
}
static __attribute__((unused)) tc_f64 tc_erfcinv_f64(tc_f64 y) {
  if (!(y > 0.0 && y < 2.0)) return y == 0.0 ? TC_INF_F64 : y == 2.0 ? -TC_INF_F64 : TC_NAN_F64;
  if (y > 0.5 && y < 1.5) return tc_erfinv_f64(1.0 - y);
  if (y > 1.0) return -tc_erfcinv_f64(2.0 - y);
  tc_f64 log_y = tc_log_f64(y), t = __builtin_sqrt(-2.0 * (log_y - 0x1.62e42fefa39efp-1));
  tc_f64 z = t - (2.515517 + t * (0.802853 + t * 0.010328)) /
                     (1.0 + t * (1.432788 + t * (0.189269 + t * 0.001308)));
  z *= 0x1.6a09e667f3bcdp-1;
  for (int i = 0; i < 3; i++) {
    tc_f64 h = (tc_exp_f64(log_y + z * z) - tc_erfcx_f64(z)) * 0x1.c5bf891b4ef6bp-1;
    z -= h / (1.0 + z * h);
  }
  return z;
}
static __attribute__((unused)) tc_f64 tc_normcdfinv_f64(tc_f64 p) {
  return -0x1.6a09e667f3bcdp+0 * tc_erfcinv_f64(2.0 * p);
}

/* e^-|x| I0(x) in t = |x|/4 - 1 up to 8; beyond, times sqrt(|x|), in t = 16/|x| - 1. */
static __attribute__((unused)) tc_f64 tc_cyl_bessel_i0_f64(tc_f64 x) {
  tc_f64 a = tc_fabs_f64(x), e = tc_exp_f64(0.5 * (a > 714.0 ? 1500.0 : a));
  if (a <= 8.0) {
    tc_f64 t = 0.25 * a - 1.0;
    return e * e *
           TC_POLY(f64, t, 0.20700192122398667, -0.11300432688620536, 0.09451562853996409,
                   -0.08904344136077755, 0.08734341617467443, -0.08496338091541732,
                   0.07927522592888984, -0.06954119563168235, 0.05677703172971468,
                   -0.0429859492954222, 0.030177914344596494, -0.019682655791721182,
                   0.011960065876823142, -0.006792394790940051, 0.003617168752907873,
                   -0.0018119030567637056, 0.0008562116300006979, -0.00038286526498299526,
                   0.0001625842597608375, -6.556805964401791e-05, 2.498583900595597e-05,
                   -9.183742586936203e-06, 3.4092773809228405e-06, -1.142045323881917e-06,
                   2.697917392412236e-07, -8.591406444264668e-08, 5.7558980244552295e-08,
                   -1.6316042856792757e-08);
  }
  tc_f64 t = 16.0 / a - 1.0;
  tc_f64 p = TC_POLY(f64, t, 0.4021765094450081, 0.0033605519836678614, 0.00013621607438984735,
                     1.1143033790932038e-05, 1.4838476651250266e-06, 2.9735985885673923e-07,
                     8.872034383314144e-08, 3.932584334552952e-08, 2.1566251453104354e-08,
                     7.554691881248808e-09, -6.8493381882867694e-09, -1.340891754008974e-08,
                     -5.0381064879032845e-09, 7.552583062123384e-09, 6.560138746917057e-09,
                     -3.505966530879332e-09, -4.575553424534973e-09, 1.5200816953924232e-09,
                     2.1968921378829006e-09, -5.715843864202709e-10, -6.633287112547084e-10,
                     1.5279202694981569e-10, 9.36508689281819e-11, -2.0260604287413626e-11);
  return a < TC_INF_F64 ? e * (p / __builtin_sqrt(a)) * e : x * x;
}
/* The same with I1(x) / x. */
static __attribute__((unused)) tc_f64 tc_cyl_bessel_i1_f64(tc_f64 x) {
  tc_f64 a = tc_fabs_f64(x), e = tc_exp_f64(0.5 * (a > 714.0 ? 1500.0 : a));
  if (a <= 8.0) {
    tc_f64 t = 0.25 * a - 1.0;
    return x *
           (e * e *
            TC_POLY(f64, t, 0.04468770987560883, -0.061124338029666284, 0.06805759990951268,
                    -0.06848260620582691, 0.06376740371333643, -0.055280039226991644,
                    0.04467457262306667, -0.03367135552108536, 0.02368601693352639,
                    -0.015571309243980052, 0.009583962344356725, -0.005534567847563678,
                    0.003005761416447221, -0.00153887456203039, 0.0007445158727006065,
                    -0.0003411760289073331, 0.00014841259927108295, -6.142360299099794e-05,
                    2.42486684188831e-05, -9.136543922789093e-06, 3.2758438130588964e-06,
                    -1.1327072698408053e-06, 3.9094375480236725e-07, -1.2424759932738304e-07,
                    2.987385645901576e-08, -8.984420960424589e-09, 5.2131237878886215e-09,
                    -1.41695079121077e-09));
  }
  tc_f64 t = 16.0 / a - 1.0;
  tc_f64 p = TC_POLY(f64, t, 0.38939845902587233, -0.009749577193235737, -0.0002192357638317243,
                     -1.5038547200567216e-05, -1.8349102358955385e-06, -3.483855761044295e-07,
                     -1.000109565963654e-07, -4.312917729178349e-08, -2.339250374801858e-08,
                     -8.427766093735185e-09, 6.8401389977069586e-09, 1.4034238782067183e-08,
                     5.59337010179061e-09, -7.64239413436356e-09, -6.983839624895866e-09,
                     3.4262341490077958e-09, 4.810597405089944e-09, -1.4387250533041013e-09,
                     -2.297004161885201e-09, 5.295625441161261e-10, 6.917089294193807e-10,
                     -1.4011625179770627e-10, -9.752397204138195e-11, 1.8515118828852956e-11);
  return a < TC_INF_F64 ? tc_copysign_f64(e * (p / __builtin_sqrt(a)) * e, x) : x;
}
TC_ROUNDED(erfcx) TC_ROUNDED(erfcinv) TC_ROUNDED(normcdfinv)
TC_ROUNDED(cyl_bessel_i0) TC_ROUNDED(cyl_bessel_i1)
#include "gamma.h"

#include "vmath.h"
#endif
