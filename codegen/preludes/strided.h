/* Vectors whose lanes lie apart in memory, and stores past the cache. Of prelude.h. */
#ifndef TC_STRIDED_H
#define TC_STRIDED_H

/* ---- tc_near_4: elements [first, behind) of a tensor that has [begin, end), all seen from base: those
 * that it has are copied into room, and where base is then is given. The others have no values. Of
 * each pitch elements only width are needed, from first on. A call would leave no vector in its
 * register around it. */
#define TC_NEAR(B)                                                                                \
  TC_FN const void *tc_near_##B(void *room, const void *base, tc_i64 first, tc_i64 behind, tc_i64 begin,            \
                                tc_i64 end, tc_i64 pitch, tc_i64 width) {                         \
    char *to = (char *)((tc_i64)room - first * B);                                                \
    const tc_i64 step = pitch > width ? pitch : width, last = behind < end ? behind : end;        \
    for (tc_i64 at = first; at < last; at += step)                                                \
      for (tc_i64 i = at < begin ? begin : at; i < at + width && i < last; i++) {                 \
        __builtin_memcpy(to + i * B, (const char *)base + i * B, B);                              \
        __asm__ volatile("");                                                                     \
      }                                                                                           \
    return to;                                                                                    \
  }
TC_NEAR(4) TC_NEAR(8)

/* ---- strided access: lanes at p, p + step, ...; those from n on are neither read nor written */

#define TC_REVERSED2(v) __builtin_shufflevector(v, v, 1, 0)
#define TC_REVERSED4(v) __builtin_shufflevector(v, v, 3, 2, 1, 0)
#define TC_REVERSED8(v) __builtin_shufflevector(v, v, 7, 6, 5, 4, 3, 2, 1, 0)
#define TC_REVERSED16(v)                                                                          \
  __builtin_shufflevector(v, v, 15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0)
#define TC_STRIDED(S, T, N)                                                                       \
  TC_FN tc_v##S tc_loadx_v##S(const tc_##T *p, tc_i64 step, tc_i64 n) {                            \
    tc_v##S v = {0};                                                                              \
    if (__builtin_constant_p(step) && step == -1 && n >= N) {                                     \
      v = tc_load_v##S(p - (N - 1));                                                              \
      return TC_REVERSED##N(v);                                                                   \
    }                                                                                             \
    _Pragma("GCC unroll 16") for (int i = 0; i < N; i++) if (i < n) v[i] = p[i * step];           \
    return v;                                                                                     \
  }                                                                                               \
  TC_FN void tc_storex_v##S(tc_##T *p, tc_i64 step, tc_i64 n, tc_v##S v) {                         \
    _Pragma("GCC unroll 16") for (int i = 0; i < N; i++) if (i < n) p[i * step] = v[i];           \
  }
#define TC_STRIDES(NS, NL)                                                                        \
  TC_STRIDED(NS##f32, f32, NS) TC_STRIDED(NS##i32, i32, NS)                                       \
  TC_STRIDED(NL##f64, f64, NL) TC_STRIDED(NL##i64, i64, NL)
TC_EXPAND(TC_STRIDES, TC_VL_f32, TC_VL_f64)

/* Lanes low <= i < high at p + i * step; the others are not read and have those of fill. */
#define TC_STRIDED_RANGE(S, T, N)                                                                 \
  TC_FN tc_v##S tc_loadr_v##S(const tc_##T *p, tc_i64 step, tc_i64 low, tc_i64 high, tc_v##S fill) { \
    for (tc_i64 i = TC_CLAMP(low, N); i < high && i < N; i++) fill[i] = p[i * step];               \
    return fill;                                                                                  \
  }
#define TC_STRIDED_RANGES(NS, NL)                                                                 \
  TC_STRIDED_RANGE(NS##f32, f32, NS) TC_STRIDED_RANGE(NS##i32, i32, NS)                           \
  TC_STRIDED_RANGE(NL##f64, f64, NL) TC_STRIDED_RANGE(NL##i64, i64, NL)
TC_EXPAND(TC_STRIDED_RANGES, TC_VL_f32, TC_VL_f64)

/* Lanes at p, p + 2, ..., p + 2 * (N - 1): nothing behind the last is read. tc_load2f: those
 * of the masks of p and of p + N - 1, the others have those of fill, in which all lanes are alike.
 * tc_load2w, tc_load2wf leave them woven, as halves of registers give them (0 1 4 5 2 3 6 7 of 32
 * bytes), which saves the shuffle between halves; tc_unwoven puts them in order. tc_lower, tc_upper:
 * the masks of lanes low..high-1, of which no element behind the last is touched either. */
#if TC_VECTOR_BYTES == 64 && defined(TC_ISA_AVX512)
#define TC_PAIR_MASKS(S, N) /* one range of bits, of both vectors */                              \
  TC_FN tc_u64 tc_both_v##S(tc_i64 low, tc_i64 high) {                                            \
    return (((1ull << 2 * TC_CLAMP(high, N)) - 1) >> 1) & (~0ull << 2 * TC_CLAMP(low, N));         \
  }                                                                                               \
  TC_FN tc_m##S tc_lower_v##S(tc_i64 low, tc_i64 high) { return (tc_m##S)tc_both_v##S(low, high); } \
  TC_FN tc_m##S tc_upper_v##S(tc_i64 low, tc_i64 high) {                                         \
    return (tc_m##S)(tc_both_v##S(low, high) >> (N - 1));                                         \
  }
#else
#define TC_PAIR_MASKS(S, N)                                                                       \
  TC_FN tc_m##S tc_lower_v##S(tc_i64 low, tc_i64 high) {                                          \
    return tc_range_v##S(2 * low, 2 * high - 1);                                                  \
  }                                                                                               \
  TC_FN tc_m##S tc_upper_v##S(tc_i64 low, tc_i64 high) {                                         \
    return tc_range_v##S(2 * low - (N - 1), 2 * high - N);                                        \
  }
#endif
#define TC_PAIRS(S, T, N)                                                                         \
  TC_FN tc_v##S tc_load2_v##S(const tc_##T *p) {                                                  \
    return __builtin_shufflevector(tc_load_v##S(p), tc_load_v##S(p + N - 1), TC_SECOND_##N);       \
  }                                                                                               \
  TC_FN tc_v##S tc_load2w_v##S(const tc_##T *p) {                                                 \
    return __builtin_shufflevector(tc_load_v##S(p), tc_load_v##S(p + N - 1), TC_WOVEN_##N);        \
  }                                                                                               \
  TC_FN tc_v##S tc_unwoven_v##S(tc_v##S v) { return __builtin_shufflevector(v, v, TC_UNWOVEN_##N); } \
  TC_PAIR_MASKS(S, N)                                                                             \
  TC_PAIRS_SOME(S, T, N, load2f, TC_SECOND_##N)                                                   \
  TC_PAIRS_SOME(S, T, N, load2wf, TC_WOVEN_##N)
#define TC_PAIRS_SOME(S, T, N, name, ...)                                                         \
  TC_FN tc_v##S tc_##name##_v##S(const tc_##T *p, tc_m##S m, tc_m##S n, tc_v##S fill) {            \
    tc_v##S a = tc_loadf_v##S(p, m, fill), b = tc_loadf_v##S(p + N - 1, n, fill);                  \
    return __builtin_shufflevector(a, b, __VA_ARGS__);                                            \
  }
#if TC_VECTOR_BYTES == 32
#define TC_WOVEN_4 0, 5, 2, 7
#define TC_WOVEN_8 0, 2, 9, 11, 4, 6, 13, 15
#define TC_UNWOVEN_4 0, 2, 1, 3
#define TC_UNWOVEN_8 0, 1, 4, 5, 2, 3, 6, 7
#else
#define TC_WOVEN_2 TC_SECOND_2
#define TC_WOVEN_4 TC_SECOND_4
#define TC_WOVEN_8 TC_SECOND_8
#define TC_WOVEN_16 TC_SECOND_16
#define TC_UNWOVEN_2 TC_IN_ORDER_2
#define TC_UNWOVEN_4 TC_IN_ORDER_4
#define TC_UNWOVEN_8 TC_IN_ORDER_8
#define TC_UNWOVEN_16 TC_IN_ORDER_16
#define TC_IN_ORDER_2 0, 1
#define TC_IN_ORDER_4 0, 1, 2, 3
#define TC_IN_ORDER_8 0, 1, 2, 3, 4, 5, 6, 7
#define TC_IN_ORDER_16 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15
#endif
#define TC_SECOND_2 0, 3
#define TC_SECOND_4 0, 2, 5, 7
#define TC_SECOND_8 0, 2, 4, 6, 9, 11, 13, 15
#define TC_SECOND_16 0, 2, 4, 6, 8, 10, 12, 14, 17, 19, 21, 23, 25, 27, 29, 31
#define TC_PAIRS_(NS, NL)                                                                         \
  TC_PAIRS(NS##f32, f32, NS) TC_PAIRS(NS##i32, i32, NS)                                           \
  TC_PAIRS(NL##f64, f64, NL) TC_PAIRS(NL##i64, i64, NL)
TC_EXPAND(TC_PAIRS_, TC_VL_f32, TC_VL_f64)

/* Lanes at p, p + K, ..., p + K * (N - 1), of a K above 2, from K whole loads of which the last ends
 * with the last lane; tc_loadKr: lanes low <= i < high, the others have those of fill. */
#define TC_PLACE(N, K, k) ((k) * N < (N - 1) * (K) + 1 - N ? (k) * N : (N - 1) * (K) + 1 - N)
#define TC_OF_TWO(N, K, k, i)                                                                     \
  ((i) * (K) < N ? (i) * (K) : (i) * (K) < 2 * N ? N + (i) * (K) - TC_PLACE(N, K, 1) : 0)
#define TC_OF_NEXT(N, K, k, i) ((i) * (K) / N == (k) ? N + (i) * (K) - TC_PLACE(N, K, k) : (i))
#define TC_LANES_2(f, K, k, N, i) f(N, K, k, i), f(N, K, k, i + 1)
#define TC_LANES_4(f, K, k, N, i) TC_LANES_2(f, K, k, N, i), TC_LANES_2(f, K, k, N, i + 2)
#define TC_LANES_8(f, K, k, N, i) TC_LANES_4(f, K, k, N, i), TC_LANES_4(f, K, k, N, i + 4)
#define TC_LANES_16(f, K, k, N, i) TC_LANES_8(f, K, k, N, i), TC_LANES_8(f, K, k, N, i + 8)
#define TC_JOINED(S, N, K, LOAD)                                                                  \
  tc_v##S v = __builtin_shufflevector(LOAD(S, N, K, 0), LOAD(S, N, K, 1),                         \
                                      TC_LANES_##N(TC_OF_TWO, K, 0, N, 0));                       \
  v = __builtin_shufflevector(v, LOAD(S, N, K, 2), TC_LANES_##N(TC_OF_NEXT, K, 2, N, 0));         \
  if (K > 3) v = __builtin_shufflevector(v, LOAD(S, N, K, 3), TC_LANES_##N(TC_OF_NEXT, K, 3, N, 0)); \
  return v;
#define TC_WHOLE_LINE(S, N, K, k) tc_load_v##S(p + TC_PLACE(N, K, k))
#define TC_SOME(S, N, K, k)                                                                       \
  tc_loadf_v##S(p + TC_PLACE(N, K, k), tc_range_v##S(low * K - TC_PLACE(N, K, k),                 \
                                                     high * K - (K - 1) - TC_PLACE(N, K, k)), fill)
#define TC_EVERY(S, T, N, K)                                                                      \
  TC_FN tc_v##S tc_load##K##_v##S(const tc_##T *p) { TC_JOINED(S, N, K, TC_WHOLE_LINE) }                \
  TC_FN tc_v##S tc_load##K##r_v##S(const tc_##T *p, tc_i64 low, tc_i64 high, tc_v##S fill) {       \
    TC_JOINED(S, N, K, TC_SOME)                                                                   \
  }
#define TC_EVERIES(NS, NL)                                                                        \
  TC_EVERY(NS##f32, f32, NS, 3) TC_EVERY(NS##i32, i32, NS, 3)                                     \
  TC_EVERY(NL##f64, f64, NL, 3) TC_EVERY(NL##i64, i64, NL, 3)                                     \
  TC_EVERY(NS##f32, f32, NS, 4) TC_EVERY(NS##i32, i32, NS, 4)                                     \
  TC_EVERY(NL##f64, f64, NL, 4) TC_EVERY(NL##i64, i64, NL, 4)
TC_EXPAND(TC_EVERIES, TC_VL_f32, TC_VL_f64)

/* Lanes of K vectors by turns, K * n of them at p: lane 0 of each, lane 1 of each. Where K is below 4
 * the last vectors are not looked at. */
#define TC_TURN_2(N, K, k, i)                                                                     \
  (((k) * N + (i)) % K == 0 ? ((k) * N + (i)) / K : ((k) * N + (i)) % K == 1 ? N + ((k) * N + (i)) / K : 0)
#define TC_TURN_3(N, K, k, i) (((k) * N + (i)) % K == 2 ? N + ((k) * N + (i)) / K : (i))
#define TC_TURN_4(N, K, k, i) (((k) * N + (i)) % K == 3 ? N + ((k) * N + (i)) / K : (i))
#define TC_TURNS_2(S, N, K, k) __builtin_shufflevector(a, b, TC_LANES_##N(TC_TURN_2, K, k, N, 0))
#define TC_TURNS_3(S, N, K, k)                                                                    \
  __builtin_shufflevector(TC_TURNS_2(S, N, K, k), c, TC_LANES_##N(TC_TURN_3, K, k, N, 0))
#define TC_TURNS_4(S, N, K, k)                                                                    \
  __builtin_shufflevector(TC_TURNS_3(S, N, K, k), d, TC_LANES_##N(TC_TURN_4, K, k, N, 0))
#define TC_PART(S, N, K, k)                                                                       \
  if (n >= N) tc_store_v##S(p + k * N, TC_TURNS_##K(S, N, K, k));                                 \
  else if (K * n > k * N)                                                                         \
    tc_storet_v##S(p + k * N, tc_tail_v##S(K * n - k * N), TC_TURNS_##K(S, N, K, k));
#define TC_PARTS_2(S, N, K) TC_PART(S, N, K, 0) TC_PART(S, N, K, 1)
#define TC_PARTS_3(S, N, K) TC_PARTS_2(S, N, K) TC_PART(S, N, K, 2)
#define TC_PARTS_4(S, N, K) TC_PARTS_3(S, N, K) TC_PART(S, N, K, 3)
#define TC_ZIP(S, T, N, K)                                                                        \
  TC_FN void tc_zip##K##_v##S(tc_##T *p, tc_i64 n, tc_v##S a, tc_v##S b, tc_v##S c, tc_v##S d) {   \
    TC_PARTS_##K(S, N, K)                                                                         \
    (void)c, (void)d;                                                                             \
  }
#define TC_ZIPS(NS, NL)                                                                           \
  TC_ZIP(NS##f32, f32, NS, 2) TC_ZIP(NS##f32, f32, NS, 3) TC_ZIP(NS##f32, f32, NS, 4)             \
  TC_ZIP(NL##f64, f64, NL, 2) TC_ZIP(NL##f64, f64, NL, 3) TC_ZIP(NL##f64, f64, NL, 4)
TC_EXPAND(TC_ZIPS, TC_VL_f32, TC_VL_f64)

/* Whether a store under a mask takes longer than a whole one: on AVX2 ten times as long on Zen 3;
 * below AVX2 it is a loop. */
#if TC_VECTOR_BYTES == 64 && defined(TC_ISA_AVX512)
#define TC_SLOW_MASKS 0
#else
#define TC_SLOW_MASKS 1
#endif
/* Lanes at p, p + 2, ...; those from n on are not written. */
#if TC_VECTOR_BYTES == 64 && defined(TC_ISA_AVX512)
#define TC_EVEN(S, SI) ((tc_m##S)0x5555)
#else
#define TC_EVEN(S, SI) ((tc_iota_v##SI(0) & 1) == 0)
#endif
#define TC_SPREAD(S, T, N, SI)                                                                    \
  TC_FN void tc_store2_v##S(tc_##T *p, tc_i64 n, tc_v##S v) {                                      \
    if (TC_SLOW_MASKS) return tc_storex_v##S(p, 2, n, v);                                         \
    tc_v##S low = __builtin_shufflevector(v, v, TC_TWICE_##N(0));                                 \
    tc_v##S high = __builtin_shufflevector(v, v, TC_TWICE_##N(N / 2));                            \
    tc_storem_v##S(p, TC_EVEN(S, SI) & tc_tail_v##S(2 * n), low);                                 \
    tc_storem_v##S(p + N, TC_EVEN(S, SI) & tc_tail_v##S(2 * n - N), high);                        \
  }
#define TC_TWICE_2(f) f, f
#define TC_TWICE_4(f) f, f, f + 1, f + 1
#define TC_TWICE_8(f) TC_TWICE_4(f), TC_TWICE_4(f + 2)
#define TC_TWICE_16(f) TC_TWICE_8(f), TC_TWICE_8(f + 4)
#define TC_SPREADS(NS, NL)                                                                        \
  TC_SPREAD(NS##f32, f32, NS, NS##i32) TC_SPREAD(NL##f64, f64, NL, NL##i64)
TC_EXPAND(TC_SPREADS, TC_VL_f32, TC_VL_f64)

/* gcc 12 widens half a register at a time, and narrows by a dozen shuffles. */
#if TC_VECTOR_BYTES == 32 && defined(__AVX2__) && !defined(__clang__)
#define TC_LONGS(h, V) ((V)__builtin_ia32_pmovsxdq256(h))
#elif TC_VECTOR_BYTES == 64 && defined(TC_ISA_AVX512) && !defined(__clang__)
#define TC_LONGS(h, V) ((V)__builtin_ia32_pmovsxdq512_mask(h, (V){0}, (char)-1))
#else
#define TC_LONGS(h, V) __builtin_convertvector(h, V)
#endif
#if TC_VECTOR_BYTES == 32
#define TC_INTS(a, b, NS, NL)                                                                     \
  __builtin_shufflevector((tc_v##NS##i32)(a), (tc_v##NS##i32)(b), 0, 2, 4, 6, 8, 10, 12, 14)
#elif TC_VECTOR_BYTES == 64
#define TC_INTS(a, b, NS, NL)                                                                     \
  __builtin_shufflevector((tc_v##NS##i32)(a), (tc_v##NS##i32)(b), 0, 2, 4, 6, 8, 10, 12, 14, 16,  \
                          18, 20, 22, 24, 26, 28, 30)
#else
#define TC_INTS(a, b, NS, NL)                                                                     \
  __builtin_shufflevector(__builtin_convertvector(a, tc_half_i32),                                \
                          __builtin_convertvector(b, tc_half_i32), TC_LOW_##NL, TC_HIGH_##NL)
#endif
/* Lanes of 32 bits as elements of 64 at p, p + 1, ...: tc_storew writes the first n, tc_loadn reads
 * lanes low <= i < high of what 32 bits hold; the others are 0. */
#define TC_WIDENED(NS, NL)                                                                        \
  typedef tc_i32 tc_half_i32 __attribute__((vector_size(NL * 4)));                                \
  TC_FN void tc_storew_v##NS##i32(tc_i64 *p, tc_i64 n, tc_v##NS##i32 v) {                          \
    tc_half_i32 low = __builtin_shufflevector(v, v, TC_LOW_##NL);                                 \
    tc_half_i32 high = __builtin_shufflevector(v, v, TC_HIGH_##NL);                               \
    tc_v##NL##i64 a = TC_LONGS(low, tc_v##NL##i64), b = TC_LONGS(high, tc_v##NL##i64);            \
    if (TC_SLOW_MASKS && n >= NS) {                                                               \
      tc_store_v##NL##i64(p, a);                                                                  \
      tc_store_v##NL##i64(p + NL, b);                                                             \
      return;                                                                                     \
    }                                                                                             \
    tc_storem_v##NL##i64(p, tc_tail_v##NL##i64(n), a);                                            \
    tc_storem_v##NL##i64(p + NL, tc_tail_v##NL##i64(n - NL), b);                                  \
  }                                                                                               \
  TC_FN tc_v##NS##i32 tc_loadn_v##NS##i32(const tc_i64 *p, tc_i64 low, tc_i64 high) {             \
    if (TC_SLOW_MASKS && low <= 0 && high >= NS)                                                  \
      return TC_INTS(tc_load_v##NL##i64(p), tc_load_v##NL##i64(p + NL), NS, NL);                  \
    tc_v##NL##i64 a = tc_loadm_v##NL##i64(p, tc_range_v##NL##i64(low, high));                      \
    tc_v##NL##i64 b = tc_loadm_v##NL##i64(p + NL, tc_range_v##NL##i64(low - NL, high - NL));       \
    return TC_INTS(a, b, NS, NL);                                                                 \
  }
#define TC_LOW_2 0, 1
#define TC_LOW_4 0, 1, 2, 3
#define TC_LOW_8 0, 1, 2, 3, 4, 5, 6, 7
#define TC_HIGH_2 2, 3
#define TC_HIGH_4 4, 5, 6, 7
#define TC_HIGH_8 8, 9, 10, 11, 12, 13, 14, 15
TC_EXPAND(TC_WIDENED, TC_VL_f32, TC_VL_f64)

/* ---- stores past the cache: p aligned to the vector, tc_stream_end() after the last */

#if defined(__clang__)
#define TC_MOVNT(W, F, p, v) __builtin_nontemporal_store(v, (F *)(p))
#elif TC_VECTOR_BYTES == 64 && defined(__AVX512F__)
#define TC_MOVNT(W, F, p, v) __builtin_ia32_movntp##W##512((void *)(p), v)
#elif TC_VECTOR_BYTES == 32 && defined(__AVX__)
#define TC_MOVNT(W, F, p, v) __builtin_ia32_movntp##W##256((void *)(p), v)
#elif TC_VECTOR_BYTES == 16 && defined(__SSE2__)
#define TC_MOVNT(W, F, p, v) __builtin_ia32_movntp##W((void *)(p), v)
#else
#define TC_MOVNT(W, F, p, v) (*(F *)(p) = (v))
#endif
#define TC_STREAM(S, T, F, W)                                                                     \
  TC_FN void tc_stream_v##S(tc_##T *p, tc_v##S v) { TC_MOVNT(W, F, p, (F)v); }
#define TC_STREAMS(NS, NL)                                                                        \
  TC_STREAM(NS##f32, f32, tc_native_f32, s) TC_STREAM(NL##f64, f64, tc_native_f64, d)             \
  TC_STREAM(NS##i32, i32, tc_native_f32, s) TC_STREAM(NL##i64, i64, tc_native_f64, d)
TC_EXPAND(TC_STREAMS, TC_VL_f32, TC_VL_f64)

#endif
