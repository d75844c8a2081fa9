/* Threads: a phase's tasks are cut into chunks, chunks are claimed, the caller claims too.
 *
 * Each thread has a lane: one atomic word {generation, next chunk, end}. It claims from its own lane
 * first (so that it meets the same part of the data at every call) and then from the others'. A claim
 * is a compare-and-swap of the whole word, so nobody can claim from a phase that is over; and the
 * caller waits only for chunks that somebody has claimed, never for a thread to wake up. One caller
 * owns the pool; another that comes at the same time runs its tasks alone. After fork the child has
 * no workers and starts its own when it needs them.
 */
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <time.h>

enum { MAX_THREADS = 256, CHUNKS_PER_LANE = 8 };
enum {
  PARALLEL_NS = 3000, /* a phase this long pays for threads that are awake: fork and join take about 0.7 us */
  SPIN_NS = 20000,    /* how long a worker stays awake for the next phase */
  WAKE_NS = 40000     /* a phase this long pays for waking: 10 us of the caller's, and 25 us until it helps */
};

typedef struct {
  _Alignas(64) _Atomic tc_u64 word;
  _Alignas(64) _Atomic int sleeps; /* its thread; changed under the pool's lock */
  pthread_cond_t wake;
  pthread_t thread;
  int barred; /* the processor that the thread keeps off */
} Lane;

static struct {
  Lane lane[MAX_THREADS];           /* 0 is the caller's */
  _Alignas(64) _Atomic tc_u32 done; /* chunks that are finished */
  _Atomic int failed;
  /* The phase: written by the owner while no chunk is claimed, read after a claim. */
  _Alignas(64) tc_phase phase;
  const tc_args *args;
  char *slots;
  size_t slot_bytes;
  tc_i64 tasks;
  tc_u32 chunks, generation;
  unsigned float_mode;
  _Atomic int lanes;
  _Alignas(64) _Atomic int owned, sleepers;
  pthread_mutex_t lock;
  int started; /* workers; the owner's, like last_ns: when the last phase ended */
  tc_i64 last_ns;
  int threads; /* how many a call may use; the GIL guards it */
} pool;

#ifdef __linux__
/* Those at load: a library that pins the main thread later does not pin the workers. */
static cpu_set_t allowed_cpus;
#endif

static tc_u64 word_of(tc_u32 generation, tc_u32 next, tc_u32 end) {
  return (tc_u64)generation << 32 | next << 16 | end;
}
static tc_u32 generation_of(tc_u64 word) { return (tc_u32)(word >> 32); }

static inline void pause_cpu(void) {
#if defined(__x86_64__) || defined(__i386__)
  __asm__ volatile("pause");
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

/* Rounding and flushing of denormals are settings of a thread: workers take the caller's, for equal bits. */
static unsigned float_mode(void) {
#if defined(__x86_64__)
  return __builtin_ia32_stmxcsr() & ~0x3fu; /* without the flags of what has happened */
#else
  return 0;
#endif
}
static void set_float_mode(unsigned mode) {
#if defined(__x86_64__)
  if (mode != float_mode()) __builtin_ia32_ldmxcsr(mode);
#else
  (void)mode;
#endif
}

/* Keep a worker off the processor that the caller runs on. A scheduler may wake a thread beside the one
 * that wakes it, though others idle; there it waits for milliseconds until somebody balances the load,
 * and the caller does all the work. A system call only where the caller has moved. */
static void bar_caller(Lane *lane) {
#ifdef __linux__
  int here = sched_getcpu();
  if (here == lane->barred || here < 0) return;
  cpu_set_t others = allowed_cpus;
  CPU_CLR(here, &others);
  if (CPU_COUNT(&others)) pthread_setaffinity_np(lane->thread, sizeof others, &others);
  lane->barred = here;
#else
  (void)lane;
#endif
}

static tc_i64 now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (tc_i64)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* The number of a chunk of this generation that is now ours, or -1. */
static int claim(Lane *lane, tc_u32 generation) {
  tc_u64 word = atomic_load_explicit(&lane->word, memory_order_relaxed);
  for (;;) {
    tc_u32 next = (tc_u32)word >> 16, end = (tc_u32)word & 0xffff;
    if (generation_of(word) != generation || next == end) return -1;
    if (atomic_compare_exchange_weak_explicit(&lane->word, &word, word_of(generation, next + 1, end),
                                              memory_order_acquire, memory_order_relaxed))
      return (int)next;
  }
}

static void run_chunk(tc_u32 chunk, int me) {
  if (__atomic_load_n(&pool.args->error->code, __ATOMIC_RELAXED)) return; /* the call fails: no more work */
  tc_i64 each = pool.tasks / pool.chunks, more = pool.tasks % pool.chunks;
  tc_i64 begin = chunk * each + (chunk < more ? chunk : more), end = begin + each + (chunk < more);
  int rc = pool.phase(pool.args, pool.slots + (size_t)me * pool.slot_bytes, begin, end);
  if (rc) atomic_store_explicit(&pool.failed, rc, memory_order_relaxed);
}

/* Claim and run until nothing of this generation is left. */
static void work(int me, tc_u32 generation) {
  tc_u32 finished = 0;
  int lanes = atomic_load_explicit(&pool.lanes, memory_order_relaxed); /* if stale: nothing to claim there */
  for (int k = 0; k < lanes; k++) {
    Lane *lane = &pool.lane[(me + k) % lanes];
    for (int chunk; (chunk = claim(lane, generation)) >= 0; finished++) {
      if (!finished) set_float_mode(pool.float_mode);
      run_chunk((tc_u32)chunk, me);
    }
  }
  if (finished) atomic_fetch_add_explicit(&pool.done, finished, memory_order_release);
}

static tc_u32 generation_in(int me) {
  return generation_of(atomic_load_explicit(&pool.lane[me].word, memory_order_acquire));
}

/* Wait for a generation other than the last: awake for a while, then asleep. */
static tc_u32 next_generation(int me, tc_u32 last) {
  tc_u32 generation;
  for (tc_i64 from = now_ns(); now_ns() - from < SPIN_NS;)
    for (int i = 0; i < 16; i++) {
      if ((generation = generation_in(me)) != last) return generation;
      pause_cpu();
    }
  Lane *lane = &pool.lane[me];
  pthread_mutex_lock(&pool.lock);
  atomic_store(&lane->sleeps, 1);
  atomic_fetch_add(&pool.sleepers, 1); /* then look again: publish() does it the other way round */
  atomic_thread_fence(memory_order_seq_cst);
  while ((generation = generation_in(me)) == last) pthread_cond_wait(&lane->wake, &pool.lock);
  atomic_fetch_sub(&pool.sleepers, 1);
  atomic_store(&lane->sleeps, 0);
  pthread_mutex_unlock(&pool.lock);
  return generation;
}

static void *worker_main(void *number) {
  int me = (int)(size_t)number;
  for (tc_u32 generation = 0;;) {
    generation = next_generation(me, generation);
    work(me, generation);
  }
  return NULL;
}

/* Start what is missing; if the system refuses, the caller does the work of the missing ones. */
static void start_workers(int wanted) {
  sigset_t all, old;
  sigfillset(&all); /* signals are the Python threads' */
  pthread_sigmask(SIG_SETMASK, &all, &old);
  while (pool.started < wanted) {
    Lane *lane = &pool.lane[pool.started + 1];
    atomic_store(&lane->word, 0);
    atomic_store(&lane->sleeps, 0);
    pthread_cond_init(&lane->wake, NULL);
    if (pthread_create(&lane->thread, NULL, worker_main, (void *)(size_t)(pool.started + 1))) break;
#ifdef __linux__
    pthread_setname_np(lane->thread, "tcdsl worker"); /* what profilers and /proc call it; by us: it may not run yet */
    pthread_setaffinity_np(lane->thread, sizeof allowed_cpus, &allowed_cpus);
#endif
    lane->barred = -1;
    bar_caller(lane);
    pthread_detach(lane->thread);
    pool.started++;
  }
  pthread_sigmask(SIG_SETMASK, &old, NULL);
}

/* A sleeper is woken for a long phase, or where phases follow so closely that it will stay awake; only
 * one whose lane has work: after a call with many threads, calls with two do not wake the others. */
static void publish(int lanes, double cost_ns) {
  tc_u32 generation = ++pool.generation ? pool.generation : ++pool.generation; /* 0 is that of a new worker */
  atomic_store_explicit(&pool.done, 0, memory_order_relaxed);
  atomic_store_explicit(&pool.failed, 0, memory_order_relaxed);
  atomic_store_explicit(&pool.lanes, lanes, memory_order_relaxed);
  for (int i = 0; i < lanes; i++) {
    tc_u32 next = pool.chunks * (tc_u32)i / (tc_u32)lanes,
           end = pool.chunks * (tc_u32)(i + 1) / (tc_u32)lanes;
    atomic_store_explicit(&pool.lane[i].word, word_of(generation, next, end), memory_order_release);
  }
  atomic_thread_fence(memory_order_seq_cst);
  if (atomic_load(&pool.sleepers) && (cost_ns > WAKE_NS || now_ns() - pool.last_ns < SPIN_NS)) {
    pthread_mutex_lock(&pool.lock);
    for (int i = 1; i < lanes; i++)
      if (atomic_load(&pool.lane[i].sleeps)) {
        bar_caller(&pool.lane[i]);
        pthread_cond_signal(&pool.lane[i].wake);
      }
    pthread_mutex_unlock(&pool.lock);
  }
}

/* Run the tasks of a phase with the owner's threads; returns what a failing chunk returned, else 0. */
static int pool_run(tc_phase phase, const tc_args *args, char *slots, size_t slot_bytes, tc_i64 tasks,
                    double cost_ns) {
  int lanes = (int)args->threads;
  if (pool.started < lanes - 1) start_workers(lanes - 1);
  tc_i64 chunks = (tc_i64)lanes * CHUNKS_PER_LANE;
  pool.phase = phase;
  pool.args = args;
  pool.slots = slots;
  pool.slot_bytes = slot_bytes;
  pool.tasks = tasks;
  pool.float_mode = float_mode();
  pool.chunks = (tc_u32)(tasks < chunks ? tasks : chunks);
  publish(lanes, cost_ns);
  work(0, pool.generation);
  for (int spins = 0; atomic_load_explicit(&pool.done, memory_order_acquire) != pool.chunks;)
    if (spins < 1000) {
      pause_cpu();
      spins++;
    } else {
      sched_yield(); /* the thread that runs the rest may need this core */
    }
  pool.last_ns = now_ns();
  return atomic_load_explicit(&pool.failed, memory_order_relaxed);
}

static int pool_take(void) { return !atomic_exchange_explicit(&pool.owned, 1, memory_order_acquire); }
static void pool_give(void) { atomic_store_explicit(&pool.owned, 0, memory_order_release); }

static int pool_threads(void) { return pool.threads; }
static int pool_pays(int threads, tc_i64 tasks, double cost_ns) {
  return threads > 1 && tasks > 1 && cost_ns > PARALLEL_NS;
}

static void pool_forget_workers(void) { /* in the child of fork, where only the forking thread lives on */
  pool.started = 0;
  atomic_store(&pool.owned, 0);
  atomic_store(&pool.sleepers, 0);
  pthread_mutex_init(&pool.lock, NULL);
}

static int pool_setup(void) {
  pool.threads = 1;
  pthread_mutex_init(&pool.lock, NULL);
#ifdef __linux__
  if (sched_getaffinity(0, sizeof allowed_cpus, &allowed_cpus))
    memset(&allowed_cpus, 0xff, sizeof allowed_cpus);
#endif
  return pthread_atfork(NULL, NULL, pool_forget_workers);
}
