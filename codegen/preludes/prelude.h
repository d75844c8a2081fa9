/* What emitted C stands on: vectors, masks, faults, and the scalar rules of scalars.h.
 *
 * No header is included but our own: <immintrin.h> alone would cost every kernel 115 ms of
 * compile time. gcc >= 12, clang >= 14, zig cc; -fwrapv -fno-math-errno -ffp-contract=fast.
 *
 * Names are regular: tc_WHAT_TYPE, with TYPE one of
 *   f32 f64 i8 i16 i32 i64 u8 u16 u32 u64 b (bool)        scalars; f16 bf16 are storage only
 *   v16f32 v8f64 v16i32 v8i64 (lanes by the width below)   vectors of the native width
 * A cast is tc_FROM_TO. The C type of TYPE is tc_TYPE, of a mask over 16 f32 tc_m16f32.
 *
 * The compiler's macros choose the width; -DTC_VECTOR_BYTES=16 asks for a narrower one.
 * Wrapping + - * are C's own under -fwrapv; a result of type i8 i16 u8 u16 is cast back to it.
 */
#ifndef TC_PRELUDE_H
#define TC_PRELUDE_H
#include "tc_abi.h"

/* Loops lie on lines of the cache as their function has them, wherever its object's code begins. */
__asm__(".text\n\t.p2align 6");

#define TC_FN static inline __attribute__((always_inline))
/* Vectors in loops that say how they are unrolled: what gcc is spared finds nothing in them, and
 * takes a quarter of its time. Names are those of `toolchain/source.py` but for ranges of values,
 * without which a sum of a convolution's last tile lay on the stack. */
#if defined(__clang__) || __GNUC__ < 12
#define TC_SPELLED_OUT
#else
#define TC_SPELLED_OUT __attribute__((optimize("no-schedule-insns2", "no-tree-pre", "no-gcse", \
  "no-code-hoisting", "no-rerun-cse-after-loop", "no-tree-loop-vectorize")))
#endif
/* A micro-kernel: gcc must neither inline nor clone it for a known trip count, or it spills. */
#ifdef __clang__
#define TC_MICRO __attribute__((noinline))
#else
#define TC_MICRO __attribute__((noipa))
#endif
/* What several phases call is compiled once, for the arguments that all of them give. */
#define TC_APART __attribute__((noinline))
#define TC_EXPORT __attribute__((visibility("default")))

#define TC_INF_F32 __builtin_inff()
#define TC_INF_F64 __builtin_inf()
#define TC_NAN_F32 __builtin_nanf("")
#define TC_NAN_F64 __builtin_nan("")

#define TC_BUILTIN(name) __builtin_##name
#define TC_BY_FLOATS(b) (!__builtin_constant_p(b))
#include "scalars.h"

#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512VL__) && defined(__AVX512DQ__)
#define TC_ISA_AVX512 1
#endif

#ifndef TC_VECTOR_BYTES
#if defined(TC_ISA_AVX512)
#define TC_VECTOR_BYTES 64
#elif defined(__AVX2__) && defined(__FMA__)
#define TC_VECTOR_BYTES 32
#else
#define TC_VECTOR_BYTES 16
#endif
#endif
#if TC_VECTOR_BYTES == 64 /* lanes of a vector */
#define TC_VL_f32 16
#define TC_VL_i32 16
#define TC_VL_f64 8
#define TC_VL_i64 8
#elif TC_VECTOR_BYTES == 32
#define TC_VL_f32 8
#define TC_VL_i32 8
#define TC_VL_f64 4
#define TC_VL_i64 4
#elif TC_VECTOR_BYTES == 16
#define TC_VL_f32 4
#define TC_VL_i32 4
#define TC_VL_f64 2
#define TC_VL_i64 2
#else
#error TC_VECTOR_BYTES must be 16, 32 or 64
#endif
/* Call macro m with expanded arguments, so that TC_VL_f32 pastes as 16. */
#define TC_EXPAND(m, ...) m(__VA_ARGS__)

/* ---- hints */

/* Keep vector lvalue b in a register: without it gcc folds an unaligned load into several FMAs. For
 * what was loaded; accumulators in an array that are pinned in a loop move to the stack. */
#if defined(__AVX512VL__)
#define tc_pin(b) __asm__("" : "+v"(b))
#elif defined(__SSE2__)
#define tc_pin(b) __asm__("" : "+x"(b))
#elif defined(__aarch64__)
#define tc_pin(b) __asm__("" : "+w"(b))
#else
#define tc_pin(b) ((void)0)
#endif
/* Keep pointer lvalue p in a register of its own: what is read from it is not reached by a sum of what
 * p was before and how far it went. */
#if defined(__GNUC__)
#define tc_pin_address(p) __asm__("" : "+r"(p))
#else
#define tc_pin_address(p) ((void)0)
#endif
/* Lay scalar lvalue x down in memory until it is read again: else gcc keeps a parameter in its vector
 * register, through a loop that needs all of them, and what the loop adds up moves to the stack. */
#if defined(__GNUC__)
#define tc_lay_down(x) __asm__("" : "+m"(x))
#else
#define tc_lay_down(x) ((void)0)
#endif
/* Stop the compiler (not the processor) from moving loads and stores across this point. */
#define tc_fence() __asm__ __volatile__("" ::: "memory")
/* Fetch the line of an address, which need not be valid. */
#define tc_prefetch(p) __builtin_prefetch((p), 0, 3)
/* After the last tc_stream_*: its stores are seen before whatever follows. */
#if defined(__SSE2__)
#define tc_stream_end() __builtin_ia32_sfence()
#else
#define tc_stream_end() __sync_synchronize()
#endif

/* x, of which the compiler knows nothing: a mask made of it is made when the code runs (opaque.py). */
TC_FN tc_i64 tc_opaque_i64(tc_i64 x) {
  __asm__("" : "+r"(x));
  return x;
}

/* ---- data that chooses addresses */

/* *p, read this once: what was checked is what is used, whoever writes the array meanwhile. Of a plain
 * load a compiler may keep the address in place of the value, and read again where registers run
 * short or where it meets a compare and a move. A test supplies TC_ONCE in its stead. */
#ifndef TC_ONCE
#define TC_ONCE(T, p) (*(const volatile tc_##T *)(p))
#define TC_PEEK(T, p) (*(p))
#else
#define TC_PEEK TC_ONCE
#endif
/* tc_peek: into a copy that is settled then, and used in its place. */
#define TC_READ_ONCE(T)                                                                           \
  TC_FN tc_##T tc_once_##T(const tc_##T *p) { return TC_ONCE(T, p); }                              \
  TC_FN tc_##T tc_peek_##T(const tc_##T *p) { return TC_PEEK(T, p); }
TC_READ_ONCE(i8) TC_READ_ONCE(i16) TC_READ_ONCE(i32) TC_READ_ONCE(i64) TC_READ_ONCE(b)
TC_READ_ONCE(u8) TC_READ_ONCE(u16) TC_READ_ONCE(u32) TC_READ_ONCE(u64)
TC_READ_ONCE(f16) TC_READ_ONCE(bf16) TC_READ_ONCE(f32) TC_READ_ONCE(f64)
/* The local array that begins at p may hold anything from here on, for all that the compiler knows:
 * what it was copied from can no longer stand in for it. */
#define tc_settle(p) __asm__ __volatile__("" : : "r"(p) : "memory")

/* ---- faults */

/* Report a subscript outside its tensor; the first one is kept. Returns 1, what a phase returns. */
static __attribute__((noinline, cold, unused)) int tc_fault(const tc_args *args, tc_i64 tensor,
                                                            tc_i64 dim, tc_i64 value,
                                                            tc_i64 extent) {
  tc_error *error = args->error;
  tc_i64 none = 0;
  if (__atomic_compare_exchange_n(&error->code, &none, 1, 0, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED)) {
    error->tensor = tensor;
    error->dim = dim;
    error->value = value;
    error->extent = extent;
  }
  return 1;
}

#include "vectors.h"
#include "strided.h"
#include "conversions.h"
#include "transposes.h"

#endif
