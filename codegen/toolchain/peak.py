"""What the machine reaches, measured: multiply-adds per second and memory bandwidth.

For people and for the tuner's report: minutes of tuning are judged against it. Never run at import
or in a first call.
"""

from __future__ import annotations

import ctypes
import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from itertools import pairwise

import numpy as np

from tcdsl.codegen.toolchain.objects import use_object
from tcdsl.codegen.toolchain.source import Source
from tcdsl.grammar.text.dataclass import dataclass

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


_LEAST_BYTES = 4 << 20  # of arrays for a bandwidth
_TRIES = 3  # of a measurement that contradicts itself
_BUSY = 0.1  # of the cores' time: who loses so much measures something else


@lru_cache(maxsize=1)
def _loops() -> ctypes.CDLL:
    library = use_object(Source("peak", _TEXT), lambda path: ctypes.CDLL(str(path)))
    library.fma_chains.restype = ctypes.c_float
    library.fma_chains.argtypes = [ctypes.c_int64]
    library.flops_per_round.restype = ctypes.c_int64
    library.triad.restype = None
    library.triad.argtypes = [ctypes.c_void_p] * 3 + [ctypes.c_int64] * 2
    return library


class Probe:
    """A loop that reaches a peak, on some threads: each call runs it once.

    It takes its turns beside the calls that are held against the peak, so that what else the
    machine does hits all alike; the fastest turn counts.

    Parameters
    ----------
    task : callable
        Does the work of the thread of a number.
    amount : float
        Operations or bytes of all threads together.
    threads : int
    wall_s, own_s : callable
        Seconds that have gone by, and those for which the calling thread had a core. A test brings
        its own.
    """

    def __init__(
        self,
        task: Callable[[int], object],
        amount: float,
        threads: int,
        wall_s: Callable[[], float] = time.perf_counter,
        own_s: Callable[[], float] = time.thread_time,
    ) -> None:
        self.threads = threads
        self._task, self._amount = task, amount
        self._wall_s, self._own_s = wall_s, own_s
        self._pool = ThreadPoolExecutor(threads)  # a foreign call gives the interpreter's lock back
        self._best_s = math.inf
        self._walls_s = self._owns_s = 0.0

    def __call__(self) -> None:
        """Run the loop once on every thread."""
        if self.threads == 1:
            spans = [self._timed(0)]
        else:
            spans = list(self._pool.map(self._timed, range(self.threads)))
        self._best_s = min(self._best_s, max(s[1] for s in spans) - min(s[0] for s in spans))

    def _timed(self, thread: int) -> tuple[float, float]:
        own, begin = self._own_s(), self._wall_s()
        self._task(thread)
        end = self._wall_s()
        self._owns_s += self._own_s() - own
        self._walls_s += end - begin
        return begin, end

    @property
    def rate(self) -> float:
        """The most that was reached so far, in units of 1e9 a second."""
        return self._amount / self._best_s / 1e9

    @property
    def taken(self) -> float:
        """The share of its threads' time in which other programs had their cores, 0 to 1."""
        return max(0.0, 1 - self._owns_s / self._walls_s) if self._walls_s else 0.0

    def run(self, seconds: float) -> float:
        """Run for some time and return the rate."""
        end = self._wall_s() + seconds
        self()
        while self._wall_s() < end:
            self()
        return self.rate


def fma_probe(threads: int = 1, element_bytes: int = 4) -> Probe:
    """Return a probe of the FMA peak: multiplication and addition counted, in GFLOP/s.

    The loop has elements of 4 bytes; of larger ones fewer are in a vector.
    """
    loops = _loops()
    rounds = 1_000_000
    flops = int(loops.flops_per_round()) * rounds * threads * 4 / element_bytes
    return Probe(lambda _: loops.fma_chains(rounds), flops, threads)


def triad_probe(threads: int = 1, size_bytes: int = 256 << 20) -> Probe:
    """Return a probe of the memory bandwidth: a = 3 b + c, all three counted, in GB/s.

    size_bytes is that of all three arrays and should exceed the last cache well.
    """
    loops = _loops()
    lanes = 16 * threads
    count = size_bytes // 12 // lanes * lanes
    memory = np.ones(3 * count + 16, np.float32)  # touched, so that the pages are there
    at_line = -memory.ctypes.data % 64 // 4
    arrays = [memory[at_line + count * i :][:count] for i in range(3)]  # they keep the memory
    part = count // threads

    def task(thread: int) -> None:
        out, a, b = (x.ctypes.data for x in arrays)
        loops.triad(out, a, b, thread * part, (thread + 1) * part)

    return Probe(task, 12 * part * threads, threads)


def measure_peak(threads: int = 1, seconds: float = 0.3) -> float:
    """Return the float32 FMA peak of some threads in GFLOP/s."""
    return fma_probe(threads).run(seconds)


def measure_bandwidth(threads: int = 1, size_bytes: int = 256 << 20, seconds: float = 0.5) -> float:
    """Return the memory bandwidth of some threads in GB/s; size_bytes as of `triad_probe`.

    Where there is not so much memory it is that of smaller arrays.
    """
    while True:
        try:
            return triad_probe(threads, size_bytes).run(seconds)
        except MemoryError:
            if size_bytes < _LEAST_BYTES:
                raise
            size_bytes //= 4


@dataclass(frozen=True, slots=True)
class Peaks:
    """What was reached, by the number of threads; notes: what a reader has to know of it."""

    rates: Mapping[int, float]
    notes: tuple[str, ...]


def measure_peaks(probes: Sequence[Probe], seconds: float = 0.3) -> Peaks:
    """Measure peaks on several numbers of threads, in turns.

    Where more threads reach no more than fewer, all are measured again; if that remains, they have
    the peak of the fewer, since nobody has to use them all.

    Parameters
    ----------
    probes : sequence of Probe
        From few threads to many.
    seconds : float, default 0.3
        For each probe, up to three times.
    """
    notes = []
    for _ in range(_TRIES):
        for probe in (*probes, *probes):
            probe.run(seconds / 2)
        if all(a.rate < b.rate for a, b in pairwise(probes)):
            break
    rates: dict[int, float] = {}
    for probe in probes:
        fewer = max(rates, key=lambda n: rates[n], default=None)
        if fewer is not None and probe.rate <= rates[fewer]:
            notes.append(
                f"{probe.threads} threads reach no more than {fewer} ({probe.rate:.0f} and "
                f"{rates[fewer]:.0f}): they share a core, or other programs have the rest"
            )
        rates[probe.threads] = max(probe.rate, *rates.values(), 0.0)
    return Peaks(rates, (*notes, *busy_notes(probes)))


def busy_notes(probes: Iterable[Probe]) -> tuple[str, ...]:
    """Return a sentence where other programs took a good part of the probes' cores."""
    taken = max((p.taken for p in probes), default=0.0)
    if taken < _BUSY:
        return ()
    return (
        f"the machine is busy: other programs had {taken:.0%} of the cores meanwhile, "
        "so that figures are too low",
    )
