"""The model that ranks kernels without shared memory: traffic, arithmetic and latency."""

from __future__ import annotations

from collections.abc import Iterable

from tcdsl.codegen.machine.gpu import WARP, Gpu
from tcdsl.codegen.program.expressions import walk_typed
from tcdsl.grammar.text.dataclass import dataclass
from tcdsl.grammar.types import typed

LAUNCH_NS = 3000.0
SECTOR = 32  # bytes that L2 hands out at once
_L2_RATE = 2.5  # of the bandwidth of memory
_LATENCY_NS = 700.0  # of memory under load
_TURN_NS = 12.0  # of a serial loop in a thread: a load, its use, a few turns in flight
_BUSY_THREADS = 512  # of a multiprocessor, below which the latency of arithmetic shows
_OWN_REGISTERS = 24  # of a thread, for addresses and the like
_FUNCTION_OPS, _DIVISION_OPS = 16, 8  # instructions of a builtin function, of a division


@dataclass(frozen=True, slots=True)
class Touch:
    """How a kernel touches one operand.

    requests: loads or stores of single threads, in all; each of bytes. distance: bytes from the
    access of a thread to that of its neighbour. footprint: bytes of memory that are touched.
    """

    requests: float
    bytes: int
    distance: int
    footprint: float

    def sectors(self) -> int:
        """Return the sectors that one request of a warp needs."""
        span = abs(self.distance) * (WARP - 1) + self.bytes
        apart = WARP * max(1, self.bytes // SECTOR)
        return min(apart, -(-span // SECTOR))


@dataclass(frozen=True, slots=True)
class Workload:
    """What a kernel does.

    points: in all, each of so many operations. turns: of a thread, one after the other.
    in_flight: bytes that a thread has asked for at a time; they are held in registers.
    """

    points: float
    operations: float
    threads: float
    turns: float
    in_flight: float


def kernel_ns(gpu: Gpu, work: Workload, touches: Iterable[Touch]) -> float:
    """Return the predicted time of a kernel, its launch included."""
    listed = list(touches)
    registers = _OWN_REGISTERS + work.in_flight / 4
    resident = gpu.sms * min(gpu.threads_sm, gpu.registers / registers)
    threads = max(1.0, min(work.threads, resident))
    # Little's law: what is under way is bandwidth times latency
    rate = min(gpu.bandwidth_gbs, threads * max(4.0, work.in_flight) / _LATENCY_NS)
    memory = sum(x.footprint for x in listed) / rate
    sectors = sum(x.requests / WARP * x.sectors() for x in listed)
    l2 = sectors * SECTOR / (rate * _L2_RATE)
    busy = min(1.0, threads / (gpu.sms * _BUSY_THREADS))
    # a multiprocessor starts as many instructions as it has lanes; requests count too
    instructions = work.points * work.operations + sum(x.requests for x in listed)
    arithmetic = instructions / (gpu.f32_lanes * gpu.sms * gpu.clock_ghz * busy)
    waves = max(1.0, work.threads / resident)
    return LAUNCH_NS + max(memory, l2, arithmetic, work.turns * _TURN_NS * waves)


def operations(value: typed.Expr) -> float:
    """Return about how many instructions a value takes."""
    total = 0.0
    for e in walk_typed(value):
        match e:
            case typed.Builtin():
                total += _FUNCTION_OPS
            case typed.Binary("/" | "%"):
                total += _DIVISION_OPS
            case typed.Binary() | typed.Unary() | typed.Select() | typed.Cast():
                total += 1
            case _:
                pass
    return total
