"""What the tuner needs to know of a problem, and nothing of how kernels are made."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from tcdsl.autotune.search.space import SearchSpace
from tcdsl.autotune.store.key import ProblemKey
from tcdsl.autotune.worker.builder import Builder
from tcdsl.autotune.worker.case import Case
from tcdsl.autotune.worker.emitted import Emitted
from tcdsl.codegen.machine.config import Config
from tcdsl.grammar.text.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Roofline:
    """What one call has to do, and what the machine can do: for rates that people read."""

    flops: float
    bytes: float
    peak_gflops: float
    peak_gbps: float

    @property
    def is_compute_bound(self) -> bool:
        """Whether arithmetic takes longer than traffic at the machine's peaks."""
        return self.flops * self.peak_gbps >= self.bytes * self.peak_gflops

    @property
    def unit(self) -> str:
        """Unit of the rate: of what bounds this problem."""
        return "GFLOP/s" if self.is_compute_bound else "GB/s"

    def rate(self, time_ns: float) -> float:
        """Return GFLOP/s or GB/s of a time per call."""
        return (self.flops if self.is_compute_bound else self.bytes) / time_ns

    def share(self, time_ns: float) -> float | None:
        """Return the share of the machine's peak, 0 to 1; None where a call is faster than it.

        Data that stay in a cache move faster than memory's peak, and a peak is only a measurement.
        """
        share = self.rate(time_ns) / self._peak
        return share if share <= 1 else None

    def share_text(self, time_ns: float) -> str:
        """Return the share for people, with what it is a share of."""
        roof = "peak" if self.is_compute_bound else "memory peak"
        share = self.share(time_ns)
        if share is None:
            return f"above the {roof} measured, {self._peak:.1f}"
        return f"{share:.0%} of {roof}"

    @property
    def _peak(self) -> float:
        return self.peak_gflops if self.is_compute_bound else self.peak_gbps


class TuningProblem(Protocol):
    """One kernel at one set of sizes, dtypes and layouts on one target.

    What a target is lies in three places: `source` and `builder` make code that can be loaded, and
    `bench` says what loads it in the worker process (`tcdsl.autotune.worker.bench`).
    """

    @property
    def key(self) -> ProblemKey:
        """What the result is stored under."""

    @property
    def name(self) -> str:
        """Name for people, with the sizes: `fcrelu B=100 M=128 N=100`."""

    @property
    def text(self) -> str:
        """TC text."""

    @property
    def space(self) -> SearchSpace:
        """The configs to choose from."""

    @property
    def roofline(self) -> Roofline:
        """Roofline of a call."""

    @property
    def builder(self) -> Builder:
        """What compiles candidates."""

    @property
    def bench(self) -> Mapping[str, Any]:
        """What checks and times candidates, and its settings: JSON, as `bench.open_bench` reads."""

    def emit(self, config: Config) -> Emitted:
        """Return the text of a config.

        Raises
        ------
        ScheduleError
            If the config does not fit.
        """

    def case(self) -> Case:
        """Return inputs and what has to come out; the same at each call."""
