static int pool_threads(void) { return 1; }
static int pool_pays(int threads, tc_i64 tasks, double cost_ns) { return threads > 1 && tasks > 1 && cost_ns > 3000; }
