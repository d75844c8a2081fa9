/* def gather(int64(N,K) X, int32(N) idx, int32(K) w, float(M,K) T) -> (O, P, S) {
 *     O(n, k) = X(n, k) * int64(w(k)) + int64(n) * 3
 *     P(n, k) = T(idx(n), k)
 *     S(k) +=! w(k) * idx(n)
 * }
 *
 * sizes: any
 * config: g0.form=nest g1.form=nest g2.form=nest
 * O(n, k) = X(n, k) * int64(w(k)) + int64(n) * 3    [nest]
 * P(n, k) = T(idx(n), k)    [nest]
 * S(k) +=! w(k) * idx(n)    [nest]
 */
#include "prelude.cuh"

extern "C" __global__ void __launch_bounds__(64, 1) gather_g0_nest(const tc_i64 *__restrict__ X, const tc_i32 *__restrict__ w, tc_i64 *__restrict__ O, tc_i32 N, tc_i32 K, tc_i32 X_s0, tc_i32 O_s0) {
  const tc_i32 point = tc_block() * 64 + tc_thread();
  if (point < N * K) {
    const tc_i32 n = point / K;
    const tc_i32 k = point % K;
    O[n * O_s0 + k] = tc_wrap_add_i64(tc_wrap_mul_i64(X[n * X_s0 + k], (tc_i64)w[k]), (tc_i64)n * 3);
  }
}

extern "C" __global__ void __launch_bounds__(64, 1) gather_g1_nest(const tc_i32 *__restrict__ idx, const float *__restrict__ T, float *__restrict__ P, tc_i32 N, tc_i32 K, tc_i32 M, tc_i32 T_s0, tc_i32 P_s0, tc_error *fault) {
  const tc_i32 point = tc_block() * 64 + tc_thread();
  if (point < N * K) {
    const tc_i32 n = point / K;
    const tc_i32 k = point % K;
    const tc_i32 t_0 = tc_once_i32(idx + n);
    const tc_i32 t_1 = t_0;
    if (t_1 < 0 || t_1 >= M) {
      tc_fault(fault, 3, 0, t_1, M);
      return;
    }
    P[n * P_s0 + k] = T[t_1 * T_s0 + k];
  }
}

extern "C" __global__ void __launch_bounds__(64, 1) gather_g2_nest(const tc_i32 *__restrict__ idx, const tc_i32 *__restrict__ w, tc_i32 *__restrict__ S, tc_i32 N, tc_i32 K) {
  const tc_i32 point = tc_block() * 64 + tc_thread();
  if (point < K) {
    const tc_i32 k = point;
    tc_i32 acc = 0;
    for (tc_i32 n = 0; n < N; n++) {
      acc = tc_wrap_add_i32(acc, tc_wrap_mul_i32(w[k], idx[n]));
    }
    S[k] = acc;
  }
}
