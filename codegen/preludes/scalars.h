/* The scalar rules of the language, one text for C and for CUDA: integer / and %, min and max,
 * casts, half types, random numbers. Valid as C11 and as C++17.
 *
 * The prelude that includes it has defined the integer types, TC_FN (what stands before a
 * function), TC_BUILTIN(name) (how the compiler calls memcpy, fmodf, ...), TC_BY_FLOATS(b) (whether
 * integers are divided by b as floats) and, where it has instructions for the extremes of float32
 * and its conversions from and to half types, TC_NATIVE_F32: then those are its.
 */
#ifndef TC_SCALARS_H
#define TC_SCALARS_H

typedef float tc_f32;
typedef double tc_f64;
typedef unsigned short tc_f16, tc_bf16; /* storage: tc_f16_f32, tc_f32_f16 convert */
typedef unsigned char tc_b;             /* 0 or 1 */

TC_FN tc_u32 tc_bits_f32(tc_f32 x) { tc_u32 u; TC_BUILTIN(memcpy)(&u, &x, 4); return u; }
TC_FN tc_f32 tc_float_u32(tc_u32 u) { tc_f32 x; TC_BUILTIN(memcpy)(&x, &u, 4); return x; }
TC_FN tc_u64 tc_bits_f64(tc_f64 x) { tc_u64 u; TC_BUILTIN(memcpy)(&u, &x, 8); return u; }
TC_FN tc_f64 tc_float_u64(tc_u64 u) { tc_f64 x; TC_BUILTIN(memcpy)(&x, &u, 8); return x; }

/* ---- integers: / and % floor, by 0 they give 0, INT_MIN / -1 wraps */

#define TC_SIGNED(T, U)                                                                           \
  TC_FN tc_##T tc_slow_div_##T(tc_##T a, tc_##T b) {                                               \
    if (b == 0) return 0;                                                                         \
    if (b == -1) return (tc_##T)(0 - (tc_##U)a);                                                   \
    tc_##T q = (tc_##T)(a / b), r = (tc_##T)(a % b);                                               \
    return (tc_##T)(q - ((r != 0) & ((r ^ b) < 0)));                                              \
  }                                                                                               \
  TC_FN tc_##T tc_slow_mod_##T(tc_##T a, tc_##T b) {                                               \
    if (b == 0 || b == -1) return 0;                                                              \
    tc_##T r = (tc_##T)(a % b);                                                                   \
    return (tc_##T)(r + (b & -((r != 0) & ((r ^ b) < 0)))); /* no jump on data */                  \
  }                                                                                               \
  TC_FN tc_##T tc_abs_##T(tc_##T a) { return (tc_##T)(a < 0 ? 0 - (tc_##U)a : (tc_##U)a); }        \
  TC_FN tc_##T tc_sign_##T(tc_##T a) { return (tc_##T)((a > 0) - (a < 0)); }

#define TC_UNSIGNED(T)                                                                            \
  TC_FN tc_##T tc_slow_div_##T(tc_##T a, tc_##T b) { return b == 0 ? (tc_##T)0 : (tc_##T)(a / b); } \
  TC_FN tc_##T tc_slow_mod_##T(tc_##T a, tc_##T b) { return b == 0 ? (tc_##T)0 : (tc_##T)(a % b); } \
  TC_FN tc_##T tc_abs_##T(tc_##T a) { return a; }                                                 \
  TC_FN tc_##T tc_sign_##T(tc_##T a) { return a != 0; }

TC_SIGNED(i8, u8) TC_SIGNED(i16, u16) TC_SIGNED(i32, u32) TC_SIGNED(i64, u64)
TC_UNSIGNED(u8) TC_UNSIGNED(u16) TC_UNSIGNED(u32) TC_UNSIGNED(u64)

/* Processors divide vectors of floats, not of integers. TC_BY_FLOATS: whether this target does so, and
 * the divisor is none that is known, by which compilers multiply. A float that has more digits than
 * the integers rounds no quotient to another whole number: that is 1 / |b| away at least, the error
 * below |a / b| 2^-24 (2^-53). INT_MIN / -1 is no int32: its quotient is not taken. */
#define TC_QUOTIENTS(T, F, FLOOR, DIVISOR, QUOTIENT)                                              \
  TC_FN tc_##T tc_div_##T(tc_##T a, tc_##T b) {                                                    \
    if (!TC_BY_FLOATS(b)) return tc_slow_div_##T(a, b);                                            \
    const tc_##F q = FLOOR((tc_##F)a / (tc_##F)(DIVISOR));                                         \
    return b == 0 ? (tc_##T)0 : (QUOTIENT);                                                       \
  }                                                                                               \
  TC_FN tc_##T tc_mod_##T(tc_##T a, tc_##T b) {                                                    \
    if (!TC_BY_FLOATS(b)) return tc_slow_mod_##T(a, b);                                            \
    return b == 0 ? (tc_##T)0 : (tc_##T)((tc_u32)a - (tc_u32)tc_div_##T(a, b) * (tc_u32)b);        \
  }
#define TC_AS_IT_IS(q) (q)

TC_QUOTIENTS(i8, f32, TC_BUILTIN(floorf), b == 0 ? 1 : b, (tc_i8)(tc_i32)q)
TC_QUOTIENTS(i16, f32, TC_BUILTIN(floorf), b == 0 ? 1 : b, (tc_i16)(tc_i32)q)
TC_QUOTIENTS(i32, f64, TC_BUILTIN(floor), (tc_u32)b + 1 <= 1 ? 1 : b,
             b == -1 ? (tc_i32)(0 - (tc_u32)a) : (tc_i32)q)
TC_QUOTIENTS(u8, f32, TC_AS_IT_IS, b == 0 ? 1 : b, (tc_u8)(tc_i32)q)
TC_QUOTIENTS(u16, f32, TC_AS_IT_IS, b == 0 ? 1 : b, (tc_u16)(tc_i32)q)
TC_QUOTIENTS(u32, f64, TC_AS_IT_IS, b == 0 ? 1 : b, (tc_u32)q)
TC_FN tc_i64 tc_div_i64(tc_i64 a, tc_i64 b) { return tc_slow_div_i64(a, b); }
TC_FN tc_i64 tc_mod_i64(tc_i64 a, tc_i64 b) { return tc_slow_mod_i64(a, b); }
TC_FN tc_u64 tc_div_u64(tc_u64 a, tc_u64 b) { return tc_slow_div_u64(a, b); }
TC_FN tc_u64 tc_mod_u64(tc_u64 a, tc_u64 b) { return tc_slow_mod_u64(a, b); }

/* Shifts: by the width or more, or by less than 0, no bit of a is left. */
#define TC_SHIFTS(S, U, width)                                                                    \
  TC_FN tc_##S tc_shl_##S(tc_##S a, tc_##S n) {                                                    \
    return (tc_##U)n < width ? (tc_##S)((tc_##U)a << n) : (tc_##S)0;                               \
  }                                                                                               \
  TC_FN tc_##S tc_shr_##S(tc_##S a, tc_##S n) {                                                    \
    return (tc_##S)(a >> ((tc_##U)n < width ? n : width - 1));                                    \
  }                                                                                               \
  TC_FN tc_##U tc_shl_##U(tc_##U a, tc_##U n) {                                                    \
    return n < width ? (tc_##U)(a << n) : (tc_##U)0;                                               \
  }                                                                                               \
  TC_FN tc_##U tc_shr_##U(tc_##U a, tc_##U n) {                                                    \
    return n < width ? (tc_##U)(a >> n) : (tc_##U)0;                                               \
  }
TC_SHIFTS(i8, u8, 8) TC_SHIFTS(i16, u16, 16) TC_SHIFTS(i32, u32, 32) TC_SHIFTS(i64, u64, 64)

/* min, max of integers; of floats, min and max hand NaN on, fmin and fmax drop it. */
#define TC_ORDERED(T)                                                                             \
  TC_FN tc_##T tc_min_##T(tc_##T a, tc_##T b) { return a < b ? a : b; }                            \
  TC_FN tc_##T tc_max_##T(tc_##T a, tc_##T b) { return a > b ? a : b; }
TC_ORDERED(i8) TC_ORDERED(i16) TC_ORDERED(i32) TC_ORDERED(i64)
TC_ORDERED(u8) TC_ORDERED(u16) TC_ORDERED(u32) TC_ORDERED(u64) TC_ORDERED(b)

/* Extremes of floats: one instruction, and a choice where `kept` is NaN, which is asked of its bits. A branch on
 * `a op b` is one that nobody foresees, `kept != kept` behind it a mask for which running extremes wait. */
#define TC_FLOAT_EXTREME(T, U, nan, name, op, kept)                                               \
  TC_FN tc_##T tc_##name##_##T(tc_##T a, tc_##T b) {                                               \
    tc_##T m = a op b ? a : b;                                                                     \
    return (tc_##U)(tc_bits_##T(kept) << 1) > nan ? a : m;                                         \
  }
#define TC_FLOATING(T, U, nan)                                                                    \
  TC_FLOAT_EXTREME(T, U, nan, min, <, a) TC_FLOAT_EXTREME(T, U, nan, max, >, a)                    \
  TC_FLOAT_EXTREME(T, U, nan, fmin, <, b) TC_FLOAT_EXTREME(T, U, nan, fmax, >, b)
#ifndef TC_NATIVE_F32
TC_FLOATING(f32, u32, 0xff000000)
#endif
TC_FLOATING(f64, u64, 0xffe0000000000000)

/* Float % floors as in Python: the result has the sign of b. */
TC_FN tc_f32 tc_mod_f32(tc_f32 a, tc_f32 b) {
  tc_f32 r = TC_BUILTIN(fmodf)(a, b);
  return r == 0 ? TC_BUILTIN(copysignf)(0.0f, b) : (b < 0) != (r < 0) ? r + b : r;
}
TC_FN tc_f64 tc_mod_f64(tc_f64 a, tc_f64 b) {
  tc_f64 r = TC_BUILTIN(fmod)(a, b);
  return r == 0 ? TC_BUILTIN(copysign)(0.0, b) : (b < 0) != (r < 0) ? r + b : r;
}

/* ---- casts: float to integer truncates, saturates, NaN gives 0 */

/* min and past (max + 1) are powers of two, exact in every float type. */
#define TC_SATURATING(F, T, min, past, largest)                                                   \
  TC_FN tc_##T tc_##F##_##T(tc_##F x) {                                                            \
    return x >= (tc_##F)(past) ? (tc_##T)(largest)                                                \
           : x > (tc_##F)(min) ? (tc_##T)x                                                        \
           : x == x            ? (tc_##T)(min)                                                    \
                               : (tc_##T)0;                                                       \
  }
#define TC_FROM_FLOAT(F)                                                                          \
  TC_SATURATING(F, i8, -0x1p7, 0x1p7, 127)                                                        \
  TC_SATURATING(F, i16, -0x1p15, 0x1p15, 32767)                                                   \
  TC_SATURATING(F, i32, -0x1p31, 0x1p31, 0x7fffffff)                                              \
  TC_SATURATING(F, i64, -0x1p63, 0x1p63, 0x7fffffffffffffffLL)                                    \
  TC_SATURATING(F, u8, 0, 0x1p8, 255)                                                             \
  TC_SATURATING(F, u16, 0, 0x1p16, 65535)                                                         \
  TC_SATURATING(F, u32, 0, 0x1p32, 0xffffffffU)                                                   \
  TC_SATURATING(F, u64, 0, 0x1p64, 0xffffffffffffffffULL)
TC_FROM_FLOAT(f32) TC_FROM_FLOAT(f64)

/* bool(x) is x != 0, NaN included. */
#define TC_TO_BOOL(T) TC_FN tc_b tc_##T##_b(tc_##T x) { return x != 0; }
TC_TO_BOOL(f32) TC_TO_BOOL(f64)
TC_TO_BOOL(i8) TC_TO_BOOL(i16) TC_TO_BOOL(i32) TC_TO_BOOL(i64)
TC_TO_BOOL(u8) TC_TO_BOOL(u16) TC_TO_BOOL(u32) TC_TO_BOOL(u64)

/* ---- half types: stored as 16 bits, computed in float32; round to nearest even, NaN stays NaN */

TC_FN tc_f32 tc_bf16_f32(tc_bf16 h) { return tc_float_u32((tc_u32)h << 16); }
#ifndef TC_NATIVE_F32
/* Integer text on purpose: gcc vectorises it, which it does not do with F16C's scalar forms. Masks,
 * as conditions are branches until late: of loops that convert one strided element three times gcc 12
 * then made sums of other elements. */
TC_FN tc_f32 tc_f16_f32(tc_f16 h) {
  tc_u32 magnitude = (tc_u32)(h & 0x7fff) << 13, sign = (tc_u32)(h & 0x8000) << 16;
  tc_u32 bias = (127 - 15) << 23;
  tc_u32 special = -(tc_u32)((tc_i32)magnitude >= 0x0f800000); /* infinite, NaN: biased once more */
  tc_u32 tiny = -(tc_u32)((tc_i32)magnitude < 0x00800000);     /* exponent field 0 */
  tc_u32 normal = magnitude + bias + (bias & special);
  tc_f32 small = tc_float_u32(magnitude + ((127 - 14) << 23)) - 0x1p-14f;
  return tc_float_u32((normal & ~tiny) | (tc_bits_f32(small) & tiny) | sign);
}
TC_FN tc_f16 tc_f32_f16(tc_f32 x) {
  tc_u32 bits = tc_bits_f32(x), magnitude = bits & 0x7fffffff, sign = bits >> 16 & 0x8000;
  tc_u32 normal = (magnitude - ((127 - 15) << 23) + 0xfff + (magnitude >> 13 & 1)) >> 13;
  tc_u32 tiny = tc_bits_f32(tc_float_u32(magnitude) + 0.5f) - 0x3f000000; /* the adder rounds */
  tc_u32 h = magnitude < 0x38800000 ? tiny : normal;
  h = magnitude >= 0x477ff000 ? 0x7c00 : h; /* 65520 and above round to infinity */
  h = magnitude > 0x7f800000 ? 0x7e00 | (magnitude >> 13 & 0x3ff) : h;
  return (tc_f16)(h | sign);
}
TC_FN tc_bf16 tc_f32_bf16(tc_f32 x) { /* not vcvtneps2bf16, which flushes denormals */
  tc_u32 bits = tc_bits_f32(x), rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
  return (tc_bf16)((bits & 0x7fffffff) > 0x7f800000 ? bits >> 16 | 0x40 : rounded);
}
#else /* by instructions, in prelude.cuh */
TC_FN tc_f16 tc_f32_f16(tc_f32 x);
TC_FN tc_bf16 tc_f32_bf16(tc_f32 x);
#endif

/* Wider types round to a half once: first to an odd last bit of what float32 holds exactly, which
 * no tie of a half has. Integers need it for bfloat16 only: past 24 bits a float16 is infinite. */
TC_FN tc_f32 tc_odd_f64(tc_f64 x) {
  tc_f32 f = (tc_f32)x;
  tc_f64 back = (tc_f64)f;
  const tc_u32 even = (back != x) & (x == x) & ~tc_bits_f32(f); /* no jump, so that loops have vectors */
  return tc_float_u32(tc_bits_f32(f) + ((back < x) == (x > 0) ? even & 1 : -(even & 1)));
}
TC_FN tc_f16 tc_f64_f16(tc_f64 x) { return tc_f32_f16(tc_odd_f64(x)); }
TC_FN tc_bf16 tc_f64_bf16(tc_f64 x) { return tc_f32_bf16(tc_odd_f64(x)); }
/* x with so many low bits gone, odd if they were not 0. */
#define TC_ODD(x, bits) ((x) & ((1 << (bits)) - 1) ? ((x) >> (bits) | 1) * (1 << (bits)) : (x))
TC_FN tc_bf16 tc_i32_bf16(tc_i32 x) {
  return tc_f32_bf16((tc_f32)(x > 0xffffff || x < -0xffffff ? TC_ODD(x, 7) : x));
}
TC_FN tc_bf16 tc_u32_bf16(tc_u32 x) {
  return tc_f32_bf16((tc_f32)(x > 0xffffff ? TC_ODD(x, 8) : x));
}
TC_FN tc_bf16 tc_i64_bf16(tc_i64 x) {
  return tc_f64_bf16((tc_f64)(x > 0xffffffffffffff || x < -0xffffffffffffff ? TC_ODD(x, 11) : x));
}
TC_FN tc_bf16 tc_u64_bf16(tc_u64 x) {
  return tc_f64_bf16((tc_f64)(x > 0xffffffffffffff ? TC_ODD(x, 11) : x));
}

/* ---- random numbers without a state: Philox4x32-10, its first two words */

TC_FN tc_u64 tc_philox(tc_u64 key, tc_u64 counter) {
  tc_u32 a = (tc_u32)counter, b = (tc_u32)(counter >> 32), c = 0, d = 0;
  tc_u32 k0 = (tc_u32)key, k1 = (tc_u32)(key >> 32);
  for (int round = 0; round < 10; round++) {
    tc_u64 p = (tc_u64)a * 0xD2511F53U, q = (tc_u64)c * 0xCD9E8D57U;
    a = (tc_u32)(q >> 32) ^ b ^ k0;
    b = (tc_u32)q;
    c = (tc_u32)(p >> 32) ^ d ^ k1;
    d = (tc_u32)p;
    k0 += 0x9E3779B9U;
    k1 += 0xBB67AE85U;
  }
  return (tc_u64)b << 32 | a;
}
/* In [0, 1): 24 random bits in float32, 53 in float64. */
TC_FN tc_f32 tc_rand_f32(tc_u64 seed, tc_i64 c) {
  return (tc_f32)((tc_u32)tc_philox(seed, (tc_u64)c) >> 8) * 0x1p-24f;
}
TC_FN tc_f64 tc_rand_f64(tc_u64 seed, tc_i64 c) {
  return (tc_f64)(tc_philox(seed, (tc_u64)c) >> 11) * 0x1p-53;
}
#endif
