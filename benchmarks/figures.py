"""The figures of a release in one run: `python benchmarks/figures.py [--seconds 30] [--json FILE]`.

With `--calls` it is what a call costs alone.

Ratios of tcdsl, untuned and tuned here, to NumPy and torch, each in the same process on the same
machine, with the share of the FMA peak measured in turns with them; first-call compile time; what a
call costs beside `np.add`; trials per second of the tuner.
"""

from __future__ import annotations

import os

# Two pools of threads on the same cores only measure each other: let idle ones sleep.
os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "4")
os.environ.setdefault("GOMP_SPINCOUNT", "1000")

import argparse
import importlib.util
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from layers import BATCHED, MATMUL
from reports import facts, keep

import tcdsl as tc
from tcdsl.autotune.store.records import problems
from tcdsl.codegen.program.work import flops_of
from tcdsl.codegen.toolchain.peak import fma_probe, measure_peaks
from tcdsl.kernel import Kernel
from tcdsl.tools.timing import beside_peak, interleaved

FCRELU = """
def fcrelu(float(B,M) I, float(N,M) W, float(N) b) -> (O) {
  O(b_, n) +=! I(b_, m) * W(n, m)
  O(b_, n) = fmax(O(b_, n) + b(n), 0)
}
"""


@dataclass(frozen=True)
class Workload:
    """A definition at a size, and the same thing said to NumPy and torch."""

    name: str
    text: str
    shapes: tuple[tuple[int, ...], ...]
    numpy: Callable[..., Any]
    torch: Callable[..., Any]


def _torch_fcrelu(torch: Any, x: Any, w: Any, b: Any) -> Any:
    return torch.relu(torch.nn.functional.linear(x, w, b))


def _numpy_fcrelu(x: Any, w: Any, b: Any) -> Any:
    return np.maximum(x @ w.T + b, 0)


WORKLOADS = (
    Workload(
        "fcrelu 100,128,100", FCRELU, ((100, 128), (100, 128), (100,)), _numpy_fcrelu, _torch_fcrelu
    ),
    Workload(
        "fcrelu 128,1024,1024",
        FCRELU,
        ((128, 1024), (1024, 1024), (1024,)),
        _numpy_fcrelu,
        _torch_fcrelu,
    ),
    Workload(
        "matmul 1024^3",
        MATMUL,
        ((1024, 1024), (1024, 1024)),
        np.matmul,
        lambda torch, a, b: torch.matmul(a, b),
    ),
    Workload(
        "500x(26x72x26)",
        BATCHED,
        ((500, 26, 72), (500, 72, 26)),
        np.matmul,
        lambda torch, a, b: torch.bmm(a, b),
    ),
)


def measure(work: Workload, seconds: float, cache: Path, cores: int) -> dict[str, Any]:
    """Return times and ratios of one workload."""
    rng = np.random.default_rng(0)
    args = [rng.standard_normal(s, dtype=np.float32) for s in work.shapes]
    untuned = tc.define(work.text, tune="off")
    assert isinstance(untuned, Kernel)
    start = time.perf_counter()
    result = untuned(*args)
    first_ms = (time.perf_counter() - start) * 1e3
    start = time.perf_counter()
    tuned = tc.define(work.text, cache=cache)
    assert isinstance(tuned, Kernel)
    config = tuned.autotune(*args, seconds=seconds, quiet=True)
    spent = time.perf_counter() - start
    out, out2 = np.empty_like(result), np.empty_like(result)
    calls: dict[str, Callable[[], object]] = {
        "untuned": lambda: untuned(*args, out=out),
        "tuned": lambda: tuned(*args, out=out2),
        "numpy": lambda: work.numpy(*args),
    }
    if importlib.util.find_spec("torch") is not None:
        import torch

        tensors = [torch.from_numpy(a) for a in args]
        calls["torch"] = lambda: work.torch(torch, *tensors)
    flops = flops_of(untuned.variant().program, variant_sizes(untuned, args))
    probes = [fma_probe(count) for count in sorted({1, cores})]
    times, roof = beside_peak(calls, flops, probes, 4)
    trials = next(p.trials for p in problems(cache) if p.config == config)
    return {
        "workload": work.name,
        "first_call_ms": first_ms,
        "time_us": {k: t.time_ns / 1e3 for k, t in times.items()},
        "peak_gflops": roof.rate,
        "notes": list(roof.notes),
        "share_of_peak": {k: flops / t.time_ns / roof.rate for k, t in times.items()},
        "ratio": {
            f"{peer}/{ours}": times[peer].time_ns / times[ours].time_ns
            for peer in ("numpy", "torch")
            if peer in times
            for ours in ("untuned", "tuned")
        },
        "trials": trials,
        "trials_per_s": trials / spent,
        "config": str(config),
    }


def variant_sizes(kernel: Kernel, args: list[Any]) -> dict[str, int]:
    """Return the sizes that arguments bring."""
    return kernel.session.bind(kernel.definition, args, {})[1]


def call_overhead() -> dict[str, float]:
    """Return times of calls on 16 elements: nanoseconds, and ratios to np.add."""
    add = tc.define("def add(float(N) A, float(N) B) -> (C) { C(i) = A(i) + B(i) }")
    assert isinstance(add, Kernel)
    sizes = [np.arange(n, dtype=np.float32) for n in (16, 17, 18, 19)]
    a, c = sizes[0], np.empty(16, np.float32)
    operands = [(x, x) for x in sizes] + [(np.arange(32, dtype=np.float32)[::2], a)]

    def alternate(call: Callable[[Any, Any], object]) -> Callable[[], object]:
        def run() -> None:
            for x, y in operands:
                call(x, y)

        return run

    times = interleaved(
        {
            "empty": lambda: None,
            "np out": lambda: np.add(a, a, out=c),
            "out": lambda: add(a, a, out=c),
            "np": lambda: np.add(a, a),
            "fresh": lambda: add(a, a),
            "np alternating": alternate(np.add),
            "alternating": alternate(add),
        },
        2,
    )
    ns = {k: t.time_ns - times["empty"].time_ns for k, t in times.items()}
    big = np.ones((4096, 4096), np.float32)
    add2 = tc.define("def add(float(M,N) A, float(M,N) B) -> (C) { C(i,j) = A(i,j) + B(i,j) }")
    assert isinstance(add2, Kernel)
    into = np.empty_like(big)
    large = interleaved(
        {"out": lambda: add2(big, big, out=into), "fresh": lambda: add2(big, big)}, 2
    )
    return {
        "ns of a call with out=": ns["out"],
        "ns of a call": ns["fresh"],
        "out= / np.add(out=)": ns["out"] / ns["np out"],
        "fresh / np.add": ns["fresh"] / ns["np"],
        "five forms alternating / np.add": ns["alternating"] / ns["np alternating"],
        "4096x4096 fresh / out=": large["fresh"].time_ns / large["out"].time_ns,
    }


def show_calls(report: dict[str, Any]) -> None:
    for name, figure in report["calls"].items():
        print(f"  {name}: {figure:.2f}")


def main() -> None:
    report: dict[str, Any]
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=30, help="of tuning for each workload")
    parser.add_argument("--json", type=Path, help="keep the figures in this file")
    parser.add_argument("--calls", action="store_true", help="what a call costs alone")
    options = parser.parse_args()
    if options.calls:
        report = {**facts(), "calls": call_overhead()}
        show_calls(report)
        keep(report, options.json)
        return
    folder = tempfile.TemporaryDirectory()
    os.environ["TCDSL_CACHE"] = folder.name  # so that first calls compile
    cores = len(os.sched_getaffinity(0))
    peaks = measure_peaks([fma_probe(count) for count in sorted({1, cores})], 1.0)
    peak = peaks.rates[cores]
    report = {
        **facts(),
        "cores": cores,
        "peak_gflops": peak,
        "notes": list(peaks.notes),
        "calls": call_overhead(),
    }
    print(f"{cores} cores, FMA peak {peak:.0f} GFLOP/s, commit {report['commit']}")
    for note in peaks.notes:
        print(f"note: {note}")
    show_calls(report)
    with folder:
        report["workloads"] = []
        for work in WORKLOADS:
            one = measure(work, options.seconds, Path(folder.name) / "figures.db", cores)
            report["workloads"].append(one)
            print(f"{work.name}: first call {one['first_call_ms']:.0f} ms, {one['config']}")
            for label, us in one["time_us"].items():
                print(f"  {label:8} {us:9.1f} us  {one['share_of_peak'][label]:4.0%} of peak")
            for note in one["notes"]:
                print(f"  note: {note}")
            print("  " + "  ".join(f"{k} {v:.2f}x" for k, v in one["ratio"].items()))
            print(f"  {one['trials']} trials, {one['trials_per_s']:.1f}/s")
    keep(report, options.json)


if __name__ == "__main__":
    main()
