"""A problem whose candidates are written by hand: right, slow, wrong, crashing, hanging.

`y(i) = 2 * x(i) + 1` over 1000 floats. The knob `kind` says what is wrong with a candidate, the
knob `turns` how much time it wastes. What is told as time is counted: a call takes 1000 ns and one
more for each turn, however busy the machine is.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from tcdsl.autotune.search.space import Branch, SearchSpace
from tcdsl.autotune.store.key import ProblemKey, digest_of
from tcdsl.autotune.targets.cpu.builder import SharedObjects
from tcdsl.autotune.worker.builder import Builder
from tcdsl.autotune.worker.case import Case, Expected, Operand
from tcdsl.autotune.worker.emitted import Emitted
from tcdsl.autotune.worker.problem import Roofline
from tcdsl.codegen.machine.config import Config, Knob
from tcdsl.codegen.toolchain.objects import compile_many
from tcdsl.codegen.toolchain.source import Source
from tcdsl.grammar.text.errors import CompileError, ScheduleError

SIZE = 1000

# Where the worker process keeps the time; candidates are loaded there and nowhere else.
CLOCK = """
#include <stdlib.h>
static tc_i64 *toy_clock(void) {
  static tc_i64 *clock;
  return clock ? clock : (clock = (tc_i64 *)strtoull(getenv("TOY_CLOCK"), 0, 10));
}
"""
PLAN = """
static int NAME_plan(const tc_args *a, tc_plan *p) {
  p->tasks[0] = 10; p->cost_ns[0] = 100; p->thread_bytes = 64; p->shared_bytes = 0;
  return 0;
}
static int NAME_run(const tc_args *a, char *w, tc_i64 begin, tc_i64 end) {
  const float *x = (const float *)a->data[0];
  float *y = (float *)a->data[1];
  *toy_clock() += TURNS + (begin == 0 ? 1000 : 0);
  if (TURNS > 1000000) for (volatile int t = 0; t < TURNS; t++);
  BEFORE
  for (tc_i64 i = begin * 100; i < end * 100; i++) y[i] = VALUE;
  AFTER
  return 0;
}
__attribute__((visibility("default"))) const tc_executable tc_exe_NAME = {
  TC_ABI, 1, NAME_plan, {NAME_run}};
"""
LOGGER = """
#include <fcntl.h>
#include <unistd.h>
static int NAME_is_loaded;
static void NAME_log(void) {
  if (NAME_is_loaded++) return;
  int file = open("LOG", O_WRONLY | O_CREAT | O_APPEND, 0600);
  write(file, "NAME KIND\\n", sizeof "NAME KIND\\n" - 1);
  close(file);
}
"""
CHILD = "extern int fork(void), pause(void); if (fork() == 0) for (;;) pause();"
LAST = "if (end == 10)"
KINDS = {
    "right": ("", "2 * x[i] + 1", ""),
    "wrong": ("", "i == 777 ? 7 : 2 * x[i] + 1", ""),
    "unwritten": ("", "i == 999 ? y[i] : 2 * x[i] + 1", ""),
    "crash": ("*(volatile int *)0 = 1;", "2 * x[i] + 1", ""),
    "reads past": ("", "2 * x[i] + 1", f"{LAST} *(volatile float *)w = x[1000];"),
    "writes past": ("", "2 * x[i] + 1", f"{LAST} y[1000] = 0;"),
    "writes before": ("", "2 * x[i] + 1", "if (begin == 0) y[-1] = 0;"),
    "writes its input": ("((float *)x)[0] = 1;", "2 * x[i] + 1", ""),
    "workspace": ("w[64] = 1;", "2 * x[i] + 1", ""),
    "order": ("float one = begin ? *(float *)w : 1;", "2 * x[i] + one", "*(float *)w = one;"),
    "hang": ("for (volatile int t = 0; ; t++);", "2 * x[i] + 1", ""),
    "children, crash": (f"{CHILD} *(volatile int *)0 = 1;", "2 * x[i] + 1", ""),
    "children, hang": (f"{CHILD} for (;;) pause();", "2 * x[i] + 1", ""),
    "compile": ("this is no C", "2 * x[i] + 1", ""),
}
FAULTS = tuple(k for k in KINDS if k != "right" and not k.startswith("children"))


def config(kind: str, turns: int) -> Config:
    return Config.of({"kind": kind, "turns": turns})


_NOW = ctypes.c_int64()
os.environ["TOY_CLOCK"] = str(ctypes.addressof(_NOW))


def clock_ns() -> int:
    """Tell the time of the process: what its candidates have counted."""
    return _NOW.value


@dataclass
class Toy:
    """The problem; the log gets a line for each candidate that is run in a process."""

    kinds: tuple[str, ...] = ("right",)
    turns: tuple[int, ...] = (0, 100, 300, 1000, 3000, 10000)
    log: Path | None = None
    default: Config = field(default_factory=lambda: config("right", 3000))
    size: int = SIZE
    built: list[int] = field(default_factory=list)  # candidates per unit

    @property
    def key(self) -> ProblemKey:
        return ProblemKey("toy", ("float32",) * 2, "c", (self.size,), "cpu test", 1, "cc", "1")

    name = "toy"
    text = "def toy(float(N) x) -> (y) { y(n) = 2 * x(n) + 1 }"
    roofline = Roofline(flops=2000, bytes=8000, peak_gflops=100, peak_gbps=20)

    @property
    def space(self) -> SearchSpace:
        knobs = (Knob("kind", (*self.kinds, "refused")), Knob("turns", self.turns))
        return SearchSpace((Branch((), knobs),), self.default, lambda _: 1.0)

    @property
    def builder(self) -> Builder:
        return SharedObjects(self.build)

    @property
    def bench(self) -> Mapping[str, Any]:
        return {
            "open": "tcdsl.autotune.targets.cpu.bench:open_bench",
            "clock": f"{__name__}:clock_ns",
        }

    def emit(self, config: Config) -> Emitted:
        name = f"c{digest_of(config.to_json())}"
        kind = str(config.get("kind"))
        if kind == "refused":
            raise ScheduleError("it does not fit")
        before, value, after = KINDS[kind]
        text = PLAN
        if self.log is not None:
            text = LOGGER + PLAN
            before = "NAME_log();" + before
        for word, by in (
            ("TURNS", str(config.get("turns"))),
            ("BEFORE", before),
            ("VALUE", value),
            ("AFTER", after),
            ("LOG", str(self.log)),
            ("KIND", kind),
            ("NAME", name),
        ):
            text = text.replace(word, by)
        return Emitted(name, f"/* {config} */{text}")

    def build(
        self, sources: Sequence[Emitted], is_unwanted: Callable[[], bool]
    ) -> Path | CompileError:
        self.built.append(len(sources))
        text = f'#include "tc_abi.h"\n{CLOCK}' + "\n".join(s.text for s in sources)
        return compile_many([Source("toy", text, "-O1")], is_unwanted=is_unwanted)[0]

    def case(self) -> Case:
        x = np.random.default_rng(0).standard_normal(SIZE).astype(np.float32)
        expected = Expected(2 * x.astype(np.float64) + 1, None, 1e-6, 1e-6)
        operands = (
            Operand("x", "float32", (SIZE,), None, "in"),
            Operand("y", "float32", (SIZE,), None, "out"),
        )
        return Case(operands, (x, None), (expected,), (SIZE,), 1)
