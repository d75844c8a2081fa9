"""What a GPU says of itself, and of what known kind it is."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tcdsl.codegen.machine.gpu import KNOWN, Gpu

# cudaDeviceAttr; they stay from one CUDA to the next, unlike the fields of cudaDeviceProp
_CLOCK_KHZ, _SMS, _MEMORY_KHZ, _BUS_BITS, _L2_BYTES = 13, 16, 36, 37, 38
_THREADS_SM, _MAJOR, _MINOR, _SHARED_SM, _REGISTERS_SM = 39, 75, 76, 81, 82
_SHARED_BLOCK, _BLOCKS_SM = 97, 106


def describe(runtime: Any, number: int) -> Gpu:
    """Return what a device says of itself; what it does not say is that of its nearest kin.

    runtime is CuPy's ``cupy.cuda.runtime``.
    """

    def ask(attribute: int) -> int:
        return int(runtime.deviceGetAttribute(attribute, number))

    major, minor = ask(_MAJOR), ask(_MINOR)
    kin = nearest(10 * major + minor)
    bandwidth = 2 * ask(_MEMORY_KHZ) * ask(_BUS_BITS) / 8 / 1e6
    return replace(
        kin,
        arch=f"sm_{major}{minor}",
        sms=ask(_SMS),
        registers=ask(_REGISTERS_SM),
        shared_sm=ask(_SHARED_SM),
        shared_block=ask(_SHARED_BLOCK),
        threads_sm=ask(_THREADS_SM),
        blocks_sm=ask(_BLOCKS_SM),
        l2_bytes=ask(_L2_BYTES),
        clock_ghz=ask(_CLOCK_KHZ) / 1e6 or kin.clock_ghz,
        bandwidth_gbs=bandwidth or kin.bandwidth_gbs,
        name=runtime.getDeviceProperties(number)["name"].decode(),
        driver=int(runtime.driverGetVersion()),
    )


def nearest(capability: int) -> Gpu:
    """Return the known architecture that a capability is most like: the newest not above it."""
    known = sorted(KNOWN.values(), key=lambda g: g.capability)
    return [known[0], *(g for g in known if g.capability <= capability)][-1]
