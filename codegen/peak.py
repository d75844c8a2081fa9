"""What the machine reaches, measured: multiply-adds per second and memory bandwidth.

For people and for the tuner's report: minutes of tuning are judged against it. Never run at import
or in a first call.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache

import numpy as np

from tcdsl.codegen.cc import Source
from tcdsl.codegen.objects import compile_source

# 12 independent chains hide the latency of an FMA on every machine of today; the pins keep the
# factors unknown to the compiler. triad is what STREAM calls so, with stores past the cache.
_TEXT = """\
#include "prelude.h"
enum { CHAINS = 12 };

TC_EXPORT float fma_chains(tc_i64 rounds) {
  tc_native_f32 sum[CHAINS], a = {0}, b = {0};
  a += 0.999f, b += 1e-3f;
  tc_pin(a);
  tc_pin(b);
#pragma GCC unroll 12
  for (int i = 0; i < CHAINS; i++) sum[i] = b * (float)i;
  for (tc_i64 r = 0; r < rounds; r++) {
#pragma GCC unroll 12
    for (int i = 0; i < CHAINS; i++) sum[i] = sum[i] * a + b;
  }
  float total = 0;
  for (int i = 0; i < CHAINS; i++) total += sum[i][0];
  return total;
}
TC_EXPORT tc_i64 flops_per_round(void) { return 2 * CHAINS * TC_VL_f32; }

TC_EXPORT void triad(float *out, const float *a, const float *b, tc_i64 begin, tc_i64 end) {
  for (tc_i64 i = begin; i < end; i += TC_VL_f32) {
    tc_native_f32 x = *(const tc_native_f32 *)(a + i), y = *(const tc_native_f32 *)(b + i);
    x = x * 3.0f + y;
    TC_MOVNT(s, tc_native_f32, out + i, x);
  }
  tc_stream_end();
}
"""


@lru_cache(maxsize=1)
def _loops() -> ctypes.CDLL:
    library = ctypes.CDLL(str(compile_source(Source("peak", _TEXT))))
    library.fma_chains.restype = ctypes.c_float
    library.fma_chains.argtypes = [ctypes.c_int64]
    library.flops_per_round.restype = ctypes.c_int64
    library.triad.restype = None
    library.triad.argtypes = [ctypes.c_void_p] * 3 + [ctypes.c_int64] * 2
    return library


def _best_s(task: Callable[[int], object], threads: int, seconds: float) -> float:
    """Return the shortest time in which all threads have done their task, of many tries."""
    best = float("inf")
    with ThreadPoolExecutor(threads) as pool:  # a foreign call gives the interpreter's lock back
        end = time.perf_counter() + seconds
        while time.perf_counter() < end:
            begin = time.perf_counter()
            list(pool.map(task, range(threads)))
            best = min(best, time.perf_counter() - begin)
    return best


def measure_peak(threads: int = 1, seconds: float = 0.3) -> float:
    """Return the float32 FMA peak of some threads in GF/s, multiplication and addition counted."""
    loops = _loops()
    rounds = 1_000_000
    flops = int(loops.flops_per_round()) * rounds * threads
    return flops / _best_s(lambda _: loops.fma_chains(rounds), threads, seconds) / 1e9


def measure_bandwidth(threads: int = 1, size_bytes: int = 256 << 20, seconds: float = 0.5) -> float:
    """Return the memory bandwidth of some threads in GB/s: a = 3 b + c, all three counted.

    size_bytes is that of all three arrays and should exceed the last cache well.
    """
    loops = _loops()
    lanes = 16 * threads
    count = size_bytes // 12 // lanes * lanes
    memory = np.ones(3 * count + 16, np.float32)  # touched, so that the pages are there
    first = memory.ctypes.data + -memory.ctypes.data % 64
    out, a, b = (first + 4 * count * i for i in range(3))
    part = count // threads

    def task(thread: int) -> None:
        loops.triad(out, a, b, thread * part, (thread + 1) * part)

    return 12 * part * threads / _best_s(task, threads, seconds) / 1e9
