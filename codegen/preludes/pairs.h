/* Functions of float64 that need more digits than it has: by two floats, a number and what it lacks. No
 * calls, so that compilers make vector code of loops over them. Of smath.h.
 *
 * Where an argument is rare, a function says so in *is_rare and its result is none.
 */
#ifndef TC_PAIRS_H
#define TC_PAIRS_H

/* a b - p, exactly, for p = a b rounded: what rounding lost; x - a b with one rounding, exact where the
 * result has 53 bits. Without fused products by halves of 26 bits. */
#if defined(__FMA__) || defined(__aarch64__)
TC_FN tc_f64 tc_lost_f64(tc_f64 a, tc_f64 b, tc_f64 p) { return __builtin_fma(a, b, -p); }
TC_FN tc_f64 tc_rest_f64(tc_f64 x, tc_f64 a, tc_f64 b) { return __builtin_fma(-a, b, x); }
#define TC_REST_END TC_INF_F64
#else
TC_FN tc_f64 tc_lost_f64(tc_f64 a, tc_f64 b, tc_f64 p) {
  tc_f64 c = tc_float_u64(tc_bits_f64(a) & 0xfffffffff8000000);
  tc_f64 d = tc_float_u64(tc_bits_f64(b) & 0xfffffffff8000000);
  return (((c * d - p) + c * (b - d)) + (a - c) * d) + (a - c) * (b - d);
}
TC_FN tc_f64 tc_rest_f64(tc_f64 x, tc_f64 a, tc_f64 b) {
  tc_f64 p = a * b;
  return (x - p) - tc_lost_f64(a, b, p);
}
#define TC_REST_END 0x1p1022 /* from here on the product next to x may overflow */
#endif

/* ---- exponentials: e^(x + low) = 2^n (the result + *rest), for |x| < 1100 */

TC_FN tc_f64 tc_exp_pair_f64(tc_f64 x, tc_f64 low, tc_f64 *n, tc_f64 *rest) {
  *n = tc_nearest_f64(x * 0x1.71547652b82fep+0);
  tc_f64 r = x - *n * 0x1.62e42feep-1, y = r - *n * 0x1.a39ef35793c76p-33;
  low += (r - y) - *n * 0x1.a39ef35793c76p-33;
  tc_f64 q = TC_PAIRED(f64, y, TC_EXP_F64), z = y * y, p = q * z + y, m = 1.0 + p;
  *rest = (p - (m - 1.0)) + (((y - p) + q * z) + m * low);
  return m;
}
/* y 2^n, in two steps: neither overflows before the result does. */
TC_FN tc_f64 tc_scaled_f64(tc_f64 y, tc_f64 n) {
  tc_f64 half = tc_nearest_f64(n * 0.5);
  return y * tc_pow2_f64(half) * tc_pow2_f64(n - half);
}

/* ---- error functions */

/* factor e^-(square + low) e^(a a) erfc(a) for 0 <= a <= 27.3: a polynomial in t = (a - 5/2) / (a + 5/2), over
 * a + 5/2. What rounding lost of u = 1 / (a + 5/2), to which the result is about 1.77 - 0.91 t times as
 * sensitive, and of t, is put back in the exponent. */
TC_FN tc_f64 tc_erfc_of_f64(tc_f64 factor, tc_f64 a, tc_f64 square, tc_f64 low) {
  tc_f64 s = a + 2.5, u = 1.0 / s, off = tc_rest_f64(1.0, s, u) - u * (a - (s - 2.5)), n, rest;
  tc_f64 t = tc_rest_f64(1.0, 5.0, u), t_low = tc_rest_f64(1.0 - t, 5.0, u);
  tc_f64 q = TC_PAIRED(f64, t, 0.45391411664807896, -0.17125114524604745, 0.02836155013291895,
                       0.008393044302386146, -0.004818785542739252, -0.00043920826489922274,
                       0.0007026939362123651, 5.83077777586463e-05, -0.00011260619012897601,
                       -1.953201228152472e-05, 1.8249842565113387e-05, 6.753512831256501e-06,
                       -2.3466617331371337e-06, -1.961119330244682e-06, 1.8897458952843023e-08,
                       4.466140967506466e-07, 1.1015295259515051e-07, -6.973455406761e-08,
                       -3.345888208643501e-08, 5.544851780386242e-09, 3.7052573687477505e-09,
                       -1.679845421009347e-10);
  q = t * q - 0.8046518494391488;
  tc_f64 p = 1.054031820305718 + t * q, p_low = tc_rest_f64(1.054031820305718 - p, -t, q), r = p * u;
  tc_f64 m = tc_exp_pair_f64(-square, off * (1.77 - 0.91 * t) - 0.75 * t_low - low, &n, &rest);
  tc_f64 y = r * m, r_low = tc_lost_f64(p, u, r) + p_low * u;
  y = y + (tc_lost_f64(r, m, y) + (r * rest + r_low * m));
  return tc_scaled_f64(factor * y, n);
}
/* erfc(a) for a >= 0. */
TC_FN tc_f64 tc_erfc_tail_f64(tc_f64 a) {
  a = a > 27.3 ? 27.3 : a; /* beyond it is 0 */
  tc_f64 square = a * a;
  return tc_erfc_of_f64(1.0, a, square, tc_lost_f64(a, a, square));
}
TC_FN tc_f64 tc_erfc_f64(tc_f64 x) {
  tc_f64 tail = tc_erfc_tail_f64(tc_fabs_f64(x));
  return x < 0.0 ? 2.0 - tail : tail;
}
/* Near 0 x + x P(x x). */
TC_FN tc_f64 tc_erf_f64(tc_f64 x) {
  tc_f64 a = tc_fabs_f64(x), b = a > 1.0 ? 1.0 : a, z = b * b;
  tc_f64 near = TC_PAIRED(f64, z, 0.11283791670977768, -0.026866170649989935, 0.005223977678936571,
                          -0.000854833045848116, 0.00012055470330473154, -1.4929167683844707e-05,
                          1.6519640131633141e-06, -1.6942267218625058e-07, 1.7948302633942285e-08,
                          -1.8348857530764306e-09);
  near = 0.1283791670955126 + z * (z * near - 0.37612638903184165);
  tc_f64 far = tc_copysign_f64(1.0 - tc_erfc_tail_f64(a), x);
  return a < 0.84375 ? x + x * near : far;
}
/* factor Phi(-a) for a >= 0, that is of erfc(a / sqrt(2)) / 2. */
TC_FN tc_f64 tc_normal_tail_f64(tc_f64 factor, tc_f64 a) {
  tc_f64 square = a * a, low = tc_lost_f64(a, a, square);
  return tc_erfc_of_f64(0.5 * factor, a * 0x1.6a09e667f3bcdp-1, 0.5 * square, 0.5 * low);
}
TC_FN tc_f64 tc_normcdf_f64(tc_f64 x) {
  tc_f64 a = tc_fabs_f64(x), tail = tc_normal_tail_f64(1.0, a > 38.6 ? 38.6 : a);
  return x > 0.0 ? 1.0 - tail : tail;
}
/* x Phi(x); right of 0 x - |x| Phi(-|x|). */
TC_FN tc_f64 tc_gelu_f64(tc_f64 x) {
  tc_f64 a = tc_fabs_f64(x), b = a > 38.6 ? 38.6 : a, tail = tc_normal_tail_f64(b, b);
  tail = x == -TC_INF_F64 ? TC_NAN_F64 : tail; /* -inf * 0, as everywhere */
  return (x < 0.0 ? -0.0 : x) - tail; /* -0 where it underflows */
}

/* In w = -ln(1 - x x), less 25/8, then in its root, less 17/4: what erf^-1(x) is over x. */
TC_FN tc_f64 tc_erfinv_of_f64(tc_f64 w) {
  return TC_PAIRED(f64, w - 3.125, 1.6536545626831027, 0.24015818242558834, -0.006033670871426851,
                   -0.0007407025341546431, 0.00018673420801981186, -1.3882523393957483e-05,
                   -1.3654691758785656e-06, 4.23478816822246e-07, -2.907039127564132e-08,
                   -4.1126604371632185e-09, 1.051223377050429e-09, -5.414303283919504e-11,
                   -1.2978805369932565e-11, 2.6305268312595183e-12, -8.07192593899004e-14,
                   -4.0020031087558496e-14, 6.521333511502239e-15, -3.94018812230432e-17,
                   -1.2215637192404172e-16, 1.5510787009902526e-17, 6.075050702072414e-19,
                   -3.4734793888538036e-19, 1.999259988861535e-20, 3.194015548136271e-21,
                   -3.5932028927020693e-22);
}
TC_FN tc_f64 tc_erfinv_f64(tc_f64 x) {
  tc_f64 a = tc_fabs_f64(x), w = -tc_log_f64((1.0 - a) * (1.0 + a));
  tc_f64 far = TC_PAIRED(
      f64, __builtin_sqrt(w) - 4.25, 4.09222342366813, 1.009978277161256, 0.0007127499726602099,
      -0.0006078940274820639, 0.0002121767132521552, -6.441975045871468e-05,
      2.1980128445383588e-05, -1.0197667022626671e-05, 5.807266975046099e-06,
      -3.2111198741251347e-06, 1.4901782433961604e-06, -5.152809534720578e-07,
      9.328623232435831e-08, 2.564418660941849e-08, -3.013943671976967e-08, 1.3403169838875057e-08,
      -3.0668042082268343e-09, -1.6379052613260557e-10, 4.6024331465149566e-10,
      -2.0054428972925675e-10, 3.605469012852618e-11, 7.626612597576684e-12,
      -5.183119033811474e-12, 3.248573679229393e-13, 3.679633155404986e-14, 1.9011192856261107e-13,
      -3.539833770362352e-14, -2.9142704389368706e-14, 7.890675233779073e-15,
      1.1205608048773213e-15, -3.884516138511197e-16);
  tc_f64 y = x * (w < 6.25 ? tc_erfinv_of_f64(w) : far);
  return a == 1.0 ? tc_copysign_f64(TC_INF_F64, x) : y;
}
/* The same for |x| < 0.999, where w < 6.25. */
TC_FN tc_f64 tc_erfinv_near_f64(tc_f64 x, tc_i64 *is_rare) {
  *is_rare = !(tc_fabs_f64(x) < 0.999);
  tc_f64 k, f = tc_split_f64((1.0 - x) * (1.0 + x), &k);
  return x * tc_erfinv_of_f64(-tc_log_parts_f64(f, k, 0.0));
}

/* ---- remainders, where the quotient is small enough: |x| - n |y| is exact */

/* Of sizes, with the integer next to the quotient, even at ties: from -b / 2 to b / 2. */
TC_FN tc_f64 tc_rest_near_f64(tc_f64 a, tc_f64 b, tc_i64 *is_rare) {
  *is_rare = !((a < b * 0x1p51) & (a < TC_REST_END)); /* of NaN and by 0 too */
  return tc_rest_f64(a, tc_nearest_f64(a / b), b);
}
TC_FN tc_f64 tc_fmod_near_f64(tc_f64 x, tc_f64 y, tc_i64 *is_rare) {
  tc_f64 a = tc_fabs_f64(x), b = tc_fabs_f64(y), r = tc_rest_near_f64(a, b, is_rare);
  r = r < 0.0 ? r + b : r;
  return tc_copysign_f64(a < b ? a : r, x);
}
TC_FN tc_f64 tc_remainder_near_f64(tc_f64 x, tc_f64 y, tc_i64 *is_rare) {
  tc_f64 a = tc_fabs_f64(x), b = tc_fabs_f64(y), r = tc_rest_near_f64(a, b, is_rare);
  tc_f64 c = tc_fabs_f64(r); /* the quotient's rounding may have made it a tie */
  r = c > b - c ? r - tc_copysign_f64(b, r) : r;
  r = b == TC_INF_F64 ? a : r;
  return tc_float_u64(tc_bits_f64(r) ^ (tc_bits_f64(x) & 0x8000000000000000));
}
TC_FN tc_f64 tc_mod_near_f64(tc_f64 x, tc_f64 y, tc_i64 *is_rare) {
  tc_f64 r = tc_fmod_near_f64(x, y, is_rare);
  return r == 0.0 ? tc_copysign_f64(0.0, y) : (y < 0.0) != (r < 0.0) ? r + y : r;
}

/* ---- norms: the largest is scaled to where squares neither over- nor underflow */

TC_FN tc_f64 tc_norm_scale_f64(tc_f64 largest) {
  return largest > 0x1p500 ? 0x1p-600 : largest < 0x1p-400 ? 0x1p600 : 1.0;
}
TC_FN tc_f64 tc_root_of_f64(tc_f64 a, tc_f64 b, tc_f64 c, tc_f64 d, int is_inverse) {
  a = tc_fabs_f64(a), b = tc_fabs_f64(b), c = tc_fabs_f64(c), d = tc_fabs_f64(d);
  tc_f64 e = a > b ? a : b, f = c > d ? c : d, largest = e > f ? e : f;
  int infinite = (a == TC_INF_F64) | (b == TC_INF_F64) | (c == TC_INF_F64) | (d == TC_INF_F64);
  tc_f64 scale = tc_norm_scale_f64(largest);
  tc_f64 back = largest > 0x1p500 ? 0x1p600 : largest < 0x1p-400 ? 0x1p-600 : 1.0;
  a *= scale, b *= scale, c *= scale, d *= scale;
  tc_f64 root = __builtin_sqrt((a * a + b * b) + (c * c + d * d));
  if (is_inverse) return infinite ? 0.0 : 1.0 / root * scale;
  return infinite ? TC_INF_F64 : root * back;
}
TC_FN tc_f64 tc_hypot_f64(tc_f64 a, tc_f64 b) { return tc_root_of_f64(a, b, 0.0, 0.0, 0); }
TC_FN tc_f64 tc_norm3d_f64(tc_f64 a, tc_f64 b, tc_f64 c) {
  return tc_root_of_f64(a, b, c, 0.0, 0);
}
TC_FN tc_f64 tc_norm4d_f64(tc_f64 a, tc_f64 b, tc_f64 c, tc_f64 d) {
  return tc_root_of_f64(a, b, c, d, 0);
}
TC_FN tc_f64 tc_rhypot_f64(tc_f64 a, tc_f64 b) { return tc_root_of_f64(a, b, 0.0, 0.0, 1); }
TC_FN tc_f64 tc_rnorm3d_f64(tc_f64 a, tc_f64 b, tc_f64 c) {
  return tc_root_of_f64(a, b, c, 0.0, 1);
}
TC_FN tc_f64 tc_rnorm4d_f64(tc_f64 a, tc_f64 b, tc_f64 c, tc_f64 d) {
  return tc_root_of_f64(a, b, c, d, 1);
}

/* ---- angles */

/* The angle of (x, y) from that of an eighth of the circle, by a slope of 0, 1/2 or 1 next to it and what is
 * left, whose tangent is t + t_low; the polynomial is that of tc_atan_f64. */
TC_FN tc_f64 tc_atan2_f64(tc_f64 y, tc_f64 x) {
  tc_f64 a = tc_fabs_f64(y), b = tc_fabs_f64(x);
  int is_steep = a > b, is_left = tc_copysign_f64(1.0, x) < 0.0;
  tc_f64 large = is_steep ? a : b, small = is_steep ? b : a;
  tc_f64 scale = large > 0x1p500 ? 0x1p-200 : small < 0x1p-900 ? 0x1p200 : 1.0;
  int infinite = large == TC_INF_F64;
  small = infinite ? (small == TC_INF_F64 ? 1.0 : 0.0) : small * scale;
  large = infinite ? 1.0 : large == 0.0 ? 1.0 : large * scale;
  int b0 = small >= 0.4375 * large, b1 = small >= 0.6875 * large;
  tc_f64 c = b1 ? 1.0 : b0 ? 0.5 : 0.0, part = c * large, num = small - part; /* exact */
  tc_f64 den = large + c * small, den_low = c * small - (den - large);
  tc_f64 inverse = 1.0 / den, t = num * inverse;
  tc_f64 t_low = (tc_rest_f64(num, t, den) - t * den_low) * inverse, s = tc_bend_f64(t);
  tc_f64 angle = b1 ? 0x1.921fb54442d18p-1 : b0 ? 0x1.dac670561bb4fp-2 : 0.0;
  tc_f64 angle_low = b1 ? 0x1.1a62633145c07p-55 : b0 ? 0x1.a2b7f222f65e2p-56 : 0.0;
  /* quarters of the circle, less the angle or with it */
  tc_f64 turn = is_steep ? 1.0 : is_left ? 2.0 : 0.0;
  tc_f64 sign = is_steep != is_left ? -1.0 : 1.0;
  tc_f64 from = turn * 0x1.921fb54442d18p+0, base = from + sign * angle;
  tc_f64 low = (sign * angle - (base - from)) + (turn * 0x1.1a62633145c07p-54 + sign * angle_low);
  tc_f64 sum = base + sign * t;
  low += (sign * t - (sum - base)) + sign * (t_low - t * s);
  tc_f64 result = tc_copysign_f64(sum + low, y);
  return ((x != x) | (y != y)) ? x + y : result;
}
/* sin and cos of what is left of a quarter as in vmath.h, each a pair: their quotient, or less its inverse. */
TC_FN tc_f64 tc_tan_near_f64(tc_f64 x, tc_i64 *is_rare) {
  tc_f64 a = tc_fabs_f64(x), whole = a * 0x1.45f306dc9c883p-1 + 0x1.8p52, k = whole - 0x1.8p52;
  tc_f64 r = a - k * 0x1.921fb54400000p+0, g = r - k * 0x1.0b4611a600000p-34;
  tc_f64 l = ((r - g) - k * 0x1.0b4611a600000p-34) - k * 0x1.3198a2e037073p-69, h = g + l;
  tc_f64 low = l - (h - g), z = h * h, w = z * z, v = z * h, half = z * 0.5;
  *is_rare = !(a < 0x1p20) | ((tc_fabs_f64(h) < 0x1p-30) & (k != 0.0));
  tc_f64 s = (0x1.111111110f8a6p-7 + z * -0x1.a01a019c161d5p-13) +
             w * ((0x1.71de357b1fe7dp-19 + z * -0x1.ae5e68a2b9cebp-26) +
                  w * 0x1.5d93a5acfd57cp-33);
  s = (low - z * (0.5 * low - v * s)) + v * -0x1.5555555555549p-3;
  tc_f64 sine = h + s, sine_low = s - (sine - h);
  tc_f64 c = (0x1.555555555554cp-5 + z * -0x1.6c16c16c15177p-10) +
             w * ((0x1.a01a019cb159p-16 + z * -0x1.27e4f809c52adp-22) +
                  w * (0x1.1ee9ebdb4b1c4p-29 + z * -0x1.8fae9be8838d4p-37));
  tc_f64 top = 1.0 - half;
  c = ((1.0 - top) - half) + (w * c - (h * low + 0.5 * tc_lost_f64(h, h, z)));
  tc_f64 cosine = top + c, cosine_low = c - (cosine - top);
  tc_i64 odd = (tc_i64)(tc_bits_f64(whole) & 1);
  tc_f64 num = odd ? -cosine : sine, num_low = odd ? -cosine_low : sine_low;
  tc_f64 den = odd ? sine : cosine, den_low = odd ? sine_low : cosine_low;
  tc_f64 inverse = 1.0 / den, q = num * inverse;
  q += (tc_rest_f64(num, q, den) + (num_low - q * den_low)) * inverse;
  return tc_float_u64(tc_bits_f64(q) ^ (tc_bits_f64(x) & 0x8000000000000000));
}

/* ---- powers */

/* ln(a) + *low for 0 < a < infinity: 2 s + 2/3 s^3 + ... for s = f / (2 + f), the first two terms pairs. */
TC_FN tc_f64 tc_log_pair_f64(tc_f64 a, tc_f64 *low) {
  tc_f64 k, f = tc_split_any_f64(a, &k), d = 2.0 + f, inverse = 1.0 / d, s = f * inverse;
  tc_f64 s_low = (tc_rest_f64(f, s, d) - s * (f - (d - 2.0))) * inverse;
  tc_f64 z = s * s, z_low = tc_lost_f64(s, s, z) + 2.0 * s * s_low;
  tc_f64 p = z * TC_POLY(f64, z, 0.4, 0.28571428571428564, 0.22222222222228444, 0.18181818179652515,
                         0.1538461576181261, 0.13333296483973292, 0.11766815303406082,
                         0.10456278375778207, 0.10762867423643212);
  tc_f64 c = 0x1.5555555555555p-1 + p, c_low = (p - (c - 0x1.5555555555555p-1)) + 0x1.5555555555555p-55;
  tc_f64 cube = s * z, cube_low = tc_lost_f64(s, z, cube) + (s * z_low + s_low * z);
  tc_f64 term = cube * c, term_low = tc_lost_f64(cube, c, term) + (cube * c_low + cube_low * c);
  tc_f64 twice = s + s, y = twice + term;
  tc_f64 y_low = (term - (y - twice)) + (term_low + 2.0 * s_low);
  tc_f64 whole = k * 0x1.62e42fefa3800p-1, sum = whole + y;
  *low = (y - (sum - whole)) + (k * 0x1.ef35793c76730p-45 + y_low);
  return sum;
}
/* |x|^y by e^(y ln |x|), then the sign and the cases in which C's pow does not follow from that. */
TC_FN tc_f64 tc_pow_f64(tc_f64 x, tc_f64 y) {
  tc_f64 a = tc_fabs_f64(x), l_low, l = tc_log_pair_f64(a, &l_low), n, rest;
  l = a == 0.0 ? -TC_INF_F64 : a < TC_INF_F64 ? l : a;
  tc_f64 t = y * l, t_low = tc_lost_f64(y, l, t) + y * l_low;
  int beyond = !(tc_fabs_f64(t) < 800.0);
  t = t > 800.0 ? 800.0 : t < -800.0 ? -800.0 : t;
  tc_f64 m = tc_exp_pair_f64(t, beyond ? 0.0 : t_low, &n, &rest), p = tc_scaled_f64(m + rest, n);
  tc_f64 b = tc_fabs_f64(y), h = 0.5 * b;
  int whole = (b >= 0x1p52) | ((b + 0x1p52) - 0x1p52 == b);
  int odd = whole & (b < 0x1p53) & ((h + 0x1p52) - 0x1p52 != h);
  p = ((a == 1.0) & (y == y)) ? 1.0 : p;
  p = ((x < 0.0) & (a < TC_INF_F64) & (whole ^ 1)) ? TC_NAN_F64 : p;
  p = odd ? tc_copysign_f64(p, x) : p;
  return ((y == 0.0) | (x == 1.0)) ? 1.0 : p;
}

#endif
