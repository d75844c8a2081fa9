"""Small kernels for the simulator's own tests: one unit of them is compiled at once."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from textwrap import indent
from typing import Any

import numpy as np

from tests.cusim.harness import Block
from tests.cusim.report import Report
from tests.cusim.simulator import Access, Array, Module, Order, Simulator

_PARAMETERS = (
    "const float *__restrict__ x, float *__restrict__ y, float *__restrict__ work, "
    "tc_u32 *__restrict__ count, tc_i64 n"
)
SIZE = 256  # elements of x, y and work


@dataclass(frozen=True, slots=True)
class Kernel:
    """The body of a kernel over x (input), y (output), work (workspace), count (zero) and n."""

    body: str
    blocks: int = 1
    threads: int = 64
    shared_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Outcome:
    report: Report
    y: Array
    work: Array


def text_of(kernels: Mapping[str, Kernel]) -> str:
    """Return a unit of kernels, named as they are."""
    made = ['#include "prelude.cuh"']
    for name, k in kernels.items():
        head = f'extern "C" __global__ void __launch_bounds__({k.threads}) {name}({_PARAMETERS}) {{'
        prologue = "  const tc_i32 t = tc_thread();"
        made += ["", head, prologue, indent(k.body.strip("\n"), "  "), "}"]
    return "\n".join(made)


@cache
def _module(text: str) -> Module:
    return Module(text)


def run(
    kernels: Mapping[str, Kernel],
    name: str,
    order: Order = "forward",
    *,
    seed: int = 0,
    x: Array | None = None,
    counters: bool = False,
) -> Outcome:
    """Run one of the kernels."""
    k = kernels[name]
    values: Array = np.arange(SIZE, dtype=np.float32) if x is None else x
    memory: dict[str, tuple[Block, Access]] = {
        "x": (Block.of(values.nbytes), "read"),
        "y": (Block.of(4 * SIZE), "write"),
        "work": (Block.of(4 * SIZE), "write"),
        "count": (Block.of(8, fill=0), "update"),
    }
    memory["x"][0].bytes[...] = values.reshape(-1).view(np.uint8)
    simulator = Simulator(order, seed, counters=counters)
    for buffer, (block, access) in memory.items():
        simulator.add(buffer, block.bytes.ctypes.data, block.bytes.size, access)
    arguments: list[Any] = [ctypes.c_void_p(b.bytes.ctypes.data) for b, _ in memory.values()]
    arguments.append(ctypes.c_int64(SIZE))
    module = _module(text_of(kernels))
    simulator.launch(module, name, k.blocks, k.threads, arguments, k.shared_bytes)
    assert all(b.is_intact for b, _ in memory.values())
    y, work = (memory[b][0].bytes.view(np.float32) for b in ("y", "work"))
    return Outcome(simulator.report, y, work)
