/* The builtin functions of the language in CUDA: tc_NAME_f32, tc_NAME_f64, with the meaning they
 * have in smath.h.
 *
 * Nearly all are CUDA's own, which NVRTC knows without a header, with the accuracy that CUDA
 * documents (README.md); ours are those of builtins.h. Never the fast ones (__expf, __fdividef):
 * they are wrong at the edges. A simulator supplies CUDA's in namespace libdevice.
 */
#ifndef TC_SMATH_CUH
#define TC_SMATH_CUH
#include "prelude.cuh"

#ifdef TC_CUSIM
#define TC_LIBDEVICE(name) libdevice::name
#else
#define TC_LIBDEVICE(name) name
#endif

#define TC_OF_CUDA1(name)                                                                         \
  TC_FN tc_f32 tc_##name##_f32(tc_f32 x) { return TC_LIBDEVICE(name##f)(x); }                     \
  TC_FN tc_f64 tc_##name##_f64(tc_f64 x) { return TC_LIBDEVICE(name)(x); }
#define TC_OF_CUDA2(name)                                                                         \
  TC_FN tc_f32 tc_##name##_f32(tc_f32 x, tc_f32 y) { return TC_LIBDEVICE(name##f)(x, y); }        \
  TC_FN tc_f64 tc_##name##_f64(tc_f64 x, tc_f64 y) { return TC_LIBDEVICE(name)(x, y); }
#define TC_OF_CUDA3(name)                                                                         \
  TC_FN tc_f32 tc_##name##_f32(tc_f32 x, tc_f32 y, tc_f32 z) {                                    \
    return TC_LIBDEVICE(name##f)(x, y, z);                                                        \
  }                                                                                               \
  TC_FN tc_f64 tc_##name##_f64(tc_f64 x, tc_f64 y, tc_f64 z) { return TC_LIBDEVICE(name)(x, y, z); }
#define TC_OF_CUDA4(name)                                                                         \
  TC_FN tc_f32 tc_##name##_f32(tc_f32 x, tc_f32 y, tc_f32 z, tc_f32 w) {                          \
    return TC_LIBDEVICE(name##f)(x, y, z, w);                                                     \
  }                                                                                               \
  TC_FN tc_f64 tc_##name##_f64(tc_f64 x, tc_f64 y, tc_f64 z, tc_f64 w) {                          \
    return TC_LIBDEVICE(name)(x, y, z, w);                                                        \
  }

TC_OF_CUDA1(fabs) TC_OF_CUDA1(ceil) TC_OF_CUDA1(floor) TC_OF_CUDA1(trunc) TC_OF_CUDA1(logb)
TC_OF_CUDA1(rint)
TC_OF_CUDA1(sqrt) TC_OF_CUDA1(rsqrt) TC_OF_CUDA1(cbrt) TC_OF_CUDA1(rcbrt)
TC_OF_CUDA1(exp) TC_OF_CUDA1(exp2) TC_OF_CUDA1(exp10) TC_OF_CUDA1(expm1)
TC_OF_CUDA1(log) TC_OF_CUDA1(log2) TC_OF_CUDA1(log10) TC_OF_CUDA1(log1p)
TC_OF_CUDA1(sin) TC_OF_CUDA1(cos) TC_OF_CUDA1(tan) TC_OF_CUDA1(sinpi) TC_OF_CUDA1(cospi)
TC_OF_CUDA1(asin) TC_OF_CUDA1(acos) TC_OF_CUDA1(atan)
TC_OF_CUDA1(sinh) TC_OF_CUDA1(cosh) TC_OF_CUDA1(tanh)
TC_OF_CUDA1(asinh) TC_OF_CUDA1(acosh) TC_OF_CUDA1(atanh)
TC_OF_CUDA1(erf) TC_OF_CUDA1(erfc) TC_OF_CUDA1(erfcx) TC_OF_CUDA1(erfinv) TC_OF_CUDA1(erfcinv)
TC_OF_CUDA1(normcdf) TC_OF_CUDA1(normcdfinv) TC_OF_CUDA1(lgamma) TC_OF_CUDA1(tgamma)
TC_OF_CUDA1(j0) TC_OF_CUDA1(j1) TC_OF_CUDA1(y0) TC_OF_CUDA1(y1)
TC_OF_CUDA1(cyl_bessel_i0) TC_OF_CUDA1(cyl_bessel_i1)
TC_OF_CUDA2(atan2) TC_OF_CUDA2(copysign) TC_OF_CUDA2(fmod) TC_OF_CUDA2(hypot) TC_OF_CUDA2(rhypot)
TC_OF_CUDA2(nextafter) TC_OF_CUDA2(pow) TC_OF_CUDA2(remainder)
TC_OF_CUDA3(fma) TC_OF_CUDA3(norm3d) TC_OF_CUDA3(rnorm3d)
TC_OF_CUDA4(norm4d) TC_OF_CUDA4(rnorm4d)

/* c[0] + c[1] x + c[2] x^2 + ... */
#define TC_POLY(T, x, ...) tc_poly<tc_##T>(x, __VA_ARGS__)
#define TC_PAIRED TC_POLY
template <class T> TC_FN T tc_poly(T, T c) { return c; }
template <class T, class... Rest> TC_FN T tc_poly(T x, T c, Rest... rest) {
  return tc_poly<T>(x, rest...) * x + c;
}
/* e^low by its series: low is too large for two terms, and would be lost in x + low. */
TC_FN tc_f32 tc_scaled_exp_f32(tc_f32 factor, tc_f32 x, tc_f32 low) {
  tc_f32 e = tc_exp_f32(x);
  return factor * (e + e * (low * TC_POLY(f32, low, 1.0f, 0.5f, 1.0f / 6, 1.0f / 24)));
}
#include "builtins.h"
TC_FN tc_f64 tc_gelu_f64(tc_f64 x) { return x * tc_normcdf_f64(x); }
#include "gamma.h"
#endif
