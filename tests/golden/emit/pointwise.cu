/* def f(float(N,M) A, float(M) b, float(N) c) -> (O) { O(n,m) = A(n,m) * b(m) + c(n) }
 *
 * sizes: any
 * config: g0.vectors=2
 * O(n,m) = A(n,m) * b(m) + c(n)    [pointwise, 4 x 2]
 */
#include "prelude.cuh"

extern "C" __global__ void __launch_bounds__(256, 1) bias_g0_pointwise(const float *__restrict__ A, const float *__restrict__ b, const float *__restrict__ c, float *__restrict__ O, tc_i32 N, tc_i32 M) {
  const tc_i32 first = tc_block() * 2048;
  if (((tc_u64)A | (tc_u64)b | (tc_u64)O) % 16ull == 0ull && M % 4 == 0 && first + 2048 <= M * N) {
    #pragma unroll 2
    for (tc_i32 turn = 0; turn < 2; turn++) {
      const tc_i32 point = first + turn * 1024 + tc_thread() * 4;
      const tc_i32 n = point / M;
      const tc_i32 m = point % M;
      __align__(16) float A_v[4];
      tc_copy16(&A_v[0], A + point);
      __align__(16) float b_v[4];
      tc_copy16(&b_v[0], b + m);
      const float c0 = c[n];
      __align__(16) float O_v[4];
      #pragma unroll 4
      for (tc_i32 lane = 0; lane < 4; lane++) {
        O_v[lane] = A_v[lane] * b_v[lane] + c0;
      }
      tc_copy16(O + point, &O_v[0]);
    }
  } else {
    const tc_i32 stop = tc_min_i32(first + 2048, M * N);
    for (tc_i32 point = first + tc_thread(); point < stop; point += 256) {
      const tc_i32 n = point / M;
      const tc_i32 m = point % M;
      O[point] = A[point] * b[m] + c[n];
    }
  }
}
