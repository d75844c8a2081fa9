"""The computer at hand as a `Machine`: what its C compiler and its kernel say of it."""

from __future__ import annotations

import functools
import math
import os
import platform
import sys
from pathlib import Path

from tcdsl.codegen.machine.cpu import Machine
from tcdsl.codegen.toolchain.cc import Compiler, find_compiler

# ISA: bytes of a vector, vector registers
_VECTORS = {
    "avx512": (64, 32), "avx2": (32, 16), "sse": (16, 16), "neon": (16, 32), "generic": (16, 16),
}  # fmt: skip
_SYSTEM = Path("/sys/devices/system/cpu/cpu0")
_AMD, _INTEL = "AuthenticAMD", "GenuineIntel"
_ARCH_PRCTL, _ARCH_REQ_XCOMP_PERM, _XTILEDATA = 158, 0x1023, 18  # of Linux on x86-64


def detect() -> Machine:
    """Return this machine as the compiler and the kernel describe it.

    Nothing is measured: frequency and FMAs per cycle are nominal, so that the schedule chosen for
    a program is the same in every process. `measure_peak` (peak.py) tells what is reached.

    Raises
    ------
    CompileError
        If there is no C compiler.
    """
    return _detect(find_compiler(), usable_cores())


@functools.lru_cache(maxsize=8)
def _detect(compiler: Compiler, cores: int) -> Machine:
    isa = isa_of(compiler.macros)
    vector_bytes, registers = _VECTORS[isa]
    caches = read_caches(_SYSTEM / "cache")
    processor = read_processor(Path("/proc/cpuinfo"))
    l1_bytes, l1_ways = caches.get(1, (32 << 10, 8))
    l2_bytes, _ = caches.get(2, (512 << 10, 8))
    l3_bytes, _ = caches.get(3, (l2_bytes, 16))
    return Machine(
        isa, vector_bytes, registers, l1_bytes, l1_ways, l2_bytes, l3_bytes, cores,
        frequency_ghz=_nominal_ghz(processor), fma_per_cycle=_fma_per_cycle(isa, processor),
        crosses_lines=processor.get("vendor_id") == _AMD,
        shares_ports=processor.get("vendor_id") == _INTEL,
        l2_keeps_up=processor.get("vendor_id") == _INTEL,
        dots=dots_of(compiler.macros, processor.get("vendor_id", ""))
        + _tile_dots(compiler.macros),
    )  # fmt: skip


def isa_of(macros: tuple[str, ...]) -> str:
    """Return the instruction set for which prelude.h compiles under these predefined macros."""
    if {f"__AVX512{x}__" for x in ("F", "BW", "VL", "DQ")} <= set(macros):
        return "avx512"
    if {"__AVX2__", "__FMA__"} <= set(macros):
        return "avx2"
    if "__SSE2__" in macros:
        return "sse"
    return "neon" if "__ARM_NEON" in macros else "generic"


def dots_of(macros: tuple[str, ...], vendor: str) -> tuple[str, ...]:
    """Return what words.h has quick dot instructions for under these predefined macros.

    Intel's processors begin one `vdpbf16ps` in two cycles, in which they begin four FMAs.
    """
    has = set(macros)
    quads = {"__AVX512VNNI__", "__AVX512VL__"} <= has or "__AVXVNNI__" in has
    pairs = {"__AVX512BF16__", "__AVX512VL__"} <= has and vendor == _AMD
    return ("bytes",) * quads + ("bfloat16",) * pairs


def _tile_dots(macros: tuple[str, ...]) -> tuple[str, ...]:
    if not (tiles_in(macros) and tiles_are_granted()):
        return ()
    return ("tiles",) + ("float16 tiles",) * ("__AMX_FP16__" in macros)


def tiles_in(macros: tuple[str, ...]) -> bool:
    """Return whether tiles.h has instructions for tiles under these predefined macros."""
    return {"__AMX_TILE__", "__AMX_INT8__", "__AMX_BF16__"} <= set(macros)


@functools.lru_cache(maxsize=1)
def tiles_are_granted() -> bool:
    """Ask the kernel for tiles, once a process, and return whether it may use them.

    All its threads may then, and its children by fork. Refused where the processor has none, the
    kernel knows none, or a sandbox or a thread's stack for signals does not allow them.
    """
    if not sys.platform.startswith("linux") or platform.machine() != "x86_64":
        return False
    import ctypes  # on use: other processors do without

    refused: int = ctypes.CDLL(None).syscall(_ARCH_PRCTL, _ARCH_REQ_XCOMP_PERM, _XTILEDATA)
    return refused == 0


def usable_cores() -> int:
    """Return how many threads may run at once: the affinity mask, and a container's quota."""
    if hasattr(os, "sched_getaffinity"):
        cores = len(os.sched_getaffinity(0))
    else:
        cores = os.cpu_count() or 1
    try:
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text(encoding="ascii").split()
    except (OSError, ValueError):
        return cores
    return cores if quota == "max" else min(cores, max(1, math.ceil(int(quota) / int(period))))


def read_caches(folder: Path) -> dict[int, tuple[int, int]]:
    """Return bytes and ways of the data caches by level, as far as the kernel tells."""
    caches = {}
    names = sorted(os.listdir(folder)) if folder.is_dir() else ()
    for index in (f"{folder}/{name}" for name in names if name.startswith("index")):
        try:
            kind, level_text, size, ways_text = (
                _word_in(f"{index}/{what}")
                for what in ("type", "level", "size", "ways_of_associativity")
            )
            level, ways = int(level_text), int(ways_text)
        except (OSError, ValueError):
            continue
        if kind in ("Data", "Unified") and size.endswith("K"):
            caches[level] = (int(size[:-1]) << 10, ways or 8)
    return caches


def _word_in(path: str) -> str:
    with open(path, encoding="ascii") as f:
        return f.read().strip()


def read_processor(path: Path) -> dict[str, str]:
    """Return what the kernel says about the first processor, by the names it uses."""
    try:
        with path.open(encoding="utf-8") as f:
            first = f.read(8192).split("\n\n")[0]  # the rest has a block for each core
    except OSError:
        return {}
    pairs = (line.partition(":") for line in first.splitlines())
    return {name.strip(): value.strip() for name, _, value in pairs}


def _nominal_ghz(processor: dict[str, str]) -> float:
    """Return the highest frequency the kernel knows of; the momentary one would not be the same.

    A virtual machine shows the base frequency only (half the bogomips, on x86); processors of today
    run about half as fast again.
    """
    try:
        khz = int((_SYSTEM / "cpufreq/cpuinfo_max_freq").read_text(encoding="ascii"))
        return round(khz / 1e6, 2)
    except (OSError, ValueError):
        pass
    if "vendor_id" not in processor:
        return 3.0
    try:
        return round(1.5 * float(processor["bogomips"]) / 2000, 2)
    except (KeyError, ValueError):
        return 3.0


def _fma_per_cycle(isa: str, processor: dict[str, str]) -> int:
    """Return how many FMAs begin in a cycle: one where a processor has half of a vector's width.

    Zen 4 is so in AVX-512, Zen 1 (the models of family 23 before 48) in AVX2.
    """
    if processor.get("vendor_id") != _AMD:
        return 2
    family, model = (processor.get(what, "") for what in ("cpu family", "model"))
    zen1 = family == "23" and model.isdigit() and int(model) < 48
    return 1 if (isa, family) == ("avx512", "25") or (zen1 and isa == "avx2") else 2
