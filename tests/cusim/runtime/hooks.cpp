// Where instrumented code calls: loads and stores (the names of libtsan, which is not linked) and
// arithmetic that has no defined result (the names of libubsan).
#include "machine.h"

using namespace cusim;
#define SITE __builtin_return_address(0)

#pragma GCC visibility push(default)
extern "C" {
// Local arrays are what kernels touch most, and nothing can be wrong with them here.
#define HOOK(name, size, is_write)                                                                \
  void name(void *p) {                                                                            \
    if (!is_own(p)) access(p, size, is_write, SITE);                                              \
  }
#define HOOKS(size)                                                                               \
  HOOK(__tsan_read##size, size, false)                                                            \
  HOOK(__tsan_write##size, size, true)                                                            \
  HOOK(__tsan_unaligned_read##size, size, false)                                                  \
  HOOK(__tsan_unaligned_write##size, size, true)                                                  \
  HOOK(__tsan_volatile_read##size, size, false)                                                   \
  HOOK(__tsan_volatile_write##size, size, true)
HOOKS(1) HOOKS(2) HOOKS(4) HOOKS(8) HOOKS(16)
void __tsan_read_range(void *p, size_t n) { access(p, n, false, SITE); }
void __tsan_write_range(void *p, size_t n) { access(p, n, true, SITE); }
void __sanitizer_cov_trace_pc() {
  if (!running || ++running->steps <= machine->most_steps) return;
  report(Kind::endless, SITE, "more than %llu steps", (unsigned long long)machine->most_steps);
  abandon();
}
void __tsan_init() {}
void __tsan_func_entry(void *) {}
void __tsan_func_exit() {}

// The descriptions that gcc passes begin with file, line and column; the site tells more.
void __ubsan_handle_out_of_bounds(void *, uintptr_t index) {
  report(Kind::index, SITE, "%ld", (long)index);
  abandon();
}
void __ubsan_handle_shift_out_of_bounds(void *, uintptr_t, uintptr_t by) {
  report(Kind::shift, SITE, "by %ld", (long)by);
}
void __ubsan_handle_divrem_overflow(void *, uintptr_t, uintptr_t) {
  report(Kind::division, SITE, "%s", "");
  abandon();
}
#define OVERFLOWS(name, sign)                                                                     \
  void __ubsan_handle_##name##_overflow(void *, uintptr_t a, uintptr_t b) {                       \
    report(Kind::overflow, SITE, "%s", sign);                                                     \
    (void)a, (void)b;                                                                             \
  }
OVERFLOWS(add, "+")
OVERFLOWS(sub, "-")
OVERFLOWS(mul, "*")
void __ubsan_handle_negate_overflow(void *, uintptr_t) { report(Kind::overflow, SITE, "unary -"); }
}
#pragma GCC visibility pop
