/* Vectors of one type made vectors of another. Of prelude.h. */
#ifndef TC_CONVERSIONS_H
#define TC_CONVERSIONS_H

/* ---- conversions between vectors: tc_FROM_TO lane by lane; float64 needs two of float32
 * (tc_low_v8f64, tc_high_v8f64 widen, tc_join_v16f32 rounds back). Halves are read and written as
 * float32 vectors: tc_load_v16f32_f16, tc_loadm_, tc_store_, tc_storem_, and the same with bf16.
 * tc_odd_v16i32: what float32 holds of an integer, as in scalars.h. */

/* gcc 12 converts half a register at a time. */
#if TC_VECTOR_BYTES == 64 && defined(TC_ISA_AVX512) && !defined(__clang__)
#define TC_WIDEN(h, V) __builtin_ia32_cvtps2pd512_mask(h, (V){0}, (char)-1, 4)
#elif TC_VECTOR_BYTES == 32 && defined(__AVX__) && !defined(__clang__)
#define TC_WIDEN(h, V) __builtin_ia32_cvtps2pd256(h)
#else
#define TC_WIDEN(h, V) __builtin_convertvector(h, V)
#endif
#define TC_VECTOR_CONVERT(NS, NL)                                                                 \
  typedef tc_f32 tc_half_f32 __attribute__((vector_size(NL * 4)));                             \
  TC_FN tc_v##NS##f32 tc_v##NS##i32_v##NS##f32(tc_v##NS##i32 v) {                                 \
    return __builtin_convertvector(v, tc_v##NS##f32);                                             \
  }                                                                                               \
  TC_FN tc_v##NS##i32 tc_odd_v##NS##i32(tc_v##NS##i32 v) {                                        \
    tc_v##NS##i32 is_long = ((v > 0xffffff) | (v < -0xffffff)) & ((v & 0x7f) != 0);               \
    return tc_select_v##NS##i32(is_long, (v | 0x80) & ~0x7f, v);                                  \
  }                                                                                               \
  TC_FN tc_v##NL##f64 tc_v##NL##i64_v##NL##f64(tc_v##NL##i64 v) {                                 \
    return __builtin_convertvector(v, tc_v##NL##f64);                                             \
  }                                                                                               \
  TC_FN tc_v##NL##f64 tc_low_v##NL##f64(tc_v##NS##f32 v) {                                        \
    tc_half_f32 h = __builtin_shufflevector(v, v, TC_LOW_##NL);                                \
    return TC_WIDEN(h, tc_v##NL##f64);                                             \
  }                                                                                               \
  TC_FN tc_v##NL##f64 tc_high_v##NL##f64(tc_v##NS##f32 v) {                                       \
    tc_half_f32 h = __builtin_shufflevector(v, v, TC_HIGH_##NL);                               \
    return TC_WIDEN(h, tc_v##NL##f64);                                             \
  }                                                                                               \
  TC_FN tc_v##NS##f32 tc_join_v##NS##f32(tc_v##NL##f64 low, tc_v##NL##f64 high) {                 \
    tc_half_f32 l = __builtin_convertvector(low, tc_half_f32);                              \
    tc_half_f32 h = __builtin_convertvector(high, tc_half_f32);                             \
    return __builtin_shufflevector(l, h, TC_LOW_##NL, TC_HIGH_##NL);                              \
  }
TC_EXPAND(TC_VECTOR_CONVERT, TC_VL_f32, TC_VL_f64)

/* 16-bit vectors in registers: the widths of one v*f32. */
typedef tc_u16 tc_halves __attribute__((vector_size(TC_VECTOR_BYTES / 2)));
typedef tc_u16 tc_halves_u __attribute__((vector_size(TC_VECTOR_BYTES / 2), aligned(2), may_alias));

#define TC_MASK_OF(N) tc_m##N##f32
TC_FN void tc_store_halves(tc_u16 *p, tc_halves h) { *(tc_halves_u *)p = h; }

/* The processor's own rounding takes denormals for zero: it serves vectors that have none. */
#if TC_VECTOR_BYTES == 64 && defined(TC_ISA_AVX512) && defined(__AVX512BF16__)
#define TC_NARROW_BF16(v)                                                                         \
  unsigned short denormal;                                                                        \
  tc_halves h;                                                                                    \
  __asm__("vfpclassps $0x20, %1, %0" : "=k"(denormal) : "v"(v));                                  \
  __asm__("vcvtneps2bf16 %1, %0" : "=v"(h) : "v"(v));                                             \
  return __builtin_expect(denormal != 0, 0) ? tc_round_bf16(v) : h;
#else
#define TC_NARROW_BF16(v) return tc_round_bf16(v);
#endif
/* gcc 12 converts half a register at a time; what is packed is 16 bits already. */
#if TC_VECTOR_BYTES == 32 && defined(__AVX2__) && !defined(__clang__)
typedef short TC_SHORTS __attribute__((vector_size(16)));
#define TC_WORDS(h) ((tc_words)__builtin_ia32_pmovzxwd256((TC_SHORTS)(h)))
TC_FN tc_halves tc_packed(tc_native_i32 v) {
  tc_native_i64 both = (tc_native_i64)__builtin_ia32_packusdw256(v, v);
  return (tc_halves)__builtin_shufflevector(both, both, 0, 2);
}
#define TC_HALVES(v) tc_packed((tc_native_i32)(v))
#elif TC_VECTOR_BYTES == 64 && defined(TC_ISA_AVX512) && !defined(__clang__)
typedef short TC_SHORTS __attribute__((vector_size(32)));
#define TC_WORDS(h)                                                                               \
  ((tc_words)__builtin_ia32_pmovzxwd512_mask((TC_SHORTS)(h), (tc_native_i32){0}, (short)-1))
#define TC_HALVES(v)                                                                              \
  ((tc_halves)__builtin_ia32_pmovdw512_mask((tc_native_i32)(v), (TC_SHORTS){0}, (short)-1))
#else
#define TC_WORDS(h) __builtin_convertvector(h, tc_words)
#define TC_HALVES(v) __builtin_convertvector(v, tc_halves)
#endif
#define TC_VECTOR_HALVES(N)                                                                       \
  typedef tc_u32 tc_words __attribute__((vector_size(TC_VECTOR_BYTES)));                          \
  TC_FN tc_v##N##f32 tc_widen_bf16(tc_halves h) { return (tc_v##N##f32)(TC_WORDS(h) << 16); }      \
  TC_FN tc_halves tc_round_bf16(tc_v##N##f32 v) {                                                 \
    tc_words bits = (tc_words)v, rounded = bits + 0x7fff + (bits >> 16 & 1), quiet = bits | 0x400000; \
    tc_v##N##f32 r = tc_select_v##N##f32(v != v, (tc_v##N##f32)quiet, (tc_v##N##f32)rounded);     \
    return TC_HALVES((tc_words)r >> 16);                                                          \
  }                                                                                               \
  TC_FN tc_halves tc_narrow_bf16(tc_v##N##f32 v) { TC_NARROW_BF16(v) }                            \
  TC_VECTOR_HALF(N, f16) TC_VECTOR_HALF(N, bf16)
#define TC_VECTOR_HALF(N, H)                                                                      \
  TC_FN tc_v##N##f32 tc_load_v##N##f32_##H(const tc_##H *p) {                                     \
    return tc_widen_##H(*(const tc_halves_u *)p);                                                 \
  }                                                                                               \
  TC_FN void tc_store_v##N##f32_##H(tc_##H *p, tc_v##N##f32 v) {                                  \
    *(tc_halves_u *)p = tc_narrow_##H(v);                                                         \
  }                                                                                               \
  TC_FN tc_v##N##f32 tc_loadm_v##N##f32_##H(const tc_##H *p, tc_m##N##f32 m) {                    \
    return tc_widen_##H(tc_loadm_halves(p, m));                                                   \
  }                                                                                               \
  TC_FN void tc_storem_v##N##f32_##H(tc_##H *p, tc_m##N##f32 m, tc_v##N##f32 v) {                 \
    tc_storem_halves(p, m, tc_narrow_##H(v));                                                     \
  }                                                                                               \
  TC_FN void tc_storet_v##N##f32_##H(tc_##H *p, tc_m##N##f32 m, tc_v##N##f32 v) {                 \
    tc_storem_v##N##f32_##H(p, m, v);                                                             \
  }                                                                                               \
  TC_FN tc_v##N##f32 tc_loadr_v##N##f32_##H(const tc_##H *p, tc_i64 step, tc_i64 low, tc_i64 high, \
                                            tc_v##N##f32 fill) {                                  \
    for (tc_i64 i = TC_CLAMP(low, N); i < high && i < N; i++) fill[i] = tc_##H##_f32(p[i * step]); \
    return fill;                                                                                  \
  }                                                                                               \
  TC_FN tc_v##N##f32 tc_loadx_v##N##f32_##H(const tc_##H *p, tc_i64 step, tc_i64 n) {              \
    return tc_loadr_v##N##f32_##H(p, step, 0, n, (tc_v##N##f32){0});                               \
  }                                                                                               \
  TC_PAIRS_HALF(N, H, load2, TC_SECOND_##N) TC_PAIRS_HALF(N, H, load2w, TC_WOVEN_##N)
/* Every second one, as strided.h has them of whole lanes. */
#define TC_PAIRS_HALF(N, H, name, ...)                                                            \
  TC_FN tc_v##N##f32 tc_##name##_v##N##f32_##H(const tc_##H *p) {                                 \
    tc_halves a = *(const tc_halves_u *)p, b = *(const tc_halves_u *)(p + N - 1);                 \
    return tc_widen_##H(__builtin_shufflevector(a, b, __VA_ARGS__));                              \
  }                                                                                               \
  TC_FN tc_v##N##f32 tc_##name##f_v##N##f32_##H(const tc_##H *p, tc_m##N##f32 m, tc_m##N##f32 n,    \
                                               tc_v##N##f32 fill) {                               \
    tc_v##N##f32 a = tc_loadm_v##N##f32_##H(p, m), b = tc_loadm_v##N##f32_##H(p + N - 1, n);        \
    a = tc_keep_v##N##f32(m, a, fill), b = tc_keep_v##N##f32(n, b, fill);                         \
    return __builtin_shufflevector(a, b, __VA_ARGS__);                                            \
  }

#if TC_VECTOR_BYTES == 64 && defined(TC_ISA_AVX512)
typedef short TC_HI __attribute__((vector_size(32)));
TC_FN tc_v16f32 tc_widen_f16(tc_halves h) {
  return (tc_v16f32)__builtin_ia32_vcvtph2ps512_mask((TC_HI)h, (tc_v16f32){0}, (short)-1, 4);
}
TC_FN tc_halves tc_narrow_f16(tc_v16f32 v) {
  return (tc_halves)__builtin_ia32_vcvtps2ph512_mask(v, 0, (TC_HI){0}, (short)-1);
}
TC_FN tc_halves tc_loadm_halves(const tc_u16 *p, tc_m16f32 m) {
  return (tc_halves)__builtin_ia32_loaddquhi256_mask((const void *)p, (TC_HI){0}, m);
}
TC_FN void tc_storem_halves(tc_u16 *p, tc_m16f32 m, tc_halves h) {
  __builtin_ia32_storedquhi256_mask((void *)p, (TC_HI)h, m);
}
#else
#if TC_VECTOR_BYTES == 32 && defined(__F16C__)
typedef short TC_HI __attribute__((vector_size(16)));
TC_FN tc_v8f32 tc_widen_f16(tc_halves h) {
#if __has_builtin(__builtin_ia32_vcvtph2ps256)
  return __builtin_ia32_vcvtph2ps256((TC_HI)h);
#else /* clang has dropped it since */
  typedef _Float16 tc_v8f16 __attribute__((vector_size(16)));
  return __builtin_convertvector((tc_v8f16)h, tc_v8f32);
#endif
}
TC_FN tc_halves tc_narrow_f16(tc_v8f32 v) { return (tc_halves)__builtin_ia32_vcvtps2ph256(v, 0); }
#else
TC_FN tc_native_f32 tc_widen_f16(tc_halves h) {
  tc_native_f32 v;
  for (int i = 0; i < TC_VL_f32; i++) v[i] = tc_f16_f32(h[i]);
  return v;
}
TC_FN tc_halves tc_narrow_f16(tc_native_f32 v) {
  tc_halves h;
  for (int i = 0; i < TC_VL_f32; i++) h[i] = tc_f32_f16(v[i]);
  return h;
}
#endif
#if TC_VECTOR_BYTES == 32 && defined(__AVX2__)
/* In few instructions: beside many for single lanes gcc 12 keeps what nobody reads in loops around.
 * Most masks have all lanes, most others the first ones. i: a bit for each lane. */
typedef tc_u32 TC_TWO_HALVES __attribute__((aligned(2), may_alias));
typedef tc_u64 TC_FOUR_HALVES __attribute__((aligned(2), may_alias));
typedef tc_u64 TC_PAIR __attribute__((vector_size(16)));
TC_FN tc_u64 tc_first_halves(const tc_u16 *p, int n) {
  tc_u64 two = n & 2 ? *(const TC_TWO_HALVES *)p : 0;
  return n & 1 ? two | (tc_u64)p[n & 2] << (n & 2) * 16 : two;
}
TC_FN tc_halves tc_loadm_halves(const tc_u16 *p, tc_native_i32 m) {
  int i = __builtin_ia32_movmskps256((tc_native_f32)m), n = __builtin_popcount(i);
  if (n == 8) return *(const tc_halves_u *)p;
  if (i & (i + 1)) {
    tc_u16 some[8] = {0};
    for (; i; i &= i - 1) some[__builtin_ctz(i)] = p[__builtin_ctz(i)];
    return *(const tc_halves_u *)some;
  }
  if (n < 4) return (tc_halves)(TC_PAIR){tc_first_halves(p, n)};
  return (tc_halves)(TC_PAIR){*(const TC_FOUR_HALVES *)p, tc_first_halves(p + 4, n - 4)};
}
TC_FN void tc_storem_halves(tc_u16 *p, tc_native_i32 m, tc_halves h) {
  int i = __builtin_ia32_movmskps256((tc_native_f32)m);
  if (i == 255) {
    tc_store_halves(p, h);
    return;
  }
  tc_u16 all[8];
  tc_store_halves(all, h);
  for (; i; i &= i - 1) p[__builtin_ctz(i)] = all[__builtin_ctz(i)];
}
#else
TC_FN tc_halves tc_loadm_halves(const tc_u16 *p, tc_native_i32 m) {
  tc_halves h = {0};
  for (int i = 0; i < TC_VL_f32; i++)
    if (m[i]) h[i] = p[i];
  return h;
}
TC_FN void tc_storem_halves(tc_u16 *p, tc_native_i32 m, tc_halves h) {
  for (int i = 0; i < TC_VL_f32; i++)
    if (m[i]) p[i] = h[i];
}
#endif
#endif
TC_FN void tc_storet_halves(tc_u16 *p, TC_EXPAND(TC_MASK_OF, TC_VL_f32) m, tc_halves h) {
  tc_storem_halves(p, m, h);
}

TC_EXPAND(TC_VECTOR_HALVES, TC_VL_f32)

#endif
