/* Derivatives of log(gamma(x)), one text for C and for CUDA: digamma, the first, and trigamma, the
 * second. Computed in float64, rounded for float32. Valid as C11 and as C++17.
 *
 * The header that includes it has defined tc_log_f64, tc_sinpi_f64, tc_cospi_f64 and TC_POLY.
 */
#ifndef TC_GAMMA_H
#define TC_GAMMA_H

/* On [1, 2] the zero is drawn out, in three parts: what is near it has all its digits. The rational
 * function is that of Boost's digamma for 53 bits. From 10 on the asymptotic series. */
TC_FN tc_f64 tc_digamma_above_f64(tc_f64 x) { /* x > 0 */
  tc_f64 sum = 0.0;
  if (x >= 10.0) {
    tc_f64 z = x < 1e17 ? 1.0 / (x * x) : 0.0;
    return tc_log_f64(x) - 0.5 / x -
           z * TC_POLY(f64, z, 1.0 / 12, -1.0 / 120, 1.0 / 252, -1.0 / 240, 1.0 / 132,
                       -691.0 / 32760, 1.0 / 12);
  }
  for (; x < 1.0; x += 1.0) sum -= 1.0 / x;
  for (; x > 2.0;) {
    x -= 1.0;
    sum += 1.0 / x;
  }
  tc_f64 t = x - 1.0;
  tc_f64 g = ((x - 1569415565.0 / 1073741824.0) - 381566830.0 / 1073741824.0 / 1073741824.0) -
             0.9016312093258695918615325266959189453125e-19;
  tc_f64 p = TC_POLY(f64, t, 0.254798510611315515235, -0.314628554532916496608,
                     -0.665836341559876230295, -0.314767657147375752913,
                     -0.0541156266153505273939, -0.00289268368333918761452);
  tc_f64 q = TC_POLY(f64, t, 1.0, 2.1195759927055347547, 1.54350554664961128724,
                     0.486986018231042975162, 0.0660481487173569812846,
                     0.00298999662592323990972, -0.165079794012604905639e-5,
                     0.317940243105952177571e-7);
  return sum + (g * 0.99558162689208984375 + g * (p / q));
}
/* psi(x) = psi(1 - x) - pi cot(pi x). */
TC_FN tc_f64 tc_digamma_f64(tc_f64 x) {
  if (x > 0.0) return x < TC_INF_F64 ? tc_digamma_above_f64(x) : x;
  if (x == 0.0) return -1.0 / x;
  if (x > -0.5) return tc_digamma_above_f64(1.0 + x) - 1.0 / x; /* cot would lose digits */
  tc_f64 s = tc_sinpi_f64(x);
  if (!(s < 0.0 || s > 0.0)) return TC_NAN_F64; /* an integer, or -inf, or NaN */
  return tc_digamma_above_f64(1.0 - x) - 0x1.921fb54442d18p+1 * (tc_cospi_f64(x) / s);
}

TC_FN tc_f64 tc_trigamma_above_f64(tc_f64 x) { /* x > 0 */
  tc_f64 y = x < 10.0 ? x + 10.0 : x, r = 1.0 / y, z = r * r;
  tc_f64 p = TC_POLY(f64, z, 1.0 / 6, -1.0 / 30, 1.0 / 42, -1.0 / 30, 5.0 / 66, -691.0 / 2730,
                     7.0 / 6, -3617.0 / 510);
  tc_f64 sum = r + z * (0.5 + r * p);
  if (x < 10.0) { /* 1 / (x + k)^2, the least first, two to a division but for the greatest */
    sum += 1.0 / ((x + 9.0) * (x + 9.0));
    for (tc_f64 k = 7.0; k > 0.0; k -= 2.0) {
      tc_f64 a = (x + k) * (x + k), b = (x + (k + 1.0)) * (x + (k + 1.0));
      sum += (a + b) / (a * b);
    }
    sum += 1.0 / (x * x);
  }
  return sum;
}
/* psi'(x) = (pi / sin(pi x))^2 - psi'(1 - x). */
TC_FN tc_f64 tc_trigamma_f64(tc_f64 x) {
  if (x > 0.0) return tc_trigamma_above_f64(x);
  tc_f64 s = 0x1.921fb54442d18p+1 / tc_sinpi_f64(x);
  if (x > -TC_INF_F64 && s - s != 0.0) return TC_INF_F64; /* 0 and the integers below */
  return s * s - tc_trigamma_above_f64(1.0 - x);
}
TC_FN tc_f32 tc_digamma_f32(tc_f32 x) { return (tc_f32)tc_digamma_f64(x); }
TC_FN tc_f32 tc_trigamma_f32(tc_f32 x) { return (tc_f32)tc_trigamma_f64(x); }
#endif
