"""A GPU made of Python, whose kernels are told in a comment what to do and how long to take.

`y(i) = 2 * x(i) + 1` over 1000 floats. As in `toy.py` the knob `kind` says what is wrong with a
candidate; the knob `us` is its time by the clock of the device, in microseconds.
"""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from tcdsl.autotune.search.space import Branch, SearchSpace
from tcdsl.autotune.store.key import ProblemKey
from tcdsl.autotune.store.trial import Failure
from tcdsl.autotune.targets.cuda.builder import pack
from tcdsl.autotune.targets.cuda.problem import CudaProblem
from tcdsl.autotune.worker.builder import Built
from tcdsl.autotune.worker.emitted import Emitted
from tcdsl.codegen.choose import compiler
from tcdsl.codegen.machine.config import Config, Knob
from tcdsl.codegen.machine.gpu import Gpu, gpu_of
from tcdsl.codegen.machine.spec import Layout, Spec
from tcdsl.grammar.check.definition import check
from tcdsl.grammar.text.errors import DeviceError, ScheduleError
from tcdsl.grammar.text.parser import parse

SIZE = 1000
TEXT = "def toy(float(N) x) -> (y) { y(n) = 2 * x(n) + 1 }"
FAULTS = ("wrong", "unwritten", "past", "before", "input", "crash", "hang", "error", "refused")

Array = np.ndarray[Any, np.dtype[Any]]


def config(kind: str, us: int) -> Config:
    return Config.of({"kind": kind, "us": us})


# ---- the device


class ToyMemory:
    def __init__(self, size_bytes: int) -> None:
        self._bytes = np.zeros(size_bytes + 256, np.uint8)
        self.address = -(-self._bytes.ctypes.data // 256) * 256


class ToyEvent:
    def __init__(self, now_us: float) -> None:
        self._now_us = now_us

    def milliseconds_since(self, start: Any) -> float:
        return float(self._now_us - start._now_us) / 1e3


class ToyModule:
    def __init__(self, device: ToyDevice, text: str) -> None:
        self._device = device
        found = re.search(r"kind=(.*?) us=(\d+) log=(\S*)", text)
        assert found, text
        self._kind, self._us, self._log = found[1], int(found[2]), found[3]

    def function(self, name: str, shared_bytes: int = 0, parameters: int = 0) -> ToyModule:
        return self

    def launch(
        self, blocks: int, threads: int, shared_bytes: int, arguments: int, stream: int
    ) -> None:
        if self._log and not self._device.launches:
            with open(self._log, "a") as file:
                file.write(f"{self._kind} {self._us}\n")
        self._device.launches += 1
        self._device.now_us += self._us
        table = (ctypes.c_uint64 * 2).from_address(arguments)
        x, y = (_floats(ctypes.c_uint64.from_address(a).value) for a in table)
        y[:SIZE] = 2 * x[:SIZE] + 1
        match self._kind:
            case "wrong":
                y[777] = 7
            case "unwritten":
                y[999:1000].view(np.uint32)[:] = 0x7B7B7B7B
            case "past":
                y[1000] = 0
            case "before":
                _floats(y.ctypes.data - 4)[0] = 0
            case "input":
                x[0] = 1
            case "crash":
                raise DeviceError("an illegal memory access was encountered")
            case "hang":
                time.sleep(3600)
            case "error":
                self._device.tell_fault()


class ToyDevice:
    """A `tcdsl.codegen.device.device.Device` whose clock only launches move."""

    array_type: type = np.ndarray

    def __init__(self, number: int) -> None:
        self.number = number
        self.gpu: Gpu = replace(gpu_of("sm_90"), l2_bytes=4096, driver=13000)
        self.now_us = 0.0
        self.launches = 0
        self.fills: list[int] = []
        self._pinned: list[ToyMemory] = []

    def active(self) -> AbstractContextManager[object]:
        return contextlib.nullcontext()

    def load(self, text: str, name: str) -> ToyModule:
        self.launches = 0
        return ToyModule(self, text)

    def raw(self, text: str, name: str, function: str, shared_bytes: int = 0) -> ToyModule:
        return self.load(text, name)

    def stream(self) -> int:
        return 0

    def is_capturing(self, stream: int) -> bool:
        return False

    def wait(self, stream: int, other: int) -> None:
        pass

    def synchronize(self, stream: int | None = None) -> None:
        pass

    def event(self, stream: int) -> ToyEvent:
        return ToyEvent(self.now_us)

    def allocate(self, size_bytes: int) -> ToyMemory:
        return ToyMemory(size_bytes)

    def pinned(self, size_bytes: int) -> ToyMemory:
        self._pinned.append(ToyMemory(size_bytes))
        return self._pinned[-1]

    def tell_fault(self) -> None:
        (ctypes.c_int64 * 5).from_address(self._pinned[-1].address)[:] = [1, 0, 0, 5000, 1000]

    def upload(self, address: int, source: Array, stream: int) -> None:
        ctypes.memmove(address, source.ctypes.data, source.nbytes)

    def download(self, target: Array, address: int, stream: int) -> None:
        ctypes.memmove(target.ctypes.data, address, target.nbytes)

    def owns(self, address: int) -> bool:
        return True

    def fill(self, address: int, byte: int, size_bytes: int, stream: int) -> None:
        self.fills.append(size_bytes)
        ctypes.memset(address, byte, size_bytes)

    def empty(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
        return np.empty(shape, dtype)

    def place(self, array: Any) -> Any:
        return array.ctypes.data, array.shape, array.strides, array.dtype, self.number


def _floats(address: int) -> Array:
    room = (ctypes.c_float * (SIZE + 1)).from_address(address)
    return np.ndarray((SIZE + 1,), np.float32, memoryview(room))


# ---- the problem


@dataclass(frozen=True)
class ToyCompiler:
    """A builder whose machine code is the kind and the time."""

    jobs: int = 1

    def build(
        self,
        sources: Iterable[Emitted],
        count: int,
        is_unwanted: Callable[[], bool] = lambda: False,
        meanwhile: Callable[[], bool] = lambda: False,
    ) -> Iterator[tuple[int, Built | Failure]]:
        for number, source in enumerate(sources):
            assert source.unit is not None
            digest = hashlib.sha256(source.unit.header.encode()).hexdigest()
            slow = "it spills" if "kind=spills" in source.text else None
            yield number, Built({"unit": pack(source.unit)}, digest, slow)


@dataclass(frozen=True)
class ToyProblem(CudaProblem):
    """The problem; the log gets a line for each candidate that is run in a process."""

    kinds: tuple[str, ...] = ("right",)
    times: tuple[int, ...] = (10, 20, 50, 100, 200, 400)
    log: Path | None = None
    start: Config = field(default_factory=lambda: config("right", 200))

    @property
    def key(self) -> ProblemKey:
        return ProblemKey("toy", ("float32",) * 2, "c", (SIZE,), "cuda test", 0, "nvrtc", "1")

    @property
    def space(self) -> SearchSpace:
        knobs = (Knob("kind", (*self.kinds, "refused")), Knob("us", self.times))
        return SearchSpace((Branch((), knobs),), self.start, lambda _: 1.0)

    @property
    def builder(self) -> ToyCompiler:
        return ToyCompiler()

    @property
    def bench(self) -> Mapping[str, Any]:
        return {**super().bench, "device": "tests.autotune.toy_gpu:ToyDevice"}

    def emit(self, config: Config) -> Emitted:
        kind, us = config.get("kind"), config.get("us")
        if kind == "refused":
            raise ScheduleError("it does not fit")
        unit = compiler.lower(self.program, self.spec, Config(), self.gpu, self.sizes, "toy")
        # The text is another for each config; what the device reads of it is the header.
        told = replace(unit, header=f"kind={kind} us={us} log={self.log or ''}")
        return Emitted("toy", f"{kind} {us}\n{compiler.emit_cuda(told)}", told)


def toy_problem(*kinds: str, **options: Any) -> ToyProblem:
    layout = Layout(1, True, 0)
    spec = Spec((("N", SIZE),), (layout, layout), 0)
    return ToyProblem(
        check(parse(TEXT)), spec, device=ToyDevice(0), kinds=("right", *kinds), **options
    )
