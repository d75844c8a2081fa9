"""The bench of the CPU where the machine has little to give."""

from __future__ import annotations

import numpy as np

from tcdsl.autotune.targets.cpu.bench import CpuBench
from tcdsl.autotune.worker.case import Case, Expected, Operand


def test_where_memory_is_short_nothing_is_called_with_cold_caches() -> None:
    out = Operand("O", "float32", (4,), None, "out")
    case = Case((out,), (None,), (Expected(np.zeros(4, np.float32), None, 0.0, 0.0),), (4,), 1)
    bench = CpuBench(case)
    assert bench.ways == ("read", "cold")
    short = CpuBench(case)
    vars(short)["_evicted_bytes"] = 1 << 60  # as of caches that no memory is larger than
    assert short.ways == ("read",)
