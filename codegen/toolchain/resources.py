"""What ptxas says of a kernel: registers, spills, memory; and how many blocks fit by it.

NVRTC puts the report of ptxas (`-v`) into its log, so it is known without a GPU and without tools.
"""

from __future__ import annotations

import re
from dataclasses import field

from tcdsl.codegen.machine.gpu import WARP, Gpu
from tcdsl.grammar.text.dataclass import dataclass

_REGISTER_UNIT = 256  # registers are given to a warp in such portions, on all architectures
_WARP_UNIT = 4  # a multiprocessor has four partitions, and warps of a block go around
_SHARED_UNIT = 128  # bytes
_SHARED_RESERVED = 1024  # bytes of each block that CUDA keeps for itself, from sm_80 on


@dataclass(frozen=True, slots=True)
class Resources:
    """What one kernel takes; memory in bytes, a thread's where nothing else is said.

    stack holds local arrays that found no registers; spills are counted in bytes of stores and
    loads in the text, not of runs. shared is static, of a block; constants are those of the
    kernel, without its parameters where the architecture lists them apart.
    """

    kernel: str
    registers: int
    stack: int = 0
    spill_stores: int = 0
    spill_loads: int = 0
    shared: int = 0
    constants: int = 0
    barriers: int = 0

    @property
    def spills(self) -> int:
        """Return the bytes of spill stores and loads together."""
        return self.spill_stores + self.spill_loads


@dataclass(frozen=True, slots=True)
class Report:
    """What ptxas says of all kernels of a text.

    advice: its C7xxx messages, as they stand; the C75xx are those by which a tensor-core kernel
    loses most of its speed (instructions put one after another).
    """

    kernels: tuple[Resources, ...] = ()
    advice: tuple[str, ...] = field(default=())

    def kernel(self, name: str) -> Resources:
        """Return the resources of a kernel.

        Raises
        ------
        KeyError
            If the text has none of this name.
        """
        for r in self.kernels:
            if r.kernel == name:
                return r
        raise KeyError(name)

    @property
    def objection(self) -> str | None:
        """Return why a kernel of this text cannot be a good one, or None: for the tuner."""
        for r in self.kernels:
            if r.spills:
                return f"{r.kernel} spills {r.spills} bytes of registers"
        return next((a for a in self.advice if re.search(r"\bC75\d\d\b", a)), None)


def read_report(log: str) -> Report:
    """Return what a log of NVRTC or nvcc with `--ptxas-options=-v` says."""
    kernels: list[Resources] = []
    parts = re.split(r"Compiling entry function '([^']+)'", log)
    for name, text in zip(parts[1::2], parts[2::2], strict=True):
        kernels.append(
            Resources(
                name,
                registers=_number(r"Used (\d+) registers", text),
                stack=_number(r"(\d+) bytes stack frame", text),
                spill_stores=_number(r"(\d+) bytes spill stores", text),
                spill_loads=_number(r"(\d+) bytes spill loads", text),
                shared=_number(r"(\d+) bytes smem", text),
                constants=sum(map(int, re.findall(r"(\d+) bytes cmem\[[1-9]\d*\]", text))),
                barriers=_number(r"used (\d+) barriers", text),
            )
        )
    advice = [line.strip() for line in log.splitlines() if re.search(r"\bC7\d\d\d\b", line)]
    return Report(tuple(kernels), tuple(dict.fromkeys(advice)))


def _number(pattern: str, text: str) -> int:
    found = re.search(pattern, text)
    return int(found[1]) if found else 0


def active_blocks_per_sm(
    gpu: Gpu, resources: Resources, threads: int, dynamic_shared: int = 0
) -> int:
    """Return how many blocks of a kernel run on a multiprocessor at once; 0: it cannot start.

    Parameters
    ----------
    gpu
        Its limits count, not its architecture: use those of the device at hand.
    threads
        Of a block.
    dynamic_shared
        Bytes of shared memory that the launch adds to the static ones.

    References
    ----------
    CUDA C++ Programming Guide, "Compute Capabilities"; the occupancy calculator's rounding.
    """
    warps = -(-threads // WARP)
    by_warp = -(-resources.registers * WARP // _REGISTER_UNIT) * _REGISTER_UNIT
    partition = gpu.registers // _WARP_UNIT
    warps_by_registers = _WARP_UNIT * (partition // by_warp) if by_warp else gpu.threads_sm // WARP
    limits = [gpu.blocks_sm, gpu.threads_sm // (warps * WARP), warps_by_registers // warps]
    shared = resources.shared + dynamic_shared
    if shared > gpu.shared_block:
        return 0
    portion = -(-(shared + _SHARED_RESERVED) // _SHARED_UNIT) * _SHARED_UNIT
    limits.append(gpu.shared_sm // portion)
    return min(limits)
