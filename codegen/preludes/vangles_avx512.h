/* Angles for vectors of AVX-512, float32, by two floats. Included by vmath_avx512.h.
 */
#ifndef TC_VANGLES_AVX512_H
#define TC_VANGLES_AVX512_H

/* The angles of slopes j / 16, and of 16 / j, and what rounding them lost. */
static const tc_f32 tc_atan_pieces[2][32] TC_TABLE = {
    {0.0f, 0.06241881f, 0.124354996f, 0.18534794f, 0.24497867f, 0.30288488f, 0.35877067f,
     0.41241044f, 0.4636476f, 0.5123895f, 0.5585993f, 0.60228735f, 0.6435011f, 0.68231654f,
     0.71883f, 0.7531513f, 1.5707964f, 1.5083776f, 1.4464413f, 1.3854483f, 1.3258177f, 1.2679114f,
     1.2120256f, 1.1583859f, 1.1071488f, 1.0584068f, 1.012197f, 0.96850896f, 0.9272952f,
     0.88847977f, 0.8519663f, 0.8176451f},
    {0.0f, -1.0272779e-9f, -1.2403822e-9f, 5.4976326e-9f, -3.1786778e-9f, -8.353086e-9f,
     1.7639499e-9f, 3.5366268e-9f, 5.0121587e-9f, -2.075692e-8f, 2.2111598e-8f, -5.9501493e-9f,
     5.8689373e-9f, 1.3202995e-8f, 1.01883355e-8f, -1.660708e-8f, -4.371139e-8f, -3.523353e-8f,
     3.948538e-8f, 4.0197946e-8f, -4.053271e-8f, 2.4246342e-8f, 1.4129305e-8f, 1.2356628e-8f,
     -4.872355e-8f, 3.6650174e-8f, -6.2183436e-9f, 2.1843404e-8f, 1.0024317e-8f, 2.6902596e-9f,
     5.7049188e-9f, -2.710431e-8f}};
/* By the slope c = j / 16 next to |x| or its inverse: the angle between is that of u = (x - c) / (1 + c x),
 * |u| < 1 / 30, as a float and what it lacks. */
TC_FN tc_v16f32 tc_atan_v16f32(tc_v16f32 x) {
  tc_v16f32 one = tc_splat_v16f32(1.0f), a = tc_up_to(x, 0x1p30f);
  tc_m16f32 is_steep = __builtin_ia32_cmpps512_mask(one, a, 1, (short)-1, 4);
  tc_v16f32 small = TC_SMALLER(s, one, a, (short)-1), large = TC_LARGER(s, one, a, (short)-1);
  tc_v16f32 nearest = small * __builtin_ia32_rcp14ps512_mask(large, large, (short)-1) + 0x1.8p19f;
  nearest = TC_SMALLER(s, tc_splat_v16f32(0x1.8p19f + 0.9375f), nearest, (short)-1);
  tc_v16f32 c = nearest - 0x1.8p19f, num = TC_FUSED(-c, large, small); /* exact */
  tc_v16f32 den = TC_FUSED(c, small, large), den_low = TC_FUSED(c, small, large - den);
  tc_v16f32 r = __builtin_ia32_rcp14ps512_mask(den, den, (short)-1);
  tc_v16i32 i = (tc_v16i32)nearest;
  num = tc_keep_v16f32(is_steep, -num, num);
  i = tc_keep_v16i32(is_steep, i | 16, i);
  r = r + r * (1.0f - den * r);
  tc_v16f32 u = num * r, z = u * u, rest = (TC_FUSED(-u, den, num) - u * den_low) * r;
  tc_v16f32 whole = tc_lookup32_f32(tc_atan_pieces[0], i), sum = TC_FUSED(u, one, whole);
  tc_v16f32 low = rest + tc_lookup32_f32(tc_atan_pieces[1], i);
  low = (z * 0.19984399f - 0.3333333f) * (z * u) + low;
  tc_v16f32 y = sum + ((u - (sum - whole)) + low);
  return (tc_v16f32)((tc_v16i32)y | ((tc_v16i32)x & (-0x7fffffff - 1)));
}

/* asin(sqrt(s)) / sqrt(s) - 1 around multiples of 1 / 61, what rounding that lost, and powers. */
static const tc_f32 tc_asin_pieces[5][16] TC_TABLE = {
    {0.0f, 0.002752595f, 0.0055467132f, 0.008383619f, 0.011264633f, 0.014191143f, 0.017164603f,
     0.020186538f, 0.023258554f, 0.026382333f, 0.029559651f, 0.03279238f, 0.03608248f, 0.039432045f,
     0.042843264f, 0.046318464f},
    {-1.7863837e-11f, -7.800135e-11f, 2.0674469e-10f, -1.8966191e-10f, -4.4940424e-10f,
     -9.6510556e-11f, 7.181031e-11f, 6.697566e-10f, -6.4941447e-10f, -9.153673e-11f,
     -4.8833104e-10f, -1.1757683e-9f, 1.5491108e-9f, -2.6341e-10f, 8.1575274e-10f, 1.4437513e-9f},
    {0.16666667f, 0.16916221f, 0.17173308f, 0.17438279f, 0.17711508f, 0.17993395f, 0.18284367f,
     0.18584879f, 0.18895416f, 0.19216499f, 0.19548686f, 0.19892578f, 0.20248815f, 0.20618092f,
     0.21001153f, 0.21398804f},
    {0.07500193f, 0.0772476f, 0.07959747f, 0.08205829f, 0.084636986f, 0.08734132f, 0.09018019f,
     0.09316242f, 0.096298f, 0.099598214f, 0.10307435f, 0.1067399f, 0.110608906f, 0.11469715f,
     0.119021595f, 0.12360111f},
    {0.044576976f, 0.046782035f, 0.048960768f, 0.05121157f, 0.053686652f, 0.056422994f,
     0.059204087f, 0.06212566f, 0.0653043f, 0.06884334f, 0.07265614f, 0.076498844f, 0.08078761f,
     0.08545845f, 0.09047609f, 0.09593759f}};
/* base + w asin(v) / v, with what rounding of base and w lost; s + s_low = v^2 up to 1 / 4. */
TC_FN tc_v16f32 tc_arc(tc_v16f32 base, tc_v16f32 base_low, tc_v16f32 w, tc_v16f32 w_low,
                       tc_v16f32 s, tc_v16f32 s_low) {
  tc_v16f32 nearest = s * 61.0f + 0x1.8p23f, n = nearest - 0x1.8p23f, first = base + w;
  tc_v16i32 i = (tc_v16i32)nearest;
  tc_v16f32 r = (s - n * 0.016393442f) + s_low, f = tc_lookup_f32(tc_asin_pieces[0], i);
  tc_v16f32 p = tc_lookup_f32(tc_asin_pieces[4], i);
#pragma GCC unroll 4
  for (int j = 3; j > 0; j--) p = p * r + tc_lookup_f32(tc_asin_pieces[j], i);
  tc_v16f32 sum = TC_FUSED(w, f, first), low = (w_low * f + w_low) + (w * p + base_low);
  return sum + (((w - (first - base)) + TC_FUSED(w, f, first - sum)) + low);
}
/* Of |x| > 1/2 s = (1 - |x|) / 2, half of whose angle the arc is, and its root with what that lacks; else x^2. */
TC_FN tc_v16f32 tc_arc_of(tc_v16f32 x, tc_m16f32 *is_far, tc_v16f32 *s_low, tc_v16f32 *root,
                          tc_v16f32 *root_low) {
  tc_v16f32 a = tc_size_of(x), half = tc_splat_v16f32(0.5f), square = x * x, zero = {0};
  tc_v16f32 far = half - a * 0.5f, lost = TC_FUSED(x, x, -square); /* the first is exact */
  *is_far = __builtin_ia32_cmpps512_mask(half, a, 1, (short)-1, 4);
  tc_v16f32 y = __builtin_ia32_rsqrt14ps512_mask(far, far, (short)-1);
  y = TC_SMALLER(s, tc_splat_v16f32(0x1p60f), y, (short)-1); /* of 0 */
  tc_v16f32 v = far * y;
  y *= 0.5f;
  v = TC_FUSED(TC_FUSED(-v, v, far), y, v);
  *root = v;
  *root_low = TC_FUSED(-v, v, far) * y;
  *s_low = tc_keep_v16f32(*is_far, zero, lost);
  return tc_keep_v16f32(*is_far, far, square);
}
TC_FN tc_v16f32 tc_asin_v16f32(tc_v16f32 x) {
  tc_m16f32 is_far;
  tc_v16f32 s_low, v, v_low, s = tc_arc_of(x, &is_far, &s_low, &v, &v_low), zero = {0};
  tc_v16f32 base = tc_keep_v16f32(is_far, zero + 0x1.921fb6p+0f, zero), w = tc_size_of(x);
  tc_v16f32 base_low = tc_keep_v16f32(is_far, zero - 0x1.777a5cp-25f, zero);
  w = tc_keep_v16f32(is_far, v * -2.0f, w);
  tc_v16f32 y = tc_arc(base, base_low, w, tc_keep_v16f32(is_far, v_low * -2.0f, zero), s, s_low);
  return (tc_v16f32)((tc_v16i32)y | ((tc_v16i32)x & (-0x7fffffff - 1)));
}
/* pi/2 - asin(x); of x > 1/2 twice the arc, of x < -1/2 that from pi. */
TC_FN tc_v16f32 tc_acos_v16f32(tc_v16f32 x) {
  tc_m16f32 is_far, is_left = __builtin_ia32_cmpps512_mask(x, (tc_v16f32){0}, 1, (short)-1, 4);
  tc_v16f32 s_low, v, v_low, s = tc_arc_of(x, &is_far, &s_low, &v, &v_low), zero = {0};
  tc_v16f32 turn = tc_keep_v16f32(is_left, zero + 2.0f, zero), sign = 2.0f - 2.0f * turn;
  tc_v16f32 quarters = tc_keep_v16f32(is_far, turn, zero + 1.0f);
  tc_v16f32 w = tc_keep_v16f32(is_far, v * sign, -x);
  tc_v16f32 w_low = tc_keep_v16f32(is_far, v_low * sign, zero);
  return tc_arc(quarters * 0x1.921fb6p+0f, quarters * -0x1.777a5cp-25f, w, w_low, s, s_low);
}

/* Slopes s / c where c is 1 and s has 8 bits, then those a quarter on; the angles of the first and what
 * rounding these lost. */
static const tc_f32 tc_tan_slopes[2][32] TC_TABLE = {
    {0.0f, 0.05078125f, 0.10546875f, 0.16015625f, 0.21484375f, 0.26953125f, 0.32421875f,
     0.38671875f, 0.4453125f, 0.51171875f, 0.578125f, 0.65234375f, 0.73046875f, 0.8125f,
     0.90234375f, 1.0039062f, -1.0f, -1.0f, -1.0f, -1.0f, -1.0f, -1.0f, -1.0f, -1.0f, -1.0f, -1.0f,
     -1.0f, -1.0f, -1.0f, -1.0f, -1.0f, -1.0f},
    {1.0f, 1.0f, 1.0f, 1.0f, 1.0f, 1.0f, 1.0f, 1.0f, 1.0f, 1.0f, 1.0f, 1.0f, 1.0f, 1.0f, 1.0f, 1.0f,
     0.0f, 0.05078125f, 0.10546875f, 0.16015625f, 0.21484375f, 0.26953125f, 0.32421875f,
     0.38671875f, 0.4453125f, 0.51171875f, 0.578125f, 0.65234375f, 0.73046875f, 0.8125f,
     0.90234375f, 1.0039062f}};
static const tc_f32 tc_tan_angles[2][16] TC_TABLE = {
    {0.0f, 0.050737668f, 0.10508028f, 0.1588076f, 0.21162681f, 0.26327488f, 0.3135251f, 0.36900485f,
     0.41894898f, 0.4729786f, 0.52417964f, 0.5780211f, 0.63088346f, 0.68231654f, 0.7341085f,
     0.7873475f},
    {0.0f, -8.8333807e-10f, -3.3113468e-9f, 2.8106415e-9f, -4.0500363e-9f, 4.6918087e-9f,
     1.2501874e-8f, 8.909763e-9f, -1.1052101e-8f, 5.98432e-9f, -8.649185e-9f, -2.5234337e-8f,
     2.6623832e-8f, 1.3202995e-8f, -2.437347e-8f, -1.6888665e-8f}};
/* By the angle of the slope s / c next to that of |x| but for quarters, at which u is left: (s + c tan(u)) /
 * (c - s tan(u)), each part of it two floats. */
TC_FN tc_v16f32 tc_tan_near(tc_v16f32 x, tc_v16f32 a) {
  tc_v16f32 n = a * 0x1.45f306p-1f + 0x1.8p23f, low, h = tc_quarter(a, n - 0x1.8p23f, &low);
  tc_v16i32 turned = (tc_v16i32)h & (-0x7fffffff - 1);
  h = tc_size_of(h);
  tc_v16i32 i = (tc_v16i32)(h * 19.047619f + 0x1.8p23f), j = i | ((tc_v16i32)n << 4 & 16);
  tc_v16f32 s = tc_lookup32_f32(tc_tan_slopes[0], j), c = tc_lookup32_f32(tc_tan_slopes[1], j);
  tc_v16f32 u = h - tc_lookup_f32(tc_tan_angles[0], i), z = u * u;
  low = (tc_v16f32)((tc_v16i32)low ^ turned) - tc_lookup_f32(tc_tan_angles[1], i);
  tc_v16f32 bent = (z * 0.13334896f + 0.33333334f) * (z * u) + low;
  tc_v16f32 num = TC_FUSED(c, u, s), num_low = TC_FUSED(c, u, s - num) + c * bent;
  tc_v16f32 first = TC_FUSED(-s, u, c), rest = TC_FUSED(-s, u, c - first) - s * bent;
  tc_v16f32 den = first + rest, den_low = rest - (den - first);
  tc_v16f32 r = __builtin_ia32_rcp14ps512_mask(den, den, (short)-1);
  r = r + r * (1.0f - den * r);
  tc_v16f32 y = num * r;
  y = TC_FUSED(TC_FUSED(-y, den, num) + (num_low - y * den_low), r, y);
  return (tc_v16f32)((tc_v16i32)y ^ (((tc_v16i32)x & (-0x7fffffff - 1)) ^ turned));
}
TC_QUARTER_WAVE(tan, 0x1p12f)
#endif
