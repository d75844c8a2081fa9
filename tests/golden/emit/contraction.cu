/* def mm(float(M,K) A, float(K,N) B) -> (C) { C(m,n) +=! A(m,k) * B(k,n) }
 *
 * sizes: M=100 K=30 N=200
 * config: g0.depth=8 g0.splits=1 g0.thread=8x4 g0.tile=64x64
 * C(m,n) +=! A(m,k) * B(k,n)    [simt 64x64x8 of 8x4]
 */
#include "prelude.cuh"

extern "C" __global__ void __launch_bounds__(128, 5) k_g0_contract(const float *__restrict__ A, const float *__restrict__ B, float *__restrict__ C) {
  const tc_i64 block = (tc_i64)tc_block();
  const tc_i64 thread = (tc_i64)tc_thread();
  const tc_i64 tile = block;
  const tc_i64 first = tile / 32 * 8;
  const tc_i64 height = tc_min_i64(2 - first, 8);
  const tc_i64 m0 = (first + tile % 32 % height) * 64;
  const tc_i64 n0 = tile % 32 / height * 64;
  const tc_i64 row = thread / 32 / 2 * 4 + thread % 32 / 8;
  const tc_i64 column = thread / 32 % 2 * 8 + thread % 32 % 8;
  __shared__ __align__(16) float a_tile[2][8][68];
  __shared__ __align__(16) float b_tile[2][8][64];
  float acc[8][4];
  #pragma unroll 8
  for (tc_i64 i = 0; i < 8; i++) {
    #pragma unroll 4
    for (tc_i64 j = 0; j < 4; j++) {
      acc[i][j] = 0.0f;
    }
  }
  __align__(16) float a_own[8];
  __align__(16) float b_own[4];
  float a_next[4];
  float b_next[4];
  #pragma unroll 4
  for (tc_i64 i = 0; i < 4; i++) {
    const tc_i64 k = thread % 8;
    const tc_i64 m = m0 + (thread / 8 + i * 16);
    a_next[i] = m < 100 && k < 30 ? A[m * 30 + k] : 0.0f;
  }
  #pragma unroll 4
  for (tc_i64 i = 0; i < 4; i++) {
    const tc_i64 k = thread / 64 + i * 2;
    const tc_i64 n = n0 + thread % 64;
    b_next[i] = n < 200 && k < 30 ? B[n + k * 200] : 0.0f;
  }
  #pragma unroll 4
  for (tc_i64 i = 0; i < 4; i++) {
    a_tile[0][thread % 8][thread / 8 + i * 16] = a_next[i];
  }
  #pragma unroll 4
  for (tc_i64 i = 0; i < 4; i++) {
    b_tile[0][thread / 64 + i * 2][thread % 64] = b_next[i];
  }
  tc_barrier();
  for (tc_i64 k0 = 0; k0 < 30; k0 += 8) {
    const tc_i64 stage = k0 / 8 % 2;
    if (k0 + 8 < 30) {
      #pragma unroll 4
      for (tc_i64 i = 0; i < 4; i++) {
        const tc_i64 k = k0 + thread % 8 + 8;
        const tc_i64 m = m0 + (thread / 8 + i * 16);
        a_next[i] = m < 100 && k < 30 ? A[m * 30 + k] : 0.0f;
      }
      #pragma unroll 4
      for (tc_i64 i = 0; i < 4; i++) {
        const tc_i64 k = k0 + (thread / 64 + i * 2) + 8;
        const tc_i64 n = n0 + thread % 64;
        b_next[i] = n < 200 && k < 30 ? B[n + k * 200] : 0.0f;
      }
    }
    #pragma unroll 8
    for (tc_i64 step = 0; step < 8; step++) {
      #pragma unroll 2
      for (tc_i64 i = 0; i < 2; i++) {
        tc_copy16(&a_own[i * 4], &a_tile[stage][step][i * 32 + row * 4]);
      }
      tc_copy16(&b_own[0], &b_tile[stage][step][column * 4]);
      #pragma unroll 8
      for (tc_i64 i = 0; i < 8; i++) {
        #pragma unroll 4
        for (tc_i64 j = 0; j < 4; j++) {
          acc[i][j] += a_own[i] * b_own[j];
        }
      }
    }
    if (k0 + 8 < 30) {
      #pragma unroll 4
      for (tc_i64 i = 0; i < 4; i++) {
        a_tile[1 - stage][thread % 8][thread / 8 + i * 16] = a_next[i];
      }
      #pragma unroll 4
      for (tc_i64 i = 0; i < 4; i++) {
        b_tile[1 - stage][thread / 64 + i * 2][thread % 64] = b_next[i];
      }
    }
    tc_barrier();
  }
  #pragma unroll 8
  for (tc_i64 i = 0; i < 8; i++) {
    const tc_i64 m = m0 + (i / 4 * 32 + row * 4 + i % 4);
    if (m < 100) {
      #pragma unroll 4
      for (tc_i64 j = 0; j < 4; j++) {
        const tc_i64 n = n0 + (column * 4 + j);
        if (n < 200) {
          C[m * 200 + n] = acc[i][j];
        }
      }
    }
  }
}
