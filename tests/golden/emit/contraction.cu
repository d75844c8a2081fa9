/* def run(float(B,M) I, float(N,M) W, float(N) c) -> (O) { O(b,n) +=! I(b,m) * W(n,m) O(b,n) = O(b,n) + c(n)  O(b,n) = fmax(O(b,n), 0) }
 *
 * sizes: B=100 M=30 N=200
 * config: g0.depth=8 g0.form=contraction g0.splits=1 g0.thread=8x4 g0.tile=64x64
 * O(b,n) +=! I(b,m) * W(n,m)    [simt 64x64x8 of 8x4 + epilogue]
 * O(b,n) = O(b,n) + c(n)    [simt 64x64x8 of 8x4 + epilogue]
 * O(b,n) = fmax(O(b,n), 0)    [simt 64x64x8 of 8x4 + epilogue]
 */
#include "prelude.cuh"

extern "C" __global__ void __launch_bounds__(128, 1) k_g0_contract(const float *__restrict__ I, const float *__restrict__ W, const float *__restrict__ c, float *__restrict__ O) {
  const tc_i32 block = tc_block();
  const tc_i32 thread = tc_thread();
  const tc_i32 first = block / 32 * 8;
  const tc_i32 height = tc_min_i32(2 - first, 8);
  const tc_i32 m0 = (first + block % 32 % height) * 64;
  const tc_i32 n0 = block % 32 / height * 64;
  const tc_i32 row = thread / 32 / 2 * 4 + thread % 32 / 8;
  const tc_i32 column = thread / 32 % 2 * 8 + thread % 32 % 8;
  __shared__ __align__(16) float a_tile[2][8][68];
  __shared__ __align__(16) float b_tile[2][8][64];
  float acc[8][4];
  #pragma unroll 8
  for (tc_i32 i = 0; i < 8; i++) {
    #pragma unroll 4
    for (tc_i32 j = 0; j < 4; j++) {
      acc[i][j] = 0.0f;
    }
  }
  __align__(16) float a_own[8];
  __align__(16) float b_own[4];
  float a_next[4];
  float b_next[4];
  #pragma unroll 4
  for (tc_i32 i = 0; i < 4; i++) {
    const tc_i32 m = thread % 8;
    const tc_i32 b = m0 + (thread / 8 + i * 16);
    a_next[i] = b < 100 && m < 30 ? I[b * 30 + m] : 0.0f;
  }
  #pragma unroll 4
  for (tc_i32 i = 0; i < 4; i++) {
    const tc_i32 m = thread % 8;
    const tc_i32 n = n0 + (thread / 8 + i * 16);
    b_next[i] = n < 200 && m < 30 ? W[n * 30 + m] : 0.0f;
  }
  #pragma unroll 4
  for (tc_i32 i = 0; i < 4; i++) {
    a_tile[0][thread % 8][thread / 8 + i * 16] = a_next[i];
  }
  #pragma unroll 4
  for (tc_i32 i = 0; i < 4; i++) {
    b_tile[0][thread % 8][thread / 8 + i * 16] = b_next[i];
  }
  tc_barrier();
  for (tc_i32 k0 = 0; k0 < 30; k0 += 8) {
    const tc_i32 stage = k0 / 8 % 2;
    if (k0 + 8 < 30) {
      /* the next tiles come while these are used */
      #pragma unroll 4
      for (tc_i32 i = 0; i < 4; i++) {
        const tc_i32 m = k0 + thread % 8 + 8;
        const tc_i32 b = m0 + (thread / 8 + i * 16);
        a_next[i] = b < 100 && m < 30 ? I[b * 30 + m] : 0.0f;
      }
      #pragma unroll 4
      for (tc_i32 i = 0; i < 4; i++) {
        const tc_i32 m = k0 + thread % 8 + 8;
        const tc_i32 n = n0 + (thread / 8 + i * 16);
        b_next[i] = n < 200 && m < 30 ? W[n * 30 + m] : 0.0f;
      }
    }
    #pragma unroll 8
    for (tc_i32 step = 0; step < 8; step++) {
      #pragma unroll 2
      for (tc_i32 i = 0; i < 2; i++) {
        tc_copy16(&a_own[i * 4], &a_tile[stage][step][i * 32 + row * 4]);
      }
      tc_copy16(&b_own[0], &b_tile[stage][step][column * 4]);
      #pragma unroll 8
      for (tc_i32 i = 0; i < 8; i++) {
        #pragma unroll 4
        for (tc_i32 j = 0; j < 4; j++) {
          acc[i][j] += a_own[i] * b_own[j];
        }
      }
    }
    if (k0 + 8 < 30) {
      #pragma unroll 4
      for (tc_i32 i = 0; i < 4; i++) {
        a_tile[1 - stage][thread % 8][thread / 8 + i * 16] = a_next[i];
      }
      #pragma unroll 4
      for (tc_i32 i = 0; i < 4; i++) {
        b_tile[1 - stage][thread % 8][thread / 8 + i * 16] = b_next[i];
      }
    }
    tc_barrier();
  }
  /* the finished sums */
  #pragma unroll 8
  for (tc_i32 i = 0; i < 8; i++) {
    const tc_i32 b = m0 + (i / 4 * 32 + row * 4 + i % 4);
    if (b < 100) {
      #pragma unroll 4
      for (tc_i32 j = 0; j < 4; j++) {
        const tc_i32 n = n0 + (column * 4 + j);
        if (n < 200) {
          const float total = acc[i][j];
          O[b * 200 + n] = tc_fmax_f32(total + c[n], 0.0f);
        }
      }
    }
  }
}
