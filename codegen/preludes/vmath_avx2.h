/* Builtin functions for vectors of AVX2. It looks 8 floats up in a table in a register: polynomials over
 * 8 pieces of an argument, around multiples of a step, instead of one that suits all; and it tells by
 * the signs of all lanes at once whether any needs care. Included by vmath.h.
 */
#ifndef TC_VMATH_AVX2_H
#define TC_VMATH_AVX2_H

#define TC_TABLE __attribute__((aligned(32), unused))
#define TC_FIRST_PIECE 0x4b400000 /* the bits of 0x1.8p23f */

/* The polynomial around the multiple n of step that is next to a, but for its last term; row j of
 * pieces has the coefficients of power j. *r: what is left of a. *i: n in its last bits. */
TC_FN tc_v8f32 tc_near_piece(tc_v8f32 a, tc_f32 step, const tc_f32 (*pieces)[8], int rows,
                             tc_v8f32 *r, tc_v8i32 *i) {
  tc_v8f32 n = a * (1 / step) + 0x1.8p23f, p;
  *r = a - (n - 0x1.8p23f) * step;
  *i = (tc_v8i32)n;
  p = (tc_v8f32)__builtin_ia32_permvarsf256(tc_load_v8f32(pieces[rows - 1]), *i);
#pragma GCC unroll 8
  for (int j = rows - 2; j > 0; j--)
    p = p * *r + (tc_v8f32)__builtin_ia32_permvarsf256(tc_load_v8f32(pieces[j]), *i);
  return p;
}

/* ---- e^x: the power of two comes in one step, but for lanes beyond 87; lanes below -104 are 0, which
 * costs nothing: where arguments are masked by -infinity many are. */

static __attribute__((noinline, cold, unused)) tc_v8f32 tc_exp_beyond(tc_v8f32 x) {
  tc_f32 a[8] __attribute__((aligned(32)));
  tc_store_v8f32(a, x);
  _Pragma("omp simd") for (int i = 0; i < 8; i++) a[i] = tc_exp_f32(a[i]);
  return tc_load_v8f32(a);
}
TC_FN tc_v8f32 tc_exp_v8f32(tc_v8f32 x) {
  static const tc_f32 c[6] = {TC_EXP_F32};
  tc_v8f32 whole = x * 0x1.715476p+0f + (0x1.8p23f + 127), n = whole - (0x1.8p23f + 127);
  tc_v8f32 r = (x - n * 0.693359375f) - n * -2.12194440e-4f, z = r * r;
  tc_v8f32 p = (c[5] * z + c[3]) * z + c[1], q = (c[4] * z + c[2]) * z + c[0];
  tc_v8f32 power = (tc_v8f32)((tc_v8i32)whole << 23), y = power + power * ((p * r + q) * z + r);
  tc_v8i32 beyond = (tc_v8i32)(87.0f * 87.0f - x * x); /* in the sign */
  if (__builtin_expect(__builtin_ia32_movmskps256((tc_v8f32)beyond), 0)) {
    tc_v8i32 gone = x < -104.0f;
    if (__builtin_ia32_movmskps256((tc_v8f32)(beyond & ~gone))) return tc_exp_beyond(x);
    y = (tc_v8f32)((tc_v8i32)y & ~gone);
  }
  return y;
}

/* ---- the error function: the first piece begins with |x| itself. Of this step the constants are nearly
 * exact, which every result would miss otherwise. */

static const tc_f32 tc_erf_pieces[7][8] TC_TABLE = {
    {0.0f, 0.577878296f, 0.891614318f, 0.983970225f, 0.998677194f,
     0.999940217f, 0.99999851f, 1.0f},
    {0.128379166f, 0.817571104f, 0.310982853f, 0.0620989241f, 0.00650991825f,
     0.00035830104f, 1.0356247e-05f, 1.57272069e-07f},
    {-1.56883573e-06f, -0.464075536f, -0.353045583f, -0.105747558f, -0.0147807039f,
     -0.00101684011f, -3.52631432e-05f, -6.2455058e-07f},
    {-0.37606138f, -0.0969663709f, 0.163484097f, 0.0993853658f, 0.0202065874f,
     0.00180128776f, 7.60689727e-05f, 1.57303793e-06f},
    {-0.000987656182f, 0.182179853f, 0.0249325689f, -0.0493465289f, -0.0180188436f,
     -0.00222046208f, -0.00011814903f, -2.93311246e-06f},
    {0.119649336f, -0.0108654341f, -0.0590673164f, 0.00293811806f, 0.0102177821f,
     0.00206042896f, 0.000151582426f, 4.90343427e-06f},
    {-0.0218477044f, -0.0453430526f, 0.0149989566f, 0.0110616535f, -0.00282060821f,
     -0.00130388513f, -0.000134822578f, -5.46824504e-06f},
};
TC_FN tc_v8f32 tc_erf_v8f32(tc_v8f32 x) {
  tc_v8f32 a = __builtin_ia32_minps256(tc_splat_v8f32(4.0f), tc_size_of(x)), r; /* NaN passes */
  tc_v8i32 i;
  tc_v8f32 p = tc_near_piece(a, 0.567626953125f, tc_erf_pieces, 7, &r, &i);
  tc_v8f32 base = (tc_v8f32)__builtin_ia32_permvarsf256(tc_load_v8f32(tc_erf_pieces[0]), i);
  p = p * r + tc_select_v8f32(i == TC_FIRST_PIECE, a, base);
  p = __builtin_ia32_minps256(tc_splat_v8f32(1.0f), p);
  return (tc_v8f32)((tc_v8i32)p | ((tc_v8i32)x & (-0x7fffffff - 1)));
}

/* ---- gelu: max(0, x) less |x| Phi(-|x|), where no lane is beyond the last piece */

static const tc_f32 tc_gelu_pieces[8][8] TC_TABLE = {
    {0.0f, 0.154268771f, 0.158655256f, 0.100210801f, 0.0455002636f,
     0.0155241629f, 0.00404969417f, 0.000814201776f},
    {0.5f, 0.13250488f, -0.0833154693f, -0.127469197f, -0.0852318034f,
     -0.0376110859f, -0.0119456472f, -0.00282176025f},
    {-0.398942292f, -0.308057159f, -0.120985419f, 0.0161896814f, 0.0539909862f,
     0.0372476503f, 0.0155114671f, 0.00447249599f},
    {2.23234522e-07f, 0.110020339f, 0.120985307f, 0.0566639453f, 7.48364286e-08f,
     -0.0164327454f, -0.0110796392f, -0.00419980334f},
    {0.0664850846f, 0.0339222364f, -0.020159917f, -0.0360880978f, -0.0179986134f,
     -0.000503025309f, 0.00406272523f, 0.00248421077f},
    {6.00032618e-05f, -0.0224590376f, -0.0161295794f, 0.0027315286f, 0.00899596699f,
     0.004266968f, 6.54539576e-07f, -0.000847352552f},
    {-0.0103243673f, -0.0030296864f, 0.00593897607f, 0.00484531093f, -0.000407411193f,
     -0.00192630256f, -0.000780987612f, 4.66193123e-05f},
    {0.00102334237f, 0.00317447353f, 0.00122924754f, -0.00147288572f, -0.0010875992f,
     0.000146692095f, 0.000356011093f, 0.000101339378f},
};
TC_FAR1(gelu)
TC_FN tc_v8f32 tc_gelu_v8f32(tc_v8f32 x) {
  tc_v8f32 a = tc_size_of(x), r;
  tc_v8i32 i;
  if (__builtin_expect(tc_any_not_less(a, tc_splat_v8f32(3.75f)), 0)) return tc_gelu_lanes(x);
  tc_v8f32 p = tc_near_piece(a, 0.5f, tc_gelu_pieces, 8, &r, &i);
  p = p * r + (tc_v8f32)__builtin_ia32_permvarsf256(tc_load_v8f32(tc_gelu_pieces[0]), i);
  return __builtin_ia32_maxps256((tc_v8f32){0}, x) - p; /* of two zeros that is x */
}

#ifdef TC_FUSED
TC_FN tc_v8f32 tc_table_entry(const tc_f32 table[8], tc_v8i32 i) { /* by the last three bits */
  return (tc_v8f32)__builtin_ia32_permvarsf256(tc_load_v8f32(table), i);
}
#include "vangles_avx2.h"
#include "vlogs_avx2.h"
#endif
#endif
