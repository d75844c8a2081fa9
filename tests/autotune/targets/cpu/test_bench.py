"""The bench of the CPU where the machine has little to give."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tcdsl.autotune.store.trial import UntunedError
from tcdsl.autotune.targets.cpu.bench import CpuBench
from tcdsl.autotune.tuner import tune
from tcdsl.autotune.worker.case import Case, Expected, Operand
from tests.autotune.toy import Toy


def test_where_memory_is_short_nothing_is_called_with_cold_caches() -> None:
    out = Operand("O", "float32", (4,), None, "out")
    case = Case((out,), (None,), (Expected(np.zeros(4, np.float32), None, 0.0, 0.0),), (4,), 1)
    # 2**60: as of caches that no memory is larger than
    for evicted_bytes, ways in ((1 << 20, ("read", "cold")), (1 << 60, ("read",))):
        bench = CpuBench(case)
        vars(bench)["_evicted_bytes"] = evicted_bytes
        assert bench.ways == ways


@pytest.mark.cc
@pytest.mark.wide
def test_a_check_for_which_there_is_no_memory_is_no_fault_of_the_candidate(tmp_path: Path) -> None:
    class Short(Toy):
        @property
        def bench(self) -> Mapping[str, Any]:
            return {"open": "tests.autotune.targets.cpu.test_bench:open_short_bench"}

    problem = Short(turns=(0,))
    with pytest.raises(UntunedError, match="memory is short: no more"):
        tune([problem], cache=tmp_path / "t.db", trials=1)
    (tuned,) = tune([Toy(turns=(0,))], cache=tmp_path / "t.db", trials=1)
    assert tuned.verdict.default_ns > 0  # nothing of it stays


def open_short_bench(case: Case) -> CpuBench:
    """Return a bench that has memory for the operands alone."""

    def load(code: Mapping[str, Any], is_known: bool = False) -> None:
        raise MemoryError("no more")

    bench = CpuBench(case)
    vars(bench)["load"] = load
    return bench
