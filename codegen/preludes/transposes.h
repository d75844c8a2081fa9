/* Squares turned around in registers, points that lie apart copied next to each other. Of prelude.h. */
#ifndef TC_TRANSPOSES_H
#define TC_TRANSPOSES_H

/* ---- transposes: tc_transpose_v16f32(r) turns the square r[0], ..., r[15] around in registers */

#if TC_VECTOR_BYTES == 64
#define TC_ZIP_LOW_f32 0, 16, 1, 17, 4, 20, 5, 21, 8, 24, 9, 25, 12, 28, 13, 29
#define TC_ZIP_HIGH_f32 2, 18, 3, 19, 6, 22, 7, 23, 10, 26, 11, 27, 14, 30, 15, 31
#define TC_ZIP_LOW_f64 0, 8, 2, 10, 4, 12, 6, 14
#define TC_ZIP_HIGH_f64 1, 9, 3, 11, 5, 13, 7, 15
#elif TC_VECTOR_BYTES == 32
#define TC_ZIP_LOW_f32 0, 8, 1, 9, 4, 12, 5, 13
#define TC_ZIP_HIGH_f32 2, 10, 3, 11, 6, 14, 7, 15
#define TC_ZIP_LOW_f64 0, 4, 2, 6
#define TC_ZIP_HIGH_f64 1, 5, 3, 7
#else
#define TC_ZIP_LOW_f32 0, 4, 1, 5
#define TC_ZIP_HIGH_f32 2, 6, 3, 7
#define TC_ZIP_LOW_f64 0, 2
#define TC_ZIP_HIGH_f64 1, 3
#endif
/* Interleave the lanes of a and b within blocks of 16 bytes: low ones to a, high ones to b. */
TC_FN void tc_zip_f32(tc_native_f32 *a, tc_native_f32 *b) {
  tc_native_f32 low = __builtin_shufflevector(*a, *b, TC_ZIP_LOW_f32);
  *b = __builtin_shufflevector(*a, *b, TC_ZIP_HIGH_f32);
  *a = low;
}
TC_FN void tc_zip_f64(tc_native_f64 *a, tc_native_f64 *b) {
  tc_native_f64 low = __builtin_shufflevector(*a, *b, TC_ZIP_LOW_f64);
  *b = __builtin_shufflevector(*a, *b, TC_ZIP_HIGH_f64);
  *a = low;
}
/* Transpose the blocks of 16 bytes of r[0], r[step], ...: one vector per block. */
TC_FN void tc_turn_blocks(tc_native_f64 *r, int step) {
#if TC_VECTOR_BYTES == 64
  tc_native_f64 a = r[0], b = r[step], c = r[2 * step], d = r[3 * step];
  tc_native_f64 ab_even = __builtin_shufflevector(a, b, 0, 1, 4, 5, 8, 9, 12, 13);
  tc_native_f64 ab_odd = __builtin_shufflevector(a, b, 2, 3, 6, 7, 10, 11, 14, 15);
  tc_native_f64 cd_even = __builtin_shufflevector(c, d, 0, 1, 4, 5, 8, 9, 12, 13);
  tc_native_f64 cd_odd = __builtin_shufflevector(c, d, 2, 3, 6, 7, 10, 11, 14, 15);
  r[0] = __builtin_shufflevector(ab_even, cd_even, 0, 1, 4, 5, 8, 9, 12, 13);
  r[step] = __builtin_shufflevector(ab_odd, cd_odd, 0, 1, 4, 5, 8, 9, 12, 13);
  r[2 * step] = __builtin_shufflevector(ab_even, cd_even, 2, 3, 6, 7, 10, 11, 14, 15);
  r[3 * step] = __builtin_shufflevector(ab_odd, cd_odd, 2, 3, 6, 7, 10, 11, 14, 15);
#elif TC_VECTOR_BYTES == 32
  tc_native_f64 a = r[0], b = r[step];
  r[0] = __builtin_shufflevector(a, b, 0, 1, 4, 5);
  r[step] = __builtin_shufflevector(a, b, 2, 3, 6, 7);
#else
  (void)r, (void)step;
#endif
}
TC_FN void tc_transpose_f64(tc_native_f64 *r) {
#pragma GCC unroll 8
  for (int i = 0; i < TC_VL_f64; i += 2) tc_zip_f64(r + i, r + i + 1);
  tc_turn_blocks(r, 2);
  tc_turn_blocks(r + 1, 2);
}
TC_FN void tc_transpose_f32(tc_native_f32 *r) {
  tc_native_f64 q[TC_VL_f32];
#pragma GCC unroll 16
  for (int i = 0; i < TC_VL_f32; i += 2) tc_zip_f32(r + i, r + i + 1);
#pragma GCC unroll 16
  for (int i = 0; i < TC_VL_f32; i += 4) { /* four columns of four rows, in their order */
    q[i] = (tc_native_f64)r[i];
    q[i + 1] = (tc_native_f64)r[i + 2];
    q[i + 2] = (tc_native_f64)r[i + 1];
    q[i + 3] = (tc_native_f64)r[i + 3];
    tc_zip_f64(q + i, q + i + 1);
    tc_zip_f64(q + i + 2, q + i + 3);
  }
#pragma GCC unroll 4
  for (int c = 0; c < 4; c++) tc_turn_blocks(q + c, 4);
#pragma GCC unroll 16
  for (int i = 0; i < TC_VL_f32; i++) r[i] = (tc_native_f32)q[i];
}
#define TC_TRANSPOSE(NS, NL)                                                                      \
  TC_FN void tc_transpose_v##NS##f32(tc_v##NS##f32 *r) { tc_transpose_f32(r); }                   \
  TC_FN void tc_transpose_v##NL##f64(tc_v##NL##f64 *r) { tc_transpose_f64(r); }
TC_EXPAND(TC_TRANSPOSE, TC_VL_f32, TC_VL_f64)

/* a / b for a >= 0, b > 0, where a is mostly less. */
TC_FN tc_i64 tc_quotient_i64(tc_i64 a, tc_i64 b) { return a < b ? 0 : a / b; }

/* ---- points of a row that lie apart, copied next to each other: elements of 1, 2, 4, 8 bytes
 *
 * tc_fill: n times the point at from. tc_line: n points at from, from + step, ... tc_spread: n points to to, to + step, ... tc_turn: of
 * rows whose points at the same place are neighbours (from[r + c * step]), n points each, row r to
 * to + r * pitch; whole vectors of whole squares may be written there. tc_across: the same where
 * nothing but these points may be written. tc_past: so it is where no cache holds what is written,
 * with room for rows * n points: tc_stream_end() after the last. */

typedef tc_u8 tc_bytes_1 __attribute__((may_alias));
typedef tc_u16 tc_bytes_2 __attribute__((may_alias));
typedef tc_u32 tc_bytes_4 __attribute__((may_alias));
typedef tc_u64 tc_bytes_8 __attribute__((may_alias));
#define TC_COPIES(B)                                                                              \
  TC_FN void tc_fill_##B(void *to, const void *from, tc_i64 n) {                                  \
    tc_bytes_##B *o = to, value = *(const tc_bytes_##B *)from;                                    \
    for (tc_i64 i = 0; i < n; i++) o[i] = value;                                                  \
  }                                                                                               \
  __attribute__((noinline, unused)) static void tc_line_##B(void *to, const void *from, tc_i64 step, tc_i64 n) {    \
    tc_bytes_##B *o = to;                                                                         \
    const tc_bytes_##B *p = from;                                                                 \
    if (step == 2)                                                                                \
      for (tc_i64 i = 0; i < n; i++) o[i] = p[2 * i];                                             \
    else if (step == -1)                                                                          \
      for (tc_i64 i = 0; i < n; i++) o[i] = p[-i];                                                \
    else                                                                                          \
      for (tc_i64 i = 0; i < n; i++) o[i] = p[i * step];                                          \
  }                                                                                               \
  __attribute__((noinline, unused)) static void tc_spread_##B(void *to, tc_i64 step, const void *from, tc_i64 n) {  \
    tc_bytes_##B *o = to;                                                                         \
    const tc_bytes_##B *p = from;                                                                 \
    for (tc_i64 i = 0; i < n; i++) o[i * step] = p[i];                                            \
  }                                                                                               \
  __attribute__((noinline, unused)) static void tc_turn_some_##B(                                 \
      tc_bytes_##B *to, tc_i64 pitch, const tc_bytes_##B *from, tc_i64 step, tc_i64 rows, tc_i64 low, tc_i64 n) {    \
    for (tc_i64 c = low; c < n; c++)                                                              \
      for (tc_i64 r = 0; r < rows; r++) {                                                         \
        to[r * pitch + c] = from[c * step + r];                                                   \
        __asm__ volatile(""); /* vectors here are no faster, and take gcc a tenth of its time */  \
      }                                                                                           \
  }
TC_COPIES(1) TC_COPIES(2) TC_COPIES(4) TC_COPIES(8)
#define TC_TURNS(B)                                                                               \
  __attribute__((noinline, unused)) static void tc_turn_##B(void *to, tc_i64 pitch, const void *from, tc_i64 step,  \
                                                            tc_i64 rows, tc_i64 n) {              \
    tc_turn_some_##B(to, pitch, from, step, rows, 0, n);                                          \
  }                                                                                               \
  TC_FN void tc_across_##B(void *to, tc_i64 pitch, const void *from, tc_i64 step, tc_i64 rows, tc_i64 n) {          \
    tc_turn_##B(to, pitch, from, step, rows, n);                                                  \
  }
TC_TURNS(1) TC_TURNS(2)
/* T: the float of B bytes: vectors of it are moved, never computed with. Rows and columns that make
 * no whole square are parts of one, where that takes no longer than point by point. Asked for ahead:
 * columns are pages apart, and no hardware fetches the next ones. Behind the last ones lie pages that
 * may be nobody's: there the next points of the same columns are. */
#define TC_TURNS_IN_SQUARES(B, T, N)                                                              \
  __attribute__((noinline, unused)) static void tc_turn_##B(void *to, tc_i64 pitch, const void *from, tc_i64 step,  \
                                                            tc_i64 rows, tc_i64 n) {              \
    tc_bytes_##B *o = to;                                                                         \
    const tc_bytes_##B *p = from;                                                                 \
    for (; rows > 0; rows -= N, p += N, o += N * pitch) {                                         \
      tc_m##N##T mask = tc_tail_v##N##T(rows);                                                    \
      tc_i64 height = rows < N ? rows : N, c = 0;                                                 \
      for (; height * (n - c) >= N * N / 4; c += N) {                                             \
        tc_native_##T square[N];                                                                  \
        const tc_bytes_##B *at = p + c * step;                                                    \
        const tc_i64 next = c + 2 * N <= n ? N * step : N;                                        \
        _Pragma("GCC unroll 16") for (int k = 0; k < N; k++) { /* the last column again and again */ \
          __builtin_prefetch(at + next);                                                          \
          square[k] = tc_loadm_v##N##T((const tc_##T *)at, mask);                                 \
          at += c + k + 1 < n ? step : 0;                                                         \
        }                                                                                         \
        tc_transpose_##T(square);                                                                 \
        _Pragma("GCC unroll 16") for (int k = 0; k < N; k++)                                      \
          __builtin_memcpy(o + k * pitch + c, &square[k], sizeof square[k]);                      \
      }                                                                                           \
      tc_turn_some_##B(o, pitch, p, step, height, c, n);                                          \
    }                                                                                             \
  }
/* The last squares go back to be whole. Few rows come point by point, but leave as vectors: points
 * would fill the store buffer. Of rows shorter than a vector that lie behind each other all
 * but the last are written whole, in their order: each one's end is the next one's begin. */
#define TC_ACROSS_IN_SQUARES(B, T, N)                                                             \
  __attribute__((noinline, unused)) static void tc_across_##B(void *to, tc_i64 pitch, const void *from, tc_i64 step, \
                                                              tc_i64 rows, tc_i64 n) {            \
    const tc_i64 height = rows < N ? rows : N, width = n < N ? n : N;                             \
    if (height * width < N * N / 4) {                                                             \
      if (n < N) return tc_turn_some_##B(to, pitch, from, step, rows, 0, n);                      \
      for (tc_i64 r = 0; r < rows; r++)                                                           \
        for (tc_i64 c0 = 0; c0 < n; c0 += N) {                                                    \
          const tc_i64 c = tc_min_i64(c0, n - N);                                                 \
          typedef tc_##T tc_lent __attribute__((may_alias)); /* of any type */                    \
          const tc_lent *at = (const tc_lent *)from + r + c * step;                               \
          tc_native_##T v = {0};                                                                  \
          _Pragma("GCC unroll 16") for (int k = 0; k < N; k++) v[k] = at[k * step];               \
          __builtin_memcpy((tc_bytes_##B *)to + r * pitch + c, &v, sizeof v);                     \
        }                                                                                         \
      return;                                                                                     \
    }                                                                                             \
    tc_m##N##T high = tc_tail_v##N##T(height), wide = tc_tail_v##N##T(width);                     \
    for (tc_i64 r0 = 0; r0 < rows; r0 += N)                                                       \
      for (tc_i64 c0 = 0; c0 < n; c0 += N) {                                                      \
        const tc_i64 r = tc_min_i64(r0, rows - height), c = tc_min_i64(c0, n - width);            \
        const tc_bytes_##B *at = (const tc_bytes_##B *)from + r + c * step;                       \
        tc_bytes_##B *o = (tc_bytes_##B *)to + r * pitch + c;                                     \
        tc_native_##T square[N];                                                                  \
        if (height == N && width == N) {                                                          \
          const tc_i64 next = c + 2 * N <= n ? N * step : N;                                      \
          _Pragma("GCC unroll 16") for (int k = 0; k < N; k++) {                                  \
            __builtin_prefetch(at + k * step + next);                                             \
            __builtin_memcpy(&square[k], at + k * step, sizeof square[k]);                        \
          }                                                                                       \
          tc_transpose_##T(square);                                                               \
          _Pragma("GCC unroll 16") for (int k = 0; k < N; k++)                                    \
            __builtin_memcpy(o + k * pitch, &square[k], sizeof square[k]);                        \
          continue;                                                                               \
        }                                                                                         \
        _Pragma("GCC unroll 16") for (int k = 0; k < N; k++) { /* the last column again and again */ \
          square[k] = tc_loadm_v##N##T((const tc_##T *)at, high);                                 \
          at += k + 1 < width ? step : 0;                                                         \
        }                                                                                         \
        tc_transpose_##T(square);                                                                 \
        for (tc_i64 k = 0; k < height; k++, o += pitch)                                           \
          if (width == N || (pitch == n && (r + k) * n + N <= rows * n))                          \
            __builtin_memcpy(o, &square[k], sizeof square[k]);                                    \
          else                                                                                    \
            tc_storet_v##N##T((tc_##T *)o, wide, square[k]);                                      \
      }                                                                                           \
  }
#define TC_TURNS_OF(NS, NL)                                                                       \
  TC_TURNS_IN_SQUARES(4, f32, NS) TC_TURNS_IN_SQUARES(8, f64, NL)                                 \
  TC_ACROSS_IN_SQUARES(4, f32, NS) TC_ACROSS_IN_SQUARES(8, f64, NL)
TC_EXPAND(TC_TURNS_OF, TC_VL_f32, TC_VL_f64)

/* Whole lines of what lies next to each other pass the caches; what is left of lines at both ends may
 * be a neighbour's too. All halves of a line at once: one that waits for the other is written alone. */
typedef tc_native_f32 tc_part __attribute__((may_alias));
__attribute__((noinline, unused)) static void tc_copy_past(char *to, const char *from, tc_i64 n) {
  const tc_i64 head = tc_min_i64(-(tc_i64)to & 63, n);
  __builtin_memcpy(to, from, head);
  for (to += head, from += head, n -= head; n >= 64; to += 64, from += 64, n -= 64) {
    _Pragma("GCC unroll 4") for (int k = 0; k < 64; k += TC_VECTOR_BYTES) {
      tc_part part;
      __builtin_memcpy(&part, from + k, sizeof part);
      TC_MOVNT(s, tc_part, to + k, part);
    }
  }
  __builtin_memcpy(to, from, n);
}
/* Through room: rows anywhere in their lines, in vectors of any width. Rows behind each other are one.
 * Points go one by one in as many rows as gcc unrolls. Short rows have no lines, and few rows go
 * straight to their place, but for pairs, which vectors take apart. */
#define TC_PAST(B)                                                                                \
  __attribute__((noinline, unused)) static void tc_past_##B(void *room, void *to, tc_i64 pitch,   \
      const void *from, tc_i64 step, tc_i64 rows, tc_i64 n) {                                     \
    const int few = rows < 4, pairs = few && step == 2;                                           \
    const int straight = (pitch != n && n * B < 128) || (few && !pairs);                          \
    const tc_i64 apart = straight ? pitch : n, band = pairs ? 1 : B < 4 ? 16 : rows;              \
    const char *p = from;                                                                         \
    char *o = straight ? to : room;                                                               \
    for (tc_i64 r = 0; r < rows; r += band)                                                       \
      if (pairs)                                                                                  \
        tc_line_##B(o + r * apart * B, p + r * B, step, n);                                       \
      else                                                                                        \
        tc_across_##B(o + r * apart * B, apart, p + r * B, step, tc_min_i64(band, rows - r), n);  \
    if (straight) return;                                                                         \
    const tc_i64 parts = pitch == n ? 1 : rows, bytes = rows * n * B / parts;                     \
    for (tc_i64 r = 0; r < parts; r++)                                                            \
      tc_copy_past((char *)to + r * pitch * B, (const char *)room + r * bytes, bytes);            \
  }
TC_PAST(1) TC_PAST(2) TC_PAST(4) TC_PAST(8)

#endif
