"""The processor at hand: what tells it from others, and what its kernel does not say of it."""

from __future__ import annotations

import functools
import hashlib
import platform

_LEAF_7_1, _AMX_FP16 = 6, 21  # of glibc's table of answers to CPUID; bit of the first word


def processor_key() -> str:
    """Return a hash of what `processor` tells."""
    return hashlib.sha256(processor().encode()).hexdigest()[:16]


def processor() -> str:
    """Return the model and the features of the processor, without what changes while it runs."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as f:
            text = f.read(8192).split("\n\n")[0]
    except OSError:
        return platform.processor() or platform.machine()
    wanted = ("model name", "flags", "Features", "CPU part", "cpu family", "model\t", "stepping")
    told = [line for line in text.splitlines() if line.startswith(wanted)]
    if " amx_tile" in text and has_amx_fp16():
        told.append("amx_fp16")
    return "\n".join(told)


@functools.lru_cache(maxsize=1)
def has_amx_fp16() -> bool:
    """Return whether tiles (AMX) of float16 are multiplied: what CPUID told the C library.

    Linux does not show it, and a virtual machine may hide it from a model that has it.
    """
    import ctypes  # on use: only processors with tiles are asked

    class Feature(ctypes.Structure):
        _fields_ = (("told", ctypes.c_uint32 * 4), ("usable", ctypes.c_uint32 * 4))

    try:
        leaf = getattr(ctypes.CDLL(None), "__x86_get_cpuid_feature_leaf")
    except (OSError, AttributeError):  # not glibc's, or older than 2.33
        return False
    leaf.argtypes, leaf.restype = (ctypes.c_uint,), ctypes.POINTER(Feature)
    return bool(leaf(_LEAF_7_1).contents.told[0] >> _AMX_FP16 & 1)
