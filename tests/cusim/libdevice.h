/* Stand-ins for CUDA's own functions on the CPU, in namespace libdevice: libm's in float64, and
 * formulas over them for what libm lacks. How exact NVIDIA's are they do not tell.
 */
#ifndef LIBDEVICE_H
#define LIBDEVICE_H

namespace libdevice {

#define LIBDEVICE1(name)                                                                          \
  static inline double name(double x) { return __builtin_##name(x); }                             \
  static inline float name##f(float x) { return (float)__builtin_##name(x); }
#define LIBDEVICE2(name)                                                                          \
  static inline double name(double x, double y) { return __builtin_##name(x, y); }                \
  static inline float name##f(float x, float y) { return __builtin_##name##f(x, y); }

LIBDEVICE1(acos) LIBDEVICE1(acosh) LIBDEVICE1(asin) LIBDEVICE1(asinh) LIBDEVICE1(atan)
LIBDEVICE1(atanh) LIBDEVICE1(cbrt) LIBDEVICE1(ceil) LIBDEVICE1(cos) LIBDEVICE1(cosh)
LIBDEVICE1(erf) LIBDEVICE1(erfc) LIBDEVICE1(exp) LIBDEVICE1(exp10) LIBDEVICE1(exp2)
LIBDEVICE1(expm1) LIBDEVICE1(fabs) LIBDEVICE1(floor) LIBDEVICE1(j0) LIBDEVICE1(j1)
LIBDEVICE1(lgamma) LIBDEVICE1(log) LIBDEVICE1(log10) LIBDEVICE1(log1p) LIBDEVICE1(log2)
LIBDEVICE1(logb) LIBDEVICE1(sin) LIBDEVICE1(sinh) LIBDEVICE1(sqrt) LIBDEVICE1(tan)
LIBDEVICE1(tanh) LIBDEVICE1(tgamma) LIBDEVICE1(trunc) LIBDEVICE1(rint) LIBDEVICE1(y0) LIBDEVICE1(y1)
LIBDEVICE2(copysign) LIBDEVICE2(fmod) LIBDEVICE2(nextafter) LIBDEVICE2(remainder)

static inline double fma(double x, double y, double z) { return __builtin_fma(x, y, z); }
static inline float fmaf(float x, float y, float z) { return __builtin_fmaf(x, y, z); }

static const double PI = 3.14159265358979323846, SQRT2 = 1.41421356237309504880;
static const double TWO_OVER_SQRT_PI = 1.12837916709551257390;

#define LIBDEVICE_ROUNDED1(name)                                                                  \
  static inline float name##f(float x) { return (float)name((double)x); }

static inline double atan2(double y, double x) { return __builtin_atan2(y, x); }
static inline float atan2f(float y, float x) { return (float)__builtin_atan2(y, x); }
static inline double pow(double x, double y) { return __builtin_pow(x, y); }
static inline float powf(float x, float y) { return (float)__builtin_pow(x, y); }
static inline double rsqrt(double x) { return 1 / __builtin_sqrt(x); }
static inline double rcbrt(double x) { return 1 / __builtin_cbrt(x); }

/* Norms: of infinities and NaN the infinities win, as in hypot. */
static inline double hypot(double x, double y) { return __builtin_hypot(x, y); }
static inline double norm3d(double x, double y, double z) { return hypot(hypot(x, y), z); }
static inline double norm4d(double x, double y, double z, double w) {
  return hypot(hypot(x, y), hypot(z, w));
}
static inline double rhypot(double x, double y) { return 1 / hypot(x, y); }
static inline double rnorm3d(double x, double y, double z) { return 1 / norm3d(x, y, z); }
static inline double rnorm4d(double x, double y, double z, double w) {
  return 1 / norm4d(x, y, z, w);
}
static inline float hypotf(float x, float y) { return (float)hypot(x, y); }
static inline float rhypotf(float x, float y) { return (float)rhypot(x, y); }
static inline float norm3df(float x, float y, float z) { return (float)norm3d(x, y, z); }
static inline float rnorm3df(float x, float y, float z) { return (float)rnorm3d(x, y, z); }
static inline float norm4df(float x, float y, float z, float w) {
  return (float)norm4d(x, y, z, w);
}
static inline float rnorm4df(float x, float y, float z, float w) {
  return (float)rnorm4d(x, y, z, w);
}

/* Half turns: x modulo 2 and the quarter are exact; zeros of sinpi have its sign. */
static inline double sinpi(double x) {
  double t = x - 2 * __builtin_rint(0.5 * x), n = __builtin_rint(2 * t), r = PI * (t - 0.5 * n);
  double y = n == 0    ? __builtin_sin(r)
             : n == 1  ? __builtin_cos(r)
             : n == -1 ? -__builtin_cos(r)
                       : -__builtin_sin(r);
  return y == 0 ? __builtin_copysign(0, x) : y;
}
static inline double cospi(double x) {
  double t = x - 2 * __builtin_rint(0.5 * x), n = __builtin_rint(2 * t), r = PI * (t - 0.5 * n);
  double y = n == 0    ? __builtin_cos(r)
             : n == 1  ? -__builtin_sin(r)
             : n == -1 ? __builtin_sin(r)
                       : -__builtin_cos(r);
  return y + 0.0;
}

/* e^(x x) erfc(x): beyond 25 the continued fraction. */
static inline double erfcx(double x) {
  if (x < 0) return 2 * __builtin_exp(x * x) - erfcx(-x);
  if (!(x > 25)) return __builtin_exp(x * x) * __builtin_erfc(x);
  double f = x;
  for (int k = 8; k > 0; k--) f = x + 0.5 * k / f;
  return 0.5 * TWO_OVER_SQRT_PI / f;
}
static inline double normcdf(double x) { return 0.5 * __builtin_erfc(-x / SQRT2); }

/* Halley's steps: on erf(z) = x in the middle, else on erfc(z) = y, from a rational guess. */
static inline double erfcinv(double y);
static inline double erfinv(double x) {
  double a = __builtin_fabs(x);
  if (!(a < 0.5)) return a <= 1 ? __builtin_copysign(erfcinv(1 - a), x) : __builtin_nan("");
  double z = x / TWO_OVER_SQRT_PI;
  if (a < 1e-9) return z;
  for (int i = 0; i < 4; i++) {
    double h = (__builtin_erf(z) - x) * __builtin_exp(z * z) / TWO_OVER_SQRT_PI;
    z -= h / (1 + z * h);
  }
  return z;
}
static inline double erfcinv(double y) {
  if (!(y > 0 && y < 2)) return y == 0 || y == 2 ? (1 - y) * __builtin_inf() : __builtin_nan("");
  if (y > 0.5 && y < 1.5) return erfinv(1 - y);
  if (y > 1) return -erfcinv(2 - y);
  double log_y = __builtin_log(y), t = __builtin_sqrt(-2 * (log_y - __builtin_log(2)));
  double z = (t - (2.515517 + t * (0.802853 + t * 0.010328)) /
                      (1 + t * (1.432788 + t * (0.189269 + t * 0.001308)))) / SQRT2;
  for (int i = 0; i < 4; i++) {
    double h = (__builtin_exp(log_y + z * z) - erfcx(z)) / TWO_OVER_SQRT_PI;
    z -= h / (1 + z * h);
  }
  return z;
}
static inline double normcdfinv(double p) { return -SQRT2 * erfcinv(2 * p); }

/* The power series: all its terms are positive. */
static inline double bessel_series(double x, int order) {
  double q = 0.25 * x * x, term = 1, sum = 1;
  for (int k = 1; term > 1e-17 * sum && sum < __builtin_inf(); k++) {
    term *= q / (k * (double)(k + order));
    sum += term;
  }
  return sum;
}
static inline double cyl_bessel_i0(double x) {
  return x - x == 0 ? bessel_series(x, 0) : x * x;
}
static inline double cyl_bessel_i1(double x) {
  return x - x == 0 ? 0.5 * x * bessel_series(x, 1) : x;
}

LIBDEVICE_ROUNDED1(rsqrt) LIBDEVICE_ROUNDED1(rcbrt) LIBDEVICE_ROUNDED1(sinpi)
LIBDEVICE_ROUNDED1(cospi) LIBDEVICE_ROUNDED1(erfcx) LIBDEVICE_ROUNDED1(normcdf)
LIBDEVICE_ROUNDED1(erfinv) LIBDEVICE_ROUNDED1(erfcinv) LIBDEVICE_ROUNDED1(normcdfinv)
LIBDEVICE_ROUNDED1(cyl_bessel_i0) LIBDEVICE_ROUNDED1(cyl_bessel_i1)

} // namespace libdevice
#endif
