"""Does tuning find its way from the worst start? `python benchmarks/from_worst.py [--seconds 60]`.

On three workloads a search that starts from the worst legal config, without the analytic model,
against the best that any search here found: the model's default and a longer search with the model.
"""

from __future__ import annotations

import argparse
import random
import tempfile
from pathlib import Path

import tcdsl as tc
from tcdsl.autotune.tuner import tune
from tcdsl.kernel import Kernel
from tcdsl.tuning import problem_of_sizes

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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    options = parser.parse_args()
    for name, (text, sizes) in WORKLOADS.items():
        kernel = tc.define(text)
        assert isinstance(kernel, Kernel)
        problem = problem_of_sizes(kernel.variant(), sizes)
        worst = problem.space.worst(random.Random(0))
        with tempfile.TemporaryDirectory() as folder:
            (from_worst,) = tune(
                [problem],
                cache=Path(folder) / "worst.db",
                seconds=options.seconds,
                start=[worst],
                use_model=False,
            )
            (best,) = tune([problem], cache=Path(folder) / "best.db", seconds=options.seconds)
        found, known = from_worst.verdict.time_ns, best.verdict.time_ns
        print(
            f"{name} {sizes}: from the worst {found / 1e3:.1f} us, best known {known / 1e3:.1f} us,"
            f" {found / min(known, found):.3f} of it;"
            f" default {best.verdict.default_ns / 1e3:.1f} us"
            f"\n  {from_worst.config}\n  {best.config}"
        )


if __name__ == "__main__":
    main()
