/* def f(float(M,K) I, float(N,K) W, float(N) b) -> (O) { O(m,n) +=! I(m,k) * W(n,k)  O(m,n) = O(m,n) + b(n)  O(m,n) = fmax(O(m,n), 0) }
 *
 * sizes: M=17 K=65 N=33
 * O(m,n) +=! I(m,k) * W(n,k)    [nest]
 * O(m,n) = O(m,n) + b(n)    [nest]
 * O(m,n) = fmax(O(m,n), 0)    [nest]
 */
#include "prelude.cuh"

extern "C" __global__ void __launch_bounds__(64, 1) fcrelu_g0_nest(const float *__restrict__ I, const float *__restrict__ W, float *__restrict__ O) {
  const tc_i32 point = tc_block() * 64 + tc_thread();
  if (point < 561) {
    const tc_i32 m = point / 33;
    const tc_i32 n = point % 33;
    float acc = 0.0f;
    for (tc_i32 k = 0; k < 65; k++) {
      acc += I[m * 65 + k] * W[n * 65 + k];
    }
    O[m * 33 + n] = acc;
  }
}

extern "C" __global__ void __launch_bounds__(64, 1) fcrelu_g1_nest(const float *__restrict__ b, float *__restrict__ O) {
  const tc_i32 point = tc_block() * 64 + tc_thread();
  if (point < 561) {
    const tc_i32 m = point / 33;
    const tc_i32 n = point % 33;
    O[m * 33 + n] = tc_fmax_f32(O[m * 33 + n] + b[n], 0.0f);
  }
}
