/* Hand-written executables for the tests of the runtime. */
#include <time.h>

#include "tc_abi.h"

#define EXECUTABLE(name, n, ...) \
  __attribute__((visibility("default"))) const tc_executable tc_exe_##name = {TC_ABI, n, plan_##name, {__VA_ARGS__}}

/* C(m, n) = A(m, n) + B(m, n), float32, any strides; a task is a row. */
static int plan_add(const tc_args *a, tc_plan *p) {
  p->tasks[0] = a->sizes[0];
  p->cost_ns[0] = 0.2 * (double)(a->sizes[0] * a->sizes[1]);
  return 0;
}
static int add(const tc_args *a, char *workspace, tc_i64 begin, tc_i64 end) {
  (void)workspace;
  const tc_i64 *s = a->strides, n = a->sizes[1];
  for (tc_i64 i = begin; i < end; i++) {
    const float *x = (const float *)a->data[0] + i * s[0], *y = (const float *)a->data[1] + i * s[2];
    float *z = (float *)a->data[2] + i * s[4];
    if (s[1] == 1 && s[3] == 1 && s[5] == 1)
      for (tc_i64 j = 0; j < n; j++) z[j] = x[j] + y[j];
    else
      for (tc_i64 j = 0; j < n; j++) z[j * s[5]] = x[j * s[1]] + y[j * s[3]];
  }
  return 0;
}
EXECUTABLE(add, 1, add);

/* C(n) = A(n) + B(n), float32, contiguous; one task. */
static int plan_add1(const tc_args *a, tc_plan *p) {
  p->tasks[0] = a->sizes[0] > 0;
  p->cost_ns[0] = 0.1 * (double)a->sizes[0];
  return 0;
}
static int add1(const tc_args *a, char *workspace, tc_i64 begin, tc_i64 end) {
  (void)workspace, (void)begin, (void)end;
  const float *x = (const float *)a->data[0], *y = (const float *)a->data[1];
  float *z = (float *)a->data[2];
  for (tc_i64 i = 0; i < a->sizes[0]; i++) z[i] = x[i] + y[i];
  return 0;
}
EXECUTABLE(add1, 1, add1);

/* O(n) = A0(n) + ... of the last parameter, and the sum of all that the plan keeps, of which it wrote one. */
static int plan_many(const tc_args *a, tc_plan *p) {
  for (int i = 0; i < TC_MAX_PARAMS; i++)
    if (p->param[i]) return 1;
  p->param[a->sizes[0] % TC_MAX_PARAMS] = 1000;
  p->tasks[0] = 1;
  p->cost_ns[0] = (double)a->sizes[2];
  return 0;
}
static int many(const tc_args *a, char *workspace, tc_i64 begin, tc_i64 end) {
  (void)workspace, (void)begin, (void)end;
  const float *x = (const float *)a->data[0], *y = (const float *)a->data[a->sizes[1] - 1];
  float *z = (float *)a->data[a->sizes[1]];
  tc_i64 sum = 0;
  for (int i = 0; i < TC_MAX_PARAMS; i++) sum += a->plan->param[i];
  for (tc_i64 i = 0; i < a->sizes[0]; i++) z[i] = x[i] + y[i] + (float)sum;
  return 0;
}
EXECUTABLE(many, 1, many);

/* s = sum A(n), p = sum A(n)^2, float64: partial sums of 64 elements in shared memory, then one task adds them. */
enum { BLOCK = 64 };
static int plan_moments(const tc_args *a, tc_plan *p) {
  p->param[0] = (a->sizes[0] + BLOCK - 1) / BLOCK;
  p->tasks[0] = p->param[0];
  p->tasks[1] = 1;
  p->cost_ns[0] = 1.0 * (double)a->sizes[0];
  p->cost_ns[1] = 1.0 * (double)p->param[0];
  p->shared_bytes = 16 * p->param[0];
  p->thread_bytes = 8 * BLOCK;
  return 0;
}
static int moments_partial(const tc_args *a, char *workspace, tc_i64 begin, tc_i64 end) {
  const double *x = (const double *)a->data[0];
  double *part = (double *)a->shared, *squares = (double *)workspace;
  for (tc_i64 t = begin; t < end; t++) {
    tc_i64 lo = t * BLOCK, hi = lo + BLOCK < a->sizes[0] ? lo + BLOCK : a->sizes[0];
    double s = 0, p = 0;
    for (tc_i64 i = lo; i < hi; i++) squares[i - lo] = x[i * a->strides[0]] * x[i * a->strides[0]];
    for (tc_i64 i = lo; i < hi; i++) { s += x[i * a->strides[0]]; p += squares[i - lo]; }
    part[2 * t] = s;
    part[2 * t + 1] = p;
  }
  return 0;
}
static int moments_total(const tc_args *a, char *workspace, tc_i64 begin, tc_i64 end) {
  (void)workspace, (void)begin, (void)end;
  const double *part = (const double *)a->shared;
  double s = 0, p = 0;
  for (tc_i64 t = 0; t < a->plan->param[0]; t++) { s += part[2 * t]; p += part[2 * t + 1]; }
  *(double *)a->data[1] = s;
  *(double *)a->data[2] = p;
  return 0;
}
EXECUTABLE(moments, 2, moments_partial, moments_total);

/* O(i) = A(I(i)), float32 and int32; tensor 0, dimension 0 is checked. */
static int plan_gather(const tc_args *a, tc_plan *p) {
  p->tasks[0] = a->sizes[0];
  p->cost_ns[0] = 10.0 * (double)a->sizes[0];
  return 0;
}
static int gather(const tc_args *a, char *workspace, tc_i64 begin, tc_i64 end) {
  (void)workspace;
  for (tc_i64 i = begin; i < end; i++) {
    tc_i64 at = ((const int *)a->data[1])[i * a->strides[1]], none = 0;
    if (at < 0 || at >= a->sizes[1]) {
      if (__atomic_compare_exchange_n(&a->error->code, &none, 1, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
        a->error->tensor = 0;
        a->error->dim = 0;
        a->error->value = at;
        a->error->extent = a->sizes[1];
      }
      return 0;
    }
    ((float *)a->data[2])[i * a->strides[2]] = ((const float *)a->data[0])[at * a->strides[0]];
  }
  return 0;
}
EXECUTABLE(gather, 1, gather);

/* O(0..7) = the scalars as they came: bool, int8, uint64, int64, float16, bfloat16, float32, float64. */
static int plan_scalars(const tc_args *a, tc_plan *p) {
  (void)a;
  p->tasks[0] = 1;
  return 0;
}
static int scalars(const tc_args *a, char *workspace, tc_i64 begin, tc_i64 end) {
  (void)workspace, (void)begin, (void)end;
  double *o = (double *)a->data[8];
  const tc_scalar *s = a->scalars;
  o[0] = (double)s[0].i;
  o[1] = (double)s[1].i;
  o[2] = (double)s[2].u;
  o[3] = (double)s[3].i;
  for (int i = 4; i < 7; i++) o[i] = s[i].f;
  o[7] = s[7].d;
  return 0;
}
EXECUTABLE(scalars, 1, scalars);

/* O(i) = i for i in 0:n, where n is a rank-0 parameter that plan reads. */
static int plan_iota(const tc_args *a, tc_plan *p) {
  p->tasks[0] = 1;
  p->param[0] = a->scalars[0].i;
  return 0;
}
static int iota(const tc_args *a, char *workspace, tc_i64 begin, tc_i64 end) {
  (void)workspace, (void)begin, (void)end;
  for (tc_i64 i = 0; i < a->plan->param[0]; i++) ((tc_i64 *)a->data[1])[i] = i;
  return 0;
}
EXECUTABLE(iota, 1, iota);

static int is_past(const struct timespec *from, tc_i64 seconds) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec - from->tv_sec > seconds;
}
enum { HANGS_S = 120 }; /* nobody waits longer: the test then fails */

/* O(t) = whether all of sizes[0] tasks were under way at once: each counts itself in M and waits for the others. */
static int plan_meet(const tc_args *a, tc_plan *p) {
  p->tasks[0] = a->sizes[0];
  p->cost_ns[0] = 1e8 * (double)a->sizes[0];
  return 0;
}
static int meet(const tc_args *a, char *workspace, tc_i64 begin, tc_i64 end) {
  (void)workspace;
  tc_i64 *met = (tc_i64 *)a->data[0];
  for (tc_i64 t = begin; t < end; t++) {
    struct timespec from;
    clock_gettime(CLOCK_MONOTONIC, &from);
    __atomic_add_fetch(met, 1, __ATOMIC_SEQ_CST);
    while (__atomic_load_n(met, __ATOMIC_SEQ_CST) < a->sizes[0] && !is_past(&from, HANGS_S));
    ((tc_i64 *)a->data[1])[t] = __atomic_load_n(met, __ATOMIC_SEQ_CST) == a->sizes[0];
  }
  return 0;
}
EXECUTABLE(meet, 1, meet);

/* O(t) = t for each of sizes[0] tasks, after G(0) was set to 1; G(1) counts the tasks that have begun. */
static int plan_gate(const tc_args *a, tc_plan *p) {
  p->tasks[0] = a->sizes[0];
  p->cost_ns[0] = 1e8 * (double)a->sizes[0];
  return 0;
}
static int gate(const tc_args *a, char *workspace, tc_i64 begin, tc_i64 end) {
  (void)workspace;
  tc_i64 *g = (tc_i64 *)a->data[0];
  for (tc_i64 t = begin; t < end; t++) {
    struct timespec from;
    clock_gettime(CLOCK_MONOTONIC, &from);
    __atomic_add_fetch(g + 1, 1, __ATOMIC_SEQ_CST);
    while (!__atomic_load_n(g, __ATOMIC_SEQ_CST) && !is_past(&from, HANGS_S));
    ((tc_i64 *)a->data[1])[t] = __atomic_load_n(g, __ATOMIC_SEQ_CST) ? t : -1;
  }
  return 0;
}
EXECUTABLE(gate, 1, gate);

/* How many threads the call may use, as plan and phase are told. */
static int plan_told(const tc_args *a, tc_plan *p) {
  p->tasks[0] = 1;
  p->param[0] = a->threads;
  return 0;
}
static int told(const tc_args *a, char *workspace, tc_i64 begin, tc_i64 end) {
  (void)workspace, (void)begin, (void)end;
  ((tc_i64 *)a->data[0])[0] = a->plan->param[0];
  ((tc_i64 *)a->data[0])[1] = a->threads;
  return 0;
}
EXECUTABLE(told, 1, told);

/* A phase that breaks the contract. */
static int plan_broken(const tc_args *a, tc_plan *p) {
  p->tasks[0] = 1;
  return a->sizes[0] != 0;
}
static int broken(const tc_args *a, char *workspace, tc_i64 begin, tc_i64 end) {
  (void)a, (void)workspace, (void)begin, (void)end;
  return 3;
}
EXECUTABLE(broken, 1, broken);

__attribute__((visibility("default"))) const tc_executable tc_exe_other_abi = {99, 1, plan_broken, {broken}};

/* Make this thread flush denormals to zero, or not; false where we do not know how. */
__attribute__((visibility("default"))) int flush_denormals(int on) {
#if defined(__x86_64__)
  unsigned mode = __builtin_ia32_stmxcsr();
  __builtin_ia32_ldmxcsr(on ? mode | 0x8040 : mode & ~0x8040u);
  return 1;
#else
  (void)on;
  return 0;
#endif
}
