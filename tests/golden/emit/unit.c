/* def u(float(N) A) -> (B) {
 *   B(i) = A(i)
 * }
 * config g0.mr=6 * /
 */
#include "prelude.h"

static const tc_i64 u_steps[3] = {1, 2, 4};

static TC_MICRO void u_micro(const float *restrict src, float *restrict dst, tc_i64 n) {
  tc_v16f32 acc[1][2] = {{{0}}};
  tc_m16f32 m = tc_tail_v16f32(n);
  #pragma GCC unroll 2
  for (tc_i64 i = 0; i < 2; i++) {
    acc[0][i] += tc_loadm_v16f32(src + i * 16, m);
  }
  if (n > 16) {
    tc_storem_v16f32(dst, m, acc[0][1]);
  } else {
    /* nothing * / to do */
  }
}

static tc_i32 u_phase0(const tc_args *args, char *workspace, tc_i64 begin, tc_i64 end) {
  float s = 0.0f;
  const float *restrict src = (const float *)args->data[0];
  #pragma omp simd reduction(+: s)
  for (tc_i64 i = begin; i < end; i += 2) {
    s += src[i];
  }
  if (s < 0.0f) {
    return 1;
  }
  return 0;
}

static const tc_phase u_kernels[1] = {u_phase0};

static tc_i32 u_plan(const tc_args *args, tc_plan *plan) {
  plan->tasks[0] = args->sizes[0];
  plan->cost_ns[0] = 12.5;
  plan->param[0] = 7;
  return 0;
}

TC_EXPORT const tc_executable tc_exe_u = {
  TC_ABI, 1, u_plan, {u_phase0}
};
