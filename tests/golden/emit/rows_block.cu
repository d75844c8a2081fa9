/* def f(float(B,N) X, float(N) g, float(N) h) -> (Y, mean) { mean(b) +=! X(b,n) / N
 *     D(b,n) = X(b,n) - mean(b)  V(b) +=! D(b,n) * D(b,n)
 *     Y(b,n) = D(b,n) / sqrt(V(b) / N + 1e-5) * g(n) + h(n) }
 *
 * sizes: B=4096 N=5000
 * config: g0.form=rows g0.lanes=512 g0.threads=512 g0.unroll=2 g0.walk=rows g0.width=1
 * mean(b) +=! X(b,n) / N    [rows of 3 sweeps, 512 threads to a row, in registers]
 * D(b,n) = X(b,n) - mean(b)    [rows of 3 sweeps, 512 threads to a row, in registers]
 * V(b) +=! D(b,n) * D(b,n)    [rows of 3 sweeps, 512 threads to a row, in registers]
 * Y(b,n) = D(b,n) / sqrt(V(b) / N + 1e-5) * g(n) + h(n)    [rows of 3 sweeps, 512 threads to a row, in registers]
 */
#include "prelude.cuh"
#include "smath.cuh"

TC_FN float k_g0_sum_of_32_f32(float x) {
  float all = x;
  all += tc_shuffle_xor_f32(all, 16);
  all += tc_shuffle_xor_f32(all, 8);
  all += tc_shuffle_xor_f32(all, 4);
  all += tc_shuffle_xor_f32(all, 2);
  all += tc_shuffle_xor_f32(all, 1);
  return all;
}

TC_FN float k_g0_sum_of_16_f32(float x) {
  float all = x;
  all += tc_shuffle_xor_f32(all, 8);
  all += tc_shuffle_xor_f32(all, 4);
  all += tc_shuffle_xor_f32(all, 2);
  all += tc_shuffle_xor_f32(all, 1);
  return all;
}

extern "C" __global__ void __launch_bounds__(512, 1) k_g0_rows(const float *__restrict__ X, const float *__restrict__ g, const float *__restrict__ h, float *__restrict__ Y, float *__restrict__ mean) {
  const tc_i32 lane = tc_thread();
  const tc_i32 b = tc_block();
  const float *X_row0 = X + b * 5000;
  float mean_acc = 0.0f;
  float held0[10];
  #pragma unroll 10
  for (tc_i32 i = 0; i < 10; i++) {
    if (i < 9 || lane < 392) {
      const tc_i32 n = i * 512 + lane;
      held0[i] = X_row0[n];
      mean_acc += held0[i] / (float)5000;
    }
  }
  mean_acc = k_g0_sum_of_32_f32(mean_acc);
  __shared__ float mean_acc_warps[16];
  if (tc_lane() == 0) {
    mean_acc_warps[tc_warp()] = mean_acc;
  }
  tc_barrier();
  mean_acc = mean_acc_warps[lane % 16];
  mean_acc = k_g0_sum_of_16_f32(mean_acc);
  if (lane == 0) {
    mean[b] = mean_acc;
  }
  float V_acc = 0.0f;
  float held1[10];
  #pragma unroll 10
  for (tc_i32 i = 0; i < 10; i++) {
    if (i < 9 || lane < 392) {
      held1[i] = held0[i] - mean_acc;
      V_acc += held1[i] * held1[i];
    }
  }
  V_acc = k_g0_sum_of_32_f32(V_acc);
  __shared__ float V_acc_warps[16];
  if (tc_lane() == 0) {
    V_acc_warps[tc_warp()] = V_acc;
  }
  tc_barrier();
  V_acc = V_acc_warps[lane % 16];
  V_acc = k_g0_sum_of_16_f32(V_acc);
  const float t5 = tc_sqrt_f32(V_acc / (float)5000 + 1e-05f);
  float *Y_row0 = Y + b * 5000;
  #pragma unroll 10
  for (tc_i32 i = 0; i < 10; i++) {
    if (i < 9 || lane < 392) {
      const tc_i32 n = i * 512 + lane;
      Y_row0[n] = held1[i] / t5 * g[n] + h[n];
    }
  }
}
