/* def f(float(B,N) X) -> (Y) { M(b) max=! X(b,n)  E(b,n) = exp(X(b,n) - M(b))
 *     S(b) +=! E(b,n)  Y(b,n) = E(b,n) / S(b) }
 *
 * sizes: B=4096 N=1000
 * config: g0.form=rows g0.lanes=32 g0.threads=128 g0.unroll=2 g0.walk=rows g0.width=4
 * M(b) max=! X(b,n)    [rows of 3 sweeps, 32 threads to a row, 4 points at once, in registers]
 * E(b,n) = exp(X(b,n) - M(b))    [rows of 3 sweeps, 32 threads to a row, 4 points at once, in registers]
 * S(b) +=! E(b,n)    [rows of 3 sweeps, 32 threads to a row, 4 points at once, in registers]
 * Y(b,n) = E(b,n) / S(b)    [rows of 3 sweeps, 32 threads to a row, 4 points at once, in registers]
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
  const tc_b aligned = ((tc_u64)X | (tc_u64)Y) % 16ull == 0ull;
  const tc_i32 thread = tc_thread();
  const tc_i32 lane = thread % 32;
  const tc_i32 b = tc_block() * 4 + thread / 32;
  const float *X_row0 = X + b * 1000;
  float M_acc = -TC_INF_F32;
  float held0[32];
  if (aligned) {
    #pragma unroll 8
    for (tc_i32 i = 0; i < 8; i++) {
      if (i < 7 || lane < 26) {
        const tc_i32 n = (i * 32 + lane) * 4;
        __align__(16) float X_v0[4];
        tc_copy16(&X_v0[0], X_row0 + n);
        #pragma unroll 4
        for (tc_i32 k = 0; k < 4; k++) {
          held0[i * 4 + k] = X_v0[k];
          M_acc = tc_max_f32(M_acc, held0[i * 4 + k]);
        }
      }
    }
  } else {
    #pragma unroll 8
    for (tc_i32 i = 0; i < 8; i++) {
      if (i < 7 || lane < 26) {
        const tc_i32 n = (i * 32 + lane) * 4;
        #pragma unroll 4
        for (tc_i32 k = 0; k < 4; k++) {
          held0[i * 4 + k] = X_row0[n + k];
          M_acc = tc_max_f32(M_acc, held0[i * 4 + k]);
        }
      }
    }
  }
  M_acc = k_g0_max_of_32_f32(M_acc);
  float S_acc = 0.0f;
  float held1[32];
  #pragma unroll 8
  for (tc_i32 i = 0; i < 8; i++) {
    if (i < 7 || lane < 26) {
      #pragma unroll 4
      for (tc_i32 k = 0; k < 4; k++) {
        held1[i * 4 + k] = tc_exp_f32(held0[i * 4 + k] - M_acc);
        S_acc += held1[i * 4 + k];
      }
    }
  }
  S_acc = k_g0_sum_of_32_f32(S_acc);
  float *Y_row0 = Y + b * 1000;
  if (aligned) {
    #pragma unroll 8
    for (tc_i32 i = 0; i < 8; i++) {
      if (i < 7 || lane < 26) {
        const tc_i32 n = (i * 32 + lane) * 4;
        __align__(16) float Y_v0[4];
        #pragma unroll 4
        for (tc_i32 k = 0; k < 4; k++) {
          Y_v0[k] = held1[i * 4 + k] / S_acc;
        }
        tc_copy16(Y_row0 + n, &Y_v0[0]);
      }
    }
  } else {
    #pragma unroll 8
    for (tc_i32 i = 0; i < 8; i++) {
      if (i < 7 || lane < 26) {
        const tc_i32 n = (i * 32 + lane) * 4;
        #pragma unroll 4
        for (tc_i32 k = 0; k < 4; k++) {
          Y_row0[n + k] = held1[i * 4 + k] / S_acc;
        }
      }
    }
  }
}
