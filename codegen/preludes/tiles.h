/* Products of tiles: up to 32 rows by up to 32 columns of sums, along words of two halves or four
 * bytes (words.h), by instructions that take 16 rows, 16 words and 16 columns at once (AMX).
 *
 * Tiles are registers of a thread that others use too, and a request of the process (host.py) comes
 * before the first use: `tc_shape_tiles` gives them the shape for a product, `tc_drop_tiles` gives
 * them back, both in the same task. Where the instructions are missing, or TC_PORTABLE_TILES is
 * defined, both do nothing, and products are plain vectors.
 *
 * Rows of a follow each other by so many bytes, b is a panel of words, b_k words a row. What is left
 * of 16 words has tiles of its own shape; what is left of 16 rows or columns is taken together with
 * some of those before, whose sums are the same again.
 */
#ifndef TC_TILES_H
#define TC_TILES_H
#include "words.h"

#define TC_TILE 16       /* rows, columns, words */
#define TC_TILE_BYTES 64 /* of a row */
#define TC_TILED_FIRST 1 /* of the flag word of micro-kernels */
#define TC_TILED_WIDENS 4

#if defined(__AMX_TILE__) && defined(__AMX_INT8__) && defined(__AMX_BF16__) &&                    \
    !defined(TC_PORTABLE_TILES)
#define TC_HAS_TILES
#ifdef __AMX_FP16__
#define TC_HAS_FLOAT16_TILES
#endif
#endif

TC_FN tc_i64 tc_tiled_part(tc_i64 n) { return n < TC_TILE ? n : TC_TILE; }

/* Give tiles the shape for rows, columns and depth words, unless they have it: held is the answer of
 * the last call, 0 at first. 0 to 3: sums; 4, 5: a and b of whole rows of words; 6, 7: the rest. */
TC_FN tc_i64 tc_shape_tiles(tc_i64 held, tc_i64 rows, tc_i64 columns, tc_i64 depth) {
  tc_i64 r = tc_tiled_part(rows), c = tc_tiled_part(columns), rest = depth % TC_TILE;
  tc_i64 shape = 1 << 24 | rest << 16 | r << 8 | c;
#ifdef TC_HAS_TILES
  if (shape == held) return held;
  struct {
    tc_u8 palette, start, none[14];
    unsigned short bytes[16];
    tc_u8 rows[16];
  } config __attribute__((aligned(64))) = {.palette = 1};
  for (int i = 0; i < 8; i++) {
    int of_a = i == 4 || i == 6, of_b = i == 5 || i == 7;
    config.rows[i] = (tc_u8)(i == 7 ? rest : of_b ? TC_TILE : r);
    config.bytes[i] = (unsigned short)(i == 6 ? 4 * rest : of_a ? TC_TILE_BYTES : 4 * c);
    if (i >= 6 && !rest) config.rows[i] = 0, config.bytes[i] = 0;
  }
  __asm__ volatile("ldtilecfg %0" ::"m"(config));
#endif
  return shape;
}

TC_FN void tc_drop_tiles(void) {
#ifdef TC_HAS_TILES
  __asm__ volatile("tilerelease" ::: "memory");
#endif
}

#ifdef TC_HAS_TILES
#define TC_TILE_LOAD(t, p, row)                                                                   \
  __asm__ volatile("tileloadd (%0,%1,1), %%tmm" #t ::"r"(p), "r"(row) : "memory")
#define TC_TILE_STORE(t, p, row)                                                                  \
  __asm__ volatile("tilestored %%tmm" #t ", (%0,%1,1)" ::"r"(p), "r"(row) : "memory")
#define TC_TILE_DOT(op, c, a, b) __asm__ volatile(TC_TILE_DOT_##op(c, a, b))
#define TC_TILE_DOT_ss(c, a, b) TC_TILE_NAMED("tdpbssd", c, a, b)
#define TC_TILE_DOT_su(c, a, b) TC_TILE_NAMED("tdpbsud", c, a, b)
#define TC_TILE_DOT_us(c, a, b) TC_TILE_NAMED("tdpbusd", c, a, b)
#define TC_TILE_DOT_uu(c, a, b) TC_TILE_NAMED("tdpbuud", c, a, b)
#define TC_TILE_DOT_bf(c, a, b) TC_TILE_NAMED("tdpbf16ps", c, a, b)
#define TC_TILE_NAMED(name, c, a, b) name " %tmm" #b ", %tmm" #a ", %tmm" #c
/* tdpfp16ps, a name that assemblers of before 2023 do not know. */
#define TC_TILE_DOT_f16(c, a, b)                                                                  \
  ".byte 0xc4, 0xe2, 0x7b - 8 * " #b ", 0x5c, 0xc0 + 8 * " #c " + " #a
#define TC_TILE_DOTS(op, A, B)                                                                    \
  TC_TILE_LOAD(A, a, a_row);                                                                      \
  TC_TILE_LOAD(B, b, b_row);                                                                      \
  TC_TILE_DOT(op, 0, A, B);                                                                       \
  if (is_wide) {                                                                                  \
    TC_TILE_LOAD(B, b + right, b_row);                                                            \
    TC_TILE_DOT(op, 1, A, B);                                                                     \
  }                                                                                               \
  if (is_high) {                                                                                  \
    TC_TILE_LOAD(A, a + below * a_row, a_row);                                                    \
    if (is_wide) TC_TILE_DOT(op, 3, A, B);                                                        \
    TC_TILE_LOAD(B, b, b_row);                                                                    \
    TC_TILE_DOT(op, 2, A, B);                                                                     \
  }
#define TC_TILE_SUMS(MOVE, p, row)                                                                \
  {                                                                                               \
    const char *at = (const char *)(p);                                                           \
    MOVE(0, at, row);                                                                             \
    if (is_wide) MOVE(1, at + right, row);                                                        \
    if (is_high) MOVE(2, at + below * row, row);                                                  \
    if (is_high && is_wide) MOVE(3, at + below * row + right, row);                               \
  }
#define TC_TILED_BY(op)                                                                           \
  const char *a = (const char *)a_at, *b = (const char *)b_at;                                    \
  tc_i64 b_row = 4 * b_k, c_bytes = 4 * c_row, base_bytes = 4 * base_row;                         \
  tc_i64 below = rows - TC_TILE, right = 4 * (columns - TC_TILE);                                 \
  int is_high = below > 0, is_wide = right > 0;                                                   \
  if (flags & TC_TILED_FIRST)                                                                     \
    __asm__ volatile("tilezero %tmm0\n tilezero %tmm1\n tilezero %tmm2\n tilezero %tmm3");        \
  else                                                                                            \
    TC_TILE_SUMS(TC_TILE_LOAD, base, base_bytes)                                                  \
  for (; depth >= TC_TILE; depth -= TC_TILE) {                                                    \
    TC_TILE_DOTS(op, 4, 5)                                                                        \
    a += TC_TILE_BYTES;                                                                           \
    b += TC_TILE * b_row;                                                                         \
  }                                                                                               \
  if (depth) {                                                                                    \
    TC_TILE_DOTS(op, 6, 7)                                                                        \
  }                                                                                               \
  TC_TILE_SUMS(TC_TILE_STORE, c, c_bytes)
#endif

/* ---- the same by vectors: F adds products of words, R rows at once */

#define TC_TILED_ROWS(name, T, F)                                                                 \
  TC_FN void name##_rows(const char *a, tc_i64 a_row, const tc_i32 *b, tc_i64 b_k, tc_##T *c,     \
                         tc_i64 c_row, const tc_##T *base, tc_i64 base_row, tc_i64 depth,         \
                         tc_i64 flags, tc_i64 columns, const int R) {                             \
    enum { LANES = sizeof(tc_native_##T) / 4 };                                                   \
    for (tc_i64 x = 0; x < columns; x += LANES) {                                                 \
      tc_native_##T sums[4] = {0};                                                                \
      tc_i64 left = columns - x < LANES ? columns - x : LANES;                                    \
      for (tc_i64 k = 0; k < depth; k++) {                                                        \
        tc_native_i32 v = {0};                                                                    \
        if (left == LANES)                                                                        \
          __builtin_memcpy(&v, b + k * b_k + x, sizeof v);                                        \
        else                                                                                      \
          __builtin_memcpy(&v, b + k * b_k + x, (unsigned long)left * 4);                         \
        _Pragma("GCC unroll 4") for (int r = 0; r < R; r++) {                                     \
          tc_i32 word;                                                                            \
          __builtin_memcpy(&word, a + r * a_row + 4 * k, 4);                                      \
          sums[r] = F(sums[r], (tc_native_i32){0} + word, v);                                     \
        }                                                                                         \
      }                                                                                           \
      for (int r = 0; r < R; r++) {                                                               \
        tc_native_##T before = {0};                                                               \
        if (!(flags & TC_TILED_FIRST))                                                            \
          __builtin_memcpy(&before, base + r * base_row + x, (unsigned long)left * 4);            \
        sums[r] = before + sums[r];                                                               \
        __builtin_memcpy(c + r * c_row + x, &sums[r], (unsigned long)left * 4);                   \
      }                                                                                           \
    }                                                                                             \
  }                                                                                               \
  TC_FN void name##_plain(const char *a, tc_i64 a_row, const tc_i32 *b, tc_i64 b_k, tc_##T *c,    \
                          tc_i64 c_row, const tc_##T *base, tc_i64 base_row, tc_i64 depth,        \
                          tc_i64 flags, tc_i64 columns, tc_i64 rows) {                            \
    tc_i64 r = 0;                                                                                 \
    for (; r + 4 <= rows; r += 4)                                                                 \
      name##_rows(a + r * a_row, a_row, b, b_k, c + r * c_row, c_row, base + r * base_row,        \
                  base_row, depth, flags, columns, 4);                                            \
    for (; r < rows; r++)                                                                         \
      name##_rows(a + r * a_row, a_row, b, b_k, c + r * c_row, c_row, base + r * base_row,        \
                  base_row, depth, flags, columns, 1);                                            \
  }

/* The steps of words: signed, unsigned. */
#define TC_STEP_s(w, i) ((w) << (24 - (i)) >> 24)
#define TC_STEP_u(w, i) ((w) >> (i) & 0xff)
#define TC_TILED_FOUR(x, y)                                                                       \
  TC_FN tc_native_i32 tc_four_##x##y(tc_native_i32 acc, tc_native_i32 v, tc_native_i32 w) {       \
    for (int i = 0; i < 32; i += 8) acc += TC_STEP_##x(v, i) * TC_STEP_##y(w, i);                 \
    return acc;                                                                                   \
  }
TC_TILED_FOUR(s, s)
TC_TILED_FOUR(s, u)
TC_TILED_FOUR(u, s)
TC_TILED_FOUR(u, u)

/* ---- c[r][x] = base[r][x], or 0, + sums along depth words; tiles have the shape for it.
 * tc_tiled4su: of bytes, those of a signed, those of b unsigned; tc_tiled2bf: of bfloat16;
 * tc_tiled2f16: of float16. */

#define TC_TILED_PARAMS(T)                                                                        \
  const tc_i32 *a_at, tc_i64 a_row, const tc_i32 *b_at, tc_i64 b_k, tc_##T *c, tc_i64 c_row,      \
      const tc_##T *base, tc_i64 base_row, tc_i64 depth, tc_i64 flags, tc_i64 columns, tc_i64 rows
#define TC_TILED_ARGS                                                                             \
  (const char *)a_at, a_row, b_at, b_k, c, c_row, base, base_row, depth, flags, columns, rows
#ifdef TC_HAS_TILES
#define TC_TILED_BYTES(s)                                                                         \
  TC_FN void tc_tiled4##s(TC_TILED_PARAMS(i32)) { TC_TILED_BY(s) }
#else
#define TC_TILED_BYTES(s)                                                                         \
  TC_TILED_ROWS(tc_tiled4##s, i32, tc_four_##s)                                                   \
  TC_FN void tc_tiled4##s(TC_TILED_PARAMS(i32)) { tc_tiled4##s##_plain(TC_TILED_ARGS); }
#endif
TC_TILED_BYTES(ss)
TC_TILED_BYTES(su)
TC_TILED_BYTES(us)
TC_TILED_BYTES(uu)

TC_TILED_ROWS(tc_tiled2bf, f32, tc_wide2bf_native)
#ifdef TC_HAS_TILES
/* Whether no sum that there is already has a magnitude below that of these bits, but 0. */
TC_FN int tc_tiled_resumes(const tc_f32 *base, tc_i64 base_row, tc_i64 rows, tc_i64 columns,
                           const tc_i32 least) {
  enum { LANES = sizeof(tc_native_i32) / 4 };
  tc_native_i32 small = {0}; /* its signs: of magnitudes from 1 up to below the least */
  for (tc_i64 r = 0; r < rows; r++)
    for (tc_i64 x = 0; x < columns; x += LANES) {
      tc_native_i32 v = {0};
      if (columns - x >= LANES)
        __builtin_memcpy(&v, base + r * base_row + x, sizeof v);
      else
        __builtin_memcpy(&v, base + r * base_row + x, (unsigned long)(columns - x) * 4);
      v = (v & 0x7fffffff) - 1;
      small |= (v - (least - 1)) & ~v;
    }
  tc_i32 any = 0;
  for (int i = 0; i < LANES; i++) any |= small[i];
  return any >= 0;
}
#endif
/* Sums go on from multiples of 2^-126, which is the last bit of 2^-103: another may be denormal, or
 * become so, and the instruction takes it for zero. */
TC_FN void tc_tiled2bf(TC_TILED_PARAMS(f32)) {
#ifdef TC_HAS_TILES
  if (!(flags & TC_TILED_WIDENS) &&
      (flags & TC_TILED_FIRST || tc_tiled_resumes(base, base_row, rows, columns, 24 << 23))) {
    TC_TILED_BY(bf)
    return;
  }
#endif
  tc_tiled2bf_plain(TC_TILED_ARGS);
}

/* Products are multiples of 2^-48: only a denormal sum from elsewhere is taken for zero. */
TC_TILED_ROWS(tc_tiled2f16, f32, tc_wide2f16_native)
TC_FN void tc_tiled2f16(TC_TILED_PARAMS(f32)) {
#ifdef TC_HAS_FLOAT16_TILES
  if (flags & TC_TILED_FIRST || tc_tiled_resumes(base, base_row, rows, columns, 1 << 23)) {
    TC_TILED_BY(f16)
    return;
  }
#endif
  tc_tiled2f16_plain(TC_TILED_ARGS);
}

/* tc_least_bf16 of rows, so many bytes apart. */
TC_FN tc_i64 tc_least_rows_bf16(const tc_i32 *words, tc_i64 row, tc_i64 rows, tc_i64 n) {
  tc_i64 least = 511;
  for (tc_i64 r = 0; r < rows; r++) {
    tc_i64 here = tc_least_bf16((const tc_i32 *)((const char *)words + r * row), n);
    least = here < least ? here : least;
  }
  return least;
}
#endif
