/* def f(float(N,M) A, float(M) w) -> (O) { s(n) +=! A(n,m) * w(m)  O(n) = s(n) / M + n }
 *
 * sizes: N=100 M=1000
 * config: g0.form=reduction g0.lanes=256 g0.parts=1 g0.threads=256 g0.unroll=2 g0.walk=rows g0.width=1
 * s(n) +=! A(n,m) * w(m)    [reduction along rows, 256 threads to a row]
 * O(n) = s(n) / M + n    [reduction along rows, 256 threads to a row]
 */
#include "prelude.cuh"

TC_FN float k_g0_sum_of_32_f32(float x) {
  float all = x;
  all += tc_shuffle_xor_f32(all, 16);
  all += tc_shuffle_xor_f32(all, 8);
  all += tc_shuffle_xor_f32(all, 4);
  all += tc_shuffle_xor_f32(all, 2);
  all += tc_shuffle_xor_f32(all, 1);
  return all;
}

TC_FN float k_g0_sum_of_8_f32(float x) {
  float all = x;
  all += tc_shuffle_xor_f32(all, 4);
  all += tc_shuffle_xor_f32(all, 2);
  all += tc_shuffle_xor_f32(all, 1);
  return all;
}

extern "C" __global__ void __launch_bounds__(256, 1) k_g0_reduce(const float *__restrict__ A, const float *__restrict__ w, float *__restrict__ O) {
  const tc_i32 lane = tc_thread();
  const tc_i32 n = tc_block();
  const float *A_row0 = A + n * 1000;
  float s_acc = 0.0f;
  #pragma unroll 2
  for (tc_i32 m = lane; m < 1000; m += 256) {
    s_acc += A_row0[m] * w[m];
  }
  s_acc = k_g0_sum_of_32_f32(s_acc);
  __shared__ float s_acc_warps[8];
  if (tc_lane() == 0) {
    s_acc_warps[tc_warp()] = s_acc;
  }
  tc_barrier();
  s_acc = s_acc_warps[lane % 8];
  s_acc = k_g0_sum_of_8_f32(s_acc);
  if (lane == 0) {
    const float O_value = s_acc / (float)1000 + (float)n;
    O[n] = O_value;
  }
}
