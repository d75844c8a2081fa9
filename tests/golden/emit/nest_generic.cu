/* def f(float(M,K) I, float(N,K) W, float(N) b) -> (O) { O(m,n) +=! I(m,k) * W(n,k)  O(m,n) = O(m,n) + b(n)  O(m,n) = fmax(O(m,n), 0) }
 *
 * sizes: any
 * O(m,n) +=! I(m,k) * W(n,k)    [nest]
 * O(m,n) = O(m,n) + b(n)    [nest]
 * O(m,n) = fmax(O(m,n), 0)    [nest]
 */
#include "prelude.cuh"

extern "C" __global__ void __launch_bounds__(64, 1) fcrelu_g0_nest(const float *__restrict__ I, const float *__restrict__ W, float *__restrict__ O, tc_i32 M, tc_i32 K, tc_i32 N) {
  const tc_i32 point = tc_block() * 64 + tc_thread();
  if (point < M * N) {
    const tc_i32 m = point / N;
    const tc_i32 n = point % N;
    float acc = 0.0f;
    for (tc_i32 k = 0; k < K; k++) {
      acc += I[m * K + k] * W[n * K + k];
    }
    O[m * N + n] = acc;
  }
}

extern "C" __global__ void __launch_bounds__(64, 1) fcrelu_g1_nest(const float *__restrict__ b, float *__restrict__ O, tc_i32 M, tc_i32 N) {
  const tc_i32 point = tc_block() * 64 + tc_thread();
  if (point < M * N) {
    const tc_i32 m = point / N;
    const tc_i32 n = point % N;
    O[m * N + n] = tc_fmax_f32(O[m * N + n] + b[n], 0.0f);
  }
}
