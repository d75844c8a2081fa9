/* def f(float(M,K) I, float(N,K) W, float(N) b) -> (O) { O(m,n) +=! I(m,k) * W(n,k)  O(m,n) = O(m,n) + b(n)  O(m,n) = fmax(O(m,n), 0) }
 *
 * sizes: any; threads: 2
 * O(m,n) +=! I(m,k) * W(n,k)    [nest]
 * O(m,n) = O(m,n) + b(n)    [nest]
 * O(m,n) = fmax(O(m,n), 0)    [nest]
 */
#include "prelude.h"

static tc_i32 fcrelu_g0_nest(const tc_args *args, char *workspace, tc_i64 begin, tc_i64 end) {
  const tc_i64 K = args->sizes[1];
  const tc_i64 N = args->sizes[2];
  const float *restrict I = (const float *)args->data[0];
  const float *restrict W = (const float *)args->data[1];
  float *restrict O = (float *)args->data[3];
  for (tc_i64 task = begin; task < end; task++) {
    const tc_i64 m = task;
    for (tc_i64 n = 0; n < N; n++) {
      float acc = 0.0f;
      #pragma omp simd reduction(+: acc)
      for (tc_i64 k = 0; k < K; k++) {
        acc += I[m * K + k] * W[n * K + k];
      }
      O[m * N + n] = acc;
    }
  }
  return 0;
}

static tc_i32 fcrelu_g0_plan(const tc_args *args, tc_plan *plan) {
  const tc_i64 M = args->sizes[0];
  const tc_i64 K = args->sizes[1];
  const tc_i64 N = args->sizes[2];
  plan->tasks[0] = M;
  plan->cost_ns[0] = (double)(M * N * K) * 2.1;
  return 0;
}

static tc_i32 fcrelu_g1_nest(const tc_args *args, char *workspace, tc_i64 begin, tc_i64 end) {
  const tc_i64 N = args->sizes[2];
  const float *restrict b = (const float *)args->data[2];
  float *restrict O = (float *)args->data[3];
  for (tc_i64 task = begin; task < end; task++) {
    const tc_i64 m = task;
    #pragma omp simd
    for (tc_i64 n = 0; n < N; n++) {
      O[m * N + n] = tc_fmax_f32(O[m * N + n] + b[n], 0.0f);
    }
  }
  return 0;
}

static tc_i32 fcrelu_g1_plan(const tc_args *args, tc_plan *plan) {
  const tc_i64 M = args->sizes[0];
  const tc_i64 N = args->sizes[2];
  plan->tasks[1] = M;
  plan->cost_ns[1] = (double)(M * N) * 2.4;
  return 0;
}

static tc_i32 fcrelu_plan(const tc_args *args, tc_plan *plan) {
  plan->shared_bytes = 0;
  plan->thread_bytes = 0;
  fcrelu_g0_plan(args, plan);
  fcrelu_g1_plan(args, plan);
  return 0;
}

TC_EXPORT const tc_executable tc_exe_fcrelu = {
  TC_ABI, 2, fcrelu_plan, {fcrelu_g0_nest, fcrelu_g1_nest}
};
