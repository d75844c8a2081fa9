/* Angles and their functions, float32. Of smath.h. */
#ifndef TC_TRIGONOMETRY_H
#define TC_TRIGONOMETRY_H

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

#endif
