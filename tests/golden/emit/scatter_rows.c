/* def f(int32(B,L) I, float(B,D) g, float(B,L) w, float(N,M) E) -> (float(N,D) dE) {
 *     dE(I(b,l), d) +=! g(b, d) * w(b, l)
 * }
 *
 * sizes: any; threads: 2
 * config: g0.ranges=4
 * dE(I(b,l), d) +=! g(b, d) * w(b, l)    [scatter by rows]
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
  float *restrict dE = (float *)args->data[4];
  for (tc_i64 task = begin; task < end; task++) {
    const tc_i64 part = task % 4;
    const tc_i64 low = tc_min_i64(part * ((N + 3) / 4), N);
    const tc_i64 high = tc_min_i64(low + (N + 3) / 4, N);
    #pragma omp simd
    for (tc_i64 e = 0; e < (high - low) * D; e++) {
      dE[low * D + e] = 0.0f;
    }
    tc_i64 hits[256];
    tc_i64 rows[256];
    for (tc_i64 b = 0; b < B; b++) {
      for (tc_i64 start = 0; start < L; start += 256) {
        const tc_i64 stop = tc_min_i64(start + 256, L);
        tc_i64 found = 0;
        for (tc_i64 l = start; l < stop; l++) {
          const tc_i32 row_0 = tc_once_i32(I + (b * L + l));
          const tc_i64 row_1 = (tc_i64)row_0;
          if ((tc_u64)row_1 >= (tc_u64)N) {
            return tc_fault(args, 4, 0, row_1, N);
          }
          hits[found] = l;
          rows[found] = row_1;
          found += (tc_i64)(row_1 >= low && row_1 < high);
        }
        for (tc_i64 hit = 0; hit < found; hit++) {
          const tc_i64 l = hits[hit];
          const tc_i64 row = rows[hit];
          #pragma omp simd
          for (tc_i64 d = 0; d < D; d++) {
            float acc = dE[row * D + d];
            acc += g[b * D + d] * w[b * L + l];
            dE[row * D + d] = acc;
          }
        }
      }
    }
  }
  return 0;
}

static tc_i32 bag_g0_plan(const tc_args *args, tc_plan *plan) {
  const tc_i64 B = args->sizes[0];
  const tc_i64 L = args->sizes[1];
  const tc_i64 D = args->sizes[2];
  const tc_i64 N = args->sizes[3];
  plan->tasks[0] = tc_min_i64(D, 1) * 4;
  plan->cost_ns[0] = (double)(B * L * D) * 0.555 + (double)(N * D) * 0.15;
  return 0;
}

static tc_i32 bag_plan(const tc_args *args, tc_plan *plan) {
  plan->shared_bytes = 0;
  plan->thread_bytes = 0;
  bag_g0_plan(args, plan);
  return 0;
}

TC_EXPORT const tc_executable tc_exe_bag = {
  TC_ABI, 1, bag_plan, {bag_g0_scatter}
};
