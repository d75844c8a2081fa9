"""What a tuner's seconds bring: `python benchmarks/tuning.py [--seconds 10] [WORKLOAD ..]`.

Workloads are those of `suite.py`, by their names (those under a millisecond by default). Each is
tuned in a process of its own with an empty cache folder. What is printed: how long it took beside
what was asked, candidates in all and a second by the clock, what of a core's time a candidate took
of ours, of the worker's and the compilers', and the default's time over that of what was found.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SMALL = (
    "mm 128x32x256 NN", "8 x (4x512x512)", "linear relu 100x128x100", "mlp3 128,128,64,32,2",
    "conv N32 C4 F4 56x56 k3x3 s1 p0", "depthwise N8 C64 56 k3 s1 p1", "softmax 1024x1000",
    "layernorm 100x77", "sum 1000x1000", "cumsum rows 512x4096", "add 1048576",
)  # fmt: skip


def tuned(name: str, seconds: float) -> str:
    """Return what tuning a workload in this process comes to, as a line."""
    from suite_parts.kinds import find

    import tcdsl as tc
    from tcdsl.autotune.tuner import tune
    from tcdsl.calls.problems import problem_of_call
    from tcdsl.kernel import Kernel

    workload = find(name)
    kernel = tc.define(workload.text)
    assert isinstance(kernel, Kernel)
    call = kernel.call(*workload.operands())
    before, own = resource.getrusage(resource.RUSAGE_CHILDREN), time.process_time()
    begun = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        (found,) = tune([problem_of_call(call)], cache=Path(folder) / "t.db", seconds=seconds)
    took, own = time.monotonic() - begun, time.process_time() - own
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    theirs = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    count = max(found.trials, 1)
    verdict = found.verdict
    return (
        f"{took:6.2f} s {took / seconds:5.2f} {found.trials:6} {found.trials / took:6.1f}"
        f" {1e3 * own / count:6.1f} {1e3 * theirs / count:6.1f}"
        f" {verdict.default_ns / 1e3:10.1f} us {verdict.default_ns / verdict.time_ns:6.2f}"
        f"  {verdict.config if verdict.time_ns < verdict.default_ns else 'the default'}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--here", action="store_true", help="one workload, in this process")
    parser.add_argument("workloads", nargs="*", default=list(SMALL))
    options = parser.parse_args()
    if options.here:
        (name,) = options.workloads
        print(tuned(name, options.seconds))
        return
    print(
        f"{'workload':34} {'took':>8} {'asked':>5} {'trials':>6} {'a s':>6} {'ours':>6}"
        f" {'others':>6} {'default':>13} {'gain':>6}  ms of a core a trial; found"
    )
    for name in options.workloads:
        with tempfile.TemporaryDirectory() as folder:
            os.chmod(folder, 0o700)
            command = [sys.executable, __file__, "--here", "--seconds", str(options.seconds), name]
            answer = subprocess.run(
                command, stdout=subprocess.PIPE, text=True, env=os.environ | {"TCDSL_CACHE": folder}
            )
        print(f"{name:34} {answer.stdout.strip() or 'no verdict'}", flush=True)


if __name__ == "__main__":
    main()
