/* def f(float(N,M) A, float(M,N) B, float(M) c) -> (O) { O(m,n) = A(n,m) * c(m) + B(m,n) }
 *
 * sizes: any
 * O(m,n) = A(n,m) * c(m) + B(m,n)    [permute 32x32]
 */
#include "prelude.cuh"

extern "C" __global__ void __launch_bounds__(256, 1) turn_g0_permute(const float *__restrict__ A, const float *__restrict__ B, const float *__restrict__ c, float *__restrict__ O, tc_i32 N, tc_i32 M) {
  const tc_i32 tile = tc_block();
  const tc_i32 lane = tc_lane();
  const tc_i32 warp = tc_warp();
  const tc_i32 row = tile / ((N + 31) / 32) % ((M + 31) / 32) * 32;
  const tc_i32 column = tile % ((N + 31) / 32) * 32;
  __shared__ float A_tile[32][33];
  #pragma unroll 4
  for (tc_i32 k = 0; k < 32; k += 8) {
    const tc_i32 m = row + lane;
    const tc_i32 n = column + warp + k;
    if (m < M && n < N) {
      A_tile[warp + k][lane] = A[m + n * M];
    }
  }
  tc_barrier();
  #pragma unroll 4
  for (tc_i32 k = 0; k < 32; k += 8) {
    const tc_i32 m = row + warp + k;
    const tc_i32 n = column + lane;
    if (m < M && n < N) {
      O[m * N + n] = A_tile[lane][warp + k] * c[m] + B[m * N + n];
    }
  }
}
