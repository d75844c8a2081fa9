/* def f(float(N,M) A) -> (O) { O +=! A(n,m) * A(n,m) }
 *
 * sizes: N=300 M=1000
 * config: g0.form=reduction g0.lanes=256 g0.parts=64 g0.threads=256 g0.unroll=2 g0.walk=rows g0.width=1
 * O +=! A(n,m) * A(n,m)    [reduction along rows, 256 threads to a row, 64 blocks to a row]
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

TC_FN float k_g0_sum_of_2_f32(float x) {
  float all = x;
  all += tc_shuffle_xor_f32(all, 1);
  return all;
}

extern "C" __global__ void __launch_bounds__(256, 1) k_g0_parts(const float *__restrict__ A, float *__restrict__ parts0) {
  const tc_i32 part = tc_block() % 64;
  const tc_i32 lane = tc_thread();
  const tc_i32 low = part * 4688;
  const tc_i32 high = tc_min_i32(low + 4688, 300000);
  float O_acc = 0.0f;
  #pragma unroll 2
  for (tc_i32 m = low + lane; m < high; m += 256) {
    O_acc += A[m] * A[m];
  }
  O_acc = k_g0_sum_of_32_f32(O_acc);
  __shared__ float O_acc_warps[8];
  if (tc_lane() == 0) {
    O_acc_warps[tc_warp()] = O_acc;
  }
  tc_barrier();
  O_acc = O_acc_warps[lane % 8];
  O_acc = k_g0_sum_of_8_f32(O_acc);
  if (lane == 0) {
    parts0[part] = O_acc;
  }
}

extern "C" __global__ void __launch_bounds__(64, 1) k_g0_combine(float *__restrict__ O, float *__restrict__ parts0) {
  const tc_i32 lane = tc_thread();
  float O_acc = 0.0f;
  #pragma unroll 8
  for (tc_i32 part = lane; part < 64; part += 64) {
    O_acc += parts0[part];
  }
  O_acc = k_g0_sum_of_32_f32(O_acc);
  __shared__ float O_acc_warps[2];
  if (tc_lane() == 0) {
    O_acc_warps[tc_warp()] = O_acc;
  }
  tc_barrier();
  O_acc = O_acc_warps[lane % 2];
  O_acc = k_g0_sum_of_2_f32(O_acc);
  if (lane == 0) {
    O[0] = O_acc;
  }
}
