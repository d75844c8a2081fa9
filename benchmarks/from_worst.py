"""Does tuning find its way from the worst start? `python benchmarks/from_worst.py [--seconds 60]`.

On three workloads a search that starts from the worst legal config, without the analytic model,
against the best known: what a search of the same length finds from the default with the model. The
two configs that come out are timed by turns in one process: their ratio is the result.
"""

from __future__ import annotations

import argparse
import random
import tempfile
from collections.abc import Sequence
from pathlib import Path

import tcdsl as tc
from tcdsl.autotune.targets.cpu.bench import CpuBench
from tcdsl.autotune.targets.cpu.problem import CpuProblem
from tcdsl.autotune.tuner import tune
from tcdsl.autotune.worker.builder import Built
from tcdsl.autotune.worker.timing import interleaved, quantile_ns
from tcdsl.calls.problems import problem_of_sizes
from tcdsl.codegen.machine.config import Config
from tcdsl.kernel import Kernel

WORKLOADS = {
    "matmul": (
        "def matmul(float(M,K) A, float(K,N) B) -> (C) { C(m, n) +=! A(m, k) * B(k, n) }",
        {"M": 256, "K": 256, "N": 256},
    ),
    "softmax": (
        "def softmax(float(B,N) X) -> (Y) { top(b) max=! X(b, n)  Z(b) +=! exp(X(b, n) - top(b)) "
        " Y(b, n) = exp(X(b, n) - top(b)) / Z(b) }",
        {"B": 1024, "N": 1000},
    ),
    "gate": (
        "def gate(float(M,N) X, float(M,N) Y) -> (O) "
        "{ O(m, n) = X(m, n) * sigmoid(X(m, n)) * Y(m, n) + X(m, n) }",
        {"M": 1024, "N": 1024},
    ),
}


_ROUNDS = 200


def head_to_head(problem: CpuProblem, configs: Sequence[Config], rounds: int) -> list[float]:
    """Return the times of configs, in ns per call, by turns in this process."""
    sources = [problem.emit(config) for config in configs]
    bench = CpuBench(problem.case())
    turns = {}
    for number, built in problem.builder.build(sources, len(sources)):
        assert isinstance(built, Built), built
        turns[number] = bench.sampler(bench.load(built.load))
    samples = interleaved(turns, rounds, lambda _: None, drop=())
    return [quantile_ns(samples[i]) for i in range(len(configs))]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("workloads", nargs="*", default=list(WORKLOADS), help="default: all")
    options = parser.parse_args()
    for name in options.workloads:
        text, sizes = WORKLOADS[name]
        kernel = tc.define(text)
        assert isinstance(kernel, Kernel)
        problem = problem_of_sizes(kernel.variant(), sizes)
        assert isinstance(problem, CpuProblem)
        worst = problem.space.worst(random.Random(options.seed))
        budget = {"seconds": options.seconds, "seed": options.seed}
        with tempfile.TemporaryDirectory() as folder:
            cache = Path(folder) / "worst.db"
            (found,) = tune([problem], cache=cache, start=[worst], use_model=False, **budget)
            (known,) = tune([problem], cache=Path(folder) / "best.db", **budget)
        default = problem.space.default
        (worst_ns,) = head_to_head(problem, [worst], rounds=2)
        times = head_to_head(problem, [found.config, known.config, default], _ROUNDS)
        us = [t / 1e3 for t in (worst_ns, *times)]
        print(
            f"{name} {sizes}: worst {us[0]:.1f} us; from there {us[1]:.1f} us in {found.trials}"
            f" trials; best known {us[2]:.1f} us in {known.trials}; default {us[3]:.1f} us;"
            f" ratio {us[1] / min(us[2:]):.3f}"
            f"\n  from the worst: {found.config}\n  best known:     {known.config}",
            flush=True,
        )


if __name__ == "__main__":
    main()
