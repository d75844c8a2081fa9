/* one register tile
 */
#include "prelude.h"

static TC_MICRO void k_g0_tile_5x3(const float *restrict a, const float *restrict b, tc_i64 b_k, float *restrict c, tc_i64 depth, tc_i64 flags, tc_i64 columns, const float *restrict e0) {
  tc_m16f32 tail = tc_tail_v16f32(columns - 32);
  #pragma GCC unroll 5
  for (tc_i64 r = 0; r < 5; r++) {
    #pragma GCC unroll 2
    for (tc_i64 v = 0; v < 2; v++) {
      tc_prefetch(c + (r * 48 + v * 16));
    }
    tc_prefetch(c + (r * 48 + 32));
  }
  tc_v16f32 acc[5][3] = {{{0}}};
  const float *a0 = a;
  const float *a4 = a + 256;
  const float *b0 = b;
  #pragma GCC unroll 1
  for (tc_i64 k = 0; k < depth; k++) {
    tc_v16f32 column[3];
    #pragma GCC unroll 2
    for (tc_i64 v = 0; v < 2; v++) {
      column[v] = tc_load_v16f32(b0 + v * 16);
      tc_pin(column[v]);
    }
    column[2] = tc_loadm_v16f32(b0 + 32, tail);
    tc_pin(column[2]);
    #pragma GCC unroll 4
    for (tc_i64 r = 0; r < 4; r++) {
      const float x = a0[r * 64];
      #pragma GCC unroll 3
      for (tc_i64 v = 0; v < 3; v++) {
        acc[r][v] += column[v] * x;
      }
    }
    #pragma GCC unroll 1
    for (tc_i64 r = 4; r < 5; r++) {
      const float x = a4[(r - 4) * 64];
      #pragma GCC unroll 3
      for (tc_i64 v = 0; v < 3; v++) {
        acc[r][v] += column[v] * x;
      }
    }
    a0 = a0 + 1;
    a4 = a4 + 1;
    b0 = b0 + b_k;
  }
  #pragma GCC unroll 5
  for (tc_i64 r = 0; r < 5; r++) {
    #pragma GCC unroll 2
    for (tc_i64 v = 0; v < 2; v++) {
      tc_v16f32 v1 = acc[r][v];
      tc_v16f32 v2 = tc_load_v16f32(e0 + v * 16);
      tc_v16f32 v3 = tc_fmax_v16f32(v1 + v2, tc_splat_v16f32(0.0f));
      acc[r][v] = v3;
    }
    tc_v16f32 last_v1 = acc[r][2];
    tc_v16f32 last_v2 = tc_loadm_v16f32(e0 + 32, tail);
    tc_v16f32 last_v3 = tc_fmax_v16f32(last_v1 + last_v2, tc_splat_v16f32(0.0f));
    acc[r][2] = last_v3;
  }
  #pragma GCC unroll 5
  for (tc_i64 r = 0; r < 5; r++) {
    #pragma GCC unroll 2
    for (tc_i64 v = 0; v < 2; v++) {
      tc_store_v16f32(c + (r * 48 + v * 16), acc[r][v]);
    }
    tc_storet_v16f32(c + (r * 48 + 32), tail, acc[r][2]);
  }
}
