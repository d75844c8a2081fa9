/* Libm's functions of float64, and rare ones of which libm has none. Of smath.h. */
#ifndef TC_RARE_H
#define TC_RARE_H

/* ---- libm's, float64 */

double cbrt(double), cos(double), j0(double), j1(double), lgamma_r(double, int *), sin(double);
double tan(double), tgamma(double), y0(double), y1(double), pow(double, double);

#define TC_LIBM(name) TC_FN tc_f64 tc_##name##_f64(tc_f64 x) { return name(x); }
TC_LIBM(cbrt) TC_LIBM(cos) TC_LIBM(sin)
/* Too rare for float32 forms of their own. */
#define TC_LIBM_BOTH(name)                                                                        \
  TC_LIBM(name)                                                                                   \
  TC_FN tc_f32 tc_##name##_f32(tc_f32 x) { return (tc_f32)name(x); }
TC_LIBM_BOTH(j0) TC_LIBM_BOTH(j1) TC_LIBM_BOTH(tgamma) TC_LIBM_BOTH(y0) TC_LIBM_BOTH(y1)
TC_FN tc_f64 tc_lgamma_f64(tc_f64 x) { /* lgamma itself writes a global */
  int sign;
  return lgamma_r(x, &sign);
}
TC_FN tc_f64 tc_exp10_f64(tc_f64 x) { return pow(10.0, x); } /* exp10 is not in every libm */
TC_FN tc_f64 tc_rcbrt_f64(tc_f64 x) { return 1.0 / cbrt(x); }
/* Ours, but for rare arguments. */
TC_FN tc_f64 tc_tan_f64(tc_f64 x) {
  tc_i64 is_rare;
  tc_f64 y = tc_tan_near_f64(x, &is_rare);
  return is_rare ? tan(x) : y;
}
#define TC_OR_LIBM(name)                                                                          \
  TC_FN tc_f64 tc_##name##_f64(tc_f64 x, tc_f64 y) {                                              \
    tc_i64 is_rare;                                                                                  \
    tc_f64 r = tc_##name##_near_f64(x, y, &is_rare);                                              \
    return is_rare ? __builtin_##name(x, y) : r;                                                  \
  }
TC_OR_LIBM(fmod) TC_OR_LIBM(remainder)

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

/* Halley's steps on erfc(z) = y for small y, divided by e^(-z z). */
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
  return 0.0 - 0x1.6a09e667f3bcdp+0 * tc_erfcinv_f64(2.0 * p); /* 0 in the middle, not -0 */
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
