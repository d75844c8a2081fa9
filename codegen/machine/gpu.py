"""The GPU a kernel is compiled for: architecture and limits, known without one."""

from __future__ import annotations

from tcdsl.grammar.text.dataclass import dataclass
from tcdsl.grammar.text.errors import TCTypeError

WARP = 32  # threads that run together, on every GPU that CUDA has


@dataclass(frozen=True, slots=True)
class Gpu:
    """What analytic schedules and the tuner's model need to know of a device.

    arch is what the cubin is made for (`sm_90`); sms the multiprocessors, registers and shared
    memory are of one; `shared_block` is what one block may ask for.
    """

    arch: str
    sms: int
    registers: int
    shared_sm: int
    shared_block: int
    threads_sm: int
    blocks_sm: int
    l2_bytes: int
    clock_ghz: float
    bandwidth_gbs: float
    f32_lanes: int  # float32 FMAs that a multiprocessor starts per cycle
    half_fmas: int  # FMAs of its tensor cores per cycle: dense, of half types, summed in float32
    name: str = ""
    driver: int = 0  # the CUDA that its driver serves, 13000 for 13.0; 0: no device was asked

    @property
    def capability(self) -> int:
        """Return the compute capability as CUDA's macros write it: 90 for sm_90."""
        return int("".join(c for c in self.arch.removeprefix("sm_") if c.isdigit()))

    def peak_gflops(self) -> float:
        """Return the float32 peak of plain FMAs, multiplication and addition counted."""
        return 2 * self.f32_lanes * self.sms * self.clock_ghz

    def tensor_gflops(self) -> float:
        """Return the peak of products of half types on tensor cores."""
        return 2 * self.half_fmas * self.sms * self.clock_ghz


# One well-known device of each architecture: what a schedule assumes where no device is asked.
# Registers of a multiprocessor are 65536 on all of them.
_DEVICES = (
    # arch, SMs, KiB shared: SM and block, threads and blocks per SM, MiB L2, GHz, GB/s, lanes,
    # tensor cores' FMAs, name
    ("sm_80", 108, 164, 163, 2048, 32, 40, 1.41, 1555, 64, 1024, "A100"),
    ("sm_86", 84, 100, 99, 1536, 16, 6, 1.86, 768, 128, 512, "A6000"),
    ("sm_89", 128, 100, 99, 1536, 24, 72, 2.52, 1008, 128, 256, "RTX 4090"),
    ("sm_90", 132, 228, 227, 2048, 32, 60, 1.98, 4800, 128, 2048, "H200"),
    ("sm_100", 148, 228, 227, 2048, 32, 126, 1.97, 8000, 128, 4096, "B200"),
    ("sm_120", 170, 100, 99, 1536, 24, 96, 2.41, 1792, 128, 256, "RTX 5090"),
)
KNOWN = {
    arch: Gpu(
        arch, sms, 65536, sm << 10, block << 10, threads, blocks, l2 << 20, ghz, gbs, n, t, name
    )
    for arch, sms, sm, block, threads, blocks, l2, ghz, gbs, n, t, name in _DEVICES
}
DEFAULT_ARCH = "sm_80"  # without a device: what the most machines in use can run or rebuild from


def gpu_of(arch: str) -> Gpu:
    """Return the device assumed for an architecture by name.

    Raises
    ------
    TCTypeError
        If it is none that is known.
    """
    try:
        return KNOWN[arch]
    except KeyError:
        known = ", ".join(KNOWN)
        raise TCTypeError(f"unknown GPU architecture '{arch}'\n  known are {known}") from None
