"""What a machine has and lacks for compiling and running kernels, with the cure for each lack."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import platform
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from tcdsl.grammar.text.errors import TCError
from tcdsl.tools.finding import Finding

if TYPE_CHECKING:
    from tcdsl.codegen.machine.cpu import Machine


def examine(*, measure: bool = True) -> Iterator[Finding]:
    """Look at everything and yield what is found, as it is found.

    measure tells whether peaks are measured too (about two seconds).
    """
    is_broken = False
    for finding in (*_python(), *_compiler()):
        is_broken |= finding.state == "broken"
        yield finding
    if not is_broken:
        yield from _machine(measure)
        yield from _kernel()
    yield from _caches()
    yield from _threads()
    yield from examine_torch()
    yield from _gpu()


def _python() -> Iterator[Finding]:
    versions = [f"Python {platform.python_version()}"]
    versions += [f"{p} {importlib.metadata.version(p)}" for p in ("numpy", "lark", "scipy")]
    yield Finding("python", "ok", ", ".join(versions))
    if getattr(sys, "_is_gil_enabled", lambda: True)() is False:
        yield Finding(
            "gil", "broken", "this interpreter runs without the GIL", "use a standard build"
        )


def _compiler() -> Iterator[Finding]:
    from tcdsl.codegen.toolchain import cc

    report = cc.report()
    if "error" in report:
        yield Finding(
            "compiler",
            "broken",
            report["error"],
            'install gcc or clang, or: pip install "tcdsl[zig]"',
        )
        return
    found = f"{report['kind']} {report['version']}, {report['compiler']}"
    yield Finding("compiler", "ok", f"{found} (by {report['chosen by']})")
    yield Finding("flags", "ok", report["flags"])
    yield Finding("headers", "ok", "of Python and of the C library: none needed")


def _machine(measure: bool) -> Iterator[Finding]:
    from tcdsl.codegen.toolchain.host import detect

    m = detect()
    kb = 1024
    yield Finding(
        "processor",
        "note" if m.isa == "generic" else "ok",
        f"{m.isa}, {m.cores} cores, {m.frequency_ghz:.2f} GHz, {m.vector_bytes}-byte vectors, "
        f"L1 {m.l1_bytes // kb} KB, L2 {m.l2_bytes // kb} KB, L3 {m.l3_bytes // kb} KB",
        "kernels run, but without this processor's vector instructions"
        if m.isa == "generic"
        else "",
    )
    if measure:
        yield from _peaks(m)


def _peaks(m: Machine) -> Iterator[Finding]:
    from tcdsl.codegen.toolchain.peak import fma_probe, measure_peaks, triad_probe

    peaks = measure_peaks([fma_probe(n) for n in sorted({1, m.cores})])
    reached = ", ".join(f"{rate:.0f} GFLOP/s on {n}" for n, rate in peaks.rates.items())
    text = f"float32 FMA {reached} cores (model: {m.peak_gflops():.0f} a core)"
    yield _measured("peak", text, peaks.notes)
    peaks = measure_peaks([triad_probe(m.cores)], 0.5)
    text = f"{peaks.rates[m.cores]:.0f} GB/s on {m.cores} cores"
    yield _measured("memory", text, peaks.notes)


def _measured(name: str, text: str, notes: Sequence[str]) -> Finding:
    if not notes:
        return Finding(name, "ok", text)
    return Finding(name, "note", text, "\n".join((*notes, "measure again when nothing else runs")))


def _kernel() -> Iterator[Finding]:
    import numpy as np

    from tcdsl.definitions import define

    try:
        add = define("def add(float(N) A, float(N) B) -> (C) { C(i) = A(i) + B(i) }")
        a = np.arange(5, dtype=np.float32)
        right = bool((add(a, a) == 2 * a).all())
    except (TCError, OSError, ImportError) as error:
        yield Finding("kernel", "broken", str(error), "please report this with the text above")
        return
    yield Finding(
        "kernel",
        "ok" if right else "broken",
        "compiled, called, right" if right else "wrong answer",
    )


def _caches() -> Iterator[Finding]:
    from tcdsl.codegen.toolchain.cachedir import cache_dir

    try:
        folder = cache_dir()
    except TCError as error:
        yield Finding("cache", "broken", str(error), "set TCDSL_CACHE to a folder of your own")
        return
    if not os.access(folder, os.W_OK):
        yield Finding("cache", "broken", f"{folder} cannot be written", "set TCDSL_CACHE")
        return
    from tcdsl.codegen.toolchain import contentfile

    count, total = contentfile.size()
    yield Finding(
        "cache", "ok", f"{folder}: {count} files of compiled kernels, {total / 1e6:.1f} MB"
    )
    from tcdsl.calls.bindings.aside import last_failure

    if why := last_failure():
        yield Finding(
            "built aside", "note", f"for all sizes of {why}",
            "nothing is lost: the call that needs it compiles it, and raises what is wrong",
        )  # fmt: skip


def _threads() -> Iterator[Finding]:
    from tcdsl.codegen.toolchain.host import usable_cores

    yield Finding("threads", "ok", f"{usable_cores()} (cores this process may run on)")
    if "OPENBLAS_THREAD_TIMEOUT" not in os.environ and "OPENBLAS_NUM_THREADS" not in os.environ:
        yield Finding(
            "numpy BLAS",
            "note",
            "its threads spin after each matmul and take the cores from whatever runs next",
            "programs that alternate matmul and kernels: set OPENBLAS_THREAD_TIMEOUT=4 "
            "before numpy is imported",
        )


def examine_torch() -> Iterator[Finding]:
    """Look at how calls reach PyTorch, if it is installed; it is not imported."""
    if importlib.util.find_spec("torch") is None:
        return
    from tcdsl.codegen.toolchain.cachedir import is_lasting, read_json

    version = importlib.metadata.version("torch")
    if os.environ.get("TCDSL_TORCH_BRIDGE") == "0":
        what = "calls through its Python functions, since TCDSL_TORCH_BRIDGE is 0"
        yield Finding("torch", "note", f"{version}, {what}", "unset TCDSL_TORCH_BRIDGE")
        return
    match read_json("torch-bridge.json").get(version):
        case {"error": ""}:
            yield Finding("torch", "ok", f"{version}, calls by its own headers")
        case {"error": str(error)}:
            yield Finding(
                "torch",
                "note",
                f"{version}, calls through its Python functions, since its headers could not be "
                f"compiled: {error}",
                "calls are right, some microseconds longer; an hour after the first attempt it is "
                "tried again",
            )
        case _ if not is_lasting():
            yield Finding(
                "torch",
                "note",
                f"{version}, calls through its Python functions, since the cache folder cannot "
                "keep its compiled headers",
                "set TCDSL_CACHE to a folder that you may write to, with room",
            )
        case _:
            yield Finding(
                "torch",
                "note",
                f"{version}, its headers are not compiled yet",
                "the first calls of tcdsl.torch do it, beside a program",
            )


def _gpu() -> Iterator[Finding]:
    from tcdsl.tools.doctor_gpu import examine_gpus  # on use: it looks for CuPy

    yield from examine_gpus()
