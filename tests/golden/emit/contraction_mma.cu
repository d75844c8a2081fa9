/* def mm(float16(M,K) A, float16(N,K) B) -> (C) { C(m,n) +=! A(m,k) * B(n,k) }
 *
 * sizes: M=100 K=64 N=200
 * config: g0.depth=32 g0.splits=1 g0.stages=3 g0.tile=64x64 g0.warp=32x32
 * C(m,n) +=! A(m,k) * B(n,k)    [mma 64x64x32 of 32x32]
 */
#include "prelude.cuh"

extern "C" __global__ void __launch_bounds__(128, 1) k_g0_contract(const tc_f16 *__restrict__ A, const tc_f16 *__restrict__ B, tc_f16 *__restrict__ C) {
  const tc_i32 block = tc_block();
  const tc_i32 thread = tc_thread();
  const tc_i32 first = block / 32 * 8;
  const tc_i32 height = tc_min_i32(2 - first, 8);
  const tc_i32 m0 = (first + block % 32 % height) * 64;
  const tc_i32 n0 = block % 32 / height * 64;
  const tc_i32 lane = thread % 32;
  const tc_i32 warp_m = thread / 32 / 2 * 32;
  const tc_i32 warp_n = thread / 32 % 2 * 32;
  const tc_b a_wide = (tc_u64)A % 16ull == 0ull;
  const tc_b b_wide = (tc_u64)B % 16ull == 0ull;
  tc_f16 *a_tile = tc_shared_f16();
  tc_f16 *b_tile = a_tile + 6144;
  float acc[2][4][4];
  #pragma unroll 2
  for (tc_i32 i = 0; i < 2; i++) {
    #pragma unroll 4
    for (tc_i32 j = 0; j < 4; j++) {
      #pragma unroll 4
      for (tc_i32 q = 0; q < 4; q++) {
        acc[i][j][q] = 0.0f;
      }
    }
  }
  tc_u32 a_own[2][4];
  tc_u32 b_own[2][4];
  /* the first tiles */
  #pragma unroll 2
  for (tc_i32 i = 0; i < 2; i++) {
    const tc_i32 row = thread / 4 + i * 32;
    const tc_i32 chunk = thread % 4;
    const tc_i32 k = chunk * 8;
    const tc_i32 m = m0 + row;
    if (a_wide) {
      tc_copy_async16(a_tile + (row * 4 + (chunk ^ row / 2 % 4)) * 8, A + (m < 100 ? m * 64 + k : 0), m < 100 ? 16 : 0);
    } else {
      __align__(16) tc_f16 a_piece[8];
      #pragma unroll 8
      for (tc_i32 e = 0; e < 8; e++) {
        a_piece[e] = m < 100 ? A[m * 64 + (k + e)] : (tc_f16)(tc_u16)0;
      }
      tc_copy16(a_tile + (row * 4 + (chunk ^ row / 2 % 4)) * 8, &a_piece[0]);
    }
  }
  #pragma unroll 2
  for (tc_i32 i = 0; i < 2; i++) {
    const tc_i32 row = thread / 4 + i * 32;
    const tc_i32 chunk = thread % 4;
    const tc_i32 k = chunk * 8;
    const tc_i32 n = n0 + row;
    if (b_wide) {
      tc_copy_async16(b_tile + (row * 4 + (chunk ^ row / 2 % 4)) * 8, B + (n < 200 ? n * 64 + k : 0), n < 200 ? 16 : 0);
    } else {
      __align__(16) tc_f16 b_piece[8];
      #pragma unroll 8
      for (tc_i32 e = 0; e < 8; e++) {
        b_piece[e] = n < 200 ? B[n * 64 + (k + e)] : (tc_f16)(tc_u16)0;
      }
      tc_copy16(b_tile + (row * 4 + (chunk ^ row / 2 % 4)) * 8, &b_piece[0]);
    }
  }
  tc_copy_commit();
  #pragma unroll 2
  for (tc_i32 i = 0; i < 2; i++) {
    const tc_i32 row = thread / 4 + i * 32;
    const tc_i32 chunk = thread % 4;
    const tc_i32 k = chunk * 8 + 32;
    const tc_i32 m = m0 + row;
    if (a_wide) {
      tc_copy_async16(a_tile + ((row + 64) * 4 + (chunk ^ row / 2 % 4)) * 8, A + (m < 100 ? m * 64 + k : 0), m < 100 ? 16 : 0);
    } else {
      __align__(16) tc_f16 a_piece[8];
      #pragma unroll 8
      for (tc_i32 e = 0; e < 8; e++) {
        a_piece[e] = m < 100 ? A[m * 64 + (k + e)] : (tc_f16)(tc_u16)0;
      }
      tc_copy16(a_tile + ((row + 64) * 4 + (chunk ^ row / 2 % 4)) * 8, &a_piece[0]);
    }
  }
  #pragma unroll 2
  for (tc_i32 i = 0; i < 2; i++) {
    const tc_i32 row = thread / 4 + i * 32;
    const tc_i32 chunk = thread % 4;
    const tc_i32 k = chunk * 8 + 32;
    const tc_i32 n = n0 + row;
    if (b_wide) {
      tc_copy_async16(b_tile + ((row + 64) * 4 + (chunk ^ row / 2 % 4)) * 8, B + (n < 200 ? n * 64 + k : 0), n < 200 ? 16 : 0);
    } else {
      __align__(16) tc_f16 b_piece[8];
      #pragma unroll 8
      for (tc_i32 e = 0; e < 8; e++) {
        b_piece[e] = n < 200 ? B[n * 64 + (k + e)] : (tc_f16)(tc_u16)0;
      }
      tc_copy16(b_tile + ((row + 64) * 4 + (chunk ^ row / 2 % 4)) * 8, &b_piece[0]);
    }
  }
  tc_copy_commit();
  for (tc_i32 k0 = 0; k0 < 64; k0 += 32) {
    const tc_i32 stage = k0 / 32 % 3;
    tc_copy_wait(1);
    tc_barrier();
    if (k0 + 64 < 64) {
      #pragma unroll 2
      for (tc_i32 i = 0; i < 2; i++) {
        const tc_i32 row = thread / 4 + i * 32;
        const tc_i32 chunk = thread % 4;
        const tc_i32 k = k0 + chunk * 8 + 64;
        const tc_i32 m = m0 + row;
        if (a_wide) {
          tc_copy_async16(a_tile + (((stage + 2) % 3 * 64 + row) * 4 + (chunk ^ row / 2 % 4)) * 8, A + (m < 100 ? m * 64 + k : 0), m < 100 ? 16 : 0);
        } else {
          __align__(16) tc_f16 a_piece[8];
          #pragma unroll 8
          for (tc_i32 e = 0; e < 8; e++) {
            a_piece[e] = m < 100 ? A[m * 64 + (k + e)] : (tc_f16)(tc_u16)0;
          }
          tc_copy16(a_tile + (((stage + 2) % 3 * 64 + row) * 4 + (chunk ^ row / 2 % 4)) * 8, &a_piece[0]);
        }
      }
      #pragma unroll 2
      for (tc_i32 i = 0; i < 2; i++) {
        const tc_i32 row = thread / 4 + i * 32;
        const tc_i32 chunk = thread % 4;
        const tc_i32 k = k0 + chunk * 8 + 64;
        const tc_i32 n = n0 + row;
        if (b_wide) {
          tc_copy_async16(b_tile + (((stage + 2) % 3 * 64 + row) * 4 + (chunk ^ row / 2 % 4)) * 8, B + (n < 200 ? n * 64 + k : 0), n < 200 ? 16 : 0);
        } else {
          __align__(16) tc_f16 b_piece[8];
          #pragma unroll 8
          for (tc_i32 e = 0; e < 8; e++) {
            b_piece[e] = n < 200 ? B[n * 64 + (k + e)] : (tc_f16)(tc_u16)0;
          }
          tc_copy16(b_tile + (((stage + 2) % 3 * 64 + row) * 4 + (chunk ^ row / 2 % 4)) * 8, &b_piece[0]);
        }
      }
    }
    tc_copy_commit();
    #pragma unroll 2
    for (tc_i32 step = 0; step < 2; step++) {
      #pragma unroll 2
      for (tc_i32 i = 0; i < 2; i++) {
        const tc_i32 row = warp_m + i * 16 + lane / 8 % 2 * 8 + lane % 8;
        const tc_i32 chunk = step * 2 + lane / 16;
        tc_ldmatrix_x4(&a_own[i][0], a_tile + ((stage * 64 + row) * 4 + (chunk ^ row / 2 % 4)) * 8);
      }
      #pragma unroll 2
      for (tc_i32 i = 0; i < 2; i++) {
        const tc_i32 row = warp_n + i * 16 + lane / 16 * 8 + lane % 8;
        const tc_i32 chunk = step * 2 + lane / 8 % 2;
        tc_ldmatrix_x4(&b_own[i][0], b_tile + ((stage * 64 + row) * 4 + (chunk ^ row / 2 % 4)) * 8);
      }
      #pragma unroll 2
      for (tc_i32 i = 0; i < 2; i++) {
        #pragma unroll 4
        for (tc_i32 j = 0; j < 4; j++) {
          tc_mma_m16n8k16_f16(&acc[i][j][0], &a_own[i][0], &b_own[j / 2][j % 2 * 2]);
        }
      }
    }
  }
  tc_copy_wait(0);
  /* the finished sums */
  #pragma unroll 4
  for (tc_i32 i = 0; i < 4; i++) {
    const tc_i32 m = m0 + (warp_m + i * 8 + lane / 4);
    if (m < 100) {
      #pragma unroll 8
      for (tc_i32 j = 0; j < 8; j++) {
        const tc_i32 n = n0 + (warp_n + j / 2 * 8 + lane % 4 * 2 + j % 2);
        if (n < 200) {
          const float total = acc[i / 2][j / 2][i % 2 * 2 + j % 2];
          C[m * 200 + n] = tc_f32_f16(total);
        }
      }
    }
  }
}
