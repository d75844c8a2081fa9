"""Calls of ours beside torch's, in turns in one process."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from operands import Array

from tcdsl.codegen import runtime
from tcdsl.tools.timing import interleaved

Calls = Mapping[str, Callable[[], object]]
# Until torch's threads no longer spin: libgomp's turn 300,000 times, of some 16 ns each. While they
# do, a call of ours has one core of two.
REST_S = 6e-3


@dataclass(frozen=True)
class Problem:
    """A definition, its inputs, and what torch does instead of it."""

    name: str
    text: str
    inputs: tuple[Array, ...]
    peer: Callable[..., Any]

    def tensors(self) -> list[torch.Tensor]:
        """Return the inputs as torch takes them."""
        return [torch.from_numpy(x) for x in self.inputs]


def use_threads(count: int) -> int:
    """Have both libraries use so many threads, all where it is 0; return how many."""
    if count:
        runtime.set_num_threads(count)
    torch.set_num_threads(runtime.get_num_threads())
    return runtime.get_num_threads()


def in_turns(theirs: Calls, ours: Calls, seconds: float, turn_ns: int = 0) -> dict[str, float]:
    """Return the microseconds of calls: 20 % quantiles; a turn takes so long at least."""
    calls: dict[str, Callable[[], object]] = {
        **theirs,
        " rest": lambda: time.sleep(REST_S),
        " wake": next(iter(ours.values())),  # our own threads
        **ours,
    }
    times = interleaved(calls, seconds, turn_ns=turn_ns)
    return {name: times[name].time_ns / 1e3 for name in (*theirs, *ours)}
