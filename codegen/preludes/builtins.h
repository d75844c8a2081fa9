/* Builtin functions that are made of others, one text for C and for CUDA: signs, roundings,
 * classes, activations. Valid as C11 and as C++17.
 *
 * The header that includes it has defined, for f32 and f64, tc_fabs, tc_copysign, tc_trunc, tc_exp,
 * tc_expm1 and tc_log1p; tc_scaled_exp_f32(factor, x, low) = factor e^(x + low) for |low| < 0.06;
 * TC_POLY(TYPE, x, c0, c1, ...) = c0 + c1 x + ..., and TC_PAIRED the same.
 */
#ifndef TC_BUILTINS_H
#define TC_BUILTINS_H

#define TC_OF_FLOATS(T)                                                                           \
  TC_FN tc_##T tc_fdivide_##T(tc_##T x, tc_##T y) { return x / y; }                               \
  TC_FN tc_##T tc_round_##T(tc_##T x) { /* halves away from zero */                               \
    tc_##T a = tc_fabs_##T(x), t = tc_trunc_##T(a);                                               \
    return tc_copysign_##T(a - t >= (tc_##T)0.5 ? t + 1 : t, x);                                  \
  }                                                                                               \
  TC_FN tc_##T tc_fdim_##T(tc_##T x, tc_##T y) {                                                  \
    return ((x != x) | (y != y)) ? x + y : x > y ? x - y : 0;                                     \
  }                                                                                               \
  TC_FN tc_##T tc_abs_##T(tc_##T x) { return tc_fabs_##T(x); }                                    \
  TC_FN tc_##T tc_sign_##T(tc_##T x) { return x > 0 ? 1 : x < 0 ? -1 : x; }                       \
  TC_FN tc_b tc_isnan_##T(tc_##T x) { return x != x; }                                            \
  TC_FN tc_b tc_isinf_##T(tc_##T x) { return tc_fabs_##T(x) == (tc_##T)TC_INF_F64; }              \
  TC_FN tc_b tc_isfinite_##T(tc_##T x) { return tc_fabs_##T(x) < (tc_##T)TC_INF_F64; }            \
  TC_FN tc_##T tc_relu_##T(tc_##T x) { return x <= 0 ? 0 : x; }                                   \
  TC_FN tc_##T tc_clamp_##T(tc_##T x, tc_##T low, tc_##T high) {                                  \
    x = ((x < low) | (low != low)) ? low : x;                                                     \
    return ((x > high) | (high != high)) ? high : x;                                              \
  }                                                                                               \
  TC_FN tc_##T tc_hardtanh_##T(tc_##T x, tc_##T low, tc_##T high) {                               \
    return tc_clamp_##T(x, low, high);                                                            \
  }                                                                                               \
  TC_FN tc_##T tc_leaky_relu_##T(tc_##T x, tc_##T slope) { return x > 0 ? x : slope * x; }
TC_OF_FLOATS(f32) TC_OF_FLOATS(f64)

#define TC_CLAMP_OF(T)                                                                            \
  TC_FN tc_##T tc_clamp_##T(tc_##T x, tc_##T low, tc_##T high) {                                  \
    return tc_min_##T(tc_max_##T(x, low), high);                                                  \
  }                                                                                               \
  TC_FN tc_##T tc_hardtanh_##T(tc_##T x, tc_##T low, tc_##T high) {                               \
    return tc_clamp_##T(x, low, high);                                                            \
  }
#define TC_RELU_OF(T) TC_FN tc_##T tc_relu_##T(tc_##T x) { return x > 0 ? x : 0; }
TC_CLAMP_OF(i8) TC_CLAMP_OF(i16) TC_CLAMP_OF(i32) TC_CLAMP_OF(i64)
TC_CLAMP_OF(u8) TC_CLAMP_OF(u16) TC_CLAMP_OF(u32) TC_CLAMP_OF(u64)
TC_RELU_OF(i8) TC_RELU_OF(i16) TC_RELU_OF(i32) TC_RELU_OF(i64)
TC_RELU_OF(u8) TC_RELU_OF(u16) TC_RELU_OF(u32) TC_RELU_OF(u64)

/* From e^-|x|, which does not overflow: also results near 0 are right. */
#define TC_ACTIVATIONS(T)                                                                         \
  TC_FN tc_##T tc_sigmoid_##T(tc_##T x) {                                                         \
    tc_##T e = tc_exp_##T(-tc_fabs_##T(x));                                                       \
    return (x < 0 ? e : (tc_##T)1) / (1 + e);                                                     \
  }                                                                                               \
  TC_FN tc_##T tc_softplus_##T(tc_##T x) {                                                        \
    return tc_max_##T(x, 0) + tc_log1p_##T(tc_exp_##T(-tc_fabs_##T(x)));                          \
  }                                                                                               \
  TC_FN tc_##T tc_elu_##T(tc_##T x, tc_##T alpha) {                                               \
    tc_##T e = alpha * tc_expm1_##T(x);                                                           \
    return x > 0 ? x : e;                                                                         \
  }                                                                                               \
  TC_FN tc_##T tc_logaddexp_##T(tc_##T x, tc_##T y) {                                             \
    tc_##T d = x == y ? 0 : -tc_fabs_##T(x - y); /* of infinities too */                          \
    return tc_max_##T(x, y) + tc_log1p_##T(tc_exp_##T(d));                                        \
  }
TC_ACTIVATIONS(f32) TC_ACTIVATIONS(f64)

/* x sigmoid(x). From `far` on e^-|x| would soon be denormal, where x times it is not: it is kept e^k
 * as large, and c = e^-k. */
#define TC_SILU(T, far, k, c)                                                                     \
  TC_FN tc_##T tc_silu_##T(tc_##T x) {                                                            \
    tc_##T a = tc_fabs_##T(x), e = tc_exp_##T((a > far ? k : 0) - a), scale = a > far ? c : 1;    \
    return (x < 0 ? x * e * scale : x) / (1 + e * scale);                                         \
  }
TC_SILU(f32, 80.0f, 16.0f, 1.12535175e-07f) TC_SILU(f64, 700.0, 32.0, 1.26641655490941757e-14)

/* e^(a a / 2) Phi(-a) (a + 5/2) for 0 <= a <= 14.6, in t = (a - 5/2) / (a + 5/2). */
#define TC_MILLS                                                                                  \
  0.7066566568805343, -0.43369214092822295, 0.13198728113530292, 0.009239132402681302,            \
      -0.01639008528482859, -0.0016244640223508715, 0.0025387643565207983, 0.0007562093488782768, \
      -0.0003274879256919484, -0.0002547853117848869, -8.709232365612934e-06,                     \
      4.7789006480635784e-05, 1.5320670533463832e-05
/* x Phi(x), the exact form; right of 0 x - |x| Phi(-|x|). u = 1 / (a + 5/2) sums two roundings, e,
 * to which the result is about 1.6 - t / 2 times as sensitive; it is put back in the exponent. The
 * square of a splits into that of a head of 12 bits, which is exact, and a rest. */
TC_FN tc_f32 tc_gelu_f32(tc_f32 x) {
  tc_f32 a = tc_fabs_f32(x);
  a = a > 14.5f ? 14.5f : a; /* beyond, the tail is 0 */
  tc_f32 s = a + 2.5f, u = 1.0f / s, e = (1.0f - s * u) - u * (a - (s - 2.5f));
  tc_f32 t = 1.0f - 5.0f * u, factor = a * u * TC_PAIRED(f32, t, TC_MILLS);
  tc_f32 head = tc_float_u32(tc_bits_f32(a) & 0xfffff000);
  tc_f32 low = e * (1.6f - 0.5f * t) - 0.5f * ((a - head) * (a + head));
  tc_f32 tail = tc_scaled_exp_f32(factor, -0.5f * (head * head), low);
  tail = x == -TC_INF_F32 ? TC_NAN_F32 : tail; /* -inf * 0, as everywhere */
  return (x < 0.0f ? 0.0f : x) - tail;
}
#endif
