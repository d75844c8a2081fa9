/* def f(float(B,N) X) -> (Y) { M(b) max=! X(b,n)  E(b,n) = exp(X(b,n) - M(b))
 *     S(b) +=! E(b,n)  Y(b,n) = E(b,n) / S(b) }
 *
 * sizes: B=4096 N=1000
 * config: g0.form=rows g0.lanes=32 g0.threads=128 g0.unroll=2 g0.walk=rows
 * M(b) max=! X(b,n)    [rows of 3 sweeps, 32 threads to a row, in registers]
 * E(b,n) = exp(X(b,n) - M(b))    [rows of 3 sweeps, 32 threads to a row, in registers]
 * S(b) +=! E(b,n)    [rows of 3 sweeps, 32 threads to a row, in registers]
 * Y(b,n) = E(b,n) / S(b)    [rows of 3 sweeps, 32 threads to a row, in registers]
 */
#include "prelude.cuh"
#include "smath.cuh"

TC_FN float k_g0_max_of_32_f32(float x) {
  float all = x;
  all = tc_max_f32(all, tc_shuffle_xor_f32(all, 16));
  all = tc_max_f32(all, tc_shuffle_xor_f32(all, 8));
  all = tc_max_f32(all, tc_shuffle_xor_f32(all, 4));
  all = tc_max_f32(all, tc_shuffle_xor_f32(all, 2));
  all = tc_max_f32(all, tc_shuffle_xor_f32(all, 1));
  return all;
}

TC_FN float k_g0_sum_of_32_f32(float x) {
  float all = x;
  all += tc_shuffle_xor_f32(all, 16);
  all += tc_shuffle_xor_f32(all, 8);
  all += tc_shuffle_xor_f32(all, 4);
  all += tc_shuffle_xor_f32(all, 2);
  all += tc_shuffle_xor_f32(all, 1);
  return all;
}

extern "C" __global__ void __launch_bounds__(128, 1) k_g0_rows(const float *__restrict__ X, float *__restrict__ Y) {
  const tc_i32 thread = tc_thread();
  const tc_i32 lane = thread % 32;
  const tc_i32 b = tc_block() * 4 + thread / 32;
  const float *X_row0 = X + b * 1000;
  float M_acc = -TC_INF_F32;
  float held0[32];
  #pragma unroll 32
  for (tc_i32 i = 0; i < 32; i++) {
    if (i < 31 || lane < 8) {
      const tc_i32 n = i * 32 + lane;
      held0[i] = X_row0[n];
      M_acc = tc_max_f32(M_acc, held0[i]);
    }
  }
  M_acc = k_g0_max_of_32_f32(M_acc);
  float S_acc = 0.0f;
  float held1[32];
  #pragma unroll 32
  for (tc_i32 i = 0; i < 32; i++) {
    if (i < 31 || lane < 8) {
      const tc_i32 n = i * 32 + lane;
      held1[i] = tc_exp_f32(held0[i] - M_acc);
      S_acc += held1[i];
    }
  }
  S_acc = k_g0_sum_of_32_f32(S_acc);
  float *Y_row0 = Y + b * 1000;
  #pragma unroll 32
  for (tc_i32 i = 0; i < 32; i++) {
    if (i < 31 || lane < 8) {
      const tc_i32 n = i * 32 + lane;
      Y_row0[n] = held1[i] / S_acc;
    }
  }
}
