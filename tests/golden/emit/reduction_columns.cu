/* def f(float(N,M) A, float(N) w) -> (O) { s(m) +=! A(n,m) * w(n)  O(m) = s(m) * 2 - m }
 *
 * sizes: N=1000 M=100
 * config: g0.form=reduction g0.lanes=8 g0.parts=1 g0.threads=256 g0.unroll=2 g0.walk=columns g0.width=1
 * s(m) +=! A(n,m) * w(n)    [reduction along columns, 8 threads to a row]
 * O(m) = s(m) * 2 - m    [reduction along columns, 8 threads to a row]
 */
#include "prelude.cuh"

extern "C" __global__ void __launch_bounds__(256, 1) k_g0_reduce(const float *__restrict__ A, const float *__restrict__ w, float *__restrict__ O) {
  const tc_i32 thread = tc_thread();
  const tc_i32 lane = thread / 32;
  const tc_i32 wanted = tc_block() * 32 + thread % 32;
  const tc_i32 m = tc_min_i32(wanted, 99);
  const float *A_row0 = A + m;
  float s_acc = 0.0f;
  #pragma unroll 2
  for (tc_i32 n = lane; n < 1000; n += 8) {
    s_acc += A_row0[n * 100] * w[n];
  }
  __shared__ float s_acc_lanes[8][32];
  s_acc_lanes[lane][thread % 32] = s_acc;
  tc_barrier();
  s_acc = s_acc_lanes[0][thread % 32];
  #pragma unroll 7
  for (tc_i32 i = 1; i < 8; i++) {
    s_acc += s_acc_lanes[i][thread % 32];
  }
  if (wanted < 100 && lane == 0) {
    const float O_value = s_acc * 2.0f - (float)m;
    O[m] = O_value;
  }
}
