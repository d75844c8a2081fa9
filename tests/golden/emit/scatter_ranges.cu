/* def f(int32(B) I, float(B,D) X, float(N) L) -> (float(N,D) H) { H(I(b),d) +=! X(b,d) }
 *
 * sizes: any
 * config: g0.meeting=ranges
 * H(I(b),d) +=! X(b,d)    [nest, points that meet in chains by ranges]
 */
#include "prelude.cuh"

extern "C" __global__ void __launch_bounds__(64, 1) add_g0_fill(float *__restrict__ H, tc_i32 D, tc_i32 N) {
  const tc_i32 point = tc_block() * 64 + tc_thread();
  if (point < D * N) {
    const tc_i32 i0 = point;
    H[i0] = 0.0f;
  }
}

extern "C" __global__ void __launch_bounds__(256, 1) add_g0_links(const tc_i32 *__restrict__ I, tc_i32 B, tc_i32 N, tc_i32 *__restrict__ skips, tc_b *__restrict__ firsts) {
  __shared__ tc_i32 lowest[32];
  __shared__ tc_i32 highest[32];
  __shared__ tc_i32 last[32];
  __shared__ tc_i32 met[256];
  const tc_i32 thread = tc_thread();
  const tc_i32 low = tc_block() * 32;
  for (tc_i32 at = thread; at < 32; at += 256) {
    lowest[at] = 256;
    highest[at] = -1;
    last[at] = -1;
  }
  tc_barrier();
  for (tc_i32 start = 0; start < B; start += 256) {
    const tc_i32 point = start + thread;
    tc_i32 mine = -1;
    tc_b is_last = 0;
    if (point < B) {
      const tc_i32 b = point;
      const tc_i32 b_0 = tc_once_i32(I + b);
      const tc_i32 key0 = b_0;
      const tc_i32 row = key0 >= 0 && key0 < N ? key0 : -1;
      if (row < 0 && low == 0) {
        firsts[point] = 1;
        skips[point] = B;
      }
      if (row >= low && row < low + 32) {
        mine = row - low;
      }
    }
    met[thread] = mine;
    if (mine >= 0) {
      tc_atomic_min_i32(&lowest[mine], thread - start);
      tc_atomic_max_i32(&highest[mine], point);
    }
    tc_barrier();
    if (mine >= 0) {
      is_last = highest[mine] == point;
      if (lowest[mine] == thread - start) {
        const tc_i32 before = last[mine];
        if (before < 0) {
          firsts[point] = 1;
        } else {
          firsts[point] = 0;
          skips[before] = point - before;
        }
      } else {
        firsts[point] = 0;
      }
      if (is_last) {
        skips[point] = B;
      } else {
        tc_i32 following = -1;
        for (tc_i32 other = thread + 1; other < 256; other++) {
          if (following < 0 && met[other] == mine) {
            following = other - thread;
          }
        }
        skips[point] = following;
      }
    }
    tc_barrier();
    if (is_last) {
      last[mine] = point;
    }
  }
}

extern "C" __global__ void __launch_bounds__(64, 1) add_g0_chains(const tc_i32 *__restrict__ I, const float *__restrict__ X, float *__restrict__ H, tc_i32 B, tc_i32 D, tc_i32 N, tc_error *fault, tc_i32 *__restrict__ skips, tc_b *__restrict__ firsts) {
  const tc_i32 point = tc_block() * 64 + tc_thread();
  if (point < B * D) {
    const tc_i32 start = point / D;
    const tc_i32 d = point % D;
    if (firsts[start]) {
      const tc_i32 first_b = start;
      const tc_i32 first_b_0 = tc_once_i32(I + first_b);
      const tc_i32 first_b_1 = first_b_0;
      if (first_b_1 < 0 || first_b_1 >= N) {
        tc_fault(fault, 3, 0, first_b_1, N);
        return;
      }
      float acc = H[first_b_1 * D + d];
      tc_i32 skip = 1;
      for (tc_i32 at = start; at < B; at += skip) {
        const tc_i32 b = at;
        acc += X[b * D + d];
        skip = tc_max_i32(1, tc_min_i32(skips[at], B));
      }
      H[first_b_1 * D + d] = acc;
    }
  }
}
