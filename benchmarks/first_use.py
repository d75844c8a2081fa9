"""What it costs to meet a kernel: the first call, the next size, the first step of a model.

`python benchmarks/first_use.py [--only TEXT] [--json FILE] [--threads N]` prints a row for each
first: the milliseconds that it takes by the wall and of this process's processor time, the seconds
that compilers ran beside it, how many executables were made and how many were loaded, and the
aim in milliseconds by the wall. Each row, or group of rows under one name, is a process of its own:
`cold` ones have a cache folder in which nothing lies but what every program needs (the launcher,
what is known of the compiler), `warm` ones one that the same process has filled before. A batch
size that is new to a model costs what its first step takes longer than the steps after it.
A new size is one that the process before had too, and may have compiled an
executable for; "size that no process had" is new to the machine; both contain
the work itself, which the rows behind them show.
Python's bytecode is there before, as `pip install` leaves it; until November 29, 2026 the first
rows in a fresh clone made it, 50 to 80 ms of a cold linear layer or convolution.

The time of a loop of plain Python stands in the head and in the report: divide by it where two
reports come from a busy machine.
"""

from __future__ import annotations

import argparse
import compileall
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import first_use_runs as runs
from first_use_runs import BATCHED, EXAMPLES, MODELS, PROGRAMS, Clocked, Emit


@dataclass(frozen=True)
class Row:
    """What a process does, whether it meets what another has compiled, and what is aimed at.

    aims: milliseconds by the wall, by step.
    """

    name: str
    run: Callable[[Emit, str], None]
    program: str
    is_warm: bool
    aims: Mapping[str, float]


def rows() -> Iterator[Row]:
    """Yield the rows."""
    yield Row("import", runs.run_imports, "", True, {"and first define": 150})
    yield Row("empty folder", runs.run_ready, "", False, {})
    for name in ("add", "attention"):
        yield Row(f"warm {name}, first kernel", runs.run_first, name, True, {})
    for name in PROGRAMS:
        yield Row(f"warm {name}", runs.run_define, name, True, {"define and first call": 3})
    new = ("new size", "size that no process had")
    for name in PROGRAMS:
        yield Row(name, runs.run_new_size, name, True, dict.fromkeys(new, 0.3))
    layers = {"add": 60, "linear": 60, "conv": 150, "conv stride 2": 150}
    for name in layers:
        aims = dict.fromkeys(new, 0.5)
        yield Row(f"gradient of {name}", runs.run_new_size_of_gradient, name, True, aims)
    for name, ms in layers.items():
        yield Row(f"cold {name}", runs.run_cold, name, False, {"exact": ms, "generic": ms})
    aims = {"exact": layers["linear"], "generic": layers["linear"]}
    yield Row("cold linear, another before", runs.run_cold_beside_library, "linear", False, aims)
    for name in BATCHED:
        aims = {"another batch": 0.3}  # as a new size; others wait no longer than the first did
        yield Row(f"cold {name}, batches", runs.run_cold_batches, name, False, aims)
    for name, ms in layers.items():
        aims = {"exact": 3 * ms, "generic": 3 * ms}  # the forward pass and twice that
        yield Row(f"cold gradient of {name}", runs.run_cold_gradient, name, False, aims)
    for count in (10, 100, 1000):
        yield Row(f"{count} forms in turn", runs.run_forms, str(count), True, {"a call": 0.0005})
    for name, (_, _, _, ms) in MODELS.items():
        aims = {"first step": ms, "another batch size": 20, "a further batch size": 20}
        yield Row(f"cold {name}", runs.run_model, name, False, aims)
        yield Row(f"warm {name}", runs.run_model, name, True, aims | {"first step": 400})

    for path in sorted(EXAMPLES.glob("train_*.py")):
        aims = {"import and first step": 10_000}
        yield Row(f"cold {path.name}", runs.run_script, path.name, False, aims)
        aims = {"import and first step": 500}
        yield Row(f"warm {path.name}", runs.run_script, path.name, True, aims)


STEP = ("wall_ms", "cpu_ms", "compiler_s", "made", "loaded")
HEADS = {
    "wall ms": "11.4f", "CPU ms": "11.4f", "compiler s": "12.2f", "made": "6.0f", "loaded": "8.0f",
    "aim ms": "9.4g",
}  # fmt: skip


class Processes:
    """Runs rows, each in a process and a cache folder of its own."""

    def __init__(self, folder: Path, threads: int) -> None:
        self._folder, self._threads = folder, threads
        for package in ("grammar", "codegen", "autotune", "tcdsl"):
            compileall.compile_dir(EXAMPLES.parent / package, quiet=2)
        self._ready = folder / "ready"
        self._known: dict[tuple[str, str], Path] = {}

    def run(self, row: Row) -> Iterator[Clocked]:
        """Yield the steps of a row as they come."""
        if row.run is runs.run_ready:
            yield from self._in(self._ready, row)
            return
        if not self._ready.exists():
            list(self._in(self._ready, Row("", runs.run_ready, "", False, {})))
        key = row.run.__name__, row.program
        cache = self._known.get(key)  # warm after cold: what that row has left
        if cache is None:
            self._known[key] = cache = self._folder / f"cache-{len(self._known)}"
            shutil.copytree(self._ready, cache)
            if row.is_warm:
                list(self._in(cache, row, runs.FILLING))
        yield from self._in(cache, row)

    def _in(self, cache: Path, row: Row, *how: str) -> Iterator[Clocked]:
        cache.mkdir(mode=0o700, exist_ok=True)
        environment = os.environ | {"TCDSL_CACHE": str(cache)}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)  # else each process compiles all modules
        if self._threads:
            environment["TCDSL_THREADS"] = str(self._threads)
        command = [sys.executable, runs.__file__, row.run.__name__, row.program, *how]
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, text=True, env=environment
        ) as process:
            assert process.stdout is not None
            try:
                for line in process.stdout:
                    yield json.loads(line)
            except BaseException:
                process.terminate()
                raise
        if process.returncode:
            raise ChildProcessError(f"its process ended with {process.returncode}")


def loop_ms() -> float:
    """Return the milliseconds of a loop of plain Python, of the processor."""
    times = []
    for _ in range(5):
        start, total = time.process_time(), 0
        for i in range(1_000_000):
            total += i
        times.append((time.process_time() - start) * 1e3)
    return statistics.median(times)


def table(only: str, threads: int, path: Path | None) -> int:
    """Print the rows whose name contains a text and keep them; return how many failed."""
    from reports import Table, facts, keep

    load, loop, failed = [os.getloadavg()[0]], loop_ms(), 0
    print(f"load {load[0]:.1f}, a million turns of Python {loop:.0f} ms")
    shown = Table("", 52, HEADS)
    found: list[Clocked] = []
    report = {**facts(), "load": load, "loop_ms": loop, "rows": found}
    with tempfile.TemporaryDirectory() as folder:
        processes = Processes(Path(folder), threads)
        for row in rows():
            if only not in row.name:
                continue
            try:
                for step in processes.run(row):
                    name, aim = f"{row.name}: {step['step']}", row.aims.get(step["step"])
                    found.append({"row": row.name, "aim_ms": aim, **step})
                    load.append(os.getloadavg()[0])
                    keep(report, path)  # a part is better than nothing
                    shown.row(name, *(step[head] for head in STEP), aim)
            except ChildProcessError as error:
                failed += 1
                print(f"{row.name}: {error}")
    return failed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=0, help="of a call; all by default")
    parser.add_argument("--only", default="", help="rows whose name contains this")
    parser.add_argument("--json", type=Path, help="keep the figures in this file")
    options = parser.parse_args()
    try:
        failed = table(options.only, options.threads, options.json)
    except KeyboardInterrupt:
        raise SystemExit(130) from None  # what was known is kept
    raise SystemExit(1 if failed else 0)


if __name__ == "__main__":
    main()
