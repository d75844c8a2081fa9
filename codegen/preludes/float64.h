/* Functions of float64 without branches, calls or tables, so that compilers make vector code of loops over
 * them, which they do not of libm's. Of smath.h.
 *
 * The forms, and the coefficients of the arcs of tangents, are those of fdlibm (Sun, 1993).
 */
#ifndef TC_FLOAT64_H
#define TC_FLOAT64_H

/* ---- exponentials */

TC_FN tc_f64 tc_exp2_f64(tc_f64 x) {
  x = x > 1025.0 ? 1025.0 : x;
  x = x < -1076.0 ? -1076.0 : x;
  tc_f64 n = tc_nearest_f64(x), f = x - n, r = f * 0x1.62e42fefa39efp-1;
  tc_f64 p = TC_POLY(f64, r, TC_EXP_F64), half = tc_nearest_f64(n * 0.5);
  p = p * (r * r) + f * 0x1.abc9e3b39803fp-56 + r + 1.0;
  return p * tc_pow2_f64(half) * tc_pow2_f64(n - half);
}
/* (e^x - 1) / 2 for x >= 0: halved, so that what e^x overflows by fits. */
TC_FN tc_f64 tc_half_expm1_f64(tc_f64 x) {
  tc_f64 c = x > 710.5 ? 710.5 : x, n = tc_nearest_f64(c * 0x1.71547652b82fep+0);
  tc_f64 r = (c - n * 0x1.62e42feep-1) - n * 0x1.a39ef35793c76p-33;
  tc_f64 p = TC_POLY(f64, r, TC_EXP_F64) * (r * r) + r, s = tc_pow2_f64(n - 2.0);
  return (p * s + (s - 0.25)) * 2.0;
}
/* Up to 1 a series, beyond half of e^a - 1 and of that over e^a. */
TC_FN tc_f64 tc_sinh_f64(tc_f64 x) {
  tc_f64 a = tc_fabs_f64(x), h = tc_half_expm1_f64(a), b = a > 1.0 ? 1.0 : a, z = b * b;
  tc_f64 near = TC_POLY(f64, z, 1.0 / 6, 1.0 / 120, 1.0 / 5040, 1.0 / 362880, 1.0 / 39916800,
                        1.0 / 6227020800.0, 1.0 / 1307674368000.0, 1.0 / 355687428096000.0);
  tc_f64 far = h + (h > 1e300 ? 1.0 : h) / (h + h + 1.0);
  return tc_copysign_f64(a > 1.0 ? far : a + a * (z * near), x);
}
TC_FN tc_f64 tc_cosh_f64(tc_f64 x) {
  tc_f64 h = tc_half_expm1_f64(tc_fabs_f64(x));
  return h + 0.5 + 0.5 / (h + h + 1.0);
}

/* ---- logarithms */

/* ln(1 + f) = *high + the result, whose high part has 21 bits. */
TC_FN tc_f64 tc_log_halves_f64(tc_f64 f, tc_f64 *high) {
  tc_f64 s = f / (2.0 + f), z = s * s, hz = 0.5 * f * f;
  tc_f64 p = z * TC_POLY(f64, z, 0.6666666666666735, 0.399999999994131, 0.2857142874278577,
                         0.22222198528124718, 0.18183566867369316, 0.15313980781609238,
                         0.147966926806009);
  tc_f64 h = tc_float_u64(tc_bits_f64(f - hz) & 0xffffffff00000000);
  *high = h;
  return (f - h) - hz + s * (hz + p);
}
TC_FN tc_f64 tc_split_any_f64(tc_f64 x, tc_f64 *k) {
  int is_denormal = x < 0x1p-1022;
  tc_f64 scale = is_denormal ? 0x1p54 : 1.0, less = is_denormal ? 54.0 : 0.0;
  tc_f64 f = tc_split_f64(x * scale, k);
  *k -= less;
  return f;
}
TC_FN tc_f64 tc_log2_f64(tc_f64 x) {
  tc_f64 k, f = tc_split_any_f64(x, &k), h, low = tc_log_halves_f64(f, &h);
  tc_f64 top = h * 0x1.7154765400000p+0, rest = (low + h) * -0x1.47d01e8882f00p-32;
  rest += low * 0x1.7154765400000p+0;
  tc_f64 sum = k + top;
  return tc_log_ends_f64(x, sum + (rest + ((k - sum) + top)));
}
TC_FN tc_f64 tc_log10_f64(tc_f64 x) {
  tc_f64 k, f = tc_split_any_f64(x, &k), h, low = tc_log_halves_f64(f, &h);
  tc_f64 top = h * 0x1.bcb7b15000000p-2, whole = k * 0x1.34413509f8000p-2;
  tc_f64 rest = k * -0x1.80433b83b532ap-44 + (low + h) * 0x1.37287195355bbp-33;
  rest += low * 0x1.bcb7b15000000p-2;
  tc_f64 sum = whole + top;
  return tc_log_ends_f64(x, sum + (rest + ((whole - sum) + top)));
}
TC_FN tc_f64 tc_asinh_f64(tc_f64 x) {
  tc_f64 a = tc_fabs_f64(x), b = a > 0x1p28 ? 1.0 : a, square = b * b;
  tc_f64 t = b + square / (1.0 + __builtin_sqrt(1.0 + square));
  tc_f64 y = tc_log1p_f64(a > 0x1p28 ? a - 1.0 : t) + (a > 0x1p28 ? 0x1.62e42fefa39efp-1 : 0.0);
  return tc_copysign_f64(a < 0x1p-28 ? a : y, x);
}
TC_FN tc_f64 tc_acosh_f64(tc_f64 x) {
  tc_f64 t = x > 0x1p28 ? 1.0 : x - 1.0, near = t + __builtin_sqrt(t + t + t * t);
  tc_f64 y = tc_log1p_f64(x > 0x1p28 ? x - 1.0 : near) + (x > 0x1p28 ? 0x1.62e42fefa39efp-1 : 0.0);
  return x < 1.0 ? TC_NAN_F64 : y;
}
TC_FN tc_f64 tc_atanh_f64(tc_f64 x) {
  tc_f64 a = tc_fabs_f64(x), t = a + a, q = (a < 0.5 ? t * a : t) / (1.0 - a);
  tc_f64 y = 0.5 * tc_log1p_f64(a < 0.5 ? t + q : q);
  return tc_copysign_f64(a < 0x1p-28 ? a : a > 1.0 ? TC_NAN_F64 : y, x);
}

/* ---- arcs */

/* 1 - atan(t) / t of a small slope. */
TC_FN tc_f64 tc_bend_f64(tc_f64 t) {
  tc_f64 z = t * t, w = z * z;
  tc_f64 s = z * TC_POLY(f64, w, 3.33333333333329318027e-01, 1.42857142725034663711e-01,
                         9.09088713343650656196e-02, 6.66107313738753120669e-02,
                         4.97687799461593236017e-02, 1.62858201153657823623e-02);
  s += w * TC_POLY(f64, w, -1.99999999998764832476e-01, -1.11111104054623557880e-01,
                   -7.69187620504482999495e-02, -5.83357013379057348645e-02,
                   -3.65315727442169155270e-02);
  return s;
}
/* atan(a) by the angle of a slope next to a, and what is left, by one division. */
TC_FN tc_f64 tc_atan_f64(tc_f64 x) {
  tc_f64 a = tc_fabs_f64(x);
  int b0 = a >= 0.4375, b1 = a >= 0.6875, b2 = a >= 1.1875, b3 = a >= 2.4375;
  tc_f64 num = b3 ? -1.0 : b2 ? a - 1.5 : b1 ? a - 1.0 : b0 ? 2.0 * a - 1.0 : a;
  tc_f64 den = b3 ? a : b2 ? 1.0 + 1.5 * a : b1 ? a + 1.0 : b0 ? 2.0 + a : 1.0;
  tc_f64 high = b3   ? 0x1.921fb54442d18p+0
                : b2 ? 0x1.f730bd281f69bp-1
                : b1 ? 0x1.921fb54442d18p-1
                : b0 ? 0x1.dac670561bb4fp-2
                     : 0.0;
  tc_f64 low = b3   ? 0x1.1a62633145c07p-54
               : b2 ? 0x1.007887af0cbbdp-56
               : b1 ? 0x1.1a62633145c07p-55
               : b0 ? 0x1.a2b7f222f65e2p-56
                    : 0.0;
  tc_f64 t = num / den, s = tc_bend_f64(t);
  return tc_copysign_f64(high - ((t * s - low) - t), x);
}
/* asin(v) / v - 1 of s = v^2 up to 1 / 4. */
TC_FN tc_f64 tc_arc_f64(tc_f64 s) {
  return s * TC_PAIRED(f64, s, 0.16666666666666669, 0.07499999999997951, 0.04464285714708837,
                           0.03038194409037059, 0.022372174653290187, 0.017352355935141933,
                           0.013971722105759863, 0.011474491243017262, 0.010351791935857828,
                           0.005338547441684333, 0.01771175583954709, -0.01531994755786182,
                           0.029066870239466476);
}
/* Up to 1 / 2 that of a; beyond half that of sqrt((1 - a) / 2), which is a head of 21 bits and a rest. */
TC_FN tc_f64 tc_asin_f64(tc_f64 x) {
  tc_f64 a = tc_fabs_f64(x), s = a <= 0.5 ? a * a : 0.5 - 0.5 * a, v = __builtin_sqrt(s);
  tc_f64 head = tc_float_u64(tc_bits_f64(v) & 0xffffffff00000000);
  tc_f64 rest = (s - head * head) / (s == 0.0 ? 1.0 : v + head), p = tc_arc_f64(s);
  tc_f64 far = 2.0 * v * p - (0x1.1a62633145c07p-54 - 2.0 * rest);
  far = 0x1.921fb54442d18p-1 - (far - (0x1.921fb54442d18p-1 - 2.0 * head));
  return tc_copysign_f64(a <= 0.5 ? a + a * p : far, x);
}
TC_FN tc_f64 tc_acos_f64(tc_f64 x) {
  tc_f64 a = tc_fabs_f64(x), s = a <= 0.5 ? x * x : 0.5 - 0.5 * a, v = __builtin_sqrt(s);
  tc_f64 head = tc_float_u64(tc_bits_f64(v) & 0xffffffff00000000);
  tc_f64 rest = (s - head * head) / (s == 0.0 ? 1.0 : v + head), p = tc_arc_f64(s);
  tc_f64 near = 0x1.921fb54442d18p+0 - (x - (0x1.1a62633145c07p-54 - x * p));
  tc_f64 right = 2.0 * (head + (v * p + rest));
  tc_f64 left = 0x1.921fb54442d18p+1 - 2.0 * (v + (v * p - 0x1.1a62633145c07p-54));
  return a <= 0.5 ? near : x > 0.0 ? right : left;
}

#endif
