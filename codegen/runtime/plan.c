/* Plans: what an executable says of the sizes of an entry; what is kept of it, and where phases read it. */

/* How many threads a call may use, where its caller allows so many (0: all). */
static int threads_of(const Entry *e, int allowed) {
  int threads = pool_threads();
  if (allowed && allowed < threads) threads = allowed;
  return e->max_threads && e->max_threads < threads ? e->max_threads : threads;
}

/* Ask the executable for its plan. */
static int plan_entry(Entry *e, int threads) {
  tc_error error = {0, 0, 0, 0, 0};
  tc_i64 turn[TC_MAX_LOOPS] = {0};
  tc_args args = {NULL, e->sizes, e->strides, e->planned_scalars, NULL, NULL, &error, threads, turn};
  tc_plan *plan = &spread.plan;
  size_t phases = (size_t)e->exe->phases;
  e->planned_threads = 0;
  spread.of = NULL;
  spread.n_params = TC_MAX_PARAMS;
  memset(plan, 0, sizeof *plan);
  int rc = e->exe->plan(&args, plan), n = TC_MAX_PARAMS;
  if (rc || plan->thread_bytes < 0 || plan->shared_bytes < 0) {
    PyErr_Format(internal_error, "the plan of an executable returned %d, and %lld and %lld bytes", rc,
                 plan->thread_bytes, plan->shared_bytes);
    return -1;
  }
  if (plan->thread_bytes >> 44 || plan->shared_bytes >> 44) {
    PyErr_NoMemory();
    return -1;
  }
  while (n && !plan->param[n - 1]) n--;
  if (!e->param || n != e->n_planned) {
    tc_i64 *param = realloc(e->param, (size_t)(n ? n : 1) * sizeof *param);
    if (!param) {
      PyErr_NoMemory();
      return -1;
    }
    e->param = param;
    e->n_planned = n;
  }
  memcpy(e->tasks, plan->tasks, phases * sizeof *e->tasks);
  memcpy(e->cost_ns, plan->cost_ns, phases * sizeof *e->cost_ns);
  memcpy(e->param, plan->param, (size_t)n * sizeof *e->param);
  e->parallel = 0;
  e->total_ns = 0;
  for (size_t p = 0; p < phases; p++) {
    e->total_ns += e->cost_ns[p];
    e->parallel |= pool_pays(threads, e->tasks[p], e->cost_ns[p]);
  }
  e->thread_bytes = plan->thread_bytes;
  e->all_bytes = plan->shared_bytes;
  e->shared_bytes =
      ((size_t)plan->shared_bytes + 127) & ~(size_t)127; /* two lines each: neighbours are fetched in pairs */
  e->slot_bytes = ((size_t)plan->thread_bytes + 127) & ~(size_t)127;
  e->work_bytes = e->shared_bytes + e->slot_bytes * (size_t)(e->parallel ? threads : 1);
  e->planned_threads = threads;
  spread.of = e;
  spread.n_params = n;
  return 0;
}

/* Write the plan of an entry where phases read it, of which the first so many params may be other than 0. */
static void write_plan(const Entry *e, tc_plan *to, int n_params) {
  size_t phases = (size_t)e->exe->phases, n = (size_t)e->n_planned;
  memcpy(to->tasks, e->tasks, phases * sizeof *to->tasks);
  memcpy(to->cost_ns, e->cost_ns, phases * sizeof *to->cost_ns);
  memcpy(to->param, e->param, n * sizeof *to->param);
  if (n_params > e->n_planned) memset(to->param + n, 0, ((size_t)n_params - n) * sizeof *to->param);
  to->thread_bytes = e->thread_bytes;
  to->shared_bytes = e->all_bytes;
}

/* The plan of an entry, valid until the GIL is given away. */
static inline const tc_plan *plan_of(const Entry *e) {
  if (spread.of != e) {
    write_plan(e, &spread.plan, spread.n_params);
    spread.n_params = e->n_planned;
    spread.of = e;
  }
  return &spread.plan;
}
