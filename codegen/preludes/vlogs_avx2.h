/* Logarithms for vectors of AVX2, float32: two floats by 8 pieces of [0.719, 1.438). Included by vmath_avx2.h.
 */
#ifndef TC_VLOGS_AVX2_H
#define TC_VLOGS_AVX2_H

/* c of 2 to 5 bits, near 1 / z for the z of a piece; logarithms of their inverses, a part of 16 bits and
 * the rest. */
static const tc_f32 tc_log_inverses[8] TC_TABLE = {1.3125f, 1.25f,  1.125f,  1.0625f,
                                                   1.0f,    0.875f, 0.8125f, 0.71875f};
static const tc_f32 tc_log_pieces[2][8] TC_TABLE = {
    {-0.27192688f, -0.22314453f, -0.11778259f, -0.06062317f, 0.0f, 0.13352966f, 0.2076416f,
     0.33024597f},
    {-6.8356007e-6f, 9.799357e-7f, -4.4288294e-7f, -1.4528712e-6f, 0.0f, 1.7295386e-6f,
     -2.2367842e-6f, -4.284809e-6f}};
static const tc_f32 tc_log2_pieces[2][8] TC_TABLE = {
    {-0.39231873f, -0.32192993f, -0.16992188f, -0.08746338f, 0.0f, 0.19264221f, 0.29956055f,
     0.47644043f},
    {1.3028072e-6f, 1.8367533e-6f, -3.1264424e-6f, 5.376559e-7f, 0.0f, 2.8660284e-6f,
     -2.650161e-7f, -2.3857444e-6f}};
static const tc_f32 tc_log10_pieces[2][8] TC_TABLE = {
    {-0.11810303f, -0.09690857f, -0.05114746f, -0.026321411f, 0.0f, 0.057998657f, 0.09017944f,
     0.14341736f},
    {3.7152658e-6f, -1.4436721e-6f, -5.06151e-6f, -7.5275893e-6f, 0.0f, -6.7102487e-6f,
     -2.8130103e-6f, 4.783904e-6f}};

/* log(x) of normal x where that of 2 is two + two_low, of e unit + unit_low: what is left of a piece, r, is
 * exact, as are sums of parts of 16 bits. r - r^2 / 2 is a float and what that lost, and known is what
 * the last sum's rounding lost. c: the coefficients of r^3 and on. */
TC_FN tc_v8f32 tc_log_of(tc_v8f32 x, const tc_f32 (*pieces)[8], tc_f32 two, tc_f32 two_low,
                         tc_f32 unit_high, tc_f32 unit_low, const tc_f32 c[5]) {
  tc_v8i32 i = (tc_v8i32)x - 0x3f380000, e = i >> 23;
  tc_v8f32 z = (tc_v8f32)((tc_v8i32)x - (e << 23)), k = __builtin_convertvector(e, tc_v8f32);
  i = i >> 20; /* its last three bits */
  tc_v8f32 r = TC_FUSED(z, tc_table_entry(tc_log_inverses, i), tc_splat_v8f32(-1.0f));
  tc_v8f32 whole = TC_FUSED(k, tc_splat_v8f32(two), tc_table_entry(pieces[0], i));
  tc_v8f32 low = tc_table_entry(pieces[1], i) + k * two_low, unit = tc_splat_v8f32(unit_high);
  tc_v8f32 half = r * -0.5f, bent = TC_FUSED(r, half, r), lost = TC_FUSED(r, half, r - bent);
  tc_v8f32 z2 = r * r, p = (c[4] * r + c[3]) * z2 + (c[2] * r + c[1]);
  p = (p * r + c[0]) * z2;
  low = p * r + (lost * unit + (bent * unit_low + low));
  tc_v8f32 first = bent * unit, rest = TC_FUSED(bent, unit, -first);
  tc_v8f32 sum = TC_FUSED(first, tc_splat_v8f32(1.0f), whole); /* or first would be fused into it */
  return sum + ((first - (sum - whole)) + (rest + low));
}
/* y in lanes that are both normal and above 0, of the others what the macro's function gives. */
#define TC_WHERE_NORMAL(name, x, y)                                                               \
  tc_v8i32 size = (tc_v8i32)x - 0x00800000, rare = size | (0x7effffff - size); /* in the signs */  \
  if (__builtin_expect(__builtin_ia32_movmskps256((tc_v8f32)rare), 0))                            \
    y = tc_keep_v8f32(rare < 0, tc_##name##_lanes(x), y);                                         \
  return y;
TC_FAR1(log2)
TC_FN tc_v8f32 tc_log2_v8f32(tc_v8f32 x) {
  static const tc_f32 c[5] = {0.48089835f, -0.3606724f, 0.28853416f, -0.24155876f, 0.20773773f};
  tc_v8f32 y = tc_log_of(x, tc_log2_pieces, 1.0f, 0.0f, 1.442695f, 1.925963e-8f, c);
  TC_WHERE_NORMAL(log2, x, y)
}
TC_FAR1(log10)
TC_FN tc_v8f32 tc_log10_v8f32(tc_v8f32 x) {
  static const tc_f32 c[5] = {0.14476483f, -0.10857325f, 0.08685901f, -0.072708f, 0.062322732f};
  tc_v8f32 y = tc_log_of(x, tc_log10_pieces, 0.3010254f, 4.605039e-6f, 0.4342945f, -1.010305e-8f, c);
  TC_WHERE_NORMAL(log10, x, y)
}
/* As above where unit is 1: r needs no product, nor r - r^2 / 2 a rest. */
TC_FAR1(log)
TC_FN tc_v8f32 tc_log_v8f32(tc_v8f32 x) {
  tc_v8i32 i = (tc_v8i32)x - 0x3f380000, e = i >> 23;
  tc_v8f32 z = (tc_v8f32)((tc_v8i32)x - (e << 23)), k = __builtin_convertvector(e, tc_v8f32);
  i = i >> 20;
  tc_v8f32 r = TC_FUSED(z, tc_table_entry(tc_log_inverses, i), tc_splat_v8f32(-1.0f)), r2 = r * r;
  tc_v8f32 whole = TC_FUSED(k, tc_splat_v8f32(0.69314575f), tc_table_entry(tc_log_pieces[0], i));
  tc_v8f32 low = tc_table_entry(tc_log_pieces[1], i) + k * 1.4286068e-6f, sum = whole + r;
  tc_v8f32 p = (0.14474386f * r - 0.1673973f) * r2 + (0.1999949f * r - 0.24999915f);
  p = (p * r + 0.33333334f) * r - 0.5f;
  tc_v8f32 y = sum + ((r - (sum - whole)) + (p * r2 + low));
  TC_WHERE_NORMAL(log, x, y)
}
#endif
