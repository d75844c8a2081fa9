/* What float32 has by way of float64, to the bits that it needs. Of smath.h. */
#ifndef TC_PRECISE_H
#define TC_PRECISE_H

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
/* Of |x| = a: within [1, 2], where it is a or one away from it by a factor, (a - 1)(a - 2) R(a - 1.5), so that
 * all digits are there next to both zeros; from 3 on Stirling's series, of a + 5 where a < 8. Of x < 0
 * pi = |a sin(pi a)| gamma(a) |gamma(-a)|, which leaves one logarithm of all factors. */
TC_FN tc_f32 tc_lgamma_f32(tc_f32 x) {
  tc_f64 a = tc_fabs_f64(x), t = a < 1.0 ? a + 1.0 : a > 2.0 ? a - 1.0 : a;
  tc_f64 p = TC_PAIRED(f64, t - 1.5, 0.48312895054098165, -0.14595989591430658,
                       0.06291140107405828, -0.03130848750069, 0.016797098685059228,
                       -0.009425622482759253, 0.005446455645615835, -0.0032120726776190944,
                       0.0019229609327760984, -0.0011644429824503194, 0.0007110125229750965,
                       -0.0004376707178170653, 0.0002746536514517647, -0.00017104300594927385,
                       9.281758532114443e-05, -5.8165733688602144e-05, 6.68246585036373e-05,
                       -4.233066087210433e-05);
  tc_f64 z = a < 8.0 ? a + 5.0 : a, r = 1.0 / z;
  tc_f64 far = (z - 0.5) * tc_log_f64(z) - z + 0x1.d67f1c864beb5p-1 +
               r * TC_POLY(f64, r * r, 1.0 / 12, -1.0 / 360, 1.0 / 1260, -1.0 / 1680, 1.0 / 1188,
                           -691.0 / 360360, 1.0 / 156);
  tc_f64 rising = a * (a + 1.0) * (a + 2.0) * ((a + 3.0) * (a + 4.0));
  int is_near = a < 3.0, is_above = is_near & (a > 2.0);
  tc_f64 by = a < 1.0 ? a : is_above ? a - 1.0 : is_near ? 1.0 : a < 8.0 ? rising : 1.0;
  tc_f64 base = is_near ? (t - 1.0) * (t - 2.0) * p : far;
  tc_f64 off = a < 0x1p24 ? a - tc_nearest_f64(a) : 0.0, s = off * off;
  tc_f64 wave = tc_fabs_f64(off) *
                TC_POLY(f64, s, 1.0, -1.6449340668482264, 0.8117424252833536, -0.19075182412208422,
                        0.026147847817654802, -0.0023460810354558238, 0.00014842879303107099,
                        -6.97587366165638e-06, 2.5312174041370277e-07, -7.304711822217775e-09,
                        1.7165384749821434e-10);
  tc_f64 turned = a * wave * (is_above ? by : 1.0 / by);
  tc_f64 l = tc_log_f64(x < 0.0f ? turned : by);
  tc_f64 y = x < 0.0f ? -base - l : is_above ? base + l : base - l;
  return (tc_f32)(a < TC_INF_F64 ? y : a);
}
/* (2^k (1 + f))^y, where that is between 2^-1000 and 2^1000. */
TC_FN tc_f32 tc_power_f32(tc_f32 f, tc_f32 k, tc_f32 y) {
  return (tc_f32)tc_exp2_near((tc_f64)y * tc_log2_near(f, k));
}

#endif
