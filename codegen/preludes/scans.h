/* Scans of the lanes of a vector: each lane with all before it, or with all behind it.
 *
 *   tc_scan_add_v16f32(v): v[0], v[0] + v[1], ..., in as many steps as N has bits, each with the
 *   lanes 1, 2, 4, ... before. tc_rscan_ begins with the last lane. mul, max and min likewise; these
 *   two hand NaN on. tc_last_, tc_first_: that lane in all. tc_lane_: the first as a scalar.
 */
#ifndef TC_SCANS_H
#define TC_SCANS_H
#include "prelude.h"

/* The lanes k before (up) or behind (down); where there are none, those of e. */
#define TC_UP1_2(e, v) __builtin_shufflevector(e, v, 0, 2)
#define TC_DOWN1_2(e, v) __builtin_shufflevector(e, v, 3, 1)
#define TC_UP1_4(e, v) __builtin_shufflevector(e, v, 0, 4, 5, 6)
#define TC_DOWN1_4(e, v) __builtin_shufflevector(e, v, 5, 6, 7, 3)
#define TC_UP2_4(e, v) __builtin_shufflevector(e, v, 0, 1, 4, 5)
#define TC_DOWN2_4(e, v) __builtin_shufflevector(e, v, 6, 7, 2, 3)
#define TC_UP1_8(e, v) __builtin_shufflevector(e, v, 0, 8, 9, 10, 11, 12, 13, 14)
#define TC_DOWN1_8(e, v) __builtin_shufflevector(e, v, 9, 10, 11, 12, 13, 14, 15, 7)
#define TC_UP2_8(e, v) __builtin_shufflevector(e, v, 0, 1, 8, 9, 10, 11, 12, 13)
#define TC_DOWN2_8(e, v) __builtin_shufflevector(e, v, 10, 11, 12, 13, 14, 15, 6, 7)
#define TC_UP4_8(e, v) __builtin_shufflevector(e, v, 0, 1, 2, 3, 8, 9, 10, 11)
#define TC_DOWN4_8(e, v) __builtin_shufflevector(e, v, 12, 13, 14, 15, 4, 5, 6, 7)
#define TC_UP1_16(e, v)                                                                           \
  __builtin_shufflevector(e, v, 0, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30)
#define TC_DOWN1_16(e, v)                                                                         \
  __builtin_shufflevector(e, v, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 15)
#define TC_UP2_16(e, v)                                                                           \
  __builtin_shufflevector(e, v, 0, 1, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29)
#define TC_DOWN2_16(e, v)                                                                         \
  __builtin_shufflevector(e, v, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 14, 15)
#define TC_UP4_16(e, v)                                                                           \
  __builtin_shufflevector(e, v, 0, 1, 2, 3, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27)
#define TC_DOWN4_16(e, v)                                                                         \
  __builtin_shufflevector(e, v, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 12, 13, 14, 15)
#define TC_UP8_16(e, v)                                                                           \
  __builtin_shufflevector(e, v, 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23)
#define TC_DOWN8_16(e, v)                                                                         \
  __builtin_shufflevector(e, v, 24, 25, 26, 27, 28, 29, 30, 31, 8, 9, 10, 11, 12, 13, 14, 15)
#define TC_STEPS_2(way, op, e, v)                                                                 \
  v = op(way##1_2(e, v), v);
#define TC_STEPS_4(way, op, e, v)                                                                 \
  v = op(way##1_4(e, v), v); v = op(way##2_4(e, v), v);
#define TC_STEPS_8(way, op, e, v)                                                                 \
  v = op(way##1_8(e, v), v); v = op(way##2_8(e, v), v); v = op(way##4_8(e, v), v);
#define TC_STEPS_16(way, op, e, v)                                                                \
  v = op(way##1_16(e, v), v); v = op(way##2_16(e, v), v);                                         \
  v = op(way##4_16(e, v), v); v = op(way##8_16(e, v), v);

/* e: what leaves a value as it is, -0 for sums of floats; an extreme meets its own lane again. */
#define TC_SCAN_BY(S, N, name, op, e)                                                             \
  TC_FN tc_v##S tc_scan_##name##_v##S(tc_v##S v) {                                                 \
    TC_STEPS_##N(TC_UP, op, e, v)                                                                 \
    return v;                                                                                     \
  }                                                                                               \
  TC_FN tc_v##S tc_rscan_##name##_v##S(tc_v##S v) {                                                \
    TC_STEPS_##N(TC_DOWN, op, e, v)                                                               \
    return v;                                                                                     \
  }
#define TC_SCANS(S, T, N)                                                                           \
  TC_SCAN_BY(S, N, add, TC_PLUS, -(tc_v##S){0})                                                   \
  TC_SCAN_BY(S, N, mul, TC_TIMES, 1 + (tc_v##S){0})                                               \
  TC_SCAN_BY(S, N, max, tc_max_v##S, v)                                                           \
  TC_SCAN_BY(S, N, min, tc_min_v##S, v)                                                           \
  TC_FN tc_v##S tc_last_v##S(tc_v##S v) { return tc_splat_v##S(v[N - 1]); }                        \
  TC_FN tc_v##S tc_first_v##S(tc_v##S v) { return tc_splat_v##S(v[0]); }                      \
  TC_FN tc_##T tc_lane_v##S(tc_v##S v) { return v[0]; }
#define TC_ALL_SCANS(NS, NL)                                                                      \
  TC_SCANS(NS##f32, f32, NS) TC_SCANS(NS##i32, i32, NS)                                           \
  TC_SCANS(NL##f64, f64, NL) TC_SCANS(NL##i64, i64, NL)
TC_EXPAND(TC_ALL_SCANS, TC_VL_f32, TC_VL_f64)

#endif
