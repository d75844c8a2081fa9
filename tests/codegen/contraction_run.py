"""Compile a text by the contraction form alone and run it on NumPy arrays, task by task."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tcdsl.codegen import compiler
from tcdsl.codegen.config import Config, Value
from tcdsl.codegen.cpu import Loaded, compile_and_load
from tcdsl.codegen.loopir import Unit
from tcdsl.codegen.lower import contraction, nest
from tcdsl.codegen.machine import Machine, detect
from tcdsl.codegen.program import Program, program_of
from tcdsl.codegen.spec import Layout, Spec
from tcdsl.grammar.check import check
from tcdsl.grammar.parser import parse

Array = np.ndarray[Any, Any]


class Plan(ctypes.Structure):
    _fields_ = [
        ("tasks", ctypes.c_longlong * 64),
        ("cost_ns", ctypes.c_double * 64),
        ("thread_bytes", ctypes.c_longlong),
        ("shared_bytes", ctypes.c_longlong),
        ("param", ctypes.c_longlong * 192),
    ]


class Args(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("sizes", ctypes.c_void_p),
        ("strides", ctypes.c_void_p),
        ("scalars", ctypes.c_void_p),
        ("plan", ctypes.c_void_p),
        ("shared", ctypes.c_void_p),
        ("error", ctypes.c_void_p),
        ("threads", ctypes.c_longlong),
    ]


class Exe(ctypes.Structure):
    _fields_ = [
        ("abi", ctypes.c_longlong),
        ("phases", ctypes.c_longlong),
        ("plan", ctypes.c_void_p),
        ("phase", ctypes.c_void_p * 64),
    ]


def layout_of(x: Array) -> Layout:
    """Return the layout class of an array."""
    item = x.itemsize
    if x.flags.c_contiguous:
        return Layout(x.ndim, True, x.ndim - 1 if x.ndim else None)
    steps = [s // item for s in x.strides]
    unit = next((d for d, s in enumerate(steps) if s == 1), None)
    zeros = tuple(d for d, s in enumerate(steps) if s == 0)
    joined = tuple(steps[d] == steps[d + 1] * x.shape[d + 1] for d in range(x.ndim - 1))
    return Layout(x.ndim, False, unit, zeros, joined)


def program(text: str) -> Program:
    return program_of(check(parse(text)))


def sizes_of(p: Program, arrays: Sequence[Array]) -> dict[str, int]:
    out: dict[str, int] = {}
    for name, x in zip(p.operands, arrays, strict=True):
        for size, extent in zip(p.buffer(name).shape, x.shape, strict=True):
            if len(size.terms) == 1 and str(size) in p.sizes:
                out[str(size)] = extent
    return out


@dataclass
class Kernel:
    """A loaded unit and how to call it."""

    program: Program
    unit: Unit
    text: str
    loaded: Loaded
    threads: int

    def __call__(self, *arrays: Array, scalars: Sequence[float] = (), split: int = 0) -> None:
        """Run on parameters, then outputs; split: how many tasks a call of a phase gets."""
        run, _ = self.prepare(arrays, scalars, split)
        run()

    def prepare(self, arrays: Sequence[Array], scalars: Sequence[float] = (), split: int = 0):
        p = self.program
        sizes = sizes_of(p, [a for a in arrays])
        data = (ctypes.c_void_p * len(arrays))(*(a.ctypes.data for a in arrays))
        size_values = (ctypes.c_longlong * max(1, len(p.sizes)))(*(sizes[s] for s in p.sizes))
        steps = [s // a.itemsize for a in arrays for s in a.strides]
        strides = (ctypes.c_longlong * max(1, len(steps)))(*steps)
        values = (ctypes.c_double * max(1, len(scalars)))(*scalars)
        error = (ctypes.c_longlong * 5)()
        plan = Plan()
        args = Args(
            ctypes.addressof(data), ctypes.addressof(size_values), ctypes.addressof(strides),
            ctypes.addressof(values), ctypes.addressof(plan), 0, ctypes.addressof(error),
            self.threads,
        )  # fmt: skip
        exe = Exe.from_address(self.loaded.address)
        planner = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)(exe.plan)
        assert planner(ctypes.addressof(args), ctypes.addressof(plan)) == 0
        room = aligned(plan.thread_bytes)
        shared = aligned(plan.shared_bytes)
        args.shared = shared.ctypes.data
        call = ctypes.CFUNCTYPE(
            ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_longlong, ctypes.c_longlong
        )
        phases = [(call(exe.phase[i]), plan.tasks[i]) for i in range(exe.phases)]
        where, workspace = ctypes.addressof(args), room.ctypes.data
        keep = (data, size_values, strides, values, error, plan, args, room, shared, arrays)

        def run() -> None:
            for f, tasks in phases:
                for begin in range(0, tasks, split or max(1, tasks)):
                    assert f(where, workspace, begin, min(tasks, begin + (split or tasks))) == 0

        run.phases, run.args, run.keep = phases, where, keep  # type: ignore[attr-defined]
        return run, plan


def aligned(count: int) -> Array:
    """Return count poisoned bytes at a cache line, with nothing to spare at the end."""
    raw = np.full(count + 128, 0xFF, np.uint8)
    start = -raw.ctypes.data % 64
    return raw[start : start + max(count, 1)]


def build(
    text: str,
    arrays: Sequence[Array],
    *,
    exact: bool = True,
    threads: int = 2,
    config: Mapping[str, Value] | None = None,
    machine: Machine | None = None,
    forms: Sequence[Any] = (contraction, nest),
) -> Kernel:
    """Return the kernel of a text for these arrays: parameters, then outputs."""
    p = program(text)
    sizes = sizes_of(p, arrays)
    layouts = tuple(map(layout_of, arrays))
    spec = Spec(tuple(sizes.items()) if exact else None, layouts, threads)
    machine = machine or detect()
    before = compiler.LOWERINGS
    compiler.LOWERINGS = tuple(forms)
    try:
        unit = compiler.lower(p, spec, Config.of(config or {}), machine, sizes, "k")
    finally:
        compiler.LOWERINGS = before
    source = compiler.emit_c(unit)
    return Kernel(p, unit, source, compile_and_load(source, "k"), threads)
