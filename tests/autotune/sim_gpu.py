"""The simulated device for the tuner: what the simulator finds breaks it, and it has a clock."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

from tcdsl.codegen.machine.gpu import gpu_of
from tcdsl.grammar.text.errors import DeviceError
from tests.cusim.simulator import Array, Module
from tests.tcdsl.calls.gpu.sim import SimDevice as PlainDevice


class SimEvent:
    def __init__(self, spent_s: float) -> None:
        self._spent_s = spent_s

    def milliseconds_since(self, start: Any) -> float:
        return float(self._spent_s - start._spent_s) * 1e3


class SimDevice(PlainDevice):
    """A device whose time is that of the simulation; opened by its number, as a GPU is."""

    def __init__(self, number: int = 0) -> None:
        # Overwriting level 2 takes no longer than a small kernel.
        super().__init__(number, replace(gpu_of("sm_90"), l2_bytes=1 << 16))
        self.spent_s = 0.0
        self.simulator.most_steps = 2**63  # on a GPU a loop without end has none

    def start(
        self,
        module: Module,
        name: str,
        shape: tuple[int, int, int],
        arguments: int,
        stream: int,
    ) -> None:
        begun = time.perf_counter()
        super().start(module, name, shape, arguments, stream)
        self.spent_s += time.perf_counter() - begun

    def synchronize(self, stream: int | None = None) -> None:
        super().synchronize(stream)
        if self.simulator.report.findings:
            raise DeviceError(str(self.simulator.report.findings[0]))

    def download(self, target: Array, address: int, stream: int) -> None:
        self.synchronize(stream)
        super().download(target, address, stream)

    def event(self, stream: int) -> Any:
        self.synchronize(stream)
        return SimEvent(self.spent_s)
