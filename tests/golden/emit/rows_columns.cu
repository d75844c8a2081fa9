/* def f(float(B,C,HW) X) -> (Y) { M(b,s) max=! X(b,c,s)
 *     E(b,c,s) = exp(X(b,c,s) - M(b,s))  S(b,s) +=! E(b,c,s)  Y(b,c,s) = E(b,c,s) / S(b,s) }
 *
 * sizes: B=8 C=21 HW=4096
 * config: g0.form=rows g0.lanes=1 g0.threads=64 g0.unroll=2 g0.walk=columns g0.width=1
 * M(b,s) max=! X(b,c,s)    [columns of 3 sweeps, 1 thread to a row, in registers]
 * E(b,c,s) = exp(X(b,c,s) - M(b,s))    [columns of 3 sweeps, 1 thread to a row, in registers]
 * S(b,s) +=! E(b,c,s)    [columns of 3 sweeps, 1 thread to a row, in registers]
 * Y(b,c,s) = E(b,c,s) / S(b,s)    [columns of 3 sweeps, 1 thread to a row, in registers]
 */
#include "prelude.cuh"
#include "smath.cuh"

extern "C" __global__ void __launch_bounds__(64, 1) k_g0_rows(const float *__restrict__ X, float *__restrict__ Y) {
  const tc_i32 row = tc_block() * 64 + tc_thread();
  const tc_i32 b = row / 4096;
  const tc_i32 s = row % 4096;
  const float *X_row0 = X + (b * 86016 + s);
  float M_acc = -TC_INF_F32;
  float held0[21];
  #pragma unroll 21
  for (tc_i32 i = 0; i < 21; i++) {
    const tc_i32 c = i;
    held0[i] = X_row0[c * 4096];
    M_acc = tc_max_f32(M_acc, held0[i]);
  }
  float S_acc = 0.0f;
  float held1[21];
  #pragma unroll 21
  for (tc_i32 i = 0; i < 21; i++) {
    held1[i] = tc_exp_f32(held0[i] - M_acc);
    S_acc += held1[i];
  }
  float *Y_row0 = Y + (b * 86016 + s);
  #pragma unroll 21
  for (tc_i32 i = 0; i < 21; i++) {
    const tc_i32 c = i;
    Y_row0[c * 4096] = held1[i] / S_acc;
  }
}
