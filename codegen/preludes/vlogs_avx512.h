/* Logarithms for vectors of AVX-512, float32: two floats by 32 pieces of [0.742, 1.484). Included by
 * vmath_avx512.h.
 */
#ifndef TC_VLOGS_AVX512_H
#define TC_VLOGS_AVX512_H

/* c of 4 to 7 bits, near 1 / z for the z of a piece. */
static const tc_f32 tc_log_inverses[32] TC_TABLE =
    {1.328125f, 1.3125f, 1.28125f, 1.25f, 1.234375f, 1.203125f, 1.1875f, 1.15625f, 1.140625f,
     1.125f, 1.109375f, 1.078125f, 1.0625f, 1.046875f, 1.03125f, 1.015625f, 1.0f, 0.96875f, 0.9375f,
     0.9140625f, 0.890625f, 0.859375f, 0.84375f, 0.8203125f, 0.796875f, 0.78125f, 0.765625f,
     0.7421875f, 0.7265625f, 0.7109375f, 0.6953125f, 0.6796875f};
static const tc_f32 tc_log_pieces[2][32] TC_TABLE = {
    {-0.2837677f, -0.27192688f, -0.24783325f, -0.22314453f, -0.21057129f, -0.18492126f,
     -0.17184448f, -0.14518738f, -0.13157654f, -0.11778259f, -0.10379028f, -0.07522583f,
     -0.06062317f, -0.045806885f, -0.030776978f, -0.01550293f, 0.0f, 0.03175354f, 0.06454468f,
     0.08985901f, 0.11582947f, 0.1515503f, 0.16990662f, 0.19807434f, 0.22705078f, 0.24685669f,
     0.26705933f, 0.29815674f, 0.3194275f, 0.34117126f, 0.36338806f, 0.38612366f},
    {-4.7293534e-7f, -6.8356007e-6f, -2.9119515e-6f, 9.799357e-7f, 6.519955e-6f, -1.0738456e-6f,
     -5.7745046e-6f, 5.368085e-6f, 1.8029722e-7f, -4.4288294e-7f, -6.5104787e-6f, 2.4088406e-6f,
     -1.4528712e-6f, -2.6512657e-6f, 5.3188724e-6f, -1.2568485e-6f, 0.0f, -4.8417246e-6f,
     -6.156597e-6f, -2.6796672e-6f, 2.3477517e-6f, -3.9484155e-7f, -7.5794155e-6f, -4.4270582e-6f,
     6.669385e-6f, 3.3884785e-6f, 3.459077e-6f, -3.3659621e-6f, 3.280532e-6f, -5.0724566e-7f,
     5.832664e-6f, -1.5119615e-6f}};
static const tc_f32 tc_log2_pieces[2][32] TC_TABLE = {
    {-0.4093933f, -0.39231873f, -0.3575592f, -0.32192993f, -0.30378723f, -0.26678467f, -0.2479248f,
     -0.2094574f, -0.18981934f, -0.16992188f, -0.14974976f, -0.10852051f, -0.08746338f,
     -0.066085815f, -0.044387817f, -0.022369385f, 0.0f, 0.045806885f, 0.09310913f, 0.12963867f,
     0.16711426f, 0.21864319f, 0.24511719f, 0.28575134f, 0.32757568f, 0.35614014f, 0.38528442f,
     0.43014526f, 0.46084595f, 0.49220276f, 0.5242615f, 0.5570526f},
    {2.3744092e-6f, 1.3028072e-6f, 7.1994837e-6f, 1.8367533e-6f, 6.4832684e-6f, -1.8727261e-6f,
     -2.708756e-6f, 4.031832e-6f, -5.2229425e-6f, -3.1264424e-6f, 2.6363548e-6f, -3.9489655e-6f,
     5.376559e-7f, -3.375028e-6f, -6.3019756e-6f, 1.5717371e-6f, 0.0f, -3.1951524e-6f, 2.735321e-7f,
     -3.3914584e-6f, -4.271977e-6f, -2.9020011e-6f, -4.6896635e-6f, 3.1395605e-6f, -1.0255652e-6f,
     3.6735066e-6f, 5.7320567e-6f, -8.7200283e-7f, -4.7583735e-6f, 2.6010123e-6f, 5.094424e-6f,
     3.8918465e-6f}};
static const tc_f32 tc_log10_pieces[2][32] TC_TABLE = {
    {-0.12324524f, -0.11810303f, -0.1076355f, -0.09690857f, -0.09144592f, -0.08030701f,
     -0.07463074f, -0.06304932f, -0.057144165f, -0.05114746f, -0.045074463f, -0.032669067f,
     -0.026321411f, -0.019897461f, -0.013366699f, -0.006729126f, 0.0f, 0.013793945f, 0.028030396f,
     0.039016724f, 0.050308228f, 0.06581116f, 0.073791504f, 0.086013794f, 0.098602295f, 0.10720825f,
     0.115982056f, 0.12948608f, 0.13873291f, 0.14816284f, 0.15782166f, 0.16769409f},
    {6.2875274e-6f, 3.7152658e-6f, 1.619647e-6f, -1.4436721e-6f, -1.194455e-6f, -3.7443526e-6f,
     -2.8809923e-6f, -2.4293408e-6f, 1.2789025e-6f, -5.06151e-6f, -3.9118445e-6f, -4.9370556e-8f,
     -7.5275893e-6f, 2.6322205e-6f, 2.7376607e-6f, -4.2566826e-6f, 0.0f, -5.660827e-6f,
     -1.6719076e-6f, 7.384269e-6f, -3.1092277e-6f, 6.127263e-6f, -5.2897453e-6f, 6.8766326e-6f,
     7.502964e-6f, 1.7176948e-6f, 1.8382913e-6f, 2.8037465e-7f, -5.8890623e-6f, 5.73553e-6f,
     -1.6922705e-6f, -3.3747676e-6f}};
/* x = z 2^k with z in [0.742, 1.484), of denormals too; of what has no logarithm, anything. */
TC_FN tc_v16f32 tc_log_split(tc_v16f32 x, tc_v16f32 *k) {
  tc_v16f32 zero = {0}, z = __builtin_ia32_getmantps512_mask(x, 0, zero, (short)-1, 4);
  tc_v16f32 exponent = __builtin_ia32_getexpps512_mask(x, zero, (short)-1, 4);
  tc_m16f32 is_high = __builtin_ia32_cmpps512_mask(tc_splat_v16f32(1.484375f), z, 2, (short)-1, 4);
  *k = tc_keep_v16f32(is_high, exponent + 1.0f, exponent);
  return tc_keep_v16f32(is_high, z * 0.5f, z);
}
/* The piece of z, what is left of z there, exactly (z times its inverse of 4 to 7 bits, less 1), and the
 * logarithm of the rest: a sum of parts of 16 bits, which is exact, and *low. */
TC_FN tc_v16f32 tc_log_piece(tc_v16f32 z, tc_v16f32 k, const tc_f32 (*pieces)[32], tc_f32 two,
                             tc_f32 two_low, tc_v16f32 *inverse, tc_v16f32 *r, tc_v16f32 *low) {
  tc_v16i32 i = ((tc_v16i32)z - 0x3f3e0000) >> 18;
  *inverse = tc_lookup32_f32(tc_log_inverses, i);
  *r = TC_FUSED(z, *inverse, tc_splat_v16f32(-1.0f));
  *low = tc_lookup32_f32(pieces[1], i) + k * two_low;
  return TC_FUSED(k, tc_splat_v16f32(two), tc_lookup32_f32(pieces[0], i));
}
/* whole + ln(1 + r) + low; known is what the last sum's rounding lost. */
TC_FN tc_v16f32 tc_ln(tc_v16f32 whole, tc_v16f32 r, tc_v16f32 low) {
  tc_v16f32 p = ((0.2001119f * r - 0.250054f) * r + 0.3333333f) * r - 0.5f, sum = whole + r;
  return sum + ((r - (sum - whole)) + (p * (r * r) + low));
}
/* log(z 2^k) where that of 2 is two + two_low, of e unit + unit_low. r - r^2 / 2 is a float and what that
 * lost: -unit / 2 is none. */
TC_FN tc_v16f32 tc_log_of(tc_v16f32 z, tc_v16f32 k, const tc_f32 (*pieces)[32], tc_f32 two,
                          tc_f32 two_low, tc_v16f32 unit, tc_f32 unit_low, const tc_f32 c[3]) {
  tc_v16f32 inverse, r, low;
  tc_v16f32 whole = tc_log_piece(z, k, pieces, two, two_low, &inverse, &r, &low);
  tc_v16f32 p = (c[2] * r + c[1]) * r + c[0], half = r * -0.5f;
  tc_v16f32 bent = TC_FUSED(r, half, r), lost = TC_FUSED(r, half, r - bent);
  low = (p * (r * r) + unit_low) * r + (lost * unit + low);
  tc_v16f32 sum = TC_FUSED(bent, unit, whole);
  return sum + (TC_FUSED(bent, unit, whole - sum) + low);
}
/* y, but NaN of x < 0, -infinity of zeros, infinity of infinity. */
TC_FN tc_v16f32 tc_log_ends(tc_v16f32 x, tc_v16f32 y) {
  return __builtin_ia32_fixupimmps512_mask(y, x, tc_splat_v16i32(0x03530422), 0, (short)-1, 4);
}
TC_FN tc_v16f32 tc_ln_piece(tc_v16f32 z, tc_v16f32 k, tc_v16f32 *inverse, tc_v16f32 *r,
                            tc_v16f32 *low) {
  return tc_log_piece(z, k, tc_log_pieces, 0.69314575f, 1.4286068e-6f, inverse, r, low);
}
TC_FN tc_v16f32 tc_log_v16f32(tc_v16f32 x) {
  tc_v16f32 k, z = tc_log_split(x, &k), inverse, r, low;
  tc_v16f32 whole = tc_ln_piece(z, k, &inverse, &r, &low);
  return tc_log_ends(x, tc_ln(whole, r, low));
}
/* ln of 1 + x rounded, u, and of what that lost, over u, whose inverse is that of the piece times 1 / (1 + r).
 * Near 0 what is left of u in its piece is x itself. Zeros keep their sign. */
TC_FN tc_v16f32 tc_log1p_v16f32(tc_v16f32 x) {
  tc_v16f32 one = tc_splat_v16f32(1.0f), zero = {0}, u = x + one, k, z = tc_log_split(u, &k);
  tc_v16f32 large = TC_LARGER(s, one, x, (short)-1), small = TC_SMALLER(s, one, x, (short)-1);
  tc_v16f32 inverse, r, low, whole = tc_ln_piece(z, k, &inverse, &r, &low);
  tc_v16f32 more = tc_scaled((small - (u - large)) * inverse, -k), limit = tc_splat_v16f32(0x1p-7f);
  tc_m16f32 is_near = __builtin_ia32_cmpps512_mask(tc_size_of(x), limit, 1, (short)-1, 4);
  more = tc_keep_v16f32(is_near, zero, more - more * r);
  r = tc_keep_v16f32(is_near, x, r);
  tc_v16f32 y = tc_log_ends(u, tc_ln(whole, r, low + more));
  return __builtin_ia32_fixupimmps512_mask(y, x, tc_splat_v16i32(0x100), 0, (short)-1, 4);
}
TC_FN tc_v16f32 tc_log2_v16f32(tc_v16f32 x) {
  static const tc_f32 c[3] = {0.48089835f, -0.36080676f, 0.28858304f};
  tc_v16f32 k, z = tc_log_split(x, &k), unit = tc_splat_v16f32(1.442695f);
  return tc_log_ends(x, tc_log_of(z, k, tc_log2_pieces, 1.0f, 0.0f, unit, 1.925963e-8f, c));
}
TC_FN tc_v16f32 tc_log10_v16f32(tc_v16f32 x) {
  static const tc_f32 c[3] = {0.14476483f, -0.1085763f, 0.08688731f};
  tc_v16f32 k, z = tc_log_split(x, &k), unit = tc_splat_v16f32(0.4342945f);
  return tc_log_ends(
      x, tc_log_of(z, k, tc_log10_pieces, 0.3010254f, 4.605039e-6f, unit, -1.010305e-8f, c));
}
#endif
