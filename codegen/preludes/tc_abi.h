/* The contract between compiled kernels and the launcher (codegen/runtime). Version: TC_ABI.
 *
 * An executable is a plan and a list of phases. The launcher calls plan once per set of sizes,
 * strides and threads, keeps its result, and for each call runs the phases in order, each over its
 * tasks [0, tasks), split among threads as it likes. A task's result never depends on who runs it.
 * Emitted code allocates nothing, starts no threads and holds no state.
 */
#ifndef TC_ABI_H
#define TC_ABI_H
typedef signed char tc_i8; typedef unsigned char tc_u8;
typedef short tc_i16; typedef unsigned short tc_u16;
typedef int tc_i32; typedef unsigned int tc_u32;
typedef long long tc_i64; typedef unsigned long long tc_u64;

enum { TC_ABI = 5, TC_MAX_PHASES = 512, TC_MAX_PARAMS = 1024, TC_MAX_LOOPS = 32 };

/* bool and signed integers in i, unsigned in u, float64 in d; float32, and the half types rounded to
 * theirs, in f. */
typedef union { tc_i64 i; tc_u64 u; double d; float f; } tc_scalar;

/* What plan gives: filled by the executable, kept by the launcher. */
typedef struct {
  tc_i64 tasks[TC_MAX_PHASES];    /* per phase; 0: nothing to do */
  double cost_ns[TC_MAX_PHASES];  /* predicted serial time of a phase: parallel only where it pays */
  tc_i64 thread_bytes;            /* workspace of one thread, 64-byte aligned, contents undefined */
  tc_i64 shared_bytes;            /* workspace shared by all tasks of a call: temporaries, partial sums */
  tc_i64 param[TC_MAX_PARAMS];    /* whatever plan wants its phases to know: tiles, offsets in shared */
} tc_plan;

/* First fault wins (compare-and-swap on code): 1 subscript out of bounds. A phase that faults
 * returns 1, any other 0; the launcher starts no more tasks, waits for those that run, and raises. */
typedef struct { tc_i64 code, tensor, dim, value, extent; } tc_error;

typedef struct {
  char *const *data;        /* per operand (parameters, then returns): address of element 0,..,0; null if by value */
  const tc_i64 *sizes;      /* values of the symbolic sizes, in the order of the program */
  const tc_i64 *strides;    /* in elements, operand after operand, dimension after dimension */
  const tc_scalar *scalars; /* rank-0 parameters by value, in the order of the program; plan sees 0 for those not in bounds */
  const tc_plan *plan;
  char *shared;
  tc_error *error;
  tc_i64 threads;           /* how many may run; the same for plan and phases */
  tc_i64 *turn;             /* per loop: the value of its variable while its phases run; 0 in plan */
} tc_args;

/* Tasks [begin, end), end > begin; several calls a phase and thread. workspace: thread_bytes of it.
 * Not 0 means a broken promise of our own. plan finds its tc_plan zeroed; data and shared are null. */
typedef int (*tc_phase)(const tc_args *, char *workspace, tc_i64 begin, tc_i64 end);
typedef int (*tc_planner)(const tc_args *, tc_plan *);

/* Phases [first, last) run once for each value of a variable in [low, high), in order. The range may
 * depend on the variables of loops around. Loops nest, and stand in the order in which they begin. */
typedef struct { tc_i64 low, high; } tc_range;
typedef struct {
  tc_i64 first, last;
  int (*range)(const tc_args *, tc_range *);
} tc_loop;

/* A function that an executable calls and another object has, by its name there. Who loads the
 * executable writes its address to slot, before plan is called. */
typedef struct { const char *name; void *slot; } tc_import;

/* One exported symbol per executable: const tc_executable tc_exe_NAME. */
typedef struct {
  tc_i64 abi;
  tc_i64 phases;
  tc_planner plan;
  tc_phase phase[TC_MAX_PHASES];
  tc_i64 loops;
  tc_loop loop[TC_MAX_LOOPS];
  tc_i64 imports;
  const tc_import *import;
} tc_executable;
#endif
