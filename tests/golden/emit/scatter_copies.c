/* def f(int32(B,L) I, float(B,D) g, float(B,L) w, float(N,M) E) -> (float(N,D) dE) {
 *     dE(I(b,l), d) +=! g(b, d) * w(b, l)
 * }
 *
 * sizes: any; threads: 2
 * config: g0.ranges=0
 * dE(I(b,l), d) +=! g(b, d) * w(b, l)    [scatter to copies]
 */
#include "prelude.h"

static tc_i32 bag_g0_scatter(const tc_args *args, char *workspace, tc_i64 begin, tc_i64 end) {
  const tc_i64 B = args->sizes[0];
  const tc_i64 L = args->sizes[1];
  const tc_i64 D = args->sizes[2];
  const tc_i64 N = args->sizes[3];
  const tc_i32 *restrict I = (const tc_i32 *)args->data[0];
  const float *restrict g = (const float *)args->data[1];
  const float *restrict w = (const float *)args->data[2];
  float *restrict copies = (float *)args->shared;
  if (D > 0) {
    for (tc_i64 task = begin; task < end; task++) {
      float *restrict own = copies + task * ((N * D + 15) / 16) * 16;
      const tc_i64 low = task * args->plan->param[1];
      const tc_i64 high = tc_min_i64(low + args->plan->param[1], B);
      #pragma omp simd
      for (tc_i64 e = 0; e < N * D; e++) {
        own[e] = 0.0f;
      }
      for (tc_i64 b = low; b < high; b++) {
        for (tc_i64 l = 0; l < L; l++) {
          const tc_i32 row_0 = tc_once_i32(I + (b * L + l));
          const tc_i64 row_1 = (tc_i64)row_0;
          if ((tc_u64)row_1 >= (tc_u64)N) {
            return tc_fault(args, 4, 0, row_1, N);
          }
          #pragma omp simd
          for (tc_i64 d = 0; d < D; d++) {
            float acc = own[row_1 * D + d];
            acc += g[b * D + d] * w[b * L + l];
            own[row_1 * D + d] = acc;
          }
        }
      }
    }
  }
  return 0;
}

static tc_i32 bag_g0_sum(const tc_args *args, char *workspace, tc_i64 begin, tc_i64 end) {
  const tc_i64 D = args->sizes[2];
  const tc_i64 N = args->sizes[3];
  float *restrict dE = (float *)args->data[4];
  float *restrict copies = (float *)args->shared;
  const tc_i64 low = begin * 2048;
  const tc_i64 high = tc_min_i64(end * 2048, N * D);
  for (tc_i64 part = 1; part < args->plan->param[2]; part++) {
    #pragma omp simd
    for (tc_i64 e = low; e < high; e++) {
      copies[e] += copies[part * ((N * D + 15) / 16) * 16 + e];
    }
  }
  #pragma omp simd
  for (tc_i64 e = low; e < high; e++) {
    dE[e] = copies[e];
  }
  return 0;
}

static tc_i32 bag_g0_plan(const tc_args *args, tc_plan *plan) {
  const tc_i64 B = args->sizes[0];
  const tc_i64 L = args->sizes[1];
  const tc_i64 D = args->sizes[2];
  const tc_i64 N = args->sizes[3];
  plan->param[1] = tc_max_i64(1, (B + tc_max_i64(1, tc_min_i64(64, B * L / tc_max_i64(D * N * 4, 8192))) - 1) / tc_max_i64(1, tc_min_i64(64, B * L / tc_max_i64(D * N * 4, 8192))));
  plan->param[2] = tc_max_i64(1, (B + plan->param[1] - 1) / plan->param[1]);
  plan->tasks[0] = plan->param[2];
  plan->cost_ns[0] = (double)(B * L * D) * 0.555;
  plan->tasks[1] = (N * D + 2047) / 2048;
  plan->cost_ns[1] = (double)(N * D * plan->param[2]) * 0.1;
  plan->shared_bytes = tc_max_i64(plan->shared_bytes, (N * D + 15) / 16 * plan->param[2] * 64);
  return 0;
}

static tc_i32 bag_plan(const tc_args *args, tc_plan *plan) {
  plan->shared_bytes = 0;
  plan->thread_bytes = 0;
  bag_g0_plan(args, plan);
  return 0;
}

TC_EXPORT const tc_executable tc_exe_bag = {
  TC_ABI, 2, bag_plan, {bag_g0_scatter, bag_g0_sum}
};
