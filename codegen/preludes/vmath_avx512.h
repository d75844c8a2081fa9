/* Builtin functions for vectors of AVX-512, which has two instructions that others lack: one scales
 * by a power of two, over- and underflows as it should; one looks 16 floats (of float64: 8, in two
 * tables) up in a table in registers, as quickly as it adds. So functions are polynomials of low
 * degree over 16 or 32 pieces, without divisions. Included by vmath.h.
 */
#ifndef TC_VMATH_AVX512_H
#define TC_VMATH_AVX512_H

#ifdef __clang__
#define TC_SMALLER(W, a, x, all) __builtin_ia32_minp##W##512(a, x, 4) /* NaN in x passes */
#define TC_LARGER(W, a, x, all) __builtin_ia32_maxp##W##512(a, x, 4)
#define TC_LOOKUP_F32(table, i) __builtin_ia32_permvarsf512(table, i)
#define TC_LOOKUP2_F32(low, high, i) __builtin_ia32_vpermi2varps512(low, i, high)
#define TC_LOOKUP2_F64(low, high, i) __builtin_ia32_vpermi2varpd512(low, i, high)
#else
#define TC_SMALLER(W, a, x, all) __builtin_ia32_minp##W##512_mask(a, x, a, all, 4)
#define TC_LARGER(W, a, x, all) __builtin_ia32_maxp##W##512_mask(a, x, a, all, 4)
#define TC_LOOKUP_F32(table, i)                                                                   \
  __builtin_ia32_permvarsf512_mask(table, i, (tc_v16f32){0}, (short)-1)
#define TC_LOOKUP2_F32(low, high, i) __builtin_ia32_vpermt2varps512_mask(i, low, high, (short)-1)
#define TC_LOOKUP2_F64(low, high, i) __builtin_ia32_vpermt2varpd512_mask(i, low, high, (char)-1)
#endif
#define TC_TABLE __attribute__((aligned(64), unused))

/* Elements of tables of 16 by the last four bits of i. */
TC_FN tc_v16f32 tc_lookup_f32(const tc_f32 *table, tc_v16i32 i) {
  return TC_LOOKUP_F32(tc_load_v16f32(table), i);
}
TC_FN tc_v8f64 tc_lookup_f64(const tc_f64 *table, tc_v8i64 i) {
  return TC_LOOKUP2_F64(tc_load_v8f64(table), tc_load_v8f64(table + 8), i);
}
TC_FN tc_v16f32 tc_lookup32_f32(const tc_f32 *table, tc_v16i32 i) { /* of 32, by five bits */
  return TC_LOOKUP2_F32(tc_load_v16f32(table), tc_load_v16f32(table + 16), i);
}
/* |x|, but at most limit; NaN passes. */
TC_FN tc_v16f32 tc_up_to(tc_v16f32 x, tc_f32 limit) {
  tc_v16f32 a = (tc_v16f32)((tc_v16i32)x & 0x7fffffff);
  return TC_SMALLER(s, tc_splat_v16f32(limit), a, (short)-1);
}
/* x = n + t for the nearest integer n up to last, whose last bits are those of i. */
TC_FN tc_v16f32 tc_piece(tc_v16f32 x, tc_f32 last, tc_v16i32 *i) {
  tc_v16f32 n = TC_SMALLER(s, tc_splat_v16f32(0x1.8p23f + last), x + 0x1.8p23f, (short)-1);
  *i = (tc_v16i32)n;
  return x - (n - 0x1.8p23f);
}
/* first in the lanes of piece 0, else the table's. */
TC_FN tc_v16f32 tc_base(tc_v16f32 first, tc_v16f32 table, tc_v16i32 i) {
  tc_m16f32 is_first = __builtin_ia32_cmpd512_mask(i, tc_splat_v16i32(0x4b400000), 0, -1);
  return tc_keep_v16f32(is_first, first, table);
}
/* An odd function f of x that goes to 1, for a = |x| up to a limit: polynomials around multiples of
 * 1 / step, where row j has the coefficients of power j; the first piece begins with a. */
TC_FN tc_v16f32 tc_odd(tc_v16f32 x, tc_v16f32 a, tc_f32 step, const tc_f32 (*pieces)[16],
                       int rows) {
  tc_v16i32 i;
  tc_v16f32 t = tc_piece(a * step, 15.0f, &i), p = tc_lookup_f32(pieces[rows - 1], i);
#pragma GCC unroll 8
  for (int j = rows - 2; j > 0; j--) p = p * t + tc_lookup_f32(pieces[j], i);
  tc_v16f32 y = p * t + tc_base(a, tc_lookup_f32(pieces[0], i), i);
  y = TC_SMALLER(s, tc_splat_v16f32(1.0f), y, (short)-1);
  return (tc_v16f32)((tc_v16i32)y | ((tc_v16i32)x & (-0x7fffffff - 1)));
}

/* ---- exponentials */

/* 2^(j / 16), and what rounding it lost. */
static const tc_f32 tc_roots_high[16] TC_TABLE = {
    1.0f, 1.0442737f, 1.0905077f, 1.1387886f, 1.1892071f, 1.2418578f, 1.2968396f, 1.3542556f,
    1.4142135f, 1.4768262f, 1.5422108f, 1.6104903f, 1.6817929f, 1.7562522f, 1.8340081f, 1.9152066f};
static const tc_f32 tc_roots_low[16] TC_TABLE = {
    0.0f, 4.83347e-08f, -1.307754e-08f, 5.3862223e-08f, 3.7976353e-08f, 4.496838e-08f,
    -4.0189995e-08f, -1.0123349e-08f, 2.4203235e-08f, -4.500899e-08f, 8.070905e-09f,
    9.836217e-09f, -2.4755327e-08f, -9.23577e-09f, -1.1239278e-08f, 9.845328e-09f};

/* e^(x + low) = 2^floor(n) m with m in [1, 2), for x in [-110.5, 89] and a small low. */
TC_FN tc_v16f32 tc_exp_parts(tc_v16f32 x, tc_v16f32 low, tc_v16f32 *n) {
  tc_v16f32 nearest = x * 0x1.715476p+0f + 0x1.8p19f; /* a multiple of 1 / 16 */
  *n = nearest - 0x1.8p19f;
  tc_v16f32 r = (x - *n * 0.693359375f) - (*n * -2.12194440e-4f - low);
  tc_v16f32 p = r * (r * (0.1666705923f * r + 0.5000098141f) + 1.0f);
  tc_v16f32 root = tc_lookup_f32(tc_roots_high, (tc_v16i32)nearest);
  return root + (root * p + tc_lookup_f32(tc_roots_low, (tc_v16i32)nearest));
}
TC_FN tc_v16f32 tc_scaled(tc_v16f32 m, tc_v16f32 n) {
  return __builtin_ia32_scalefps512_mask(m, n, m, (short)-1, 4);
}
TC_FN tc_v16f32 tc_exp_v16f32(tc_v16f32 x) {
  tc_v16f32 zero = {0}, n;
  x = TC_LARGER(s, zero - 104.5f, TC_SMALLER(s, zero + 89.0f, x, (short)-1), (short)-1);
  x = tc_exp_parts(x, zero, &n);
  return tc_scaled(x, n);
}
TC_FN tc_v8f64 tc_exp_v8f64(tc_v8f64 x) {
  tc_v8f64 zero = {0};
  x = TC_LARGER(d, zero - 746.0, TC_SMALLER(d, zero + 710.0, x, (char)-1), (char)-1);
  tc_v8f64 n = x * 0x1.71547652b82fep+0;
  n = __builtin_ia32_rndscalepd_mask(n, 8, n, (char)-1, 4);
  tc_v8f64 r = (x - n * 0x1.62e42feep-1) - n * 0x1.a39ef35793c76p-33, p = zero;
  const tc_f64 c[] = {TC_EXP_F64};
#pragma GCC unroll 16
  for (int i = sizeof c / sizeof *c - 1; i >= 0; i--) p = p * r + c[i];
  p = p * (r * r) + r + 1.0;
  return __builtin_ia32_scalefpd512_mask(p, n, p, (char)-1, 4);
}
/* 2^n (root - 2^-n + root p) with p = e^r - 1; computed halved, so that 2^128 fits. */
TC_FN tc_v16f32 tc_expm1_v16f32(tc_v16f32 x) {
  tc_v16f32 zero = {0};
  tc_v16f32 c = TC_LARGER(s, zero - 18.0f, TC_SMALLER(s, zero + 89.0f, x, (short)-1), (short)-1);
  tc_v16f32 nearest = c * 0x1.715476p+0f + 0x1.8p19f, n = nearest - 0x1.8p19f; /* as in exp */
  tc_v16f32 r = (c - n * 0.693359375f) - n * -2.12194440e-4f;
  tc_v16f32 p = r * r * ((0.0416666679f * r + 0.1666666716f) * r + 0.5f) + r;
  tc_v16f32 s = tc_scaled(tc_lookup_f32(tc_roots_high, (tc_v16i32)nearest), n - 1.0f);
  tc_v16f32 low = tc_scaled(tc_lookup_f32(tc_roots_low, (tc_v16i32)nearest), n - 1.0f);
  tc_v16f32 y = (s - 0.5f) + (s * p + low);
  return tc_select_v16f32(tc_size_of(x) < 0x1p-24f, x, y + y); /* -0 too */
}
/* x e^x / (1 + e^x) left of 0: x is in before the power, so that nothing is denormal too early. */
TC_FN tc_v16f32 tc_silu_v16f32(tc_v16f32 x) {
  tc_v16f32 zero = {0}, n, m = tc_exp_parts(zero - tc_up_to(x, 110.5f), zero, &n);
  tc_v16f32 left = tc_scaled(TC_LARGER(s, zero - 110.5f, x, (short)-1) * m, n);
  left = tc_select_v16f32(x == -TC_INF_F32, zero + TC_NAN_F32, left); /* -inf * 0, as everywhere */
  return tc_select_v16f32(x < 0, left, x) / (tc_scaled(m, n) + 1.0f);
}

/* ---- error functions, the hyperbolic tangent */

/* erf in steps of 1 / 4. */
static const tc_f32 tc_erf_pieces[6][16] TC_TABLE = {
    {0.0f, 0.276326386f, 0.520499872f, 0.71115563f, 0.842700793f, 0.922900131f, 0.966105149f,
     0.986671672f, 0.995322265f, 0.998537283f, 0.999593048f, 0.999899378f, 0.999977909f,
     0.999995697f, 0.999999257f, 0.999999886f},
    {0.0320947916f, 0.265003554f, 0.219695658f, 0.160732774f, 0.103776877f, 0.0591302805f,
     0.0297325711f, 0.0131937478f, 0.00516674577f, 0.00178557964f, 0.000544571154f,
     0.000146569427f, 3.48133329e-5f, 7.2972869e-6f, 1.34986719e-6f, 2.20204316e-7f},
    {1.39512099e-8f, -0.016562382f, -0.0274615295f, -0.0301371642f, -0.0259442567f,
     -0.0184783945f, -0.01114988f, -0.00577234223f, -0.00258337721f, -0.00100436391f,
     -0.00034033295f, -0.000100752161f, -2.61035856e-5f, -5.92674227e-6f, -1.1804503e-6f,
     -2.06757933e-7f},
    {-0.00587717983f, -0.00483111252f, -0.00228872483f, 0.000418433213f, 0.00216195598f,
     0.0026177433f, 0.00216802706f, 0.00140873607f, 0.000753498651f, 0.000339449186f,
     0.00013046771f, 4.3128154e-5f, 1.23279258e-5f, 3.05875311e-6f, 6.60601624e-7f,
     1.26442281e-7f},
    {1.00617837e-6f, 0.000492352531f, 0.000710595791f, 0.000586166596f, 0.000270664583f,
     -2.21189987e-5f, -0.000172448743f, -0.000187077597f, -0.000134506957f, -7.48086475e-5f,
     -3.3936911e-5f, -1.28788769e-5f, -4.14746918e-6f, -1.14367289e-6f, -2.71697146e-7f,
     -5.44199951e-8f},
    {0.000108485403f, 7.89374496e-5f, 7.9685117e-6f, -5.12470558e-5f, -6.71212188e-5f,
     -4.60057389e-5f, -1.46798295e-5f, 6.28106676e-6f, 1.26805178e-5f, 1.03873447e-5f,
     5.99040664e-6f, 2.71089424e-6f, 1.00465178e-6f, 3.11648248e-7f, 8.19781522e-8f,
     1.28543898e-8f},
};
/* tanh in steps of 1 / 2. */
static const tc_f32 tc_tanh_pieces[7][16] TC_TABLE = {
    {0.0f, 0.462117167f, 0.761594158f, 0.905148253f, 0.96402758f, 0.986614298f, 0.995054754f,
     0.998177898f, 0.9993293f, 0.999753211f, 0.999909204f, 0.999966597f, 0.999987712f,
     0.999995479f, 0.999998337f, 0.999999388f},
    {2.66392395e-9f, 0.393224223f, 0.209987206f, 0.0903532668f, 0.0353254034f, 0.0132961143f,
     0.00493301975f, 0.00182044291f, 0.000670475561f, 0.000246758782f, 9.07916463e-5f,
     3.34022972e-5f, 1.22882779e-5f, 4.52063992e-6f, 1.66305524e-6f, 6.11929081e-7f},
    {-3.89155528e-7f, -0.0908583855f, -0.0799626907f, -0.0408915376f, -0.0170273247f,
     -0.00655906686f, -0.00245431211f, -0.00090856288f, -0.000335012921f, -0.000123348938f,
     -4.53916997e-5f, -1.67005901e-5f, -6.14406322e-6f, -2.26030966e-6f, -8.31526207e-7f,
     -3.0636245e-7f},
    {-0.0416574458f, -0.0117867425f, 0.0129494098f, 0.0109787112f, 0.00526391316f, 0.0021275932f,
     0.000809965043f, 0.000301732476f, 0.000111514117f, 4.10933542e-5f, 1.51268291e-5f,
     5.56612597e-6f, 2.04783609e-6f, 7.53380183e-7f, 2.77156245e-7f, 1.01673306e-7f},
    {-8.01691129e-5f, 0.0102978504f, 0.00173501782f, -0.00156082123f, -0.00111837779f,
     -0.000502999297f, -0.000198467266f, -7.48829845e-5f, -2.78038699e-5f, -1.02632505e-5f,
     -3.7803525e-6f, -1.39135223e-6f, -5.11936278e-7f, -1.88342525e-7f, -6.92889255e-8f,
     -2.39734888e-8f},
    {0.00448390713f, -0.00075678211f, -0.001438031f, -9.66168216e-5f, 0.000147132959f,
     8.95526637e-5f, 3.83958391e-5f, 1.48981149e-5f, 5.58714656e-6f, 2.0698921e-6f, 7.6343709e-7f,
     2.81119152e-7f, 1.03454014e-7f, 3.8063485e-8f, 1.40034341e-8f, 3.68950018e-9f},
    {-0.000586952888f, -0.000792976367f, 0.000279799196f, 0.000113404039f, -1.50733327e-6f,
     -1.11564594e-5f, -5.85161061e-6f, -2.4064354e-6f, -9.20511796e-7f, -3.43450788e-7f,
     -1.27002165e-7f, -4.68100641e-8f, -1.72324537e-8f, -6.34108883e-9f, -2.33297593e-9f,
     -2.70348452e-10f},
};
/* a e^(a a / 2) Phi(-a) in steps of 1 / 2. */
static const tc_f32 tc_tail_pieces[7][32] TC_TABLE = {
    {0.0f, 0.174809419f, 0.261578292f, 0.308671f, 0.336204002f, 0.353328328f, 0.364541845f,
     0.372208038f, 0.377642565f, 0.381615264f, 0.384596525f, 0.386884817f, 0.388675886f,
     0.39010189f, 0.391254377f, 0.392198228f, 0.39298037f, 0.393635366f, 0.3941891f, 0.394661241f,
     0.395066941f, 0.395418017f, 0.395723786f, 0.395991674f, 0.396227653f, 0.39643657f,
     0.396622388f, 0.396788377f, 0.396937247f, 0.397071265f, 0.397192335f, 0.397302066f},
    {-4.99506256e-10f, 0.118776236f, 0.0621071612f, 0.0351868764f, 0.0213127236f, 0.0136482261f,
     0.00915632131f, 0.00638765218f, 0.00460589029f, 0.00341591025f, 0.00259526368f,
     0.00201332304f, 0.0015904738f, 0.00127656799f, 0.00103907961f, 0.000856353503f,
     0.000713630298f, 0.000600636132f, 0.000510081899f, 0.000436705985f, 0.000376650113f,
     0.000327044133f, 0.000285724681f, 0.000251041292f, 0.000221720689f, 0.000196770418f,
     0.000175409488f, 0.000157017846f, 0.000141099133f, 0.000127252935f, 0.000115153902f,
     0.000104535888f},
    {-0.0997354992f, -0.0411862801f, -0.0188142206f, -0.00937274476f, -0.00502820878f,
     -0.00287334708f, -0.00173286802f, -0.00109436509f, -0.000719038544f, -0.000488854961f,
     -0.000342359294f, -0.000246046639f, -0.000180887917f, -0.000135674682f, -0.000103586515f,
     -8.03501858e-5f, -6.32170794e-5f, -5.03767726e-5f, -4.0610868e-5f, -3.30831949e-5f,
     -2.72095648e-5f, -2.25751129e-5f, -1.88807686e-5f, -1.59079383e-5f, -1.34948003e-5f,
     -1.15201391e-5f, -9.89215625e-6f, -8.54062046e-6f, -7.41128828e-6f, -6.46189166e-6f,
     -5.65921988e-6f, -4.97697497e-6f},
    {0.0312483532f, 0.0114137403f, 0.00462738708f, 0.00205508069f, 0.000987989983f,
     0.000508789143f, 0.000278101805f, 0.000160075075f, 9.6376456e-5f, 6.03471877e-5f,
     3.91083652e-5f, 2.61225348e-5f, 1.79212581e-5f, 1.25900663e-5f, 9.03400178e-6f,
     6.60644656e-6f, 4.91434261e-6f, 3.71241857e-6f, 2.84393331e-6f, 2.20652151e-6f,
     1.7319885e-6f, 1.37406842e-6f, 1.10084228e-6f, 8.89946151e-7f, 7.25485302e-7f,
     5.96012304e-7f, 4.93180643e-7f, 4.10834639e-7f, 3.44385617e-7f, 2.90378667e-7f,
     2.46188062e-7f, 2.09800654e-7f},
    {-0.00829716601f, -0.00271767819f, -0.000989236616f, -0.000395682881f, -0.000172002811f,
     -8.04425467e-5f, -4.01148335e-5f, -2.11630641e-5f, -1.17310923e-5f, -6.79234189e-6f,
     -4.0870675e-6f, -2.54456465e-6f, -1.63300477e-6f, -1.07676845e-6f, -7.27442262e-7f,
     -5.02295435e-7f, -3.53741175e-7f, -2.53615662e-7f, -1.84811379e-7f, -1.36686836e-7f,
     -1.0247689e-7f, -7.77937659e-8f, -5.97386457e-8f, -4.63635008e-8f, -3.633843e-8f,
     -2.87421362e-8f, -2.29276379e-8f, -1.84347905e-8f, -1.49324303e-8f, -1.21795635e-8f,
     -9.99898219e-9f, -8.25910323e-9f},
    {0.00189751789f, 0.000586320126f, 0.000192728299f, 6.98323638e-5f, 2.75961167e-5f,
     1.17781489e-5f, 5.38176399e-6f, 2.61213e-6f, 1.33750479e-6f, 7.18136196e-7f, 4.02202843e-7f,
     2.33896176e-7f, 1.40673611e-7f, 8.71988221e-8f, 5.55402211e-8f, 3.62543865e-8f,
     2.41974307e-8f, 1.64799528e-8f, 1.14326822e-8f, 8.06610104e-9f, 5.77960777e-9f,
     4.20063941e-9f, 3.09340096e-9f, 2.30585981e-9f, 1.73828774e-9f, 1.32421128e-9f,
     1.01865776e-9f, 7.90775078e-10f, 6.19121312e-10f, 4.88612134e-10f, 3.88513936e-10f,
     3.111066e-10f},
    {-0.000311559727f, -0.000115732425f, -3.42694117e-5f, -1.13104079e-5f, -4.08896271e-6f,
     -1.60220031e-6f, -6.74413596e-7f, -3.02583872e-7f, -1.4370567e-7f, -7.1806422e-8f,
     -3.75478517e-8f, -2.04500705e-8f, -1.15531328e-8f, -6.74570967e-9f, -4.05787604e-9f,
     -2.50784544e-9f, -1.58842324e-9f, -1.02885309e-9f, -6.80188212e-10f, -4.5819949e-10f,
     -3.14031202e-10f, -2.18674284e-10f, -1.54527316e-10f, -1.10694345e-10f, -8.03036961e-11f,
     -5.89460067e-11f, -4.37459002e-11f, -3.27998632e-11f, -2.48298741e-11f, -1.89664567e-11f,
     -1.4610698e-11f, -1.13452149e-11f},
};
/* Phi(-a) in steps of 1 / 4, to 1 / 2^24 of itself below 6.75. */
static const tc_f32 tc_phi_pieces[8][32] TC_TABLE = {
    {0.5f, 0.40129367f, 0.30853754f, 0.22662735f, 0.15865526f, 0.10564978f, 0.0668072f,
     0.040059157f, 0.022750132f, 0.012224473f, 0.0062096654f, 0.0029797633f, 0.001349898f,
     0.00057702506f, 0.00023262909f, 8.8417284e-5f, 3.1671243e-5f, 1.0688525e-5f, 3.397673e-6f,
     1.0170833e-6f, 2.8665158e-7f, 7.60496e-8f, 1.8989562e-8f, 4.4621724e-9f, 9.865877e-10f,
     2.0522634e-10f, 4.0160007e-11f, 7.392258e-12f, 1.2798125e-12f, 2.0838581e-13f,
     3.1908917e-14f, 4.5946273e-15f},
    {-0.09973557f, -0.09666703f, -0.08801633f, -0.075284354f, -0.060492683f, -0.045662273f,
     -0.0323794f, -0.02156933f, -0.013497742f, -0.007934913f, -0.0043820753f, -0.0022733908f,
     -0.0011079621f, -0.000507262f, -0.00021817068f, -8.814892e-5f, -3.3457556e-5f,
     -1.1929659e-5f, -3.995935e-6f, -1.2573769e-6f, -3.716799e-7f, -1.0321177e-7f,
     -2.6924399e-8f, -6.598108e-9f, -1.5189708e-9f, -3.2850045e-10f, -6.673892e-11f,
     -1.2737347e-11f, -2.2836806e-12f, -3.846346e-13f, -6.0858037e-14f, -9.045741e-15f},
    {1.0176518e-12f, 0.0030214859f, 0.0055007334f, 0.007058086f, 0.0075614373f, 0.0071345125f,
     0.0060710157f, 0.0047183014f, 0.0033744469f, 0.0022316657f, 0.00136939f, 0.00078147213f,
     0.0004154841f, 0.00020607412f, 9.5449235e-5f, 4.1319883e-5f, 1.672869e-5f, 6.3376565e-6f,
     2.2477209e-6f, 7.46566e-7f, 2.3229904e-7f, 6.773297e-8f, 1.8510573e-8f, 4.742394e-9f,
     1.1392248e-9f, 2.5664154e-10f, 5.4225367e-11f, 1.0747151e-11f, 1.9982254e-12f,
     3.485761e-13f, 5.7054574e-14f, 8.763099e-15f},
    {0.0010389122f, 0.0009438597f, 0.00068770937f, 0.00034303404f, 5.6154267e-8f,
     -0.00026745873f, -0.0004215481f, -0.00046340915f, -0.0004218112f, -0.00033576888f,
     -0.00023963887f, -0.00015540312f, -9.232881e-5f, -5.0527127e-5f, -2.5566475e-5f,
     -1.1994297e-5f, -5.227652e-6f, -2.1203375e-6f, -8.0127654e-7f, -2.8241675e-7f,
     -9.291883e-8f, -2.855824e-8f, -8.203585e-9f, -2.2036655e-9f, -5.5378535e-10f,
     -1.3024587e-10f, -2.8676655e-11f, -5.9125153e-12f, -1.1418229e-12f, -2.0658686e-13f,
     -3.502423e-14f, -5.5650823e-15f},
    {1.304956e-10f, -5.3013988e-5f, -7.574468e-5f, -9.1481765e-5f, -7.719822e-5f,
     -5.110721e-5f, -2.2421915e-5f, 1.4244998e-6f, 1.745268e-5f, 2.4279007e-5f, 2.3269555e-5f,
     1.8633487e-5f, 1.3002037e-5f, 8.128391e-6f, 4.603174e-6f, 2.3798993e-6f, 1.1336266e-6f,
     4.9691823e-7f, 2.0186171e-7f, 7.608123e-8f, 2.6626616e-8f, 8.662149e-9f, 2.6265239e-9f,
     7.4247175e-10f, 1.9582647e-10f, 4.8195243e-11f, 1.1083993e-11f, 2.3819646e-12f,
     4.7861986e-13f, 8.99543e-14f, 1.5818594e-14f, 2.6033536e-15f},
    {-9.740332e-6f, -6.637945e-6f, -5.3433105e-6f, 7.657764e-7f, 3.3432468e-6f, 4.8544584e-6f,
     5.1090765e-6f, 4.2693223e-6f, 2.2686695e-6f, 2.5530463e-7f, -7.130155e-7f, -1.1437363e-6f,
     -1.0964944e-6f, -8.551278e-7f, -5.6931e-7f, -3.3313898e-7f, -1.784973e-7f, -8.54877e-8f,
     -3.7837204e-8f, -1.5437895e-8f, -5.7954295e-9f, -2.0036461e-9f, -6.4492617e-10f,
     -1.9282809e-10f, -5.361295e-11f, -1.3839061e-11f, -3.3359324e-12f, -7.491696e-13f,
     -1.5698396e-13f, -3.071109e-14f, -5.611977e-15f, -9.582878e-16f},
    {1.1237956e-9f, 1.8541696e-5f, -7.352411e-6f, 5.740449e-6f, -3.6816461e-6f, -6.009746e-6f,
     -3.6048991e-6f, -2.2062626e-8f, -2.3298716e-9f, -1.057744e-6f, -3.6486503e-7f,
     -1.982868e-7f, -2.1588063e-8f, 1.5919566e-8f, 3.1470705e-8f, 3.457062e-8f, 1.7616903e-8f,
     1.1797633e-8f, 5.6611795e-9f, 2.385589e-9f, 9.631945e-10f, 3.764824e-10f, 1.285036e-10f,
     4.0466814e-11f, 1.1792348e-11f, 3.2527498e-12f, 8.2185593e-13f, 1.9405827e-13f,
     4.259449e-14f, 8.703256e-15f, 1.6573679e-15f, 2.946866e-16f},
    {7.142528e-8f, -4.2870183e-6f, 2.3232503e-6f, -1.6747588e-6f, 1.535192e-6f, 2.5889562e-6f,
     1.620344e-6f, -1.6908591e-7f, -1.8377226e-7f, 5.3678383e-7f, 1.8154095e-7f, 1.3685212e-7f,
     4.3773095e-8f, 2.7057323e-8f, 1.0064384e-8f, -3.981755e-9f, 1.0352579e-9f, -1.8055163e-9f,
     -8.2599116e-10f, -2.4301527e-10f, -1.0044902e-10f, -6.256057e-11f, -2.1730071e-11f,
     -6.773726e-12f, -1.963291e-12f, -6.2057363e-13f, -1.5910697e-13f, -3.9480707e-14f,
     -9.059763e-15f, -1.9280213e-15f, -3.8134265e-16f, -7.035832e-17f},
};
TC_FN tc_v16f32 tc_erf_v16f32(tc_v16f32 x) {
  return tc_odd(x, tc_up_to(x, 4.0f), 4.0f, tc_erf_pieces, 6);
}
TC_FN tc_v16f32 tc_tanh_v16f32(tc_v16f32 x) {
  return tc_odd(x, tc_up_to(x, 9.02f), 2.0f, tc_tanh_pieces, 7);
}
/* x Phi(x), right of 0 x - |x| Phi(-|x|). The square of |x| is that rounded and what it lost. */
static __attribute__((noinline, unused)) tc_v16f32 tc_gelu_beyond(tc_v16f32 x) {
  tc_v16f32 a = tc_up_to(x, 14.5f), square = a * a, n; /* beyond, the tail is 0 */
  tc_v16f32 lost = __builtin_ia32_vfmaddps512_mask(a, a, -square, (short)-1, 4);
  tc_v16f32 m = tc_exp_parts(-0.5f * square, -0.5f * lost, &n);
  tc_v16i32 i;
  tc_v16f32 t = tc_piece(a * 2.0f, 31.0f, &i), p = tc_lookup32_f32(tc_tail_pieces[6], i);
#pragma GCC unroll 8
  for (int j = 5; j > 0; j--) p = p * t + tc_lookup32_f32(tc_tail_pieces[j], i);
  p = p * t + tc_base(0.5f * a, tc_lookup32_f32(tc_tail_pieces[0], i), i);
  tc_v16f32 tail = tc_scaled(p * m, n);
  tail = tc_select_v16f32(x == -TC_INF_F32, tc_splat_v16f32(TC_NAN_F32), tail);
  return tc_select_v16f32(x < 0, -tail, x - tail);
}
/* The same where no |x| is far: Phi(-|x|) needs no exponential. */
TC_FN tc_v16f32 tc_gelu_v16f32(tc_v16f32 x) {
  tc_v16f32 a = (tc_v16f32)((tc_v16i32)x & 0x7fffffff);
  if (__builtin_expect(tc_any_not_less(a, tc_splat_v16f32(6.75f)), 0)) return tc_gelu_beyond(x);
  tc_v16i32 i;
  tc_v16f32 t = tc_piece(a * 4.0f, 31.0f, &i), p = tc_lookup32_f32(tc_phi_pieces[7], i);
#pragma GCC unroll 8
  for (int j = 6; j >= 0; j--) p = p * t + tc_lookup32_f32(tc_phi_pieces[j], i);
  tc_v16f32 tail = p * a;
  return tc_select_v16f32(x < 0, -tail, x - tail);
}

/* ---- logarithms and powers: float32 in float64 */

/* About 1 / z in 16 parts of [0.699, 1.399), 1 next to 1; binary logarithms of their inverses. */
static const tc_f64 tc_inverses[16] TC_TABLE = {
    1.3989105224609375, 1.3403167724609375, 1.28643798828125, 1.2367095947265625,
    1.190704345703125, 1.147979736328125, 1.1082305908203125, 1.071136474609375, 1.03643798828125,
    1.0, 0.948150634765625, 0.895111083984375, 0.847686767578125, 0.8050384521484375,
    0.7664642333984375, 0.7314300537109375};
static const tc_f64 tc_inverse_logs[16] TC_TABLE = {
    -0.4843036873559923, -0.4225740096751997, -0.3633819147822816, -0.30650676512026137,
    -0.251815233572486, -0.19909717637166807, -0.1482580958462986, -0.09914230707095233,
    -0.051633800310858485, 0.0, 0.07681181343747337, 0.15986136181912347, 0.23839682814483018,
    0.31287040060546945, 0.38370962394608016, 0.4512081881302267};
/* 2^(j / 16). */
static const tc_f64 tc_roots[16] TC_TABLE = {
    1.0, 1.0442737824274138, 1.0905077326652577, 1.1387886347566916, 1.189207115002721,
    1.241857812073484, 1.2968395546510096, 1.3542555469368927, 1.4142135623730951,
    1.4768261459394993, 1.5422108254079407, 1.6104903319492543, 1.681792830507429,
    1.7562521603732995, 1.8340080864093424, 1.9152065613971474};
/* log2(z 2^k) for z in [0.699, 1.399): by r = z c - 1 with a c of 16 for which |r| < 0.03; next to
 * 1 c is 1, so that the result is right in its own units. */
TC_FN tc_v8f64 tc_binary_log(tc_v8f64 z, tc_v8f64 k) {
  tc_v8i64 i = ((tc_v8i64)z - 0x3fe6600000000000) >> 48;
  tc_v8f64 r = z * tc_lookup_f64(tc_inverses, i) - 1.0;
  tc_v8f64 p = 0.2064127903749487 * r - 0.2407626385837193;
  p = p * r + 0.28853881800782565;
  p = p * r - 0.36067360465033513;
  p = p * r + 0.48089834699944719;
  p = p * r - 0.72134752046378099;
  p = p * r + 1.4426950408889623;
  return r * p + (tc_lookup_f64(tc_inverse_logs, i) + k);
}
TC_FN tc_v8f64 tc_binary_power(tc_v8f64 x) {
  tc_v8f64 zero = {0};
  x = TC_LARGER(d, zero - 200.0, TC_SMALLER(d, zero + 200.0, x, (char)-1), (char)-1);
  tc_v8f64 nearest = x + 0x1.8p48, n = nearest - 0x1.8p48, r = x - n; /* of multiples of 1 / 16 */
  tc_v8f64 p = 0.0096183547621276317 * r + 0.055505410867993486;
  p = p * r + 0.24022650688564063;
  p = r * (p * r + 0.6931471804009739);
  tc_v8f64 root = tc_lookup_f64(tc_roots, (tc_v8i64)nearest);
  root = root * p + root;
  return __builtin_ia32_scalefpd512_mask(root, n, root, (char)-1, 4);
}
/* 2^(y log2 x) for normal x > 0 and finite y. */
TC_FN tc_v16f32 tc_pow_quick(tc_v16f32 x, tc_v16f32 y) {
  tc_v16i32 k = ((tc_v16i32)x - 0x3f330000) >> 23;
  tc_v16f32 z = (tc_v16f32)((tc_v16i32)x - (k << 23)), whole = tc_v16i32_v16f32(k);
  tc_v8f64 low = tc_binary_log(tc_low_v8f64(z), tc_low_v8f64(whole)) * tc_low_v8f64(y);
  tc_v8f64 high = tc_binary_log(tc_high_v8f64(z), tc_high_v8f64(whole)) * tc_high_v8f64(y);
  return tc_join_v16f32(tc_binary_power(low), tc_binary_power(high));
}
TC_FAR2(pow)
TC_FN tc_v16f32 tc_pow_v16f32(tc_v16f32 x, tc_v16f32 y) {
  tc_v16i32 normal = (tc_v16i32)x - 0x00800000, size = (tc_v16i32)y & 0x7fffffff;
  if (__builtin_expect(__builtin_ia32_ucmpd512_mask(normal, tc_splat_v16i32(0x7f000000), 5, -1) |
                           __builtin_ia32_cmpd512_mask(size, tc_splat_v16i32(0x7f800000), 5, -1),
                       0))
    return tc_pow_lanes(x, y);
  return tc_pow_quick(x, y);
}

/* ---- the angle of a point: float32 in float64 */

/* Of slopes j / 15. */
static const tc_f64 tc_angles[16] TC_TABLE = {
    0.0, 0.06656816377582381, 0.13255153229667402, 0.19739555984988078, 0.26060239174734096,
    0.3217505543966422, 0.3805063771123649, 0.43662715981354133, 0.4899573262537283,
    0.5404195002705842, 0.5880026035475675, 0.6327488350021832, 0.6747409422235527,
    0.714090698612158, 0.7509290623979403, 0.7853981633974483};
/* The angle of (large, small) by that of slope c = j / 15 next to it: t = (small - c large) /
 * (large + c small), |t| < 1 / 29, by an inverse of 14 bits, which becomes one of 42. */
TC_FN tc_v8f64 tc_angle_near(tc_v8f64 small, tc_v8f64 large, tc_v8f64 j) {
  tc_v8f64 c = j * (1.0 / 15.0), num = small - c * large, den = large + c * small;
  tc_v8f64 inverse = __builtin_ia32_rcp14pd512_mask(den, den, (char)-1);
  tc_v8f64 off = 1.0 - den * inverse, t = num * inverse;
  t = t + t * (off * off + off);
  tc_v8f64 z = t * t, p = 0.19985 * z - 0.3333333333333333;
  return tc_lookup_f64(tc_angles, (tc_v8i64)(j + 0x1.8p52)) + (t * z * p + t);
}
/* Of half a circle, from that of an eighth: where the point is nearer to the y axis, left of it. */
TC_FN tc_v8f64 tc_angle_turned(tc_v8f64 a, tc_m8f64 is_steep, tc_m8f64 is_left) {
  a = tc_keep_v8f64(is_steep, 0x1.921fb54442d18p+0 - a, a);
  return tc_keep_v8f64(is_left, 0x1.921fb54442d18p+1 - a, a);
}
TC_FAR2(atan2)
TC_FN tc_v16f32 tc_atan2_v16f32(tc_v16f32 y, tc_v16f32 x) {
  tc_v16i32 a = (tc_v16i32)y & 0x7fffffff, b = (tc_v16i32)x & 0x7fffffff, zero = {0};
  tc_m16f32 is_steep = (tc_m16f32)__builtin_ia32_cmpd512_mask(a, b, 6, (short)-1);
  tc_m16f32 is_left = (tc_m16f32)__builtin_ia32_cmpd512_mask((tc_v16i32)x, zero, 1, (short)-1);
  tc_v16f32 large = tc_keep_v16f32(is_steep, (tc_v16f32)a, (tc_v16f32)b);
  tc_v16f32 small = tc_keep_v16f32(is_steep, (tc_v16f32)b, (tc_v16f32)a);
  /* 2^-100 to 2^100: neither NaN nor infinite, not both zero, and inverses are normal */
  if (__builtin_expect(__builtin_ia32_ucmpd512_mask((tc_v16i32)large - 0x0d800000,
                                                    zero + 0x64000000, 5, (short)-1), 0))
    return tc_atan2_lanes(y, x);
  tc_v16f32 slope = small * __builtin_ia32_rcp14ps512_mask(large, large, (short)-1);
  tc_v16f32 j = (slope * 15.0f + 0x1.8p23f) - 0x1.8p23f;
  tc_v8f64 low = tc_angle_near(tc_low_v8f64(small), tc_low_v8f64(large), tc_low_v8f64(j));
  tc_v8f64 high = tc_angle_near(tc_high_v8f64(small), tc_high_v8f64(large), tc_high_v8f64(j));
  low = tc_angle_turned(low, (tc_m8f64)is_steep, (tc_m8f64)is_left);
  high = tc_angle_turned(high, (tc_m8f64)(is_steep >> 8), (tc_m8f64)(is_left >> 8));
  tc_v16i32 sign = (tc_v16i32)y & (-0x7fffffff - 1);
  return (tc_v16f32)((tc_v16i32)tc_join_v16f32(low, high) | sign);
}

#include "vlogs_avx512.h"
#include "vangles_avx512.h"
#include "verrors_avx512.h"
#include "vfloat64_avx512.h"
#endif
