"""Is tuned ever slower than untuned? `python benchmarks/never_slower.py [--seconds 5] [NAME ..]`.

Each kernel is tuned for so many seconds. Where another config than the default is kept, a process
of its own calls both by turns, in each way in which callers do: call upon call, outputs read after
each call, operands in no cache. What is printed is the time of tuned over untuned: call upon call
of low quantiles and of medians, otherwise the middle one of the ratios of turns.

Kernels without a verdict, and those whose two configs could not be compared, are listed at the end;
then the exit code is 1.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import tcdsl as tc
from tcdsl.autotune.store.trial import TuneError
from tcdsl.autotune.targets.cpu.bench import CpuBench
from tcdsl.autotune.targets.cpu.problem import CpuProblem
from tcdsl.autotune.tuner import tune
from tcdsl.autotune.worker.builder import Built
from tcdsl.autotune.worker.timing import interleaved, quantile_ns
from tcdsl.calls.problems import problem_of_sizes
from tcdsl.codegen.machine.config import Config
from tcdsl.kernel import Kernel

_ROUNDS = 100
_SMALL, _LARGE = {"N": 1, "C": 8, "H": 18, "W": 18}, {"N": 2, "C": 16, "H": 30, "W": 30}
_WINDOW = "Y(n, o, h, w) +=! X(n, c, h + i, w + j) * F(o, c, i, j)"
# Each at two sizes: a text, what is small, what is large.
TEXTS: dict[str, tuple[str, dict[str, int], dict[str, int]]] = {
    "add": (
        "def add(float(N) A, float(N) B) -> (C) { C(i) = A(i) + B(i) }",
        {"N": 10_000},
        {"N": 1 << 20},
    ),
    "matmul": (
        "def matmul(float(M,K) A, float(K,N) B) -> (C) { C(m, n) +=! A(m, k) * B(k, n) }",
        {"M": 64, "K": 64, "N": 64},
        {"M": 128, "K": 128, "N": 128},
    ),
    "thin": (
        "def thin(float(M,K) A, float(N,K) B) -> (C) { C(m, n) +=! A(m, k) * B(n, k) }",
        {"M": 1, "K": 300, "N": 500},
        {"M": 4, "K": 1024, "N": 1024},
    ),
    "softmax": (
        "def softmax(float(N,D) X) -> (Y) { top(n) max=! X(n, d)  Z(n) +=! exp(X(n, d) - top(n)) "
        " Y(n, d) = exp(X(n, d) - top(n)) / Z(n) }",
        {"N": 1000, "D": 10},
        {"N": 512, "D": 512},
    ),
    "conv": (
        f"def conv(float(N,C,H,W) X, float(O,C,3,3) F) -> (Y) {{ {_WINDOW} }}",
        {**_SMALL, "O": 8},
        {**_LARGE, "O": 16},
    ),
    "depthwise": (
        "def depthwise(float(N,C,H,W) X, float(C,3,3) F) -> (Y) "
        "{ Y(n, c, h, w) +=! X(n, c, h + i, w + j) * F(c, i, j) }",
        _SMALL,
        _LARGE,
    ),
    "sum": (
        "def total(float(N,D) X) -> (S) { S(n) +=! X(n, d) }",
        {"N": 1000, "D": 77},
        {"N": 1024, "D": 1024},
    ),
    "columns": (
        "def total(float(N,D) X) -> (S) { S(d) +=! X(n, d) }",
        {"N": 100, "D": 300},
        {"N": 1024, "D": 1024},
    ),
    "transpose": (
        "def turned(float(N,D) X) -> (Y) { Y(d, n) = X(n, d) }",
        {"N": 200, "D": 130},
        {"N": 1024, "D": 1024},
    ),
    "gather": (
        "def gather(float(V,D) T, int32(N) I) -> (O) { O(n, d) = T(I(n), d) }",
        {"V": 100, "D": 16, "N": 1000},
        {"V": 1000, "D": 64, "N": 4096},
    ),
    "largest": (
        "def largest(float(N,D) X) -> (S) { S(n) argmax=! X(n, d) }",
        {"N": 1000, "D": 10},
        {"N": 1024, "D": 1024},
    ),
    "running": (
        "def running(float(N,T) X) -> (Y) { Y(n, t) +=! X(n, k) where t in 0:T, k in 0:t+1 }",
        {"N": 30, "T": 100},
        {"N": 256, "T": 1024},
    ),
}
WORKLOADS = {
    f"{name} {which}": (text, sizes)
    for name, (text, *both) in TEXTS.items()
    for which, sizes in zip(("small", "large"), both, strict=True)
}


def problem_of(name: str) -> CpuProblem:
    """Return a workload as a problem."""
    text, sizes = WORKLOADS[name]
    kernel = tc.define(text)
    assert isinstance(kernel, Kernel)
    problem = problem_of_sizes(kernel.variant(), sizes)
    assert isinstance(problem, CpuProblem)
    return problem


def compare(problem: CpuProblem, config: Config) -> str:
    """Return the ratios of a config to the default, timed by turns in this process."""
    sources = [problem.emit(c) for c in (config, problem.space.default)]
    bench = CpuBench(problem.case())
    loaded = {}
    for number, built in problem.builder.build(sources, len(sources)):
        assert isinstance(built, Built), built
        loaded[number] = bench.load(built.load)
    told = []
    for way in ("again", *bench.ways):
        turns = {number: bench.sampler(candidate, way) for number, candidate in loaded.items()}
        samples = interleaved(turns, _ROUNDS, lambda _: None, drop=())
        tuned, untuned = samples[0], samples[1]
        if way == "again":
            low, middle = (quantile_ns(tuned, q) / quantile_ns(untuned, q) for q in (0.05, 0.5))
            told.append(f"again {low:.3f}, median {middle:.3f}")
        else:
            ratios = [its / that for its, that in zip(tuned, untuned, strict=False)]
            told.append(f"{way} {np.median(ratios):.3f}")
    return "; ".join(told)


def tuned(name: str, seconds: float) -> str:
    """Tune a workload and return what came of it, beside its default in a process of its own.

    Raises
    ------
    TuneError, CalledProcessError
        Where there is no verdict, or that process fails.
    """
    problem = problem_of(name)
    begun = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        (found,) = tune([problem], cache=Path(folder) / "t.db", seconds=seconds)
    head = f"{time.monotonic() - begun:.1f} s, {found.trials} trials"
    if found.config == problem.space.default:
        return f"{head}; the default stays"
    command = [sys.executable, __file__, name, "--config", found.config.to_json()]
    ratios = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    return f"{head}; {ratios.strip()}; {found.config}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--config", help="compare this config of one workload; tune nothing")
    parser.add_argument("workloads", nargs="*", default=list(WORKLOADS), help="default: all")
    options = parser.parse_args()
    if options.config is not None:
        (name,) = options.workloads
        print(compare(problem_of(name), Config.from_json(options.config)))
        return
    failures = {}
    for name in options.workloads:
        try:
            print(f"{name}: {tuned(name, options.seconds)}", flush=True)
        except (TuneError, subprocess.CalledProcessError) as error:
            failures[name] = str(error)
            print(f"{name}: no verdict", flush=True)
    for name, why in failures.items():
        print(f"{name} failed: {why}", file=sys.stderr)
    sys.exit(bool(failures))


if __name__ == "__main__":
    main()
