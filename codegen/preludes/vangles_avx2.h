/* Arcs for vectors of AVX2, float32, by two floats. Included by vmath_avx2.h.
 */
#ifndef TC_VANGLES_AVX2_H
#define TC_VANGLES_AVX2_H

/* The angles of slopes j / 8 and what rounding them lost, then of 8 / j. */
static const tc_f32 tc_atan_pieces[4][8] TC_TABLE = {
    {0.0f, 0.124354996f, 0.24497867f, 0.35877067f, 0.4636476f, 0.5585993f, 0.6435011f, 0.71883f},
    {0.0f, -1.2403822e-9f, -3.1786778e-9f, 1.7639499e-9f, 5.0121587e-9f, 2.2111598e-8f,
     5.8689373e-9f, 1.01883355e-8f},
    {1.5707964f, 1.4464413f, 1.3258177f, 1.2120256f, 1.1071488f, 1.012197f, 0.9272952f, 0.8519663f},
    {-4.371139e-8f, 3.948538e-8f, -4.053271e-8f, 1.4129305e-8f, -4.872355e-8f, -6.2183436e-9f,
     1.0024317e-8f, 5.7049188e-9f}};
/* By the slope c = j / 8 next to |x| or its inverse: the angle between is that of u = (x - c) / (1 + c x),
 * |u| < 1 / 14.9, as a float and what it lacks. */
TC_FN tc_v8f32 tc_atan_v8f32(tc_v8f32 x) {
  tc_v8f32 one = tc_splat_v8f32(1.0f), a = tc_size_of(x);
  a = __builtin_ia32_minps256(tc_splat_v8f32(0x1p30f), a); /* NaN passes, as below */
  tc_v8i32 is_steep = a > one, sign = (tc_v8i32)tc_splat_v8f32(-0.0f);
  tc_v8f32 small = __builtin_ia32_minps256(one, a), large = __builtin_ia32_maxps256(one, a);
  tc_v8f32 nearest = small * __builtin_ia32_rcpps256(large) + 0x1.8p20f;
  nearest = __builtin_ia32_minps256(tc_splat_v8f32(0x1.8p20f + 0.875f), nearest);
  tc_v8f32 c = nearest - 0x1.8p20f, num = TC_FUSED(-c, large, small); /* exact */
  tc_v8f32 den = TC_FUSED(c, small, large), den_low = TC_FUSED(c, small, large - den);
  tc_v8f32 r = __builtin_ia32_rcpps256(den);
  tc_v8i32 i = (tc_v8i32)nearest;
  num = (tc_v8f32)((tc_v8i32)num ^ (is_steep & sign));
  r = r + r * (1.0f - den * r);
  tc_v8f32 u = num * r, z = u * u, rest = (TC_FUSED(-u, den, num) - u * den_low) * r;
  tc_v8f32 whole = tc_keep_v8f32(is_steep, tc_table_entry(tc_atan_pieces[2], i),
                                 tc_table_entry(tc_atan_pieces[0], i));
  tc_v8f32 low = tc_keep_v8f32(is_steep, tc_table_entry(tc_atan_pieces[3], i),
                               tc_table_entry(tc_atan_pieces[1], i));
  tc_v8f32 p = (z * -0.14565063f + 0.20001543f) * z - 0.33333334f, sum = TC_FUSED(u, one, whole);
  low = p * (z * u) + (rest + low);
  tc_v8f32 y = sum + ((u - (sum - whole)) + low);
  return (tc_v8f32)((tc_v8i32)y | ((tc_v8i32)x & sign));
}

/* asin(sqrt(s)) / sqrt(s) - 1 around multiples of 1 / 29, what rounding that lost, and powers. */
static const tc_f32 tc_asin_pieces[7][8] TC_TABLE = {
    {0.0f, 0.0058381804f, 0.011866339f, 0.018097185f, 0.024544775f, 0.031224713f, 0.038154386f,
     0.045353264f},
    {-2.634563e-16f, 6.3561635e-11f, 2.4945696e-10f, 4.2326823e-10f, -1.2584571e-10f,
     2.6240776e-12f, 7.5050155e-10f, -8.542844e-10f},
    {0.16666667f, 0.17200348f, 0.17769106f, 0.18376586f, 0.19026968f, 0.1972506f, 0.2047644f,
     0.21287602f},
    {0.07499726f, 0.07984454f, 0.08518324f, 0.09108687f, 0.09763955f, 0.10494179f, 0.11311476f,
     0.122305505f},
    {0.045112357f, 0.04908981f, 0.054227028f, 0.060153455f, 0.06672589f, 0.07459859f, 0.083743185f,
     0.09422586f},
    {-0.001352127f, 0.03455102f, 0.03954264f, 0.04549049f, 0.052375317f, 0.060923435f, 0.07125467f,
     0.083633244f},
    {0.7623365f, 0.09095624f, -0.0025383653f, -0.2131297f, 0.20818213f, 0.012660421f, -0.14259043f,
     0.3062008f}};
/* base + w asin(v) / v, with what rounding of base and w lost; s + s_low = v^2 up to 1 / 4. */
TC_FN tc_v8f32 tc_arc(tc_v8f32 base, tc_v8f32 base_low, tc_v8f32 w, tc_v8f32 w_low, tc_v8f32 s,
                      tc_v8f32 s_low) {
  tc_v8f32 nearest = s * 29.0f + 0x1.8p23f, n = nearest - 0x1.8p23f, first = base + w;
  tc_v8i32 i = (tc_v8i32)nearest;
  tc_v8f32 r = (s - n * 0.03448276f) + s_low, f = tc_table_entry(tc_asin_pieces[0], i);
  tc_v8f32 p = tc_table_entry(tc_asin_pieces[6], i);
#pragma GCC unroll 5
  for (int j = 5; j > 0; j--) p = p * r + tc_table_entry(tc_asin_pieces[j], i);
  tc_v8f32 sum = TC_FUSED(w, f, first), low = (w_low * f + w_low) + (w * p + base_low);
  return sum + (((w - (first - base)) + TC_FUSED(w, f, first - sum)) + low);
}
#ifdef __clang__ /* as with fused products */
TC_FN tc_v8f32 tc_root(tc_v8f32 x) {
#pragma clang loop unroll(full)
  for (int i = 0; i < 8; i++) x[i] = __builtin_sqrtf(x[i]);
  return x;
}
#else
#define tc_root(x) __builtin_ia32_sqrtps256(x)
#endif
/* Of |x| > 1/2 s = (1 - |x|) / 2, half of whose angle the arc is, and its root with what that lacks; else x^2. */
TC_FN tc_v8f32 tc_arc_of(tc_v8f32 x, tc_v8i32 *is_far, tc_v8f32 *s_low, tc_v8f32 *root,
                         tc_v8f32 *root_low) {
  tc_v8f32 a = tc_size_of(x), half = tc_splat_v8f32(0.5f), square = x * x;
  tc_v8f32 far = half - a * 0.5f, v = tc_root(far); /* the first is exact */
  tc_v8f32 inverse = __builtin_ia32_rcpps256(__builtin_ia32_maxps256(v, tc_splat_v8f32(0x1p-60f)));
  *is_far = a > half;
  *root = v;
  *root_low = TC_FUSED(-v, v, far) * (inverse * 0.5f);
  *s_low = (tc_v8f32)((tc_v8i32)TC_FUSED(x, x, -square) & ~*is_far);
  return tc_keep_v8f32(*is_far, far, square);
}
TC_FN tc_v8f32 tc_asin_v8f32(tc_v8f32 x) {
  tc_v8i32 is_far, sign = (tc_v8i32)x & (-0x7fffffff - 1);
  tc_v8f32 s_low, v, v_low, s = tc_arc_of(x, &is_far, &s_low, &v, &v_low);
  tc_v8i32 base = (tc_v8i32)tc_splat_v8f32(0x1.921fb6p+0f) & is_far;
  tc_v8i32 base_low = (tc_v8i32)tc_splat_v8f32(-0x1.777a5cp-25f) & is_far;
  tc_v8i32 w_low = (tc_v8i32)(v_low * -2.0f) & is_far;
  tc_v8f32 w = tc_keep_v8f32(is_far, v * -2.0f, tc_size_of(x));
  tc_v8f32 y = tc_arc((tc_v8f32)base, (tc_v8f32)base_low, w, (tc_v8f32)w_low, s, s_low);
  return (tc_v8f32)((tc_v8i32)y | sign);
}
/* pi/2 - asin(x); of x > 1/2 twice the arc, of x < -1/2 that from pi. */
TC_FN tc_v8f32 tc_acos_v8f32(tc_v8f32 x) {
  tc_v8i32 is_far, is_left = x < 0;
  tc_v8f32 s_low, v, v_low, s = tc_arc_of(x, &is_far, &s_low, &v, &v_low);
  tc_v8f32 turn = (tc_v8f32)((tc_v8i32)tc_splat_v8f32(2.0f) & is_left), sign = 2.0f - 2.0f * turn;
  tc_v8f32 quarters = tc_keep_v8f32(is_far, turn, tc_splat_v8f32(1.0f));
  tc_v8f32 w = tc_keep_v8f32(is_far, v * sign, -x);
  tc_v8f32 w_low = (tc_v8f32)((tc_v8i32)(v_low * sign) & is_far);
  return tc_arc(quarters * 0x1.921fb6p+0f, quarters * -0x1.777a5cp-25f, w, w_low, s, s_low);
}
#endif
